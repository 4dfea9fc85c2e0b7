//! The messages between servers, and the broker. This module decides nothing: requests come from the coordinator.

use bruit_engine::exchange::Chain;
use rand::RngExt;

use super::super::liar::mangle;
use super::super::link::{End, Expected, SimLink};
use super::{Action, Network, ProcessLink};
use crate::coordinator::publisher::PublishRequest;
use crate::coordinator::receiver::Request;
use crate::coordinator::rereader::REREAD_BYTES;
use crate::segment::split;
use crate::shelf::Reader;
use crate::transport::{FETCH_BYTES_MAX, Offer, TransportError};

/// Time after which a request without an answer fails, in addition to the time for which the request may wait for news.
const TIMEOUT_MS: u64 = 8_000;
/// Maximum number of later requests of a link after which an answer is still reported to it.
const LATE_MAX: u64 = 64;
/// Interval at which a server that waits for news looks for it.
const LOOK_MS: u64 = 300;
/// Interval at which nodes read the heads that the broker stores.
const REFRESH_MS: u64 = 30_000;
/// Maximum number of messages that the liar keeps for replay.
const KEPT_MAX: usize = 64;

/// A request to another server or the broker.
#[derive(Clone, Debug)]
pub(super) enum Query {
    Offer { seen: Vec<u8> },
    Log { chain: Chain, offset: u64 },
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    Offer(Offer),
    /// A log; `None` if there is none.
    Log(Chain, Option<Vec<u8>>),
}

impl Network {
    /// Returns a link, if its process still runs.
    pub(super) fn link(&mut self, at: ProcessLink) -> Option<&mut SimLink> {
        let server = self.server(at.server);
        let is_same = server.is_up && server.boots == at.boots;
        server.links.get_mut(at.link).filter(|_| is_same)
    }

    /// Carries out the requests of a link until one needs time.
    pub(super) fn drive(&mut self, at: ProcessLink) {
        loop {
            let now_ms = self.now_ms;
            let server = self.server(at.server);
            let moment = server.moment(now_ms);
            let request = server.links[at.link].receiver.next(&server.engine, moment);
            match request {
                Request::Sleep(delay) => {
                    let serial = self.next_serial(at, None);
                    return self.after(delay.as_millis() as u64, Action::Drive { at, serial });
                }
                Request::Offer { seen, wait } => {
                    server.links[at.link].seen.clone_from(&seen);
                    let wait_ms = wait.as_millis() as u64;
                    return self.send_query(at, Query::Offer { seen }, Expected::Offer, wait_ms);
                }
                Request::Fetch { chain, offset } => {
                    return self.send_query(at, Query::Log { chain, offset }, Expected::Log(chain), 0);
                }
                Request::ReadOwn { chain, offset } => {
                    let log = server.shelf.stored(&chain, offset, REREAD_BYTES).unwrap();
                    server.links[at.link].receiver.read(&log);
                }
                Request::Submit(events) => {
                    let outcomes = server.submit_all(events);
                    server.links[at.link].receiver.submitted(Ok(outcomes), moment);
                }
                Request::KeepHeads(heads) => heads.iter().for_each(|heads| server.shelf.keep_heads(heads)),
                Request::KeepSegment { chain, offset, bytes } => {
                    server.shelf.keep_segment(&chain, offset, &bytes).unwrap();
                }
                Request::ForgetLog(chain) => server.shelf.forget(&chain).unwrap(),
                Request::Finish(_) => {}
            }
        }
    }

    fn next_serial(&mut self, at: ProcessLink, expected: Option<Expected>) -> u64 {
        let link = self.link(at).unwrap();
        link.expected = expected;
        link.serial += 1;
        link.serial
    }

    fn send_query(&mut self, at: ProcessLink, query: Query, expected: Expected, wait_ms: u64) {
        let serial = self.next_serial(at, Some(expected));
        self.after(wait_ms + TIMEOUT_MS, Action::Timeout { at, serial });
        let until_ms = self.now_ms + wait_ms;
        let (own, other) = (at.server, self.side_of(at));
        // The heads received from the broker are in the node's memory.
        if self.link(at).unwrap().end == End::Broker && expected == Expected::Offer {
            return self.after(1, Action::Ask { at, query, serial, until_ms });
        }
        self.send(own, other, Action::Ask { at, query, serial, until_ms });
    }

    /// Returns the number of the server, or the broker, at the other end of a link.
    fn side_of(&mut self, at: ProcessLink) -> usize {
        let broker = self.sides.len() - 1;
        match self.link(at).map(|link| link.end) {
            Some(End::Node(number) | End::Liar(number)) => number,
            Some(End::Broker) | None => broker,
        }
    }

