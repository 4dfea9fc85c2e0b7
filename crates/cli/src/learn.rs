//! `bruit learn`: teaches a server the text of good mail.

use std::io::{BufWriter, Write};
use std::process::ExitCode;

use bruit_client::http::LearnAnswer;
use bruit_client::{ClientError, Purpose, Schemes, Signer};

use crate::claim::CLAIM_TIMEOUT;
use crate::failure::Failure;
use crate::quantity::counted;
use crate::remote::{Input, Place, Server, for_each_answer, json_line};
use crate::terminal::{complain, printable};

const AFTER_HELP: &str = "\
Use it for mail that is certainly good: mail sent by authenticated users, or an archive of newsletters and order
confirmations. Text that two different messages have in common no longer makes a message spam. To correct a single
message that was reported by mistake, use 'bruit revoke'. The server accepts this only from its own users.

Exit codes: 0 if everything was learnt and is on the server's disk, 2 if a message was refused or failed.

What leaves this machine: features of the text, from which the text cannot be read, and signatures of files. Messages
larger than 64 MiB are not read.

Examples:
  bruit learn newsletter.eml              one message
  bruit learn Maildir/.Sent archive.mbox  all messages of a folder and an mbox
  bruit learn --json < message            print one JSON object";

/// Arguments of `bruit learn`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    input: Input,

    /// Print one JSON object a line for each message
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: Server,
}

type Answer = Result<LearnAnswer, ClientError>;

pub(crate) fn run(arguments: &Arguments, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let client = arguments.server.client(CLAIM_TIMEOUT)?;
    let named = ["bruit", "attachment"].into_iter().filter_map(Schemes::named);
    let schemes = named.fold(Schemes::default(), Schemes::and);
    let signer = Signer { schemes, outlines: false, ..Signer::new(Purpose::Claim) };
    let ask = |message: &[u8]| client.learn(&signer.subject(message));
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
    if let Ok(learnt) = answer {
        writeln!(output, "{}{}", printable(&place.prefix()), printable(&line(learnt)))?;
    }
    Ok(())
}

/// Formats the answer as a line of text.
fn line(learnt: &LearnAnswer) -> String {
    match &learnt.reason {
        Some(reason) if learnt.learnt == 0 => format!("nothing learnt: {reason}"),
        _ => format!("learnt: {}", counted(learnt.learnt.into(), "feature")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_much_was_learnt_or_why_nothing_was() {
        let line = |learnt, reason: Option<&str>| line(&LearnAnswer { learnt, reason: reason.map(str::to_owned) });
        assert_eq!(line(1, None), "learnt: 1 feature");
        assert_eq!(line(40, Some("much")), "learnt: 40 features");
        assert_eq!(line(0, Some("the message has no text")), "nothing learnt: the message has no text");
    }
}
