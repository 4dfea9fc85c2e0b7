//! Tests of traceback: packets in a generated network with known paths, and messages among servers.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::path::Path;

use bruit_forensics::capture::{Frame, Link};
use bruit_forensics::packet::decode;
use bruit_forensics::pages::{Pages, Span};
use bruit_forensics::traceback::{
    Invariant, PageShape, Question, Recorder, Sighting, Subject, Topology, TraceError, false_positive,
    false_positives_expected, find, trace,
};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt as _, SeedableRng as _};

const ROUTERS: usize = 20;
const PACKETS: u32 = 3000;
const NOW: u64 = 1_700_000_070;

/// A network of [`ROUTERS`], each with a recorder, in a temporary folder.
struct Network {
    folder: tempfile::TempDir,
    links: Vec<BTreeSet<usize>>,
    random: ChaCha8Rng,
}

/// A packet and the routers on its path, in order.
struct SentPacket {
    packet: Packet,
    path: Vec<usize>,
}

#[derive(Clone)]
struct Packet {
    header: [u8; 20],
    payload: [u8; 16],
}

impl Packet {
    fn new(random: &mut ChaCha8Rng) -> Self {
        let mut header: [u8; 20] = random.random();
        header[0] = 0x45;
        header[2..4].copy_from_slice(&36u16.to_be_bytes());
        header[8] = 64;
        header[9] = 17;
        Self { header, payload: random.random() }
    }

    /// Changes the packet as a router does: lowers the time to live, updates the checksum, and may change the type of
    /// service.
    fn pass(&mut self) {
        self.header[1] ^= 3;
        self.header[8] -= 1;
        self.header[10..12].fill(0);
        let words = self.header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
        let sum: u32 = words.sum();
        self.header[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    }

    fn invariant(&self) -> Invariant {
        let bytes = [&self.header[..], &self.payload].concat();
        let frame = Frame { time: 0, link: Link::Ip, bytes: &bytes, original_bytes: bytes.len() as u32 };
        Invariant::of_packet(&decode(&frame).unwrap()).unwrap()
    }
}

impl Network {
    /// Links every router to an earlier one, and some routers to a second one.
    fn new(seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut links = vec![BTreeSet::new(); ROUTERS];
        for router in 1..ROUTERS + ROUTERS / 3 {
            let from = if router < ROUTERS { router } else { random.random_range(1..ROUTERS) };
            let to = random.random_range(0..from);
            links[from].insert(to);
            links[to].insert(from);
        }
        Self { folder: tempfile::tempdir().unwrap(), links, random }
    }

    fn recorders(&self, rate: f64) -> Vec<Recorder> {
        let shape = PageShape { false_positive_rate: rate, ..PageShape::default() };
        (0..ROUTERS).map(|router| recorder(self.folder.path(), &name(router), Subject::Packets, shape)).collect()
    }

    fn topology(&self) -> Topology {
        let router = |router: usize| {
            let links: Vec<_> = self.links[router].iter().map(|link| format!("'{}'", name(*link))).collect();
            let name = name(router);
            format!("[[router]]\nname = '{name}'\npages = '{name}'\nlinks = [{}]\n", links.join(","))
        };
        let text: String = (0..ROUTERS).map(router).collect();
        Topology::parse(&text, self.folder.path()).unwrap()
    }

    /// Returns one of the shortest paths.
    fn path(&self, from: usize, to: usize) -> Vec<usize> {
        let mut before = [None; ROUTERS];
        let mut waiting = VecDeque::from([from]);
        while let Some(router) = waiting.pop_front() {
            for &next in &self.links[router] {
                if next != from && before[next].is_none() {
                    before[next] = Some(router);
                    waiting.push_back(next);
                }
            }
        }
        let mut path: Vec<_> = std::iter::successors(Some(to), |&router| before[router]).collect();
        path.reverse();
        path
    }

    /// Sends packets between random routers. Every router on the path records them.
    fn send(&mut self, recorders: &mut [Recorder]) -> Vec<SentPacket> {
        let mut sent = Vec::new();
        for _ in 0..PACKETS {
            let mut packet = Packet::new(&mut self.random);
            let (from, to) = (self.random.random_range(0..ROUTERS), self.random.random_range(0..ROUTERS));
            let path = self.path(from, to);
            for &router in &path {
                packet.pass();
                recorders[router].record(NOW, &packet.invariant()).unwrap();
            }
            sent.push(SentPacket { packet, path });
        }
        sent
    }

