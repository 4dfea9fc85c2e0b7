//! Tests of payload attribution, from payloads to answers. Every excerpt that was carried is found, and every answer
//! states its uncertainty.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use bruit_filters::FingerprintKey;
use bruit_filters::bloom::MembershipFilter;
use bruit_forensics::attribution::{
    Answer, BY_CHANCE_MAX, Draft, Finding, Host, KIND, PAGE_BYTES_MAX, Page, PageBytesError, Pair, Question,
    RecordError, Recorder, Settings, Summary, mail, query,
};
use bruit_forensics::pages::{DISK_BLOCK_BYTES, OPEN_PAGES_MAX, PageName, Pages, SECONDS_MAX, SETTLE_SECONDS, Span};
use bruit_structures::blocks::BlockShape;
use rand::rngs::ChaCha8Rng;
use rand::{Rng, RngExt, SeedableRng};

fn settings(bytes_per_hour: u64) -> Settings {
    let shape = BlockShape::new(32, 6).unwrap();
    Settings { shape, bytes_per_hour, page_seconds: 600, false_positive_rate: 0.01 }.checked().unwrap()
}

/// Returns the pair of two numbered hosts.
fn pair(source: u32, destination: u32) -> Pair {
    let host = |number| Host::from(IpAddr::from(Ipv4Addr::from_bits(0x0a00_0000 + number)));
    Pair { source: host(source), destination: host(destination) }
}

/// Returns keys 1, 2, 3, …
fn keys() -> impl FnMut() -> FingerprintKey {
    let mut number = 0u8;
    move || {
        number += 1;
        FingerprintKey::new([number; 16])
    }
}

/// A directory, and a recording in it.
struct Recording {
    folder: tempfile::TempDir,
    summary: Summary,
}

impl Recording {
    fn new(settings: Settings, payloads: &[(u64, Pair, Vec<u8>)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pages = Pages::create_or_open(folder.path(), KIND, 1 << 30).unwrap();
        let mut recorder = Recorder::new(pages, settings, keys());
        for (time, pair, payload) in payloads {
            recorder.record(*time, std::slice::from_ref(pair), payload).unwrap();
        }
        let summary = recorder.finish().unwrap();
        Self { folder, summary }
    }

    fn pages(&self) -> Vec<Page> {
        let pages = Pages::open(self.folder.path(), KIND).unwrap();
        let read = |name: &PageName| Page::from_bytes(name.span, &pages.read(name, PAGE_BYTES_MAX).unwrap()).unwrap();
        pages.list().iter().map(read).collect()
    }

    fn ask(&self, excerpt: &[u8]) -> Vec<Answer> {
        self.pages().iter().map(|page| ask(page, excerpt)).collect()
    }
}

fn ask(page: &Page, excerpt: &[u8]) -> Answer {
    query(page, &Question::new(excerpt, 1)).unwrap()
}

fn random_bytes(random: &mut impl Rng, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    random.fill_bytes(&mut bytes);
    bytes
}

#[test]
fn every_carrier_is_found_and_false_ones_are_as_rare_as_predicted() {
    const PACKETS: usize = 50_000;
    let mut random = ChaCha8Rng::seed_from_u64(8);
    let worm = random_bytes(&mut random, 300);
    let mut carriers = BTreeSet::new();
    let payloads: Vec<_> = (0..PACKETS)
        .map(|number| {
            let pair = pair(random.random_range(0..2000), random.random_range(0..2));
            let length = random.random_range(400..1000);
            let mut payload = random_bytes(&mut random, length);
            if number % 250 == 0 {
                let at = random.random_range(0..100);
                payload[at..at + worm.len()].copy_from_slice(&worm);
                carriers.insert(pair.clone());
            }
            (1_700_000_000, pair, payload)
        })
        .collect();
    // With so little disk space, many digests match by chance.
    let recording = Recording::new(settings(6 * 3_000_000), &payloads);
    let page = &recording.pages()[0];
    let rate = page.payloads().estimated_false_positive_rate();
    assert!((0.02..0.5).contains(&rate), "{rate}");
    for length in [96, 128, 160, 192, 224, 256] {
        let excerpt = &worm[20..20 + length];
        let answer = ask(page, excerpt);
        let whole: Vec<_> = answer.attributions.iter().filter(|attribution| attribution.part.is_whole).collect();
        let named: BTreeSet<_> = whole.iter().map(|attribution| attribution.listed.pair.clone()).collect();
        assert!(carriers.is_subset(&named), "all pairs that carried {length} bytes are named");
        let incorrect = named.difference(&carriers).count() as f64;
        let expected = whole.iter().map(|attribution| attribution.part.expected_by_chance).fold(0.0, f64::max);
        assert!(incorrect <= expected + 4.0 * expected.sqrt(), "{length} bytes: {incorrect}, {expected} expected");
        assert!(length > 96 || incorrect > 0.5 * expected, "{length} bytes: {incorrect}, {expected} expected");
    }
}

#[test]
fn an_excerpt_never_carried_is_not_found() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let payloads: Vec<_> = (0..2000).map(|number| (600, pair(number, 0), random_bytes(&mut random, 1000))).collect();
    let recording = Recording::new(settings(100 << 20), &payloads);
    for _ in 0..20 {
        let answer = &recording.ask(&random_bytes(&mut random, 200))[0];
        assert_eq!((&answer.part, answer.attributions.len(), answer.pairs), (&None, 0, 2000));
    }
}

