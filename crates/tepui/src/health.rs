//! `tepui health`: asks a running server what it answers at `/health`. For containers, which have no other client.

use crate::options::Options;
use crate::serve::Failure;
use crate::{FAILED, USAGE, ready};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(5);
const MAX_REPLY_BYTES: u64 = 64 << 10;

pub(crate) fn health(options: &Options) -> Result<(), Failure> {
    let config = options.config(|name| std::env::var(name).ok());
    let config = config.map_err(|message| Failure { message, code: USAGE })?;
    for service in &config.services {
        let (host, port) = config.address(*service);
        ask(host, port).map_err(|error| {
            let message = format!("the {} service is not healthy ({error}): {host}:{port}", service.name());
            Failure { message, code: FAILED }
        })?;
    }
    Ok(())
}

fn ask(host: &str, port: u16) -> io::Result<()> {
    let addresses: Vec<SocketAddr> = (host, port).to_socket_addrs()?.map(ready::reachable).collect();
    let mut stream = TcpStream::connect(&addresses[..])?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut reply = String::new();
    stream.take(MAX_REPLY_BYTES).read_to_string(&mut reply)?;
    if reply.starts_with("HTTP/1.1 200 ") {
        return Ok(());
    }
    let body = reply.split_once("\r\n\r\n").map_or(reply.as_str(), |(_, body)| body);
    Err(io::Error::other(body.trim().to_owned()))
}
