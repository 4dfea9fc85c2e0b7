//! `bruit explain`: the evidence behind a verdict.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use bruit_client::http::{Evidence, Explained, ExplainedSignature, NamedSignature, Outline, Reason, Subject};
use bruit_client::{ClientError, Purpose, Signer};
use bruit_engine::time::Time;

use crate::check::CHECK_TIMEOUT;
use crate::remote::{Messages, Place, Server, for_each_answer, json_line};
use bruit_console::Failure;
use bruit_console::date::date;
use bruit_console::failure::bad_input;
use bruit_console::quantity::{counted, grouped};
use bruit_console::terminal::{coloured_verdict, complain, printable};

const AFTER_HELP: &str = "\
Requires an administrator's token or one with monitor = true, because the output has more detail than the answer to \
a check. Data sent to the server: the same as for 'bruit check'. Generations are numbered by age; 0 is the current one.

Exit codes:
  0  every message was explained
  2  error: the server refused or failed, or a file could not be read

Examples:
  bruit explain message.eml
  bruit explain --scheme pyzor --json < message | jq '.signatures[].evidence'
  bruit explain --signature exact:189c39547f214f4c...    the signature in a refusal of 'bruit milter'";

/// Arguments of `bruit explain`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    messages: Messages,

    /// Explain this signature instead of a message, for example one from the text of a refusal
    #[arg(long, value_name = "SCHEME:VALUE", value_parser = parse_signature, conflicts_with_all = ["files", "no_sender"])]
    signature: Option<NamedSignature>,

    /// Do not send the sender's address
    #[arg(long)]
    no_sender: bool,

    /// Print one JSON object per message, one per line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: Server,
}

type ExplainResult = Result<Explained, ClientError>;

