//! Signatures, written from the protocol's description and on purpose not shared with the server.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Base64 of the HMAC of `text` under a base64 key.
pub(crate) fn sign(key: &str, text: &str) -> Result<String, String> {
    let key = STANDARD.decode(key).map_err(|error| format!("the account key is not base64: {error}"))?;
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).map_err(|error| error.to_string())?;
    mac.update(text.as_bytes());
    Ok(STANDARD.encode(mac.finalize().into_bytes()))
}

/// Base64 of a different key of the same length.
pub(crate) fn another_key(key: &str) -> String {
    let digest = Sha256::digest(key.as_bytes());
    STANDARD.encode([digest, digest].concat())
}

/// What is signed of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Signed<'a> {
    pub(crate) verb: &'a str,
    pub content_md5: &'a str,
    pub(crate) content_type: &'a str,
    pub(crate) date: &'a str,
    pub(crate) account: &'a str,
    /// As on the request line, without the query.
    pub(crate) path: &'a str,
    pub(crate) comp: Option<&'a str>,
}

impl Signed<'_> {
    pub(crate) fn shared_key(&self) -> String {
        let resource = self.resource();
        format!("{}\n{}\n{}\n{}\n{resource}", self.verb, self.content_md5, self.content_type, self.date)
    }

    pub(crate) fn shared_key_lite(&self) -> String {
        format!("{}\n{}", self.date, self.resource())
    }

    /// What the queue and blob services sign: twelve lines, the `x-ms-` headers, and the whole query.
    pub(crate) fn storage_shared_key(&self, headers: &[(String, String)], query: &str) -> String {
        let header = |name: &str| {
            let lines = headers.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
            lines.map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(",")
        };
        let length = Some(header("Content-Length")).filter(|length| length != "0").unwrap_or_default();
        let lines = [
            self.verb.to_owned(),
            header("Content-Encoding"),
            header("Content-Language"),
            length,
            self.content_md5.to_owned(),
            self.content_type.to_owned(),
            self.storage_date(headers),
            header("If-Modified-Since"),
            header("If-Match"),
            header("If-None-Match"),
            header("If-Unmodified-Since"),
            header("Range"),
        ];
        let mut parameters: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let values = parameters.entry(percent_decode(name).to_lowercase()).or_default();
            values.push(percent_decode(value));
            values.sort();
        }
        let parameters: String =
            parameters.iter().map(|(name, values)| format!("\n{name}:{}", values.join(","))).collect();
        format!(
            "{}\n{}/{}{}{parameters}",
            lines.join("\n"),
            self.ms_headers(headers),
            self.account,
            self.path
        )
    }

    pub(crate) fn storage_shared_key_lite(&self, headers: &[(String, String)]) -> String {
        format!(
            "{}\n{}\n{}\n{}\n{}{}",
            self.verb,
            self.content_md5,
            self.content_type,
            self.storage_date(headers),
            self.ms_headers(headers),
            self.resource()
        )
    }

    /// Empty if the date is among the `x-ms-` headers.
    fn storage_date(&self, headers: &[(String, String)]) -> String {
        let has_date = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("x-ms-date"));
        if has_date { String::new() } else { self.date.to_owned() }
    }

    /// The `x-ms-` headers in order; the date may be another one than was sent.
    fn ms_headers(&self, headers: &[(String, String)]) -> String {
        let mut lines: Vec<(String, String)> = headers
            .iter()
            .map(|(name, value)| {
                (name.to_lowercase(), value.split_whitespace().collect::<Vec<_>>().join(" "))
            })
            .filter(|(name, _)| name.starts_with("x-ms-"))
            .map(|(name, value)| {
                let value = if name == "x-ms-date" { self.date.to_owned() } else { value };
                (name, value)
            })
            .collect();
        lines.sort_by(|(one, _), (other, _)| one.cmp(other));
        // Values of a header that came twice are signed as one.
        lines.dedup_by(|(name, value), (kept, all)| {
            let same = name == kept;
            if same {
                *all = format!("{all},{value}");
            }
            same
        });
        lines.iter().map(|(name, value)| format!("{name}:{value}\n")).collect()
    }

    fn resource(&self) -> String {
        let comp = self.comp.map(|comp| format!("?comp={comp}")).unwrap_or_default();
        format!("/{}{}{comp}", self.account, self.path)
    }
}

