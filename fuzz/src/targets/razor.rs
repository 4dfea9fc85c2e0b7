//! A conversation accepts any bytes, in pieces of any size. Its replies are bounded, and it comes to an end.

use std::sync::Arc;

use bruit_protocols::razor::{
    Action, Conversation, ErrorCode, RECEIVE_BYTES_MAX, REPLY_BYTES_MAX, Reply, ServerList, Terms,
};
use bruit_testing::razor as client;

pub(crate) fn fuzz(input: &[u8]) {
    let _ = client::read_reply(input);
    let [choices, size, bytes @ ..] = input else { return };
    let mut conversation = conversation();
    if choices & 1 == 1 {
        conversation.receive(b"a=ai&user=alice\r\na=auth&aresp=x\r\n");
        act(&mut conversation, *choices);
    }
    // Use small pieces, or pieces of the maximum size.
    for piece in bytes.chunks(if *size == 255 { RECEIVE_BYTES_MAX } else { usize::from(*size) + 1 }) {
        conversation.receive(piece);
        act(&mut conversation, *choices);
    }
}

fn conversation() -> Conversation {
    let epochs = vec!["7542-10".parse().expect("a valid epoch"), "9911-10".parse().expect("a valid epoch")];
    let terms = Terms::new(50, epochs, 2).expect("valid terms");
    Conversation::new(Arc::new(terms), ServerList::new(vec!["127.0.0.1".to_owned()]).expect("a valid list"))
}

/// Performs the requested actions until none are left.
fn act(conversation: &mut Conversation, choices: u8) {
    while let Some(action) = conversation.next_action() {
        match &action {
            Action::Reply(bytes) => assert!(bytes.len() <= REPLY_BYTES_MAX && bytes.ends_with(b"\r\n")),
            Action::Pause => conversation.resume(),
            Action::Close => assert_eq!(conversation.next_action(), None, "no action is requested after the end"),
            _ => conversation.answer(decide(&action, choices)),
        }
    }
}

fn decide(action: &Action, choices: u8) -> Vec<Reply> {
    let reported = if choices & 2 == 2 { Reply::Done } else { Reply::Error(ErrorCode::BODY_WANTED) };
    match action {
        Action::Check(signatures) => vec![Reply::Spam { confidence: choices, contested: true }; signatures.len()],
        Action::Report(signatures) => vec![reported; signatures.len()],
        Action::Revoke(signatures) => vec![Reply::Done; signatures.len()],
        Action::Challenge { user } => vec![Reply::Challenge(user.clone())],
        Action::Register { user: Some(user), password: Some(password) } => {
            vec![Reply::Registered { user: user.clone(), password: password.clone() }]
        }
        _ => vec![Reply::Done],
    }
}
