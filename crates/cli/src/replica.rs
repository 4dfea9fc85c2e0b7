//! `bruit replica`: keeps a local copy of the listings of a server and its peers, in one file.
//!
//! The copy is fetched once and then updated every few seconds. `bruit check --local` reads the file.

mod show;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use bruit_federation::keys::PublicKey;
use bruit_federation::replica::{
    CAPACITY_MAX, CAPACITY_MIN, FALSE_HIT_RATE, FollowError, Follower, ReplicaFile, Round, Status,
};
use bruit_federation::transport::TransportError;
use bruit_federation::transport::https::HttpsSource;
use bruit_store::Founding;
use tokio::signal::unix::{SignalKind, signal};

use crate::remote::{find_own_token, read_token};
use bruit_console::Failure;
use bruit_console::date::now;
use bruit_console::progress::of_bytes;
use bruit_console::quantity::{counted, grouped, human_bytes, parse_count, parse_duration};
use bruit_console::terminal::complain;

const AFTER_HELP: &str = "\
A replica contains the signatures that the server, its cluster and its peers have listed, or counted for at \
least 16 recipients. It does not contain revocations or whitelists, so 'bruit check' asks the server about hits. \
It cannot recognise near replicas of known texts.

THE FILE CONTAINS THE REALM'S SECRET KEY and is created with permissions 0600. Allow only the users who run \
'bruit check' to read it. Fetching the realm requires a token with `replica = true` or, on the server's \
machine, permission to read its admin.token.

Exit codes:
  0  up to date (with --once), or stopped by a signal
  2  error: the server refused or could not be reached, none of its data was accepted, some announced data \
  could not be fetched yet, or an argument is invalid

Examples:
  bruit replica --server http://127.0.0.1:8625 --data /var/lib/bruit/replica
  bruit replica --server https://bruit.example.org --token-file token --once
  bruit replica --show
  bruit check --local /var/lib/bruit/replica message.eml";

/// Arguments of `bruit replica`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ReplicaArgs {
    /// Server to follow, or static host that mirrors it
    #[arg(long = "server", alias = "from", value_name = "URL", required_unless_present = "show")]
    from: Option<String>,

    /// Accept only data signed with these public keys, separated by commas [default: accept all]
    #[arg(long, value_name = "HEX", value_delimiter = ',')]
    key: Vec<PublicKey>,

    /// File whose first line is the access token [default: $BRUIT_TOKEN, if set]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Realm file for a new replica: a copy of the server's realm.bruit [default: fetch the realm from the server]
    #[arg(long, value_name = "FILE")]
    realm: Option<PathBuf>,

    /// Replica file; created if missing
    #[arg(long, value_name = "FILE", env = "BRUIT_REPLICA", default_value = "/var/lib/bruit/replica")]
    data: PathBuf,

    /// Number of listed signatures that a new replica is sized for; 10M signatures need 28 MB
    #[arg(long, value_name = "N", default_value = "10M", value_parser = parse_capacity)]
    capacity: u64,

    /// Fetch updates once, then exit
    #[arg(long)]
    once: bool,

    /// Show the contents and age of the replica, without fetching anything
    #[arg(long, conflicts_with_all = ["from", "key", "token_file", "realm", "once"])]
    show: bool,

    /// With --show: maximum age, beyond which 'bruit check' asks the server
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_duration, requires = "show")]
    stale_after: Duration,

    /// With --show: print one JSON object
    #[arg(long, requires = "show")]
    json: bool,
}

fn parse_capacity(text: &str) -> Result<u64, String> {
    let is_one = |capacity: &u64| (CAPACITY_MIN..=CAPACITY_MAX).contains(capacity);
    let bounds = || format!("it must be from {} to {}", grouped(CAPACITY_MIN), grouped(CAPACITY_MAX));
    Some(parse_count(text)?).filter(is_one).ok_or_else(bounds)
}

