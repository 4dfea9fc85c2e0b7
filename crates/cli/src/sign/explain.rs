//! `--explain`: the content of a message that the schemes used.

use std::io::{self, Write};

use bruit_signatures::Wanted;
use bruit_signatures::bruit::{ExplainedLine, Explanation, Kind};
use bruit_signatures::message::{Message, Part};
use bruit_signatures::pyzor::{Version, predigest};
use bruit_signatures::reading::Reading;
use serde_json::{Value, json};

use bruit_console::quantity::grouped;
use bruit_console::terminal::printable;

/// Explanation of one message.
pub(super) struct Explained {
    parts: Vec<ExplainedPart>,
    /// True if the message has more parts than the limit, so that some were ignored.
    is_cut: bool,
    /// True if the message has more text than the limit, so that some was ignored.
    is_text_cut: bool,
    /// Lines used to find near replicas.
    lines: Option<Explanation>,
    hidden: String,
    /// Lines hashed into Pyzor's digest.
    pyzor: Option<Vec<String>>,
    /// Lines hashed by Pyzor 1.1, if they differ from those in `pyzor`.
    pyzor_1_1: Option<Vec<String>>,
}

struct ExplainedPart {
    media: String,
    charset: Option<String>,
    bytes: u64,
    is_attachment: bool,
}

impl Explained {
    /// Explains the `wanted` schemes for a message.
    pub(super) fn of(bytes: &[u8], wanted: &Wanted) -> Self {
        let message = Message::read(bytes);
        let reading = Reading::of(&message);
        let pyzor = wanted.pyzor.then(|| predigest(bytes, Version::V1_0));
        let pyzor_1_1 =
            wanted.pyzor.then(|| predigest(bytes, Version::V1_1)).filter(|lines| Some(lines) != pyzor.as_ref());
        Self {
            parts: message.parts().into_iter().map(ExplainedPart::of).collect(),
            is_cut: message.is_cut,
            is_text_cut: reading.is_cut,
            lines: wanted.bruit.then(|| Explanation::of(&reading)),
            hidden: reading.hidden,
            pyzor,
            pyzor_1_1,
        }
    }

    /// Prints the explanation, indented below the signatures.
    pub(super) fn print(&self, output: &mut impl Write) -> io::Result<()> {
        self.print_parts(output)?;
        if let Some(lines) = &self.lines {
            print_lines(lines, output)?;
        }
        if !self.hidden.trim().is_empty() {
            let lines: Vec<&str> = self.hidden.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            print_block("hidden text", &lines, output)?;
        }
        for (title, lines) in [("lines hashed by pyzor", &self.pyzor), ("lines hashed by pyzor_1_1", &self.pyzor_1_1)] {
            if let Some(lines) = lines {
                print_block(title, lines, output)?;
            }
        }
        Ok(())
    }

    fn print_parts(&self, output: &mut impl Write) -> io::Result<()> {
        writeln!(output, "  parts")?;
        for (at, part) in self.parts.iter().enumerate() {
            writeln!(output, "    {at:>3}  {}", part.shown())?;
        }
        if self.is_cut {
            writeln!(output, "    further parts are ignored")?;
        }
        if self.is_text_cut { writeln!(output, "    further text is ignored") } else { Ok(()) }
    }

    pub(super) fn json(&self) -> Value {
        let mut value = json!({
            "parts": self.parts.iter().map(ExplainedPart::json).collect::<Vec<_>>(),
            "is_cut": self.is_cut,
            "is_text_cut": self.is_text_cut,
            "hidden": self.hidden,
        });
        if let Some(lines) = &self.lines {
            value["lines"] = lines_json(lines);
        }
        for (key, lines) in [("pyzor", &self.pyzor), ("pyzor_1_1", &self.pyzor_1_1)] {
            if let Some(lines) = lines {
                value[key] = json!(lines);
            }
        }
        value
    }
}

impl ExplainedPart {
    fn of(part: &Part<'_>) -> Self {
        let media = &part.media;
        Self {
            media: format!("{}/{}", media.kind, media.subtype),
            charset: media.charset.clone(),
            bytes: part.bytes().len() as u64,
            is_attachment: media.is_attachment || !media.is("text", None),
        }
    }

    fn shown(&self) -> String {
        let charset = self.charset.as_ref().map_or_else(String::new, |charset| format!(", {charset}"));
        let attachment = if self.is_attachment { ", attachment" } else { "" };
        printable(&format!("{}{charset}, {} bytes{attachment}", self.media, grouped(self.bytes)))
    }

    fn json(&self) -> Value {
        let mut value = json!({ "media": self.media, "bytes": self.bytes, "attachment": self.is_attachment });
        if let Some(charset) = &self.charset {
            value["charset"] = json!(charset);
        }
        value
    }
}

/// Prints each line that has words: a mark, the line's kind, its words, and the dropped words in brackets.
fn print_lines(explanation: &Explanation, output: &mut impl Write) -> io::Result<()> {
    writeln!(
        output,
        "  words, with look-alike letters replaced ('+': compared, '-': not compared, in brackets: dropped)"
    )?;
    for line in &explanation.lines {
        let mark = if explanation.counts(line) { '+' } else { '-' };
        let dropped = if line.dropped.is_empty() { String::new() } else { format!("({})", line.dropped.join(" ")) };
        let words = [line.words.join(" "), dropped].join(" ");
        writeln!(output, "    {mark} {:11}  {}", name(line.kind), printable(words.trim()))?;
    }
    Ok(())
}

fn print_block(title: &str, lines: &[impl AsRef<str>], output: &mut impl Write) -> io::Result<()> {
    writeln!(output, "  {title}")?;
    lines.iter().try_for_each(|line| writeln!(output, "    {}", printable(line.as_ref())))
}

fn lines_json(explanation: &Explanation) -> Value {
    let line = |line: &ExplainedLine| {
        let ExplainedLine { kind, words, dropped } = line;
        json!({ "kind": name(*kind), "counts": explanation.counts(line), "words": words, "dropped": dropped })
    };
    explanation.lines.iter().map(line).collect()
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Body => "body",
        Kind::Quoted => "quoted",
        Kind::Attribution => "attribution",
        Kind::Boilerplate => "boilerplate",
        Kind::Greeting => "greeting",
        Kind::Appended => "appended",
    }
}
