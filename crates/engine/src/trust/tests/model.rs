//! Comparison of the trust rules with a model that has no bounds, tables or shortcuts.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::ChaCha8Rng;
use rand::{RngExt as _, SeedableRng as _};

use super::*;
use crate::trust::precision::{Decay, WEIGHT_PARTS, millionths, precision, weight};

/// A claim in the model.
#[derive(Clone, Copy)]
struct Said {
    who: Reporter,
    claim: Claim,
    weight: f64,
    early: bool,
    /// True unless a later change of the books overruled the claim.
    counts: bool,
    settled: bool,
}

impl Said {
    fn is_anchored(&self) -> bool {
        self.who.standing.is_anchor() && self.weight > 0.0
    }
}

#[derive(Default)]
struct Signature {
    first: u64,
    said: Vec<Said>,
    promoted: bool,
    settled: bool,
}

impl Signature {
    /// Marks all claims as settled. Returns all claims, and those that were still unsettled.
    fn settle(&mut self) -> (Vec<Said>, Vec<Said>) {
        let new = self.said.iter().filter(|said| !said.settled).cloned().collect();
        self.said.iter_mut().for_each(|said| said.settled = true);
        (self.said.clone(), new)
    }
}

#[derive(Default)]
struct Model {
    policy: Policy,
    signatures: BTreeMap<u64, Signature>,
    /// For each reporter: credits and debits in millionths, the credits of one day, and that day.
    reporters: BTreeMap<u64, (u32, u32, u32, u64)>,
}

/// The sums of the claims that count.
struct Sums {
    spam: f64,
    ham: f64,
    /// The score that is compared with the threshold for listing.
    listing: f64,
    groups: usize,
    reporting: usize,
    revoking: usize,
    own: [usize; 2],
    trap: bool,
}

impl Model {
    fn weigh(&self, now: Time, who: &Reporter) -> f64 {
        let prior = if who.standing.is_anchor() { (60.0, 1.0) } else { (1.0, 1.0) };
        let (good, bad, ..) = self.aged(now, who.id);
        let (good, bad) = if who.standing == Standing::Trap { (0, 0) } else { (good, bad) };
        let stranger = who.standing == Standing::Stranger;
        if stranger { 0.0 } else { f64::from(weight(precision(good, bad, prior), 2.5)) / WEIGHT_PARTS }
    }

    fn aged(&self, now: Time, id: u64) -> (u32, u32, u32, u64) {
        let (good, bad, credited, day) = self.reporters.get(&id).copied().unwrap_or_else(|| (0, 0, 0, now.day()));
        let days = now.day() - day;
        let credited = if days > 0 { 0 } else { credited };
        (Decay::new(30).after(good, days), Decay::new(7).after(bad, days), credited, now.day())
    }

    fn sums(&self, number: u64) -> Sums {
        let said = self.signatures[&number].said.iter().filter(|said| said.counts).collect::<Vec<_>>();
        let side = |claim| {
            let groups =
                said.iter().filter(|said| said.claim == claim).map(|said| said.who.group).collect::<BTreeSet<_>>();
            let (mut anchored, mut others, mut anchors, mut weighing) = (0.0, 0.0, 0, 0);
            for group in groups {
                let voices = said.iter().filter(|said| said.claim == claim && said.who.group == group);
                let heaviest = voices.clone().map(|said| said.weight).fold(0.0, f64::max);
                let is_anchored = voices.clone().any(|said| said.is_anchored());
                *(if is_anchored { &mut anchored } else { &mut others }) += heaviest;
                anchors += usize::from(is_anchored);
                weighing += usize::from(heaviest > 0.0);
            }
            (anchored, others, anchors, weighing)
        };
        let (reports, revokes) = (side(Claim::Report), side(Claim::Revoke));
        let spam = reports.0 + f64::min(reports.1, 5.0);
        let ham = 2.0 * revokes.0 + f64::min(2.0 * revokes.1, 2.0);
        let own = |claim| said.iter().filter(|said| said.who.standing == Standing::Own && said.claim == claim).count();
        Sums {
            spam,
            ham,
            listing: if reports.2 >= 2 { spam - 2.0 * revokes.0 } else { spam - ham },
            groups: reports.3,
            reporting: reports.2,
            revoking: revokes.2,
            own: [own(Claim::Report), own(Claim::Revoke)],
            trap: said.iter().any(|said| said.who.standing == Standing::Trap && said.claim == Claim::Report),
        }
    }

