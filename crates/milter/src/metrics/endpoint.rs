//! The metrics over HTTP: `GET /metrics`, one request after another.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum length of a request.
const REQUEST_BYTES_MAX: usize = 8 * 1024;

/// Maximum time for a request.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(2);

/// Delay after a failure to accept a connection.
const SHORTAGE: Duration = Duration::from_millis(100);

/// A listener that answers with the metrics.
#[derive(Debug)]
pub(crate) struct Endpoint {
    address: SocketAddr,
    is_stopped: Arc<AtomicBool>,
}

impl Endpoint {
    /// Starts the listener. `text` returns the metrics.
    ///
    /// # Errors
    /// If the address cannot be used.
    pub(crate) fn start(address: SocketAddr, text: impl Fn() -> String + Send + 'static) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let is_stopped = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&is_stopped);
        thread::Builder::new().name("metrics".to_owned()).spawn(move || {
            while !stopped.load(Ordering::Acquire) {
                match listener.accept() {
                    // A scraper that fails can try again.
                    Ok((stream, _)) => drop(answer(stream, &text)),
                    Err(_) => thread::sleep(SHORTAGE),
                }
            }
        })?;
        Ok(Self { address, is_stopped })
    }

    /// Returns the address.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops the listener.
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
        // Wake the thread.
        let _ = TcpStream::connect_timeout(&self.address, REQUEST_TIME_MAX);
    }
}

fn answer(mut stream: TcpStream, text: &impl Fn() -> String) -> io::Result<()> {
    let request = request(&mut stream)?;
    stream.set_write_timeout(Some(REQUEST_TIME_MAX))?;
    let is_asked = request.starts_with(b"GET /metrics ") || request.starts_with(b"GET /metrics?");
    let (status, body) = if is_asked { ("200 OK", text()) } else { ("404 Not Found", "see /metrics\n".to_owned()) };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )?;
    stream.flush()
}

/// Reads a request up to its empty line.
fn request(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + REQUEST_TIME_MAX;
    let mut request = Vec::new();
    let mut piece = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || request.len() > REQUEST_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        stream.set_read_timeout(Some(left))?;
        let count = stream.read(&mut piece)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        request.extend_from_slice(piece.get(..count).unwrap_or_default());
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn only_the_metrics_are_answered() {
        let endpoint = Endpoint::start(SocketAddr::from(([127, 0, 0, 1], 0)), || "a 1\n".to_owned()).unwrap();
        assert!(get(endpoint.address(), "/metrics").ends_with("\r\n\r\na 1\n"));
        assert!(get(endpoint.address(), "/").starts_with("HTTP/1.1 404"));
        // A client that sends too much is cut off before its time is over, and the next one is served.
        let start = Instant::now();
        let mut stream = TcpStream::connect(endpoint.address()).unwrap();
        let _ = stream.write_all(&vec![b'x'; 2 * REQUEST_BYTES_MAX]);
        let _ = stream.read(&mut [0; 16]);
        assert!(start.elapsed() < REQUEST_TIME_MAX);
        assert!(get(endpoint.address(), "/metrics").contains("200 OK"));
        endpoint.stop();
    }
}
