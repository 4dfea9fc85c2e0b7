//! Tests of Razor over the network: limits and replies of a connection.

mod common;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use bruit_protocols::razor::{ErrorCode, REPLY_BYTES_MAX, Reply, Signature};
use bruit_signatures::razor::{Ep4, PartSignatures, sign_part};
use bruit_testing::razor as client;
use common::Running;

/// Time limit for a reply, or the end of a connection.
const PATIENCE: Duration = Duration::from_secs(20);

const GREETING: &str = "a=cg&ep4=7542-10&sn=C&srl=1\r\n";
const USER: &[u8] = b"alice@example.org";
const PASSWORD: &[u8] = b"tin whistle 7";
const HEADER: &[u8] = b"From: dealer@example.com\nSubject: widgets\n";
const PART: &[u8] = b"X-Razor2-Agent: Razor-Agents v2.84\n\nBuy widgets at http://widgets.example.com/ now.\n";
const OTHER_PART: &[u8] = b"X-Razor2-Agent: Razor-Agents v2.84\n\nMinutes of the meeting: http://example.net/\n";

/// A client that reads each reply at once, as the real one does.
struct Client(TcpStream);

impl Client {
    /// Returns a client that has received the greeting.
    fn greeted(running: &Running) -> Self {
        let mut client = Self::connected(running.address("razor"));
        assert_eq!(client.read(), GREETING);
        client.write(b"cn=razor-agents&cv=2.84\r\n");
        client
    }

    fn connected(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        Self(stream)
    }

    /// Returns a client that has registered [`USER`] and logged in.
    fn registered(running: &Running) -> Self {
        let mut client = Self::greeted(running);
        let registered = Reply::Registered { user: USER.to_vec(), password: PASSWORD.to_vec() };
        assert_eq!(client.register(USER, PASSWORD), registered);
        client.log_in(USER, PASSWORD);
        client
    }

    /// Returns a client that has logged in with [`PASSWORD`].
    fn logged_in(running: &Running, user: &[u8]) -> Self {
        let mut client = Self::greeted(running);
        client.log_in(user, PASSWORD);
        client
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("the server reads");
    }

    /// Returns the result of one read, which is empty at the end of the stream.
    fn read(&mut self) -> String {
        let mut buffer = [0; REPLY_BYTES_MAX];
        let bytes = self.0.read(&mut buffer).expect("a reply");
        String::from_utf8(buffer[..bytes].to_vec()).expect("ASCII")
    }

    fn ask(&mut self, request: &[u8]) -> Vec<Reply> {
        self.write(request);
        let text = self.read();
        let (replies, bytes) = client::read_reply(text.as_bytes()).expect("a reply").expect("a whole reply");
        assert_eq!(bytes, text.len(), "one reply: {text}");
        replies
    }

