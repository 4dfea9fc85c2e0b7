//! Recognition of quotations and forwards, in the styles of common mail programs and the most common languages of mail.
//!
//! A sender could hide a text by making it look quoted, so each rule needs more than one sign. An attribution must be
//! followed by quoted lines, or contain a date or an address. If the lines below an attribution have no quote prefixes,
//! the attribution must have a verb, a date, and either an address or the usual order of words. A copied header must
//! have an author, a date and a subject. The mark of a forward must be followed by such fields. This module works on
//! folded text.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::fold;

#[cfg(test)]
mod tests;

/// Maximum number of lines of an attribution.
pub(super) const ATTRIBUTION_LINES_MAX: usize = 3;
/// Maximum number of bytes of an attribution.
const ATTRIBUTION_BYTES_MAX: usize = 320;
/// Maximum number of bytes of an attribution that contains neither a date nor an address.
const BARE_ATTRIBUTION_BYTES_MAX: usize = 120;

/// A text with at least this many numbers may contain a date and a time.
const DATE_NUMBERS_MIN: usize = 3;

/// Maximum number of lines of a copied header.
const HEADER_LINES_MAX: usize = 48;
/// Maximum number of other lines between two header fields.
const HEADER_OTHERS_MAX: usize = 4;

/// Maximum length of a field name.
const NAME_BYTES_MAX: usize = 32;

/// Maximum length of the mark of a forward, without the dashes or other signs around it.
const MARK_BYTES_MAX: usize = 120;

/// The signs of a quotation in one line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Signs {
    /// The header field that the line begins with.
    field: Option<CopiedField>,
    /// True if the line has only the name of the field, without a value.
    is_bare_field: bool,
    /// True if the line begins with a quote prefix such as `>`.
    pub is_quoted: bool,
    /// The mark of a forward, if the line is such a mark.
    mark: Option<ForwardMark>,
    /// True if the line is blank.
    pub is_blank: bool,
    /// True if the line ends like an attribution.
    pub ends_attribution: bool,
    /// True if the line is an attribution between `>>>` and `>>>`, as GroupWise writes it. No line below has a prefix.
    pub is_enclosed: bool,
}

/// The mark of a forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ForwardMark {
    /// The words with dashes or other signs before them: `-----Original Message-----`.
    Fenced,
    /// The words alone: `Begin forwarded message:`.
    Bare,
}

/// A header field that mail programs copy. Each field has a bit of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CopiedField(u32);

impl CopiedField {
    const FROM: Self = Self(1);
    const DATE: Self = Self(2);
    const TO: Self = Self(4);
    const SUBJECT: Self = Self(8);
    const COPY: Self = Self(16);
    /// The number of a message in a digest.
    const NUMBER: Self = Self(32);
}

