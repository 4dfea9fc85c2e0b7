//! `bruit keys`: manages a server's identity key and realm.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use bruit_federation::keys::NodeKey;
use bruit_store::{Founding, NODE_KEY_FILE};

use crate::claim::CLAIM_TIMEOUT;
use crate::remote::Server;
use crate::serve::DataDirectory;
use bruit_console::Failure;
use bruit_console::failure::bad_input;

const AFTER_HELP: &str = "\
Every server has an identity key, created by 'bruit serve' at its first start. Its peers need the public half. \
Servers that share data also belong to one realm, which has a secret key: anyone who has it can test what the \
filters contain.

Examples:
  bruit keys show
  bruit keys realm realm.bruit --server http://127.0.0.1:8625
  bruit serve --data /var/lib/bruit-2 --realm realm.bruit";

/// Arguments of `bruit keys`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    verb: KeysVerb,
}

#[derive(Debug, clap::Subcommand)]
enum KeysVerb {
    /// Print the public key that identifies a server to its peers
    #[command(after_help = "Example:\n  bruit keys show --data /var/lib/bruit")]
    Show(KeysShowArgs),
    /// Generate a key and print its public half
    #[command(after_help = "Example:\n  bruit keys new node.key")]
    New(NewArgs),
    /// Copy the realm of a server to a file, to create another server in the same realm
    #[command(after_help = "Example:\n  bruit keys realm realm.bruit --server http://127.0.0.1:8625")]
    Realm(RealmArgs),
}

#[derive(Debug, clap::Args)]
struct KeysShowArgs {
    /// Key file to read [default: node.key in the data directory]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    #[command(flatten)]
    data: DataDirectory,
}

#[derive(Debug, clap::Args)]
struct NewArgs {
    /// File to create. A new server uses this key if the file is node.key in its data directory
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Debug, clap::Args)]
struct RealmArgs {
    /// File to create, readable only by you: it contains the realm's secret key
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Address of a running server to copy the realm from, instead of a data directory; requires administrator access
    #[arg(long, value_name = "URL")]
    server: Option<String>,

    /// File whose first line is the access token [default: $BRUIT_TOKEN, if set]
    #[arg(long, value_name = "FILE", requires = "server")]
    token_file: Option<PathBuf>,

    #[command(flatten)]
    data: DataDirectory,
}

pub(crate) fn run(arguments: &KeysArgs, output: &mut impl Write) -> Result<(), Failure> {
    match &arguments.verb {
        KeysVerb::Show(arguments) => show(arguments, output),
        KeysVerb::New(arguments) => new(&arguments.file, output),
        KeysVerb::Realm(arguments) => realm(arguments, output),
    }
}

fn show(arguments: &KeysShowArgs, output: &mut impl Write) -> Result<(), Failure> {
    let file = match &arguments.file {
        Some(file) => file.clone(),
        None => arguments.data.find()?.join(NODE_KEY_FILE),
    };
    let key = NodeKey::read_file(&file).map_err(with_causes)?;
    Ok(writeln!(output, "{}", key.public())?)
}

fn new(file: &Path, output: &mut impl Write) -> Result<(), Failure> {
    let mut random = [0; 32];
    getrandom::fill(&mut random)
        .map_err(|error| Failure::Other(anyhow::anyhow!("failed to get random bytes for the key: {error}")))?;
    let key = NodeKey::generate(random);
    key.create_file(file).map_err(with_causes)?;
    Ok(writeln!(output, "{}", key.public())?)
}

fn realm(arguments: &RealmArgs, output: &mut impl Write) -> Result<(), Failure> {
    let bytes = match &arguments.server {
        Some(url) => of_server(url, arguments.token_file.as_deref())?,
        None => of_directory(&arguments.data.find()?)?,
    };
    write_secret(&arguments.file, &bytes)?;
    let file = arguments.file.display();
    writeln!(output, "{file} contains the secret key of the realm. To create another server in this realm:")?;
    Ok(writeln!(output, "  bruit serve --realm {file}")?)
}

fn of_server(url: &str, token_file: Option<&Path>) -> Result<Vec<u8>, Failure> {
    let bytes = Server::at(url, token_file).admin_client(CLAIM_TIMEOUT)?.realm().map_err(bad_input)?;
    let checked = Founding::decode(&bytes);
    checked.map_err(|error| Failure::BadInput(format!("the realm sent by {url} {error}")))?;
    Ok(bytes)
}

fn of_directory(directory: &Path) -> Result<Vec<u8>, Failure> {
    let founding = Founding::read(directory).map_err(with_causes)?;
    let founding = founding.ok_or_else(|| Failure::BadInput(format!("no clearinghouse in {}", directory.display())))?;
    Ok(founding.encode())
}

/// Creates a file that only its owner can read. An existing file is an error.
fn write_secret(file: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    let made = options.write(true).create_new(true).mode(0o600).open(file);
    let mut made = made.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::BadInput(format!("{} already exists", file.display())),
        _ => Failure::BadInput(format!("failed to create {}: {error}", file.display())),
    })?;
    let written = made.write_all(bytes).and_then(|()| File::sync_all(&made));
    written.with_context(|| format!("failed to write {}", file.display())).map_err(Failure::Other)
}

/// Formats an error and its causes as one line.
fn with_causes(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::BadInput(format!("{:#}", anyhow::Error::new(error)))
}
