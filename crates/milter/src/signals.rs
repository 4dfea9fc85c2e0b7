//! Signals to the daemon: stop, or reload the configuration.

use std::io;

use nix::sys::signal::{SigSet, Signal as Number};

/// A request to the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM, or SIGINT from a terminal.
    Stop,
    /// SIGHUP.
    Reload,
}

/// The signals that this process waits for.
#[derive(Debug)]
pub struct Signals(SigSet);

impl Signals {
    /// Blocks the signals, so that they wait for [`next_signal`](Self::next_signal). Call it before any thread is
    /// started, because threads inherit the mask.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn block() -> io::Result<Self> {
        let set: SigSet = [Number::SIGTERM, Number::SIGINT, Number::SIGHUP].into_iter().collect();
        set.thread_block()?;
        Ok(Self(set))
    }

    /// Waits for the next signal.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn next_signal(&self) -> io::Result<Signal> {
        Ok(match self.0.wait()? {
            Number::SIGHUP => Signal::Reload,
            _ => Signal::Stop,
        })
    }
}
