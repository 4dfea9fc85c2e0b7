//! HTTP on a Unix socket, where the kernel identifies the user at the other end.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::unistd::{Group, chown};
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::config::HttpSocket;
use crate::connections::{Class, Permit};
use crate::fatal::Vital;
use crate::service::Service;
use crate::sources::Source;

/// Delay before the next attempt to accept a connection if the system has run out of sockets.
const SHORTAGE: Duration = Duration::from_millis(100);

/// Listens on a socket, and starts a task with `serve` for each connection.
///
/// # Errors
/// Fails if the socket cannot be created, for example because another server listens on it.
pub(crate) fn listen<S, F>(
    runtime: &Runtime,
    service: &Arc<Service>,
    socket: &HttpSocket,
    stop: watch::Receiver<bool>,
    serve: S,
) -> io::Result<()>
where
    S: Fn(UnixStream, Arc<Permit>, watch::Receiver<bool>) -> F + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let _guard = runtime.enter();
    let listener = bind(socket)?;
    runtime.spawn(run(listener, Arc::clone(service), stop, serve));
    Ok(())
}

/// Creates the socket under a temporary name, so that no client connects before its mode and group are set.
fn bind(socket: &HttpSocket) -> io::Result<UnixListener> {
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

/// Rejects a path that is not a socket, and a socket that is in use. The socket of a killed server may be replaced.
fn ensure_unused(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) if !found.file_type().is_socket() => {
            Err(io::Error::new(io::ErrorKind::AlreadyExists, "the path exists and is not a socket"))
        }
        Ok(_) if BlockingStream::connect(path).is_ok() => {
            Err(io::Error::new(io::ErrorKind::AddrInUse, "another program is listening on this socket"))
        }
        Ok(_) => Ok(()),
    }
}

fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

async fn run<S, F>(listener: UnixListener, service: Arc<Service>, mut stop: watch::Receiver<bool>, serve: S)
where
    S: Fn(UnixStream, Arc<Permit>, watch::Receiver<bool>) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    let _vital = Vital::new(&service, "the task that listens on the Unix socket".to_owned());
    let source = Source { address: IpAddr::from([127, 0, 0, 1]), is_own: true };
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        match accepted {
            Ok((stream, _)) => {
                let limits = service.settings().limits;
                let Service { connections, key, .. } = &*service;
                let permit = connections.admit_patiently(&source, Class::Own, key, &limits).await;
                if let Some(permit) = permit {
                    tokio::spawn(serve(stream, Arc::new(permit), stop.clone()));
                }
            }
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection on the Unix socket");
                tokio::time::sleep(SHORTAGE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(path: PathBuf) -> HttpSocket {
        HttpSocket { path, mode: 0o620, group: None }
    }

    #[tokio::test]
    async fn a_socket_has_its_mode_from_the_start_and_a_dead_one_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bruit.sock");
        let first = bind(&socket(path.clone())).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o620);
        assert_eq!(bind(&socket(path.clone())).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(first);
        bind(&socket(path)).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
    }

    #[tokio::test]
    async fn a_file_that_is_no_socket_is_kept_and_an_unknown_group_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "mail").unwrap();
        assert_eq!(bind(&socket(path.clone())).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"mail");
        let group = Some("no-such-group-here".to_owned());
        let error = bind(&HttpSocket { group, ..socket(folder.path().join("s")) }).unwrap_err();
        assert!(error.to_string().contains("no-such-group-here"), "{error}");
    }
}
