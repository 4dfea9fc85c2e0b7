//! `bruit count`: tells a server how many recipients messages have.

use std::io::{BufWriter, Write};
use std::process::ExitCode;

use bruit_client::http::{Counted, Subject};
use bruit_client::{ClientError, Purpose, Schemes, Signer};

use crate::claim::CLAIM_TIMEOUT;
use crate::failure::Failure;
use crate::quantity::{counted, parse_recipients};
use crate::remote::{Input, Place, Server, for_each_answer, json_line};
use crate::terminal::{complain, printable};

const AFTER_HELP: &str = "\
A message is counted by the checksums of its text that DCC clients send as well, so that it has one total, whichever
way it is counted. The server counts only for those who may report to it. Mail of whitelisted senders and lists is not
counted. To count a message and get the verdict, use 'bruit check --count N'.

Exit codes: 0 if every message was counted, or is whitelisted, and that is on the server's disk; 2 if one was refused or
failed.

What leaves this machine: two checksums of the text, and the sender's address and the mailing list's name unless
--no-sender is given. Messages larger than 64 MiB are not read.

Examples:
  bruit count message.eml                     one more recipient
  bruit count --recipients 25 < message       25 more
  bruit count --json Maildir/new              each message of a folder, one recipient each
  bruit count --recipients 3 --idempotency-key 4Zk1x2 < message    not again if it is repeated";

/// Arguments of `bruit count`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    input: Input,

    /// Number of recipients of each message
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_recipients)]
    recipients: u32,

    /// Name of this count of one message: if it is repeated under the same name within a day, it is not counted again
    #[arg(long, value_name = "NAME")]
    idempotency_key: Option<String>,

    /// Sender to look up in the whitelist of senders, instead of the address in the field From
    #[arg(long, value_name = "ADDRESS")]
    sender: Option<String>,

    /// Send neither the sender's address nor the mailing list's name
    #[arg(long, conflicts_with = "sender")]
    no_sender: bool,

    /// Print one JSON object a line for each message
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: Server,
}

type Answer = Result<Counted, ClientError>;

pub(crate) fn run(arguments: &Arguments, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let mut client = arguments.server.client(CLAIM_TIMEOUT)?;
    if let Some(name) = &arguments.idempotency_key {
        arguments.input.ensure_one_message()?;
        client = client.with_idempotency_key(name)?;
    }
    let signer = Signer {
        schemes: Schemes::named("dcc").unwrap_or_default(),
        names_sender: !arguments.no_sender,
        outlines: false,
        ..Signer::new(Purpose::Check)
    };
    let ask = |message: &[u8]| {
        let subject = signer.subject(message);
        let sender = arguments.sender.clone().or(subject.sender);
        client.count(&Subject { sender, ..subject }, arguments.recipients)
    };
    let mut output = BufWriter::new(output);
    let mut is_done = true;
    let was_all_read = for_each_answer(&arguments.input, ask, |place, answer, bar| {
        if let Err(error) = &answer {
            is_done = false;
            bar.suspend(|| complain(&format!("{}{error}", place.prefix())));
        }
        print(arguments, place, &answer, &mut output)
    })?;
    output.flush()?;
    Ok(if is_done && was_all_read { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

fn print(arguments: &Arguments, place: &Place, answer: &Answer, output: &mut impl Write) -> Result<(), Failure> {
    if arguments.json {
        return Ok(writeln!(output, "{}", json_line(place, answer))?);
    }
    if let Ok(counted) = answer {
        writeln!(output, "{}{}", printable(&place.prefix()), printable(&line(counted)))?;
    }
    Ok(())
}

/// Formats the answer as a line of text.
fn line(answer: &Counted) -> String {
    let total = counted(answer.bulk_count.into(), "recipient");
    match &answer.count_reason {
        Some(reason) if answer.counted == 0 => format!("not counted: {reason}"),
        Some(reason) => format!("counted {}, {total} in all; {reason}", answer.counted),
        None => format!("counted {}, {total} in all", answer.counted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_total_or_why_nothing_was_counted() {
        let line = |number, bulk_count, reason: Option<&str>| {
            line(&Counted { counted: number, bulk_count, count_reason: reason.map(str::to_owned) })
        };
        assert_eq!(line(5, 25, None), "counted 5, 25 recipients in all");
        assert_eq!(line(1, 1, None), "counted 1, 1 recipient in all");
        assert_eq!(line(15, 40, Some("no more")), "counted 15, 40 recipients in all; no more");
        assert_eq!(line(0, 40, Some("the sender is whitelisted")), "not counted: the sender is whitelisted");
    }
}