const FIELD_NAMES: [(CopiedField, &str); 6] = [
    (
        CopiedField::FROM,
        "from,von,de,da,van,från,fra,lähettäjä,od,от,от кого,kimden,gönderen,feladó,de la,expeditor,mittente,remitente,\
         remetente,expéditeur,absender,afzender,avsändare,afsender,avsender,nadawca,отправитель,odesílatel,发件人,寄件者,差出人,\
         보낸 사람,від,από,Από,发信人,寄件人,발신,saatja,nuo,từ,מאת,من",
    ),
    (
        CopiedField::DATE,
        "date,sent,datum,gesendet,gesendet am,envoyé,envoyé le,enviado,enviada,enviado el,enviado em,enviada em,fecha,data,\
         inviato,verzonden,verzonden op,skickat,sendt,sendt den,dato,lähetetty,päivämäärä,pvm,päiväys,wysłano,дата,отправлено,\
         дата отправки,odesláno,gönderildi,gönderme tarihi,gönderilme tarihi,tarih,elküldve,küldve,dátum,trimis,trimis la,\
         发送时间,日期,日時,送信日時,보낸 날짜,надіслано,ημερομηνία,date sent,gönderilme,στάλθηκε,Στάλθηκε,寄件日期,\
         날짜,poslano,odoslané,đã gửi,ngày,изпратено,saadetud,kuupäev,išsiųsta,enviat,enviat el,נשלח,תאריך,تاريخ الإرسال,التاريخ",
    ),
    (
        CopiedField::TO,
        "to,an,à,a,para,aan,till,til,vastaanottaja,do,кому,komu,kime,alıcı,címzett,către,catre,pour,destinataire,\
         destinatario,destinatário,empfänger,收件人,宛先,받는 사람,받은 사람,προς,Προς,收件者,za,tới,đến,до,adressaat,kam,per a,אל,إلى",
    ),
    (
        CopiedField::SUBJECT,
        "subject,betreff,objet,sujet,asunto,oggetto,assunto,onderwerp,ämne,emne,aihe,temat,тема,předmět,predmet,konu,tárgy,\
         subiect,主题,主旨,件名,제목,θέμα,Θέμα,относно,chủ đề,teema,tema,נושא,الموضوع",
    ),
    (CopiedField::COPY, "cc,kopie,copie,copia,kopia,kopi,kopio,копия,bilgi,másolat,cópia,dw,抄送"),
    (CopiedField::NUMBER, "message,nachricht,mensaje,messaggio,mensagem,bericht"),
];

/// The words in the line between a reply and the original, or between a cover note and the forwarded message.
const MARKS: &str = "original message,forwarded message,forwarded by,begin forwarded message,reply separator,original email,\
    original mail,original appointment,ursprüngliche nachricht,originalnachricht,original-nachricht,weitergeleitete nachricht,\
    weitergeleitet von,anfang der weitergeleiteten nachricht,anfang der weitergeleiteten e-mail,message d'origine,\
    message original,message transféré,message transmis,message réexpédié,début du message réexpédié,\
    début du message transféré,courriel original,mensaje original,mensaje reenviado,inicio del mensaje reenviado,\
    messaggio originale,messaggio inoltrato,inizio messaggio inoltrato,mensagem original,mensagem encaminhada,\
    mensagem reencaminhada,início da mensagem encaminhada,início da mensagem reencaminhada,oorspronkelijk bericht,\
    oorspronkelijke bericht,origineel bericht,doorgestuurd bericht,begin doorgestuurd bericht,ursprungligt meddelande,\
    originalmeddelande,vidarebefordrat meddelande,vidarebefordrat brev,oprindelig meddelelse,oprindelig besked,\
    original meddelelse,videresendt meddelelse,videresendt besked,start på videresendt besked,opprinnelig melding,\
    original melding,videresendt melding,alkuperäinen viesti,välitetty viesti,edelleenlähetetty viesti,wiadomość oryginalna,\
    oryginalna wiadomość,wiadomość przekazana dalej,przekazana wiadomość,początek przekazywanej wiadomości,\
    исходное сообщение,оригинальное сообщение,пересылаемое сообщение,пересланное сообщение,перенаправленное сообщение,\
    начало переадресованного сообщения,původní zpráva,přeposlaná zpráva,orijinal ileti,orijinal mesaj,özgün ileti,\
    iletilen mesaj,iletilen ileti,eredeti üzenet,továbbított üzenet,mesaj original,mesajul original,mesaj redirecționat,\
    mesaj redirectionat,原始邮件,转发邮件,原始郵件,轉寄郵件,원본 이메일,원본 메시지";

/// Verbs used in attributions.
const VERBS: &str = "wrote,writes,said,says,mentioned,schrieb,schrieben,écrit,escribió,escribio,scritto,scrive,escreveu,skrev,schreef,\
    geschreven,kirjoitti,napisał,napisała,napisano,pisze,пишет,написал,написала,писал,писала,napsal,napsala,píše,yazdı,írta,\
    scris,έγραψε,написав";

/// First words of attributions that begin with the date.
const OPENERS: &str = "on,am,le,el,il,em,op,den,w,dnia,dne,pe,in,în,la,no,a,at,vào,kl,klo";

