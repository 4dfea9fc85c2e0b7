//! `bruit accounts`: lists and changes the accounts of a server.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bruit_client::http::{AccountEntry, AccountName, AccountPatch, Done, NewAccount};
use bruit_client::{Client, ClientError};
use bruit_engine::time::Time;
use serde_json::json;

use crate::claim::CLAIM_TIMEOUT;
use crate::remote::Server;
use bruit_console::Failure;
use bruit_console::date::moment;
use bruit_console::failure::bad_input;
use bruit_console::quantity::counted;
use bruit_console::terminal::printable;

const AFTER_HELP: &str = "\
The secret is the first line of --secret-file, or of standard input. It cannot be an argument, because every \
user of the machine can see arguments. For pyzor it is the part after the comma in the output of 'pyzor genkey'.

Changing an account keeps its weight, but closes the sessions that are logged in to it. An account that is removed and \
added again loses its weight. Accounts in the server's configuration return to their configured state at the next \
reload. Fuzzy key pairs can be added and changed only in the configuration.

Exit codes:
  0  done
  1  no such account
  2  error: refused or failed

Examples:
  bruit accounts list
  bruit accounts add razor ann@example.org --standing pinned --secret-file ann.secret
  bruit accounts password razor ann@example.org < new.secret
  bruit accounts disable razor ann@example.org";

/// Maximum number of bytes read for a secret. No protocol allows a longer one.
const SECRET_BYTES_MAX: u64 = 4096;

/// Maximum number of pages of the account list that are requested. No server has a longer list.
const PAGES_MAX: usize = 256;

/// HTTP status 404.
const NOT_FOUND: u16 = 404;

/// Arguments of `bruit accounts`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct AccountsArgs {
    #[command(subcommand)]
    verb: AccountsVerb,
}

#[derive(Debug, clap::Subcommand)]
enum AccountsVerb {
    /// List all accounts and the weight of their claims
    #[command(after_help = "Example:\n  bruit accounts list --json")]
    List(AccountsListArgs),
    /// Show one account
    #[command(after_help = "Example:\n  bruit accounts show razor ann@example.org")]
    Show(AccountsShowArgs),
    /// Add an account
    #[command(after_help = "Example:\n  bruit accounts add razor ann@example.org --secret-file ann.secret")]
    Add(AddArgs),
    /// Remove an account and the trust it has earned
    #[command(after_help = "Example:\n  bruit accounts remove razor ann@example.org")]
    Remove(AccountArgs),
    /// Accept claims from an account again
    #[command(after_help = "Example:\n  bruit accounts enable razor ann@example.org")]
    Enable(AccountArgs),
    /// Reject claims from an account, but keep its name
    #[command(after_help = "Example:\n  bruit accounts disable razor ann@example.org")]
    Disable(AccountArgs),
    /// Change the secret of an account
    #[command(after_help = "Example:\n  bruit accounts password razor ann@example.org < new.secret")]
    Password(PasswordArgs),
}

#[derive(Debug, clap::Args)]
struct AccountsListArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: Server,
}

/// Protocol and name that identify an account.
#[derive(Debug, clap::Args)]
struct NameArgs {
    /// Protocol: razor, pyzor, dcc or fuzzy
    #[arg(value_name = "PROTOCOL", value_parser = ["razor", "pyzor", "dcc", "fuzzy"])]
    protocol: String,

    /// Name of the account; for dcc, the client number
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(Debug, clap::Args)]
struct AccountsShowArgs {
    #[command(flatten)]
    name: NameArgs,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: Server,
}

#[derive(Debug, clap::Args)]
struct AccountArgs {
    #[command(flatten)]
    name: NameArgs,

    #[command(flatten)]
    server: Server,
}

#[derive(Debug, clap::Args)]
struct AddArgs {
    #[command(flatten)]
    name: NameArgs,

    /// Standing of the account: own, trap, pinned or account
    #[arg(long, value_name = "STANDING", default_value = "account", value_parser = ["own", "trap", "pinned", "account"])]
    standing: String,

    /// Group whose members count as one voice [default: a group of its own]
    #[arg(long, value_name = "WORD")]
    group: Option<String>,

    #[command(flatten)]
    secret: SecretArgs,

    #[command(flatten)]
    server: Server,
}

#[derive(Debug, clap::Args)]
struct PasswordArgs {
    #[command(flatten)]
    name: NameArgs,

