//! What operations came to: their errors, their latencies, what they carried.

use crate::hist::Hist;
use std::collections::BTreeMap;
use std::time::Instant;

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
