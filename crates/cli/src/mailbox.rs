//! Messages from files, folders and standard input, one at a time, in bounded memory.
//!
//! A file is one message, or an mbox if its first line begins with `From `: there, a message begins at every such line
//! that follows an empty one ([`mbox`]). A folder is a Maildir if it has `cur` and `new`, and its messages are the files
//! in both; any other folder gives every file below it, in order of names ([`sources`]). What cannot be read, or is
//! longer than [`MESSAGE_BYTES_MAX`], is told and left out, and the rest goes on.
//!
//! mail-parser has readers of this kind, which are not used. Its mbox reader takes lines and messages of any length into
//! memory, begins a message at any line that starts with `From `, changes bytes by taking quotes off, and skips all of
//! a file that is no mbox; its Maildir reader has no bound on a message and no order.

mod mbox;
mod sources;

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use indicatif::ProgressBar;

use crate::failure::Failure;
use crate::progress;
use mbox::Piece;
use sources::Source;

/// The longest message that is read.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 << 20;

const BUFFER_BYTES: usize = 128 * 1024;

/// What was found.
#[derive(Debug)]
pub(crate) enum Item<'m> {
    /// A message.
    Message(Message<'m>),
    /// What is left out, and why, for people.
    Fault(String),
}

/// A message as it was found. A leading `From ` line is left in.
#[derive(Debug)]
pub(crate) struct Message<'m> {
    /// Where.
    pub(crate) file: &'m Path,
    /// Which one there, from 1, if there are several.
    pub(crate) number: Option<u64>,
    /// Whether it may be one of several, in one file or in many.
    pub(crate) is_one_of_many: bool,
    /// The message.
    pub(crate) bytes: &'m [u8],
}

/// What standard input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StandardInput {
    /// What a file would be: a message or an mbox.
    Mailbox,
    /// One message, as a mail system hands them over. It may begin with a `From ` line and have others, which a sender could
    /// use to have a message taken apart.
    Message,
}

/// Calls `work` with everything that is found in `paths`, in their order; in standard input if there are none.
pub(crate) fn for_each(
    paths: &[PathBuf],
    standard_input: StandardInput,
    mut work: impl FnMut(Item<'_>, &ProgressBar) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if paths.iter().filter(|path| *path == Path::new("-")).count() > 1 {
        return Err(Failure::BadInput("standard input can be read once only: - is given twice".into()));
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

/// A source, and what is known of it beforehand.
struct Place<'s> {
    source: &'s Source,
    /// Whether it is one message, whatever it begins with.
    is_message: bool,
    is_one_of_many: bool,
}

/// Reads one source to its end.
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
        Source::File { path, .. } => Box::new(BufReader::with_capacity(BUFFER_BYTES, File::open(path)?)),
        _ => Box::new(io::stdin().lock()),
    })
}

fn too_long(name: &Path, number: Option<u64>) -> String {
    let which = number.map_or_else(String::new, |number| format!(", message {number}"));
    format!("{}{which}: longer than {} MiB, which is the most that is read", name.display(), MESSAGE_BYTES_MAX >> 20)
}
