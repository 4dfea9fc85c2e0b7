//! Limits on TCP connections: in total, per class, and per network outside `own_networks`.
//!
//! The class of a connection is known once the client has proven its identity with a token, a login or a TLS key.
//! Before that, the connection is unproven. Unproven connections share all the places that are not reserved for other
//! classes. When these places are full, a new connection is not refused. Instead, the server closes the unproven
//! connections that have been idle for [`CROWDED_IDLE`]. If there are none, it closes the longest idle connection of
//! the network that has the most unproven connections. So strangers displace only strangers.
//!
//! | class | who | reserve |
//! |---|---|---|
//! | [`Class::Own`] | the site's own networks, holders of a token | 1/8 of all |
//! | [`Class::Peer`] | peers whose key is in the configuration | 1/16 |
//! | [`Class::Doorway`] | the federation listener, before a peer has proven its key; limited to its reserve | 1/16 |
//! | [`Class::Account`] | clients that logged in over Razor | 1/16 |
//! | [`Class::Stranger`] | everyone else | 1/16 |
//!
//! The remaining connections are not reserved for any class.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bruit_filters::FingerprintKey;
use tokio::sync::Notify;

use crate::config::LimitSettings;
use crate::sources::Source;

/// Time for which an unproven connection may be idle when the limit is reached.
const CROWDED_IDLE: Duration = Duration::from_secs(5);

/// Maximum time for which a request in progress protects an unproven connection from being ended.
const BUSY_MAX: Duration = Duration::from_secs(5);

/// Maximum number of connections that were ended but are not closed yet. At this number, a new connection waits for up
/// to [`SETTLING_MAX`], and is refused if the number has not fallen by then.
const ENDING_MAX: usize = 128;
const SETTLING_MAX: Duration = Duration::from_secs(1);

/// The class of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Stranger,
    Doorway,
    Account,
    Own,
    Peer,
}

/// Number of classes.
const CLASSES: usize = 5;

impl Class {
    const ALL: [Self; CLASSES] = [Self::Stranger, Self::Doorway, Self::Account, Self::Own, Self::Peer];

    /// Returns the number of connections, out of `total`, that are reserved for this class.
    const fn reserve(self, total: usize) -> usize {
        match self {
            Self::Own => total / 8,
            Self::Stranger | Self::Doorway | Self::Account | Self::Peer => total / 16,
        }
    }

    /// Returns true for the classes of connections that have not proven an identity.
    const fn is_unproven(self) -> bool {
        matches!(self, Self::Stranger | Self::Doorway)
    }
}

/// Returns the maximum number of connections in [`Class::Doorway`]: its reserve, but at least 4.
fn door_max(total: usize) -> usize {
    Class::Doorway.reserve(total).max(4)
}

/// Counts open connections.
#[derive(Debug)]
pub(crate) struct Connections {
    open: Mutex<Open>,
    started: Instant,
    /// Notified when an ended connection is closed.
    gone: Notify,
}

#[derive(Debug, Default)]
struct Open {
    counts: [usize; CLASSES],
    /// Number of connections of each network, by the network's hash. Networks without connections are removed, so the
    /// map is never larger than the number of connections.
    by_network: HashMap<u64, usize>,
    /// Unproven connections in order of arrival.
    unproven: BTreeMap<u64, Arc<ConnectionState>>,
    next_id: u64,
    ending: usize,
    /// Maximum number of connections in the latest settings.
    total: usize,
}

/// The state of one connection. Its task updates the state without a lock.
#[derive(Debug)]
struct ConnectionState {
    id: u64,
    network: Option<u64>,
    /// The index of the class in [`Class::ALL`], or [`ENDED`]. It changes only under the lock of [`Connections`].
    class: AtomicU32,
    /// Number of requests in progress.
    requests: AtomicU32,
    /// Time of the connection's start or last reply, in milliseconds since the start of the server.
    active_ms: AtomicU64,
    end: Notify,
}

/// The class of an ended connection, which is no longer counted.
const ENDED: u32 = u32::MAX;

/// A permit for an open connection. The connection is counted until the permit is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    connections: Arc<Connections>,
    state: Arc<ConnectionState>,
}

/// A guard that marks a request as in progress until the guard is dropped.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Permit>);

impl Default for Connections {
    fn default() -> Self {
        Self { open: Mutex::default(), started: Instant::now(), gone: Notify::new() }
    }
}

