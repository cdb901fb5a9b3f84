//! Connections: how many are open, how long clients may take, and how they end.
//!
//! A connection waits for a request or serves one. Those that wait are closed after some time, or
//! when the server ends; without room for another connection, the one that has waited longest
//! gives way. So a client that sends or reads nothing keeps no other client out, and does not keep
//! the server from ending.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use hyper::body::Frame;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::ServeLimits;

/// What clients may do with connections.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectionLimits {
    /// Connections that are open at the same time. The system may allow fewer.
    pub(super) most: usize,
    /// How long the head of a request may take, on a new connection and after a response.
    pub(super) head: Duration,
    /// How long a client may take in nothing of its response.
    pub(super) stall: Duration,
    /// How long a connection may wait before it gives way to another one.
    pub(super) patience: Duration,
}

impl ConnectionLimits {
    /// Those of a server: connections of completions that run or wait, and some for other paths and
    /// to refuse what exceeds the queue.
    pub(super) fn of(limits: &ServeLimits) -> Self {
        let (head, patience) = (Duration::from_secs(10), Duration::from_secs(1));
        let most = limits.slots + limits.queue + FURTHER_CONNECTIONS;
        Self { most, head, stall: Duration::from_secs(30), patience }
    }
}

const FURTHER_CONNECTIONS: usize = 64;

/// How long to wait for room, before trying again.
const PAUSE: Duration = Duration::from_millis(20);

/// How long the last bytes of responses may take when the server ends.
const LAST_BYTES: Duration = Duration::from_secs(2);

/// Bytes of a piece of a response. Few pieces wait in the buffers of a connection.
const PIECE: usize = 4096;

/// What connections share.
#[derive(Debug)]
struct Connections {
    limits: ConnectionLimits,
    /// Those that wait for a request and since when, the one that has waited longest first.
    waiting: Mutex<VecDeque<(Instant, Arc<Notify>)>>,
    /// The number of requests that are being served.
    serving: watch::Sender<usize>,
    /// Whether connections shall close.
    closing: watch::Sender<bool>,
}

/// Accepts connections and serves their requests. After `ending`, requests are still served until
/// none is left.
pub(super) async fn accept_all(
    listener: TcpListener,
    router: Router,
    limits: ConnectionLimits,
    ending: impl Future<Output = ()>,
) {
    let shared = Arc::new(Connections {
        limits,
        waiting: Mutex::default(),
        serving: watch::Sender::default(),
        closing: watch::Sender::default(),
    });
    let router = TowerToHyperService::new(router);
    let mut open = JoinSet::new();
    let mut end = pin!(async {
        ending.await;
        let _ = shared.serving.subscribe().wait_for(|requests| *requests == 0).await;
    });
    loop {
        let room = open.len() < limits.most;
        tokio::select! {
            () = &mut end => break,
            Some(_) = open.join_next() => {}
            accepted = listener.accept(), if room => match accepted {
                Ok((stream, _)) => {
                    open.spawn(serve_one(stream, router.clone(), Arc::clone(&shared)));
                }
                // The system has no room, or the client has gone.
                Err(_) => shared.make_room().await,
            },
            () = shared.make_room(), if !room => {}
        }
    }
    drop(listener);
    shared.closing.send_replace(true);
    let _ = timeout(LAST_BYTES, async { while open.join_next().await.is_some() {} }).await;
}

/// Serves the requests of a connection, one after the other. An error ends the connection: it is
/// the client's, and there is no one to report it to.
async fn serve_one(
    stream: TcpStream,
    router: TowerToHyperService<Router>,
    shared: Arc<Connections>,
) {
    // Rounds are small, and each is sent at once.
    let _ = stream.set_nodelay(true);
    #[cfg(target_os = "linux")]
    let _ = socket2::SockRef::from(&stream).set_tcp_user_timeout(Some(shared.limits.stall));
    let own = Arc::new(Notify::new());
    shared.wait(&own);
    let service = service_fn(|request| {
        let request_served = HeldRequest::new(&shared, &own);
        let response = router.call(request);
        async move {
            let served = |body| ServedBody { body, rest: Bytes::new(), _request: request_served };
            Ok::<_, Infallible>(response.await?.map(served))
        }
    });
    {
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(shared.limits.head);
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        let mut closing = shared.closing.subscribe();
        let ends = tokio::select! {
            _ = connection.as_mut() => false,
            () = own.notified() => false,
            _ = closing.wait_for(|closing| *closing) => true,
        };
        if ends {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
    shared.no_longer_waits(&own);
}

impl Connections {
    fn waiting(&self) -> MutexGuard<'_, VecDeque<(Instant, Arc<Notify>)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, own: &Arc<Notify>) {
        self.waiting().push_back((Instant::now(), Arc::clone(own)));
    }

    fn no_longer_waits(&self, own: &Arc<Notify>) {
        self.waiting().retain(|(_, other)| !Arc::ptr_eq(own, other));
    }

    /// Closes the connection that has waited longest if it has waited long enough.
    async fn make_room(&self) {
        if let Some((since, connection)) = self.waiting().front()
            && since.elapsed() >= self.limits.patience
        {
            connection.notify_one();
        }
        sleep(PAUSE).await;
    }
}

/// The body of a response, which is handed on in pieces: once the last one is taken, nearly all has
/// been sent, and the request is no longer served.
struct ServedBody {
    body: Body,
    rest: Bytes,
    _request: HeldRequest,
}

impl hyper::body::Body for ServedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
            match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => self.rest = data,
                Some(Ok(Err(other))) => return Poll::Ready(Some(Ok(other))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        let piece = self.rest.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }
}

