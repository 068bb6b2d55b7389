//! Asks a running server for a backup, over the control socket in its data directory.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

/// Why there is no backup of a running server.
pub(crate) enum Error {
    /// No server has a control socket there.
    NoServer,
    Failed(String),
}

/// A backup as it comes from the server: the archive, without the chunks of HTTP.
pub(crate) struct BackupStream {
    stream: BufReader<Box<dyn Read>>,
    bytes: u64,
    /// What is left of the current chunk. `None` after the last one.
    left: Option<u64>,
}

const MAX_LINE_BYTES: u64 = 8 << 10;

#[cfg(unix)]
pub(crate) fn backup(data_dir: &Path) -> Result<BackupStream, Error> {
    use std::os::unix::net::UnixStream;
    let mut stream =
        tepui_server::with_socket_path(data_dir, |path| UnixStream::connect(path)).map_err(|error| {
            match error.kind() {
                // A server that was killed leaves its socket.
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused | io::ErrorKind::NotADirectory => {
                    Error::NoServer
                }
                _ => Error::Failed(format!("cannot reach its control socket: {error}")),
            }
        })?;
    let asked = stream.write_all(b"GET /backup HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    asked
        .and_then(|()| BackupStream::open(Box::new(stream)))
        .map_err(|error| Error::Failed(error.to_string()))
}

#[cfg(not(unix))]
pub(crate) fn backup(_: &Path) -> Result<BackupStream, Error> {
    Err(Error::NoServer)
}

impl BackupStream {
    fn open(stream: Box<dyn Read>) -> io::Result<Self> {
        let mut opened =
            Self { stream: BufReader::with_capacity(256 << 10, stream), bytes: 0, left: Some(0) };
        let status = opened.line()?;
        loop {
            let line = opened.line()?;
            if line.is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("tepui-backup-bytes")
            {
                opened.bytes = value.trim().parse().unwrap_or(0);
            }
        }
        if status.split(' ').nth(1) == Some("200") {
            return Ok(opened);
        }
        let mut why = String::new();
        opened.stream.take(MAX_LINE_BYTES).read_to_string(&mut why)?;
        Err(io::Error::other(why.trim().to_owned()))
    }

    /// How large the backup is, about.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.bytes
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        (&mut self.stream).take(MAX_LINE_BYTES).read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_owned()),
            None => Err(ended_early()),
        }
    }

    /// The length of the next chunk.
    fn next_chunk(&mut self) -> io::Result<u64> {
        let line = self.line()?;
        u64::from_str_radix(&line, 16).map_err(|_| ended_early())
    }
}

fn ended_early() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the server has given it up: its log says why")
}

impl Read for BackupStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == Some(0) {
            let length = self.next_chunk()?;
            self.left = (length > 0).then_some(length);
        }
        let Some(left) = self.left else { return Ok(0) };
        let wanted = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let count = self.stream.read(&mut buffer[..wanted])?;
        if count == 0 && wanted > 0 {
            return Err(ended_early());
        }
        let left = left - count as u64;
        if left == 0 && count > 0 {
            // The end of the chunk.
            self.line()?;
        }
        self.left = Some(left);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "HTTP/1.1 200 OK\r\nTepui-Backup-Bytes: 12\r\n\r\n";

    fn read(reply: String) -> io::Result<(u64, Vec<u8>)> {
        let mut stream = BackupStream::open(Box::new(io::Cursor::new(reply.into_bytes())))?;
        let mut body = Vec::new();
        stream.read_to_end(&mut body)?;
        Ok((stream.total_bytes(), body))
    }

    #[test]
    fn chunks_are_joined_and_a_missing_one_is_noticed() {
        let body = "5\r\nhello\r\n7\r\n, world\r\n";
        let whole = read(format!("{HEAD}{body}0\r\n\r\n")).expect("it is complete");
        assert_eq!(whole, (12, b"hello, world".to_vec()));
        for end in 0..body.len() {
            assert!(read(format!("{HEAD}{}", &body[..end])).is_err(), "{end}");
        }
        let refused = read("HTTP/1.1 409 Conflict\r\nContent-Length: 5\r\n\r\nbusy\n".to_owned());
        assert_eq!(refused.expect_err("it is refused").to_string(), "busy");
    }
}
