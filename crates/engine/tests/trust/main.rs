//! Attacks on the trust rules, simulated with the code that runs in a server.
//!
//! Each run has 200 honest groups, 5 traps and 10 pinned peers, and lasts 45 days. The last 15 days are scored. The
//! seeds are 1 to 4. `docs/trust.md` presents the figures and their meaning. To print them: `cargo nextest run -p
//! bruit-engine --test trust --no-capture`.

#![expect(clippy::print_stdout, reason = "the tests exist to print figures")]

mod rivals;
mod run;
mod traffic;

use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Listing, NurseryRefusal, Policy, Reporter, Standing, Trust};

use run::{Figures, RULES, Run, fingerprint};
use traffic::{Aim, Attack, DAYS, HONEST, Reach, SCORED_FROM_DAY, Traffic, day_start};

const SEEDS: std::ops::RangeInclusive<u64> = 1..=4;
const BLOCK: usize = 3;

const NONE: Attack = attack("none", 0, 1, false, Aim::List);
const NONE_PARETO: Attack = Attack { name: "none, ham like campaigns", ham_reach: Reach::Pareto, ..NONE };
const NONE_WIDE: Attack = Attack { name: "none, ham to 20-100 sites", ham_reach: Reach::Wide, ..NONE };
const FRESH: [Attack; 3] = [
    attack("10 fresh", 10, 10, false, Aim::List),
    attack("100 fresh", 100, 100, false, Aim::List),
    attack("500 fresh", 500, 500, false, Aim::List),
];
const FARMED: [Attack; 3] = [
    attack("10 farmed", 10, 10, true, Aim::List),
    attack("100 farmed", 100, 100, true, Aim::List),
    attack("100 farmed in 2 groups", 100, 2, true, Aim::List),
];
const FARMED_WIDE: Attack = attack("100 farmed, newsletters", 100, 100, true, Aim::ListWide);
const REVOKERS: [Attack; 3] = [
    attack("100 fresh revokers", 100, 100, false, Aim::Revoke),
    attack("30 farmed revokers", 30, 30, true, Aim::Revoke),
    attack("100 farmed revokers", 100, 100, true, Aim::Revoke),
];

const fn attack(name: &'static str, identities: usize, groups: usize, farmed: bool, aim: Aim) -> Attack {
    Attack { name, identities, groups, farmed, aim, ham_reach: Reach::Narrow }
}

/// Returns the figures of an attack, one set per seed.
fn figures(attack: &Attack) -> Vec<Figures> {
    let run = |seed| Run::new(&Traffic::new(seed, attack)).play(|_, _| {}).clone();
    std::thread::scope(|scope| {
        let threads = SEEDS.map(|seed| scope.spawn(move || run(seed))).collect::<Vec<_>>();
        threads.into_iter().map(|thread| thread.join().expect("a run ends")).collect()
    })
}

/// Prints a row of the table: for each rule, the range of a figure over the seeds.
fn print_row(attack: &Attack, what: &str, figures: &[Figures], share: fn(&Figures, usize) -> f64) {
    let range = |rule| {
        let (least, most) = range(figures.iter().map(|figures| share(figures, rule)));
        format!("{least:.2}-{most:.2}")
    };
    let cells = (0..RULES.len()).map(|rule| format!("{} {:<15}", RULES[rule], range(rule))).collect::<String>();
    println!("{:<28}{what:<12}{cells}", attack.name);
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(value), most.max(value)))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[test]
fn without_attack_half_of_the_spam_is_caught_and_no_ham() {
    let figures = figures(&NONE);
    print_row(&NONE, "coverage %", &figures, Figures::coverage);
    print_row(&NONE, "ham %", &figures, Figures::ham_share);
    let hours = figures.iter().flat_map(|figures| figures.hours_to_list.iter().copied()).collect();
    println!("median hours from the start of a campaign to its listing: {:.1}", median(hours));
    for figures in &figures {
        assert!(figures.coverage(BLOCK) >= 44.0);
        assert!(figures.ham_share(BLOCK) <= 0.05);
    }
}

#[test]
fn at_most_one_in_a_hundred_popular_newsletters_is_listed() {
    for attack in [NONE_PARETO, NONE_WIDE, FARMED_WIDE] {
        let figures = figures(&attack);
        print_row(&attack, "ham %", &figures, Figures::ham_share);
        print_row(&attack, "targets %", &figures, Figures::target_share);
        let hours = figures.iter().flat_map(|figures| figures.false_hours.iter().copied()).collect::<Vec<_>>();
        let forever = figures.iter().map(|figures| figures.false_forever).sum::<u64>();
        println!(
            "wrong listings revoked: {}, after {:.1} h (median); never revoked: {forever}",
            hours.len(),
            median(hours)
        );
        assert!(figures.iter().all(|figures| figures.ham_share(BLOCK) < 1.0));
    }
}

#[test]
fn no_number_of_fresh_identities_lists_a_target() {
    for attack in FRESH {
        assert_no_target_is_listed(&attack);
    }
}