/// The word lists above, folded in the same way as the text.
struct Tables {
    fields: HashMap<String, CopiedField>,
    marks: Vec<String>,
    verbs: Vec<String>,
    openers: Vec<String>,
}

static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    let list = |names: &str| names.split(',').map(|name| fold::folded(name.trim())).collect::<Vec<_>>();
    let fields = FIELD_NAMES.iter().flat_map(|&(field, names)| list(names).into_iter().map(move |name| (name, field)));
    Tables { fields: fields.collect(), marks: list(MARKS), verbs: list(VERBS), openers: list(OPENERS) }
});

impl Signs {
    /// Finds the signs of a line.
    pub(super) fn of(line: &str) -> Self {
        let line = line.trim();
        if line.is_empty() {
            return Self { is_blank: true, ..Self::default() };
        }
        if is_enclosed(line) {
            return Self { is_enclosed: true, ..Self::default() };
        }
        if is_quoted(line) {
            return Self { is_quoted: true, ..Self::default() };
        }
        let (field, is_bare_field) = field(line).unzip();
        Self {
            field,
            is_bare_field: is_bare_field.unwrap_or(false),
            mark: mark(line),
            ends_attribution: without_emphasis(line).ends_with(':'),
            ..Self::default()
        }
    }

    /// Returns true if the line is the mark of a forward.
    pub(super) const fn is_mark(&self) -> bool {
        self.mark.is_some()
    }
}

/// Returns true if the line begins with a quote prefix: `>`, initials followed by `>`, `|`, or `:`.
fn is_quoted(line: &str) -> bool {
    let mark = line.bytes().take(4).take_while(u8::is_ascii_alphanumeric).count();
    match line.as_bytes() {
        [b'|' | b':', behind, ..] => behind.is_ascii_whitespace() || *behind == b'>',
        [b'|' | b':'] => true,
        bytes => bytes.get(mark) == Some(&b'>'),
    }
}

/// Returns true if the line is an author and a time between `>>>` and `>>>`. All lines below it count as quoted, so one
/// sign is not enough. The line must have either an address and enough numbers for a date, or both a date and a time in
/// digits.
fn is_enclosed(line: &str) -> bool {
    let inner = line.strip_prefix(">>>").and_then(|line| line.strip_suffix(">>>")).unwrap_or_default();
    let others = || inner.split_ascii_whitespace().filter(|word| !word.contains('@'));
    // The digits of an address are not a date.
    let has_date = others().map(numbers).sum::<usize>() >= DATE_NUMBERS_MIN;
    has_address(inner) && has_date || others().any(is_date) && others().any(is_time)
}

/// Returns true if a word is a date in digits, such as `11/2/2026` or `2.11.26,`. Telephone numbers are not.
fn is_date(word: &str) -> bool {
    let word = without_punctuation(word);
    ['/', '.', '-'].into_iter().any(|sign| {
        let numbers: Vec<Option<usize>> = word.split(sign).map(digits).collect();
        matches!(numbers[..], [Some(1 | 2), Some(1 | 2), Some(2 | 4)] | [Some(4), Some(1 | 2), Some(1 | 2)])
    })
}

/// Returns true if a word is a time, such as `10:04` or `10:04:33`. Letters such as AM or PM may follow.
fn is_time(word: &str) -> bool {
    let word = without_punctuation(word).trim_end_matches(|char: char| char.is_alphabetic());
    let numbers: Vec<Option<usize>> = word.split(':').map(digits).collect();
    matches!(numbers[..], [Some(1 | 2), Some(2)] | [Some(1 | 2), Some(2), Some(2)])
}

/// Returns the number of digits if a text has only digits.
fn digits(text: &str) -> Option<usize> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then_some(text.len())
}

fn without_punctuation(word: &str) -> &str {
    word.trim_matches(|char: char| char.is_ascii_punctuation())
}

