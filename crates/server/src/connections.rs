//! TCP connections: how many there are, in all and of each network that is not our own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bruit_filters::FingerprintKey;

use crate::config::LimitSettings;
use crate::sources::Source;

/// Counts open connections.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    total: usize,
    /// By the hash of the network. One without connections is not in it, so it is as bounded as they are.
    by_network: HashMap<u64, usize>,
}

/// A connection that is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    connections: Arc<Connections>,
    network: Option<u64>,
}

impl Connections {
    /// Counts a connection, if there may be one more. Those of our own networks count among all only, and have a tenth of all to
    /// themselves, so that strangers cannot keep them out.
    pub(crate) fn admit(
        self: &Arc<Self>,
        source: &Source,
        key: &FingerprintKey,
        limits: &LimitSettings,
    ) -> Option<Permit> {
        let mut open = self.open();
        let network = (!source.is_own).then(|| source.network(key));
        let total_max = if source.is_own { limits.connections } else { limits.connections - limits.connections / 10 };
        let of_network = network.and_then(|network| open.by_network.get(&network)).copied().unwrap_or(0);
        if open.total >= total_max || of_network >= limits.connections_per_network {
            return None;
        }
        open.total += 1;
        if let Some(network) = network {
            *open.by_network.entry(network).or_default() += 1;
        }
        Some(Permit { connections: Arc::clone(self), network })
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut open = self.connections.open();
        open.total -= 1;
        let Some(network) = self.network else { return };
        if let Some(count) = open.by_network.get_mut(&network) {
            *count -= 1;
            if *count == 0 {
                open.by_network.remove(&network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    const KEY: FingerprintKey = FingerprintKey::new([5; 16]);

    fn limits() -> LimitSettings {
        LimitSettings { connections: 10, connections_per_network: 2, ..Config::default().settings.limits }
    }

    fn source(address: &str) -> Source {
        Source::new(address.parse().unwrap(), &["127.0.0.0/8".parse().unwrap()])
    }

    #[test]
    fn a_network_has_few_connections_until_it_closes_some() {
        let connections = Arc::new(Connections::default());
        let admit = |address| connections.admit(&source(address), &KEY, &limits());
        let first = admit("192.0.2.1");
        let second = admit("192.0.2.2");
        assert!(first.is_some() && second.is_some() && admit("192.0.2.3").is_none());
        assert!(admit("192.0.3.1").is_some());
        drop(first);
        assert!(admit("192.0.2.3").is_some());
    }

    #[test]
    fn strangers_do_not_keep_own_users_out() {
        let connections = Arc::new(Connections::default());
        let admit = |address: &str| connections.admit(&source(address), &KEY, &limits());
        let strangers: Vec<_> = (0..20).filter_map(|at| admit(&format!("192.0.{at}.1"))).collect();
        assert_eq!(strangers.len(), 9);
        let own = admit("127.0.0.1");
        assert!(own.is_some() && admit("127.0.0.1").is_none());
    }

    #[test]
    fn nothing_is_left_of_closed_connections() {
        let connections = Arc::new(Connections::default());
        drop(connections.admit(&source("192.0.2.1"), &KEY, &limits()));
        let open = connections.open();
        assert!(open.total == 0 && open.by_network.is_empty());
    }
}
