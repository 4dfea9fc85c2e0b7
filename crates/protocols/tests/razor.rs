//! Tests of conversations: byte-for-byte transcripts of real clients, input that is refused, and results that do not
//! depend on how the input is split.

mod razor_transcripts;

use std::sync::Arc;

use bruit_protocols::razor::{
    ANNOUNCED_MAX, Action, BATCH_LINES_MAX, BLOB_BYTES_MAX, Conversation, ErrorCode, LINE_BYTES_MAX, RECEIVE_BYTES_MAX,
    REPLY_BYTES_MAX, Reply, ServerList, Signature, Terms,
};
use bruit_signatures::razor::{E4Signature, Ep4, sign_part};
use bruit_testing::razor as client;
use proptest::prelude::*;

const PART: &str = "X-Razor2-Agent: Razor-Agents v2.84\n\nBuy widgets at http://example.com/ now.\n";
const OTHER_PART: &str = "X-Razor2-Agent: Razor-Agents v2.84\n\nMinutes of the meeting.\n";
const HEADER: &str = "From: a@example.com\nSubject: widgets\n";

fn conversation() -> Conversation {
    let terms = Terms::new(50, vec![Ep4::default()], 1).unwrap();
    let servers = ServerList::new(vec!["127.0.0.1".to_owned(), "127.0.0.1:2703".to_owned()]).unwrap();
    Conversation::new(Arc::new(terms), servers)
}

/// Returns a conversation authenticated as `alice`.
fn authenticated() -> Conversation {
    let mut conversation = conversation();
    let mut requests = Vec::new();
    client::write_identification(&mut requests, b"alice");
    client::write_authentication(&mut requests, b"tin whistle 7", b"challenge");
    assert_eq!(talk(&mut conversation, &requests, decide), ["achal=challenge\r\n", "res=1\r\n"]);
    assert_eq!(conversation.user(), Some(&b"alice"[..]));
    conversation
}

/// Returns the answers of a server that has no data and accepts every user.
fn decide(action: &Action) -> Vec<Reply> {
    match action {
        Action::Check(signatures) => vec![Reply::NotSpam; signatures.len()],
        Action::Report(signatures) => vec![Reply::Error(ErrorCode::BODY_WANTED); signatures.len()],
        Action::Revoke(signatures) => vec![Reply::Done; signatures.len()],
        Action::Challenge { .. } => vec![Reply::Challenge(b"challenge".to_vec())],
        Action::Register { .. } | Action::Verify { .. } | Action::ReportBodies(_) => vec![Reply::Done],
        Action::Reply(_) | Action::Pause | Action::Close => vec![],
    }
}

/// Sends all bytes at once. Returns the replies, followed by `close` if the conversation closes the connection. No
/// bytes arrive during a pause.
fn talk(conversation: &mut Conversation, bytes: &[u8], decide: impl Fn(&Action) -> Vec<Reply>) -> Vec<String> {
    conversation.receive(bytes);
    let mut replies = Vec::new();
    while let Some(action) = conversation.next_action() {
        match &action {
            Action::Reply(bytes) => replies.push(String::from_utf8(bytes.clone()).unwrap()),
            Action::Close => replies.push("close".to_owned()),
            Action::Pause => conversation.resume(),
            _ => conversation.answer(decide(&action)),
        }
    }
    replies
}

fn e4(part: &str) -> E4Signature {
    sign_part(part.as_bytes(), &Ep4::default()).unwrap().e4
}

fn report(parts: &[&str]) -> Vec<u8> {
    let mut request = Vec::new();
    let announced: Vec<_> = parts.iter().map(|part| e4(part)).collect();
    client::write_reports(&mut request, &announced, &Ep4::default());
    request
}

fn bodies(parts: &[&str]) -> Vec<u8> {
    let mut request = Vec::new();
    client::write_bodies(&mut request, HEADER.as_bytes(), parts.iter().map(|part| part.as_bytes()));
    request
}

