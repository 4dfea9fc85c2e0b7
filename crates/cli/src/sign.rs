//! `bruit sign`: prints the signatures of messages.
//!
//! [`bruit_signatures`] computes them. This module reads the messages ([`mailbox`]) and prints the signatures.

mod explain;
mod json;
mod text;

use std::io::{BufWriter, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use bruit_signatures::razor::Ep4;
use bruit_signatures::{Context, Wanted, dcc, sign};
use clap::ValueEnum;

use bruit_console::Failure;
use bruit_console::mailbox::{self, Item, Message, StandardInput};
use bruit_console::terminal::complain;
use explain::Explained;

const AFTER_HELP: &str = "\
A FILE is a message, an mbox, a Maildir or any other folder. Messages larger than 64 MiB and files that cannot \
be read are reported on standard error and skipped.

Exit codes:
  0  done
  2  error: an input could not be read, or an argument is invalid

Examples:
  bruit sign message.eml                       print all signatures, one per line
  bruit sign --scheme pyzor,razor < message    print only these schemes
  bruit sign --explain message.eml             also print the content that was used
  bruit sign --json Maildir mbox | jq -r '.signatures[] | select(.scheme == \"url\") | .link'
                                               print every link in two mailboxes";

/// Arguments of `bruit sign`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct SignArgs {
    /// Messages, mboxes, Maildirs or folders; files may be compressed with gzip. Without FILE, or with -,
    /// standard input is read
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Schemes to compute, separated by commas
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',', default_value = "all")]
    scheme: Vec<Choice>,

    /// Seed and separator of razor_e4, as announced by a server
    #[arg(long, value_name = "SEED-BYTE", default_value_t)]
    ep4: Ep4,

    /// For dcc: IP address of the client that sent the message
    #[arg(long, value_name = "IP")]
    client_ip: Option<IpAddr>,

    /// For dcc: envelope sender
    #[arg(long, value_name = "ADDRESS")]
    sender: Option<String>,

    /// Also print the content that the schemes used: parts, lines, words, hidden text
    #[arg(long)]
    explain: bool,

    /// Print one JSON object per message, one per line
    #[arg(long)]
    json: bool,
}

/// Scheme to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Choice {
    All,
    Exact,
    Attachment,
    Url,
    Pyzor,
    Razor,
    Dcc,
    Bruit,
}

pub(crate) fn run(arguments: &SignArgs, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let wanted = wanted(&arguments.scheme);
    let sender = arguments.sender.as_deref().map(str::as_bytes);
    let envelope = dcc::Envelope { client: arguments.client_ip, sender };
    let context = Context { ep4: arguments.ep4.clone(), envelope };
    let mut output = BufWriter::new(output);
    let mut code = ExitCode::SUCCESS;
    mailbox::for_each(&arguments.files, StandardInput::Mailbox, |item, bar| match item {
        Item::Message(message) => print(arguments, &message, &wanted, &context, &mut output),
        Item::Fault(line) => {
            code = ExitCode::from(2);
            bar.suspend(|| complain(&line));
            Ok(())
        }
    })?;
    output.flush()?;
    Ok(code)
}

fn print(
    arguments: &SignArgs,
    message: &Message<'_>,
    wanted: &Wanted,
    context: &Context<'_>,
    output: &mut impl Write,
) -> Result<(), Failure> {
    let signed = sign(message.bytes, wanted, context);
    let explained = arguments.explain.then(|| Explained::of(message.bytes, wanted));
    if arguments.json {
        return Ok(writeln!(output, "{}", json::of(message, &signed, explained.as_ref()))?);
    }
    if message.is_one_of_many {
        text::print_heading(message, output)?;
    }
    text::print_signatures(&signed, output)?;
    if let Some(explained) = explained {
        explained.print(output)?;
    }
    Ok(())
}

fn wanted(choices: &[Choice]) -> Wanted {
    let has = |choice: Choice| choices.contains(&Choice::All) || choices.contains(&choice);
    Wanted {
        exact: has(Choice::Exact),
        attachment: has(Choice::Attachment),
        url: has(Choice::Url),
        pyzor: has(Choice::Pyzor),
        razor: has(Choice::Razor),
        dcc: has(Choice::Dcc),
        bruit: has(Choice::Bruit),
        razor_pieces: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_add_up() {
        assert_eq!(wanted(&[Choice::Dcc, Choice::Url]), Wanted { dcc: true, url: true, ..Wanted::NONE });
        assert_eq!(wanted(&[Choice::Dcc, Choice::All]), Wanted { razor_pieces: false, ..Wanted::ALL });
    }
}
