//! `bruit serve`: the daemon.

use std::env;
use std::io::{self, IsTerminal as _, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use bruit_server::config::{Facts, LogFormat, Warning};
use bruit_server::{Config, LINK_MINUTES, Listening, Server, Signal, Signals};
use bruit_store::ADMIN_TOKEN_FILE;
use clap::builder::FalseyValueParser;
use sd_notify::NotifyState;
use tracing_subscriber::EnvFilter;

use bruit_console::Failure;
use bruit_console::progress;

/// Data directory of a server that runs as a system service.
const SYSTEM_DIRECTORY: &str = "/var/lib/bruit";

const AFTER_HELP: &str = "\
Without a configuration, the server listens on loopback only, and everyone on the machine may check, report \
and revoke as one of the site's own users. Administration requires the token in admin.token in the data \
directory; bruit finds it automatically on the same machine. bruit.toml in the repository lists every setting \
with its default.

Signals: SIGTERM and SIGINT stop the server once all requests in progress are answered and on disk. SIGHUP \
reloads the configuration, except data, realm, memory, durability, threads, listen, federation, nats, dashboard and \
log.

Examples:
  bruit serve
  bruit serve --config /etc/bruit.toml --check-config
  bruit serve --data /var/lib/bruit --log debug";

/// Arguments of `bruit serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    place: DataDirectory,

    /// Realm file for a new clearinghouse, written by 'bruit keys realm' [default: create a new realm]
    ///
    /// An existing clearinghouse must already belong to this realm. Overrides `realm` in the configuration.
    #[arg(long, value_name = "FILE")]
    realm: Option<PathBuf>,

    /// Allow `memory` in the configuration to reduce the memory budget, if all data fits
    #[arg(long)]
    shrink: bool,

    /// Check the configuration and exit
    #[arg(long)]
    check_config: bool,

    /// Print the one-time sign-in link for the dashboard, even if the output is not a terminal
    #[arg(long, env = "BRUIT_SIGN_IN_LINK", value_parser = FalseyValueParser::new())]
    sign_in_link: bool,

    /// Log level: error, warn, info, debug (one line per request), trace, or a filter such as bruit=debug
    ///
    /// Overrides `log.level` in the configuration. The default is info. The log goes to standard error.
    #[arg(long, value_name = "LEVEL", env = "BRUIT_LOG")]
    log: Option<String>,

    /// Log format
    ///
    /// Overrides `log.format` in the configuration. The default is text.
    #[arg(long, value_name = "FORMAT", env = "BRUIT_LOG_FORMAT")]
    log_format: Option<Format>,
}

/// Log format.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Format {
    /// Plain text
    Text,
    /// One JSON object per line
    Json,
}

impl Format {
    /// Starts the log on standard error.
    pub(crate) fn start(self, filter: EnvFilter) {
        let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(false);
        match self {
            Self::Text => log.init(),
            Self::Json => log.json().init(),
        }
    }
}

/// Options that select the data directory.
#[derive(Debug, clap::Args)]
pub(crate) struct DataDirectory {
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE", env = "BRUIT_CONFIG")]
    config: Option<PathBuf>,

    /// Data directory; created if missing
    ///
    /// Overrides `data` in the configuration. The default is $STATE_DIRECTORY (set by systemd), else
    /// $XDG_DATA_HOME/bruit, else ~/.local/share/bruit.
    #[arg(long, value_name = "DIR", env = "BRUIT_DATA")]
    data: Option<PathBuf>,
}

impl DataDirectory {
    /// Returns the data directory of a server with the same options.
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
            .ok_or_else(|| Failure::BadInput("no home directory: use --data DIR".into()))
    }
}

/// Returns the default data directories, the preferred one first.
fn usual_directories() -> impl Iterator<Item = PathBuf> {
    [("STATE_DIRECTORY", ""), ("XDG_DATA_HOME", "bruit"), ("HOME", ".local/share/bruit")]
        .into_iter()
        .filter_map(|(name, below)| from_environment(name).map(|directory| directory.join(below)))
}

/// Returns the directories in which a server on this machine may keep its token.
pub(crate) fn data_directories() -> Vec<PathBuf> {
    let of_config = || read(from_environment("BRUIT_CONFIG").as_deref()).ok()?.data;
    let named = from_environment("BRUIT_DATA").or_else(of_config);
    named.into_iter().chain(usual_directories()).chain([PathBuf::from(SYSTEM_DIRECTORY)]).collect()
}

