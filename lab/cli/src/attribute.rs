//! `bruit-lab attribute`: finds out who sent an excerpt to whom, and when.
//!
//! Recording and searching are in [`bruit_forensics::attribution`]; this module reads captures and mailboxes, lists the
//! page files, and prints.

mod build;
mod info;
mod print;
mod query;

use std::io::Write;
use std::process::ExitCode;

use bruit_forensics::attribution::{KIND, PAGE_BYTES_MAX, Page};
use bruit_forensics::pages::{Pages, Span};
use indicatif::ProgressBar;

use crate::pages::{self, Outcome, Read};
use bruit_console::Failure;

const AFTER_HELP: &str = "\
Payloads are cut into blocks, and two digests of each block are recorded: one of the block and its offset, and \
one that also includes the pair (source, destination) that carried it. Anyone who has an excerpt of at least 95 \
bytes can then find out which pairs carried it and when, and how likely a match is to be due to chance. Content is \
not recorded. Keep the pages private: anyone who has a page can test guesses, because the page contains its key, and \
can see who communicated with whom.

Packets are recorded one by one; streams are not reassembled. If an excerpt was sent in several packets, the \
parts that lie within one packet are found. Payloads shorter than a block are not recorded.

A search needs two whole blocks of the excerpt. An excerpt of three blocks less one byte (95 bytes by default, see \
--block-bytes) always contains two whole blocks, at any position. A shorter excerpt may contain fewer: a match is \
still valid, but without a match the answer is 'too short to tell'. A pair is named if it carried every whole block \
of the excerpt, each at the right position. At least one named pair carried all blocks in one payload; others may \
have carried them in several payloads.

With --mail, every MIME part is decoded and recorded, with LF as the line ending of text. A pair is the address of \
the sender and of one recipient.

Exit codes:
  0  done; the excerpt was carried (query)
  1  not found, or no more matches than expected by chance
  2  error; unreadable pages are skipped and the others searched
  3  not found, but the excerpt is too short to tell

Examples:
  bruit-lab attribute build monday.pcap -o pages
  tcpdump -i eth0 -w - | bruit-lab attribute build - -o pages
  bruit-lab attribute build --follow /var/captures -o pages --disk 20GiB
  bruit-lab attribute query pages --excerpt worm-part.bin
  bruit-lab attribute query monday tuesday --excerpt worm-part.bin
  bruit-lab attribute query pages --hex '4d5a 9000 …' --from 2023-11-14 --to '2023-11-14 12:00'
  bruit-lab attribute build --mail Maildir -o mail-pages --page 1d
  bruit-lab attribute query mail-pages --text 'please confirm the password of your mailbox within 24 hours'";

/// Arguments of `bruit-lab attribute`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct AttributeArgs {
    #[command(subcommand)]
    verb: AttributeVerb,
}

#[derive(Debug, clap::Subcommand)]
enum AttributeVerb {
    /// Record the payloads of captures or mailboxes
    #[command(after_help = "Example:\n  bruit-lab attribute build monday.pcap -o pages")]
    Build(build::AttributeBuildArgs),
    /// Find the senders and receivers of an excerpt
    #[command(after_help = "Example:\n  bruit-lab attribute query pages --excerpt worm-part.bin")]
    Query(query::AttributeQueryArgs),
    /// Show the contents of a directory of pages
    #[command(after_help = "Example:\n  bruit-lab attribute info pages")]
    Info(info::AttributeInfoArgs),
}

pub(crate) fn run(arguments: &AttributeArgs, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let outcome = match &arguments.verb {
        AttributeVerb::Build(arguments) => build::run(arguments, output),
        AttributeVerb::Query(arguments) => query::run(arguments, output),
        AttributeVerb::Info(arguments) => info::run(arguments, output),
    };
    let flushed = output.flush().map_err(Failure::from);
    outcome.and_then(|code| flushed.map(|()| code)).map_err(Failure::as_usage_error)
}

/// Calls `work` with every page of a directory that overlaps `window`.
fn for_each_page(
    pages: &Pages,
    window: Span,
    mut work: impl FnMut(&Page, &ProgressBar) -> Result<Outcome, Failure>,
) -> Result<Read, Failure> {
    pages::for_each(pages, window, PAGE_BYTES_MAX, |name, content, bar| match Page::from_bytes(name.span, content) {
        Ok(page) => work(&page, bar),
        Err(error) => Ok(Outcome::Fault(format!("{name}: {error}"))),
    })
}
