//! The words of `auth:` → an `Authorization` header, or the query parameters of a SAS.

use crate::request::Endpoint;
use crate::scenario::Service;
use crate::sign::{self, Signed};
use crate::template::{Scope, percent_encode};

/// A kind of credentials, and the fields that say how they differ from the ordinary.
#[derive(Debug)]
pub(crate) struct Credentials {
    kind: String,
    fields: Vec<(String, String)>,
    removed: Vec<String>,
    wrong_key: bool,
    first_name: Option<String>,
}

impl Credentials {
    /// Reads `lite`, `sharedkey account=other`, `table-sas sp=r spk='a b' -se`.
    pub(crate) fn parse(text: &str, scope: &Scope) -> Result<Self, String> {
        let mut words = split_words(text).into_iter();
        let kind = words.next().unwrap_or_default();
        let mut credentials = Self {
            kind,
            fields: Vec::new(),
            removed: Vec::new(),
            wrong_key: false,
            first_name: scope.declared().next().map(str::to_owned),
        };
        for word in words {
            if word == "wrong-key" {
                credentials.wrong_key = true;
            } else if let Some(name) = word.strip_prefix('-') {
                credentials.removed.push(name.to_owned());
            } else if let Some((name, value)) = word.split_once('=') {
                credentials.fields.push((name.to_owned(), value.to_owned()));
            } else {
                return Err(format!("unknown in auth: {word}"));
            }
        }
        Ok(credentials)
    }

    /// The target to send, and the `Authorization` header if there is one.
    pub(crate) fn apply(
        &self,
        endpoint: &Endpoint,
        verb: &str,
        target: &str,
        headers: &[(String, String)],
    ) -> Result<(String, Option<String>), String> {
        match self.kind.as_str() {
            "none" => Ok((target.to_owned(), None)),
            "sharedkey" | "lite" => {
                let authorization = self.shared_key(endpoint, verb, target, headers)?;
                Ok((target.to_owned(), Some(authorization)))
            }
            "account-sas" | "table-sas" | "queue-sas" | "blob-sas" => {
                let mark = if target.contains('?') { '&' } else { '?' };
                Ok((format!("{target}{mark}{}", self.sas(endpoint)?), None))
            }
            other => Err(format!("unknown auth: {other}")),
        }
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn key(&self, endpoint: &Endpoint) -> String {
        if self.wrong_key { sign::another_key(&endpoint.key) } else { endpoint.key.clone() }
    }

    fn shared_key(
        &self,
        endpoint: &Endpoint,
        verb: &str,
        target: &str,
        headers: &[(String, String)],
    ) -> Result<String, String> {
        let header = |name: &str| {
            headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone())
        };
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let comp = query.split('&').find_map(|pair| pair.strip_prefix("comp="));
        let given = |name: &str| self.field(&format!("sign-{name}")).map(str::to_owned);
        let date =
            given("date").or_else(|| header("x-ms-date")).or_else(|| header("Date")).unwrap_or_default();
        let content_type = given("content-type").or_else(|| header("Content-Type")).unwrap_or_default();
        let account = self.field("account").unwrap_or(&endpoint.account);
        let signed = Signed {
            verb: self.field("sign-verb").unwrap_or(verb),
            content_md5: &header("Content-MD5").unwrap_or_default(),
            content_type: &content_type,
            date: &date,
            account,
            path: self.field("sign-path").unwrap_or(path),
            comp: if self.field("sign-comp") == Some("no") { None } else { comp },
        };
        let (scheme, text) = match (self.kind.as_str(), endpoint.service) {
            ("lite", Service::Table) => ("SharedKeyLite", signed.shared_key_lite()),
            ("lite", _) => ("SharedKeyLite", signed.storage_shared_key_lite(headers)),
            (_, Service::Table) => ("SharedKey", signed.shared_key()),
            _ => ("SharedKey", signed.storage_shared_key(headers, query)),
        };
        let scheme = self.field("scheme").unwrap_or(scheme);
        Ok(format!("{scheme} {account}:{}", sign::sign(&self.key(endpoint), &text)?))
    }

