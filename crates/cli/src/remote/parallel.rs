//! Parallel requests, with answers in the order of the messages.
//!
//! One thread reads messages and prints answers; worker threads send the requests. Read-ahead is bounded, in
//! messages and in bytes.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Scope};

use anyhow::anyhow;
use bruit_client::ClientError;
use indicatif::ProgressBar;
use serde::Serialize;
use serde_json::{Value, json};

use super::Input;
use bruit_console::Failure;
use bruit_console::mailbox::{self, Item, Message, STANDARD_INPUT, StandardInput};
use bruit_console::quantity::{counted, grouped};
use bruit_console::terminal::complain;

/// Maximum number of messages in flight per worker.
const IN_FLIGHT_PER_JOB: usize = 2;

/// Maximum size of the messages in flight, in bytes. A single message may exceed it.
const IN_FLIGHT_BYTES_MAX: usize = 128 << 20;

/// Position of a message in the input.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// File name, or "standard input".
    pub(crate) file: PathBuf,
    /// Number of the message, starting at 1, if the file contains several messages.
    pub(crate) number: Option<u64>,
    /// True if answers are printed with the file name. False if standard input is the only message.
    is_named: bool,
}

impl Place {
    fn of(message: &Message<'_>) -> Self {
        let Message { file, number, is_one_of_many, .. } = *message;
        let is_named = is_one_of_many || file != Path::new(STANDARD_INPUT);
        Self { file: file.to_owned(), number, is_named }
    }

    /// Returns the position for input that is not a file.
    pub(crate) fn unnamed() -> Self {
        Self { file: PathBuf::from(STANDARD_INPUT), number: None, is_named: false }
    }

    /// Returns the prefix of an answer: the file name, if a path was given.
    pub(crate) fn prefix(&self) -> String {
        match (self.is_named, self.number) {
            (false, _) => String::new(),
            (true, None) => format!("{}: ", self.file.display()),
            (true, Some(number)) => format!("{}, message {number}: ", self.file.display()),
        }
    }
}

/// Prints a summary of several messages on standard error.
pub(crate) fn print_summary(done: &str, messages: u64, failed: u64) {
    if messages > 1 || failed > 1 {
        let failures = if failed > 0 { format!(", {} failed", grouped(failed)) } else { String::new() };
        complain(&format!("{done} {}{failures}", counted(messages, "message")));
    }
}

/// Returns an answer as JSON, with the position of its message.
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

/// A message to send, and the channel for its answer.
struct Job<A> {
    message: Vec<u8>,
    answer: SyncSender<A>,
}

/// A message in flight.
struct InFlight<A> {
    place: Place,
    bytes: usize,
    answer: Receiver<A>,
}

/// Sends every message, several in parallel. Calls `print` with the answers in the order of the messages. Returns false
/// if some input could not be read; the errors go to standard error.
pub(crate) fn for_each_answer<A: Send>(
    input: &Input,
    ask: impl Fn(&[u8]) -> A + Sync,
    mut print: impl FnMut(&Place, A, &ProgressBar) -> Result<(), Failure>,
) -> Result<bool, Failure> {
    let mut was_all_read = true;
    thread::scope(|scope| {
        let mut line = Pipeline::new(usize::from(input.jobs), scope, &ask);
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

/// Messages in flight, in order, and the worker threads.
struct Pipeline<'scope, 'env, A, F> {
    scope: &'scope Scope<'scope, 'env>,
    ask: &'env F,
    jobs: Sender<Job<A>>,
    work: Arc<Mutex<Receiver<Job<A>>>>,
    threads: usize,
    threads_max: usize,
    waiting: VecDeque<InFlight<A>>,
}

type Print<'p, A> = dyn FnMut(&Place, A) -> Result<(), Failure> + 'p;

impl<'scope, 'env, A: Send + 'env, F: Fn(&[u8]) -> A + Sync> Pipeline<'scope, 'env, A, F> {
    fn new(threads_max: usize, scope: &'scope Scope<'scope, 'env>, ask: &'env F) -> Self {
        let (jobs, work) = channel();
        let work = Arc::new(Mutex::new(work));
        Self { scope, ask, jobs, work, threads: 0, threads_max, waiting: VecDeque::new() }
    }

    /// Waits until the limits allow one more message in flight, then queues the message.
    fn ask(&mut self, message: &Message<'_>, print: &mut Print<'_, A>) -> Result<(), Failure> {
        while self.is_full(message.bytes.len()) {
            self.print_first(print)?;
        }
        let (sender, answer) = sync_channel(1);
        self.waiting.push_back(InFlight { place: Place::of(message), bytes: message.bytes.len(), answer });
        // Sending fails only if all workers have panicked. That error is reported when the answer is awaited.
        let _ = self.jobs.send(Job { message: message.bytes.to_vec(), answer: sender });
        if self.threads < self.threads_max.min(self.waiting.len()) {
            self.start();
        }
        Ok(())
    }

    fn is_full(&self, bytes: usize) -> bool {
        let waiting_bytes: usize = self.waiting.iter().map(|waiting| waiting.bytes).sum();
        let is_much = waiting_bytes + bytes > IN_FLIGHT_BYTES_MAX;
        self.waiting.len() >= self.threads_max * IN_FLIGHT_PER_JOB || (is_much && !self.waiting.is_empty())
    }

    fn start(&mut self) {
        self.threads += 1;
        let (work, ask) = (Arc::clone(&self.work), self.ask);
        self.scope.spawn(move || {
            while let Some(job) = next(&work) {
                // Ignore errors: the receiver is dropped if printing fails.
                let _ = job.answer.send(ask(&job.message));
            }
        });
    }

    fn print_first(&mut self, print: &mut Print<'_, A>) -> Result<(), Failure> {
        let Some(InFlight { place, answer, .. }) = self.waiting.pop_front() else { return Ok(()) };
        let answer = answer.recv().map_err(|_| Failure::Other(anyhow!("a worker thread panicked")))?;
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
