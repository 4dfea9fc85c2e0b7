//! Events, and their encoding for the journal.
//!
//! Every change of the state is an [`Event`]. The same events in the same order produce the same bytes of state, so a
//! journal of events is all that has to be stored. Checks change nothing and are not events.
//!
//! `docs/design/events.md` specifies the encoding.

use bruit_filters::Fingerprint;

use crate::accounts::AccountChange;
use crate::budget::{BUDGET_MAX, BUDGET_MIN};
use crate::codec::{Malformed, Reader, put_count, put_fingerprint};
use crate::exchange::{
    Chain, Encoding, Hash, OriginChange, PAYLOAD_BYTES_MAX, Received, put_chain, put_origin, put_terms, read_chain,
    read_origin, read_terms,
};
use crate::replicas::{GOOD_FEATURES, Text};
use crate::shingles::{Digest, SHINGLES};
use crate::spam::FLAGS;
use crate::time::Time;
use crate::trust::{Claim, Policy, Reporter, Standing, read_standing};
use crate::whitelist::WhitelistChange;

/// Maximum number of signatures in one event. A message has only a few. A larger batch is split into several events.
pub const FINGERPRINTS_MAX: usize = 64;

/// Maximum number of events in one [`Event::IdentifiedClaim`]. A request has at most 256 signatures, and its files can
/// add the same number of fingerprints. Together with a text and good features, these make at most eleven events.
pub const IDENTIFIED_EVENTS_MAX: usize = 12;

/// A change of the state of the clearinghouse.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// Advances the time: generations begin and end, and claims are settled. A server applies one tick every second.
    Tick {
        /// Current time.
        now: Time,
        /// Maximum number of lines to clear in each ring: [`TICK_LINES`](crate::TICK_LINES), or more if the rings are
        /// several epochs behind.
        lines: u32,
    },
    /// A report or revocation of signatures.
    Claim {
        /// Reporter and time.
        by: By,
        /// Report or revocation.
        claim: Claim,
        /// Flag under which the claim is counted, below [`FLAGS`].
        flag: u8,
        /// Signatures, at most [`FINGERPRINTS_MAX`].
        fingerprints: Vec<Fingerprint>,
    },
    /// A claim about a message. If the claim is repeated, it still counts only once.
    IdentifiedClaim {
        /// Time of the claim.
        now: Time,
        /// ID of the claim. A later event with the same ID is refused.
        id: Fingerprint,
        /// The claim: from 1 to [`IDENTIFIED_EVENTS_MAX`] events, each a claim, a text or good features.
        events: Vec<Self>,
    },
    /// A message with its number of recipients.
    Bulk {
        /// Reporter and time.
        by: By,
        /// Number of recipients, at most [`MANY`](crate::bulk::MANY).
        targets: u32,
        /// Signatures, at most [`FINGERPRINTS_MAX`].
        fingerprints: Vec<Fingerprint>,
    },
    /// The text of a reported message, stored to find near replicas of it.
    Text {
        /// Reporter and time.
        by: By,
        /// Fingerprint of the text in the books. Claims about the text apply to this fingerprint.
        fingerprint: Fingerprint,
        /// Features used to find near replicas.
        text: Text,
    },
    /// Features of a good message. Features shared by several good messages no longer count.
    Good {
        /// Reporter and time.
        by: By,
        /// Features, at most [`GOOD_FEATURES`].
        features: Vec<u64>,
    },
    /// Features of a revoked message, or features seen in unreported mail on several days. They no longer count.
    GoodFeatures {
        /// Reporter and time.
        by: By,
        /// Features, at most [`GOOD_FEATURES`].
        features: Vec<u64>,
    },
    /// A text, identified by rspamd's digest and shingles. The claim about the text is a separate event, and applies to
    /// the fingerprint of the digest.
    Shingles {
        /// Reporter and time.
        by: By,
        /// Change of the text.
        change: TextChange,
        /// Digest of the text.
        digest: Box<Digest>,
        /// Shingles of the text; `None` for texts of only a few words.
        shingles: Option<Box<[u64; SHINGLES]>>,
    },
    /// A change of an account.
    Account {
        /// Time of the change.
        now: Time,
        /// Change to apply.
        change: AccountChange,
    },
    /// A change of the whitelists.
    Whitelist {
        /// Time of the change.
        now: Time,
        /// Change to apply.
        change: WhitelistChange,
    },
    /// A new policy for weighing claims.
    Policy {
        /// Time of the change.
        now: Time,
        /// New policy.
        policy: Box<Policy>,
    },
    /// A change of the servers that take part in the exchange.
    Origin {
        /// Time of the change.
        now: Time,
        /// Change to apply.
        change: OriginChange,
    },
    /// Pending entries have been written to a segment on disk.
    Sealed {
        /// Time of the event.
        now: Time,
        /// Chain of the segment, one of our own.
        chain: Chain,
        /// Sequence number of the segment in its chain.
        sequence: u64,
        /// Number of pending entries in the segment.
        taken: u32,
        /// Length of the signed segment in bytes.
        bytes: u32,
        /// Hash of the segment.
        hash: Hash,
    },
    /// A segment of another server, with a verified signature.
    Received {
        /// Time of the event.
        now: Time,
        /// Received segment.
        segment: Box<Received>,
    },
    /// This server's copy of a chain differs from the origin's and will be fetched again from the start.
    Repair {
        /// Time of the event.
        now: Time,
        /// Chain to fetch again.
        chain: Chain,
    },
    /// Forgets a server or accepts it again. To forget a server is to take back everything that it said, and to refuse
    /// its segments from then on.
    Forget {
        /// Time of the change, by the clock of the node where the operator made it.
        now: Time,
        /// Key of the server.
        key: [u8; 32],
        /// Key of the node where the operator made the change.
        by: [u8; 32],
        /// True to forget the server, false to accept it again.
        is_forgotten: bool,
    },
    /// A segment that was applied before, read again from our own logs to rebuild the books without a forgotten server.
    Reread {
        /// Time of the event.
        now: Time,
        /// Segment that was read again.
        segment: Box<Received>,
    },
    /// Ends a stage of the rebuild, after all of its logs have been read. Rings that are complete replace the old ones.
    Rebuild {
        /// Time of the event.
        now: Time,
    },
    /// A change of the memory budget. Books and tables keep their contents.
    Resize {
        /// Time of the change.
        now: Time,
        /// New budget in bytes, from [`BUDGET_MIN`] to [`BUDGET_MAX`].
        budget_bytes: u64,
    },
}

