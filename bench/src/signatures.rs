//! Benchmarks of signing mail, compared with parsing it and with Pyzor's own code.

use std::io::{self, Write as _};
use std::process::{Command, Stdio};
use std::{env, fs};

use bruit_signatures::{Context, Wanted, sign};
use mail_parser::MessageParser;

use crate::mail::{self, Mail};
use crate::report::{Figure, Report, Target};
use crate::timing::{compare, time};

/// A script that digests the messages on its standard input, and prints the CPU time that this took.
const PYZOR: &str = include_str!("pyzor.py");

pub(crate) fn speed(report: &mut Report) -> io::Result<()> {
    let mail = mail::read()?;
    let schemes = [
        ("exact", Wanted { exact: true, ..Wanted::NONE }),
        ("attachment", Wanted { attachment: true, ..Wanted::NONE }),
        ("url", Wanted { url: true, ..Wanted::NONE }),
        ("pyzor", Wanted { pyzor: true, ..Wanted::NONE }),
        ("razor", Wanted { razor: true, ..Wanted::NONE }),
        ("dcc", Wanted { dcc: true, ..Wanted::NONE }),
        ("bruit", Wanted { bruit: true, ..Wanted::NONE }),
    ];
    add_ratio("all", &Wanted::ALL, Target::AtLeast(0.25), &mail, report)?;
    for (name, wanted) in schemes {
        add_ratio(name, &wanted, Target::None, &mail, report)?;
    }
    pyzor(&mail, report)
}

fn add_ratio(name: &str, wanted: &Wanted, target: Target, mail: &Mail, report: &mut Report) -> io::Result<()> {
    let parse = || mail.messages.iter().filter(|message| MessageParser::default().parse(*message).is_some()).count();
    let pair = compare(mail.messages.len(), parse, || sign_all(mail, wanted));
    let (parse_us, sign_us) = (pair.reference_ns / 1e3, pair.subject_ns / 1e3);
    let note = format!("{sign_us:.1} µs per message, parsing {parse_us:.1} µs; {}", mail.origin);
    report.add(Figure::new(
        format!("time of signing with scheme {name} / time of parsing with mail-parser"),
        pair.ratio,
        target,
        note,
    ))
}

fn sign_all(mail: &Mail, wanted: &Wanted) -> usize {
    let context = Context::default();
    mail.messages.iter().map(|message| sign(message, wanted, &context).signatures.len()).sum()
}

/// Compares the CPU time of our digests with the CPU time of Pyzor's digests of the same messages. Each implementation
/// runs in one process.
fn pyzor(mail: &Mail, report: &mut Report) -> io::Result<()> {
    let name = "Pyzor digests, times faster than Pyzor's own code";
    let Some(theirs) = pyzor_seconds(mail)? else {
        return report.missing(name, ">= 20", "needs the Debian package pyzor");
    };
    let wanted = Wanted { pyzor: true, ..Wanted::NONE };
    sign_all(mail, &wanted);
    let ours = (0..5).map(|_| time(|| sign_all(mail, &wanted))).fold(f64::MAX, f64::min) / 1e9;
    let rate = |seconds: f64| mail.messages.len() as f64 / seconds;
    let note = format!("{:.0} messages/s, Pyzor {:.0}; {}", rate(ours), rate(theirs), mail.origin);
    report.add(Figure::new(name, theirs / ours, Target::AtLeast(20.0), note))
}

/// Returns the CPU seconds of Pyzor's own digest code, without the time to read messages; `None` if Pyzor is not
/// installed.
fn pyzor_seconds(mail: &Mail) -> io::Result<Option<f64>> {
    let Some(interpreter) = pyzor_interpreter() else { return Ok(None) };
    let mut child =
        Command::new(interpreter).args(["-c", PYZOR]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().ok_or_else(|| io::Error::other("Python's standard input is not piped"))?;
    for message in &mail.messages {
        let length = u32::try_from(message.len()).map_err(io::Error::other)?;
        input.write_all(&length.to_be_bytes())?;
        input.write_all(message)?;
    }
    drop(input);
    let output = child.wait_with_output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().parse().ok())
}

/// Returns the interpreter that the first line of the program `pyzor` names. Pyzor's module is installed for it.
fn pyzor_interpreter() -> Option<String> {
    let path = env::var_os("PATH")?;
    let program = env::split_paths(&path).map(|folder| folder.join("pyzor")).find(|program| program.is_file())?;
    let text = fs::read_to_string(program).ok()?;
    text.lines().next()?.strip_prefix("#!")?.split_whitespace().next().map(str::to_owned)
}
