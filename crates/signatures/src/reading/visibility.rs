//! Visibility of an element's text, by the few rules of CSS and HTML that senders use to hide text.
//!
//! This is not a style engine. A selector is a name, a class, an id, or a name with a class. More complex selectors are
//! ignored, so in case of doubt, text counts as visible.

use std::collections::HashMap;

/// Maximum number of rules kept from all style sheets of a page.
const RULES_MAX: usize = 1_000;
/// Maximum number of declarations read from one style.
const DECLARATIONS_MAX: usize = 64;

/// Minimum font size of readable text, in pixels.
const FONT_PIXELS_MIN: f32 = 2.5;

/// Minimum difference between colours that can be told apart, summed over red, green and blue.
const COLOUR_DISTANCE_MIN: u32 = 24;

/// Red, green, blue.
type Rgb = [u8; 3];

/// Colour names used in pages. They include those of HTML 4 and near-whites.
const NAMED: [(&str, Rgb); 24] = [
    ("white", [255, 255, 255]),
    ("black", [0, 0, 0]),
    ("red", [255, 0, 0]),
    ("green", [0, 128, 0]),
    ("blue", [0, 0, 255]),
    ("yellow", [255, 255, 0]),
    ("gray", [128, 128, 128]),
    ("grey", [128, 128, 128]),
    ("silver", [192, 192, 192]),
    ("maroon", [128, 0, 0]),
    ("purple", [128, 0, 128]),
    ("fuchsia", [255, 0, 255]),
    ("lime", [0, 255, 0]),
    ("olive", [128, 128, 0]),
    ("navy", [0, 0, 128]),
    ("teal", [0, 128, 128]),
    ("aqua", [0, 255, 255]),
    ("cyan", [0, 255, 255]),
    ("orange", [255, 165, 0]),
    ("snow", [255, 250, 250]),
    ("ivory", [255, 255, 240]),
    ("whitesmoke", [245, 245, 245]),
    ("ghostwhite", [248, 248, 255]),
    ("floralwhite", [255, 250, 240]),
];

/// The appearance of text in the current element.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// True if the element and all nested elements are hidden.
    is_gone: bool,
    /// True if the element is invisible. A nested element may be visible again.
    is_invisible: bool,
    /// True if the text is too small to read. A nested element may be larger again.
    is_tiny: bool,
    colour: Rgb,
    /// Background colour, or `None` for a picture, which may have any colour.
    background: Option<Rgb>,
    /// True if text with a forced direction runs from right to left.
    pub is_right_to_left: bool,
}

/// The changes that one rule or attribute makes to a [`Look`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Style {
    hides: Option<bool>,
    is_invisible: Option<bool>,
    is_tiny: Option<bool>,
    colour: Option<Rgb>,
    background: Option<Option<Rgb>>,
    /// True if content outside the box is clipped.
    is_clipped: bool,
    /// True if the box has no size.
    has_no_room: bool,
    is_out_of_flow: bool,
    is_far_away: bool,
    /// True if the order of characters is forced, false if it is explicitly not forced.
    is_order_forced: Option<bool>,
    is_right_to_left: Option<bool>,
}

/// Rules of the style sheets, by selector.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    rules: HashMap<Box<str>, Style>,
}

impl Look {
    /// Returns the default look, black on white.
    pub(super) fn page() -> Self {
        Self {
            is_gone: false,
            is_invisible: false,
            is_tiny: false,
            colour: [0; 3],
            background: Some([255; 3]),
            is_right_to_left: false,
        }
    }

    /// Returns true if text is visible.
    pub(super) fn is_visible(&self) -> bool {
        let is_lost =
            self.background.is_some_and(|background| distance(self.colour, background) <= COLOUR_DISTANCE_MIN);
        !(self.is_gone || self.is_invisible || self.is_tiny || is_lost)
    }

    /// Returns the look of an element that has `style` and is nested in an element with this look.
    pub(super) fn with(self, style: &Style) -> Self {
        Self {
            is_gone: self.is_gone || style.is_gone(),
            is_invisible: style.is_invisible.unwrap_or(self.is_invisible),
            is_tiny: style.is_tiny.unwrap_or(self.is_tiny),
            colour: style.colour.unwrap_or(self.colour),
            background: style.background.unwrap_or(self.background),
            is_right_to_left: style.is_right_to_left.unwrap_or(self.is_right_to_left),
        }
    }
}

