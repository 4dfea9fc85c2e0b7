//! A simulated server with scripted answers, for behaviour that a real server does not show: slow, malformed or
//! refusing answers.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use serde_json::Value;

/// The answer to a request.
#[derive(Clone)]
pub(crate) enum Answer {
    /// These bytes. After a complete JSON response, the connection can be used again. After other bytes, it stays open,
    /// but nothing more is sent.
    Raw(Vec<u8>),
    /// No answer. The connection stays open.
    Silence,
}

impl Answer {
    pub(crate) fn json(value: Value) -> Self {
        Self::Raw(reply(200, "application/json", value.to_string().as_bytes()))
    }
}

/// Returns a complete response.
pub(crate) fn reply(status: u16, media: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status} Reason\r\nContent-Type: {media}\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// A received request.
#[derive(Clone)]
pub(crate) struct Request {
    /// The request line and all header fields.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    shared: Arc<Shared>,
}

impl Request {
    pub(crate) fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap()
    }

    /// Waits until `count` requests have arrived.
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

/// The simulated server. Its threads end with the test process.
pub(crate) struct StandIn {
    url: String,
    shared: Arc<Shared>,
}

type Answering = dyn Fn(&Request, usize) -> Answer + Send + Sync;

impl StandIn {
    /// Creates a server that gives the same answer to every request.
    pub(crate) fn always(answer: Answer) -> Self {
        Self::answering(move |_, _| answer.clone())
    }

    /// Creates a server whose answer depends on the request and on the number of earlier requests.
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

    /// Returns the address of a port without a listener.
    pub(crate) fn nobody() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns the requests received so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }
}

/// Answers the requests of a connection one by one, until the client disconnects.
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
            // Ignore errors: in some tests, the client disconnects before it has read everything.
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
