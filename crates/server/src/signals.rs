//! Signals to the daemon: stop, or reload the configuration.

use std::io;

use tokio::runtime::Runtime;
use tokio::signal::unix::{self, SignalKind, signal};

use crate::server::Server;

/// An event that ends or reloads the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM, or SIGINT from a terminal.
    Stop,
    /// SIGHUP.
    Reload,
    /// The server failed, with the reason.
    Fail(String),
}

/// A stream of signals.
pub struct Signals {
    terminate: unix::Signal,
    interrupt: unix::Signal,
    hang_up: unix::Signal,
}

impl Signals {
    /// Installs handlers for signals that would otherwise end the process.
    ///
    /// # Errors
    /// Fails if the system refuses the handlers.
    pub fn take(runtime: &Runtime) -> io::Result<Self> {
        let _guard = runtime.enter();
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal, or until the server fails.
    pub fn next(&mut self, server: &Server) -> Signal {
        server.runtime().block_on(async {
            tokio::select! {
                reason = server.failed() => Signal::Fail(reason),
                _ = self.terminate.recv() => Signal::Stop,
                _ = self.interrupt.recv() => Signal::Stop,
                _ = self.hang_up.recv() => Signal::Reload,
            }
        })
    }
}
