//! Boilerplate that providers, newsletters and firms add to every message, in the most common languages of mail.
//!
//! [`TOPICS`] lists typical phrases for each topic and language. The words of these phrases form a small vocabulary.
//! The phrases themselves are not searched for. A line is boilerplate if nearly all of its content words are in one
//! vocabulary. To hide a sales pitch in such a line, a sender would have to write most of it with those words. Words
//! that pitches need, such as those about accounts, passwords, prices and prizes, are in none of the vocabularies.

use std::ops::Range;

use super::lines::{Kind, Line};
use super::words::{Word, Words};

/// Minimum number of different words of one topic in a line of boilerplate.
const LINE_CUES_MIN: usize = 3;
/// Minimum percentage of a line's content words that belong to the topic.
const LINE_PERCENT_MIN: usize = 80;

/// Minimum number of different topic words in a line that a provider added. The minimum does not apply to a line below
/// a rule, i.e. below a line of symbols. With or without a rule, all content words of a provider's line must belong to
/// the topic.
const PROVIDER_CUES_MIN: usize = 2;

/// Minimum number of different words of one topic in a paragraph of boilerplate.
const PARAGRAPH_CUES_MIN: usize = 6;
/// Minimum percentage of a paragraph's content words that belong to the topic. It is lower than for a line, because a
/// paragraph may also contain the name and address of a firm.
const PARAGRAPH_PERCENT_MIN: usize = 65;

/// Maximum number of words in a line or paragraph of boilerplate. A longer one is not examined, which bounds the work.
const WORDS_MAX: usize = 300;
/// Maximum number of lines of a paragraph. A longer paragraph is divided.
const PARAGRAPH_LINES_MAX: usize = 40;

/// The set of vocabularies that contain a word, one bit each.
pub(super) type Topics = u64;

/// Number of providers' topics. They come first in [`TOPICS`].
const PROVIDERS: usize = 14;
/// Indices in [`TOPICS`] of the topics about unsubscribing.
const LEAVING: Range<usize> = 28..42;

/// Minimum number of other content words in a message whose text about unsubscribing is looked up but not stored. If
/// there are fewer, the text about unsubscribing is needed to identify the message. It is then stored, but does not
/// count as the sender's own.
const OTHER_WORDS_MIN: usize = 40;

/// The vocabulary of names of providers and devices. A provider's line has at least one such name.
const NAMES: Topics = 1 << 59;

