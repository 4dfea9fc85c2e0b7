//! A decoder of milter commands accepts any bytes, in pieces of any size, in bounded memory. The MTA's side decodes
//! any answer.

use bruit_protocols::milter::{Command, Decoder, FRAME_BYTES_MAX, RECEIVE_BYTES_MAX};
use bruit_testing::milter::Answer;

pub(crate) fn fuzz(input: &[u8]) {
    let _ = Answer::decode(input);
    if let Ok(command) = Command::decode(input) {
        read(&command);
    }
    let [size, bytes @ ..] = input else { return };
    let whole = commands(bytes, RECEIVE_BYTES_MAX);
    let pieces = commands(bytes, usize::from(*size) + 1);
    assert_eq!(whole, pieces, "the size of the pieces does not matter");
}

/// Returns the commands in `bytes` and the error after them.
fn commands(bytes: &[u8], size: usize) -> Vec<String> {
    let mut decoder = Decoder::default();
    let mut found = Vec::new();
    for piece in bytes.chunks(size) {
        decoder.receive(piece);
        assert!(decoder.held_bytes() <= FRAME_BYTES_MAX + 4 + 2 * RECEIVE_BYTES_MAX);
        loop {
            match decoder.next_command() {
                Ok(Some(command)) => {
                    read(&command);
                    found.push(format!("{command:?}"));
                }
                Ok(None) => break,
                Err(error) => {
                    found.push(error.to_string());
                    return found;
                }
            }
        }
    }
    found
}

/// Reads every part of a command.
fn read(command: &Command<'_>) {
    match command {
        Command::Macros { macros, .. } => {
            for (name, _) in macros.iter() {
                // Every name can be looked up, except a name that is not valid UTF-8.
                let _ = std::str::from_utf8(name).map(|name| assert!(macros.get(name).is_some()));
            }
        }
        Command::Mail(strings) | Command::Recipient(strings) => {
            assert_eq!(strings.iter().next(), Some(strings.first()));
        }
        _ => {}
    }
}
