//! The resources that one client, and all clients together, may use.
//!
//! Every limit has a default that suits both a laptop and a server open to a network. Timeouts are checked by a coarse
//! timer (see `connection.rs`): a client is disconnected at the earliest when the time is over, and at the latest half as
//! long again after that.

use serde::Deserialize;
use std::net::IpAddr;
use std::time::Duration;

/// Bodies up to this size do not count against [`Limits::body_memory_bytes`].
pub(crate) const SMALL_BODY_BYTES: usize = 64 * 1024;

/// The limits of the server; `[limits]` in the configuration file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Limits {
    /// Connections open at a time. Further ones wait in the backlog of the listener; while any does,
    /// idle connections are closed and busy ones are closed after their reply, so that new clients
    /// do not wait for ever behind those that keep their connections.
    pub max_connections: usize,
    /// Of these, connections from one address; further ones are closed at once. If it is not given, half of them,
    /// and no limit for this machine's own address. Trusted proxies have none at all. Every service leaves a quarter
    /// of all connections to the others.
    pub max_connections_per_address: Option<usize>,
    /// Bytes of a request line and its headers together, at least 8192. More is answered with 431.
    pub max_head_bytes: usize,
    /// Headers of a request. More are answered with 431.
    pub max_headers: usize,
    /// From the first byte of a request to the end of its headers; on a new connection, from its opening.
    #[serde(rename = "head-timeout-seconds", with = "seconds")]
    pub head_timeout: Duration,
    /// How long a connection may stay open between two requests.
    #[serde(rename = "idle-timeout-seconds", with = "seconds")]
    pub idle_timeout: Duration,
    /// Time that a request may keep the server waiting for the rest of its body.
    #[serde(rename = "body-timeout-seconds", with = "seconds")]
    pub body_timeout: Duration,
    /// The minimum rate at which a client must send a body or read a reply, averaged over the time that
    /// the server has waited for it.
    pub min_bytes_per_second: u64,
    /// How long the server waits before it checks the rate.
    #[serde(rename = "pace-grace-seconds", with = "seconds")]
    pub pace_grace: Duration,
    /// How long a client may read nothing at all of a reply.
    #[serde(rename = "write-timeout-seconds", with = "seconds")]
    pub write_timeout: Duration,
    /// Memory for request bodies of more than 64 KiB, over all connections. One that is streamed takes a MiB. An
    /// account gets three quarters of it at most. Half as much again is for bodies that come slowly when others
    /// need that memory.
    pub body_memory_bytes: usize,
    /// Memory for pages of entities that are being made or wait to be read, over all connections. A page
    /// takes up to 5 MiB. As much again for blobs that are being sent, each of which takes up to 768 KiB, for lists
    /// of them, which are pages, and for lists of blocks, which take up to 22 MB; and once more for messages, 32 of
    /// which take up to 10 MiB. An answer keeps its share until the client has read it.
    /// A quarter is set apart for accounts that find the rest taken.
    pub reply_memory_bytes: usize,
    /// How long a request waits for its share of that memory before it is answered with "server busy".
    #[serde(rename = "body-memory-timeout-seconds", with = "seconds")]
    pub body_memory_timeout: Duration,
    /// How long requests in flight may take to end after the server was asked to stop.
    #[serde(rename = "shutdown-grace-seconds", with = "seconds")]
    pub shutdown_grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_connections: 8192,
            max_connections_per_address: None,
            max_head_bytes: 64 * 1024,
            max_headers: DEFAULT_MAX_HEADERS,
            head_timeout: Duration::from_secs(15),
            idle_timeout: Duration::from_secs(180),
            body_timeout: Duration::from_secs(120),
            min_bytes_per_second: 1024,
            pace_grace: Duration::from_secs(10),
            write_timeout: Duration::from_secs(30),
            body_memory_bytes: 256 * 1024 * 1024,
            reply_memory_bytes: 256 * 1024 * 1024,
            body_memory_timeout: Duration::from_secs(2),
            // Below the ten seconds that container runtimes give a process before they kill it.
            shutdown_grace: Duration::from_secs(8),
        }
    }
}

/// The largest page of entities: its budget, and one entity that exceeds it.
pub(crate) const PAGE_BYTES: usize = 5 * 1024 * 1024;

/// The headers that hyper parses without an allocation.
pub(crate) const DEFAULT_MAX_HEADERS: usize = 100;

/// The receive buffer of the first connections. Large uploads are a fifth faster than with one for a head only, but hyper
/// keeps such a buffer for as long as its connection is open.
const RECEIVE_BYTES: usize = 512 * 1024;
const FIRST_CONNECTIONS: usize = 64;

