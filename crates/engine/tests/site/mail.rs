//! Messages as written by mail programs: RFC 5322, MIME, plain text or HTML, with pictures and files.

use bruit_engine::time::Time;
use rand::RngExt as _;
use rand::rngs::ChaCha8Rng;

/// Column at which plain text is wrapped.
const COLUMNS: usize = 72;
/// Bytes of content per line of Base64.
const BASE64_LINE: usize = 57;

/// Placeholder for the name of the recipient.
pub(crate) const NAME: &str = "{name}";
/// Placeholder for a number unique to each recipient.
pub(crate) const REFERENCE: &str = "{reference}";

/// A message before it is encoded.
#[derive(Clone)]
pub(crate) struct Mail {
    pub(crate) from: String,
    pub(crate) subject: String,
    pub(crate) form: Form,
    pub(crate) blocks: Vec<Block>,
    pub(crate) files: Vec<File>,
    /// A text part, as appended by providers and mailing lists.
    pub(crate) appended: Option<String>,
}

/// The form of the text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Plain,
    Html,
    Both,
}

/// A block of the text.
#[derive(Clone)]
pub(crate) enum Block {
    /// All inline pictures of the message: a logo and a tracking pixel.
    Logo,
    Heading(String),
    Paragraph(String),
    Lines(Vec<String>),
    Link {
        text: String,
        address: String,
    },
    Signature(Vec<String>),
    Quote(Quote),
}

/// A quoted message.
#[derive(Clone)]
pub(crate) struct Quote {
    pub(crate) style: QuoteStyle,
    pub(crate) from: String,
    pub(crate) subject: String,
    pub(crate) date: Time,
    pub(crate) text: Vec<String>,
}

/// The quoting style of a mail program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuoteStyle {
    /// A line `On …, … wrote:` and quote marks. In HTML, the form used by Gmail.
    Marks,
    /// `-----Original Message-----` and a header.
    Original,
    /// Only a header, as in Outlook.
    Header,
}

/// An attached or inline file.
#[derive(Clone)]
pub(crate) struct File {
    pub(crate) name: String,
    pub(crate) media: &'static str,
    pub(crate) is_inline: bool,
    pub(crate) bytes: Vec<u8>,
}

impl File {
    /// Creates a file of random content with the magic bytes of its type.
    pub(crate) fn new(name: &str, media: &'static str, length: usize, random: &mut ChaCha8Rng) -> Self {
        let start: &[u8] = match media {
            "image/png" => b"\x89PNG\r\n\x1a\n",
            "image/jpeg" => b"\xff\xd8\xff\xe0",
            "image/gif" => b"GIF89a",
            "application/pdf" => b"%PDF-1.4\n",
            _ => b"",
        };
        let rest = (start.len()..length).map(|_| random.random::<u8>());
        let bytes = start.iter().copied().chain(rest).collect();
        Self { name: name.to_owned(), media, is_inline: false, bytes }
    }

    pub(crate) fn inline(self) -> Self {
        Self { is_inline: true, ..self }
    }
}

impl Mail {
    /// Returns the mail with `change` applied to all of its text except quotations.
    pub(crate) fn map_text(&self, mut change: impl FnMut(&str) -> String) -> Self {
        let mut lines = |lines: &[String]| lines.iter().map(|line| change(line)).collect::<Vec<_>>();
        let mut one = |text: &String| lines(std::slice::from_ref(text)).concat();
        let blocks = self.blocks.iter().map(|block| match block {
            Block::Logo => Block::Logo,
            Block::Heading(text) => Block::Heading(one(text)),
            Block::Paragraph(text) => Block::Paragraph(one(text)),
            Block::Lines(several) => Block::Lines(several.iter().map(&mut one).collect()),
            Block::Link { text, address } => Block::Link { text: one(text), address: one(address) },
            Block::Signature(several) => Block::Signature(several.iter().map(&mut one).collect()),
            Block::Quote(quote) => Block::Quote(quote.clone()),
        });
        Self { blocks: blocks.collect(), ..self.clone() }
    }

