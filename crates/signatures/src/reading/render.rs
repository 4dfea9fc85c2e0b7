//! The visible text of an HTML page, with a line per block.
//!
//! html5gum tokenizes the page by the rules that browsers share. A stack of open elements determines whether text is
//! visible and whether it is quoted. Text nested deeper than [`STACK_MAX`] has the properties of the innermost element
//! on the stack.

use std::convert::Infallible;
use std::ops::Range;

use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use html5gum::{Span, Tokenizer};

use super::direction::{END, LEFT_TO_RIGHT, RIGHT_TO_LEFT};
use super::visibility::{Look, Sheet, Style};
use super::{LINK_BYTES_MAX, LINKS_MAX, PageLink, Reading, line_ends};
use crate::bruit::quotes;

/// Maximum number of open elements.
const STACK_MAX: usize = 256;

/// Maximum number of bytes of an attribute that are read.
const ATTRIBUTE_BYTES_MAX: usize = 1024;
/// Maximum number of bytes of style sheets that are read.
const SHEET_BYTES_MAX: usize = 256 * 1024;

/// Maximum number of unclosed comments that are parsed.
const UNCLOSED_COMMENTS_MAX: usize = 4;

/// Maximum number of blocks checked for quotations. Blocks within a quotation are not checked.
const CITATIONS_MAX: usize = 256;

/// Maximum nesting depth of elements that set a text direction.
const DIRECTIONS_MAX: usize = 8;

/// Minimum number of visible words. If fewer words appear to be visible, our interpretation of the page must be wrong,
/// and all text counts as visible.
const VISIBLE_WORDS_MIN: usize = 3;

/// Renders a page, up to `limit` bytes of text.
pub(super) fn render(html: &str, limit: usize) -> Reading {
    let mut page = Page::new(limit);
    page.read(html);
    for _ in 0..UNCLOSED_COMMENTS_MAX {
        // Mail programs that predate the standard end an unclosed comment at the first `>`, and senders exploit this.
        // So read the text after that `>`, too.
        let Some(rest) = page.unclosed.take() else { break };
        page.read(rest.split_once('>').map_or("", |(_, rest)| rest));
    }
    page.finish()
}

/// An open element.
struct Open {
    name: Name,
    look: Look,
    /// Index of the element's citation in the page.
    citation: Option<usize>,
    /// The control character that sets the direction of the element's text.
    direction: Option<char>,
    family: Family,
}

/// Properties of an element that affect other elements, one bit each. They are stored for every open element, because a
/// tag may have to check all open elements.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Family(u8);

/// Name of an element or attribute in lower case, truncated to the length of the longest relevant name.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Name {
    letters: [u8; 12],
    length: u8,
}

/// The relevant attributes read so far.
#[derive(Default)]
struct Attributes {
    style: String,
    class: String,
    id: String,
    colour: String,
    background: String,
    direction: String,
    has_picture: bool,
    is_hidden: bool,
}

struct Page {
    limit: usize,
    out: Reading,
    stack: Vec<Open>,
    sheet: Sheet,
    sheet_bytes: usize,
    tag: Name,
    attribute: Name,
    attributes: Attributes,
    /// Text ranges of the blocks that a mail program marked as quotations, ordered by start.
    citations: Vec<Range<usize>>,
    /// Byte offsets in the text at which the links begin, in link order.
    link_places: Vec<usize>,
    /// Control characters of the open elements that set a text direction.
    directions: Vec<char>,
    /// The text after the start of an unclosed comment.
    unclosed: Option<String>,
    is_unclosed: bool,
}

impl Page {
    fn new(limit: usize) -> Self {
        let body = Open {
            name: Name::default(),
            look: Look::page(),
            citation: None,
            direction: None,
            family: Family::default(),
        };
        Self {
            limit,
            out: Reading::default(),
            stack: vec![body],
            sheet: Sheet::default(),
            sheet_bytes: 0,
            tag: Name::default(),
            attribute: Name::default(),
            attributes: Attributes::default(),
            citations: Vec::new(),
            link_places: Vec::new(),
            directions: Vec::new(),
            unclosed: None,
            is_unclosed: false,
        }
    }