impl Connections {
    /// Counts a connection if the limits allow it. For a connection from our own networks, `class` is ignored, and the
    /// limit per network does not apply.
    pub(crate) fn admit(
        self: &Arc<Self>,
        source: &Source,
        class: Class,
        key: &FingerprintKey,
        limits: &LimitSettings,
    ) -> Option<Permit> {
        let now = self.now();
        let class = if source.is_own { Class::Own } else { class };
        let network = (!source.is_own).then(|| source.network(key));
        let mut open = self.open();
        open.total = limits.connections;
        let of_network = network.and_then(|network| open.by_network.get(&network)).copied().unwrap_or(0);
        if of_network >= limits.connections_per_network || !open.make_room(class, limits.connections, now) {
            return None;
        }
        let state = Arc::new(open.add(class, network, now));
        if class.is_unproven() {
            open.unproven.insert(state.id, Arc::clone(&state));
        }
        Some(Permit { connections: Arc::clone(self), state })
    }

    /// Counts a connection as [`admit`](Self::admit) does, but waits a moment if too many ended connections are not
    /// closed yet. Without the wait, the last clients of a burst would be refused, even if they have tokens.
    pub(crate) async fn admit_patiently(
        self: &Arc<Self>,
        source: &Source,
        class: Class,
        key: &FingerprintKey,
        limits: &LimitSettings,
    ) -> Option<Permit> {
        let permit = self.admit(source, class, key, limits);
        if permit.is_some() || self.open().ending < ENDING_MAX {
            return permit;
        }
        self.settle().await;
        self.admit(source, class, key, limits)
    }

    /// Waits for up to [`SETTLING_MAX`] while too many ended connections are not closed yet.
    async fn settle(&self) {
        let settled = async {
            loop {
                let gone = self.gone.notified();
                if self.open().ending < ENDING_MAX {
                    return;
                }
                gone.await;
            }
        };
        let _ = tokio::time::timeout(SETTLING_MAX, settled).await;
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn add(&mut self, class: Class, network: Option<u64>, now: Duration) -> ConnectionState {
        *self.count_mut(class) += 1;
        if let Some(network) = network {
            *self.by_network.entry(network).or_default() += 1;
        }
        self.next_id += 1;
        ConnectionState {
            id: self.next_id,
            network,
            class: AtomicU32::new(class as u32),
            requests: AtomicU32::new(0),
            active_ms: AtomicU64::new(now.as_millis() as u64),
            end: Notify::new(),
        }
    }

    /// Returns true if another connection of a class fits without using the reserves of other classes.
    fn has_room(&self, class: Class, total: usize) -> bool {
        let open: usize = self.counts.iter().sum();
        let others = Class::ALL.into_iter().filter(|other| *other != class);
        let reserved = others.map(|other| other.reserve(total).saturating_sub(self.count(other)));
        let is_shut = class == Class::Doorway && self.count(class) >= door_max(total);
        !is_shut && open + reserved.sum::<usize>() < total
    }

    const fn count(&self, class: Class) -> usize {
        let [stranger, doorway, account, own, peer] = self.counts;
        match class {
            Class::Stranger => stranger,
            Class::Doorway => doorway,
            Class::Account => account,
            Class::Own => own,
            Class::Peer => peer,
        }
    }

    const fn count_mut(&mut self, class: Class) -> &mut usize {
        let [stranger, doorway, account, own, peer] = &mut self.counts;
        match class {
            Class::Stranger => stranger,
            Class::Doorway => doorway,
            Class::Account => account,
            Class::Own => own,
            Class::Peer => peer,
        }
    }

    /// Returns true if a connection can move from class `from` to class `to` without using the reserve of another
    /// class.
    fn keeps_reserves(&self, from: Class, to: Class) -> bool {
        let after = |class: Class| self.count(class) + usize::from(class == to) - usize::from(class == from);
        let unmet = Class::ALL.into_iter().map(|class| class.reserve(self.total).saturating_sub(after(class)));
        self.counts.iter().sum::<usize>() + unmet.sum::<usize>() <= self.total
    }

    /// Ends unproven connections, if necessary, so that another connection of a class fits. Returns true if it fits.
    fn make_room(&mut self, class: Class, total: usize, now: Duration) -> bool {
        if self.has_room(class, total) {
            return true;
        }
        // If the doorway is full, end only doorway connections, so that strangers keep their reserve.
        let is_door_full = class == Class::Doorway && self.count(class) >= door_max(total);
        let crowd = if is_door_full { Class::Doorway } else { Class::Stranger };
        let is_theirs = class != crowd && self.count(crowd) <= crowd.reserve(total);
        if is_theirs || self.ending >= ENDING_MAX {
            return false;
        }
        for state in self.victims(crowd, now) {
            self.end(&state);
        }
        self.has_room(class, total)
    }

    /// Returns the connections to end. These are the connections of the class that have been idle for [`CROWDED_IDLE`].
    /// If there are none, returns the longest idle connection of the network that has the most connections of the
    /// class.
    fn victims(&self, class: Class, now: Duration) -> Vec<Arc<ConnectionState>> {
        let of_class = || self.unproven.values().filter(|state| state.class() == Some(class));
        let most = ENDING_MAX - self.ending;
        let idle: Vec<_> =
            of_class().filter(|state| state.idle(now) >= Some(CROWDED_IDLE)).take(most).cloned().collect();
        if !idle.is_empty() {
            return idle;
        }
        // Count only unproven connections. Otherwise, the proven connections of a network could cause the network's
        // unproven ones to be ended.
        let mut unproven: HashMap<u64, usize> = HashMap::new();
        for network in of_class().filter_map(|state| state.network) {
            *unproven.entry(network).or_default() += 1;
        }
        let neighbours = |state: &ConnectionState| state.network.and_then(|network| unproven.get(&network)).copied();
        let first = of_class().filter_map(|state| Some(((neighbours(state), state.idle(now)?), state)));
        // Ties go to the oldest.
        let first = first.reduce(|best, other| if other.0 > best.0 { other } else { best });
        first.map(|(_, state)| Arc::clone(state)).into_iter().collect()
    }

    /// Ends a connection, which is then counted as ending instead of open.
    fn end(&mut self, state: &ConnectionState) {
        self.remove(state);
        state.class.store(ENDED, Ordering::Relaxed);
        self.ending += 1;
        state.end.notify_one();
    }

    fn remove(&mut self, state: &ConnectionState) {
        self.unproven.remove(&state.id);
        if let Some(class) = state.class() {
            *self.count_mut(class) -= 1;
        }
        let Some(network) = state.network else { return };
        if let Some(count) = self.by_network.get_mut(&network) {
            *count -= 1;
            if *count == 0 {
                self.by_network.remove(&network);
            }
        }
    }
}

impl ConnectionState {
    fn class(&self) -> Option<Class> {
        Class::ALL.get(self.class.load(Ordering::Relaxed) as usize).copied()
    }

