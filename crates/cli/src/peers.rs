//! `bruit peers`: shows the state of a server's exchange with its peers, adds and removes peers, and removes a peer's
//! data.

use std::io::{self, BufWriter, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use bruit_client::http::{NewPeer, PeerName, PeerStatus, Peers};
use bruit_engine::time::Time;
use serde_json::json;

use crate::claim::CLAIM_TIMEOUT;
use crate::remote::Server;
use bruit_console::Failure;
use bruit_console::date::moment;
use bruit_console::failure::bad_input;
use bruit_console::quantity::{grouped, human_bytes};
use bruit_console::terminal::printable;

/// Arguments of `bruit peers`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  bruit peers\n  bruit peers --json | jq '.peers[].state'\n  bruit peers forget node-3",
    args_conflicts_with_subcommands = true
)]
pub(crate) struct PeersArgs {
    #[command(subcommand)]
    verb: Option<PeersVerb>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: Server,
}

#[derive(Debug, clap::Subcommand)]
enum PeersVerb {
    /// Add a peer while the server runs
    #[command(after_help = ADD_HELP)]
    Add(AddArgs),
    /// Remove a peer that was added while the server ran
    #[command(after_help = REMOVE_HELP)]
    Remove(PeerArgs),
    /// Remove everything that a server listed, revoked and counted, here and on all nodes of the cluster
    #[command(after_help = FORGET_HELP)]
    Forget(NamedArgs),
    /// Stop requesting data from a peer until 'bruit peers resume' or a restart
    #[command(after_help = PAUSE_HELP)]
    Pause(PeerArgs),
    /// Request data from a paused peer again
    #[command(after_help = "Example:\n  bruit peers resume node-3")]
    Resume(PeerArgs),
    /// Accept the data of a forgotten server again
    #[command(after_help = "Example:\n  bruit peers restore node-3")]
    Restore(NamedArgs),
}

const ADD_HELP: &str = "\
Both servers need the other's public key and the same realm. The peer is kept in 'peers.toml' in the data directory of \
the server. Peers that need other settings, such as trust = \"pinned\", belong in the configuration.

Example:
  bruit peers add bruit.example.net --url https://bruit.example.net:8626 --key \"$(cat key.txt)\"";

const REMOVE_HELP: &str = "\
What was learned from the peer stays. To remove that, too, run 'bruit peers forget' first. To remove a peer \
that is in the configuration file, delete it there.

Example:
  bruit peers remove bruit.example.net";

const FORGET_HELP: &str = "\
Use this command after a break-in on that server. It returns once the decision is on disk. Then the books are rebuilt \
from the logs of all other servers. 'bruit peers' shows 'forgetting' until the rebuild is done, and 'forgotten' \
afterwards. The other nodes of the cluster learn of the decision and do the same. The forgotten server's data is \
refused, even if other servers pass it on, until 'bruit peers restore'.

Example:
  bruit peers forget node-3";

const PAUSE_HELP: &str = "\
Data received from the peer is kept. The peer can still request data from this server, and in a cluster other nodes \
pass its data on. Only peers with a url can be paused.

Example:
  bruit peers pause node-3";

#[derive(Debug, clap::Args)]
struct AddArgs {
    /// Local name of the peer
    name: String,

    /// URL to request its data from; without it, the peer can only read from this server
    #[arg(long)]
    url: Option<String>,

    /// Public key of the peer, as 'bruit keys show' prints it on that server
    #[arg(long)]
    key: String,

    /// Relation of the peer to this server
    #[arg(long, value_enum, default_value_t = RelationArg::Peer)]
    relation: RelationArg,

    #[command(flatten)]
    server: Server,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum RelationArg {
    /// A server of another operator
    Peer,
    /// Your own node; counts add up
    Cluster,
}

#[derive(Debug, clap::Args)]
struct PeerArgs {
    /// Name of the peer
    name: String,

    #[command(flatten)]
    server: Server,
}

#[derive(Debug, clap::Args)]
struct NamedArgs {
    /// Name of the peer, or public key of any server
    name: String,