/// A change of a text with shingles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextChange {
    /// Adds to the weight that the text has on a list.
    Write {
        /// Number of the list, which rspamd calls a flag. Any value is allowed.
        flag: u8,
        /// Weight to add.
        weight: i32,
    },
    /// Deletes the text.
    Delete,
}

/// The reporter and time of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct By {
    /// Time at which the server accepted the claim.
    pub now: Time,
    /// Reporter who made the claim.
    pub reporter: Reporter,
}

impl Event {
    /// Returns true if [`decode`](Self::decode) accepts the encoded event. Other events must not be journalled or
    /// applied.
    #[must_use]
    pub fn is_within_bounds(&self) -> bool {
        match self {
            Self::Tick { .. } | Self::Shingles { .. } | Self::Sealed { .. } | Self::Repair { .. } => true,
            Self::Forget { .. } | Self::Rebuild { .. } => true,
            Self::Origin { change, .. } => change.is_within_bounds(),
            Self::Received { segment, .. } | Self::Reread { segment, .. } => segment.payload.len() <= PAYLOAD_BYTES_MAX,
            Self::IdentifiedClaim { events, .. } => {
                (1..=IDENTIFIED_EVENTS_MAX).contains(&events.len()) && events.iter().all(Self::may_be_identified)
            }
            Self::Claim { flag, fingerprints, .. } => *flag < FLAGS && fingerprints.len() <= FINGERPRINTS_MAX,
            Self::Bulk { fingerprints, .. } => fingerprints.len() <= FINGERPRINTS_MAX,
            Self::Text { text, .. } => text.is_within_bounds(),
            Self::Good { features, .. } | Self::GoodFeatures { features, .. } => features.len() as u64 <= GOOD_FEATURES,
            Self::Account { change, .. } => change.is_within_bounds(),
            Self::Whitelist { change, .. } => change.is_within_bounds(),
            Self::Policy { policy, .. } => policy.check().is_ok(),
            Self::Resize { budget_bytes, .. } => (BUDGET_MIN..=BUDGET_MAX).contains(budget_bytes),
        }
    }

