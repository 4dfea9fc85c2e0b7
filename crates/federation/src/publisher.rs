//! From the library to a sink: what others may read is brought to where they look for it.
//!
//! The log is the truth. After every failure, and at the start, the sink is asked how far it has each chain, and what it lacks
//! is published again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bruit_engine::exchange::Chain;

use crate::library::Library;
use crate::link::describe;
use crate::outage::Outage;
use crate::segment::split;
use crate::stock::{Reader, Stock};
use crate::transport::{ARCHIVED_BYTES_MAX, FETCH_BYTES_MAX, Sink, TransportError};

/// Between two tries of a sink that takes nothing, at first and at most.
const RETRY_MIN: Duration = Duration::from_millis(250);
/// See [`RETRY_MIN`].
const RETRY_MAX: Duration = Duration::from_secs(10);

/// Publishes for ever what `reader` may have of our own: ends when the future is dropped. The log calls the sink `name`.
pub async fn publish<S: Sink>(sink: &S, library: &Library, reader: Reader, name: &str) {
    let outage = Outage::new("publishing", name);
    let mut changes = library.changes();
    let (mut published, mut archived, mut retry) = (BTreeMap::new(), BTreeSet::new(), RETRY_MIN);
    loop {
        changes.mark_unchanged();
        match publish_all(sink, library, reader, &mut published).await {
            Ok(()) => {
                outage.recover();
                archive_all(sink, library, reader, &mut archived).await;
                retry = RETRY_MIN;
                // Nobody tells of changes any more: the library is gone.
                if changes.changed().await.is_err() {
                    return;
                }
            }
            Err(error) => {
                outage.fail(&describe(&error));
                published.clear();
                tokio::time::sleep(retry).await;
                retry = (retry * 2).min(RETRY_MAX);
            }
        }
    }
}

async fn publish_all<S: Sink>(
    sink: &S,
    library: &Library,
    reader: Reader,
    published: &mut BTreeMap<Chain, u64>,
) -> Result<(), TransportError> {
    // Before the logs, so that heads never promise more than was published.
    let heads = library.own_heads(reader);
    let chains = library.own_chains();
    let before = published.len();
    published.retain(|chain, _| chains.iter().any(|(own, _)| own == chain));
    if published.len() < before || before == 0 {
        let all: Vec<Chain> = chains.iter().map(|(chain, _)| *chain).collect();
        sink.retain(&all).await?;
    }
    for (chain, end) in chains.into_iter().filter(|(chain, _)| reader.may_have(chain.book)) {
        let at = match published.get(&chain) {
            Some(at) => *at,
            None => sink.published(&chain).await?,
        };
        let at = publish_chain(sink, library, &chain, at, end).await?;
        published.insert(chain, at);
    }
    match heads {
        Some(heads) => sink.announce(&heads).await,
        None => Ok(()),
    }
}

/// Archives the chains of generations that are over, once each. What fails is tried again after the next start: servers have it.
async fn archive_all<S: Sink>(sink: &S, library: &Library, reader: Reader, archived: &mut BTreeSet<Chain>) {
    let chains = library.own_chains();
    archived.retain(|chain| chains.iter().any(|(own, _)| own == chain));
    let is_over =
        |chain: &Chain| chains.iter().any(|(own, _)| own.book == chain.book && own.generation > chain.generation);
    let over: Vec<_> = chains.iter().filter(|(chain, _)| reader.may_have(chain.book) && is_over(chain)).collect();
    for (chain, end) in over {
        if *end > ARCHIVED_BYTES_MAX as u64 || !archived.insert(*chain) {
            continue;
        }
        let Ok(Some(log)) = library.log(chain, 0, ARCHIVED_BYTES_MAX) else { continue };
        if let Err(error) = sink.archive(chain, &log).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "failed to archive a generation that is over");
        }
    }
}

/// Publishes a chain from `at` to `end`; how far that went.
async fn publish_chain<S: Sink>(
    sink: &S,
    library: &Library,
    chain: &Chain,
    mut at: u64,
    end: u64,
) -> Result<u64, TransportError> {
    while at < end {
        let log = library.log(chain, at, FETCH_BYTES_MAX).map_err(|error| TransportError::Unreachable(error.into()))?;
        let mut rest = log.as_deref().unwrap_or_default();
        let before = at;
        while let Ok(Some((segment, behind))) = split(rest) {
            sink.publish(chain, at, segment).await?;
            at += segment.len() as u64;
            rest = behind;
        }
        if at == before {
            return Err(TransportError::Malformed("a log on the shelf ends within a segment".into()));
        }
    }
    Ok(at)
}
