//! `bruit dashboard`: a link that signs in to a server's dashboard.

use std::io::{Read as _, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bruit_client::http::{Problem, SignInLink};

use crate::claim::CLAIM_TIMEOUT;
use crate::remote::Server;
use bruit_console::Failure;
use bruit_console::failure::bad_input;
use bruit_console::terminal::printable;

/// Maximum length of a response on the socket.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// Arguments of `bruit dashboard`.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true, after_help = "Example:\n  bruit dashboard link")]
pub(crate) struct DashboardArgs {
    #[command(subcommand)]
    verb: DashboardVerb,
}

#[derive(Debug, clap::Subcommand)]
enum DashboardVerb {
    /// Print a link that signs in as an administrator, once
    #[command(after_help = LINK_HELP)]
    Link(LinkArgs),
}

const LINK_HELP: &str = "\
Anyone who opens the link within 15 minutes can administer the server. The link works once, and only on the server's \
own machine; from elsewhere, open a tunnel first: ssh -L 8625:127.0.0.1:8625 SERVER.

Examples:
  bruit dashboard link
  bruit dashboard link --socket /run/bruit/http.sock";

#[derive(Debug, clap::Args)]
struct LinkArgs {
    /// Connect over this Unix socket, where root and the user that runs the server need no token
    #[arg(long, value_name = "PATH", conflicts_with = "token_file")]
    socket: Option<PathBuf>,

    #[command(flatten)]
    server: Server,
}

pub(crate) fn run(arguments: &DashboardArgs, output: &mut impl Write) -> Result<(), Failure> {
    let DashboardVerb::Link(LinkArgs { socket, server }) = &arguments.verb;
    let link = match socket {
        Some(socket) => ask_socket(socket, server.timeout(CLAIM_TIMEOUT))?,
        None => server.admin_client(CLAIM_TIMEOUT)?.sign_in_link().map_err(bad_input)?,
    };
    Ok(writeln!(output, "{}", printable(&link.url))?)
}

/// Asks for a link over a Unix socket.
fn ask_socket(path: &Path, timeout: Duration) -> Result<SignInLink, Failure> {
    let failed = |error: std::io::Error| Failure::BadInput(format!("{}: {error}", path.display()));
    let mut stream = UnixStream::connect(path).map_err(failed)?;
    stream.set_read_timeout(Some(timeout)).map_err(failed)?;
    stream.set_write_timeout(Some(timeout)).map_err(failed)?;
    let request =
        b"POST /v1/dashboard/link HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    stream.write_all(request).map_err(failed)?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).map_err(failed)?;
    read_answer(&answer).map_err(|error| Failure::BadInput(format!("{}: {error}", path.display())))
}

/// Reads an HTTP response with the link or a problem.
fn read_answer(answer: &[u8]) -> Result<SignInLink, String> {
    let malformed = || "malformed response".to_owned();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").ok_or_else(malformed)?;
    let (head, body) = answer.split_at(end + 4);
    if head.starts_with(b"HTTP/1.1 200 ") {
        return serde_json::from_slice(body).map_err(|_| malformed());
    }
    let problem: Problem = serde_json::from_slice(body).map_err(|_| malformed())?;
    Err(printable(&problem.to_string()).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_contains_the_link_or_the_reason() {
        let link = read_answer(b"HTTP/1.1 200 OK\r\na: b\r\n\r\n{\"url\":\"http://x/\",\"seconds\":1}").unwrap();
        assert_eq!((&*link.url, link.seconds), ("http://x/", 1));
        let refused = b"HTTP/1.1 403 Forbidden\r\n\r\n{\"type\":\"about:blank\",\"title\":\"t\",\"status\":403,\"detail\":\"no right\"}";
        assert!(read_answer(refused).unwrap_err().contains("no right"));
        for wrong in [&b""[..], b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 500 \r\n\r\nx", b"\r\n\r\n"] {
            assert_eq!(read_answer(wrong).unwrap_err(), "malformed response");
        }
    }
}