    /// Returns true for the events that reports and checks cause.
    #[must_use]
    pub const fn is_frequent(&self) -> bool {
        matches!(
            self,
            Self::Claim { .. }
                | Self::IdentifiedClaim { .. }
                | Self::Bulk { .. }
                | Self::Text { .. }
                | Self::Shingles { .. }
        )
    }

    /// Returns true if the event may be part of an [`IdentifiedClaim`](Self::IdentifiedClaim).
    fn may_be_identified(&self) -> bool {
        matches!(self, Self::Claim { .. } | Self::Text { .. } | Self::GoodFeatures { .. }) && self.is_within_bounds()
    }

    /// Returns true if applying the event may add entries for export to other servers.
    pub(crate) const fn may_export(&self) -> bool {
        self.is_text()
            || matches!(
                self,
                Self::Claim { .. } | Self::IdentifiedClaim { .. } | Self::Bulk { .. } | Self::Received { .. }
            )
    }

    /// Returns true if the event itself is exported to other nodes, in the book of texts.
    pub(crate) const fn is_text(&self) -> bool {
        matches!(
            self,
            Self::Text { .. }
                | Self::Good { .. }
                | Self::GoodFeatures { .. }
                | Self::Shingles { .. }
                | Self::Whitelist { .. }
                | Self::Forget { .. }
        )
    }

    /// Returns the time of the event.
    #[must_use]
    pub const fn time(&self) -> Time {
        match self {
            Self::Tick { now, .. }
            | Self::Account { now, .. }
            | Self::Whitelist { now, .. }
            | Self::Policy { now, .. }
            | Self::Origin { now, .. }
            | Self::Sealed { now, .. }
            | Self::Received { now, .. }
            | Self::Repair { now, .. }
            | Self::Forget { now, .. }
            | Self::Reread { now, .. }
            | Self::Rebuild { now }
            | Self::IdentifiedClaim { now, .. }
            | Self::Resize { now, .. } => *now,
            Self::Claim { by, .. }
            | Self::Bulk { by, .. }
            | Self::Text { by, .. }
            | Self::Good { by, .. }
            | Self::GoodFeatures { by, .. }
            | Self::Shingles { by, .. } => by.now,
        }
    }

