//! What the verbs that talk to a server have in common: which server, which messages, and many requests at once.

mod own_token;
mod parallel;
mod reasons;

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bruit_client::{Client, Purpose, Schemes, Signer};
use bruit_signatures::razor::Ep4;

use crate::failure::Failure;
use crate::quantity::parse_duration;
pub(crate) use own_token::find as find_own_token;
pub(crate) use parallel::{Place, for_each_answer, json_line};
pub(crate) use reasons::{limit_words, machine_word, words};

/// The longest file that a token is read from.
const TOKEN_FILE_BYTES_MAX: u64 = 4096;

/// Most requests at once.
const JOBS_MAX: i64 = 64;

/// Which server to talk to, and how.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct Server {
    /// The server's address
    #[arg(long, value_name = "URL", env = "BRUIT_SERVER", default_value = "http://127.0.0.1:8625")]
    server: String,

    /// A file whose first line is the token to show; else what is in BRUIT_TOKEN, if anything
    ///
    /// To administer a server on this machine, none is needed by whoever can read admin.token in its data directory.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// How long a request may take, from looking up the server's name to the end of its answer: 500ms, 5s, 1m
    /// [default: 5s for check and explain, else 30s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,
}

/// Which messages to talk about.
#[derive(Debug, clap::Args)]
pub(crate) struct Input {
    /// Messages, mboxes, Maildirs or folders; standard input, which is one message, if there are none, or for -
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// Requests at once, at most 64
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=JOBS_MAX))]
    jobs: u8,
}

impl Input {
    /// Refuses more than one file, and folders: two messages with the same text would count as one under one name.
    pub(crate) fn ensure_one_message(&self) -> Result<(), Failure> {
        if self.files.len() > 1 || self.files.iter().any(|file| file.is_dir()) {
            return Err(Failure::BadInput("--idempotency-key is for one message, not for several".to_owned()));
        }
        Ok(())
    }
}

/// Which messages to talk about, and what to compute of them.
#[derive(Debug, clap::Args)]
pub(crate) struct Messages {
    #[command(flatten)]
    pub(crate) input: Input,

    /// Compute only these, separated by commas, instead of what is usual
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_scheme)]
    scheme: Vec<Schemes>,

    /// For razor: the seed and separator that the server announces
    #[arg(long, value_name = "SEED-BYTE", default_value_t)]
    ep4: Ep4,
}

impl Server {
    /// The server at this address, as if it had been given.
    pub(crate) fn at(url: &str, token_file: Option<&Path>) -> Self {
        Self { server: url.to_owned(), token_file: token_file.map(Path::to_owned), timeout: None }
    }

    /// A client of the server. Nothing is sent yet.
    pub(crate) fn client(&self, default_timeout: Duration) -> Result<Client, Failure> {
        let token = self.token()?;
        Ok(Client::new(&self.server, token.as_deref(), self.timeout.unwrap_or(default_timeout))?)
    }

    /// The same for an administrator: without a token of its own, it shows that of the server on this machine, if it may read it.
    pub(crate) fn admin_client(&self, default_timeout: Duration) -> Result<Client, Failure> {
        let token = self.token()?.or_else(|| find_own_token(&self.server));
        Ok(Client::new(&self.server, token.as_deref(), self.timeout.unwrap_or(default_timeout))?)
    }

    /// A token is never an argument, as anybody on the machine can read those.
    fn token(&self) -> Result<Option<String>, Failure> {
        match &self.token_file {
            Some(file) => read_token(file).map(Some),
            None => Ok(std::env::var("BRUIT_TOKEN").ok().filter(|token| !token.is_empty())),
        }
    }
}

impl Messages {
    /// What computes the signatures that are sent.
    pub(crate) fn signer(&self, purpose: Purpose) -> Signer {
        let signer = Signer { ep4: self.ep4.clone(), ..Signer::new(purpose) };
        if self.scheme.is_empty() {
            return signer;
        }
        Signer {
            schemes: self.scheme.iter().cloned().fold(Schemes::default(), Schemes::and),
            outlines: false,
            ..signer
        }
    }
}

fn parse_scheme(name: &str) -> Result<Schemes, String> {
    let names = || format!("possible values: {}", Schemes::names().collect::<Vec<_>>().join(", "));
    Schemes::named(name).ok_or_else(names)
}

/// The token in the first line of a file.
pub(crate) fn read_token(file: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = File::open(file).and_then(|opened| opened.take(TOKEN_FILE_BYTES_MAX).read_to_string(&mut text));
    read.map_err(|error| Failure::BadInput(format!("failed to read the token in {}: {error}", file.display())))?;
    let token = text.lines().next().unwrap_or_default().trim();
    if token.is_empty() {
        return Err(Failure::BadInput(format!("there is no token in the first line of {}", file.display())));
    }
    Ok(token.to_owned())
}