    /// Sends packets, and writes all pages to disk.
    fn traffic(&mut self, rate: f64) -> Vec<SentPacket> {
        let mut recorders = self.recorders(rate);
        let sent = self.send(&mut recorders);
        for recorder in recorders {
            recorder.finish().unwrap();
        }
        sent
    }
}

fn name(router: usize) -> String {
    format!("router-{router}")
}

/// Creates the recorder `name` in the directory of that name in `folder`.
fn recorder(folder: &Path, name: &str, subject: Subject, shape: PageShape) -> Recorder {
    let pages = Pages::create_or_open(&folder.join(name), subject.kind(), 1 << 30).unwrap();
    // Each recorder has its own secret.
    let secret = std::array::from_fn(|at| name.as_bytes().get(at).copied().unwrap_or(at as u8));
    Recorder::new(pages, name, shape, secret).unwrap()
}

fn question(packet: &Packet) -> Question {
    Question { invariant: packet.invariant(), doubt: None, subject: Subject::Packets, window: Span::around(NOW, 5) }
}

#[test]
fn the_path_of_a_packet_is_found_though_every_router_changed_it() {
    let mut network = Network::new(8);
    let sent = network.traffic(1e-6);
    let topology = network.topology();
    for SentPacket { packet, path } in sent.iter().step_by(30) {
        let found = trace(&topology, *path.last().unwrap(), &question(packet)).unwrap();
        let places = |path: &[usize]| path.iter().map(|&at| found.hops[at].place).collect::<Vec<_>>();
        let paths: Vec<_> = found.paths(&topology).iter().map(|path| places(&path.hops)).collect();
        assert_eq!(paths, std::slice::from_ref(path));
        let any_false = false_positive(found.doubtful());
        assert!(any_false < 1e-3, "{any_false}");
        assert!(found.hops.iter().all(|hop| hop.answer.pages == 1));
    }
}

#[test]
fn false_hops_occur_as_predicted() {
    let mut network = Network::new(9);
    let sent = network.traffic(0.05);
    let topology = network.topology();
    let (mut found_false, mut expected, mut variance) = (0, 0.0, 0.0);
    for SentPacket { packet, path } in &sent {
        let found = trace(&topology, *path.last().unwrap(), &question(packet)).unwrap();
        let seen: BTreeSet<_> = found.hops.iter().filter(|hop| hop.is_seen()).map(|hop| hop.place).collect();
        assert!(path.iter().all(|router| seen.contains(router)), "a router on the path is missing");
        for hop in found.hops.iter().filter(|hop| !path.contains(&hop.place)) {
            let rate = hop.answer.false_positive;
            found_false += u32::from(hop.is_seen());
            expected += rate;
            variance += rate * (1.0 - rate);
        }
        assert!(false_positives_expected(found.doubtful()) >= false_positive(found.doubtful()));
    }
    let distance = (f64::from(found_false) - expected).abs() / variance.sqrt();
    assert!(expected > 100.0, "too few false hops expected for a meaningful test");
    assert!(distance < 4.0, "{found_false} false hops, {expected:.1} expected: {distance:.2} standard errors apart");
}

#[test]
fn a_packet_that_was_never_sent_is_not_seen() {
    let mut network = Network::new(10);
    network.traffic(1e-6);
    let stranger = Packet::new(&mut network.random);
    let topology = network.topology();
    let found = trace(&topology, 0, &question(&stranger)).unwrap();
    assert_eq!((found.hops.len(), found.paths(&topology).len()), (1, 0), "the walk ends at its first router");
    assert_eq!(found.hops[0].answer.sighting, Sighting::NotSeen);
}

/// Creates three routers: a and b record, c does not. Router a saw a packet at [`NOW`].
fn three() -> (tempfile::TempDir, Topology, Packet) {
    let folder = tempfile::tempdir().unwrap();
    let packet = Packet::new(&mut ChaCha8Rng::seed_from_u64(11));
    let other = Packet::new(&mut ChaCha8Rng::seed_from_u64(12));
    for (name, packet) in [("a", &packet), ("b", &other)] {
        let mut recorder = recorder(folder.path(), name, Subject::Packets, PageShape::default());
        for second in [NOW - 10, NOW, NOW + 10] {
            recorder.record(second, &packet.invariant()).unwrap();
        }
        recorder.finish().unwrap();
    }
    let text = "[[router]]\nname = 'a'\npages = 'a'\nlinks = ['b', 'c']\n\
        [[router]]\nname = 'b'\npages = 'b'\n[[router]]\nname = 'c'\n";
    let topology = Topology::parse(text, folder.path()).unwrap();
    (folder, topology, packet)
}

#[test]
fn unknown_differs_from_not_seen() {
    let (_folder, topology, packet) = three();
    let found = trace(&topology, 0, &question(&packet)).unwrap();
    let sightings: Vec<_> = found.hops.iter().map(|hop| &hop.answer.sighting).collect();
    let span = Span { from: NOW - 10, to: NOW + 10 };
    assert_eq!(sightings, [&Sighting::Seen(vec![span]), &Sighting::NotSeen, &Sighting::Unknown]);
    let at_another_time = Question { window: Span::around(NOW + 3600, 5), ..question(&packet) };
    let found = trace(&topology, 0, &at_another_time).unwrap();
    assert_eq!((found.hops.len(), &found.hops[0].answer.sighting), (1, &Sighting::Unknown));
}

#[test]
fn a_half_covered_window_is_reported() {
    let (_folder, topology, packet) = three();
    let is_covered = |window| {
        let hops = find(&topology, &Question { window, ..question(&packet) }).unwrap();
        hops[0].answer.is_covered
    };
    assert!(is_covered(Span { from: NOW - 10, to: NOW + 10 }));
    assert!(!is_covered(Span { from: NOW - 11, to: NOW }) && !is_covered(Span { from: NOW, to: NOW + 11 }));
}

#[test]
fn the_pages_of_another_router_are_refused() {
    let (folder, _, packet) = three();
    let topology = Topology::parse("[[router]]\nname = 'x'\npages = 'a'\n", folder.path()).unwrap();
    let refused = trace(&topology, 0, &question(&packet)).unwrap_err();
    assert_eq!(refused.to_string(), "the pages of x were recorded by a");
    let topology = Topology::parse("[[router]]\nname = 'x'\npages = 'nowhere'\n", folder.path()).unwrap();
    assert!(matches!(trace(&topology, 0, &question(&packet)), Err(TraceError::Pages { .. })));
}

#[test]
fn recording_into_the_directory_of_another_router_fails() {
    let (folder, ..) = three();
    let record_as = |name| {
        let pages = Pages::create_or_open(&folder.path().join("a"), Subject::Packets.kind(), 1 << 20).unwrap();
        Recorder::new(pages, name, PageShape::default(), [1; 16]).map(drop)
    };
    let refused = record_as("b").unwrap_err().to_string();
    assert!(refused.starts_with("its pages were recorded by a"), "{refused}");
    record_as("a").unwrap();
}

#[test]
fn a_damaged_page_is_reported_and_the_others_are_searched() {
    let (folder, topology, packet) = three();
    let pages = Pages::open(&folder.path().join("a"), Subject::Packets.kind()).unwrap();
    let path = folder.path().join("a").join(pages.list()[0].to_string());
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    let hops = find(&topology, &question(&packet)).unwrap();
    assert_eq!(hops[0].answer.sighting, Sighting::Unknown);
    assert!(hops[0].answer.faults[0].ends_with("is damaged: the checksum does not match"), "{:?}", hops[0].answer);
    assert_eq!(hops[1].answer.sighting, Sighting::NotSeen);
}

#[test]
fn fragments_are_packets_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let whole = Packet::new(&mut ChaCha8Rng::seed_from_u64(13));
    let fragment = |offset: u8, more: u8| {
        let mut fragment = whole.clone();
        fragment.header[3] = 28;
        fragment.header[6..8].copy_from_slice(&[more, offset / 8]);
        fragment.payload.rotate_left(offset.into());
        fragment
    };
    let fragments = [fragment(0, 0x20), fragment(8, 0)];
    let mut recorder = recorder(folder.path(), "a", Subject::Packets, PageShape::default());
    fragments.iter().for_each(|fragment| drop(recorder.record(NOW, &fragment.invariant()).unwrap()));
    recorder.finish().unwrap();
    let topology = Topology::parse("[[router]]\nname = 'a'\npages = 'a'\n", folder.path()).unwrap();
    let is_seen = |packet| trace(&topology, 0, &question(packet)).unwrap().hops[0].is_seen();
    assert!(fragments.iter().all(is_seen));
    assert!(!is_seen(&whole), "the unfragmented packet has another digest");
}

