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
use bruit_client::{Client, ClientError, Purpose, Signer};
use serde::Serialize;

use self::local::{Local, Note};
use crate::failure::Failure;
use crate::quantity::{parse_duration, parse_threshold};
use crate::remote::{Messages, Place, Server, for_each_answer, json_line, words};
use crate::terminal::{complain, printable};

/// How long a check may take, unless told.
pub(crate) const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// The exit codes, as those of razor-check and pyzor.
const SPAM: u8 = 0;
const NOT_SPAM: u8 = 1;
const ERROR: u8 = 2;

const AFTER_HELP: &str = "\
Exit codes:
  0  spam; of several messages, at least one
  1  not spam, or nothing is known; also if the server cannot be reached in time, is overloaded, or
     answers nonsense (told on standard error), so that mail never waits
  2  the server refuses, a file cannot be read, or an argument is wrong
--on-error changes what a server that does not answer, or refuses, leads to.

What leaves this machine: signatures, features of the text (from which the text cannot be read), the numbers of
words, files and links, and the sender's address unless --no-sender is given. Default schemes: exact, attachment,
pyzor, razor, dcc, bruit. Messages larger than 64 MiB are not read.

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

    /// Send no sender's address
    #[arg(long, conflicts_with = "sender")]
    no_sender: bool,

    /// What is not known to be spam or good is bulk if so many recipients were counted
    #[arg(long, value_name = "N", value_parser = parse_threshold)]
    bulk_threshold: Option<u32>,

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
    let (mut is_spam, mut error) = (false, None);
    let ask = |message: &[u8]| question.ask(message);
    let was_all_read = for_each_answer(&arguments.messages.input, ask, |place, answer, bar| {
        is_spam |= answer.as_ref().is_ok_and(|told| told.checked.verdict == Verdict::Spam);
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
    let code = if is_spam { SPAM } else { unread.or(error).unwrap_or(NOT_SPAM) };
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
    bulk_threshold: Option<u32>,
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
        let names_sender = !arguments.no_sender && arguments.sender.is_none();
        Ok(Self {
            client: arguments.server.client(CHECK_TIMEOUT)?,
            signer: Signer { names_sender, ..arguments.messages.signer(Purpose::Check) },
            sender: arguments.sender.clone(),
            bulk_threshold: arguments.bulk_threshold,
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
        let mut checked = self.client.check(&subject)?;
        let is_bulk = self.bulk_threshold.is_some_and(|threshold| checked.bulk_count >= threshold);
        if is_bulk && checked.verdict == Verdict::Unknown {
            checked.verdict = Verdict::Bulk;
            checked.reason = "many_recipients".to_owned();
        }
        Ok(checked)
    }
}

fn print(arguments: &Arguments, place: &Place, answer: &Answer, output: &mut impl Write) -> Result<(), Failure> {
    if arguments.json {
        return Ok(writeln!(output, "{}", json_line(place, answer))?);
    }
    if let Ok(Told { checked, replica }) = answer {
        let replica = replica.map_or_else(String::new, |note| format!(" ({note})"));
        writeln!(output, "{}{}{replica}", printable(&place.prefix()), line(checked))?;
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