    fn claim(&mut self, now: Time, who: Reporter, number: u64, claim: Claim, book: Listing) -> Change {
        let weight = self.weigh(now, &who);
        self.signatures.entry(number).or_insert_with(|| Signature { first: now.0, ..Signature::default() });
        let before = self.sums(number);
        let signature = self.signatures.get_mut(&number).unwrap();
        let early = match claim {
            Claim::Report => !book.listed && !signature.promoted,
            Claim::Revoke => !book.revoked && before.revoking == 0,
        };
        let repeats = signature.said.iter().any(|said| said.who.id == who.id && said.claim == claim && said.counts);
        if who.standing != Standing::Stranger && !repeats {
            signature.said.retain(|said| said.who.id != who.id);
            signature.said.push(Said { who, claim, weight, early, counts: true, settled: false });
        }
        let promoted = signature.promoted;
        let after = self.sums(number);
        let change =
            change(&before, &after, &Said { who, claim, weight, early, counts: true, settled: false }, book, promoted);
        let signature = self.signatures.get_mut(&number).unwrap();
        let (is_listed, overruled) = match change {
            Change::Nothing => return change,
            Change::List => (true, book.revoked.then_some(Claim::Revoke)),
            Change::Revoke => (false, Some(Claim::Report)),
        };
        signature.promoted = is_listed;
        signature.said.iter_mut().for_each(|said| said.counts &= Some(said.claim) != overruled);
        change
    }

    fn settle(&mut self, now: Time) {
        let due = |signature: &&mut Signature| !signature.settled && now.0 - signature.first >= 48 * Time::HOUR;
        let mut due: Vec<_> = self.signatures.values_mut().filter(due).collect();
        due.iter_mut().for_each(|signature| signature.settled = true);
        let mut said: Vec<_> = due.into_iter().map(Signature::settle).collect();
        let is_over = |signature: &&mut Signature| now.0 - signature.first >= 14 * Time::DAY;
        // Claims made after the settlement are settled when the signature is removed.
        let mut over: Vec<_> = self.signatures.values_mut().filter(is_over).collect();
        over.sort_by_key(|signature| signature.first);
        said.extend(over.into_iter().map(Signature::settle));
        for (all, new) in said {
            new.iter().for_each(|one| self.settle_one(now, &all, one));
        }
        self.signatures.retain(|_, signature| now.0 - signature.first < 14 * Time::DAY);
    }

    fn settle_one(&mut self, now: Time, all: &[Said], one: &Said) {
        if one.who.standing == Standing::Trap {
            return;
        }
        let others = all.iter().filter(|said| said.who.group != one.who.group);
        let anchors = |claim| {
            let says = others.clone().filter(|said| said.claim == claim && said.is_anchored());
            says.map(|said| said.who.group).collect::<BTreeSet<_>>().len()
        };
        let trap = others.clone().any(|said| said.who.standing == Standing::Trap && said.claim == Claim::Report);
        let (spam, ham) = (anchors(Claim::Report), anchors(Claim::Revoke));
        let is_spam = if trap { Some(true) } else { (spam != ham).then_some(spam > ham) };
        let (mut good, mut bad, mut credited, day) = self.aged(now, one.who.id);
        match is_spam.map(|is_spam| is_spam == (one.claim == Claim::Report)) {
            Some(true) if !one.early => return,
            Some(true) => {
                let earned = millionths(1.0).min(5_000_000 - credited);
                (good, credited) = (good + earned, credited + earned);
            }
            Some(false) => bad += 10_000_000,
            None => bad += 50_000,
        }
        self.reporters.insert(one.who.id, (good, bad, credited, day));
    }
}

