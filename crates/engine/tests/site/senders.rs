//! Newsletters and shops, each with a template around its content.

use bruit_engine::time::Time;
use rand::rngs::ChaCha8Rng;
use rand::seq::{IndexedRandom as _, index};
use rand::{RngExt as _, SeedableRng as _};

use crate::mail::{Block, File, Form, Mail, NAME, REFERENCE};
use crate::words::{Language, Voice, capital};

/// Number of firms that send mail for other firms and add a footer to it.
const PROVIDERS: usize = 5;
/// Subjects of a shop's mail, one for each kind.
const TRANSACTIONS: [&str; 4] = ["Your order", "Your parcel", "Your new password", "Your statement"];
/// Probability that a customer of a shop receives a mail on a given day.
const TRANSACTION_DAILY: f64 = 0.1;

/// A newsletter or a shop.
pub(crate) struct Sender {
    pub(crate) brand: String,
    domain: String,
    voice: Voice,
    form: Form,
    pictures: Vec<File>,
    /// Blocks above and below the content of every mail.
    header: Vec<Block>,
    footer: Vec<Block>,
    appended: Option<String>,
    /// Terms that a shop attaches to its orders.
    terms: File,
    /// For each kind of a shop's mail, the texts above and below the details of the transaction. Empty for a
    /// newsletter.
    transactions: Vec<[String; 2]>,
    pub(crate) readers: Vec<usize>,
    /// Number of days between two issues.
    period: u64,
    /// Number of seconds within which an issue is sent to all readers.
    pub(crate) spread: u64,
}

/// Creates all senders.
pub(crate) fn senders(count: usize, people: usize, language: &Language, seed: u64) -> Vec<Sender> {
    let mut random = ChaCha8Rng::seed_from_u64(seed ^ 0x5e4d);
    let voice = language.voice(&mut random);
    let providers: Vec<String> = (0..PROVIDERS)
        .map(|_| {
            let name = language.name(&mut random);
            format!("Sent with {name}, the mail service. {}", voice.paragraph(20, &mut random))
        })
        .collect();
    (0..count).map(|at| sender(at, people, &providers, language, &mut random)).collect()
}

fn sender(at: usize, people: usize, providers: &[String], language: &Language, random: &mut ChaCha8Rng) -> Sender {
    let brand = format!("{} {}", language.name(random), language.name(random));
    let domain = format!("{}.example", brand.to_lowercase().replace(' ', "-"));
    let voice = language.voice(random);
    let is_shop = at % 2 == 1;
    let form = [Form::Html, Form::Both, Form::Plain][at / 2 % 3];
    let logo = File::new("logo.png", "image/png", random.random_range(400..3_000), random).inline();
    // All mail programs use the same tracking pixel.
    let pixel =
        File { name: "pixel.gif".into(), media: "image/gif", is_inline: true, bytes: b"GIF89a\x01\0\x01\0;".into() };
    let pictures = if form == Form::Plain { vec![] } else { vec![logo, pixel] };
    let provider = if at.is_multiple_of(3) { providers.choose(random).cloned() } else { None };
    let reader_count = random.random_range(people / 20..=people / 5);
    Sender {
        header: vec![
            Block::Logo,
            Block::Heading(format!("{brand} - {}", voice.headline(random))),
            Block::Link { text: "View in browser".into(), address: format!("https://{domain}/view?id={REFERENCE}") },
        ],
        footer: footer(&brand, &domain, &voice, provider.as_deref().filter(|_| at.is_multiple_of(2)), random),
        appended: provider.filter(|_| at % 2 == 1),
        terms: File::new("terms.pdf", "application/pdf", random.random_range(2_000..6_000), random),
        transactions: if is_shop { TRANSACTIONS.iter().map(|_| transaction(&voice, random)).collect() } else { vec![] },
        readers: index::sample(random, people, reader_count.max(3)).into_vec(),
        period: random.random_range(2..=7),
        spread: if random.random_bool(0.5) { Time::HOUR } else { 20 * Time::HOUR },
        brand,
        domain,
        voice,
        form,
        pictures,
    }
}

