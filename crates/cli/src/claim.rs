//! `bruit report` and `bruit revoke`: claim that messages are spam, or that they are not.

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bruit_client::http::{Claimed, Subject};
use bruit_client::spool::{ClaimKind, SendLimits, Sending, Spool, SpoolError, SpooledReport, is_down};
use bruit_client::{Client, ClientError, Purpose};
use serde_json::json;

use crate::remote::{Messages, Place, Server, for_each_answer, json_line, print_summary};
use crate::spool::send_some;
use bruit_console::Failure;
use bruit_console::date;
use bruit_console::failure::bad_input;
use bruit_console::quantity::counted;
use bruit_console::terminal::{complain, printable};

/// Default time limit of a claim. It is longer than that of a check, because the server answers only once the claim is
/// on disk.
pub(crate) const CLAIM_TIMEOUT: Duration = Duration::from_secs(30);

/// The part of the spool that is sent after a claim.
///
/// A Sieve script has 10 seconds. With `--timeout 2s`, the lock of the spool (2 s), the claim (2 s) and this part (2.5 s)
/// fit in.
const SEND_LIMITS: SendLimits = SendLimits { reports: 20, time: Duration::from_secs(2) };

const AFTER_HELP: &str = "\
Exit codes:
  0  every claim was accepted and is on the server's disk, or is in the spool
  2  error: a claim was refused or failed, or a message has no content to claim, such as a bare \"see \
  attachment\"

Data sent to the server: signatures, features of the text (from which the text cannot be reconstructed), and \
the numbers of words, files and links. Default schemes: exact, attachment, pyzor, razor_e4, bruit. A report \
claims only the main content of the message: its own text, or its files if there is hardly any text. Logos, \
footers and quotations also occur in good mail and are not claimed. A revocation covers the whole message. \
With --scheme, exactly the signatures of these schemes are claimed. Messages larger than 64 MiB are skipped.

With --spool, a claim is kept in DIR until the server has answered, and sent by the next 'bruit report --spool' or by \
'bruit spool send'. It counts once, even if an answer was lost. The folder is created for its owner only; use one folder \
for each server.

Examples:
  bruit report spam.eml              report one message
  bruit report Maildir/.Junk         report all messages in a folder
  bruit revoke < message             revoke a report: the message is not spam
  bruit report --spool /var/spool/bruit --timeout 2s < message";

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

type Answer = Result<Claimed, ClientError>;

/// The result of a claim.
enum Made {
    /// The server answered, or there is no spool.
    Answered(Answer),
    /// The claim is in the spool, because of this error.
    Spooled(String),
    /// The spool failed. It is not known whether the claim will be sent.
    Failed(SpoolError),
}

/// Makes claims.
struct Claimant<'a> {
    claim: Claim,
    reporter: Option<&'a str>,
    client: Client,
    spool: Option<Spool>,
    /// True once the server did not answer. Later claims are only stored, so that each command ends soon.
    is_down: AtomicBool,
}

impl<'a> Claimant<'a> {
    fn new(arguments: &'a ClaimArgs, claim: Claim) -> Result<Self, Failure> {
        let client = arguments.server.client(CLAIM_TIMEOUT)?;
        let reporter = arguments.reporter.as_deref();
        // An invalid name is an error now, not when the spool is sent.
        reporter.map(|name| client.clone().with_reporter(name)).transpose().map_err(bad_input)?;
        let spool = arguments.spool.as_deref().map(Spool::open).transpose().map_err(bad_input)?;
        Ok(Self { claim, reporter, client, spool, is_down: AtomicBool::new(false) })
    }

    fn make(&self, subject: Subject) -> Made {
        let kind = match self.claim {
            Claim::Report => ClaimKind::Report,
            Claim::Revoke => ClaimKind::Revoke,
        };
        let Some(spool) = &self.spool else { return Made::Answered(self.send(&subject)) };
        match SpooledReport::new(kind, self.reporter, subject, date::now().0) {
            Ok(report) => self.make_by_spool(spool, report),
            Err(error) => Made::Failed(error),
        }
    }

    fn send(&self, subject: &Subject) -> Answer {
        let client = self.client.clone();
        let client = if let Some(name) = self.reporter { client.with_reporter(name)? } else { client };
        match self.claim {
            Claim::Report => client.report(subject),
            Claim::Revoke => client.revoke(subject),
        }
    }

