//! Many requests at once, with answers in the order of the messages.
//!
//! One thread reads messages and prints answers; others ask. What is read ahead is bounded, in messages and in bytes.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Scope};

use anyhow::anyhow;
use bruit_client::ClientError;
use indicatif::ProgressBar;
use serde::Serialize;
use serde_json::{Value, json};

use super::Input;
use crate::failure::Failure;
use crate::mailbox::{self, Item, Message, StandardInput};
use crate::terminal::complain;

/// Messages whose answer is not printed yet, for each request at once.
const WAITING_PER_JOB: usize = 2;

/// Bytes of those messages at most, unless it is one alone.
const WAITING_BYTES_MAX: usize = 128 << 20;

/// Where a message was found.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The file, or what stands for standard input.
    pub(crate) file: PathBuf,
    /// Which message there, from 1, if there are several.
    pub(crate) number: Option<u64>,
    /// Whether it may be one of several.
    pub(crate) is_one_of_many: bool,
}

impl Place {
    fn of(message: &Message<'_>) -> Self {
        let Message { file, number, is_one_of_many, .. } = *message;
        Self { file: file.to_owned(), number, is_one_of_many }
    }

    /// What stands before an answer about one of many messages.
    pub(crate) fn prefix(&self) -> String {
        match (self.is_one_of_many, self.number) {
            (false, _) => String::new(),
            (true, None) => format!("{}: ", self.file.display()),
            (true, Some(number)) => format!("{}, message {number}: ", self.file.display()),
        }
    }
}

/// An answer as JSON, with the place of its message.
pub(crate) fn json_line(place: &Place, answer: &Result<impl Serialize, ClientError>) -> Value {
    let mut value = match answer {
        Ok(answer) => json!(answer),
        Err(error) => json!({ "error": error.to_string() }),
    };
    value["file"] = json!(place.file.to_string_lossy());
    if let Some(number) = place.number {
        value["message"] = json!(number);
    }
    value
}

/// A message that is to be asked about, and where its answer goes.
struct Job<A> {
    message: Vec<u8>,
    answer: SyncSender<A>,
}

/// A message whose answer is waited for.
struct Waiting<A> {
    place: Place,
    bytes: usize,
    answer: Receiver<A>,
}

/// Asks about every message, several at once, and calls `print` with the answers in the order of the messages. Whether
/// everything could be read; what could not is told.
pub(crate) fn for_each_answer<A: Send>(
    input: &Input,
    ask: impl Fn(&[u8]) -> A + Sync,
    mut print: impl FnMut(&Place, A, &ProgressBar) -> Result<(), Failure>,
) -> Result<bool, Failure> {
    let mut was_all_read = true;
    thread::scope(|scope| {
        let mut line = Line::new(usize::from(input.jobs), scope, &ask);
        mailbox::for_each(&input.files, StandardInput::Message, |item, bar| match item {
            Item::Message(message) => line.ask(&message, &mut |place, answer| print(place, answer, bar)),
            Item::Fault(text) => {
                was_all_read = false;
                bar.suspend(|| complain(&text));
                Ok(())
            }
        })?;
        let no_bar = ProgressBar::hidden();
        line.finish(&mut |place, answer| print(place, answer, &no_bar))
    })?;
    Ok(was_all_read)
}

/// What was asked and not printed, in order, and the threads that ask.
struct Line<'scope, 'env, A, F> {
    scope: &'scope Scope<'scope, 'env>,
    ask: &'env F,
    jobs: Sender<Job<A>>,
    work: Arc<Mutex<Receiver<Job<A>>>>,
    threads: usize,
    threads_max: usize,
    waiting: VecDeque<Waiting<A>>,
}

type Print<'p, A> = dyn FnMut(&Place, A) -> Result<(), Failure> + 'p;

impl<'scope, 'env, A: Send + 'env, F: Fn(&[u8]) -> A + Sync> Line<'scope, 'env, A, F> {
    fn new(threads_max: usize, scope: &'scope Scope<'scope, 'env>, ask: &'env F) -> Self {
        let (jobs, work) = channel();
        let work = Arc::new(Mutex::new(work));
        Self { scope, ask, jobs, work, threads: 0, threads_max, waiting: VecDeque::new() }
    }

    /// Puts a message at the end of the line, when there is room.
    fn ask(&mut self, message: &Message<'_>, print: &mut Print<'_, A>) -> Result<(), Failure> {
        while self.is_full(message.bytes.len()) {
            self.print_first(print)?;
        }
        let (sender, answer) = sync_channel(1);
        self.waiting.push_back(Waiting { place: Place::of(message), bytes: message.bytes.len(), answer });
        // Nobody listens only if all threads have panicked, which is told when the answer is missing.
        let _ = self.jobs.send(Job { message: message.bytes.to_vec(), answer: sender });
        if self.threads < self.threads_max.min(self.waiting.len()) {
            self.start();
        }
        Ok(())
    }

    fn is_full(&self, bytes: usize) -> bool {
        let waiting_bytes: usize = self.waiting.iter().map(|waiting| waiting.bytes).sum();
        let is_much = waiting_bytes + bytes > WAITING_BYTES_MAX;
        self.waiting.len() >= self.threads_max * WAITING_PER_JOB || (is_much && !self.waiting.is_empty())
    }

    fn start(&mut self) {
        self.threads += 1;
        let (work, ask) = (Arc::clone(&self.work), self.ask);
        self.scope.spawn(move || {
            while let Some(job) = next(&work) {
                // Nobody waits any more if printing failed.
                let _ = job.answer.send(ask(&job.message));
            }
        });
    }

    fn print_first(&mut self, print: &mut Print<'_, A>) -> Result<(), Failure> {
        let Some(Waiting { place, answer, .. }) = self.waiting.pop_front() else { return Ok(()) };
        let answer = answer.recv().map_err(|_| Failure::Other(anyhow!("a thread that asks the server panicked")))?;
        print(&place, answer)
    }

    fn finish(mut self, print: &mut Print<'_, A>) -> Result<(), Failure> {
        while !self.waiting.is_empty() {
            self.print_first(print)?;
        }
        Ok(())
    }
}

fn next<A>(work: &Mutex<Receiver<Job<A>>>) -> Option<Job<A>> {
    work.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}
