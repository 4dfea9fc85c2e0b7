//! The composition of a message: its words, its files, and the piece that each signature covers. The verdict depends on
//! this composition.
//!
//! A single part proves little about a message, because spam copies logos, footers and forms from good mail. So each
//! signature states the [`Piece`] that it covers, and the [`Outline`] determines the main content of the message
//! ([`Main`]).

use crate::attachment::is_file;
use crate::bruit::{Features, WordCounts};
use crate::message::{MediaType, Message, Part};
use crate::reading::Reading;

/// Minimum number of words of a text that can identify a message. Shorter texts occur everywhere: "see attachment",
/// "thank you".
pub const TEXT_WORDS_MIN: u32 = 8;

/// Minimum number of words of an identifying text in a message with a file or picture. Such a message often has an
/// introduction of one or two sentences.
pub const TEXT_WORDS_BESIDE_FILE_MIN: u32 = 20;

/// Minimum number of words of an identifying text around a visible link.
const TEXT_WORDS_BESIDE_LINK_MIN: u32 = 3;

/// Minimum size of a file in bytes. Smaller files are accessories.
const FILE_BYTES_MIN: usize = 256;

/// The piece of a message that a signature covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Piece {
    /// The whole message, or an unknown piece.
    #[default]
    Message,
    /// The text part with the main content.
    MainText,
    /// Another text part, such as a footer.
    OtherText,
    /// A picture.
    Picture,
    /// A business card, invitation, key or signature, a text that a mail server turned into an attachment, or a file of
    /// a few bytes.
    Accessory,
    /// Any other file.
    File,
    /// A file inside an attached message.
    Forwarded,
}

/// The composition of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// Number of words, without greetings, signatures and boilerplate.
    pub words: u32,
    /// Number of the sender's own words, which are neither quoted nor forwarded. They are included in `words`.
    pub own_words: u32,
    /// Number of files of the kind [`Piece::File`].
    pub files: u32,
    /// Number of pictures.
    pub pictures: u32,
    /// Number of links.
    pub links: u32,
}

/// The main content of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Main {
    /// The message's own text.
    Text,
    /// The files of the message, if there is hardly any text and no link.
    Files,
    /// The link targets, if there are links and hardly any text. Files next to links may be copied from good mail.
    Links,
    /// No main content, because all pieces may occur in other messages as well.
    Nothing,
}

impl Outline {
    /// Outlines a message from its parts, features and word counts.
    #[must_use]
    pub fn of(message: &Message<'_>, features: &Features, words: WordCounts) -> Self {
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let parts = message.parts();
        let files =
            parts.iter().filter(|part| is_file(part)).map(|part| Piece::of_file(part, &part.head(FILE_BYTES_MIN)));
        let files: Vec<Piece> = files.collect();
        let count_of = |piece: Piece| count(files.iter().filter(|&&file| file == piece).count());
        Self {
            words: words.all,
            own_words: words.own,
            files: count_of(Piece::File),
            pictures: count_of(Piece::Picture),
            links: count(features.links.len()),
        }
    }

    /// Returns the main content of the message.
    #[must_use]
    pub const fn main(&self) -> Main {
        if self.own_words >= self.words_needed() {
            Main::Text
        } else if self.files > 0 && self.links == 0 {
            Main::Files
        } else if self.links > 0 {
            Main::Links
        } else {
            Main::Nothing
        }
    }

    /// Returns true if there is enough text to recognise a message by an exact match.
    #[must_use]
    pub const fn is_identified_by_text(&self) -> bool {
        self.words >= self.words_needed()
    }

    const fn words_needed(&self) -> u32 {
        if self.files > 0 || self.pictures > 0 { TEXT_WORDS_BESIDE_FILE_MIN } else { TEXT_WORDS_MIN }
    }
}

impl Piece {
    /// All pieces.
    pub const ALL: [Self; 7] =
        [Self::Message, Self::MainText, Self::OtherText, Self::Picture, Self::Accessory, Self::File, Self::Forwarded];

