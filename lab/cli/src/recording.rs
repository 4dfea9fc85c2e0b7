//! Shared code of the verbs that record. Reads packets and messages, follows directories, and stops on Ctrl-C.
//!
//! Recorded data is always written, even if the run ends with Ctrl-C or an error.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bruit_forensics::capture::{Frame, Nanoseconds};

use crate::captures;
use crate::follow::{self, Complete, News, RecordedFiles};
use crate::stop;
use bruit_console::date;
use bruit_console::failure::{FAULTS, Failure};
use bruit_console::mailbox::{self, Message, StandardInput};
use bruit_console::quantity::counted;
use bruit_console::terminal::{complain, printable};

/// List of the files already recorded by --follow. It is stored in the directory of pages.
const TAKEN_LIST: &str = "followed.bruit";

/// Maximum number of seconds that a timestamp may be in the future. Clocks and time zones of other machines may be
/// wrong.
const AHEAD_SECONDS: u64 = 86_400;

const NANOSECONDS_PER_SECOND: Nanoseconds = 1_000_000_000;

/// A verb that records packets or messages.
pub(crate) trait Recording {
    /// Records a frame captured at `second`, and writes pages that ended before then. A pipe may stay open for weeks,
    /// so pages cannot be written only at the end.
    fn take_frame(&mut self, second: u64, frame: &Frame<'_>) -> Result<(), Failure>;
    /// Records a message.
    fn take_message(&mut self, message: &Message<'_>) -> Result<(), Failure>;
    /// Writes pages that ended before `now`.
    fn settle(&mut self, now: u64) -> Result<(), Failure>;
    /// Writes all remaining data.
    fn close(&mut self) -> Result<(), Failure>;
    /// Returns true if all recorded data is on disk.
    fn is_settled(&self) -> bool;
    /// Returns the number of packets or messages recorded.
    fn taken(&self) -> u64;
    /// Prints a summary.
    fn tell(&self, output: &mut dyn Write) -> Result<(), Failure>;
}

/// Inputs of a recording.
pub(crate) struct Inputs<'a> {
    pub(crate) paths: &'a [PathBuf],
    pub(crate) is_mail: bool,
    pub(crate) is_followed: bool,
    /// True if only one JSON object may be printed.
    pub(crate) as_json: bool,
    /// Directory of pages.
    pub(crate) folder: &'a Path,
}

impl Inputs<'_> {
    const fn thing(&self) -> &'static str {
        thing(self.is_mail)
    }
}

/// Returns the noun for the items that are counted.
pub(crate) const fn thing(is_mail: bool) -> &'static str {
    if is_mail { "message" } else { "packet" }
}

/// Records all inputs, writes the data (even after an error), and prints a summary. Returns the first error.
pub(crate) fn run(
    inputs: &Inputs<'_>,
    recording: &mut impl Recording,
    output: &mut impl Write,
) -> Result<ExitCode, Failure> {
    let mut session = Session { inputs, recording, has_faults: false };
    let taken = session.take_all(output);
    stop::make_final();
    let closed = session.recording.close();
    let has_faults = session.has_faults;
    let taken = match (taken, &closed) {
        (Ok(Some(list)), Ok(())) => save(inputs, &list),
        (taken, _) => taken.map(drop),
    };
    let summarised = if taken.is_ok() || recording.taken() > 0 { recording.tell(output) } else { Ok(()) };
    taken.and(closed).and(summarised)?;
    Ok(if has_faults { ExitCode::from(FAULTS) } else { ExitCode::SUCCESS })
}

fn save(inputs: &Inputs<'_>, list: &RecordedFiles) -> Result<(), Failure> {
    let path = inputs.folder.join(TAKEN_LIST);
    list.save(&path).map_err(|error| Failure::BadInput(format!("{}: {error}", path.display())))
}

/// State of a recording.
struct Session<'a, R> {
    inputs: &'a Inputs<'a>,
    recording: &'a mut R,
    has_faults: bool,
}

