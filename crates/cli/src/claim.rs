//! `bruit report` and `bruit revoke`: tells a server that messages are spam, or are not.

use std::io::{BufWriter, Write};
use std::process::ExitCode;
use std::time::Duration;

use bruit_client::http::Claimed;
use bruit_client::{ClientError, Purpose};

use crate::failure::Failure;
use crate::quantity::counted;
use crate::remote::{Messages, Place, Server, for_each_answer, json_line};
use crate::terminal::{complain, printable};

/// How long a claim may take, unless told: it is on disk when it is answered.
pub(crate) const CLAIM_TIMEOUT: Duration = Duration::from_secs(30);

const AFTER_HELP: &str = "\
Exit codes: 0 if every claim was taken and is on the server's disk, 2 if one was refused or failed, or if a message
has nothing that can be claimed, such as a bare \"see attachment\".

What leaves this machine: signatures, features of the text (from which the text cannot be read), and the numbers
of words, files and links. Default schemes: exact, attachment, pyzor, razor_e4, bruit. A report claims only the
main content of the message: its own text, or its files if there is hardly any text. Logos, footers and quotations
also occur in good mail and are not claimed. A revocation covers the whole message. With --scheme, exactly the named
schemes are claimed. Messages larger than 64 MiB are not read.

Examples:
  bruit report spam.eml              one message
  bruit report Maildir/.Junk         all of a folder
  bruit revoke < message             it was no spam";

/// What `bruit report` and `bruit revoke` are asked.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    messages: Messages,

    /// Print one JSON object a line for each message
    #[arg(long)]
    json: bool,

    /// Person on whose behalf the claim is made, for a token with reporters = true
    #[arg(long, value_name = "NAME")]
    reporter: Option<String>,

    #[command(flatten)]
    server: Server,
}

/// What is claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// It is spam.
    Report,
    /// It is not.
    Revoke,
}

type Answer = Result<Claimed, ClientError>;

pub(crate) fn run(arguments: &Arguments, claim: Claim, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let mut client = arguments.server.client(CLAIM_TIMEOUT)?;
    if let Some(name) = &arguments.reporter {
        client = client.with_reporter(name)?;
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
    let mut is_done = true;
    let was_all_read = for_each_answer(&arguments.messages.input, ask, |place, answer, bar| {
        if let Some(fault) = fault(&answer) {
            is_done = false;
            bar.suspend(|| complain(&format!("{}{fault}", place.prefix())));
        }
        print(arguments, place, claim, &answer, &mut output)
    })?;
    output.flush()?;
    Ok(if is_done && was_all_read { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// What went wrong, if anything did.
fn fault(answer: &Answer) -> Option<String> {
    match answer {
        Err(error) => Some(error.to_string()),
        Ok(claimed) if claimed.refused > 0 => {
            let reason = claimed.reason.as_deref().unwrap_or("no reason is given");
            Some(format!("{} refused: {reason}", counted(claimed.refused.into(), "signature")))
        }
        Ok(claimed) if claimed.accepted == 0 && claimed.ignored > 0 => {
            Some("nothing was claimed: all of its signatures are whitelisted".to_owned())
        }
        Ok(claimed) if claimed.accepted == 0 => {
            let reason = claimed.reason.as_deref().unwrap_or("it has no signature");
            Some(format!("nothing was claimed: {reason}"))
        }
        Ok(_) => None,
    }
}

fn print(
    arguments: &Arguments,
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

/// What was taken, for people.
fn line(claim: Claim, claimed: &Claimed) -> String {
    let (verb, effect) = match claim {
        Claim::Report => ("reported", format!("{} listed", claimed.listed)),
        Claim::Revoke => ("revoked", format!("{} taken off", claimed.revoked)),
    };
    let ignored = match claimed.ignored {
        0 => String::new(),
        ignored => format!(", {ignored} whitelisted"),
    };
    // The claim stands, but something that belongs to it was not stored.
    let note = claimed.reason.as_ref().map(|reason| format!("; {reason}")).unwrap_or_default();
    format!("{verb}: {} accepted, {effect}{ignored}{note}", counted(claimed.accepted.into(), "signature"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_that_had_no_effect_is_told() {
        let fault = |accepted, ignored, refused| {
            let reason = Some("too many".to_owned());
            fault(&Ok(Claimed { accepted, ignored, refused, reason, ..Claimed::default() }))
        };
        assert_eq!(fault(3, 1, 0), None);
        assert_eq!(fault(3, 0, 1).unwrap(), "1 signature refused: too many");
        assert!(fault(0, 2, 0).unwrap().ends_with("whitelisted"));
        assert_eq!(fault(0, 0, 0).unwrap(), "nothing was claimed: too many");
    }

    #[test]
    fn a_line_says_what_was_taken() {
        let claimed = Claimed { accepted: 5, listed: 4, revoked: 1, ignored: 2, ..Claimed::default() };
        assert_eq!(line(Claim::Report, &claimed), "reported: 5 signatures accepted, 4 listed, 2 whitelisted");
        let claimed = Claimed { ignored: 0, accepted: 1, ..claimed };
        assert_eq!(line(Claim::Revoke, &claimed), "revoked: 1 signature accepted, 1 taken off");
        let claimed = Claimed { reason: Some("no room".to_owned()), ..claimed };
        assert_eq!(line(Claim::Revoke, &claimed), "revoked: 1 signature accepted, 1 taken off; no room");
    }
}