#[test]
fn two_blocks_of_64_bytes_are_reported_with_their_true_chance() {
    let mut random = ChaCha8Rng::seed_from_u64(6);
    let payloads: Vec<_> = (0..2000).map(|number| (600, pair(number, 0), random_bytes(&mut random, 1000))).collect();
    let recording = Recording::new(settings(100 << 20), &payloads);
    // The excerpt has two whole blocks at only one alignment. These could match at 30 offsets in a payload. At half of
    // the offsets, no doubled block covers both.
    let answer = &recording.ask(&payloads[7].2[64..128])[0];
    let part = answer.part.as_ref().unwrap();
    let rate = recording.pages()[0].offsets().filter().estimated_false_positive_rate();
    assert!(part.is_whole && part.expected_by_chance < 31.0 * rate * rate, "{part:?}, rate {rate}");
}

#[test]
fn matches_by_chance_are_doubtful_and_not_found() {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let payloads: Vec<_> = (0..4000).map(|number| (600, pair(number, 0), random_bytes(&mut random, 1000))).collect();
    // With so little disk space, two blocks match in most places, and some pairs match both blocks by chance.
    let recording = Recording::new(settings(6 * 300_000), &payloads);
    let findings: Vec<_> = (0..20).map(|_| recording.ask(&random_bytes(&mut random, 64))[0].finding).collect();
    let doubtful = findings.iter().filter(|finding| **finding == Finding::Doubtful).count();
    assert!(doubtful > 10, "{findings:?}");
    assert!(!findings.contains(&Finding::Named) && !findings.contains(&Finding::Unnamed), "{findings:?}");
    // Even then, chance cannot explain a match of a whole payload.
    assert_eq!(recording.ask(&payloads[5].2)[0].finding, Finding::Named);
}

#[test]
fn carriers_far_more_than_chance_names_are_found_though_some_are_by_chance() {
    let mut random = ChaCha8Rng::seed_from_u64(8);
    let worm = random_bytes(&mut random, 96);
    let carried = |number: u32, random: &mut ChaCha8Rng| {
        let mut payload = random_bytes(random, 1000);
        if number.is_multiple_of(10) {
            payload[64..160].copy_from_slice(&worm);
        }
        (600, pair(number, 0), payload)
    };
    let payloads: Vec<_> = (0..3000).map(|number| carried(number, &mut random)).collect();
    let recording = Recording::new(settings(6 * 200_000), &payloads);
    let answer = &recording.ask(&worm)[0];
    assert!(
        answer.attributions.iter().any(|found| found.part.expected_by_chance > 1.0),
        "{:?}",
        answer.attributions[0]
    );
    assert_eq!(answer.finding, Finding::Named);
}

#[test]
fn more_pages_lower_the_limit_of_false_matches_in_each() {
    let mut random = ChaCha8Rng::seed_from_u64(9);
    let payloads: Vec<_> = (0..2000).map(|number| (600, pair(number, 0), random_bytes(&mut random, 1000))).collect();
    let recording = Recording::new(settings(6 * 1_000_000), &payloads);
    let page = &recording.pages()[0];
    let excerpt = &payloads[3].2[32..160];
    let expected = ask(page, excerpt).attributions[0].part.expected_by_chance;
    let finding = |pages| query(page, &Question::new(excerpt, pages)).unwrap().finding;
    let most = (BY_CHANCE_MAX / expected) as usize;
    assert!((2..1 << 40).contains(&most), "{expected} expected");
    assert_eq!((finding(most), finding(most * 3)), (Finding::Named, Finding::Doubtful));
}