/// The phrases of each topic and language, at most 64 entries. The first [`PROVIDERS`] entries are for providers'
/// lines. The last entry is [`NAMES`].
pub(super) const TOPICS: [&str; 60] = [
    // Lines that providers and programs add below a message.
    "Sent from my iPhone, iPad, Samsung Galaxy smartphone, Android tablet, BlackBerry, Huawei, Xiaomi, Nokia, mobile phone, device. \
     Sent from Yahoo Mail, Gmail, AOL, Proton, Windows. Get Outlook for iOS, Android. Get the app. Excuse brevity and typos. \
     Do You Yahoo? MSN Hotmail Photos Messenger Explorer: the easiest way to share and print your photos, free download. \
     Join the world's largest e-mail service. Chat with friends online. Get your own free web-based address at. Powered by. \
     This email has been checked, scanned for viruses and malware by Avast, AVG, Norton, McAfee, Kaspersky, ESET antivirus \
     software. Virus-free. No virus found in this incoming, outgoing message. Protected. Provided by. \
     Yahoo Groups sponsor. Sign up for your Juno, Netscape, Lycos, Excite, Earthlink account today",
    "Von meinem iPhone, iPad, Samsung Galaxy Smartphone, Android Handy, Mobiltelefon, Gerät, Samsung-Smartphone, Samsung-Gerät gesendet. Gesendet mit der GMX, WEB.DE \
     Mail App, Yahoo. Outlook für iOS, Android herunterladen, holen. Diese E-Mail wurde von Avast Antivirus Software auf Viren geprüft. \
     Virenfrei. Diese Nachricht wurde von meinem Android Mobiltelefon mit gesendet. Kurz gefasst, Tippfehler bitte entschuldigen",
    "Envoyé de mon iPhone, iPad, Samsung Galaxy, mobile, téléphone, smartphone Android, tablette, Orange, Free, SFR, Yahoo Mail, Outlook. \
     Envoyé depuis mon appareil. Télécharger, obtenir Outlook pour iOS, Android. L'absence de virus dans ce courrier électronique \
     a été vérifiée par le logiciel antivirus Avast. Garanti sans virus. Provenance: Courrier pour Windows",
    "Enviado desde mi iPhone, iPad, Samsung Galaxy, móvil, teléfono, dispositivo Android, smartphone, Huawei, Xiaomi, Yahoo Mail. Obtener \
     Outlook para iOS, Android. Este correo electrónico ha sido comprobado, analizado en busca de virus por el software antivirus Avast. \
     Libre de virus. Enviado desde Correo para Windows",
    "Inviato da iPhone, iPad, Samsung Galaxy, smartphone, telefono, cellulare, dispositivo Android, Huawei, Libero, Tiscali, Yahoo Mail. \
     Inviato dal mio. Scarica, ottieni Outlook per iOS, Android. Questa e-mail è stata controllata per individuare virus con Avast \
     antivirus software. Mail priva di virus. Posta per Windows",
    "Enviado do meu iPhone, iPad, Samsung Galaxy, celular, telemóvel, smartphone Android, Huawei, Motorola, Yahoo Mail. Enviado via, a partir. \
     Obter, baixe o Outlook para iOS, Android. Este email foi verificado, escaneado pelo software antivírus Avast em busca de vírus. \
     Livre de vírus. Enviado do Correio para Windows",
    "Verstuurd, verzonden vanaf mijn iPhone, iPad, Samsung Galaxy, Android smartphone, tablet, Samsung-smartphone, Samsung-tablet, mobiel, toestel, telefoon, Yahoo Mail. Outlook \
     voor iOS, Android downloaden, ophalen. Deze e-mail is gecontroleerd op virussen door Avast antivirus software. Virusvrij. \
     Verzonden met Mail voor Windows",
    "Skickat från min iPhone, iPad, Samsung Galaxy, mobil, telefon, surfplatta, Android, enhet, Yahoo Mail. Hämta, skaffa Outlook för iOS, \
     Android. Denna e-post har genomsökts, kontrollerats efter virus av Avast antivirusprogram. Virusfritt. Skickades från E-post för Windows",
    "Sendt fra min iPhone, iPad, Samsung Galaxy, mobil, telefon, tablet, Android, enhed, Yahoo Mail. Hent Outlook til iOS, Android. Denne e-mail \
     er blevet kontrolleret, scannet for virus af Avast antivirus software. Virusfri. Sendt fra Mail til Windows",
    "Sendt fra min iPhone, iPad, Samsung Galaxy, mobil, telefon, nettbrett, Android, enhet, Yahoo Mail. Få, skaff, hent Outlook for iOS, \
     Android. Denne e-posten er sjekket, kontrollert for virus av Avast antivirusprogram. Virusfri. Sendt fra E-post for Windows",
    "Lähetetty iPhonesta, iPhonestani, iPadista, Samsung Galaxy puhelimesta, puhelimestani, Android laitteesta, laitteestani, Yahoo Mail. \
     Hanki, lataa Outlook iOS:lle, Androidille. Avast virustorjuntaohjelma on tarkistanut tämän sähköpostin virusten varalta. Virukseton",
    "Wysłane z mojego iPhone, iPhone'a, iPada, Samsung Galaxy, telefonu, smartfonu, tabletu, urządzenia Android, Huawei, Xiaomi, Yahoo, Poczta. \
     Pobierz aplikację Outlook dla systemu iOS, Android. Ta wiadomość e-mail została sprawdzona pod kątem wirusów przez oprogramowanie \
     antywirusowe Avast. Wolne od wirusów. Wysłane z programu Poczta dla systemu Windows",
    "Отправлено с моего iPhone, iPad, смартфона Samsung Galaxy, телефона, мобильного, устройства Android, Huawei, Xiaomi. Отправлено из \
     мобильной Яндекс Почты, Mail.ru, почты для Windows. Загрузить, скачать Outlook для iOS, Android. Это сообщение проверено на вирусы \
     антивирусом Avast. Без вирусов",
    "iPhone'umdan, iPhone, iPad, Samsung Galaxy akıllı telefonumdan, telefonumdan, cihazımdan, Android gönderildi. Yahoo Mail. iOS, Android \
     için Outlook'u edinin, indirin. Bu e-posta Avast antivirüs yazılımı tarafından virüslere karşı denetlenmiştir, kontrol edildi. Virüs bulunmuyor",
    // Links to the online version of a page that is displayed incorrectly.
    "View this email, message, newsletter in your browser, online, as a web page. Having trouble viewing, reading, displaying this email? \
     Can't see images? Problems? Click here, click the link below to see, view, read, open the online version, web version, HTML version, \
     mobile version. To view this message copy, paste the link, address into your browser, go to the following address below. Your mail \
     program, reader, client, software does not show, support, display HTML, enhanced formatting, formatted messages. This is an HTML \
     message. If you see this text, your e-mail client cannot display it. We attempted to deliver this message to you with HTML \
     formatting. However your program does not support it; change your preferences, settings to receive plain text version instead. \
     This is a multi-part message in MIME format. Please use a MIME-aware, compatible, capable viewer. Images are not displayed \
     correctly, properly; display, enable, download images, pictures. Viewable, visit",
    "Diese E-Mail, Nachricht, diesen Newsletter im Browser, Webbrowser, online ansehen, öffnen, anzeigen, lesen, als Webseite. Wird diese \
     Mail nicht korrekt, richtig, vollständig angezeigt, dargestellt? Klicken Sie bitte hier, auf den folgenden Link. Probleme mit der \
     Darstellung, Anzeige? Zur Online-Version, Onlineversion, Webversion, Web-Ansicht. Ihr Mailprogramm, E-Mail-Programm, Client unterstützt, \
     zeigt kein HTML, kann keine HTML-Nachrichten, Mails darstellen, anzeigen. Dies ist eine HTML Nachricht im MIME Format. Bilder laden, \
     anzeigen. Kopieren Sie die Adresse in Ihren Browser. Text, Fassung, Ansicht",
    "Voir, lire, visualiser, consulter, afficher ce message, cet e-mail, courriel, mail, cette newsletter, lettre dans votre navigateur, en ligne, \
     sur le web. Si vous ne visualisez, voyez pas correctement ce message, les images, cliquez ici, suivez ce lien. Version en ligne, \
     version web. Problème d'affichage? S'il ne s'affiche, s'affichent pas bien, Votre logiciel, client, programme de messagerie ne prend pas en charge, ne supporte pas le format \
     HTML, ne peut afficher les messages. Ceci est un message au format MIME, texte. Afficher les images. Copiez l'adresse, page",
    "Ver, leer, abrir, visualizar este correo, mensaje, email, boletín en su navegador, tu navegador, en línea, online, como página web. ¿No puede \
     ver, visualiza correctamente este mensaje, las imágenes? Haga clic aquí, pulse aquí, haz clic en el siguiente enlace. Versión web, \
     versión online, en línea. ¿Problemas para ver? Su programa, cliente de correo no admite, soporta, muestra, puede mostrar HTML. Este es un mensaje \
     en formato HTML, MIME, texto. Mostrar imágenes. Copie la dirección",
    "Visualizza, leggi, apri, vedi questa e-mail, email, messaggio, newsletter nel browser, online, sul web, come pagina. Se non visualizzi, vedi, leggi \
     correttamente questo messaggio, le immagini, clicca qui, fai clic, segui il link. Versione online, versione web. Problemi di visualizzazione? \
     Il tuo, suo programma, client di posta non supporta, mostra HTML, non può visualizzare. Questo è un messaggio in formato HTML, MIME, testo. \
     Mostra immagini. Copia l'indirizzo",
    "Ver, ler, abrir, visualizar este e-mail, email, mensagem, newsletter, boletim no seu navegador, browser, online, na web, como página. Se não consegue, \
     consegue ver, visualiza corretamente, correctamente esta mensagem, as imagens, clique aqui, acesse o link. Versão online, versão web. Problemas \
     para visualizar? O seu programa, cliente de e-mail, correio não suporta, mostra, exibe HTML, não pode exibir. Esta é uma mensagem em formato HTML, \
     MIME, texto. Exibir imagens. Copie o endereço",
    "Bekijk, lees, open deze e-mail, mail, dit bericht, nieuwsbrief in uw browser, je browser, online, als webpagina. Kunt u, je deze e-mail niet goed, \
     correct lezen, zien, bekijken? Klik hier, op de link. Online versie, webversie. Wordt niet goed weergegeven, getoond? Problemen met weergave? \
     Uw mailprogramma, e-mailprogramma ondersteunt, toont geen HTML, kan geen weergeven. Dit is een HTML bericht in MIME formaat, tekst. Afbeeldingen \
     weergeven, tonen. Kopieer adres",
    "Visa, läs, öppna detta e-postmeddelande, mail, mejl, meddelande, brev, nyhetsbrev i din webbläsare, online, på webben, som webbsida. Kan du inte se, \
     läsa, visas, visar e-posten korrekt? Klicka här, länken. Webbversion, onlineversion. Problem att visa? Ditt e-postprogram, program stöder, visar inte HTML, \
     kan inte visa. Detta är ett HTML meddelande i MIME format, text. Visa bilder. Kopiera adressen",
    "Se, vis, læs, åbn denne e-mail, mail, besked, nyhedsbrev i din browser, online, på nettet, som webside. Kan du ikke se, læse, vises mailen korrekt? Klik \
     her, på linket. Webversion, onlineversion. Problemer med visning? Dit mailprogram, program understøtter, viser ikke HTML, kan ikke vise. Dette er en \
     HTML besked, meddelelse i MIME format, tekst. Vis billeder. Kopier adressen",
    "Se, vis, les, åpne denne e-posten, eposten, mailen, meldingen, nyhetsbrevet i nettleseren, din nettleser, online, på nett, som nettside. Kan du ikke se, \
     lese, vises riktig, korrekt? Klikk her, på lenken. Nettversjon, webversjon. Problemer med visning? E-postprogrammet ditt, program støtter, viser ikke \
     HTML, kan ikke vise. Dette er en HTML melding i MIME format, tekst. Vis bilder. Kopier adressen",
    "Katso, lue, avaa tämä viesti, sähköposti, uutiskirje selaimessa, selaimessasi, verkossa, verkkosivuna. Etkö näe, eikö viesti näy oikein? Näkyykö väärin? \
     Klikkaa, napsauta tästä, linkkiä. Verkkoversio, selainversio. Ongelmia? Sähköpostiohjelmasi ei tue, näytä HTML muotoa, viestejä. Tämä on HTML MIME \
     muotoinen viesti, teksti. Näytä kuvat. Kopioi osoite",
    "Zobacz, wyświetl, otwórz, przeczytaj tę wiadomość, e-mail, newsletter w przeglądarce, swojej przeglądarce, online, jako stronę. Jeśli nie widzisz, nie \
     wyświetla się poprawnie, prawidłowo ta wiadomość, obrazki, kliknij tutaj, tu, link. Wersja online, wersja internetowa. Problemy z wyświetlaniem? Twój \
     program pocztowy nie obsługuje, nie wyświetla formatu HTML. To jest wiadomość w formacie HTML, MIME, tekst. Pokaż obrazy. Skopiuj adres",
    "Посмотреть, открыть, просмотреть, читать это письмо, сообщение, рассылку в браузере, онлайн, на сайте, как веб-страницу. Если письмо не отображается, \
     отображается некорректно, неправильно, не видите изображения, картинки, нажмите здесь, перейдите по ссылке, сюда. Версия онлайн, веб-версия. Ваша почтовая \
     программа, клиент не поддерживает, не показывает HTML. Это сообщение в формате HTML, MIME, текст. Показать изображения. Скопируйте адрес",
    "Bu e-postayı, mesajı, iletiyi, bülteni tarayıcınızda, tarayıcıda, internette, çevrimiçi, online görüntüleyin, görüntülemek, okuyun, açın için tıklayın, tıklayınız. \
     Düzgün, doğru görüntülenmiyor mu, göremiyorsanız, görüntüleyemiyorsanız, resimleri? Buraya, bağlantıya. Web sürümü, versiyonu. E-posta programınız HTML \
     desteklemiyor, göstermiyor. Bu bir HTML MIME biçiminde iletidir, metin. Resimleri göster. Adresi kopyalayın",
    // Unsubscribing.
    "You are receiving, have received this email, message, newsletter because you subscribed, signed up, registered, opted in, requested, agreed \
     to receive emails, updates, news, information from us, our list, at our website. If you no longer wish, want, prefer, would like not to receive further, \
     future emails, mailings, messages, to be removed, please click here, click on the link below, unsubscribe, opt out, reply with remove, \
     unsubscribe in the subject line. To unsubscribe, change, update, manage your subscription, email preferences, settings, profile, address, \
     visit, go to, follow this link. This email was sent to you at, by. You can unsubscribe at any time, instantly. Forward to a friend. Privacy policy, \
     terms of use, contact us, help. All rights reserved, copyright. Add our address to your address book, contacts to ensure delivery. Do not reply to \
     this email, automated, automatically generated message, mailbox is not monitored; replies cannot be answered. Mailing list, your name, \
     removed from our database. Powered by. Subscriber, subscribers, subscribe. Send a blank message. Sorry for any inconvenience",
    "Sie erhalten, bekommen diese E-Mail, Nachricht, diesen Newsletter, weil Sie sich angemeldet, registriert, eingetragen, zugestimmt, ihn abonniert, bestellt haben. \
     Wenn Sie künftig, zukünftig keine weiteren E-Mails, Newsletter, Informationen mehr erhalten, empfangen möchten, wollen, klicken Sie bitte hier, auf den \
     folgenden Link, um sich abzumelden, auszutragen. Newsletter abbestellen, Abmeldung, Abmelden, Austragen. Abonnement, Profil, Daten, Einstellungen, Adresse \
     ändern, verwalten. Diese Nachricht wurde an Sie gesendet, versendet, verschickt. Datenschutz, Datenschutzerklärung, Impressum, AGB, Kontakt. Alle Rechte \
     vorbehalten. Bitte antworten Sie nicht auf diese automatisch erzeugte, generierte E-Mail. Jederzeit kostenlos, Verteiler, Empfänger",
    "Vous recevez, avez reçu cet e-mail, message, courriel, cette newsletter, lettre, car vous êtes inscrit, abonné, avez accepté, à notre liste, site. Si vous ne \
     souhaitez, désirez plus recevoir nos, ces informations, messages, e-mails, mails, offres, cliquez ici, sur le lien suivant, pour vous désinscrire, désabonner. \
     Se désinscrire, désabonnement, désinscription. Modifier, gérer vos préférences, abonnement, profil, adresse. Ce message a été envoyé à. Politique de \
     confidentialité, mentions légales, nous contacter. Tous droits réservés. Merci de ne pas répondre à ce message automatique. Conformément à la loi \
     informatique et libertés vous disposez d'un droit d'accès, de rectification, de suppression, d'opposition des données personnelles vous concernant",
    "Recibe, recibes, ha recibido este correo, mensaje, email, boletín porque está suscrito, se ha suscrito, registrado, inscrito en nuestra lista, web, sitio. Si no \
     desea, quiere, deseas recibir más, nuestros correos, mensajes, información, comunicaciones, haga clic aquí, pulse aquí, en el siguiente enlace, para darse de \
     baja, cancelar la suscripción. Darme de baja, cancelar suscripción. Modificar, actualizar, gestionar sus preferencias, datos, perfil, dirección. Este mensaje fue \
     enviado a. Política de privacidad, aviso legal, contacto. Todos los derechos reservados. No responda a este mensaje automático. Conforme a la ley de protección de \
     datos puede ejercer sus derechos de acceso, rectificación, cancelación, oposición",
    "Ricevi, riceve, hai ricevuto questa e-mail, email, messaggio, newsletter perché sei, iscritto, registrato, ti sei, hai acconsentito, alla nostra lista, sito. Se non \
     desideri, vuoi, desidera più ricevere le nostre, altre comunicazioni, e-mail, messaggi, informazioni, clicca qui, sul link seguente, per cancellarti, \
     annullare l'iscrizione, disiscriverti. Cancella iscrizione, disiscriviti, cancellazione. Modifica, gestisci, aggiorna le tue preferenze, profilo, dati, indirizzo. \
     Questo messaggio è stato inviato a. Informativa sulla privacy, note legali, contatti. Tutti i diritti riservati. Non rispondere a questo messaggio automatico. Ai sensi \
     del decreto legislativo, trattamento dei dati personali, codice",
    "Recebe, recebeu, está a receber, recebendo este e-mail, email, mensagem, newsletter porque se inscreveu, está inscrito, cadastrado, registou, subscreveu, na nossa lista, \
     site. Se não deseja, quer, desejar mais receber nossos, mais e-mails, mensagens, informações, comunicações, clique aqui, no link, para cancelar a inscrição, \
     subscrição, assinatura, ser removido, descadastrar. Cancelar inscrição, remover, descadastre-se. Alterar, atualizar, gerir suas preferências, dados, perfil, endereço. \
     Esta mensagem foi enviada para. Política de privacidade, termos, contato. Todos os direitos reservados. Não responda a esta mensagem automática, gerada",
    "U ontvangt, je ontvangt, heeft deze e-mail, mail, dit bericht, nieuwsbrief ontvangen omdat u, je zich heeft, bent ingeschreven, aangemeld, geregistreerd, geabonneerd \
     voor onze lijst, website. Wilt u, wil je geen, niet meer, langer e-mails, berichten, nieuwsbrieven, informatie van ons ontvangen, klik dan hier, op de link, om u uit te \
     schrijven, af te melden. Uitschrijven, afmelden, uitschrijflink. Wijzig, beheer uw gegevens, voorkeuren, profiel, abonnement, adres. Dit bericht is verzonden, verstuurd \
     aan. Privacybeleid, privacyverklaring, voorwaarden, contact. Alle rechten voorbehouden. Antwoord, reageer niet op dit automatisch gegenereerde, verzonden bericht",
    "Du får, har fått detta e-postmeddelande, mail, mejl, meddelande, utskick, nyhetsbrev eftersom du är, har, prenumererar, anmält, registrerat dig på vår lista, \
     webbplats. Vill du inte, inte längre få, ta emot fler, våra utskick, nyhetsbrev, mail, information, klicka här, på länken, för att avsluta, avregistrera, avanmäla dig, \
     prenumerationen. Avprenumerera, avregistrera, avanmälan. Ändra, uppdatera, hantera dina uppgifter, inställningar, adress. Detta meddelande skickades till. \
     Integritetspolicy, villkor, kontakta oss. Alla rättigheter förbehållna. Svara inte på detta automatiska, automatiskt genererade meddelande",
    "Du modtager, har modtaget denne e-mail, mail, besked, nyhedsbrev, fordi du er tilmeldt, har tilmeldt dig, registreret på vores liste, hjemmeside. Ønsker, vil du ikke, \
     længere at modtage flere, vores nyhedsbreve, mails, information, klik her, på linket, for at afmelde dig. Afmeld, frameld, afmelding nyhedsbrev. Ret, ændre, opdater dine \
     oplysninger, indstillinger, profil, adresse. Denne mail er sendt til. Privatlivspolitik, betingelser, kontakt os. Alle rettigheder forbeholdes. Svar ikke på denne \
     automatiske, automatisk genererede mail, besvares",
    "Du mottar, får, har mottatt denne e-posten, eposten, meldingen, nyhetsbrevet fordi du er, har, registrert, meldt deg på, påmeldt, abonnerer på vår liste, nettside. Ønsker, \
     vil du ikke, lenger å motta flere, våre nyhetsbrev, e-poster, informasjon, klikk her, på lenken, for å melde deg av, avslutte abonnementet. Avmeld, meld av, avmelding. \
     Endre, oppdater dine opplysninger, innstillinger, profil, adresse. Denne meldingen er sendt til. Personvern, personvernerklæring, vilkår, kontakt oss. Alle rettigheter \
     forbeholdt. Ikke svar på denne automatiske, automatisk genererte e-posten",
    "Saat, sait, vastaanotit tämän viestin, sähköpostin, uutiskirjeen, koska olet tilannut, rekisteröitynyt, liittynyt, tilaajana listallemme, sivustollamme. Jos et, mikäli, halua, \
     haluat enää vastaanottaa, saada lisää uutiskirjeitä, viestejä, sähköposteja, klikkaa, napsauta tästä, linkkiä, voit peruuttaa, peruaksesi tilauksen. Peruuta tilaus, poistu \
     listalta, postituslistalta. Muuta, päivitä, hallitse tietojasi, asetuksia, osoitetta. Tämä viesti on lähetetty osoitteeseen. Tietosuojaseloste, ehdot, ota yhteyttä. Kaikki \
     oikeudet pidätetään. Älä vastaa tähän automaattiseen viestiin, automaattisesti",
    "Otrzymujesz, otrzymałeś, otrzymali Państwo tę wiadomość, e-mail, newsletter, ponieważ zapisałeś się, zapisali się, zarejestrowałeś, wyraziłeś zgodę, subskrybujesz, na naszą listę, \
     stronie. Jeśli, jeżeli nie chcesz, nie życzysz sobie więcej, dalej otrzymywać naszych, wiadomości, informacji, newslettera, kliknij tutaj, tu, w link, aby się wypisać, zrezygnować z \
     subskrypcji. Wypisz się, rezygnacja, anuluj subskrypcję. Zmień, zaktualizuj swoje dane, ustawienia, preferencje, adres. Wiadomość została wysłana na, do. Polityka \
     prywatności, regulamin, kontakt. Wszelkie prawa zastrzeżone. Prosimy nie odpowiadać na tę wiadomość wygenerowaną automatycznie",
    "Вы получили, получаете это письмо, сообщение, рассылку, потому что, так как подписались, подписаны, зарегистрировались, зарегистрированы на нашу рассылку, нашем сайте. Если вы \
     больше не хотите, желаете получать наши, такие письма, рассылку, новости, уведомления, нажмите здесь, перейдите по ссылке, чтобы отписаться, отказаться от подписки, рассылки. Отписаться, \
     отписка. Изменить, настроить, управлять подпиской, настройки, адрес. Это письмо отправлено, было отправлено на. Политика конфиденциальности, условия, контакты, свяжитесь с нами. \
     Все права защищены. Пожалуйста, не отвечайте на это письмо, сформировано, создано автоматически",
    "Bu e-postayı, mesajı, iletiyi, bülteni abone olduğunuz, kayıtlı, üye olduğunuz, kaydolduğunuz için, listemize, sitemize aldınız, alıyorsunuz. Artık, bundan böyle bizden e-posta, bülten, \
     mesaj, bilgi almak istemiyorsanız, istemiyorum, lütfen buraya, bağlantıya tıklayın, tıklayınız, abonelikten çıkmak, ayrılmak, üyeliğinizi iptal etmek, listeden çıkmak. Abonelikten çık, ayrıl. \
     Tercihlerinizi, bilgilerinizi, adresinizi güncelleyin, değiştirin. Bu e-posta adresine gönderildi, gönderilmiştir. Gizlilik politikası, kullanım koşulları, iletişim. Tüm hakları saklıdır. \
     Lütfen bu otomatik e-postayı yanıtlamayınız, cevaplamayınız, otomatik olarak oluşturulmuştur",
    // The identity of a firm, and the statements required by law.
    "Registered office, address: Street, Road, House, Lane, Avenue, Square, Park, Floor, Building, London, England and Wales, Scotland, Ireland, United Kingdom. Registered in England, Company \
     registration number, no, VAT registration, reg. plc, Ltd, Limited, LLP, Inc, LLC, Corporation, Group, Bank, Holdings is, are authorised, authorized, regulated by the Prudential \
     Regulation Authority, Financial Conduct Authority, Financial Services Authority, Solicitors, Central Bank, under reference, register, firm. Member FDIC, NYSE, SIPC, Stock Exchange, \
     Equal Housing Lender. Incorporated, trading name, trademark, trademarks of its subsidiaries, affiliates, respective owners. Calls may be monitored, recorded for training, quality, \
     security purposes. Any views, opinions expressed, presented, stated in this e-mail are solely those of the author, sender, and do not necessarily represent, reflect those of the company, \
     organisation, employer. Accept no liability, responsibility for loss, damage caused, arising from viruses, any virus transmitted; check attachments for the presence. Terms and conditions apply, \
     subject to availability, conditions of carriage, a copy of which is available on our web site, request. Include taxes and charges known at the time of sending. Customer service, \
     telephone, phone, tel, fax. Confidential, privileged information, intended solely for the use of the individual, entity, addressee, named recipient to whom it is addressed, files transmitted, \
     received in error, please notify the sender, system manager, immediately, delete, destroy, copies. Disclosure, copying, distribution is prohibited. Consider the environment before printing. \
     This message contains, may contain. Legally binding, contract, advice, investment, guarantee, accuracy, complete. Every day, Monday to Friday, hours",
    "Sitz der Gesellschaft: München, Berlin, Hamburg, Frankfurt, Köln. Registergericht, Amtsgericht, Handelsregister, eingetragen, HRB, HRA Nummer. Geschäftsführer, Geschäftsführung, \
     Vorstand, Vorsitzender, Aufsichtsrat, Aufsichtsrats, Vorsitzende, Prokurist. USt-IdNr, Umsatzsteuer-Identifikationsnummer, Steuernummer. GmbH, AG, KG, Co, OHG, mbH, UG, eG. Straße, Platz, Weg, \
     Telefon, Fax, Tel, Telefax. Zuständige Aufsichtsbehörde, Bundesanstalt für Finanzdienstleistungsaufsicht, BaFin. Diese E-Mail, Nachricht enthält vertrauliche, rechtlich geschützte \
     Informationen. Wenn Sie nicht der richtige, beabsichtigte Adressat, Empfänger sind, diese irrtümlich erhalten haben, informieren Sie bitte sofort den Absender, vernichten, löschen Sie sie, diese \
     Mail. Unerlaubtes Kopieren, unbefugte Weitergabe ist nicht gestattet, verboten. Haftung, Gewähr, ausgeschlossen, Viren, Anhänge",
    "Société anonyme, SARL, SAS, SA au capital social de euros. Siège social: rue, avenue, boulevard, place, Paris, Lyon, France. Immatriculée au RCS, registre du commerce et des sociétés, SIREN, SIRET, \
     numéro TVA intracommunautaire. Téléphone, tél, fax. Agréée, autorisée, contrôle prudentiel, autorité de régulation, marchés financiers, ACPR, ORIAS. Directeur de la publication, gérant, président. Ce \
     message, courriel et ses pièces jointes, toutes, sont confidentiels, contient des informations confidentielles, établis à l'intention exclusive de ses destinataires. Si vous avez reçu ce message par \
     erreur, merci d'en avertir immédiatement l'expéditeur, de le détruire, supprimer. Toute utilisation, diffusion, publication non autorisée est interdite. Décline toute responsabilité, intégrité, altéré, \
     modifié, falsifié. Opinions exprimées, auteur, engagent, société. N'imprimez, environnement",
    "Sociedad, S.A., S.L. Domicilio social: calle, avenida, plaza, Madrid, Barcelona, España. Inscrita en el Registro Mercantil de, tomo, folio, hoja, sección, inscripción, libro, CIF, NIF. Teléfono, tel, fax. \
     Autorizada, supervisada, regulada por el Banco de España, Comisión Nacional del Mercado de Valores. Este mensaje, correo electrónico y sus archivos, ficheros adjuntos, contiene, puede contener información \
     confidencial, privilegiada, dirigida exclusivamente a su destinatario. Si no es usted el destinatario, lo ha recibido por error, le rogamos, notifique, comunique inmediatamente al remitente, proceda a \
     su eliminación, destrucción, bórrelo. Queda prohibida su utilización, divulgación, copia, reproducción sin autorización en virtud de la legislación vigente. Opiniones, autor, empresa, responsabilidad, virus. \
     Medio ambiente, imprimir, antes, piense",
    "Società, S.p.A., S.r.l. Sede legale: via, viale, piazza, corso, Milano, Roma, Torino, Italia. Capitale sociale euro interamente versato. Iscritta al Registro delle Imprese, R.E.A., codice fiscale, partita IVA, \
     numero iscrizione. Telefono, tel, fax. Autorizzata, vigilata, Banca d'Italia, albo, Consob. Questo messaggio, e-mail e i suoi allegati, eventuali, contiene, può contenere informazioni riservate, confidenziali, \
     destinate esclusivamente al destinatario. Se avete ricevuto, ha ricevuto questo messaggio per errore, si prega di, vogliate informare, avvisare immediatamente il mittente, e di distruggerlo, cancellarlo, eliminarlo. \
     È vietata la diffusione, copia, divulgazione, utilizzo non autorizzato. Opinioni, autore, azienda, responsabilità, virus. Ambiente, stampare",
    "Sociedade, S.A., Lda, Ltda. Sede social: rua, avenida, praça, Lisboa, Porto, São Paulo, Brasil, Portugal. Capital social euros. Matriculada na Conservatória do Registo Comercial sob o número, NIPC, CNPJ, contribuinte. \
     Telefone, tel, fax. Autorizada, supervisionada, regulada pelo Banco de Portugal, Banco Central. Esta mensagem, este e-mail e seus anexos, quaisquer, contém, pode conter informação, informações confidencial, confidenciais, \
     privilegiada, destinada exclusivamente ao destinatário. Se não é o destinatário, a recebeu por engano, erro, por favor, notifique, avise imediatamente o remetente, e elimine, apague, destrua. É proibida a sua divulgação, \
     cópia, distribuição, utilização não autorizada. Opiniões, autor, empresa, responsabilidade, vírus. Ambiente, imprimir, antes, pense",
    "B.V., N.V. Statutair gevestigd, zetel te Amsterdam, Rotterdam, Utrecht, Nederland, België. Straat, laan, weg, plein. Ingeschreven bij de Kamer van Koophandel, KvK, handelsregister onder nummer, BTW-nummer, ondernemingsnummer. \
     Telefoon, tel, fax. Vergunning, onder toezicht, Autoriteit Financiële Markten, De Nederlandsche Bank. Dit bericht, deze e-mail en eventuele bijlagen is, zijn vertrouwelijk, bevat, kan vertrouwelijke informatie bevatten, \
     uitsluitend bestemd voor de geadresseerde. Indien u dit bericht ten onrechte, abusievelijk ontvangt, heeft ontvangen, niet de geadresseerde bent, verzoeken wij u de afzender onmiddellijk, direct te informeren, waarschuwen en \
     het bericht te verwijderen, vernietigen. Openbaarmaking, verspreiding, vermenigvuldiging, gebruik is niet toegestaan, verboten. Aansprakelijk, aansprakelijkheid, schade, virussen. Milieu, printen",
    "Aktiebolag, AB. Säte i Stockholm, Göteborg, Malmö, Sverige. Gatan, vägen, box. Organisationsnummer, org nr, momsregistreringsnummer, godkänd för F-skatt. Telefon, tel, fax. Tillstånd, tillsyn, Finansinspektionen. Detta meddelande, \
     denna e-post och eventuella bilagor är konfidentiellt, innehåller, kan innehålla konfidentiell, sekretessbelagd information, avsedd endast för adressaten, mottagaren. Om du har fått, mottagit detta av misstag, inte är rätt mottagare, \
     vänligen meddela avsändaren omedelbart och radera, förstör meddelandet. Spridning, kopiering, användning är förbjuden, inte tillåten. Ansvar, skada, virus, åsikter. Miljön, skriver ut",
    "Aktieselskab, A/S, ApS. Hjemsted i København, Aarhus, Odense, Danmark. Gade, vej, plads. CVR-nr, CVR nummer, SE. Telefon, tlf, fax. Tilladelse, tilsyn, Finanstilsynet. Denne e-mail, meddelelse og eventuelle vedhæftede filer er \
     fortrolig, indeholder, kan indeholde fortrolige oplysninger, beregnet kun for modtageren, adressaten. Hvis du har modtaget denne ved en fejl, ikke er rette modtager, bedes du venligst underrette, kontakte afsenderen straks, omgående \
     og slette, destruere den. Videregivelse, kopiering, brug er ikke tilladt, forbudt. Ansvar, skade, virus, holdninger. Miljøet, printer, udskriver",
    "Aksjeselskap, AS, ASA. Hovedkontor, forretningsadresse i Oslo, Bergen, Trondheim, Norge. Gate, vei, plass, postboks. Organisasjonsnummer, org nr, foretaksregisteret, MVA. Telefon, tlf, faks. Tillatelse, tilsyn, Finanstilsynet. Denne \
     e-posten, meldingen og eventuelle vedlegg er konfidensiell, inneholder, kan inneholde konfidensiell, fortrolig, taushetsbelagt informasjon, ment kun for mottakeren, adressaten. Dersom du har mottatt denne ved en feil, ikke er rette \
     mottaker, vennligst varsle, kontakt avsenderen umiddelbart og slett meldingen. Videreformidling, kopiering, bruk er ikke tillatt, forbudt. Ansvar, skade, virus. Miljøet, skriver ut",
    "Osakeyhtiö, Oy, Oyj, Ab. Kotipaikka Helsinki, Espoo, Tampere, Suomi. Katu, tie, postilokero. Y-tunnus, kaupparekisteri, ALV rekisteröity. Puhelin, puh, faksi. Toimilupa, valvoo, Finanssivalvonta. Tämä viesti, sähköposti ja sen \
     mahdolliset liitteet on, ovat luottamuksellinen, luottamuksellisia, sisältää, saattaa sisältää luottamuksellista tietoa, tarkoitettu vain vastaanottajalle, vastaanottajan käyttöön. Jos olet saanut viestin vahingossa, erehdyksessä, et ole \
     oikea vastaanottaja, pyydämme ilmoittamaan, ilmoita lähettäjälle välittömästi ja poistamaan, tuhoamaan, poista viesti. Levittäminen, kopiointi, käyttö on kielletty. Vastuu, vahinko, virus. Ympäristö, tulostat",
    "Spółka, Sp. z o.o., S.A. z siedzibą w Warszawie, Krakowie, Warszawa, Polska, ul, ulica, aleja, plac. Zarejestrowana, wpisana w Sądzie Rejonowym dla, Sąd Rejonowy, Wydział Gospodarczy Krajowego Rejestru Sądowego, KRS, NIP, REGON, numer, \
     kapitał zakładowy, w całości wpłacony, złotych, wysokość. Telefon, tel, faks. Komisja Nadzoru Finansowego. Niniejsza, ta wiadomość oraz wszelkie załączniki, załączone, jest poufna, zawiera, może zawierać informacje poufne, przeznaczona \
     wyłącznie dla adresata, do użytku. Jeśli, jeżeli nie jesteś, nie są Państwo adresatem, otrzymali przez pomyłkę, omyłkowo, prosimy o powiadomienie, poinformowanie nadawcy, niezwłoczne i usunięcie, zniszczenie wiadomości. Kopiowanie, \
     rozpowszechnianie, ujawnianie, wykorzystanie jest zabronione. Odpowiedzialność, szkody, wirusy. Środowisko, drukowaniem",
    "Общество с ограниченной ответственностью, ООО, ОАО, ПАО, АО. Юридический адрес: улица, ул, дом, офис, город, Москва, Санкт-Петербург, Россия. ОГРН, ИНН, КПП, лицензия Банка России, Центральный банк, номер. Телефон, тел, факс. Данное, это \
     сообщение, письмо и любые вложения, приложения, содержит, может содержать конфиденциальную информацию, является конфиденциальным, предназначено, предназначенную только, исключительно для адресата, получателя. Если вы не являетесь адресатом, \
     получили его по ошибке, пожалуйста, просим, сообщите, уведомите, отправителю, незамедлительно и удалите, уничтожьте. Копирование, распространение, использование, разглашение запрещено. Ответственность, ущерб, вирусы, мнение автора",
    "Anonim Şirketi, A.Ş., Ltd, Limited Şti. Merkez adresi: İstanbul, Ankara, İzmir, Türkiye, cadde, caddesi, sokak, sok, mahallesi, kat. Ticaret sicil numarası, no, Mersis, vergi dairesi. Telefon, tel, faks. Bankacılık Düzenleme ve Denetleme Kurumu, \
     BDDK, SPK. Bu mesaj, e-posta ve ekleri, ekindeki dosyalar, gizli, gizlidir, gizlilik, bilgiler, içerebilir, içermektedir, yalnızca, sadece gönderildiği alıcının, kişi, kurum, kullanımı içindir. Eğer alıcısı değilseniz, yanlışlıkla, hata ile \
     aldıysanız, size ulaştıysa, lütfen göndereni derhal bilgilendirin, haberdar ediniz ve siliniz, mesajı silin, imha. Kopyalanması, dağıtılması, açıklanması, kullanılması yasaktır. Sorumluluk, sorumlu, zarar, virüs, görüşler, yazar. Çevre, yazdırmadan",
    // The banner that a mail gateway places above every external message.
    "Caution, warning, attention, be careful: this email, e-mail, message originated, came, comes, was sent from outside of the, your \
     organization, organisation, company, from an external sender, source. Do not click links, open attachments, reply unless you \
     recognize, recognise, trust, verify the sender, sender's address and know, are expecting, the content is safe",
    // How to join an online meeting.
    "Microsoft Teams, Zoom, Google Meet, Webex meeting. Join the meeting now, join Zoom meeting, join on your computer, mobile app, \
     room device. Click here to join the meeting. Meeting ID, number, passcode, password, PIN, conference ID, access code, host key. \
     Download Teams. Join on the web, with a video conferencing device, system, by phone, audio only. Or call in. Dial in by phone, dial \
     by your location, toll, toll-free. One tap mobile. Find your, a local number, more phone numbers. Need help? Learn more, meeting \
     options. Is inviting you to a scheduled meeting. Join from PC, Mac, Linux, iOS, Android. Invitation from Google Calendar. You are \
     receiving this courtesy email at the account because you are an attendee of, subscribed for invitations on calendar. To stop \
     receiving future updates, notifications, emails for this event, decline this event, log in. Alternatively you can sign up for a \
     Google account and control, change your notification settings for your entire calendar. Forwarding this invitation could allow any \
     recipient to send a response to the organizer and be added to the guest list, or invite others regardless of their own invitation \
     status, or to modify your RSVP. Event details",
    // Links to a firm's pages in social networks.
    "Follow us on, connect with us, find us, like us, join us, Facebook, Twitter, X, LinkedIn, Instagram, YouTube, Pinterest, TikTok, \
     WhatsApp, Telegram, Xing, Vimeo, Flickr, Mastodon, Bluesky, Threads, social media, blog. Folgen Sie uns auf, folge uns, besuchen. \
     Suivez-nous sur, rejoignez, retrouvez-nous. Síguenos en, síganos, redes sociales. Seguici su. Siga-nos no, nas redes sociais. \
     Volg ons op. Följ oss på. Følg os på. Følg oss på. Seuraa meitä. Obserwuj nas na, znajdź. Подписывайтесь, мы в соцсетях. \
     Bizi takip edin",
    // Names of providers and devices.
    "iPhone iPad iOS Samsung Galaxy Android BlackBerry Huawei Xiaomi Nokia Motorola Yahoo Gmail AOL Proton Windows Outlook MSN Hotmail \
     Avast AVG Norton McAfee Kaspersky ESET antivirus GMX Orange SFR Libero Tiscali Juno Netscape Lycos Excite Earthlink smartphone tablet \
     mobile device Mobiltelefon Handy Gerät mobil enhet enhed móvil dispositivo appareil téléphone telefono cellulare celular telemóvel \
     toestel telefoon puhelimesta puhelimestani laitteesta laitteestani telefonu smartfonu urządzenia телефона смартфона устройства Яндекс \
     telefonumdan cihazımdan iPhonesta iPhonestani iPadista iPhone'umdan Samsung-Smartphone Samsung-tablet Samsung-Gerät \
     Viren viruses antivirusprogram virustorjuntaohjelma antivírus antivirüs",
];