    fn sas(&self, endpoint: &Endpoint) -> Result<String, String> {
        let expiry = crate::clock::iso(crate::clock::now() + 3600);
        let first = self.first_name.clone().unwrap_or_default();
        let (version, service, everything) = match endpoint.service {
            Service::Table => ("2019-02-02", "t", "rwdlacu"),
            Service::Queue => ("2021-12-02", "q", "rwdlacup"),
            Service::Blob => ("2021-12-02", "b", "rwdxlactfi"),
        };
        let mut defaults = vec![("sv", version.to_owned())];
        if self.kind == "account-sas" {
            let rest = [("ss", service), ("srt", "sco"), ("sp", everything), ("se", &expiry)];
            defaults.extend(rest.map(|(name, value)| (name, value.to_owned())));
        } else {
            if self.kind == "table-sas" {
                defaults.push(("tn", first.clone()));
            }
            if self.kind == "blob-sas" {
                defaults.push(("sr", if self.field("blob").is_some() { "b" } else { "c" }.to_owned()));
            }
            // What a stored policy says cannot be repeated by the token.
            if self.field("si").is_none() {
                let permissions = match self.kind.as_str() {
                    "table-sas" => "raud",
                    "blob-sas" if self.field("blob").is_some() => "racwd",
                    "blob-sas" => "racwdl",
                    _ => "raup",
                };
                defaults.extend([("sp", permissions.to_owned()), ("se", expiry)]);
            }
        }
        let mut fields: Vec<(String, String)> = Vec::new();
        for (name, value) in defaults {
            if self.field(name).is_none() && !self.removed.iter().any(|removed| removed == name) {
                fields.push((name.to_owned(), value));
            }
        }
        let ours =
            |name: &str| name.contains("sent.") || ["sig", "queue", "container", "blob"].contains(&name);
        fields.extend(self.fields.iter().filter(|(name, _)| !ours(name)).cloned());
        let value = |name: &str| {
            fields.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone()).unwrap_or_default()
        };
        let text = match self.kind.as_str() {
            "account-sas" => sign::account_sas(&endpoint.account, value),
            "queue-sas" => sign::queue_sas(&endpoint.account, self.field("queue").unwrap_or(&first), value),
            "blob-sas" => {
                let container = self.field("container").unwrap_or(&first);
                let blob = self.field("blob").map(|blob| format!("/{blob}")).unwrap_or_default();
                sign::blob_sas(&endpoint.account, &format!("{container}{blob}"), value)
            }
            _ => sign::table_sas(&endpoint.account, value),
        };
        let signature = match self.field("sig") {
            Some(given) => given.to_owned(),
            None => sign::sign(&self.key(endpoint), &text)?,
        };
        let mut pairs = Vec::new();
        for (name, value) in &fields {
            // `sent.sp=raud` puts another value into the address than the one that was signed.
            let value = self.field(&format!("sent.{name}")).unwrap_or(value);
            pairs.push(format!("{name}={}", percent_encode(value)));
        }
        if !self.removed.iter().any(|removed| removed == "sig") {
            pairs.push(format!("sig={}", percent_encode(&signature)));
        }
        Ok(pairs.join("&"))
    }
}

/// Splits at blanks outside quotes of either kind.
fn split_words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for mark in text.chars() {
        match (mark, quote) {
            ('\'' | '"', None) => quote = Some(mark),
            (_, Some(open)) if mark == open => quote = None,
            (' ', None) => words.push(String::new()),
            _ => words.last_mut().expect("there is always a last word").push(mark),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(auth: &str, target: &str) -> (String, Option<String>) {
        let endpoint = Endpoint::parse(Service::Table, "http://h:1/acct", None, "AAAA").unwrap();
        Credentials::parse(auth, &Scope::new()).unwrap().apply(&endpoint, "GET", target, &[]).unwrap()
    }

    #[test]
    fn a_sas_goes_into_the_query() {
        let (target, header) =
            apply("table-sas tn=T sp=r spk='a b' se=2030-01-01 sent.sp=raud", "/acct/T()?x=1");
        assert!(
            target.starts_with("/acct/T()?x=1&sv=2019-02-02&tn=T&sp=raud&spk=a%20b&se=2030-01-01&sig="),
            "{target}"
        );
        assert_eq!(header, None);
        let (target, _) = apply("account-sas -se sig=bad", "/acct/Tables");
        assert_eq!(target, "/acct/Tables?sv=2019-02-02&ss=t&srt=sco&sp=rwdlacu&sig=bad");
    }

    #[test]
    fn quotes_keep_blanks_and_other_quotes() {
        assert_eq!(split_words("a b='c d'  e=\"f 'g'\""), ["a", "b=c d", "e=f 'g'"]);
    }

    #[test]
    fn a_key_goes_into_the_header() {
        let (_, right) = apply("sharedkey", "/acct/T");
        let (_, wrong) = apply("sharedkey wrong-key", "/acct/T");
        assert!(right.as_ref().unwrap().starts_with("SharedKey acct:"));
        assert_ne!(right, wrong);
        let (_, same) = apply("sharedkey sign-path=/acct/T", "/acct/Other");
        assert_eq!(right, same);
    }
}
