//! The sessions of the dashboard, and the one-time links that open them.
//!
//! Both are kept in memory only, so they end when the server stops. The tables contain hashes of the secrets, never the
//! secrets themselves. A session or link has the rights of the token that opened it, and ends with that token. Ages are
//! measured on the monotonic clock, so a wrong system clock neither ends nor prolongs a session.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::config::sha256;

/// Lifetime of a session.
pub(crate) const SESSION_LIFETIME: Duration = Duration::from_secs(12 * 3_600);

/// Maximum number of sessions. Another one replaces the oldest.
pub(super) const SESSIONS_MAX: usize = 256;

/// Maximum number of sessions that one token opens. Another one replaces the oldest of them.
const ROWS_PER_TOKEN_MAX: usize = 32;

/// Lifetime of a one-time link.
pub(crate) const LINK_LIFETIME: Duration = Duration::from_secs(15 * 60);

/// Maximum number of one-time links. Another one replaces the oldest.
pub(super) const LINKS_MAX: usize = 16;

/// Number of random bytes of a secret. They are written in hexadecimal.
const SECRET_BYTES: usize = 32;

/// The SHA-256 of a secret or a token.
pub(super) type Hash = [u8; 32];

/// The open sessions and the unused links.
#[derive(Debug)]
pub(crate) struct Sessions {
    sessions: Mutex<Table>,
    links: Mutex<Table>,
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            sessions: Mutex::new(Table::new(SESSIONS_MAX, SESSION_LIFETIME)),
            links: Mutex::new(Table::new(LINKS_MAX, LINK_LIFETIME)),
        }
    }
}

impl Sessions {
    /// Opens a session with the rights of a token, and returns its secret. `now` is the server's uptime.
    pub(super) fn open(&self, token: Hash, now: Duration) -> Option<String> {
        Self::add(&self.sessions, token, now)
    }

    /// Returns the token of an open session.
    pub(super) fn token(&self, secret: &str, now: Duration) -> Option<Hash> {
        lock(&self.sessions).get(&hash(secret), now)
    }

    /// Ends a session.
    pub(super) fn close(&self, secret: &str) {
        lock(&self.sessions).remove(&hash(secret));
    }

    /// Creates a link that opens one session, and returns its secret.
    pub(crate) fn create_link(&self, token: Hash, now: Duration) -> Option<String> {
        Self::add(&self.links, token, now)
    }

    /// Uses up a link, and returns its token.
    pub(super) fn use_link(&self, secret: &str, now: Duration) -> Option<Hash> {
        let (mut links, hash) = (lock(&self.links), hash(secret));
        let token = links.get(&hash, now);
        links.remove(&hash);
        token
    }

    /// Adds a row with a new secret. Returns `None` if the system has no random bytes.
    fn add(table: &Mutex<Table>, token: Hash, now: Duration) -> Option<String> {
        let mut random = [0; SECRET_BYTES];
        getrandom::fill(&mut random).ok()?;
        let secret = hexadecimal(&random);
        lock(table).insert(hash(&secret), token, now);
        Some(secret)
    }
}

/// Returns the token for the forms of a session. A page of another site can neither read nor guess it.
pub(super) fn form_token(secret: &str) -> String {
    hexadecimal(&sha256(format!("form:{secret}").as_bytes()))
}

