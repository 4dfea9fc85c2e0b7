//! Serves one Razor connection: reads bytes, performs actions, and sends each reply with one write.
//!
//! A client is disconnected if it is silent for [`SILENCE_MAX`] or needs more than [`REQUEST_MAX`] for one request. An
//! idle connection holds no buffer.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bruit_protocols::razor::{Action, BLOB_PAUSE, Conversation, ServerList};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use super::answers::Responder;
use super::bodies::{Bodies, HeldMemory};
use crate::connections::{Class, Permit};
use crate::service::Service;
use crate::sources::Source;

/// Maximum silence of a client. Clients apply the same limit to the server.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(15);

/// Time limit from the first to the last byte of a request.
pub(super) const REQUEST_MAX: Duration = Duration::from_secs(60);

/// Number of bytes read at once. Only reports are longer than this.
const READ_BYTES: usize = 4 * 1024;

/// Serves a connection to its end.
pub(super) async fn serve(
    stream: TcpStream,
    source: Source,
    service: Arc<Service>,
    bodies: Bodies,
    permit: Arc<Permit>,
    stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let settings = service.settings();
    let local: SocketAddr = stream.local_addr()?;
    let servers = settings.razor.servers.clone().unwrap_or_else(|| ServerList::at(local));
    let terms = Arc::clone(&settings.razor.terms);
    let held = bodies.held(source.is_own);
    let mut connection = RazorConnection { stream, held, stop, request_began: None };
    connection.write(terms.greeting()).await?;
    let mut conversation = Conversation::new(terms, servers);
    let mut answers = Responder::new(service, settings, source);
    while connection.read(&mut conversation).await? {
        let mut is_answer = false;
        while let Some(action) = conversation.next_action() {
            match action {
                Action::Reply(reply) => {
                    // The conversation itself rejects malformed requests.
                    if !std::mem::take(&mut is_answer) && reply.starts_with(b"err=") {
                        answers.note_malformed();
                    }
                    connection.write(&reply).await?;
                }
                Action::Close => {
                    if conversation.is_foreign() {
                        answers.note_malformed();
                    }
                    return Ok(());
                }
                Action::Pause => connection.pause(&mut conversation).await?,
                question => {
                    let busy = permit.busy();
                    let replies = answers.find(question, conversation.user()).await;
                    conversation.answer(replies);
                    drop(busy);
                    if conversation.user().is_some() {
                        permit.prove(Class::Account);
                    }
                    is_answer = true;
                }
            }
        }
    }
    Ok(())
}

struct RazorConnection {
    stream: TcpStream,
    held: HeldMemory,
    stop: watch::Receiver<bool>,
    /// The time of the first byte of an incomplete request.
    request_began: Option<Instant>,
}

impl RazorConnection {
    /// Waits for bytes. Returns false at the end of the connection, at a time limit, or when the server stops.
    async fn read(&mut self, conversation: &mut Conversation) -> io::Result<bool> {
        // Release the memory of answered requests.
        self.held.charge(conversation.held_bytes());
        let now = Instant::now();
        let began = conversation.is_within_request().then(|| self.request_began.unwrap_or(now));
        self.request_began = began;
        let deadline = began.map_or(now + SILENCE_MAX, |began| (began + REQUEST_MAX).min(now + SILENCE_MAX));
        let read = tokio::select! {
            read = timeout_at(deadline, receive(&self.stream, conversation)) => read,
            // An incomplete request was not answered, so the client will retry.
            () = stop_requested(&mut self.stop) => return Ok(false),
        };
        let Ok(read) = read else { return Ok(false) };
        let bytes = read?;
        if !self.held.charge(conversation.held_bytes()) {
            conversation.give_up();
        }
        Ok(bytes > 0)
    }

    /// Waits briefly to see whether more bytes follow a blob.
    async fn pause(&mut self, conversation: &mut Conversation) -> io::Result<()> {
        if let Ok(read) = timeout(BLOB_PAUSE, receive(&self.stream, conversation)).await {
            read?;
        }
        conversation.resume();
        Ok(())
    }