/// Strips the asterisks and underscores of bold text.
fn without_emphasis(line: &str) -> &str {
    line.trim_matches(|char: char| char.is_whitespace() || matches!(char, '*' | '_'))
}

/// Returns the field that a line begins with, and whether the line ends after the field name.
fn field(line: &str) -> Option<(CopiedField, bool)> {
    let line = without_emphasis(line);
    let head = line.get(..line.floor_char_boundary(NAME_BYTES_MAX.min(line.len())))?;
    let (name, _) = head.split_once(':')?;
    let field = *TABLES.fields.get(without_emphasis(name))?;
    Some((field, line.len() == name.len() + 1))
}

/// Returns the mark of a forward, if the line is such a mark.
fn mark(line: &str) -> Option<ForwardMark> {
    let is_sign =
        |char: char| matches!(char, '-' | '_' | '=' | '*' | '~' | '#' | '+' | '.' | ' ' | '\t' | '<' | '>' | ':');
    let inner = line.trim_matches(is_sign);
    if inner.len() > MARK_BYTES_MAX || !inner.contains(' ') && inner.is_ascii() && inner.len() < 8 {
        return None;
    }
    let signs = line.bytes().take_while(|byte| matches!(byte, b'-' | b'_' | b'=' | b'*' | b'~' | b'#' | b'+')).count();
    let has = |test: &dyn Fn(&str) -> bool| TABLES.marks.iter().any(|mark| test(mark));
    if signs >= 2 {
        has(&|mark| inner.starts_with(mark)).then_some(ForwardMark::Fenced)
    } else {
        has(&|mark| inner == mark).then_some(ForwardMark::Bare)
    }
}

/// If a forwarded message begins at the first line, returns the number of lines that introduce it. These are the mark
/// that the mail program sets and the header that it copies. Everything after them is forwarded.
pub(super) fn original(signs: &[Signs]) -> Option<usize> {
    let first = signs.first()?;
    if first.mark.is_none() && first.field.is_none() {
        return None;
    }
    let from = if first.mark.is_some() { 1 + blanks(signs.get(1..)?) } else { 0 };
    let header = CopiedHeader::at(signs.get(from..)?);
    let is_original = match first.mark {
        None => header.is_complete(),
        Some(ForwardMark::Bare) => header.count() >= 2,
        Some(ForwardMark::Fenced) => header.count() >= 1 || has_field_below(signs.get(from..)?),
    };
    is_original.then_some(from + header.length)
}

/// Returns true if one of the next few lines is a field. The forwarding program may have written other lines above the
/// fields.
fn has_field_below(signs: &[Signs]) -> bool {
    let has_field = |signs: &Signs| signs.field.is_some_and(|field| field != CopiedField::NUMBER);
    signs.iter().filter(|signs| !signs.is_blank).take(HEADER_OTHERS_MAX * 2).any(has_field)
}

fn blanks(signs: &[Signs]) -> usize {
    signs.iter().take_while(|signs| signs.is_blank).take(HEADER_LINES_MAX).count()
}

/// The fields of a copied header.
#[derive(Clone, Copy, Debug, Default)]
struct CopiedHeader {
    fields: u32,
    length: usize,
}

impl CopiedHeader {
    fn at(signs: &[Signs]) -> Self {
        let mut header = Self::default();
        let (mut others, mut is_bare) = (0, false);
        for (at, line) in signs.iter().take(HEADER_LINES_MAX).enumerate() {
            if let Some(field) = line.field {
                // If a complete header is followed by one of its fields again, that field begins the header of another
                // message: the next message of a digest, or a reply to this message.
                if header.is_complete() && header.has(field) && header.has(CopiedField::DATE) {
                    break;
                }
                header.fields |= field.0;
                header.length = at + 1;
                (others, is_bare) = (0, line.is_bare_field);
            } else if header.fields == 0 {
                break;
            } else if !line.is_blank {
                // The value of a field may be in the line below its name, as in table cells.
                if std::mem::take(&mut is_bare) {
                    header.length = at + 1;
                }
                others += 1;
                if others > HEADER_OTHERS_MAX || line.is_quoted || line.mark.is_some() {
                    break;
                }
            }
        }
        header
    }

