//! `bruit-lab trace`: finds the routers or servers that saw a packet or message.
//!
//! Recording and searching are in [`bruit_forensics::traceback`]; this module reads captures and mailboxes, and prints.

mod info;
mod print;
mod query;
mod record;

use std::io::Write;
use std::process::ExitCode;

use bruit_console::Failure;

const AFTER_HELP: &str = "\
Each router records a digest of every packet in pages. A page is a Bloom filter that covers a minute. Anyone who has a \
packet can then find the routers that saw it: the search starts at the router next to the victim and follows the \
links. Mail servers record messages in the same way, with pages of an hour; a search for a message queries all \
servers. Content is not recorded: pages can only be tested for packets that you already have. Each page contains its \
key, so anyone who has the page can test it.

A topology file lists the links between routers and the location of their pages:
  [[router]]                      or [[server]], for mail
  name = \"edge-1\"
  pages = \"edge-1\"                relative to this file; omit it if the router records nothing
  links = [\"core-1\", \"core-2\"]    naming a link at one end is enough
  rewrites = true                 if the router changes packets (address translation, IPsec, end of a tunnel)

Fragments, ICMP errors and unreadable tunnelled packets cannot be traced back to their origin by their digests. The \
answer says so, and the path is shown as open: the packet may have come from further away. A path is also open if it \
ends at or beside a router that rewrites packets.

Exit codes:
  0  done; seen (query)
  1  not seen
  2  error
  3  not seen, but the digest of this packet cannot be trusted

Examples:
  bruit-lab trace record monday.pcap --as edge-1 -o edge-1
  tcpdump -i eth0 -w - | bruit-lab trace record - --as edge-2 -o edge-2
  bruit-lab trace record --follow /var/captures --as core-1 -o core-1
  bruit-lab trace query --topology net.toml --packet attack.pcap --frame 17 --at edge-1
  bruit-lab trace query --topology net.toml --packet unreachable.pcap --quoted --at edge-1
  bruit-lab trace record --mail Maildir --as mx-1 -o mx-1
  bruit-lab trace query --topology servers.toml --message phish.eml";

/// Arguments of `bruit-lab trace`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct TraceArgs {
    #[command(subcommand)]
    verb: TraceVerb,
}

#[derive(Debug, clap::Subcommand)]
enum TraceVerb {
    /// Record the packets or messages seen by a router or mail server
    #[command(after_help = "Example:\n  bruit-lab trace record monday.pcap --as edge-1 -o edge-1")]
    Record(record::TraceRecordArgs),
    /// Find the routers that saw a packet, or the servers that saw a message
    #[command(after_help = "Example:\n  bruit-lab trace query --topology servers.toml --message phish.eml")]
    Query(query::TraceQueryArgs),
    /// Show the contents of a directory of pages
    #[command(after_help = "Example:\n  bruit-lab trace info edge-1")]
    Info(info::TraceInfoArgs),
}

pub(crate) fn run(arguments: &TraceArgs, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let outcome = match &arguments.verb {
        TraceVerb::Record(arguments) => record::run(arguments, output),
        TraceVerb::Query(arguments) => query::run(arguments, output),
        TraceVerb::Info(arguments) => info::run(arguments, output),
    };
    let flushed = output.flush().map_err(Failure::from);
    outcome.and_then(|code| flushed.map(|()| code)).map_err(Failure::as_usage_error)
}
