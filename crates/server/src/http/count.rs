//! Counts a message's recipients, alone or as part of a check.
//!
//! Both kinds of count work like DCC's reports. They submit an event to the store, weighted by the caller's standing
//! and subject to its limits and quotas. If nothing can be counted, a check is still answered, and the reply has the
//! reason. A request that only counts is refused if the message has no signature that can be counted, or has too many
//! of them.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::http::HeaderMap;
use bruit_engine::Outcome;
use bruit_engine::event::{By, Event};
use bruit_engine::message::{NotCounted, WhitelistedSource, count_event};
use bruit_filters::{Fingerprint, FingerprintKey};
use bruit_protocols::http::{Counted, IDEMPOTENCY_BYTES_MAX, IDEMPOTENCY_FIELD, RECIPIENTS_MAX};
use bruit_store::SubmitError;
use serde::Deserialize;
use tokio::sync::oneshot;

use super::Http;
use super::body::{Purpose, RequestSubject, read_subject};
use super::caller::{Caller, Right};
use super::fault::{Fault, Reply};
use super::judge::whitelisted_source;
use super::router::Answer;
use crate::duplicates::{Duplicates, FirstCopy};
use crate::metrics::Disposition;
use crate::service::{Service, signatures};

/// Time for which requests with an idempotency key are remembered. A restart or too many requests can shorten it.
pub(super) const REMEMBERED: Duration = Duration::from_secs(24 * 60 * 60);

/// The query options of a check or count.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    pub(super) recipients: Option<u32>,
    pub(super) bulk_threshold: Option<u32>,
}

pub(super) type OptionsResult = Result<Query<Options>, QueryRejection>;

impl Options {
    /// Checks the options against their ranges.
    pub(super) fn read(asked: OptionsResult) -> Result<Self, Fault> {
        let Query(options) = asked.map_err(Fault::malformed)?;
        for (name, given) in [("recipients", options.recipients), ("bulk_threshold", options.bulk_threshold)] {
            if given.is_some_and(|number| !(1..=RECIPIENTS_MAX).contains(&number)) {
                return Err(Fault::malformed(format!("{name}: expected 1 to {RECIPIENTS_MAX}")));
            }
        }
        Ok(options)
    }
}

/// A requested count, and its idempotency key.
#[derive(Clone, Debug)]
pub(super) struct CountRequest {
    recipients: u32,
    name: Option<Box<[u8]>>,
}

impl CountRequest {
    pub(super) fn new(recipients: u32, headers: &HeaderMap) -> Result<Self, Fault> {
        Ok(Self { recipients, name: idempotency_key(headers)?.map(Into::into) })
    }

    /// Returns a keyed hash that all copies of a request share, or `None` if the request has no idempotency key.
    fn identity(&self, by: &By, fingerprints: &[Fingerprint], key: &FingerprintKey) -> Option<Fingerprint> {
        let name = self.name.as_ref()?;
        let mut bytes = [by.reporter.id.to_le_bytes().as_slice(), &self.recipients.to_le_bytes()].concat();
        for fingerprint in fingerprints {
            bytes.extend(fingerprint.high().to_le_bytes());
            bytes.extend(fingerprint.low().to_le_bytes());
        }
        bytes.extend(name);
        Some(key.fingerprint(&bytes))
    }
}

/// Returns the idempotency key of a request, if it has one.
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<&[u8]>, Fault> {
    let mut names = headers.get_all(IDEMPOTENCY_FIELD).iter();
    let name = names.next().map(|name| name.as_bytes().trim_ascii());
    let is_name = |name: &&[u8]| (1..=IDEMPOTENCY_BYTES_MAX).contains(&name.len());
    if names.next().is_some() || name.as_ref().is_some_and(|name| !is_name(name)) {
        return Err(Fault::malformed(format!(
            "Idempotency-Key: expected one key of 1 to {IDEMPOTENCY_BYTES_MAX} bytes"
        )));
    }
    Ok(name)
}

