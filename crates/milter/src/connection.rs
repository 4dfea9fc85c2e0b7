//! The socket of one MTA, with its time limits.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bruit_protocols::milter::{Decoder, FrameError, KEPT_BYTES_MAX, RECEIVE_BYTES_MAX};

use crate::config::Limits;
use crate::memory::{Memory, Reservation};
use crate::metrics::CutOff;
use crate::session::{Next, SequenceError, Session};

/// Interval at which a waiting connection checks the clock and whether the milter is stopping.
const GLANCE: Duration = Duration::from_millis(250);

/// Maximum time for the MTA to accept an answer.
const WRITE_TIME_MAX: Duration = Duration::from_secs(30);

/// Maximum length of a connection's buffer that is not counted towards the memory for messages. The usual commands fit
/// into such a buffer.
const UNCOUNTED_BYTES: usize = KEPT_BYTES_MAX + RECEIVE_BYTES_MAX;

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Socket {
    Inet(TcpStream),
    Unix(UnixStream),
}

/// The reason why a connection ended before the MTA ended it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("malformed command: {0}")]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Sequence(#[from] SequenceError),
    #[error("no command for {0:?}")]
    Idle(Duration),
    #[error("a command was not complete after {0:?}")]
    SlowCommand(Duration),
    #[error("a message was not complete after {0:?}")]
    SlowContent(Duration),
    #[error("no memory for a command of more than {UNCOUNTED_BYTES} bytes")]
    Memory,
}

impl ConnectionError {
    /// Returns the reason why the milter closed the connection, or `None` if the other side or the system closed it.
    pub(crate) const fn cut_off(&self) -> Option<CutOff> {
        match self {
            Self::Io(_) => None,
            Self::Frame(_) | Self::Sequence(_) => Some(CutOff::Malformed),
            Self::Idle(_) => Some(CutOff::Idle),
            Self::SlowCommand(_) | Self::SlowContent(_) => Some(CutOff::Slow),
            Self::Memory => Some(CutOff::Busy),
        }
    }
}

impl Socket {
    fn set_timeouts(&self) -> io::Result<()> {
        match self {
            Self::Inet(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(GLANCE))?;
                stream.set_write_timeout(Some(WRITE_TIME_MAX))
            }
            Self::Unix(stream) => {
                stream.set_read_timeout(Some(GLANCE))?;
                stream.set_write_timeout(Some(WRITE_TIME_MAX))
            }
        }
    }

    /// Reads some bytes. Returns `None` if none arrived in time.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let read = match self {
            Self::Inet(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        };
        match read {
            Ok(count) => Ok(Some(count)),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(error),
            },
        }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Inet(stream) => stream.write_all(bytes),
            Self::Unix(stream) => stream.write_all(bytes),
        }
    }
}

/// The limits of a connection, and the start of each period that is limited.
struct Deadlines {
    limits: Limits,
    /// Time of the last complete command.
    last_command: Instant,
    /// Start of the command that is being received.
    command_since: Option<Instant>,
    /// Start of the content that is being received.
    content_since: Option<Instant>,
}

impl Deadlines {
    fn note(&mut self, now: Instant, is_in_frame: bool, had_command: bool, is_in_content: bool) {
        if had_command {
            self.last_command = now;
            self.command_since = None;
        }
        self.command_since = is_in_frame.then(|| self.command_since.unwrap_or(now));
        self.content_since = is_in_content.then(|| self.content_since.unwrap_or(now));
    }

    fn check(&self, now: Instant) -> Result<(), ConnectionError> {
        let Limits { idle, command, content, .. } = self.limits;
        let is_over = |since: Option<Instant>, most| since.is_some_and(|since| now.duration_since(since) > most);
        if is_over(self.content_since, content) {
            return Err(ConnectionError::SlowContent(content));
        }
        if is_over(self.command_since, command) {
            return Err(ConnectionError::SlowCommand(command));
        }
        if is_over(Some(self.last_command), idle) {
            return Err(ConnectionError::Idle(idle));
        }
        Ok(())
    }
}

