//! State shared by all listeners: the clearinghouse, settings, limits, counters, and the clock.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use bruit_engine::Outcome;
use bruit_engine::event::Event;
use bruit_engine::time::Time;
use bruit_engine::trust::{Reporter, Standing};
use bruit_filters::FingerprintKey;
use bruit_store::{Clearinghouse, SubmitError};

use crate::admin_token::AdminToken;
use crate::clock::Clock;
use crate::config::{Config, Settings};
use crate::connections::Connections;
use crate::disk_space::DiskSpace;
use crate::fatal::Fatal;
use crate::federation::Federation;
use crate::health::Health;
use crate::history::Recording;
use crate::http::{Live, Sessions};
use crate::last_claims::LastClaims;
use crate::learning::Learning;
use crate::limits::{Buckets, Rate};
use crate::metrics::Metrics;
use crate::refusal_counts::Refusals;
use crate::sites::SeenSites;
use crate::sources::Source;

/// State shared by all listeners.
pub(crate) struct Service {
    pub(crate) store: Clearinghouse,
    /// The realm's key, used to hash signatures and sources.
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
    pub(crate) sites: SeenSites,
    pub(crate) sessions: Sessions,
    pub(crate) live: Live,
    pub(crate) history: Recording,
    pub(crate) disk: Arc<DiskSpace>,
    startup: OnceLock<(PathBuf, Config)>,
    dashboard: OnceLock<String>,
    settings: RwLock<Arc<Settings>>,
    failure: Mutex<Option<WriteFailure>>,
    started: Instant,
}

/// The last failure to write.
struct WriteFailure {
    at: Duration,
    text: String,
}

/// Time for which the server remains not ready after the last failure to write.
const FAILURE_REMEMBERED: Duration = Duration::from_secs(30);

/// The rate-limit key for the claims of all strangers.
const STRANGERS: u64 = 0;

/// The limit on claims by all strangers together. It is a small part of the disk's capacity.
const STRANGERS_CLAIMS: Rate = Rate { per_second: 1_000.0, burst: 10_000 };

/// The rate-limit key shared by all registrations.
const REGISTRATIONS: u64 = 0;

/// The buckets of every kind of limit.
#[derive(Debug)]
pub(crate) struct Limits {
    pub(crate) requests: Buckets,
    pub(crate) claims: Buckets,
    pub(crate) longer_replies: Buckets,
    pub(crate) costly: Buckets,
    pub(crate) registrations: Buckets,
}

/// Kinds of limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limited {
    /// Any request.
    Request,
    /// A reply over UDP that is longer than its request.
    LongerReply,
    /// An expensive request.
    Costly,
}

impl Service {
    /// Returns true if the server with this key is forgotten.
    pub(crate) fn has_forgotten(&self, key: &[u8; 32]) -> bool {
        self.store.check(|engine| engine.exchange().is_forgotten(key))
    }

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
            sites: SeenSites::default(),
            sessions: Sessions::default(),
            live: Live::default(),
            history: Recording::default(),
            disk: Arc::default(),
            startup: OnceLock::new(),
            dashboard: OnceLock::new(),
            settings,
            failure: Mutex::new(None),
            started: Instant::now(),
        }
    }

    /// Sets the data directory and the configuration at startup. Only the first call has an effect.
    pub(crate) fn set_startup(&self, directory: &Path, config: &Config) {
        let _ = self.startup.set((directory.to_owned(), config.clone()));
    }

    /// Returns the data directory, if the service has one.
    pub(crate) fn directory(&self) -> Option<&Path> {
        self.startup.get().map(|(directory, _)| directory.as_path())
    }

    /// Returns the configuration at startup. Its settings may have changed since then.
    pub(crate) fn started_with(&self) -> Option<&Config> {
        self.startup.get().map(|(_, config)| config)
    }

    /// Sets the dashboard's URL on this machine. Only the first call has an effect.
    pub(crate) fn set_dashboard(&self, url: String) {
        let _ = self.dashboard.set(url);
    }

    /// Returns a URL that signs in to the dashboard once, with the rights of a token. Returns `None` if the dashboard is
    /// turned off or has no address.
    pub(crate) fn sign_in_link(&self, token: [u8; 32]) -> Option<String> {
        let base = self.dashboard.get()?;
        let link = self.sessions.create_link(token, self.uptime())?;
        Some(format!("{base}/sign-in?link={link}"))
    }

    /// Returns the current settings. Listeners call this once per batch or connection.
    pub(crate) fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn change_settings(&self, settings: Settings) {
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }

    /// Records refusals and failed writes. Overload is not recorded, because clients see it and retry.
    pub(crate) fn note(&self, result: &Result<Vec<Outcome>, SubmitError>) {
        let error = match result {
            Ok(outcomes) => return self.refusals.note(outcomes, self.uptime()),
            Err(error) => error,
        };
        if matches!(error, SubmitError::Busy | SubmitError::Closed) {
            return;
        }
        let text = bruit_federation::describe(error);
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(WriteFailure { at: self.uptime(), text });
    }

    /// Returns the reason for a recent failure to write.
    pub(crate) fn recent_failure(&self) -> Option<String> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = |failure: &&WriteFailure| self.uptime().saturating_sub(failure.at) < FAILURE_REMEMBERED;
        failure.as_ref().filter(is_recent).map(|failure| failure.text.clone())
    }

    /// Returns the current time of the clearinghouse. See [`Clock`].
    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Returns the time since the server started, which is monotonic. Rate limits and duplicate detection use it.
    pub(crate) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns true if the source's limit admits another request. Own networks have no limits.
    pub(crate) fn admits(&self, source: &Source, kind: Limited, settings: &Settings, now: Duration) -> bool {
        source.is_own || self.admits_hash(source.network(&self.key), kind, settings, now)
    }

    /// Returns true if a reporter's limit admits `count` more claims. Own users have no limit. Each account has a limit
    /// of its own. Strangers have one limit per network and one for all together, because addresses can be forged and
    /// all strangers share the same capacity.
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

    /// Returns true if the limit on all networks together admits another registration. The limit exists because, once
    /// the table is full, each registration evicts a self-registered account.
    pub(crate) fn admits_registration(&self, settings: &Settings, now: Duration) -> bool {
        self.limits.registrations.admit(REGISTRATIONS, settings.limits.registrations, now)
    }

    /// Returns true if the limit of an account or network, given as a hash, admits another request.
    pub(crate) fn admits_hash(&self, hash: u64, kind: Limited, settings: &Settings, now: Duration) -> bool {
        let (buckets, rate) = match kind {
            Limited::Request => (&self.limits.requests, settings.limits.requests),
            Limited::LongerReply => (&self.limits.longer_replies, settings.limits.longer_replies),
            Limited::Costly => (&self.limits.costly, settings.limits.costly),
        };
        buckets.admit(hash, rate, now)
    }
}

/// Returns the number of signatures in events.
pub(crate) fn signatures(events: &[Event]) -> u32 {
    let of = |event: &Event| match event {
        Event::Claim { fingerprints, .. } | Event::Bulk { fingerprints, .. } => fingerprints.len() as u32,
        _ => 1,
    };
    events.iter().map(of).sum()
}
