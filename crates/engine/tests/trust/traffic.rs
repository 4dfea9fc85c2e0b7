//! The claims of honest sites and of attackers, and their times.
//!
//! The numbers of sites, days, misreports and targets are those of an earlier study of the trust rules, which used
//! another implementation. Parameters that the study does not give are chosen here. Campaign sizes have a Pareto
//! distribution. With its parameters, the two counting rules, which do not depend on trust, catch the same shares of
//! spam as in the study (53 % and 15 %). The reach of bulk ham was chosen so that the same share of that ham is suspect
//! as in the study (0.3 to 1.3 %). [`Reach`] has two harder distributions as alternatives. For the sizes of anchors,
//! the delays and the volumes, plausible values were chosen.

use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Reporter, Standing};
use rand::rngs::ChaCha8Rng;
use rand::seq::index;
use rand::{RngExt as _, SeedableRng as _};

/// Parameters of the earlier study.
pub(crate) const HONEST: usize = 200;
pub(crate) const PINNED: usize = 10;
pub(crate) const TRAPS: usize = 5;
pub(crate) const DAYS: u64 = 45;
pub(crate) const SCORED_FROM_DAY: u64 = 30;
pub(crate) const MISREPORT_RATE: f64 = 0.02;
pub(crate) const TARGETS_DAILY: usize = 20;

/// Parameters chosen for this simulation. The number of sites that report a campaign has a Pareto distribution, and the
/// delay of each report an exponential one.
pub(crate) const CAMPAIGNS_DAILY: usize = 200;
pub(crate) const REACH_SHAPE: f64 = 1.8;
pub(crate) const REACH_MIN: f64 = 5.0;
pub(crate) const DELAY_MEAN: f64 = 8.0 * Time::HOUR as f64;
/// Size of a pinned peer or trap, where an ordinary site has size 1. Operators pin large sites.
pub(crate) const ANCHOR_SIZE: f64 = 3.0;
/// Number of bulk ham messages per day. Sites that receive one revoke it as often as they misreport it.
pub(crate) const HAM_DAILY: usize = CAMPAIGNS_DAILY;
pub(crate) const REVOKE_RATE: f64 = 0.02;
/// Number of campaigns that a farmer echoes per day, each within a day of its start. It is four times the number that
/// the maximum daily credit covers.
pub(crate) const ECHOES_DAILY: usize = 20;
/// Maximum delay of an attacker's claim after the start of a target or campaign.
pub(crate) const ATTACK_SPREAD: u64 = 2 * Time::HOUR;

/// First second of the simulation. The value is arbitrary.
const START: u64 = 20_000 * Time::DAY;

/// The kind of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Spam,
    Ham,
    Target,
}

/// A message with many recipients, represented by one signature.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub(crate) kind: Kind,
    pub(crate) day: u64,
    pub(crate) start: Time,
}

/// One claim.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) at: Time,
    pub(crate) who: u32,
    pub(crate) item: u32,
    pub(crate) claim: Claim,
}

/// The distribution of the number of sites that bulk ham reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// 5 to 10 sites.
    Narrow,
    /// The same distribution as for campaigns.
    Pareto,
    /// 20 to 100 sites: newsletters with many readers.
    Wide,
}

impl Reach {
    fn draw(self, random: &mut ChaCha8Rng) -> usize {
        match self {
            Self::Narrow => random.random_range(5..=10),
            Self::Pareto => (REACH_MIN * (1.0 - random.random::<f64>()).powf(-1.0 / REACH_SHAPE)) as usize,
            Self::Wide => random.random_range(20..=100),
        }
    }
}

/// The aim of an attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    /// List items that are not spam.
    List,
    /// List newsletters that many honest sites receive, and that some of them misreport.
    ListWide,
    /// Revoke every campaign.
    Revoke,
}

/// An attack during the last fifteen days.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    pub(crate) identities: usize,
    /// Number of groups that count as one voice.
    pub(crate) groups: usize,
    /// True if the identities echoed other reporters for the thirty days before the attack.
    pub(crate) farmed: bool,
    pub(crate) aim: Aim,
    /// Reach of bulk ham that is not a target of the attack.
    pub(crate) ham_reach: Reach,
}

/// All items of a run, and its claims in order of time.
pub(crate) struct Traffic {
    pub(crate) reporters: Vec<Reporter>,
    pub(crate) items: Vec<Item>,
    pub(crate) events: Vec<Event>,
}

/// Returns the start of a day of the simulation.
pub(crate) const fn day_start(day: u64) -> Time {
    Time(START + day * Time::DAY)
}

impl Traffic {
    /// Creates the traffic of a seed under an attack. Honest traffic is the same under every attack.
    pub(crate) fn new(seed: u64, attack: &Attack) -> Self {
        let mut traffic = Self { reporters: honest_reporters(), items: Vec::new(), events: Vec::new() };
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        for day in 0..DAYS {
            (0..CAMPAIGNS_DAILY).for_each(|_| traffic.campaign(day, &mut random));
            (0..HAM_DAILY).for_each(|_| traffic.bulk(Kind::Ham, day, attack.ham_reach, &mut random));
        }
        traffic.attack(attack, &mut ChaCha8Rng::seed_from_u64(seed + 1_000));
        traffic.events.sort_by_key(|event| event.at);
        traffic
    }

