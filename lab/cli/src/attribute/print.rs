//! Output of `bruit-lab attribute query`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bruit_forensics::attribution::{Answer, Attribution, Finding, Part};
use bruit_forensics::pages::Span;
use serde_json::{Value, json};

use crate::pages::span_text;
use bruit_console::quantity::{counted, scientific};
use bruit_console::terminal::printable;

/// Prints the answer of one page as text. `folder` is the directory of the page; it is `None` if only one directory is
/// searched.
pub(super) fn answer(
    answer: &Answer,
    folder: Option<&Path>,
    excerpt_bytes: usize,
    output: &mut impl Write,
) -> io::Result<()> {
    let Some(part) = &answer.part else { return Ok(()) };
    let folder = folder.map_or_else(String::new, |folder| format!("{}: ", printable(&folder.to_string_lossy())));
    let span = span_text(answer.span);
    match answer.finding {
        Finding::Nothing => Ok(()),
        Finding::Doubtful => writeln!(output, "{folder}{span}: {}", doubt(answer, part)),
        Finding::Named | Finding::Unnamed => {
            writeln!(output, "{folder}{span}: {}", part_text(part, "all of it", excerpt_bytes))?;
            pairs(answer, excerpt_bytes, output)
        }
    }
}

fn pairs(answer: &Answer, excerpt_bytes: usize, output: &mut impl Write) -> io::Result<()> {
    if answer.finding == Finding::Named {
        for Attribution { listed, part } in &answer.attributions {
            let pair = format!("{} -> {}", listed.pair.source, listed.pair.destination);
            let what = part_text(part, "all its blocks", excerpt_bytes);
            let seen = span_text(Span { from: listed.first, to: listed.last });
            writeln!(output, "  {}: {what}; active {seen}", printable(&pair))?;
        }
    } else {
        writeln!(
            output,
            "  no pair can be named: with {} on the list, the matches may be due to chance",
            counted(answer.pairs as u64, "pair")
        )?;
    }
    if answer.unlisted > 0 {
        let what = counted(answer.unlisted, "payload");
        writeln!(output, "  and {what} of other pairs, which cannot be named because the list of pairs was full")?;
    }
    if answer.is_cut {
        writeln!(
            output,
            "  the excerpt matches in more places than were checked: other pairs may have carried it, too"
        )?;
    }
    Ok(())
}

/// Describes a match that is likely to be due to chance.
fn doubt(answer: &Answer, part: &Part) -> String {
    let (what, expected) = match answer.attributions.last() {
        Some(last) => (counted(answer.attributions.len() as u64, "pair"), last.part.expected_by_chance),
        None => (counted(1, "place"), part.expected_by_chance),
    };
    format!("in doubt: found {what}, expected {} by chance; try a longer excerpt", scientific(expected))
}

/// Formats the part of the excerpt that was found, and the confidence. `all` is the text for a complete match.
fn part_text(part: &Part, all: &str, excerpt_bytes: usize) -> String {
    let compared = format!("bytes {} to {} of {excerpt_bytes}", part.bytes.start, part.bytes.end.saturating_sub(1));
    // If the excerpt would have to start before the payload does, the payload cannot have carried all of it.
    let start = part.offset_bytes.checked_sub(part.bytes.start).filter(|_| part.is_whole);
    let what = match start {
        Some(start) => format!("{all} from byte {start} on ({compared} compared)"),
        None => format!("{compared} from byte {} on", part.offset_bytes),
    };
    let expected = scientific(part.expected_by_chance);
    format!("{what}, confidence {:.4} ({expected} by chance)", part.confidence())
}

/// Returns the answers of all pages as JSON.
pub(super) fn json(answers: &[(Option<PathBuf>, Answer)], excerpt_bytes: usize, asked: u64, unread: u64) -> Value {
    let (doubtful, found): (Vec<_>, Vec<_>) =
        answers.iter().partition(|(_, answer)| answer.finding == Finding::Doubtful);
    json!({
        "excerpt_bytes": excerpt_bytes,
        "pages_asked": asked,
        "pages_not_asked": unread,
        "found": found.into_iter().map(answer_json).collect::<Vec<_>>(),
        "doubtful": doubtful.into_iter().map(answer_json).collect::<Vec<_>>(),
    })
}

fn answer_json((folder, answer): &(Option<PathBuf>, Answer)) -> Value {
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
        "directory": folder.as_ref().map(|folder| folder.to_string_lossy()),
        "from": answer.span.from,
        "to": answer.span.to,
        "is_named": answer.finding == Finding::Named,
        "part": answer.part.as_ref().map(part_json),
        "pairs": answer.attributions.iter().map(attribution).collect::<Vec<_>>(),
        "pairs_asked": answer.pairs,
        "unlisted_payloads": answer.unlisted,
        "is_cut": answer.is_cut,
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

    fn text(bytes: std::ops::Range<usize>, is_whole: bool, offset_bytes: usize) -> String {
        let part = Part { bytes, is_whole, offset_bytes, expected_by_chance: 0.0 };
        part_text(&part, "all of it", 100).replace(", confidence 1.0000 (0.000e0 by chance)", "")
    }

    #[test]
    fn the_byte_that_is_told_is_where_the_excerpt_begins_and_what_was_compared_is_told_too() {
        assert_eq!(text(10..74, true, 32), "all of it from byte 22 on (bytes 10 to 73 of 100 compared)");
        assert_eq!(text(10..74, true, 10), "all of it from byte 0 on (bytes 10 to 73 of 100 compared)");
    }

    #[test]
    fn a_part_is_told_with_the_place_of_its_own_first_byte() {
        assert_eq!(text(10..74, false, 32), "bytes 10 to 73 of 100 from byte 32 on");
        assert_eq!(text(10..74, true, 0), "bytes 10 to 73 of 100 from byte 0 on", "10 bytes lie before the payload");
    }
}