impl Style {
    /// Parses declarations, as in a `style` attribute.
    pub(super) fn read(declarations: &str) -> Self {
        let mut style = Self::default();
        for declaration in declarations.split(';').take(DECLARATIONS_MAX) {
            if let Some((property, value)) = declaration.split_once(':') {
                let value = value.trim();
                style.declare(property.trim(), value.strip_suffix("!important").unwrap_or(value).trim_end());
            }
        }
        style
    }

    /// Adds a later style, which takes precedence.
    pub(super) fn add(&mut self, later: &Self) {
        self.hides = later.hides.or(self.hides);
        self.is_invisible = later.is_invisible.or(self.is_invisible);
        self.is_tiny = later.is_tiny.or(self.is_tiny);
        self.colour = later.colour.or(self.colour);
        self.background = later.background.or(self.background);
        self.is_clipped |= later.is_clipped;
        self.has_no_room |= later.has_no_room;
        self.is_out_of_flow |= later.is_out_of_flow;
        self.is_far_away |= later.is_far_away;
        self.is_order_forced = later.is_order_forced.or(self.is_order_forced);
        self.is_right_to_left = later.is_right_to_left.or(self.is_right_to_left);
    }

    /// Applies the `color` attribute of `font`, or the `text` attribute of `body`.
    pub(super) fn set_colour(&mut self, value: &str) {
        self.colour = self.colour.or_else(|| colour(value));
    }

    /// Applies the `bgcolor` attribute.
    pub(super) fn set_background(&mut self, value: &str) {
        if let (None, Some(colour)) = (self.background, colour(value)) {
            self.background = Some(Some(colour));
        }
    }

    /// Applies the `background` attribute, which names a picture.
    pub(super) fn set_picture(&mut self) {
        self.background = self.background.or(Some(None));
    }

    /// Applies the `hidden` attribute.
    pub(super) fn hide(&mut self) {
        self.hides = self.hides.or(Some(true));
    }

    /// Applies the element `bdo`.
    pub(super) fn force_order(&mut self) {
        self.is_order_forced = self.is_order_forced.or(Some(true));
    }

    /// Applies the `dir` attribute.
    pub(super) fn set_direction(&mut self, value: &str) {
        self.is_right_to_left = self.is_right_to_left.or_else(|| Some(value == "rtl"));
    }

    /// Returns true if the order of characters is forced.
    pub(super) fn is_order_forced(&self) -> bool {
        self.is_order_forced == Some(true)
    }

    fn is_gone(&self) -> bool {
        self.hides == Some(true) || (self.is_clipped && self.has_no_room) || (self.is_out_of_flow && self.is_far_away)
    }

    fn declare(&mut self, property: &str, value: &str) {
        let is = |name: &str| property.eq_ignore_ascii_case(name);
        let says = |word: &str| value.eq_ignore_ascii_case(word);
        if is("display") {
            self.hides = Some(says("none"));
        } else if is("visibility") {
            self.is_invisible = Some(says("hidden") || says("collapse"));
        } else if is("font-size") || is("font") {
            self.is_tiny = font_pixels(value).map(|pixels| pixels < FONT_PIXELS_MIN).or(self.is_tiny);
        } else if is("opacity") {
            if number(value).is_some_and(|(share, _)| share <= 0.05) {
                self.hides = Some(true);
            }
        } else if is("color") {
            if says("transparent") {
                self.hides = Some(true);
            }
            self.colour = colour(value).or(self.colour);
        } else if is("background-color") || is("background") {
            self.declare_background(value);
        } else {
            self.declare_box(property, value);
        }
    }

    fn declare_background(&mut self, value: &str) {
        if value.contains("url(") || value.contains("gradient") {
            self.background = Some(None);
        } else if let Some(colour) = colour(value).or_else(|| value.split_ascii_whitespace().find_map(colour)) {
            self.background = Some(Some(colour));
        }
    }

