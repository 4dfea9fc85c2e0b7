//! Recognition of near replicas by features of the visible text. A copy with additions and substitutions still has
//! enough features of the original.
//!
//! The text is processed in three steps. `fold` removes case and accents and replaces look-alikes. `words` splits the
//! text into words, converts digits and symbols that stand for letters, and joins words that are spelt letter by
//! letter. `lines` removes quotations and boilerplate. The features are unordered pairs of content words that are at
//! most [`PAIR_DISTANCE_MAX`] words apart. A report stores at most [`STORED_MAX`] of its features. A check looks up all
//! features of its message, and [`Stored`] decides whether they match.
//!
//! Features are not keyed. A server hashes the features again with the key of its realm and stores those with the
//! lowest hashes, so outsiders cannot predict the selection. The feature hash is fast, not cryptographic. A sender can
//! find other words with the same feature, but gains nothing by using them.

mod boilerplate;
mod fold;
mod lines;
pub(crate) mod quotes;
mod roles;
mod rule;
mod words;

use crate::reading::{PageLink, Reading};
use crate::url::Link;
use lines::Line;
use words::Words;

pub use lines::Kind;
pub use rule::{Overlap, QUARTERS, STORED_MAX, STORED_MIN, Stored};

/// Maximum distance, in content words, between the two words of a feature.
pub const PAIR_DISTANCE_MAX: usize = 3;

/// Minimum number of pairs that identify a message by themselves. If there are fewer, link targets count too.
pub const PAIRS_ENOUGH: usize = 12;

/// If at least this percentage of a message's words are in quoted lines, and no author is named above these lines, the
/// quoted words count as the sender's own.
const QUOTED_PERCENT_MIN: usize = 90;

/// Minimum number of the sender's own words in a message with quoted lines. If there are fewer, they may be a terse
/// reply.
const TERSE_WORDS: usize = 8;

/// A message with fewer storable features than this also gets a hash of its whole text. Its features alone may not be
/// enough, because some or all of them may be too common to be stored.
const WHOLE_FEATURES_MAX: usize = 24;

/// Minimum number of words of any kind for a hash of the whole text. Shorter texts are too common.
const WHOLE_WORDS_MIN: usize = 8;

/// Minimum number of words for a hash of the whole text if the text has a link, which is part of the hash.
const WHOLE_WORDS_BESIDE_LINK_MIN: usize = 3;

/// The features of a message. Near replicas are found by the features that they share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Pairs of words from the sender's own text, without duplicates, in reading order.
    pub pairs: Vec<u64>,
    /// Further pairs, from text parts below the main one and from unsubscribe instructions. A check looks up these
    /// pairs, but a report does not store them.
    pub appended: Vec<u64>,
    /// Registered domains and file names of links.
    pub links: Vec<u64>,
    /// Hash of the links and of all words in order, including footers and quotations. Only messages with few features
    /// have this hash. It identifies a report that stores fewer than [`STORED_MIN`] features.
    pub whole: Option<u64>,
    /// True if the message has only quoted or forwarded text, so that the features are from that text.
    pub is_quoted: bool,
    /// One feature for each file of a good mail. Empty for reports and checks.
    pub files: Vec<u64>,
}

/// The normalised text and the dropped parts, to show people where the features come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    /// Lines that contain words.
    pub lines: Vec<ExplainedLine>,
    /// The author of the quoted lines.
    pub quoted: Quoted,
}

/// A line of an [`Explanation`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedLine {
    /// Kind of line.
    pub kind: Kind,
    /// Words that make features.
    pub words: Vec<String>,
    /// Function words, which make no features.
    pub dropped: Vec<String>,
}

impl Features {
    /// Returns the features of a message.
    #[must_use]
    pub fn of(reading: &Reading) -> Self {
        Self::with_words(reading).0
    }

