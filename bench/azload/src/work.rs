//! The workloads: which operations each makes, and what it needs before. The operations are in the files of the services.

mod blob;
mod preload;
mod queue;
mod table;

pub use preload::preload;

use crate::auth::{Auth, Endpoint, Req, Scratch, Svc};
use crate::data::{self, Rng};
use crate::http::{Conn, Resp};
use crate::stats::{OpErr, OpStat, Stats};
use crate::stream::Tls;
use base64::{Engine, engine::general_purpose::STANDARD as B64};
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub const WORKLOADS: &[(&str, Svc)] = &[
    ("table-preload", Svc::Table),
    ("table-insert", Svc::Table),
    ("table-insert-hot", Svc::Table),
    ("table-get", Svc::Table),
    ("table-upsert-merge", Svc::Table),
    ("table-query-range", Svc::Table),
    ("table-query-scan", Svc::Table),
    ("table-query-page", Svc::Table),
    ("table-batch", Svc::Table),
    ("table-mixed", Svc::Table),
    ("queue-put", Svc::Queue),
    ("queue-getdelete", Svc::Queue),
    ("queue-roundtrip", Svc::Queue),
    ("blob-put-small", Svc::Blob),
    ("blob-get-small", Svc::Blob),
    ("blob-put-large", Svc::Blob),
    ("blob-put-blocks", Svc::Blob),
    ("blob-get-large", Svc::Blob),
    ("blob-list", Svc::Blob),
    ("table-connect", Svc::Table),
];

pub struct Cfg {
    pub workload: String,
    pub svc: Svc,
    pub ep: Endpoint,
    pub tls: Option<Tls>,
    pub auth: Auth,
    pub connections: usize,
    pub threads: usize,
    pub seconds: f64,
    pub warmup: f64,
    pub timeout: f64,
    pub preload: u64,
    pub preload_from: u64,
    pub do_preload: bool,
    pub verify: bool,
    pub keep: bool,
    pub minimal: bool,
    pub size: usize,
    pub large: usize,
    pub block: usize,
    /// Table, queue or container.
    pub name: String,
    pub run: String,
    pub pattern: Vec<u8>,
}

/// One connection and what its worker remembers.
pub struct Worker {
    pub cfg: Arc<Cfg>,
    pub id: usize,
    conn: Conn,
    sc: Scratch,
    rng: Rng,
    seq: u64,
    body: Vec<u8>,
    /// Rows written lately, for the check after the run.
    recent: Vec<(String, String, u64)>,
    pending: Vec<(String, String)>,
    next: Option<(String, String)>,
    page_sum: u64,
    msg: String,
}

pub const EMPTY: Req<'static> = Req {
    svc: Svc::Table,
    method: "GET",
    path: "",
    query: &[],
    ctype: "",
    range: "",
    xms: &[],
    other: "",
    len: None,
};

fn text(b: &[u8]) -> String {
    String::from_utf8_lossy(&b[..b.len().min(300)]).replace(['\r', '\n'], " ")
}

impl Worker {
    pub fn new(cfg: Arc<Cfg>, id: usize) -> Worker {
        let conn = Conn::new(cfg.ep.addr, cfg.tls.clone());
        let mut msg = Vec::new();
        data::small_blob(&mut msg, "azload-message", cfg.size * 3 / 4);
        let msg = B64.encode(&msg);
        Worker {
            rng: Rng((id as u64) << 40 | 0x1234_5678),
            cfg,
            id,
            conn,
            sc: Scratch::default(),
            seq: 0,
            body: Vec::new(),
            recent: Vec::new(),
            pending: Vec::new(),
            next: None,
            page_sum: 0,
            msg,
        }
    }

    pub async fn connect(&mut self) -> std::io::Result<()> {
        self.conn.connect().await
    }
    pub fn close(&mut self) {
        self.conn.close();
    }

    /// One request with `self.body` (when `req.len` says so) appended to the head.
    async fn send(&mut self, req: Req<'_>) -> Result<Resp, OpErr> {
        let cfg = self.cfg.clone();
        cfg.auth.head(&mut self.conn.w, &mut self.sc, &cfg.ep, &req);
        if req.len.unwrap_or(0) > 0 {
            self.conn.w.extend_from_slice(&self.body);
        }
        Ok(self.conn.exchange(None, req.method == "HEAD", None).await?)
    }

    fn expect(&self, r: &Resp, want: u16) -> Result<(), OpErr> {
        if r.status == want || (!self.cfg.verify && r.status < 300) {
            Ok(())
        } else {
            Err(OpErr::Status(r.status, text(self.conn.body(r))))
        }
    }

