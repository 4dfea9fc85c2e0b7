//! The JSON of our own HTTP interface: requests and answers.
//!
//! Client and server share these types. The module uses no sockets and no stored data. Signatures have the text form
//! that `bruit sign` prints. The features of a text, used to find near replicas, are little-endian 8-byte numbers in
//! base64. Times are Unix seconds, and absent values are omitted. Requests with unknown fields are refused. Later
//! versions may add fields to answers, and clients must ignore fields that they do not know.
//!
//! | module | contents |
//! |---|---|
//! | `subject` | the subject of a question or claim |
//! | `answers` | answers to checks, claims and lessons; errors |
//! | `explanation` | all evidence about signatures |
//! | `stats` | the state of a server |
//! | `administration` | accounts and whitelists |
//! | `peers` | the state of the exchange with other servers |
//!
//! `GET /v1/openapi.json` of a server describes the whole interface.

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

/// Header field of a report or revocation, with the name of the reporter on whose behalf it is made.
pub const REPORTER_FIELD: &str = "bruit-reporter";

/// Maximum length of a reporter name.
pub const REPORTER_BYTES_MAX: usize = 256;

/// Maximum number of recipients in a request, and the highest threshold. This is DCC's "many", which no count reaches.
pub const RECIPIENTS_MAX: u32 = 0x00ff_fff0;

/// Header field that identifies a count request, so that a retry does not count again.
pub const IDEMPOTENCY_FIELD: &str = "idempotency-key";

/// Maximum length of an idempotency key.
pub const IDEMPOTENCY_BYTES_MAX: usize = 128;

/// The media type of a [`Problem`].
pub const PROBLEM_JSON: &str = "application/problem+json";

/// The scheme name for near replicas. Features are not signatures, so [`Scheme`] has no such variant.
///
/// [`Scheme`]: bruit_signatures::Scheme
pub const REPLICA_SCHEME: &str = "bruit";
