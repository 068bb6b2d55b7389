//! The resources that one client, and all clients together, may use.
//!
//! Every limit has a default that suits both a laptop and a server open to a network. Timeouts are checked by a coarse
//! timer (see `connection.rs`): a client is disconnected at the earliest when the time is over, and at the latest half as
//! long again after that.

use crate::config::Config;
use clap::Args;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Bodies up to this size do not count against [`Limits::body_memory_bytes`].
pub(crate) const SMALL_BODY_BYTES: usize = 64 * 1024;

/// The limits of the server; `[limits]` in the configuration file.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(next_help_heading = Limits::HEADING)]
pub struct Limits {
    /// Connections open at a time, a million at most
    ///
    /// Further ones wait in the backlog of the listener; while any does, idle connections are closed and busy ones are
    /// closed after their reply, so that new clients do not wait for ever behind those that keep their connections.
    #[arg(long, value_name = "NUMBER", default_value_t = 8192, value_parser = number(1..=1_000_000), hide_short_help = true)]
    pub max_connections: usize,

    /// Connections from one address [default: half of all, and no limit for this machine]
    ///
    /// Further ones are closed at once. Trusted proxies have no such limit. Every service leaves a quarter of all
    /// connections to the others.
    #[arg(long, value_name = "NUMBER", value_parser = number(1..=usize::MAX), hide_short_help = true)]
    pub max_connections_per_address: Option<usize>,

    /// Bytes of a request line and its headers together, at least 8192; more is answered with 431
    #[arg(long, value_name = "BYTES", default_value_t = 64 * 1024, value_parser = number(8192..=usize::MAX), hide_short_help = true)]
    pub max_head_bytes: usize,

    /// Headers of a request, at least 16; more are answered with 431
    #[arg(long, value_name = "NUMBER", default_value_t = DEFAULT_MAX_HEADERS, value_parser = number(16..=usize::MAX), hide_short_help = true)]
    pub max_headers: usize,

    /// From the first byte of a request to the end of its headers; on a new connection, from its opening
    #[arg(id = "head_timeout_seconds", long = "head-timeout-seconds", value_name = "SECONDS",
        default_value = "15", value_parser = seconds, hide_short_help = true)]
    pub head_timeout: Duration,

    /// From the first byte of a TLS connection to the end of its handshake
    #[arg(id = "handshake_timeout_seconds", long = "handshake-timeout-seconds", value_name = "SECONDS",
        default_value = "10", value_parser = seconds, hide_short_help = true)]
    pub handshake_timeout: Duration,

    /// Close connections that are idle for so long
    #[arg(id = "idle_timeout_seconds", long = "keep-alive-timeout",
        aliases = ["idle-timeout-seconds", "table-keep-alive-timeout", "tableKeepAliveTimeout",
            "queueKeepAliveTimeout", "blobKeepAliveTimeout"],
        overrides_with = "idle_timeout_seconds", value_name = "SECONDS",
        default_value = "180", value_parser = seconds)]
    pub idle_timeout: Duration,

    /// Time that a request may keep the server waiting for the rest of its body
    #[arg(id = "body_timeout_seconds", long = "body-timeout-seconds", value_name = "SECONDS",
        default_value = "120", value_parser = seconds, hide_short_help = true)]
    pub body_timeout: Duration,

    /// The minimum rate at which a client must send a body or read a reply, averaged over the time that the server has
    /// waited for it
    #[arg(long, value_name = "BYTES", default_value_t = 1024, hide_short_help = true)]
    pub min_bytes_per_second: u64,

    /// How long the server waits before it checks the rate
    #[arg(id = "pace_grace_seconds", long = "pace-grace-seconds", value_name = "SECONDS",
        default_value = "10", value_parser = seconds, hide_short_help = true)]
    pub pace_grace: Duration,

    /// How long a client may read nothing at all of a reply
    ///
    /// What a client has read is seen in steps of a third of the system's send buffer: 30 KB for slow connections, up to a megabyte
    /// where one was fast.
    #[arg(id = "write_timeout_seconds", long = "write-timeout-seconds", value_name = "SECONDS",
        default_value = "30", value_parser = seconds, hide_short_help = true)]
    pub write_timeout: Duration,

    /// Memory for request bodies of more than 64 KiB, over all connections
    ///
    /// At least 4 MiB. A body that is streamed takes a MiB. An account gets three quarters of it at most. Half as much
    /// again is for bodies that come slowly when others need that memory.
    #[arg(long, value_name = "BYTES", default_value_t = 256 * 1024 * 1024, value_parser = number(4 * 1024 * 1024..=usize::MAX), hide_short_help = true)]
    pub body_memory_bytes: usize,

    /// Memory for pages of entities that are being made or wait to be read, over all connections
    ///
    /// At least 5 MiB, which is what a page can take. As much again is for blobs that are being sent, each of which
    /// takes up to 768 KiB, for lists of them, which are pages, and for lists of blocks, which take up to 22 MB; and
    /// once more for messages, 32 of which take up to 10 MiB. A reply keeps its share until the client has read it.
    /// A quarter is reserved for accounts that find the rest taken.
    #[arg(long, value_name = "BYTES", default_value_t = 256 * 1024 * 1024, value_parser = number(PAGE_BYTES..=usize::MAX), hide_short_help = true)]
    pub reply_memory_bytes: usize,

    /// How long a request waits for its share of that memory before it is answered with "server busy"
    #[arg(id = "body_memory_timeout_seconds", long = "body-memory-timeout-seconds", value_name = "SECONDS",
        default_value = "2", value_parser = seconds, hide_short_help = true)]
    pub body_memory_timeout: Duration,

    /// How long requests in flight may take to end after the server was asked to stop
    // Below the ten seconds that container runtimes give a process before they kill it.
    #[arg(id = "shutdown_grace_seconds", long = "shutdown-grace-seconds", value_name = "SECONDS",
        default_value = "8", value_parser = seconds, hide_short_help = true)]
    pub shutdown_grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Config::default().limits
    }
}

/// Reads a number within a range.
fn number(range: RangeInclusive<usize>) -> impl Fn(&str) -> Result<usize, String> + Clone {
    move |text| match text.parse::<usize>() {
        Ok(number) if number < *range.start() => Err(format!("must be at least {}", range.start())),
        Ok(number) if number > *range.end() => Err(format!("must be at most {}", range.end())),
        outcome => outcome.map_err(|error| error.to_string()),
    }
}

/// Reads a time in seconds, with a fraction if need be.
fn seconds(text: &str) -> Result<Duration, String> {
    let duration = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    match duration {
        Some(duration) if !duration.is_zero() => Ok(duration),
        _ => Err(format!("not a number of seconds above 0: {text}")),
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
    /// Their heading in the help, and their section in the file.
    pub(crate) const HEADING: &str = "Limits";

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
    fn times_are_seconds() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(seconds("7"), Ok(Duration::from_secs(7)));
        for wrong in ["0", "-1", "NaN", "inf", "1e300", "soon", ""] {
            assert_eq!(seconds(wrong), Err(format!("not a number of seconds above 0: {wrong}")));
        }
    }
}