/// A request that is being served.
struct HeldRequest {
    shared: Arc<Connections>,
    connection: Arc<Notify>,
}

impl HeldRequest {
    fn new(shared: &Arc<Connections>, connection: &Arc<Notify>) -> Self {
        shared.no_longer_waits(connection);
        shared.serving.send_modify(|requests| *requests += 1);
        Self { shared: Arc::clone(shared), connection: Arc::clone(connection) }
    }
}

impl Drop for HeldRequest {
    fn drop(&mut self) {
        self.shared.wait(&self.connection);
        self.shared.serving.send_modify(|requests| *requests -= 1);
    }
}

#[cfg(test)]
mod tests {
    //! What clients can do to others, over real connections.

    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};

    use axum::routing::get;
    use tokio::runtime::{Builder, Runtime};
    use tokio::sync::oneshot;
    use tokio::task::JoinHandle;

    use super::*;

    /// Limits that nobody reaches.
    const WIDE: ConnectionLimits = ConnectionLimits {
        most: 1000,
        head: Duration::from_secs(1000),
        stall: Duration::from_secs(1000),
        patience: Duration::from_secs(1000),
    };

    /// More than the buffers of a connection hold.
    const LARGE: usize = 1 << 26;

    struct Started {
        runtime: Runtime,
        address: SocketAddr,
        end: oneshot::Sender<()>,
        accepting: JoinHandle<()>,
    }

    fn started(limits: ConnectionLimits) -> Started {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new()
            .route("/", get(|| async { "here" }))
            .route("/large", get(|| async { vec![b'a'; LARGE] }));
        let (end, ending) = oneshot::channel();
        let ending = async { _ = ending.await };
        let accepting = runtime.spawn(accept_all(listener, router, limits, ending));
        Started { runtime, address, end, accepting }
    }

    impl Started {
        fn client(&self) -> TcpStream {
            let client = TcpStream::connect(self.address).unwrap();
            client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            client
        }

        /// A connection that has sent a request.
        fn requested(&self, path: &str) -> TcpStream {
            let mut client = self.client();
            write!(client, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            client
        }

        /// A connection whose response has begun.
        fn responded(&self, path: &str) -> TcpStream {
            let mut client = self.requested(path);
            client.read_exact(&mut [0; 15]).unwrap();
            client
        }

        /// Waits for its end.
        fn end(self) {
            self.end.send(()).unwrap();
            let end = async { timeout(Duration::from_secs(60), self.accepting).await };
            self.runtime.block_on(end).expect("it does not end").unwrap();
        }
    }

    /// Whether the server has closed the connection; it sends nothing more.
    fn is_closed(client: &mut TcpStream) -> bool {
        matches!(client.read(&mut [0; 64]), Ok(0))
    }

    /// Catches: a client that sends half a head keeps its connection.
    #[test]
    fn a_late_head_ends_its_connection() {
        let server = started(ConnectionLimits { head: Duration::from_millis(50), ..WIDE });
        let mut clients = [server.client(), server.client(), server.client()];
        clients[1].write_all(b"GET / HTTP/1.1\r\nHo").unwrap();
        // The second request of a connection may take no longer.
        clients[2].write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut response = [0; 256];
        assert!(clients[2].read(&mut response).unwrap() > 0);
        assert!(clients.iter_mut().all(is_closed));
        server.end();
    }

    /// Catches: a new connection waits for one that is idle; a request that is served is dropped.
    #[test]
    fn idle_connections_give_way_to_others() {
        let server = started(ConnectionLimits { most: 4, patience: Duration::ZERO, ..WIDE });
        let _busy = server.responded("/large");
        let mut idle = (0..8).map(|_| server.client()).collect::<Vec<_>>();
        let mut kept = server.responded("/");
        assert!(is_closed(&mut idle[0]));
        let mut rest = [0; 256];
        assert!(kept.read(&mut rest).unwrap() > 0);
    }

    /// Catches: there is no limit, or a connection is closed while its request is served.
    #[test]
    fn without_room_a_connection_waits() {
        let server = started(ConnectionLimits { most: 2, patience: Duration::ZERO, ..WIDE });
        let busy = [server.responded("/large"), server.responded("/large")];
        let mut other = server.requested("/");
        other.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        assert!(other.read(&mut [0; 64]).is_err(), "it has room");
        drop(busy);
        other.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        assert!(other.read(&mut [0; 64]).unwrap() > 0);
    }

    /// Catches: a connection without a request keeps the server from ending.
    #[test]
    fn idle_connections_do_not_delay_the_end() {
        let server = started(WIDE);
        let mut idle = server.client();
        let mut half = server.client();
        half.write_all(b"GET / HTTP/1.1\r\nHo").unwrap();
        let kept = server.responded("/");
        server.end();
        assert!(is_closed(&mut idle));
        drop((half, kept));
    }

    /// Catches: a client that reads nothing keeps the server from ending.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_client_that_reads_nothing_is_dropped() {
        let server = started(ConnectionLimits { stall: Duration::from_millis(300), ..WIDE });
        let stalled = server.responded("/large");
        server.end();
        drop(stalled);
    }

    /// Catches: the server ends before its last response has been sent.
    #[test]
    fn a_response_is_sent_to_its_end() {
        let server = started(WIDE);
        let mut client = server.responded("/large");
        let reading = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            let mut whole = vec![0; LARGE];
            client.read_exact(&mut whole).is_ok()
        });
        server.end();
        assert!(reading.join().unwrap());
    }
}