pub(crate) fn run(arguments: &ExplainArgs, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let client = arguments.server.admin_client(CHECK_TIMEOUT)?;
    let signer = Signer { names_sender: !arguments.no_sender, ..arguments.messages.signer(Purpose::Check) };
    let ask = |message: &[u8]| -> ExplainResult {
        let subject: Subject = signer.subject(message);
        client.explain(&subject)
    };
    let mut output = BufWriter::new(output);
    if let Some(signature) = &arguments.signature {
        let subject = Subject { signatures: vec![signature.clone()], ..Subject::default() };
        let explained = client.explain(&subject).map_err(bad_input)?;
        print(arguments, &Place::unnamed(), &Ok(explained), &mut output)?;
        output.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut is_answered = true;
    let was_all_read = for_each_answer(&arguments.messages.input, ask, |place, answer, bar| {
        if let Err(error) = &answer {
            is_answered = false;
            bar.suspend(|| complain(&format!("{}{error}", place.prefix())));
        }
        Ok(print(arguments, place, &answer, &mut output)?)
    })?;
    output.flush()?;
    Ok(if is_answered && was_all_read { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// Parses a signature after the name of its scheme.
fn parse_signature(text: &str) -> Result<NamedSignature, String> {
    let (scheme, value) = text.split_once(':').ok_or("expected SCHEME:VALUE, such as exact:189c39...")?;
    let named = NamedSignature { scheme: scheme.to_owned(), value: value.to_owned(), piece: None };
    named.signature().map_err(|error| error.to_string())?;
    Ok(named)
}

fn print(arguments: &ExplainArgs, place: &Place, answer: &ExplainResult, output: &mut impl Write) -> io::Result<()> {
    if arguments.json {
        return writeln!(output, "{}", json_line(place, answer));
    }
    let Ok(explained) = answer else { return Ok(()) };
    let prefix = printable(&place.prefix());
    writeln!(output, "{prefix}{}", verdict(explained.verdict.name(), explained.confidence, &explained.reason))?;
    if explained.coverage > 0 {
        writeln!(output, "  the evidence covers {} % of the message", explained.coverage)?;
    }
    if let Some(Outline { words, own_words, files, .. }) = explained.outline {
        let (own, all) = (u64::from(own_words), u64::from(words));
        writeln!(
            output,
            "  {} of its own, {} including quotations, {}",
            counted(own, "word"),
            grouped(all),
            counted(files.into(), "file")
        )?;
    }
    if let Some(is_whitelisted) = explained.sender_whitelisted {
        let not = if is_whitelisted { "" } else { "not " };
        writeln!(output, "  the sender is {not}whitelisted")?;
    }
    if explained.bulk_count > 0 {
        writeln!(output, "  {} counted", counted(explained.bulk_count.into(), "recipient"))?;
    }
    explained.signatures.iter().try_for_each(|signature| print_signature(signature, output))
}

fn print_signature(signature: &ExplainedSignature, output: &mut impl Write) -> io::Result<()> {
    let checked = &signature.checked;
    let value = checked.value.as_deref().unwrap_or("the text");
    writeln!(output, "  {} {}", printable(&checked.scheme), printable(value))?;
    let mut lines = vec![verdict(checked.verdict.name(), checked.confidence, &checked.reason)];
    lines.extend(checked.decided.then(|| "decided the verdict".to_owned()));
    lines.extend(checked.of_message.zip(checked.of_report).map(|(of_message, of_report)| {
        format!("matches {of_message} % of this message and {of_report} % of the claimed text")
    }));
    lines.extend(checked.limit.as_ref().map(|limit| format!("did not count: {}", printable(limit.sentence()))));
    lines.extend(signature.whitelisted.as_deref().map(|by| format!("whitelisted by: {}", printable(by))));
    lines.extend(generations("listed", &signature.listed));
    lines.extend(generations("revoked", &signature.revoked));
    lines.extend(signature.reinstated.then(|| "listed despite its revocation".to_owned()));
    lines.extend(signature.claims.iter().map(|claims| {
        let flag = if claims.flag == 0 { String::new() } else { format!(", flag {}", claims.flag) };
        let (reports, revokes) = (u64::from(claims.report_count), u64::from(claims.revoke_count));
        format!("since {}: {}, {}{flag}", day(claims.since), counted(reports, "report"), counted(revokes, "revocation"))
    }));
    lines.extend(signature.recipients.iter().map(|recipients| {
        format!("since {}: {}", day(recipients.since), counted(recipients.bulk_count.into(), "recipient"))
    }));
    lines.extend(signature.evidence.as_ref().map(evidence));
    lines.extend(
        signature
            .first_seen
            .zip(signature.last_seen)
            .map(|(first, last)| format!("first seen {}, last seen {}", day(first), day(last))),
    );
    lines.iter().try_for_each(|line| writeln!(output, "    {line}"))
}

fn verdict(verdict: &str, confidence: u8, reason: &Reason) -> String {
    let confidence = if confidence == 0 { String::new() } else { format!(", confidence {confidence}") };
    format!("{}{confidence}: {}", coloured_verdict(verdict), printable(reason.sentence()))
}

fn generations(what: &str, ages: &[u32]) -> Option<String> {
    let text = ages.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    (!ages.is_empty()).then(|| format!("{what} in generations {text}"))
}

fn evidence(evidence: &Evidence) -> String {
    let Evidence { level, score, spam, ham, groups, anchored_reports, own_reports, own_revokes, .. } = evidence;
    let trap = if evidence.trap { ", a trap" } else { "" };
    let promoted = evidence.promoted.map_or_else(String::new, |time| format!("; listed {}", day(time)));
    format!(
        "evidence: {}, score {score:.2} (spam {spam:.2}, ham {ham:.2}) from {}, {anchored_reports} of them anchored{trap}; own \
         users: {} for spam, {} against{promoted}",
        printable(level),
        counted((*groups).into(), "group"),
        grouped((*own_reports).into()),
        grouped((*own_revokes).into()),
    )
}

fn day(time: u64) -> String {
    date(Time(time))
}