    /// Returns the name in requests and answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::MainText => "main_text",
            Self::OtherText => "other_text",
            Self::Picture => "picture",
            Self::Accessory => "accessory",
            Self::File => "file",
            Self::Forwarded => "forwarded",
        }
    }

    /// Returns the piece with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|piece| piece.name() == name)
    }

    /// Returns the kind of a file, determined by its header, its first bytes and its file extension. If they contradict
    /// each other, the file does not count as a picture, so that spam cannot label its payload as a logo.
    pub(crate) fn of_file(part: &Part<'_>, content: &[u8]) -> Self {
        // The outline and the signature must agree on the kind. The outline is computed from the first bytes only, so
        // the signature must not use more.
        let content = content.get(..FILE_BYTES_MIN).unwrap_or(content);
        let extension = part.media.extension.as_deref();
        let is_opened_as = |extensions: &[&str]| extension.is_some_and(|extension| extensions.contains(&extension));
        let is_picture = part.media.is("image", None) && (is_shown_drawing(&part.media) || !is_other_file(content));
        let is_picture = is_picture || is_picture_by_content(content);
        if part.is_forwarded {
            Self::Forwarded
        } else if is_picture && !is_opened_as(OTHER_EXTENSIONS) {
            Self::Picture
        } else if content.len() < FILE_BYTES_MIN
            || is_footer(&part.media)
            || (is_accessory(&part.media, content)
                && extension.is_none_or(|extension| ACCESSORY_EXTENSIONS.contains(&extension)))
        {
            Self::Accessory
        } else {
            Self::File
        }
    }
}

/// Extensions of files that no program opens as pictures, whatever they contain. A list of picture extensions would not
/// work, because picture names vary too much: `image001.jpg@01D9ABCD.12345`, `logo.png?v=2`.
const OTHER_EXTENSIONS: &[&str] = &[
    "pdf", "doc", "docx", "docm", "dot", "dotm", "xls", "xlsx", "xlsm", "xlsb", "ppt", "pptx", "pptm", "rtf", "odt",
    "ods", "odp", "one", "csv", "txt", "xml", "htm", "html", "shtml", "xhtml", "xht", "mht", "mhtml", "eml", "msg",
    "zip", "rar", "7z", "gz", "tgz", "tar", "bz2", "xz", "cab", "ace", "arj", "iso", "img", "vhd", "vhdx", "exe",
    "scr", "com", "pif", "bat", "cmd", "msi", "dll", "cpl", "jar", "apk", "js", "jse", "vbs", "vbe", "wsf", "wsh",
    "hta", "ps1", "lnk", "url", "chm", "reg",
];
const ACCESSORY_EXTENSIONS: &[&str] =
    &["vcf", "vcard", "ics", "ical", "asc", "sig", "pgp", "gpg", "p7s", "p7m", "key", "ttf", "otf", "woff", "woff2"];

/// Returns true if a file starts with the magic bytes of a picture.
fn is_picture_by_content(content: &[u8]) -> bool {
    const STARTS: [&[u8]; 5] = [b"\x89PNG\r\n\x1a\n", b"GIF87a", b"GIF89a", b"\xff\xd8\xff", b"II*\0"];
    // The two letters at the start of a bitmap are not sufficient. Its reserved bytes must be zero as well.
    let is_bitmap = content.starts_with(b"BM") && content.get(6..10) == Some(&[0; 4]);
    let is_webp = content.starts_with(b"RIFF") && content.get(8..12) == Some(b"WEBP");
    STARTS.iter().any(|start| content.starts_with(start)) || is_bitmap || is_webp
}

/// Returns true if the first bytes of a file are those of a document, archive, program or HTML page.
fn is_other_file(content: &[u8]) -> bool {
    const STARTS: [&[u8]; 8] =
        [b"%PDF", b"PK\x03\x04", b"MZ", b"\xd0\xcf\x11\xe0", b"{\\rtf", b"Rar!", b"7z\xbc\xaf", b"\x1f\x8b"];
    STARTS.iter().any(|start| content.starts_with(start)) || content.trim_ascii_start().starts_with(b"<")
}

/// Returns true if a file is a vector drawing displayed within the message, where it cannot run scripts or display a
/// page. A drawing that the recipient has to open can do both.
fn is_shown_drawing(media: &MediaType) -> bool {
    media.subtype.starts_with("svg") && !media.is_attachment
}

/// Returns true if a file is a text to which a mail server gave a name. Such texts are mostly footers, which servers and
/// mailing lists add to every message.
fn is_footer(media: &MediaType) -> bool {
    media.is("text", Some("plain")) && media.is_name_invented && media.extension.as_deref() == Some("txt")
}

