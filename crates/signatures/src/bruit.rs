//! Near replicas: features of what a reader sees, of which enough survive additions and substitutions.
//!
//! The text is folded (`fold`: case, accents, look-alikes), cut into words (`words`: digits and signs that stand for
//! letters, spelt-out words) and stripped of what is quoted or the same in every mail (`lines`). Content words in pairs,
//! at a distance of at most [`PAIR_DISTANCE_MAX`] and in either order, are the features. A report keeps
//! [`STORED_MAX`] of them; a check looks all of its own up and [`Stored`] decides.
//!
//! Features have no key: whoever compares them hashes them again under the key of the realm, and chooses which to keep in
//! that order, so that nobody outside can tell which those are. Their hash is fast, not cryptographic: other words with the
//! same feature can be found, which gives a sender nothing that the words themselves would not.

mod boilerplate;
mod fold;
mod lines;
pub(crate) mod quotes;
#[cfg(test)]
mod quoting;
mod roles;
mod rule;
mod words;

use crate::reading::{PageLink, Reading};
use crate::url::Link;
use lines::Line;
use words::Words;

pub use lines::Kind;
pub use rule::{Overlap, QUARTERS, STORED_MAX, STORED_MIN, Stored};

/// Two words make a feature at most this far apart, counting content words.
pub const PAIR_DISTANCE_MAX: usize = 3;

/// A message with fewer pairs of words is also known by where its links lead.
pub const PAIRS_ENOUGH: usize = 12;

/// Quoted lines count if they are this share of a message that does not say whom it quotes.
const QUOTED_PERCENT_MIN: usize = 90;

/// From so many words on, a message is more than a terse reply to what it quotes.
const TERSE_WORDS: usize = 8;

/// A message with fewer features that a report may keep gets a number for its whole: some, or all, of them may be too
/// common to be kept.
const WHOLE_FEATURES_MAX: usize = 24;

/// A text of fewer words, all of them counted, is too common to be known by its whole.
const WHOLE_WORDS_MIN: usize = 8;

/// The same with a link, which is part of the whole.
const WHOLE_WORDS_BESIDE_LINK_MIN: usize = 3;

/// What near replicas of a message share with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Pairs of words of the sender's own text, each once, in the order they are read.
    pub pairs: Vec<u64>,
    /// Further pairs, of text parts below the main one and of how to receive no more: a check looks them up, a report does
    /// not keep them.
    pub appended: Vec<u64>,
    /// The registered domains and file names of links.
    pub links: Vec<u64>,
    /// All words in their order, footers and quotations too, and the links: for messages with few features. A report that
    /// can keep fewer than [`STORED_MIN`] is known by this.
    pub whole: Option<u64>,
    /// Whether the features are those of quoted or forwarded text, as there is no other.
    pub is_quoted: bool,
    /// The files of good mail, one feature each. Reports and checks have none.
    pub files: Vec<u64>,
}

/// A text in the form it is compared in, and what was dropped; for people who want to know why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    /// The lines that have words.
    pub lines: Vec<ExplainedLine>,
    /// Whether quoted lines count, because they are all there is.
    pub quoted: Quoted,
}

/// A line of an [`Explanation`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedLine {
    /// What the line is.
    pub kind: Kind,
    /// The words that make features.
    pub words: Vec<String>,
    /// The words that do not: function words.
    pub dropped: Vec<String>,
}

impl Features {
    /// The features of a message.
    #[must_use]
    pub fn of(reading: &Reading) -> Self {
        Self::with_words(reading).0
    }

    /// The features of a message, and how many words it has.
    #[must_use]
    pub fn with_words(reading: &Reading) -> (Self, WordCounts) {
        let (folded, parts) = fold::folded_parts(reading);
        let mut words = Words::without_letters();
        let lines = lines::lines(&folded, &parts, &mut words);
        let quoted = Quoted::of(&lines);
        let own = content(&lines, &words, |kind| quoted.counts(kind));
        let below = content(&lines, &words, |kind| kind == Kind::Appended);
        let mut seen = Seen::with_capacity((own.len() + below.len()) * PAIR_DISTANCE_MAX);
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

    /// How many features a check of the message looks up.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pairs.len() + self.appended.len() + self.links.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What a report of the message may keep, in the order of the text: its pairs, and its links if those are few.
    pub fn own(&self) -> impl ExactSizeIterator<Item = u64> + Clone {
        let links = if self.pairs.len() < PAIRS_ENOUGH { self.links.as_slice() } else { &[] };
        let length = self.pairs.len() + links.len();
        (0..length).map(move |at| self.pairs.get(at).or_else(|| links.get(at - self.pairs.len())).copied().unwrap_or(0))
    }

    /// What a check of the message looks up: everything but the whole.
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

    /// Whether the words of a line make features.
    pub fn counts(&self, line: &ExplainedLine) -> bool {
        self.quoted.counts(line.kind)
    }
}

/// What quoted lines are to a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Quoted {
    /// Somebody else's words.
    #[default]
    IsNotOwn,
    /// The sender's own words behind marks of quotation: nearly all there is, and nobody is quoted.
    IsDisguise,
    /// Somebody else's words, and hardly any others.
    IsAllThereIs,
}

