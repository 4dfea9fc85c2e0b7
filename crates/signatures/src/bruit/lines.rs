//! Which lines are what the sender has to say, and which are quoted, or the same in every mail of a list or a firm.
//!
//! Lines that do not count cause no false matches. But a sender who writes his text like one of them hides in it, so each
//! rule asks for more than one sign; `docs/near-replicas.md` lists what still works.

use std::ops::Range;

use super::roles::Role;
use super::words::{Word, Words};
use crate::reading::TextPart;

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What the sender has to say.
    Body,
    /// What someone else said before.
    Quoted,
    /// The line that says who said it.
    Attribution,
    /// A signature, list footer or disclaimer.
    Boilerplate,
    /// A greeting, which is personal.
    Greeting,
    /// A text part below the main one, such as a footer that a firm or list adds.
    Appended,
}

/// A line of folded text.
#[derive(Clone, Debug)]
pub(super) struct Line<'t> {
    pub text: &'t str,
    pub kind: Kind,
    /// Whether it is made of signs, and parts what is above it from what is below.
    is_rule: bool,
    /// Which of the words are its own.
    pub words: Range<usize>,
    /// The part of the message that it is in.
    part: usize,
    /// Whether that is part of a message within the message.
    pub is_forwarded: bool,
}

/// A signature may be this many words long, below at least this many; the sponsor above a footer this many.
const SIGNATURE_WORDS_MAX: usize = 120;
const SIGNED_WORDS_MIN: usize = 8;
const SPONSOR_WORDS_MAX: usize = 40;

/// A footer ends at this many blank lines, and has at most this many lines and words: rules below each other would else be
/// looked through once for each.
const FOOTER_GAP_LINES: usize = 2;
const FOOTER_LINES_MAX: usize = 400;
const FOOTER_WORDS_MAX: usize = 1_000;

/// A footer has this many different signs of a list, and one in so many words.
const LIST_CUES_MIN: usize = 2;
const LIST_WORDS_PER_CUE: usize = 12;

/// A disclaimer is a paragraph with this many different words of disclaimers, one in so many words.
const DISCLAIMER_CUES_MIN: usize = 3;
const DISCLAIMER_WORDS_PER_CUE: usize = 12;
const PARAGRAPH_LINES_MAX: usize = 40;

/// A rule has so many signs, and hardly anything else.
const RULE_SIGNS_MIN: usize = 8;
const RULE_OTHERS_MAX: usize = 3;

/// An attribution or greeting is short.
const ATTRIBUTION_BYTES_MAX: usize = 120;
const GREETING_WORDS_MAX: usize = 5;

/// The main part of a message is the first with this many words of the sender's own.
const MAIN_WORDS_MIN: usize = 20;

/// A part below the main one is only appended to it if it has at most this many times its words.
const APPENDED_TIMES_MAX: usize = 2;

/// Splits folded text into lines and says what each is. The words of all lines go to `words`.
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
        lines.push(Line { text, kind, is_rule, words: from..words.len(), part, is_forwarded });
    }
    mark_quotes(&mut lines);
    mark_footers(&mut lines, words);
    mark_disclaimers(&mut lines, words);
    mark_greeting(&mut lines, words);
    mark_appended(&mut lines, parts.len());
    lines
}

/// Marks the text parts below the main one that are not much longer than it.
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