    fn read(&mut self, html: &str) {
        let emitter = CallbackEmitter::new(|event: CallbackEvent<'_>, _: Span<()>| -> Option<Infallible> {
            self.event(event);
            None
        });
        // The emitter returns no tokens, so a single call processes the whole page.
        let _ = Tokenizer::new_with_emitter(html, emitter).next();
    }

    fn finish(self) -> Reading {
        let mut out = self.out;
        place_links(&mut out, &self.link_places);
        let quoted = quotations(&out.text, &self.citations);
        if !quoted.is_empty() {
            out.text = with_marks(&out.text, &quoted);
            out.text.truncate(out.text.floor_char_boundary(self.limit));
        }
        if !out.hidden.is_empty() && out.text.split_whitespace().take(VISIBLE_WORDS_MIN).count() < VISIBLE_WORDS_MIN {
            out.text.push_str(&std::mem::take(&mut out.hidden));
            out.text.truncate(out.text.floor_char_boundary(self.limit));
        }
        out
    }

    fn event(&mut self, event: CallbackEvent<'_>) {
        match event {
            CallbackEvent::OpenStartTag { name } => {
                self.tag = Name::of(name);
                self.attributes.clear();
            }
            CallbackEvent::AttributeName { name } => {
                self.attribute = Name::of(name);
                self.attributes.name(self.attribute);
            }
            CallbackEvent::AttributeValue { value } if self.attribute.is_link() => self.link(value),
            CallbackEvent::AttributeValue { value } => self.attributes.value(self.attribute, value),
            CallbackEvent::CloseStartTag { .. } => self.open(),
            CallbackEvent::EndTag { name } => self.close(Name::of(name)),
            CallbackEvent::String { value } => self.text(value),
            CallbackEvent::Error(html5gum::Error::EofInComment) => self.is_unclosed = true,
            CallbackEvent::Comment { value } if std::mem::take(&mut self.is_unclosed) => {
                self.unclosed = Some(String::from_utf8_lossy(value).into_owned());
            }
            CallbackEvent::Comment { .. } | CallbackEvent::Doctype { .. } | CallbackEvent::Error(_) => {}
        }
    }

    fn open(&mut self) {
        if self.tag.begins_line() {
            self.line();
        } else if self.tag.is("img") {
            self.push(" ");
        }
        if self.tag.is_empty_element() || self.stack.len() >= STACK_MAX {
            return;
        }
        let family = Family::of(self.tag);
        self.close_implied(family);
        let style = self.style();
        let citation = self.begin_citation();
        let look = self.stack.last().map_or_else(Look::page, |parent| parent.look).with(&style);
        let direction = self.begin_direction(&style, look);
        self.stack.push(Open { name: self.tag, look, citation, direction, family });
    }

    /// Begins a citation if the current element is a citation.
    fn begin_citation(&mut self) -> Option<usize> {
        let is_citation = self.attributes.is_citation(self.tag.is("blockquote"));
        (is_citation && self.citations.len() < CITATIONS_MAX).then(|| {
            self.line();
            let start = self.out.text.len();
            self.citations.push(start..usize::MAX);
            self.citations.len() - 1
        })
    }

    /// If the markup forces the order of the characters that follow, writes the equivalent control character and
    /// returns it.
    fn begin_direction(&mut self, style: &Style, look: Look) -> Option<char> {
        if !style.is_order_forced() || self.directions.len() >= DIRECTIONS_MAX {
            return None;
        }
        let control = if look.is_right_to_left { RIGHT_TO_LEFT } else { LEFT_TO_RIGHT };
        self.directions.push(control);
        self.push(control.encode_utf8(&mut [0; 4]));
        Some(control)
    }

    fn style(&self) -> Style {
        let attributes = &self.attributes;
        let mut style = if self.tag.is("a") { Style::read("color:#0000ee") } else { Style::default() };
        style.add(&self.sheet.style(
            str::from_utf8(self.tag.bytes()).unwrap_or_default(),
            &attributes.class,
            &attributes.id,
        ));
        if !attributes.style.is_empty() {
            style.add(&Style::read(&attributes.style));
        }
        if !attributes.colour.is_empty() {
            style.set_colour(&attributes.colour);
        }
        if !attributes.background.is_empty() {
            style.set_background(&attributes.background);
        }
        if attributes.has_picture {
            style.set_picture();
        }
        if attributes.is_hidden {
            style.hide();
        }
        if self.tag.is("bdo") {
            style.force_order();
        }
        if !attributes.direction.is_empty() {
            style.set_direction(&attributes.direction);
        }
        style
    }

    /// Closes the elements that a new element ends implicitly. For example, a cell ends the previous cell.
    fn close_implied(&mut self, family: Family) {
        let (ends, within) = match family {
            Family::CELL => (Family::CELL, Family::ROW.or(Family::TABLE)),
            Family::ROW => (Family::ROW.or(Family::CELL), Family::TABLE),
            Family::ITEM => (Family::ITEM, Family::LIST),
            Family::PARAGRAPH => (Family::PARAGRAPH, Family::CELL.or(Family::BLOCK).or(Family::TABLE).or(Family::ITEM)),
            _ => return,
        };
        let nearest = self.stack.iter().rposition(|open| open.family.is_in(ends.or(within)));
        if let Some(at) = nearest.filter(|&at| self.stack.get(at).is_some_and(|open| open.family.is_in(ends))) {
            self.truncate(at);
        }
    }

    fn close(&mut self, name: Name) {
        if name.begins_line() {
            self.line();
        }
        let leaves_cells = ["td", "th", "tr", "table", "tbody", "body", "html"].iter().any(|other| name.is(other));
        for at in (1..self.stack.len()).rev() {
            let Some(open) = self.stack.get(at) else { break };
            if open.name == name {
                self.truncate(at);
                break;
            }
            // The end tag of an outer element does not close a cell.
            if !leaves_cells && open.family.is_in(Family::CELL.or(Family::TABLE)) {
                break;
            }
        }
    }

    fn truncate(&mut self, length: usize) {
        let end = self.out.text.len();
        let (mut citations, mut directions) = (0, 0);
        for open in self.stack.drain(length.max(1)..) {
            directions += usize::from(open.direction.is_some());
            if let Some(range) = open.citation.and_then(|citation| self.citations.get_mut(citation)) {
                range.end = end;
                citations += 1;
            }
        }
        for _ in 0..directions {
            self.directions.pop();
            self.push(END.encode_utf8(&mut [0; 4]));
        }
        if citations > 0 {
            self.line();
        }
    }

    fn text(&mut self, value: &[u8]) {
        // The page is a string, so slices cut at tags are valid UTF-8.
        let text = str::from_utf8(value).unwrap_or_default();
        if self.tag.is("style") && self.is_raw() {
            let room = SHEET_BYTES_MAX.saturating_sub(self.sheet_bytes);
            self.sheet_bytes += text.len().min(room);
            self.sheet.read(prefix(text, room));
            if let Some(page) = self.stack.first_mut() {
                // The body tag is optional.
                page.look = Look::page().with(&self.sheet.style("body", "", ""));
            }
            return;
        }
        if ["script", "title", "noframes", "noembed"].iter().any(|name| self.tag.is(name)) && self.is_raw() {
            return;
        }
        // Visible and hidden text have separate limits, so that hidden text does not use up the limit of visible text.
        let room = |taken: &String| self.limit.saturating_sub(taken.len());
        if self.stack.last().is_none_or(|open| open.look.is_visible()) {
            let text = prefix(text, room(&self.out.text));
            if self.directions.is_empty() {
                self.push(text);
            } else {
                // A line end in the source counts as a blank, and does not end a text direction.
                self.push(&text.replace(['\r', '\n'], " "));
            }
        } else {
            let text = prefix(text, room(&self.out.hidden));
            if !text.is_empty() {
                self.out.hidden.push_str(text);
                self.out.hidden.push('\n');
            }
        }
    }

    /// Returns true if the text belongs to the element just opened, as raw text does.
    fn is_raw(&self) -> bool {
        self.stack.last().is_some_and(|open| open.name == self.tag)
    }

    fn push(&mut self, text: &str) {
        if self.out.text.len() < self.limit {
            self.out.text.push_str(text);
        }
    }

    fn link(&mut self, value: &[u8]) {
        // Only absolute targets can lead to a host.
        let is_absolute = memchr::memchr(b':', value).is_some();
        if is_absolute && self.out.links.len() < LINKS_MAX && value.len() <= LINK_BYTES_MAX {
            let target = String::from_utf8_lossy(value).into_owned();
            self.out.links.push(PageLink { target, line: None });
            self.link_places.push(self.out.text.len());
        }
    }

    /// Begins a line. A text direction ends with its line, so the directions of open elements are set again on the new
    /// line.
    fn line(&mut self) {
        self.push("\n");
        for at in 0..self.directions.len() {
            let Some(control) = self.directions.get(at).copied() else { break };
            self.push(control.encode_utf8(&mut [0; 4]));
        }
    }
}

