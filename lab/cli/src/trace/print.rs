//! Output of `bruit-lab trace query`, as text and JSON.

use std::io::{self, Write};

use bruit_forensics::pages::Span;
use bruit_forensics::traceback::{
    Hop, Path, Question, Sighting, Subject, Topology, Trace, false_positive, false_positives_expected,
};
use serde_json::{Value, json};

use bruit_console::quantity::scientific;
use bruit_console::terminal::printable;

/// Maximum number of spans printed per router. If there are more, only their number is printed.
const SPANS_SHOWN: usize = 3;

/// Prints a line for each router or server.
pub(super) fn hops(hops: &[Hop], topology: &Topology, subject: Subject, output: &mut impl Write) -> io::Result<()> {
    let who = who(subject);
    let name = |hop: &Hop| printable(&topology.routers()[hop.place].name);
    let width = hops.iter().map(|hop| name(hop).chars().count()).max().unwrap_or(0).max(who.len());
    writeln!(output, "{who:<width$}  hops  answer    pages  false positive  when")?;
    for hop in hops {
        let answer = &hop.answer;
        let rate = if answer.pages == 0 { "-".to_owned() } else { scientific(answer.false_positive) };
        let line = format!(
            "{:<width$}  {:>4}  {:<8}  {:>5}  {rate:>14}  {}",
            name(hop),
            hop.distance,
            word(&answer.sighting),
            answer.pages,
            when(hop)
        );
        writeln!(output, "{}", line.trim_end())?;
    }
    Ok(())
}

const fn who(subject: Subject) -> &'static str {
    match subject {
        Subject::Packets => "router",
        Subject::Messages => "server",
    }
}

const fn word(sighting: &Sighting) -> &'static str {
    match sighting {
        Sighting::Seen(_) => "seen",
        Sighting::NotSeen => "not seen",
        Sighting::Unknown => "unknown",
    }
}

/// Formats the time of a sighting or, without one, the state of the recording.
fn when(hop: &Hop) -> String {
    match &hop.answer.sighting {
        Sighting::Seen(spans) => {
            let shown: Vec<_> = spans.iter().take(SPANS_SHOWN).map(|span| self::span(*span)).collect();
            let more = spans.len().saturating_sub(SPANS_SHOWN);
            let more = if more == 0 { String::new() } else { format!(", and {more} more pages") };
            format!("{}{more}", shown.join(", "))
        }
        Sighting::NotSeen if hop.answer.is_covered => String::new(),
        Sighting::NotSeen => "part of that time was not recorded".to_owned(),
        Sighting::Unknown => "nothing was recorded at that time".to_owned(),
    }
}

pub(super) use crate::pages::span_text as span;

/// Prints the paths of a packet, as far as known.
pub(super) fn paths(trace: &Trace, topology: &Topology, output: &mut impl Write) -> io::Result<()> {
    let paths = trace.paths(topology);
    if !paths.is_empty() {
        writeln!(output)?;
    }
    let names = |places: &[usize], between: &str| {
        let name = |&at: &usize| printable(&topology.routers()[trace.hops[at].place].name);
        places.iter().map(name).collect::<Vec<_>>().join(between)
    };
    for path in &paths {
        let way = names(&path.hops, " → ");
        if path.is_open() {
            writeln!(output, "path: … → {way} ({})", why_open(path, &names).join("; "))?;
        } else {
            writeln!(output, "path: {way}")?;
        }
    }
    Ok(())
}

/// Returns the reasons why a packet may have come from further away.
fn why_open(path: &Path, names: &impl Fn(&[usize], &str) -> String) -> Vec<String> {
    let mut why = Vec::new();
    if !path.may_come_from.is_empty() {
        why.push(format!(
            "it may have come from {}, whose record is missing or incomplete",
            names(&path.may_come_from, " or ")
        ));
    }
    if !path.may_be_rewritten_at.is_empty() {
        let at = names(&path.may_be_rewritten_at, " or ");
        why.push(format!("it may have looked different before {at}, which rewrites packets"));
    }
    if path.doubt.is_some() {
        why.push("its digest cannot be trusted".to_owned());
    }
    why
}

/// Prints how reliable the whole answer is.
pub(super) fn doubt(hops: &[Hop], subject: Subject, window: Span, output: &mut impl Write) -> io::Result<()> {
    // For packets, `paths` has already printed the empty line.
    if subject == Subject::Messages {
        let when = if window == Span::ALL { "at any time".to_owned() } else { span(window) };
        writeln!(output, "\ntime searched: {when}")?;
    }
    let (any, count) = (false_positive(hops) * 100.0, false_positives_expected(hops));
    let who = who(subject);
    writeln!(output, "false sightings by {who}s: probability of one or more ≤ {any:.3} %, expected number ≤ {count:.4}")
}

/// Returns the answer as JSON.
pub(super) fn json(
    hops: &[Hop],
    doubtful: &[Hop],
    topology: &Topology,
    question: &Question,
    trace: Option<&Trace>,
) -> Value {
    let window = question.window;
    let name = |at: usize| &topology.routers()[hops[at].place].name;
    let hop = |hop: &Hop| hop_json(hop, &topology.routers()[hop.place].name, hop.behind.map(name));
    let mut value = json!({
        "window": if window == Span::ALL { Value::Null } else { span_json(window) },
        "seen": hops.iter().any(Hop::is_seen),
        "is_trusted": question.doubt.is_none(),
        "untrusted": question.doubt.map(|doubt| json!({ "reason": doubt.name(), "text": doubt.to_string() })),
        "hops": hops.iter().map(hop).collect::<Vec<_>>(),
        "false_positive": false_positive(doubtful),
        "false_hops_expected": false_positives_expected(doubtful),
    });
    if let Some(trace) = trace {
        let names = |places: &[usize]| places.iter().map(|&at| name(at)).collect::<Vec<_>>();
        let path = |path: &Path| {
            json!({
                "hops": names(&path.hops),
                "is_open": path.is_open(),
                "may_come_from": names(&path.may_come_from),
                "may_be_rewritten_at": names(&path.may_be_rewritten_at),
            })
        };
        value["paths"] = trace.paths(topology).iter().map(path).collect();
    }
    value
}

fn hop_json(hop: &Hop, name: &str, behind: Option<&String>) -> Value {
    let spans: Vec<_> = match &hop.answer.sighting {
        Sighting::Seen(spans) => spans.iter().copied().map(span_json).collect(),
        _ => Vec::new(),
    };
    json!({
        "name": name,
        "distance": hop.distance,
        "behind": behind,
        "answer": word(&hop.answer.sighting).replace(' ', "_"),
        "spans": spans,
        "pages": hop.answer.pages,
        "is_covered": hop.answer.is_covered,
        "false_positive": hop.answer.false_positive,
        "faults": hop.answer.faults,
    })
}

pub(super) fn span_json(span: Span) -> Value {
    json!({ "from": span.from, "to": span.to })
}