/// The string to sign of an account SAS.
pub(crate) fn account_sas(account: &str, field: impl Fn(&str) -> String) -> String {
    let mut lines = vec![account.to_owned()];
    lines.extend(["sp", "ss", "srt", "st", "se", "sip", "spr", "sv"].map(&field));
    if field("sv").as_str() >= "2020-12-06" {
        lines.push(field("ses"));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// The string to sign of a queue's SAS.
pub(crate) fn queue_sas(account: &str, queue: &str, field: impl Fn(&str) -> String) -> String {
    let version = field("sv");
    let service = if version.as_str() >= "2015-02-21" { "/queue" } else { "" };
    let mut lines = ["sp", "st", "se"].map(&field).to_vec();
    lines.push(format!("{service}/{account}/{queue}"));
    lines.push(field("si"));
    if version.as_str() >= "2015-04-05" {
        lines.extend(["sip", "spr"].map(&field));
    }
    lines.push(version);
    lines.join("\n")
}

/// The string to sign of a SAS for a container or a blob. Newer versions sign more.
pub(crate) fn blob_sas(account: &str, path: &str, field: impl Fn(&str) -> String) -> String {
    let version = field("sv");
    let since = |first: &str| version.as_str() >= first;
    let service = if since("2015-02-21") { "/blob" } else { "" };
    let mut lines = ["sp", "st", "se"].map(&field).to_vec();
    lines.push(format!("{service}/{account}/{path}"));
    lines.push(field("si"));
    if since("2015-04-05") {
        lines.extend(["sip", "spr"].map(&field));
    }
    lines.push(field("sv"));
    if since("2018-11-09") {
        lines.extend(["sr", "snapshot"].map(&field));
    }
    if since("2020-12-06") {
        lines.push(field("ses"));
    }
    if since("2013-08-15") {
        lines.extend(["rscc", "rscd", "rsce", "rscl", "rsct"].map(&field));
    }
    lines.join("\n")
}

fn percent_decode(text: &str) -> String {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let hex = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
        match (first, after.get(..2).and_then(hex)) {
            (b'%', Some(byte)) => {
                out.push(byte);
                rest = &after[2..];
            }
            _ => {
                out.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The string to sign of a table's SAS.
pub(crate) fn table_sas(account: &str, field: impl Fn(&str) -> String) -> String {
    let version = field("sv");
    let table = field("tn").to_lowercase();
    let service = if version.as_str() >= "2015-02-21" { "/table" } else { "" };
    let mut lines = ["sp", "st", "se"].map(&field).to_vec();
    lines.push(format!("{service}/{account}/{table}"));
    lines.push(field("si"));
    if version.as_str() >= "2015-04-05" {
        lines.extend(["sip", "spr"].map(&field));
    }
    lines.extend(["sv", "spk", "srk", "epk", "erk"].map(&field));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str =
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
    const SIGNED: Signed<'static> = Signed {
        verb: "GET",
        content_md5: "",
        content_type: "",
        date: "Tue, 10 Mar 2026 08:15:30 GMT",
        account: "devstoreaccount1",
        path: "",
        comp: None,
    };

    fn check(text: &str, signature: &str) {
        assert_eq!(sign(KEY, text).unwrap(), signature, "{text}");
    }

    #[test]
    fn shared_key_vectors() {
        let create = Signed {
            verb: "POST",
            content_type: "application/json",
            path: "/devstoreaccount1/Tables",
            ..SIGNED
        };
        check(&create.shared_key(), "ZHPC52QauEppVOYR9B5liFhRf8Afkz7Usb6xnsOGaYk=");
        let get = Signed { path: "/Orders(PartitionKey='p1',RowKey='r1')", ..SIGNED };
        check(&get.shared_key(), "Mm5hoaPLpVc9uMVJnwnslC9zRiYMN34rJwreya1SWCc=");
        let query = Signed { path: "/devstoreaccount1/Orders()", ..SIGNED };
        check(&query.shared_key_lite(), "sGMPeeeakcjuh/odQbWmUc2bnxW52ySoubq5ig6gxwI=");
        let acl = Signed { path: "/devstoreaccount1/Orders", comp: Some("acl"), ..SIGNED };
        check(&acl.shared_key_lite(), "o3h6MT0o4RRyCcWPZwuWJGE1iGJQjEncHQSGRNsIkYg=");
    }

    #[test]
    fn storage_shared_key_vector() {
        let headers = [("x-ms-version", "2021-06-08"), ("X-Ms-Date", SIGNED.date), ("Host", "h")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let get = Signed { path: "/devstoreaccount1/q1/messages", ..SIGNED };
        let text = get.storage_shared_key(&headers, "visibilitytimeout=30&numofmessages=%32");
        check(&text, "ktolDJD2Ju0Lh+u26od0rCx+CTfDXaPj4tba0C6rsaI=");
    }

    fn fields(text: &str) -> impl Fn(&str) -> String + use<> {
        let pairs: Vec<(String, String)> = text
            .split_whitespace()
            .filter_map(|field| field.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        move |name| {
            pairs.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone()).unwrap_or_default()
        }
    }

    #[test]
    fn sas_vectors() {
        let ranged = "sp=raud st=2026-03-01T00:00:00Z se=2026-04-01T00:00:00Z tn=Orders spr=https,http \
                      sv=2019-02-02 spk=p1 srk=r1 epk=p1 erk=r9";
        check(&table_sas("devstoreaccount1", fields(ranged)), "7//I4/Cpi718tWnI0f2cpq3JSvY4egmyCRcLHJvRdAM=");
        let policy = "sp=r se=2026-04-01T00:00:00Z tn=orders si=pol1 sv=2019-02-02";
        check(&table_sas("devstoreaccount1", fields(policy)), "8pwUXiJ9cMyCF/8dli1fsoIfFVEpmMOVQmOw0hQKkaY=");
        let account =
            "sp=rwdlacu ss=t srt=sco st=2026-03-01T00:00:00Z se=2026-04-01T00:00:00Z spr=https,http";
        let old = fields(&format!("{account} sv=2019-02-02"));
        check(&account_sas("devstoreaccount1", old), "z9vcB/wpaH7u1XOYYOA8SSyNfiPpNZHxf9zz4xNA6ig=");
        let new = fields(&format!("{account} sv=2021-06-08"));
        check(&account_sas("devstoreaccount1", new), "vczG05LdqO56NE9pOE0yB7tpjqtZ3nKvMZ74vDc1zak=");
    }

    #[test]
    fn old_versions_sign_fewer_lines() {
        let text = table_sas("acct", fields("sp=r se=2030-01-01 tn=T sv=2012-02-12"));
        assert_eq!(text, "r\n\n2030-01-01\n/acct/t\n\n2012-02-12\n\n\n\n");
        let text = blob_sas("acct", "c/b", fields("sp=r se=2030-01-01 sr=b sv=2012-02-12"));
        assert_eq!(text, "r\n\n2030-01-01\n/acct/c/b\n\n2012-02-12");
        let text = blob_sas("acct", "c/b", fields("sp=r se=2030-01-01 sr=b sv=2018-03-28 rsct=t"));
        assert_eq!(text, "r\n\n2030-01-01\n/blob/acct/c/b\n\n\n\n2018-03-28\n\n\n\n\nt");
    }
}
