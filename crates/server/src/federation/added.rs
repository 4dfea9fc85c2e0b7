//! Peers that an administrator added while the server ran, over the API or on the dashboard.
//!
//! They are kept in `peers.toml` in the data directory, as `[[peers]]` with the four settings that an added peer has. The
//! file is replaced as a whole and synced before a change is acknowledged, so it survives a crash. The configuration
//! takes precedence. If a configured peer has the same name and the same key, the added one is dropped. If only the
//! name or only the key is the same, the added one stays in the file, but has no effect.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bruit_engine::exchange::Relation;
use bruit_store::PEERS_FILE;

use super::links::FederationError;
use crate::config::{ConfigError, PEERS_MAX, PeerSettings, added_peers};

/// Maximum length of the file, enough for the maximum number of peers with the longest names and URLs.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The first lines of the file.
const COMMENT: &str = "# Peers added on the dashboard or with `bruit peers add`. The server writes this file.\n";

/// The file with the added peers is unusable.
#[derive(Debug, thiserror::Error)]
#[error("failed to read {}, which has the peers added at run time", .file.display())]
pub struct AddedPeersError {
    file: PathBuf,
    #[source]
    source: ConfigError,
}

/// The reason why a peer was not added or removed.
#[derive(Debug)]
pub(crate) enum PeerChangeError {
    /// The peer contradicts another one, or there are too many.
    Conflict(String),
    /// The file cannot be written.
    Disk(io::Error),
    /// The exchange with other servers refused the change.
    Exchange(FederationError),
}

/// The added peers.
#[derive(Debug, Default)]
pub(crate) struct AddedPeers(Mutex<Peers>);

#[derive(Debug, Default)]
struct Peers {
    directory: PathBuf,
    configured: Vec<PeerSettings>,
    added: Vec<PeerSettings>,
}

impl AddedPeers {
    /// Reads the file in `directory`. Returns all peers.
    pub(crate) fn load(
        &self,
        directory: &Path,
        configured: &[PeerSettings],
    ) -> Result<Vec<PeerSettings>, AddedPeersError> {
        let file = directory.join(PEERS_FILE);
        let added = read(&file).map_err(|source| AddedPeersError { file, source })?;
        let mut peers = self.lock();
        *peers = Peers { directory: directory.to_owned(), configured: configured.to_vec(), added };
        peers.drop_configured();
        Ok(peers.all())
    }

    /// Replaces the configured peers, and has `apply` put all peers into effect.
    pub(crate) fn configure<T>(&self, configured: &[PeerSettings], apply: impl FnOnce(Vec<PeerSettings>) -> T) -> T {
        let mut peers = self.lock();
        peers.configured = configured.to_vec();
        peers.drop_configured();
        apply(peers.all())
    }

    /// Adds a peer, and has `apply` put all peers into effect. If that fails, the peer is removed again.
    pub(crate) fn add(
        &self,
        new: PeerSettings,
        apply: impl Fn(Vec<PeerSettings>) -> Result<(), FederationError>,
    ) -> Result<(), PeerChangeError> {
        let mut peers = self.lock();
        peers.check(&new)?;
        let before = peers.added.clone();
        peers.added.push(PeerSettings { is_added: true, ..new });
        peers.change(before, apply)
    }

    /// Removes an added peer, and has `apply` put the other peers into effect. What was learned from the peer stays.
    pub(crate) fn remove(
        &self,
        name: &str,
        apply: impl Fn(Vec<PeerSettings>) -> Result<(), FederationError>,
    ) -> Result<(), PeerChangeError> {
        let mut peers = self.lock();
        let Some(at) = peers.added.iter().position(|peer| peer.name == name) else {
            let text = match peers.configured.iter().any(|peer| peer.name == name) {
                true => "this peer is in the configuration file: remove it there",
                false => "no such peer",
            };
            return Err(PeerChangeError::Conflict(text.to_owned()));
        };
        let before = peers.added.clone();
        peers.added.remove(at);
        peers.change(before, apply)
    }

    /// Locks the lists. Ignores poisoning, because a panic leaves them complete.
    fn lock(&self) -> MutexGuard<'_, Peers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Peers {
    /// Returns all peers: the configured ones, and the added ones that do not contradict them.
    fn all(&self) -> Vec<PeerSettings> {
        let mut all = self.configured.clone();
        for peer in &self.added {
            let is_known = all.iter().any(|other| other.name == peer.name || other.key == peer.key);
            if is_known || all.len() >= PEERS_MAX {
                tracing::warn!(
                    peer = peer.name,
                    "this added peer has no effect: the configuration has its name or key, or there are too many peers"
                );
            } else {
                all.push(peer.clone());
            }
        }
        all
    }

