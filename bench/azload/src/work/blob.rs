//! The operations of the Blob service.

use super::{EMPTY, Worker, text};
use crate::auth::{Req, Svc};
use crate::data;
use crate::stats::{OpErr, OpStat};
use base64::{Engine, engine::general_purpose::STANDARD as B64};
use memchr::memmem;
use std::io::Write;

impl Worker {
    pub(super) async fn blob_put_small(&mut self, name: &str, size: usize) -> Result<OpStat, OpErr> {
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

    pub(super) async fn blob_check(&mut self, name: &str, size: usize) -> Result<OpStat, OpErr> {
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

    pub(super) async fn blob_get_small(&mut self, i: u64) -> Result<OpStat, OpErr> {
        let size = self.cfg.size;
        self.blob_check(&format!("small-{i:07}"), size).await
    }

    pub(super) async fn blob_put_large(&mut self, name: &str, size: usize) -> Result<OpStat, OpErr> {
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

    pub(super) async fn blob_put_blocks(&mut self, name: &str, block: usize) -> Result<OpStat, OpErr> {
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

    pub(super) async fn blob_read_large(&mut self, name: &str) -> Result<OpStat, OpErr> {
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

    pub(super) async fn blob_get_large(&mut self, i: u64) -> Result<OpStat, OpErr> {
        self.blob_read_large(&format!("big-{i:04}")).await
    }

    pub(super) async fn blob_list(&mut self) -> Result<OpStat, OpErr> {
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
}
