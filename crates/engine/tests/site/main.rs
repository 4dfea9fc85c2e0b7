//! A mail site simulated for a month, with the code that runs in a server.
//!
//! Newsletters, shops and people write to the people of the site. Campaigns copy logos, templates, threads, footers and
//! files from that mail. People report some of the spam that they receive, and sometimes good mail by mistake. They
//! revoke some of the good mail that is called spam. `docs/precision.md` presents the figures and their meaning. To
//! print them: `cargo test --release -p bruit-engine --test site -- --ignored --nocapture`.

#![expect(clippy::print_stdout, reason = "the tests exist to print figures")]

mod campaigns;
mod mail;
mod people;
mod results;
mod rule;
mod senders;
mod words;
mod world;

use campaigns::Trick;
use results::{Cause, Results, Tally, table};
use world::{Setup, run};

const FULL: Setup = Setup {
    seed: 1,
    days: 30,
    people: 500,
    senders: 100,
    campaigns: 50,
    copies: 200..500,
    mistaken_share: 0.01,
    own_reports_needed: 1,
};
const SMALL: Setup =
    Setup { days: 5, people: 60, senders: 12, campaigns: 20, copies: 40..60, mistaken_share: 0.1, ..FULL };
const SEEDS: std::ops::RangeInclusive<u64> = 1..=3;

#[test]
fn spam_is_caught_and_the_mail_it_copied_is_not() {
    let results = run(&SMALL);
    for wrong in &results.wrong {
        let is_expected = match wrong.cause {
            Cause::SameText | Cause::SameSender | Cause::OtherSender => true,
            // The copies are so close to the original that no rule based on the text can distinguish them.
            Cause::Spam(trick) => matches!(trick, Trick::Template(60 | 80)),
        };
        assert!(is_expected, "{wrong:?}");
        assert!(wrong.people > 1 || wrong.confidence < 90, "{wrong:?}");
    }
    let alike = results.campaigns.values().filter(|campaign| !campaign.is_varied);
    let alike = alike.map(|campaign| campaign.after_first).fold(Tally::default(), Tally::plus);
    assert!(alike.received > 100 && alike.share() >= 0.95, "{alike:?}");
    // In the small setup, a tenth of the reports are mistaken. This is ten times the share in the full setup.
    let good = results.good.values().copied().fold(Tally::default(), Tally::plus);
    assert!(good.received > 300 && good.share() <= 0.02, "{good:?}");
    println!("{}", table(&[results]));
}

#[test]
#[ignore = "prints the figures for docs/precision.md; takes minutes even in a release build"]
fn a_month_at_a_site() {
    for own_reports_needed in [1, 2] {
        let runs: Vec<Results> = std::thread::scope(|scope| {
            let setup = |seed| Setup { seed, own_reports_needed, ..FULL };
            let threads = SEEDS.map(|seed| scope.spawn(move || run(&setup(seed)))).collect::<Vec<_>>();
            threads.into_iter().map(|thread| thread.join().expect("a run ends")).collect()
        });
        println!("own_reports_needed = {own_reports_needed}, seeds {SEEDS:?}\n{}", table(&runs));
    }
}
