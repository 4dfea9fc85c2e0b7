//! Tests of quotations and forwards by common mail programs, in plain text and HTML, and in the most common languages
//! of mail.

use crate::bruit::{Explanation, Features, Quoted};
use crate::message::Message;
use crate::reading::Reading;

/// Returns the kinds of the lines that have words, with one letter per kind, without consecutive duplicates.
fn kinds_of(message: &str) -> String {
    let reading = Reading::of(&Message::read(message.as_bytes()));
    let mut kinds: Vec<char> = Explanation::of(&reading).lines.iter().map(|line| line.kind.letter()).collect();
    kinds.dedup();
    kinds.into_iter().collect()
}

fn plain(text: &str) -> String {
    kinds_of(&format!("Content-Type: text/plain; charset=utf-8\n\n{text}"))
}

fn page(html: &str) -> String {
    kinds_of(&format!("Content-Type: text/html; charset=utf-8\n\n<html><body>{html}</body></html>"))
}

const OWN: &str = "Thanks, that suits everybody here";
const OTHER: &str = "Shall we meet on Friday in the large room?";

/// The names of the fields From, Date, To and Subject in Outlook, by language.
const HEADERS: [[&str; 4]; 30] = [
    ["From", "Sent", "To", "Subject"],
    ["Von", "Gesendet", "An", "Betreff"],
    ["De", "Envoyé", "À", "Objet"],
    ["De", "Enviado", "Para", "Asunto"],
    ["De", "Enviado el", "Para", "Asunto"],
    ["Da", "Inviato", "A", "Oggetto"],
    ["De", "Enviada em", "Para", "Assunto"],
    ["Van", "Verzonden", "Aan", "Onderwerp"],
    ["Från", "Skickat", "Till", "Ämne"],
    ["Fra", "Sendt", "Til", "Emne"],
    ["Lähettäjä", "Lähetetty", "Vastaanottaja", "Aihe"],
    ["Od", "Wysłano", "Do", "Temat"],
    ["От", "Отправлено", "Кому", "Тема"],
    ["Od", "Odesláno", "Komu", "Předmět"],
    ["Kimden", "Gönderildi", "Kime", "Konu"],
    ["Feladó", "Elküldve", "Címzett", "Tárgy"],
    ["De la", "Trimis", "Către", "Subiect"],
    ["Kimden", "Gönderilme", "Kime", "Konu"],
    ["Από", "Στάλθηκε", "Προς", "Θέμα"],
    ["寄件者", "寄件日期", "收件者", "主旨"],
    ["מאת", "נשלח", "אל", "נושא"],
    ["من", "تاريخ الإرسال", "إلى", "الموضوع"],
    ["Od", "Poslano", "Za", "Predmet"],
    ["Od", "Odoslané", "Komu", "Predmet"],
    ["Từ", "Đã gửi", "Tới", "Chủ đề"],
    ["От", "Изпратено", "До", "Относно"],
    ["Saatja", "Saadetud", "Adressaat", "Teema"],
    ["Nuo", "Išsiųsta", "Kam", "Tema"],
    ["De", "Enviat el", "Per a", "Tema"],
    ["From", "Date", "To", "Subject"],
];

fn values() -> [&'static str; 4] {
    [
        "Jane Smith <jane@firm.example>",
        "Monday, 2 November 2026 10:04",
        "John Miller; Ann Other",
        "The meeting on Friday",
    ]
}

fn header(names: [&str; 4], field: impl Fn(&str, &str) -> String) -> String {
    names.iter().zip(values()).map(|(name, value)| field(name, value)).collect()
}

#[test]
fn outlook_in_plain_text() {
    for names in HEADERS {
        let header = header(names, |name, value| format!("{name}: {value}\n"));
        assert_eq!(plain(&format!("{OWN}\n\n{header}\n{OTHER}\nAnd so on\n")), "BAQ", "{names:?}");
        assert_eq!(plain(&format!("Ok\n\n________________________________\n{header}\n{OTHER}\n")), "BAQ", "{names:?}");
        assert_eq!(plain(&format!("{OWN}\n\n{}\n{OTHER}", header.replace(":", " :"))), "BAQ", "{names:?}");
        let bold = header.lines().map(|line| format!("*{line}\n").replacen(": ", ":* ", 1)).collect::<String>();
        assert_eq!(plain(&format!("{OWN}\n\n{bold}\n{OTHER}")), "BAQ", "{names:?}");
        let order = header.lines().rev().map(|line| format!("{line}\n")).collect::<String>();
        assert_eq!(plain(&format!("{OWN}\n\n{order}\n{OTHER}")), "BAQ", "{names:?}");
    }
}