    /// Appends the encoded event: its kind, its time, and its other fields.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.kind());
        out.extend(self.time().0.to_le_bytes());
        self.encode_fields(out);
    }

    /// Returns the number of the kind of the event.
    const fn kind(&self) -> u8 {
        match self {
            Self::Tick { .. } => 1,
            Self::Claim { .. } => 2,
            Self::Bulk { .. } => 3,
            Self::Text { .. } => 4,
            Self::Good { .. } => 5,
            Self::Shingles { .. } => 6,
            Self::Account { .. } => 7,
            Self::Whitelist { .. } => 8,
            Self::Policy { .. } => 9,
            Self::Origin { .. } => 10,
            Self::Sealed { .. } => 11,
            Self::Received { .. } => 12,
            Self::Repair { .. } => 13,
            Self::Resize { .. } => 14,
            Self::GoodFeatures { .. } => 15,
            Self::Forget { .. } => 16,
            Self::Reread { .. } => 17,
            Self::Rebuild { .. } => 18,
            Self::IdentifiedClaim { .. } => 19,
        }
    }

    /// Appends all fields except the time.
    fn encode_fields(&self, out: &mut Vec<u8>) {
        match self {
            Self::Tick { lines, .. } => out.extend(lines.to_le_bytes()),
            Self::Claim { by, claim, flag, fingerprints } => {
                put_reporter(out, &by.reporter);
                out.extend([claim_byte(*claim), *flag]);
                put_fingerprints(out, fingerprints);
            }
            Self::Bulk { by, targets, fingerprints } => {
                put_reporter(out, &by.reporter);
                out.extend(targets.to_le_bytes());
                put_fingerprints(out, fingerprints);
            }
            Self::Text { by, fingerprint, text } => {
                put_reporter(out, &by.reporter);
                put_fingerprint(out, *fingerprint);
                text.encode(out);
            }
            Self::Good { by, features } | Self::GoodFeatures { by, features } => {
                put_reporter(out, &by.reporter);
                put_features(out, features);
            }
            Self::Shingles { by, change, digest, shingles } => {
                put_reporter(out, &by.reporter);
                change.encode(out);
                out.extend(&digest[..]);
                let shingles = shingles.as_ref().map_or(&[][..], |shingles| &shingles[..]);
                out.push(shingles.len() as u8);
                shingles.iter().for_each(|shingle| out.extend(shingle.to_le_bytes()));
            }
            Self::Account { change, .. } => change.encode(out),
            Self::Whitelist { change, .. } => change.encode(out),
            Self::Policy { policy, .. } => policy.encode(out),
            Self::Origin { change, .. } => change.encode(out),
            Self::Sealed { chain, sequence, taken, bytes, hash, .. } => {
                put_chain(out, chain);
                out.extend(sequence.to_le_bytes());
                out.extend(taken.to_le_bytes());
                out.extend(bytes.to_le_bytes());
                out.extend(hash);
            }
            Self::Received { segment, .. } | Self::Reread { segment, .. } => segment.encode(out),
            Self::Repair { chain, .. } => put_chain(out, chain),
            Self::Resize { budget_bytes, .. } => out.extend(budget_bytes.to_le_bytes()),
            Self::Forget { key, by, is_forgotten, .. } => {
                out.extend(key);
                out.extend(by);
                out.push(u8::from(*is_forgotten));
            }
            Self::Rebuild { .. } => {}
            Self::IdentifiedClaim { id, events, .. } => {
                put_fingerprint(out, *id);
                out.push(events.len() as u8);
                events.iter().for_each(|event| event.encode(out));
            }
        }
    }

    /// Decodes one event.
    ///
    /// # Errors
    /// [`Malformed`] for anything that [`encode`](Self::encode) does not write.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let event = Self::read(&mut reader)?;
        reader.finish()?;
        Ok(event)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match reader.u8("the kind of an event")? {
            1 => Self::Tick { now: Time(reader.u64("a time")?), lines: reader.u32("a number of lines")? },
            2 => Self::Claim {
                by: By::decode(reader)?,
                claim: read_claim(reader)?,
                flag: read_flag(reader)?,
                fingerprints: read_fingerprints(reader)?,
            },
            3 => Self::Bulk {
                by: By::decode(reader)?,
                targets: reader.u32("a number of targets")?,
                fingerprints: read_fingerprints(reader)?,
            },
            4 => Self::Text {
                by: By::decode(reader)?,
                fingerprint: reader.fingerprint("the fingerprint of a text")?,
                text: Text::decode(reader)?,
            },
            5 => Self::Good { by: By::decode(reader)?, features: read_features(reader)? },
            6 => Self::Shingles {
                by: By::decode(reader)?,
                change: TextChange::decode(reader)?,
                digest: Box::new(reader.array("a digest")?),
                shingles: read_shingles(reader)?,
            },
            7 => Self::Account { now: Time(reader.u64("a time")?), change: AccountChange::decode(reader)? },
            8 => Self::Whitelist { now: Time(reader.u64("a time")?), change: WhitelistChange::decode(reader)? },
            9 => Self::Policy { now: Time(reader.u64("a time")?), policy: Box::new(Policy::decode(reader)?) },
            10 => Self::Origin { now: Time(reader.u64("a time")?), change: OriginChange::decode(reader)? },
            11 => Self::Sealed {
                now: Time(reader.u64("a time")?),
                chain: read_chain(reader)?,
                sequence: reader.u64("a sequence")?,
                taken: reader.u32("the number of pending entries")?,
                bytes: reader.u32("the length of a segment")?,
                hash: reader.array("the hash of a segment")?,
            },
            12 => Self::Received { now: Time(reader.u64("a time")?), segment: Box::new(Received::decode(reader)?) },
            13 => Self::Repair { now: Time(reader.u64("a time")?), chain: read_chain(reader)? },
            14 => Self::Resize { now: Time(reader.u64("a time")?), budget_bytes: read_budget(reader)? },
            15 => Self::GoodFeatures { by: By::decode(reader)?, features: read_features(reader)? },
            16 => Self::Forget {
                now: Time(reader.u64("a time")?),
                key: reader.array("a key")?,
                by: reader.array("a key")?,
                is_forgotten: read_flag_of_forgetting(reader)?,
            },
            17 => Self::Reread { now: Time(reader.u64("a time")?), segment: Box::new(Received::decode(reader)?) },
            18 => Self::Rebuild { now: Time(reader.u64("a time")?) },
            19 => Self::IdentifiedClaim {
                now: Time(reader.u64("a time")?),
                id: reader.fingerprint("the ID of a claim")?,
                events: read_identified(reader)?,
            },
            value => return Err(Malformed::OutOfRange { what: "the kind of an event", value: value.into() }),
        })
    }
}

