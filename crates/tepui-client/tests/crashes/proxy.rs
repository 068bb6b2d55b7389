//! Stands between a process and the server, and ends the process, or loses an answer, at one of its requests.
//!
//! Nothing of HTTP is read. A connection has one request at a time, so what a client sends after an answer is the next request, and an
//! answer is there as soon as one byte of it is: the work is done then.

use std::net::SocketAddr;
use std::process::Child;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// What happens at a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The process is killed, and the server never sees the request.
    KillBefore,
    /// The process is killed after the server has done the work.
    KillAfter,
    /// The server has done the work, but the process is not told.
    LoseAnswer,
}

pub(crate) const FAILURES: [Failure; 3] = [Failure::KillBefore, Failure::KillAfter, Failure::LoseAnswer];

/// Which request fails, counted from 1 over all services, and how.
pub(crate) type Plan = Option<(usize, Failure)>;

#[derive(Clone)]
pub(crate) struct Shared {
    plan: Plan,
    requests: Arc<AtomicUsize>,
    process: Arc<Mutex<Option<Child>>>,
}

impl Shared {
    pub(crate) fn new(plan: Plan) -> Self {
        Self { plan, requests: Arc::default(), process: Arc::default() }
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    pub(crate) fn process(&self) -> &Mutex<Option<Child>> {
        &self.process
    }

    fn kill(&self) {
        if let Some(process) = self.process.lock().unwrap().as_mut() {
            process.kill().unwrap();
        }
    }

    fn fails(&self, request: usize, failure: Failure) -> bool {
        self.plan == Some((request, failure))
    }
}

/// Ends with what it returns.
pub(crate) async fn start(server: SocketAddr, shared: Shared) -> (SocketAddr, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((client, _)) = listener.accept().await {
            let shared = shared.clone();
            connections.spawn(async move {
                // A connection that breaks is the end of it, as it should be.
                let _ = pass_on(client, server, &shared).await;
            });
        }
    });
    (address, tasks)
}

async fn pass_on(mut client: TcpStream, server: SocketAddr, shared: &Shared) -> std::io::Result<()> {
    let mut server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut request, mut is_answered) = (0, true);
    let (mut asked, mut answered) = ([0; 16 * 1024], [0; 16 * 1024]);
    loop {
        tokio::select! {
            bytes = client.read(&mut asked) => {
                let bytes = bytes?;
                if bytes == 0 {
                    return Ok(());
                }
                if std::mem::take(&mut is_answered) {
                    request = shared.requests.fetch_add(1, Ordering::SeqCst) + 1;
                    if shared.fails(request, Failure::KillBefore) {
                        shared.kill();
                        return Ok(());
                    }
                }
                server.write_all(&asked[..bytes]).await?;
            }
            bytes = server.read(&mut answered) => {
                let bytes = bytes?;
                if bytes == 0 {
                    return Ok(());
                }
                if shared.fails(request, Failure::KillAfter) {
                    shared.kill();
                    return Ok(());
                }
                if shared.fails(request, Failure::LoseAnswer) {
                    return Ok(());
                }
                is_answered = true;
                client.write_all(&answered[..bytes]).await?;
            }
        }
    }
}
