//! People who write to each other: threads with quotations, signatures and files.

use bruit_engine::time::Time;
use rand::rngs::ChaCha8Rng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};

use crate::mail::{Block, File, Form, Mail, Quote, QuoteStyle};
use crate::words::{Language, Voice};

/// Number of firms for which people work. Each adds its own footer.
const FIRMS: usize = 8;
/// Number of mailbox providers. Each adds its own footer.
const PROVIDERS: usize = 4;

/// Sentences in common use, in good mail as well as in spam.
pub(crate) const STOCK: [&str; 5] = [
    "Please see the attached document.",
    "Please find attached the invoice as discussed. Let me know if you have any questions.",
    "Here is the file you asked for.",
    "As promised, the document is attached. Best regards",
    "Thank you for your message. Please find the details in the attachment.",
];

/// A person who writes mail.
pub(crate) struct Person {
    pub(crate) name: String,
    pub(crate) address: String,
    voice: Voice,
    form: Form,
    style: QuoteStyle,
    signature: Vec<String>,
    card: Option<File>,
    disclaimer: Option<String>,
    appended: Option<String>,
}

/// A conversation between two people.
pub(crate) struct Thread {
    pub(crate) ends: [usize; 2],
    pub(crate) left: u32,
    subject: String,
    topic: Voice,
    last: Option<Quote>,
}

/// Creates all people.
pub(crate) fn people(count: usize, language: &Language, seed: u64) -> Vec<Person> {
    let mut random = ChaCha8Rng::seed_from_u64(seed ^ 0x9e0e);
    let legal = language.voice(&mut random);
    let firms: Vec<[String; 2]> = (0..FIRMS)
        .map(|_| {
            let name = language.name(&mut random);
            let text = legal.paragraph(30, &mut random);
            let disclaimer = format!(
                "This message is confidential and intended for the addressee only. If you received it in error, please \
                notify the sender and delete it. {text}"
            );
            [name, disclaimer]
        })
        .collect();
    let providers: Vec<String> = (0..PROVIDERS)
        .map(|_| format!("Sent from {} Mail. {}", language.name(&mut random), legal.sentence(&mut random)))
        .collect();
    (0..count).map(|at| person(at, &firms, &providers, language, &mut random)).collect()
}

fn person(
    at: usize,
    firms: &[[String; 2]],
    providers: &[String],
    language: &Language,
    random: &mut ChaCha8Rng,
) -> Person {
    let (first, last) = (language.name(random), language.name(random));
    let firm = if at.is_multiple_of(2) { firms.choose(random) } else { None };
    let mut signature = vec![format!("{first} {last}")];
    if let Some([firm, _]) = firm {
        signature.push(format!("{firm} Ltd, {}", language.name(random)));
        signature.push(format!("Phone 0{}", random.random_range(100_000_000..1_000_000_000_u32)));
    }
    let card = |random: &mut ChaCha8Rng| {
        let number = random.random_range(100_000..1_000_000);
        let text = format!("BEGIN:VCARD\r\nVERSION:3.0\r\nFN:{first} {last}\r\nTEL:{number}\r\nEND:VCARD\r\n");
        File { name: "card.vcf".into(), media: "text/vcard", is_inline: false, bytes: text.into_bytes() }
    };
    Person {
        address: format!("{}.{}{at}@site.example", first.to_lowercase(), last.to_lowercase()),
        name: format!("{first} {last}"),
        voice: language.voice(random),
        form: *[Form::Plain, Form::Plain, Form::Html, Form::Both].choose(random).expect("there are some"),
        style: *[QuoteStyle::Marks, QuoteStyle::Original, QuoteStyle::Header].choose(random).expect("there are some"),
        card: at.is_multiple_of(10).then(|| card(random)),
        disclaimer: firm.map(|[_, disclaimer]| disclaimer.clone()).filter(|_| at.is_multiple_of(4)),
        appended: if at % 4 == 1 { providers.choose(random).cloned() } else { None },
        signature,
    }
}

impl Person {
    /// Returns the footer added by the provider or the firm.
    pub(crate) fn footer(&self) -> Option<&String> {
        self.appended.as_ref().or(self.disclaimer.as_ref())
    }

    /// Returns a forward of spam with a question to a colleague.
    pub(crate) fn forward(&self, spam: Quote) -> Mail {
        Mail {
            from: format!("{} <{}>", self.name, self.address),
            subject: format!("Fwd: {}", spam.subject),
            form: self.form,
            blocks: vec![
                Block::Paragraph("I got the mail below. Is it genuine?".to_owned()),
                Block::Signature(self.signature.clone()),
                Block::Quote(Quote { style: self.style, ..spam }),
            ],
            files: vec![],
            appended: self.appended.clone(),
        }
    }

    pub(crate) fn card(&self) -> Option<&File> {
        self.card.as_ref()
    }
}

impl Thread {
    pub(crate) fn new(ends: [usize; 2], people: &[Person], language: &Language, random: &mut ChaCha8Rng) -> Self {
        let voice = &people[ends[0]].voice;
        let (subject, left) = (voice.headline(random), random.random_range(1..=6));
        Self { ends, left, subject, topic: language.on_topic(voice, random), last: None }
    }

    /// Writes the next message from the first person to the second, then swaps the two.
    pub(crate) fn next(&mut self, at: Time, people: &[Person], random: &mut ChaCha8Rng) -> Mail {
        let writer = &people[self.ends[0]];
        let mut files = Vec::new();
        let text = match random.random_range(0..100) {
            0..12 => {
                files.push(file(random));
                vec![STOCK.choose(random).expect("there are some").to_string()]
            }
            12..20 => vec!["Thank you, that works for me.".to_owned()],
            20..35 => {
                files.push(file(random));
                vec![self.topic.paragraph(random.random_range(20..60), random)]
            }
            _ => (0..random.random_range(1..=3))
                .map(|_| self.topic.paragraph(random.random_range(10..60), random))
                .collect(),
        };
        files.extend(writer.card.clone());
        let greeting = people[self.ends[1]].name.split(' ').next().unwrap_or_default();
        let mut blocks = vec![Block::Paragraph(format!("Hello {greeting},"))];
        blocks.extend(text.into_iter().map(Block::Paragraph));
        blocks.push(Block::Signature(writer.signature.clone()));
        blocks.extend(writer.disclaimer.clone().map(Block::Paragraph));
        blocks.extend(self.last.take().map(|quote| Block::Quote(Quote { style: writer.style, ..quote })));
        let mail = Mail {
            from: format!("{} <{}>", writer.name, writer.address),
            subject: format!("Re: {}", self.subject),
            form: writer.form,
            blocks,
            files,
            appended: writer.appended.clone(),
        };
        self.last = Some(quote_of(&mail, at));
        self.left -= 1;
        self.ends.swap(0, 1);
        mail
    }
}

/// Returns the quotation of a message for a reply.
pub(crate) fn quote_of(mail: &Mail, date: Time) -> Quote {
    let (from, subject) = (mail.from.clone(), mail.subject.clone());
    Quote { style: QuoteStyle::Marks, from, subject, date, text: mail.text() }
}

fn file(random: &mut ChaCha8Rng) -> File {
    let length = random.random_range(1_000..6_000);
    if random.random_bool(0.6) {
        File::new("document.pdf", "application/pdf", length, random)
    } else {
        File::new("picture.jpg", "image/jpeg", length, random)
    }
}
