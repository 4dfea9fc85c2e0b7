//! `bruit report` and `bruit revoke`: claim that messages are spam, or that they are not.

mod claimant;

use std::borrow::Cow;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use bruit_client::http::Claimed;
use bruit_client::spool::SendLimits;
use bruit_signatures::message::{ATTACHED_MAX, Attached, NESTING_MAX};
use serde_json::{Value, json};

use crate::remote::{Messages, Place, Server, for_each_answer, json_line, print_summary};
use crate::rspamd::{Controller, LessonArgs};
use bruit_console::Failure;
use bruit_console::quantity::counted;
use bruit_console::terminal::{complain, printable};
use claimant::{ClaimResult, Claimant, LessonResult, Outcome};

/// Default time limit of a claim. It is longer than the limit of a check, because the server answers only once the
/// claim is on disk.
pub(crate) const CLAIM_TIMEOUT: Duration = Duration::from_secs(30);

/// Limits on the part of the spool that is sent after a claim.
///
/// A Sieve script may run for 10 seconds. With `--timeout 2s`, these 10 seconds are enough for the spool's lock (2 s),
/// the claim (2 s), rspamd (2 s) and this part of the spool (2.5 s).
const SEND_LIMITS: SendLimits = SendLimits { reports: 20, time: Duration::from_secs(2) };

const AFTER_HELP: &str = "\
Exit codes:
  0  every claim was accepted and is on the server's disk, or is in the spool
  2  error: a claim was refused or failed, or a message has no content to claim, such as a bare \"see \
  attachment\"
  3  the claims were made, but rspamd did not learn a message (with --rspamd)

Data sent to the server: signatures, features of the text (from which the text cannot be reconstructed), and \
the numbers of words, files and links. Default schemes: exact, attachment, pyzor, razor_e4, bruit. A report \
claims only the main content of the message: its own text, or its files if there is hardly any text. Logos, \
footers and quotations also occur in good mail and are not claimed. A revocation covers the whole message. \
With --scheme, exactly the signatures of these schemes are claimed. Messages larger than 64 MiB are skipped.

With --spool, a claim is kept in DIR until the server has answered. The next 'bruit report --spool' or 'bruit spool \
send' sends the claims in DIR. A claim counts once, even if an answer was lost. The folder is created for its owner \
only; use one folder for each server.

With --attached, the input is a report that a user forwarded: the claims are about the messages attached to it. Use \
this option only for mail from authenticated users, because anyone can send such a message.

With --rspamd, the message is also sent to your rspamd's controller: a report uses fuzzyadd, a revocation fuzzydel. \
An rspamd error never prevents a claim. With --spool, messages of at most 2 MiB are kept until rspamd has answered.

Examples:
  bruit report spam.eml              report one message
  bruit report Maildir/.Junk         report all messages in a folder
  bruit revoke < message             revoke a report: the message is not spam
  bruit report --spool /var/spool/bruit --timeout 2s < message
  bruit report --attached --reporter ann < forwarded-report
  bruit report --rspamd http://127.0.0.1:11334 < message";

/// Exit code if a claim failed.
const FAILED: u8 = 2;

/// Exit code if rspamd did not learn a message.
const UNLEARNED: u8 = 3;

/// Arguments of `bruit report` and `bruit revoke`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ClaimArgs {
    #[command(flatten)]
    messages: Messages,

    /// Print one JSON object per message, one per line
    #[arg(long)]
    json: bool,

    /// Person who makes the claim; requires a token with reporters = true
    #[arg(long, value_name = "NAME")]
    reporter: Option<String>,

    /// Keep claims in this folder until the server has answered
    #[arg(long, value_name = "DIR", env = "BRUIT_SPOOL")]
    spool: Option<PathBuf>,

    /// Make claims about the messages that are attached to the input, not about the input itself
    #[arg(long)]
    attached: bool,

    #[command(flatten)]
    rspamd: Controller,

    #[command(flatten)]
    lesson: LessonArgs,

    #[command(flatten)]
    server: Server,
}

/// Kind of claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The message is spam.
    Report,
    /// The message is not spam.
    Revoke,
}

