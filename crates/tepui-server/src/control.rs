//! The control socket: a Unix socket in the data directory, for commands on the same machine.
//!
//! Why a socket and not a port: who may open it is decided by the rights of the directory, which is its owner's alone, so that
//! there is no secret to keep and nothing to be reached from elsewhere. It speaks HTTP, so that other programs can use it
//! (`curl --unix-socket DIR/control.sock http://localhost/backup`).
//!
//! `GET /backup` answers with a backup as a tar archive, in chunks. An archive without the last chunk is not complete.

use crate::data::Data;
use std::io;
use std::path::{Path, PathBuf};

/// The name of the socket in the data directory.
const NAME: &str = "control.sock";

/// Calls with a path of the socket in a data directory that is short enough for a socket: about a hundred bytes.
pub fn with_socket_path<T>(data_dir: &Path, act: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let path = data_dir.join(NAME);
    #[cfg(target_os = "linux")]
    if path.as_os_str().len() > 100 {
        use std::os::fd::AsRawFd;
        let directory = std::fs::File::open(data_dir)?;
        return act(&PathBuf::from(format!("/proc/self/fd/{}/{NAME}", directory.as_raw_fd())));
    }
    act(&path)
}

/// A control socket that listens. Removed when dropped.
pub(crate) struct ControlSocket {
    #[cfg(unix)]
    listener: tokio::net::UnixListener,
    path: PathBuf,
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl ControlSocket {
    /// There are no such sockets on this system.
    #[cfg(not(unix))]
    pub(crate) fn open(_: &Path) -> Option<Self> {
        None
    }

    /// Listens in a data directory that this process has locked. `None`: there is none, and the log says why.
    #[cfg(unix)]
    pub(crate) fn open(data_dir: &Path) -> Option<Self> {
        match Self::listen(data_dir) {
            Ok(socket) => Some(socket),
            Err(error) => {
                tracing::warn!(%error, "no control socket: a backup is possible only while the server is stopped");
                None
            }
        }
    }

    #[cfg(not(unix))]
    pub(crate) async fn serve(self, _: &Data, mut stop: tokio::sync::watch::Receiver<bool>) {
        is_set(&mut stop).await;
    }

    #[cfg(unix)]
    fn listen(data_dir: &Path) -> io::Result<Self> {
        use std::os::unix::fs::PermissionsExt;
        let path = data_dir.join(NAME);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            // Left by a process that was killed.
            _ => {}
        }
        let listener = with_socket_path(data_dir, |path| tokio::net::UnixListener::bind(path))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        Ok(Self { listener, path })
    }

    /// Serves until `stop`. Backups under way are given up.
    #[cfg(unix)]
    pub(crate) async fn serve(self, data: &Data, mut stop: tokio::sync::watch::Receiver<bool>) {
        use std::os::unix::fs::MetadataExt;
        let owner = std::fs::metadata(&self.path).map(|socket| socket.uid());
        let mut connections = tokio::task::JoinSet::new();
        loop {
            let stream = tokio::select! {
                accepted = self.listener.accept() => accepted.map(|(stream, _)| stream),
                _ = connections.join_next(), if !connections.is_empty() => continue,
                () = is_set(&mut stop) => break,
            };
            let stream = match stream {
                Ok(stream) => stream,
                Err(error) => {
                    tracing::warn!(%error, "the control socket cannot accept");
                    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                    continue;
                }
            };
            // The rights of the directory may be wider than they should be.
            let peer = stream.peer_cred().map(|peer| peer.uid());
            let is_allowed = matches!((&owner, peer), (Ok(owner), Ok(peer)) if peer == 0 || peer == *owner);
            if is_allowed && connections.len() < unix::MAX_CONNECTIONS {
                connections.spawn(unix::answer(stream, data.clone(), stop.clone()));
            }
        }
        connections.join_all().await;
    }
}

async fn is_set(stop: &mut tokio::sync::watch::Receiver<bool>) {
    // It also ends if the sender is gone.
    let _ = stop.wait_for(|stop| *stop).await;
}

