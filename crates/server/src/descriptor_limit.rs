//! Raises the limit on file descriptors to suit the configured number of connections.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Number of descriptors for everything except counted connections. This covers store files, logs, sockets, outgoing
/// connections, and connections that were ended but are not closed yet.
const OTHERS: u64 = 512;

/// Raises this process's limit if it is too low for this many connections. Logs a warning if it stays too low.
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
            "the limit on open files is too low for limits.connections: raise it (LimitNOFILE of systemd, ulimit -n), or \
             connections will be refused before limits.connections is reached"
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