impl Family {
    const CELL: Self = Self(1);
    const ROW: Self = Self(2);
    const TABLE: Self = Self(4);
    const ITEM: Self = Self(8);
    const LIST: Self = Self(16);
    const PARAGRAPH: Self = Self(32);
    const BLOCK: Self = Self(64);

    fn of(name: Name) -> Self {
        match name.bytes() {
            b"td" | b"th" => Self::CELL,
            b"tr" => Self::ROW,
            b"table" => Self::TABLE,
            b"li" => Self::ITEM,
            b"ul" | b"ol" => Self::LIST,
            b"p" => Self::PARAGRAPH,
            b"div" => Self::BLOCK,
            _ => Self::default(),
        }
    }

    const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn is_in(self, families: Self) -> bool {
        self.0 & families.0 != 0
    }
}

impl Name {
    fn of(name: &[u8]) -> Self {
        let mut letters = [0; 12];
        for (letter, byte) in letters.iter_mut().zip(name) {
            *letter = byte.to_ascii_lowercase();
        }
        Self { letters, length: name.len().min(letters.len()) as u8 }
    }

    fn bytes(&self) -> &[u8] {
        self.letters.get(..usize::from(self.length)).unwrap_or_default()
    }

    fn is(&self, name: &str) -> bool {
        self.bytes() == name.as_bytes()
    }

