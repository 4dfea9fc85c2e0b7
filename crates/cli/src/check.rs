//! `bruit check`: checks messages against a server.
//!
//! Signatures are computed locally and sent to the server. A check never delays mail: if the server cannot be reached
//! in time, the message counts as unknown and the error goes to standard error. With a local replica, the program
//! queries the server only about messages that the replica cannot rule out.

mod header;
pub(crate) mod local;

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use bruit_client::http::{Checked, Reason, Subject, Verdict};
use bruit_client::{CheckOptions, Client, ClientError, Purpose, Schemes, Signer};
use serde::Serialize;

use self::local::{Local, Note};
use crate::count::parse_recipients;
use crate::remote::{Messages, Place, Server, for_each_answer, json_line, print_summary};
use bruit_console::Failure;
use bruit_console::failure::bad_input;
use bruit_console::quantity::{counted, grouped, parse_duration};
use bruit_console::terminal::{coloured_verdict, complain, printable};

/// Default time limit of a check.
pub(crate) const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// Exit codes. Codes 0 to 2 have the same meaning as in razor-check and pyzor.
const SPAM: u8 = 0;
const NOT_SPAM: u8 = 1;
const ERROR: u8 = 2;
const BULK: u8 = 3;

const AFTER_HELP: &str = "\
Exit codes:
  0  spam (at least one message)
  1  not spam or unknown; also if the server cannot be reached in time, is overloaded or sends a malformed \
  response
  2  error: the server refused, a file could not be read, or an argument is invalid
  3  bulk: not known as spam, but sent to many recipients (at least one message, none of them spam, no error)
A server that cannot be reached in time is reported on standard error; mail is never delayed. --on-error \
sets the exit code used if the server refuses the request or does not answer. Without --bulk-threshold, the \
server's threshold applies.

Data sent to the server: signatures, features of the text (from which the text cannot be reconstructed), the \
numbers of words, files and links, and, unless --no-sender is given, the sender's address and the mailing \
list's name. Default schemes: exact, attachment, pyzor, razor, dcc, bruit. Messages larger than 64 MiB are \
skipped.

With --count, the server first counts the recipients of the message, provided that the caller is allowed to \
report. Otherwise, the server only checks the message, and the reason is printed on standard error. Mail from \
whitelisted senders and lists is not counted and is never bulk.

With --local, a message without a hit in the replica is unknown, and nothing is sent. A message with a hit is \
checked with the server, and so is every message if the replica is stale or unusable. A replica cannot recognise near \
replicas of known texts, and it contains neither whitelisted senders nor counts below 16 recipients. See \
'bruit replica'.

The From field can be forged. If you whitelist senders, use --sender to pass the address that your mail system has \
verified.

Examples:
  bruit check message.eml                  print the verdict and the reason
  bruit check --json Maildir | jq -r 'select(.verdict == \"spam\") | .file'
  bruit check < message && echo spam       use the exit code, as with razor-check
  bruit check --local /var/lib/bruit/replica message.eml
  bruit check --count 5 --bulk-threshold 20 message.eml    count 5 recipients; bulk at 20 or more
  :0 fw                                    procmail: mark every message, then sort by the mark
  | bruit check --header
  :0:
  * ^X-Bruit: spam
  junk";

/// Arguments of `bruit check`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    messages: Messages,

    /// Sender to look up in the sender whitelist, instead of the address in the From field
    #[arg(long, value_name = "ADDRESS")]
    sender: Option<String>,

    /// Do not send the sender's address or the mailing list's name
    #[arg(long, conflicts_with = "sender")]
    no_sender: bool,

    /// Minimum number of recipients that makes an otherwise unknown message bulk [default: the server's
    /// threshold]
    #[arg(long, value_name = "N", value_parser = parse_recipients)]
    bulk_threshold: Option<u32>,

    /// Count N recipients of each message before checking it
    #[arg(long, value_name = "N", value_parser = parse_recipients, conflicts_with = "local")]
    count: Option<u32>,

    /// Name that identifies this count; a retry with the same name within a day is not counted again
    #[arg(long, value_name = "NAME", requires = "count")]
    idempotency_key: Option<String>,

    /// Look messages up in this replica first, and ask the server only about hits (see 'bruit replica')
    #[arg(long, value_name = "FILE")]
    local: Option<PathBuf>,

    /// Maximum age of the replica; if it is older, ask the server
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_duration, requires = "local")]
    stale_after: Duration,

    /// Copy the message from standard input to standard output, with an X-Bruit field added at the top
    ///
    /// Existing X-Bruit fields are removed. The exit code is 0 for every verdict, unless writing the output
    /// fails.
    #[arg(long, conflicts_with_all = ["files", "json", "on_error"])]
    header: bool,

    /// Exit code if the server refuses the request or does not answer, for example 2 or 75
    #[arg(long, value_name = "CODE")]
    on_error: Option<u8>,

    /// Print one JSON object per message, one per line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: Server,
}

/// Outcome of checking one message.
type CheckResult = Result<CheckAnswer, ClientError>;

/// A verdict, with a note if a replica was consulted.
#[derive(Debug, Serialize)]
struct CheckAnswer {
    #[serde(flatten)]
    checked: Checked,
    #[serde(skip_serializing_if = "Option::is_none")]
    replica: Option<Note>,
}

/// Minimum recipient count that a replica records.
const REPLICA_RECIPIENTS_MIN: u32 = 16;

