//! The workloads.

use crate::auth::{Auth, Endpoint, Req, Scratch, Svc};
use crate::data::{self, ROWS_PER_PARTITION, Rng};
use crate::hist::Hist;
use crate::http::{Conn, Resp};
use base64::{Engine, engine::general_purpose::STANDARD as B64};
use memchr::memmem;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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
];

pub struct Cfg {
    pub workload: String,
    pub svc: Svc,
    pub ep: Endpoint,
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

#[derive(Debug)]
pub enum OpErr {
    Status(u16, String),
    Check(String),
    Io(String),
    Timeout,
    /// Nothing left to do (a drained queue).
    Done,
}

impl From<std::io::Error> for OpErr {
    fn from(e: std::io::Error) -> OpErr {
        OpErr::Io(e.to_string())
    }
}

#[derive(Default, Clone, Copy)]
pub struct OpStat {
    pub entities: u64,
    pub bytes: u64,
}

pub struct Stats {
    pub hist: Hist,
    pub ops: u64,
    pub entities: u64,
    pub bytes: u64,
    pub errors: BTreeMap<String, u64>,
    pub samples: Vec<String>,
    pub last: Option<Instant>,
    pub writes_ok: u64,
}

impl Stats {
    pub fn new() -> Stats {
        Stats {
            hist: Hist::new(),
            ops: 0,
            entities: 0,
            bytes: 0,
            errors: BTreeMap::new(),
            samples: Vec::new(),
            last: None,
            writes_ok: 0,
        }
    }
    pub fn err(&mut self, e: &OpErr) {
        let (k, s) = match e {
            OpErr::Status(c, b) => (format!("http-{c}"), format!("HTTP {c}: {b}")),
            OpErr::Check(m) => ("wrong-answer".to_string(), format!("wrong answer: {m}")),
            OpErr::Io(m) => ("io".to_string(), format!("io: {m}")),
            OpErr::Timeout => ("timeout".to_string(), "timeout".to_string()),
            OpErr::Done => return,
        };
        *self.errors.entry(k).or_insert(0) += 1;
        if self.samples.len() < 3 {
            self.samples.push(s);
        }
    }
    pub fn merge(&mut self, o: Stats) {
        self.hist.merge(&o.hist);
        self.ops += o.ops;
        self.entities += o.entities;
        self.bytes += o.bytes;
        self.writes_ok += o.writes_ok;
        for (k, v) in o.errors {
            *self.errors.entry(k).or_insert(0) += v;
        }
        self.samples.extend(o.samples);
        self.samples.truncate(5);
        self.last = match (self.last, o.last) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (a, b) => a.or(b),
        };
    }
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

const ACCEPT_NO: &str = "accept: application/json;odata=nometadata\r\ndataserviceversion: 3.0\r\n";
const ACCEPT_MIN: &str = "accept: application/json;odata=minimalmetadata\r\ndataserviceversion: 3.0\r\n";
const WRITE_NO: &str =
    "accept: application/json;odata=nometadata\r\ndataserviceversion: 3.0\r\nprefer: return-no-content\r\n";
const WRITE_MIN: &str = "accept: application/json;odata=minimalmetadata\r\ndataserviceversion: 3.0\r\nprefer: return-no-content\r\n";

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

fn xml_first<'a>(hay: &'a [u8], tag: &str) -> Option<&'a str> {
    let open = format!("<{tag}>");
    let a = memmem::find(hay, open.as_bytes())? + open.len();
    let b = a + memchr::memchr(b'<', &hay[a..])?;
    std::str::from_utf8(&hay[a..b]).ok()
}

