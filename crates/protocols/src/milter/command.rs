//! The commands of an MTA.

use std::net::IpAddr;

use super::frame::FrameError;
use super::options::{Actions, Options, Steps};

/// A command of an MTA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// The first command, with the options that the MTA offers.
    Negotiate(Options),
    /// Macros for the next command.
    Macros {
        /// The command byte of that command.
        command: u8,
        /// The macros.
        macros: Macros<'a>,
    },
    /// A client has connected.
    Connect {
        /// Name of the client, or its address in brackets.
        host: &'a [u8],
        /// Its address.
        peer: Peer<'a>,
    },
    /// The name that the client states.
    Helo(&'a [u8]),
    /// The sender, in angle brackets, and the ESMTP parameters.
    Mail(Strings<'a>),
    /// A recipient, in angle brackets, and the ESMTP parameters.
    Recipient(Strings<'a>),
    /// The client begins to send the message.
    Data,
    /// A header field. The lines of a folded value are separated by LF.
    Header {
        /// The name.
        name: &'a [u8],
        /// The value.
        value: &'a [u8],
    },
    /// The header is complete.
    EndOfHeader,
    /// A piece of the body.
    Body(&'a [u8]),
    /// The message is complete. The milter must answer with its verdict. May contain the last piece of the body.
    EndOfMessage(&'a [u8]),
    /// The message ends early, or the client starts again.
    Abort,
    /// The connection ends.
    Quit,
    /// The session ends, and another one follows on the same connection.
    QuitNew,
    /// An SMTP command that the MTA does not know.
    Unknown(&'a [u8]),
}

/// The address of an SMTP client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer<'a> {
    /// No address, or an address that cannot be parsed.
    Unknown,
    /// The path of a Unix socket.
    Local(&'a [u8]),
    /// An IP address and port.
    Ip(IpAddr, u16),
}

/// Strings that end in NUL, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strings<'a>(&'a [u8]);

/// Names and values of macros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Macros<'a>(Strings<'a>);

impl<'a> Command<'a> {
    /// Decodes the contents of a frame: the command byte and its data.
    ///
    /// # Errors
    /// Returns [`FrameError`] if the command is unknown or its data is malformed.
    pub fn decode(frame: &'a [u8]) -> Result<Self, FrameError> {
        let (&code, data) = frame.split_first().ok_or(FrameError::Empty)?;
        if !b"ODCHMRTLNBEAQKU".contains(&code) {
            return Err(FrameError::UnknownCommand(code));
        }
        Self::decode_known(code, data).ok_or(FrameError::Malformed(code))
    }

    fn decode_known(code: u8, data: &'a [u8]) -> Option<Self> {
        Some(match code {
            b'O' => Self::Negotiate(options(data)?),
            b'D' => {
                let (&command, rest) = data.split_first()?;
                Self::Macros { command, macros: Macros::decode(rest)? }
            }
            b'C' => connect(data)?,
            b'H' => Self::Helo(string(data)?.0),
            b'M' => Self::Mail(Strings::decode(data).filter(|strings| !strings.0.is_empty())?),
            b'R' => Self::Recipient(Strings::decode(data).filter(|strings| !strings.0.is_empty())?),
            b'T' => Self::Data,
            b'L' => {
                let (name, rest) = string(data)?;
                Self::Header { name, value: string(rest)?.0 }
            }
            b'N' => Self::EndOfHeader,
            b'B' => Self::Body(data),
            b'E' => Self::EndOfMessage(data),
            b'A' => Self::Abort,
            b'Q' => Self::Quit,
            b'K' => Self::QuitNew,
            _ => Self::Unknown(string(data).map_or(data, |(text, _)| text)),
        })
    }
}

impl<'a> Strings<'a> {
    /// Decodes strings, each with its NUL.
    fn decode(data: &'a [u8]) -> Option<Self> {
        (data.is_empty() || data.last() == Some(&0)).then_some(Self(data))
    }

    /// Returns the first string.
    #[must_use]
    pub fn first(self) -> &'a [u8] {
        self.iter().next().unwrap_or_default()
    }

    /// Returns the strings, in order.
    pub fn iter(self) -> impl Iterator<Item = &'a [u8]> {
        // The bytes end in NUL, so the last part of a split is not a string.
        let strings = self.0.strip_suffix(&[0]);
        strings.into_iter().flat_map(|strings| strings.split(|&byte| byte == 0))
    }
}

impl<'a> Macros<'a> {
    fn decode(data: &'a [u8]) -> Option<Self> {
        let strings = Strings::decode(data)?;
        (strings.iter().count() % 2 == 0).then_some(Self(strings))
    }

    /// Returns the value of a macro, such as `i` or `{auth_authen}`. A one-letter name may have braces or not.
    #[must_use]
    pub fn get(self, name: &str) -> Option<&'a [u8]> {
        self.iter().find(|(found, _)| plain(found) == plain(name.as_bytes())).map(|(_, value)| value)
    }

    /// Returns the names and values, in order.
    pub fn iter(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let names = self.0.iter().step_by(2);
        names.zip(self.0.iter().skip(1).step_by(2))
    }
}

/// Removes the braces of a macro's name.
fn plain(name: &[u8]) -> &[u8] {
    name.strip_prefix(b"{").and_then(|name| name.strip_suffix(b"}")).unwrap_or(name)
}

fn options(data: &[u8]) -> Option<Options> {
    let (version, rest) = number(data)?;
    let (actions, rest) = number(rest)?;
    // A later version may append data.
    let (steps, _) = number(rest)?;
    Some(Options { version, actions: Actions(actions), steps: Steps(steps) })
}

fn connect(data: &[u8]) -> Option<Command<'_>> {
    let (host, rest) = string(data)?;
    let (&family, rest) = rest.split_first()?;
    let peer = match family {
        b'U' => Peer::Unknown,
        b'L' | b'4' | b'6' => {
            let (port, rest) = rest.split_first_chunk::<2>()?;
            let (address, _) = string(rest)?;
            if family == b'L' { Peer::Local(address) } else { ip(address, u16::from_be_bytes(*port)) }
        }
        _ => return None,
    };
    Some(Command::Connect { host, peer })
}

/// Parses an address. Sendmail writes `IPv6:` before IPv6 addresses, Postfix does not.
fn ip(address: &[u8], port: u16) -> Peer<'_> {
    let text = std::str::from_utf8(address).unwrap_or_default();
    let bare = match text.split_at_checked(5) {
        Some((prefix, rest)) if prefix.eq_ignore_ascii_case("ipv6:") => rest,
        _ => text,
    };
    bare.parse().map_or(Peer::Unknown, |address| Peer::Ip(address, port))
}

