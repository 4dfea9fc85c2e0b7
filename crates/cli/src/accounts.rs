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
use crate::date::moment;
use crate::failure::Failure;
use crate::quantity::counted;
use crate::remote::Server;
use crate::terminal::printable;

const AFTER_HELP: &str = "\
A secret is the first line of --secret-file, or of standard input if there is none. It is never an argument,
as anybody on the machine can read those. For pyzor it is what 'pyzor genkey' prints behind the comma.

An account that is changed keeps the weight it has earned; sessions that were logged in with it end. One that is
removed and added again starts from nothing. Accounts in the server's configuration are what the file says: after the
next reload they are again. Key pairs of fuzzy are added and changed there only.

Exit codes: 0 done, 1 there is no such account, 2 refused or failed.

Examples:
  bruit accounts list
  bruit accounts add razor ann@example.org --standing pinned --secret-file ann.secret
  bruit accounts password razor ann@example.org < new.secret
  bruit accounts disable razor ann@example.org";

/// The longest secret that is read: longer than any protocol takes.
const SECRET_BYTES_MAX: u64 = 4096;

/// Most pages of accounts that are asked for: more than any server has.
const PAGES_MAX: usize = 256;

/// HTTP's status for what there is not.
const NOT_FOUND: u16 = 404;

/// What `bruit accounts` is asked.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// List all accounts, with what their claims weigh
    List(List),
    /// Show one account
    Show(Show),
    /// Add an account
    Add(Add),
    /// Remove an account and all it has earned
    Remove(One),
    /// Accept an account's claims again
    Enable(One),
    /// Refuse an account's claims, and keep its name
    Disable(One),
    /// Change an account's secret
    Password(Password),
}

#[derive(Debug, clap::Args)]
struct List {
    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: Server,
}

/// An account by its name.
#[derive(Debug, clap::Args)]
struct Name {
    /// Protocol: razor, pyzor, dcc or fuzzy
    #[arg(value_name = "PROTOCOL", value_parser = ["razor", "pyzor", "dcc", "fuzzy"])]
    protocol: String,

    /// Name of the account; for dcc the number of the client
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(Debug, clap::Args)]
struct Show {
    #[command(flatten)]
    name: Name,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: Server,
}

#[derive(Debug, clap::Args)]
struct One {
    #[command(flatten)]
    name: Name,

    #[command(flatten)]
    server: Server,
}

#[derive(Debug, clap::Args)]
struct Add {
    #[command(flatten)]
    name: Name,

    /// Standing: own, trap, pinned or account
    #[arg(long, value_name = "STANDING", default_value = "account", value_parser = ["own", "trap", "pinned", "account"])]
    standing: String,

    /// Group whose members count as one voice [default: a group of its own]
    #[arg(long, value_name = "WORD")]
    group: Option<String>,

    #[command(flatten)]
    secret: Secret,

    #[command(flatten)]
    server: Server,
}

#[derive(Debug, clap::Args)]
struct Password {
    #[command(flatten)]
    name: Name,

    #[command(flatten)]
    secret: Secret,

    #[command(flatten)]
    server: Server,
}

#[derive(Debug, clap::Args)]
struct Secret {
    /// File whose first line is the secret [default: standard input]
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, output: &mut impl Write) -> Result<ExitCode, Failure> {
    match &arguments.verb {
        Verb::List(list) => print_all(list, &client(&list.server)?, output).map(|()| ExitCode::SUCCESS),
        Verb::Show(show) => print_one(show, &client(&show.server)?, output),
        Verb::Add(add) => {
            let Name { protocol, name } = &add.name;
            let new = NewAccount {
                protocol: protocol.clone(),
                name: name.clone(),
                secret: add.secret.read()?,
                standing: Some(add.standing.clone()),
                group: add.group.clone(),
            };
            tell(client(&add.server)?.add_account(&new), "added", output)
        }
        Verb::Remove(one) => tell(client(&one.server)?.remove_account(&one.name.named()), "removed", output),
        Verb::Enable(one) => set_enabled(one, true, "enabled", output),
        Verb::Disable(one) => set_enabled(one, false, "disabled", output),
        Verb::Password(password) => {
            let patch = AccountPatch { secret: Some(password.secret.read()?), ..password.name.patch() };
            tell(client(&password.server)?.update_account(&patch), "password changed", output)
        }
    }
}

fn client(server: &Server) -> Result<Client, Failure> {
    server.admin_client(CLAIM_TIMEOUT)
}

fn set_enabled(one: &One, enabled: bool, done: &str, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let patch = AccountPatch { enabled: Some(enabled), ..one.name.patch() };
    tell(client(&one.server)?.update_account(&patch), done, output)
}

/// Says what was done, or that there is no such account.
fn tell(result: Result<Done, ClientError>, done: &str, output: &mut impl Write) -> Result<ExitCode, Failure> {
    if is_unknown(&result) {
        writeln!(output, "no such account")?;
        return Ok(ExitCode::FAILURE);
    }
    result?;
    writeln!(output, "{done}")?;
    Ok(ExitCode::SUCCESS)
}

fn is_unknown<T>(result: &Result<T, ClientError>) -> bool {
    matches!(result, Err(ClientError::Refused { problem, .. }) if problem.status == NOT_FOUND)
}

impl Name {
    fn named(&self) -> AccountName {
        AccountName { protocol: self.protocol.clone(), name: self.name.clone() }
    }

    /// A change of this account that changes nothing yet.
    fn patch(&self) -> AccountPatch {
        AccountPatch { protocol: self.protocol.clone(), name: self.name.clone(), ..AccountPatch::default() }
    }
}

impl Secret {
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

/// The secret in the first line of an input. Blanks may be part of it.
fn first_line(input: impl Read, place: &str) -> Result<String, Failure> {
    let mut text = String::new();
    let read = input.take(SECRET_BYTES_MAX).read_to_string(&mut text);
    read.map_err(|error| Failure::BadInput(format!("failed to read the secret in {place}: {error}")))?;
    match text.lines().next() {
        Some(secret) if !secret.is_empty() => Ok(secret.to_owned()),
        _ => Err(Failure::BadInput(format!("the first line of {place} is empty: expected a secret"))),
    }
}

fn print_all(list: &List, client: &Client, output: &mut impl Write) -> Result<(), Failure> {
    let mut page = client.accounts(0)?;
    let mut accounts = std::mem::take(&mut page.accounts);
    for _ in 1..PAGES_MAX {
        let Some(offset) = page.next_offset else { break };
        page = client.accounts(offset)?;
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

fn print_one(show: &Show, client: &Client, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let found = client.account(&show.name.named());
    if is_unknown(&found) {
        writeln!(output, "no such account")?;
        return Ok(ExitCode::FAILURE);
    }
    let account = found?;
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

/// The weight of an account that had a claim settled. What another weighs follows from its standing.
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
