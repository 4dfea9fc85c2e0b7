//! Listening sockets.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::{Group, chown};

use crate::config::{Address, UnixSocket};
use crate::connection::Socket;

/// Maximum time to wake a listener.
const WAKE_TIME_MAX: Duration = Duration::from_secs(1);

/// A listening socket.
#[derive(Debug)]
pub(crate) enum Listener {
    Inet(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Listens on an address. Also returns the address, with the port that the system chose if `address` has port 0.
    ///
    /// # Errors
    /// If the address cannot be used, for example because another program listens there.
    pub(crate) fn bind(address: &Address) -> io::Result<(Self, Address)> {
        match address {
            Address::Inet(address) => {
                let listener = TcpListener::bind(address)?;
                let address = listener.local_addr()?;
                Ok((Self::Inet(listener), Address::Inet(address)))
            }
            Address::Unix(socket) => Ok((Self::Unix(bind_unix(socket)?), address.clone())),
        }
    }

    /// Waits for a connection.
    pub(crate) fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Inet(listener) => listener.accept().map(|(stream, _)| Socket::Inet(stream)),
            Self::Unix(listener) => listener.accept().map(|(stream, _)| Socket::Unix(stream)),
        }
    }
}

/// A socket file, identified by its device and inode.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    /// Returns the file of a listener that was just bound, if it has one.
    pub(crate) fn of(address: &Address) -> Option<Self> {
        let Address::Unix(socket) = address else { return None };
        let path = socket.path.clone();
        identity(&path).map(|identity| Self { path, identity })
    }

    /// Removes the file, unless another program has replaced it.
    pub(crate) fn remove(&self) {
        if identity(&self.path) == Some(self.identity) {
            // Another program may have removed it since.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Returns the device and the inode of a file.
fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// Wakes the thread that waits at this address.
pub(crate) fn wake(address: &Address) {
    // If this fails, no thread is waiting there any more.
    match address {
        Address::Inet(address) => drop(TcpStream::connect_timeout(&reachable(*address), WAKE_TIME_MAX)),
        Address::Unix(socket) => drop(UnixStream::connect(&socket.path)),
    }
}

/// Returns an address at which a listener on all addresses can be reached.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(any) if any.ip().is_unspecified() => SocketAddr::from(([127, 0, 0, 1], any.port())),
        SocketAddr::V6(any) if any.ip().is_unspecified() => {
            SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, any.port()))
        }
        address => address,
    }
}

/// Creates the socket under a temporary name, so that no MTA connects before its mode and group are set.
fn bind_unix(socket: &UnixSocket) -> io::Result<UnixListener> {
    ensure_unused(&socket.path)?;
    let unfinished = unfinished(&socket.path);
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&unfinished)?;
    fs::set_permissions(&unfinished, fs::Permissions::from_mode(0o600))?;
    if let Some(name) = &socket.group {
        let group = Group::from_name(name)?.ok_or_else(|| io::Error::other(format!("unknown group {name:?}")))?;
        chown(&unfinished, None, Some(group.gid))?;
    }
    fs::set_permissions(&unfinished, fs::Permissions::from_mode(socket.mode))?;
    fs::rename(&unfinished, &socket.path)?;
    Ok(listener)
}

/// Rejects a path that is not a socket, and a socket in use. The socket of a killed milter may be replaced.
fn ensure_unused(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) if !found.file_type().is_socket() => {
            Err(io::Error::new(io::ErrorKind::AlreadyExists, "a file that is not a socket has this name"))
        }
        Ok(_) if UnixStream::connect(path).is_ok() => {
            Err(io::Error::new(io::ErrorKind::AddrInUse, "another program listens there"))
        }
        Ok(_) => Ok(()),
    }
}

fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(path: PathBuf) -> UnixSocket {
        UnixSocket { path, mode: 0o620, group: None }
    }

    #[test]
    fn a_socket_has_its_mode_and_a_dead_one_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("milter.sock");
        let first = bind_unix(&socket(path.clone())).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o620);
        assert_eq!(bind_unix(&socket(path.clone())).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(first);
        bind_unix(&socket(path)).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
    }

    /// A milter that stops finishes its messages first. By then, its successor may listen on the path.
    #[test]
    fn the_socket_of_a_successor_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let socket = socket(folder.path().join("milter.sock"));
        let address = Address::Unix(socket.clone());
        let first = bind_unix(&socket).unwrap();
        let file = SocketFile::of(&address).unwrap();
        drop(first);
        let second = bind_unix(&socket).unwrap();
        file.remove();
        assert!(UnixStream::connect(&socket.path).is_ok());
        SocketFile::of(&address).unwrap().remove();
        assert!(!socket.path.exists());
        drop(second);
    }

    #[test]
    fn a_file_that_is_no_socket_is_kept_and_an_unknown_group_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "mail").unwrap();
        assert_eq!(bind_unix(&socket(path.clone())).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"mail");
        let group = Some("no-such-group-here".to_owned());
        let error = bind_unix(&UnixSocket { group, ..socket(folder.path().join("s")) }).unwrap_err();
        assert!(error.to_string().contains("no-such-group-here"), "{error}");
    }
}