    fn send(&mut self, from: usize, to: usize, action: Action) {
        if self.sides[from] != self.sides[to] || self.random.random_range(0..1_000) < self.loss {
            self.summary.lost += 1;
            return;
        }
        let is_repeated = self.random.random_range(0..1_000) < self.repetition;
        self.summary.repeated += u64::from(is_repeated);
        for _ in 0..1 + u32::from(is_repeated) {
            let delay = self.random.random_range(1..=self.delay_ms);
            self.after(delay, action.clone());
        }
    }

    /// Answers a request, or waits for news.
    pub(super) fn ask(&mut self, at: ProcessLink, query: Query, serial: u64, until_ms: u64) {
        let Some(link) = self.link(at) else { return };
        let (end, side) = (link.end, self.side_of(at));
        if end != End::Broker && !self.server(side).is_up {
            return self.summary.lost += 1;
        }
        // Without a connection to the broker, requests fail.
        if end == End::Broker && self.sides[at.server] != self.sides[side] {
            return self.summary.lost += 1;
        }
        let asks = *self.server(at.server).key.public().as_bytes();
        if matches!(end, End::Node(number) if self.nodes[number].has_forgotten(&asks)) {
            return self.summary.lost += 1;
        }
        let answer = match (&query, end) {
            (Query::Offer { .. }, End::Broker) => Answer::Offer(self.link(at).unwrap().table.offer()),
            (Query::Offer { .. }, End::Node(number)) => Answer::Offer(self.nodes[number].shelf.offer(Reader::Cluster)),
            (Query::Offer { .. }, End::Liar(number)) => {
                let Offer { tag, heads } = self.server(number).shelf.offer(Reader::Peer);
                Answer::Offer(Offer { tag, heads: self.lie(heads) })
            }
            (Query::Log { chain, offset }, end) => Answer::Log(*chain, self.read(end, chain, *offset)),
        };
        if let (Query::Offer { seen }, Answer::Offer(offer)) = (&query, &answer)
            && offer.tag == *seen
            && self.now_ms < until_ms
        {
            return self.after(LOOK_MS, Action::Ask { at, query, serial, until_ms });
        }
        match end {
            End::Broker if matches!(answer, Answer::Offer(_)) => self.after(1, Action::Arrive { at, answer, serial }),
            _ => self.send(side, at.server, Action::Arrive { at, answer, serial }),
        }
    }

    /// Returns the log of a chain from a server or the broker. During the faulty phase, it is cut off anywhere, even within
    /// its first segment.
    fn read(&mut self, end: End, chain: &Chain, offset: u64) -> Option<Vec<u8>> {
        let cut_off = self.random.random_range(300..20_000);
        let bytes_max = if self.is_whole { FETCH_BYTES_MAX } else { cut_off };
        match end {
            End::Node(number) => self.nodes[number].shelf.log(chain, offset, bytes_max).unwrap(),
            End::Liar(_) if self.is_withholding => None,
            End::Liar(number) => {
                let log = self.server(number).shelf.log(chain, offset, bytes_max).unwrap()?;
                Some(self.lie(log))
            }
            End::Broker => {
                let log = self.broker.read(chain, offset);
                if !log.is_empty() {
                    return Some(log);
                }
                let up = self.nodes.iter().filter(|node| node.is_up);
                let logs = up.filter_map(|node| node.shelf.log(chain, offset, bytes_max).unwrap());
                logs.max_by_key(Vec::len).filter(|log| !log.is_empty())
            }
        }
    }

    /// Reports an answer to the link, if it expects one of this kind. It may be the answer to an earlier request.
    ///
    /// Each answer leads to another request, and messages are repeated. Without a limit on their age, more and more
    /// answers could be on their way.
    pub(super) fn arrive(&mut self, at: ProcessLink, answer: Answer, serial: u64) {
        let now_ms = self.now_ms;
        if self.link(at).is_none_or(|link| link.serial > serial + LATE_MAX) {
            return self.summary.lost += 1;
        }
        let server = self.server(at.server);
        let (moment, known) = (server.moment(now_ms), std::sync::Arc::clone(&server.known));
        let link = &mut server.links[at.link];
        match (answer, link.expected) {
            (Answer::Offer(offer), Some(Expected::Offer)) => link.receiver.offered(Ok(offer), &known, moment),
            (Answer::Log(chain, log), Some(Expected::Log(expected))) if chain == expected => {
                link.receiver.fetched(log.ok_or(TransportError::Missing), moment);
            }
            _ => return,
        }
        link.expected = None;
        self.drive(at);
    }

