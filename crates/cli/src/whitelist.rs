//! `bruit whitelist`: senders and signatures that a server never calls spam.

use std::io::{BufWriter, Write};
use std::process::ExitCode;

use bruit_client::Client;
use bruit_client::http::{NamedSignature, WhitelistEntry};
use serde_json::json;

use crate::claim::CLAIM_TIMEOUT;
use crate::failure::Failure;
use crate::quantity::grouped;
use crate::remote::Server;
use crate::terminal::printable;

const AFTER_HELP: &str = "\
A sender is an address (alice@example.org), a domain (example.org) or everything below one (.example.org).
A mailing list is the identifier in its field List-Id (announce.example.org) or everything below a domain
(.example.org). Mail of a listed sender is never spam; that of a listed mailing list is never bulk, and not counted.
Anybody can write anybody's address: checks should name senders that your mail system has verified.
Signatures are spelt as 'bruit sign' prints them; the server keeps keyed hashes of them only and cannot list
them.

Exit codes: 0 done, 1 what is to be removed is not on the list, 2 refused or failed.

Examples:
  bruit whitelist add --sender newsletter@example.org
  bruit whitelist add --list announce.example.org
  bruit whitelist remove --scheme pyzor --value da39a3ee5e6b4b0d3255bfef95601890afd80709
  bruit whitelist list";

/// Most pages of senders that are asked for: more than any server has.
const PAGES_MAX: usize = 256;

/// What `bruit whitelist` is asked.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Put a sender, a mailing list or a signature on the list
    Add(Change),
    /// Take one off the list
    Remove(Change),
    /// The senders on the list, and how many signatures are
    List(List),
}

#[derive(Debug, clap::Args)]
struct Change {
    /// An address, a domain, or everything below a domain
    #[arg(
        long,
        value_name = "PATTERN",
        required_unless_present_any = ["scheme", "list"],
        conflicts_with_all = ["scheme", "list"]
    )]
    sender: Option<String>,

    /// A mailing list, or everything below a domain
    #[arg(long, value_name = "ID", conflicts_with = "scheme")]
    list: Option<String>,

    /// The scheme of a signature
    #[arg(long, value_name = "NAME", requires = "value")]
    scheme: Option<String>,

    /// The signature
    #[arg(long, value_name = "SIGNATURE", requires = "scheme")]
    value: Option<String>,

    #[command(flatten)]
    server: Server,
}

#[derive(Debug, clap::Args)]
struct List {
    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: Server,
}

pub(crate) fn run(arguments: &Arguments, output: &mut impl Write) -> Result<ExitCode, Failure> {
    match &arguments.verb {
        Verb::Add(change) => {
            change.server.admin_client(CLAIM_TIMEOUT)?.add_to_whitelist(&change.entry()?)?;
            writeln!(output, "whitelisted")?;
            Ok(ExitCode::SUCCESS)
        }
        Verb::Remove(change) => {
            let done = change.server.admin_client(CLAIM_TIMEOUT)?.remove_from_whitelist(&change.entry()?)?;
            writeln!(output, "{}", if done.changed { "taken off the whitelist" } else { "it was not whitelisted" })?;
            Ok(if done.changed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Verb::List(list) => {
            print(list, &list.server.admin_client(CLAIM_TIMEOUT)?, output)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

impl Change {
    /// What is to be changed. A signature is looked at here, where its spelling was typed.
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

fn print(list: &List, client: &Client, output: &mut impl Write) -> Result<(), Failure> {
    let mut page = client.whitelist(0)?;
    let mut senders = std::mem::take(&mut page.senders);
    for _ in 1..PAGES_MAX {
        let Some(offset) = page.next_offset else { break };
        page = client.whitelist(offset)?;
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