    /// Replaces the placeholders for a recipient.
    pub(crate) fn filled(&self, name: &str, random: &mut ChaCha8Rng) -> Self {
        let reference = random.random_range(10_000_000..100_000_000_u64).to_string();
        self.map_text(|text| text.replace(NAME, name).replace(REFERENCE, &reference))
    }

    /// Returns the text with its quotations, as a reply quotes it.
    pub(crate) fn text(&self) -> Vec<String> {
        self.blocks.iter().flat_map(plain_lines).collect()
    }

    /// Encodes the message for one recipient.
    pub(crate) fn write(&self, to: &str, at: Time, random: &mut ChaCha8Rng) -> Vec<u8> {
        let id: u64 = random.random();
        let (from, subject) = (&self.from, &self.subject);
        let host = from.rsplit('@').next().unwrap_or_default().trim_end_matches('>');
        let header = format!(
            "Received: from mail.{host} by mx.site.example with ESMTP id {id:x}; {date}\r\n\
            From: {from}\r\nTo: {to}\r\nSubject: {subject}\r\nDate: {date}\r\n\
            Message-ID: <{id:016x}@{host}>\r\nMIME-Version: 1.0\r\n",
            date = rfc5322(at)
        );
        let mut part = self.text_part(id);
        let (inline, attached): (Vec<_>, Vec<_>) = self.files.iter().partition(|file| file.is_inline);
        if !inline.is_empty() {
            let files = inline.iter().map(|file| file_part(file));
            part = multipart("related", id ^ 1, std::iter::once(part).chain(files));
        }
        if !attached.is_empty() || self.appended.is_some() {
            let files = attached.iter().map(|file| file_part(file));
            let appended = self.appended.iter().map(|text| text_part("plain", &wrapped(text)));
            part = multipart("mixed", id ^ 2, std::iter::once(part).chain(files).chain(appended));
        }
        [header, part].concat().into_bytes()
    }

    fn text_part(&self, id: u64) -> String {
        let plain = || text_part("plain", &self.plain());
        let html = || text_part("html", &self.html());
        match self.form {
            Form::Plain => plain(),
            Form::Html => html(),
            Form::Both => multipart("alternative", id, [plain(), html()].into_iter()),
        }
    }

    fn plain(&self) -> String {
        let blocks = self.blocks.iter().filter(|block| !matches!(block, Block::Logo));
        blocks.map(|block| plain_lines(block).join("\r\n")).collect::<Vec<_>>().join("\r\n\r\n") + "\r\n"
    }

    fn html(&self) -> String {
        let inline = || self.files.iter().filter(|file| file.is_inline);
        let block = |block: &Block| match block {
            Block::Logo => inline().map(|file| format!("<img src=\"cid:{}\" alt=\"\">", file.name)).collect(),
            Block::Heading(text) => format!("<h2>{text}</h2>"),
            Block::Paragraph(text) => format!("<p>{text}</p>"),
            Block::Lines(lines) => format!("<p>{}</p>", lines.join("<br>\r\n")),
            Block::Link { text, address } => format!("<p><a href=\"{address}\">{text}</a></p>"),
            Block::Signature(lines) => format!("<p>-- <br>\r\n{}</p>", lines.join("<br>\r\n")),
            Block::Quote(quote) => quote.html(),
        };
        let blocks = self.blocks.iter().map(block).collect::<Vec<_>>().join("\r\n");
        format!("<html><body>\r\n{blocks}\r\n</body></html>\r\n")
    }
}

impl Quote {
    fn header(&self) -> [String; 4] {
        let Self { from, subject, date, .. } = self;
        [format!("From: {from}"), format!("Sent: {date}"), "To: list of people".into(), format!("Subject: {subject}")]
    }

    fn plain(&self) -> Vec<String> {
        let mut lines = match self.style {
            QuoteStyle::Marks => vec![format!("On {} {} wrote:", self.date, self.from)],
            QuoteStyle::Original => vec!["-----Original Message-----".to_owned()],
            QuoteStyle::Header => Vec::new(),
        };
        if self.style != QuoteStyle::Marks {
            lines.extend(self.header());
            lines.push(String::new());
        }
        let mark = if self.style == QuoteStyle::Marks { "> " } else { "" };
        lines.extend(self.text.iter().map(|line| [mark, line].concat()));
        lines
    }

