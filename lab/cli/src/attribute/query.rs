//! `bruit-lab attribute query`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bruit_forensics::attribution::{Answer, Finding, Question, bytes_to_tell, query};
use bruit_forensics::pages::{Pages, Span};
use bruit_structures::blocks::{EXCERPT_BYTES_MAX, SearchError};
use serde_json::Value;

use super::{KIND, for_each_page, print};
use crate::hex::from_hex;
use crate::pages::Outcome;
use bruit_console::date::parse_moment;
use bruit_console::failure::{FAULTS, Failure, bad_input};
use bruit_console::quantity::counted;
use bruit_console::terminal::complain;

/// Exit codes.
const NOT_FOUND: u8 = 1;
const TOO_SHORT: u8 = 3;

/// Arguments of `bruit-lab attribute query`.
#[derive(Debug, clap::Args)]
pub(super) struct AttributeQueryArgs {
    /// Directories of pages written by 'bruit-lab attribute build'
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,

    #[command(flatten)]
    excerpt: Excerpt,

    /// Search only pages that end at this time or later: 2023-11-14, '2023-11-14 22:10' in UTC, or seconds since
    /// 1970
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    from: Option<u64>,

    /// Search only pages that begin at this time or earlier; same formats as --from
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    to: Option<u64>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Excerpt {
    /// File with the excerpt; - is standard input
    #[arg(long, value_name = "FILE")]
    excerpt: Option<PathBuf>,

    /// Excerpt as hexadecimal digits; blanks and colons are ignored
    #[arg(long, value_name = "DIGITS")]
    hex: Option<String>,

    /// Excerpt as text
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
}

impl Excerpt {
    fn read(&self) -> Result<Vec<u8>, Failure> {
        match self {
            Self { excerpt: Some(path), .. } => {
                read_file(path).map_err(|error| bad_input(format!("{}: {error}", path.display())))
            }
            Self { hex: Some(digits), .. } => from_hex(digits).map_err(bad_input),
            Self { text, .. } => Ok(text.clone().unwrap_or_default().into_bytes()),
        }
    }
}

/// Reads the file up to one byte beyond the limit, so that the search can reject an excerpt that is too long.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let input: Box<dyn Read> =
        if path == Path::new("-") { Box::new(io::stdin().lock()) } else { Box::new(File::open(path)?) };
    let mut bytes = Vec::new();
    input.take(EXCERPT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

pub(super) fn run(arguments: &AttributeQueryArgs, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let excerpt = arguments.excerpt.read()?;
    let window = Span { from: arguments.from.unwrap_or(0), to: arguments.to.unwrap_or(u64::MAX) };
    let open = |folder: &PathBuf| Pages::open(folder, KIND).map_err(bad_input);
    let opened = arguments.folders.iter().map(open).collect::<Result<Vec<_>, Failure>>()?;
    let folders: Vec<_> = arguments.folders.iter().zip(&opened).collect();
    let question = Question::new(&excerpt, folders.iter().map(|(_, pages)| pages.within(window).count()).sum());
    let mut result = SearchResult { excerpt_bytes: excerpt.len(), ..SearchResult::default() };
    for (folder, pages) in &folders {
        let named = (folders.len() > 1).then_some(folder.as_path());
        result.ask(pages, window, &question, named, if arguments.json { None } else { Some(&mut *output) })?;
    }
    let has_faults = result.refuse()?;
    if arguments.json {
        writeln!(output, "{:#}", result.json())?;
    } else if !result.is_found() {
        writeln!(output, "{}", result.not_found())?;
    } else if !result.is_long_enough() {
        let needs = result.bytes_to_tell;
        writeln!(output, "the excerpt is shorter than {needs} bytes: other pairs may also have carried it")?;
    }
    Ok(ExitCode::from(if has_faults { FAULTS } else { result.exit_code() }))
}

/// Answers of the pages.
#[derive(Debug, Default)]
struct SearchResult {
    excerpt_bytes: usize,
    asked: u64,
    /// Number of unreadable pages.
    faults: u64,
    /// Answers with matches, with their directory if several are searched.
    answers: Vec<(Option<PathBuf>, Answer)>,
    /// Number of pages not searched, because the excerpt is too short for their blocks.
    too_short: u64,
    refused: Vec<SearchError>,
    /// Minimum length of an excerpt for a conclusive answer from every page.
    bytes_to_tell: usize,
}

impl SearchResult {
    /// Searches the pages of a directory. If there is an output, each answer is printed immediately.
    fn ask(
        &mut self,
        pages: &Pages,
        window: Span,
        question: &Question<'_>,
        folder: Option<&Path>,
        mut output: Option<&mut impl Write>,
    ) -> Result<(), Failure> {
        let read = for_each_page(pages, window, |page, bar| {
            self.bytes_to_tell = self.bytes_to_tell.max(bytes_to_tell(page.offsets().shape()));
            match query(page, question) {
                Ok(answer) => {
                    if let Some(output) = &mut output {
                        bar.suspend(|| print::answer(&answer, folder, self.excerpt_bytes, output))?;
                    }
                    self.take(folder, answer);
                }
                // Pages of several recordings may have different block sizes.
                Err(SearchError::TooShort { .. }) => self.too_short += 1,
                Err(error) => self.refused.push(error),
            }
            Ok(Outcome::Done)
        })?;
        self.faults += read.faults;
        Ok(())
    }

    fn take(&mut self, folder: Option<&Path>, answer: Answer) {
        self.asked += 1;
        if answer.finding != Finding::Nothing {
            self.answers.push((folder.map(Path::to_owned), answer));
        }
    }

    /// Reports the pages that need a longer excerpt. Returns true if there are such pages, or if pages were unreadable.
    /// Fails if no page can be searched.
    fn refuse(&self) -> Result<bool, Failure> {
        match self.refused.first() {
            None => Ok(self.faults > 0),
            Some(error) if self.asked == 0 => Err(bad_input(error)),
            Some(error) => {
                complain(&format!("{} not searched: {error}", counted(self.refused.len() as u64, "page")));
                Ok(true)
            }
        }
    }

    fn is_found(&self) -> bool {
        self.answers.iter().any(|(_, answer)| matches!(answer.finding, Finding::Named | Finding::Unnamed))
    }

    /// Returns true if the excerpt has enough whole blocks at every position, so that every carrier is found.
    const fn is_long_enough(&self) -> bool {
        self.excerpt_bytes >= self.bytes_to_tell
    }

    /// Returns true if nothing was found, and the excerpt may have too few whole blocks at some position.
    fn is_too_short(&self) -> bool {
        !self.is_found() && !self.is_long_enough()
    }

    fn exit_code(&self) -> u8 {
        match (self.is_found(), self.is_too_short()) {
            (true, _) => 0,
            (false, false) => NOT_FOUND,
            (false, true) => TOO_SHORT,
        }
    }

    fn not_found(&self) -> String {
        let pages = counted(self.asked + self.too_short, "page");
        let doubt = match self.answers.len() {
            0 => String::new(),
            doubtful => format!(", {doubtful} of them in doubt"),
        };
        if self.is_too_short() {
            let (has, needs) = (counted(self.excerpt_bytes as u64, "byte"), self.bytes_to_tell);
            return format!("too short to tell: {has} not found in {pages}{doubt}; it takes {needs} bytes to tell");
        }
        format!("not found in {pages}{doubt}")
    }

    fn json(&self) -> Value {
        let not_asked = self.faults + self.too_short + self.refused.len() as u64;
        let verdict = match (self.is_found(), self.is_too_short(), self.answers.is_empty()) {
            (true, ..) => "found",
            (false, true, _) => "too_short",
            (false, false, false) => "in_doubt",
            (false, false, true) => "not_found",
        };
        let mut value = print::json(&self.answers, self.excerpt_bytes, self.asked, not_asked);
        value["verdict"] = verdict.into();
        value["is_long_enough"] = self.is_long_enough().into();
        value["bytes_to_tell"] = if self.bytes_to_tell > 0 { self.bytes_to_tell.into() } else { Value::Null };
        value
    }
}