    /// Drops the added peers that are now in the configuration file. Otherwise, removing such a peer would leave the
    /// configured one in force.
    fn drop_configured(&mut self) {
        let configured = &self.configured;
        let is_configured =
            |peer: &PeerSettings| configured.iter().any(|other| other.name == peer.name && other.key == peer.key);
        let (dropped, added): (Vec<_>, Vec<_>) = self.added.drain(..).partition(is_configured);
        self.added = added;
        if dropped.is_empty() {
            return;
        }
        for peer in dropped {
            tracing::info!(peer = peer.name, "the configuration has this added peer now; removing it from peers.toml");
        }
        if let Err(error) = write(&self.directory, &self.added) {
            tracing::warn!(%error, "failed to write peers.toml; trying again at the next reload or start");
        }
    }

    fn check(&self, new: &PeerSettings) -> Result<(), PeerChangeError> {
        let refuse = |text: String| Err(PeerChangeError::Conflict(text));
        let others = || self.configured.iter().chain(&self.added);
        if others().any(|other| other.name == new.name) {
            return refuse(format!("another peer has the name {}", new.name));
        }
        if let Some(other) = others().find(|other| other.key == new.key) {
            return refuse(format!("the peer {} has the same key", other.name));
        }
        if others().count() >= PEERS_MAX {
            return refuse(format!("there are already {PEERS_MAX} peers, which is the maximum: remove one first"));
        }
        Ok(())
    }

    /// Writes the list and applies it. After a failure, restores the list `before`.
    fn change(
        &mut self,
        before: Vec<PeerSettings>,
        apply: impl Fn(Vec<PeerSettings>) -> Result<(), FederationError>,
    ) -> Result<(), PeerChangeError> {
        let written = write(&self.directory, &self.added).map_err(PeerChangeError::Disk);
        let result = written.and_then(|()| apply(self.all()).map_err(PeerChangeError::Exchange));
        let Err(error) = result else { return Ok(()) };
        self.added = before;
        // Even a write that failed may have replaced the file: the sync of the directory comes after that.
        if let Err(error) = write(&self.directory, &self.added) {
            tracing::warn!(%error, "failed to restore peers.toml; the failed change may take effect at the next start");
        }
        if !matches!(error, PeerChangeError::Disk(_)) {
            let _ = apply(self.all());
        }
        Err(error)
    }
}

fn read(file: &Path) -> Result<Vec<PeerSettings>, ConfigError> {
    let failed = |source| ConfigError::Read { file: file.to_owned(), source };
    match fs::metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
        Ok(metadata) if metadata.len() > FILE_BYTES_MAX => return Err(ConfigError::TooLong(file.to_owned())),
        Ok(_) => {}
    }
    added_peers(&fs::read_to_string(file).map_err(failed)?)
}

/// Replaces the file, and syncs it and its directory.
fn write(directory: &Path, added: &[PeerSettings]) -> io::Result<()> {
    let unfinished = directory.join(format!("{PEERS_FILE}.new"));
    // Remove the file that an interrupted attempt may have left. A symbolic link planted here is removed, not followed.
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
    out.write_all(text(added).as_bytes())?;
    out.sync_all()?;
    fs::rename(&unfinished, directory.join(PEERS_FILE))?;
    File::open(directory)?.sync_all()
}

/// Returns the contents of the file. Names, keys and URLs of added peers contain no character that TOML escapes.
fn text(added: &[PeerSettings]) -> String {
    let section = |peer: &PeerSettings| {
        let url = peer.url.as_ref().map_or_else(String::new, |url| format!("url = \"{url}\"\n"));
        let relation = if peer.relation == Relation::Cluster { "cluster" } else { "peer" };
        format!("\n[[peers]]\nname = \"{}\"\n{url}key = \"{}\"\nrelation = \"{relation}\"\n", peer.name, peer.key)
    };
    added.iter().fold(COMMENT.to_owned(), |text, peer| text + section(peer).as_str())
}

#[cfg(test)]
mod tests {
    use bruit_federation::keys::NodeKey;

    use super::*;
    use crate::config::{Config, NewPeerFields, new_peer};

    fn peer(number: u8) -> PeerSettings {
        let key = NodeKey::generate([number; 32]).public().to_string();
        let (name, url) = (format!("p{number}"), Some("https://127.0.0.1:8626".to_owned()));
        new_peer(NewPeerFields { name, url, key, relation: "peer".to_owned() }).unwrap()
    }

    fn names(peers: &[PeerSettings]) -> Vec<&str> {
        peers.iter().map(|peer| &*peer.name).collect()
    }

    /// Returns a function that asserts the names of the peers that it puts into effect.
    fn expect(expected: &[&str]) -> impl Fn(Vec<PeerSettings>) -> Result<(), FederationError> {
        move |all| {
            assert_eq!(names(&all), expected);
            Ok(())
        }
    }

