//! A proxy that loses answers.

use std::io::Read as _;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

/// A proxy that forwards requests to a server, and loses every answer.
pub(crate) struct Lossy {
    pub(crate) url: String,
    /// Receives one message for each lost answer.
    pub(crate) lost: Receiver<()>,
}

impl Lossy {
    /// Starts a proxy. If `holds` is true, the connection stays open after the answer was lost.
    pub(crate) fn start(server: SocketAddr, holds: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, lost) = channel();
        thread::spawn(move || {
            let mut held = Vec::new();
            for client in listener.incoming().map_while(Result::ok) {
                let upstream = TcpStream::connect(server).unwrap();
                let (mut from, mut to) = (client.try_clone().unwrap(), upstream.try_clone().unwrap());
                thread::spawn(move || std::io::copy(&mut from, &mut to));
                let mut answer = [0; 4096];
                let length = (&upstream).read(&mut answer).unwrap();
                assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer[..length]));
                if holds {
                    held.push(client);
                } else {
                    client.shutdown(Shutdown::Both).unwrap();
                }
                sender.send(()).unwrap();
            }
        });
        Self { url, lost }
    }
}