pub(crate) fn run(arguments: &ClaimArgs, claim: Claim, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let claimant = Claimant::new(arguments, claim)?;
    let ask = |message: &[u8]| match arguments.attached {
        true => make_attached(&claimant, message),
        false => vec![claimant.make(message)],
    };
    let mut output = BufWriter::new(output);
    let mut tally = ClaimTally::default();
    let was_all_read = for_each_answer(&arguments.messages.input, ask, |place, outcomes, bar| {
        outcomes.iter().try_for_each(|outcome| {
            tally.add(outcome);
            let prefix = prefix(place, outcome);
            for fault in fault(&outcome.claim).into_iter().chain(lesson_fault(outcome)) {
                bar.suspend(|| complain(&format!("{prefix}{fault}")));
            }
            print(arguments, place, claim, outcome, &mut output)
        })
    })?;
    output.flush()?;
    if !arguments.json {
        print_summary(
            match claim {
                Claim::Report => "reported",
                Claim::Revoke => "revoked",
            },
            tally.messages - tally.failed,
            tally.failed,
        );
    }
    claimant.send_waiting();
    Ok(match (tally.failed == 0 && was_all_read, tally.unlearned) {
        (false, _) => ExitCode::from(FAILED),
        (true, 0) => ExitCode::SUCCESS,
        (true, _) => ExitCode::from(UNLEARNED),
    })
}

/// Numbers of messages, for the summary and the exit code.
#[derive(Default)]
struct ClaimTally {
    messages: u64,
    /// Messages without a claim, because of an error.
    failed: u64,
    /// Messages that rspamd did not learn.
    unlearned: u64,
}

impl ClaimTally {
    fn add(&mut self, outcome: &Outcome) {
        self.messages += 1;
        self.failed += u64::from(fault(&outcome.claim).is_some());
        self.unlearned += u64::from(lesson_fault(outcome).is_some());
    }
}

