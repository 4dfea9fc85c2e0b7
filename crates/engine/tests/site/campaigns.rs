//! Spam campaigns that copy mail received by the site's people.

use bruit_engine::time::Time;
use rand::RngExt as _;
use rand::rngs::ChaCha8Rng;
use rand::seq::IndexedRandom as _;

use crate::mail::{Block, File, Form, Mail, NAME, Quote, QuoteStyle, REFERENCE};
use crate::people::{Person, STOCK};
use crate::senders::Sender;
use crate::words::{Language, Voice, vary};

/// Share of words that are replaced in every copy of a varied campaign.
const VARIED_SHARE: f64 = 0.05;

/// The content that a campaign copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Trick {
    /// Nothing. The campaign has its own text.
    Nothing,
    /// A brand's logo and name.
    Logo,
    /// A brand's logo and part of the text of its mail. The value is the size of that part in per cent.
    Template(u32),
    /// The last mail that the recipient received, quoted.
    Thread,
    /// The footer of a provider or a firm.
    Footer,
    /// The terms of a shop and a person's business card.
    Attachment,
    /// A sentence in common use. The spam is in an attached file.
    StockSentence,
}

impl Trick {
    pub(crate) const ALL: [Self; 10] = [
        Self::Nothing,
        Self::Logo,
        Self::Template(20),
        Self::Template(40),
        Self::Template(60),
        Self::Template(80),
        Self::Thread,
        Self::Footer,
        Self::Attachment,
        Self::StockSentence,
    ];

    pub(crate) fn name(self) -> String {
        match self {
            Self::Nothing => "nothing".into(),
            Self::Logo => "logo".into(),
            Self::Template(share) => format!("template {share} %"),
            Self::Thread => "quoted thread".into(),
            Self::Footer => "footer".into(),
            Self::Attachment => "attachment".into(),
            Self::StockSentence => "stock sentence, file".into(),
        }
    }
}

/// A spam campaign.
pub(crate) struct Campaign {
    pub(crate) trick: Trick,
    pub(crate) is_varied: bool,
    style: QuoteStyle,
    mail: Mail,
}

impl Campaign {
    /// Creates a campaign that copies from `sender`. `specimen` is one of the sender's messages.
    pub(crate) fn new(
        number: usize,
        sender: &Sender,
        specimen: Mail,
        people: &[Person],
        language: &Language,
        random: &mut ChaCha8Rng,
    ) -> Self {
        let trick = Trick::ALL[number % Trick::ALL.len()];
        let voice = language.voice(random);
        let mut mail = Mail {
            from: format!("Service <info@{}.example>", language.word(random)),
            subject: voice.headline(random),
            form: *[Form::Plain, Form::Html, Form::Both].choose(random).expect("there are some"),
            blocks: own_text(&voice, random),
            files: vec![],
            appended: None,
        };
        match trick {
            Trick::Nothing | Trick::Thread => {}
            Trick::Logo => {
                mail.form = Form::Html;
                mail.blocks.insert(0, Block::Logo);
                mail.blocks.insert(1, Block::Heading(sender.brand.clone()));
                mail.files = specimen.files.iter().filter(|file| file.is_inline).cloned().collect();
            }
            Trick::Template(share) => {
                mail.form = specimen.form;
                mail.blocks = copied(&specimen.blocks, share as usize, &voice, random);
                mail.files = specimen.files;
                mail.appended = specimen.appended;
            }
            Trick::Footer => mail.appended = people.iter().filter_map(Person::footer).nth(number).cloned(),
            Trick::Attachment => {
                mail.files = vec![sender.terms()];
                mail.files.extend(people.iter().filter_map(Person::card).nth(number / Trick::ALL.len()).cloned());
            }
            Trick::StockSentence => {
                let sentence = STOCK.choose(random).expect("there are some").to_string();
                mail.blocks = vec![Block::Paragraph(format!("Hello {NAME},")), Block::Paragraph(sentence)];
                mail.files = vec![File::new("document.zip", "application/zip", 4_000, random)];
            }
        }
        let style = *[QuoteStyle::Marks, QuoteStyle::Original, QuoteStyle::Header].choose(random).expect("some");
        // Every second campaign with the same trick is varied.
        Self { trick, is_varied: number / Trick::ALL.len() % 2 == 1, style, mail }
    }

    /// Returns the copy for a person whose last received message is `last`.
    pub(crate) fn copy(
        &self,
        person: &Person,
        last: Option<&Quote>,
        language: &Language,
        random: &mut ChaCha8Rng,
    ) -> Mail {
        let mut mail = self.mail.filled(&person.name, random);
        if self.is_varied {
            mail = mail.map_text(|text| vary(text, VARIED_SHARE, language, random));
        }
        if let Some(last) = last.filter(|_| self.trick == Trick::Thread) {
            mail.blocks.push(Block::Quote(Quote { style: self.style, ..last.clone() }));
            mail.subject.clone_from(&last.subject);
        }
        mail
    }

    /// Returns the times at which the copies are sent, within one to three days.
    pub(crate) fn schedule(start: Time, copies: usize, random: &mut ChaCha8Rng) -> Vec<Time> {
        let length = random.random_range(Time::DAY..=3 * Time::DAY);
        (0..copies).map(|_| Time(start.0 + random.random_range(0..length))).collect()
    }
}

fn own_text(voice: &Voice, random: &mut ChaCha8Rng) -> Vec<Block> {
    let mut blocks = vec![Block::Paragraph(format!("Dear {NAME},"))];
    blocks.extend((0..random.random_range(1..=3)).map(|_| Block::Paragraph(voice.paragraph(35, random))));
    let address = format!("https://{}.example/go?{REFERENCE}", voice.headline(random).to_lowercase().replace(' ', "-"));
    blocks.push(Block::Link { text: voice.headline(random), address });
    blocks
}

/// Returns a copy of a mail with a new middle. A share of the mail's words is kept at the start and at the end.
fn copied(blocks: &[Block], share: usize, voice: &Voice, random: &mut ChaCha8Rng) -> Vec<Block> {
    let words = |block: &Block| match block {
        Block::Paragraph(text) | Block::Heading(text) => text.split(' ').count(),
        Block::Lines(lines) => lines.iter().map(|line| line.split(' ').count()).sum(),
        Block::Link { .. } => 2,
        Block::Logo | Block::Signature(_) | Block::Quote(_) => 0,
    };
    let total: usize = blocks.iter().map(words).sum();
    let kept = total * share / 100;
    let cut = kept / 2..total - (kept - kept / 2);
    let own = Block::Paragraph(voice.paragraph(cut.len(), random));
    let mut copied = Vec::new();
    let (mut at, mut own) = (0, Some(own));
    for block in blocks {
        let (start, end) = (at, at + words(block));
        at = end;
        let within = |place: usize| cut.contains(&(start + place));
        let split = |text: &str, keep: &dyn Fn(usize) -> bool| {
            let words = text.split(' ').enumerate().filter(|(place, _)| keep(*place));
            words.map(|(_, word)| word).collect::<Vec<_>>().join(" ")
        };
        match block {
            Block::Paragraph(text) if start < cut.end && end > cut.start => {
                let above = split(text, &|place| start + place < cut.start);
                let below = split(text, &|place| start + place >= cut.end);
                copied.extend((!above.is_empty()).then_some(Block::Paragraph(above)));
                copied.extend(own.take());
                copied.extend((!below.is_empty()).then_some(Block::Paragraph(below)));
            }
            _ if within(0) && end > start => copied.extend(own.take()),
            block => copied.push(block.clone()),
        }
    }
    copied
}