    /// Returns the features of a message and its word counts.
    #[must_use]
    pub fn with_words(reading: &Reading) -> (Self, WordCounts) {
        let (folded, parts) = fold::folded_parts(reading);
        let mut words = Words::without_letters();
        let lines = lines::lines(&folded, &parts, &mut words);
        let quoted = Quoted::of(&lines);
        let own = content(&lines, &words, |kind| quoted.counts(kind));
        let below = content(&lines, &words, |kind| kind == Kind::Appended);
        let mut seen = NumberSet::with_capacity((own.len() + below.len()) * PAIR_DISTANCE_MAX);
        let links = own_links(reading, &lines);
        let mut features = Self {
            pairs: pairs(&own, &mut seen),
            appended: pairs(&below, &mut seen),
            links: link_features(&links),
            whole: None,
            is_quoted: quoted == Quoted::IsAllThereIs,
            files: Vec::new(),
        };
        if features.own().len() < WHOLE_FEATURES_MAX {
            features.whole = whole(&words, &links);
        }
        (features, WordCounts::of(&lines, quoted))
    }

    /// Number of features that a check of the message looks up.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pairs.len() + self.appended.len() + self.links.len()
    }

    /// Returns true if there are no features.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over the features that a report may store, in text order. These are the pairs and, if there are few
    /// pairs, the links.
    pub fn own(&self) -> impl ExactSizeIterator<Item = u64> + Clone {
        let links = if self.pairs.len() < PAIRS_ENOUGH { self.links.as_slice() } else { &[] };
        let length = self.pairs.len() + links.len();
        (0..length).map(move |at| self.pairs.get(at).or_else(|| links.get(at - self.pairs.len())).copied().unwrap_or(0))
    }

    /// Iterates over the features that a check looks up, i.e. all except the hash of the whole text.
    pub fn all(&self) -> impl Iterator<Item = u64> {
        self.pairs.iter().chain(&self.appended).chain(&self.links).copied()
    }
}

impl Explanation {
    /// Explains the features of a message.
    pub fn of(reading: &Reading) -> Self {
        let (folded, parts) = fold::folded_parts(reading);
        let mut words = Words::default();
        let lines = lines::lines(&folded, &parts, &mut words);
        let explained = |line: &Line<'_>| {
            let own =
                line.words.clone().filter_map(|at| Some((words.list().get(at)?.role, words.letters(at).to_owned())));
            let own = own.filter(|(_, letters)| !letters.is_empty());
            let (kept, dropped): (Vec<_>, Vec<_>) = own.partition(|(role, _)| role.counts());
            let letters = |words: Vec<(_, String)>| words.into_iter().map(|(_, letters)| letters).collect();
            ExplainedLine { kind: line.kind, words: letters(kept), dropped: letters(dropped) }
        };
        Self {
            lines: lines.iter().filter(|line| !line.words.is_empty()).map(explained).collect(),
            quoted: Quoted::of(&lines),
        }
    }

    /// Returns true if the words of a line make features.
    pub fn counts(&self, line: &ExplainedLine) -> bool {
        self.quoted.counts(line.kind)
    }
}

/// The author of the quoted lines of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Quoted {
    /// Another author's words.
    #[default]
    IsNotOwn,
    /// The sender's own words, disguised as a quotation. Nearly all words are in quoted lines, and no author is named
    /// above them.
    IsDisguise,
    /// Another author's words. The sender added hardly any words.
    IsAllThereIs,
}

