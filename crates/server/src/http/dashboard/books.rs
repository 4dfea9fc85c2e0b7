//! Books: how full the rings and tables are, when generations end, and the capacity with more memory.

use axum::extract::State;
use bruit_engine::generations::LIVE_GENERATIONS;
use bruit_protocols::http::{Ring, Stats, Table};
use maud::{Markup, html};

use super::super::{Http, stats};
use super::failure::{Failure, capitalised};
use super::format::{duration, grouped, percent, size, time};
use super::page::{self, View};
use super::viewer::Viewer;

/// The budgets of the comparison, as multiples of the current one.
const MULTIPLES: [u64; 3] = [1, 2, 4];

/// Shows the books.
pub(super) async fn show(State(http): State<Http>, viewer: Viewer) -> Result<Markup, Failure> {
    let (stats, now) = http.compute(|service| Ok((stats::stats(service), service.now().0))).await?;
    let content = html! {
        section .card {
            h2 { "Rings" }
            p .hint {
                "A ring is a filter divided into generations. An entry stays for " (LIVE_GENERATIONS - 1) " to "
                (LIVE_GENERATIONS) " epochs and expires with its generation. Numbers are estimates."
            }
            (rings(&stats.rings))
        }
        section .card {
            h2 { "Generations" }
            @for ring in &stats.rings { (generations(ring, now)) }
        }
        (budgets(&stats))
        (tables(&stats.tables))
    };
    Ok(page::view(&viewer, View::Books, &content))
}

fn rings(rings: &[Ring]) -> Markup {
    html! {
        div .scroll tabindex="0" role="region" aria-label="Rings" {
            table {
                thead {
                    tr {
                        th scope="col" { "Ring" }
                        th .number scope="col" { "Entries" }
                        th .number scope="col" { "Planned per generation" }
                        th scope="col" { "Fullest generation" }
                        th .number scope="col" { "Error rate" }
                        th .number scope="col" { "Planned" }
                        th .number scope="col" { "Epoch" }
                        th .number scope="col" { "Memory" }
                    }
                }
                tbody {
                    @for ring in rings {
                        tr {
                            th scope="row" { (capitalised(&ring.name)) }
                            td .number { (grouped(entries(ring))) }
                            td .number { (grouped(ring.capacity)) }
                            td { (fill(&ring.name, ring.fill)) }
                            td .number { (percent(ring.error_rate)) }
                            td .number { (percent(ring.planned_rate)) }
                            td .number { (duration(ring.epoch_seconds)) }
                            td .number { (size(ring.bytes)) }
                        }
                    }
                }
            }
        }
    }
}

fn entries(ring: &Ring) -> u64 {
    ring.generations.iter().map(|generation| generation.signatures).sum()
}

/// Shows a share as a bar and a number.
fn fill(name: &str, share: f64) -> Markup {
    html! {
        meter min="0" max="1" high="0.9" value=(format!("{:.3}", share.clamp(0.0, 1.0))) aria-label=(format!("Fill of {name}")) {}
        " " (percent(share))
    }
}

/// Shows the generations of a ring, with their ends.
fn generations(ring: &Ring, now: u64) -> Markup {
    html! {
        details {
            summary { "Generations of the " (ring.name) }
            div .scroll tabindex="0" role="region" aria-label=(format!("Generations of the {}", ring.name)) {
                table {
                    thead {
                        tr {
                            th scope="col" { "Since" }
                            th .number scope="col" { "Entries" }
                            th scope="col" { "Ends" }
                        }
                    }
                    tbody {
                        @for generation in &ring.generations {
                            @let end = end(generation.since, ring.epoch_seconds);
                            tr {
                                td { (time(generation.since)) }
                                td .number { (grouped(generation.signatures)) }
                                td { (time(end)) " (in " (duration(end.saturating_sub(now))) ")" }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the time at which a generation ends.
const fn end(since: u64, epoch_seconds: u64) -> u64 {
    since.saturating_add(epoch_seconds.saturating_mul(LIVE_GENERATIONS))
}

/// Compares the capacities of larger budgets. At equal error rates, capacity is proportional to memory.
fn budgets(stats: &Stats) -> Markup {
    let window = |ring: &Ring, multiple| ring.capacity.saturating_mul(LIVE_GENERATIONS).saturating_mul(multiple);
    html! {
        section .card {
            h2 { "Capacity with more memory" }
            p .hint {
                "Entries in the whole window at the planned error rates. To raise the budget, set " code { "memory" }
                " in the configuration and restart; all data is kept. " code { "bruit plan" } " computes sizes for other \
                goals, and " code { "docs/operators/sizing.md" } " explains how to choose."
            }
            div .scroll tabindex="0" role="region" aria-label="Budgets" {
                table {
                    thead {
                        tr {
                            th scope="col" { "Ring" }
                            @for multiple in MULTIPLES {
                                th .number scope="col" {
                                    (size(stats.memory_budget_bytes.saturating_mul(multiple)))
                                    @if multiple == 1 { " (now)" }
                                }
                            }
                        }
                    }
                    tbody {
                        @for ring in &stats.rings {
                            tr {
                                th scope="row" { (capitalised(&ring.name)) }
                                @for multiple in MULTIPLES { td .number { (grouped(window(ring, multiple))) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn tables(tables: &[Table]) -> Markup {
    html! {
        section .card {
            h2 { "Tables" }
            p .hint {
                "Exact tables of bounded size. A full table drops its oldest entries, except the tables of accounts, \
                whitelists and good messages, which refuse new ones."
            }
            div .scroll tabindex="0" role="region" aria-label="Tables" {
                table {
                    thead {
                        tr {
                            th scope="col" { "Table" }
                            th .number scope="col" { "Entries" }
                            th .number scope="col" { "Capacity" }
                            th scope="col" { "Fill" }
                            th .number scope="col" { "Memory" }
                        }
                    }
                    tbody {
                        @for table in tables {
                            tr {
                                th scope="row" { (capitalised(&table.name)) }
                                td .number { (grouped(table.used)) }
                                td .number { (grouped(table.capacity)) }
                                td { (fill(&table.name, table.used as f64 / table.capacity.max(1) as f64)) }
                                td .number { (size(table.bytes)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bruit_engine::budget::{Capacities, Plan};
    use bruit_protocols::http::Generation;

    use super::*;

    #[test]
    fn capacity_is_proportional_to_memory() {
        let of = |bytes: u64| Capacities::per_generation(&Plan::for_budget(bytes).unwrap().sizes);
        let (one, four) = (of(64 << 20), of(256 << 20));
        for (one, four) in [(one.spam, four.spam), (one.revoked, four.revoked), (one.bulk, four.bulk)] {
            let ratio = four as f64 / one as f64;
            assert!((3.95..4.05).contains(&ratio), "{ratio}");
        }
    }

    #[test]
    fn a_generation_ends_after_its_last_epoch() {
        assert_eq!(end(1_000, 100), 1_700);
        let ring = Ring {
            name: "listed signatures".into(),
            epoch_seconds: 86_400,
            generations: vec![Generation { since: 0, signatures: 5 }],
            ..Ring::default()
        };
        let shown = generations(&ring, 6 * 86_400).into_string();
        assert!(shown.contains("(in 1 day)"), "{shown}");
        assert!(fill("x", 7.0).into_string().contains("value=\"1.000\""), "also if a ring is overfull");
    }
}