    fn ask_for(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Vec<Reply> {
        let mut request = Vec::new();
        write(&mut request);
        self.ask(&request)
    }

    fn register(&mut self, user: &[u8], password: &[u8]) -> Reply {
        self.ask_for(|request| client::write_registration(request, user, password)).remove(0)
    }

    fn log_in(&mut self, user: &[u8], password: &[u8]) {
        assert_eq!(self.try_to_log_in(user, password), Reply::Done);
    }

    fn try_to_log_in(&mut self, user: &[u8], password: &[u8]) -> Reply {
        let replies = self.ask_for(|request| client::write_identification(request, user));
        let [Reply::Challenge(challenge)] = &replies[..] else { panic!("{replies:?}") };
        self.ask_for(|request| client::write_authentication(request, password, challenge)).remove(0)
    }

    fn check(&mut self, part: &[u8]) -> Vec<Reply> {
        let signatures = signatures(part);
        self.ask_for(|request| client::write_checks(request, &signatures, &Ep4::default()))
    }

    fn announce(&mut self, part: &[u8]) -> Vec<Reply> {
        let e4 = signed(part).e4;
        self.ask_for(|request| client::write_reports(request, &[e4], &Ep4::default()))
    }

    fn send_body(&mut self, part: &[u8]) -> Vec<Reply> {
        self.ask_for(|request| client::write_bodies(request, HEADER, [part]))
    }

    fn report(&mut self, part: &[u8]) {
        assert_eq!(self.announce(part), [Reply::Error(ErrorCode::BODY_WANTED)]);
        assert_eq!(self.send_body(part), [Reply::Done]);
    }

    fn revoke(&mut self, part: &[u8]) -> Vec<Reply> {
        self.ask_for(|request| client::write_revocations(request, &signatures(part)))
    }
}

fn signed(part: &[u8]) -> PartSignatures {
    sign_part(part, &Ep4::default()).expect("the part can be signed")
}

/// Returns the two signatures of a part with one link.
fn signatures(part: &[u8]) -> [Signature; 2] {
    let PartSignatures { e4, e8 } = signed(part);
    [Signature::E4(e4), Signature::E8(e8[0])]
}

fn spam() -> Vec<Reply> {
    vec![Reply::Spam { confidence: 80, contested: false }; 2]
}

#[test]
fn what_an_own_user_reports_is_known_at_once_until_it_is_revoked() {
    let running = Running::start("");
    let mut client = Client::registered(&running);
    assert_eq!(client.check(PART), [Reply::NotSpam, Reply::NotSpam]);
    client.report(PART);
    let mut client = Client::greeted(&running);
    assert_eq!(client.check(PART), spam());
    client.log_in(USER, PASSWORD);
    assert_eq!(client.announce(PART), [Reply::Done], "the signature is listed, so the body is not requested");
    assert_eq!(client.revoke(PART), [Reply::Done, Reply::Done]);
    assert_eq!(client.check(PART), [Reply::NotSpam, Reply::NotSpam]);
}

#[test]
fn accounts_and_reports_are_there_after_a_restart() {
    let running = Running::start("");
    Client::registered(&running).report(PART);
    let running = running.restart();
    let mut client = Client::greeted(&running);
    assert_eq!(client.check(PART), spam());
    client.log_in(USER, PASSWORD);
}

#[test]
fn what_somebody_elses_account_reports_lists_nothing_by_itself() {
    let running = Running::start("own_networks = []");
    let mut client = Client::registered(&running);
    client.report(PART);
    assert_eq!(Client::greeted(&running).check(PART), [Reply::NotSpam, Reply::NotSpam]);
}

#[test]
fn claims_need_an_account_that_may_make_them() {
    let running = Running::start("");
    let mut nobody = Client::greeted(&running);
    assert_eq!(nobody.announce(PART), [Reply::Error(ErrorCode::NOT_AUTHENTICATED)]);
    let rights = "own_networks = []\n[razor]\nrights = { report = \"own\", revoke = \"own\", check = \"accounts\" }";
    let running = Running::start(rights);
    let forbidden = Reply::Error(ErrorCode::FORBIDDEN);
    assert_eq!(Client::greeted(&running).check(PART), vec![forbidden.clone(); 2]);
    let mut account = Client::registered(&running);
    assert_eq!(account.announce(PART), std::slice::from_ref(&forbidden));
    assert_eq!(account.revoke(PART), [forbidden.clone(), forbidden]);
    assert_eq!(account.check(PART), [Reply::NotSpam, Reply::NotSpam]);
}

#[test]
fn registrations_that_cannot_be_say_why() {
    let running = Running::start("");
    let mut client = Client::registered(&running);
    for (user, password, code) in [
        (&b"bob"[..], &b"password1"[..], ErrorCode::PASSWORD_REFUSED),
        (b"bob", b"short", ErrorCode::PASSWORD_REFUSED),
        (b"two words", PASSWORD, ErrorCode::NAME_REFUSED),
        (USER, PASSWORD, ErrorCode::USER_EXISTS),
    ] {
        assert_eq!(client.register(user, password), Reply::Error(code), "{}", user.escape_ascii());
    }
}

#[test]
fn a_name_and_password_are_made_up_for_whoever_has_none() {
    let running = Running::start("");
    let mut client = Client::greeted(&running);
    let Reply::Registered { user, password } = client.ask(b"a=reg&registrar=x\r\n").remove(0) else { panic!("nobody") };
    client.log_in(&user, &password);
    client.report(PART);
}

#[test]
fn words_of_the_operators_list_are_refused_as_passwords_and_the_list_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let words = folder.path().join("words");
    std::fs::write(&words, "tin whistle\n").unwrap();
    let text = format!("[passwords]\nrefuse = [\"{}\"]\n", words.display());
    let running = Running::start(&text);
    let mut client = Client::greeted(&running);
    assert_eq!(
        client.register(USER, b"Tin Whistle7"),
        Reply::Error(ErrorCode::PASSWORD_REFUSED),
        "a listed word with an ending"
    );
    assert_eq!(client.register(USER, b"tin whistle"), Reply::Error(ErrorCode::PASSWORD_REFUSED));
    std::fs::write(&words, "slide trombone\n").unwrap();
    running.server.reload(&common::config(&text)).unwrap();
    let mut client = Client::greeted(&running);
    assert_eq!(client.register(USER, b"slide trombone"), Reply::Error(ErrorCode::PASSWORD_REFUSED));
    let registered = Reply::Registered { user: USER.to_vec(), password: b"tin whistle".to_vec() };
    assert_eq!(client.register(USER, b"tin whistle"), registered);
}

