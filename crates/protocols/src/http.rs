//! The JSON of our own HTTP interface: requests and answers.
//!
//! Client and server share these types. The module uses no sockets and no stored data. Signatures have the text form
//! that `bruit sign` prints. Near replicas are found by the features of a text, which are sent as little-endian 8-byte
//! numbers in base64. Times are Unix seconds, and absent values are omitted. Requests with unknown fields are refused.
//! Later versions may add fields to answers, and clients must ignore fields that they do not know.
//!
//! | module | contents |
//! |---|---|
//! | `subject` | the subject of a check, claim or explanation |
//! | `answers` | answers to checks, claims, counts and lessons; errors |
//! | `explanation` | all evidence about signatures |
//! | `stats`, `history` | the state of a server, and its counters over time |
//! | `administration` | accounts and whitelists |
//! | `peers` | the state of the exchange with other servers |
//! | `sites` | milters and other programs of mail sites |
//! | `reason` | the reasons in answers, and sentences for them |
//!
//! A server describes the whole interface at `GET /v1/openapi.json`.

mod administration;
mod answers;
mod explanation;
mod history;
mod peers;
mod reason;
mod sites;
mod stats;
mod subject;

pub use administration::{
    AccountDay, AccountEntry, AccountHistory, AccountName, AccountPage, AccountPatch, AccountTrust, ClockAccepted,
    Done, NewAccount, SignInLink, Whitelist, WhitelistEntry,
};
pub use answers::{Checked, CheckedSignature, Claimed, Counted, LearnAnswer, Problem, Verdict};
pub use explanation::{
    Evidence, Explained, ExplainedSignature, GenerationClaims, GenerationRecipients, SignatureReporter,
};
pub use history::{History, HistorySlot};
pub use peers::{NewPeer, PeerName, PeerStatus, Peers, RefusedSegments};
pub use reason::{Limit, Reason};
pub use sites::{SITE_BYTES_MAX, SITE_FIELD, Site, SiteError, SiteProgram, SiteState, Sites};
pub use stats::{Condition, Generation, Ready, Recovery, RequestCount, Ring, Stats, Store, Table, TrustPolicy};
pub use subject::{
    FEATURES_MAX, LIST_BYTES_MAX, NamedSignature, Outline, SENDER_BYTES_MAX, SIGNATURES_MAX, SUBJECT_BYTES_MAX,
    Subject, SubjectError, Text,
};

/// The media type of requests and answers.
pub const JSON: &str = "application/json";

/// Header field of a report or revocation. It contains the name of the reporter on whose behalf the claim is made.
pub const REPORTER_FIELD: &str = "bruit-reporter";

/// Maximum length of a reporter name.
pub const REPORTER_BYTES_MAX: usize = 256;

/// Maximum number of recipients in a request, and the highest threshold. It equals DCC's "many", which no count
/// reaches.
pub const RECIPIENTS_MAX: u32 = 0x00ff_fff0;

/// Header field that identifies a count, report or revocation, so that a retry is not counted again.
pub const IDEMPOTENCY_FIELD: &str = "idempotency-key";

/// Maximum length of an idempotency key.
pub const IDEMPOTENCY_BYTES_MAX: usize = 128;

/// The media type of a [`Problem`].
pub const PROBLEM_JSON: &str = "application/problem+json";

/// The scheme name for near replicas. Features are not signatures, so [`Scheme`] has no such variant.
///
/// [`Scheme`]: bruit_signatures::Scheme
pub const REPLICA_SCHEME: &str = "bruit";
