//! An SMTP client that shows every reply.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Maximum time for a reply.
const PATIENCE: Duration = Duration::from_secs(120);

/// An SMTP session.
pub(crate) struct Smtp {
    reader: BufReader<TcpStream>,
}

/// The reply to a command: code and text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) text: String,
}

impl Smtp {
    /// Connects and sends EHLO.
    pub(crate) fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut smtp = Self { reader: BufReader::new(stream) };
        let greeting = smtp.reply();
        assert_eq!(greeting.code, 220, "{greeting:?}");
        smtp.ok("EHLO client.example");
        smtp
    }

    /// Connects as a client with another address, and perhaps with a login.
    pub(crate) fn open_as(address: SocketAddr, client: &str, login: Option<&str>) -> Self {
        let mut smtp = Self::open(address);
        let login = login.map_or_else(String::new, |name| format!(" LOGIN={name}"));
        let greeting = smtp.command(&format!("XCLIENT NAME=mail.example.net ADDR={client} PORT=2525{login}"));
        assert_eq!(greeting.code, 220, "{greeting:?}");
        smtp.ok("EHLO client.example");
        smtp
    }

    /// Authenticates as alice, with the password "secret".
    pub(crate) fn authenticate(&mut self) {
        // The base64 encoding of NUL, alice, NUL, secret.
        let reply = self.command("AUTH PLAIN AGFsaWNlAHNlY3JldA==");
        assert_eq!(reply.code, 235, "{reply:?}");
    }

    /// Sends a message. Returns the reply to its end, or to the first command that was refused.
    pub(crate) fn send(&mut self, sender: &str, recipients: &[&str], message: &[u8]) -> Reply {
        self.envelope(sender, recipients);
        let ready = self.command("DATA");
        if ready.code != 354 {
            return ready;
        }
        self.content(message)
    }

    /// Sends sender and recipients. Refused recipients are left out.
    pub(crate) fn envelope(&mut self, sender: &str, recipients: &[&str]) {
        self.ok(&format!("MAIL FROM:<{sender}>"));
        recipients.iter().for_each(|recipient| drop(self.command(&format!("RCPT TO:<{recipient}>"))));
    }

    /// Sends the bytes of a message with CRLF line endings, and then the end of the message.
    pub(crate) fn content(&mut self, message: &[u8]) -> Reply {
        let mut out = Vec::new();
        for line in message.split_inclusive(|byte| *byte == b'\n') {
            let bare = line.strip_suffix(b"\n").unwrap_or(line);
            out.extend_from_slice(if bare.starts_with(b".") { b"." } else { b"" });
            out.extend_from_slice(bare.strip_suffix(b"\r").unwrap_or(bare));
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b".\r\n");
        self.reader.get_mut().write_all(&out).unwrap();
        self.reply()
    }

    /// Sends a command and returns the reply.
    pub(crate) fn command(&mut self, line: &str) -> Reply {
        self.reader.get_mut().write_all(format!("{line}\r\n").as_bytes()).unwrap();
        self.reply()
    }

    #[track_caller]
    fn ok(&mut self, line: &str) {
        let reply = self.command(line);
        assert_eq!(reply.code, 250, "{line}: {reply:?}");
    }

    fn reply(&mut self) -> Reply {
        let mut text = String::new();
        loop {
            let mut line = String::new();
            let count = self.reader.read_line(&mut line).unwrap();
            assert!(count > 0, "the connection was closed after {text:?}");
            text.push_str(&line);
            if line.as_bytes().get(3) != Some(&b'-') {
                return Reply { code: line[..3].parse().unwrap(), text: text.trim_end().to_owned() };
            }
        }
    }
}