#[test]
fn a_network_registers_a_few_accounts_and_only_if_it_may() {
    let running = Running::start("own_networks = []\n[limits]\ncostly = { per_second = 0.001, burst = 2 }");
    let mut client = Client::greeted(&running);
    let register = |client: &mut Client, name: &str| client.register(name.as_bytes(), PASSWORD);
    assert!(matches!(register(&mut client, "a"), Reply::Registered { .. }));
    assert!(matches!(register(&mut client, "b"), Reply::Registered { .. }));
    assert_eq!(register(&mut client, "c"), Reply::Error(ErrorCode::LIMITED));
    let closed = Running::start("[razor]\nregister = \"nobody\"");
    assert_eq!(Client::greeted(&closed).register(b"a", PASSWORD), Reply::Error(ErrorCode::FORBIDDEN));
}

#[test]
fn who_is_not_known_or_has_another_password_is_not_let_in() {
    let running = Running::start("");
    let mut client = Client::greeted(&running);
    assert_eq!(client.try_to_log_in(b"nobody", PASSWORD), Reply::Refused);
    client.register(USER, PASSWORD);
    assert_eq!(client.try_to_log_in(USER, b"tin whistle 8"), Reply::Refused);
    assert_eq!(client.announce(PART), [Reply::Error(ErrorCode::NOT_AUTHENTICATED)]);
}

/// A crafted mail can make the client end its report early. The client then sends the rest of the mail's header as
/// requests.
#[test]
fn a_request_behind_a_blob_is_not_run() {
    let running = Running::start("");
    Client::registered(&running).report(OTHER_PART);
    let mut client = Client::greeted(&running);
    client.log_in(USER, PASSWORD);
    assert_eq!(client.announce(PART), [Reply::Error(ErrorCode::BODY_WANTED)]);
    let mut smuggled = Vec::new();
    client::write_bodies(&mut smuggled, HEADER, [PART]);
    client.write(&smuggled);
    smuggled.clear();
    client::write_revocations(&mut smuggled, &signatures(OTHER_PART));
    client.write(&smuggled);
    assert_eq!(client.read(), "res=0\r\n");
    assert_eq!(client.read(), "", "closed");
    let mut client = Client::greeted(&running);
    assert_eq!(client.check(OTHER_PART), spam());
    assert_eq!(client.check(PART), [Reply::NotSpam, Reply::NotSpam]);
}

