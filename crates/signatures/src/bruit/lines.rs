//! Classification of lines into the sender's own text, quotations, and text that is repeated in every mail of a list or
//! firm.
//!
//! Only the sender's own text is matched, so the other lines cause no false matches. But a sender could hide text by
//! making it look like one of these other kinds. So each rule requires more than one sign. `docs/near-replicas.md`
//! lists the remaining loopholes.

use std::ops::Range;

use super::boilerplate;
use super::quotes::{self, Signs};
use super::roles::Role;
use super::words::{Word, Words};
use crate::reading::TextPart;

/// A kind of line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The sender's own text.
    Body,
    /// Quoted text of another author.
    Quoted,
    /// The line that names the quoted author.
    Attribution,
    /// A signature, list footer or disclaimer.
    Boilerplate,
    /// A greeting, which is personal.
    Greeting,
    /// Text that is looked up but not stored. It is either a text part below the main one, such as a footer added by a
    /// firm or list, or text about unsubscribing below a longer text.
    Appended,
}

/// A line of folded text.
#[derive(Clone, Debug)]
pub(super) struct Line<'t> {
    pub text: &'t str,
    pub kind: Kind,
    /// True if the line consists of symbols and separates the text above from the text below.
    pub is_rule: bool,
    /// True if many messages have such a line. Its words may make features, but do not count as the sender's own.
    pub is_stock: bool,
    /// Range of its words.
    pub words: Range<usize>,
    /// Index of the message part that contains it.
    part: usize,
    /// True if that part is inside an attached message.
    pub is_forwarded: bool,
}

/// Maximum number of words of a signature.
const SIGNATURE_WORDS_MAX: usize = 120;
/// Minimum number of words above a signature.
const SIGNED_WORDS_MIN: usize = 8;
/// Maximum number of words in the lines about a sponsor above a footer.
const SPONSOR_WORDS_MAX: usize = 40;

/// Number of blank lines that end a footer.
const FOOTER_GAP_LINES: usize = 2;
/// Maximum number of lines of a footer. Without this limit, consecutive rules would take quadratic time.
const FOOTER_LINES_MAX: usize = 400;
/// Maximum number of words of a footer, for the same reason.
const FOOTER_WORDS_MAX: usize = 1_000;

/// Minimum number of different signs of a mailing list in a footer.
const LIST_CUES_MIN: usize = 2;
/// Maximum number of words of a footer per sign of a mailing list.
const LIST_WORDS_PER_CUE: usize = 12;

/// Minimum number of different cue words in a disclaimer.
const DISCLAIMER_CUES_MIN: usize = 3;
/// Maximum number of words of a disclaimer per cue.
const DISCLAIMER_WORDS_PER_CUE: usize = 12;
/// Maximum number of consecutive words without a cue in a disclaimer. A sales pitch between two sentences of a
/// disclaimer would have more.
const DISCLAIMER_GAP_MAX: usize = 18;
const PARAGRAPH_LINES_MAX: usize = 40;

/// Minimum number of symbols in a rule.
const RULE_SIGNS_MIN: usize = 8;
/// Maximum number of characters in a rule that are neither symbols nor blanks.
const RULE_OTHERS_MAX: usize = 3;

/// Maximum number of blank lines between an attribution and the quotation.
const ATTRIBUTION_GAP_LINES: usize = 8;

/// Maximum number of lines between a digest's message and the rule above it.
const DIGEST_GAP_LINES: usize = 4;
/// Maximum number of words in a digest's title.
const DIGEST_TITLE_WORDS_MAX: usize = 16;

/// Maximum number of words of a greeting.
const GREETING_WORDS_MAX: usize = 5;

/// Minimum number of the sender's own words in the main part of a message. The main part is the first part with at
/// least this many.
const MAIN_WORDS_MIN: usize = 20;

/// Maximum number of words of an appended part, as a multiple of the words of the main part. A part below the main one
/// that has more words does not count as appended.
const APPENDED_TIMES_MAX: usize = 2;

