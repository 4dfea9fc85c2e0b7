//! The programs of mail sites that the server has seen: milters, watchers of Maildirs, spools and replicas.
//!
//! Most of them describe themselves in the header field `Bruit-Site`. Replicas do not: they are recognised by their
//! requests. The list is for the operator only and is kept in memory. Strangers are left out, so they can neither fill
//! the list nor add false entries to it.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use bruit_engine::time::Time;
use bruit_protocols::http::{Site, SiteProgram, SiteState, Sites};

/// Maximum number of programs. When the list is full, a new program replaces the one that was seen longest ago.
/// Programs without a token are replaced first.
pub(crate) const SITES_MAX: usize = 256;

/// Maximum length of a version.
const VERSION_BYTES_MAX: usize = 32;

/// Time after which a program counts as silent. Programs that run make requests at least every 60 seconds.
pub(crate) const SILENT_SECONDS: u64 = 600;

/// The programs seen since the start.
#[derive(Debug, Default)]
pub(crate) struct SeenSites(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    rows: Vec<Row>,
    dropped: u64,
}

/// A program as seen by its requests.
#[derive(Debug)]
struct Row {
    program: SiteProgram,
    name: Option<String>,
    address: IpAddr,
    version: Option<String>,
    first_seen: Time,
    last_seen: Time,
    requests: u64,
    spooled: Option<u64>,
    unchecked: Option<u64>,
}

/// The sender of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender<'a> {
    /// Name of the token or local user, if there is one.
    pub(crate) name: Option<&'a str>,
    pub(crate) address: IpAddr,
    /// The header field `User-Agent`.
    pub(crate) agent: &'a str,
}

impl SeenSites {
    /// Notes a request of a program.
    pub(crate) fn note(&self, state: SiteState, sender: Sender<'_>, now: Time) {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = table.rows.iter().position(|row| row.is_of(state.program, &sender));
        let place = place.unwrap_or_else(|| table.add(Row::new(state.program, &sender, now)));
        let Some(row) = table.rows.get_mut(place) else { return };
        row.last_seen = row.last_seen.max(now);
        row.requests += 1;
        row.version = version(sender.agent);
        (row.spooled, row.unchecked) = (state.spooled, state.unchecked);
    }

    /// Returns the programs, most recently seen first.
    pub(crate) fn list(&self) -> Sites {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sites: Vec<Site> = table.rows.iter().map(Row::site).collect();
        sites.sort_by(|a, b| b.last_seen.cmp(&a.last_seen).then_with(|| a.address.cmp(&b.address)));
        Sites { sites, dropped: table.dropped }
    }
}

impl Table {
    /// Adds a row, and returns its place.
    fn add(&mut self, row: Row) -> usize {
        if self.rows.len() >= SITES_MAX
            // Drop programs without a token first, because one machine can appear under many addresses.
            && let Some((place, _)) =
                self.rows.iter().enumerate().min_by_key(|(_, row)| (row.name.is_some(), row.last_seen))
        {
            self.rows.swap_remove(place);
            if self.dropped == 0 {
                tracing::warn!(
                    sites_max = SITES_MAX,
                    "the list of mail sites is full; the oldest are dropped from now on"
                );
            }
            self.dropped += 1;
        }
        self.rows.push(row);
        self.rows.len() - 1
    }
}

impl Row {
    fn new(program: SiteProgram, sender: &Sender<'_>, now: Time) -> Self {
        Self {
            program,
            name: sender.name.map(str::to_owned),
            address: sender.address,
            version: None,
            first_seen: now,
            last_seen: now,
            requests: 0,
            spooled: None,
            unchecked: None,
        }
    }

    fn is_of(&self, program: SiteProgram, sender: &Sender<'_>) -> bool {
        self.program == program && self.address == sender.address && self.name.as_deref() == sender.name
    }

    fn site(&self) -> Site {
        Site {
            program: self.program,
            name: self.name.clone(),
            address: self.address.to_string(),
            version: self.version.clone(),
            first_seen: self.first_seen.0,
            last_seen: self.last_seen.0,
            requests: self.requests,
            spooled: self.spooled,
            unchecked: self.unchecked,
        }
    }
}

/// Returns the version in `bruit/1.2.3`.
fn version(agent: &str) -> Option<String> {
    let version = agent.strip_prefix("bruit/")?.split(' ').next()?;
    (1..=VERSION_BYTES_MAX).contains(&version.len()).then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(name: Option<&str>, last: u8) -> Sender<'_> {
        Sender { name, address: IpAddr::from([192, 0, 2, last]), agent: "bruit/1.2.3 (x)" }
    }

    #[test]
    fn requests_of_one_program_are_one_row_with_its_last_state() {
        let sites = SeenSites::default();
        let milter =
            |spooled| SiteState { spooled: Some(spooled), unchecked: Some(1), ..SiteState::of(SiteProgram::Milter) };
        sites.note(milter(5), sender(Some("mx"), 1), Time(100));
        sites.note(milter(2), sender(Some("mx"), 1), Time(160));
        sites.note(milter(0), sender(Some("mx"), 2), Time(130));
        sites.note(SiteState::of(SiteProgram::Replica), sender(Some("mx"), 1), Time(120));
        sites.note(milter(0), sender(None, 1), Time(110));
        let list = sites.list();
        let seen: Vec<u64> = list.sites.iter().map(|site| site.last_seen).collect();
        assert_eq!((seen, list.dropped), (vec![160, 130, 120, 110], 0));
        let first = &list.sites[0];
        assert_eq!((first.first_seen, first.requests, first.spooled, first.unchecked), (100, 2, Some(2), Some(1)));
        assert_eq!(
            (first.name.as_deref(), &*first.address, first.version.as_deref()),
            (Some("mx"), "192.0.2.1", Some("1.2.3"))
        );
    }

    #[test]
    fn a_full_list_drops_the_program_that_was_seen_longest_ago() {
        let sites = SeenSites::default();
        let names: Vec<String> = (0..=SITES_MAX).map(|number| format!("site {number}")).collect();
        for (at, name) in (0_u64..).zip(&names) {
            sites.note(SiteState::of(SiteProgram::Watch), sender(Some(name), 1), Time(at + u64::from(at == 0) * 1_000));
        }
        let list = sites.list();
        assert_eq!((list.sites.len(), list.dropped), (SITES_MAX, 1));
        let has = |name: &String| list.sites.iter().any(|site| site.name.as_ref() == Some(name));
        assert!(has(&names[0]) && !has(&names[1]) && has(&names[SITES_MAX]));
    }

    #[test]
    fn programs_without_a_token_do_not_push_out_those_with_one() {
        let sites = SeenSites::default();
        sites.note(SiteState::of(SiteProgram::Milter), sender(Some("mx"), 1), Time(0));
        for number in 0..2 * SITES_MAX {
            let [high, low] = (number as u16).to_be_bytes();
            let address = IpAddr::from([127, 0, high, low]);
            sites.note(SiteState::of(SiteProgram::Milter), Sender { name: None, address, agent: "" }, Time(1));
        }
        let list = sites.list();
        assert_eq!(list.sites.len(), SITES_MAX);
        assert!(list.sites.iter().any(|site| site.name.as_deref() == Some("mx")));
    }

    #[test]
    fn only_a_short_version_of_our_own_programs_is_kept() {
        assert_eq!(version("bruit/0.1.0").as_deref(), Some("0.1.0"));
        for agent in ["", "curl/8", "bruit/", &format!("bruit/{}", "1".repeat(33))] {
            assert_eq!(version(agent), None, "{agent}");
        }
    }
}