#[test]
fn look_ups_of_repeated_content_are_limited_and_the_answer_says_so() {
    let mut random = ChaCha8Rng::seed_from_u64(10);
    let zeros = (0..1000).map(|number| (600, pair(number, 0), vec![0; 1460]));
    let others = (1000..2000).map(|number| (600, pair(number, 0), random_bytes(&mut random, 1000)));
    let recording = Recording::new(settings(100 << 20), &zeros.chain(others).collect::<Vec<_>>());
    let page = &recording.pages()[0];
    let excerpt = [0; 256];
    let all = ask(page, &excerpt);
    assert_eq!((all.finding, all.attributions.len(), all.is_cut), (Finding::Named, 1000, false));
    // With eight blocks and 2,000 pairs, one place takes 16,000 lookups. So the first limit allows only one place. The
    // second limit allows none, but the best place is always checked.
    for digests_max in [16_000, 1] {
        let cut = query(page, &Question { digests_max, ..Question::new(&excerpt, 1) }).unwrap();
        assert_eq!((cut.finding, cut.attributions.len(), cut.is_cut), (Finding::Named, 1000, true));
    }
}

#[test]
fn a_pair_that_carried_the_blocks_in_different_payloads_is_named_too() {
    let mut random = ChaCha8Rng::seed_from_u64(11);
    let [s0, s1, x, y] = [(); 4].map(|()| random_bytes(&mut random, 32));
    let payloads = [
        (600, pair(1, 0), [&s0[..], &x].concat()),
        (601, pair(1, 0), [&y[..], &s1].concat()),
        (602, pair(2, 0), [&s0[..], &s1].concat()),
    ];
    let recording = Recording::new(settings(100 << 20), &payloads);
    let excerpt = [&s0[..], &s1].concat();
    let named =
        |answer: &Answer| answer.attributions.iter().map(|found| found.listed.pair.clone()).collect::<BTreeSet<_>>();
    assert_eq!(named(&recording.ask(&excerpt)[0]), BTreeSet::from([pair(1, 0), pair(2, 0)]));
    // The offset digests show that no payload contains the blocks together, so pairs are not checked.
    let apart = Recording::new(settings(100 << 20), &payloads[..2]);
    assert_eq!((apart.ask(&excerpt)[0].finding, apart.ask(&excerpt)[0].attributions.len()), (Finding::Nothing, 0));
}

#[test]
fn both_parts_of_an_excerpt_across_two_packets_are_found() {
    let mut random = ChaCha8Rng::seed_from_u64(2);
    let stream = random_bytes(&mut random, 2400);
    let payloads = [(600, pair(1, 2), stream[..1200].to_vec()), (601, pair(1, 2), stream[1200..].to_vec())];
    let others = (0..1000).map(|number| (602, pair(number + 3, 0), random_bytes(&mut random, 500)));
    let recording = Recording::new(settings(100 << 20), &payloads.into_iter().chain(others).collect::<Vec<_>>());
    // The packets are cut after the first 100 of the 400 bytes of the excerpt.
    let answer = &recording.ask(&stream[1100..1500])[0];
    let part = answer.part.as_ref().unwrap();
    assert_eq!((part.bytes.clone(), part.is_whole, part.offset_bytes), (100..388, false, 0));
    assert!(part.confidence() > 0.999);
    assert_eq!(answer.attributions.len(), 1);
    let attribution = &answer.attributions[0];
    assert_eq!((&attribution.listed.pair, attribution.part.bytes.clone()), (&pair(1, 2), 100..388));
    assert_eq!((attribution.listed.first, attribution.listed.last), (600, 601));
}

#[test]
fn a_page_takes_its_share_of_an_hour_at_most_and_little_when_there_is_little() {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let (settings, share) = (settings(6 << 20), 1 << 20);
    let busy: Vec<_> = (0..60_000).map(|number| (600, pair(number, 1), random_bytes(&mut random, 1000))).collect();
    let recording = Recording::new(settings, &busy);
    assert!((share / 2..=share).contains(&recording.summary.pages[0].bytes), "{:?}", recording.summary.pages);
    let quiet = Recording::new(settings, &busy[..20]);
    assert!(quiet.summary.pages[0].bytes < share / 50, "{:?}", quiet.summary.pages);
    let page = &quiet.pages()[0];
    assert!(page.offsets().filter().estimated_false_positive_rate() <= settings.false_positive_rate);
    assert_eq!(quiet.ask(&busy[3].2[100..400])[0].attributions[0].listed.pair, pair(3, 1));
}

