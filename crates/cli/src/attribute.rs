//! `bruit attribute`: who carried this excerpt, and when?
//!
//! What is recorded and how it is asked is in [`bruit_forensics::attribution`]; here are captures, mailboxes, files and
//! what is printed.

mod build;
mod info;
mod print;
mod query;

use std::io::Write;
use std::process::ExitCode;

use bruit_forensics::attribution::{KIND, PAGE_BYTES_MAX, Page};
use bruit_forensics::pages::{Pages, Span};
use indicatif::ProgressBar;

use crate::failure::Failure;
use crate::pages::{self, Outcome, Read};

const AFTER_HELP: &str = "\
Payloads are cut into blocks, and of each block digests are kept: with its offset, and with its offset and
the pair (source, destination) that carried it. Anyone who has an excerpt of 95 bytes or more can then ask which pairs carried
it, in which page of time, and how likely chance alone is to say so. Content is not kept; but each page has its key inside, and
whoever has the pages can test guesses. Keep them as you would keep the list of who talks to whom, which they have too.

Packets are taken one by one, streams are not reassembled: of an excerpt that went in several packets those parts are
found that lie within one. Payloads shorter than a block leave nothing, and excerpts need two whole blocks.
A shorter excerpt than three blocks less one byte (95 bytes, unless --block-bytes says otherwise) may lie so that it has
fewer: if it is found, it was carried; if not, the answer is 'too short to tell'.
A pair is named if it carried each of these blocks at its place; some pair did so in one payload, but not each
that is named must have.
Of mail, every part is taken with its encoding undone, and line ends of text as LF; it is from the sender's address to each
recipient's.

Exit codes: 0: done, or carried by somebody; 1: not found, or no more than chance shows; 2: error (pages that cannot be read
are passed over, and the others asked); 3: not found, but the excerpt is too short to tell.

Examples:
  bruit attribute build monday.pcap -o pages
  tcpdump -i eth0 -w - | bruit attribute build - -o pages
  bruit attribute build --follow /var/captures -o pages --disk 20GiB
  bruit attribute query pages --excerpt worm-part.bin
  bruit attribute query monday tuesday --excerpt worm-part.bin
  bruit attribute query pages --hex '4d5a 9000 …' --from 2023-11-14 --to '2023-11-14 12:00'
  bruit attribute build --mail Maildir -o mail-pages --page-minutes 1440
  bruit attribute query mail-pages --text 'please confirm the password of your mailbox within 24 hours, or else'";

/// What `bruit attribute` is asked.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Record what captures or mailboxes carried
    Build(build::Arguments),
    /// Which pairs carried this excerpt?
    Query(query::Arguments),
    /// Tell what was recorded in a directory
    Info(info::Arguments),
}

pub(crate) fn run(arguments: &Arguments, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let outcome = match &arguments.verb {
        Verb::Build(arguments) => build::run(arguments, output),
        Verb::Query(arguments) => query::run(arguments, output),
        Verb::Info(arguments) => info::run(arguments, output),
    };
    let flushed = output.flush().map_err(Failure::from);
    outcome.and_then(|code| flushed.map(|()| code)).map_err(Failure::with_code_2)
}

/// Calls `work` with every page of a directory that is about `window`, one after the other.
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