/// Marks the lines and paragraphs of the body that consist mostly of one topic's words.
pub(super) fn mark(lines: &mut [Line<'_>], words: &Words) {
    let mut at = 0;
    while at < lines.len() {
        let is_text = |line: &&Line<'_>| line.kind == Kind::Body && !line.text.trim_ascii().is_empty();
        let length = lines.get(at..).unwrap_or_default().iter().take(PARAGRAPH_LINES_MAX).take_while(is_text).count();
        if length > 0 {
            mark_paragraph(lines, at..at + length, words);
        }
        at += length.max(1);
    }
    let own = |line: &Line<'_>| words.list().get(line.words.clone()).unwrap_or_default();
    let others = lines.iter().filter(|line| line.kind == Kind::Body && !line.is_stock);
    let others: usize = others.map(|line| own(line).iter().filter(|word| word.role.counts()).count()).sum();
    if others >= OTHER_WORDS_MIN {
        lines.iter_mut().filter(|line| line.is_stock).for_each(|line| line.kind = Kind::Appended);
    }
}

fn mark_paragraph(lines: &mut [Line<'_>], paragraph: Range<usize>, words: &Words) {
    let within = lines.get(paragraph.clone()).unwrap_or_default();
    let all = match (within.first(), within.last()) {
        (Some(first), Some(last)) => words.list().get(first.words.start..last.words.end).unwrap_or_default(),
        _ => &[],
    };
    let whole = topic_of_paragraph(all);
    let mut is_below_rule = false;
    for line in lines.iter_mut().take(paragraph.end).skip(paragraph.start) {
        let own = words.list().get(line.words.clone()).unwrap_or_default();
        match whole.or_else(|| topic_of_line(own, is_below_rule)) {
            Some(topic) if LEAVING.contains(&topic) => line.is_stock = true,
            Some(_) => line.kind = Kind::Boilerplate,
            None => {}
        }
        is_below_rule = line.is_rule;
    }
}

/// Returns the topic of a paragraph, if the paragraph is boilerplate.
fn topic_of_paragraph(words: &[Word]) -> Option<usize> {
    let count = Count::of(words)?;
    let is_full = count.different >= PARAGRAPH_CUES_MIN && count.cues * 100 >= count.content * PARAGRAPH_PERCENT_MIN;
    (count.topic >= PROVIDERS && is_full).then_some(count.topic)
}

/// Returns the topic of a line, if the line is boilerplate.
fn topic_of_line(words: &[Word], is_below_rule: bool) -> Option<usize> {
    let count = Count::of(words)?;
    let is_boilerplate = if count.topic < PROVIDERS {
        let has_name = words.iter().any(|word| word.topics & NAMES != 0);
        has_name && (is_below_rule || count.different >= PROVIDER_CUES_MIN) && count.cues == count.content
    } else {
        count.different >= LINE_CUES_MIN && count.cues * 100 >= count.content * LINE_PERCENT_MIN
    };
    is_boilerplate.then_some(count.topic)
}

/// The most frequent topic of a text, and the text's word counts: content words, words of the topic, and different
/// words of the topic.
#[derive(Clone, Copy, Debug)]
struct Count {
    topic: usize,
    content: usize,
    cues: usize,
    different: usize,
}

impl Count {
    fn of(words: &[Word]) -> Option<Self> {
        let content = || words.iter().filter(|word| word.role.counts());
        let (mut length, mut known, mut topics) = (0, 0, 0);
        for word in content() {
            length += 1;
            known += usize::from(word.topics != 0);
            topics |= word.topics;
        }
        // This test is cheap and rules out most text.
        if known == 0 || known * 100 < length * PARAGRAPH_PERCENT_MIN || words.len() > WORDS_MAX {
            return None;
        }
        let is_of = |topic: usize| move |word: &&Word| word.topics & (1 << topic) != 0;
        let candidates = (0..TOPICS.len()).filter(|topic| topics & !NAMES & (1 << topic) != 0);
        let (topic, cues) =
            candidates.map(|topic| (topic, content().filter(is_of(topic)).count())).max_by_key(|&(_, cues)| cues)?;
        let mut hashes: Vec<u64> = content().filter(is_of(topic)).map(|word| word.hash).collect();
        hashes.sort_unstable();
        hashes.dedup();
        Some(Self { topic, content: length, cues, different: hashes.len() })
    }
}

#[cfg(test)]
mod tests {
    use crate::bruit::{Explanation, Features, Kind};
    use crate::message::Message;
    use crate::reading::Reading;

    /// Returns the words in the lines of a footer that count as the sender's own.
    fn own(footer: &str) -> Vec<String> {
        let text = "Tomorrow the fishermen meet beside the old harbour; ".repeat(20);
        let message = format!("Content-Type: text/plain; charset=utf-8\n\n{text}\n\n{footer}\n");
        let explanation = Explanation::of(&Reading::of(&Message::read(message.as_bytes())));
        let lines = explanation.lines.iter().skip(1);
        lines.filter(|line| line.kind == Kind::Body).flat_map(|line| line.words.clone()).collect()
    }

    #[test]
    fn providers() {
        for footer in [
            "Sent from my iPhone",
            "Sent from my Samsung Galaxy smartphone.",
            "Sent from Yahoo Mail on Android",
            "Get Outlook for iOS",
            "Get Outlook for Android <https://aka.ms/x>",
            "_________________________________\nDo You Yahoo!?\nhttp://mail.yahoo.com",
            "MSN Photos is the easiest way to share and print your photos: http://photos.msn.com",
            "Join the world's largest e-mail service with MSN Hotmail. http://www.hotmail.com",
            "This email has been checked for viruses by AVG antivirus software.\nwww.avg.com",
            "Von meinem iPad gesendet",
            "Diese E-Mail wurde von Avast-Antivirussoftware auf Viren geprüft.",
            "Envoyé depuis mon téléphone Samsung",
            "Enviado desde mi Xiaomi",
            "Inviato dal mio Huawei",
            "Enviado do meu telemóvel Samsung",
            "Verzonden vanaf mijn Samsung-tablet",
            "Skickat från min Samsung telefon",
            "Sendt fra min iPad",
            "Lähetetty Samsung puhelimestani",
            "Wysłane z mojego telefonu Xiaomi",
            "Отправлено с моего телефона Huawei",
            "Samsung telefonumdan gönderildi",
        ] {
            assert_eq!(own(footer), [""; 0], "{footer}");
        }
    }

    #[test]
    fn pages_that_are_not_shown() {
        for footer in [
            "Click here to view this newsletter in your web browser",
            "If you cannot see this message properly, open it in your browser: http://news.example/1",
            "Your e-mail reader does not support HTML. To read the message online, visit\nhttp://news.example/2",
            "This is a multi-part message in MIME format.",
            "Falls die Nachricht nicht richtig angezeigt wird, klicken Sie hier, um sie im Browser zu öffnen",
            "Si ce message ne s'affiche pas correctement, consultez la version en ligne",
            "Si no visualiza bien este correo, haga clic aquí para abrir la versión web",
            "Se non vedi correttamente le immagini, apri il messaggio nel browser",
            "Se não visualiza esta mensagem corretamente, clique aqui para abrir no navegador",
            "Wordt dit bericht niet goed weergegeven? Open de online versie in uw browser",
            "Visas inte brevet korrekt? Klicka här och öppna det i webbläsare",
            "Vises nyhedsbrevet ikke korrekt? Klik her og åbn det i din browser",
            "Vises ikke nyhetsbrevet riktig? Klikk her og åpne det i nettleseren",
            "Jos viesti ei näy oikein, avaa verkkoversio selaimessa",
            "Jeśli wiadomość nie wyświetla się prawidłowo, kliknij i otwórz w przeglądarce",
            "Если письмо отображается неправильно, откройте его в браузере: нажмите здесь",
            "Bülteni düzgün görüntüleyemiyorsanız tarayıcınızda açın, buraya tıklayın",
        ] {
            assert_eq!(own(footer), [""; 0], "{footer}");
        }
    }

    #[test]
    fn how_to_receive_no_more() {
        for footer in [
            "You received this message because you signed up on our website.\nTo stop receiving updates please unsubscribe here.",
            "If you would prefer not to receive future mailings, click on the link below to unsubscribe.",
            "Möchten Sie keine weiteren Informationen empfangen, können Sie sich hier vom Newsletter abmelden",
            "Vous ne souhaitez plus recevoir ces messages ? Désinscription sur ce lien",
            "Si ya no desea recibir nuestros mensajes, puede darse de baja en este enlace",
            "Per non ricevere più queste comunicazioni clicca qui e annulla l'iscrizione",
            "Para não receber mais mensagens, cancelar a assinatura clique no link",
            "Geen nieuwsbrieven meer ontvangen? Klik op deze link om u uit te schrijven",
            "Vill du avsluta prenumerationen på nyhetsbrev, klicka på länken",
            "Vil du ikke længere modtage nyhedsbreve, klik her for at afmelde dig",
            "Vil du ikke lenger motta nyhetsbrev, klikk her for å melde deg av",
            "Jos et halua enää saada uutiskirjeitä, peruuta tilaus tästä linkistä",
            "Jeśli nie chcesz otrzymywać wiadomości, kliknij link, aby zrezygnować z subskrypcji",
            "Если вы не хотите получать рассылку, отписаться можно по ссылке",
            "Artık bülten almak istemiyorsanız, abonelikten çıkmak için tıklayın",
        ] {
            assert_eq!(own(footer), [""; 0], "{footer}");
        }
    }

    #[test]
    fn how_to_receive_no_more_counts_below_little_else() {
        let footer = "If you would prefer not to receive future mailings, click on the link below to unsubscribe.";
        let of = |words: usize| {
            let text = format!("{}\n\n{footer}\n", "harbour ".repeat(words));
            let reading = Reading::of(&Message::read(format!("\n{text}").as_bytes()));
            let (features, counts) = Features::with_words(&reading);
            (features.pairs.is_empty(), counts.own)
        };
        assert_eq!(of(super::OTHER_WORDS_MIN), (true, 40));
        assert_eq!(of(super::OTHER_WORDS_MIN - 1), (false, 39));
    }

    #[test]
    fn banners_of_gateways() {
        for banner in [
            "CAUTION: This email originated from outside of the organization. Do not click links or open attachments unless \
             you recognize the sender and know the content is safe.",
            "EXTERNAL SENDER: be careful, do not open attachments or click links unless you trust the source.",
        ] {
            assert_eq!(own(banner), [""; 0], "{banner}");
        }
    }

    #[test]
    fn meetings_and_social_networks() {
        for footer in [
            "Microsoft Teams meeting\nJoin on your computer, mobile app or room device\nClick here to join the meeting\n\
             Meeting ID: 123 456 789\nPasscode: aBcDeF\nDownload Teams | Join on the web\nLearn more | Meeting options",
            "Join Zoom Meeting\nhttps://zoom.us/j/123?pwd=abc\nMeeting ID: 123 456\nPasscode: 789\nOne tap mobile\n\
             Dial by your location\nFind your local number: https://zoom.us/u/abc",
            "You are receiving this email because you are an attendee on the event. To stop receiving future updates for this \
             event, decline this event.",
            "Forwarding this invitation could allow any recipient to send a response to the organizer, be added to the guest \
             list, invite others regardless of their own invitation status, or modify your RSVP.",
        ] {
            assert_eq!(own(footer), [""; 0], "{footer}");
        }
        assert_eq!(own("Follow us on Facebook | Twitter | LinkedIn | Instagram | YouTube"), [""; 0]);
        assert_eq!(own("Folgen Sie uns auf LinkedIn und Instagram"), [""; 0]);
        assert!(!own("Follow us on Telegram to earn money with crypto").is_empty());
        assert!(!own("Join our meeting of investors on Zoom and learn how to earn money").is_empty());
    }

    #[test]
    fn legal_statements() {
        for footer in [
            "Wexham Insurance Limited is authorised and regulated by the Financial Conduct Authority, firm reference number 12345.\n\
             Registered in England and Wales, company number 1234567. Registered office: 10 Wexham Road, London.",
            "The opinions expressed in this message are solely those of the author and do not represent the views of the company.",
            "Muster GmbH, Sitz der Gesellschaft: Köln, Handelsregister: Amtsgericht Köln HRB 9876\nGeschäftsführer: Erika Muster",
            "Exemple SAS au capital de 10000 euros, siège social 1 rue Exemple, Paris, RCS Paris 123456789",
            "Inscrita en el Registro Mercantil de Madrid, tomo 1, folio 2, hoja 3, domicilio social calle Ejemplo",
            "Sede legale: via Esempio 1, Milano. Capitale sociale euro 10.000, registro imprese, codice fiscale e partita IVA 0123",
            "Matriculada na Conservatória do Registo Comercial de Lisboa, capital social 5000 euros, sede social rua Exemplo",
            "Statutair gevestigd te Utrecht, ingeschreven in het handelsregister van de Kamer van Koophandel onder nummer 123",
            "Detta meddelande kan innehålla konfidentiell information och är endast avsedd för mottagaren",
            "Denne meddelelse kan indeholde fortrolige oplysninger og er kun beregnet for adressaten",
            "Denne meldingen kan inneholde fortrolig informasjon og er kun ment for adressaten",
            "Tämä viesti saattaa sisältää luottamuksellista tietoa ja on tarkoitettu vain vastaanottajan käyttöön",
            "Spółka zarejestrowana w Sądzie Rejonowym dla Krakowa, wydział gospodarczy, numer KRS 123, NIP 456, kapitał zakładowy wpłacony",
            "Письмо может содержать конфиденциальную информацию, предназначенную исключительно для получателя",
            "Bu mesaj gizli bilgiler içerebilir ve yalnızca alıcının kullanımı içindir",
        ] {
            assert_eq!(own(footer), [""; 0], "{footer}");
        }
    }

    #[test]
    fn pitches_are_not_hidden() {
        for pitch in [
            "Click here to see girls in your area in your browser tonight",
            "Your account has been suspended, click here and confirm your password",
            "Get Viagra for Android prices",
            "Registered pharmacies in England sell generic pills at half the price of your local store",
            "You have been selected to receive a free holiday, click the link below to claim your prize",
            "Sent from my heart, with love and kisses",
            "Free photos online today",
            "Free phone",
            "Join millions who make money at home",
            "Klicken Sie hier und gewinnen Sie ein neues Auto",
        ] {
            assert!(!own(pitch).is_empty(), "{pitch}");
        }
        // A line of boilerplate words does not hide other lines.
        assert_eq!(own("Buy watches\nSent from my iPhone"), ["buy", "watches"]);
    }

    #[test]
    fn endless_paragraphs_take_little_time() {
        let text = "unsubscribe click here receive email ".repeat(10_000);
        assert!(!own(&text).is_empty(), "too long");
        own(&"unsubscribe click receive\n".repeat(10_000));
    }
}