/// Returns true if a file is a business card, an invitation, a key, a signature or a font.
fn is_accessory(media: &MediaType, content: &[u8]) -> bool {
    const STARTS: [&[u8]; 3] = [b"BEGIN:VCARD", b"BEGIN:VCALENDAR", b"-----BEGIN PGP"];
    let is_named = matches!(
        media.subtype.as_str(),
        "vcard"
            | "x-vcard"
            | "directory"
            | "calendar"
            | "ics"
            | "pgp-signature"
            | "pgp-keys"
            | "pgp-encrypted"
            | "pkcs7-signature"
            | "x-pkcs7-signature"
    );
    // Many gateways relabel the signature of a signed message.
    let is_named =
        is_named || media.is("application", Some("octet-stream")) && media.extension.as_deref() == Some("p7s");
    let begins = STARTS.iter().any(|start| content.trim_ascii_start().starts_with(start));
    begins || ((is_named || media.is("font", None)) && !is_other_file(content))
}

/// The outline of a message that is given as a list of parts, as Razor clients report it. A part consists of header
/// lines, a blank line and a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartsOutline {
    /// Kind of piece of each part.
    pub pieces: Vec<Piece>,
    /// Outline of all parts together.
    pub outline: Outline,
}

impl PartsOutline {
    /// Outlines parts. The main text is the first text with enough words. If an HTML version directly follows a
    /// plain-text version, the HTML version is used instead.
    #[must_use]
    pub fn of<'p>(parts: impl Iterator<Item = &'p [u8]>) -> Self {
        let mut found = Self::default();
        let mut main: Option<usize> = None;
        let mut is_behind_plain = false;
        let mut links = 0;
        for raw in parts {
            let (piece, outline, is_html) = part(raw);
            found.pieces.push(piece);
            links = links.max(outline.links);
            found.outline.files += u32::from(piece == Piece::File);
            found.outline.pictures += u32::from(piece == Piece::Picture);
            if piece != Piece::OtherText {
                is_behind_plain = false;
                continue;
            }
            let at = found.pieces.len() - 1;
            let replaces = is_html && is_behind_plain && main.is_some_and(|main| main + 1 == at);
            // The signature of a short plain text covers the target of its link. The signature of an HTML page does
            // not, because the page's text does not contain the target.
            let shows_link = !is_html && outline.links > 0 && outline.own_words >= TEXT_WORDS_BESIDE_LINK_MIN;
            let is_enough = outline.own_words >= TEXT_WORDS_MIN || shows_link;
            if is_enough && (main.is_none() || replaces) {
                main = Some(at);
                found.outline = Outline { files: found.outline.files, pictures: found.outline.pictures, ..outline };
            }
            is_behind_plain = !is_html;
        }
        if let Some(main) = main.and_then(|main| found.pieces.get_mut(main)) {
            *main = Piece::MainText;
        }
        // A link in any text, even in a short one, means that the files are not the main content.
        found.outline.links = links;
        found
    }
}