/// Reads the events of an identified claim. Their kinds are checked first, so that claims cannot be nested.
fn read_identified(reader: &mut Reader<'_>) -> Result<Vec<Event>, Malformed> {
    let count = reader.u8("the number of events of a claim")?;
    if !(1..=IDENTIFIED_EVENTS_MAX).contains(&usize::from(count)) {
        return Err(Malformed::OutOfRange { what: "the number of events of a claim", value: count.into() });
    }
    let read = |_| match reader.clone().u8("the kind of an event")? {
        2 | 4 | 15 => Event::read(reader),
        value => Err(Malformed::OutOfRange { what: "the kind of an event of a claim", value: value.into() }),
    };
    (0..count).map(read).collect()
}

fn read_flag_of_forgetting(reader: &mut Reader<'_>) -> Result<bool, Malformed> {
    match reader.u8("whether a server is forgotten")? {
        0 => Ok(false),
        1 => Ok(true),
        value => Err(Malformed::OutOfRange { what: "whether a server is forgotten", value: value.into() }),
    }
}

fn put_reporter(out: &mut Vec<u8>, reporter: &Reporter) {
    out.extend(reporter.id.to_le_bytes());
    out.push(reporter.standing as u8);
    out.extend(reporter.group.to_le_bytes());
}

impl By {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let now = Time(reader.u64("a time")?);
        let id = reader.u64("a reporter")?;
        let standing = read_standing(reader)?;
        Ok(Self { now, reporter: Reporter { id, standing, group: reader.u64("a group")? } })
    }
}

