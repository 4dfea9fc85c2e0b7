//! `bruit serve`: the daemon.

use std::env;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use bruit_server::config::{Facts, LogFormat, Warning};
use bruit_server::{Config, Listening, Server, Signal, Signals};
use bruit_store::ADMIN_TOKEN_FILE;
use sd_notify::NotifyState;
use tracing_subscriber::EnvFilter;

use crate::failure::Failure;
use crate::progress;

/// The directory of a server that the system starts.
const SYSTEM_DIRECTORY: &str = "/var/lib/bruit";

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without a configuration the server listens on loopback only, and whoever can reach it there may \
    check, report and revoke as one of the site's own users. To administer it takes the token in admin.token in the data directory, which \
    bruit finds by itself. bruit.toml in the repository has every setting with its default.\n\n\
    Signals: SIGTERM and SIGINT stop it when everything under way is answered and on disk; SIGHUP reads the configuration \
    again (all but data, realm, memory, durability, threads, listen, federation, nats and log)."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: DataDirectory,

    /// Found the clearinghouse in the realm of this file, from `bruit keys realm`, instead of a new one
    ///
    /// One that is there already has to be of that realm. Else `realm` in the configuration.
    #[arg(long, value_name = "FILE")]
    realm: Option<PathBuf>,

    /// Allow `memory` in the configuration to lower the memory budget, if everything fits
    #[arg(long)]
    shrink: bool,

    /// Only say whether the configuration can be used
    #[arg(long)]
    check_config: bool,

    /// Log level on standard error: error, warn, info, debug (one line per request), trace, or a filter such as bruit=debug
    ///
    /// Else `log.level` in the configuration, else info.
    #[arg(long, value_name = "LEVEL", env = "BRUIT_LOG")]
    log: Option<String>,

    /// Format of the log
    ///
    /// Else `log.format` in the configuration, else text.
    #[arg(long, value_name = "FORMAT", env = "BRUIT_LOG_FORMAT")]
    log_format: Option<Format>,
}

/// The format of the log.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    /// Lines for people
    Text,
    /// One JSON object per line
    Json,
}

/// Where the clearinghouse is.
#[derive(Debug, clap::Args)]
pub(crate) struct DataDirectory {
    /// The configuration, a TOML file
    #[arg(long, value_name = "FILE", env = "BRUIT_CONFIG")]
    config: Option<PathBuf>,

    /// The directory of the clearinghouse; the server makes it if it is not there
    ///
    /// Else `data` in the configuration, else $STATE_DIRECTORY (systemd), else $XDG_DATA_HOME/bruit, else
    /// ~/.local/share/bruit.
    #[arg(long, value_name = "DIR", env = "BRUIT_DATA")]
    data: Option<PathBuf>,
}

impl DataDirectory {
    /// The directory that a server with the same arguments uses.
    pub(crate) fn find(&self) -> Result<PathBuf, Failure> {
        match &self.data {
            Some(directory) => Ok(directory.clone()),
            None => self.of(&read(self.config.as_deref())?),
        }
    }

    fn of(&self, config: &Config) -> Result<PathBuf, Failure> {
        let given = self.data.clone().or_else(|| config.data.clone());
        given
            .or_else(|| usual_directories().next())
            .ok_or_else(|| Failure::BadInput("there is no home directory: say --data DIR".into()))
    }
}

/// The directories that a server uses if nothing is said, the first first.
fn usual_directories() -> impl Iterator<Item = PathBuf> {
    [("STATE_DIRECTORY", ""), ("XDG_DATA_HOME", "bruit"), ("HOME", ".local/share/bruit")]
        .into_iter()
        .filter_map(|(name, below)| from_environment(name).map(|directory| directory.join(below)))
}

/// The directories in which a server on this machine may be, for whoever looks for its token.
pub(crate) fn data_directories() -> Vec<PathBuf> {
    let of_config = || read(from_environment("BRUIT_CONFIG").as_deref()).ok()?.data;
    let named = from_environment("BRUIT_DATA").or_else(of_config);
    named.into_iter().chain(usual_directories()).chain([PathBuf::from(SYSTEM_DIRECTORY)]).collect()
}

