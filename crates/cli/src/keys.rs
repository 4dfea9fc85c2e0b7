//! `bruit keys`: by what servers know each other, and the realm that they share.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use bruit_federation::keys::NodeKey;
use bruit_store::{Founding, NODE_KEY_FILE};

use crate::claim::CLAIM_TIMEOUT;
use crate::failure::Failure;
use crate::remote::Server;
use crate::serve::DataDirectory;

const AFTER_HELP: &str = "\
A server has a key of its own, which 'bruit serve' makes at its first start: others have to know the public half. Servers that
share what they learn are besides of one realm, whose key is secret: whoever has it can tell what the filters hold.

Examples:
  bruit keys show
  bruit keys realm realm.bruit --server http://127.0.0.1:8625
  bruit serve --data /var/lib/bruit-2 --realm realm.bruit";

/// What `bruit keys` is asked.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// The public key of a server, by which others know it
    Show(Show),
    /// Make a key, and print its public half
    New(New),
    /// Write the realm of a server to a file, to found another server in it
    Realm(Realm),
}

#[derive(Debug, clap::Args)]
struct Show {
    /// A file with a key, instead of that of the data directory
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    #[command(flatten)]
    data: DataDirectory,
}

#[derive(Debug, clap::Args)]
struct New {
    /// The file to make; for a server, node.key in its data directory before its first start
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Debug, clap::Args)]
struct Realm {
    /// The file to make, for yourself alone. It has the secret key of the realm
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Ask a running server, instead of its data directory. It gives the realm to administrators
    #[arg(long, value_name = "URL")]
    server: Option<String>,

    /// A file whose first line is the token to show to it; else what is in BRUIT_TOKEN, if anything
    #[arg(long, value_name = "FILE", requires = "server")]
    token_file: Option<PathBuf>,

    #[command(flatten)]
    data: DataDirectory,
}

pub(crate) fn run(arguments: &Arguments, output: &mut impl Write) -> Result<(), Failure> {
    match &arguments.verb {
        Verb::Show(arguments) => show(arguments, output),
        Verb::New(arguments) => new(&arguments.file, output),
        Verb::Realm(arguments) => realm(arguments, output),
    }
}

fn show(arguments: &Show, output: &mut impl Write) -> Result<(), Failure> {
    let file = match &arguments.file {
        Some(file) => file.clone(),
        None => arguments.data.find()?.join(NODE_KEY_FILE),
    };
    let key = NodeKey::read_file(&file).map_err(bad_input)?;
    Ok(writeln!(output, "{}", key.public())?)
}

fn new(file: &Path, output: &mut impl Write) -> Result<(), Failure> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|error| Failure::Other(anyhow::anyhow!("no randomness: {error}")))?;
    let key = NodeKey::generate(random);
    key.create_file(file).map_err(bad_input)?;
    Ok(writeln!(output, "{}", key.public())?)
}

fn realm(arguments: &Realm, output: &mut impl Write) -> Result<(), Failure> {
    let bytes = match &arguments.server {
        Some(url) => of_server(url, arguments.token_file.as_deref())?,
        None => of_directory(&arguments.data.find()?)?,
    };
    write_secret(&arguments.file, &bytes)?;
    let file = arguments.file.display();
    writeln!(output, "{file} has the secret key of the realm. Found another server with it:")?;
    Ok(writeln!(output, "  bruit serve --realm {file}")?)
}

fn of_server(url: &str, token_file: Option<&Path>) -> Result<Vec<u8>, Failure> {
    let bytes = Server::at(url, token_file).admin_client(CLAIM_TIMEOUT)?.realm()?;
    let checked = Founding::decode(&bytes);
    checked.map_err(|error| Failure::BadInput(format!("what {url} sent for the realm {error}")))?;
    Ok(bytes)
}

fn of_directory(directory: &Path) -> Result<Vec<u8>, Failure> {
    let founding = Founding::read(directory).map_err(bad_input)?;
    let founding =
        founding.ok_or_else(|| Failure::BadInput(format!("there is no clearinghouse in {}", directory.display())))?;
    Ok(founding.encode())
}

/// Writes a file for its owner alone, over none that is there.
fn write_secret(file: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    let made = options.write(true).create_new(true).mode(0o600).open(file);
    let mut made = made.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::BadInput(format!("{} is there already", file.display())),
        _ => Failure::BadInput(format!("failed to make {}: {error}", file.display())),
    })?;
    let written = made.write_all(bytes).and_then(|()| File::sync_all(&made));
    written.with_context(|| format!("failed to write {}", file.display())).map_err(Failure::Other)
}

/// One line, with every cause.
fn bad_input(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::BadInput(format!("{:#}", anyhow::Error::new(error)))
}
