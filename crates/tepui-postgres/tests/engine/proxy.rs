//! A proxy that cuts connections when a client commits, or spoils the beginning of a transaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// When the next connection is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Cut {
    Never,
    /// The server does not get COMMIT.
    BeforeCommit,
    /// The server gets COMMIT, and the client no answer.
    AfterCommit,
    /// The server gets all, but something else instead of BEGIN, which it refuses. So it is if BEGIN is cancelled.
    SpoilBegin,
}

pub(crate) struct Proxy {
    pub(crate) port: u16,
    cut: Arc<AtomicU8>,
}

impl Proxy {
    pub(crate) async fn start(server: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port is free");
        let port = listener.local_addr().expect("it has an address").port();
        let cut = Arc::new(AtomicU8::new(Cut::Never as u8));
        let shared = Arc::clone(&cut);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(client, server, Arc::clone(&shared)));
            }
        });
        Self { port, cut }
    }

    /// Cuts the next connection that commits.
    pub(crate) fn cut(&self, when: Cut) {
        self.cut.store(when as u8, Ordering::SeqCst);
    }
}

async fn forward(mut client: TcpStream, server: u16, cut: Arc<AtomicU8>) {
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", server)).await else { return };
    let (mut asked, mut answered) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let Ok(count @ 1..) = read else { return };
                if cut.load(Ordering::SeqCst) == Cut::SpoilBegin as u8
                    && let Some(at) = asked[..count].windows(6).position(|bytes| bytes == b"BEGIN ")
                {
                    cut.store(Cut::Never as u8, Ordering::SeqCst);
                    asked[at..at + 5].copy_from_slice(b"BEGUN");
                }
                let commits = asked[..count].windows(7).any(|bytes| bytes == b"COMMIT\0");
                let when = if commits { cut.swap(Cut::Never as u8, Ordering::SeqCst) } else { Cut::Never as u8 };
                if when == Cut::BeforeCommit as u8 || server.write_all(&asked[..count]).await.is_err() {
                    return;
                }
                if when == Cut::AfterCommit as u8 {
                    // The server reads all that was sent before it notices the end.
                    let _ = server.shutdown().await;
                    drop(client);
                    while matches!(server.read(&mut answered).await, Ok(1..)) {}
                    return;
                }
            }
            read = server.read(&mut answered) => {
                let Ok(count @ 1..) = read else { return };
                if client.write_all(&answered[..count]).await.is_err() {
                    return;
                }
            }
        }
    }
}
