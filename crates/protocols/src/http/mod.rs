//! The JSON of our own HTTP interface: what is asked, and what is answered.
//!
//! Both ends use these types; neither sockets nor the books are known here. Signatures are spelt as `bruit sign` prints
//! them. The features of a text, by which near replicas are found, are numbers of 8 bytes, little-endian, in base64. Times
//! are seconds since 1970 (Unix), and what is absent is left out. Requests with fields that are not known are refused;
//! answers may get more fields, which a client must pass over.
//!
//! | module | what it is |
//! |---|---|
//! | `subject` | what a question or claim is about |
//! | `answers` | what a check, claim or lesson is answered; what went wrong |
//! | `explanation` | everything that is known of signatures |
//! | `stats` | how a server is doing |
//! | `administration` | accounts and whitelists |
//! | `peers` | what is exchanged with which other servers |
//!
//! `GET /v1/openapi.json` of a server describes all of it.

mod administration;
mod answers;
mod explanation;
mod peers;
mod stats;
mod subject;

pub use administration::{
    AccountEntry, AccountName, AccountPage, AccountPatch, AccountTrust, ClockAccepted, Done, NewAccount, Whitelist,
    WhitelistEntry,
};
pub use answers::{Checked, CheckedSignature, Claimed, Counted, LearnAnswer, Problem, Verdict};
pub use explanation::{Evidence, Explained, ExplainedSignature, GenerationClaims, GenerationRecipients};
pub use peers::{PeerStatus, Peers, RefusedSegments};
pub use stats::{Condition, Generation, Ready, Recovery, RequestCount, Ring, Stats, Store, Table, TrustPolicy};
pub use subject::{
    FEATURES_MAX, LIST_BYTES_MAX, NamedSignature, Outline, SENDER_BYTES_MAX, SIGNATURES_MAX, SUBJECT_BYTES_MAX,
    Subject, SubjectError, Text,
};

/// The media type of requests and answers.
pub const JSON: &str = "application/json";

/// The field of a report or revocation that says on whose behalf it is made.
pub const REPORTER_FIELD: &str = "bruit-reporter";

/// The longest name in that field.
pub const REPORTER_BYTES_MAX: usize = 256;

/// Most recipients of one request, and the highest threshold: DCC's "many", which is never reached by counting.
pub const RECIPIENTS_MAX: u32 = 0x00ff_fff0;

/// The field of a request to count that names it, so that a repetition of it is not counted again.
pub const IDEMPOTENCY_FIELD: &str = "idempotency-key";

/// The longest name in that field.
pub const IDEMPOTENCY_BYTES_MAX: usize = 128;

/// The media type of a [`Problem`].
pub const PROBLEM_JSON: &str = "application/problem+json";

/// The scheme under which near replicas are told; features are no signatures, so [`Scheme`] does not have it.
///
/// [`Scheme`]: bruit_signatures::Scheme
pub const REPLICA_SCHEME: &str = "bruit";