/// Splits folded text into lines and classifies them. The words of all lines are appended to `words`.
pub(super) fn lines<'t>(text: &'t str, parts: &[TextPart], words: &mut Words) -> Vec<Line<'t>> {
    let mut lines = Vec::new();
    let ends = memchr::memchr_iter(b'\n', text.as_bytes()).chain([text.len()]);
    let (mut start, mut part) = (0, 0);
    for end in ends {
        let text = text.get(start..end).unwrap_or_default();
        while parts.get(part + 1).is_some_and(|next| next.start <= start) {
            part += 1;
        }
        let is_forwarded = parts.get(part).is_some_and(|part| part.is_forwarded);
        start = end + 1;
        let from = words.len();
        words.add_line(text);
        let (kind, is_rule) = (Kind::Body, is_rule(text));
        lines.push(Line { text, kind, is_rule, is_stock: false, words: from..words.len(), part, is_forwarded });
    }
    let introductions = mark_quotes(&mut lines);
    mark_digest(&mut lines, &introductions, words);
    mark_footers(&mut lines, words);
    mark_disclaimers(&mut lines, words);
    mark_seals(&mut lines);
    boilerplate::mark(&mut lines, words);
    mark_greeting(&mut lines, words);
    mark_appended(&mut lines, parts.len());
    lines
}