    #[command(flatten)]
    secret: SecretArgs,

    #[command(flatten)]
    server: Server,
}

#[derive(Debug, clap::Args)]
struct SecretArgs {
    /// File whose first line is the secret [default: standard input]
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
}

pub(crate) fn run(arguments: &AccountsArgs, output: &mut impl Write) -> Result<ExitCode, Failure> {
    match &arguments.verb {
        AccountsVerb::List(list) => print_all(list, &client(&list.server)?, output).map(|()| ExitCode::SUCCESS),
        AccountsVerb::Show(show) => print_one(show, &client(&show.server)?, output),
        AccountsVerb::Add(add) => {
            let NameArgs { protocol, name } = &add.name;
            let new = NewAccount {
                protocol: protocol.clone(),
                name: name.clone(),
                secret: add.secret.read()?,
                standing: Some(add.standing.clone()),
                group: add.group.clone(),
            };
            tell(client(&add.server)?.add_account(&new), "added", output)
        }
        AccountsVerb::Remove(one) => tell(client(&one.server)?.remove_account(&one.name.named()), "removed", output),
        AccountsVerb::Enable(one) => set_enabled(one, true, "enabled", output),
        AccountsVerb::Disable(one) => set_enabled(one, false, "disabled", output),
        AccountsVerb::Password(password) => {
            let patch = AccountPatch { secret: Some(password.secret.read()?), ..password.name.patch() };
            tell(client(&password.server)?.update_account(&patch), "password changed", output)
        }
    }
}

fn client(server: &Server) -> Result<Client, Failure> {
    server.admin_client(CLAIM_TIMEOUT)
}

fn set_enabled(one: &AccountArgs, enabled: bool, done: &str, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let patch = AccountPatch { enabled: Some(enabled), ..one.name.patch() };
    tell(client(&one.server)?.update_account(&patch), done, output)
}

/// Prints `done`. If the account does not exist, prints a message and returns exit code 1.
fn tell(result: Result<Done, ClientError>, done: &str, output: &mut impl Write) -> Result<ExitCode, Failure> {
    if is_unknown(&result) {
        writeln!(output, "no such account")?;
        return Ok(ExitCode::FAILURE);
    }
    result.map_err(bad_input)?;
    writeln!(output, "{done}")?;
    Ok(ExitCode::SUCCESS)
}

fn is_unknown<T>(result: &Result<T, ClientError>) -> bool {
    matches!(result, Err(ClientError::Refused { problem, .. }) if problem.status == NOT_FOUND)
}

impl NameArgs {
    fn named(&self) -> AccountName {
        AccountName { protocol: self.protocol.clone(), name: self.name.clone() }
    }

    /// Returns an empty patch for this account.
    fn patch(&self) -> AccountPatch {
        AccountPatch { protocol: self.protocol.clone(), name: self.name.clone(), ..AccountPatch::default() }
    }
}

impl SecretArgs {
    fn read(&self) -> Result<String, Failure> {
        let named = |error: io::Error, place: &Path| {
            Failure::BadInput(format!("failed to read the secret in {}: {error}", place.display()))
        };
        match &self.secret_file {
            Some(file) => {
                let opened = File::open(file).map_err(|error| named(error, file))?;
                first_line(opened, &file.display().to_string())
            }
            None => first_line(io::stdin().lock(), "standard input"),
        }
    }
}

/// Reads the secret from the first line of an input. Blanks are part of the secret.
fn first_line(input: impl Read, place: &str) -> Result<String, Failure> {
    let mut text = String::new();
    let read = input.take(SECRET_BYTES_MAX).read_to_string(&mut text);
    read.map_err(|error| Failure::BadInput(format!("failed to read the secret in {place}: {error}")))?;
    match text.lines().next() {
        Some(secret) if !secret.is_empty() => Ok(secret.to_owned()),
        _ => Err(Failure::BadInput(format!("the first line of {place} is empty: expected a secret"))),
    }
}

fn print_all(list: &AccountsListArgs, client: &Client, output: &mut impl Write) -> Result<(), Failure> {
    let mut page = client.accounts(0).map_err(bad_input)?;
    let mut accounts = std::mem::take(&mut page.accounts);
    for _ in 1..PAGES_MAX {
        let Some(offset) = page.next_offset else { break };
        page = client.accounts(offset).map_err(bad_input)?;
        accounts.append(&mut page.accounts);
    }
    let mut output = BufWriter::new(output);
    if list.json {
        writeln!(output, "{:#}", json!({ "accounts": accounts }))?;
    } else {
        print_table(&accounts, &mut output)?;
    }
    Ok(output.flush()?)
}

