//! The publisher: copies the readable part of the library to a sink.
//!
//! The log is authoritative. At the start and after every failure, the publisher queries the sink for the end of each
//! chain, and publishes the rest again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bruit_engine::exchange::Chain;

use crate::library::Library;
use crate::link::describe;
use crate::outage::Outage;
use crate::segment::split;
use crate::stock::{Reader, Stock};
use crate::transport::{ARCHIVED_BYTES_MAX, FETCH_BYTES_MAX, Sink, TransportError};

/// Minimum and maximum delay before a failing sink is tried again.
const RETRY_MIN: Duration = Duration::from_millis(250);
/// See [`RETRY_MIN`].
const RETRY_MAX: Duration = Duration::from_secs(10);

/// Publishes our own chains that `reader` may read, until the future is dropped. The sink is called `name` in the log.
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
                // The library is gone, so no more changes are reported.
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
    // Take the heads before the logs, so that they never name more than is published.
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

/// Archives the chains of expired generations, once each. Failures are retried after the next start; until then, the
/// servers still have the logs.
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
            tracing::warn!(error = &error as &dyn std::error::Error, "failed to archive an expired generation");
        }
    }
}

/// Publishes a chain from `at` to `end`. Returns the end of the published part.
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