/// Returns a conversation that has requested the body of [`PART`].
fn asked_for_body() -> Conversation {
    let mut conversation = authenticated();
    assert_eq!(talk(&mut conversation, &report(&[PART]), decide), ["err=230\r\n"]);
    conversation
}

#[test]
fn claims_need_an_account_and_checks_do_not() {
    let mut nobody = conversation();
    assert_eq!(talk(&mut nobody, &report(&[PART]), decide), ["err=202\r\n"]);
    let mut revocations = Vec::new();
    client::write_revocations(&mut revocations, &[Signature::E4(e4(PART)); 2]);
    assert_eq!(talk(&mut nobody, &revocations, decide), ["-err=202\r\nerr=202\r\n.\r\n"]);
    let mut checks = Vec::new();
    client::write_checks(&mut checks, &[Signature::E4(e4(PART))], &Ep4::default());
    assert_eq!(talk(&mut nobody, &checks, decide), ["p=0\r\n"]);
    assert_eq!(talk(&mut authenticated(), &revocations, decide), ["-res=1\r\nres=1\r\n.\r\n"]);
}

#[test]
fn blobs_of_unauthenticated_clients_are_not_read() {
    let blob = bodies(&[PART]);
    assert_eq!(talk(&mut conversation(), &blob, decide), ["err=202\r\n", "close"]);
    assert_eq!(talk(&mut conversation(), b"-a=r&message=*\r\n", decide), ["err=202\r\n", "close"]);
}

#[test]
fn a_wrong_response_proves_nothing_and_uses_the_challenge_up() {
    let refuse = |action: &Action| match action {
        Action::Verify { .. } => vec![Reply::Refused],
        other => decide(other),
    };
    let mut conversation = conversation();
    let replies = talk(&mut conversation, b"a=ai&user=alice\r\na=auth&aresp=x\r\n", refuse);
    assert_eq!(replies, ["achal=challenge\r\n", "res=0\r\n"]);
    assert_eq!(conversation.user(), None);
    assert_eq!(talk(&mut conversation, b"a=auth&aresp=y\r\n", decide), ["err=204\r\n"]);
    assert_eq!(conversation.user(), None);
}

#[test]
fn a_new_challenge_ends_the_authentication_until_it_is_answered() {
    let mut conversation = authenticated();
    talk(&mut conversation, b"a=ai&user=bob\r\n", decide);
    assert_eq!(talk(&mut conversation, &report(&[PART]), decide), ["err=202\r\n"]);
}

#[test]
fn an_unknown_action_is_an_error_and_the_conversation_goes_on() {
    let replies = talk(&mut conversation(), b"a=xyz\r\na=g&pm=nsl\r\na=q\r\na=g&pm=csl\r\n", decide);
    assert_eq!(replies, ["err=201\r\n", "-nsl=127.0.0.1\r\nnsl=127.0.0.1%3A2703\r\n.\r\n", "close"]);
}

#[test]
fn a_batch_answers_every_line_in_its_place() {
    let e4 = e4(PART);
    let batch = format!("-a=c&e=4&s={e4}\na=c&e=8&s=short\na=g&pm=state\na=c&e=4&s={e4}\na=revoke&e=4&s={e4}\n.\n");
    let replies = talk(&mut authenticated(), batch.as_bytes(), decide);
    assert_eq!(replies, ["-p=0\r\nerr=220\r\nerr=204\r\np=0\r\nerr=204\r\n.\r\n"]);
    assert_eq!(talk(&mut conversation(), b"-a=q\r\na=xyz\r\n.\r\n", decide), ["-err=204\r\nerr=201\r\n.\r\n"]);
    assert_eq!(talk(&mut conversation(), b"-\r\n.\r\n", decide), ["-\r\n.\r\n"]);
}

#[test]
fn templates_are_batches() {
    let template = format!("-a=c&e=?&s=?\n4,{}\n8,A1X0JdhQilUA\n.\n", e4(PART));
    assert_eq!(talk(&mut conversation(), template.as_bytes(), decide), ["-p=0\r\np=0\r\n.\r\n"]);
}