pub(crate) fn run(arguments: &ReplicaArgs, output: &mut impl Write) -> Result<ExitCode, Failure> {
    if arguments.show {
        return show::run(&arguments.data, arguments.stale_after, arguments.json, output);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("failed to start the runtime").map_err(Failure::Other)?.block_on(until_stopped(arguments, output))
}

async fn until_stopped(arguments: &ReplicaArgs, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let watch = |kind| signal(kind).context("failed to watch for signals").map_err(Failure::Other);
    let (mut terminate, mut interrupt) = (watch(SignalKind::terminate())?, watch(SignalKind::interrupt())?);
    // Writing to the file has no await point, so a signal cannot interrupt it.
    tokio::select! {
        done = follow(arguments, output) => done,
        _ = terminate.recv() => Ok(ExitCode::SUCCESS),
        _ = interrupt.recv() => Ok(ExitCode::SUCCESS),
    }
}

async fn follow(arguments: &ReplicaArgs, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let source = source(arguments)?;
    let file = match ReplicaFile::open(&arguments.data) {
        Err(error) if error.is_missing() => create(arguments, &source).await?,
        opened => opened.map_err(failure)?,
    };
    let mut follower = Follower::new(source, file, arguments.key.clone());
    let mut news = ProblemLog::default();
    match first_round(&mut follower).await {
        Ok(round) => {
            let status = follower.file().status();
            if let Some(warning) = overfull(&arguments.data, &status) {
                complain(&warning);
            }
            writeln!(output, "{}", summary(&arguments.data, &status, &round))?;
            output.flush()?;
            let fault = fault(arguments, &round);
            if arguments.once {
                tell_rejected(&round);
                return fault.map_or(Ok(ExitCode::SUCCESS), |text| Err(Failure::BadInput(text)));
            }
            news.tell(fault);
        }
        Err(FollowError::Transport(error)) if !arguments.once => complain(&chain(error)),
        Err(error) => return Err(failure(error)),
    }
    let tell = |file: &ReplicaFile, round: Result<&Round, &TransportError>| {
        let fault = round.map_or_else(|error| Some(error.to_string()), |round| fault(arguments, round));
        news.tell(fault.or_else(|| overfull(&arguments.data, &file.status())));
    };
    Err(failure(follower.follow(now, tell).await))
}

/// Returns the problem with a round of updates that reached the server, if there is one. It is a problem if no data was
/// accepted or the data was incomplete. Without `--once`, rejected data is a problem, too.
fn fault(arguments: &ReplicaArgs, round: &Round) -> Option<String> {
    let url = arguments.from.as_deref().unwrap_or_default();
    let rejected = || round.rejected.first().map(|rejected| format!("rejected data from {url}: {rejected}"));
    let incomplete = || format!("{url} announced segments that it cannot serve yet: try again");
    match round.nothing_taken() {
        Some(reason) => Some(format!("accepted nothing from {url}: {reason}")),
        None if !round.is_complete => Some(incomplete()),
        None => rejected().filter(|_| !arguments.once),
    }
}

/// Returns a warning if the replica's false-hit rate is far above the planned one.
fn overfull(path: &Path, status: &Status) -> Option<String> {
    status.is_overfull().then(|| {
        format!(
            "warning: {} has false hits for {:.0} % of unknown signatures (planned: {:.0} %); delete it, and create it again with a \
             --capacity above {}",
            path.display(),
            100.0 * status.false_hit_rate,
            100.0 * FALSE_HIT_RATE,
            grouped(status.capacity),
        )
    })
}

fn source(arguments: &ReplicaArgs) -> Result<HttpsSource, Failure> {
    let url = arguments.from.as_deref().unwrap_or_default();
    let source = HttpsSource::web(url).map_err(failure)?;
    let token = match &arguments.token_file {
        Some(file) => Some(read_token(file)?),
        None => std::env::var("BRUIT_TOKEN").ok().filter(|token| !token.is_empty()),
    };
    match token {
        Some(token) => source.with_token(&token).map_err(failure),
        None => Ok(source),
    }
}

/// Returns a source that fetches the realm with the token of a server on this machine. Returns `None` if the user
/// supplied a token, or if no local token is found. The token is sent with this one request only, because another
/// program may listen at the address later.
fn one_time_source(arguments: &ReplicaArgs) -> Result<Option<HttpsSource>, Failure> {
    let url = arguments.from.as_deref().unwrap_or_default();
    let has_token =
        arguments.token_file.is_some() || std::env::var_os("BRUIT_TOKEN").is_some_and(|token| !token.is_empty());
    let found = find_own_token(url).filter(|_| !has_token);
    let source = |token: String| HttpsSource::web(url).map_err(failure)?.with_token(&token).map_err(failure);
    found.map(source).transpose()
}

async fn create(arguments: &ReplicaArgs, source: &HttpsSource) -> Result<ReplicaFile, Failure> {
    let founding = match &arguments.realm {
        Some(file) => Founding::read_file(file)
            .map_err(|error| Failure::BadInput(format!("the realm in {} {error}", file.display())))?,
        None => {
            let refused = |error| {
                Failure::BadInput(format!(
                    "failed to fetch the realm for a new replica (requires a token with `replica = true`, see --token-file): {}",
                    chain(error)
                ))
            };
            let bytes = match one_time_source(arguments)? {
                Some(source) => source.realm().await,
                None => source.realm().await,
            };
            let bytes = bytes.map_err(refused)?;
            Founding::decode(&bytes).map_err(|error| Failure::BadInput(format!("the realm of the server {error}")))?
        }
    };
    ReplicaFile::create(&arguments.data, founding.realm, arguments.capacity, now()).map_err(failure)
}

async fn first_round(follower: &mut Follower<HttpsSource>) -> Result<Round, FollowError> {
    let bar = of_bytes(Some(0), false);
    let progress = |progress: bruit_federation::replica::Progress| {
        bar.set_length(progress.bytes_missing);
        bar.set_position(progress.bytes);
    };
    let round = follower.round(now, progress).await;
    bar.finish_and_clear();
    round
}

fn summary(path: &Path, status: &Status, round: &Round) -> String {
    let age = status.age_seconds(now()).map_or_else(|| "never updated".to_owned(), |age| format!("{age} s old"));
    format!(
        "{}: {} and {} bulk signatures, {}, {age}; new entries: {}",
        path.display(),
        counted(status.listed, "listed signature"),
        grouped(status.bulk),
        human_bytes(status.bytes),
        grouped(round.signatures),
    )
}

fn tell_rejected(round: &Round) {
    round.rejected.iter().for_each(|rejected| complain(&format!("rejected: {rejected}")));
}

/// The last printed problem, used to suppress repetitions.
#[derive(Default)]
struct ProblemLog(String);

impl ProblemLog {
    fn tell(&mut self, fault: Option<String>) {
        let line = fault.unwrap_or_default();
        let is_over = line.is_empty() && !self.0.is_empty();
        if line != self.0 {
            complain(if is_over { "recovered" } else { &line });
            self.0 = line;
        }
    }
}

fn failure(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::BadInput(chain(error))
}

/// Formats an error and its causes as one line.
fn chain(error: impl std::error::Error + Send + Sync + 'static) -> String {
    format!("{:#}", anyhow::Error::new(error))
}