/// Returns the kind of piece, the outline of the part, and whether the part is an HTML page.
fn part(raw: &[u8]) -> (Piece, Outline, bool) {
    let message = Message::read(raw);
    let parts = message.parts();
    let Some(part) = parts.first() else { return (Piece::Accessory, Outline::default(), false) };
    if is_file(part) {
        return (Piece::of_file(part, &part.head(FILE_BYTES_MIN)), Outline::default(), false);
    }
    let (features, words) = Features::with_words(&Reading::of(&message));
    (Piece::OtherText, Outline::of(&message, &features, words), part.media.is("text", Some("html")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Context, Scheme, Wanted, sign};

    const WORDS: &str = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen \
        seventeen eighteen nineteen twenty";

    fn part(header: &str, body: &str) -> String {
        format!("{header}\n\n{body}\n")
    }

    fn outline_of(parts: &[String]) -> Outline {
        let body: String = parts.iter().map(|part| format!("--b\n{part}")).collect();
        let message = format!("Content-Type: multipart/mixed; boundary=b\n\n{body}--b--\n");
        sign(message.as_bytes(), &Wanted { bruit: true, ..Wanted::NONE }, &Context::default()).outline.unwrap()
    }

    fn words(count: usize) -> String {
        WORDS.split(' ').take(count).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_main_thing_is_the_text_if_there_is_enough_of_it() {
        let text = |count: usize| part("Content-Type: text/plain", &words(count));
        let file = part("Content-Type: application/pdf", &"%PDF-1.4 ".repeat(100));
        let picture = part("Content-Type: image/png", &"x".repeat(500));
        let main = |parts: &[String]| outline_of(parts).main();
        assert_eq!(main(&[text(8)]), Main::Text);
        assert_eq!(main(&[text(7)]), Main::Nothing);
        assert_eq!(main(&[text(20), file.clone()]), Main::Text);
        assert_eq!(main(&[text(19), file]), Main::Files);
        assert_eq!(main(&[text(20), picture.clone()]), Main::Text);
        assert_eq!(main(&[text(19), picture]), Main::Nothing, "a picture is not a payload");
        assert_eq!(main(&[part("Content-Type: text/plain", "see http://shop.example/offer")]), Main::Links);
    }

    #[test]
    fn a_short_reply_above_a_thread_is_told_by_all_of_it() {
        let quoted = format!("Fine.\n\nOn Monday Jane Smith wrote:\n> {WORDS}\n");
        let outline = outline_of(&[part("Content-Type: text/plain", &quoted)]);
        assert_eq!((outline.main(), outline.is_identified_by_text(), outline.own_words), (Main::Nothing, true, 1));
    }

    fn kind_of(media: &str, content: &str) -> Piece {
        let message = part(&format!("Content-Type: {media}"), content);
        Piece::of_file(Message::read(message.as_bytes()).parts()[0], content.as_bytes())
    }

    #[test]
    fn files_by_what_they_are() {
        let long = "x".repeat(FILE_BYTES_MIN);
        assert_eq!(kind_of("application/pdf", &long), Piece::File);
        assert_eq!(kind_of("application/pdf", &long[1..]), Piece::Accessory, "almost empty");
        assert_eq!(kind_of("application/octet-stream; name=smime.p7s", &long), Piece::Accessory);
        assert_eq!(kind_of("application/octet-stream; name=smime.p7s", &format!("MZ{long}")), Piece::File);
        assert_eq!(kind_of("text/plain; name=\"ATT00001.txt\"", &long), Piece::Accessory, "a footer");
        assert_eq!(kind_of("text/plain; name=\"offer.txt\"", &long), Piece::File);
        assert_eq!(kind_of("text/html; name=\"ATT00001.htm\"", &long), Piece::File, "it may be a page");
        assert_eq!(kind_of("application/pdf; name=\"ATT00001.txt\"", &long), Piece::File, "the label says otherwise");
        assert_eq!(
            kind_of("application/octet-stream", &format!("GIF89a{long}")),
            Piece::Picture,
            "whatever it is called"
        );
        assert_eq!(kind_of("application/octet-stream; name=logo.gif", &format!("GIF89a{long}")), Piece::Picture);
        assert_eq!(kind_of("application/octet-stream", &format!("BEGIN:VCARD\n{long}")), Piece::Accessory);
        assert_eq!(kind_of("application/pkcs7-signature; name=smime.p7s", &long), Piece::Accessory);
        assert_eq!(kind_of("image/png", &long), Piece::Picture, "unknown subtype");
        for name in ["image001.emz", "image001.jpg@01D9ABCD.12345", "logo.png?v=2", "a.heif", "x.cur"] {
            assert_eq!(kind_of(&format!("image/png; name=\"{name}\""), &long), Piece::Picture, "{name}");
        }
        assert_eq!(
            kind_of("image/svg+xml; name=logo.svg", &format!("<svg>{long}")),
            Piece::Picture,
            "within the message"
        );
    }

    #[test]
    fn a_payload_is_a_file_whatever_its_label_says() {
        let long = "x".repeat(FILE_BYTES_MIN);
        for (media, start) in [
            ("image/png", "%PDF-1.7"),
            ("image/png; name=invoice.pdf", ""),
            ("image/jpeg; name=photo.jpg.exe", ""),
            ("text/html; name=page.html", "<svg></svg>"),
            ("image/svg+xml; name=logo.svg\nContent-Disposition: attachment", "<svg>"),
            ("application/octet-stream; name=page.html", "GIF89a"),
            ("application/octet-stream", "BM <html>"),
            ("text/x-vcard; name=card.html", "BEGIN:VCARD"),
            ("text/x-vcard", "%PDF-1.7"),
        ] {
            assert_eq!(kind_of(media, &format!("{start}{long}")), Piece::File, "{media}: {start}");
        }
    }

    #[test]
    fn links_in_quoted_pages_are_not_the_senders_own() {
        let link = "<a href='http://shop.example/x'>offers</a>";
        let page = |own: &str| {
            format!(
                "<p>Fine with me. {own}</p><div class=gmail_quote>On Mon, 2 Nov 2026 at 10:00, Jane Smith \
                 &lt;jane@shop.example&gt; wrote:<blockquote class=gmail_quote><p>{WORDS}</p><p>{link}</p></blockquote></div>"
            )
        };
        let outline = |own: &str| outline_of(&[part("Content-Type: text/html", &page(own))]);
        assert_eq!((outline("").main(), outline("").links), (Main::Nothing, 0));
        assert_eq!(
            (outline(link).main(), outline(link).links > 0),
            (Main::Links, true),
            "the sender also wrote a link"
        );
    }

    #[test]
    fn a_file_in_an_attached_message_is_not_the_senders_own() {
        let file = part("Content-Type: application/pdf", &"%PDF-1.4 ".repeat(100));
        let attached = part("Content-Type: message/rfc822", &format!("Subject: spam\n{file}"));
        let outline = outline_of(&[part("Content-Type: text/plain", &words(7)), attached]);
        assert_eq!((outline.main(), outline.files), (Main::Nothing, 0));
        let outline = outline_of(&[part("Content-Type: text/plain", &words(7)), file]);
        assert_eq!((outline.main(), outline.files), (Main::Files, 1));
    }

    #[test]
    fn blanks_before_a_file_do_not_hide_it() {
        let long = "%PDF-1.4 ".repeat(100);
        let padded = format!("{}{long}", "=\n".repeat(2_000));
        let file = part("Content-Type: application/pdf\nContent-Transfer-Encoding: quoted-printable", &padded);
        assert_eq!(outline_of(&[part("Content-Type: text/plain", &words(7)), file]).files, 1);
    }

    #[test]
    fn a_link_in_a_short_part_counts() {
        let page = part("Content-Type: text/html", "Unlock your account <a href='http://evil.example/x'>here</a>");
        let file = part("Content-Type: application/pdf", &"%PDF-1.4 ".repeat(100));
        let found = PartsOutline::of([page, file].iter().map(String::as_bytes));
        assert_eq!(found.outline.main(), Main::Links);
    }

    fn pieces(parts: &[String]) -> Vec<&'static str> {
        let found = PartsOutline::of(parts.iter().map(String::as_bytes));
        found.pieces.into_iter().map(Piece::name).collect()
    }

    #[test]
    fn parts_in_a_row_have_one_main_text() {
        let text = part("Content-Type: text/plain", WORDS);
        let footer = part("Content-Type: text/plain", &format!("{WORDS} {WORDS} at the very end"));
        let logo = part("Content-Type: image/png", &"x".repeat(500));
        assert_eq!(pieces(&[text.clone(), footer.clone(), logo]), ["main_text", "other_text", "picture"]);
        let page = part("Content-Type: text/html", &format!("<p>{WORDS}</p>"));
        assert_eq!(pieces(&[text.clone(), page.clone()]), ["other_text", "main_text"], "the page is displayed");
        let blank = part("Content-Type: text/html", "<br>");
        assert_eq!(pieces(&[text.clone(), blank]), ["main_text", "other_text"]);
        assert_eq!(pieces(&[text, footer, page]), ["main_text", "other_text", "other_text"]);
        assert_eq!(pieces(&[part("Content-Type: text/plain", "hello")]), ["other_text"]);
        let offer = "buy watches here http://shop.example/x";
        assert_eq!(pieces(&[part("Content-Type: text/plain", offer)]), ["main_text"]);
        let page = "<p>buy watches <a href='http://shop.example/x'>here</a></p>";
        assert_eq!(pieces(&[part("Content-Type: text/html", page)]), ["other_text"], "a common phrase");
    }

    #[test]
    fn names_of_pieces_are_read_back() {
        Piece::ALL.into_iter().for_each(|piece| assert_eq!(Piece::from_name(piece.name()), Some(piece)));
        assert_eq!(Piece::from_name("whole"), None);
    }

    #[test]
    fn a_signature_covers_a_piece() {
        let message = format!(
            "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/plain\n\n{WORDS}\n\
             --b\nContent-Type: image/png\n\n{}\n--b--\n",
            "x".repeat(500)
        );
        let wanted = Wanted { attachment: true, razor: true, razor_pieces: true, ..Wanted::NONE };
        let signed = sign(message.as_bytes(), &wanted, &Context::default());
        let of = |scheme: Scheme| -> Vec<Piece> {
            signed.signatures.iter().filter(|one| one.scheme() == scheme).map(|one| one.piece()).collect()
        };
        assert_eq!(of(Scheme::Attachment), [Piece::Picture]);
        assert_eq!(of(Scheme::RazorE4), [Piece::MainText, Piece::Picture]);
    }
}
