//! `bruit learn`: teaches a server text that occurs in good mail.

use std::io::{BufWriter, Write};
use std::process::ExitCode;

use bruit_client::http::LearnAnswer;
use bruit_client::{ClientError, Purpose, Schemes, Signer};

use crate::claim::CLAIM_TIMEOUT;
use crate::remote::{Input, Place, Server, for_each_answer, json_line, print_summary};
use bruit_console::Failure;
use bruit_console::quantity::counted;
use bruit_console::terminal::{complain, printable};

const AFTER_HELP: &str = "\
Use this command for mail that is certainly good: mail sent by authenticated users, or an archive of newsletters and \
order confirmations. Text that occurs in two different good messages no longer makes a message spam. To \
correct a single message that was reported by mistake, use 'bruit revoke'. The server learns only from the site's \
own users.

Exit codes:
  0  every message was learned and is on the server's disk
  2  error: a message was refused or failed

Data sent to the server: features of the text, from which the text cannot be reconstructed, and signatures of \
files. Messages larger than 64 MiB are skipped.

Examples:
  bruit learn newsletter.eml              learn one message
  bruit learn Maildir/.Sent archive.mbox  learn all messages of a folder and an mbox
  bruit learn --json < message            print one JSON object";

/// Arguments of `bruit learn`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct LearnArgs {
    #[command(flatten)]
    input: Input,

    /// Print one JSON object per message, one per line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: Server,
}

type LearnResult = Result<LearnAnswer, ClientError>;

pub(crate) fn run(arguments: &LearnArgs, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let client = arguments.server.client(CLAIM_TIMEOUT)?;
    let named = ["bruit", "attachment"].into_iter().filter_map(Schemes::named);
    let schemes = named.fold(Schemes::default(), Schemes::and);
    let signer = Signer { schemes, outlines: false, ..Signer::new(Purpose::Claim) };
    let ask = |message: &[u8]| client.learn(&signer.subject(message));
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
        print_summary("learned the text of", messages - failed, failed);
    }
    Ok(if failed == 0 && was_all_read { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

fn print(arguments: &LearnArgs, place: &Place, answer: &LearnResult, output: &mut impl Write) -> Result<(), Failure> {
    if arguments.json {
        return Ok(writeln!(output, "{}", json_line(place, answer))?);
    }
    if let Ok(learnt) = answer {
        writeln!(output, "{}{}", printable(&place.prefix()), printable(&line(learnt)))?;
    }
    Ok(())
}

/// Formats the answer as a line of text.
fn line(learnt: &LearnAnswer) -> String {
    match &learnt.reason {
        Some(reason) if learnt.learnt == 0 => format!("no text learned: {reason}"),
        _ => format!("learned: {}", counted(learnt.learnt.into(), "feature")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_much_was_learnt_or_why_nothing_was() {
        let line = |learnt, reason: Option<&str>| line(&LearnAnswer { learnt, reason: reason.map(str::to_owned) });
        assert_eq!(line(1, None), "learned: 1 feature");
        assert_eq!(line(40, Some("much")), "learned: 40 features");
        assert_eq!(line(0, Some("the message has no text")), "no text learned: the message has no text");
    }
}
