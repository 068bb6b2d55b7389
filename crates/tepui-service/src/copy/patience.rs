//! Repeats calls while a storage is not available: a copy may take hours, and stores restart.

use std::time::Duration;
use tepui_storage::{StorageError, StorageErrorKind};

/// How often a call is made, some 25 seconds in all, and the first and the longest delay between two times.
const ATTEMPTS: u32 = 14;
const FIRST_DELAY: Duration = Duration::from_millis(10);
const MAX_DELAY: Duration = Duration::from_secs(5);

/// The delays between the attempts of one call.
pub(super) struct Patience {
    left: u32,
    delay: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { left: ATTEMPTS - 1, delay: FIRST_DELAY }
    }
}

impl Patience {
    /// Waits before the next attempt. `false`: it has been tried often enough.
    pub(super) async fn wait(&mut self) -> bool {
        let Some(left) = self.left.checked_sub(1) else { return false };
        self.left = left;
        tokio::time::sleep(self.delay).await;
        self.delay = (self.delay * 2).min(MAX_DELAY);
        true
    }
}

/// Whether a call may succeed if it is repeated.
pub(super) fn may_pass(error: &StorageError) -> bool {
    matches!(error.kind(), StorageErrorKind::Unavailable | StorageErrorKind::Busy | StorageErrorKind::TooOld)
}

/// Makes a call until it succeeds, or fails for another reason than that a storage is not available.
pub(super) async fn patiently<T, F>(mut call: impl FnMut() -> F) -> Result<T, StorageError>
where
    F: Future<Output = Result<T, StorageError>>,
{
    let mut patience = Patience::default();
    loop {
        match call().await {
            Err(error) if may_pass(&error) && patience.wait().await => {}
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[tokio::test(start_paused = true)]
    async fn only_what_may_pass_is_repeated_and_not_for_ever() {
        for (case, error, calls) in [
            ("not available", StorageError::unavailable("now"), ATTEMPTS),
            ("too old", StorageError::too_old("now"), ATTEMPTS),
            ("damaged", StorageError::corrupt("for good"), 1),
        ] {
            let made = Cell::new(0);
            let call = || {
                made.set(made.get() + 1);
                std::future::ready(Err::<(), _>(error.clone()))
            };
            assert_eq!(patiently(call).await, Err(error.clone()), "{case}");
            assert_eq!(made.get(), calls, "{case}");
        }
        let made = Cell::new(0);
        let call = || {
            made.set(made.get() + 1);
            std::future::ready(if made.get() < 5 {
                Err(StorageError::unavailable("now"))
            } else {
                Ok(made.get())
            })
        };
        assert_eq!(patiently(call).await, Ok(5));
    }
}
