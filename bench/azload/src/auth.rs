//! Request heads and their signatures: SharedKey for the three services, and one account SAS.

use base64::{Engine, engine::general_purpose::STANDARD as B64};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

type H = Hmac<Sha256>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Svc {
    Table,
    Queue,
    Blob,
}

#[derive(Clone)]
pub struct Endpoint {
    pub host: String,
    pub port: u16,
    pub addr: std::net::SocketAddr,
    pub base: String,
    pub https: bool,
}

impl Endpoint {
    pub fn parse(u: &str) -> Result<Endpoint, String> {
        let (https, rest) = match (u.strip_prefix("http://"), u.strip_prefix("https://")) {
            (Some(rest), _) => (false, rest),
            (None, Some(rest)) => (true, rest),
            (None, None) => return Err("only http:// and https:// endpoints".into()),
        };
        let (host, base) = match rest.find('/') {
            Some(k) => (&rest[..k], rest[k..].trim_end_matches('/')),
            None => (rest, ""),
        };
        use std::net::ToSocketAddrs;
        let hp = if host.contains(':') {
            host.to_string()
        } else {
            format!("{host}:{}", if https { 443 } else { 80 })
        };
        let addr = hp.to_socket_addrs().map_err(|e| format!("{hp}: {e}"))?.next().ok_or("no address")?;
        Ok(Endpoint { host: host.to_string(), port: addr.port(), addr, base: base.to_string(), https })
    }
}

pub struct Auth {
    pub account: String,
    key: H,
    pub version: String,
    /// The query part of the account SAS (without a leading & or ?); None: SharedKey.
    sas: Option<String>,
    pub no_auth: bool,
}

fn civil(days: i64) -> (i64, u32, u32) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let d = (doy - (153 * mp + 2) / 5 + 1) as u32;
    let m = if mp < 10 { mp + 3 } else { mp - 9 } as u32;
    (yoe + era * 400 + if m <= 2 { 1 } else { 0 }, m, d)
}

fn http_date(secs: i64) -> String {
    let days = secs.div_euclid(86_400);
    let t = secs.rem_euclid(86_400);
    let (y, m, d) = civil(days);
    let wd = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][days.rem_euclid(7) as usize];
    let mo =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"][m as usize - 1];
    format!("{wd}, {d:02} {mo} {y:04} {:02}:{:02}:{:02} GMT", t / 3600, t / 60 % 60, t % 60)
}

fn iso_date(secs: i64) -> String {
    let (y, m, d) = civil(secs.div_euclid(86_400));
    let t = secs.rem_euclid(86_400);
    format!("{y:04}-{m:02}-{d:02}T{:02}:{:02}:{:02}Z", t / 3600, t / 60 % 60, t % 60)
}

/// Time since 1970.
#[expect(clippy::disallowed_methods, reason = "requests are dated by the real clock")]
pub fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn now_seconds() -> i64 {
    now().as_secs() as i64
}

pub fn enc(out: &mut Vec<u8>, s: &str) {
    for &c in s.as_bytes() {
        if c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.' | b'_' | b'~') {
            out.push(c);
        } else {
            const HEX: &[u8; 16] = b"0123456789ABCDEF";
            out.extend_from_slice(&[b'%', HEX[(c >> 4) as usize], HEX[(c & 15) as usize]]);
        }
    }
}

/// Per connection: buffers that are used again, and the date, formatted once a second.
#[derive(Default)]
pub struct Scratch {
    sts: Vec<u8>,
    date_at: i64,
    date: String,
}

pub struct Req<'a> {
    pub svc: Svc,
    pub method: &'a str,
    /// After the account: "/table" etc., already percent-encoded.
    pub path: &'a str,
    /// Decoded pairs.
    pub query: &'a [(&'a str, &'a str)],
    pub ctype: &'a str,
    pub range: &'a str,
    /// x-ms-* headers beside date and version, lower case, sorted.
    pub xms: &'a [(&'a str, &'a str)],
    /// Other headers, as text with CRLF at the end of each.
    pub other: &'a str,
    /// None: no content-length header.
    pub len: Option<usize>,
}

