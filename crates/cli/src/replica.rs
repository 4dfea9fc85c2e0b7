//! `bruit replica`: a copy of what a server and its peers have listed, kept current in one file.
//!
//! It is fetched once, and then follows: every few seconds what is new. `bruit check --local` reads the file.

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

use crate::date::now;
use crate::failure::Failure;
use crate::progress::of_bytes;
use crate::quantity::{counted, grouped, human_bytes, parse_count, parse_duration};
use crate::remote::{find_own_token, read_token};
use crate::terminal::complain;

const AFTER_HELP: &str = "\
A replica has the signatures that a server, its cluster and those it passes on have listed, or counted for 16
recipients or more. It does not have near replicas of known texts, revocations and whitelists: a hit is asked about,
a miss is not.

THE FILE HAS THE REALM'S SECRET KEY, and is made with permissions 0600: let those read it who run 'bruit check', and
nobody else. To fetch the realm takes a token with `replica = true`, or, on the server's own machine, the right to read its admin.token.

Exit codes:
  0  up to date (with --once), even if nothing was new; or stopped by a signal
  2  error: the server could not be reached or refused, nothing that it offers was accepted, something that it
     announced could not be fetched yet, or an argument is wrong

Examples:
  bruit replica --from http://127.0.0.1:8625 --data /var/lib/bruit/replica
  bruit replica --from https://bruit.example.org --token-file token --once
  bruit replica --show
  bruit check --local /var/lib/bruit/replica message.eml";

/// What `bruit replica` is asked.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The server to follow, or a static host of what it publishes
    #[arg(long, value_name = "URL", required_unless_present = "show")]
    from: Option<String>,

    /// Take only what servers with these keys have signed, separated by commas, instead of all that is offered
    #[arg(long, value_name = "HEX", value_delimiter = ',')]
    key: Vec<PublicKey>,

    /// A file whose first line is the token to show; else what is in BRUIT_TOKEN, if anything
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// The realm of a new replica, a copy of the server's realm.bruit, instead of asking the server for it
    #[arg(long, value_name = "FILE")]
    realm: Option<PathBuf>,

    /// The replica, which is made if it is not there
    #[arg(long, value_name = "FILE", env = "BRUIT_REPLICA", default_value = "/var/lib/bruit/replica")]
    data: PathBuf,

    /// Listed signatures that a new replica is made for: 10M take 28 MB
    #[arg(long, value_name = "N", default_value = "10M", value_parser = parse_capacity)]
    capacity: u64,

    /// Fetch what is new, and end
    #[arg(long)]
    once: bool,

    /// Say what the replica holds, and how old that is; follow nobody
    #[arg(long, conflicts_with_all = ["from", "key", "token_file", "realm", "once"])]
    show: bool,

    /// With --show: from which age on 'bruit check' asks the server all the same
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_duration, requires = "show")]
    stale_after: Duration,

    /// With --show: print one JSON object
    #[arg(long, requires = "show")]
    json: bool,
}

fn parse_capacity(text: &str) -> Result<u64, String> {
    let is_one = |capacity: &u64| (CAPACITY_MIN..=CAPACITY_MAX).contains(capacity);
    let bounds = || format!("it must be {} to {}", grouped(CAPACITY_MIN), grouped(CAPACITY_MAX));
    Some(parse_count(text)?).filter(is_one).ok_or_else(bounds)
}

