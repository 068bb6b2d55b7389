//! The operations of the Queue service.

use super::{EMPTY, Worker, text};
use crate::auth::{Req, Svc};
use crate::stats::{OpErr, OpStat};
use memchr::memmem;
use std::io::Write;

impl Worker {
    pub(super) async fn queue_put(&mut self) -> Result<OpStat, OpErr> {
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

    pub(super) async fn queue_get(&mut self, n: usize) -> Result<usize, OpErr> {
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

    pub(super) async fn queue_delete(&mut self) -> Result<OpStat, OpErr> {
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

fn xml_first<'a>(hay: &'a [u8], tag: &str) -> Option<&'a str> {
    let open = format!("<{tag}>");
    let a = memmem::find(hay, open.as_bytes())? + open.len();
    let b = a + memchr::memchr(b'<', &hay[a..])?;
    std::str::from_utf8(&hay[a..b]).ok()
}
