//! Errors that end a verb, and their exit codes. Some verbs, such as `bruit check`, also use exit codes to answer.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | success, or the output was closed early |
//! | 1 | unexpected error, or an error of the operating system |
//! | 2 | invalid input, or a server that refuses or does not answer |
//! | 130 | interrupted |
//!
//! Every error is one line on standard error.

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

/// Exit code after Ctrl-C. By convention, it is 128 plus the signal number.
pub const INTERRUPTED: u8 = 130;

/// Exit code if some inputs could not be read.
pub const FAULTS: u8 = 2;

/// Returns a failure for invalid input, or for a request that a server refused.
pub fn bad_input(error: impl Display) -> Failure {
    Failure::BadInput(error.to_string())
}

/// An error that ends a verb.
#[derive(Debug)]
pub enum Failure {
    /// The input is invalid. The text states how to correct it.
    BadInput(String),
    /// The output was closed.
    ReaderLeft,
    /// Ctrl-C was pressed before all input was read.
    Interrupted,
    /// Any other error.
    Other(anyhow::Error),
}

impl Failure {
    /// Returns the error message as one line, or `None` if the output was closed.
    pub fn line(&self) -> Option<String> {
        match self {
            Self::BadInput(text) => Some(text.clone()),
            Self::ReaderLeft => None,
            Self::Interrupted => Some("interrupted; the input read so far is recorded".into()),
            Self::Other(error) => Some(format!("{error:#}")),
        }
    }

    /// Returns the exit code of the program.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::BadInput(_) => ExitCode::from(2),
            Self::ReaderLeft => ExitCode::SUCCESS,
            Self::Interrupted => ExitCode::from(INTERRUPTED),
            Self::Other(_) => ExitCode::FAILURE,
        }
    }

    /// Changes exit code 1 to 2, for verbs whose exit code 1 is an answer and not an error.
    pub fn as_usage_error(self) -> Self {
        match self {
            Self::Other(error) => Self::BadInput(format!("{error:#}")),
            other => other,
        }
    }

    /// Formats clap's message and its suggestions ("tip: …") as one line.
    pub fn from_clap(error: &clap::Error) -> Self {
        let text = error.render().to_string();
        let one_line = |paragraph: &str| paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut paragraphs = text.split("\n\n").map(one_line);
        let message = paragraphs.next().unwrap_or_default();
        let tips: String =
            paragraphs.filter_map(|tip| tip.strip_prefix("tip: ").map(|tip| format!("; {tip}"))).collect();
        Self::BadInput(format!("{}{tips} (see --help)", message.trim_start_matches("error: ")))
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

#[cfg(test)]
mod tests {
    use clap::{Arg, Command};

    use super::*;

    #[test]
    fn suggestions_survive_in_the_one_line() {
        let program = Command::new("bruit").subcommand(Command::new("check").arg(Arg::new("json").long("json")));
        let line = |arguments: &[&str]| {
            let error = program.clone().try_get_matches_from(arguments).unwrap_err();
            Failure::from_clap(&error).line().unwrap()
        };
        for (arguments, tip) in [(&["bruit", "chekc"][..], "'check'"), (&["bruit", "check", "--jsno"], "'--json'")] {
            let line = line(arguments);
            assert!(line.contains(tip) && line.ends_with("(see --help)") && !line.contains('\n'), "{line}");
        }
    }
}