fn footer(brand: &str, domain: &str, voice: &Voice, provider: Option<&str>, random: &mut ChaCha8Rng) -> Vec<Block> {
    let mut footer = vec![
        Block::Paragraph(voice.paragraph(random.random_range(20..60), random)),
        Block::Lines(vec![
            format!("Copyright 2026 {brand} Ltd. All rights reserved."),
            format!("{} {} Street, {}", random.random_range(1..200), voice.headline(random), voice.headline(random)),
        ]),
        Block::Paragraph(format!("You receive this mail because you are a customer or subscriber of {brand}.")),
        Block::Link { text: "Unsubscribe".into(), address: format!("https://{domain}/unsubscribe?id={REFERENCE}") },
    ];
    footer.extend(provider.map(|text| Block::Paragraph(text.to_owned())));
    footer
}

fn transaction(voice: &Voice, random: &mut ChaCha8Rng) -> [String; 2] {
    let mut text = || voice.paragraph(random.random_range(20..50), random);
    [text(), text()]
}

impl Sender {
    pub(crate) fn is_shop(&self) -> bool {
        !self.transactions.is_empty()
    }

    /// Returns true if an issue is sent on this day.
    pub(crate) fn sends_on(&self, day: u64) -> bool {
        !self.is_shop() && (day + self.readers.len() as u64).is_multiple_of(self.period)
    }

    /// Returns the customers who receive a mail on this day.
    pub(crate) fn customers_of_day(&self, random: &mut ChaCha8Rng) -> Vec<usize> {
        let customers = self.readers.iter().filter(|_| self.is_shop() && random.random_bool(TRANSACTION_DAILY));
        customers.copied().collect()
    }

    /// Returns an issue of a newsletter. It is the same for all readers.
    pub(crate) fn issue(&self, language: &Language, random: &mut ChaCha8Rng) -> Mail {
        let mut body = vec![Block::Paragraph(format!("Dear {NAME},"))];
        let voice = language.on_topic(&self.voice, random);
        body.push(Block::Paragraph(voice.paragraph(30, random)));
        for _ in 0..random.random_range(2..=6) {
            body.push(Block::Heading(voice.headline(random)));
            body.push(Block::Paragraph(voice.paragraph(random.random_range(20..80), random)));
            let path = voice.headline(random).to_lowercase().replace(' ', "-");
            let address = format!("https://{}/{path}", self.domain);
            body.push(Block::Link { text: "Read more".into(), address });
        }
        self.mail(voice.headline(random), body, vec![])
    }

    /// Returns a mail of a shop about one transaction.
    pub(crate) fn transaction(&self, language: &Language, random: &mut ChaCha8Rng) -> Mail {
        let kind = random.random_range(0..TRANSACTIONS.len());
        let subject = format!("{} at {}", TRANSACTIONS[kind], self.brand);
        let mut price = || format!("{}.{:02}", random.random_range(1..300), random.random_range(0..100));
        let (some, other) = (price(), price());
        let mut word = || language.word(random).to_owned();
        let figures = match kind {
            0 => (0..3)
                .map(|_| format!("{} {} {} {some}", capital(&word()), word(), word()))
                .chain([format!("Total {other}")])
                .collect(),
            1 => {
                vec![format!("Parcel {REFERENCE} by {} {}", capital(&word()), word()), format!("Street of {}", word())]
            }
            2 => vec![format!("Your code is {}", random.random_range(100_000..1_000_000))],
            _ => vec![format!("Balance {some}"), format!("Due {other}"), format!("{} {}", word(), word())],
        };
        let [above, below] = &self.transactions[kind];
        let body = vec![
            Block::Paragraph(format!("Dear {NAME},")),
            Block::Paragraph(above.clone()),
            Block::Lines(figures),
            Block::Link { text: "Details".into(), address: format!("https://{}/account/{REFERENCE}", self.domain) },
            Block::Paragraph(below.clone()),
        ];
        self.mail(subject, body, if kind == 0 { vec![self.terms.clone()] } else { vec![] })
    }

    /// Returns the terms attached to orders.
    pub(crate) fn terms(&self) -> File {
        self.terms.clone()
    }

    fn mail(&self, subject: String, body: Vec<Block>, files: Vec<File>) -> Mail {
        Mail {
            from: format!("{} <news@{}>", self.brand, self.domain),
            subject,
            form: self.form,
            blocks: self.header.iter().cloned().chain(body).chain(self.footer.iter().cloned()).collect(),
            files: self.pictures.iter().cloned().chain(files).collect(),
            appended: self.appended.clone(),
        }
    }
}
