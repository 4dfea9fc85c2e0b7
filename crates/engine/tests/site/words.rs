//! Text in an invented language, which has so many words that two senders rarely share a phrase.

use rand::rngs::ChaCha8Rng;
use rand::seq::{IndexedRandom as _, SliceRandom as _};
use rand::{RngExt as _, SeedableRng as _};

/// Number of content words in the language.
const WORDS: usize = 6_000;
/// Number of words used by one sender.
const VOICE_WORDS: usize = 400;
/// Number of words that a topic adds.
const TOPIC_WORDS: usize = 60;

const ONSETS: [&str; 20] =
    ["b", "br", "d", "dr", "f", "fl", "g", "gr", "k", "kl", "l", "m", "n", "p", "pr", "r", "s", "st", "t", "v"];
const NUCLEI: [&str; 8] = ["a", "e", "i", "o", "u", "ai", "ou", "ea"];
const CODAS: [&str; 10] = ["", "", "n", "r", "l", "s", "t", "nd", "rk", "m"];
const FUNCTION_WORDS: [&str; 24] = [
    "the", "of", "and", "to", "in", "for", "with", "on", "that", "is", "are", "was", "this", "from", "by", "at", "as",
    "it", "our", "your", "we", "you", "all", "has",
];

/// The language shared by all senders.
pub(crate) struct Language {
    words: Vec<String>,
}

/// The words used by a sender, most frequent first.
#[derive(Clone)]
pub(crate) struct Voice {
    words: Vec<String>,
}

impl Language {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed ^ 0x1a96);
        let mut words: Vec<String> = Vec::with_capacity(WORDS * 2);
        while words.len() < WORDS {
            words.extend((words.len()..WORDS).map(|_| word(&mut random)));
            words.sort_unstable();
            words.dedup();
        }
        words.shuffle(&mut random);
        Self { words }
    }

    /// Returns a voice: a mix of common and rare words.
    pub(crate) fn voice(&self, random: &mut ChaCha8Rng) -> Voice {
        let mut words: Vec<String> = (0..VOICE_WORDS).map(|_| self.word(random).to_owned()).collect();
        words.sort_unstable();
        words.dedup();
        words.shuffle(random);
        Voice { words }
    }

    /// Returns the voice of a sender on a topic. The words of the topic come first.
    pub(crate) fn on_topic(&self, voice: &Voice, random: &mut ChaCha8Rng) -> Voice {
        let mut words: Vec<String> = (0..TOPIC_WORDS).map(|_| self.word(random).to_owned()).collect();
        words.extend((TOPIC_WORDS..VOICE_WORDS).map(|_| voice.word(random).to_owned()));
        Voice { words }
    }

    /// Returns a random word. One in three is a common word.
    pub(crate) fn word(&self, random: &mut ChaCha8Rng) -> &str {
        let share: f64 = random.random();
        let at = if random.random_bool(0.33) { share * share * share } else { share };
        &self.words[((at * WORDS as f64) as usize).min(WORDS - 1)]
    }

    /// Returns a capitalised word, for use as the name of a person, firm or product.
    pub(crate) fn name(&self, random: &mut ChaCha8Rng) -> String {
        capital(self.word(random))
    }
}

impl Voice {
    /// Returns a sentence of 7 to 16 words.
    pub(crate) fn sentence(&self, random: &mut ChaCha8Rng) -> String {
        let length = random.random_range(7..=16);
        let mut words: Vec<&str> = Vec::with_capacity(length);
        for at in 0..length {
            let is_function = at % 3 == 1 || random.random_bool(0.15);
            words.push(if is_function {
                FUNCTION_WORDS.choose(random).expect("there are some")
            } else {
                self.word(random)
            });
        }
        capital(&words.join(" ")) + "."
    }

    /// Returns a paragraph of about `words` words.
    pub(crate) fn paragraph(&self, words: usize, random: &mut ChaCha8Rng) -> String {
        let mut text = self.sentence(random);
        while text.split(' ').count() + 6 < words {
            text = format!("{text} {}", self.sentence(random));
        }
        text
    }

    /// Returns a few words without a full stop, for a subject or a headline.
    pub(crate) fn headline(&self, random: &mut ChaCha8Rng) -> String {
        let length = random.random_range(3..=6);
        let words: Vec<&str> = (0..length).map(|_| self.word(random)).collect();
        capital(&words.join(" "))
    }

    fn word(&self, random: &mut ChaCha8Rng) -> &str {
        let share: f64 = random.random();
        &self.words[((share * share * self.words.len() as f64) as usize).min(self.words.len() - 1)]
    }
}

/// Replaces a share of the content words.
pub(crate) fn vary(text: &str, share: f64, language: &Language, random: &mut ChaCha8Rng) -> String {
    let is_content = |word: &str| word.len() > 4 && word.bytes().all(|byte| byte.is_ascii_lowercase());
    let words = text.split(' ').map(|word| {
        let is_replaced = random.random_bool(share);
        let other = language.word(random);
        if is_replaced && is_content(word) { other } else { word }
    });
    words.collect::<Vec<_>>().join(" ")
}

fn word(random: &mut ChaCha8Rng) -> String {
    let syllables = random.random_range(2..=3);
    let mut pick = |from: &[&'static str]| *from.choose(random).expect("there are some");
    let mut word: String = (0..syllables).map(|_| [pick(&ONSETS), pick(&NUCLEI)].concat()).collect();
    word += pick(&CODAS);
    word
}

pub(crate) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}