    fn is_link(&self) -> bool {
        matches!(self.bytes(), b"href" | b"src" | b"action" | b"background")
    }

    fn begins_line(&self) -> bool {
        matches!(
            self.bytes(),
            b"br"
                | b"p"
                | b"div"
                | b"tr"
                | b"td"
                | b"th"
                | b"li"
                | b"h1"
                | b"h2"
                | b"h3"
                | b"h4"
                | b"h5"
                | b"h6"
                | b"table"
                | b"ul"
                | b"ol"
                | b"blockquote"
                | b"hr"
                | b"center"
                | b"body"
                | b"html"
                | b"pre"
                | b"dl"
                | b"dt"
                | b"dd"
                | b"form"
                | b"section"
                | b"article"
                | b"header"
                | b"footer"
        )
    }

    fn is_empty_element(&self) -> bool {
        matches!(
            self.bytes(),
            b"br"
                | b"hr"
                | b"img"
                | b"input"
                | b"meta"
                | b"link"
                | b"area"
                | b"base"
                | b"col"
                | b"frame"
                | b"spacer"
                | b"wbr"
                | b"param"
                | b"embed"
        )
    }
}

impl Attributes {
    fn clear(&mut self) {
        for value in [
            &mut self.style,
            &mut self.class,
            &mut self.id,
            &mut self.colour,
            &mut self.background,
            &mut self.direction,
        ] {
            value.clear();
        }
        self.has_picture = false;
        self.is_hidden = false;
    }

    fn name(&mut self, name: Name) {
        match name.bytes() {
            b"background" => self.has_picture = true,
            b"hidden" => self.is_hidden = true,
            _ => {}
        }
    }

    fn value(&mut self, name: Name, value: &[u8]) {
        let field = match name.bytes() {
            b"style" => &mut self.style,
            b"class" => &mut self.class,
            b"id" => &mut self.id,
            b"color" | b"text" => &mut self.colour,
            b"bgcolor" => &mut self.background,
            b"dir" => &mut self.direction,
            _ => return,
        };
        // If an attribute is repeated, the first one counts.
        if field.is_empty() {
            let value = value.get(..ATTRIBUTE_BYTES_MAX).unwrap_or(value);
            field.push_str(&String::from_utf8_lossy(value));
            field.make_ascii_lowercase();
        }
    }

    /// Returns true if a mail program may have created this element to quote a message. Many programs set no class or
    /// type.
    fn is_citation(&self, is_block_quote: bool) -> bool {
        is_block_quote || self.class.contains("yahoo_quoted")
    }
}

/// Returns the quotations in a text. A citation is a quotation if its author is named in its first lines or directly
/// above it. Other citations are merely indented blocks. The lines that name the author are not part of the quotation.
fn quotations(text: &str, citations: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut quoted: Vec<Range<usize>> = Vec::new();
    for citation in citations {
        let end = citation.end.min(text.len());
        if quoted.last().is_some_and(|outer| outer.end >= end) {
            continue;
        }
        let (above, inner) = (text.get(..citation.start), text.get(citation.start..end));
        let (Some(above), Some(inner)) = (above, inner) else { continue };
        if let Some(lines) = quotes::introduction(above, inner) {
            let introduction: usize = inner.split_inclusive('\n').take(lines).map(str::len).sum();
            quoted.push(citation.start + introduction..end);
        }
    }
    quoted
}