    /// Returns the time since the last activity. While a request is in progress, returns `None` for up to [`BUSY_MAX`].
    fn idle(&self, now: Duration) -> Option<Duration> {
        let idle = now.saturating_sub(Duration::from_millis(self.active_ms.load(Ordering::Relaxed)));
        let is_busy = self.requests.load(Ordering::Relaxed) > 0;
        (!is_busy || idle > BUSY_MAX).then_some(idle)
    }
}

impl Permit {
    /// Moves the connection to the class that its caller has proven.
    pub(crate) fn prove(&self, class: Class) {
        // Usually an earlier request has already proven the class.
        if self.state.class.load(Ordering::Relaxed) == class as u32 {
            return;
        }
        let mut open = self.connections.open();
        let Some(before) = self.state.class() else { return };
        let is_more = before.is_unproven() || (before == Class::Own && class == Class::Peer);
        // Anyone can register an account, so logged-in clients must not use the connections reserved for other classes.
        let has_room = class != Class::Account || open.keeps_reserves(before, class);
        if is_more && has_room {
            open.unproven.remove(&self.state.id);
            *open.count_mut(before) -= 1;
            *open.count_mut(class) += 1;
            self.state.class.store(class as u32, Ordering::Relaxed);
        }
    }

    /// Waits until the connection has to end to make room for another.
    pub(crate) async fn ended(&self) {
        self.state.end.notified().await;
    }

    /// Marks a request as in progress.
    pub(crate) fn busy(self: &Arc<Self>) -> Busy {
        self.note_active();
        self.state.requests.fetch_add(1, Ordering::Relaxed);
        Busy(Arc::clone(self))
    }

