//! `bruit attribute query`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bruit_filters::blocks::{EXCERPT_BYTES_MAX, SearchError};
use bruit_forensics::attribution::{Answer, Finding, Question, query};
use bruit_forensics::pages::{Pages, Span};

use super::{KIND, for_each_page, print};
use crate::date::parse_moment;
use crate::failure::{FAULTS, Failure, wrong};
use crate::hex::from_hex;
use crate::pages::Outcome;
use crate::quantity::counted;
use crate::terminal::complain;

/// What `bruit attribute query` is asked.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// A directory of 'bruit attribute build'
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    #[command(flatten)]
    excerpt: Excerpt,

    /// Ask only pages that reach to this time or beyond: 2023-11-14, '2023-11-14 22:10', or seconds since 1970; in UTC
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    from: Option<u64>,

    /// Ask only pages that begin at this time or before
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    to: Option<u64>,

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

    /// The excerpt in hexadecimal digits; blanks and colons between them do not matter
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

pub(super) fn run(arguments: &Arguments, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let excerpt = arguments.excerpt.read()?;
    let window = Span { from: arguments.from.unwrap_or(0), to: arguments.to.unwrap_or(u64::MAX) };
    let pages = Pages::open(&arguments.folder, KIND).map_err(wrong)?;
    let question = Question::new(&excerpt, pages.within(window).count());
    let mut told = Told::default();
    let read = for_each_page(&pages, window, |page, bar| {
        match query(page, &question) {
            Ok(answer) if arguments.json => told.take(answer),
            Ok(answer) => {
                bar.suspend(|| print::answer(&answer, excerpt.len(), output))?;
                told.take(answer);
            }
            // Pages of several recordings may have blocks of several sizes.
            Err(error) => told.refused.push(error),
        }
        Ok(Outcome::Done)
    })?;
    let has_faults = read.faults > 0 || told.refuse()?;
    if arguments.json {
        let value = print::json(&told.answers, excerpt.len(), told.asked, read.faults + told.refused.len() as u64);
        writeln!(output, "{value:#}")?;
    } else if !told.is_found() {
        writeln!(output, "{}", told.not_found())?;
    }
    Ok(ExitCode::from(if has_faults { FAULTS } else { u8::from(!told.is_found()) }))
}

/// What the pages said.
#[derive(Debug, Default)]
struct Told {
    asked: u64,
    /// Those that say something.
    answers: Vec<Answer>,
    refused: Vec<SearchError>,
}

impl Told {
    fn take(&mut self, answer: Answer) {
        self.asked += 1;
        if answer.finding != Finding::Nothing {
            self.answers.push(answer);
        }
    }

    /// Tells of pages that cannot be asked for such an excerpt, if there are any; fails if no page can.
    fn refuse(&self) -> Result<bool, Failure> {
        match self.refused.first() {
            None => Ok(false),
            Some(error) if self.asked == 0 => Err(wrong(error)),
            Some(error) => {
                complain(&format!("{} not asked: {error}", counted(self.refused.len() as u64, "page")));
                Ok(true)
            }
        }
    }

    fn is_found(&self) -> bool {
        self.answers.iter().any(|answer| matches!(answer.finding, Finding::Named | Finding::Unnamed))
    }

    fn not_found(&self) -> String {
        let pages = counted(self.asked, "page");
        match self.answers.len() {
            0 => format!("not found in {pages}"),
            doubtful => format!("not found in {pages}, {doubtful} of them in doubt"),
        }
    }
}