#[test]
fn outlook_in_html() {
    let bold = |name: &str, value: &str| format!("<b>{name}:</b> {}<br>\n", value.replace('<', "&lt;"));
    let spans = |name: &str, value: &str| {
        let value = value.replace('<', "&lt;");
        format!(
            "<b><span style='font-size:11.0pt'>{name}:</span></b><span style='font-size:11.0pt'> {value}<br></span>"
        )
    };
    let divs = |name: &str, value: &str| format!("<div><b>{name}: </b>{}</div>", value.replace('<', "&lt;"));
    let cells =
        |name: &str, value: &str| format!("<tr><th>{name}: </th><td>{}</td></tr>\n", value.replace('<', "&lt;"));
    let top = format!("<p class=MsoNormal>{OWN}</p>");
    for names in HEADERS {
        for header in [header(names, bold), header(names, spans), header(names, divs)] {
            for html in [
                format!(
                    "<div style='border-top:solid #E1E1E1 1.0pt'><p class=MsoNormal>{header}</p></div><p>{OTHER}</p>"
                ),
                format!(
                    "<hr><div id=\"divRplyFwdMsg\" dir=\"ltr\"><font face=Calibri>{header}</font></div><div>{OTHER}</div>"
                ),
                format!("<div id=\"appendonsend\"></div><hr>{header}<br><div>{OTHER}</div>"),
                format!(
                    "<span id=\"OLK_SRC_BODY_SECTION\"><div>{header}</div><div><br></div><div>{OTHER}</div></span>"
                ),
            ] {
                assert_eq!(page(&[&*top, &*html].concat()), "BAQ", "{html}");
            }
        }
        let table = format!("<table class=\"moz-email-headers-table\">{}</table><p>{OTHER}", header(names, cells));
        assert_eq!(page(&format!("<p>{OWN}<div class=moz-forward-container>{table}")), "BAQ", "{table}");
    }
}

#[test]
fn marks_of_replies_and_forwards() {
    let header = "From: Jane Smith\nDate: Mon, 2 Nov 2026\nSubject: The meeting\nTo: John Miller\n";
    for mark in [
        "-----Original Message-----",
        "-------- Original message --------",
        "---------- Forwarded message ---------",
        "Begin forwarded message:",
        "-----Ursprüngliche Nachricht-----",
        "---------- Weitergeleitete Nachricht ---------",
        "Anfang der weitergeleiteten Nachricht:",
        "-----Message d'origine-----",
        "---------- Message transféré ----------",
        "Début du message réexpédié :",
        "-----Mensaje original-----",
        "---------- Mensaje reenviado ---------",
        "-----Messaggio originale-----",
        "---------- Messaggio inoltrato ---------",
        "-----Mensagem original-----",
        "---------- Mensagem encaminhada ---------",
        "-----Oorspronkelijk bericht-----",
        "---------- Doorgestuurd bericht ---------",
        "-----Ursprungligt meddelande-----",
        "---------- Vidarebefordrat meddelande ---------",
        "-----Oprindelig meddelelse-----",
        "-----Opprinnelig melding-----",
        "-----Alkuperäinen viesti-----",
        "-----Wiadomość oryginalna-----",
        "-----Исходное сообщение-----",
        "-------- Пересылаемое сообщение --------",
        "-----Původní zpráva-----",
        "-----Özgün İleti-----",
        "-----Eredeti üzenet-----",
        "-----Mesaj original-----",
    ] {
        let text = format!("{OWN}\n\n{mark}\n{header}\n{OTHER}\n");
        assert_eq!(plain(&text), "BAQ", "{mark}");
        assert_eq!(page(&text.replace('\n', "<br>\n")), "BAQ", "{mark}");
        assert_eq!(plain(&format!("{OWN}\n\n{mark}\n\n> {OTHER}\n> And so on\n\n{OWN}\n")), "BAQB", "{mark}");
    }
    let mobile = format!("Ok\n\nSent from my Galaxy\n\n-------- Original message --------\n{header}\n{OTHER}");
    assert!(plain(&mobile).ends_with("AQ"));
    assert_eq!(plain(&format!("{OWN}\n-----Original Message-----\n{OTHER}\n{OTHER}")), "B", "no header");
    assert_eq!(plain(&format!("Begin forwarded message:\n{OTHER}\nFrom: us")), "B", "no header");
}