    /// Makes each of these honest sites misreport a different item, which the first two pinned peers revoke.
    pub(crate) fn add_mistakes(&mut self, sites: std::ops::Range<u32>, day: u64) {
        for who in sites {
            let (item, at) = (self.items.len() as u32, day_start(day));
            self.items.push(Item { kind: Kind::Ham, day, start: at });
            self.events.push(Event { at, who, item, claim: Claim::Report });
            for peer in [HONEST as u32, HONEST as u32 + 1] {
                self.events.push(Event { at, who: peer, item, claim: Claim::Revoke });
            }
        }
        self.events.sort_by_key(|event| event.at);
    }

    fn item(&mut self, kind: Kind, day: u64, random: &mut ChaCha8Rng) -> (u32, Time) {
        let start = Time(day_start(day).0 + random.random_range(0..Time::DAY));
        self.items.push(Item { kind, day, start });
        (self.items.len() as u32 - 1, start)
    }

    fn campaign(&mut self, day: u64, random: &mut ChaCha8Rng) {
        let (item, start) = self.item(Kind::Spam, day, random);
        for who in receivers(Reach::Pareto.draw(random), random) {
            self.events.push(Event { at: delayed(start, random), who, item, claim: Claim::Report });
        }
    }

    fn bulk(&mut self, kind: Kind, day: u64, reach: Reach, random: &mut ChaCha8Rng) {
        let (item, start) = self.item(kind, day, random);
        for who in receivers(reach.draw(random), random).into_iter().filter(|&who| (who as usize) < HONEST + PINNED) {
            let at = delayed(start, random);
            let draw = random.random::<f64>();
            if draw < MISREPORT_RATE {
                self.events.push(Event { at, who, item, claim: Claim::Report });
            } else if draw < MISREPORT_RATE + REVOKE_RATE {
                self.events.push(Event { at, who, item, claim: Claim::Revoke });
            }
        }
    }

    fn attack(&mut self, attack: &Attack, random: &mut ChaCha8Rng) {
        let first = self.reporters.len() as u32;
        let group = |number: usize| 10_000 + (number % attack.groups) as u64;
        self.reporters.extend((0..attack.identities).map(|number| Reporter {
            id: 10_000 + number as u64,
            standing: Standing::Account,
            group: group(number),
        }));
        let attackers = first..self.reporters.len() as u32;
        if attack.farmed {
            attackers.clone().for_each(|who| self.echo(who, random));
        }
        match attack.aim {
            Aim::List | Aim::ListWide => self.list_targets(attack.aim, &attackers, random),
            Aim::Revoke => self.revoke_campaigns(&attackers, random),
        }
    }

    /// Echoes honest reports for thirty days.
    fn echo(&mut self, who: u32, random: &mut ChaCha8Rng) {
        for day in 0..SCORED_FROM_DAY as usize {
            for number in index::sample(random, CAMPAIGNS_DAILY, ECHOES_DAILY) {
                let item = (day * (CAMPAIGNS_DAILY + HAM_DAILY) + number) as u32;
                let at = Time(self.items[item as usize].start.0 + random.random_range(0..Time::DAY));
                self.events.push(Event { at, who, item, claim: Claim::Report });
            }
        }
    }

    fn list_targets(&mut self, aim: Aim, attackers: &std::ops::Range<u32>, random: &mut ChaCha8Rng) {
        for day in SCORED_FROM_DAY..DAYS {
            for _ in 0..TARGETS_DAILY {
                let item = self.items.len() as u32;
                match aim {
                    Aim::ListWide => self.bulk(Kind::Target, day, Reach::Wide, random),
                    Aim::List | Aim::Revoke => _ = self.item(Kind::Target, day, random),
                }
                self.claim_all(item, attackers, Claim::Report, random);
            }
        }
    }

    fn revoke_campaigns(&mut self, attackers: &std::ops::Range<u32>, random: &mut ChaCha8Rng) {
        for item in 0..self.items.len() as u32 {
            let Item { kind, day, .. } = self.items[item as usize];
            if kind == Kind::Spam && day >= SCORED_FROM_DAY {
                self.claim_all(item, attackers, Claim::Revoke, random);
            }
        }
    }

    fn claim_all(&mut self, item: u32, who: &std::ops::Range<u32>, claim: Claim, random: &mut ChaCha8Rng) {
        let start = self.items[item as usize].start.0;
        for who in who.clone() {
            self.events.push(Event { at: Time(start + random.random_range(0..ATTACK_SPREAD)), who, item, claim });
        }
    }
}

/// Returns one reporter per site, each in its own group.
fn honest_reporters() -> Vec<Reporter> {
    let standing = |number| match number {
        0..HONEST => Standing::Account,
        number if number < HONEST + PINNED => Standing::Pinned,
        _ => Standing::Trap,
    };
    let sites = 0..HONEST + PINNED + TRAPS;
    sites.map(|number| Reporter { id: number as u64, standing: standing(number), group: number as u64 }).collect()
}

/// Draws distinct sites with probabilities weighted by size.
fn receivers(reach: usize, random: &mut ChaCha8Rng) -> Vec<u32> {
    let sites = HONEST + PINNED + TRAPS;
    let size = |site| if site < HONEST { 1.0 } else { ANCHOR_SIZE };
    let drawn = index::sample_weighted(random, sites, size, reach.min(sites)).expect("sizes are positive");
    // Weighted sampling puts large sites first. Sort the sites, because delays are drawn in this order.
    let mut drawn = drawn.into_iter().map(|site| site as u32).collect::<Vec<_>>();
    drawn.sort_unstable();
    drawn
}

fn delayed(start: Time, random: &mut ChaCha8Rng) -> Time {
    let delay = -DELAY_MEAN * (1.0 - random.random::<f64>()).ln();
    Time(start.0 + delay as u64)
}
