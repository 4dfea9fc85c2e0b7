//! Good mail taught by own users.

use axum::extract::{Request, State};
use bruit_engine::event::{By, Event};
use bruit_engine::message::good_features;
use bruit_protocols::http::LearnAnswer;

use super::Http;
use super::body::{Purpose, read_subject};
use super::caller::{Caller, Right};
use super::claims::submit_one;
use super::fault::Reply;
use super::router::Answer;
use crate::metrics::Disposition;

/// Learns the text of a message, and responds once it is on disk.
pub(super) async fn learn(State(http): State<Http>, caller: Caller, request: Request) -> Answer<LearnAnswer> {
    caller.require(Right::Learn)?;
    let reporter = caller.claimant(&http.service.key)?;
    let held = read_subject(&http, &caller, request).await?;
    let features = http.compute(move |service| {
        let asked = held.asked(Purpose::Claim, &caller.settings)?;
        caller.take_claims(1, service)?;
        let select = |features| service.store.check(|engine| engine.replicas().good_features_of(&features));
        Ok(good_features(&asked.signed).map(select).unwrap_or_default())
    });
    let features = features.await?;
    let learnt = features.len() as u32;
    if learnt == 0 {
        let reason = Some("the message is empty, or only quotes or forwards another message".to_owned());
        return Ok(Reply(Disposition::Accepted, LearnAnswer { learnt, reason }));
    }
    let by = By { now: http.service.now(), reporter };
    submit_one(&http, Event::Good { by, features }).await?;
    Ok(Reply(Disposition::Accepted, LearnAnswer { learnt, reason: None }))
}