#[test]
fn a_message_is_found_at_the_servers_that_relayed_it() {
    let folder = tempfile::tempdir().unwrap();
    let message = "From: ann@example.org\nDate: x\nMessage-ID: <1@example.org>\n\nSee you at noon.\n";
    let shape = PageShape { seconds: 3600, ..PageShape::default() };
    for (server, second) in [("mx-1", NOW), ("mx-2", NOW + 7200), ("mx-3", NOW)] {
        let mut recorder = recorder(folder.path(), server, Subject::Messages, shape);
        let relayed = format!("Received: by {server}; x\n{}", message.replace('\n', "\r\n"));
        let relayed = if server == "mx-3" { "Another\n\n one".to_owned() } else { relayed };
        recorder.record(second, &Invariant::of_message(relayed.as_bytes())).unwrap();
        recorder.finish().unwrap();
    }
    let server = |name: &str| format!("[[server]]\nname = '{name}'\npages = '{name}'\n");
    let topology = Topology::parse(&["mx-1", "mx-2", "mx-3"].map(server).concat(), folder.path()).unwrap();
    let invariant = Invariant::of_message(message.as_bytes());
    let hops =
        find(&topology, &Question { invariant, doubt: None, subject: Subject::Messages, window: Span::ALL }).unwrap();
    let sightings: Vec<_> = hops.into_iter().map(|hop| hop.answer.sighting).collect();
    let at = |second| Sighting::Seen(vec![Span { from: second, to: second }]);
    assert_eq!(sightings, [at(NOW), at(NOW + 7200), Sighting::NotSeen]);
}