impl Quoted {
    fn of(lines: &[Line<'_>]) -> Self {
        let count =
            |kind: Kind| lines.iter().filter(|line| line.kind == kind).map(|line| line.words.len()).sum::<usize>();
        let (body, quoted) = (count(Kind::Body), count(Kind::Quoted));
        // The quoted author is named above the quotation, not below it.
        let says_whom = |line: &&Line<'_>| line.kind == Kind::Attribution || line.is_forwarded;
        let unattributed = lines.iter().take_while(|line| !says_whom(line)).filter(|line| line.kind == Kind::Quoted);
        let unattributed: usize = unattributed.map(|line| line.words.len()).sum();
        if quoted == 0 {
            Self::IsNotOwn
        } else if unattributed > 0 && unattributed * 100 >= (body + quoted) * QUOTED_PERCENT_MIN {
            // If there are only a few words outside the quoted lines, they may be a terse reply. Then the quoted words
            // do not count as the sender's own, and only the exact text identifies the message. If there are more
            // words, they are the message, however much is quoted.
            match body {
                0 => Self::IsDisguise,
                1..TERSE_WORDS => Self::IsAllThereIs,
                _ => Self::IsNotOwn,
            }
        } else if body == 0 {
            Self::IsAllThereIs
        } else {
            Self::IsNotOwn
        }
    }

    /// Returns true if the words of lines of this kind make features that a report may store.
    fn counts(self, kind: Kind) -> bool {
        kind == Kind::Body || (kind == Kind::Quoted && self != Self::IsNotOwn)
    }
}

/// Returns the words that make features, from the lines whose kind satisfies `counts`.
fn content(lines: &[Line<'_>], words: &Words, counts: impl Fn(Kind) -> bool) -> Vec<u64> {
    let mut content = Vec::new();
    for line in lines.iter().filter(|line| counts(line.kind)) {
        let own = words.list().get(line.words.clone()).unwrap_or_default();
        content.extend(own.iter().filter(|word| word.role.counts()).map(|word| word.hash));
    }
    content
}

/// Word counts of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WordCounts {
    /// Number of all words, whether own, quoted or forwarded, except those in greetings, signatures and boilerplate.
    pub all: u32,
    /// Number of the sender's own words. Words that are quoted or forwarded, in a greeting or boilerplate, or below the
    /// main part are not counted.
    pub own: u32,
}

impl WordCounts {
    fn of(lines: &[Line<'_>], quoted: Quoted) -> Self {
        let is_own = |kind: Kind| kind == Kind::Body || (kind == Kind::Quoted && quoted == Quoted::IsDisguise);
        let mut counts = Self::default();
        for line in lines {
            let words = u32::try_from(line.words.len()).unwrap_or(u32::MAX);
            let is_said = matches!(line.kind, Kind::Body | Kind::Quoted) && !line.is_stock;
            counts.all = counts.all.saturating_add(if is_said { words } else { 0 });
            counts.own = counts.own.saturating_add(if is_said && is_own(line.kind) { words } else { 0 });
        }
        counts
    }
}

fn pairs(words: &[u64], seen: &mut NumberSet) -> Vec<u64> {
    let mut pairs = Vec::with_capacity(words.len() * PAIR_DISTANCE_MAX);
    for (at, &one) in words.iter().enumerate() {
        let following = words.get(at + 1..words.len().min(at + 1 + PAIR_DISTANCE_MAX)).unwrap_or_default();
        for &other in following.iter().filter(|&&other| other != one) {
            let pair = pair(one, other);
            if seen.insert(pair) {
                pairs.push(pair);
            }
        }
    }
    pairs
}

/// A set of numbers, three times as fast as a `HashSet`. An attacker can choose words whose numbers collide. To bound
/// the work, a number is looked up in at most [`PROBES_MAX`](Self::PROBES_MAX) slots, and dropped if all of them are
/// taken.
struct NumberSet {
    slots: Vec<u64>,
    mask: usize,
}

impl NumberSet {
    /// Maximum number of probes. The table is at most half full. Without an attack, only one number in a hundred
    /// thousand needs this many probes.
    const PROBES_MAX: usize = 32;

    fn with_capacity(numbers: usize) -> Self {
        let slots = (numbers * 2).next_power_of_two().max(16);
        Self { slots: vec![0; slots], mask: slots - 1 }
    }