/// Attributions as written by mail programs. `|` marks a line wrap.
const ATTRIBUTIONS: [&str; 38] = [
    "On Mon, 2 Nov 2026 at 10:04, Jane Smith <jane@firm.example> wrote:",
    "On Mon, 2 Nov 2026 at 10:04, Jane Smith|<jane@firm.example> wrote:",
    "On Nov 2, 2026, at 10:04 AM, Jane Smith <jane@firm.example> wrote:",
    "On Monday, November 2, 2026 at 10:04:33 AM GMT+1, Jane Smith of the|Department of Long Names|<jane.smith@department.firm.example> wrote:",
    "On 11/2/2026 10:04 AM, Jane Smith wrote:",
    "On 02/11/2026 10:04, Jane Smith, head of the department of attributions that are long, via the list of all people, wrote:",
    "Am 02.11.2026 um 10:04 schrieb Jane Smith:",
    "Am Mo., 2. Nov. 2026 um 10:04 Uhr schrieb Jane Smith <|jane@firm.example>:",
    "Jane Smith <jane@firm.example> schrieb am Mo., 2. Nov. 2026, 10:04:",
    "Le lun. 2 nov. 2026 à 10:04, Jane Smith <jane@firm.example> a écrit :",
    "Le 2 nov. 2026 à 10:04, Jane Smith|<jane@firm.example> a écrit :",
    "El lun, 2 nov 2026 a las 10:04, Jane Smith (<jane@firm.example>) escribió:",
    "El 2 nov 2026, a las 10:04, Jane Smith|escribió:",
    "Il giorno lun 2 nov 2026 alle ore 10:04 Jane Smith <|jane@firm.example> ha scritto:",
    "Il 02/11/2026 10:04, Jane Smith ha scritto:",
    "Em seg., 2 de nov. de 2026 às 10:04, Jane Smith <jane@firm.example>|escreveu:",
    "Jane Smith <jane@firm.example> escreveu (segunda, 2/11/2026 à(s) 10:04):",
    "Op ma 2 nov. 2026 om 10:04 schreef Jane Smith <jane@firm.example>:",
    "Op 02-11-2026 om 10:04 schreef Jane Smith:",
    "Op 2 nov. 2026, om 10:04 heeft Jane Smith|<jane@firm.example> het volgende geschreven:",
    "Den mån 2 nov. 2026 kl 10:04 skrev Jane Smith <jane@firm.example>:",
    "Den 2026-11-02 kl. 10:04, skrev Jane Smith:",
    "Den man. 2. nov. 2026 kl. 10.04 skrev Jane Smith <|jane@firm.example>:",
    "man. 2. nov. 2026 kl. 10:04 skrev Jane Smith <jane@firm.example>:",
    "Jane Smith kirjoitti 2.11.2026 klo 10.04:",
    "ma 2. marrask. 2026 klo 10.04 Jane Smith (jane@firm.example) kirjoitti:",
    "pon., 2 lis 2026 o 10:04 Jane Smith <jane@firm.example> napisał(a):",
    "W dniu 2.11.2026 o 10:04, Jane Smith pisze:",
    "Dnia 2 listopada 2026 10:04 Jane Smith <jane@firm.example> napisał(a):",
    "пн, 2 нояб. 2026 г. в 10:04, Jane Smith <jane@firm.example>:",
    "02.11.2026 10:04, Jane Smith пишет:",
    "2 ноября 2026 г., в 10:04, Jane Smith|<jane@firm.example> написал(а):",
    "Dne 02. 11. 26 v 10:04 Jane Smith napsal(a):",
    "Jane Smith <jane@firm.example>, 2 Kas 2026 Pzt, 10:04 tarihinde|şunu yazdı:",
    "Jane Smith <jane@firm.example> ezt írta (időpont: 2026. nov. 2.,|H, 10:04):",
    "În lun., 2 nov. 2026 la 10:04, Jane Smith <jane@firm.example> a scris:",
    "Jane Smith wrote:",
    "Jane Smith writes:",
];

