//! When a request is sent again.

use crate::random;
use std::time::Duration;

/// When, and how often, a request is sent again that did not get an answer to rely on.
///
/// Sent again are requests that were lost with their connection, and those answered with 408, 429, 500, 502, 503 or 504.
/// Other answers are final. `Retry-After` of a service goes before the waits here. A lost connection is tried again at
/// once the first time.
///
/// ```
/// use std::time::Duration;
/// use tepui_client::Retry;
/// let patient = Retry::guide();
/// let twice = Retry::after([Duration::from_secs(1), Duration::from_secs(5)]);
/// assert_ne!(patient, twice);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Retry {
    waits: Vec<Duration>,
    /// Whether a lost connection is tried again without a wait.
    at_once: bool,
    /// By which share waits are made shorter or longer, so that clients do not come back all together.
    jitter: f64,
}

impl Retry {
    /// As the table design guide has it: after 2, 4, 10 and 30 seconds, each a fifth more or less.
    pub fn guide() -> Self {
        Self::after([2, 4, 10, 30].map(Duration::from_secs))
    }

    /// Four times within a quarter of a second: for tests.
    pub fn quick() -> Self {
        Self::after([10, 20, 50, 100].map(Duration::from_millis))
    }

    /// Not at all.
    pub fn never() -> Self {
        Self { at_once: false, ..Self::after([]) }
    }

    /// After these waits, each a fifth more or less, and then no more.
    pub fn after(waits: impl IntoIterator<Item = Duration>) -> Self {
        Self { waits: waits.into_iter().collect(), at_once: true, jitter: 0.2 }
    }

    pub(crate) fn start(&self) -> Waits<'_> {
        Waits { policy: self, used: 0, at_once: self.at_once }
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self::guide()
    }
}

/// The waits of one call.
pub(crate) struct Waits<'a> {
    policy: &'a Retry,
    used: usize,
    at_once: bool,
}

impl Waits<'_> {
    /// How long to wait after a lost connection. `None`: give up.
    pub(crate) fn after_lost_connection(&mut self) -> Option<Duration> {
        if std::mem::take(&mut self.at_once) { Some(Duration::ZERO) } else { self.after_answer(None) }
    }

    /// How long to wait after an answer that says to come back.
    pub(crate) fn after_answer(&mut self, retry_after_seconds: Option<u64>) -> Option<Duration> {
        let wait = *self.policy.waits.get(self.used)?;
        self.used += 1;
        Some(match retry_after_seconds {
            Some(seconds) => Duration::from_secs(seconds),
            None => wait.mul_f64(1.0 + self.policy.jitter * (2.0 * random::fraction() - 1.0)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_of_the_guide_are_a_fifth_more_or_less() {
        let policy = Retry::guide();
        for _ in 0..100 {
            let mut waits = policy.start();
            for seconds in [2.0, 4.0, 10.0, 30.0] {
                let wait = waits.after_answer(None).unwrap().as_secs_f64();
                assert!((0.8 * seconds..1.2 * seconds).contains(&wait), "{seconds}: {wait}");
            }
            assert_eq!(waits.after_answer(None), None);
        }
    }

    #[test]
    fn a_lost_connection_is_tried_at_once_and_only_once() {
        let policy = Retry::guide();
        let mut waits = policy.start();
        assert_eq!(waits.after_lost_connection(), Some(Duration::ZERO));
        assert!(waits.after_lost_connection().unwrap() > Duration::from_secs(1));
        assert_eq!(waits.after_answer(Some(7)), Some(Duration::from_secs(7)));
        assert_eq!(Retry::never().start().after_lost_connection(), None);
        assert_eq!(Retry::never().start().after_answer(Some(1)), None);
    }
}