pub(crate) fn run(arguments: &Arguments, output: &mut impl Write) -> Result<ExitCode, Failure> {
    if arguments.show {
        return show::run(&arguments.data, arguments.stale_after, arguments.json, output);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("failed to start").map_err(Failure::Other)?.block_on(until_stopped(arguments, output))
}

async fn until_stopped(arguments: &Arguments, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let watch = |kind| signal(kind).context("failed to watch for signals").map_err(Failure::Other);
    let (mut terminate, mut interrupt) = (watch(SignalKind::terminate())?, watch(SignalKind::interrupt())?);
    // Writing is never waited for, so that nothing is left half written.
    tokio::select! {
        done = follow(arguments, output) => done,
        _ = terminate.recv() => Ok(ExitCode::SUCCESS),
        _ = interrupt.recv() => Ok(ExitCode::SUCCESS),
    }
}

async fn follow(arguments: &Arguments, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let source = source(arguments)?;
    let file = match ReplicaFile::open(&arguments.data) {
        Err(error) if error.is_missing() => create(arguments, &source).await?,
        opened => opened.map_err(failure)?,
    };
    let mut follower = Follower::new(source, file, arguments.key.clone());
    let mut news = News::default();
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

/// The problem of a round that the server answered: nothing was accepted, or not everything could be fetched.
fn fault(arguments: &Arguments, round: &Round) -> Option<String> {
    let url = arguments.from.as_deref().unwrap_or_default();
    let rejected = || round.rejected.first().map(|rejected| format!("something from {url} was refused: {rejected}"));
    let incomplete = || format!("{url} announces segments that it does not have yet: try again");
    match round.nothing_taken() {
        Some(reason) => Some(format!("nothing was taken from {url}: {reason}")),
        None if !round.is_complete => Some(incomplete()),
        None => rejected().filter(|_| !arguments.once),
    }
}

/// The warning about a replica that takes too many unknown signatures for known ones.
fn overfull(path: &Path, status: &Status) -> Option<String> {
    status.is_overfull().then(|| {
        format!(
            "warning: {} takes {:.0} % of unknown signatures for known ones (planned: {:.0} %); remove it, and make it again with a \
             --capacity above {}",
            path.display(),
            100.0 * status.false_hit_rate,
            100.0 * FALSE_HIT_RATE,
            grouped(status.capacity),
        )
    })
}

fn source(arguments: &Arguments) -> Result<HttpsSource, Failure> {
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

/// The source that is asked for the realm on the server's own machine. It shows the administrator's token, for this one request: later
/// somebody else may listen there.
fn one_time_source(arguments: &Arguments) -> Result<Option<HttpsSource>, Failure> {
    let url = arguments.from.as_deref().unwrap_or_default();
    let has_token =
        arguments.token_file.is_some() || std::env::var_os("BRUIT_TOKEN").is_some_and(|token| !token.is_empty());
    let found = find_own_token(url).filter(|_| !has_token);
    let source = |token: String| HttpsSource::web(url).map_err(failure)?.with_token(&token).map_err(failure);
    found.map(source).transpose()
}

async fn create(arguments: &Arguments, source: &HttpsSource) -> Result<ReplicaFile, Failure> {
    let founding = match &arguments.realm {
        Some(file) => Founding::read_file(file)
            .map_err(|error| Failure::BadInput(format!("the realm in {} {error}", file.display())))?,
        None => {
            let refused = |error| {
                Failure::BadInput(format!(
                    "there is no realm for a new replica (a token with `replica = true` may have it, see --token-file): {}",
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
    let round = follower.round(Duration::ZERO, now, progress).await;
    bar.finish_and_clear();
    round
}

fn summary(path: &Path, status: &Status, round: &Round) -> String {
    let age = status.age_seconds(now()).map_or_else(|| "never heard of".to_owned(), |age| format!("{age} s old"));
    format!(
        "{}: {} and {} sent to many, {}, {age}; entries taken now: {}",
        path.display(),
        counted(status.listed, "listed signature"),
        grouped(status.bulk),
        human_bytes(status.bytes),
        grouped(round.signatures),
    )
}

fn tell_rejected(round: &Round) {
    round.rejected.iter().for_each(|rejected| complain(&format!("refused: {rejected}")));
}

/// What was told last, so that nothing is told twice in a row.
#[derive(Default)]
struct News(String);

impl News {
    fn tell(&mut self, fault: Option<String>) {
        let line = fault.unwrap_or_default();
        let is_over = line.is_empty() && !self.0.is_empty();
        if line != self.0 {
            complain(if is_over { "all is well again" } else { &line });
            self.0 = line;
        }
    }
}

fn failure(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::BadInput(chain(error))
}

/// An error and what caused it, in one line.
fn chain(error: impl std::error::Error + Send + Sync + 'static) -> String {
    format!("{:#}", anyhow::Error::new(error))
}