    const fn has(self, field: CopiedField) -> bool {
        self.fields & field.0 != 0
    }

    const fn count(self) -> u32 {
        self.fields.count_ones()
    }

    /// Returns true if the header has an author, a subject, and either a date or the number of a message in a digest.
    /// All mail programs copy these fields, and few other texts have them.
    const fn is_complete(self) -> bool {
        self.has(CopiedField::FROM)
            && self.has(CopiedField::SUBJECT)
            && (self.has(CopiedField::DATE) || self.has(CopiedField::NUMBER))
    }
}

/// Returns the number of lines at the end of `lines` that are an attribution, such as `On a day, someone wrote:`. The
/// attribution may be wrapped. `is_followed` is true if a quoted line follows.
pub(super) fn attribution(lines: &[&str], is_followed: bool) -> Option<usize> {
    let longest = lines.len().min(ATTRIBUTION_LINES_MAX);
    let wrapped = (2..=longest).rev().find(|&count| {
        let lines = lines.get(lines.len() - count..).unwrap_or_default();
        let is_start = lines.first().is_some_and(|line| begins_attribution(line));
        is_start && is_attribution(&lines.join(" "), is_followed)
    });
    wrapped.or_else(|| lines.last().filter(|line| is_attribution(line, is_followed)).map(|_| 1))
}

/// Returns true if a wrapped attribution may begin with this line. Such a line contains a date or an address, and does
/// not end a sentence.
fn begins_attribution(line: &str) -> bool {
    let line = without_emphasis(line);
    let ends = line.ends_with(['!', '?', ':', ';']) || line.is_empty();
    let first = line.split(|char: char| !char.is_alphanumeric()).next().unwrap_or_default();
    let numbers = numbers(line);
    let is_opened = numbers > 0 && TABLES.openers.iter().any(|opener| first == opener);
    !ends && line.len() < ATTRIBUTION_BYTES_MAX && (is_opened || numbers >= DATE_NUMBERS_MIN || has_address(line))
}

fn is_attribution(text: &str, is_followed: bool) -> bool {
    let Some(found) = AttributionSigns::of(text) else { return false };
    let has_date = found.has_date || (found.has_number && found.is_opened);
    let is_full = found.has_verb && (found.has_address || (has_date && (is_followed || found.ends_in_verb)));
    let is_in_another_language = has_date && found.has_address && is_followed;
    let is_bare = is_followed && found.is_short && found.ends_in_verb;
    is_full || is_in_another_language || is_bare || found.is_complete()
}

/// Returns true if an attribution is so complete that the lines below it are quoted even if they have no quote prefix.
/// Some mail programs write no prefixes.
pub(super) fn is_complete_attribution(lines: &[&str]) -> bool {
    AttributionSigns::of(&lines.join(" ")).is_some_and(|found| found.is_complete())
}

/// The signs of an attribution in a text that ends in a colon.
struct AttributionSigns {
    has_verb: bool,
    ends_in_verb: bool,
    has_address: bool,
    /// True if there are enough numbers for a date.
    has_date: bool,
    has_number: bool,
    /// True if the first word is a usual first word of attributions.
    is_opened: bool,
    /// True if the text is short enough for an attribution without date and address.
    is_short: bool,
}

