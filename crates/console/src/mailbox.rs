//! Reads messages from files, folders and standard input, one at a time, in bounded memory.
//!
//! A file is an mbox if its first line begins with `From `. Otherwise it is one message. In an mbox, a message begins
//! at every `From ` line that follows an empty line (`mbox`). A folder is a Maildir if it has `cur` and `new`, and its
//! messages are the files in both. Any other folder is searched recursively, in order of file names (`sources`). Files
//! compressed with gzip are decompressed. Unreadable input, and messages longer than [`MESSAGE_BYTES_MAX`], are
//! reported and skipped.
//!
//! The mailbox readers of the mail-parser crate do not meet these requirements. Its mbox reader does not limit the
//! length of lines and messages. It also begins a message at any line that starts with `From `, removes quoting, and
//! skips files that are not an mbox. Its Maildir reader does not limit the length of a message and has no defined
//! order.

mod compression;
mod mbox;
mod sources;

use std::fs::File;
use std::io::{self, BufRead, Read as _};
use std::path::{Path, PathBuf};

use indicatif::ProgressBar;

use crate::failure::Failure;
use crate::progress;
use mbox::Piece;
use sources::Source;

/// Name of standard input in error messages.
pub const STANDARD_INPUT: &str = "standard input";

/// Maximum length of a message in bytes.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;

const BUFFER_BYTES: usize = 128 * 1024;

/// A message, or an error.
#[derive(Debug)]
pub enum Item<'m> {
    /// One message.
    Message(Message<'m>),
    /// Error message for an input that is skipped.
    Fault(String),
}

/// A message. A leading `From ` line is kept.
#[derive(Debug)]
pub struct Message<'m> {
    /// File name.
    pub file: &'m Path,
    /// Number of the message in the file, starting at 1. `None` if it is the only message.
    pub number: Option<u64>,
    /// True if the input may have several messages.
    pub is_one_of_many: bool,
    /// Content of the message.
    pub bytes: &'m [u8],
}

/// Interpretation of standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandardInput {
    /// A message or an mbox, interpreted like a file.
    Mailbox,
    /// One message, as delivered by a mail system, even if it begins with `From `. If it were read as an mbox, a sender
    /// could split the message by putting `From ` lines into it.
    Message,
}

/// Calls `work` with every message in `paths`, in order. Without paths, reads standard input.
pub fn for_each(
    paths: &[PathBuf],
    standard_input: StandardInput,
    mut work: impl FnMut(Item<'_>, &ProgressBar) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if paths.iter().filter(|path| *path == Path::new("-")).count() > 1 {
        return Err(Failure::BadInput("standard input can be read only once, but - is given twice".into()));
    }
    let sources = sources::find(paths);
    let bar = progress::of_bytes(sources.iter().map(Source::bytes).sum(), true);
    let mut buffer = Vec::new();
    let outcome = sources.iter().try_for_each(|source| {
        let mut work = |item: Item<'_>| work(item, &bar);
        match source {
            Source::Fault(text) => work(Item::Fault(text.clone())),
            source => {
                let is_message = *source == Source::Standard && standard_input == StandardInput::Message;
                let place = Place { source, is_message, is_one_of_many: sources.len() > 1 };
                read(&place, &mut buffer, &bar, &mut work)
            }
        }
    });
    bar.finish_and_clear();
    outcome
}

/// Reads a file that contains one message, such as a file of a Maildir, and decompresses it if necessary. Returns `None`
/// if the message is longer than [`MESSAGE_BYTES_MAX`].
///
/// # Errors
/// If the file cannot be read.
pub fn read_message(file: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    compression::open(File::open(file)?)?.take(MESSAGE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(Some(bytes).filter(|bytes| bytes.len() <= MESSAGE_BYTES_MAX))
}

/// A source that is read as one or several messages.
struct Place<'s> {
    source: &'s Source,
    /// True if the source is a single message, even if it begins with `From `.
    is_message: bool,
    is_one_of_many: bool,
}

/// Reads all messages of one source.
fn read(
    place: &Place<'_>,
    buffer: &mut Vec<u8>,
    bar: &ProgressBar,
    work: &mut impl FnMut(Item<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let name = place.source.name();
    let mut reader = match open(place.source) {
        Ok(reader) => reader,
        Err(error) => return work(Item::Fault(format!("{}: {error}", name.display()))),
    };
    let mut mailbox = mbox::Mailbox::new(&mut *reader, buffer, MESSAGE_BYTES_MAX, place.is_message);
    loop {
        match mailbox.next() {
            Ok(None) => return Ok(()),
            Ok(Some(Piece { number, bytes: Some(bytes) })) => {
                bar.inc(bytes.len() as u64);
                let is_one_of_many = place.is_one_of_many || number.is_some();
                work(Item::Message(Message { file: name, number, is_one_of_many, bytes }))?;
            }
            Ok(Some(Piece { number, bytes: None })) => work(Item::Fault(too_long(name, number)))?,
            Err(error) => return work(Item::Fault(format!("{}: {error}", name.display()))),
        }
    }
}

fn open(source: &Source) -> io::Result<Box<dyn BufRead>> {
    Ok(match source {
        Source::File { path, .. } => compression::open(File::open(path)?)?,
        _ => Box::new(io::stdin().lock()),
    })
}

fn too_long(name: &Path, number: Option<u64>) -> String {
    let which = number.map_or_else(String::new, |number| format!(", message {number}"));
    format!("{}{which}: the message is longer than {} MiB", name.display(), MESSAGE_BYTES_MAX >> 20)
}