    #[command(flatten)]
    server: Server,
}

fn add(given: &AddArgs, output: &mut impl Write) -> Result<(), Failure> {
    let relation = match given.relation {
        RelationArg::Peer => "peer",
        RelationArg::Cluster => "cluster",
    };
    let new = NewPeer {
        name: given.name.clone(),
        url: given.url.clone(),
        key: given.key.trim().to_owned(),
        relation: relation.to_owned(),
    };
    given.server.admin_client(CLAIM_TIMEOUT)?.add_peer(&new).map_err(bad_input)?;
    Ok(writeln!(output, "added; 'bruit peers' shows its state")?)
}

fn remove(named: &PeerArgs, output: &mut impl Write) -> Result<(), Failure> {
    let peer = PeerName { peer: named.name.clone() };
    named.server.admin_client(CLAIM_TIMEOUT)?.remove_peer(&peer).map_err(bad_input)?;
    Ok(writeln!(output, "removed")?)
}

fn change(named: &NamedArgs, is_forgotten: bool, output: &mut impl Write) -> Result<(), Failure> {
    let client = named.server.admin_client(CLAIM_TIMEOUT)?;
    let peer = PeerName { peer: named.name.clone() };
    let done = if is_forgotten { client.forget_peer(&peer) } else { client.restore_peer(&peer) }.map_err(bad_input)?;
    let text = match (is_forgotten, done.changed) {
        (true, true) => "forgetting begins; 'bruit peers' on each node shows when it is done",
        (true, false) => "already forgotten",
        (false, true) => "accepted again",
        (false, false) => "not forgotten",
    };
    Ok(writeln!(output, "{text}")?)
}

fn pause(named: &PeerArgs, is_paused: bool, output: &mut impl Write) -> Result<(), Failure> {
    let client = named.server.admin_client(CLAIM_TIMEOUT)?;
    let peer = PeerName { peer: named.name.clone() };
    let done = if is_paused { client.pause_peer(&peer) } else { client.resume_peer(&peer) }.map_err(bad_input)?;
    let text = match (is_paused, done.changed) {
        (true, true) => "paused until 'bruit peers resume' or a restart",
        (true, false) => "already paused",
        (false, true) => "resumed",
        (false, false) => "not paused",
    };
    Ok(writeln!(output, "{text}")?)
}

pub(crate) fn run(arguments: &PeersArgs, output: &mut impl Write) -> Result<(), Failure> {
    match &arguments.verb {
        Some(PeersVerb::Add(given)) => return add(given, output),
        Some(PeersVerb::Remove(named)) => return remove(named, output),
        Some(PeersVerb::Forget(named)) => return change(named, true, output),
        Some(PeersVerb::Restore(named)) => return change(named, false, output),
        Some(PeersVerb::Pause(named)) => return pause(named, true, output),
        Some(PeersVerb::Resume(named)) => return pause(named, false, output),
        None => {}
    }
    let peers = arguments.server.admin_client(CLAIM_TIMEOUT)?.peers().map_err(bad_input)?;
    let mut output = BufWriter::new(output);
    if arguments.json {
        writeln!(output, "{:#}", json!(peers))?;
    } else {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        print(&peers, now, &mut output)?;
    }
    Ok(output.flush()?)
}

fn print(peers: &Peers, now: u64, output: &mut impl Write) -> io::Result<()> {
    writeln!(output, "key of this server: {}", printable(&peers.key))?;
    if peers.peers.is_empty() {
        return writeln!(
            output,
            "\nno other servers: add one with 'bruit peers add', or add [[peers]] to the configuration"
        );
    }
    let head = ["relation", "by", "state", "behind", "for", "clock", "in", "out", "learned", "equal"];
    let [relation, by, state, behind, duration, clock, bytes_in, bytes_out, learned, equal] = head;
    writeln!(
        output,
        "\n{:20}  {relation:8}  {by:5}  {state:13}  {behind:>8}  {duration:>5}  {clock:>6}  {bytes_in:>10}  {bytes_out:>10}  \
         {learned:>12}  {equal}",
        "peer"
    )?;
    peers.peers.iter().try_for_each(|peer| print_peer(peer, now, output))?;
    peers.peers.iter().try_for_each(|peer| print_troubles(peer, output))
}

fn print_peer(peer: &PeerStatus, now: u64, output: &mut impl Write) -> io::Result<()> {
    let [name, relation, transport, state] =
        [&peer.name, &peer.relation, &peer.transport, &peer.state.replace('_', " ")].map(|text| printable(text));
    let equal = peer
        .last_digest_match
        .map_or_else(|| "never".to_owned(), |time| format!("{} ago", shown_span(now.saturating_sub(time))));
    writeln!(
        output,
        "{name:20}  {relation:8}  {transport:5}  {state:13}  {:>8}  {:>5}  {:>6}  {:>10}  {:>10}  {:>12}  {equal}",
        grouped(peer.lag_segments),
        shown_span(peer.lag_seconds),
        peer.clock_skew_seconds.map_or_else(|| "?".to_owned(), shown_skew),
        human_bytes(peer.bytes_in),
        human_bytes(peer.bytes_out),
        grouped(peer.signatures_learned),
    )
}

/// Prints the problems that may need the operator's attention.
fn print_troubles(peer: &PeerStatus, output: &mut impl Write) -> io::Result<()> {
    let name = printable(&peer.name);
    for refused in &peer.refused {
        let reason = printable(&refused.reason);
        writeln!(output, "{name}: segments refused ({reason}): {}", grouped(refused.count))?;
    }
    if peer.bytes_refused > 0 {
        writeln!(output, "{name}: {} of its segments were refused", human_bytes(peer.bytes_refused))?;
    }
    match trouble(peer) {
        Some(text) => writeln!(output, "{name}: {}", printable(&text)),
        None => Ok(()),
    }
}

/// Describes a peer's problem in a sentence.
fn trouble(peer: &PeerStatus) -> Option<String> {
    let reason = peer.reason.as_deref().unwrap_or("no reason given");
    match &*peer.state {
        "behind" => Some(format!("behind by {} segments", grouped(peer.lag_segments))),
        "silent" => Some(format!("silent since {}: its heads no longer change", moment(Time(peer.since)))),
        "clock_differs" => {
            let skew = peer.clock_skew_seconds.unwrap_or(0);
            let which = if skew < 0 { "behind" } else { "ahead of" };
            Some(format!("its clock is {} {which} this server's", shown_span(skew.unsigned_abs())))
        }
        "refused" => Some(format!("refused: {reason}")),
        "unreachable" => Some(format!("unreachable since {}: {reason}", moment(Time(peer.since)))),
        "forgetting" => Some("its data is being removed".to_owned()),
        "forgotten" => Some("forgotten: its data is refused until 'bruit peers restore'".to_owned()),
        "paused" => Some("paused: not queried until 'bruit peers resume' or a restart".to_owned()),
        "not_asked" => Some("not queried: no URL and no broker configured".to_owned()),
        _ => None,
    }
}

/// Formats a clock difference: `+3s`, `-40d`.
fn shown_skew(seconds: i64) -> String {
    let sign = if seconds < 0 { '-' } else { '+' };
    format!("{sign}{}", shown_span(seconds.unsigned_abs()))
}

/// Formats a span of time: `5s`, `3m`, `2h`, `4d`.
fn shown_span(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds}s"),
        120..=7_199 => format!("{}m", seconds / 60),
        7_200..=172_799 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use bruit_client::http::RefusedSegments;

