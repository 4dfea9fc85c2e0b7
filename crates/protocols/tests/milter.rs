//! Tests of the milter protocol: recorded sessions of the real programs, and properties of arbitrary input.

mod transcript;

use bruit_protocols::milter::{
    Actions, Command, Decoder, FRAME_BYTES_MAX, Options, RECEIVE_BYTES_MAX, Reply, Stage, Steps, write,
};
use bruit_testing::milter::{self as mta, Answer};
use proptest::collection::vec;
use proptest::prelude::*;
use transcript::{Sender, sender, transcripts};

/// Returns the frames of a transcript: a command byte, a blank, and the data with escapes.
fn frames(text: &str) -> Vec<(Sender, Vec<u8>)> {
    let lines = text.lines().filter_map(sender);
    lines.map(|(sender, line)| (sender, unescape(line))).collect()
}

fn unescape(line: &str) -> Vec<u8> {
    let (code, data) = line.split_at(1);
    let mut rest = data.strip_prefix(' ').unwrap_or(data).bytes();
    let mut bytes = code.as_bytes().to_vec();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next().unwrap() {
            b'x' => {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                bytes.push(u8::from_str_radix(str::from_utf8(&digits).unwrap(), 16).unwrap());
            }
            b'n' => bytes.push(b'\n'),
            b'r' => bytes.push(b'\r'),
            b't' => bytes.push(b'\t'),
            other => bytes.push(other),
        }
    }
    bytes
}

/// Encodes a command as an MTA does.
fn reencode(command: &Command<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let nul = |parts: Vec<&[u8]>, out: &mut Vec<u8>, code| mta::write_strings(out, code, &parts);
    match *command {
        Command::Negotiate(offer) => mta::write_offer(&mut out, offer.version, offer.actions.0, offer.steps.0),
        Command::Macros { command, macros } => {
            let text = |bytes| str::from_utf8(bytes).unwrap();
            let pairs: Vec<(&str, &str)> = macros.iter().map(|(name, value)| (text(name), text(value))).collect();
            mta::write_macros(&mut out, command, &pairs);
        }
        Command::Mail(strings) => nul(strings.iter().collect(), &mut out, b'M'),
        Command::Recipient(strings) => nul(strings.iter().collect(), &mut out, b'R'),
        Command::Helo(name) => nul(vec![name], &mut out, b'H'),
        Command::Header { name, value } => nul(vec![name, value], &mut out, b'L'),
        Command::Body(piece) => mta::write_command(&mut out, b'B', &[piece]),
        Command::EndOfMessage(piece) => mta::write_command(&mut out, b'E', &[piece]),
        Command::Data => mta::write_command(&mut out, b'T', &[]),
        Command::EndOfHeader => mta::write_command(&mut out, b'N', &[]),
        Command::Abort => mta::write_command(&mut out, b'A', &[]),
        Command::Quit => mta::write_command(&mut out, b'Q', &[]),
        Command::QuitNew => mta::write_command(&mut out, b'K', &[]),
        Command::Connect { .. } | Command::Unknown(_) => {}
    }
    out.get(4..).unwrap_or_default().to_vec()
}

#[test]
fn recorded_sessions_are_understood_and_written_as_they_were_read() {
    let mut count = 0;
    for (name, text) in transcripts("milter") {
        for (sender, frame) in frames(&text) {
            count += 1;
            if sender == Sender::Server {
                assert!(Answer::decode(&frame).is_some(), "{name}: {}", frame.escape_ascii());
                continue;
            }
            let command = Command::decode(&frame).unwrap_or_else(|error| panic!("{name}: {error}"));
            if matches!(command, Command::Connect { .. }) {
                continue;
            }
            assert_eq!(reencode(&command), frame, "{name}: {command:?}");
        }
    }
    assert!(count > 40, "{count}");
}

/// Returns what the decoder finds in pieces of `size` bytes.
fn decoded(bytes: &[u8], size: usize) -> Vec<String> {
    let mut decoder = Decoder::default();
    let mut found = Vec::new();
    for piece in bytes.chunks(size) {
        decoder.receive(piece);
        loop {
            match decoder.next_command() {
                Ok(Some(command)) => found.push(format!("{command:?}")),
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

proptest! {
    #[test]
    fn any_bytes_are_decoded_alike_in_pieces_of_any_size(bytes in vec(any::<u8>(), 0..200), size in 1..50_usize) {
        // Use short lengths, so that frames are complete.
        let framed: Vec<u8> = bytes.chunks(9).flat_map(|part| {
            let mut out = Vec::new();
            mta::write_command(&mut out, part[0], &[&part[1..]]);
            out
        }).collect();
        prop_assert_eq!(decoded(&framed, size), decoded(&framed, RECEIVE_BYTES_MAX));
        decoded(&bytes, size);
    }

    #[test]
    fn what_an_mta_writes_is_read_back(strings in vec("[ -~]{0,30}", 1..6), piece in vec(any::<u8>(), 0..300)) {
        let parts: Vec<&[u8]> = strings.iter().map(String::as_bytes).collect();
        let mut out = Vec::new();
        mta::write_strings(&mut out, b'R', &parts);
        let Ok(Command::Recipient(read)) = Command::decode(&out[4..]) else { panic!() };
        prop_assert_eq!(read.iter().collect::<Vec<_>>(), parts);
        let mut out = Vec::new();
        mta::write_command(&mut out, b'B', &[&piece]);
        prop_assert_eq!(Command::decode(&out[4..]), Ok(Command::Body(&piece)));
        prop_assert!(out.len() <= FRAME_BYTES_MAX);
    }

    #[test]
    fn what_a_milter_writes_is_read_back(
        number: u32, name in "[!-9;-~]{1,20}", text in "[ -~]{0,60}", options in any::<[u32; 3]>(),
    ) {
        let [version, actions, steps] = options;
        let macros = [(Stage::EndOfMessage, name.as_str())];
        let negotiated = Options { version, actions: Actions(actions), steps: Steps(steps) };
        let expected = [
            (Reply::Continue, Answer::Continue),
            (Reply::Refuse(&text), Answer::Refuse(text.clone())),
            (Reply::Quarantine(&text), Answer::Quarantine(text.clone())),
            (Reply::AddRecipient(text.as_bytes()), Answer::AddRecipient(text.clone())),
            (Reply::DeleteRecipient(text.as_bytes()), Answer::DeleteRecipient(text.clone())),
            (Reply::InsertHeader { index: number, name: &name, value: &text },
                Answer::InsertHeader(number, name.clone(), text.clone())),
            (Reply::RemoveHeader { number, name: &name }, Answer::ChangeHeader(number, name.clone(), String::new())),
            (Reply::Negotiated { options: negotiated, macros: &macros },
                Answer::Negotiated { version, actions, steps, macros: vec![(5, name.clone())] }),
        ];
        for (reply, answer) in expected {
            let mut out = Vec::new();
            write(&mut out, &reply);
            prop_assert_eq!(Answer::decode(&out[4..]), Some(answer));
        }
    }
}