#[test]
fn a_network_has_few_connections() {
    let running = Running::start("own_networks = []\n[limits]\nconnections_per_network = 2");
    let (_first, second) = (Client::greeted(&running), Client::greeted(&running));
    assert_eq!(Client::connected(running.address("razor")).read(), "", "closed");
    drop(second);
    // The server notices the end some time later.
    while Client::connected(running.address("razor")).read().is_empty() {}
}

#[test]
fn who_asks_too_much_is_told_so() {
    let running = Running::start("own_networks = []\n[limits]\nrequests = { per_second = 0.001, burst = 1 }");
    let mut client = Client::greeted(&running);
    assert_eq!(client.check(PART), [Reply::NotSpam, Reply::NotSpam]);
    assert_eq!(client.check(PART), vec![Reply::Error(ErrorCode::LIMITED); 2]);
}

#[test]
fn clients_are_told_where_they_are_and_what_is_recommended() {
    let running = Running::start("[razor]\nconfidence = 60\nep4 = [\"9911-10\", \"7542-10\"]");
    let address = running.address("razor");
    let mut client = Client::connected(address);
    assert_eq!(client.read(), "a=cg&ep4=9911-10&sn=C&srl=2\r\n");
    client.write(b"a=g&pm=state\r\n");
    assert!(client.read().starts_with("-ac=60\r\nbql=50\r\nbqs=128\r\ndre=4\r\nep4=9911-10\r\n"));
    client.write(b"a=g&pm=csl\r\n");
    assert_eq!(client.read(), format!("csl=127.0.0.1%3A{}\r\n", address.port()));
    let named = Running::start("[razor]\nhosts = [\"a.example.org\", \"b.example.org\"]");
    let mut client = Client::greeted(&named);
    client.write(b"a=g&pm=nsl\r\n");
    assert_eq!(client.read(), "-nsl=a.example.org\r\nnsl=b.example.org\r\n.\r\n");
}

#[test]
fn a_report_is_found_under_every_ep4_that_is_kept() {
    let running = Running::start("[razor]\nep4 = [\"9911-10\", \"7542-10\"]\nrevision = 1");
    let text = "A line of a text that is long enough to have sections.\n".repeat(60);
    let part = [PART, text.as_bytes()].concat();
    let mut client = Client::connected(running.address("razor"));
    client.read();
    client.register(USER, PASSWORD);
    client.log_in(USER, PASSWORD);
    client.report(&part);
    for ep4 in ["9911-10", "7542-10"] {
        let e4 = sign_part(&part, &ep4.parse().expect("sound")).expect("the part can be signed").e4;
        let mut client = Client::connected(running.address("razor"));
        client.read();
        let request = format!("a=c&e=4&ep4={ep4}&s={e4}\r\n");
        assert_eq!(client.ask(request.as_bytes()), spam()[..1], "{ep4}");
    }
}

#[test]
fn a_server_that_stops_closes_connections() {
    let running = Running::start("");
    let mut client = Client::greeted(&running);
    assert_eq!(client.check(PART), [Reply::NotSpam, Reply::NotSpam]);
    assert!(running.server.stop().poisoned.is_none());
    assert_eq!(client.read(), "", "closed");
}

#[test]
fn a_form_that_a_web_page_posts_is_not_run() {
    let running = Running::start("");
    let register = "a=reg&pass=s3cret-password&user=mallory\r\n";
    for request in [
        format!(
            "POST / HTTP/1.1\r\nHost: 127.0.0.1:2703\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{register}",
            register.len()
        ),
        format!("cn=x&cv=1\r\ncn=x&cv=1\r\n{register}"),
        format!("cn=x\r\n{register}"),
        format!("\r\n{register}"),
        format!("user=x&a=g\r\n{register}"),
    ] {
        let mut client = Client::connected(running.address("razor"));
        assert_eq!(client.read(), GREETING);
        client.write(request.as_bytes());
        // Unread data makes the system reset the connection.
        let mut rest = Vec::new();
        let _ = client.0.read_to_end(&mut rest);
        assert_eq!(rest, b"", "{request}");
    }
    let made = Reply::Registered { user: b"mallory".to_vec(), password: PASSWORD.to_vec() };
    assert_eq!(Client::greeted(&running).register(b"mallory", PASSWORD), made, "the name is still free");
}

