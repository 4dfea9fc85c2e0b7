//! Reads captures frame by frame, in bounded memory, from files, directories and standard input.
//!
//! The files of a directory are read in order of their names; subdirectories are ignored. Read errors are reported and
//! do not stop the run; frames before the error have been processed. For verbs that handle Ctrl-C ([`stop`]), standard
//! input ends soon after Ctrl-C, even if no more data arrives.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::Duration;

use bruit_forensics::capture::{Capture, CaptureError, Frame};
use indicatif::ProgressBar;

use crate::stop;
use bruit_console::Failure;
use bruit_console::progress;

/// Number of bytes between updates of the progress bar. An update takes longer than reading a frame.
const BAR_STEP_BYTES: u64 = 1 << 20;

/// Maximum number of bytes in one read from standard input.
const PIECE_BYTES: usize = 64 * 1024;
/// Maximum number of buffered reads from standard input.
const PIECES_MAX: usize = 4;

/// Interval at which an idle pipe checks for a stop request.
const LOOK: Duration = Duration::from_millis(100);

/// A frame, or an error.
#[derive(Debug)]
pub(crate) enum Item<'f> {
    /// One frame of a capture.
    Frame(Frame<'f>),
    /// Error message for an input that is skipped.
    Fault(String),
}

/// Calls `work` with every frame of the captures in `paths`, in order. Reads standard input for `-`, or if there are no
/// paths.
pub(crate) fn for_each(
    paths: &[PathBuf],
    mut work: impl FnMut(Item<'_>, &ProgressBar) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if paths.iter().filter(|path| is_standard(path)).count() > 1 {
        return Err(Failure::BadInput("standard input can be read only once, but - is given twice".into()));
    }
    let standard = [PathBuf::from("-")];
    let files = files(if paths.is_empty() { &standard } else { paths });
    let bar = progress::of_bytes(total_bytes(&files), false);
    let outcome = files.iter().try_for_each(|file| read(file, &bar, |item| work(item, &bar)));
    bar.finish_and_clear();
    outcome
}

/// Calls `work` with every frame of one file, and advances `bar` by its length.
pub(crate) fn read(
    path: &Path,
    bar: &ProgressBar,
    mut work: impl FnMut(Item<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let name = if is_standard(path) { Path::new("standard input") } else { path };
    let fault = |error: &dyn std::error::Error| Item::Fault(format!("{}: {}", name.display(), describe(error)));
    let input: Box<dyn Read> = match open(path) {
        Ok(input) => input,
        Err(error) => return work(fault(&error)),
    };
    match read_frames(input, bar, &mut work) {
        Ok(outcome) => outcome,
        // Ctrl-C truncated the input, so this error is not reported.
        Err(_) if is_standard(path) && stop::is_over() => Ok(()),
        Err(error) => work(fault(&error)),
    }
}

/// Reads all frames. The outer error comes from the capture, the inner error from `work`.
fn read_frames(
    input: Box<dyn Read>,
    bar: &ProgressBar,
    work: &mut impl FnMut(Item<'_>) -> Result<(), Failure>,
) -> Result<Result<(), Failure>, CaptureError> {
    let mut capture = Capture::open(input)?;
    let mut shown = 0;
    loop {
        let position = capture.position();
        if position - shown >= BAR_STEP_BYTES {
            bar.inc(position - shown);
            shown = position;
        }
        let Some(frame) = capture.next_frame()? else {
            bar.inc(position - shown);
            return Ok(Ok(()));
        };
        if let Err(failure) = work(Item::Frame(frame)) {
            return Ok(Err(failure));
        }
    }
}

/// Formats an error and its causes as one line.
fn describe(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

fn open(path: &Path) -> io::Result<Box<dyn Read>> {
    if is_standard(path) { Ok(Box::new(Piped::new())) } else { Ok(Box::new(File::open(path)?)) }
}

/// Standard input, read by a separate thread, because a blocking read cannot be cancelled.
struct Piped {
    pieces: Receiver<io::Result<Vec<u8>>>,
    piece: io::Cursor<Vec<u8>>,
}

impl Piped {
    fn new() -> Self {
        let (sender, pieces) = mpsc::sync_channel(PIECES_MAX);
        thread::spawn(move || read_pieces(&sender));
        Self { pieces, piece: io::Cursor::default() }
    }
}

/// Reads until the input ends, a read fails, or the receiver is dropped.
fn read_pieces(sender: &SyncSender<io::Result<Vec<u8>>>) {
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        let piece = match io::stdin().lock().read(&mut buffer) {
            Ok(0) => return,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            outcome => outcome.map(|bytes| buffer[..bytes].to_vec()),
        };
        let is_last = piece.is_err();
        if sender.send(piece).is_err() || is_last {
            return;
        }
    }
}

impl Read for Piped {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.position() >= self.piece.get_ref().len() as u64 {
            match self.pieces.recv_timeout(LOOK) {
                Ok(piece) => self.piece = io::Cursor::new(piece?),
                Err(RecvTimeoutError::Timeout) if !stop::is_over() => {}
                Err(_) => return Ok(0),
            }
        }
        self.piece.read(buffer)
    }
}

/// Returns the files in `paths`. An unreadable directory stays in the list, so that opening it reports the error.
fn files(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in paths {
        match fs::read_dir(path) {
            Ok(entries) => {
                let mut inner: Vec<_> =
                    entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
                inner.sort();
                files.extend(inner);
            }
            Err(_) => files.push(path.clone()),
        }
    }
    files
}

/// Returns the total size in bytes, if all sizes are known.
fn total_bytes(files: &[PathBuf]) -> Option<u64> {
    let bytes = |path: &PathBuf| {
        let metadata = fs::metadata(path).ok().filter(|metadata| !is_standard(path) && metadata.is_file())?;
        Some(metadata.len())
    };
    files.iter().map(bytes).sum()
}