    use super::*;

    fn peer() -> PeerStatus {
        PeerStatus {
            name: "example.org".into(),
            relation: "peer".into(),
            transport: "https".into(),
            state: "up_to_date".into(),
            clock_skew_seconds: Some(-90_000),
            lag_segments: 1_234,
            lag_seconds: 3,
            signatures_learned: 20_000,
            last_digest_match: Some(940),
            ..PeerStatus::default()
        }
    }

    fn shown(peer: PeerStatus) -> String {
        let mut output = Vec::new();
        print(&Peers { key: "abc".into(), peers: vec![peer] }, 1_000, &mut output).unwrap();
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn a_row_contains_the_lag_of_a_peer() {
        let text = shown(peer());
        let row: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(row[..9], ["example.org", "peer", "https", "up", "to", "date", "1,234", "3s", "-25h"]);
        assert!(text.trim_end().ends_with("20,000  60s ago"), "{text}");
    }

    #[test]
    fn problems_are_printed_below_and_cannot_control_a_terminal() {
        let refused = vec![RefusedSegments { reason: "signature".into(), count: 2 }];
        let reason = Some("\x1b[2J".into());
        let text = shown(PeerStatus { refused, bytes_refused: 3 << 20, state: "refused".into(), reason, ..peer() });
        assert!(text.contains("example.org: 3.0 MiB of its segments were refused"), "{text}");
        assert!(text.contains("segments refused (signature): 2") && text.contains("u{1b}") && !text.contains('\x1b'));
    }

    #[test]
    fn problems_are_printed_below_the_table() {
        let said = |state: &str| {
            let peer = PeerStatus { state: state.into(), since: 86_400, reason: Some("no route".into()), ..peer() };
            shown(peer).lines().last().unwrap().to_owned()
        };
        assert_eq!(said("behind"), "example.org: behind by 1,234 segments");
        assert_eq!(said("silent"), "example.org: silent since 1970-01-02 00:00:00: its heads no longer change");
        assert_eq!(said("clock_differs"), "example.org: its clock is 25h behind this server's");
        assert_eq!(said("refused"), "example.org: refused: no route");
        assert_eq!(said("unreachable"), "example.org: unreachable since 1970-01-02 00:00:00: no route");
        assert!(said("up_to_date").contains("60s ago"));
    }

    #[test]
    fn spans_have_a_suitable_unit() {
        let spans = [0, 119, 120, 7_199, 7_200, 172_799, 172_800].map(shown_span);
        assert_eq!(spans, ["0s", "119s", "2m", "119m", "2h", "47h", "2d"]);
    }
}