/// Serves an MTA until it quits or a time limit passes. Once `is_stopping` is set, returns as soon as no message is in
/// progress.
pub(crate) fn serve(
    mut socket: Socket,
    mut session: Session,
    limits: Limits,
    memory: Arc<Memory>,
    is_stopping: &AtomicBool,
) -> Result<(), ConnectionError> {
    socket.set_timeouts()?;
    let mut reservation = Reservation::new(memory);
    let mut decoder = Decoder::default();
    let mut buffer = vec![0; RECEIVE_BYTES_MAX];
    let mut out = Vec::new();
    let mut deadlines = Deadlines { limits, last_command: Instant::now(), command_since: None, content_since: None };
    loop {
        if is_stopping.load(Ordering::Acquire) && session.is_idle() && !decoder.is_in_frame() {
            return Ok(());
        }
        deadlines.check(Instant::now())?;
        let count = match socket.receive(&mut buffer)? {
            None => continue,
            Some(0) => return Ok(()),
            Some(count) => count,
        };
        decoder.receive(buffer.get(..count).unwrap_or_default());
        reserve(&mut reservation, &decoder, limits)?;
        let mut had_command = false;
        while let Some(command) = decoder.next_command()? {
            had_command = true;
            let next = session.take(command, &mut out)?;
            if !out.is_empty() {
                socket.send(&out)?;
                out.clear();
            }
            if next == Next::Close {
                return Ok(());
            }
        }
        deadlines.note(Instant::now(), decoder.is_in_frame(), had_command, session.is_in_content());
    }
}

/// Counts the buffer of a long command towards the memory for messages.
fn reserve(reservation: &mut Reservation, decoder: &Decoder, limits: Limits) -> Result<(), ConnectionError> {
    let counted = decoder.held_bytes().saturating_sub(UNCOUNTED_BYTES) as u64;
    if counted == 0 {
        reservation.release();
    }
    if reservation.grow_to(counted, limits.memory_bytes) { Ok(()) } else { Err(ConnectionError::Memory) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn long_commands_count_towards_the_memory() {
        let limits = Config::parse("[limits]\nmessage = \"64KiB\"\nmemory = \"256KiB\"").unwrap().settings.limits;
        let memory = Arc::new(Memory::default());
        let [mut one, mut two] = [1, 2].map(|_| Reservation::new(Arc::clone(&memory)));
        let receive = |bytes: usize| {
            let mut decoder = Decoder::default();
            decoder.receive(&(1_u32 << 20).to_be_bytes());
            (0..bytes / 1_000).for_each(|_| decoder.receive(&[b'x'; 1_000]));
            decoder
        };
        reserve(&mut one, &receive(UNCOUNTED_BYTES - 2_000), limits).unwrap();
        assert_eq!(memory.used_bytes(), 0, "short commands need no reservation");
        reserve(&mut one, &receive(UNCOUNTED_BYTES + 200_000), limits).unwrap();
        let full = reserve(&mut two, &receive(UNCOUNTED_BYTES + 200_000), limits);
        assert!(matches!(full, Err(ConnectionError::Memory)), "{full:?}");
        reserve(&mut one, &Decoder::default(), limits).unwrap();
        assert_eq!(memory.used_bytes(), 0);
    }

    #[test]
    fn time_limits_start_at_the_first_byte() {
        let text = "[limits]\nidle = \"60s\"\ncommand = \"5s\"\ncontent = \"10s\"";
        let limits = Config::parse(text).unwrap().settings.limits;
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let new = || Deadlines { limits, last_command: start, command_since: None, content_since: None };
        assert!(new().check(at(60)).is_ok());
        assert!(matches!(new().check(at(61)), Err(ConnectionError::Idle(_))));
        // More bytes of the same command do not extend its time.
        let mut slow = new();
        slow.note(at(1), true, false, false);
        slow.note(at(5), true, false, false);
        assert!(slow.check(at(6)).is_ok());
        assert!(matches!(slow.check(at(7)), Err(ConnectionError::SlowCommand(_))));
        // A new command does not extend the time of a message.
        let mut endless = new();
        for second in 1..=11 {
            endless.note(at(second), false, true, true);
        }
        assert!(endless.check(at(11)).is_ok());
        assert!(matches!(endless.check(at(12)), Err(ConnectionError::SlowContent(_))));
        endless.note(at(12), false, true, false);
        assert!(endless.check(at(60)).is_ok());
    }
}
