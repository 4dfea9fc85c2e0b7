//! The names of reporters. The engine knows reporters by keyed hashes, so a name is found by hashing the names of all
//! accounts, tokens and peers.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use bruit_engine::Engine;
use bruit_engine::accounts::Account;
use bruit_engine::exchange::reporter_id;
use bruit_engine::trust::{Claim, Standing, VoteView};
use bruit_filters::FingerprintKey;
use bruit_protocols::http::SignatureReporter;

use super::accounts::standing_name;
use super::caller::{Caller, Right, local_users, token_id};
use crate::config::Settings;
use crate::sources::Source;
use bruit_store::ADMIN_TOKEN_FILE;

/// The names that may be shown to a caller.
pub(super) struct Names<'c> {
    settings: &'c Settings,
}

/// The name of a reporter, as far as this server knows it.
#[derive(Clone, Debug, Default)]
struct Name {
    kind: &'static str,
    protocol: Option<&'static str>,
    name: Option<String>,
}

/// The names of some reporters.
pub(super) struct ReporterNames {
    by_id: HashMap<u64, Name>,
    /// The names of tokens by group. The holder of a token may name persons, of whom only hashes are known.
    tokens: HashMap<u64, String>,
    local_users: u64,
    here: u64,
}

impl<'c> Names<'c> {
    /// Returns the names if the caller may see them.
    pub(super) fn for_caller(caller: &'c Caller) -> Option<Self> {
        caller.require(Right::Administer).is_ok().then(|| Self { settings: &caller.settings })
    }

    /// Finds the names of the reporters of these votes.
    pub(super) fn of<'v>(&self, engine: &Engine, votes: impl Iterator<Item = &'v VoteView>) -> ReporterNames {
        let key = engine.realm().key();
        let mut wanted: HashMap<u64, u64> = votes.map(|vote| (vote.reporter.id, vote.reporter.group)).collect();
        let (tokens, local_users) = (self.tokens(key), local_users(key));
        let here = Source { address: Ipv4Addr::LOCALHOST.into(), is_own: true }.reporter(key).id;
        let mut by_id = HashMap::new();
        for peer in &self.settings.peers {
            let id = reporter_id(peer.key.as_bytes());
            if wanted.remove(&id).is_some() {
                by_id.insert(id, Name { kind: "peer", protocol: None, name: Some(peer.name.clone()) });
            }
        }
        for (id, name) in &tokens {
            if wanted.remove(id).is_some() {
                by_id.insert(*id, Name { kind: "token", protocol: None, name: Some(name.clone()) });
            }
        }
        // The table of accounts may be large, so look only for reporters that can be accounts.
        wanted.retain(|id, group| *id != here && *group != local_users && !tokens.contains_key(group));
        for (name, account) in engine.accounts().iter() {
            if wanted.is_empty() {
                break;
            }
            let id = account.reporter_id(name, key);
            if wanted.remove(&id).is_some() {
                by_id.insert(id, Name::of_account(name, account));
            }
        }
        ReporterNames { by_id, tokens, local_users, here }
    }

    fn tokens(&self, key: &FingerprintKey) -> HashMap<u64, String> {
        let names = self.settings.http.tokens.iter().map(|token| &*token.name).chain([ADMIN_TOKEN_FILE]);
        names.map(|name| (token_id(name, key), name.to_owned())).collect()
    }
}

impl Name {
    fn of_account(name: &[u8], account: &Account) -> Self {
        let protocol = Some(account.credential.protocol().name());
        Self { kind: "account", protocol, name: Some(String::from_utf8_lossy(name).into_owned()) }
    }
}

impl ReporterNames {
    /// Describes a reporter's claim.
    pub(super) fn claim(&self, vote: &VoteView) -> SignatureReporter {
        let reporter = &vote.reporter;
        let Name { kind, protocol, name } = self.name(vote);
        SignatureReporter {
            kind: kind.to_owned(),
            protocol: protocol.map(str::to_owned),
            name,
            standing: standing_name(reporter.standing).to_owned(),
            group: format!("{:016x}", reporter.group),
            claim: if vote.claim == Claim::Report { "report" } else { "revoke" }.to_owned(),
            weight: vote.weight,
            overruled: vote.overruled,
        }
    }

    fn name(&self, vote: &VoteView) -> Name {
        let reporter = &vote.reporter;
        if let Some(name) = self.by_id.get(&reporter.id) {
            return name.clone();
        }
        if let Some(token) = self.tokens.get(&reporter.group) {
            return Name { kind: "person", protocol: None, name: Some(token.clone()) };
        }
        let kind = if reporter.group == self.local_users {
            "user"
        } else if reporter.id == self.here || (reporter.standing == Standing::Own && reporter.id == reporter.group) {
            // Of the own reporters, only addresses without an account have their ID as their group.
            "network"
        } else {
            "unknown"
        };
        Name { kind, ..Name::default() }
    }
}