/// Returns the text with quotations marked by `>`, as in plain text.
fn with_marks(text: &str, quoted: &[Range<usize>]) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    let mut at = 0;
    for range in quoted {
        out.push_str(text.get(at..range.start).unwrap_or_default());
        out.push_str("> ");
        for (number, line) in text.get(range.clone()).unwrap_or_default().split('\n').enumerate() {
            out.push_str(if number > 0 { "\n> " } else { "" });
            out.push_str(line);
        }
        at = range.end;
    }
    out.push_str(text.get(at..).unwrap_or_default());
    out
}

/// Returns the longest prefix of `text` of at most `length` bytes.
fn prefix(text: &str, length: usize) -> &str {
    text.get(..text.floor_char_boundary(length.min(text.len()))).unwrap_or_default()
}

/// Determines the line of each link from its offset in the text.
fn place_links(out: &mut Reading, places: &[usize]) {
    let (mut line, mut from) = (0, 0);
    for (link, &place) in out.links.iter_mut().zip(places) {
        line += out.text.get(from..place).map_or(0, line_ends);
        from = place;
        link.line = Some(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(html: &str) -> String {
        render(html, 1000).text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn text_without_tags_and_comments() {
        assert_eq!(rendered("<p>Buy v<!-- x -->ia<b>gr</b>a &amp; more<br>now"), "Buy viagra & more now");
    }

    #[test]
    fn scripts_styles_and_titles_do_not_show() {
        assert_eq!(rendered("<title>a</title><style>b{}</style><script>c</script>one two three"), "one two three");
    }

    #[test]
    fn text_right_behind_a_style_sheet_shows() {
        // Regression test: the text up to the next tag was treated as part of the style sheet.
        assert_eq!(rendered("<style>b{}</style>one two three<p>four"), "one two three four");
        assert_eq!(rendered("one two three<title>a</title>four<script>b</script>five"), "one two threefourfive");
    }

    #[test]
    fn a_page_of_tags_alone_is_bounded() {
        for tag in ["<p>", "<img>", "<b hidden>x", "<blockquote type=cite>", "x:<blockquote type=cite>\n"] {
            let page = render(&tag.repeat(2000), 1000);
            assert!(page.text.len() <= 1010 && page.hidden.len() <= 2000, "{tag}: {}", page.text.len());
        }
    }

    #[test]
    fn hidden_text_is_kept_apart() {
        let page =
            render("<p>one two three<span style='display:none'>four</span><font color=white>five</font></p>six", 1000);
        assert_eq!(page.text.split_whitespace().collect::<Vec<_>>(), ["one", "two", "three", "six"]);
        assert_eq!(page.hidden.split_whitespace().collect::<Vec<_>>(), ["four", "five"]);
    }

    #[test]
    fn a_page_of_hidden_text_shows() {
        assert_eq!(rendered("<body bgcolor=black><font color=black>one two three four</font>"), "one two three four");
    }

    #[test]
    fn citations_are_marked() {
        assert_eq!(
            render("he wrote:<blockquote type=cite>he said<br>this</blockquote>end", 1000)
                .text
                .lines()
                .collect::<Vec<_>>(),
            ["he wrote:", "", "> he said", "> this", "> ", "end"]
        );
    }

    #[test]
    fn an_unclosed_comment_ends_at_its_first_bracket() {
        assert_eq!(rendered("one <!--#x>two<b>three</b> <!-- four >five"), "one twothree five");
    }

    #[test]
    fn links_are_found() {
        let links =
            render("<a href='http://a.example/'>a</a><img src=b.png><p>b<br><img src='http://b.example/'>", 1000).links;
        let found: Vec<_> = links.iter().map(|link| (link.target.as_str(), link.line)).collect();
        assert_eq!(found, [("http://a.example/", Some(0)), ("http://b.example/", Some(2))]);
    }

    #[test]
    fn text_ends_at_the_limit() {
        assert_eq!(render(&"ab ".repeat(1000), 100).text.len(), 100);
    }

    #[test]
    fn a_page_nested_too_deep_goes_on_flat() {
        let html = ["<div>".repeat(5000), "one two three".to_owned(), "</div>".repeat(5000)].concat();
        assert!(render(&html, 100_000).text.contains("one two three"));
    }
}