/// Counts recipients, and responds once the count is on disk.
pub(super) async fn count(
    State(http): State<Http>,
    caller: Caller,
    options: OptionsResult,
    request: Request,
) -> Answer<Counted> {
    caller.require(Right::Report)?;
    let options = Options::read(options)?;
    if options.bulk_threshold.is_some() {
        return Err(Fault::malformed("bulk_threshold: /v1/count returns no verdict; use /v1/check with recipients"));
    }
    let wanted = CountRequest::new(options.recipients.unwrap_or(1), request.headers())?;
    let held = read_subject(&http, &caller, request).await?;
    let (asker, number) = (caller.clone(), wanted.recipients);
    let prepared = http.compute(move |service| {
        let mut asked = held.asked(Purpose::Count, &asker.settings)?;
        // A count does not need the features, and looking them up may be slow.
        asked.signed.features = None;
        let prepared = prepare(service, &asker, &asked, number)?;
        let total = if prepared.is_err() { total(service, &asked) } else { 0 };
        Ok((prepared, total))
    });
    let counted = match prepared.await? {
        (Ok(event), _) => submit(&http, &caller, event, &wanted).await?,
        (Err(reason @ (NotCounted::NoSignature | NotCounted::TooManySignatures)), _) => {
            return Err(Fault::malformed(reason));
        }
        (Err(reason), bulk_count) => Counted { counted: 0, bulk_count, count_reason: Some(reason.to_string()) },
    };
    Ok(Reply(Disposition::Accepted, counted))
}

/// Counts recipients for a check. The check is answered even if the count fails.
pub(super) async fn count_for_check(
    http: &Http,
    caller: &Caller,
    asked: Arc<RequestSubject>,
    wanted: &CountRequest,
) -> (u32, Option<String>) {
    let counted = async {
        caller.require(Right::Report)?;
        let (asker, number) = (caller.clone(), wanted.recipients);
        match http.compute(move |service| prepare(service, &asker, &asked, number)).await? {
            Ok(event) => submit(http, caller, event, wanted).await,
            Err(reason) => Ok(Counted { count_reason: Some(reason.to_string()), ..Counted::default() }),
        }
    };
    match counted.await {
        Ok(counted) => (counted.counted, counted.count_reason),
        Err(fault) => (0, Some(fault.detail().to_owned())),
    }
}

/// Returns the event that counts the recipients, or the reason why none are counted.
fn prepare(
    service: &Service,
    caller: &Caller,
    asked: &RequestSubject,
    number: u32,
) -> Result<Result<Event, NotCounted>, Fault> {
    let by = By { now: service.now(), reporter: caller.claimant(&service.key)? };
    Ok(service.store.check(|engine| {
        // Do not reveal whitelisted senders to callers who could forge them.
        let source =
            if caller.is_stranger() { WhitelistedSource::default() } else { whitelisted_source(engine, asked) };
        count_event(engine, &asked.signed, source, number, by)
    }))
}

/// Returns the number of the message's recipients that were counted so far.
fn total(service: &Service, asked: &RequestSubject) -> u32 {
    service.store.check(|engine| super::judge::check(engine, asked, RECIPIENTS_MAX, None).checked.bulk_count)
}

/// Submits a count, unless a copy of the request has already been counted.
async fn submit(http: &Http, caller: &Caller, event: Event, wanted: &CountRequest) -> Result<Counted, Fault> {
    let service = &http.service;
    let Event::Bulk { by, fingerprints, .. } = &event else { return Err(Fault::broken()) };
    let count = signatures(std::slice::from_ref(&event));
    if let Some(note) = &caller.note {
        note.set_signatures(count as usize);
    }
    caller.take_claims(count, service)?;
    let identity = wanted.identity(by, fingerprints, &service.key);
    match identity.and_then(|identity| http.counts.claim(identity, service.uptime())) {
        Some(FirstCopy::Answered(outcomes)) => return counted(&outcomes, wanted.recipients),
        Some(FirstCopy::InProgress) => return Err(Fault::busy("a copy of this request is in progress: try again")),
        None => {}
    }
    let (sender, receiver) = oneshot::channel();
    let counts = Arc::clone(&http.counts);
    service.store.submit_with(vec![event], move |result| {
        // Record the result even if the caller has disconnected, because it will retry.
        if let Some(identity) = identity {
            remember(&counts, identity, &result);
        }
        drop(sender.send(result));
    });
    let result = receiver.await.map_err(|_| Fault::stopping())?;
    service.note(&result);
    counted(&result.map_err(|error| Fault::of_submit(&error))?, wanted.recipients)
}

