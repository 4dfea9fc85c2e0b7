//! What may go wrong in any verb, and the exit code for it.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done; also when the reader of our output went away |
//! | 1 | something we did not foresee, or the system refused |
//! | 2 | bad input, or a server that does not answer or refuses; told in one line |
//! | 130 | ended by Ctrl-C, told in one line |

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

use bruit_client::ClientError;

/// What shells expect of a program ended by Ctrl-C: 128 and the number of the signal.
pub(crate) const INTERRUPTED: u8 = 130;

/// The exit code when something could not be read, and the rest was.
pub(crate) const FAULTS: u8 = 2;

/// One line, with what is wrong with the input.
pub(crate) fn wrong(error: impl Display) -> Failure {
    Failure::BadInput(error.to_string())
}

/// Why a verb stopped.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The input is wrong; the text says what to change.
    BadInput(String),
    /// The server does not answer, or refuses.
    Server(ClientError),
    /// Whoever read our output has seen enough.
    ReaderLeft,
    /// Ctrl-C, before all was read.
    Interrupted,
    /// Anything else.
    Other(anyhow::Error),
}

impl Failure {
    /// The one line for a person, if there is something to say.
    pub(crate) fn line(&self) -> Option<String> {
        match self {
            Self::BadInput(text) => Some(text.clone()),
            Self::Server(error) => Some(error.to_string()),
            Self::ReaderLeft => None,
            Self::Interrupted => Some("ended by Ctrl-C; what was read until then is recorded".into()),
            Self::Other(error) => Some(format!("{error:#}")),
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::BadInput(_) | Self::Server(_) => ExitCode::from(2),
            Self::ReaderLeft => ExitCode::SUCCESS,
            Self::Interrupted => ExitCode::from(INTERRUPTED),
            Self::Other(_) => ExitCode::FAILURE,
        }
    }

    /// The same with code 2, for verbs whose code 1 is an answer.
    pub(crate) fn with_code_2(self) -> Self {
        match self {
            Self::Other(error) => Self::BadInput(format!("{error:#}")),
            other => other,
        }
    }

    /// The first paragraph of what clap says, as one line.
    pub(crate) fn from_clap(error: &clap::Error) -> Self {
        let text = error.render().to_string();
        let paragraph = text.split("\n\n").next().unwrap_or_default();
        let line = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
        Self::BadInput(format!("{} (see --help)", line.trim_start_matches("error: ")))
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self::Server(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::ReaderLeft
        } else {
            Self::Other(anyhow::Error::new(error).context("failed to write the output"))
        }
    }
}