    fn remember(&mut self, pk: String, rk: String, i: u64) {
        if self.recent.len() < 8 {
            self.recent.push((pk, rk, i));
        } else {
            let k = (self.seq % 8) as usize;
            self.recent[k] = (pk, rk, i);
        }
    }

    // ---- setting up and clearing away

    pub async fn create_container(&mut self) -> Result<(), OpErr> {
        let cfg = self.cfg.clone();
        let r = match cfg.svc {
            Svc::Table => {
                self.body.clear();
                let _ = write!(self.body, "{{\"TableName\":\"{}\"}}", cfg.name);
                let n = self.body.len();
                self.send(Req {
                    method: "POST",
                    path: "/Tables",
                    ctype: "application/json",
                    other: self.accept_write(),
                    len: Some(n),
                    ..EMPTY
                })
                .await?
            }
            Svc::Queue => {
                self.send(Req {
                    svc: Svc::Queue,
                    method: "PUT",
                    path: &format!("/{}", cfg.name),
                    len: Some(0),
                    ..EMPTY
                })
                .await?
            }
            Svc::Blob => {
                self.send(Req {
                    svc: Svc::Blob,
                    method: "PUT",
                    path: &format!("/{}", cfg.name),
                    query: &[("restype", "container")],
                    len: Some(0),
                    ..EMPTY
                })
                .await?
            }
        };
        if r.status < 300 || r.status == 409 {
            Ok(())
        } else {
            Err(OpErr::Status(r.status, text(self.conn.body(&r))))
        }
    }

    pub async fn drop_container(&mut self) -> Result<(), OpErr> {
        let cfg = self.cfg.clone();
        let r = match cfg.svc {
            Svc::Table => {
                self.send(Req {
                    method: "DELETE",
                    path: &format!("/Tables('{}')", cfg.name),
                    other: self.accept(),
                    ..EMPTY
                })
                .await?
            }
            Svc::Queue => {
                self.send(Req { svc: Svc::Queue, method: "DELETE", path: &format!("/{}", cfg.name), ..EMPTY })
                    .await?
            }
            Svc::Blob => {
                self.send(Req {
                    svc: Svc::Blob,
                    method: "DELETE",
                    path: &format!("/{}", cfg.name),
                    query: &[("restype", "container")],
                    ..EMPTY
                })
                .await?
            }
        };
        if r.status < 300 { Ok(()) } else { Err(OpErr::Status(r.status, text(self.conn.body(&r)))) }
    }

    async fn op(&mut self) -> Result<OpStat, OpErr> {
        let cfg = self.cfg.clone();
        self.seq += 1;
        // Unique over connections and, with the run's id, over runs.
        let uid = (self.id as u64) << 32 | self.seq;
        match cfg.workload.as_str() {
            "table-insert" => {
                let p = self.rng.below(1000);
                self.insert(format!("p{p:06}"), format!("{}-{uid:014}", cfg.run), uid).await
            }
            "table-insert-hot" => self.insert("hot".into(), format!("{}-{uid:014}", cfg.run), uid).await,
            "table-connect" => {
                self.conn.close();
                self.conn.w.clear();
                let _ = write!(self.conn.w, "GET /health HTTP/1.1\r\nHost: {}\r\n\r\n", cfg.ep.host);
                let r = self.conn.exchange(None, false, None).await?;
                match r.status {
                    200 => Ok(OpStat { entities: 1, bytes: 0 }),
                    other => Err(OpErr::Status(other, String::new())),
                }
            }
            "table-get" => {
                let i = self.rng.below(cfg.preload.max(1));
                self.get_entity(&data::pk(i), &data::rk(i), i, false, false).await
            }
            "table-upsert-merge" => {
                let i = self.rng.below(cfg.preload.max(1));
                self.upsert(i).await
            }
            "table-query-range" => self.query_range().await,
            "table-query-scan" => self.query_scan().await,
            "table-query-page" => self.query_page().await,
            "table-batch" => {
                let pk = format!("b{}-{uid:014}", cfg.run);
                let rows: Vec<(String, String, u64)> =
                    (0..100).map(|i| (pk.clone(), data::rk(i), i)).collect();
                self.batch(&rows).await?;
                self.remember(pk, data::rk(99), 99);
                Ok(OpStat { entities: 100, bytes: self.body.len() as u64 })
            }
            "table-mixed" => {
                let i = self.rng.below(cfg.preload.max(1));
                match self.rng.below(100) {
                    0..=49 => self.get_entity(&data::pk(i), &data::rk(i), i, false, true).await,
                    50..=94 => self.upsert(i).await,
                    _ => self.query_range().await,
                }
            }
            "queue-put" => self.queue_put().await,
            "queue-getdelete" => {
                if self.pending.is_empty() {
                    if self.queue_get(32).await? == 0 {
                        return Err(OpErr::Done);
                    }
                    Ok(OpStat::default())
                } else {
                    self.queue_delete().await
                }
            }
            "queue-roundtrip" => {
                self.queue_put().await?;
                if self.queue_get(1).await? != 1 {
                    return Err(OpErr::Check("no message although one was put".into()));
                }
                self.queue_delete().await?;
                Ok(OpStat { entities: 1, bytes: self.msg.len() as u64 })
            }
            "blob-put-small" => {
                let name = format!("put-{}-{uid:014}", cfg.run);
                let r = self.blob_put_small(&name, cfg.size).await?;
                self.remember(name, String::new(), 0);
                Ok(r)
            }
            "blob-get-small" => {
                let i = self.rng.below(cfg.preload.max(1));
                self.blob_get_small(i).await
            }
            "blob-put-large" => {
                let name = format!("large-{}", self.id);
                self.blob_put_large(&name, cfg.large).await
            }
            "blob-put-blocks" => {
                let name = format!("blocks-{}", self.id);
                self.blob_put_blocks(&name, cfg.block).await
            }
            "blob-get-large" => {
                let i = self.rng.below(cfg.preload.max(1));
                self.blob_get_large(i).await
            }
            "blob-list" => self.blob_list().await,
            w => Err(OpErr::Check(format!("unknown workload {w}"))),
        }
    }