#[test]
fn who_has_an_account_is_not_told() {
    let running = Running::start("");
    Client::registered(&running);
    let tries: Vec<_> = [USER, b"nobody@example.org"]
        .into_iter()
        .map(|user| {
            let mut client = Client::greeted(&running);
            let began = Instant::now();
            let replies = client.ask_for(|request| client::write_identification(request, user));
            let [Reply::Challenge(challenge)] = &replies[..] else { panic!("{replies:?}") };
            let wrong = b"not the password";
            let reply = client.ask_for(|request| client::write_authentication(request, wrong, challenge)).remove(0);
            (challenge.len(), reply, began.elapsed())
        })
        .collect();
    let [(known_bytes, known, known_time), (other_bytes, other, other_time)] = &tries[..] else { unreachable!() };
    assert_eq!((known_bytes, known), (other_bytes, other));
    assert_eq!(known, &Reply::Refused);
    let pause = Duration::from_secs(1);
    assert!(*known_time >= pause && *other_time >= pause, "{known_time:?}, {other_time:?}");
}

#[test]
fn what_strangers_report_takes_a_bounded_part_of_memory() {
    let running = Running::start("own_networks = []\n[limits]\nconnections_per_network = 1024");
    Client::registered(&running);
    let half = [&b"-a=r&message=*\r\n"[..], &b"x".repeat(130 << 10)].concat();
    let mut clients: Vec<_> = (0..150)
        .map(|_| {
            let mut client = Client::greeted(&running);
            client.log_in(USER, PASSWORD);
            client
        })
        .collect();
    // Refused connections get an error or are closed.
    clients.iter_mut().for_each(|client| drop(client.0.write_all(&half)));
    std::thread::sleep(Duration::from_secs(2));
    let is_refused = |client: &mut Client| {
        client.0.set_nonblocking(true).expect("a socket");
        let mut buffer = [0; REPLY_BYTES_MAX];
        match client.0.read(&mut buffer) {
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
            Ok(bytes) => {
                assert_eq!(&buffer[..bytes], b"err=205\r\n");
                true
            }
        }
    };
    let held = clients.iter_mut().filter_map(|client| (!is_refused(client)).then_some(())).count();
    // Reports of 122 to 146 KiB each share the pool of 16 MiB.
    assert!((110..=140).contains(&held), "{held}");
    drop(clients);
    let mut client = Client::greeted(&running);
    client.log_in(USER, PASSWORD);
    client.report(PART);
}
/// Returns a configuration with a password, a standing and a group for [`USER`].
fn named(password: &str, standing: &str, group: &str) -> String {
    let user = String::from_utf8_lossy(USER);
    format!(
        "[[accounts]]\nprotocol = \"razor\"\nname = \"{user}\"\npassword = \"{password}\"\nstanding = \"{standing}\"\n\
         group = \"{group}\"\n"
    )
}

#[test]
fn a_session_ends_with_the_account_as_it_was_when_it_logged_in() {
    let old = "tin whistle 7";
    for (text, password) in [
        (named("brass whistle 8", "own", "a"), "brass whistle 8"),
        (named(old, "account", "a"), old),
        (named(old, "own", "b"), old),
    ] {
        let running = Running::start(&format!("own_networks = []\n{}", named(old, "own", "a")));
        let mut client = Client::logged_in(&running, USER);
        // Only blobs may follow a blob.
        Client::logged_in(&running, USER).report(PART);
        running.server.reload(&common::config(&format!("own_networks = []\n{text}"))).expect("settings");
        let refused = Reply::Error(ErrorCode::NOT_AUTHENTICATED);
        assert_eq!(client.announce(OTHER_PART), std::slice::from_ref(&refused), "{text}");
        assert_eq!(client.revoke(PART), [refused.clone(), refused], "{text}");
        assert_eq!(client.check(PART), spam(), "a caller with the right to check can still check");
        client.log_in(USER, password.as_bytes());
        assert_eq!(client.announce(OTHER_PART), [Reply::Error(ErrorCode::BODY_WANTED)], "{text}");
    }
}

