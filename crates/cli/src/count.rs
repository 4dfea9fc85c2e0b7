//! `bruit count`: counts the recipients of messages on a server.

use std::io::{BufWriter, Write};
use std::process::ExitCode;

use bruit_client::http::{Counted, Subject};
use bruit_client::{ClientError, Purpose, Schemes, Signer};

use crate::claim::CLAIM_TIMEOUT;
use crate::remote::{Input, Place, Server, for_each_answer, json_line, print_summary};
use bruit_console::Failure;
use bruit_console::failure::bad_input;
use bruit_console::quantity::{counted, parse_count};
use bruit_console::terminal::{complain, printable};

const AFTER_HELP: &str = "\
A message is counted by the text checksums that DCC clients also send, so all clients share one total. The \
server counts only for callers that are allowed to report. Mail from whitelisted senders and lists is not \
counted. To count a message and get the verdict, use 'bruit check --count N'.

Exit codes:
  0  every message was counted or is whitelisted, and the counts are on the server's disk
  2  error: a message was refused or failed

Data sent to the server: two checksums of the text and, unless --no-sender is given, the sender's address and \
the mailing list's name. Messages larger than 64 MiB are skipped.

Examples:
  bruit count message.eml                     count one recipient
  bruit count --recipients 25 < message       count 25 recipients
  bruit count --json Maildir/new              count one recipient of each message in a folder
  bruit count --recipients 3 --idempotency-key 4Zk1x2 < message    count only once if repeated";

/// Arguments of `bruit count`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CountArgs {
    #[command(flatten)]
    input: Input,

    /// Number of recipients of each message
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_recipients)]
    recipients: u32,

    /// Name that identifies this count; a retry with the same name within a day is not counted again
    #[arg(long, value_name = "NAME")]
    idempotency_key: Option<String>,

    /// Sender to look up in the sender whitelist, instead of the address in the From field
    #[arg(long, value_name = "ADDRESS")]
    sender: Option<String>,

    /// Do not send the sender's address or the mailing list's name
    #[arg(long, conflicts_with = "sender")]
    no_sender: bool,

    /// Print one JSON object per message, one per line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: Server,
}

type CountResult = Result<Counted, ClientError>;

pub(crate) fn run(arguments: &CountArgs, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let mut client = arguments.server.client(CLAIM_TIMEOUT)?;
    if let Some(name) = &arguments.idempotency_key {
        arguments.input.ensure_one_message()?;
        client = client.with_idempotency_key(name).map_err(bad_input)?;
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
    let (mut messages, mut failed) = (0, 0);
    let was_all_read = for_each_answer(&arguments.input, ask, |place, answer, bar| {
        messages += 1;
        if let Err(error) = &answer {
            failed += 1;
            bar.suspend(|| complain(&format!("{}{error}", place.prefix())));
        }
        print(arguments, place, &answer, &mut output)
    })?;
    output.flush()?;
    if !arguments.json {
        print_summary("counted", messages - failed, failed);
    }
    Ok(if failed == 0 && was_all_read { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

fn print(arguments: &CountArgs, place: &Place, answer: &CountResult, output: &mut impl Write) -> Result<(), Failure> {
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
        Some(reason) => format!("counted {}, now {total} in all; {reason}", answer.counted),
        None => format!("counted {}, now {total} in all", answer.counted),
    }
}

/// Parses a recipient count or a recipient threshold: a number from 1 up to DCC's "many".
pub(crate) fn parse_recipients(text: &str) -> Result<u32, String> {
    let most = bruit_client::http::RECIPIENTS_MAX;
    let number = u32::try_from(parse_count(text)?).ok().filter(|number| *number <= most);
    number.ok_or_else(|| format!("it must be at most {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_total_or_why_nothing_was_counted() {
        let line = |number, bulk_count, reason: Option<&str>| {
            line(&Counted { counted: number, bulk_count, count_reason: reason.map(str::to_owned) })
        };
        assert_eq!(line(5, 25, None), "counted 5, now 25 recipients in all");
        assert_eq!(line(1, 1, None), "counted 1, now 1 recipient in all");
        assert_eq!(line(15, 40, Some("no more")), "counted 15, now 40 recipients in all; no more");
        assert_eq!(line(0, 40, Some("the sender is whitelisted")), "not counted: the sender is whitelisted");
    }
}