impl AttributionSigns {
    fn of(text: &str) -> Option<Self> {
        let text = without_emphasis(text).strip_suffix(':').filter(|text| text.len() < ATTRIBUTION_BYTES_MAX)?;
        let words = || text.split(|char: char| !char.is_alphanumeric()).filter(|word| !word.is_empty());
        let is_verb = |word: &str| TABLES.verbs.iter().any(|verb| word == verb);
        let first = words().next().unwrap_or_default();
        let numbers = numbers(text);
        Some(Self {
            has_verb: words().any(is_verb),
            // A feminine ending may follow in brackets, as in `napisał(a)`.
            ends_in_verb: words().rev_two().any(is_verb),
            has_address: has_address(text),
            has_date: numbers >= DATE_NUMBERS_MIN,
            has_number: numbers > 0,
            is_opened: TABLES.openers.iter().any(|opener| first == opener),
            is_short: text.len() < BARE_ATTRIBUTION_BYTES_MAX,
        })
    }

    /// Returns true if there is a verb, a date with a time or year, and either an address or the usual order of words.
    const fn is_complete(&self) -> bool {
        self.has_verb && self.has_date && (self.has_address || self.is_opened || self.ends_in_verb)
    }
}

/// Access to the last two words.
trait LastTwo<'t>: Iterator<Item = &'t str> + Sized {
    fn rev_two(self) -> impl Iterator<Item = &'t str> {
        let (mut last, mut before) = (None, None);
        for word in self {
            before = last.replace(word);
        }
        last.into_iter().chain(before)
    }
}

impl<'t, I: Iterator<Item = &'t str>> LastTwo<'t> for I {}

/// Counts the numbers in a text, up to [`DATE_NUMBERS_MIN`].
fn numbers(text: &str) -> usize {
    let runs = text.split(|char: char| !char.is_ascii_digit()).filter(|run| !run.is_empty());
    runs.take(DATE_NUMBERS_MIN).count()
}

fn has_address(text: &str) -> bool {
    let (name, host) = text.split_once('@').unwrap_or_default();
    name.ends_with(|char: char| char.is_alphanumeric() || matches!(char, '.' | '-' | '_' | '+'))
        && host.starts_with(char::is_alphanumeric)
}

/// Returns the number of lines at the start of `text` that introduce a quotation. `text` is a block that a mail program
/// marked as quoted, and `above` is the text directly above it. The number is 0 if the introduction is in `above`.
/// Returns `None` if there is no introduction. Neither text needs to be folded.
pub(crate) fn introduction(above: &str, text: &str) -> Option<usize> {
    let last = lines_at_end(above);
    let last: Vec<&str> = last.iter().map(String::as_str).collect();
    if attribution(&last, true).is_some() {
        return Some(0);
    }
    let text = text.get(..text.floor_char_boundary(INTRODUCTION_BYTES_MAX.min(text.len()))).unwrap_or_default();
    let folded: Vec<String> = text.split('\n').take(HEADER_LINES_MAX).map(fold::folded).collect();
    let first = folded.iter().position(|line| !line.trim().is_empty())?;
    let lines: Vec<&str> =
        folded.iter().skip(first).map(String::as_str).take_while(|line| !line.trim().is_empty()).collect();
    for count in 1..=lines.len().min(ATTRIBUTION_LINES_MAX) {
        if attribution(lines.get(..count)?, true) == Some(count) {
            return Some(first + count);
        }
    }
    let signs: Vec<Signs> = folded.iter().skip(first).map(|line| Signs::of(line)).collect();
    original(&signs).map(|length| first + length)
}

/// Maximum number of bytes of a quotation that are searched for its introduction.
const INTRODUCTION_BYTES_MAX: usize = 2_000;
/// Maximum number of bytes above a quotation that are searched for its introduction.
const ABOVE_BYTES_MAX: usize = 600;

/// Returns the lines after the last blank line of a text, folded.
fn lines_at_end(text: &str) -> Vec<String> {
    let start = text.ceil_char_boundary(text.len().saturating_sub(ABOVE_BYTES_MAX));
    let end = text.get(start..).unwrap_or_default().trim_end();
    let is_text = |line: &&str| !line.trim().is_empty();
    let mut lines: Vec<String> =
        end.rsplit('\n').take_while(is_text).take(ATTRIBUTION_LINES_MAX).map(fold::folded).collect();
    lines.reverse();
    lines
}
