//! `bruit whitelist`: manages senders and signatures that are never spam.

use std::io::{BufWriter, Write};
use std::process::ExitCode;

use bruit_client::Client;
use bruit_client::http::{NamedSignature, WhitelistEntry};
use serde_json::json;

use crate::claim::CLAIM_TIMEOUT;
use crate::remote::Server;
use bruit_console::Failure;
use bruit_console::failure::bad_input;
use bruit_console::quantity::grouped;
use bruit_console::terminal::printable;

const AFTER_HELP: &str = "\
A sender is an address (alice@example.org), a domain (example.org) or all its subdomains (.example.org). A \
mailing list is the identifier in the List-Id field (announce.example.org); .example.org means all lists below \
that domain. Mail from a whitelisted sender is never spam; mail from a whitelisted mailing list is never bulk and \
is not counted. Addresses can be forged, so checks should name senders that your mail system has verified. Write \
signatures as 'bruit sign' prints them. The server stores only keyed hashes of signatures and cannot list them.

Exit codes:
  0  done
  1  the entry to remove is not on the whitelist
  2  error: refused or failed

Examples:
  bruit whitelist add --sender newsletter@example.org
  bruit whitelist add --list announce.example.org
  bruit whitelist remove --scheme pyzor --value da39a3ee5e6b4b0d3255bfef95601890afd80709
  bruit whitelist list";

/// Maximum number of pages of the whitelist that are requested. No server has a longer list.
const PAGES_MAX: usize = 256;

/// Arguments of `bruit whitelist`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct WhitelistArgs {
    #[command(subcommand)]
    verb: WhitelistVerb,
}

#[derive(Debug, clap::Subcommand)]
enum WhitelistVerb {
    /// Add a sender, a mailing list or a signature
    #[command(after_help = "Example:\n  bruit whitelist add --sender newsletter@example.org")]
    Add(ChangeArgs),
    /// Remove a sender, a mailing list or a signature
    #[command(after_help = "Example:\n  bruit whitelist remove --list announce.example.org")]
    Remove(ChangeArgs),
    /// List the whitelisted senders and the number of signatures
    #[command(after_help = "Example:\n  bruit whitelist list")]
    List(WhitelistListArgs),
}

#[derive(Debug, clap::Args)]
struct ChangeArgs {
    /// Sender: an address, a domain, or all subdomains of a domain
    #[arg(
        long,
        value_name = "PATTERN",
        required_unless_present_any = ["scheme", "list"],
        conflicts_with_all = ["scheme", "list"]
    )]
    sender: Option<String>,

    /// Mailing list, by its List-Id, or all lists below a domain
    #[arg(long, value_name = "ID", conflicts_with = "scheme")]
    list: Option<String>,

    /// Scheme of the signature
    #[arg(long, value_name = "NAME", requires = "value")]
    scheme: Option<String>,

    /// Signature, as printed by 'bruit sign'
    #[arg(long, value_name = "SIGNATURE", requires = "scheme")]
    value: Option<String>,

    #[command(flatten)]
    server: Server,
}

#[derive(Debug, clap::Args)]
struct WhitelistListArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: Server,
}

pub(crate) fn run(arguments: &WhitelistArgs, output: &mut impl Write) -> Result<ExitCode, Failure> {
    match &arguments.verb {
        WhitelistVerb::Add(change) => {
            change.server.admin_client(CLAIM_TIMEOUT)?.add_to_whitelist(&change.entry()?).map_err(bad_input)?;
            writeln!(output, "whitelisted")?;
            Ok(ExitCode::SUCCESS)
        }
        WhitelistVerb::Remove(change) => {
            let done = change
                .server
                .admin_client(CLAIM_TIMEOUT)?
                .remove_from_whitelist(&change.entry()?)
                .map_err(bad_input)?;
            writeln!(output, "{}", if done.changed { "removed from the whitelist" } else { "not whitelisted" })?;
            Ok(if done.changed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        WhitelistVerb::List(list) => {
            print(list, &list.server.admin_client(CLAIM_TIMEOUT)?, output)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

impl ChangeArgs {
    /// Returns the entry to change. Signatures are validated here, before anything is sent.
    fn entry(&self) -> Result<WhitelistEntry, Failure> {
        if let Some(sender) = &self.sender {
            return Ok(WhitelistEntry::Sender(sender.clone()));
        }
        if let Some(list) = &self.list {
            return Ok(WhitelistEntry::Sender(format!("list:{list}")));
        }
        let (scheme, value) = (self.scheme.clone().unwrap_or_default(), self.value.clone().unwrap_or_default());
        let named = NamedSignature { scheme, value, piece: None };
        named.signature().map_err(|error| Failure::BadInput(error.to_string()))?;
        Ok(WhitelistEntry::Signature(named))
    }
}

fn print(list: &WhitelistListArgs, client: &Client, output: &mut impl Write) -> Result<(), Failure> {
    let mut page = client.whitelist(0).map_err(bad_input)?;
    let mut senders = std::mem::take(&mut page.senders);
    for _ in 1..PAGES_MAX {
        let Some(offset) = page.next_offset else { break };
        page = client.whitelist(offset).map_err(bad_input)?;
        senders.append(&mut page.senders);
    }
    let signature_count = page.signature_count;
    let mut output = BufWriter::new(output);
    if list.json {
        writeln!(output, "{:#}", json!({ "senders": senders, "signature_count": signature_count }))?;
    } else {
        senders.iter().try_for_each(|sender| writeln!(output, "{}", printable(sender)))?;
        writeln!(output, "senders {}, signatures {}", grouped(senders.len() as u64), grouped(signature_count))?;
    }
    Ok(output.flush()?)
}