    fn declare_box(&mut self, property: &str, value: &str) {
        let is = |name: &str| property.eq_ignore_ascii_case(name);
        let pixels = || pixels(value);
        if is("overflow") || is("overflow-x") || is("overflow-y") {
            self.is_clipped |= value.eq_ignore_ascii_case("hidden");
        } else if is("height") || is("max-height") || is("width") || is("max-width") {
            self.has_no_room |= pixels().is_some_and(|pixels| pixels <= 1.0);
        } else if is("line-height") {
            if number(value).is_some_and(|(lines, _)| lines == 0.0) {
                self.is_tiny = Some(true);
            }
        } else if is("text-indent") {
            if pixels().is_some_and(|pixels| pixels <= -500.0) {
                self.hides = Some(true);
            }
        } else if is("position") {
            self.is_out_of_flow |= value.eq_ignore_ascii_case("absolute") || value.eq_ignore_ascii_case("fixed");
        } else if is("left") || is("top") || is("right") || is("margin-left") {
            self.is_far_away |= pixels().is_some_and(|pixels| pixels <= -500.0);
        } else if is("unicode-bidi") {
            self.is_order_forced =
                Some(value.eq_ignore_ascii_case("bidi-override") || value.eq_ignore_ascii_case("isolate-override"));
        } else if is("direction") {
            self.is_right_to_left = Some(value.eq_ignore_ascii_case("rtl"));
        } else if (is("clip") && value.contains("rect(0")) || (is("clip-path") && is_full_inset(value)) {
            self.hides = Some(true);
        }
    }
}

impl Sheet {
    /// Adds the rules of a style sheet. Nested rules such as `@media print { … }` are ignored, because they only apply
    /// on some devices.
    pub(super) fn read(&mut self, sheet: &str) {
        let sheet = without_comments(&sheet.to_ascii_lowercase());
        let mut rest = sheet.as_str();
        while let Some((prelude, block)) = rest.split_once('{') {
            if prelude.trim_start().starts_with('@') {
                rest = behind_block(block);
                continue;
            }
            let (declarations, behind) = block.split_once('}').unwrap_or((block, ""));
            rest = behind;
            self.add(prelude, &Style::read(declarations));
        }
    }

    fn add(&mut self, selectors: &str, style: &Style) {
        for selector in selectors.split(',').map(str::trim).filter(|selector| is_simple(selector)) {
            if self.rules.len() < RULES_MAX {
                self.rules.entry(selector.into()).or_default().add(style);
            }
        }
    }

    /// Returns the style that the rules define for an element. All arguments are lower case.
    pub(super) fn style(&self, name: &str, class: &str, id: &str) -> Style {
        let mut style = Style::default();
        if self.rules.is_empty() {
            return style;
        }
        let mut selector = String::new();
        let mut apply = |parts: [&str; 3]| {
            selector.clear();
            selector.extend(parts);
            if let Some(rule) = self.rules.get(selector.as_str()) {
                style.add(rule);
            }
        };
        apply([name, "", ""]);
        for class in class.split_ascii_whitespace().take(DECLARATIONS_MAX) {
            apply(["", ".", class]);
            apply([name, ".", class]);
        }
        if !id.is_empty() {
            apply(["", "#", id]);
        }
        style
    }
}

/// Returns the text after a block, given the text after its opening bracket.
fn behind_block(block: &str) -> &str {
    let mut depth = 1;
    for (at, byte) in block.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return block.get(at + 1..).unwrap_or_default(),
            b'}' => depth -= 1,
            _ => {}
        }
    }
    ""
}

fn without_comments(sheet: &str) -> String {
    let mut out = String::with_capacity(sheet.len());
    let mut rest = sheet;
    while let Some((before, comment)) = rest.split_once("/*") {
        out.push_str(before);
        rest = comment.split_once("*/").map_or("", |(_, behind)| behind);
    }
    out.push_str(rest);
    out
}

fn is_simple(selector: &str) -> bool {
    let is_word = |part: &str| part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    let (name, rest) = selector.split_at(selector.find(['.', '#']).unwrap_or(selector.len()));
    !selector.is_empty() && is_word(name) && is_word(rest.get(1..).unwrap_or_default())
}

fn distance(one: Rgb, other: Rgb) -> u32 {
    one.iter().zip(other).map(|(&one, other)| u32::from(one.abs_diff(other))).sum()
}

fn colour(value: &str) -> Option<Rgb> {
    // No valid colour value is longer than the limit.
    if value.is_empty() || value.len() > 48 {
        return None;
    }
    if let Some((_, colour)) = NAMED.iter().find(|(name, _)| value.eq_ignore_ascii_case(name)) {
        return Some(*colour);
    }
    let [red, green, blue, opacity] = csscolorparser::parse(value).ok()?.to_rgba8();
    (opacity > 12).then_some([red, green, blue])
}