fn from_environment(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

impl ServeArgs {
    /// Reads the configuration and applies the command-line options.
    fn read(&self) -> Result<Config, Failure> {
        let config = read(self.place.config.as_deref())?;
        let realm = self.realm.clone().or_else(|| config.realm.clone());
        Ok(Config { realm, shrink: self.shrink, ..config })
    }

    /// Returns warnings about the configuration.
    fn warnings(&self, config: &Config) -> Vec<Warning> {
        config.warnings(&Facts::gather(self.place.config.as_deref()))
    }

    /// Returns the log settings: the command line overrides the environment, which overrides the configuration.
    fn log(&self, config: &Config) -> Result<Log, Failure> {
        let (setting, level) = match (&self.log, &config.log.level) {
            (Some(level), _) => ("--log", level.as_str()),
            (None, Some(level)) => ("log.level", level.as_str()),
            (None, None) => ("--log", "info"),
        };
        let filter = EnvFilter::try_new(level);
        let filter = filter.map_err(|error| Failure::BadInput(format!("{setting} {level:?}: {error}")))?;
        let format = self.log_format.unwrap_or(match config.log.format {
            LogFormat::Text => Format::Text,
            LogFormat::Json => Format::Json,
        });
        Ok(Log { filter, format })
    }
}

pub(crate) fn run(arguments: &ServeArgs, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let config = arguments.read()?;
    let log = arguments.log(&config)?;
    if arguments.check_config {
        for warning in arguments.warnings(&config) {
            writeln!(io::stderr().lock(), "warning: {warning}")?;
        }
        writeln!(output, "the configuration is valid")?;
        return Ok(ExitCode::SUCCESS);
    }
    log.format.start(log.filter);
    log_warnings(&arguments.warnings(&config));
    let directory = arguments.place.of(&config)?;
    let server = start(&config, &directory)?;
    let mut signals =
        Signals::take(server.runtime()).context("failed to install signal handlers").map_err(Failure::Other)?;
    announce(&server, arguments.sign_in_link || io::stdout().is_terminal(), output)?;
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

/// Log filter and format.
struct Log {
    filter: EnvFilter,
    format: Format,
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

/// Prints the server's addresses and example commands. A closed output is not an error: the server keeps running.
fn announce(server: &Server, is_private: bool, output: &mut impl Write) -> Result<(), Failure> {
    match write_announcement(server, is_private, output) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

fn write_announcement(server: &Server, is_private: bool, output: &mut impl Write) -> io::Result<()> {
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
    write_dashboard(server, is_private, output)?;
    if let Some(http) = server.listening().iter().find(|listening| listening.protocol == "http") {
        let is_usual = http.address == SocketAddr::from(([127, 0, 0, 1], 8625));
        let option = if is_usual { String::new() } else { format!(" --server http://{}", http.address) };
        writeln!(output, "\nTry in another shell, with a message in a file:")?;
        writeln!(output, "  bruit report{option} < mail")?;
        writeln!(output, "  bruit check{option} < mail     # exit code 0: spam")?;
        let token = server.directory().join(ADMIN_TOKEN_FILE);
        writeln!(output, "  bruit stats{option} --token-file {}", token.display())?;
        writeln!(
            output,
            "See docs/operators/ for how to connect SpamAssassin, rspamd, Razor, Pyzor and DCC clients.\n"
        )?;
    }
    writeln!(output, "ready")?;
    output.flush()
}

/// Prints how to open the dashboard. The link that signs in is printed only if nobody but the operator sees it, because
/// people who cannot read the administrator's token may be able to read logs and journals.
fn write_dashboard(server: &Server, is_private: bool, output: &mut impl Write) -> io::Result<()> {
    let Some(link) = server.sign_in_link() else { return Ok(()) };
    if is_private {
        return writeln!(output, "\nDashboard (this link signs in once, within {LINK_MINUTES} minutes):\n  {link}");
    }
    let page = link.split('?').next().unwrap_or_default();
    let token = server.directory().join(ADMIN_TOKEN_FILE);
    writeln!(output, "\nDashboard (sign in with the token in {}):\n  {page}", token.display())
}

fn reload(server: &Server, arguments: &ServeArgs) {
    notify(&[NotifyState::Reloading]);
    // Reload the token even if the configuration is invalid, so that a removed token stops working.
    if let Err(error) = server.reload_token() {
        tracing::error!(
            error = &error as &dyn std::error::Error,
            "failed to reload the administrator's token; keeping the old one"
        );
    }
    let result = arguments
        .read()
        .inspect(|config| log_warnings(&arguments.warnings(config)))
        .map_err(|failure| failure.line().unwrap_or_default())
        .and_then(|config| server.reload(&config).map_err(|error| format!("{:#}", anyhow::Error::new(error))));
    match result {
        Ok(()) => tracing::info!("configuration reloaded"),
        Err(error) => tracing::error!(error, "failed to reload the configuration; keeping the old one"),
    }
    notify(&[NotifyState::Ready]);
}

fn stop(server: Server) -> Result<ExitCode, Failure> {
    let status = server.stop();
    if let Some(error) = status.poisoned {
        return Err(Failure::Other(anyhow::anyhow!("failed to write the journal: {error}")));
    }
    tracing::info!(sequence = status.sequence, "stopped");
    Ok(ExitCode::SUCCESS)
}

/// Notifies systemd, if it started the server.
pub(crate) fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "failed to notify the service manager");
    }
}
