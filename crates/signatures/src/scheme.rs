//! All schemes, the selection of schemes to compute for a message, and the results.

use std::fmt;

use crate::bruit::Features;
use crate::message::Message;
use crate::outline::{Outline, PartsOutline, Piece};
use crate::reading::Reading;
use crate::url::Link;
use crate::{attachment, dcc, exact, hex, pyzor, razor};

/// A way to compute signatures. The numbers are used in files and on the wire, and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Scheme {
    /// [`exact`].
    Exact = 1,
    /// [`attachment`].
    Attachment = 2,
    /// [`url`](crate::url).
    Url = 3,
    /// [`pyzor`]: the digest of release 1.0.
    Pyzor = 4,
    /// [`pyzor`]: the digest of release 1.1, if it differs.
    Pyzor11 = 14,
    /// [`razor`]: engine 4.
    RazorE4 = 5,
    /// [`razor`]: engine 8.
    RazorE8 = 6,
    /// [`dcc`]: the IP address of the SMTP client.
    DccIp = 7,
    /// [`dcc`]: the envelope sender.
    DccEnvFrom = 8,
    /// [`dcc`]: the `From` field.
    DccFrom = 9,
    /// [`dcc`]: the `Message-ID` field.
    DccMessageId = 10,
    /// [`dcc`]: the last `Received` field.
    DccReceived = 11,
    /// [`dcc`]: the body.
    DccBody = 12,
    /// [`dcc`]: the letters of the text.
    DccFuz1 = 13,
}

/// One scheme's signature of a message or part.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Signature {
    scheme: Scheme,
    part: Option<u32>,
    piece: Piece,
    length: u8,
    bytes: [u8; Self::BYTES_MAX],
}

/// The schemes to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The exact signature of the text.
    pub exact: bool,
    /// Signatures of attachments.
    pub attachment: bool,
    /// Signatures of links.
    pub url: bool,
    /// Pyzor's digest.
    pub pyzor: bool,
    /// Razor's signatures of parts.
    pub razor: bool,
    /// DCC's checksums.
    pub dcc: bool,
    /// The features of near replicas.
    pub bruit: bool,
    /// The piece covered by each Razor signature. Needed for claims.
    pub razor_pieces: bool,
}

/// Input for the schemes in addition to the message.
#[derive(Clone, Debug, Default)]
pub struct Context<'c> {
    /// Razor's current parameters.
    pub ep4: razor::Ep4,
    /// Envelope and source of the message.
    pub envelope: dcc::Envelope<'c>,
}

/// The computed signatures and features.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signed {
    /// Signatures, grouped by scheme. The signatures of one scheme are in message order.
    pub signatures: Vec<Signature>,
    /// Links, in the order of their signatures.
    pub links: Vec<Link>,
    /// Features for near replicas, if requested.
    pub features: Option<Features>,
    /// Composition of the message, if its text signature or its features were requested.
    pub outline: Option<Outline>,
}

/// Computes the requested signatures of a message.
pub fn sign(message: &[u8], wanted: &Wanted, context: &Context<'_>) -> Signed {
    let mut signed = Signed::default();
    if wanted.reads() {
        let message = Message::read(message);
        let reading =
            if wanted.exact || wanted.url || wanted.bruit { Reading::of(&message) } else { Reading::default() };
        signed.add_own(&message, &reading, wanted);
    }
    let signatures = &mut signed.signatures;
    if wanted.pyzor {
        let [older, newer] = pyzor::digests(message);
        signatures.push(Signature::new(Scheme::Pyzor, None, &older.0));
        signatures.extend((newer != older).then(|| Signature::new(Scheme::Pyzor11, None, &newer.0)));
    }
    if wanted.razor {
        let parts = if wanted.razor_pieces { razor::parts(message) } else { Vec::new() };
        let PartsOutline { pieces, .. } = PartsOutline::of(parts.iter().map(razor::Part::as_bytes));
        for part in razor::sign(message, &context.ep4) {
            let at = Some(part.index);
            let piece = pieces.get(part.index as usize).copied().unwrap_or_default();
            signatures.push(Signature::new(Scheme::RazorE4, at, &part.signatures.e4.0).covering(piece));
            signatures.extend(part.signatures.e8.iter().map(|e8| Signature::new(Scheme::RazorE8, at, &e8.0)));
        }
    }
    if wanted.dcc {
        let sums = dcc::sign(message, &context.envelope);
        signatures.extend(sums.iter().map(|sum| Signature::new(Scheme::of_checksum(sum.kind), None, &sum.sum)));
    }
    signed
}

