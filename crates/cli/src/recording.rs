//! What the verbs that record have in common: where packets and messages come from, until when, and how that ends.
//!
//! Promises that whatever ends it, Ctrl-C or an error, what was gathered until then can still be written: nothing here returns
//! past the verb's own end.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bruit_forensics::capture::{Frame, Nanoseconds};

use crate::captures;
use crate::date;
use crate::failure::{FAULTS, Failure};
use crate::follow::{self, Complete, News, Taken};
use crate::mailbox::{self, Message, StandardInput};
use crate::quantity::counted;
use crate::stop;
use crate::terminal::{complain, printable};

/// In the directory of pages: which files were taken by --follow and are in pages.
const TAKEN_LIST: &str = "followed.bruit";

/// How far ahead of the clock a time may be: clocks and zones of others are wrong at times.
const AHEAD_SECONDS: u64 = 86_400;

const NANOSECONDS_PER_SECOND: Nanoseconds = 1_000_000_000;

/// What a verb does with what it is given.
pub(crate) trait Recording {
    /// Takes a frame of a capture, which was seen at `second`, and writes what had ended by then: a pipe may go on for weeks.
    fn take_frame(&mut self, second: u64, frame: &Frame<'_>) -> Result<(), Failure>;
    /// Takes a message.
    fn take_message(&mut self, message: &Message<'_>) -> Result<(), Failure>;
    /// Writes what ended before `now`.
    fn settle(&mut self, now: u64) -> Result<(), Failure>;
    /// Writes all that is gathered.
    fn close(&mut self) -> Result<(), Failure>;
    /// Whether all that was taken is on disk.
    fn is_settled(&self) -> bool;
    /// How many packets or messages were taken.
    fn taken(&self) -> u64;
    /// Tells what was done.
    fn tell(&self, output: &mut dyn Write) -> Result<(), Failure>;
}

/// Where to record from.
pub(crate) struct Inputs<'a> {
    pub(crate) paths: &'a [PathBuf],
    pub(crate) is_mail: bool,
    pub(crate) is_followed: bool,
    /// Whether nothing but one object may be printed.
    pub(crate) as_json: bool,
    /// The directory of pages.
    pub(crate) folder: &'a Path,
}

impl Inputs<'_> {
    const fn thing(&self) -> &'static str {
        thing(self.is_mail)
    }
}

/// What is counted.
pub(crate) const fn thing(is_mail: bool) -> &'static str {
    if is_mail { "message" } else { "packet" }
}

/// Records all there is, writes it whatever happens, and tells what was done. The first thing that went wrong is the outcome.
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
    let told = if taken.is_ok() || recording.taken() > 0 { recording.tell(output) } else { Ok(()) };
    taken.and(closed).and(told)?;
    Ok(if has_faults { ExitCode::from(FAULTS) } else { ExitCode::SUCCESS })
}

fn save(inputs: &Inputs<'_>, list: &Taken) -> Result<(), Failure> {
    let path = inputs.folder.join(TAKEN_LIST);
    list.save(&path).map_err(|error| Failure::BadInput(format!("{}: {error}", path.display())))
}

/// A recording under way.
struct Session<'a, R> {
    inputs: &'a Inputs<'a>,
    recording: &'a mut R,
    has_faults: bool,
}

impl<R: Recording> Session<'_, R> {
    /// Takes all there is, and gives the list of what was taken if directories are followed.
    fn take_all(&mut self, output: &mut impl Write) -> Result<Option<Taken>, Failure> {
        stop::watch()?;
        if self.inputs.is_followed {
            return self.follow(output).map(Some);
        }
        match self.take(self.inputs.paths) {
            // A pipe has no other end than this.
            Err(Failure::Interrupted) if self.inputs.paths.iter().any(|path| path == Path::new("-")) => Ok(None),
            outcome => outcome.map(|()| None),
        }
    }

    fn follow(&mut self, output: &mut impl Write) -> Result<Taken, Failure> {
        let inputs = self.inputs;
        let complete = if inputs.is_mail { Complete::AtOnce } else { Complete::ByRotation };
        let list = inputs.folder.join(TAKEN_LIST);
        let before = Taken::load(&list).unwrap_or_else(|error| {
            self.fault(&format!("{}: {error}; all files are taken anew", list.display()));
            Taken::default()
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

    /// Takes files. One that breaks off is recorded up to there, and told.
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

    /// Files that are followed are taken to their end even after Ctrl-C, unless that takes too long.
    fn go_on(&self) -> Result<(), Failure> {
        let is_end = if self.inputs.is_followed { stop::is_late() } else { stop::is_over() };
        if is_end { Err(Failure::Interrupted) } else { Ok(()) }
    }

    fn fault(&mut self, line: &str) {
        self.has_faults = true;
        complain(line);
    }
}

/// Which times are believed: none that lies more than a day ahead, as whoever writes a message says when that was.
#[derive(Debug, Default)]
pub(crate) struct Horizon {
    latest: u64,
    /// How many were not.
    pub(crate) untimely: u64,
}

impl Horizon {
    /// Whether something of that time is recorded; counted if it is not.
    pub(crate) fn takes(&mut self, second: u64) -> bool {
        self.takes_at(second, || date::now().0)
    }

    /// The clock is asked only when time seems to have gone on.
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
        assert!(horizon.takes_at(101 + AHEAD_SECONDS, || 101), "time goes on");
        assert_eq!(horizon.untimely, 2);
    }
}
