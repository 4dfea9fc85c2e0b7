//! A server that answers as it is told, for what a real one does not do: be slow, talk nonsense, refuse.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use serde_json::Value;

/// What is sent back.
#[derive(Clone)]
pub(crate) enum Answer {
    /// These bytes. A connection is kept after a whole answer in JSON, and else held open without another byte.
    Raw(Vec<u8>),
    /// Nothing, and the connection stays.
    Silence,
}

impl Answer {
    pub(crate) fn json(value: Value) -> Self {
        Self::Raw(reply(200, "application/json", value.to_string().as_bytes()))
    }
}

/// A whole reply.
pub(crate) fn reply(status: u16, media: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status} Reason\r\nContent-Type: {media}\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// What was asked.
#[derive(Clone)]
pub(crate) struct Request {
    /// The request line and all fields.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    shared: Arc<Shared>,
}

impl Request {
    pub(crate) fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap()
    }

    /// Waits until so many requests have come.
    pub(crate) fn wait_for(&self, count: usize) {
        let requests = self.shared.requests.lock().unwrap();
        drop(self.shared.news.wait_while(requests, |requests| requests.len() < count).unwrap());
    }
}

#[derive(Default)]
struct Shared {
    requests: Mutex<Vec<Request>>,
    news: Condvar,
    connections: AtomicUsize,
}

/// The server. Its threads end with the test.
pub(crate) struct StandIn {
    url: String,
    shared: Arc<Shared>,
}

type Answering = dyn Fn(&Request, usize) -> Answer + Send + Sync;

impl StandIn {
    /// One that always answers the same.
    pub(crate) fn always(answer: Answer) -> Self {
        Self::answering(move |_, _| answer.clone())
    }

    /// One that answers by what is asked and how many requests came before.
    pub(crate) fn answering(answer: impl Fn(&Request, usize) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared::default());
        let (answer, own): (Arc<Answering>, _) = (Arc::new(answer), Arc::clone(&shared));
        thread::spawn(move || {
            for stream in listener.incoming() {
                own.connections.fetch_add(1, Ordering::Relaxed);
                let (answer, shared) = (Arc::clone(&answer), Arc::clone(&own));
                thread::spawn(move || serve(&stream.unwrap(), &*answer, &shared));
            }
        });
        Self { url, shared }
    }

    /// The address of a port that nobody listens on.
    pub(crate) fn nobody() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// What was asked so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }
}

/// Answers one request after the other, until the client leaves.
fn serve(stream: &TcpStream, answer: &Answering, shared: &Arc<Shared>) {
    let mut reader = BufReader::new(stream);
    while let Some(request) = read(&mut reader, shared) {
        let at = {
            let mut requests = shared.requests.lock().unwrap();
            requests.push(request.clone());
            shared.news.notify_all();
            requests.len() - 1
        };
        if let Answer::Raw(bytes) = answer(&request, at) {
            // A client that has seen enough is what some tests are about.
            let _ = (&*stream).write_all(&bytes);
        }
    }
}

fn read(reader: &mut BufReader<&TcpStream>, shared: &Arc<Shared>) -> Option<Request> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    Some(Request { head, body, shared: Arc::clone(shared) })
}