impl Limits {
    /// The most connections of an address.
    pub(crate) fn max_connections_from(&self, address: IpAddr) -> usize {
        match self.max_connections_per_address {
            Some(most) => most,
            None if address.to_canonical().is_loopback() => usize::MAX,
            None => self.max_connections.div_ceil(2),
        }
    }

    /// The receive buffer of a new connection, with this many open ones.
    pub(crate) fn receive_bytes(&self, open_connections: usize) -> usize {
        let is_early = open_connections <= FIRST_CONNECTIONS;
        if is_early { RECEIVE_BYTES.max(self.max_head_bytes) } else { self.max_head_bytes }
    }

    /// The period of a connection's coarse timer: a quarter of the shortest timeout.
    pub(crate) fn tick(&self) -> Duration {
        let times =
            [self.head_timeout, self.idle_timeout, self.body_timeout, self.pace_grace, self.write_timeout];
        let shortest = times.into_iter().min().unwrap_or_default();
        (shortest / 4).clamp(Duration::from_millis(5), Duration::from_secs(5))
    }

    /// Whether `bytes` in the time that the server `waited` for them is too slow.
    pub(crate) fn too_slow(&self, bytes: u64, waited: Duration) -> bool {
        waited >= self.pace_grace && (bytes as f64) < self.min_bytes_per_second as f64 * waited.as_secs_f64()
    }

    /// Fails with a message if limits cannot work.
    pub fn check(&self) -> Result<(), String> {
        let at_least = |key: &str, value: usize, least: usize| {
            if value < least { Err(format!("{key} must be at least {least}: {value}")) } else { Ok(()) }
        };
        at_least("max-connections", self.max_connections, 1)?;
        at_least("max-connections-per-address", self.max_connections_per_address.unwrap_or(1), 1)?;
        at_least("max-head-bytes", self.max_head_bytes, 8192)?;
        at_least("max-headers", self.max_headers, 16)?;
        at_least("body-memory-bytes", self.body_memory_bytes, 4 * 1024 * 1024)?;
        at_least("reply-memory-bytes", self.reply_memory_bytes, PAGE_BYTES)?;
        if self.max_connections > MOST_CONNECTIONS {
            return Err(format!(
                "max-connections must be at most {MOST_CONNECTIONS}: {}",
                self.max_connections
            ));
        }
        Ok(())
    }
}

const MOST_CONNECTIONS: usize = 1_000_000;

/// Durations as seconds in the file, with a fraction if need be.
mod seconds {
    use serde::{Deserialize, Deserializer, de::Error};
    use std::time::Duration;

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let seconds = f64::deserialize(from)?;
        match Duration::try_from_secs_f64(seconds) {
            Ok(duration) if !duration.is_zero() => Ok(duration),
            _ => Err(D::Error::custom(format!("not a number of seconds above 0: {seconds}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timer_ticks_four_times_in_the_shortest_timeout() {
        assert_eq!(Limits::default().tick(), Duration::from_millis(2500));
        let short = Limits { idle_timeout: Duration::from_millis(200), ..Limits::default() };
        assert_eq!(short.tick(), Duration::from_millis(50));
    }

    #[test]
    fn large_buffers_are_for_a_few_connections() {
        let limits = Limits::default();
        for (open, bytes) in [(1, 512 * 1024), (64, 512 * 1024), (65, 64 * 1024), (8192, 64 * 1024)] {
            assert_eq!(limits.receive_bytes(open), bytes, "{open}");
        }
        let long_heads = Limits { max_head_bytes: 1024 * 1024, ..Limits::default() };
        for open in [1, 8192] {
            assert_eq!(long_heads.receive_bytes(open), 1024 * 1024, "{open}");
        }
    }

    #[test]
    fn the_rate_is_checked_after_the_grace_period() {
        let limits = Limits::default();
        for (case, bytes, waited, slow) in [
            ("nothing, within the grace", 0, 9, false),
            ("nothing, after it", 0, 10, true),
            ("just fast enough", 10 * 1024, 10, false),
            ("a little too slow", 10 * 1024 - 1, 10, true),
        ] {
            assert_eq!(limits.too_slow(bytes, Duration::from_secs(waited)), slow, "{case}");
        }
    }

    #[test]
    fn the_file_has_seconds() {
        let limits: Limits = toml::from_str("idle-timeout-seconds = 0.5\nmax-connections = 7").unwrap();
        assert_eq!(limits.idle_timeout, Duration::from_millis(500));
        assert_eq!(limits.max_connections, 7);
        assert_eq!(limits.head_timeout, Limits::default().head_timeout);
        for wrong in ["idle-timeout-seconds = 0", "idle-timeout-seconds = -1", "idle-timeout = 5"] {
            assert!(toml::from_str::<Limits>(wrong).is_err(), "{wrong}");
        }
    }
}
