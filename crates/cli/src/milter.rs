//! `bruit milter`: the filter for Postfix and Sendmail.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use bruit_client::http::Subject;
use bruit_console::Failure;
use bruit_milter::{Config, Listings, Milter, Parts, Signal, Signals};
use sd_notify::NotifyState;
use tracing_subscriber::EnvFilter;

use crate::check::local::Local;
use crate::serve::{Format, notify};

const AFTER_HELP: &str = "\
For each message, the milter computes the signatures and sends one request to the server, which checks the message \
and counts its recipients. By default it only adds the field X-Bruit with the verdict. It never delays or refuses \
mail because of a fault of its own: if the server does not answer within 3 seconds, the message passes with the \
field 'X-Bruit: unchecked'.

Without a configuration, the milter listens on inet:127.0.0.1:8626 and asks the server at http://127.0.0.1:8625. \
packaging/milter.toml lists every setting with its default.

Signals: SIGTERM and SIGINT stop the milter once the messages in progress are answered. SIGHUP reloads the \
configuration, except listen, metrics and retry_key.

Postfix, in main.cf:
  smtpd_milters = { inet:127.0.0.1:8626, default_action=accept }

Examples:
  bruit milter
  bruit milter --config /etc/bruit/milter.toml --check-config
  bruit milter --config /etc/bruit/milter.toml --log debug";

/// Arguments of `bruit milter`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct MilterArgs {
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE", env = "BRUIT_MILTER_CONFIG")]
    config: Option<PathBuf>,

    /// Check the configuration and exit
    #[arg(long)]
    check_config: bool,

    /// Log level: error, warn, info, debug (one line per message), trace, or a filter such as bruit_milter=debug
    ///
    /// The log goes to standard error.
    #[arg(long, value_name = "LEVEL", env = "BRUIT_LOG", default_value = "info")]
    log: String,

    /// Log format
    #[arg(long, value_name = "FORMAT", env = "BRUIT_LOG_FORMAT", default_value = "text")]
    log_format: Format,
}

impl MilterArgs {
    fn read(&self) -> Result<Config, Failure> {
        let Some(file) = &self.config else { return Ok(Config::default()) };
        let named = |error| anyhow::Error::new(error).context(format!("configuration {}", file.display()));
        Config::read(file).map_err(|error| Failure::BadInput(format!("{:#}", named(error))))
    }

    fn filter(&self) -> Result<EnvFilter, Failure> {
        EnvFilter::try_new(&self.log).map_err(|error| Failure::BadInput(format!("--log {:?}: {error}", self.log)))
    }
}

pub(crate) fn run(arguments: &MilterArgs, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let config = arguments.read()?;
    let filter = arguments.filter()?;
    if arguments.check_config {
        writeln!(output, "the configuration is valid")?;
        return Ok(ExitCode::SUCCESS);
    }
    arguments.log_format.start(filter);
    let signals = Signals::block().context("failed to block signals").map_err(Failure::Other)?;
    let parts = Parts { listings: Some(Box::new(Replicas)) };
    let milter = Milter::start(&config, parts).map_err(|error| Failure::Other(error.into()))?;
    announce(&milter, &config, output)?;
    notify(&[NotifyState::Ready]);
    let next = || signals.next_signal().context("failed to wait for signals").map_err(Failure::Other);
    while next()? == Signal::Reload {
        reload(&milter, arguments);
    }
    notify(&[NotifyState::Stopping]);
    tracing::info!("stopping");
    match milter.stop() {
        0 => tracing::info!("stopped"),
        connections => tracing::warn!(connections, "stopped with messages under way"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the addresses. If the output is closed, the milter keeps running.
fn announce(milter: &Milter, config: &Config, output: &mut impl Write) -> Result<(), Failure> {
    match write_announcement(milter, config, output) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

fn write_announcement(milter: &Milter, config: &Config, output: &mut impl Write) -> io::Result<()> {
    writeln!(output, "bruit {} filters mail with {}", env!("CARGO_PKG_VERSION"), config.settings.server.url)?;
    for address in milter.listening() {
        writeln!(output, "  milter  {address}")?;
    }
    if let Some(address) = milter.metrics_address() {
        writeln!(output, "  metrics http://{address}/metrics")?;
    }
    writeln!(output, "ready")?;
    output.flush()
}

fn reload(milter: &Milter, arguments: &MilterArgs) {
    notify(&[NotifyState::Reloading]);
    let read = arguments.read().map_err(|failure| failure.line().unwrap_or_default());
    let result =
        read.and_then(|config| milter.reload(&config).map_err(|error| format!("{:#}", anyhow::Error::new(error))));
    match result {
        Ok(()) => tracing::info!("configuration reloaded"),
        Err(error) => tracing::error!(error, "failed to reload the configuration; keeping the old one"),
    }
    notify(&[NotifyState::Ready]);
}

/// Replica files, opened for each message: the milter needs them only during an outage.
struct Replicas;

impl Listings for Replicas {
    fn look_up(&self, file: &Path, max_age: Duration, subject: &Subject) -> Option<bool> {
        Local::open_quietly(file, max_age)?.find(subject)
    }
}