/// Parses a number and its unit.
fn number(value: &str) -> Option<(f32, &str)> {
    let end =
        value.bytes().take(16).take_while(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+')).count();
    let (digits, unit) = value.split_at_checked(end)?;
    Some((digits.parse().ok()?, unit.trim()))
}

fn pixels(value: &str) -> Option<f32> {
    let (size, unit) = number(value)?;
    let scale = match unit.to_ascii_lowercase().as_str() {
        "em" | "rem" => 16.0,
        "%" => 0.16,
        "ex" => 8.0,
        "pt" => 1.33,
        _ => 1.0,
    };
    Some(size * scale)
}

/// Returns the size in the value of `font-size`, or in a `font` value of several words.
fn font_pixels(value: &str) -> Option<f32> {
    let has_size = |word: &&str| {
        word.starts_with(|char: char| char.is_ascii_digit() || char == '.')
            && number(word).is_some_and(|(size, unit)| !unit.is_empty() || size == 0.0)
    };
    value.split(|char: char| char.is_ascii_whitespace() || char == '/').find(has_size).and_then(pixels)
}

fn is_full_inset(value: &str) -> bool {
    value.contains("inset(50%") || value.contains("inset(100%")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shows(declarations: &str) -> bool {
        Look::page().with(&Style::read(declarations)).is_visible()
    }

    #[test]
    fn what_hides_text() {
        for declarations in [
            "display:none",
            "DISPLAY: None !important",
            "visibility:hidden",
            "font-size:0",
            "font-size:1px",
            "font: 1px arial",
            "opacity:0",
            "color:#fff",
            "color:white",
            "color:rgb(250,250,250)",
            "color:transparent",
            "max-height:0;overflow:hidden",
            "position:absolute;left:-9999px",
            "text-indent:-9999px",
            "line-height:0",
            "clip-path: inset(100%)",
            "background:#000",
        ] {
            assert!(!shows(declarations), "{declarations}");
        }
    }

    #[test]
    fn what_does_not() {
        for declarations in [
            "",
            "display:block",
            "font-size:12px",
            "font: bold 10pt/1.2 arial",
            "color:#888",
            "background:#fff url(x.png)",
            "background:black;color:white",
            "height:0",
            "overflow:hidden",
            "position:absolute;left:10px",
            "width:100%;overflow:hidden",
            "line-height:1",
        ] {
            assert!(shows(declarations), "{declarations}");
        }
    }

    #[test]
    fn rules_end_at_their_number() {
        let mut sheet = Sheet::default();
        let rules: String = (0..=RULES_MAX).map(|at| format!(".c{at}{{display:none}}")).collect();
        sheet.read(&rules);
        assert!(sheet.style("p", &format!("c{}", RULES_MAX - 1), "").is_gone());
        assert!(!sheet.style("p", &format!("c{RULES_MAX}"), "").is_gone());
    }

    #[test]
    fn what_an_element_within_can_undo() {
        let within =
            |outer: &str, inner: &str| Look::page().with(&Style::read(outer)).with(&Style::read(inner)).is_visible();
        assert!(within("font-size:0", "font-size:14px"));
        assert!(within("visibility:hidden", "visibility:visible"));
        assert!(!within("display:none", "display:block"));
        assert!(!within("font-size:0", "color:red"));
    }

    #[test]
    fn rules_of_a_sheet_reach_their_elements() {
        let mut sheet = Sheet::default();
        sheet.read(
            "/* .a{} */ .pre, #x { display:none } @media print { .z{display:none} .w{display:none} } \
             span.y { display:none } p > b { display:none } .z2{display:none",
        );
        let hides = |name, class, id| sheet.style(name, class, id).is_gone();
        assert!(hides("div", "other pre", ""));
        assert!(hides("div", "", "x"));
        assert!(hides("span", "y", ""));
        assert!(!hides("div", "y", ""));
        assert!(!hides("b", "", ""));
        assert!(!hides("a", "a", ""));
        assert!(!hides("i", "z", "") && !hides("i", "w", ""));
        assert!(hides("i", "z2", ""));
    }
}