#[test]
fn the_longest_batch_is_answered_within_one_read() {
    let spam = |action: &Action| match action {
        Action::Check(signatures) => vec![Reply::Spam { confidence: 100, contested: true }; signatures.len()],
        other => decide(other),
    };
    let mut checks = Vec::new();
    client::write_checks(&mut checks, &[Signature::E4(e4(PART)); BATCH_LINES_MAX], &Ep4::default());
    let replies = talk(&mut conversation(), &checks, spam);
    assert!(replies[0].len() <= REPLY_BYTES_MAX);
    assert_eq!(client::read_reply(replies[0].as_bytes()).unwrap().unwrap().0.len(), BATCH_LINES_MAX);
    checks.clear();
    client::write_checks(&mut checks, &[Signature::E4(e4(PART)); BATCH_LINES_MAX + 1], &Ep4::default());
    assert_eq!(talk(&mut conversation(), &checks, spam), ["err=200\r\n", "close"]);
}

#[test]
fn a_line_that_does_not_end_ends_the_conversation() {
    let mut line = b"a=".to_vec();
    line.resize(LINE_BYTES_MAX, b'x');
    assert_eq!(talk(&mut conversation(), &line, decide), ["err=200\r\n", "close"]);
    let mut foreign = conversation();
    assert_eq!(talk(&mut foreign, &[b'x'; LINE_BYTES_MAX], decide), ["close"]);
    assert!(foreign.is_foreign());
}

#[test]
fn missing_answers_become_unavailable() {
    let none = |_: &Action| vec![];
    assert_eq!(talk(&mut conversation(), b"a=ai&user=alice\r\n", none), ["err=206\r\n"]);
}

/// Returns the encoded reply to this many checks, given the server's answers in `replies`.
fn answered(checks: usize, replies: &[Reply]) -> Vec<u8> {
    let mut conversation = conversation();
    let mut request = Vec::new();
    client::write_checks(&mut request, &vec![Signature::E4(e4(PART)); checks], &Ep4::default());
    talk(&mut conversation, &request, |_| replies.to_vec()).concat().into_bytes()
}

#[test]
fn replies_are_read_as_they_were_written() {
    let replies = [
        Reply::NotSpam,
        Reply::Spam { confidence: 0, contested: false },
        Reply::Spam { confidence: 100, contested: true },
        Reply::Done,
        Reply::Refused,
        Reply::Registered { user: b"alice@example.org".to_vec(), password: b"a&b=c".to_vec() },
        Reply::Challenge(b"406d".to_vec()),
        Reply::Error(ErrorCode::BODY_WANTED),
    ];
    let singles = replies.iter().map(|reply| vec![reply.clone()]);
    for expected in singles.chain([replies.to_vec()]) {
        let written = answered(expected.len(), &expected);
        assert_eq!(client::read_reply(&[&written[..], b"p=0\r\n"].concat()), Ok(Some((expected, written.len()))));
        (0..written.len()).for_each(|cut| assert_eq!(client::read_reply(&written[..cut]), Ok(None), "{cut}"));
    }
    let empty = talk(&mut conversation(), b"-\r\n.\r\n", |_| vec![]).concat();
    assert_eq!(client::read_reply(empty.as_bytes()), Ok(Some((vec![], empty.len()))));
}

#[test]
fn the_parts_of_a_blob_are_known_by_their_signatures() {
    let mut conversation = asked_for_body();
    conversation.receive(&bodies(&[PART]));
    assert_eq!(conversation.next_action(), Some(Action::Pause));
    assert_eq!(conversation.next_action(), None);
    conversation.resume();
    let Some(Action::ReportBodies(parts)) = conversation.next_action() else { panic!("no bodies") };
    let e8 = sign_part(PART.as_bytes(), &Ep4::default()).unwrap().e8[0];
    assert_eq!(parts.parts[0].signatures, [Signature::E4(e4(PART)), Signature::E8(e8)]);
    conversation.answer([Reply::Done]);
    assert_eq!(conversation.next_action(), Some(Action::Reply(b"res=1\r\n".to_vec())));
}

