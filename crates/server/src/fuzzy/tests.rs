//! Tests of the path from a datagram to a clearinghouse on disk and back, without sockets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bruit_engine::Outcome;
use bruit_engine::accounts::{AccountChange, Protocol};
use bruit_engine::budget::BUDGET_MIN;
use bruit_engine::event::Event;
use bruit_engine::realm::Realm;
use bruit_engine::signature::fingerprint_of_digest;
use bruit_engine::time::Time;
use bruit_engine::trust::Policy;
use bruit_engine::whitelist::{ListAuthor, WhitelistChange};
use bruit_protocols::fuzzy::{
    Buffer, CODE_FORBIDDEN, CODE_SKIPPED, Command, Keypair, Nonce, Operation, REPLY_BYTES, Reply, SHINGLED_BYTES,
    SharedKey, Version,
};
use bruit_store::{Clearinghouse, Founding, Options};
use tempfile::TempDir;

use super::{Fuzzy, Vault};
use crate::accounts;
use crate::config::{Config, Settings};
use crate::duplicates::REMEMBERED;
use crate::metrics::Disposition;
use crate::service::Service;
use crate::sources::Source;
use crate::udp::{Batch, Datagrams, LookupResults, Request, Step};

const START: Time = Time(4_000 * Realm::SPAM_EPOCH_SECONDS);
const OWN: &str = "127.0.0.1:40000";
const STRANGER: &str = "192.0.2.7:40000";
const DIGEST: [u8; 64] = [7; 64];

/// A clearinghouse and the handler of one thread.
struct Site {
    service: Service,
    settings: Settings,
    end: Fuzzy,
    own: Keypair,
    uptime: Duration,
    _folder: TempDir,
}

/// A client with its keys.
struct Client {
    pair: Keypair,
    server: Keypair,
    key: SharedKey,
    /// The number of the last nonce.
    sent: u8,
}

impl Site {
    fn new(configuration: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let found = || Founding::new([3; 16], BUDGET_MIN, Policy::default(), START).unwrap();
        let store = Clearinghouse::open_or_found(folder.path(), &Options::default(), found, &mut |_| {}).unwrap();
        let settings = Config::parse(configuration).unwrap().settings;
        let own = Keypair::from_secret([1; 32]);
        let end = Fuzzy::new(Arc::new(Vault::new(own.clone()).unwrap()));
        let service = Service::new(store, settings.clone());
        let site = Self { service, settings, end, own, uptime: Duration::ZERO, _folder: folder };
        let changes = site
            .service
            .store
            .check(|engine| accounts::changes(&site.settings.accounts, &site.settings.passwords, engine))
            .unwrap();
        changes.registered.into_iter().for_each(|change| site.submit(Event::Account { now: START, change }));
        site
    }

    fn submit(&self, event: Event) {
        assert_eq!(self.service.store.submit(vec![event]).unwrap(), [Outcome::Done]);
    }

    /// Handles a datagram and returns its result and the reply.
    fn serve(&mut self, from: &str, packet: &[u8]) -> (Disposition, Vec<u8>) {
        let Self { service, settings, end, uptime, .. } = self;
        let from: SocketAddr = from.parse().unwrap();
        let source = Source::new(from.ip(), &settings.own_networks);
        let mut reply = Vec::new();
        let decoded = match Fuzzy::decode(packet, from) {
            Ok(decoded) => decoded,
            Err(answered) => return (answered, reply),
        };
        let account = service.store.check(|engine| end.account(&decoded, engine.accounts()));
        let account = account.as_ref();
        let request = Request { packet, from, source, account, service, settings, now: START, uptime: *uptime };
        let step = match end.start(decoded, &request, &mut Batch::default(), &mut reply) {
            Step::Check(mut waiting) => {
                service.store.check(|engine| end.look_up(&mut waiting, &request, engine));
                let found = LookupResults { verdicts: &[], totals: &[] };
                Step::Reply(end.answer_check(&waiting, &request, found, &mut reply))
            }
            other => other,
        };
        let answered = match step {
            Step::Drop(answered) | Step::Reply(answered) => answered,
            Step::Check(_) => unreachable!("the request was answered"),
            Step::Change(change) => {
                let outcomes = service.store.submit(change.events).unwrap();
                Fuzzy::answer_change(service, &change.waiting, Ok(&outcomes), &mut reply)
            }
        };
        (answered, reply)
    }

    /// Returns the reply to a plain command.
    fn ask(&mut self, from: &str, command: &Command) -> Reply {
        let (_, reply) = self.serve(from, command.encode(&mut [0; SHINGLED_BYTES]));
        assert_eq!(reply.len(), REPLY_BYTES);
        let reply = Reply::decode(&reply).unwrap();
        assert_eq!(reply.tag, command.tag);
        reply
    }

