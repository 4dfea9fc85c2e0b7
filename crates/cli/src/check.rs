//! `bruit check`: is a message spam?
//!
//! Signatures are computed here and a server is asked about them. It never holds up mail: a server that cannot be reached
//! in time is told on standard error, and counts as one that knows nothing. With a local replica it is asked only about what
//! the replica cannot rule out.

mod header;
mod local;

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use bruit_client::http::{Checked, Subject, Verdict};
use bruit_client::{CheckOptions, Client, ClientError, Purpose, Schemes, Signer};
use serde::Serialize;

use self::local::{Local, Note};
use crate::failure::Failure;
use crate::quantity::{counted, parse_duration, parse_recipients};
use crate::remote::{Messages, Place, Server, for_each_answer, json_line, words};
use crate::terminal::{complain, printable};

/// How long a check may take, unless told.
pub(crate) const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// The exit codes: 0 to 2 as those of razor-check and pyzor.
const SPAM: u8 = 0;
const NOT_SPAM: u8 = 1;
const ERROR: u8 = 2;
const BULK: u8 = 3;

const AFTER_HELP: &str = "\
Exit codes:
  0  spam; of several messages, at least one
  1  not spam, or nothing is known; also if the server cannot be reached in time, is overloaded, or
     answers nonsense (told on standard error), so that mail never waits
  2  the server refuses, a file cannot be read, or an argument is wrong
  3  bulk: not known as spam, and counted for as many recipients as --bulk-threshold or the server says; of several
     messages, at least one, if none is spam and nothing went wrong
--on-error changes what a server that does not answer, or refuses, leads to.

What leaves this machine: signatures, features of the text (from which the text cannot be read), the numbers of
words, files and links, and the sender's address and the mailing list's name unless --no-sender is given. Default
schemes: exact, attachment, pyzor, razor, dcc, bruit. Messages larger than 64 MiB are not read.

With --count, the server counts recipients of the message before it answers, if the caller may report to it; if not, it
answers all the same, and standard error says why. Mail of whitelisted senders and lists is not counted, and never bulk.

With --local, a message none of whose signatures is in the replica is unknown, and nothing leaves this machine;
only hits, and everything while the replica is old or cannot be used, go to the server. What a replica cannot
tell: near replicas of known texts, whitelisted senders, and fewer than 16 recipients. See 'bruit replica'.

Anybody can write anybody's address in the field From. If senders are whitelisted, give the one that
your mail system has verified with --sender.

Examples:
  bruit check message.eml                  one line: the verdict and why
  bruit check --json Maildir | jq -r 'select(.verdict == \"spam\") | .file'
  bruit check < message && echo spam       as razor-check
  bruit check --local /var/lib/bruit/replica message.eml
  bruit check --count 5 --bulk-threshold 20 message.eml    count five recipients; 3 from 20 in all
  :0 fw                                    procmail: mark every message, then sort by the mark
  | bruit check --header
  :0:
  * ^X-Bruit: spam
  junk";

/// What `bruit check` is asked.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    messages: Messages,

    /// The sender to look up in the whitelist of senders, instead of the address in the field From
    #[arg(long, value_name = "ADDRESS")]
    sender: Option<String>,

    /// Send neither the sender's address nor the mailing list's name
    #[arg(long, conflicts_with = "sender")]
    no_sender: bool,

    /// Number of recipients from which a message not known as spam or good is bulk, instead of the server's threshold
    #[arg(long, value_name = "N", value_parser = parse_recipients)]
    bulk_threshold: Option<u32>,

    /// Count so many recipients of each message first
    #[arg(long, value_name = "N", value_parser = parse_recipients, conflicts_with = "local")]
    count: Option<u32>,

    /// Name of this count of one message: if it is repeated under the same name within a day, it is not counted again
    #[arg(long, value_name = "NAME", requires = "count")]
    idempotency_key: Option<String>,

    /// Look into this replica first, which 'bruit replica' keeps current, and ask the server only about what may be known
    #[arg(long, value_name = "FILE")]
    local: Option<PathBuf>,

    /// Ask the server all the same if the replica's last news are older than this
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_duration, requires = "local")]
    stale_after: Duration,

    /// Write the message on standard input back, with a field X-Bruit on top and without those it had; exit code 0, whatever
    /// the verdict, unless the output fails
    #[arg(long, conflicts_with_all = ["files", "json", "on_error"])]
    header: bool,

    /// The exit code if the server does not answer or refuses, as 2 or 75
    #[arg(long, value_name = "CODE")]
    on_error: Option<u8>,

    /// Print one JSON object a line for each message
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: Server,
}

/// What was found out about one message.
type Answer = Result<Told, ClientError>;

/// A verdict, and what a replica had to do with it.
#[derive(Debug, Serialize)]
struct Told {
    #[serde(flatten)]
    checked: Checked,
    #[serde(skip_serializing_if = "Option::is_none")]
    replica: Option<Note>,
}

/// The fewest recipients that a replica hears of.
const REPLICA_RECIPIENTS_MIN: u32 = 16;