    fn note_active(&self) {
        self.state.active_ms.store(self.connections.now().as_millis() as u64, Ordering::Relaxed);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.note_active();
        self.0.state.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut open = self.connections.open();
        if self.state.class().is_some() {
            open.remove(&self.state);
        } else {
            open.ending -= 1;
            self.connections.gone.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    const KEY: FingerprintKey = FingerprintKey::new([5; 16]);

    /// Number of connections that strangers can have if the limit is 64: the 4 reserved for them and the 40 that are
    /// not reserved.
    const STRANGERS_MAX: usize = 44;

    fn limits() -> LimitSettings {
        LimitSettings { connections: 64, connections_per_network: 2, ..Config::default().settings.limits }
    }

    fn source(address: &str) -> Source {
        Source::new(address.parse().unwrap(), &["127.0.0.0/8".parse().unwrap()])
    }

    fn admit(connections: &Arc<Connections>, class: Class, address: &str) -> Option<Arc<Permit>> {
        connections.admit(&source(address), class, &KEY, &limits()).map(Arc::new)
    }

    /// Opens `count` connections of a class, each from another network.
    fn crowd(connections: &Arc<Connections>, class: Class, count: usize) -> Vec<Arc<Permit>> {
        (0..count).map(|at| admit(connections, class, &format!("10.0.{at}.1")).expect("room")).collect()
    }

    fn is_ended(permit: &Permit) -> bool {
        permit.state.class().is_none()
    }

    #[test]
    fn a_network_has_few_connections_until_it_closes_some() {
        let connections = Arc::new(Connections::default());
        let admit = |address| admit(&connections, Class::Stranger, address);
        let first = admit("192.0.2.1");
        let second = admit("192.0.2.2");
        assert!(first.is_some() && second.is_some() && admit("192.0.2.3").is_none());
        assert!(admit("192.0.3.1").is_some());
        drop(first);
        assert!(admit("192.0.2.3").is_some());
    }

    #[test]
    fn a_stranger_who_finds_no_room_ends_the_oldest_idle_one() {
        let connections = Arc::new(Connections::default());
        let strangers = crowd(&connections, Class::Stranger, STRANGERS_MAX);
        assert!(!strangers.iter().any(|permit| is_ended(permit)));
        let busy = strangers[0].busy();
        let another = admit(&connections, Class::Stranger, "192.0.2.1");
        assert!(another.is_some());
        assert_eq!(
            strangers.iter().position(|permit| is_ended(permit)),
            Some(1),
            "the first connection has a request in progress"
        );
        drop(busy);
        assert_eq!(connections.open().count(Class::Stranger), STRANGERS_MAX);
    }

    /// Anyone can register an account and log in with it any number of times, so logins must not use the connections
    /// reserved for other classes.
    #[test]
    fn logins_do_not_take_what_is_reserved_for_strangers() {
        let connections = Arc::new(Connections::default());
        let mut permits = Vec::new();
        for at in 0..100 {
            let permit = admit(&connections, Class::Stranger, &format!("10.0.{at}.1")).expect("room for a stranger");
            permit.prove(Class::Account);
            permits.push(permit);
        }
        assert!(connections.open().count(Class::Stranger) > 0);
        assert!(
            admit(&connections, Class::Own, "192.0.2.1").is_some()
                && admit(&connections, Class::Peer, "192.0.3.1").is_some()
        );
    }

    #[test]
    fn proven_connections_are_no_reason_to_end_their_neighbours() {
        let connections = Arc::new(Connections::default());
        let gateway = [admit(&connections, Class::Stranger, "192.0.2.1").unwrap()];
        gateway[0].prove(Class::Own);
        let strangers = crowd(&connections, Class::Stranger, STRANGERS_MAX - 2);
        let next = admit(&connections, Class::Stranger, "192.0.2.2").unwrap();
        let _more = [1, 2, 3].map(|at| admit(&connections, Class::Stranger, &format!("198.51.{at}.1")));
        assert!(!is_ended(&next) && strangers.iter().any(|permit| is_ended(permit)));
    }

    #[test]
    fn a_network_with_many_connections_loses_one_before_others_do() {
        let connections = Arc::new(Connections::default());
        let mut strangers = crowd(&connections, Class::Stranger, STRANGERS_MAX - 1);
        strangers.push(admit(&connections, Class::Stranger, "10.0.7.9").unwrap());
        let _another = admit(&connections, Class::Stranger, "192.0.2.1").unwrap();
        assert_eq!(strangers.iter().position(|permit| is_ended(permit)), Some(7));
    }

    #[test]
    fn strangers_leave_every_other_class_its_reserve() {
        let connections = Arc::new(Connections::default());
        let _strangers = crowd(&connections, Class::Stranger, 3 * STRANGERS_MAX);
        let own: Vec<_> = (0..8).filter_map(|_| admit(&connections, Class::Stranger, "127.0.0.1")).collect();
        let peers = crowd(&connections, Class::Doorway, 4);
        peers.iter().for_each(|permit| permit.prove(Class::Peer));
        let door = crowd(&connections, Class::Doorway, 4);
        assert_eq!((own.len(), peers.len(), door.len()), (8, 4, 4));
        let counts = connections.open().counts;
        assert_eq!(counts.iter().sum::<usize>(), 64 - Class::Account.reserve(64), "{counts:?}");
    }

    #[test]
    fn own_users_take_the_room_of_idle_strangers_but_not_what_is_reserved_for_them() {
        let connections = Arc::new(Connections::default());
        let strangers = crowd(&connections, Class::Stranger, STRANGERS_MAX);
        let own: Vec<_> = std::iter::from_fn(|| admit(&connections, Class::Stranger, "127.0.0.1")).collect();
        assert_eq!(strangers.iter().filter(|permit| !is_ended(permit)).count(), 4);
        assert_eq!(own.len(), 48);
    }

    #[test]
    fn whoever_proves_something_is_not_ended() {
        let connections = Arc::new(Connections::default());
        let strangers = crowd(&connections, Class::Stranger, STRANGERS_MAX);
        strangers.iter().take(3).for_each(|permit| permit.prove(Class::Own));
        strangers.iter().skip(3).take(3).for_each(|permit| permit.prove(Class::Account));
        let others =
            (0..STRANGERS_MAX).map(|at| admit(&connections, Class::Stranger, &format!("10.1.{at}.1")).unwrap());
        let _others: Vec<_> = others.collect();
        assert!(!strangers.iter().take(6).any(|permit| is_ended(permit)));
        assert!(strangers.iter().skip(6).all(|permit| is_ended(permit)));
    }

    #[test]
    fn the_door_is_narrow_and_the_oldest_in_it_goes() {
        let connections = Arc::new(Connections::default());
        let door = crowd(&connections, Class::Doorway, 5);
        let ended: Vec<_> = door.iter().map(|permit| is_ended(permit)).collect();
        assert_eq!(ended, [true, false, false, false, false]);
    }

    #[test]
    fn so_many_may_be_ending_and_no_more() {
        let connections = Arc::new(Connections::default());
        let _strangers = crowd(&connections, Class::Stranger, STRANGERS_MAX + ENDING_MAX);
        assert!(admit(&connections, Class::Stranger, "192.0.2.1").is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn newcomers_wait_for_those_who_are_ending_but_not_for_ever() {
        let connections = Arc::new(Connections::default());
        let began = tokio::time::Instant::now();
        connections.settle().await;
        assert_eq!(began.elapsed(), Duration::ZERO);
        let mut strangers = crowd(&connections, Class::Stranger, STRANGERS_MAX + ENDING_MAX);
        let key = FingerprintKey::new([1; 16]);
        assert!(connections.admit_patiently(&source("127.0.0.1"), Class::Own, &key, &limits()).await.is_some());
        assert_eq!(began.elapsed(), Duration::ZERO, "a connection does not wait if there is room");
        connections.settle().await;
        assert_eq!(began.elapsed(), SETTLING_MAX);
        let waiting = tokio::spawn({
            let connections = Arc::clone(&connections);
            async move { connections.settle().await }
        });
        tokio::task::yield_now().await;
        drop(strangers.remove(0));
        waiting.await.unwrap();
        assert_eq!(began.elapsed(), SETTLING_MAX, "the wait ends as soon as one is gone");
        assert!(admit(&connections, Class::Stranger, "192.0.2.1").is_some());
    }

    #[test]
    fn an_answer_that_takes_too_long_is_no_protection() {
        let connections = Arc::new(Connections::default());
        let permit = admit(&connections, Class::Stranger, "192.0.2.1").unwrap();
        let now = connections.now();
        let _busy = permit.busy();
        assert_eq!(permit.state.idle(now), None);
        assert!(permit.state.idle(now + BUSY_MAX + CROWDED_IDLE) >= Some(CROWDED_IDLE));
    }

    #[test]
    fn nothing_is_left_of_closed_connections() {
        let connections = Arc::new(Connections::default());
        drop(crowd(&connections, Class::Stranger, STRANGERS_MAX + 1));
        let open = connections.open();
        assert!(open.counts == [0; CLASSES] && open.by_network.is_empty() && open.unproven.is_empty());
        assert_eq!(open.ending, 0);
    }
}