    /// Returns the reply to an encrypted command.
    fn ask_sealed(&mut self, from: &str, client: &mut Client, command: &Command) -> Option<Reply> {
        let datagram = client.seal(command);
        let (_, reply) = self.serve(from, &datagram);
        (!reply.is_empty()).then(|| client.open(&reply))
    }

    fn client(&self, secret: u8) -> Client {
        Client::new(secret, &self.own)
    }
}

impl Client {
    fn new(secret: u8, server: &Keypair) -> Self {
        let pair = Keypair::from_secret([secret; 32]);
        let key = pair.shared_key(&server.public()).unwrap();
        Self { pair, server: server.clone(), key, sent: 0 }
    }

    fn seal(&mut self, command: &Command) -> Vec<u8> {
        self.sent += 1;
        let nonce: Nonce = [self.sent; 24];
        let (mut plain, mut buffer) = ([0; SHINGLED_BYTES], Buffer::default());
        let (server, client) = (self.server.public().id(), self.pair.public());
        let plain = command.encode(&mut plain);
        self.key.seal_request(server, &client, &nonce, plain, &mut buffer).unwrap().to_vec()
    }

    fn open(&self, reply: &[u8]) -> Reply {
        Reply::decode(self.key.open_reply(reply, &mut Buffer::default()).unwrap()).unwrap()
    }
}

fn command(operation: Operation) -> Command {
    let value = if operation == Operation::Write { 10 } else { 0 };
    Command { version: Version::V4, operation, flag: 11, value, tag: 99, digest: DIGEST, shingles: None }
}

