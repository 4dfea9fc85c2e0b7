use std::collections::BTreeMap;

use bruit_engine::event::Event;
use bruit_engine::exchange::{Book, Chain, ExchangeRefusal, OriginChange};
use bruit_engine::trust::Claim;
use bruit_engine::{Engine, Outcome, Refusal};
use bruit_federation::coordinator::rereader::{RereadRequest, Rereader};

use crate::common::{START, claim, give, key, known, node, origin, realm, seal};

/// A node that forgets another one.
struct Server {
    engine: Engine,
    rereader: Rereader,
    logs: BTreeMap<Chain, Vec<Vec<u8>>>,
    /// The refusal of the next event.
    refusal: Option<ExchangeRefusal>,
}

impl Server {
    /// Returns node 0 of three with claims of all of them.
    fn new() -> Self {
        let (mut engine, mut logs) = (node(0, 3), BTreeMap::new());
        for number in [1, 2] {
            let (mut other, mut theirs) = (node(number, 3), BTreeMap::new());
            other.apply(&claim(Claim::Report, 1, number.into()));
            seal(number, &mut other, &mut theirs);
            for (chain, segments) in &theirs {
                assert_eq!(give(&mut engine, *chain, &segments.concat(), &known(3)), None);
            }
            logs.extend(theirs);
        }
        engine.apply(&claim(Claim::Report, 1, 7));
        seal(0, &mut engine, &mut logs);
        Self { engine, rereader: Rereader::default(), logs, refusal: None }
    }

    fn forget(&mut self, number: u8) {
        let (key, by) = (*key(number).public().as_bytes(), *key(0).public().as_bytes());
        let event = Event::Forget { now: START, key, by, is_forgotten: true };
        assert_eq!(self.engine.apply(&event), Outcome::Done);
    }

    /// Carries out the next request. Returns its name.
    fn step(&mut self) -> String {
        match self.rereader.next(&self.engine, START) {
            RereadRequest::Idle => "idle".to_owned(),
            RereadRequest::Wait => "wait".to_owned(),
            RereadRequest::Read { chain, offset } => {
                let log = self.logs.get(&chain).map(|log| log.concat()).unwrap_or_default();
                self.rereader.read(&log[offset as usize..], realm(), START);
                format!("read {} of {}", chain.book.name(), number_of(&chain))
            }
            RereadRequest::Submit(events) => {
                let outcomes: Vec<_> = events.iter().map(|event| self.submit(event)).collect();
                self.rereader.submitted(&outcomes);
                format!("submit {}", kind(&events[0]))
            }
            RereadRequest::ForgetLog(chain) => {
                self.logs.remove(&chain);
                format!("discard {} of {}", chain.book.name(), number_of(&chain))
            }
        }
    }

    fn submit(&mut self, event: &Event) -> Outcome {
        let refused = self.refusal.take().map(|refusal| Outcome::Refused(Refusal::Exchange(refusal)));
        refused.unwrap_or_else(|| self.engine.apply(event))
    }

    fn steps_until(&mut self, last: &str) -> Vec<String> {
        let mut steps = Vec::new();
        while steps.last().is_none_or(|step| step != last) {
            steps.push(self.step());
            assert!(steps.len() < 100, "{steps:?}");
        }
        steps
    }
}

fn number_of(chain: &Chain) -> u8 {
    (0..3).find(|number| origin(*number).key == chain.origin.key).unwrap()
}

fn kind(event: &Event) -> &'static str {
    match event {
        Event::Reread { .. } => "segment",
        Event::Rebuild { .. } => "end of stage",
        Event::Repair { .. } => "repair",
        Event::Origin { change: OriginChange::Begin { .. }, .. } => "incarnation",
        other => unreachable!("the rereader does not submit {other:?}"),
    }
}

#[test]
fn nothing_is_read_unless_a_server_is_forgotten() {
    assert_eq!(Server::new().step(), "idle");
}

#[test]
fn the_logs_of_the_forgotten_server_are_read_and_then_those_of_all_others() {
    let mut server = Server::new();
    server.forget(2);
    let steps = server.steps_until("idle");
    let read = |number: u8| steps.iter().filter(|step| step.ends_with(&format!("of {number}"))).count();
    let first_of_others = steps.iter().position(|step| step.starts_with("read") && !step.ends_with("of 2")).unwrap();
    let last_of_theirs = steps.iter().rposition(|step| step.ends_with("of 2")).unwrap();
    assert!(last_of_theirs < first_of_others, "{steps:?}");
    assert!([0, 1, 2].map(read).iter().all(|count| *count > 0), "{steps:?}");
    let segments = steps.iter().filter(|step| *step == "submit segment").count();
    assert_eq!(segments, steps.iter().filter(|step| step.starts_with("read")).count());
    assert!(!server.engine.is_forgetting());
}

#[test]
fn a_log_that_is_lost_or_damaged_is_fetched_from_others() {
    for log in [None, Some(vec![vec![0; 400]])] {
        let mut server = Server::new();
        server.forget(2);
        let lost = *server.logs.keys().find(|chain| number_of(chain) == 1 && chain.book == Book::Votes).unwrap();
        match log {
            Some(damaged) => drop(server.logs.insert(lost, damaged)),
            None => drop(server.logs.remove(&lost)),
        }
        let steps = server.steps_until("idle");
        let at = steps.iter().position(|step| step == "read votes of 1").unwrap();
        assert_eq!(steps[at + 1..at + 3], ["submit repair", "discard votes of 1"]);
        assert_eq!(server.engine.exchange().frontier(&lost).sequence, 0, "links fetch it again");
        assert!(!server.engine.is_forgetting());
    }
}

#[test]
fn an_own_log_that_is_lost_starts_another_incarnation() {
    let mut server = Server::new();
    server.forget(2);
    server.logs.retain(|chain, _| number_of(chain) != 0);
    let steps = server.steps_until("idle");
    assert_eq!(steps.iter().filter(|step| *step == "submit incarnation").count(), 1, "{steps:?}");
    assert!(server.engine.exchange().own() > Some(origin(0)));
    assert!(!server.engine.is_forgetting());
}

#[test]
fn a_stage_that_cannot_end_yet_is_waited_for() {
    let mut server = Server::new();
    server.forget(2);
    let part = server.engine.rereading();
    assert!(part.is_some());
    while server.engine.rereading().is_some_and(|part| number_of(&part.chain) == 2) {
        server.step();
    }
    server.refusal = Some(ExchangeRefusal::SnapshotRuns);
    assert_eq!(server.steps_until("wait").iter().rev().nth(1).unwrap(), "submit end of stage");
    server.steps_until("idle");
    assert!(!server.engine.is_forgetting());
}

#[test]
fn a_step_that_is_not_answered_is_taken_again() {
    let mut server = Server::new();
    server.forget(2);
    let read = |request: RereadRequest| match request {
        RereadRequest::Read { chain, offset } => (chain, offset),
        other => panic!("{other:?}"),
    };
    let first = read(server.rereader.next(&server.engine, START));
    assert_eq!(read(server.rereader.next(&server.engine, START)), first, "the log could not be read");
    server.rereader.read(&server.logs[&first.0].concat(), realm(), START);
    assert!(matches!(server.rereader.next(&server.engine, START), RereadRequest::Submit(_)));
    assert_eq!(read(server.rereader.next(&server.engine, START)), first, "the events could not be stored");
    server.steps_until("idle");
}
