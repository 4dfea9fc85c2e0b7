//! Tests of the rules through the public interface, of all limits, and of the encoding.

mod bounds;
mod bytes;
mod model;
mod rules;
mod settlement;

use super::*;

/// Memory used by most tests. It results in tables of the minimum size.
const SMALL: u64 = 0;

fn of(id: u64, standing: Standing) -> Reporter {
    Reporter { id, standing, group: id }
}

fn own(id: u64) -> Reporter {
    of(id, Standing::Own)
}

fn pinned(id: u64) -> Reporter {
    of(id, Standing::Pinned)
}

fn trap(id: u64) -> Reporter {
    of(id, Standing::Trap)
}

fn account(id: u64) -> Reporter {
    of(id, Standing::Account)
}

fn stranger(id: u64) -> Reporter {
    of(id, Standing::Stranger)
}

fn item(number: u64) -> Fingerprint {
    Fingerprint::new(number.wrapping_mul(0x9e37_79b9_7f4a_7c15), number)
}

/// A `Trust`, and books to which its changes are applied.
struct Site {
    trust: Trust,
    books: std::collections::BTreeMap<Fingerprint, Listing>,
    now: Time,
}

impl Site {
    fn new(policy: Policy) -> Self {
        Self::with_memory(policy, SMALL)
    }

    /// Creates a site whose memory and shares are so large that no bound matters.
    fn roomy(policy: Policy) -> Self {
        Self::with_memory(Policy { group_share: 1.0, own_share: 1.0, ..policy }, 1 << 20)
    }

    fn with_memory(policy: Policy, bytes: u64) -> Self {
        Self { trust: Trust::new(policy, bytes), books: Default::default(), now: Time(1_000 * Time::DAY) }
    }

    fn claim(&mut self, reporter: Reporter, number: u64, claim: Claim) -> Result<Change, NurseryRefusal> {
        let book = self.books.entry(item(number)).or_default();
        let change = self.trust.claim(self.now, &reporter, item(number), claim, *book, true)?;
        match change {
            Change::Nothing => {}
            Change::List => *book = Listing { listed: true, revoked: false },
            Change::Revoke => book.revoked = true,
        }
        Ok(change)
    }

    fn report(&mut self, reporter: Reporter, number: u64) -> Change {
        self.claim(reporter, number, Claim::Report).expect("room")
    }

    fn revoke(&mut self, reporter: Reporter, number: u64) -> Change {
        self.claim(reporter, number, Claim::Revoke).expect("room")
    }

    fn known(&self, number: u64) -> bool {
        self.trust.assess(&item(number)).is_some()
    }

    fn evidence(&self, number: u64) -> VoteEvidence {
        self.trust.assess(&item(number)).expect("a known signature").evidence
    }

    /// Advances the time and settles all due claims.
    fn wait(&mut self, seconds: u64) {
        self.now.0 += seconds;
        self.trust.settle(self.now, usize::MAX);
    }

    /// Makes an account earn the maximum trust within forty days. Uses consecutive signature numbers, starting with
    /// `numbers`.
    fn train(&mut self, reporter: Reporter, numbers: u64) {
        for number in numbers..numbers + 200 {
            self.report(trap(u64::MAX), number);
            self.report(reporter, number);
            self.wait(Time::DAY / 5);
        }
        self.wait(3 * Time::DAY);
    }

    fn view(&self, id: u64) -> ReporterView {
        self.trust.reporter(self.now, id).expect("a known reporter")
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.trust.encode(&mut out);
        out
    }
}