/// If the mail has CR CR LF in its header, the client ends the blob early and sends the rest of the header as requests.
#[test]
fn requests_after_a_blob_before_its_reply_are_ignored() {
    let revoke = format!("a=revoke&e=4&s={}\r\n", e4(OTHER_PART));
    let smuggled = [&bodies(&[PART])[..], revoke.as_bytes()].concat();
    let ask_nothing = |action: &Action| panic!("{action:?}");
    assert_eq!(talk(&mut asked_for_body(), &smuggled, ask_nothing), ["res=0\r\n", "close"]);

    let mut late = asked_for_body();
    late.receive(&bodies(&[PART]));
    assert_eq!(late.next_action(), Some(Action::Pause));
    late.receive(revoke.as_bytes());
    late.resume();
    assert_eq!(talk(&mut late, b"", ask_nothing), ["res=0\r\n", "close"]);
}

#[test]
fn requests_received_while_a_blob_is_processed_are_ignored() {
    let mut conversation = asked_for_body();
    conversation.receive(&bodies(&[PART]));
    conversation.next_action();
    conversation.resume();
    assert!(matches!(conversation.next_action(), Some(Action::ReportBodies(_))));
    conversation.receive(b"a=g&pm=state\r\n");
    conversation.answer([Reply::Done]);
    assert_eq!(talk(&mut conversation, b"", decide), ["res=1\r\n", "close"]);
}

#[test]
fn after_a_blob_there_are_only_blobs_and_the_end() {
    let mut conversation = asked_for_body();
    assert_eq!(talk(&mut conversation, &bodies(&[PART]), decide), ["res=1\r\n"]);
    assert_eq!(talk(&mut conversation, &bodies(&[PART]), decide), ["res=1\r\n"]);
    assert_eq!(talk(&mut conversation, &report(&[PART]), decide), ["err=204\r\n", "close"]);

    let mut quits = asked_for_body();
    assert_eq!(talk(&mut quits, &bodies(&[PART]), decide), ["res=1\r\n"]);
    assert_eq!(talk(&mut quits, b"a=q\r\n", decide), ["close"]);
}

#[test]
fn a_blob_that_is_not_what_was_announced_is_refused() {
    for parts in [&[][..], &[OTHER_PART]] {
        assert_eq!(talk(&mut asked_for_body(), &bodies(parts), decide), ["res=0\r\n", "close"]);
    }
    let mut two = authenticated();
    talk(&mut two, &report(&[PART, OTHER_PART]), decide);
    assert_eq!(talk(&mut two, &bodies(&[PART]), decide), ["res=0\r\n", "close"]);
}

/// The header of a mail can contain a part of another mail. The client does not announce that part.
#[test]
fn a_part_in_the_header_of_a_mail_is_not_reported() {
    let mut conversation = asked_for_body();
    conversation.receive(&bodies(&[OTHER_PART, PART]));
    conversation.next_action();
    conversation.resume();
    let Some(Action::ReportBodies(parts)) = conversation.next_action() else { panic!("no bodies") };
    assert_eq!(parts.parts.iter().map(|part| part.signatures[0]).collect::<Vec<_>>(), [Signature::E4(e4(PART))]);
}

#[test]
fn announcements_are_bounded() {
    let mut conversation = authenticated();
    let signatures: Vec<_> = (0..=ANNOUNCED_MAX).map(|at| E4Signature([(at % 251) as u8; 20])).collect();
    let mut replies = String::new();
    for batch in signatures.chunks(BATCH_LINES_MAX) {
        let mut request = Vec::new();
        client::write_reports(&mut request, batch, &Ep4::default());
        replies.extend(talk(&mut conversation, &request, decide));
    }
    assert_eq!(replies.matches("err=230").count(), ANNOUNCED_MAX);
    assert!(replies.ends_with("err=205\r\n.\r\n"));
}