#[test]
fn patience_alone_lists_no_target() {
    for attack in FARMED {
        assert_no_target_is_listed(&attack);
    }
}

fn assert_no_target_is_listed(attack: &Attack) {
    let figures = figures(attack);
    print_row(attack, "targets %", &figures, Figures::target_share);
    for figures in &figures {
        assert!(figures.targets > 0);
        assert_eq!(figures.targets_listed[BLOCK], 0, "{}", attack.name);
    }
}

#[test]
fn revokers_reduce_coverage_only_a_little() {
    for attack in REVOKERS {
        let figures = figures(&attack);
        print_row(&attack, "coverage %", &figures, Figures::coverage);
        assert!(figures.iter().all(|figures| figures.coverage(BLOCK) >= 32.0), "{}", attack.name);
    }
}

#[test]
fn trust_by_echoing_takes_days() {
    let traffic = Traffic::new(1, &FARMED[1]);
    let attackers = &traffic.reporters[traffic.reporters.len() - FARMED[1].identities..];
    let mut weights = Vec::new();
    Run::new(&traffic).play(|run, now| {
        let weight = |reporter: &Reporter| run.trust.reporter(now, reporter.id).map_or(0.0, |view| view.weight);
        weights.push(attackers.iter().map(weight).sum::<f64>() / attackers.len() as f64);
    });
    let gained = [1, 3, 4, 5, 7, 10, 15, 30].map(|day| format!("day {day}: {:.2}", weights[day])).join(", ");
    println!("mean weight of 100 farmed identities: {gained}; two weeks into the attack: {:.2}", weights[44]);
    assert_eq!(weights[2], 0.0, "no claim is settled earlier");
    assert!(weights[44] < weights[30]);
}

#[test]
fn a_single_mistake_is_forgiven_within_days() {
    const SITES: std::ops::Range<u32> = 0..20;
    let mut days = Vec::new();
    for seed in SEEDS {
        let mut traffic = Traffic::new(seed, &NONE);
        traffic.add_mistakes(SITES, 25);
        assert!(SITES.len() < HONEST);
        let mut weights = vec![Vec::new(); SITES.len()];
        let mut run = Run::new(&traffic);
        run.play(|run, now| {
            for (site, weights) in SITES.zip(&mut weights) {
                weights.push(run.trust.reporter(now, site.into()).map_or(0.0, |view| view.weight));
            }
        });
        // Some of the sites make further mistakes, which the traffic draws at random.
        let end = day_start(DAYS);
        let is_single = |site: &u32| run.trust.reporter(end, (*site).into()).is_some_and(|view| view.refuted == 1);
        let single = SITES.filter(is_single).map(|site| days_to_forgive(&weights[site as usize][27..]));
        days.extend(single);
    }
    let (least, most) = range(days.iter().copied());
    println!(
        "days until a mistake is forgiven ({} sites): {least} to {most}, median {}",
        days.len(),
        median(days.clone())
    );
    assert!(median(days) <= 14.0);
}

/// Returns the number of days from the settlement of a mistake until the weight has recovered to 90 % of its earlier
/// value.
fn days_to_forgive(weights: &[f64]) -> f64 {
    let fell = weights.iter().position(|&weight| weight < 0.9 * weights[0]).unwrap_or_default();
    let back = weights.iter().skip(fell).position(|&weight| weight >= 0.9 * weights[0]);
    back.map_or(f64::INFINITY, |days| days as f64)
}

#[test]
fn a_flood_of_strangers_evicts_only_strangers() {
    let mut trust = Trust::new(Policy::default(), 1 << 20);
    let (_, room) = trust.fill();
    let now = day_start(SCORED_FROM_DAY);
    let mut claim = |id: u64, standing, item: u64| {
        let reporter = Reporter { id, standing, group: id };
        trust.claim(Time(now.0), &reporter, fingerprint(item as u32), Claim::Report, Listing::default(), true)
    };
    let honest = room / 2;
    (0..honest).for_each(|item| _ = claim(item % 100, Standing::Account, item).expect("room"));
    let flood = honest..honest + 100 * room;
    let refused = flood.clone().filter(|&item| claim(item, Standing::Stranger, item).is_err()).count();
    let kept = (0..honest).filter(|&item| trust.assess(&fingerprint(item as u32)).is_some()).count() as u64;
    println!("{} strangers, {refused} refused; {kept} of {honest} entries of accounts kept", flood.end - flood.start);
    assert_eq!(kept, honest);
    let busy = Reporter { id: 7, standing: Standing::Stranger, group: 7 };
    let quota = u64::from(trust.policy().stranger_inserts_daily);
    let mut again = (0..=quota)
        .map(|n| trust.claim(now, &busy, fingerprint((flood.end + n) as u32), Claim::Report, Listing::default(), true));
    assert_eq!(again.find_map(Result::err), Some(NurseryRefusal::Quota { again: day_start(SCORED_FROM_DAY + 1) }));
}