    /// Inserts a number and returns true if it is new. Zero marks an empty slot and is never new.
    fn insert(&mut self, number: u64) -> bool {
        let start = mix(number) as usize;
        for probe in 0..Self::PROBES_MAX {
            let Some(slot) = self.slots.get_mut(start.wrapping_add(probe) & self.mask) else { return false };
            if *slot == number {
                return false;
            }
            if *slot == 0 {
                *slot = number;
                return true;
            }
        }
        false
    }
}

/// Returns the links of a message, except those in lines that are not the sender's own, such as quotations.
fn own_links(reading: &Reading, lines: &[Line<'_>]) -> Vec<Link> {
    let mut links = Link::all(reading);
    let is_own =
        |link: &&PageLink| link.line.and_then(|line| lines.get(line)).is_none_or(|line| may_hold_link(line.kind));
    let (own, others): (Vec<_>, Vec<_>) = reading.links.iter().partition(is_own);
    if !others.is_empty() {
        let read =
            |links: Vec<&PageLink>| links.into_iter().filter_map(|link| Link::read(&link.target)).collect::<Vec<_>>();
        let (own, others) = (read(own), read(others));
        links.retain(|link| own.contains(link) || !others.contains(link));
    }
    // The lines are folded to lower case, but link targets are not.
    let is_same = |link: &Link, other: &Link| link.host == other.host && link.path.eq_ignore_ascii_case(&other.path);
    for line in lines.iter().filter(|line| !may_hold_link(line.kind)) {
        if links.is_empty() {
            break;
        }
        Link::in_text(line.text).for_each(|other| links.retain(|link| !is_same(link, &other)));
    }
    links
}

/// Returns true if links in lines of this kind are the sender's own. A link in a greeting reaches the reader like any
/// other link.
const fn may_hold_link(kind: Kind) -> bool {
    matches!(kind, Kind::Body | Kind::Greeting)
}

/// Returns the features of link targets. The parts of a target that differ from copy to copy are left out.
fn link_features(links: &[Link]) -> Vec<u64> {
    let mut features = Vec::new();
    for link in links {
        let file = link.path.rsplit('/').find(|name| !name.is_empty()).unwrap_or_default();
        for name in [link.registered(), file].into_iter().filter(|name| !name.is_empty()) {
            let feature = mix(words::hash(name));
            if !features.contains(&feature) {
                features.push(feature);
            }
        }
    }
    features
}

/// Returns a hash of all words and links, or `None` if there are too few words.
fn whole(words: &Words, links: &[Link]) -> Option<u64> {
    let chain = |chained: u64, hash: u64| mix(hash.wrapping_add(mix(chained)));
    let text = words.list().iter().map(|word| word.hash).fold(0, chain);
    let links = links.iter().map(|link| words::hash(&link.to_string()));
    let words_min = if links.len() > 0 { WHOLE_WORDS_BESIDE_LINK_MIN } else { WHOLE_WORDS_MIN };
    (words.len() >= words_min).then(|| links.fold(text, chain))
}

/// Combines the hashes of two words, regardless of their order. The sum is as evenly distributed as the hashes.
fn pair(one: u64, other: u64) -> u64 {
    one.wrapping_add(other)
}

/// Makes every output bit depend on every input bit (the finaliser of MurmurHash3).
fn mix(mut value: u64) -> u64 {
    value ^= value >> 33;
    value = value.wrapping_mul(0xff51_afd7_ed55_8ccd);
    value ^= value >> 33;
    value = value.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    value ^ (value >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_crowd_one_place_are_lost_and_cost_no_time() {
        let mut seen = NumberSet::with_capacity(1 << 16);
        // Numbers that start in the same slot, found by brute force.
        let crowd: Vec<u64> = (1..).filter(|&number| mix(number) & 0x1_ffff == 7).take(100).collect();
        let kept = crowd.iter().filter(|&&number| seen.insert(number)).count();
        assert_eq!(kept, NumberSet::PROBES_MAX);
        assert!(!seen.insert(crowd[0]) && !seen.insert(crowd[99]));
    }
}