#[test]
fn attributions_in_plain_text() {
    for attribution in ATTRIBUTIONS {
        let text = attribution.replace('|', "\n");
        assert_eq!(plain(&format!("{OWN}\n\n{text}\n\n> {OTHER}\n> And so on\n\n{OWN}")), "BAQB", "{attribution}");
        assert_eq!(plain(&format!("Ok\n\n{text}\n> {OTHER}\n> {OTHER}\n> {OTHER}\n> {OTHER}")), "BAQ", "{attribution}");
    }
}

#[test]
fn text_below_a_complete_attribution_needs_no_prefix() {
    for attribution in [
        "On Mon, 2 Nov 2026 at 10:04, Jane Smith <jane@firm.example> wrote:",
        "On Monday, November 2, 2026 at 10:04:33 AM GMT+1, Jane Smith of the|Department <jane@firm.example> wrote:",
        "On 11/2/2026 10:04 AM, Jane Smith wrote:",
        "Am 02.11.2026 um 10:04 schrieb Jane Smith:",
        "Jane Smith <jane@firm.example> schrieb am Mo., 2. Nov. 2026, 10:04:",
        "Le lun. 2 nov. 2026 à 10:04, Jane Smith <jane@firm.example> a écrit :",
        "El lun, 2 nov 2026 a las 10:04, Jane Smith (<jane@firm.example>) escribió:",
        "02.11.2026 10:04, Jane Smith пишет:",
        ">>> \"Jane Smith\" <jane@firm.example> 02.11.26 10:04 >>>",
        ">>> Jane Smith 11/02/26 10:04 AM >>>",
        ">>> Jane Smith 2.11.2026, 10:04 >>>",
        ">>> Jane Smith 2026-11-02 10:04:33 >>>",
        ">>> <jane@firm.example> Monday, November 2, 2026 10:04AM >>>",
    ] {
        let text = attribution.replace('|', "\n");
        assert_eq!(plain(&format!("{OWN}\n\n{text}\n\n {OTHER}\n\n And so on\n")), "BAQ", "{attribution}");
        assert_eq!(plain(&format!("Ok\n\n    {text}  \n{OTHER}\n> {OTHER}\n{OTHER}")), "BAQ", "{attribution}");
        let html = text.replace('<', "&lt;").replace('>', "&gt;");
        let html = format!("<p>{OWN}</p><div>{html}</div><div style=\"border-left:2px solid\"><p>{OTHER}</p></div>");
        assert_eq!(page(&html), "BAQ", "{html}");
        assert!(!plain(&format!("{text}\n{OTHER}")).contains('Q'), "nothing is above: {attribution}");
    }
    for attribution in ["Jane Smith wrote:", "On Monday Jane Smith wrote:", "jane@firm.example said:", ">>> offers >>>"]
    {
        let kinds = plain(&format!("{OWN}\n\n{attribution}\n\n{OTHER}\n"));
        assert!(kinds.ends_with('B') || !kinds.contains('A'), "no date: {attribution}: {kinds}");
    }
    for line in [
        ">>> 50% off 20 shoes, from 9 to 5 >>>",
        ">>> 50% off 20 shoes, from 9:00 to 17:00 >>>",
        ">>> orders@firm.example >>>",
        ">>> 2026.11.02@firm.example >>>",
        ">>> call 800-555-1234 from 9:00 >>>",
        ">>> only until 11/2/2026 >>>",
    ] {
        let kinds = plain(&format!("{OWN}\n\n{line}\n\n{OTHER}\n"));
        assert!(kinds.ends_with('B'), "not an author and a time: {line}: {kinds}");
    }
    let part = |text: &str| format!("--b\nContent-Type: text/plain\n\n{text}\n");
    let attributed = format!("{OWN}\n\nOn Mon, 2 Nov 2026 at 10:04, Jane Smith <jane@firm.example> wrote:\n\n{OTHER}");
    let message = format!("Content-Type: multipart/mixed; boundary=b\n\n{}{}--b--\n", part(&attributed), part(OWN));
    assert_eq!(kinds_of(&message), "BAQB", "the next part is not quoted");
}