impl Signed {
    fn add_own(&mut self, message: &Message<'_>, reading: &Reading, wanted: &Wanted) {
        if wanted.exact {
            self.signatures.extend(exact::sign(reading).map(|found| Signature::new(Scheme::Exact, None, &found.0)));
        }
        if wanted.attachment {
            self.signatures.extend(attachment::sign(message).into_iter().map(|file| {
                let part = u32::try_from(file.part).ok();
                Signature::new(Scheme::Attachment, part, &file.signature.0).covering(file.piece)
            }));
        }
        if wanted.url {
            self.links = Link::all(reading);
            let found = self.links.iter().map(|link| Signature::new(Scheme::Url, None, &link.signature().0));
            self.signatures.extend(found);
        }
        if wanted.exact || wanted.bruit {
            let (features, words) = Features::with_words(reading);
            self.outline = Some(Outline::of(message, &features, words));
            self.features = wanted.bruit.then_some(features);
        }
    }
}

impl Wanted {
    /// Selects all schemes and features.
    pub const ALL: Self = Self {
        exact: true,
        attachment: true,
        url: true,
        pyzor: true,
        razor: true,
        dcc: true,
        bruit: true,
        razor_pieces: true,
    };

    /// Selects no schemes and no features.
    pub const NONE: Self = Self {
        exact: false,
        attachment: false,
        url: false,
        pyzor: false,
        razor: false,
        dcc: false,
        bruit: false,
        razor_pieces: false,
    };

    /// Returns true if the visible content of the message is needed.
    fn reads(&self) -> bool {
        self.exact || self.attachment || self.url || self.bruit
    }
}

impl Scheme {
    /// All schemes, grouped by the input they are derived from.
    pub const ALL: [Self; 14] = [
        Self::Exact,
        Self::Attachment,
        Self::Url,
        Self::Pyzor,
        Self::Pyzor11,
        Self::RazorE4,
        Self::RazorE8,
        Self::DccIp,
        Self::DccEnvFrom,
        Self::DccFrom,
        Self::DccMessageId,
        Self::DccReceived,
        Self::DccBody,
        Self::DccFuz1,
    ];

    /// Returns the name used in configuration and output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Attachment => "attachment",
            Self::Url => "url",
            Self::Pyzor => "pyzor",
            Self::Pyzor11 => "pyzor_1_1",
            Self::RazorE4 => "razor_e4",
            Self::RazorE8 => "razor_e8",
            Self::DccIp => "dcc_ip",
            Self::DccEnvFrom => "dcc_env_from",
            Self::DccFrom => "dcc_from",
            Self::DccMessageId => "dcc_message_id",
            Self::DccReceived => "dcc_received",
            Self::DccBody => "dcc_body",
            Self::DccFuz1 => "dcc_fuz1",
        }
    }

    /// Returns true for DCC's schemes, which count recipients.
    #[must_use]
    pub const fn is_dcc(self) -> bool {
        matches!(
            self,
            Self::DccIp
                | Self::DccEnvFrom
                | Self::DccFrom
                | Self::DccMessageId
                | Self::DccReceived
                | Self::DccBody
                | Self::DccFuz1
        )
    }

    fn of_checksum(kind: dcc::Kind) -> Self {
        match kind {
            dcc::Kind::Ip => Self::DccIp,
            dcc::Kind::EnvFrom => Self::DccEnvFrom,
            dcc::Kind::From => Self::DccFrom,
            dcc::Kind::MessageId => Self::DccMessageId,
            dcc::Kind::Received => Self::DccReceived,
            dcc::Kind::Body => Self::DccBody,
            dcc::Kind::Fuz1 => Self::DccFuz1,
        }
    }
}

impl Signature {
    /// Maximum length of a signature.
    pub const BYTES_MAX: usize = 32;

    pub(crate) fn new(scheme: Scheme, part: Option<u32>, value: &[u8]) -> Self {
        debug_assert!(value.len() <= Self::BYTES_MAX, "no scheme has longer signatures");
        let mut bytes = [0; Self::BYTES_MAX];
        let length = value.len().min(Self::BYTES_MAX);
        bytes.iter_mut().zip(value).for_each(|(byte, value)| *byte = *value);
        Self { scheme, part, piece: Piece::Message, length: length as u8, bytes }
    }

    /// Returns the same signature, but sets the piece that it covers to `piece`.
    #[must_use]
    pub const fn covering(self, piece: Piece) -> Self {
        Self { piece, ..self }
    }

    /// Returns the piece of the message that the signature covers.
    #[must_use]
    pub const fn piece(&self) -> Piece {
        self.piece
    }

    /// Returns the scheme.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Returns the index of the part that the signature covers, or `None` for the whole message. Schemes number the
    /// parts differently.
    pub fn part(&self) -> Option<u32> {
        self.part
    }

    /// Returns the bytes of the signature, which servers compare.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// Formats the signature as the scheme's own programs do, i.e. in razor64 for Razor, and in hex digits for the others.
impl fmt::Display for Signature {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.scheme, self.bytes()) {
            (Scheme::RazorE4, bytes) if let Ok(e4) = bytes.try_into() => razor::E4Signature(e4).fmt(out),
            (Scheme::RazorE8, bytes) if let Ok(e8) = bytes.try_into() => razor::E8Signature(e8).fmt(out),
            (_, bytes) => hex::write(out, bytes),
        }
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {self}", self.scheme)
    }
}