#[test]
fn unlisted_pairs_are_counted_and_cannot_be_named() {
    let mut random = ChaCha8Rng::seed_from_u64(4);
    let payloads: Vec<_> = (0..2000).map(|number| (600, pair(number, 1), random_bytes(&mut random, 100))).collect();
    let recording = Recording::new(settings(6 * 65_536), &payloads);
    let answer = &recording.ask(&payloads[1999].2)[0];
    assert_eq!(answer.pairs as u64 + answer.unlisted, 2000);
    assert!(answer.part.is_some() && answer.attributions.iter().all(|found| found.listed.pair != pair(1999, 1)));
    assert_eq!(recording.summary.counts.unlisted, answer.unlisted);
    assert_eq!(answer.finding, Finding::Unnamed);
}

#[test]
fn late_payloads_go_to_the_page_of_their_time() {
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let mut payload = |time| (time, pair(1, 2), random_bytes(&mut random, 100));
    // Uses as many spans as can be open at a time, forwards and backwards. Then uses one more span, and the first span
    // again.
    let open = OPEN_PAGES_MAX as u64;
    let times: Vec<u64> = (0..open).chain((0..open).rev()).chain([open, open - 1]).map(|page| page * 600 + 7).collect();
    let payloads: Vec<_> = times.iter().map(|&time| payload(time)).collect();
    let recording = Recording::new(settings(10 << 20), &payloads);
    let spans: Vec<_> = recording.pages().iter().map(|page| (page.span().from / 600, page.counts().payloads)).collect();
    assert_eq!(spans, [(0, 2), (1, 2), (2, 2), (3, 2), (3, 1), (4, 1)]);
    assert!(recording.pages().iter().all(|page| page.span().to == page.span().from + 599));
    for (time, _, payload) in &payloads {
        let found = recording.ask(payload).into_iter().find(|answer| answer.part.is_some()).unwrap();
        assert_eq!(found.span.from, time / 600 * 600);
    }
}

#[test]
fn pages_that_are_over_are_settled_and_others_stay_open() {
    let folder = tempfile::tempdir().unwrap();
    let pages = Pages::create_or_open(folder.path(), KIND, 1 << 30).unwrap();
    let mut recorder = Recorder::new(pages, settings(10 << 20), keys());
    let written = || Pages::open(folder.path(), KIND).unwrap().list().len();
    recorder.record(0, &[pair(1, 2)], &[1; 100]).unwrap();
    recorder.record(600, &[pair(1, 2)], &[1; 100]).unwrap();
    recorder.settle(599 + SETTLE_SECONDS).unwrap();
    assert_eq!(written(), 0);
    recorder.settle(600 + SETTLE_SECONDS).unwrap();
    assert_eq!(written(), 1);
    assert_eq!(recorder.finish().unwrap().pages.len(), 2);
}

#[test]
fn the_pages_of_a_span_keep_within_its_share_of_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let pages = Pages::create_or_open(folder.path(), KIND, 1 << 30).unwrap();
    let settings = settings(6 * 100_000);
    let mut recorder = Recorder::new(pages, settings, keys());
    // The times cycle through one span more than can be open at a time. Without limits, every payload would start a
    // page.
    let rounds = 40;
    for number in 0..rounds * (OPEN_PAGES_MAX as u64 + 1) {
        let time = number % (OPEN_PAGES_MAX as u64 + 1) * 600;
        recorder.record(time, &[pair(1, 2)], &random_bytes(&mut ChaCha8Rng::seed_from_u64(number), 100)).unwrap();
    }
    let summary = recorder.finish().unwrap();
    let pages = Pages::open(folder.path(), KIND).unwrap();
    for from in (0..=OPEN_PAGES_MAX as u64).map(|page| page * 600) {
        let bytes = pages.bytes_of(Span { from, to: from + 599 });
        assert!((1..=settings.page_share_bytes() + DISK_BLOCK_BYTES).contains(&bytes), "{bytes} bytes from {from} on");
    }
    assert!(summary.crowded > 0);
    assert_eq!(
        summary.crowded + summary.counts.payloads,
        rounds * (OPEN_PAGES_MAX as u64 + 1),
        "every payload is counted"
    );
}

#[test]
fn times_beyond_all_pages_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let pages = Pages::create_or_open(folder.path(), KIND, 1 << 30).unwrap();
    let mut recorder = Recorder::new(pages, settings(10 << 20), keys());
    recorder.record(SECONDS_MAX, &[pair(1, 2)], &[1; 100]).unwrap();
    assert!(matches!(recorder.record(SECONDS_MAX + 1, &[pair(1, 2)], &[1; 100]), Err(RecordError::Time(_))));
    assert_eq!(recorder.finish().unwrap().counts.payloads, 1);
}

#[test]
fn payloads_without_a_whole_block_are_counted_and_nothing_else() {
    let recording = Recording::new(settings(10 << 20), &[(0, pair(1, 2), vec![1; 31]), (0, pair(1, 2), vec![1; 32])]);
    let counts = recording.summary.counts;
    assert_eq!((counts.payloads, counts.short, counts.bytes), (1, 1, 63));
}