fn shingles(seed: u64) -> [u64; 32] {
    std::array::from_fn(|at| (seed * 100 + at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Returns a configuration and a key pair. The configuration has an account of this standing that may write list 11.
/// The private key is the digit 5, repeated 64 times.
fn with_account(standing: &str) -> (String, Keypair) {
    let secret = "5".repeat(64);
    let configuration = format!(
        "[[accounts]]\nprotocol = \"fuzzy\"\nname = \"friends\"\nsecret = \"{secret}\"\nflags = [11]\n\
         standing = \"{standing}\""
    );
    (configuration, Keypair::from_secret_text(&secret).unwrap())
}

#[test]
fn what_own_users_write_is_found_by_digest_and_by_shingles() {
    let mut site = Site::new("");
    let write = Command { shingles: Some(shingles(1)), ..command(Operation::Write) };
    assert_eq!(site.ask(OWN, &Command { operation: Operation::Check, ..write }), Reply::not_found(99));
    assert_eq!(site.ask(OWN, &write), Reply::accepted(&write));

    let found = site.ask(STRANGER, &command(Operation::Check));
    let expected = Reply {
        value: 10,
        flag: 11,
        tag: 99,
        probability: 1.0,
        digest: DIGEST,
        time: (START.0 / Time::HOUR * Time::HOUR) as u32,
    };
    assert_eq!(found, expected);

    let mut altered = Command { digest: [8; 64], shingles: Some(shingles(1)), ..command(Operation::Check) };
    altered.shingles.as_mut().unwrap()[..15].fill(0);
    let similar = site.ask(STRANGER, &altered);
    assert_eq!(similar, Reply { probability: 17.0 / 32.0, digest: [8; 64], ..expected });
    altered.shingles.as_mut().unwrap()[15] = 0;
    assert_eq!(site.ask(STRANGER, &altered), Reply::not_found(99));
}

#[test]
fn weights_add_up_and_old_clients_get_short_replies() {
    let mut site = Site::new("");
    for tag in [1, 2] {
        site.ask(OWN, &Command { tag, ..command(Operation::Write) });
    }
    assert_eq!(site.ask(OWN, &command(Operation::Check)).value, 20);
    let old = Command { version: Version::V3, ..command(Operation::Check) };
    let (_, reply) = site.serve(OWN, old.encode(&mut [0; SHINGLED_BYTES]));
    assert_eq!((reply.len(), Reply::decode(&reply).unwrap().value), (16, 20));
}

#[test]
fn what_own_users_delete_is_gone_until_they_write_it_again() {
    let mut site = Site::new("");
    let write = Command { shingles: Some(shingles(1)), ..command(Operation::Write) };
    let check = Command { operation: Operation::Check, ..write };
    let delete = Command { operation: Operation::Delete, value: 1, ..write };
    for _ in 0..3 {
        assert!(site.ask(OWN, &write).is_success());
        assert_eq!(site.ask(OWN, &check).value, 10);
        assert_eq!(site.ask(OWN, &delete), Reply::accepted(&delete));
        assert_eq!(site.ask(OWN, &check), Reply::not_found(99));
    }
}

#[test]
fn strangers_neither_write_nor_delete() {
    let mut site = Site::new("");
    site.ask(OWN, &command(Operation::Write));
    for operation in [Operation::Write, Operation::Delete] {
        let refused = command(operation);
        assert_eq!(site.ask(STRANGER, &refused), Reply::refused(&refused, CODE_FORBIDDEN));
        let mut client = site.client(2);
        assert_eq!(site.ask_sealed(STRANGER, &mut client, &refused), Some(Reply::refused(&refused, CODE_FORBIDDEN)));
    }
    assert_eq!(site.ask(STRANGER, &command(Operation::Check)).value, 10);
}

#[test]
fn weights_that_would_not_grow_are_refused() {
    let mut site = Site::new("");
    for value in [0, -1, i32::MIN] {
        let write = Command { value, ..command(Operation::Write) };
        assert_eq!(site.ask(OWN, &write), Reply::refused(&write, CODE_FORBIDDEN));
    }
    assert_eq!(site.ask(OWN, &command(Operation::Stat)), Reply::records(99, 0));
}

#[test]
fn whitelisted_texts_cannot_be_written() {
    let mut site = Site::new("");
    let fingerprint = fingerprint_of_digest(&site.service.key, &DIGEST);
    let change = WhitelistChange::List(fingerprint, ListAuthor::Operator);
    site.submit(Event::Whitelist { now: START, change });
    let write = command(Operation::Write);
    assert_eq!(site.ask(OWN, &write), Reply::refused(&write, CODE_SKIPPED));
    assert_eq!(site.ask(OWN, &command(Operation::Check)), Reply::not_found(99));
    assert!(site.ask(OWN, &command(Operation::Delete)).is_success());
}

#[test]
fn statistics_and_pings_are_answered() {
    let mut site = Site::new("");
    site.ask(OWN, &command(Operation::Write));
    assert_eq!(site.ask(STRANGER, &command(Operation::Stat)), Reply::records(99, 1));
    let ping = Command { value: 1_234, ..command(Operation::Ping) };
    assert_eq!(site.ask(STRANGER, &ping), Reply::pong(&ping));
}

#[test]
fn encrypted_commands_are_answered_encrypted() {
    let mut site = Site::new("");
    let mut client = site.client(2);
    let write = Command { shingles: Some(shingles(1)), ..command(Operation::Write) };
    assert_eq!(site.ask_sealed(OWN, &mut client, &write), Some(Reply::accepted(&write)));
    let mut other = site.client(3);
    let found = site.ask_sealed(STRANGER, &mut other, &command(Operation::Check)).unwrap();
    assert_eq!((found.value, found.flag, found.probability), (10, 11, 1.0));
}

#[test]
fn what_cannot_be_decrypted_is_dropped() {
    let mut site = Site::new("");
    let mut client = site.client(2);
    let mut datagram = client.seal(&command(Operation::Check));
    *datagram.last_mut().unwrap() ^= 1;
    assert_eq!(site.serve(OWN, &datagram), (Disposition::Unverified, Vec::new()));
    let mut lost = Client::new(2, &Keypair::from_secret([9; 32]));
    let to_nobody = lost.seal(&command(Operation::Check));
    assert_eq!(site.serve(OWN, &to_nobody), (Disposition::Unverified, Vec::new()));
    // A weak public key. Its shared key is the same with every private key.
    let mut weak = client.seal(&command(Operation::Check));
    weak[12..44].fill(0);
    assert_eq!(site.serve(OWN, &weak), (Disposition::Unverified, Vec::new()));
    assert_eq!(site.serve(OWN, b"nonsense"), (Disposition::Malformed, Vec::new()));
}

#[test]
fn plain_commands_are_refused_if_the_operator_says_so() {
    let mut site = Site::new("[fuzzy]\nencrypted_only = true");
    for operation in [Operation::Check, Operation::Write, Operation::Ping] {
        let plain = command(operation);
        assert_eq!(site.ask(OWN, &plain), Reply::refused(&plain, CODE_FORBIDDEN));
    }
    let mut client = site.client(2);
    assert!(site.ask_sealed(OWN, &mut client, &command(Operation::Write)).unwrap().is_success());
}

#[test]
fn rights_are_those_of_the_configuration() {
    let mut site = Site::new("[fuzzy.rights]\ncheck = \"own\"\nreport = \"nobody\"\nrevoke = \"nobody\"");
    for (from, operation, is_allowed) in [
        (STRANGER, Operation::Check, false),
        (STRANGER, Operation::Stat, false),
        (STRANGER, Operation::Ping, false),
        (OWN, Operation::Ping, true),
        (OWN, Operation::Write, false),
        (OWN, Operation::Delete, false),
    ] {
        let reply = site.ask(from, &command(operation));
        assert_eq!(reply.value != CODE_FORBIDDEN, is_allowed, "{operation:?} from {from}");
    }
}

#[test]
fn the_key_of_an_account_writes_its_lists_from_anywhere() {
    let (configuration, keys) = with_account("own");
    let mut site = Site::new(&configuration);
    let mut client = Client::new(2, &keys);
    let write = command(Operation::Write);
    assert_eq!(site.ask_sealed(STRANGER, &mut client, &write), Some(Reply::accepted(&write)));
    assert_eq!(site.ask(STRANGER, &command(Operation::Check)).value, 10);

    let other_list = Command { flag: 12, digest: [9; 64], ..write };
    let refused = Reply::refused(&other_list, CODE_FORBIDDEN);
    assert_eq!(site.ask_sealed(STRANGER, &mut client, &other_list), Some(refused));

    assert!(site.ask_sealed(STRANGER, &mut client, &command(Operation::Delete)).unwrap().is_success());
    assert_eq!(site.ask(STRANGER, &command(Operation::Check)), Reply::not_found(99));
}

#[test]
fn accounts_that_are_not_the_sites_own_are_heard_but_delete_nothing() {
    let (configuration, keys) = with_account("pinned");
    let mut site = Site::new(&configuration);
    let mut client = Client::new(2, &keys);
    let write = command(Operation::Write);
    assert!(site.ask_sealed(STRANGER, &mut client, &write).unwrap().is_success());
    assert_eq!(site.ask(OWN, &command(Operation::Stat)), Reply::records(99, 1));
    // A known text is not changed, but the claim counts.
    site.ask(OWN, &Command { digest: [8; 64], ..write });
    let known = Command { digest: [8; 64], tag: 1, ..write };
    assert!(site.ask_sealed(STRANGER, &mut client, &known).unwrap().is_success());
    assert_eq!(site.ask(OWN, &Command { digest: [8; 64], ..command(Operation::Check) }).value, 10);
    let delete = command(Operation::Delete);
    let refused = Reply::refused(&delete, CODE_FORBIDDEN);
    assert_eq!(site.ask_sealed(STRANGER, &mut client, &delete), Some(refused));
    let fingerprint = fingerprint_of_digest(&site.service.key, &DIGEST);
    let counts = site.service.store.check(|engine| engine.check(&fingerprint, 0).counts);
    assert_eq!((counts.report_count, counts.revoke_count), (1, 0), "it does not count as a revocation either");
}

#[test]
fn a_disabled_account_gets_no_answer() {
    let (configuration, keys) = with_account("own");
    let mut site = Site::new(&configuration);
    let mut client = Client::new(2, &keys);
    assert!(site.ask_sealed(STRANGER, &mut client, &command(Operation::Check)).is_some());
    let change = AccountChange::Disable(Protocol::Fuzzy, b"friends".to_vec().into());
    site.submit(Event::Account { now: START, change });
    assert_eq!(site.ask_sealed(STRANGER, &mut client, &command(Operation::Check)), None);
    // An account that was removed from the configuration may not write either, although its shared key is cached.
    site.submit(Event::Account { now: START, change: AccountChange::Enable(Protocol::Fuzzy, (*b"friends").into()) });
    site.settings = Config::default().settings;
    assert_eq!(site.ask_sealed(STRANGER, &mut client, &command(Operation::Check)), None);
}

#[test]
fn a_recorded_change_cannot_be_sent_again_by_others_or_later() {
    let (configuration, keys) = with_account("own");
    let mut site = Site::new(&configuration);
    let mut client = Client::new(2, &keys);
    let datagram = client.seal(&command(Operation::Write));
    assert_eq!(site.serve(STRANGER, &datagram).0, Disposition::Accepted);
    let other = "198.51.100.1:40000";
    assert_eq!(site.serve(other, &datagram), (Disposition::Duplicate, Vec::new()));
    site.uptime = REMEMBERED + Duration::from_secs(1);
    assert_eq!(site.serve(STRANGER, &datagram), (Disposition::Duplicate, Vec::new()));
    assert_eq!(site.ask(OWN, &command(Operation::Check)).value, 10);
}

#[test]
fn strangers_make_us_compute_few_keys_and_own_users_as_many_as_they_need() {
    let configuration = "[limits]\ncostly = { per_second = 1, burst = 3 }";
    let served = |from: &str| {
        let mut site = Site::new(configuration);
        let asked: Vec<_> = (10..20)
            .map(|secret| {
                let datagram = site.client(secret).seal(&command(Operation::Check));
                site.serve(from, &datagram).0
            })
            .collect();
        // A client with a cached key is still answered.
        let again = site.client(10).seal(&command(Operation::Ping));
        assert_eq!(site.serve(from, &again).0, Disposition::Other);
        asked.iter().filter(|&&answered| answered == Disposition::Unknown).count()
    };
    assert_eq!(served(STRANGER), 3);
    assert_eq!(served(OWN), 10);
}