#[test]
fn a_reload_that_changes_nothing_of_an_account_ends_no_session() {
    let text = named("tin whistle 7", "own", "a");
    let running = Running::start(&text);
    let mut client = Client::greeted(&running);
    client.log_in(USER, PASSWORD);
    running.server.reload(&common::config(&format!("{text}[limits]\nconnections = 9\n"))).expect("settings");
    client.report(PART);
}

#[test]
fn all_networks_together_register_so_many() {
    let limits = "[limits]\nregistrations = { per_second = 0.0001, burst = 2 }";
    let running = Running::start(&format!("own_networks = []\n{limits}"));
    let mut client = Client::greeted(&running);
    assert!(matches!(client.register(b"a", PASSWORD), Reply::Registered { .. }));
    assert!(matches!(client.register(b"b", PASSWORD), Reply::Registered { .. }));
    assert_eq!(client.register(b"c", PASSWORD), Reply::Error(ErrorCode::LIMITED));
    let own = Running::start(limits);
    let mut client = Client::greeted(&own);
    for name in [b"a", b"b", b"c"] {
        assert!(
            matches!(client.register(name, PASSWORD), Reply::Registered { .. }),
            "registrations by own users are not limited"
        );
    }
}

/// Anyone can register. So a full table must accept new accounts, and a registration must not evict one of the
/// operator's accounts.
#[test]
fn registrations_push_out_the_oldest_and_never_those_of_the_file() {
    // A server with 8 MiB has space for 262 accounts. Self-registered accounts may use three quarters of it.
    const SELF_REGISTERED_MAX: usize = 195;
    let running = Running::start(&named("tin whistle 7", "own", "a"));
    let mut client = Client::greeted(&running);
    // The account in the configuration uses one of these places.
    for at in 0..SELF_REGISTERED_MAX + 1 {
        let name = format!("user{at}");
        assert!(matches!(client.register(name.as_bytes(), PASSWORD), Reply::Registered { .. }), "{name}");
    }
    let is_known = |name: &[u8]| {
        let mut client = Client::greeted(&running);
        let replies = client.ask_for(|request| client::write_identification(request, name));
        let [Reply::Challenge(challenge)] = &replies[..] else { panic!("{replies:?}") };
        client.ask_for(|request| client::write_authentication(request, PASSWORD, challenge)) != [Reply::Refused]
    };
    let known = [&b"user0"[..], b"user1", b"user2", b"user195", USER].map(is_known);
    assert_eq!(known, [false, false, true, true, true]);
}

#[test]
fn a_policy_applies_from_the_reload_on() {
    let running = Running::start("");
    let (ann, bob) = (b"ann@example.org", b"bob@example.org");
    for name in [ann, bob] {
        Client::greeted(&running).register(name, PASSWORD);
    }
    running.server.reload(&common::config("[trust]\nown_reports_needed = 2\n")).expect("settings");
    let mut asking = Client::greeted(&running);
    for _ in 0..2 {
        Client::logged_in(&running, ann).report(PART);
        assert_eq!(asking.check(PART), [Reply::NotSpam, Reply::NotSpam], "one own user is not enough");
    }
    Client::logged_in(&running, bob).report(PART);
    assert_eq!(asking.check(PART), vec![Reply::Spam { confidence: 90, contested: false }; 2], "two people agree");
    running.server.reload(&common::config("")).expect("settings");
    Client::logged_in(&running, ann).report(OTHER_PART);
    assert_eq!(asking.check(OTHER_PART), spam(), "settings missing from the file have their defaults");
}
