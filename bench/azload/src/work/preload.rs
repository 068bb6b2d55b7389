//! The data that a workload needs before it begins.

use super::{Cfg, Worker};
use crate::data;
use crate::stats::OpErr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Splits the preload into pieces and has every connection work on the next one.
pub async fn preload(workers: &mut Vec<Worker>, cfg: &Arc<Cfg>) -> Result<f64, OpErr> {
    let t0 = Instant::now();
    let step = match cfg.workload.as_str() {
        w if w.starts_with("table-") => 100,
        "blob-get-large" => 1,
        _ => 50,
    };
    let next = Arc::new(AtomicU64::new(cfg.preload_from));
    let mut tasks = Vec::new();
    for mut w in workers.drain(..) {
        let next = next.clone();
        let total = cfg.preload;
        tasks.push(tokio::spawn(async move {
            loop {
                let a = next.fetch_add(step, Ordering::Relaxed);
                if a >= total {
                    return (w, Ok(()));
                }
                if let Err(e) = w.preload_piece(a, (a + step).min(total)).await {
                    // The rest stops as well.
                    next.store(u64::MAX / 2, Ordering::Relaxed);
                    return (w, Err(format!("at {a}: {e:?}")));
                }
            }
        }));
    }
    let mut err = None;
    for t in tasks {
        let (w, r) = t.await.expect("tasks do not panic");
        workers.push(w);
        if let Err(e) = r {
            err = Some(e);
        }
    }
    match err {
        Some(e) => Err(OpErr::Check(format!("preload {e}"))),
        None => Ok(t0.elapsed().as_secs_f64()),
    }
}

impl Worker {
    /// Is the data a read workload needs there already?
    pub async fn preloaded(&mut self) -> bool {
        let cfg = self.cfg.clone();
        if cfg.preload == 0 {
            return true;
        }
        match cfg.workload.as_str() {
            w if w.starts_with("table-") => {
                for i in [0, cfg.preload - 1] {
                    if self.get_entity(&data::pk(i), &data::rk(i), i, true, true).await.is_err() {
                        return false;
                    }
                }
                true
            }
            "blob-get-small" => self.blob_get_small(cfg.preload - 1).await.is_ok(),
            "blob-get-large" => self.blob_get_large(cfg.preload - 1).await.is_ok(),
            "blob-list" => self.blob_list().await.is_ok(),
            _ => false,
        }
    }

    /// One piece of preloading: entities, messages or blobs from `from` up to `to`.
    async fn preload_piece(&mut self, from: u64, to: u64) -> Result<(), OpErr> {
        let cfg = self.cfg.clone();
        match cfg.workload.as_str() {
            w if w.starts_with("table-") => {
                let rows: Vec<(String, String, u64)> =
                    (from..to).map(|i| (data::pk(i), data::rk(i), i)).collect();
                // Connections that a busy server drops are tried again; what is there already
                // (from an earlier run, or from a try whose answer was lost) is as good.
                for _ in 0..20 {
                    match self.batch(&rows).await {
                        Ok(()) | Err(OpErr::Status(409, _)) => return Ok(()),
                        Err(OpErr::Io(e)) => {
                            eprintln!("azload: preload at {from}: {e}; again");
                            self.conn.close();
                            tokio::time::sleep(Duration::from_millis(500)).await;
                        }
                        Err(e) => return Err(e),
                    }
                }
                Err(OpErr::Io("20 tries".into()))
            }
            "queue-getdelete" => {
                for _ in from..to {
                    self.queue_put().await?;
                }
                Ok(())
            }
            "blob-get-small" => {
                for i in from..to {
                    self.blob_put_small(&format!("small-{i:07}"), cfg.size).await?;
                }
                Ok(())
            }
            "blob-list" => {
                for i in from..to {
                    self.blob_put_small(&format!("list-{i:07}"), 16).await?;
                }
                Ok(())
            }
            "blob-get-large" => {
                for i in from..to {
                    let name = format!("big-{i:04}");
                    match self.blob_put_large(&name, cfg.large).await {
                        Ok(_) => {}
                        // A server that takes no single Put Blob of that size gets it in blocks.
                        Err(OpErr::Status(413, _)) | Err(OpErr::Io(_)) => {
                            self.conn.close();
                            self.blob_put_blocks(&name, 1 << 20).await?;
                        }
                        Err(e) => return Err(e),
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