/// Returns the bytes of a small page.
fn page_bytes() -> Vec<u8> {
    let settings = settings(6 * 65_536);
    let mut draft = Draft::new(&settings, Span { from: 0, to: 599 }, FingerprintKey::new([1; 16]));
    let named = |name| Pair { source: Host::named(name), destination: Host::Unknown };
    draft.record(5, &[pair(1, 2), named("a@example.org")], &[7; 100]);
    draft.record(6, &[Pair { source: IpAddr::from([1; 16]).into(), ..pair(1, 2) }], &[8; 100]);
    draft.finish(0.01).to_bytes().unwrap()
}

#[test]
fn a_page_survives_its_bytes() {
    let bytes = page_bytes();
    let page = Page::from_bytes(Span { from: 0, to: 599 }, &bytes).unwrap();
    assert_eq!(page.to_bytes().unwrap(), bytes);
    assert_eq!(page.pairs().len(), 3);
    let answer = ask(&page, &[7; 64]);
    let named: Vec<_> = answer.attributions.iter().map(|found| found.listed.pair.source.to_string()).collect();
    assert_eq!(named, ["10.0.0.1", "a@example.org"]);
}

#[test]
fn cut_and_changed_pages_yield_errors_only() {
    let bytes = page_bytes();
    let span = Span { from: 0, to: 599 };
    for length in 0..bytes.len() {
        assert!(Page::from_bytes(span, &bytes[..length]).is_err(), "{length}");
    }
    assert!(matches!(Page::from_bytes(span, &[&bytes[..], &[0]].concat()), Err(PageBytesError::Invalid(_))));
    for at in 0..bytes.len().min(400) {
        for value in [0, 1, 0x7f, 0xff] {
            let mut changed = bytes.clone();
            changed[at] = value;
            // A page may still be decodable after a change. Then a query must not panic.
            if let Ok(page) = Page::from_bytes(span, &changed) {
                let _ = query(&page, &Question::new(&[7; 96], 1));
            }
        }
    }
}

#[test]
fn mail_goes_from_its_sender_to_every_recipient_once() {
    let message = b"Received: from x by y; Tue, 14 Nov 2023 22:13:20 +0000\nReceived: by z; Tue, 14 Nov 2023 20:00:00 +0000\n\
        Delivered-To: Ann@example.org\nFrom: \"Bank\" <Phish@bad.example>\nTo: Ann <ann@example.org>, bob@example.org\n\
        Cc: friends: eve@example.org;\nDate: Mon, 1 Jan 2001 00:00:00 +0000\n\
        Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/plain\nContent-Transfer-Encoding: base64\n\n\
        SGVsbG8NCndvcmxkDQo=\n--b\nContent-Type: application/zip\n\nPK\r\n--b--\n";
    let carried = mail::read(message);
    assert_eq!(carried.time, Some(1_700_000_000));
    let destinations: Vec<_> = carried.pairs.iter().map(|pair| pair.destination.to_string()).collect();
    assert_eq!(destinations, ["ann@example.org", "bob@example.org", "eve@example.org"]);
    assert!(carried.pairs.iter().all(|pair| pair.source == Host::named("phish@bad.example")));
    assert_eq!(carried.payloads, [&b"Hello\nworld\n"[..], b"PK"]);
}

#[test]
fn mail_without_dates_or_recipients_has_unknown_time_and_recipient() {
    let carried = mail::read(b"Subject: x\n\nbody\r\n");
    assert_eq!((carried.time, carried.payloads.len()), (None, 1));
    assert_eq!(carried.pairs, [Pair { source: Host::Unknown, destination: Host::Unknown }]);
    let by_date = mail::read(b"Received: nonsense\nDate: Tue, 14 Nov 2023 22:13:20 +0000\n\n");
    assert_eq!(by_date.time, Some(1_700_000_000));
}

#[test]
fn the_number_of_recipients_is_limited() {
    let message = |count: usize| {
        let to: Vec<_> = (0..count).map(|number| format!("a{number}@example.org")).collect();
        mail::read(format!("To: {}\n\nbody\n", to.join(", ")).as_bytes()).pairs.len()
    };
    assert_eq!(message(mail::RECIPIENTS_MAX), mail::RECIPIENTS_MAX);
    assert_eq!(
        (message(mail::RECIPIENTS_MAX + 1), message(1000)),
        (mail::RECIPIENTS_MAX + 1, mail::RECIPIENTS_MAX + 1)
    );
}