impl Quoted {
    fn of(lines: &[Line<'_>]) -> Self {
        let count =
            |kind: Kind| lines.iter().filter(|line| line.kind == kind).map(|line| line.words.len()).sum::<usize>();
        let (body, quoted) = (count(Kind::Body), count(Kind::Quoted));
        // Who is quoted is said above the quotation, not below it.
        let says_whom = |line: &&Line<'_>| line.kind == Kind::Attribution || line.is_forwarded;
        let unattributed = lines.iter().take_while(|line| !says_whom(line)).filter(|line| line.kind == Kind::Quoted);
        let unattributed: usize = unattributed.map(|line| line.words.len()).sum();
        if quoted == 0 {
            Self::IsNotOwn
        } else if unattributed > 0 && unattributed * 100 >= (body + quoted) * QUOTED_PERCENT_MIN {
            // A few words above the quote marks may be a terse reply: then nothing but the exact text is listed. More
            // words are the message, however much is quoted below them.
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

    /// Whether the words of such lines make features that a report may keep.
    fn counts(self, kind: Kind) -> bool {
        kind == Kind::Body || (kind == Kind::Quoted && self != Self::IsNotOwn)
    }
}

/// The words of some lines that make features.
fn content(lines: &[Line<'_>], words: &Words, counts: impl Fn(Kind) -> bool) -> Vec<u64> {
    let mut content = Vec::new();
    for line in lines.iter().filter(|line| counts(line.kind)) {
        let own = words.list().get(line.words.clone()).unwrap_or_default();
        content.extend(own.iter().filter(|word| word.role.counts()).map(|word| word.hash));
    }
    content
}

/// How many words a message has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WordCounts {
    /// All words, own, quoted or forwarded, except greetings, signatures and boilerplate.
    pub all: u32,
    /// The sender's own: neither quoted nor forwarded, neither greeting nor boilerplate, and not below the main part.
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

fn pairs(words: &[u64], seen: &mut Seen) -> Vec<u64> {
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

/// A set of numbers, at a third of the price of a `HashSet`. Whoever chooses words can make their numbers crowd one place,
/// so a number is looked for in [`PROBES_MAX`](Self::PROBES_MAX) slots only; one that finds no room there is lost.
struct Seen {
    slots: Vec<u64>,
    mask: usize,
}

impl Seen {
    /// Without contrivance, and at most half full, one number in a hundred thousand looks that far.
    const PROBES_MAX: usize = 32;

    fn with_capacity(numbers: usize) -> Self {
        let slots = (numbers * 2).next_power_of_two().max(16);
        Self { slots: vec![0; slots], mask: slots - 1 }
    }

    /// Adds a number; whether it is new. Zero marks an empty slot, and is never new.
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

/// The links of a message, except those in lines that do not count.
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
    // Lines are folded to lower case, addresses are not.
    let is_same = |link: &Link, other: &Link| link.host == other.host && link.path.eq_ignore_ascii_case(&other.path);
    for line in lines.iter().filter(|line| !may_hold_link(line.kind)) {
        if links.is_empty() {
            break;
        }
        Link::in_text(line.text).for_each(|other| links.retain(|link| !is_same(link, &other)));
    }
    links
}

/// Whether links in a line of this kind are the sender's own. A link in a greeting leads as far as any other.
const fn may_hold_link(kind: Kind) -> bool {
    matches!(kind, Kind::Body | Kind::Greeting)
}

/// Where links lead, without what changes from copy to copy.
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

/// One number for all words and the links.
fn whole(words: &Words, links: &[Link]) -> Option<u64> {
    let chain = |chained: u64, hash: u64| mix(hash.wrapping_add(mix(chained)));
    let text = words.list().iter().map(|word| word.hash).fold(0, chain);
    let links = links.iter().map(|link| words::hash(&link.to_string()));
    let words_min = if links.len() > 0 { WHOLE_WORDS_BESIDE_LINK_MIN } else { WHOLE_WORDS_MIN };
    (words.len() >= words_min).then(|| links.fold(text, chain))
}

/// One number for two words in either order: hashes are spread evenly, and so are their sums.
fn pair(one: u64, other: u64) -> u64 {
    one.wrapping_add(other)
}

/// Spreads every bit over all (the finaliser of MurmurHash3).
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
        let mut seen = Seen::with_capacity(1 << 16);
        // Numbers that begin in the same slot: the inverse of the mixing is not needed, only patience.
        let crowd: Vec<u64> = (1..).filter(|&number| mix(number) & 0x1_ffff == 7).take(100).collect();
        let kept = crowd.iter().filter(|&&number| seen.insert(number)).count();
        assert_eq!(kept, Seen::PROBES_MAX);
        assert!(!seen.insert(crowd[0]) && !seen.insert(crowd[99]));
    }
}
