//! The side of an MTA in the milter protocol: encodes commands, decodes answers.

use std::io::{self, Read, Write};

/// All actions (changes to messages) that Postfix 3.7 and Sendmail 8.17 offer, one bit each.
pub const ACTIONS_OFFERED: u32 = 0x1ff;

/// All steps (properties of the conversation) that Postfix 3.7 and Sendmail 8.17 offer, one bit each.
pub const STEPS_OFFERED: u32 = 0x1f_ffff;

/// Maximum length of an answer.
pub const ANSWER_BYTES_MAX: usize = 1 << 20;

/// An answer of a milter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The options of the connection.
    Negotiated {
        /// The version of the protocol.
        version: u32,
        /// The changes that the milter may make.
        actions: u32,
        /// Properties of the conversation, such as the commands that the MTA skips.
        steps: u32,
        /// The requested macros: stage and names.
        macros: Vec<(u32, String)>,
    },
    /// Continue with the next command.
    Continue,
    /// Accept the message.
    Accept,
    /// Accept the message and discard it.
    Discard,
    /// Refuse the command with this SMTP reply.
    Refuse(String),
    /// Insert a header field.
    InsertHeader(u32, String, String),
    /// Change or, with an empty value, remove a header field.
    ChangeHeader(u32, String, String),
    /// Add a recipient.
    AddRecipient(String),
    /// Remove a recipient.
    DeleteRecipient(String),
    /// Hold the message.
    Quarantine(String),
    /// The milter is still at work.
    Progress,
}

impl Answer {
    /// Decodes the contents of a frame.
    #[must_use]
    pub fn decode(contents: &[u8]) -> Option<Self> {
        let (code, data) = contents.split_first()?;
        Some(match code {
            b'O' => negotiated(data)?,
            b'c' if data.is_empty() => Self::Continue,
            b'a' if data.is_empty() => Self::Accept,
            b'd' if data.is_empty() => Self::Discard,
            b'p' if data.is_empty() => Self::Progress,
            b'y' => Self::Refuse(one(data)?),
            b'i' => numbered(data).map(|(index, name, value)| Self::InsertHeader(index, name, value))?,
            b'm' => numbered(data).map(|(index, name, value)| Self::ChangeHeader(index, name, value))?,
            b'+' => Self::AddRecipient(one(data)?),
            b'-' => Self::DeleteRecipient(one(data)?),
            b'q' => Self::Quarantine(one(data)?),
            _ => return None,
        })
    }

    /// Returns true if this answer is the last one to a command. Answers that change the message, and
    /// [`Progress`](Self::Progress), come before it.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        matches!(self, Self::Negotiated { .. } | Self::Continue | Self::Accept | Self::Discard | Self::Refuse(_))
    }
}

fn negotiated(data: &[u8]) -> Option<Answer> {
    let (version, rest) = number(data)?;
    let (actions, rest) = number(rest)?;
    let (steps, mut rest) = number(rest)?;
    let mut macros = Vec::new();
    while !rest.is_empty() {
        let (stage, behind) = number(rest)?;
        let (names, behind) = text(behind)?;
        macros.push((stage, names));
        rest = behind;
    }
    Some(Answer::Negotiated { version, actions, steps, macros })
}

fn numbered(data: &[u8]) -> Option<(u32, String, String)> {
    let (index, rest) = number(data)?;
    let (name, rest) = text(rest)?;
    Some((index, name, one(rest)?))
}

/// Decodes data that is one string.
fn one(data: &[u8]) -> Option<String> {
    text(data).filter(|(_, rest)| rest.is_empty()).map(|(text, _)| text)
}

fn number(data: &[u8]) -> Option<(u32, &[u8])> {
    data.split_first_chunk::<4>().map(|(number, rest)| (u32::from_be_bytes(*number), rest))
}

fn text(data: &[u8]) -> Option<(String, &[u8])> {
    let end = data.iter().position(|byte| *byte == 0)?;
    Some((String::from_utf8_lossy(&data[..end]).into_owned(), &data[end + 1..]))
}