/// Marks the text parts below the main part, except those that are much longer than it.
fn mark_appended(lines: &mut [Line<'_>], parts: usize) {
    if parts < 2 {
        return;
    }
    let mut own = vec![0; parts];
    for line in lines.iter().filter(|line| line.kind == Kind::Body) {
        if let Some(own) = own.get_mut(line.part) {
            *own += line.words.len();
        }
    }
    let Some(main) = own.iter().position(|&words| words >= MAIN_WORDS_MIN) else { return };
    let words_max = own.get(main).map_or(0, |words| words * APPENDED_TIMES_MAX);
    let is_appended = |part: usize| part > main && own.get(part).is_some_and(|&words| words <= words_max);
    for line in lines.iter_mut().filter(|line| line.kind == Kind::Body && is_appended(line.part)) {
        line.kind = Kind::Appended;
    }
}

/// Marks quoted text, and the lines that introduce it. Returns the indices of the lines where forwarded messages begin.
fn mark_quotes(lines: &mut [Line<'_>]) -> Vec<usize> {
    let signs: Vec<Signs> = lines.iter().map(|line| Signs::of(line.text)).collect();
    let mut introductions = Vec::new();
    // The part in which the rest of the text is quoted without quote prefixes.
    let mut unmarked = None;
    // Number of lines so far that contain the sender's words.
    let mut own = 0;
    let mut at = 0;
    while at < lines.len() {
        let Some(line) = lines.get(at) else { break };
        let introduction = if line.is_forwarded { None } else { signs.get(at..).and_then(quotes::original) };
        if let Some(length) = introduction {
            introductions.push(at);
            set_kind(lines, at..at + length, Kind::Attribution);
            at += length.max(1);
            continue;
        }
        let part = Some(line.part);
        let is_below = !introductions.is_empty() || unmarked == part;
        if is_below || line.is_forwarded || signs.get(at).is_some_and(|signs| signs.is_quoted) {
            set_kind(lines, at..at + 1, Kind::Quoted);
        } else {
            let length = attribution(lines, &signs, at);
            let introduction = at + 1 - length..at + 1;
            own += count_own(lines, at..at + 1);
            own -= count_own(lines, introduction.clone());
            // The sender must have written something above. Otherwise, a single attribution would hide all of the
            // sender's text.
            if own > 0 && is_unmarked_below(lines, &signs, introduction.clone()) {
                unmarked = part;
            }
            set_kind(lines, introduction, Kind::Attribution);
        }
        at += 1;
    }
    introductions
}

/// Marks the preamble of a mailing list digest as boilerplate. The messages of the digest are already marked as quoted.
/// Each of them has a header, and all but the first have a line of hyphens above the header. The preamble is marked if
/// it is only a title, or if it has enough signs of a mailing list for a footer of the same length. A list of subjects
/// does not count towards the length.
fn mark_digest(lines: &mut [Line<'_>], introductions: &[usize], words: &Words) {
    let [first, others @ ..] = introductions else { return };
    let is_below_rule = |&&at: &&usize| {
        let above = lines.get(..at).unwrap_or_default().iter().rev().take(DIGEST_GAP_LINES);
        above.into_iter().find(|line| !line.text.trim_ascii().is_empty()).is_some_and(|line| line.is_rule)
    };
    if !others.iter().any(|at| is_below_rule(&at)) {
        return;
    }
    let preamble = lines.get(..*first).unwrap_or_default();
    let is_body = |line: &&Line<'_>| line.kind == Kind::Body;
    let is_subject = |line: &Line<'_>| {
        let text = line.text.trim_ascii_start();
        let number = text.bytes().take_while(u8::is_ascii_digit).count();
        number > 0 && matches!(text.as_bytes().get(number), Some(b'.' | b')' | b':'))
    };
    let mut own = 0;
    let mut is_listed = false;
    for line in preamble.iter().filter(is_body) {
        is_listed = !line.words.is_empty() && (is_subject(line) || is_listed);
        own += if is_listed { 0 } else { line.words.len() };
    }
    let all = words_of(preamble, 0..preamble.len());
    let is_of_list =
        own <= list_signs(words, all.clone()) * LIST_WORDS_PER_CUE && list_cues(words, all) >= LIST_CUES_MIN;
    let is_title = own <= DIGEST_TITLE_WORDS_MAX && preamble.iter().any(|line| line.text.contains("digest"));
    if is_of_list || is_title {
        mark(lines, 0..*first);
    }
}

/// Returns the number of lines of the attribution that ends at line `at`, or 0 if none ends there.
fn attribution(lines: &[Line<'_>], signs: &[Signs], at: usize) -> usize {
    let Some(sign) = signs.get(at) else { return 0 };
    if sign.is_enclosed {
        return 1;
    }
    if !sign.ends_attribution && !sign.is_mark() {
        return 0;
    }
    let is_followed = is_quoted_below(signs, at);
    if sign.is_mark() {
        return usize::from(is_followed);
    }
    let mut first = at;
    while at - first + 1 < quotes::ATTRIBUTION_LINES_MAX
        && first.checked_sub(1).and_then(|above| signs.get(above)).is_some_and(|sign| !sign.is_blank && !sign.is_quoted)
    {
        first -= 1;
    }
    let texts: Vec<&str> = lines.get(first..=at).unwrap_or_default().iter().map(|line| line.text).collect();
    quotes::attribution(&texts, is_followed).unwrap_or(0)
}

/// Returns true if the next line that is not blank begins with a quote prefix.
fn is_quoted_below(signs: &[Signs], at: usize) -> bool {
    let below = signs.get(at + 1..).unwrap_or_default().iter().take(ATTRIBUTION_GAP_LINES + 1);
    below.into_iter().find(|sign| !sign.is_blank).is_some_and(|sign| sign.is_quoted)
}

/// Counts the lines with words among the lines that are classified as the sender's own text.
fn count_own(lines: &[Line<'_>], range: Range<usize>) -> usize {
    let lines = lines.get(range).unwrap_or_default();
    lines.iter().filter(|line| line.kind == Kind::Body && !line.words.is_empty()).count()
}

/// Returns true if the text below an attribution is quoted without quote prefixes.
fn is_unmarked_below(lines: &[Line<'_>], signs: &[Signs], attribution: Range<usize>) -> bool {
    let Some(last) = attribution.clone().last() else { return false };
    let texts = || lines.get(attribution).unwrap_or_default().iter().map(|line| line.text).collect::<Vec<_>>();
    let is_enclosed = signs.get(last).is_some_and(|sign| sign.is_enclosed);
    (is_enclosed || quotes::is_complete_attribution(&texts())) && !is_quoted_below(signs, last)
}

fn set_kind(lines: &mut [Line<'_>], range: Range<usize>, kind: Kind) {
    lines.iter_mut().take(range.end).skip(range.start).for_each(|line| line.kind = kind);
}

fn mark_footers(lines: &mut [Line<'_>], words: &Words) {
    let total = words.len();
    for at in 0..lines.len() {
        let Some(line) = lines.get(at) else { break };
        let is_signature = matches!(line.text, "-- " | "--");
        if line.kind != Kind::Body || !(is_signature || line.is_rule) {
            continue;
        }
        let rest = total - line.words.end;
        let above = line.words.start;
        // Below the exact signature mark of mail programs, the signature may be longer than the message.
        let rest_max = if line.text == "-- " { above * APPENDED_TIMES_MAX } else { above };
        if is_signature && above >= SIGNED_WORDS_MIN && rest <= rest_max.min(SIGNATURE_WORDS_MAX) {
            // A long signature is looked up, because it may hide other text.
            let kind = if rest <= above { Kind::Boilerplate } else { Kind::Appended };
            mark_as(kind, lines, at..lines.len());
            continue;
        }
        let block = footer_block(lines, at);
        let own = words_of(lines, block.clone());
        // The sponsor of a list is named directly above the list's footer, in a block that begins with a rule of its
        // own.
        let is_sponsor = || {
            own.len() <= SPONSOR_WORDS_MAX
                && cues(words, own.clone(), Role::Sponsor) > 0
                && is_list_footer(lines, footer_block(lines, block.end), words)
        };
        if is_list_footer(lines, block.clone(), words) || is_sponsor() {
            mark(lines, block);
        }
    }
}

/// Returns true if a line consists of symbols, with at most [`RULE_OTHERS_MAX`] other characters.
fn is_rule(line: &str) -> bool {
    let mut others = 0;
    let mut signs = 0;
    for byte in line.bytes() {
        match byte {
            b'-' | b'_' | b'=' | b'*' | b'~' | b'#' | b'+' | b'.' => signs += 1,
            b' ' | b'\t' => {}
            _ if others == RULE_OTHERS_MAX => return false,
            _ => others += 1,
        }
    }
    signs >= RULE_SIGNS_MIN
}

/// Returns the lines from the rule at line `at` to the next rule, or to a gap of several blank lines.
fn footer_block(lines: &[Line<'_>], at: usize) -> Range<usize> {
    let behind = lines.get(at + 1..).unwrap_or_default();
    let behind = behind.get(..FOOTER_LINES_MAX).unwrap_or(behind);
    // The footer may begin with two consecutive rules.
    let doubled = behind.iter().take_while(|line| line.is_rule).count();
    let mut end = doubled;
    for (at, line) in behind.iter().enumerate().skip(doubled) {
        let is_gap = end > doubled && at - end >= FOOTER_GAP_LINES;
        if line.kind != Kind::Body || line.is_rule || is_gap {
            break;
        }
        if !line.text.trim_ascii().is_empty() {
            end = at + 1;
        }
    }
    at..at + 1 + end
}

fn is_list_footer(lines: &[Line<'_>], block: Range<usize>, words: &Words) -> bool {
    let own = words_of(lines, block);
    if own.len() > FOOTER_WORDS_MAX {
        return false;
    }
    own.len() <= list_signs(words, own.clone()) * LIST_WORDS_PER_CUE && list_cues(words, own) >= LIST_CUES_MIN
}

fn mark_disclaimers(lines: &mut [Line<'_>], words: &Words) {
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        if line.text.trim_ascii().is_empty() {
            at += 1;
            continue;
        }
        let is_text = |line: &&Line<'_>| !line.text.trim_ascii().is_empty();
        let length = lines.get(at..).unwrap_or_default().iter().take(PARAGRAPH_LINES_MAX).take_while(is_text).count();
        if let Some(range) = disclaimer(lines, at..at + length, words) {
            mark(lines, range);
        }
        at += length;
    }
}

/// If a paragraph has enough disclaimer cues, returns its lines from the first cue to the last.
fn disclaimer(lines: &[Line<'_>], paragraph: Range<usize>, words: &Words) -> Option<Range<usize>> {
    let has_cue = |&at: &usize| cues(words, words_of(lines, at..at + 1), Role::Disclaimer) > 0;
    let first = paragraph.clone().find(has_cue)?;
    let last = paragraph.rev().find(has_cue)?;
    let own = words_of(lines, first..last + 1);
    let found = cues(words, own.clone(), Role::Disclaimer);
    let is_dense = found >= DISCLAIMER_CUES_MIN && found * DISCLAIMER_WORDS_PER_CUE >= own.len();
    (is_dense && longest_gap(words, own) <= DISCLAIMER_GAP_MAX).then_some(first..last + 1)
}

/// Returns the maximum number of consecutive words that are not disclaimer cues.
fn longest_gap(words: &Words, range: Range<usize>) -> usize {
    let words = words.list().get(range).unwrap_or_default();
    words.split(|word| word.role == Role::Disclaimer).map(<[Word]>::len).max().unwrap_or(0)
}

/// Maximum number of lines of a PGP signature.
const SEAL_LINES_MAX: usize = 40;
/// Maximum number of lines of a PGP key. A key of 4,096 bits has about 50 lines, and each signature on it has up to 12.
const KEY_LINES_MAX: usize = 400;

/// Maximum number of header lines of PGP's armour.
const ARMOUR_HEADERS_MAX: usize = 4;
/// Maximum number of words in all header lines of the armour. Old versions of PGP Desktop wrote up to 17.
const ARMOUR_HEADER_WORDS_MAX: usize = 24;
/// Maximum number of bytes of a line of armour.
const ARMOUR_BYTES_MAX: usize = 76;
/// Minimum number of bytes of a line of armour, except the last line. A shorter line may be a word.
const ARMOUR_BYTES_MIN: usize = 48;

/// Marks the lines that PGP adds around a text: the header above it, with the name of the hash, and the signature or the
/// key below it.
fn mark_seals(lines: &mut [Line<'_>]) {
    for at in 0..lines.len() {
        let Some(behind) = lines.get(at..) else { break };
        let length = match behind {
            [first, below @ ..] if starts(first, "-----begin pgp signed message") => {
                1 + armour_headers(below, &["hash:"]).unwrap_or(0)
            }
            [first, ..] if starts(first, "-----begin pgp signature") => {
                armour_lines(behind, "-----end pgp signature", SEAL_LINES_MAX)
            }
            [first, ..] if starts(first, "-----begin pgp public key block") => {
                armour_lines(behind, "-----end pgp public key block", KEY_LINES_MAX)
            }
            _ => 0,
        };
        mark(lines, at..at + length);
    }
}

fn starts(line: &Line<'_>, with: &str) -> bool {
    line.text.trim_ascii_start().starts_with(with)
}

/// Returns the number of lines of PGP's ASCII armour, which begins at the first line. Returns 0 if a line may contain
/// text or if the end is not among the next `lines_max` lines.
fn armour_lines(lines: &[Line<'_>], end: &str, lines_max: usize) -> usize {
    let lines = lines.get(..lines_max).unwrap_or(lines);
    let Some(below) = lines.get(1..) else { return 0 };
    let Some(headers) = armour_headers(below, &["version:", "comment:"]) else { return 0 };
    let data = || below.iter().skip(headers).map(|line| line.text.trim_ascii()).take_while(|text| is_base64(text));
    let length = 1 + headers + data().count();
    let is_ended = lines.get(length).is_some_and(|line| starts(line, end));
    if is_ended && is_armour(data()) { length + 1 } else { 0 }
}

/// Returns the number of header lines of PGP's armour. `lines` begin directly below the line that begins the armour.
/// Returns `None` if there are more header lines, or more words in them, than known programs write.
fn armour_headers(lines: &[Line<'_>], names: &[&str]) -> Option<usize> {
    let is_header = |line: &&Line<'_>| names.iter().any(|name| starts(line, name));
    let headers = || lines.iter().take_while(is_header).take(ARMOUR_HEADERS_MAX + 1);
    let words: usize = headers().map(|line| line.words.len()).sum();
    let count = headers().count();
    (count <= ARMOUR_HEADERS_MAX && words <= ARMOUR_HEADER_WORDS_MAX).then_some(count)
}

/// Returns true if a line is blank or base64. There may be padding at the end, or the `=` of a checksum at the start.
fn is_base64(text: &str) -> bool {
    let inner = text.strip_prefix('=').unwrap_or_else(|| text.trim_end_matches('='));
    text.len() <= ARMOUR_BYTES_MAX
        && inner.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}

/// Returns true if base64 lines have the lengths of armour. The last line may be a checksum. All lines above it are
/// equally long, but the last of them may be shorter. Text with a single word on each line does not pass, because its
/// lines are not equally long.
fn is_armour<'t>(lines: impl Iterator<Item = &'t str>) -> bool {
    let mut lengths: Vec<usize> = Vec::new();
    let mut has_checksum = false;
    for line in lines.filter(|line| !line.is_empty()) {
        if has_checksum {
            return false;
        }
        has_checksum = line.starts_with('=');
        if !has_checksum {
            lengths.push(line.len());
        }
    }
    let Some((last, others)) = lengths.split_last() else { return true };
    let Some(width) = others.first() else { return true };
    *width >= ARMOUR_BYTES_MIN && last <= width && others.iter().all(|length| length == width)
}

/// Marks the first line with words if it is a greeting.
fn mark_greeting(lines: &mut [Line<'_>], words: &Words) {
    let Some(line) = lines.iter_mut().find(|line| !line.words.is_empty()) else { return };
    let first = words.list().get(line.words.start);
    if line.kind == Kind::Body
        && line.words.len() <= GREETING_WORDS_MAX
        && first.is_some_and(|word| word.role == Role::Greeting)
    {
        line.kind = Kind::Greeting;
    }
}

/// Marks the lines of a range as boilerplate, if they count as the sender's own text so far.
fn mark(lines: &mut [Line<'_>], range: Range<usize>) {
    mark_as(Kind::Boilerplate, lines, range);
}

fn mark_as(kind: Kind, lines: &mut [Line<'_>], range: Range<usize>) {
    for line in lines.iter_mut().take(range.end).skip(range.start).filter(|line| line.kind == Kind::Body) {
        line.kind = kind;
    }
}

/// Returns the words of a range of lines.
fn words_of(lines: &[Line<'_>], range: Range<usize>) -> Range<usize> {
    let lines = lines.get(range).unwrap_or_default();
    match (lines.first(), lines.last()) {
        (Some(first), Some(last)) => first.words.start..last.words.end,
        _ => 0..0,
    }
}

/// Counts the words that are signs of a mailing list.
fn list_signs(words: &Words, range: Range<usize>) -> usize {
    let is_sign = |word: &&Word| matches!(word.role, Role::List | Role::ListName | Role::ListAddress);
    words.list().get(range).unwrap_or_default().iter().filter(is_sign).count()
}

/// Counts the different signs of a mailing list. All list names together count as one sign, and so do all list
/// addresses.
fn list_cues(words: &Words, range: Range<usize>) -> usize {
    let any = |role: Role| usize::from(cues(words, range.clone(), role) > 0);
    cues(words, range.clone(), Role::List) + any(Role::ListName) + any(Role::ListAddress)
}

/// Counts the different words that have this role.
fn cues(words: &Words, range: Range<usize>, role: Role) -> usize {
    let mut found: Vec<u64> = Vec::new();
    for word in words.list().get(range).unwrap_or_default() {
        if word.role == role && !found.contains(&word.hash) {
            found.push(word.hash);
        }
    }
    found.len()
}

#[cfg(test)]
impl Kind {
    /// Returns the letter that stands for the kind in tests.
    pub(super) fn letter(self) -> char {
        match self {
            Self::Body => 'B',
            Self::Quoted => 'Q',
            Self::Attribution => 'A',
            Self::Boilerplate => '-',
            Self::Greeting => 'G',
            Self::Appended => '+',
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fold;
    use super::*;

    /// Returns the kinds of the lines that have words, with one letter per line.
    fn kinds(text: &str) -> String {
        let folded = fold::folded(text);
        let mut words = Words::default();
        let lines = lines(&folded, &[], &mut words);
        lines.iter().filter(|line| !line.words.is_empty()).map(|line| line.kind.letter()).collect()
    }

    #[test]
    fn quotations_and_who_is_quoted() {
        assert_eq!(kinds("I agree.\nOn Monday John Smith wrote:\n> Let us meet\nJS> again\n| and again"), "BAQQQ");
        assert_eq!(kinds("See below\n-----Original Message-----\nFrom: John Smith\nthe message"), "BAAQ");
        assert_eq!(
            kinds("See below\nFrom: John Smith\nSent: Monday\nTo: Jane Smith\nSubject: words\nthe message"),
            "BAAAAQ"
        );
        assert_eq!(kinds("From: the heart of our firm\nwords"), "BB");
    }

    #[test]
    fn signatures_end_a_message_that_is_longer() {
        let text = "one two three four five six seven eight nine ten";
        assert_eq!(kinds(&format!("{text}\n-- \nJohn Smith\nSome Firm")), "B--");
        assert_eq!(kinds(&format!("-- \n{text}")), "B", "no text above the signature");
        assert_eq!(
            kinds(&format!("what the others say of it all\n-- \n{text}")),
            "BB",
            "too little text above the signature"
        );
        assert_eq!(
            kinds(&format!("what the others say of it all now\n-- \n{text}")),
            "B+",
            "more text below the mark than above"
        );
        assert_eq!(
            kinds(&format!("what the others say of it all now\n-- \n{text}\n{text}")),
            "BBB",
            "far more text below the mark than above"
        );
    }

    #[test]
    fn footers_of_lists() {
        let footer = "_______________________________\nSome mailing list\nsome@lists.example\nhttp://lists.example/listinfo/some";
        assert_eq!(kinds(&format!("What I say\n{footer}")), "B---");
        assert_eq!(kinds(&format!("What I say\n{footer}\n\n\nWhat follows it")), "B---B");
        let sponsored = format!("What I say\n-------------------\nThis list is sponsored by Some Firm\n{footer}");
        assert_eq!(kinds(&sponsored), "B----");
        assert_eq!(kinds("What I say\n==========\nTo be removed from our list\nclick here"), "BBB");
        let offer = "What I say\n==========\nmailing lists of a million addresses\nunsubscribe from poverty\nand so on"
            .to_owned();
        assert_eq!(kinds(&[offer, " with many more words".repeat(10)].concat()), "BBBB");
    }

    #[test]
    fn disclaimers_from_their_first_cue_to_their_last() {
        let disclaimer = "This message is confidential and intended solely for the addressee.\n\
            If you received it in error please notify the sender\nand delete it";
        assert_eq!(kinds(&format!("What I say\n\n{disclaimer}")), "B---");
        assert_eq!(kinds(&format!("What I say\n{disclaimer}\nmore words")), "B---B");
        assert_eq!(
            kinds("Ce message est confidentiel et réservé à son destinataire.\nEn cas d'erreur, prière de détruire"),
            "--"
        );
        assert_eq!(kinds("Este mensaje es confidencial y para su destinatario.\nQueda prohibida su divulgación"), "--");
        assert_eq!(kinds("Geschäftsführer: A. Schmidt\nAmtsgericht Musterstadt, HRB 1234"), "--");
        assert_eq!(kinds("This offer is strictly confidential, dear friend"), "B");
        let pitch = "Our clinic offers dental implants for half price, with airport transfer, hotel and a lifetime warranty on \
            every crown. Book a visit today.";
        let hidden = format!(
            "This message is confidential and intended only for the addressee.\n{pitch}\n\
             If you received it in error, delete it and notify the sender."
        );
        assert!(kinds(&hidden).contains('B'), "a sales pitch between two sentences of a disclaimer");
    }

    #[test]
    fn seals_of_pgp_are_no_text() {
        let sealed = "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA1\n\nWhat I say\n-----BEGIN PGP SIGNATURE-----\n\
            Version: GnuPG v1.0.7\n\niD8DBQE9VTWpAlphaBeta\n-----END PGP SIGNATURE-----\nand more";
        assert_eq!(kinds(sealed), "--B---B");
        let unending = format!("-----BEGIN PGP SIGNATURE-----\n{}", "what I say\n".repeat(SEAL_LINES_MAX));
        assert!(!kinds(&unending).contains('-'));
        let pitch = "-----BEGIN PGP SIGNATURE-----\nCheap watches for you\n-----END PGP SIGNATURE-----";
        assert!(kinds(pitch).contains('B'), "words alone are not a signature");
        let key = |lines: usize| {
            let key = "mQINBFabcDEF0123456789+/abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLM\n".repeat(lines);
            format!(
                "What I say\n-----BEGIN PGP PUBLIC KEY BLOCK-----\nVersion: GnuPG v2\n\n{key}=abcd\n-----END PGP PUBLIC KEY BLOCK-----\nand more"
            )
        };
        assert_eq!(kinds(&key(50)).replace('-', ""), "BB");
        assert!(!kinds(&key(KEY_LINES_MAX)).contains('-'), "too long");
    }

    #[test]
    fn seals_of_pgp_hide_no_text() {
        let data = "mQINBFabcDEF0123456789+/abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLM\n".repeat(3);
        let armour = |inside: &str| {
            kinds(&format!("-----BEGIN PGP PUBLIC KEY BLOCK-----\n{inside}\n-----END PGP PUBLIC KEY BLOCK-----"))
        };
        let desktop = "Version: PGP Desktop 9.0.3 (Build 2932) - not licensed for commercial use: www.pgp.com";
        let enigmail =
            "Version: GnuPG v1.4.10 (GNU/Linux)\nComment: Using GnuPG with Mozilla - http://enigmail.mozdev.org/";
        for header in ["", desktop, enigmail, "Comment: key\n".repeat(ARMOUR_HEADERS_MAX).trim_end()] {
            for inside in [
                format!("{header}\n\n{data}mQINBF==\n=aB3d"),
                format!("{header}\r\n \r\n{}", data.replace('\n', "\r\n")),
            ] {
                assert!(!armour(&inside).contains('B'), "{inside}");
            }
        }
        let pitch = "Cheap watches from the best makers are waiting for you today";
        for inside in [
            format!("{}\n{data}", "Comment: key\n".repeat(ARMOUR_HEADERS_MAX + 1)),
            format!("Comment: {pitch}\nComment: {pitch}\nComment: {pitch}\n\n{data}"),
            format!("\n{data}Comment: {pitch}\n{data}"),
            format!("\n{data}{}\n{data}", pitch.replace(' ', "\t")),
            format!("\n{data}{}", pitch.replace(' ', "\n")),
            format!("\n{}", pitch.replace(' ', "\n")),
            format!("\n{}", pitch.replace(' ', "\n=")),
            format!("\n{data}{}", "a".repeat(ARMOUR_BYTES_MAX + 1)),
        ] {
            assert!(!armour(&inside).contains('-'), "{inside}");
        }
        let hash = |value: &str| kinds(&format!("-----BEGIN PGP SIGNED MESSAGE-----\nHash: {value}\n\nWhat I say"));
        assert_eq!(hash("SHA256, SHA512"), "--B");
        assert_eq!(hash(&pitch.repeat(3)), "-BB");
    }

    #[test]
    fn only_the_first_line_greets() {
        assert_eq!(kinds("\nDear Mr. Smith,\nDear customers are what we like"), "GB");
        assert_eq!(kinds("Dear reader of our magazine for all who like to read"), "B");
    }

    /// Returns the number of lines below a rule that are classified as a footer.
    fn footer_lines(footer: &str) -> usize {
        let text = ["what the sender has to say\n__________\n", footer].concat();
        let lines = lines(&text, &[], &mut Words::default());
        lines.iter().skip(2).filter(|line| line.kind == Kind::Boilerplate).count()
    }

    #[test]
    fn a_footer_ends_at_its_bounds() {
        let of_lines = |count: usize| vec!["unsubscribe archives"; count].join("\n");
        assert_eq!(footer_lines(&of_lines(FOOTER_LINES_MAX)), FOOTER_LINES_MAX);
        assert_eq!(footer_lines(&of_lines(FOOTER_LINES_MAX + 1)), FOOTER_LINES_MAX);
        let of_words = |count: usize| ["unsubscribe", &" archives".repeat(count - 1)].concat();
        assert_eq!(footer_lines(&of_words(FOOTER_WORDS_MAX)), 1);
        assert_eq!(footer_lines(&of_words(FOOTER_WORDS_MAX + 1)), 0);
    }
}