#[cfg(unix)]
mod unix {
    use super::{Data, io};
    use std::io::Write;
    use std::os::unix::net::UnixStream as BlockingStream;
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};
    use tepui_local::Checkpoint;
    use tepui_local::backup::{TarSink, Transfer};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;
    use tokio::sync::watch;

    pub(super) const MAX_CONNECTIONS: usize = 16;
    const MAX_HEAD_BYTES: usize = 8 << 10;
    const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

    /// A receiver that takes nothing for so long is given up: a backup holds the space of what is deleted meanwhile.
    const RECEIVER_TIMEOUT: Duration = Duration::from_secs(60);

    /// How often the free space is asked for, and the backup given up for if less is left.
    const SPACE_INTERVAL: Duration = Duration::from_secs(1);
    const MIN_FREE_BYTES: u64 = 64 << 20;

    const CHUNK_BYTES: usize = 256 << 10;

    /// Answers one request.
    pub(super) async fn answer(mut stream: UnixStream, data: Data, stop: watch::Receiver<bool>) {
        let Ok(Ok(line)) = tokio::time::timeout(HEAD_TIMEOUT, request_line(&mut stream)).await else {
            return;
        };
        let Data::Disk(_, _, directory) = &data else { return };
        let directory = directory.clone();
        let outcome = match line.split(' ').collect::<Vec<_>>()[..] {
            ["GET", "/backup", _] => match data.checkpoint().await {
                Ok(checkpoint) => return send_backup(stream, checkpoint, directory, stop).await,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    refuse(&mut stream, "409 Conflict", &error.to_string()).await
                }
                Err(error) => {
                    tracing::error!(%error, "a backup cannot be made");
                    refuse(&mut stream, "500 Internal Server Error", &error.to_string()).await
                }
            },
            _ => refuse(&mut stream, "404 Not Found", "there is only GET /backup").await,
        };
        // The client may have disconnected.
        drop(outcome);
    }

    async fn request_line(stream: &mut UnixStream) -> io::Result<String> {
        let mut head = Vec::new();
        while !head.windows(4).any(|end| end == b"\r\n\r\n") {
            if head.len() >= MAX_HEAD_BYTES || stream.read_buf(&mut head).await? == 0 {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
        Ok(String::from_utf8_lossy(line).into_owned())
    }

    async fn refuse(stream: &mut UnixStream, status: &str, why: &str) -> io::Result<()> {
        let reply = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{why}\n",
            why.len() + 1
        );
        stream.write_all(reply.as_bytes()).await
    }

    async fn send_backup(
        stream: UnixStream,
        checkpoint: Checkpoint,
        directory: PathBuf,
        mut stop: watch::Receiver<bool>,
    ) {
        let stopped = Arc::new(AtomicBool::new(false));
        let blocking = || {
            let stream = stream.into_std()?;
            stream.set_nonblocking(false)?;
            stream.set_write_timeout(Some(RECEIVER_TIMEOUT))?;
            Ok::<_, io::Error>((stream.try_clone()?, stream))
        };
        let (stream, control) = match blocking() {
            Ok(streams) => streams,
            Err(error) => return tracing::warn!(%error, "a backup cannot be sent"),
        };
        let flag = Arc::clone(&stopped);
        let mut work = tokio::task::spawn_blocking(move || write(stream, &checkpoint, &directory, &flag));
        let outcome = tokio::select! {
            outcome = &mut work => outcome,
            () = super::is_set(&mut stop) => {
                stopped.store(true, Ordering::Relaxed);
                // So that a write that is blocked by a slow receiver ends.
                let _ = control.shutdown(std::net::Shutdown::Both);
                work.await
            }
        };
        match outcome {
            Ok(Ok(bytes)) => tracing::info!(bytes, "a backup was made"),
            Ok(Err(error)) => tracing::warn!(%error, "a backup was given up"),
            Err(error) => tracing::error!(%error, "a backup was given up"),
        }
    }

    /// Writes a backup, and gives it up if the server stops or its disk is nearly full.
    fn write(
        stream: BlockingStream,
        checkpoint: &Checkpoint,
        directory: &std::path::Path,
        stopped: &AtomicBool,
    ) -> io::Result<u64> {
        let mut out = ChunkedWriter { stream, buffer: Vec::with_capacity(CHUNK_BYTES) };
        write!(
            out.stream,
            "HTTP/1.1 200 OK\r\nContent-Type: application/x-tar\r\nTransfer-Encoding: chunked\r\n\
             Tepui-Backup-Bytes: {}\r\nConnection: close\r\n\r\n",
            checkpoint.bytes()
        )?;
        let (mut sent, mut asked) = (0, Instant::now());
        let mut progress = |bytes| {
            sent += bytes;
            if stopped.load(Ordering::Relaxed) {
                return Err(io::Error::other("the server is stopping"));
            }
            if asked.elapsed() >= SPACE_INTERVAL {
                asked = Instant::now();
                if checkpoint.free_space(directory)? < MIN_FREE_BYTES {
                    return Err(io::Error::new(io::ErrorKind::StorageFull, "the disk is nearly full"));
                }
            }
            Ok(())
        };
        let mut sink = TarSink::new(&mut out);
        checkpoint.write_to(Transfer::new(&mut sink, &mut progress))?;
        drop(sink);
        out.finish()?;
        Ok(sent)
    }

    /// A body of HTTP in chunks.
    struct ChunkedWriter<W> {
        stream: W,
        /// Shorter than a chunk, also after a failure: an archive that is given up still writes its end.
        buffer: Vec<u8>,
    }

    impl<W: Write> ChunkedWriter<W> {
        fn send(&mut self) -> io::Result<()> {
            if self.buffer.is_empty() {
                return Ok(());
            }
            let length = self.buffer.len();
            self.buffer.extend_from_slice(b"\r\n");
            let sent =
                write!(self.stream, "{length:x}\r\n").and_then(|()| self.stream.write_all(&self.buffer));
            self.buffer.clear();
            sent
        }

        fn finish(mut self) -> io::Result<()> {
            self.send()?;
            self.stream.write_all(b"0\r\n\r\n")
        }
    }

    impl<W: Write> Write for ChunkedWriter<W> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(CHUNK_BYTES - self.buffer.len());
            self.buffer.extend_from_slice(&bytes[..count]);
            if self.buffer.len() == CHUNK_BYTES {
                self.send()?;
            }
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// Takes so many bytes, and then no more.
        struct Receiver(usize);

        impl Write for Receiver {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                let taken = bytes.len().min(self.0);
                self.0 -= taken;
                if taken == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(taken) }
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }

        #[test]
        fn a_receiver_may_stop_at_any_byte() {
            let head = format!("{CHUNK_BYTES:x}\r\n").len();
            for taken in [0, 1, head, head + 1, head + CHUNK_BYTES, head + CHUNK_BYTES + 1] {
                let mut out = ChunkedWriter { stream: Receiver(taken), buffer: Vec::new() };
                assert!(out.write_all(&vec![0; CHUNK_BYTES]).is_err(), "{taken}");
                // The end of an archive.
                out.write_all(&[0; 1024]).unwrap();
                assert_eq!(out.buffer.len(), 1024, "{taken}");
            }
        }
    }
}