impl Worker {
    pub fn new(cfg: Arc<Cfg>, id: usize) -> Worker {
        let conn = Conn::new(cfg.ep.addr);
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

    fn ctype(&self) -> &'static str {
        "application/json"
    }
    fn accept(&self) -> &'static str {
        if self.cfg.minimal { ACCEPT_MIN } else { ACCEPT_NO }
    }
    fn accept_write(&self) -> &'static str {
        if self.cfg.minimal { WRITE_MIN } else { WRITE_NO }
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
    pub async fn preload_piece(&mut self, from: u64, to: u64) -> Result<(), OpErr> {
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

    // ---- table

    async fn batch(&mut self, rows: &[(String, String, u64)]) -> Result<(), OpErr> {
        let cfg = self.cfg.clone();
        self.body.clear();
        let id = self.rng.next();
        let _ = write!(
            self.body,
            "--batch_{id:016x}\r\nContent-Type: multipart/mixed; boundary=changeset_{id:016x}\r\n\r\n"
        );
        let mut e = Vec::with_capacity(cfg.size + 64);
        for (k, (pk, rk, i)) in rows.iter().enumerate() {
            e.clear();
            data::entity(&mut e, pk, rk, *i, cfg.size);
            let _ = write!(
                self.body,
                "--changeset_{id:016x}\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\nPOST http://{}{}/{} HTTP/1.1\r\nContent-Type: application/json\r\nAccept: application/json;odata=minimalmetadata\r\nPrefer: return-no-content\r\nDataServiceVersion: 3.0\r\nContent-ID: {k}\r\nContent-Length: {}\r\n\r\n",
                cfg.ep.host,
                cfg.ep.base,
                cfg.name,
                e.len()
            );
            self.body.extend_from_slice(&e);
            self.body.extend_from_slice(b"\r\n");
        }
        let _ = write!(self.body, "--changeset_{id:016x}--\r\n--batch_{id:016x}--\r\n");
        let n = self.body.len();
        let ct = format!("multipart/mixed; boundary=batch_{id:016x}");
        let r = self
            .send(Req {
                method: "POST",
                path: "/$batch",
                ctype: &ct,
                other: "accept: application/json\r\ndataserviceversion: 3.0\r\n",
                len: Some(n),
                ..EMPTY
            })
            .await?;
        self.expect(&r, 202)?;
        if cfg.verify {
            let ok = memmem::find_iter(self.conn.body(&r), b"HTTP/1.1 204").count();
            if ok != rows.len() && memmem::find(self.conn.body(&r), b"HTTP/1.1 409").is_some() {
                return Err(OpErr::Status(409, text(self.conn.body(&r))));
            }
            if ok != rows.len() {
                return Err(OpErr::Check(format!(
                    "batch: {ok} of {} rows: {}",
                    rows.len(),
                    text(self.conn.body(&r))
                )));
            }
        }
        Ok(())
    }

    async fn insert(&mut self, pk: String, rk: String, i: u64) -> Result<OpStat, OpErr> {
        let cfg = self.cfg.clone();
        self.body.clear();
        data::entity(&mut self.body, &pk, &rk, i, cfg.size);
        let n = self.body.len();
        let path = format!("/{}", cfg.name);
        let r = self
            .send(Req {
                method: "POST",
                path: &path,
                ctype: self.ctype(),
                other: self.accept_write(),
                len: Some(n),
                ..EMPTY
            })
            .await?;
        self.expect(&r, 204)?;
        self.remember(pk, rk, i);
        Ok(OpStat { entities: 1, bytes: n as u64 })
    }

    /// A point read. Every answer is checked for its keys and its Name, one in 64 (or with
    /// `full`) for everything.
    async fn get_entity(
        &mut self,
        pk: &str,
        rk: &str,
        i: u64,
        full: bool,
        merged: bool,
    ) -> Result<OpStat, OpErr> {
        let cfg = self.cfg.clone();
        let path = format!("/{}(PartitionKey='{pk}',RowKey='{rk}')", cfg.name);
        let r = self.send(Req { path: &path, other: self.accept(), ..EMPTY }).await?;
        self.expect(&r, 200)?;
        if cfg.verify {
            let b = self.conn.body(&r);
            let fast = b.len() > 64
                && memmem::find(b, format!("\"PartitionKey\":\"{pk}\"").as_bytes()).is_some()
                && memmem::find(b, format!("\"RowKey\":\"{rk}\"").as_bytes()).is_some()
                && memmem::find(b, format!("\"Name\":\"name-{i:012}\"").as_bytes()).is_some();
            if !fast || full || self.seq.is_multiple_of(64) {
                let v: Value = serde_json::from_slice(b).map_err(|e| OpErr::Check(format!("JSON: {e}")))?;
                data::check_entity(&v, pk, rk, i, cfg.size, merged).map_err(OpErr::Check)?;
            }
        }
        Ok(OpStat { entities: 1, bytes: r.body_len as u64 })
    }

    async fn upsert(&mut self, i: u64) -> Result<OpStat, OpErr> {
        let cfg = self.cfg.clone();
        self.body.clear();
        data::merge_body(&mut self.body, self.seq, cfg.size);
        let n = self.body.len();
        let (pk, rk) = (data::pk(i), data::rk(i));
        let path = format!("/{}(PartitionKey='{pk}',RowKey='{rk}')", cfg.name);
        let r = self
            .send(Req {
                method: "PATCH",
                path: &path,
                ctype: self.ctype(),
                other: self.accept_write(),
                len: Some(n),
                ..EMPTY
            })
            .await?;
        self.expect(&r, 204)?;
        self.remember(pk, rk, i);
        Ok(OpStat { entities: 1, bytes: n as u64 })
    }

    fn has_next(&self) -> Option<(String, String)> {
        let p = self.conn.header("x-ms-continuation-nextpartitionkey")?;
        Some((p.to_string(), self.conn.header("x-ms-continuation-nextrowkey").unwrap_or("").to_string()))
    }

    /// Checks a query's answer: exactly these rows, in this order. The count and the first and
    /// last keys every time, all of it one time in 64.
    fn check_rows(&self, r: &Resp, rows: &[u64]) -> Result<(), OpErr> {
        let b = self.conn.body(r);
        let n = memmem::find_iter(b, b"\"RowKey\"").count();
        if n != rows.len() {
            return Err(OpErr::Check(format!("{n} rows instead of {}: {}", rows.len(), text(b))));
        }
        let mut full = self.seq.is_multiple_of(64);
        for i in [rows[0], rows[rows.len() - 1]] {
            full |= memmem::find(b, format!("\"name-{i:012}\"").as_bytes()).is_none();
        }
        if full {
            let v: Value = serde_json::from_slice(b).map_err(|e| OpErr::Check(format!("JSON: {e}")))?;
            let a = v
                .get("value")
                .and_then(|x| x.as_array())
                .ok_or_else(|| OpErr::Check("no value array".into()))?;
            if a.len() != rows.len() {
                return Err(OpErr::Check(format!("{} rows instead of {}", a.len(), rows.len())));
            }
            for (e, &i) in a.iter().zip(rows) {
                data::check_entity(
                    e,
                    &data::pk(i),
                    &data::rk(i),
                    i,
                    self.cfg.size,
                    self.cfg.workload == "table-mixed",
                )
                .map_err(OpErr::Check)?;
            }
        }
        Ok(())
    }

    async fn query_range(&mut self) -> Result<OpStat, OpErr> {
        let cfg = self.cfg.clone();
        let parts = (cfg.preload / ROWS_PER_PARTITION).max(1);
        let first = self.rng.below(parts) * ROWS_PER_PARTITION + self.rng.below(ROWS_PER_PARTITION - 99);
        let hi = format!("r{:06}", first % ROWS_PER_PARTITION + 100);
        let f = format!(
            "PartitionKey eq '{}' and RowKey ge '{}' and RowKey lt '{hi}'",
            data::pk(first),
            data::rk(first)
        );
        let path = format!("/{}()", cfg.name);
        let r =
            self.send(Req { path: &path, query: &[("$filter", &f)], other: self.accept(), ..EMPTY }).await?;
        self.expect(&r, 200)?;
        if cfg.verify {
            if self.has_next().is_some() {
                return Err(OpErr::Check("a continuation where none is due".into()));
            }
            let rows: Vec<u64> = (first..first + 100).collect();
            self.check_rows(&r, &rows)?;
        }
        Ok(OpStat { entities: 100, bytes: r.body_len as u64 })
    }

    async fn query_scan(&mut self) -> Result<OpStat, OpErr> {
        let cfg = self.cfg.clone();
        let parts = (cfg.preload / ROWS_PER_PARTITION).max(1);
        let p = self.rng.below(parts) * ROWS_PER_PARTITION;
        let c = self.rng.below(100);
        let f = format!("PartitionKey eq '{}' and Count eq {c}", data::pk(p));
        let path = format!("/{}()", cfg.name);
        let r =
            self.send(Req { path: &path, query: &[("$filter", &f)], other: self.accept(), ..EMPTY }).await?;
        self.expect(&r, 200)?;
        let rows: Vec<u64> = (p..p + ROWS_PER_PARTITION).filter(|i| i % 100 == c).collect();
        if cfg.verify {
            if self.has_next().is_some() {
                return Err(OpErr::Check("a continuation where none is due".into()));
            }
            self.check_rows(&r, &rows)?;
        }
        Ok(OpStat { entities: rows.len() as u64, bytes: r.body_len as u64 })
    }

    async fn query_page(&mut self) -> Result<OpStat, OpErr> {
        let cfg = self.cfg.clone();
        let path = format!("/{}()", cfg.name);
        let from = self.page_sum;
        let next = self.next.take();
        let r = match &next {
            None => self.send(Req { path: &path, other: self.accept(), ..EMPTY }).await,
            Some((p, k)) => {
                self.send(Req {
                    path: &path,
                    query: &[("NextPartitionKey", p), ("NextRowKey", k)],
                    other: self.accept(),
                    ..EMPTY
                })
                .await
            }
        };
        self.page_sum = 0;
        let r = r?;
        self.expect(&r, 200)?;
        if !cfg.verify {
            return Ok(OpStat { entities: 1, bytes: r.body_len as u64 });
        }
        let to = (from + 1000).min(cfg.preload);
        let rows: Vec<u64> = (from..to).collect();
        self.check_rows(&r, &rows)?;
        self.next = self.has_next();
        if to < cfg.preload {
            if self.next.is_none() {
                return Err(OpErr::Check(format!("no continuation after {to} of {} rows", cfg.preload)));
            }
            self.page_sum = to;
        } else if self.next.take().is_some() {
            // Azure may answer with a token that leads to an empty page; start over all the same.
        }
        Ok(OpStat { entities: rows.len() as u64, bytes: r.body_len as u64 })
    }

    // ---- queue

    async fn queue_put(&mut self) -> Result<OpStat, OpErr> {
        let cfg = self.cfg.clone();
        self.body.clear();
        let _ = write!(self.body, "<QueueMessage><MessageText>{}</MessageText></QueueMessage>", self.msg);
        let n = self.body.len();
        let path = format!("/{}/messages", cfg.name);
        let r = self
            .send(Req {
                svc: Svc::Queue,
                method: "POST",
                path: &path,
                ctype: "application/xml",
                len: Some(n),
                ..EMPTY
            })
            .await?;
        self.expect(&r, 201)?;
        if cfg.verify && xml_first(self.conn.body(&r), "MessageId").is_none() {
            return Err(OpErr::Check(format!(
                "put message without a MessageId: {}",
                text(self.conn.body(&r))
            )));
        }
        Ok(OpStat { entities: 1, bytes: self.msg.len() as u64 })
    }

    async fn queue_get(&mut self, n: usize) -> Result<usize, OpErr> {
        let cfg = self.cfg.clone();
        let path = format!("/{}/messages", cfg.name);
        let num = n.to_string();
        let q = [("numofmessages", num.as_str()), ("visibilitytimeout", "300")];
        let r = self.send(Req { svc: Svc::Queue, path: &path, query: &q, ..EMPTY }).await?;
        self.expect(&r, 200)?;
        if !cfg.verify {
            self.pending.push(("00000000-0000-0000-0000-000000000000".into(), "AAAA".into()));
            return Ok(1);
        }
        let b = self.conn.body(&r);
        let mut got = Vec::new();
        let mut at = 0;
        while let Some(k) = memmem::find(&b[at..], b"<QueueMessage>") {
            let m = &b[at + k..];
            let end =
                memmem::find(m, b"</QueueMessage>").ok_or_else(|| OpErr::Check("cut off message".into()))?;
            let m = &m[..end];
            let id = xml_first(m, "MessageId").ok_or_else(|| OpErr::Check("no MessageId".into()))?;
            let pop = xml_first(m, "PopReceipt").ok_or_else(|| OpErr::Check("no PopReceipt".into()))?;
            if xml_first(m, "MessageText") != Some(self.msg.as_str()) {
                return Err(OpErr::Check("message text differs".into()));
            }
            got.push((id.to_string(), pop.to_string()));
            at += k + end;
        }
        let n = got.len();
        self.pending.extend(got);
        Ok(n)
    }

    async fn queue_delete(&mut self) -> Result<OpStat, OpErr> {
        let cfg = self.cfg.clone();
        let (id, pop) = self.pending.pop().expect("a message was got before");
        let path = format!("/{}/messages/{id}", cfg.name);
        let r = self
            .send(Req {
                svc: Svc::Queue,
                method: "DELETE",
                path: &path,
                query: &[("popreceipt", &pop)],
                ..EMPTY
            })
            .await?;
        self.expect(&r, 204)?;
        Ok(OpStat { entities: 1, bytes: 0 })
    }

    // ---- blob

    async fn blob_put_small(&mut self, name: &str, size: usize) -> Result<OpStat, OpErr> {
        let cfg = self.cfg.clone();
        self.body.clear();
        data::small_blob(&mut self.body, name, size);
        let n = self.body.len();
        let path = format!("/{}/{name}", cfg.name);
        let r = self
            .send(Req {
                svc: Svc::Blob,
                method: "PUT",
                path: &path,
                ctype: "application/octet-stream",
                xms: &[("x-ms-blob-type", "BlockBlob")],
                len: Some(n),
                ..EMPTY
            })
            .await?;
        self.expect(&r, 201)?;
        Ok(OpStat { entities: 1, bytes: n as u64 })
    }

    async fn blob_check(&mut self, name: &str, size: usize) -> Result<OpStat, OpErr> {
        let cfg = self.cfg.clone();
        let path = format!("/{}/{name}", cfg.name);
        let r = self.send(Req { svc: Svc::Blob, path: &path, ..EMPTY }).await?;
        self.expect(&r, 200)?;
        if cfg.verify {
            self.body.clear();
            data::small_blob(&mut self.body, name, size);
            if self.conn.body(&r) != self.body {
                return Err(OpErr::Check(format!("body of {name} differs ({} bytes)", r.body_len)));
            }
        }
        Ok(OpStat { entities: 1, bytes: r.body_len as u64 })
    }

    async fn blob_get_small(&mut self, i: u64) -> Result<OpStat, OpErr> {
        let size = self.cfg.size;
        self.blob_check(&format!("small-{i:07}"), size).await
    }

    async fn blob_put_large(&mut self, name: &str, size: usize) -> Result<OpStat, OpErr> {
        let cfg = self.cfg.clone();
        let path = format!("/{}/{name}", cfg.name);
        let req = Req {
            svc: Svc::Blob,
            method: "PUT",
            path: &path,
            ctype: "application/octet-stream",
            xms: &[("x-ms-blob-type", "BlockBlob")],
            len: Some(size),
            ..EMPTY
        };
        cfg.auth.head(&mut self.conn.w, &mut self.sc, &cfg.ep, &req);
        let r = self.conn.exchange(Some(&cfg.pattern[..size]), false, None).await?;
        self.expect(&r, 201)?;
        Ok(OpStat { entities: 1, bytes: size as u64 })
    }

    async fn blob_put_blocks(&mut self, name: &str, block: usize) -> Result<OpStat, OpErr> {
        let cfg = self.cfg.clone();
        let path = format!("/{}/{name}", cfg.name);
        let mut ids = Vec::new();
        let mut at = 0;
        while at < cfg.large {
            let n = block.min(cfg.large - at);
            let id = B64.encode(format!("block-{:06}", ids.len()));
            let req = Req {
                svc: Svc::Blob,
                method: "PUT",
                path: &path,
                query: &[("comp", "block"), ("blockid", &id)],
                ctype: "application/octet-stream",
                len: Some(n),
                ..EMPTY
            };
            cfg.auth.head(&mut self.conn.w, &mut self.sc, &cfg.ep, &req);
            let r = self.conn.exchange(Some(&cfg.pattern[at..at + n]), false, None).await?;
            self.expect(&r, 201)?;
            ids.push(id);
            at += n;
        }
        self.body.clear();
        self.body.extend_from_slice(b"<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>");
        for id in &ids {
            let _ = write!(self.body, "<Latest>{id}</Latest>");
        }
        self.body.extend_from_slice(b"</BlockList>");
        let n = self.body.len();
        let r = self
            .send(Req {
                svc: Svc::Blob,
                method: "PUT",
                path: &path,
                query: &[("comp", "blocklist")],
                ctype: "application/xml",
                len: Some(n),
                ..EMPTY
            })
            .await?;
        self.expect(&r, 201)?;
        Ok(OpStat { entities: 1, bytes: cfg.large as u64 })
    }

    async fn blob_read_large(&mut self, name: &str) -> Result<OpStat, OpErr> {
        let cfg = self.cfg.clone();
        let path = format!("/{}/{name}", cfg.name);
        let req = Req { svc: Svc::Blob, path: &path, ..EMPTY };
        cfg.auth.head(&mut self.conn.w, &mut self.sc, &cfg.ep, &req);
        let mut cmp = data::Compare {
            pattern: &cfg.pattern[..cfg.pattern.len().min(data::PERIOD)],
            pos: 0,
            wrong: false,
        };
        let mut f = |d: &[u8]| cmp.feed(d);
        let r = self.conn.exchange(None, false, Some(&mut f)).await?;
        self.expect(&r, 200)?;
        if cfg.verify && (cmp.wrong || r.body_len != cfg.large) {
            return Err(OpErr::Check(format!("large blob differs ({} bytes)", r.body_len)));
        }
        Ok(OpStat { entities: 1, bytes: r.body_len as u64 })
    }

    async fn blob_get_large(&mut self, i: u64) -> Result<OpStat, OpErr> {
        self.blob_read_large(&format!("big-{i:04}")).await
    }

    async fn blob_list(&mut self) -> Result<OpStat, OpErr> {
        let cfg = self.cfg.clone();
        let path = format!("/{}", cfg.name);
        let r = self
            .send(Req {
                svc: Svc::Blob,
                path: &path,
                query: &[("restype", "container"), ("comp", "list")],
                ..EMPTY
            })
            .await?;
        self.expect(&r, 200)?;
        if cfg.verify {
            let b = self.conn.body(&r);
            let n = memmem::find_iter(b, b"<Name>list-").count() as u64;
            let want = cfg.preload.min(5000);
            if n != want || memmem::find(b, format!("<Name>list-{:07}</Name>", want - 1).as_bytes()).is_none()
            {
                return Err(OpErr::Check(format!("{n} blobs listed instead of {want}: {}", text(b))));
            }
        }
        Ok(OpStat { entities: cfg.preload.min(5000), bytes: r.body_len as u64 })
    }

    // ---- one operation of the workload

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

    /// The last answer's entity carries the mark of a merge.
    fn is_updated(&self) -> Result<(), OpErr> {
        if self.conn.last_contains(b"\"upd-") {
            Ok(())
        } else {
            Err(OpErr::Check("the merge left no trace".into()))
        }
    }

    /// The number of messages the server says the queue has.
    pub async fn queue_count(&mut self) -> Option<u64> {
        let path = format!("/{}", self.cfg.name);
        let r = self
            .send(Req { svc: Svc::Queue, path: &path, query: &[("comp", "metadata")], ..EMPTY })
            .await
            .ok()?;
        if r.status != 200 {
            return None;
        }
        self.conn.header("x-ms-approximate-messages-count")?.parse().ok()
    }
}

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