/// Makes a claim about each message that is attached to `message`.
fn make_attached(claimant: &Claimant<'_>, message: &[u8]) -> Vec<Outcome> {
    let attached = Attached::of(message);
    let all = attached.messages.len();
    let numbered =
        |(at, message): (usize, &Cow<'_, [u8]>)| Outcome { attachment: Some((at + 1, all)), ..claimant.make(message) };
    let mut outcomes: Vec<_> = attached.messages.iter().enumerate().map(numbered).collect();
    if attached.is_cut {
        outcomes.push(Outcome::failed(format!(
            "some attachments were ignored: a report can have at most {ATTACHED_MAX} \
             attached messages, nested at most {NESTING_MAX} levels deep"
        )));
    } else if outcomes.is_empty() {
        outcomes.push(Outcome::failed(
            "no message is attached: expected an attachment of type message/rfc822, as made by \"forward as attachment\""
                .to_owned(),
        ));
    }
    outcomes
}

/// Returns an error message if the claim failed or had no effect.
fn fault(result: &ClaimResult) -> Option<String> {
    match result {
        ClaimResult::Failed(error) => Some(error.clone()),
        ClaimResult::Spooled(_) => None,
        ClaimResult::Answered(Err(error)) => Some(error.to_string()),
        ClaimResult::Answered(Ok(claimed)) if claimed.refused > 0 => {
            let reason = claimed.reason.as_deref().unwrap_or("no reason given");
            Some(format!("{} refused: {reason}", counted(claimed.refused.into(), "signature")))
        }
        ClaimResult::Answered(Ok(claimed)) if claimed.accepted == 0 && claimed.ignored > 0 => {
            Some("no claim was made: all signatures of the message are whitelisted".to_owned())
        }
        ClaimResult::Answered(Ok(claimed)) if claimed.accepted == 0 => {
            let reason = claimed.reason.as_deref().unwrap_or("the message has no signature");
            Some(format!("no claim was made: {reason}"))
        }
        ClaimResult::Answered(Ok(_)) => None,
    }
}

/// Returns an error message if rspamd did not learn the message.
fn lesson_fault(outcome: &Outcome) -> Option<String> {
    match &outcome.lesson {
        Some(LessonResult::Failed(error)) => Some(error.clone()),
        _ => None,
    }
}

/// Returns the prefix of the lines about a message: the file, and the number of the attachment if there are several.
fn prefix(place: &Place, outcome: &Outcome) -> String {
    match outcome.attachment {
        Some((number, 2..)) => format!("{}attached message {number}: ", place.prefix()),
        _ => place.prefix(),
    }
}

fn print(
    arguments: &ClaimArgs,
    place: &Place,
    claim: Claim,
    outcome: &Outcome,
    output: &mut impl Write,
) -> Result<(), Failure> {
    if arguments.json {
        return Ok(writeln!(output, "{}", json(place, outcome))?);
    }
    let text = match &outcome.claim {
        ClaimResult::Answered(Ok(claimed)) => Some(line(claim, claimed)),
        ClaimResult::Spooled(cause) => Some(format!("spooled: {cause}")),
        ClaimResult::Answered(Err(_)) | ClaimResult::Failed(_) => None,
    };
    let lesson = match &outcome.lesson {
        Some(LessonResult::Learned) => Some("learned by rspamd".to_owned()),
        Some(LessonResult::Spooled(cause)) => Some(format!("spooled for rspamd: {cause}")),
        Some(LessonResult::Failed(_)) | None => None,
    };
    let prefix = prefix(place, outcome);
    for text in text.into_iter().chain(lesson) {
        writeln!(output, "{}{}", printable(&prefix), printable(&text))?;
    }
    Ok(())
}

/// Returns the results as JSON.
fn json(place: &Place, outcome: &Outcome) -> Value {
    let mut value = match &outcome.claim {
        ClaimResult::Answered(answer) => json_line(place, answer),
        ClaimResult::Spooled(cause) => json_line(place, &Ok(json!({ "spooled": true, "cause": cause }))),
        ClaimResult::Failed(error) => json_line(place, &Ok(json!({ "error": error }))),
    };
    if let Some((number, _)) = outcome.attachment {
        value["attachment"] = json!(number);
    }
    match &outcome.lesson {
        Some(LessonResult::Learned) => value["rspamd"] = json!({ "learned": true }),
        Some(LessonResult::Spooled(cause)) => value["rspamd"] = json!({ "spooled": true, "cause": cause }),
        Some(LessonResult::Failed(error)) => value["rspamd"] = json!({ "error": error }),
        None => {}
    }
    value
}

/// Formats the answer as a line of text.
fn line(claim: Claim, claimed: &Claimed) -> String {
    let (verb, effect) = match claim {
        _ if claimed.repeated => ("already made", format!("{} listed, {} revoked", claimed.listed, claimed.revoked)),
        Claim::Report => ("reported", format!("{} listed", claimed.listed)),
        Claim::Revoke => ("revoked", format!("{} delisted", claimed.revoked)),
    };
    let ignored = match claimed.ignored {
        0 => String::new(),
        ignored => format!(", {ignored} whitelisted"),
    };
    // The claim was accepted, but other data of the report, such as the text, was not stored.
    let note = claimed.reason.as_ref().map(|reason| format!("; {reason}")).unwrap_or_default();
    format!("{verb}: {} accepted, {effect}{ignored}{note}", counted(claimed.accepted.into(), "signature"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_without_effect_is_reported() {
        let fault = |accepted, ignored, refused| {
            let reason = Some("too many".to_owned());
            fault(&ClaimResult::Answered(Ok(Claimed { accepted, ignored, refused, reason, ..Claimed::default() })))
        };
        assert_eq!(fault(3, 1, 0), None);
        assert_eq!(fault(3, 0, 1).unwrap(), "1 signature refused: too many");
        assert!(fault(0, 2, 0).unwrap().ends_with("whitelisted"));
        assert_eq!(fault(0, 0, 0).unwrap(), "no claim was made: too many");
    }

    #[test]
    fn a_line_contains_the_numbers_of_signatures() {
        let claimed = Claimed { accepted: 5, listed: 4, revoked: 1, ignored: 2, ..Claimed::default() };
        assert_eq!(line(Claim::Report, &claimed), "reported: 5 signatures accepted, 4 listed, 2 whitelisted");
        let claimed = Claimed { ignored: 0, accepted: 1, ..claimed };
        assert_eq!(line(Claim::Revoke, &claimed), "revoked: 1 signature accepted, 1 delisted");
        let claimed = Claimed { reason: Some("no room".to_owned()), ..claimed };
        assert_eq!(line(Claim::Revoke, &claimed), "revoked: 1 signature accepted, 1 delisted; no room");
    }
}