    /// Runs operations until `until`; none starts later, and those under way end.
    pub async fn run(&mut self, until: Instant, st: &mut Stats) {
        let limit = Duration::from_secs_f64(self.cfg.timeout);
        let mut bad_in_a_row = 0;
        loop {
            let t0 = Instant::now();
            if t0 >= until {
                break;
            }
            let r = match tokio::time::timeout(limit, self.op()).await {
                Ok(r) => r,
                Err(_) => {
                    self.conn.close();
                    Err(OpErr::Timeout)
                }
            };
            match r {
                Ok(o) => {
                    let t1 = Instant::now();
                    st.hist.add(t1 - t0);
                    st.ops += 1;
                    st.writes_ok += 1;
                    st.entities += o.entities;
                    st.bytes += o.bytes;
                    st.last = Some(t1);
                    bad_in_a_row = 0;
                }
                Err(OpErr::Done) => break,
                Err(e) => {
                    st.err(&e);
                    st.last = Some(Instant::now());
                    bad_in_a_row += 1;
                    if bad_in_a_row > 20 {
                        // Do not spin against a dead server.
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                }
            }
        }
    }

    /// After the run: are the things written lately there, and are they right?
    pub async fn verify(&mut self, st: &mut Stats) -> u64 {
        let cfg = self.cfg.clone();
        let mut checked = 0;
        let recent = std::mem::take(&mut self.recent);
        for (pk, rk, i) in recent {
            let r = match cfg.workload.as_str() {
                "table-insert" | "table-insert-hot" | "table-batch" => {
                    self.get_entity(&pk, &rk, i, true, false).await.map(|_| ())
                }
                "table-upsert-merge" | "table-mixed" => {
                    match self.get_entity(&pk, &rk, i, true, true).await {
                        Ok(_) => self.is_updated(),
                        Err(e) => Err(e),
                    }
                }
                "blob-put-small" => self.blob_check(&pk, cfg.size).await.map(|_| ()),
                _ => Ok(()),
            };
            checked += 1;
            if let Err(e) = r {
                let e = match e {
                    OpErr::Status(c, b) => OpErr::Check(format!("after the run: HTTP {c} {b}")),
                    OpErr::Check(m) => OpErr::Check(format!("after the run: {m}")),
                    e => e,
                };
                st.err(&e);
            }
        }
        if st.ops > 0 && (cfg.workload == "blob-put-large" || cfg.workload == "blob-put-blocks") {
            let name =
                format!("{}-{}", if cfg.workload == "blob-put-large" { "large" } else { "blocks" }, self.id);
            if let Err(e) = self.blob_read_large(&name).await {
                st.err(&e);
            }
            checked += 1;
        }
        checked
    }
}
