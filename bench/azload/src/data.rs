//! The data the workloads write and expect to read back. Everything follows from an index.

use serde_json::Value;
use std::io::Write;

pub const ROWS_PER_PARTITION: u64 = 1000;

pub fn pk(i: u64) -> String {
    format!("p{:06}", i / ROWS_PER_PARTITION)
}
pub fn rk(i: u64) -> String {
    format!("r{:06}", i % ROWS_PER_PARTITION)
}

fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

pub struct Rng(pub u64);
impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        mix(self.0)
    }
    pub fn below(&mut self, n: u64) -> u64 {
        ((self.next() as u128 * n as u128) >> 64) as u64
    }
}

pub fn guid(i: u64) -> String {
    let a = mix(i);
    let b = mix(a);
    format!(
        "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
        a >> 32,
        (a >> 16) & 0xffff,
        a & 0xfff,
        b >> 52,
        b & 0xffff_ffff_ffff
    )
}

/// Letters that look random, made once; everything that fills is a slice of it, so that making a
/// request costs a copy.
fn pool() -> &'static [u8] {
    static P: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    P.get_or_init(|| {
        const L: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
        let mut x = 0xABCD;
        (0..256 * 1024)
            .map(|k| {
                if k % 8 == 0 {
                    x = mix(x);
                }
                L[((x >> (8 * (k % 8))) & 63) as usize]
            })
            .collect()
    })
}

pub fn filler(out: &mut Vec<u8>, i: u64, mut n: usize) {
    let p = pool();
    while n > 0 {
        let k = n.min(p.len() / 2);
        let o = (mix(i) as usize) % (p.len() - k);
        out.extend_from_slice(&p[o..o + k]);
        n -= k;
    }
}

/// A whole entity of about `size` bytes as JSON: the keys and eight properties.
pub fn entity(out: &mut Vec<u8>, pk: &str, rk: &str, i: u64, size: usize) {
    let at = out.len();
    let _ = write!(
        out,
        "{{\"PartitionKey\":\"{pk}\",\"RowKey\":\"{rk}\",\"Name\":\"name-{i:012}\",\"Count\":{},\"Big@odata.type\":\"Edm.Int64\",\"Big\":\"{}\",\"Flag\":{},\"Ratio\":{}.25,\"When@odata.type\":\"Edm.DateTime\",\"When\":\"2024-03-{:02}T10:11:12.5Z\",\"Id@odata.type\":\"Edm.Guid\",\"Id\":\"{}\",\"Payload\":\"",
        i % 100,
        i * 1_000_003,
        i.is_multiple_of(2),
        i,
        i % 28 + 1,
        guid(i)
    );
    let have = out.len() - at + 2;
    filler(out, i, size.saturating_sub(have));
    out.extend_from_slice(b"\"}");
}

/// The body of a merge: three properties, none of which the checks of `check_entity` look at.
pub fn merge_body(out: &mut Vec<u8>, stamp: u64, size: usize) {
    let at = out.len();
    let _ = write!(
        out,
        "{{\"Ratio\":{}.5,\"Flag\":{},\"Payload\":\"upd-",
        stamp % 100_000,
        stamp.is_multiple_of(2)
    );
    let have = out.len() - at + 2;
    filler(out, stamp, size.saturating_sub(have));
    out.extend_from_slice(b"\"}");
}

/// Compares a returned entity with what was written. `merged`: the three properties a merge
/// writes may have either value.
pub fn check_entity(v: &Value, pk: &str, rk: &str, i: u64, size: usize, merged: bool) -> Result<(), String> {
    let s = |k: &str| v.get(k).and_then(|x| x.as_str()).unwrap_or("");
    if s("PartitionKey") != pk || s("RowKey") != rk {
        return Err(format!("keys {}/{} instead of {pk}/{rk}", s("PartitionKey"), s("RowKey")));
    }
    if s("Name") != format!("name-{i:012}") {
        return Err("Name".into());
    }
    if v.get("Count").and_then(|x| x.as_u64()) != Some(i % 100) {
        return Err("Count".into());
    }
    let big = match v.get("Big") {
        Some(Value::String(x)) => x.clone(),
        Some(Value::Number(n)) => n.to_string(),
        _ => String::new(),
    };
    if big != (i * 1_000_003).to_string() {
        return Err(format!("Big {big}"));
    }
    if !s("Id").eq_ignore_ascii_case(&guid(i)) {
        return Err("Id".into());
    }
    if !s("When").starts_with(&format!("2024-03-{:02}T10:11:12.5", i % 28 + 1)) {
        return Err(format!("When {}", s("When")));
    }
    if !merged {
        if v.get("Flag").and_then(|x| x.as_bool()) != Some(i.is_multiple_of(2)) {
            return Err("Flag".into());
        }
        if v.get("Ratio").and_then(|x| x.as_f64()) != Some(i as f64 + 0.25) {
            return Err("Ratio".into());
        }
        let mut e = Vec::new();
        entity(&mut e, pk, rk, i, size);
        let want: Value = serde_json::from_slice(&e).expect("our own entities are JSON");
        if v.get("Payload") != want.get("Payload") {
            return Err("Payload".into());
        }
    } else if v.get("Flag").and_then(|x| x.as_bool()).is_none()
        || v.get("Ratio").and_then(|x| x.as_f64()).is_none()
        || s("Payload").len() < 16
    {
        return Err("merged properties".into());
    }
    if s("Timestamp").len() < 19 {
        return Err("Timestamp".into());
    }
    Ok(())
}

/// A 4 KB (or so) blob body: its name first, then filler.
pub fn small_blob(out: &mut Vec<u8>, name: &str, size: usize) {
    let at = out.len();
    out.extend_from_slice(name.as_bytes());
    out.push(b'\n');
    let left = size.saturating_sub(out.len() - at);
    filler(out, 77, left);
    out.truncate(at + size);
}

pub const PERIOD: usize = 65_521;

/// A large body: a pattern whose period is a prime, so that misplaced pieces show.
pub fn large_blob(size: usize) -> Vec<u8> {
    let mut p = Vec::with_capacity(PERIOD);
    filler(&mut p, 4242, PERIOD);
    let mut v = Vec::with_capacity(size + PERIOD);
    while v.len() < size {
        v.extend_from_slice(&p);
    }
    v.truncate(size);
    v
}

/// Compares a body that arrives in pieces with the pattern.
pub struct Compare<'a> {
    pub pattern: &'a [u8],
    pub pos: usize,
    pub wrong: bool,
}
impl Compare<'_> {
    pub fn feed(&mut self, mut d: &[u8]) {
        while !d.is_empty() {
            let o = self.pos % PERIOD;
            let n = d.len().min(PERIOD - o);
            if o + n > self.pattern.len() || d[..n] != self.pattern[o..o + n] {
                self.wrong = true;
            }
            self.pos += n;
            d = &d[n..];
        }
    }
}