fn print_table(accounts: &[AccountEntry], output: &mut impl Write) -> io::Result<()> {
    if !accounts.is_empty() {
        writeln!(
            output,
            "{:8}  {:32}  {:8}  {:8}  {:>6}  {:>9}  {:>7}  {:>11}  last used",
            "protocol", "name", "standing", "enabled", "weight", "confirmed", "refuted", "unconfirmed"
        )?;
    }
    for account in accounts {
        let trust = account.trust.clone().unwrap_or_default();
        let [protocol, name, standing] =
            [&account.protocol, &account.name, &account.standing].map(|text| printable(text));
        writeln!(
            output,
            "{protocol:8}  {name:32}  {standing:8}  {:8}  {:>6}  {:>9}  {:>7}  {:>11}  {}",
            yes_or_no(account.enabled),
            shown_weight(account),
            trust.confirmed,
            trust.refuted,
            trust.unconfirmed,
            last_used(account),
        )?;
    }
    writeln!(output, "{}", counted(accounts.len() as u64, "account"))
}

fn print_one(show: &AccountsShowArgs, client: &Client, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let found = client.account(&show.name.named());
    if is_unknown(&found) {
        writeln!(output, "no such account")?;
        return Ok(ExitCode::FAILURE);
    }
    let account = found.map_err(bad_input)?;
    if show.json {
        writeln!(output, "{:#}", json!(account))?;
    } else {
        print_entry(&account, output)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print_entry(account: &AccountEntry, output: &mut impl Write) -> io::Result<()> {
    let trust = account.trust.clone().unwrap_or_default();
    let lines = [
        ("protocol", account.protocol.clone()),
        ("name", account.name.clone()),
        ("standing", account.standing.clone()),
        ("group", account.group.clone()),
        ("enabled", yes_or_no(account.enabled).to_owned()),
        ("created", moment(Time(account.created))),
        ("registered by", account.registered_by.clone()),
        ("last used", last_used(account)),
        ("weight", shown_weight(account)),
        ("confirmed", trust.confirmed.to_string()),
        ("refuted", trust.refuted.to_string()),
        ("unconfirmed", trust.unconfirmed.to_string()),
    ];
    lines.iter().try_for_each(|(what, value)| writeln!(output, "{what:14}{}", printable(value)))
}

/// Formats the weight of an account. Returns `-` if none of its claims have been settled: its weight then depends only
/// on its standing.
fn shown_weight(account: &AccountEntry) -> String {
    account.trust.as_ref().map_or_else(|| "-".to_owned(), |trust| format!("{:.2}", trust.weight))
}

fn last_used(account: &AccountEntry) -> String {
    account.last_used.map_or_else(|| "not since the server started".to_owned(), |time| moment(Time(time)))
}

const fn yes_or_no(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

#[cfg(test)]
mod tests {
    use bruit_client::http::AccountTrust;

    use super::*;

    #[test]
    fn a_secret_is_the_first_line_with_its_blanks() {
        assert_eq!(first_line(&b"tin whistle 7 \r\nmore"[..], "x").unwrap(), "tin whistle 7 ");
        for text in ["", "\n", "\nsecond"] {
            assert!(first_line(text.as_bytes(), "x").is_err(), "{text:?}");
        }
        assert_eq!(first_line(&[b'x'; 5000][..], "x").unwrap().len() as u64, SECRET_BYTES_MAX);
    }

    #[test]
    fn nothing_a_name_says_acts_on_a_terminal() {
        let account = AccountEntry {
            name: "\x1b[2J".to_owned(),
            trust: Some(AccountTrust { weight: 2.456, confirmed: 7, ..AccountTrust::default() }),
            ..AccountEntry::default()
        };
        let mut output = Vec::new();
        print_table(std::slice::from_ref(&account), &mut output).unwrap();
        print_entry(&account, &mut output).unwrap();
        let text = String::from_utf8(output).unwrap();
        assert!(!text.contains('\x1b') && text.contains("2.46"), "{text:?}");
    }
}