pub(crate) fn run(arguments: &CheckArgs, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let question = Checker::new(arguments);
    if arguments.header {
        return header::run(question, output).map(|()| ExitCode::SUCCESS);
    }
    let question = question?;
    let mut output = BufWriter::new(output);
    let (mut is_spam, mut is_bulk, mut error) = (false, false, None);
    let mut tally = CheckTally::default();
    let ask = |message: &[u8]| question.ask(message);
    let was_all_read = for_each_answer(&arguments.messages.input, ask, |place, answer, bar| {
        let is = |verdict| answer.as_ref().is_ok_and(|answered| answered.checked.verdict == verdict);
        is_spam |= is(Verdict::Spam);
        is_bulk |= is(Verdict::Bulk);
        tally.add(&answer);
        if let Ok(CheckAnswer { checked: Checked { count_reason: Some(reason), .. }, .. }) = &answer {
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
            // If the reader closed the output, exit with the code of the verdict. Other verbs exit with 0 in this case,
            // but here 0 means spam.
            Err(Failure::ReaderLeft) => true,
            result => result?,
        };
    if !arguments.json {
        tally.print();
    }
    let unread = (!was_all_read).then_some(ERROR);
    let code = match unread.or(error) {
        _ if is_spam => SPAM,
        None | Some(NOT_SPAM) if is_bulk => BULK,
        fault => fault.unwrap_or(NOT_SPAM),
    };
    Ok(ExitCode::from(code))
}

/// Number of messages with each verdict, for the summary.
#[derive(Default)]
struct CheckTally {
    messages: u64,
    failed: u64,
    spam: u64,
    bulk: u64,
}

impl CheckTally {
    fn add(&mut self, answer: &CheckResult) {
        self.messages += 1;
        match answer.as_ref().map(|answer| answer.checked.verdict) {
            Ok(Verdict::Spam) => self.spam += 1,
            Ok(Verdict::Bulk) => self.bulk += 1,
            Ok(_) => {}
            Err(_) => self.failed += 1,
        }
    }

    fn print(&self) {
        let Self { messages, failed, spam, bulk } = *self;
        print_summary(&format!("{} spam, {} bulk of", grouped(spam), grouped(bulk)), messages, failed);
    }
}

/// Returns the default exit code for a check that failed.
const fn usual_code(error: &ClientError) -> u8 {
    if error.is_passing() { NOT_SPAM } else { ERROR }
}

/// A client, and the options that apply to every check.
struct Checker {
    client: Client,
    signer: Signer,
    sender: Option<String>,
    options: CheckOptions,
    local: Option<Local>,
}

impl Checker {
    fn new(arguments: &CheckArgs) -> Result<Self, Failure> {
        let is_too_low = arguments.bulk_threshold.is_some_and(|threshold| threshold < REPLICA_RECIPIENTS_MIN);
        if arguments.local.is_some() && is_too_low {
            let text = format!(
                "a replica contains only counts of {REPLICA_RECIPIENTS_MIN} or more recipients: raise --bulk-threshold"
            );
            return Err(Failure::BadInput(text));
        }
        let mut client = arguments.server.client(CHECK_TIMEOUT)?;
        if let Some(name) = &arguments.idempotency_key {
            arguments.messages.input.ensure_one_message()?;
            client = client.with_idempotency_key(name).map_err(bad_input)?;
        }
        let mut signer = Signer { names_sender: !arguments.no_sender, ..arguments.messages.signer(Purpose::Check) };
        if arguments.count.is_some() {
            // Always compute DCC checksums, because the server counts recipients by them.
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

    fn ask(&self, message: &[u8]) -> CheckResult {
        let subject = self.signer.subject(message);
        let replica = self.local.as_ref().and_then(|local| local.note(&subject));
        let checked = match replica {
            Some(Note { asked_server: false, .. }) => local::unknown(&subject),
            _ => self.ask_server(subject)?,
        };
        Ok(CheckAnswer { checked, replica })
    }

    fn ask_server(&self, subject: Subject) -> Result<Checked, ClientError> {
        let subject = Subject { sender: self.sender.clone().or(subject.sender), ..subject };
        let checked = self.client.check_with(&subject, self.options)?;
        Ok(match self.options.bulk_threshold {
            // Older servers ignore the requested threshold and do not return the one they applied.
            Some(threshold) if checked.bulk_threshold.is_none() => judge_again(checked, threshold),
            _ => checked,
        })
    }
}

/// Computes the verdict again with `threshold` in place of the server's bulk threshold.
fn judge_again(checked: Checked, threshold: u32) -> Checked {
    let (verdict, reason) = match (checked.verdict, checked.bulk_count >= threshold) {
        (Verdict::Unknown, true) => (Verdict::Bulk, Reason::ManyRecipients),
        (Verdict::Bulk, false) => (Verdict::Unknown, Reason::NotReported),
        _ => return checked,
    };
    Checked { verdict, reason, ..checked }
}

fn print(arguments: &CheckArgs, place: &Place, answer: &CheckResult, output: &mut impl Write) -> Result<(), Failure> {
    if arguments.json {
        return Ok(writeln!(output, "{}", json_line(place, answer))?);
    }
    if let Ok(CheckAnswer { checked, replica }) = answer {
        let replica = replica.map_or_else(String::new, |note| format!(" ({note})"));
        let is_asked = arguments.count.is_some() || arguments.bulk_threshold.is_some();
        let total = || format!("; {} counted", counted(checked.bulk_count.into(), "recipient"));
        let total = if is_asked { total() } else { String::new() };
        writeln!(output, "{}{}{total}{replica}", printable(&place.prefix()), line(checked))?;
    }
    Ok(())
}

/// Formats the verdict and its reason as a line of text.
pub(crate) fn line(checked: &Checked) -> String {
    let confidence = match checked.confidence {
        0 => String::new(),
        confidence => format!(", confidence {confidence}"),
    };
    format!("{}{confidence}: {}", coloured_verdict(checked.verdict.name()), printable(checked.reason.sentence()))
}