pub(crate) fn run(arguments: &Arguments, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let question = Question::new(arguments);
    if arguments.header {
        return header::run(question, output).map(|()| ExitCode::SUCCESS);
    }
    let question = question?;
    let mut output = BufWriter::new(output);
    let (mut is_spam, mut is_bulk, mut error) = (false, false, None);
    let ask = |message: &[u8]| question.ask(message);
    let was_all_read = for_each_answer(&arguments.messages.input, ask, |place, answer, bar| {
        let is = |verdict| answer.as_ref().is_ok_and(|told| told.checked.verdict == verdict);
        is_spam |= is(Verdict::Spam);
        is_bulk |= is(Verdict::Bulk);
        if let Ok(Told { checked: Checked { count_reason: Some(reason), .. }, .. }) = &answer {
            bar.suspend(|| complain(&format!("{}not all recipients counted: {reason}", place.prefix())));
        }
        if let Err(cause) = &answer {
            error = error.max(Some(arguments.on_error.unwrap_or_else(|| usual_code(cause))));
            bar.suspend(|| complain(&format!("{}{cause}", place.prefix())));
        }
        print(arguments, place, &answer, &mut output)
    });
    let was_all_read =
        match was_all_read.and_then(|was_all_read| output.flush().map(|()| was_all_read).map_err(Failure::from)) {
            // That nobody reads the verdict does not change it: "0" would put good mail among the spam.
            Err(Failure::ReaderLeft) => true,
            result => result?,
        };
    let unread = (!was_all_read).then_some(ERROR);
    let code = match unread.or(error) {
        _ if is_spam => SPAM,
        None | Some(NOT_SPAM) if is_bulk => BULK,
        fault => fault.unwrap_or(NOT_SPAM),
    };
    Ok(ExitCode::from(code))
}

/// The exit code for a question without an answer.
const fn usual_code(error: &ClientError) -> u8 {
    if error.is_passing() { NOT_SPAM } else { ERROR }
}

/// What is asked, and whom.
struct Question {
    client: Client,
    signer: Signer,
    sender: Option<String>,
    options: CheckOptions,
    local: Option<Local>,
}

impl Question {
    fn new(arguments: &Arguments) -> Result<Self, Failure> {
        let is_too_low = arguments.bulk_threshold.is_some_and(|threshold| threshold < REPLICA_RECIPIENTS_MIN);
        if arguments.local.is_some() && is_too_low {
            let text =
                format!("a replica knows of {REPLICA_RECIPIENTS_MIN} recipients or more: raise --bulk-threshold");
            return Err(Failure::BadInput(text));
        }
        let mut client = arguments.server.client(CHECK_TIMEOUT)?;
        if let Some(name) = &arguments.idempotency_key {
            arguments.messages.input.ensure_one_message()?;
            client = client.with_idempotency_key(name)?;
        }
        let mut signer = Signer { names_sender: !arguments.no_sender, ..arguments.messages.signer(Purpose::Check) };
        if arguments.count.is_some() {
            // What recipients are counted by, whatever else is asked about.
            signer.schemes = signer.schemes.and(Schemes::named("dcc").unwrap_or_default());
        }
        Ok(Self {
            client,
            signer,
            sender: arguments.sender.clone(),
            options: CheckOptions { recipients: arguments.count, bulk_threshold: arguments.bulk_threshold },
            local: arguments.local.as_deref().and_then(|file| Local::open(file, arguments.stale_after)),
        })
    }

    fn ask(&self, message: &[u8]) -> Answer {
        let subject = self.signer.subject(message);
        let replica = self.local.as_ref().and_then(|local| local.note(&subject));
        let checked = match replica {
            Some(Note { asked_server: false, .. }) => local::unknown(&subject),
            _ => self.ask_server(subject)?,
        };
        Ok(Told { checked, replica })
    }

    fn ask_server(&self, subject: Subject) -> Result<Checked, ClientError> {
        let subject = Subject { sender: self.sender.clone().or(subject.sender), ..subject };
        let checked = self.client.check_with(&subject, self.options)?;
        Ok(match self.options.bulk_threshold {
            // Servers that do not say which threshold they went by went by their own.
            Some(threshold) if checked.bulk_threshold.is_none() => judge_again(checked, threshold),
            _ => checked,
        })
    }
}

/// The answer by another threshold than the server's.
fn judge_again(checked: Checked, threshold: u32) -> Checked {
    let (verdict, reason) = match (checked.verdict, checked.bulk_count >= threshold) {
        (Verdict::Unknown, true) => (Verdict::Bulk, "many_recipients"),
        (Verdict::Bulk, false) => (Verdict::Unknown, "not_reported"),
        _ => return checked,
    };
    Checked { verdict, reason: reason.to_owned(), ..checked }
}

fn print(arguments: &Arguments, place: &Place, answer: &Answer, output: &mut impl Write) -> Result<(), Failure> {
    if arguments.json {
        return Ok(writeln!(output, "{}", json_line(place, answer))?);
    }
    if let Ok(Told { checked, replica }) = answer {
        let replica = replica.map_or_else(String::new, |note| format!(" ({note})"));
        let is_asked = arguments.count.is_some() || arguments.bulk_threshold.is_some();
        let total = || format!(", {}", counted(checked.bulk_count.into(), "recipient"));
        let total = if is_asked { total() } else { String::new() };
        writeln!(output, "{}{}{total}{replica}", printable(&place.prefix()), line(checked))?;
    }
    Ok(())
}

/// The verdict and why, for people.
pub(crate) fn line(checked: &Checked) -> String {
    let confidence = match checked.confidence {
        0 => String::new(),
        confidence => format!(", confidence {confidence}"),
    };
    format!("{}{confidence}: {}", checked.verdict, printable(words(&checked.reason)))
}