    fn conflict(result: Result<(), PeerChangeError>) -> String {
        match result {
            Err(PeerChangeError::Conflict(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn added_peers_are_there_after_a_restart_until_they_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let configured = [peer(1)];
        let peers = AddedPeers::default();
        assert_eq!(names(&peers.load(folder.path(), &configured).unwrap()), ["p1"]);
        peers.add(peer(2), expect(&["p1", "p2"])).unwrap();
        peers.add(PeerSettings { url: None, relation: Relation::Cluster, ..peer(3) }, |_| Ok(())).unwrap();
        let again = AddedPeers::default();
        let all = again.load(folder.path(), &configured).unwrap();
        assert_eq!(names(&all), ["p1", "p2", "p3"]);
        assert_eq!(all[1], PeerSettings { is_added: true, ..peer(2) });
        assert_eq!((&all[2].url, all[2].relation), (&None, Relation::Cluster));
        again.remove("p2", expect(&["p1", "p3"])).unwrap();
        assert_eq!(names(&AddedPeers::default().load(folder.path(), &[]).unwrap()), ["p3"]);
        assert!(
            matches!(again.remove("p1", |_| Ok(())), Err(PeerChangeError::Conflict(text)) if text.contains("file"))
        );
        assert!(
            matches!(again.remove("p2", |_| Ok(())), Err(PeerChangeError::Conflict(text)) if text == "no such peer")
        );
    }

    #[test]
    fn names_and_keys_are_unique_and_there_are_so_many_peers_and_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let peers = AddedPeers::default();
        peers.load(folder.path(), &[peer(0)]).unwrap();
        assert!(conflict(peers.add(peer(0), |_| Ok(()))).contains("another peer has the name p0"));
        let renamed = PeerSettings { name: "other".into(), ..peer(0) };
        assert!(conflict(peers.add(renamed, |_| Ok(()))).contains("p0 has the same key"));
        (1..PEERS_MAX as u8).for_each(|number| peers.add(peer(number), |_| Ok(())).unwrap());
        assert!(conflict(peers.add(peer(200), |_| Ok(()))).contains("already 128 peers"));
        let more = [peer(0), peer(201)];
        assert_eq!(peers.configure(&more, |all| all).len(), PEERS_MAX, "the configuration takes precedence");
    }

    #[test]
    fn a_change_that_fails_leaves_everything_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let peers = AddedPeers::default();
        peers.load(folder.path(), &[]).unwrap();
        let refused = peers.add(peer(1), |all| match all.is_empty() {
            true => Ok(()),
            false => Err(FederationError::Begin("refused".into())),
        });
        assert!(matches!(refused, Err(PeerChangeError::Exchange(_))), "{refused:?}");
        assert_eq!(peers.configure(&[], |all| all), []);
        assert_eq!(AddedPeers::default().load(folder.path(), &[]).unwrap(), []);
        let gone = folder.path().join("gone");
        peers.load(&gone, &[]).unwrap();
        assert!(matches!(peers.add(peer(1), |_| Ok(())), Err(PeerChangeError::Disk(_))));
    }

    #[test]
    fn an_added_peer_that_moved_to_the_configuration_is_dropped() {
        // It stayed in peers.toml, and removing it was acknowledged although the configured peer stayed in force.
        let folder = tempfile::tempdir().unwrap();
        let added = || AddedPeers::default().load(folder.path(), &[]).unwrap();
        let peers = AddedPeers::default();
        peers.load(folder.path(), &[]).unwrap();
        (1..=4).for_each(|number| peers.add(peer(number), |_| Ok(())).unwrap());
        assert_eq!(names(&peers.configure(&[peer(1)], |all| all)), ["p1", "p2", "p3", "p4"]);
        assert_eq!(names(&added()), ["p2", "p3", "p4"]);
        let refused = conflict(peers.remove("p1", |_| Ok(())));
        assert!(refused.contains("in the configuration file"), "{refused}");
        AddedPeers::default().load(folder.path(), &[peer(2)]).unwrap();
        assert_eq!(names(&added()), ["p3", "p4"]);
        let renamed = PeerSettings { name: "p4".into(), ..peer(3) };
        assert_eq!(names(&AddedPeers::default().load(folder.path(), &[renamed]).unwrap()), ["p4"]);
        assert_eq!(names(&added()), ["p3", "p4"], "a contradiction is not resolved");
    }

    #[test]
    fn a_file_that_is_not_understood_is_named_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(PEERS_FILE);
        // Added peers have no setting `trust`, so the next change of the file would lose it.
        let unknown = format!("{}trust = \"pinned\"\n", text(&[peer(1)]));
        for contents in [
            "[[peers]]\nname = 1\n",
            "[razor]\n",
            "[[peers]]\nname = \"a\"\nkey = \"x\"\nrelation = \"peer\"\n",
            &unknown,
        ] {
            fs::write(&file, contents).unwrap();
            let error = AddedPeers::default().load(folder.path(), &[]).unwrap_err();
            assert!(error.to_string().contains("peers.toml"), "{error}");
            assert_eq!(fs::read_to_string(&file).unwrap(), contents);
        }
        assert!(Config::parse(&text(&[peer(1)])).is_ok(), "its sections can be moved to the configuration");
    }
}