impl Auth {
    pub fn new(account: &str, key: &str, version: &str, mode: &str) -> Result<Auth, String> {
        let k = B64.decode(key).map_err(|e| format!("--key: {e}"))?;
        let key = H::new_from_slice(&k).expect("HMAC takes keys of any length");
        let sas = match mode {
            "sharedkey" | "none" => None,
            "sas" => {
                let se = iso_date(now_seconds() + 86_400);
                let (sp, ss, srt, spr) = ("rwdlacup", "bqt", "sco", "https,http");
                let mut sts = format!("{account}\n{sp}\n{ss}\n{srt}\n\n{se}\n\n{spr}\n{version}\n");
                if version >= "2020-12-06" {
                    sts.push('\n');
                }
                let mut m = key.clone();
                m.update(sts.as_bytes());
                let sig = B64.encode(m.finalize().into_bytes());
                let mut q = Vec::new();
                for (i, (k, v)) in [
                    ("sv", version),
                    ("ss", ss),
                    ("srt", srt),
                    ("sp", sp),
                    ("se", &se),
                    ("spr", spr),
                    ("sig", &sig),
                ]
                .iter()
                .enumerate()
                {
                    if i > 0 {
                        q.push(b'&');
                    }
                    q.extend_from_slice(k.as_bytes());
                    q.push(b'=');
                    enc(&mut q, v);
                }
                Some(String::from_utf8(q).expect("escaped text is ASCII"))
            }
            _ => return Err("--auth sharedkey|sas|none".into()),
        };
        Ok(Auth {
            account: account.to_string(),
            key,
            version: version.to_string(),
            sas,
            no_auth: mode == "none",
        })
    }

    /// Writes the request head into `w` (cleared first).
    pub fn head(&self, w: &mut Vec<u8>, sc: &mut Scratch, ep: &Endpoint, r: &Req) {
        let t = now_seconds();
        if t != sc.date_at || sc.date.is_empty() {
            sc.date_at = t;
            sc.date = http_date(t);
        }
        w.clear();
        let _ = write!(w, "{} {}{}", r.method, ep.base, r.path);
        let mut sep = b'?';
        for (k, v) in r.query {
            w.push(sep);
            sep = b'&';
            w.extend_from_slice(k.as_bytes()); // "$filter", "$top": the dollar sign goes as it is.
            w.push(b'=');
            enc(w, v);
        }
        if let Some(s) = &self.sas {
            w.push(sep);
            w.extend_from_slice(s.as_bytes());
        }
        let _ = write!(
            w,
            " HTTP/1.1\r\nhost: {}\r\nx-ms-version: {}\r\nx-ms-date: {}\r\n{}",
            ep.host, self.version, sc.date, r.other
        );
        for (k, v) in r.xms {
            let _ = write!(w, "{k}: {v}\r\n");
        }
        if !r.ctype.is_empty() {
            let _ = write!(w, "content-type: {}\r\n", r.ctype);
        }
        if !r.range.is_empty() {
            let _ = write!(w, "range: {}\r\n", r.range);
        }
        if let Some(n) = r.len {
            let _ = write!(w, "content-length: {n}\r\n");
        }
        if self.sas.is_none() && !self.no_auth {
            self.sign(w, sc, ep, r);
        }
        w.extend_from_slice(b"\r\n");
    }

    fn sign(&self, w: &mut Vec<u8>, sc: &mut Scratch, ep: &Endpoint, r: &Req) {
        let s = &mut sc.sts;
        s.clear();
        if r.svc == Svc::Table {
            let _ =
                write!(s, "{}\n\n{}\n{}\n/{}{}{}", r.method, r.ctype, sc.date, self.account, ep.base, r.path);
            if let Some((_, v)) = r.query.iter().find(|(k, _)| *k == "comp") {
                let _ = write!(s, "?comp={v}");
            }
        } else {
            let _ = write!(s, "{}\n\n\n", r.method);
            if let Some(n) = r.len.filter(|n| *n > 0) {
                let _ = write!(s, "{n}");
            }
            let _ = write!(s, "\n\n{}\n\n\n\n\n\n{}\n", r.ctype, r.range);
            // x-ms-date and x-ms-version take their places in the sorted list.
            let mut all: [(&str, &str); 12] = [("", ""); 12];
            let mut n = 0;
            for h in r
                .xms
                .iter()
                .copied()
                .chain([("x-ms-date", sc.date.as_str()), ("x-ms-version", self.version.as_str())])
            {
                all[n] = h;
                n += 1;
            }
            all[..n].sort_unstable();
            for (k, v) in &all[..n] {
                let _ = writeln!(s, "{k}:{v}");
            }
            let _ = write!(s, "/{}{}{}", self.account, ep.base, r.path);
            let mut q: [(&str, &str); 8] = [("", ""); 8];
            q[..r.query.len()].copy_from_slice(r.query);
            q[..r.query.len()].sort_unstable();
            for (k, v) in &q[..r.query.len()] {
                let _ = write!(s, "\n{k}:{v}");
            }
        }
        let mut m = self.key.clone();
        m.update(s);
        let d = m.finalize().into_bytes();
        let mut b = [0u8; 44];
        B64.encode_slice(d, &mut b).expect("32 bytes are 44 characters");
        let _ = write!(w, "authorization: SharedKey {}:", self.account);
        w.extend_from_slice(&b);
        w.extend_from_slice(b"\r\n");
    }
}