#[test]
fn a_connection_announces_under_one_ep4() {
    let mut conversation = authenticated();
    let line = |ep4: &str| format!("a=r&e=4&ep4={ep4}&s={}\r\n", e4(PART));
    assert_eq!(talk(&mut conversation, line("7542-10").as_bytes(), decide), ["err=230\r\n"]);
    assert_eq!(talk(&mut conversation, line("9911-10").as_bytes(), decide), ["err=205\r\n"]);
}

/// Generates valid and invalid client input.
fn request() -> impl Strategy<Value = Vec<u8>> {
    let mut checks = Vec::new();
    client::write_checks(&mut checks, &[Signature::E4(e4(PART)), Signature::E4(e4(OTHER_PART))], &Ep4::default());
    prop_oneof![
        Just(b"cn=razor-agents&cv=2.84\r\n".to_vec()),
        Just(b"a=g&pm=state\r\n".to_vec()),
        Just(b"a=ai&user=alice\r\na=auth&aresp=x\r\n".to_vec()),
        Just(b"a=reg&user=bob\n".to_vec()),
        Just(b"-a=c&e=?&s=?\r\n8,A1X0JdhQilUA\r\n8\r\n.\r\n".to_vec()),
        Just(checks),
        Just(report(&[PART])),
        Just(report(&[PART, OTHER_PART])),
        Just(bodies(&[PART])),
        Just(bodies(&[PART, OTHER_PART])),
        Just(b"\r\n".to_vec()),
        prop::collection::vec(prop::sample::select(&b"a=c&-*?.%\r\nxq\xff"[..]), 0..40),
    ]
}

/// Returns the actions and replies of a conversation whose client never waits. A pause lasts until all input has
/// arrived.
fn actions(mut pieces: std::vec::IntoIter<&[u8]>) -> Vec<Action> {
    let mut conversation = conversation();
    let mut actions = Vec::new();
    loop {
        match conversation.next_action() {
            Some(Action::Pause) => {
                pieces.by_ref().for_each(|piece| conversation.receive(piece));
                conversation.resume();
            }
            Some(action) => {
                conversation.answer(decide(&action));
                actions.push(action);
            }
            None => match pieces.next() {
                Some(piece) => conversation.receive(piece),
                None => return actions,
            },
        }
    }
}

fn cut(mut bytes: &[u8], sizes: impl IntoIterator<Item = usize>) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    for size in sizes {
        let (piece, rest) = bytes.split_at(size.min(bytes.len()));
        pieces.push(piece);
        bytes = rest;
    }
    pieces.extend(bytes.chunks(RECEIVE_BYTES_MAX));
    pieces
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_pieces_bytes_come_in_do_not_matter(
        requests in prop::collection::vec(request(), 0..8),
        sizes in prop::collection::vec(1usize..80, 0..60),
    ) {
        let bytes = requests.concat();
        let whole = actions(cut(&bytes, []).into_iter());
        prop_assert_eq!(&actions(cut(&bytes, sizes).into_iter()), &whole);
        prop_assert_eq!(&actions(cut(&bytes, vec![1; bytes.len()]).into_iter()), &whole);
    }

    #[test]
    fn every_reply_fits_one_read(requests in prop::collection::vec(request(), 0..12)) {
        for action in actions(cut(&requests.concat(), []).into_iter()) {
            if let Action::Reply(bytes) = action {
                prop_assert!(bytes.len() <= REPLY_BYTES_MAX && bytes.ends_with(b"\r\n"));
            }
        }
    }
}

#[test]
fn the_largest_blob_comes_through_in_pieces() {
    let part = format!("{PART}{}", "x".repeat(60_000));
    let filler =
        format!("{OTHER_PART}{}", "y".repeat(BLOB_BYTES_MAX - HEADER.len() - part.len() - OTHER_PART.len() - 4));
    let mut conversation = authenticated();
    talk(&mut conversation, &report(&[&part, &filler]), decide);
    let blob = bodies(&[&part, &filler]);
    for piece in blob.chunks(RECEIVE_BYTES_MAX) {
        assert_eq!(conversation.next_action(), None);
        conversation.receive(piece);
    }
    assert_eq!(talk(&mut conversation, b"", decide), ["res=1\r\n"]);
}