fn is_block(sums: &Sums) -> bool {
    sums.listing >= 6.0 && sums.groups >= 3 && sums.reporting >= 1 && (sums.revoking == 0 || sums.trap)
}

fn change(before: &Sums, after: &Sums, said: &Said, book: Listing, promoted: bool) -> Change {
    let is_listed = book.listed && !book.revoked;
    let own_hold = after.own[0] >= 1 && after.own[1] == 0;
    if said.claim == Claim::Report && !is_listed {
        let is_enough = if book.revoked {
            let outweighs = after.listing >= 10.0 && after.groups >= 3 && after.reporting > after.revoking + 1;
            let taken_back = before.own[1] > 0 && own_hold && after.revoking == 0;
            taken_back || (after.own[0] >= 2 && after.own[0] > after.own[1]) || outweighs
        } else {
            own_hold || is_block(after)
        };
        return if is_enough { Change::List } else { Change::Nothing };
    }
    if said.claim == Claim::Revoke && is_listed {
        let by_anchor = said.is_anchored() && !after.trap;
        let by_evidence = promoted && is_block(before) && !is_block(after);
        if said.who.standing == Standing::Own || ((by_anchor || by_evidence) && !own_hold) {
            return Change::Revoke;
        }
    }
    Change::Nothing
}

#[test]
fn the_scheme_matches_the_model() {
    let mut seen = BTreeMap::new();
    for seed in 0..90 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut site = Site::with_memory(Policy { group_share: 1.0, own_share: 1.0, ..Policy::default() }, 1 << 22);
        let mut model = Model::default();
        assert_eq!(model.policy, Policy::default());
        for step in 0..600 {
            let (who, number, claim) = draw(&mut random);
            let book = site.books.get(&item(number)).copied().unwrap_or_default();
            let expected = model.claim(site.now, who, number, claim, book);
            let change = site.claim(who, number, claim).unwrap();
            assert_eq!(change, expected, "seed {seed}, step {step}: {who:?} {claim:?} of {number}, {book:?}");
            let is_own_list = change == Change::List && who.standing == Standing::Own;
            *seen.entry(format!("{change:?}, own {is_own_list}, revoked {}", book.revoked)).or_insert(0) += 1;
            let (evidence, sums) = (site.evidence(number), model.sums(number));
            assert_eq!((evidence.spam, evidence.ham), (sums.spam, sums.ham), "seed {seed}, step {step}");
            site.wait(random.random_range(0..4 * Time::HOUR));
            model.settle(site.now);
        }
    }
    // Check that all combinations occurred. Otherwise the test would prove nothing.
    assert_eq!(seen.len(), 7, "{seen:?}");
    assert!(seen.values().all(|&times| times >= 5), "{seen:?}");
}

/// Draws a claim. There are few signatures and reporters, so that several reporters claim the same signature. Most
/// reporters are accounts, and half of them share a group with another.
fn draw(random: &mut ChaCha8Rng) -> (Reporter, u64, Claim) {
    let id = random.random_range(0..40);
    let standing = match id {
        0 => Standing::Trap,
        1..4 => Standing::Own,
        4..14 => Standing::Pinned,
        14..38 => Standing::Account,
        _ => Standing::Stranger,
    };
    let claim = if random.random_bool(0.75) { Claim::Report } else { Claim::Revoke };
    // Own reporters choose among more signatures, so that few signatures have an own reporter's claim. Such claims take
    // effect at once. If they were frequent, evidence would never matter.
    let number = if standing == Standing::Own { random.random_range(0..60) } else { random.random_range(0..20) };
    (Reporter { id, standing, group: if id > 25 { id / 2 } else { id } }, number, claim)
}