/// Appends a command.
pub fn write_command(out: &mut Vec<u8>, code: u8, parts: &[&[u8]]) {
    let length = 1 + parts.iter().map(|part| part.len()).sum::<usize>();
    out.extend_from_slice(&(length as u32).to_be_bytes());
    out.push(code);
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// Appends the first command of a connection.
pub fn write_offer(out: &mut Vec<u8>, version: u32, actions: u32, steps: u32) {
    write_command(out, b'O', &[&version.to_be_bytes(), &actions.to_be_bytes(), &steps.to_be_bytes()]);
}

/// Appends the macros for the next command.
pub fn write_macros(out: &mut Vec<u8>, command: u8, macros: &[(&str, &str)]) {
    let strings: Vec<u8> =
        macros.iter().flat_map(|(name, value)| [name.as_bytes(), b"\0", value.as_bytes(), b"\0"].concat()).collect();
    write_command(out, b'D', &[&[command], &strings]);
}

/// Appends the connection of a client with an IPv4 address.
pub fn write_connection(out: &mut Vec<u8>, host: &str, address: &str) {
    write_command(out, b'C', &[host.as_bytes(), b"\0", b"4", &2525_u16.to_be_bytes(), address.as_bytes(), b"\0"]);
}

/// Appends a command whose data are strings: a sender (`M`), a recipient (`R`), a header field (`L`).
pub fn write_strings(out: &mut Vec<u8>, code: u8, strings: &[&[u8]]) {
    let data: Vec<u8> = strings.iter().flat_map(|text| [*text, b"\0"].concat()).collect();
    write_command(out, code, &[&data]);
}

/// Appends the fields and the body of a message. The values of fields keep their leading space, as current MTAs send
/// them. The lines of the message may end with LF or CRLF. The fields are sent with LF, the body with CRLF.
pub fn write_message(out: &mut Vec<u8>, message: &[u8], piece_bytes: usize) {
    let lines: Vec<&[u8]> = message.split_inclusive(|byte| *byte == b'\n').collect();
    let header = lines.iter().take_while(|line| !matches!(**line, b"\n" | b"\r\n")).count();
    let mut field: Vec<u8> = Vec::new();
    for (at, line) in lines[..header].iter().enumerate() {
        field.extend_from_slice(line.trim_ascii_end());
        let continues = lines[..header].get(at + 1).is_some_and(|next| matches!(next.first(), Some(b' ' | b'\t')));
        if continues {
            field.push(b'\n');
            continue;
        }
        let colon = field.iter().position(|byte| *byte == b':').unwrap_or(field.len());
        write_strings(out, b'L', &[&field[..colon], field.get(colon + 1..).unwrap_or_default()]);
        field.clear();
    }
    let mut body = Vec::new();
    for line in lines.iter().skip(header + 1) {
        let bare = line.strip_suffix(b"\n").unwrap_or(line);
        body.extend_from_slice(bare.strip_suffix(b"\r").unwrap_or(bare));
        body.extend_from_slice(b"\r\n");
    }
    body.chunks(piece_bytes).for_each(|piece| write_command(out, b'B', &[piece]));
}

/// An MTA on a connection to a milter.
#[derive(Debug)]
pub struct Mta<S> {
    stream: S,
    /// The negotiated steps, one bit each.
    pub steps: u32,
}

impl<S: Read + Write> Mta<S> {
    /// Negotiates a connection. Offers all actions and steps that current MTAs offer.
    ///
    /// # Errors
    /// If the connection fails, or the milter does not answer with its options.
    pub fn open(stream: S) -> io::Result<Self> {
        Self::offer(stream, 6, ACTIONS_OFFERED, STEPS_OFFERED)
    }

    /// Negotiates a connection.
    ///
    /// # Errors
    /// If the connection fails, or the milter does not answer with its options.
    pub fn offer(stream: S, version: u32, actions: u32, steps: u32) -> io::Result<Self> {
        let mut mta = Self { stream, steps: 0 };
        let mut out = Vec::new();
        write_offer(&mut out, version, actions, steps);
        mta.send(&out)?;
        match mta.answer()? {
            Answer::Negotiated { steps, .. } => Ok(Self { steps, ..mta }),
            other => Err(io::Error::other(format!("{other:?}"))),
        }
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Receives one answer.
    ///
    /// # Errors
    /// If the connection ends or the answer cannot be decoded.
    pub fn answer(&mut self) -> io::Result<Answer> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length) as usize;
        if length > ANSWER_BYTES_MAX {
            return Err(io::Error::other(format!("answer of {length} bytes")));
        }
        let mut contents = vec![0; length];
        self.stream.read_exact(&mut contents)?;
        Answer::decode(&contents).ok_or_else(|| io::Error::other(format!("answer {}", contents.escape_ascii())))
    }

    /// Receives answers up to the one that ends a command.
    ///
    /// # Errors
    /// As for [`answer`](Self::answer).
    pub fn answers(&mut self) -> io::Result<Vec<Answer>> {
        let mut answers = Vec::new();
        loop {
            answers.push(self.answer()?);
            if answers.last().is_some_and(Answer::is_final) {
                return Ok(answers);
            }
        }
    }

    /// Announces a client with an IPv4 address. Returns the answers.
    ///
    /// # Errors
    /// As for [`answer`](Self::answer).
    pub fn announce(&mut self, address: &str) -> io::Result<Vec<Answer>> {
        let mut out = Vec::new();
        write_connection(&mut out, "mail.example", address);
        self.send(&out)?;
        self.answers()
    }

    /// Sends a message to a milter that does not answer before the end of the message. Returns the answers that follow
    /// the end of the message.
    ///
    /// # Errors
    /// As for [`answer`](Self::answer).
    pub fn deliver(&mut self, sender: &str, recipients: &[&str], message: &[u8]) -> io::Result<Vec<Answer>> {
        let mut out = Vec::new();
        write_strings(&mut out, b'M', &[format!("<{sender}>").as_bytes()]);
        for recipient in recipients {
            write_strings(&mut out, b'R', &[format!("<{recipient}>").as_bytes()]);
        }
        write_message(&mut out, message, 65_535);
        write_command(&mut out, b'E', &[]);
        self.send(&out)?;
        self.answers()
    }

    /// Returns the stream.
    pub const fn stream(&self) -> &S {
        &self.stream
    }
}
