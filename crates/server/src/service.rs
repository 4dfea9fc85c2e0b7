//! What all listeners share: the clearinghouse, the settings in force, limits, counters, and the clock.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use bruit_engine::Outcome;
use bruit_engine::event::Event;
use bruit_engine::time::Time;
use bruit_engine::trust::{Reporter, Standing};
use bruit_filters::FingerprintKey;
use bruit_store::{Clearinghouse, SubmitError};

use crate::admin_token::AdminToken;
use crate::clock::Clock;
use crate::config::Settings;
use crate::connections::Connections;
use crate::fatal::Fatal;
use crate::federation::Federation;
use crate::health::Health;
use crate::last_claims::LastClaims;
use crate::learning::Learning;
use crate::limits::{Buckets, Rate};
use crate::metrics::Metrics;
use crate::refusals::Refusals;
use crate::sources::Source;

/// What all listeners share.
pub(crate) struct Service {
    pub(crate) store: Clearinghouse,
    /// The realm's key, under which signatures and sources are hashed.
    pub(crate) key: FingerprintKey,
    pub(crate) metrics: Metrics,
    pub(crate) health: Health,
    pub(crate) clock: Clock,
    pub(crate) fatal: Fatal,
    pub(crate) admin_token: AdminToken,
    pub(crate) refusals: Refusals,
    pub(crate) limits: Limits,
    pub(crate) last_claims: LastClaims,
    pub(crate) learning: Learning,
    pub(crate) connections: Arc<Connections>,
    pub(crate) federation: Arc<Federation>,
    settings: RwLock<Arc<Settings>>,
    failure: Mutex<Option<Failure>>,
    started: Instant,
}

/// The last time that something could not be kept.
struct Failure {
    at: Duration,
    text: String,
}

/// How long a failure makes the server unfit, unless it happens again.
const FAILURE_REMEMBERED: Duration = Duration::from_secs(30);

/// What all strangers together are called among those who claim.
const STRANGERS: u64 = 0;

/// How many claims all strangers together may make: a small part of what the disk takes.
const STRANGERS_CLAIMS: Rate = Rate { per_second: 1_000.0, burst: 10_000 };

/// What all who register are called together.
const REGISTRATIONS: u64 = 0;

/// The buckets of every kind of thing that is limited.
#[derive(Debug)]
pub(crate) struct Limits {
    pub(crate) requests: Buckets,
    pub(crate) claims: Buckets,
    pub(crate) longer_replies: Buckets,
    pub(crate) costly: Buckets,
    pub(crate) registrations: Buckets,
}

/// Kinds of things that are limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limited {
    /// Any request.
    Request,
    /// A reply over UDP that is longer than its request.
    LongerReply,
    /// Work that takes long.
    Costly,
}

impl Service {
    pub(crate) fn new(store: Clearinghouse, settings: Settings) -> Self {
        let (key, clock) = store.check(|engine| {
            let realm = engine.realm();
            (realm.key().clone(), Clock::new(engine.now(), realm, &settings.clock))
        });
        let limits = Limits {
            requests: Buckets::new(),
            claims: Buckets::new(),
            longer_replies: Buckets::new(),
            costly: Buckets::new(),
            registrations: Buckets::new(),
        };
        let settings = RwLock::new(Arc::new(settings));
        Self {
            store,
            key,
            metrics: Metrics::new(),
            health: Health::default(),
            clock,
            fatal: Fatal::default(),
            admin_token: AdminToken::default(),
            refusals: Refusals::default(),
            limits,
            last_claims: LastClaims::default(),
            learning: Learning::default(),
            connections: Arc::default(),
            federation: Arc::default(),
            settings,
            failure: Mutex::new(None),
            started: Instant::now(),
        }
    }

    /// The settings in force. Listeners ask once per batch or connection.
    pub(crate) fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn change_settings(&self, settings: Settings) {
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }

    /// Notes refusals and failed writes. Overload is not noted: clients see it and try again.
    pub(crate) fn note(&self, result: &Result<Vec<Outcome>, SubmitError>) {
        let error = match result {
            Ok(outcomes) => return self.refusals.note(outcomes, self.uptime()),
            Err(error) => error,
        };
        if matches!(error, SubmitError::Busy | SubmitError::Closed) {
            return;
        }
        let text = describe(error);
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(Failure { at: self.uptime(), text });
    }

    /// Why something could not be kept, if that was lately.
    pub(crate) fn recent_failure(&self) -> Option<String> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = |failure: &&Failure| self.uptime().saturating_sub(failure.at) < FAILURE_REMEMBERED;
        failure.as_ref().filter(is_recent).map(|failure| failure.text.clone())
    }

    /// The current time of the clearinghouse: see [`Clock`].
    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Time since the server started: what limits and duplicates go by, as it never jumps.
    pub(crate) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Whether a source may do something once more. The site's own networks always may.
    pub(crate) fn admits(&self, source: &Source, kind: Limited, settings: &Settings, now: Duration) -> bool {
        source.is_own || self.admits_hash(source.network(&self.key), kind, settings, now)
    }

    /// Whether a reporter may make so many claims more: the site's own users always, accounts by account, and strangers by network
    /// and all together, as addresses can be forged and what they fill is shared with others.
    pub(crate) fn admits_claims(
        &self,
        reporter: &Reporter,
        source: &Source,
        count: u32,
        settings: &Settings,
        now: Duration,
    ) -> bool {
        let claims = &self.limits.claims;
        if reporter.standing != Standing::Stranger && reporter.id != source.network(&self.key) {
            self.last_claims.note(reporter.id, self.now());
        }
        match reporter.standing {
            Standing::Own => true,
            Standing::Stranger => {
                claims.admit_many(source.network(&self.key), count, settings.limits.claims, now)
                    && claims.admit_many(STRANGERS, count, STRANGERS_CLAIMS, now)
            }
            Standing::Trap | Standing::Pinned | Standing::Account => {
                claims.admit_many(reporter.id, count, settings.limits.account_claims, now)
            }
        }
    }

    /// Whether one more account may be registered, by all networks together: the table is shared, and each takes the place of another
    /// once it is full.
    pub(crate) fn admits_registration(&self, settings: &Settings, now: Duration) -> bool {
        self.limits.registrations.admit(REGISTRATIONS, settings.limits.registrations, now)
    }

    /// The same for an account or network by its hash.
    pub(crate) fn admits_hash(&self, hash: u64, kind: Limited, settings: &Settings, now: Duration) -> bool {
        let (buckets, rate) = match kind {
            Limited::Request => (&self.limits.requests, settings.limits.requests),
            Limited::LongerReply => (&self.limits.longer_replies, settings.limits.longer_replies),
            Limited::Costly => (&self.limits.costly, settings.limits.costly),
        };
        buckets.admit(hash, rate, now)
    }
}

/// How many signatures events are about.
pub(crate) fn signatures(events: &[Event]) -> u32 {
    let of = |event: &Event| match event {
        Event::Claim { fingerprints, .. } | Event::Bulk { fingerprints, .. } => fingerprints.len() as u32,
        _ => 1,
    };
    events.iter().map(of).sum()
}

/// Formats an error with its causes, in one line.
pub(crate) fn describe(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
