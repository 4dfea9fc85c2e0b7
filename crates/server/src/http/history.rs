//! The history of the counters, for programs.

use bruit_protocols::http::{History, HistorySlot, RequestCount};
use serde::Deserialize;

use crate::history::{Slot, Span};
use crate::metrics::{Disposition, Interface, quantile};
use crate::service::Service;

/// The span of a request for the history.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum SpanName {
    #[default]
    Day,
    Month,
    Years,
}

impl From<SpanName> for Span {
    fn from(name: SpanName) -> Self {
        match name {
            SpanName::Day => Self::Day,
            SpanName::Month => Self::Month,
            SpanName::Years => Self::Years,
        }
    }
}

/// Returns the history of a span.
pub(super) fn history(service: &Service, span: Span) -> History {
    let now = service.now();
    let history = service.history.lock();
    History {
        span: span.name().to_owned(),
        slot_seconds: span.slot_seconds(),
        slots: history.rows(span, now).into_iter().map(slot).collect(),
    }
}

fn slot(slot: &Slot) -> HistorySlot {
    let kinds = Interface::ALL.into_iter().flat_map(|protocol| Disposition::ALL.map(|answered| (protocol, answered)));
    let requests = kinds.map(|(protocol, answered)| RequestCount {
        protocol: protocol.name().to_owned(),
        answered: answered.name().to_owned(),
        count: slot.requests(protocol, answered),
    });
    HistorySlot {
        start: slot.start,
        requests: requests.filter(|one| one.count > 0).collect(),
        p99_micros: quantile(&slot.durations, 0.99).map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX)),
        listed: slot.gauges.listed,
        revoked: slot.gauges.revoked,
        resident_bytes: slot.gauges.resident_bytes,
    }
}
