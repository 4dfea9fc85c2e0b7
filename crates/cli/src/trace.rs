//! `bruit trace`: where did this packet come from, and where was this message seen?
//!
//! What is recorded and how it is asked is in [`bruit_forensics::traceback`]; here are captures, mailboxes, files and what
//! is printed.

mod info;
mod print;
mod query;
mod record;

use std::io::Write;
use std::process::ExitCode;

use crate::failure::Failure;

const AFTER_HELP: &str = "\
Each router (or mail server) records a digest of every packet (or message) into pages, Bloom filters of a minute each. Whoever has
one packet can then ask which routers saw it, from the victim's outwards. Content is not kept: pages can be asked about what
one has already, and tell nothing else. They have their keys inside.

A topology file says who is linked with whom, and where their pages are:
  [[router]]                      or [[server]], for mail
  name = \"edge-1\"
  pages = \"edge-1\"                from the place of the file; left out if it records nothing
  links = [\"core-1\", \"core-2\"]    to name a link at one end is enough
  rewrites = true                 if it makes other packets of some: address translation, IPsec, ends of tunnels

A fragment, an ICMP error or a packet in a tunnel that cannot be read has a digest that does not reach back to its origin: it is
reported as such, and its path as open. So is a path that ends at or beside a router that rewrites packets.

Exit codes: 0: done, or seen; 1: not seen; 2: error; 3: not seen, but the packet is one whose digest cannot be trusted.

Examples:
  bruit trace record monday.pcap --as edge-1 -o edge-1
  tcpdump -i eth0 -w - | bruit trace record - --as edge-2 -o edge-2
  bruit trace record --follow /var/captures --as core-1 -o core-1
  bruit trace query --topology net.toml --packet attack.pcap --frame 17 --at edge-1
  bruit trace query --topology net.toml --packet unreachable.pcap --quoted --at edge-1
  bruit trace record --mail Maildir --as mx-1 -o mx-1
  bruit trace query --topology servers.toml --message phish.eml";

/// What `bruit trace` is asked.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Record what a router or mail server saw
    Record(record::Arguments),
    /// Which routers saw this packet, or which servers this message?
    Query(query::Arguments),
    /// Tell what was recorded in a directory
    Info(info::Arguments),
}

pub(crate) fn run(arguments: &Arguments, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let outcome = match &arguments.verb {
        Verb::Record(arguments) => record::run(arguments, output),
        Verb::Query(arguments) => query::run(arguments, output),
        Verb::Info(arguments) => info::run(arguments, output),
    };
    let flushed = output.flush().map_err(Failure::from);
    outcome.and_then(|code| flushed.map(|()| code)).map_err(Failure::with_code_2)
}