/// Remembers the outcome of a request. A refused request may be retried.
fn remember(counts: &Duplicates, identity: Fingerprint, result: &Result<Vec<Outcome>, SubmitError>) {
    match result {
        Ok(outcomes) if outcomes.iter().all(|outcome| matches!(outcome, Outcome::Counted { .. })) => {
            counts.answer(identity, &outcomes.clone().into());
        }
        _ => counts.forget(identity),
    }
}

/// Returns the result of a count.
fn counted(outcomes: &[Outcome], recipients: u32) -> Result<Counted, Fault> {
    match outcomes.first() {
        Some(Outcome::Counted { totals, reason, .. }) => {
            let counted = totals.iter().map(|total| total.current.saturating_sub(total.previous)).max().unwrap_or(0);
            let bulk_count = totals.iter().map(|total| total.current).max().unwrap_or(0);
            let is_short = counted < recipients && bulk_count < RECIPIENTS_MAX;
            let believed = || format!("the limit for this caller is {counted} recipients per request");
            let count_reason = reason.map(|refusal| refusal.to_string()).or_else(|| is_short.then(believed));
            Ok(Counted { counted, bulk_count, count_reason })
        }
        Some(Outcome::Refused(refusal)) => Err(Fault::of_refusal(*refusal)),
        _ => Err(Fault::broken()),
    }
}

#[cfg(test)]
mod tests {
    use bruit_engine::bulk::BulkTotals;

    use super::*;

    #[test]
    fn numbers_end_at_their_bounds() {
        let read = |recipients, bulk_threshold| Options::read(Ok(Query(Options { recipients, bulk_threshold })));
        assert!(read(Some(1), Some(RECIPIENTS_MAX)).is_ok() && read(Some(RECIPIENTS_MAX), Some(1)).is_ok());
        assert!(read(None, None).is_ok());
        for (recipients, threshold) in [(Some(0), None), (Some(RECIPIENTS_MAX + 1), None), (None, Some(0))] {
            assert!(read(recipients, threshold).is_err(), "{recipients:?}, {threshold:?}");
        }
        assert_eq!(RECIPIENTS_MAX, bruit_engine::bulk::MANY);
    }

    #[test]
    fn a_request_has_one_name_of_some_bytes() {
        let wanted = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(IDEMPOTENCY_FIELD, value.parse().unwrap());
            }
            CountRequest::new(1, &headers).map(|wanted| wanted.name.map(|name| name.len()))
        };
        assert_eq!(wanted(&[]).unwrap(), None);
        assert_eq!(wanted(&["a"]).unwrap(), Some(1));
        assert_eq!(wanted(&[&"a".repeat(IDEMPOTENCY_BYTES_MAX)]).unwrap(), Some(IDEMPOTENCY_BYTES_MAX));
        for values in [&[""][..], &[&"a".repeat(IDEMPOTENCY_BYTES_MAX + 1)], &["a", "b"]] {
            assert!(wanted(values).is_err(), "{values:?}");
        }
    }

    #[test]
    fn what_was_counted_is_the_difference_of_one_signature() {
        let totals = [(0, 0), (20, 25), (18, 23)].map(|(previous, current)| BulkTotals { previous, current });
        let outcome = Outcome::Counted { totals: totals.to_vec(), refused: 0, reason: None };
        let whole = Counted { counted: 5, bulk_count: 25, count_reason: None };
        assert_eq!(counted(std::slice::from_ref(&outcome), 5).unwrap(), whole);
        let short = counted(&[outcome], 6).unwrap();
        assert!(short.counted == 5 && short.count_reason.unwrap().contains("is 5 recipients"));
    }
}