impl<R: Recording> Session<'_, R> {
    /// Records all inputs. Returns the list of recorded files if directories are followed.
    fn take_all(&mut self, output: &mut impl Write) -> Result<Option<RecordedFiles>, Failure> {
        stop::watch()?;
        if self.inputs.is_followed {
            return self.follow(output).map(Some);
        }
        match self.take(self.inputs.paths) {
            // Ctrl-C is the normal end of a pipe.
            Err(Failure::Interrupted) if self.inputs.paths.iter().any(|path| path == Path::new("-")) => Ok(None),
            outcome => outcome.map(|()| None),
        }
    }

    fn follow(&mut self, output: &mut impl Write) -> Result<RecordedFiles, Failure> {
        let inputs = self.inputs;
        let complete = if inputs.is_mail { Complete::AtOnce } else { Complete::ByRotation };
        let list = inputs.folder.join(TAKEN_LIST);
        let before = RecordedFiles::load(&list).unwrap_or_else(|error| {
            self.fault(&format!("{}: {error}; reading all files again", list.display()));
            RecordedFiles::default()
        });
        let mut saved = before.clone();
        follow::for_each_since(before, inputs.paths, complete, |news, taken| match news {
            News::File(path) => self.take_followed(path, output),
            News::Idle => {
                self.recording.settle(date::now().0)?;
                if self.recording.is_settled() && saved != *taken {
                    save(inputs, taken)?;
                    saved = taken.clone();
                }
                Ok(())
            }
        })
    }

    fn take_followed(&mut self, path: &Path, output: &mut impl Write) -> Result<(), Failure> {
        let before = self.recording.taken();
        self.take(&[path.to_owned()])?;
        if !self.inputs.as_json {
            let taken = counted(self.recording.taken() - before, self.inputs.thing());
            writeln!(output, "{}: {taken}", printable(&path.to_string_lossy()))?;
        }
        Ok(output.flush()?)
    }

    /// Records files. If a file is truncated, reports that and records the part that exists.
    fn take(&mut self, paths: &[PathBuf]) -> Result<(), Failure> {
        if self.inputs.is_mail {
            return mailbox::for_each(paths, StandardInput::Mailbox, |item, bar| match item {
                mailbox::Item::Message(message) => {
                    self.go_on()?;
                    self.recording.take_message(&message)
                }
                mailbox::Item::Fault(line) => {
                    bar.suspend(|| self.fault(&line));
                    Ok(())
                }
            });
        }
        captures::for_each(paths, |item, bar| match item {
            captures::Item::Frame(frame) => {
                self.go_on()?;
                let second = frame.time / NANOSECONDS_PER_SECOND;
                self.recording.take_frame(second, &frame)
            }
            captures::Item::Fault(line) => {
                bar.suspend(|| self.fault(&line));
                Ok(())
            }
        })
    }

    /// Returns an error after Ctrl-C. Files of a followed directory are read to their end, unless that takes too long.
    fn go_on(&self) -> Result<(), Failure> {
        let is_end = if self.inputs.is_followed { stop::is_late() } else { stop::is_over() };
        if is_end { Err(Failure::Interrupted) } else { Ok(()) }
    }

    fn fault(&mut self, line: &str) {
        self.has_faults = true;
        complain(line);
    }
}

/// Rejects timestamps more than a day in the future. Senders can forge them.
#[derive(Debug, Default)]
pub(crate) struct Horizon {
    latest: u64,
    /// Number of rejected timestamps.
    pub(crate) untimely: u64,
}

impl Horizon {
    /// Returns true if a timestamp is accepted; otherwise counts it as rejected.
    pub(crate) fn takes(&mut self, second: u64) -> bool {
        self.takes_at(second, || date::now().0)
    }

    /// Like [`Self::takes`], with a given clock. Reads the clock only for timestamps beyond the last limit.
    fn takes_at(&mut self, second: u64, now: impl FnOnce() -> u64) -> bool {
        if second > self.latest {
            self.latest = now().saturating_add(AHEAD_SECONDS);
        }
        let is_timely = second <= self.latest;
        self.untimely += u64::from(!is_timely);
        is_timely
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_believed_up_to_a_day_ahead() {
        let mut horizon = Horizon::default();
        assert!(horizon.takes_at(100 + AHEAD_SECONDS, || 100) && !horizon.takes_at(101 + AHEAD_SECONDS, || 100));
        assert!(!horizon.takes_at(u64::MAX, || 100) && horizon.takes_at(0, || 100));
        assert!(horizon.takes_at(101 + AHEAD_SECONDS, || 101), "the limit advances with the clock");
        assert_eq!(horizon.untimely, 2);
    }
}