    /// Sends a reply. The client must accept all of it within [`SILENCE_MAX`].
    async fn write(&mut self, reply: &[u8]) -> io::Result<()> {
        timeout(SILENCE_MAX, self.stream.write_all(reply)).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// Waits for bytes and passes them on. Returns their number, or 0 at the end.
async fn receive(stream: &TcpStream, conversation: &mut Conversation) -> io::Result<usize> {
    loop {
        stream.readable().await?;
        match receive_now(stream, conversation) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            received => return received,
        }
    }
}

/// Passes on the available bytes. This function is synchronous, so that its buffer is not part of the waiting future.
fn receive_now(stream: &TcpStream, conversation: &mut Conversation) -> io::Result<usize> {
    let mut buffer = [0; READ_BYTES];
    let bytes = stream.try_read(&mut buffer)?;
    conversation.receive(buffer.get(..bytes).unwrap_or_default());
    Ok(bytes)
}

/// Waits for the stop signal, or until its sender is dropped.
async fn stop_requested(stop: &mut watch::Receiver<bool>) {
    drop(stop.wait_for(|stop| *stop).await);
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use bruit_engine::trust::Policy;
    use bruit_store::{Clearinghouse, Founding, Options};
    use tempfile::TempDir;
    use tokio::io::AsyncReadExt as _;
    use tokio::net::TcpListener;
    use tokio::task::JoinHandle;

    use super::*;
    use crate::clock::system_time;
    use crate::config::Config;

    const GREETING_BYTES: usize = b"a=cg&ep4=7542-10&sn=C&srl=1\r\n".len();

    /// A connection that is being served, and its start time. Simulated time advances while all tasks wait.
    struct Served {
        client: TcpStream,
        task: JoinHandle<io::Result<()>>,
        began: Instant,
        _stop: watch::Sender<bool>,
        _directory: TempDir,
    }

    async fn served() -> Served {
        let directory = TempDir::new().unwrap();
        let found = || Founding::new([7; 16], 8 << 20, Policy::default(), system_time()).unwrap();
        let store = Clearinghouse::open_or_found(directory.path(), &Options::default(), found, &mut |_| {}).unwrap();
        let service = Arc::new(Service::new(store, Config::default().settings));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, peer) = listener.accept().await.unwrap();
        let stop = watch::Sender::new(false);
        let source = Source::new(peer.ip(), &[]);
        let limits = service.settings().limits;
        let permit = service.connections.admit(&source, Class::Stranger, &service.key, &limits).unwrap();
        let serving = serve(stream, source, service, Bodies::default(), Arc::new(permit), stop.subscribe());
        let task = tokio::spawn(serving);
        client.read_exact(&mut [0; GREETING_BYTES]).await.unwrap();
        Served { client, task, began: Instant::now(), _stop: stop, _directory: directory }
    }

    #[tokio::test(start_paused = true)]
    async fn silence_ends_a_connection() {
        let served = served().await;
        served.task.await.unwrap().unwrap();
        assert_eq!(served.began.elapsed().as_secs(), SILENCE_MAX.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_comes_drop_by_drop_ends_a_connection() {
        let mut served = served().await;
        served.client.write_all(b"a=").await.unwrap();
        while !served.task.is_finished() {
            served.client.write_all(b"a").await.unwrap();
            tokio::time::sleep(Duration::from_secs(7)).await;
        }
        served.task.await.unwrap().unwrap();
        let waited = served.began.elapsed();
        assert!(waited >= REQUEST_MAX && waited < REQUEST_MAX + SILENCE_MAX, "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_asks_now_and_then_stays() {
        let mut served = served().await;
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_secs(7)).await;
            served.client.write_all(b"a=xyz\r\n").await.unwrap();
            let mut reply = [0; b"err=201\r\n".len()];
            served.client.read_exact(&mut reply).await.unwrap();
        }
        assert!(served.began.elapsed() > 2 * REQUEST_MAX && !served.task.is_finished());
    }
}
