//! Signatures as text, one per line.

use std::fmt::Display;
use std::io::{self, Write};

use bruit_signatures::bruit::Features;
use bruit_signatures::{Scheme, Signed};

use bruit_console::mailbox::Message;
use bruit_console::quantity::grouped;
use bruit_console::terminal::printable;

/// Length of the longest scheme name.
const NAME_CHARS: usize = 14;

/// Prints the heading of a message: its file name and number.
pub(super) fn print_heading(message: &Message<'_>, output: &mut impl Write) -> io::Result<()> {
    let file = printable(&message.file.to_string_lossy());
    match message.number {
        Some(number) => writeln!(output, "{file}, message {number}:"),
        None => writeln!(output, "{file}:"),
    }
}

/// Prints scheme, part and signature. For a link, also prints its target.
pub(super) fn print_signatures(signed: &Signed, output: &mut impl Write) -> io::Result<()> {
    let mut links = signed.links.iter();
    for signature in &signed.signatures {
        let link = (signature.scheme() == Scheme::Url).then(|| links.next()).flatten();
        let link = link.map_or_else(String::new, |link| format!("  {}", printable(&link.to_string())));
        print_row(output, signature.scheme().name(), signature.part(), format_args!("{signature}{link}"))?;
    }
    match &signed.features {
        Some(features) => print_row(output, "bruit", None, shown(features)),
        None => Ok(()),
    }
}

fn print_row(output: &mut impl Write, scheme: &str, part: Option<u32>, value: impl Display) -> io::Result<()> {
    let part = part.map_or_else(|| "-".to_owned(), |part| part.to_string());
    writeln!(output, "{scheme:NAME_CHARS$}  {part:>3}  {value}")
}

fn shown(features: &Features) -> String {
    let (pairs, links) = (features.pairs.len() as u64, features.links.len() as u64);
    let whole = features.whole.map_or_else(|| "none".to_owned(), |whole| format!("{whole:016x}"));
    format!("features {} (pairs {}, links {}), whole {whole}", grouped(pairs + links), grouped(pairs), grouped(links))
}
