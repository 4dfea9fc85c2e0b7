//! File descriptors: as many as the connections need that the configuration allows.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Descriptors for everything but the connections that are counted: files of the store, logs, sockets, connections to others,
/// and those that were ended and are not gone yet.
const OTHERS: u64 = 512;

/// Raises the limit of this process, where the system's default is too low for so many connections. Says so if it stays too low.
pub(crate) fn raise_limit(connections: usize) {
    let wanted = connections as u64 + OTHERS;
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    if soft >= wanted {
        return;
    }
    let raised = wanted.min(hard);
    let is_raised = raised > soft && setrlimit(Resource::RLIMIT_NOFILE, raised, hard).is_ok();
    if !is_raised || raised < wanted {
        tracing::warn!(
            wanted,
            limit = if is_raised { raised } else { soft },
            "the system allows fewer open files than limits.connections needs: raise it (LimitNOFILE of systemd, ulimit -n), or \
             connections will be refused before that limit is reached"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_as_far_as_the_system_allows() {
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        let connections = (soft + 10).min(hard).saturating_sub(OTHERS) as usize;
        raise_limit(connections);
        let raised = getrlimit(Resource::RLIMIT_NOFILE).unwrap().0;
        assert!(raised >= soft && raised >= connections as u64 + OTHERS);
    }
}
