use std::sync::atomic::{AtomicUsize, Ordering};

use bruit_protocols::milter::{Decoder, RECEIVE_BYTES_MAX};
use bruit_testing::milter as mta;
use mta::Answer;
use proptest::prelude::*;

use super::*;
use crate::filter::tests::filter;

/// A session, and the answers to what is sent to it.
struct Peer6 {
    session: Session,
    decoder: Decoder,
}

impl Peer6 {
    fn new(text: &str) -> Self {
        let filter = filter(text);
        Self { session: Session::new(Arc::new(move || Arc::clone(&filter))), decoder: Decoder::default() }
    }

    fn open(text: &str) -> Self {
        let mut peer = Self::new(text);
        peer.send(|out| mta::write_offer(out, 6, mta::ACTIONS_OFFERED, mta::STEPS_OFFERED)).unwrap();
        peer
    }

    fn send(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<Vec<Answer>, SequenceError> {
        let mut bytes = Vec::new();
        write(&mut bytes);
        let mut out = Vec::new();
        for piece in bytes.chunks(RECEIVE_BYTES_MAX) {
            self.decoder.receive(piece);
            while let Some(command) = self.decoder.next_command().unwrap() {
                self.session.take(command, &mut out)?;
            }
        }
        Ok(answers(&out))
    }
}

fn answers(mut bytes: &[u8]) -> Vec<Answer> {
    let mut found = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let (frame, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        found.push(Answer::decode(frame).unwrap());
        bytes = rest;
    }
    found
}

fn message(out: &mut Vec<u8>, recipients: &[&str]) {
    mta::write_strings(out, b'M', &[b"<a@b.example>"]);
    for recipient in recipients {
        mta::write_strings(out, b'R', &[recipient.as_bytes()]);
    }
    mta::write_message(out, b"Subject: x\n\ntext\n", 65_535);
}

fn end(out: &mut Vec<u8>) {
    mta::write_command(out, b'E', &[]);
}

fn unreachable_field() -> Vec<Answer> {
    vec![Answer::InsertHeader(0, "X-Bruit".into(), " unchecked; reason=unreachable".into()), Answer::Accept]
}

#[test]
fn header_and_body_need_no_answers() {
    let mut peer = Peer6::open("");
    assert_eq!(peer.send(|out| mta::write_connection(out, "mx", "192.0.2.1")).unwrap(), [Answer::Continue]);
    assert_eq!(peer.send(|out| message(out, &["<c@d.example>"])).unwrap(), []);
    assert!(peer.session.is_in_content() && !peer.session.is_idle());
    assert_eq!(peer.send(end).unwrap(), unreachable_field());
    assert!(peer.session.is_idle() && !peer.session.is_in_content());
}

#[test]
fn an_mta_without_options_gets_an_answer_to_every_command() {
    let mut peer = Peer6::new("");
    let offered = peer.send(|out| mta::write_offer(out, 2, 0x1f, 0)).unwrap();
    assert!(
        matches!(&offered[..], [Answer::Negotiated { version: 2, actions: 0x1d, steps: 0, macros }] if macros.is_empty())
    );
    let answers = peer.send(|out| {
        mta::write_connection(out, "mx", "192.0.2.1");
        mta::write_strings(out, b'H', &[b"mx"]);
        mta::write_command(out, b'T', &[]);
        mta::write_command(out, b'N', &[]);
        mta::write_strings(out, b'U', &[b"XYZ"]);
        message(out, &["<c@d.example>"]);
    });
    // Five commands, a sender, a recipient, a field, and a piece of the body.
    assert_eq!(answers.unwrap(), vec![Answer::Continue; 9]);
    let value = "unchecked; reason=unreachable".to_owned();
    assert_eq!(peer.send(end).unwrap(), [Answer::InsertHeader(0, "X-Bruit".into(), value), Answer::Accept]);
}

#[test]
fn own_networks_and_authenticated_senders_are_not_checked() {
    let mut peer = Peer6::open("");
    assert_eq!(peer.send(|out| mta::write_connection(out, "mx", "127.0.0.2")).unwrap(), [Answer::Accept]);
    let mut peer = Peer6::open("");
    peer.send(|out| mta::write_connection(out, "mx", "192.0.2.1")).unwrap();
    let answers = peer.send(|out| {
        mta::write_macros(out, b'M', &[("{auth_type}", "PLAIN"), ("{auth_authen}", "alice")]);
        message(out, &["<c@d.example>"]);
        end(out);
    });
    assert_eq!(answers.unwrap(), [Answer::Accept]);
    // The next message of the session comes without authentication.
    let answers = peer.send(|out| {
        mta::write_macros(out, b'M', &[("i", "A1")]);
        message(out, &["<c@d.example>"]);
        end(out);
    });
    assert_eq!(answers.unwrap(), unreachable_field());
}

#[test]
fn whitelists_are_by_client_and_envelope_sender() {
    let text = "[whitelist]\nsenders = [\"a@b.example\"]\nclients = [\"192.0.2.0/24\"]";
    let answers = |text: &str, address: &str| {
        let mut peer = Peer6::open(text);
        peer.send(|out| mta::write_connection(out, "mx", address)).unwrap();
        let sent = |out: &mut Vec<u8>| {
            message(out, &["<c@d.example>"]);
            end(out);
        };
        peer.send(sent).unwrap()
    };
    assert_eq!(answers(text, "192.0.2.1"), [Answer::Accept]);
    assert_eq!(answers(&text.replace("a@b", "x@b"), "192.0.2.1"), [Answer::Accept]);
    assert_eq!(answers(text, "198.51.100.1"), [Answer::Accept]);
    assert_eq!(answers(&text.replace("a@b", "x@b"), "198.51.100.1"), unreachable_field());
}

#[test]
fn an_abort_ends_a_message_and_keeps_the_session() {
    let mut peer = Peer6::open("");
    peer.send(|out| mta::write_connection(out, "mx", "192.0.2.1")).unwrap();
    let answers = peer.send(|out| {
        message(out, &["<c@d.example>"]);
        mta::write_command(out, b'A', &[]);
    });
    assert_eq!((answers.unwrap().len(), peer.session.is_idle()), (0, true));
    assert_eq!(peer.send(|out| mta::write_command(out, b'B', &[b"text"])), Err(SequenceError::NoMessage));
}

#[test]
fn commands_out_of_order_end_the_connection() {
    assert_eq!(Peer6::new("").send(|out| mta::write_command(out, b'E', &[])), Err(SequenceError::Negotiation));
    assert_eq!(Peer6::new("").send(|out| mta::write_offer(out, 1, 0, 0)), Err(SequenceError::Version(1)));
    let mut peer = Peer6::open("");
    assert_eq!(peer.send(|out| mta::write_offer(out, 6, 0, 0)), Err(SequenceError::Negotiation));
    assert_eq!(peer.send(|out| mta::write_strings(out, b'R', &[b"<a@b>"])), Err(SequenceError::NoMessage));
}

#[test]
fn a_second_session_on_a_connection_has_its_own_client() {
    let mut peer = Peer6::open("");
    peer.send(|out| mta::write_connection(out, "mx", "127.0.0.1")).unwrap();
    assert!(peer.session.client.is_some());
    assert_eq!(peer.send(|out| mta::write_command(out, b'K', &[])).unwrap(), []);
    assert!(peer.session.client.is_none() && peer.session.is_idle());
    assert_eq!(peer.send(|out| mta::write_connection(out, "mx", "192.0.2.1")).unwrap(), [Answer::Continue]);
}

#[test]
fn refused_recipients_are_asked_for_only_if_there_are_traps() {
    let steps = |text| {
        let mut peer = Peer6::new(text);
        let answers = peer.send(|out| mta::write_offer(out, 6, mta::ACTIONS_OFFERED, mta::STEPS_OFFERED)).unwrap();
        let [Answer::Negotiated { steps, .. }] = answers[..] else { panic!("{answers:?}") };
        Steps(steps)
    };
    assert!(!steps("").has(Steps::REFUSED_RECIPIENTS));
    assert!(steps("[traps]\naddresses = [\"trap@b.example\"]").has(Steps::REFUSED_RECIPIENTS));
}

/// Recipients without a macro of their own once counted as refused if the recipient before them was refused.
#[test]
fn a_refusal_concerns_one_recipient() {
    let mut peer = Peer6::open("[traps]\naddresses = [\"trap@b.example\"]");
    peer.send(|out| {
        mta::write_connection(out, "mx", "192.0.2.1");
        mta::write_strings(out, b'M', &[b"<a@b.example>"]);
        mta::write_macros(out, b'R', &[("{rcpt_mailer}", "error")]);
        mta::write_strings(out, b'R', &[b"<nobody@d.example>"]);
        mta::write_strings(out, b'R', &[b"<c@d.example>"]);
    })
    .unwrap();
    assert_eq!(peer.session.draft.unwrap().recipients.counted(), 1);
}

#[test]
fn a_reload_applies_to_the_next_message() {
    let filters = [filter(""), filter("[whitelist]\nsenders = [\"a@b.example\"]")];
    let current = Arc::new(AtomicUsize::new(0));
    let shown = Arc::clone(&current);
    let session = Session::new(Arc::new(move || Arc::clone(&filters[shown.load(Ordering::Relaxed)])));
    let mut peer = Peer6 { session, decoder: Decoder::default() };
    peer.send(|out| mta::write_offer(out, 6, mta::ACTIONS_OFFERED, mta::STEPS_OFFERED)).unwrap();
    peer.send(|out| message(out, &["<c@d.example>"])).unwrap();
    current.store(1, Ordering::Relaxed);
    assert_eq!(peer.send(end).unwrap(), unreachable_field());
    let next = peer.send(|out| {
        message(out, &["<c@d.example>"]);
        end(out);
    });
    assert_eq!(next.unwrap(), [Answer::Accept]);
}

/// Commands of any kind and order, with any data.
fn commands() -> impl Strategy<Value = Vec<(u8, Vec<u8>)>> {
    let code = prop::sample::select(&b"ODCHMRTLNBEAQKU"[..]);
    let strings = "[a-zA-Z@.<>{} \n-]{0,12}".prop_map(|text| [text.as_bytes(), b"\0x\0"].concat());
    let data = prop_oneof![strings, prop::collection::vec(any::<u8>(), 0..24)];
    prop::collection::vec((code, data), 0..40)
}

proptest! {
    #[test]
    fn no_sequence_of_commands_panics(commands in commands(), negotiates: bool) {
        let mut peer = if negotiates { Peer6::open("") } else { Peer6::new("") };
        let mut out = Vec::new();
        for (code, data) in &commands {
            let frame = [&[*code], &data[..]].concat();
            let Ok(command) = Command::decode(&frame) else { continue };
            match peer.session.take(command, &mut out) {
                Ok(Next::Continue) => {}
                Ok(Next::Close) | Err(_) => break,
            }
        }
        answers(&out);
    }
}