#[test]
fn attributions_in_html() {
    for attribution in ATTRIBUTIONS {
        let text = attribution.replace('<', "&lt;").replace('|', "\n");
        for html in [
            // Apple Mail, on a computer and on a telephone.
            format!(
                "<div>{OWN}<div><br><blockquote type=\"cite\"><div>{text}</div><br class=\"Apple-interchange-newline\"><div>{OTHER}</div></blockquote></div></div>"
            ),
            format!(
                "<div dir=ltr>{OWN}</div><div dir=ltr><br><blockquote type=cite>{text}<br><br></blockquote></div><blockquote type=cite><div>\u{feff}{OTHER}</div></blockquote>"
            ),
            // Gmail, Thunderbird, Yahoo.
            format!(
                "<div dir=ltr>{OWN}</div><br><div class=\"gmail_quote\"><div dir=ltr class=\"gmail_attr\">{text}<br></div><blockquote class=\"gmail_quote\" style=\"margin:0\">{OTHER}</blockquote></div>"
            ),
            // Programs that set neither a class nor a type on the quoted block.
            format!(
                "<div>{OWN}</div><div>{text}</div><blockquote style=\"border-left:1px solid #ccc\">{OTHER}</blockquote>"
            ),
            format!(
                "<p>{OWN}</p><div class=\"moz-cite-prefix\">{text}<br></div><blockquote type=\"cite\" cite=\"mid:x@y\"><p>{OTHER}</blockquote>"
            ),
            format!(
                "<div>{OWN}</div><div id=\"ydp1yahoo_quoted_2\" class=\"ydp1yahoo_quoted\"><div><div>{text}</div><div><br></div><div>{OTHER}</div></div></div>"
            ),
        ] {
            assert_eq!(page(&html), "BAQ", "{html}");
            assert_eq!(page(&format!("{html}<p>{OWN}</p>")), "BAQB", "below: {html}");
        }
    }
}

#[test]
fn apple_forwards_in_html() {
    let html = format!(
        "<div>{OWN}</div><blockquote type=cite><div>Begin forwarded message:</div><br><div><b>From: </b>Jane Smith</div>\
        <div><b>Subject: </b><b>The meeting</b></div><div><b>Date: </b>2 November 2026</div><br><div>{OTHER}</div></blockquote>"
    );
    assert_eq!(page(&html), "BAQ");
}

#[test]
fn a_quotation_stays_one_however_short_the_reply_is() {
    let others = format!("{OTHER} And then there is much more to say about all of it. ").repeat(20);
    for message in [
        format!("\nFYI\n\nOn Mon, 2 Nov 2026, Jane Smith wrote:\n> {others}"),
        format!("\nFYI\n\n-----Original Message-----\nFrom: Jane Smith\nSent: Monday\nTo: me\nSubject: x\n\n{others}"),
        format!(
            "Content-Type: text/html\n\n<div>FYI<blockquote type=cite><div>On 2 Nov 2026, at 10:04, Jane wrote:</div><p>{others}</blockquote>"
        ),
    ] {
        let reading = Reading::of(&Message::read(message.as_bytes()));
        assert_eq!(Explanation::of(&reading).quoted, Quoted::IsNotOwn, "{message}");
        assert!(Features::of(&reading).pairs.is_empty(), "{message}");
    }
}