    /// Reports to a link that its request was not answered in time.
    pub(super) fn time_out(&mut self, at: ProcessLink, serial: u64) {
        let now_ms = self.now_ms;
        let Some(link) = self.link(at) else { return };
        let Some(expected) = link.expected.take_if(|_| link.serial == serial) else { return };
        let server = self.server(at.server);
        let (moment, known) = (server.moment(now_ms), std::sync::Arc::clone(&server.known));
        let receiver = &mut server.links[at.link].receiver;
        let error = TransportError::Unreachable("no answer in time".into());
        match expected {
            Expected::Offer => receiver.offered(Err(error), &known, moment),
            Expected::Log(_) => receiver.fetched(Err(error), moment),
        }
        self.drive(at);
    }

    /// Carries out what a node's publisher decides. A request that does not reach the broker fails.
    pub(super) fn publish(&mut self, number: usize) {
        while self.server(number).publisher.is_some() {
            let (now_ms, broker) = (self.now_ms, self.sides.len() - 1);
            let server = self.server(number);
            let request = server.publisher.as_mut().unwrap().next(&server.shelf);
            let uptime = server.moment(now_ms).uptime;
            let result = match request {
                // The next step tries again.
                PublishRequest::Wait | PublishRequest::Sleep(_) => {
                    let publisher = self.server(number).publisher.as_mut().unwrap();
                    return publisher.answered(Ok(0), uptime);
                }
                _ if self.sides[number] != self.sides[broker] || self.random.random_range(0..3_000) < self.loss => {
                    Err(TransportError::Unreachable("no connection".into()))
                }
                request => Ok(self.publish_one(number, request)),
            };
            self.server(number).publisher.as_mut().unwrap().answered(result, uptime);
        }
    }

    fn publish_one(&mut self, number: usize, request: PublishRequest) -> u64 {
        match request {
            PublishRequest::Length(chain) => return self.broker.published(&chain),
            PublishRequest::Publish { chain, at, end } => {
                let log = self.nodes[number].shelf.log(&chain, at, (end - at) as usize).unwrap().unwrap_or_default();
                let (mut at, mut rest) = (at, &log[..]);
                while let Ok(Some((segment, behind))) = split(rest) {
                    self.broker.publish(&chain, at, segment);
                    (at, rest) = (at + segment.len() as u64, behind);
                }
                return at;
            }
            PublishRequest::Announce(heads) => {
                self.broker.announce(&heads);
                self.notify(number, &heads);
            }
            PublishRequest::Archive(chain, end) => {
                if let Some(log) = self.nodes[number].shelf.log(&chain, 0, end as usize).unwrap() {
                    self.broker.archive(&chain, &log);
                }
            }
            PublishRequest::Retain(_) | PublishRequest::Wait | PublishRequest::Sleep(_) => {}
        }
        0
    }

    /// Sends heads from the broker to all nodes that are connected to it.
    fn notify(&mut self, from: usize, heads: &[u8]) {
        let broker = self.sides.len() - 1;
        for server in (0..self.nodes.len()).filter(|server| *server != from) {
            let node = &self.nodes[server];
            let Some(link) = node.links.iter().position(|link| link.end == End::Broker) else { continue };
            let at = ProcessLink { server, boots: node.boots, link };
            self.send(broker, server, Action::News { at, heads: heads.to_vec() });
        }
    }

    pub(super) fn take_news(&mut self, at: ProcessLink, heads: &[u8]) {
        if let Some(link) = self.link(at) {
            link.table.put(heads);
        }
    }

    pub(super) fn refresh(&mut self, at: ProcessLink) {
        if self.link(at).is_none() {
            return;
        }
        if self.sides[at.server] == self.sides[self.sides.len() - 1] {
            let all = self.broker.heads();
            all.iter().for_each(|heads| self.take_news(at, heads));
        }
        self.after(REFRESH_MS, Action::Refresh(at));
    }

    /// Returns what the liar sends instead of `bytes`.
    fn lie(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        if self.is_polite {
            return bytes;
        }
        let said = mangle(&mut self.random, &bytes, &self.kept);
        let at = self.random.random_range(0..KEPT_MAX);
        if self.kept.len() < KEPT_MAX {
            self.kept.push(bytes);
        } else {
            self.kept[at] = bytes;
        }
        said
    }
}
