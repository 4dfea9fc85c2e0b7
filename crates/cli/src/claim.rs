//! `bruit report` and `bruit revoke`: claim that messages are spam, or that they are not.

use std::io::{BufWriter, Write};
use std::process::ExitCode;
use std::time::Duration;

use bruit_client::http::Claimed;
use bruit_client::{ClientError, Purpose};

use crate::remote::{Messages, Place, Server, for_each_answer, json_line, print_summary};
use bruit_console::Failure;
use bruit_console::failure::bad_input;
use bruit_console::quantity::counted;
use bruit_console::terminal::{complain, printable};

/// Default time limit of a claim. It is longer than that of a check, because the server answers only once the claim is
/// on disk.
pub(crate) const CLAIM_TIMEOUT: Duration = Duration::from_secs(30);

const AFTER_HELP: &str = "\
Exit codes:
  0  every claim was accepted and is on the server's disk
  2  error: a claim was refused or failed, or a message has no content to claim, such as a bare \"see \
  attachment\"

Data sent to the server: signatures, features of the text (from which the text cannot be reconstructed), and \
the numbers of words, files and links. Default schemes: exact, attachment, pyzor, razor_e4, bruit. A report \
claims only the main content of the message: its own text, or its files if there is hardly any text. Logos, \
footers and quotations also occur in good mail and are not claimed. A revocation covers the whole message. \
With --scheme, exactly the signatures of these schemes are claimed. Messages larger than 64 MiB are skipped.

Examples:
  bruit report spam.eml              report one message
  bruit report Maildir/.Junk         report all messages in a folder
  bruit revoke < message             revoke a report: the message is not spam";

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

pub(crate) fn run(arguments: &ClaimArgs, claim: Claim, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let mut client = arguments.server.client(CLAIM_TIMEOUT)?;
    if let Some(name) = &arguments.reporter {
        client = client.with_reporter(name).map_err(bad_input)?;
    }
    let signer = arguments.messages.signer(Purpose::Claim);
    let ask = |message: &[u8]| {
        let subject = signer.subject(message);
        match claim {
            Claim::Report => client.report(&subject),
            Claim::Revoke => client.revoke(&subject),
        }
    };
    let mut output = BufWriter::new(output);
    let (mut messages, mut failed) = (0, 0);
    let was_all_read = for_each_answer(&arguments.messages.input, ask, |place, answer, bar| {
        messages += 1;
        if let Some(fault) = fault(&answer) {
            failed += 1;
            bar.suspend(|| complain(&format!("{}{fault}", place.prefix())));
        }
        print(arguments, place, claim, &answer, &mut output)
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
    Ok(if failed == 0 && was_all_read { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// Returns an error message if the claim failed or had no effect.
fn fault(answer: &Answer) -> Option<String> {
    match answer {
        Err(error) => Some(error.to_string()),
        Ok(claimed) if claimed.refused > 0 => {
            let reason = claimed.reason.as_deref().unwrap_or("no reason given");
            Some(format!("{} refused: {reason}", counted(claimed.refused.into(), "signature")))
        }
        Ok(claimed) if claimed.accepted == 0 && claimed.ignored > 0 => {
            Some("no claim was made: all signatures of the message are whitelisted".to_owned())
        }
        Ok(claimed) if claimed.accepted == 0 => {
            let reason = claimed.reason.as_deref().unwrap_or("the message has no signature");
            Some(format!("no claim was made: {reason}"))
        }
        Ok(_) => None,
    }
}

fn print(
    arguments: &ClaimArgs,
    place: &Place,
    claim: Claim,
    answer: &Answer,
    output: &mut impl Write,
) -> Result<(), Failure> {
    if arguments.json {
        return Ok(writeln!(output, "{}", json_line(place, answer))?);
    }
    if let Ok(claimed) = answer {
        writeln!(output, "{}{}", printable(&place.prefix()), printable(&line(claim, claimed)))?;
    }
    Ok(())
}

/// Formats the answer as a line of text.
fn line(claim: Claim, claimed: &Claimed) -> String {
    let (verb, effect) = match claim {
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
            fault(&Ok(Claimed { accepted, ignored, refused, reason, ..Claimed::default() }))
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
