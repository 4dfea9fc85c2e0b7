//! Code shared by the verbs that talk to a server: options for the server and the messages, and parallel requests.

mod own_token;
mod parallel;
mod reasons;

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bruit_client::{Client, Purpose, Schemes, Signer};
use bruit_signatures::razor::Ep4;

use bruit_console::Failure;
use bruit_console::failure::bad_input;
use bruit_console::quantity::parse_duration;
pub(crate) use own_token::find as find_own_token;
pub(crate) use parallel::{Place, for_each_answer, json_line, print_summary};
pub(crate) use reasons::machine_word;

/// Maximum number of bytes read from a file with a token or a password.
const TOKEN_FILE_BYTES_MAX: u64 = 4096;

/// Time limit of a request that only describes the program to the server's operator. It is short, because other work
/// waits for this request.
pub(crate) const ANNOUNCE_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum number of parallel requests.
const JOBS_MAX: i64 = 64;

/// Options that select the server.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct Server {
    /// Address of the server
    #[arg(long, value_name = "URL", env = "BRUIT_SERVER", default_value = "http://127.0.0.1:8625")]
    server: String,

    /// File whose first line is the access token [default: $BRUIT_TOKEN, if set]
    ///
    /// To administer a server on this machine, no token is needed if you can read admin.token in its data
    /// directory.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Maximum time for a request, including the lookup of the server's name: 500ms, 5s, 1m [default: 5s for
    /// check and explain, 30s for others]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,
}

/// Options that select the messages.
#[derive(Debug, clap::Args)]
pub(crate) struct Input {
    /// Messages, mboxes, Maildirs or folders; files may be compressed with gzip. Without FILE, or with -, one
    /// message is read from standard input
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// Number of parallel requests, at most 64
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=JOBS_MAX))]
    jobs: u8,
}

impl Input {
    /// Returns an error if the input is a folder or several files. If two messages with the same text shared an
    /// idempotency key, the second would not be counted.
    pub(crate) fn ensure_one_message(&self) -> Result<(), Failure> {
        if self.files.len() > 1 || self.files.iter().any(|file| file.is_dir()) {
            return Err(Failure::BadInput("--idempotency-key allows only one message".to_owned()));
        }
        Ok(())
    }
}

/// Options that select the messages and the schemes.
#[derive(Debug, clap::Args)]
pub(crate) struct Messages {
    #[command(flatten)]
    pub(crate) input: Input,

    /// Schemes to compute, separated by commas, instead of the default
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_scheme)]
    scheme: Vec<Schemes>,

    /// Seed and separator of razor_e4, as announced by the server
    #[arg(long, value_name = "SEED-BYTE", default_value_t)]
    ep4: Ep4,
}

impl Server {
    /// Returns the options for the server at this address.
    pub(crate) fn at(url: &str, token_file: Option<&Path>) -> Self {
        Self { server: url.to_owned(), token_file: token_file.map(Path::to_owned), timeout: None }
    }

    /// Returns the time limit of a request.
    pub(crate) fn timeout(&self, default_timeout: Duration) -> Duration {
        self.timeout.unwrap_or(default_timeout)
    }

    /// Returns a client for the server. Nothing is sent yet.
    pub(crate) fn client(&self, default_timeout: Duration) -> Result<Client, Failure> {
        let token = self.token()?;
        Client::new(&self.server, token.as_deref(), self.timeout(default_timeout)).map_err(bad_input)
    }

    /// Returns a client with administrator access. Without a token option, the client sends the token of the local
    /// server, if that is readable.
    pub(crate) fn admin_client(&self, default_timeout: Duration) -> Result<Client, Failure> {
        let token = self.token()?.or_else(|| find_own_token(&self.server));
        Client::new(&self.server, token.as_deref(), self.timeout(default_timeout)).map_err(bad_input)
    }

    /// Reads the token from a file or the environment. It cannot be an argument, because every local user can see
    /// arguments.
    fn token(&self) -> Result<Option<String>, Failure> {
        match &self.token_file {
            Some(file) => read_token(file).map(Some),
            None => Ok(std::env::var("BRUIT_TOKEN").ok().filter(|token| !token.is_empty())),
        }
    }
}

impl Messages {
    /// Returns the signer for the selected schemes.
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

/// Reads a token from the first line of a file.
pub(crate) fn read_token(file: &Path) -> Result<String, Failure> {
    read_secret(file, "token")
}

/// Reads a secret from the first line of a file. `kind` names it in errors.
pub(crate) fn read_secret(file: &Path, kind: &str) -> Result<String, Failure> {
    let mut text = String::new();
    let read = File::open(file).and_then(|opened| opened.take(TOKEN_FILE_BYTES_MAX).read_to_string(&mut text));
    read.map_err(|error| Failure::BadInput(format!("failed to read the {kind} in {}: {error}", file.display())))?;
    let secret = text.lines().next().unwrap_or_default().trim();
    if secret.is_empty() {
        return Err(Failure::BadInput(format!("the first line of {} is empty: expected a {kind}", file.display())));
    }
    Ok(secret.to_owned())
}
