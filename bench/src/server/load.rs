//! The load generator. It creates requests in advance, sends them from one socket, and stores every answer.
//!
//! Answers are matched with requests after the clock has stopped, so that the measured time does not include this work.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use super::datagrams::{BATCH, Datagrams};

/// Time after which requests in flight are counted as lost.
const PATIENCE: Duration = Duration::from_secs(3);
/// Size of a receive buffer, larger than any reply.
const REPLY_BYTES_MAX: usize = 256;

/// Requests of one length.
pub(crate) struct Packets {
    bytes: Vec<u8>,
    length: usize,
}

impl Packets {
    /// Creates `count` requests, each encoded by `write`.
    pub(crate) fn new(count: usize, mut write: impl FnMut(usize, &mut Vec<u8>)) -> Self {
        let mut bytes = Vec::new();
        write(0, &mut bytes);
        let length = bytes.len();
        for at in 1..count {
            write(at, &mut bytes);
            assert_eq!(bytes.len(), (at + 1) * length, "requests of one kind have the same length");
        }
        Self { bytes, length }
    }

    pub(crate) fn count(&self) -> usize {
        self.bytes.len() / self.length
    }

    fn batch(&self, from: usize, count: usize) -> impl ExactSizeIterator<Item = &[u8]> {
        self.bytes[from * self.length..(from + count) * self.length].chunks_exact(self.length)
    }
}

/// The answers received.
pub(crate) struct Answers {
    bytes: Vec<[u8; REPLY_BYTES_MAX]>,
    lengths: Vec<usize>,
    /// Arrival time of each answer, since the start.
    arrivals: Vec<Duration>,
    /// Time from the first request to the last answer.
    pub(crate) elapsed: Duration,
    /// Number of requests without an answer.
    pub(crate) lost: usize,
}

impl Answers {
    fn with_room_for(requests: usize) -> Self {
        Self {
            // Include room for a full batch after the last answer. Touch the memory before the clock starts.
            bytes: vec![[1; REPLY_BYTES_MAX]; requests + BATCH],
            lengths: Vec::with_capacity(requests + BATCH),
            arrivals: Vec::with_capacity(requests + BATCH),
            elapsed: Duration::ZERO,
            lost: 0,
        }
    }

    /// Iterates over the answers with their arrival times, in order of arrival.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], Duration)> {
        let replies = self.bytes.iter().zip(&self.lengths).map(|(bytes, &length)| &bytes[..length]);
        replies.zip(self.arrivals.iter().copied())
    }

    fn count(&self) -> usize {
        self.lengths.len()
    }

    /// Returns the buffers for the next answers.
    fn room(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let taken = self.lengths.len();
        self.bytes[taken..taken + BATCH].iter_mut().map(<[u8; _]>::as_mut_slice)
    }

    fn note(&mut self, lengths: &[usize], arrival: Duration) {
        self.lengths.extend_from_slice(lengths);
        self.arrivals.resize(self.lengths.len(), arrival);
        self.elapsed = arrival;
    }
}

/// Sends all of `packets` from `client` to `server`, as fast as the server answers, with at most `window` requests in
/// flight.
pub(crate) fn saturate(client: Ipv4Addr, server: SocketAddr, packets: &Packets, window: usize) -> io::Result<Answers> {
    let mut datagrams = Datagrams::connect(client, server, PATIENCE)?;
    let total = packets.count();
    let mut answers = Answers::with_room_for(total);
    let (mut sent, start) = (0, Instant::now());
    while answers.count() + answers.lost < total {
        let under_way = sent - answers.count() - answers.lost;
        let next = BATCH.min(window).min(total - sent);
        if next > 0 && under_way + next <= window {
            datagrams.send(packets.batch(sent, next), &[None; BATCH])?;
            sent += next;
            continue;
        }
        let received = datagrams.receive(answers.room())?;
        if received.count == 0 {
            answers.lost += under_way;
        }
        answers.note(&received.lengths[..received.count], start.elapsed());
        // Late answers of lost requests may still arrive.
        answers.lost = answers.lost.min(sent - answers.count());
    }
    Ok(answers)
}

/// Sends all of `packets` from `client` to `server`. The n-th is sent after n × `interval`, without waiting for
/// answers.
pub(crate) fn pace(client: Ipv4Addr, server: SocketAddr, packets: &Packets, interval: Duration) -> io::Result<Answers> {
    let mut datagrams = Datagrams::connect(client, server, PATIENCE)?;
    let total = packets.count();
    let mut answers = Answers::with_room_for(total);
    let (mut sent, start) = (0, Instant::now());
    while answers.count() < total {
        let now = start.elapsed();
        let due = (now.div_duration_f64(interval) as usize + 1).min(total);
        let next = BATCH.min(due - sent);
        if next > 0 {
            datagrams.send(packets.batch(sent, next), &[None; BATCH])?;
            sent += next;
        }
        let received = datagrams.receive_ready(answers.room())?;
        if received.count > 0 {
            answers.note(&received.lengths[..received.count], start.elapsed());
        } else if sent == total && now > answers.elapsed + PATIENCE {
            answers.lost = total - answers.count();
            break;
        }
    }
    Ok(answers)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    const CLIENT: Ipv4Addr = Ipv4Addr::LOCALHOST;
    const TOTAL: usize = 2 * BATCH + 1;

    fn packets() -> Packets {
        Packets::new(TOTAL, |at, packet| packet.extend_from_slice(&(at as u32).to_be_bytes()))
    }

    /// Starts a server that echoes the first `count` datagrams and ignores the rest. Returns its address.
    fn answers_first(count: usize) -> SocketAddr {
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let mut server = Datagrams::bind(CLIENT).unwrap();
            sender.send(server.port().unwrap()).unwrap();
            let (mut buffers, mut answered) = (vec![[0; 4]; BATCH], 0);
            while answered < count {
                let received = server.receive(buffers.iter_mut().map(<[u8; 4]>::as_mut_slice)).unwrap();
                let next = received.count.min(count - answered);
                server.send(buffers[..next].iter().map(<[u8; 4]>::as_slice), &received.senders).unwrap();
                answered += next;
            }
            // Keep the socket open until the test has ended, so that later packets are lost instead of refused.
            thread::park();
        });
        (CLIENT, receiver.recv().unwrap()).into()
    }

    fn numbers(answers: &Answers) -> Vec<u32> {
        let mut numbers: Vec<u32> =
            answers.iter().map(|(reply, _)| u32::from_be_bytes(reply.try_into().unwrap())).collect();
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn every_request_is_sent_once_and_every_answer_is_kept() {
        let all: Vec<u32> = (0..TOTAL as u32).collect();
        let answers = saturate(CLIENT, answers_first(TOTAL), &packets(), BATCH).unwrap();
        assert_eq!((numbers(&answers), answers.lost), (all.clone(), 0));
        let answers = pace(CLIENT, answers_first(TOTAL), &packets(), Duration::from_micros(10)).unwrap();
        assert_eq!((numbers(&answers), answers.lost), (all, 0));
    }

    #[test]
    fn requests_without_an_answer_are_counted() {
        assert_eq!(saturate(CLIENT, answers_first(TOTAL - 1), &packets(), 2 * BATCH).unwrap().lost, 1);
        assert_eq!(pace(CLIENT, answers_first(TOTAL - 1), &packets(), Duration::from_micros(10)).unwrap().lost, 1);
    }
}