    fn make_by_spool(&self, spool: &Spool, report: SpooledReport) -> Made {
        let stored = match spool.store(report.clone()) {
            Ok(stored) => stored,
            Err(error) => {
                complain(&format!("{error}: sending without it"));
                return Made::Answered(self.client.send_spooled(&report));
            }
        };
        if self.is_down.load(Ordering::Relaxed) {
            return Made::Spooled("the server did not answer before".to_owned());
        }
        let attempt = spool.send_one(&self.client, stored);
        if let Some(fault) = attempt.fault {
            complain(&fault.to_string());
        }
        match attempt.result {
            Sending::Answered(claimed) => Made::Answered(Ok(claimed)),
            Sending::Waits(error) => {
                self.is_down.fetch_or(is_down(&error), Ordering::Relaxed);
                Made::Spooled(error.to_string())
            }
            Sending::Refused(error) => Made::Answered(Err(error)),
            _ => Made::Spooled("not sent".to_owned()),
        }
    }

    /// Sends a part of what else waits in the spool, if the server answers.
    fn send_waiting(&self) {
        if let Some(spool) = self.spool.as_ref().filter(|_| !self.is_down.load(Ordering::Relaxed)) {
            send_some(spool, &self.client, SEND_LIMITS);
        }
    }
}

pub(crate) fn run(arguments: &ClaimArgs, claim: Claim, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let claimant = Claimant::new(arguments, claim)?;
    let signer = arguments.messages.signer(Purpose::Claim);
    let ask = |message: &[u8]| claimant.make(signer.subject(message));
    let mut output = BufWriter::new(output);
    let (mut messages, mut failed) = (0, 0);
    let was_all_read = for_each_answer(&arguments.messages.input, ask, |place, made, bar| {
        messages += 1;
        if let Some(fault) = fault(&made) {
            failed += 1;
            bar.suspend(|| complain(&format!("{}{fault}", place.prefix())));
        }
        print(arguments, place, claim, &made, &mut output)
    })?;
    output.flush()?;
    if !arguments.json {
        print_summary(
            match claim {
                Claim::Report => "reported",
                Claim::Revoke => "revoked",
            },
            messages - failed,
            failed,
        );
    }
    claimant.send_waiting();
    Ok(if failed == 0 && was_all_read { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// Returns an error message if the claim failed or had no effect.
fn fault(made: &Made) -> Option<String> {
    match made {
        Made::Failed(error) => Some(error.to_string()),
        Made::Spooled(_) => None,
        Made::Answered(Err(error)) => Some(error.to_string()),
        Made::Answered(Ok(claimed)) if claimed.refused > 0 => {
            let reason = claimed.reason.as_deref().unwrap_or("no reason given");
            Some(format!("{} refused: {reason}", counted(claimed.refused.into(), "signature")))
        }
        Made::Answered(Ok(claimed)) if claimed.accepted == 0 && claimed.ignored > 0 => {
            Some("no claim was made: all signatures of the message are whitelisted".to_owned())
        }
        Made::Answered(Ok(claimed)) if claimed.accepted == 0 => {
            let reason = claimed.reason.as_deref().unwrap_or("the message has no signature");
            Some(format!("no claim was made: {reason}"))
        }
        Made::Answered(Ok(_)) => None,
    }
}

fn print(
    arguments: &ClaimArgs,
    place: &Place,
    claim: Claim,
    made: &Made,
    output: &mut impl Write,
) -> Result<(), Failure> {
    let text = match made {
        Made::Answered(answer) if arguments.json => return Ok(writeln!(output, "{}", json_line(place, answer))?),
        Made::Spooled(cause) if arguments.json => {
            let value = Ok(json!({ "spooled": true, "cause": cause }));
            return Ok(writeln!(output, "{}", json_line(place, &value))?);
        }
        Made::Failed(error) if arguments.json => {
            let value = Ok(json!({ "error": error.to_string() }));
            return Ok(writeln!(output, "{}", json_line(place, &value))?);
        }
        Made::Answered(Ok(claimed)) => line(claim, claimed),
        Made::Spooled(cause) => format!("spooled: {cause}"),
        Made::Answered(Err(_)) | Made::Failed(_) => return Ok(()),
    };
    Ok(writeln!(output, "{}{}", printable(&place.prefix()), printable(&text))?)
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
    // The claim was accepted, but some related data was not stored.
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
            fault(&Made::Answered(Ok(Claimed { accepted, ignored, refused, reason, ..Claimed::default() })))
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