#[test]
fn one_sign_alone_hides_nothing() {
    for text in [
        format!("From: the heart of our firm\nSubject: your health\n{OTHER}"),
        format!("From: \nTo: undisclosed recipients\nSubject: your health\n{OTHER}"),
        format!("To: all of you\nDate: today\nTheir price: low\n{OTHER}"),
        format!("Our customers said:\n{OTHER}"),
        format!("As he wrote in our paper on health:\n{OTHER}"),
        format!("The offer of 1 11 2026 to you:\n{OTHER}"),
    ] {
        assert_eq!(plain(&text), "B", "{text}");
    }
    let marked = format!("> {OTHER}\n").repeat(5);
    let below = format!("{marked}-----Original Message-----\nFrom: x\nSent: y\nTo: z\nSubject: a\n");
    let reading = Reading::of(&Message::read(format!("\n{below}").as_bytes()));
    assert_eq!(Explanation::of(&reading).quoted, Quoted::IsDisguise, "no author is named above");
    let quoted_below = |own: &str| {
        let reading = Reading::of(&Message::read(format!("\n{own}\n{marked}").as_bytes()));
        Explanation::of(&reading).quoted
    };
    assert_eq!(quoted_below("Wow, see what they sent"), Quoted::IsAllThereIs, "a terse reply");
    let offer = "Cheap watches from the best makers are waiting for you today";
    assert_eq!(quoted_below(offer), Quoted::IsNotOwn, "an offer above a quotation without an author");
    assert_eq!(page(&format!("<p>Our offer:<blockquote type=cite>{OTHER}</blockquote>")), "B");
    assert_eq!(page(&format!("<p>Our offer:<blockquote>{OTHER}</blockquote>")), "B", "an indented block");
    assert_eq!(
        page(&format!("<blockquote class=quote>{OTHER}</blockquote><div class=yahoo_quoted>{OTHER}</div>")),
        "B"
    );
}

fn digest(messages: usize, rule: &str) -> String {
    let message = |at: usize| {
        format!("Message: {at}\nDate: Mon, 2 Nov 2026\nFrom: Jane Smith\nSubject: The meeting\n\n{OTHER}\n")
    };
    (1..=messages).map(message).collect::<Vec<_>>().join(&format!("\n{rule}\n\n"))
}

#[test]
fn digests_are_their_messages() {
    let preamble = "Send Tea mailing list submissions to\n\ttea@lists.example\n\nTo subscribe or unsubscribe via the World Wide Web, visit\n\
        \thttp://lists.example/listinfo/tea\nor, via email, send a message with subject or body 'help' to\n\ttea-request@lists.example\n\n\
        You can reach the person managing the list at\n\ttea-owner@lists.example\n\nWhen replying, please edit your Subject line so it is more specific\n\
        than \"Re: Contents of Tea digest...\"\n\n\n";
    let topics = "Today's Topics:\n\n   1. The meeting (Jane Smith)\n   2. Re: The meeting of everybody who is\n      there on Friday (John Miller)\n\n\n";
    let (short, long) = ("-".repeat(30), "-".repeat(70));
    let end = "\nEnd of Tea Digest, Vol 1, Issue 2\n*********************************\n";
    assert_eq!(plain(&format!("{preamble}{topics}{long}\n\n{}{end}", digest(3, &short))), "-AQAQAQ");
    assert_eq!(plain(&format!("{preamble}{}{end}", digest(2, &short))), "-AQAQ");
    let majordomo = format!(
        "tea-digest     Monday, November 2 2026     Volume 01 : Number 002\n\n{long}\n\n{}{end}",
        digest(2, &short)
    );
    assert_eq!(plain(&majordomo.replace("Message: 1\n", "").replace("Message: 2\n", "")), "-AQAQ");
    assert_eq!(plain(&format!("{preamble}{OWN}\n{}", digest(1, &short))), "BAQ", "one message is not a digest");
    let offer = format!("The list of our offers\n\n{}", OWN.repeat(10));
    assert_eq!(plain(&format!("{offer}\n\n{}", digest(2, &short))), "BAQAQ");
}

#[test]
fn digests_of_parts_are_messages() {
    let part = |text: &str| format!("--d\n\nFrom: Jane Smith\nSubject: The meeting\n\n{text}\n");
    let parts = [part(OTHER), part(OTHER)].concat();
    let message = format!("Content-Type: multipart/digest; boundary=d\n\n{parts}--d--\n");
    let reading = Reading::of(&Message::read(message.as_bytes()));
    assert!(reading.parts.iter().all(|part| part.is_forwarded));
    assert_eq!(reading.text.split_whitespace().next(), Some("Shall"));
    assert_eq!(kinds_of(&message), "Q");
    let typed = message.replace("--d\n\n", "--d\nContent-Type: text/plain\n\n");
    assert!(!Reading::of(&Message::read(typed.as_bytes())).parts.iter().any(|part| part.is_forwarded));
}
