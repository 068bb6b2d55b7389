//! Several futures at once, in one task.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Keys may be far away: one after the other would take a thousand times as long for a page.
const AT_ONCE: usize = 16;

/// What `work` makes of each item, in their order. No more than a few are under way at a time.
pub(super) async fn several_at_once<I, T, F>(items: Vec<I>, work: impl Fn(I) -> F) -> Vec<T>
where
    F: Future<Output = T> + Send,
{
    let mut done = Vec::with_capacity(items.len());
    let mut items = items.into_iter();
    loop {
        let mut group: Vec<_> =
            items.by_ref().take(AT_ONCE).map(|item| Slot::Working(Box::pin(work(item)))).collect();
        if group.is_empty() {
            return done;
        }
        poll_fn(|context| {
            let mut is_waiting = false;
            for slot in &mut group {
                if let Slot::Working(future) = slot {
                    match future.as_mut().poll(context) {
                        Poll::Ready(outcome) => *slot = Slot::Done(outcome),
                        Poll::Pending => is_waiting = true,
                    }
                }
            }
            if is_waiting { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
        done.extend(group.into_iter().filter_map(|slot| match slot {
            Slot::Done(outcome) => Some(outcome),
            Slot::Working(_) => None,
        }));
    }
}

enum Slot<F, T> {
    Working(Pin<Box<F>>),
    Done(T),
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;
    use tokio::time::sleep;

    #[tokio::test(start_paused = true)]
    async fn a_few_at_a_time_in_their_order() {
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = async |number: u64| {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            sleep(Duration::from_millis(1 + number * 7 % 10)).await;
            now.fetch_sub(1, Ordering::SeqCst);
            number
        };
        let all: Vec<u64> = (0..100).collect();
        assert_eq!(several_at_once(all.clone(), work).await, all);
        assert_eq!(most.into_inner(), AT_ONCE);
        assert_eq!(several_at_once(Vec::new(), async |number: u64| number).await, [0; 0]);
    }
}