    fn html(&self) -> String {
        let text: String = self.text.iter().map(|line| format!("{}<br>\r\n", escaped(line))).collect();
        let header = self.header().map(|line| escaped(&line)).join("<br>\r\n");
        match self.style {
            QuoteStyle::Marks => format!(
                "<div class=\"gmail_quote\"><div class=\"gmail_attr\">On {} {} wrote:<br></div>\
                <blockquote class=\"gmail_quote\">{text}</blockquote></div>",
                self.date,
                escaped(&self.from)
            ),
            QuoteStyle::Original => {
                format!("<p>-----Original Message-----<br>\r\n{header}</p><p>{text}</p>")
            }
            QuoteStyle::Header => format!("<hr><p>{header}</p><p>{text}</p>"),
        }
    }
}

/// Escapes text for HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn plain_lines(block: &Block) -> Vec<String> {
    let lines = |text: &str| wrapped(text).split("\r\n").map(str::to_owned).collect::<Vec<_>>();
    match block {
        Block::Logo => Vec::new(),
        Block::Heading(text) => vec![text.to_uppercase()],
        Block::Paragraph(text) => lines(text),
        Block::Lines(lines) => lines.clone(),
        Block::Link { text, address } => vec![format!("{text}: {address}")],
        Block::Signature(lines) => std::iter::once("-- ".to_owned()).chain(lines.iter().cloned()).collect(),
        Block::Quote(quote) => quote.plain(),
    }
}

/// Formats a date for the `Date` field.
fn rfc5322(at: Time) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (weekday, date, second) = (DAYS[(at.day() % 7) as usize], at.date(), at.0 % Time::DAY);
    let month: usize = date[5..7].parse().expect("a month");
    let (hour, minute, second) = (second / Time::HOUR, second / Time::MINUTE % 60, second % 60);
    format!("{weekday}, {} {} {} {hour:02}:{minute:02}:{second:02} +0000", &date[8..], MONTHS[month - 1], &date[..4])
}

fn wrapped(text: &str) -> String {
    let mut lines = String::with_capacity(text.len() + text.len() / 32);
    let mut column = 0;
    for word in text.split(' ') {
        if column + word.len() > COLUMNS {
            lines += "\r\n";
            column = 0;
        } else if column > 0 {
            lines += " ";
        }
        lines += word;
        column += word.len() + 1;
    }
    lines
}

fn text_part(subtype: &str, text: &str) -> String {
    format!("Content-Type: text/{subtype}; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n{text}")
}

fn file_part(file: &File) -> String {
    let File { name, media, is_inline, bytes } = file;
    let disposition = if *is_inline { "inline" } else { "attachment" };
    format!(
        "Content-Type: {media}; name=\"{name}\"\r\nContent-Transfer-Encoding: base64\r\nContent-ID: <{name}>\r\n\
        Content-Disposition: {disposition}; filename=\"{name}\"\r\n\r\n{}",
        base64(bytes)
    )
}

fn multipart(subtype: &str, id: u64, parts: impl Iterator<Item = String>) -> String {
    let boundary = format!("=_{id:016x}");
    let parts: String = parts.map(|part| format!("--{boundary}\r\n{part}\r\n")).collect();
    format!("Content-Type: multipart/{subtype}; boundary=\"{boundary}\"\r\n\r\n{parts}--{boundary}--\r\n")
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len() * 3 / 2);
    for line in bytes.chunks(BASE64_LINE) {
        for three in line.chunks(3) {
            let number = (0..3).fold(0, |number, at| number << 8 | u32::from(three.get(at).copied().unwrap_or(0)));
            for digit in 0..4 {
                let value = number >> (18 - 6 * digit) & 63;
                text.push(if digit > three.len() { '=' } else { char::from(DIGITS[value as usize]) });
            }
        }
        text += "\r\n";
    }
    text
}