fn hash(secret: &str) -> Hash {
    sha256(secret.as_bytes())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Locks a table. Ignores poisoning, because no panic can leave a change half done.
fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A bounded table of secrets that expire. The oldest row comes first.
#[derive(Debug)]
struct Table {
    rows: Vec<Row>,
    rows_max: usize,
    lifetime: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    secret: Hash,
    token: Hash,
    created: Duration,
}

impl Table {
    const fn new(rows_max: usize, lifetime: Duration) -> Self {
        Self { rows: Vec::new(), rows_max, lifetime }
    }

    fn insert(&mut self, secret: Hash, token: Hash, now: Duration) {
        self.expire(now);
        // Whoever signs in again and again pushes out their own sessions first.
        let mut own = self.rows.iter().enumerate().filter(|(_, row)| row.token == token).map(|(place, _)| place);
        let (oldest, count) = (own.next(), own.count() + 1);
        if let Some(place) = oldest.filter(|_| count >= ROWS_PER_TOKEN_MAX) {
            self.rows.remove(place);
        } else if self.rows.len() >= self.rows_max {
            self.rows.remove(0);
        }
        self.rows.push(Row { secret, token, created: now });
    }

    fn get(&mut self, secret: &Hash, now: Duration) -> Option<Hash> {
        self.expire(now);
        self.rows.iter().find(|row| row.secret == *secret).map(|row| row.token)
    }

    fn remove(&mut self, secret: &Hash) {
        self.rows.retain(|row| row.secret != *secret);
    }

    fn expire(&mut self, now: Duration) {
        let lifetime = self.lifetime;
        self.rows.retain(|row| now.saturating_sub(row.created) < lifetime);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: Hash = [7; 32];
    const START: Duration = Duration::from_secs(100);

    #[test]
    fn a_session_is_found_by_its_secret_until_it_is_closed() {
        let sessions = Sessions::default();
        let secret = sessions.open(TOKEN, START).unwrap();
        assert_eq!((secret.len(), sessions.token(&secret, START)), (64, Some(TOKEN)));
        for wrong in ["", &secret[1..], &secret.to_uppercase(), &form_token(&secret)] {
            assert_eq!(sessions.token(wrong, START), None, "{wrong}");
        }
        sessions.close(&secret);
        assert_eq!(sessions.token(&secret, START), None);
    }

    #[test]
    fn a_session_expires_also_when_it_is_used_and_when_it_is_looked_up_a_year_later() {
        let sessions = Sessions::default();
        let (first, second) = (sessions.open(TOKEN, START).unwrap(), sessions.open(TOKEN, START).unwrap());
        let last = START + SESSION_LIFETIME - Duration::from_secs(1);
        assert!(sessions.token(&first, last).is_some());
        assert!(sessions.token(&first, START + SESSION_LIFETIME).is_none());
        assert!(sessions.token(&second, START + Duration::from_secs(365 * 86_400)).is_none());
    }

    #[test]
    fn a_full_table_drops_the_oldest_session() {
        let sessions = Sessions::default();
        let at = |second: usize| START + Duration::from_secs(second as u64);
        let token = |number: usize| [u8::try_from(number / ROWS_PER_TOKEN_MAX).unwrap(); 32];
        let open = |number: usize| sessions.open(token(number), at(number)).unwrap();
        let secrets: Vec<String> = (0..=SESSIONS_MAX).map(open).collect();
        let now = at(SESSIONS_MAX);
        assert_eq!(sessions.token(&secrets[0], now), None);
        assert!(secrets[1..].iter().all(|secret| sessions.token(secret, now).is_some()));
        assert_eq!(lock(&sessions.sessions).rows.len(), SESSIONS_MAX);
    }

    #[test]
    fn a_token_that_signs_in_often_pushes_out_its_own_sessions() {
        let sessions = Sessions::default();
        let other = sessions.open([8; 32], START).unwrap();
        let secrets: Vec<String> = (0..SESSIONS_MAX).map(|_| sessions.open(TOKEN, START).unwrap()).collect();
        let is_open = |secret: &String| sessions.token(secret, START).is_some();
        assert!(is_open(&other));
        assert_eq!(secrets.iter().filter(|secret| is_open(secret)).count(), ROWS_PER_TOKEN_MAX);
        assert!(is_open(&secrets[SESSIONS_MAX - 1]));
    }

    #[test]
    fn a_link_works_once_and_not_for_long() {
        let sessions = Sessions::default();
        let link = sessions.create_link(TOKEN, START).unwrap();
        assert_eq!(sessions.use_link("another", START), None);
        assert_eq!(sessions.use_link(&link, START), Some(TOKEN));
        assert_eq!(sessions.use_link(&link, START), None);
        assert_eq!(sessions.token(&link, START), None, "a link is not a session");
        let late = sessions.create_link(TOKEN, START).unwrap();
        assert_eq!(sessions.use_link(&late, START + LINK_LIFETIME), None);
        (0..100).for_each(|_| drop(sessions.create_link(TOKEN, START)));
        assert_eq!(lock(&sessions.links).rows.len(), LINKS_MAX);
    }
}
