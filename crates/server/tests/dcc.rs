//! Tests of DCC from a datagram to the clearinghouse and back, with captured frames, and with a client that signs and
//! verifies.

use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bruit_engine::accounts::dcc::DccPassword;
use bruit_protocols::dcc::{
    ANONYMOUS, Admin, AdminOperation, Ask, Count, Header, Item, Kind, Request, SIGNATURE_BYTES, Targets, Totals,
};
use bruit_server::{Config, Server};
use bruit_testing::dcc::{self as client, Answer};
use tempfile::TempDir;

const CLIENT: u32 = 32_768;
const SERVER: u32 = 1_001;

/// The settings that the captured frames require. All other protocols are off. Loopback is an own network by default.
const CONFIG: &str = r#"
memory = "64MiB"
[razor]
listen = []
[pyzor]
listen = []
[fuzzy]
listen = []
[http]
listen = []
[[accounts]]
protocol = "dcc"
name = "32768"
password = "clntpass"
[dcc]
listen = "127.0.0.1:0"
server_id = 1001
password = "srvpass1"
brand = "TESTBRAND"
"#;

/// No own networks.
const STRANGERS: &str = "own_networks = []\n";

struct Site {
    server: Option<Server>,
    address: SocketAddr,
    _folder: TempDir,
}

impl Site {
    /// Starts a server with additional lines before and after [`CONFIG`].
    fn new(before: &str, behind: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = Config::parse(&format!("{before}{CONFIG}{behind}")).unwrap();
        let server = Server::start(&config, &folder.path().join("data"), &mut |_| {}).unwrap();
        let address = server.listening()[0].address;
        Self { server: Some(server), address, _folder: folder }
    }

    fn client(&self) -> Client {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(self.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Client { socket, sender: ANONYMOUS, password: None, version: 12, asked: 0 }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.server.take().map(Server::stop);
    }
}

/// A client that signs its requests and verifies the replies.
struct Client {
    socket: UdpSocket,
    sender: u32,
    password: Option<&'static str>,
    version: u8,
    asked: u8,
}

impl Client {
    fn with_id(self, sender: u32, password: &'static str) -> Self {
        Self { sender, password: Some(password), ..self }
    }

    fn send(&self, frame: &[u8]) -> Vec<u8> {
        self.socket.send(frame).unwrap();
        let mut reply = vec![0; 2048];
        let length = self.socket.recv(&mut reply).expect("an answer");
        reply.truncate(length);
        reply
    }

    fn frame(&mut self, ask: &Ask<'_, &[Item]>) -> Vec<u8> {
        self.asked += 1;
        let mut numbers = [7; 16];
        numbers[8] = self.asked;
        let header = Header { version: self.version, sender: self.sender, numbers };
        let mut frame = Vec::new();
        client::encode(&header, ask, &mut frame, |frame| {
            self.password.map_or([0; SIGNATURE_BYTES], |word| password(word).sign(frame))
        });
        frame
    }

    /// Sends a request and returns the reply, which must be signed with the request's password.
    fn ask(&mut self, ask: &Ask<'_, &[Item]>) -> Vec<u8> {
        let frame = self.frame(ask);
        let reply = self.send(&frame);
        let received = client::decode(&reply).unwrap();
        assert_eq!((received.header.sender, received.header.numbers), (SERVER, numbers_of(&frame)));
        reply
    }

    fn query(&mut self, items: &[Item]) -> Vec<Totals> {
        totals(&self.ask(&Ask::Query(items)))
    }

    fn report(&mut self, targets: Targets, items: &[Item]) -> Vec<Totals> {
        totals(&self.ask(&Ask::Report { targets, items }))
    }