impl OriginChange {
    /// Returns true if the standing is allowed: another server may be an anchor or earn trust, but is never one of our
    /// own users.
    const fn is_within_bounds(&self) -> bool {
        match self {
            Self::Join { terms, .. } => matches!(terms.standing, Standing::Pinned | Standing::Account),
            Self::Begin { .. } | Self::Leave { .. } | Self::End => true,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Begin { origin, cluster } => {
                out.extend([0, u8::from(*cluster)]);
                put_origin(out, origin);
            }
            Self::Join { key, terms } => {
                out.push(1);
                out.extend(key);
                put_terms(out, terms);
            }
            Self::Leave { key } => {
                out.push(2);
                out.extend(key);
            }
            Self::End => out.push(3),
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        match reader.u8("the kind of server change")? {
            0 => {
                let cluster = reader.u8("the cluster flag of a server")?;
                let cluster = match cluster {
                    0 => false,
                    1 => true,
                    value => {
                        return Err(Malformed::OutOfRange {
                            what: "the cluster flag of a server",
                            value: value.into(),
                        });
                    }
                };
                Ok(Self::Begin { origin: read_origin(reader)?, cluster })
            }
            1 => Ok(Self::Join { key: reader.array("a key")?, terms: read_terms(reader)? }),
            2 => Ok(Self::Leave { key: reader.array("a key")? }),
            3 => Ok(Self::End),
            value => Err(Malformed::OutOfRange { what: "the kind of server change", value: value.into() }),
        }
    }
}

impl Received {
    fn encode(&self, out: &mut Vec<u8>) {
        put_chain(out, &self.chain);
        out.extend(self.sequence.to_le_bytes());
        out.extend(self.previous);
        out.extend(self.hash);
        out.extend(self.bytes.to_le_bytes());
        out.push(self.encoding as u8);
        put_count(out, self.payload.len());
        out.extend(&self.payload);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let chain = read_chain(reader)?;
        let sequence = reader.u64("a sequence")?;
        let (previous, hash) = (reader.array("the hash of a segment")?, reader.array("the hash of a segment")?);
        let bytes = reader.u32("the length of a segment")?;
        let number = reader.u8("an encoding")?;
        let encoding = Encoding::from_number(number)
            .ok_or_else(|| Malformed::OutOfRange { what: "an encoding", value: number.into() })?;
        let length = reader.count(PAYLOAD_BYTES_MAX, 1, "the length of a payload")?;
        let payload = reader.bytes(length, "a payload")?.to_vec();
        Ok(Self { chain, sequence, previous, hash, bytes, encoding, payload })
    }
}

impl TextChange {
    fn encode(self, out: &mut Vec<u8>) {
        let (change, flag, weight) = match self {
            Self::Write { flag, weight } => (0, flag, weight),
            Self::Delete => (1, 0, 0),
        };
        out.extend([change, flag]);
        out.extend(weight.to_le_bytes());
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (change, flag) = (reader.u8("the kind of text change")?, reader.u8("a flag")?);
        let weight = i32::from_le_bytes(reader.array("a weight")?);
        match (change, flag, weight) {
            (0, flag, weight) => Ok(Self::Write { flag, weight }),
            (1, 0, 0) => Ok(Self::Delete),
            _ => Err(Malformed::OutOfRange { what: "the kind of text change", value: change.into() }),
        }
    }
}

fn read_shingles(reader: &mut Reader<'_>) -> Result<Option<Box<[u64; SHINGLES]>>, Malformed> {
    let count = usize::from(reader.u8("the number of shingles")?);
    if count == 0 {
        return Ok(None);
    }
    if count != SHINGLES {
        return Err(Malformed::OutOfRange { what: "the number of shingles", value: count as u64 });
    }
    let mut shingles = Box::new([0; SHINGLES]);
    for shingle in shingles.iter_mut() {
        *shingle = reader.u64("a shingle")?;
    }
    Ok(Some(shingles))
}

pub(crate) const fn claim_byte(claim: Claim) -> u8 {
    match claim {
        Claim::Report => 0,
        Claim::Revoke => 1,
    }
}

pub(crate) fn read_claim(reader: &mut Reader<'_>) -> Result<Claim, Malformed> {
    match reader.u8("a claim")? {
        0 => Ok(Claim::Report),
        1 => Ok(Claim::Revoke),
        value => Err(Malformed::OutOfRange { what: "a claim", value: value.into() }),
    }
}

fn read_budget(reader: &mut Reader<'_>) -> Result<u64, Malformed> {
    let value = reader.u64("a memory budget")?;
    let is_one = (BUDGET_MIN..=BUDGET_MAX).contains(&value);
    if is_one { Ok(value) } else { Err(Malformed::OutOfRange { what: "a memory budget", value }) }
}

fn read_flag(reader: &mut Reader<'_>) -> Result<u8, Malformed> {
    let flag = reader.u8("a flag")?;
    if flag < FLAGS { Ok(flag) } else { Err(Malformed::OutOfRange { what: "a flag", value: flag.into() }) }
}

fn put_fingerprints(out: &mut Vec<u8>, fingerprints: &[Fingerprint]) {
    put_count(out, fingerprints.len());
    fingerprints.iter().for_each(|fingerprint| put_fingerprint(out, *fingerprint));
}

fn read_fingerprints(reader: &mut Reader<'_>) -> Result<Vec<Fingerprint>, Malformed> {
    let count = reader.count(FINGERPRINTS_MAX, size_of::<Fingerprint>(), "a number of signatures")?;
    (0..count).map(|_| reader.fingerprint("a signature")).collect()
}

fn put_features(out: &mut Vec<u8>, features: &[u64]) {
    put_count(out, features.len());
    features.iter().for_each(|feature| out.extend(feature.to_le_bytes()));
}

fn read_features(reader: &mut Reader<'_>) -> Result<Vec<u64>, Malformed> {
    let count = reader.count(GOOD_FEATURES as usize, size_of::<u64>(), "a number of features")?;
    (0..count).map(|_| reader.u64("a feature")).collect()
}