fn from_environment(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

impl Arguments {
    /// The configuration, with what the command line says instead.
    fn read(&self) -> Result<Config, Failure> {
        let config = read(self.place.config.as_deref())?;
        let realm = self.realm.clone().or_else(|| config.realm.clone());
        Ok(Config { realm, shrink: self.shrink, ..config })
    }

    /// What the operator should know about the configuration.
    fn warnings(&self, config: &Config) -> Vec<Warning> {
        config.warnings(&Facts::gather(self.place.config.as_deref()))
    }

    /// The log as the command line, the environment or the configuration want it, in this order.
    fn log(&self, config: &Config) -> Result<Log, Failure> {
        let (setting, level) = match (&self.log, &config.log.level) {
            (Some(level), _) => ("--log", level.as_str()),
            (None, Some(level)) => ("log.level", level.as_str()),
            (None, None) => ("--log", "info"),
        };
        let filter = EnvFilter::try_new(level);
        let filter = filter.map_err(|error| Failure::BadInput(format!("{setting} {level:?}: {error}")))?;
        let format = match self.log_format {
            Some(Format::Text) => LogFormat::Text,
            Some(Format::Json) => LogFormat::Json,
            None => config.log.format,
        };
        Ok(Log { filter, format })
    }
}

pub(crate) fn run(arguments: &Arguments, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let config = arguments.read()?;
    let log = arguments.log(&config)?;
    if arguments.check_config {
        for warning in arguments.warnings(&config) {
            writeln!(io::stderr().lock(), "warning: {warning}")?;
        }
        writeln!(output, "the configuration can be used")?;
        return Ok(ExitCode::SUCCESS);
    }
    log.start();
    log_warnings(&arguments.warnings(&config));
    let directory = arguments.place.of(&config)?;
    let server = start(&config, &directory)?;
    let mut signals = Signals::take(server.runtime()).context("failed to take signals").map_err(Failure::Other)?;
    announce(&server, output)?;
    notify(&[NotifyState::Ready]);
    let failure = loop {
        match signals.next(&server) {
            Signal::Stop => break None,
            Signal::Reload => reload(&server, arguments),
            Signal::Fail(reason) => break Some(reason),
        }
    };
    notify(&[NotifyState::Stopping]);
    tracing::info!("stopping");
    let stopped = stop(server);
    failure.map_or(stopped, |reason| Err(Failure::Other(anyhow::anyhow!(reason))))
}

fn read(file: Option<&Path>) -> Result<Config, Failure> {
    let Some(file) = file else { return Ok(Config::default()) };
    let named = |error| anyhow::Error::new(error).context(format!("configuration {}", file.display()));
    Config::read(file).map_err(|error| Failure::BadInput(format!("{:#}", named(error))))
}

/// What is logged, and how.
struct Log {
    filter: EnvFilter,
    format: LogFormat,
}

impl Log {
    fn start(self) {
        let log = tracing_subscriber::fmt().with_env_filter(self.filter).with_writer(io::stderr).with_ansi(false);
        match self.format {
            LogFormat::Text => log.init(),
            LogFormat::Json => log.json().init(),
        }
    }
}

fn log_warnings(warnings: &[Warning]) {
    for Warning { key, text } in warnings {
        tracing::warn!(key, "{text}");
    }
}

fn start(config: &Config, directory: &Path) -> Result<Server, Failure> {
    let bar = progress::of_bytes(None, true);
    let server = Server::start(config, directory, &mut |bytes| bar.inc(bytes));
    bar.finish_and_clear();
    let server = server.map_err(|error| Failure::Other(error.into()))?;
    tracing::info!(recovery = %server.recovery(), "opened");
    Ok(server)
}

/// Where it listens, and what to try. Whoever started us may not read it, which is no reason not to serve.
fn announce(server: &Server, output: &mut impl Write) -> Result<(), Failure> {
    match write_announcement(server, output) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

fn write_announcement(server: &Server, output: &mut impl Write) -> io::Result<()> {
    writeln!(
        output,
        "bruit {} serves the clearinghouse in {}",
        env!("CARGO_PKG_VERSION"),
        server.directory().display()
    )?;
    let width = server.listening().iter().map(|listening| listening.protocol.len() + 1).max().unwrap_or(0);
    for listening in server.listening() {
        let Listening { protocol, transport, address, note } = listening;
        let line = format!("  {protocol:<width$} {transport} {address:<22} {note}");
        writeln!(output, "{}", line.trim_end())?;
    }
    if let Some(http) = server.listening().iter().find(|listening| listening.protocol == "http") {
        let is_usual = http.address == SocketAddr::from(([127, 0, 0, 1], 8625));
        let option = if is_usual { String::new() } else { format!(" --server http://{}", http.address) };
        writeln!(output, "\nTry, in another shell, with any mail in a file:")?;
        writeln!(output, "  bruit report{option} < mail")?;
        writeln!(output, "  bruit check{option} < mail     # exit code 0: spam")?;
        let token = server.directory().join(ADMIN_TOKEN_FILE);
        writeln!(output, "  bruit stats{option} --token-file {}", token.display())?;
        writeln!(
            output,
            "docs/operators/ says how to point SpamAssassin, rspamd, Razor, Pyzor and DCC clients here.\n"
        )?;
    }
    writeln!(output, "ready")?;
    output.flush()
}

fn reload(server: &Server, arguments: &Arguments) {
    notify(&[NotifyState::Reloading]);
    // Whatever is wrong with the configuration: a token that was removed must not stay in force.
    if let Err(error) = server.reload_token() {
        tracing::error!(error = &error as &dyn std::error::Error, "the administrator's token stays as it was");
    }
    let result = arguments
        .read()
        .inspect(|config| log_warnings(&arguments.warnings(config)))
        .map_err(|failure| failure.line().unwrap_or_default())
        .and_then(|config| server.reload(&config).map_err(|error| format!("{:#}", anyhow::Error::new(error))));
    match result {
        Ok(()) => tracing::info!("the configuration was read again"),
        Err(error) => tracing::error!(error, "the configuration was read again and cannot be used: nothing changed"),
    }
    notify(&[NotifyState::Ready]);
}

fn stop(server: Server) -> Result<ExitCode, Failure> {
    let status = server.stop();
    if let Some(error) = status.poisoned {
        return Err(Failure::Other(anyhow::anyhow!("the disk failed under the journal: {error}")));
    }
    tracing::info!(sequence = status.sequence, "stopped");
    Ok(ExitCode::SUCCESS)
}

/// Tells systemd, if it started us.
fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "failed to notify the service manager");
    }
}