fn mark_quotes(lines: &mut [Line<'_>]) {
    let original = (0..lines.len()).find(|&at| lines.get(at..).is_some_and(begins_original)).unwrap_or(lines.len());
    for (at, line) in lines.iter_mut().enumerate() {
        if at >= original || line.is_forwarded || is_quoted(line.text) {
            line.kind = Kind::Quoted;
        } else if is_attribution(line.text) {
            line.kind = Kind::Attribution;
        }
    }
}

/// Whether the line begins with a mark of quotation: `>`, initials and `>`, or a bar.
fn is_quoted(line: &str) -> bool {
    let line = line.trim_ascii_start();
    let mark = line.bytes().take(4).take_while(u8::is_ascii_alphanumeric).count();
    match line.as_bytes() {
        [b'|' | b':', behind, ..] => behind.is_ascii_whitespace() || *behind == b'>',
        [b'|' | b':'] => true,
        bytes => bytes.get(mark) == Some(&b'>'),
    }
}

/// `On a day, someone wrote:`
fn is_attribution(line: &str) -> bool {
    const ENDS: [&str; 14] = [
        "wrote",
        "writes",
        "said",
        "says",
        "schrieb",
        "ecrit",
        "escribio",
        "ha scritto",
        "scrive",
        "escreveu",
        "skrev",
        "schreef",
        "napisal",
        "kirjoitti",
    ];
    let line = line.trim_ascii();
    let is_short = line.len() < ATTRIBUTION_BYTES_MAX;
    is_short && line.strip_suffix(':').is_some_and(|line| ENDS.iter().any(|end| line.trim_ascii_end().ends_with(end)))
}

/// Whether everything from here on is a message passed on: the mark that mail programs set, or the header they copy.
fn begins_original(lines: &[Line<'_>]) -> bool {
    const MARKS: [&str; 6] = [
        "original message",
        "forwarded message",
        "forwarded by",
        "begin forwarded message",
        "reply separator",
        "ursprungliche nachricht",
    ];
    let Some(first) = lines.first().map(|line| line.text.trim_ascii()) else { return false };
    if first.starts_with("--") || first.starts_with("__") {
        let inner = first.trim_start_matches(['-', '_', ' ']);
        return MARKS.iter().any(|mark| inner.starts_with(mark));
    }
    let is_field =
        |line: &Line<'_>, names: &[&str]| names.iter().any(|name| line.text.trim_ascii_start().starts_with(name));
    let has = |names: &[&str]| lines.iter().take(6).any(|line| is_field(line, names));
    first.starts_with("from:") && has(&["sent:", "date:"]) && has(&["to:"]) && has(&["subject:"])
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
        if is_signature && rest <= SIGNATURE_WORDS_MAX && line.words.start >= rest.max(SIGNED_WORDS_MIN) {
            mark(lines, at..lines.len());
            continue;
        }
        let block = footer_block(lines, at);
        let own = words_of(lines, block.clone());
        // The sponsor of a list stands above its footer, between rules of its own.
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

/// A line of signs, or nearly.
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

/// The lines from a rule to the next one, or to a gap of several blank lines.
fn footer_block(lines: &[Line<'_>], at: usize) -> Range<usize> {
    let behind = lines.get(at + 1..).unwrap_or_default();
    let behind = behind.get(..FOOTER_LINES_MAX).unwrap_or(behind);
    // Two rules may stand one below the other.
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
    let is_sign = |word: &&Word| matches!(word.role, Role::List | Role::ListName | Role::ListAddress);
    let signs = words.list().get(own.clone()).unwrap_or_default().iter().filter(is_sign).count();
    own.len() <= signs * LIST_WORDS_PER_CUE && list_cues(words, own) >= LIST_CUES_MIN
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

/// The lines of a paragraph from its first word of disclaimers to its last, if there are enough of them.
fn disclaimer(lines: &[Line<'_>], paragraph: Range<usize>, words: &Words) -> Option<Range<usize>> {
    let has_cue = |&at: &usize| cues(words, words_of(lines, at..at + 1), Role::Disclaimer) > 0;
    let first = paragraph.clone().find(has_cue)?;
    let last = paragraph.rev().find(has_cue)?;
    let own = words_of(lines, first..last + 1);
    let found = cues(words, own.clone(), Role::Disclaimer);
    (found >= DISCLAIMER_CUES_MIN && found * DISCLAIMER_WORDS_PER_CUE >= own.len()).then_some(first..last + 1)
}

/// The first line with words, if it is a greeting.
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

/// Marks what is left of the body in a range of lines.
fn mark(lines: &mut [Line<'_>], range: Range<usize>) {
    for line in lines.iter_mut().take(range.end).skip(range.start).filter(|line| line.kind == Kind::Body) {
        line.kind = Kind::Boilerplate;
    }
}

/// The words of a range of lines.
fn words_of(lines: &[Line<'_>], range: Range<usize>) -> Range<usize> {
    let lines = lines.get(range).unwrap_or_default();
    match (lines.first(), lines.last()) {
        (Some(first), Some(last)) => first.words.start..last.words.end,
        _ => 0..0,
    }
}

/// How many different signs of a mailing list there are.
fn list_cues(words: &Words, range: Range<usize>) -> usize {
    let any = |role: Role| usize::from(cues(words, range.clone(), role) > 0);
    cues(words, range.clone(), Role::List) + any(Role::ListName) + any(Role::ListAddress)
}

/// How many different words of a role there are.
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
mod tests {
    use super::super::fold;
    use super::*;

    /// The kinds of the lines that have words, as letters.
    fn kinds(text: &str) -> String {
        let folded = fold::folded(text);
        let mut words = Words::default();
        let lines = lines(&folded, &[], &mut words);
        let letter = |kind: Kind| match kind {
            Kind::Body => 'B',
            Kind::Quoted => 'Q',
            Kind::Attribution => 'A',
            Kind::Boilerplate => '-',
            Kind::Greeting => 'G',
            Kind::Appended => '+',
        };
        lines.iter().filter(|line| !line.words.is_empty()).map(|line| letter(line.kind)).collect()
    }

    #[test]
    fn quotations_and_who_is_quoted() {
        assert_eq!(kinds("I agree.\nOn Monday John Smith wrote:\n> Let us meet\nJS> again\n| and again"), "BAQQQ");
        assert_eq!(kinds("See below\n-----Original Message-----\nFrom: John Smith\nthe message"), "BQQQ");
        assert_eq!(
            kinds("See below\nFrom: John Smith\nSent: Monday\nTo: Jane Smith\nSubject: words\nthe message"),
            "BQQQQQ"
        );
        assert_eq!(kinds("From: the heart of our firm\nwords"), "BB");
    }

    #[test]
    fn signatures_end_a_message_that_is_longer() {
        let text = "one two three four five six seven eight nine ten";
        assert_eq!(kinds(&format!("{text}\n-- \nJohn Smith\nSome Firm")), "B--");
        assert_eq!(kinds(&format!("-- \n{text}")), "B", "nothing is signed");
        assert_eq!(kinds(&format!("two words\n-- \n{text}")), "BB", "more below than above");
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
    }

    #[test]
    fn only_the_first_line_greets() {
        assert_eq!(kinds("\nDear Mr. Smith,\nDear customers are what we like"), "GB");
        assert_eq!(kinds("Dear reader of our magazine for all who like to read"), "B");
    }

    /// How many lines below a rule are taken for a footer.
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