    fn administer(&mut self, operation: AdminOperation) -> Vec<u8> {
        self.ask(&Ask::Admin(Admin { clock: now(), operation, value: 0, values: [0; 3], rest: &[] }))
    }
}

fn numbers_of(frame: &[u8]) -> [u8; 16] {
    Request::decode(frame).unwrap().header.numbers
}

fn password(word: &str) -> DccPassword {
    DccPassword::new(word.as_bytes()).unwrap()
}

fn totals(reply: &[u8]) -> Vec<Totals> {
    match client::decode(reply).unwrap().answer {
        Answer::Totals(totals) => totals.iter().collect(),
        other => panic!("{other:?}"),
    }
}

fn error(reply: &[u8]) -> String {
    match client::decode(reply).unwrap().answer {
        Answer::Error(text) => String::from_utf8(text.to_vec()).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn text(reply: &[u8]) -> String {
    match client::decode(reply).unwrap().answer {
        Answer::Admin(text) => String::from_utf8(text.to_vec()).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn is_ok(reply: &[u8]) -> bool {
    matches!(client::decode(reply).unwrap().answer, Answer::Ok { .. })
}

fn now() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as u32
}

fn targets(count: u32) -> Targets {
    Targets { count, is_spam: false, is_second: false }
}

const SPAM: Targets = Targets { count: 1, is_spam: true, is_second: false };

/// Returns the checksums of a message: one of its source and three of its text.
fn message(number: u8) -> [Item; 4] {
    [Kind::Ip, Kind::Body, Kind::Fuz1, Kind::Fuz2].map(|kind| Item { kind, sum: [number; 16] })
}

/// Returns the reply for [`message`] if its text has these totals.
fn of_text(current: Count, previous: Count) -> Vec<Totals> {
    let text = Totals { current, previous };
    vec![Totals::NOT_KEPT, text, text, text]
}

fn number(count: u32) -> Count {
    Count::number(count)
}

/// Returns the frames of a captured transcript.
fn captured(name: &str) -> Vec<Vec<u8>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/wire/dcc").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines = text.lines().map(|line| line.split('#').next().unwrap()).collect::<Vec<_>>().join("\n");
    let frames = lines.split(['<', '>']).skip(1);
    frames.map(|digits| hexadecimal(&digits.replace(|digit: char| !digit.is_ascii_hexdigit(), ""))).collect()
}

fn hexadecimal(digits: &str) -> Vec<u8> {
    digits.as_bytes().chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// Returns the captured reply as this server would send it, i.e. without reputations and with a matching signature.
fn without_reputation(captured: &[u8]) -> Vec<u8> {
    let mut frame = captured[..captured.len() - SIGNATURE_BYTES].to_vec();
    let length = frame.len();
    for at in [length - 16, length - 8] {
        frame[at..at + 8].copy_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0]);
    }
    signed(frame)
}

fn signed(mut frame: Vec<u8>) -> Vec<u8> {
    let signature = password("clntpass").sign(&frame);
    frame.extend(signature);
    frame
}

#[test]
fn a_captured_session_is_answered_as_by_the_original_server() {
    let site = Site::new("", "");
    let client = site.client();
    let [nop, ok] = &captured("nop.txt")[..] else { panic!("two frames") };
    let mut without_delay = ok[..ok.len() - SIGNATURE_BYTES].to_vec();
    without_delay[26..28].fill(0);
    assert_eq!(client.send(nop), signed(without_delay), "the reply is the captured one without a delay");

    let [query, answer] = &captured("query.txt")[..] else { panic!("two frames") };
    assert_eq!(client.send(query), without_reputation(answer));

    let [second, answer] = &captured("report.txt")[..] else { panic!("two frames") };
    let mut first = second[..second.len() - SIGNATURE_BYTES].to_vec();
    first[16] = 5;
    client.send(&signed(first));
    assert_eq!(client.send(second), without_reputation(answer));

    let [spam, answer] = &captured("spam.txt")[..] else { panic!("two frames") };
    // Count five more recipients, so that the total is seven.
    let mut five = second[..second.len() - SIGNATURE_BYTES].to_vec();
    (five[16], five[27]) = (7, 5);
    client.send(&signed(five));
    assert_eq!(client.send(spam), without_reputation(answer));
}

#[test]
fn a_captured_retransmission_is_counted_once_and_answered_again() {
    let site = Site::new("", "");
    let mut client = site.client();
    let [first, answer, second, again] = &captured("anonymous.txt")[..] else { panic!("four frames") };
    assert_eq!(&client.send(first), answer);
    assert_eq!(&client.send(second), again);
    let Ask::Report { items, .. } = Request::decode(first).unwrap().ask else { panic!("a report") };
    let items: Vec<Item> = items.iter().collect();
    assert_eq!(client.query(&items), [Totals::unchanged(number(1)); 3]);
    // The same bytes from another port are a different request.
    assert_eq!(totals(&site.client().send(first))[0].current, number(2));
}

#[test]
fn recipients_add_up() {
    let site = Site::new("", "");
    let mut client = site.client();
    assert_eq!(client.query(&message(1)), of_text(number(0), number(0)));
    assert_eq!(client.report(targets(3), &message(1)), of_text(number(3), number(0)));
    assert_eq!(client.report(targets(2000), &message(1)), of_text(number(2003), number(3)));
    assert_eq!(client.report(targets(0), &message(1)), of_text(number(2003), number(2003)));
    assert_eq!(client.query(&message(1)), of_text(number(2003), number(2003)));
    assert_eq!(client.query(&message(2)), of_text(number(0), number(0)));
    assert_eq!(client.query(&[]), []);
}

#[test]
fn spam_is_many_at_once_and_for_good() {
    let site = Site::new("", "");
    let mut client = site.client();
    client.report(targets(7), &message(1));
    assert_eq!(client.report(SPAM, &message(1)), of_text(Count::TOO_MANY, number(7)));
    assert_eq!(client.query(&message(1)), of_text(Count::TOO_MANY, Count::TOO_MANY));
    assert_eq!(client.report(targets(1), &message(1)), of_text(Count::TOO_MANY, Count::TOO_MANY));
    assert_eq!(client.report(SPAM, &message(1)), of_text(Count::TOO_MANY, Count::TOO_MANY));
}

#[test]
fn a_second_report_of_one_message_adds_no_recipients() {
    // An account without weight cannot list anything alone, so the reply still contains the recipient count.
    let site = Site::new(STRANGERS, "");
    let mut client = site.client().with_id(CLIENT, "clntpass");
    client.report(targets(1), &message(1));
    let second = Targets { count: 1, is_spam: true, is_second: true };
    assert_eq!(client.report(second, &message(1)), of_text(number(1), number(1)));
    assert_eq!(client.query(&message(1)), of_text(number(1), number(1)));
}

#[test]
fn strangers_are_answered_but_not_counted() {
    let site = Site::new(STRANGERS, "");
    let mut stranger = site.client();
    assert_eq!(stranger.report(targets(3), &message(1)), of_text(number(0), number(0)));
    assert_eq!(stranger.report(SPAM, &message(1)), of_text(number(0), number(0)));
    assert_eq!(stranger.query(&message(1)), of_text(number(0), number(0)));

    let mut client = site.client().with_id(CLIENT, "clntpass");
    assert_eq!(client.report(targets(1), &message(1)), of_text(number(1), number(0)));
    assert_eq!(stranger.report(targets(3), &message(1)), of_text(number(1), number(1)));
}

#[test]
fn a_wrong_password_is_as_good_as_none() {
    let site = Site::new(STRANGERS, "");
    let mut wrong = site.client().with_id(CLIENT, "clntpast");
    let reply = wrong.ask(&Ask::Report { targets: targets(3), items: &message(1) });
    assert_eq!(totals(&reply), of_text(number(0), number(0)));
    assert_eq!(reply[reply.len() - SIGNATURE_BYTES..], [0; SIGNATURE_BYTES]);
    let mut unknown = site.client().with_id(CLIENT + 1, "clntpass");
    assert_eq!(unknown.report(targets(3), &message(1)), of_text(number(0), number(0)));
    let statistics = text(&site.client().with_id(CLIENT, "clntpass").administer(AdminOperation::Stats));
    assert!(statistics.contains("\n           2 unverified\n"), "{statistics}");
}

#[test]
fn replies_are_signed_with_the_password_of_the_request() {
    let site = Site::new("", "");
    for (id, word) in [(CLIENT, "clntpass"), (SERVER, "srvpass1")] {
        let mut client = site.client().with_id(id, word);
        assert!(password(word).verify(&client.ask(&Ask::Nop)));
        assert!(password(word).verify(&client.ask(&Ask::Query(&message(1)))));
        assert!(password(word).verify(&client.ask(&Ask::Report { targets: targets(1), items: &message(1) })));
    }
    let mut old = site.client();
    old.version = 8;
    let reply = old.ask(&Ask::Query(&message(1)));
    assert_ne!(reply[reply.len() - SIGNATURE_BYTES..], [0; SIGNATURE_BYTES]);
    assert_eq!(reply[2], 8);
}

#[test]
fn a_deleted_checksum_counts_no_more() {
    let site = Site::new("", "");
    let mut client = site.client();
    client.report(SPAM, &message(1));
    let [_, body, fuz1, _] = message(1);
    let mut admin = site.client().with_id(SERVER, "srvpass1");
    let first = admin.frame(&Ask::Delete { clock: now(), item: body });
    assert!(is_ok(&admin.send(&first)));
    assert!(is_ok(&admin.send(&first)), "a copy gets the same reply");
    let again = admin.ask(&Ask::Delete { clock: now(), item: body });
    assert_eq!(error(&again), "Body 01010101 01010101 01010101 01010101 already deleted");
    assert!(password("srvpass1").verify(&again));

    let none = Totals::unchanged(number(0));
    assert_eq!(client.query(&[body, fuz1]), [none, Totals::unchanged(Count::TOO_MANY)]);
    assert_eq!(client.report(SPAM, &[body]), [none]);
    assert_eq!(client.report(targets(9), &[body]), [none]);
}

#[test]
fn deleting_takes_the_servers_own_id_and_clock() {
    let site = Site::new("", "");
    let [ip, body, ..] = message(1);
    let delete = |clock| Ask::Delete { clock, item: body };
    for (id, word) in [(CLIENT, "clntpass"), (SERVER, "srvpass2"), (SERVER + 1, "srvpass1")] {
        assert!(error(&site.client().with_id(id, word).ask(&delete(now()))).starts_with("this requires"), "{id}");
    }
    let mut admin = site.client().with_id(SERVER, "srvpass1");
    for clock in [now() - 120, now() + 120, 0, u32::MAX] {
        assert!(error(&admin.ask(&delete(clock))).starts_with("this requires"), "{clock}");
    }
    assert_eq!(error(&admin.ask(&Ask::Delete { clock: now(), item: ip })), "IP checksums are not kept");
    assert!(is_ok(&admin.ask(&delete(now() - 60))));
}

#[test]
fn many_may_be_said_from_some_number_on() {
    let site = Site::new("", "many = 20\n");
    let mut client = site.client();
    assert_eq!(client.report(targets(19), &message(1)), of_text(number(19), number(0)));
    assert_eq!(client.report(targets(1), &message(1)), of_text(Count::TOO_MANY, number(19)));
    assert_eq!(client.query(&message(1)), of_text(Count::TOO_MANY, Count::TOO_MANY));
}

/// Whitelists the text of message 1 and the address of message 2. The text of message 3 is always spam.
fn whitelist(folder: &Path) -> PathBuf {
    let sum = |digits: &str| [digits; 4].join(" ");
    let (one, two, three) = (sum("01010101"), sum("02020202"), sum("03030303"));
    let lines = format!("OK Hex Body {one}\nOK2 Hex IP {two}\nMANY Hex Fuz2 {three}\n");
    let file = folder.join("whitelist");
    std::fs::write(&file, lines).unwrap();
    file
}

#[test]
fn the_whitelist_file_prevails() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::new("", &format!("whitelist = {:?}\n", whitelist(folder.path())));
    let mut client = site.client();
    let [not_kept, none] = [Totals::NOT_KEPT, Totals::unchanged(number(0))];
    let counted = Totals { current: number(3), previous: number(0) };
    let [ok, ok2, many] = [Count::OK, Count::OK2, Count::TOO_MANY].map(Totals::unchanged);
    assert_eq!(client.report(targets(3), &message(1)), [not_kept, ok, counted, counted]);
    assert_eq!(client.query(&message(2)), [ok2, none, none, none]);
    assert_eq!(client.query(&message(3)), [not_kept, none, none, many]);
}

#[test]
fn whoever_may_not_report_is_answered_as_to_a_query() {
    let site = Site::new(STRANGERS, "[dcc.rights]\nreport = \"nobody\"\nadmin = \"nobody\"\n");
    let mut client = site.client().with_id(CLIENT, "clntpass");
    assert_eq!(client.report(targets(3), &message(1)), of_text(number(0), number(0)));
    assert_eq!(client.report(SPAM, &message(1)), of_text(number(0), number(0)));
}

#[test]
fn statistics_and_clock_are_for_the_site_and_its_clients() {
    let site = Site::new("", "");
    let mut own = site.client();
    own.query(&message(1));
    let statistics = text(&own.administer(AdminOperation::Stats));
    assert!(statistics.contains("server-ID 1001") && statistics.contains("\n           1 unknown\n"), "{statistics}");
    let check = Admin { clock: now() + 1000, operation: AdminOperation::Clock, value: 0, values: [0; 3], rest: &[] };
    let clock = text(&own.ask(&Ask::Admin(check)));
    assert!(clock.ends_with(" seconds ahead"), "{clock}");
    let delay = own.administer(AdminOperation::AnonymousDelay);
    assert_eq!(client::decode(&delay).unwrap().answer, Answer::Admin(&[255, 255, 255, 255, 0, 0]));
    for operation in
        [AdminOperation::StatsClear, AdminOperation::Flood, AdminOperation::ClientsById, AdminOperation::Stop]
    {
        assert!(!error(&own.administer(operation)).is_empty());
    }

    let strange = Site::new(STRANGERS, "");
    assert_eq!(error(&strange.client().administer(AdminOperation::Stats)), "this requires an ID and its password");
    let mut known = strange.client().with_id(CLIENT, "clntpass");
    assert!(text(&known.administer(AdminOperation::Stats)).starts_with("bruit "));
}

#[test]
fn rubbish_is_met_with_silence() {
    let site = Site::new("", "");
    let mut client = site.client();
    let nop = client.frame(&Ask::Nop);
    for (at, byte) in [(0, 1), (2, 3), (3, 9), (4, 1), (7, 0)] {
        let mut wrong = nop.clone();
        wrong[at] = byte;
        client.socket.send(&wrong).unwrap();
    }
    client.socket.send(b"").unwrap();
    client.socket.send(&[0xff; 2000]).unwrap();
    // The malformed datagrams get no replies, so the first reply answers the last request.
    assert!(is_ok(&client.ask(&Ask::Nop)));
}
