//! `bruit attribute query`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bruit_filters::blocks::EXCERPT_BYTES_MAX;
use bruit_forensics::attribution::{Answer, Attribution, Part, query};
use bruit_forensics::pages::{Pages, Span};
use serde_json::{Value, json};

use super::{KIND, for_each_page, span_text, wrong};
use crate::failure::Failure;
use crate::quantity::{counted, scientific};
use crate::terminal::printable;

const FOUND: u8 = 0;
const NOT_FOUND: u8 = 1;

/// What `bruit attribute query` is asked.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// A directory of 'bruit attribute build'
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    #[command(flatten)]
    excerpt: Excerpt,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Excerpt {
    /// A file with the excerpt; - is standard input
    #[arg(long, value_name = "FILE")]
    excerpt: Option<PathBuf>,

    /// The excerpt in hexadecimal digits
    #[arg(long, value_name = "DIGITS")]
    hex: Option<String>,

    /// The excerpt as text
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
}

impl Excerpt {
    fn read(&self) -> Result<Vec<u8>, Failure> {
        match self {
            Self { excerpt: Some(path), .. } => {
                read_file(path).map_err(|error| wrong(format!("{}: {error}", path.display())))
            }
            Self { hex: Some(digits), .. } => from_hex(digits).map_err(wrong),
            Self { text, .. } => Ok(text.clone().unwrap_or_default().into_bytes()),
        }
    }
}

/// The file, or what is enough of it to see that it is too long.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let input: Box<dyn Read> =
        if path == Path::new("-") { Box::new(io::stdin().lock()) } else { Box::new(File::open(path)?) };
    let mut bytes = Vec::new();
    input.take(EXCERPT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Bytes from digits, blanks and colons between them as other programs print them.
fn from_hex(text: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<char> = text.chars().filter(|char| !char.is_whitespace() && *char != ':').collect();
    let nibble = |char: char| char.to_digit(16).ok_or_else(|| format!("'{char}' is no hexadecimal digit"));
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return Err("hexadecimal digits come in pairs".to_owned());
    }
    pairs.iter().map(|&[high, low]| Ok((nibble(high)? << 4 | nibble(low)?) as u8)).collect()
}

pub(super) fn run(arguments: &Arguments, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let excerpt = arguments.excerpt.read()?;
    let pages = Pages::open(&arguments.folder, KIND).map_err(wrong)?;
    let mut answers = Vec::new();
    let mut asked = 0;
    for_each_page(&pages, |_, page| {
        let answer = query(page, &excerpt).map_err(wrong)?;
        asked += 1;
        if !arguments.json && answer.part.is_some() {
            print(&answer, excerpt.len(), output)?;
        }
        if answer.part.is_some() {
            answers.push(answer);
        }
        Ok(())
    })?;
    if arguments.json {
        let found: Vec<Value> = answers.iter().map(answer_json).collect();
        let value = json!({ "excerpt_bytes": excerpt.len(), "pages_asked": asked, "found": found });
        writeln!(output, "{value:#}")?;
    } else if answers.is_empty() {
        writeln!(output, "not found in {}", counted(asked, "page"))?;
    }
    Ok(ExitCode::from(if answers.is_empty() { NOT_FOUND } else { FOUND }))
}

fn print(answer: &Answer, excerpt_bytes: usize, output: &mut impl Write) -> Result<(), Failure> {
    let Some(part) = &answer.part else { return Ok(()) };
    writeln!(output, "{}: {}", span_text(answer.span), part_text(part, excerpt_bytes))?;
    for Attribution { listed, part } in &answer.attributions {
        let pair = format!("{} -> {}", listed.pair.source, listed.pair.destination);
        let seen = span_text(Span { from: listed.first, to: listed.last });
        writeln!(output, "  {}: {}; active {seen}", printable(&pair), part_text(part, excerpt_bytes))?;
    }
    if answer.attributions.is_empty() {
        writeln!(output, "  no pair of {} carried it", answer.pairs)?;
    }
    if answer.unlisted > 0 {
        let what = counted(answer.unlisted, "payload");
        writeln!(output, "  and {what} of pairs that found no room in the list, who cannot be named")?;
    }
    Ok(())
}

/// `all of it`, or `bytes 100 to 387 of 400`, and how sure that is.
fn part_text(part: &Part, excerpt_bytes: usize) -> String {
    let last = part.bytes.end.saturating_sub(1);
    let what = if part.is_whole {
        "all of it".to_owned()
    } else {
        format!("bytes {} to {last} of {excerpt_bytes}", part.bytes.start)
    };
    let expected = scientific(part.expected_by_chance);
    format!("{what} from byte {} on, confidence {:.4} ({expected} by chance)", part.offset_bytes, part.confidence())
}

fn answer_json(answer: &Answer) -> Value {
    let attribution = |found: &Attribution| {
        json!({
            "source": found.listed.pair.source.to_string(),
            "destination": found.listed.pair.destination.to_string(),
            "first": found.listed.first,
            "last": found.listed.last,
            "part": part_json(&found.part),
        })
    };
    json!({
        "from": answer.span.from,
        "to": answer.span.to,
        "part": answer.part.as_ref().map(part_json),
        "pairs": answer.attributions.iter().map(attribution).collect::<Vec<_>>(),
        "pairs_asked": answer.pairs,
        "unlisted_payloads": answer.unlisted,
    })
}

fn part_json(part: &Part) -> Value {
    json!({
        "first_byte": part.bytes.start,
        "bytes": part.bytes.len(),
        "is_whole": part.is_whole,
        "payload_offset": part.offset_bytes,
        "expected_by_chance": part.expected_by_chance,
        "confidence": part.confidence(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_digits_are_read_as_other_programs_print_them() {
        assert_eq!(from_hex("00fF 1a:2B\n"), Ok(vec![0, 255, 0x1a, 0x2b]));
        assert_eq!(from_hex(""), Ok(vec![]));
        assert!(from_hex("123").is_err() && from_hex("0x12").is_err());
    }
}
