//! The watchdog that disconnects clients which send or read too slowly, or are silent for too long.

use crate::net::connection::ConnectionState;
use crate::net::limits::Limits;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    Fine,
    /// The handler is notified first; the connection is closed if it does not end.
    BodyOverdue,
    Close(&'static str),
}

/// Detects slow and silent clients, by comparing the state of two checks.
pub(super) struct Watchdog<'a> {
    limits: &'a Limits,
    pub(super) period: Duration,
    requests: u64,
    written: u64,
    /// The last check with activity, or the opening of the connection.
    quiet_since: Instant,
    /// The first check at which a part of the next request was received.
    head_since: Option<Instant>,
    /// The first check at which the client had stopped reading.
    stalled_since: Option<Instant>,
    body: Option<TransferRate>,
    reply: Option<TransferRate>,
}

/// The bytes that a client has sent, or read, while the server waited for it.
struct TransferRate {
    request: u64,
    from_bytes: u64,
    waited: Duration,
}

impl<'a> Watchdog<'a> {
    pub(super) fn new(limits: &'a Limits) -> Self {
        Self {
            limits,
            period: limits.tick(),
            requests: 0,
            written: 0,
            quiet_since: Instant::now(),
            head_since: None,
            stalled_since: None,
            body: None,
            reply: None,
        }
    }

    pub(super) fn check(&mut self, state: &ConnectionState, now: Instant) -> Verdict {
        let requests = state.requests.load(Relaxed);
        let written = state.bytes_written.load(Relaxed);
        let moved = requests != self.requests || written != self.written;
        let stalled = written == self.written;
        (self.requests, self.written) = (requests, written);
        if moved {
            self.quiet_since = now;
            self.head_since = None;
        }

        if state.write_blocked.load(Relaxed) {
            let since = *self.stalled_since.get_or_insert(now);
            let (bytes, waited) = TransferRate::advance(&mut self.reply, requests, written, self.period);
            // The system takes more once a third of its buffer was read, which can be a megabyte. So the rate is known when it does,
            // and not before.
            if !stalled {
                self.stalled_since = Some(now);
                if self.limits.too_slow(bytes, waited) {
                    return Verdict::Close("the client reads too slowly");
                }
            } else if now - since >= self.limits.write_timeout {
                return Verdict::Close("the client reads nothing");
            }
        } else {
            self.stalled_since = None;
        }

        if state.in_flight.load(Relaxed) {
            self.quiet_since = now;
            self.head_since = None;
            if state.awaiting_body.load(Relaxed) {
                return self.check_body(state, requests);
            }
        } else if requests == 0 {
            if now - self.quiet_since >= self.limits.head_timeout {
                return Verdict::Close("no request in time");
            }
        } else if !state.idle() {
            let since = *self.head_since.get_or_insert(now);
            if now - since >= self.limits.head_timeout && !state.write_blocked.load(Relaxed) {
                return Verdict::Close("the head of a request takes too long");
            }
        } else if now - self.quiet_since >= self.limits.idle_timeout {
            return Verdict::Close("idle");
        }
        Verdict::Fine
    }

    fn check_body(&mut self, state: &ConnectionState, requests: u64) -> Verdict {
        let read = state.bytes_read.load(Relaxed);
        let (bytes, waited) = TransferRate::advance(&mut self.body, requests, read, self.period);
        let slow = self.limits.too_slow(bytes, waited);
        if waited < self.limits.body_timeout && !slow {
            Verdict::Fine
        } else if state.body_streamed.load(Relaxed) && !slow {
            // It has kept the rate so far: measure again from here.
            self.body = None;
            Verdict::Fine
        } else if state.body_overdue() {
            Verdict::Close("the body of a request takes too long")
        } else {
            Verdict::BodyOverdue
        }
    }
}

impl TransferRate {
    /// Counts one more period of waiting, from zero for another request.
    fn advance(rate: &mut Option<Self>, request: u64, bytes: u64, period: Duration) -> (u64, Duration) {
        match rate {
            Some(rate) if rate.request == request => rate.waited += period,
            _ => *rate = Some(Self { request, from_bytes: bytes, waited: Duration::ZERO }),
        }
        rate.as_ref().map_or((0, Duration::ZERO), |rate| (bytes - rate.from_bytes, rate.waited))
    }
}