fn number(data: &[u8]) -> Option<(u32, &[u8])> {
    data.split_first_chunk::<4>().map(|(number, rest)| (u32::from_be_bytes(*number), rest))
}

/// Splits off a string that ends in NUL.
fn string(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(0, data)?;
    let (text, rest) = data.split_at_checked(end)?;
    Some((text, rest.get(1..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macros_are_found_with_and_without_braces() {
        let frame = b"DMi\0AB12\0{auth_authen}\0alice\0{j}\0mx\0";
        let Ok(Command::Macros { command: b'M', macros }) = Command::decode(frame) else { panic!() };
        assert_eq!(macros.get("i"), Some(&b"AB12"[..]));
        assert_eq!(macros.get("{auth_authen}"), Some(&b"alice"[..]));
        assert_eq!(macros.get("j"), Some(&b"mx"[..]));
        assert_eq!(macros.get("{auth_type}"), None);
        assert_eq!(macros.iter().count(), 3);
        let Ok(Command::Macros { macros, .. }) = Command::decode(b"DM") else { panic!() };
        assert_eq!(macros.iter().count(), 0);
    }

    #[test]
    fn clients_have_addresses_of_four_kinds() {
        let peer = |data: &[u8]| match Command::decode(&[b"Chost\0", data].concat()) {
            Ok(Command::Connect { host: b"host", peer }) => Some(format!("{peer:?}")),
            Ok(other) => panic!("{other:?}"),
            Err(_) => None,
        };
        assert_eq!(peer(b"4\x09\xc4192.0.2.7\0").unwrap(), "Ip(192.0.2.7, 2500)");
        assert_eq!(peer(b"6\0\x192001:db8::77\0").unwrap(), "Ip(2001:db8::77, 25)");
        assert_eq!(peer(b"6\0\x19IPv6:2001:db8::77\0").unwrap(), "Ip(2001:db8::77, 25)");
        assert_eq!(peer(b"L\0\0/run/x\0").unwrap(), format!("{:?}", Peer::Local(b"/run/x")));
        assert_eq!(peer(b"U").unwrap(), "Unknown");
        assert_eq!(peer(b"4\0\x19nonsense\0").unwrap(), "Unknown");
        for malformed in [&b""[..], b"4", b"4\0", b"4\0\x19192.0.2.7", b"X\0\x19a\0"] {
            assert_eq!(peer(malformed), None, "{malformed:?}");
        }
    }

    #[test]
    fn malformed_data_is_told_from_unknown_commands() {
        assert_eq!(Command::decode(b""), Err(FrameError::Empty));
        assert_eq!(Command::decode(b"Z"), Err(FrameError::UnknownCommand(b'Z')));
        for malformed in
            [&b"O\0\0\0\x06"[..], b"D", b"DMi\0", b"DMi", b"C", b"Hname", b"M", b"Mname", b"R", b"Lname\0value", b"L"]
        {
            assert_eq!(Command::decode(malformed), Err(FrameError::Malformed(malformed[0])), "{malformed:?}");
        }
    }

    #[test]
    fn arguments_are_read_in_order() {
        let Ok(Command::Mail(strings)) = Command::decode(b"M<a@b>\0SIZE=1\0\0") else { panic!() };
        assert_eq!(strings.first(), b"<a@b>");
        assert_eq!(strings.iter().collect::<Vec<_>>(), [&b"<a@b>"[..], b"SIZE=1", b""]);
    }
}
