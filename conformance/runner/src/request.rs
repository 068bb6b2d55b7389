//! A step → the bytes of its request: default headers, address, body and credentials.

use crate::credentials::Credentials;
use crate::http::Outgoing;
use crate::scenario::{Body, Service, Step};
use crate::template::Scope;
use crate::{clock, multipart};

/// Where the server is, and who we are there.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    pub(crate) service: Service,
    pub(crate) authority: String,
    pub(crate) account: String,
    pub(crate) key: String,
    /// The account is the first segment of the path, rather than of the host name.
    pub(crate) path_style: bool,
    /// Other servers use the same store, so that what ends with a time does so a second later.
    pub(crate) shared_store: bool,
}

impl Endpoint {
    /// Reads `http://127.0.0.1:10002/devstoreaccount1`.
    pub(crate) fn parse(
        service: Service,
        url: &str,
        account: Option<&str>,
        key: &str,
    ) -> Result<Self, String> {
        let rest = url.strip_prefix("http://").ok_or_else(|| format!("not an http address: {url}"))?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let path = path.trim_end_matches('/');
        let named = if path.is_empty() { authority.split('.').next().unwrap_or("") } else { path };
        let authority =
            if authority.contains(':') { authority.to_owned() } else { format!("{authority}:80") };
        let account = account.unwrap_or(named).to_owned();
        Ok(Self {
            service,
            authority,
            account,
            key: key.to_owned(),
            path_style: !path.is_empty(),
            shared_store: false,
        })
    }

    /// The address that answers repeat, as a client of the default address sees it.
    pub(crate) fn base(&self) -> String {
        let (host, path) = self.place(&Address::default());
        format!("http://{host}{path}")
    }

    /// What comes before paths within the account.
    pub(crate) fn path(&self) -> String {
        self.place(&Address::default()).1
    }

    /// The same for `address: host-style`.
    pub(crate) fn host_base(&self) -> String {
        let (host, path) = self.place(&Address { host_style: true, ..Address::default() });
        format!("http://{host}{path}")
    }

    /// The Host header, and what comes before the path.
    fn place(&self, address: &Address) -> (String, String) {
        let suffix = if address.secondary { "-secondary" } else { "" };
        let account = address.account.as_ref().unwrap_or(&self.account);
        let port = self.authority.rsplit(':').next().unwrap_or("80");
        if address.bare {
            (self.authority.clone(), String::new())
        } else if address.host_style {
            (format!("{account}{suffix}.{}.localhost:{port}", self.service.name()), String::new())
        } else if self.path_style {
            (self.authority.clone(), format!("/{account}{suffix}"))
        } else {
            let rest = self.authority.split_once('.').map_or("", |(_, rest)| rest);
            (format!("{account}{suffix}.{rest}").trim_end_matches(":80").to_owned(), String::new())
        }
    }
}

/// The words of `address:`.
#[derive(Debug, Clone, Default)]
struct Address {
    host_style: bool,
    secondary: bool,
    /// The target is the whole path.
    bare: bool,
    account: Option<String>,
}

impl Address {
    fn parse(text: &str) -> Result<Self, String> {
        let mut address = Self::default();
        for word in text.split_whitespace() {
            match word {
                "host-style" => address.host_style = true,
                "secondary" => address.secondary = true,
                "bare" => address.bare = true,
                _ => match word.strip_prefix("account=") {
                    Some(account) => address.account = Some(account.to_owned()),
                    None => return Err(format!("unknown address: {word}")),
                },
            }
        }
        Ok(address)
    }
}

/// The request that a step describes.
pub(crate) fn build(endpoint: &Endpoint, scope: &Scope, step: &Step) -> Result<Outgoing, String> {
    let send: Vec<&str> = step.send.split_whitespace().collect();
    let known = ["chunked", "expect-continue", "absolute-form", "pipelined"];
    if let Some(word) = send.iter().find(|word| !known.contains(word)) {
        return Err(format!("unknown way to send: {word}"));
    }
    if step.verb.is_empty() {
        let head = lines(scope, &step.body)?;
        return Ok(Outgoing { head, ..Outgoing::default() });
    }
    let verb = scope.text(&step.verb)?;
    let address = Address::parse(&scope.text(&step.address)?)?;
    let (host, before) = endpoint.place(&address);
    let mut headers = Headers::default();
    for (name, value) in &step.headers {
        headers.0.push((name.clone(), scope.bytes(value)?));
    }
    for (name, value) in more_headers(&scope.text(&step.more_headers)?)? {
        headers.0.push((name, value.into_bytes()));
    }
    let body = body(endpoint, scope, step, &mut headers)?;
    let auth = scope.text(&step.auth)?;
    let target = format!("{before}{}", encode_target(&scope.text(&step.target)?));

    let without = |name: &str| step.without.iter().any(|other| other.eq_ignore_ascii_case(name));
    let mut default = |name: &str, value: &str| {
        if headers.get(name).is_none() && !without(name) {
            headers.0.push((name.to_owned(), value.as_bytes().to_vec()));
        }
    };
    default("Host", &host);
    let (version, accept, content_type) = match endpoint.service {
        Service::Table => ("2019-02-02", "application/json;odata=nometadata", "application/json"),
        Service::Queue => ("2021-12-02", "application/xml", "application/xml"),
        Service::Blob => ("2021-12-02", "application/xml", "application/octet-stream"),
    };
    default("x-ms-version", version);
    default("Accept", accept);
    if !auth.contains("sas") {
        default("x-ms-date", &clock::rfc1123(clock::now()));
    }
    if let Some(body) = &body {
        let xml = body.trim_ascii_start().starts_with(b"<");
        default("Content-Type", if xml { "application/xml" } else { content_type });
    }
    let body = body.unwrap_or_default();
    if send.contains(&"chunked") {
        default("Transfer-Encoding", "chunked");
    } else if !body.is_empty() || ["POST", "PUT", "MERGE", "PATCH"].contains(&verb.as_str()) {
        default("Content-Length", &body.len().to_string());
    }
    let waits = send.contains(&"expect-continue");
    if waits {
        default("Expect", "100-continue");
    }

    let signed = headers.texts();
    let target = match Credentials::parse(&auth, scope)?.apply(endpoint, &verb, &target, &signed)? {
        (target, Some(authorization)) => {
            if headers.get("Authorization").is_none() && !without("Authorization") {
                headers.0.push(("Authorization".to_owned(), authorization.into_bytes()));
            }
            target
        }
        (target, None) => target,
    };
    let target = if send.contains(&"absolute-form") { format!("http://{host}{target}") } else { target };
    let mut head = format!("{} {target} HTTP/1.1\r\n", verb).into_bytes();
    for (name, value) in &headers.0 {
        head.extend_from_slice(&[name.as_bytes(), b": ", value, b"\r\n"].concat());
    }
    head.extend_from_slice(b"\r\n");
    let body = if send.contains(&"chunked") { in_chunks(&body) } else { body };
    Ok(Outgoing { head, body, waits, is_head: verb == "HEAD" })
}

/// The headers of `x-ms-page-write: update; x-ms-range: bytes=0-511`.
fn more_headers(text: &str) -> Result<Vec<(String, String)>, String> {
    text.split("; ")
        .filter(|header| !header.trim().is_empty())
        .map(|header| {
            let (name, value) =
                header.split_once(':').ok_or_else(|| format!("not a header in with: {header}"))?;
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        })
        .collect()
}

#[derive(Debug, Clone, Default)]
struct Headers(Vec<(String, Vec<u8>)>);

impl Headers {
    fn get(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_slice())
    }

    fn texts(&self) -> Vec<(String, String)> {
        let text = |value: &[u8]| String::from_utf8_lossy(value).trim().to_owned();
        self.0.iter().map(|(name, value)| (name.clone(), text(value))).collect()
    }
}

fn body(
    endpoint: &Endpoint,
    scope: &Scope,
    step: &Step,
    headers: &mut Headers,
) -> Result<Option<Vec<u8>>, String> {
    match &step.body {
        Body::None => Ok(None),
        Body::Text(text) => scope.bytes(text).map(Some),
        Body::Lines { .. } => lines(scope, &step.body).map(Some),
        Body::Batch(sections) => {
            if headers.get("Content-Type").is_none() {
                let value = scope.bytes("multipart/mixed; boundary=batch_{guid}")?;
                headers.0.push(("Content-Type".to_owned(), value));
            }
            let content_type =
                String::from_utf8_lossy(headers.get("Content-Type").unwrap_or_default()).into_owned();
            let boundary = multipart::boundary(&content_type).unwrap_or_else(|| "batch_none".to_owned());
            multipart::build(scope, endpoint, &boundary, sections).map(Some)
        }
    }
}

fn lines(scope: &Scope, body: &Body) -> Result<Vec<u8>, String> {
    let Body::Lines { end, lines } = body else { return Err("raw is followed by lines with '|'".to_owned()) };
    let mut out = Vec::new();
    for line in lines {
        let (line, end) = line.strip_suffix('\\').map_or((line.as_str(), *end), |line| (line, ""));
        out.extend(scope.bytes(line)?);
        out.extend_from_slice(end.as_bytes());
    }
    Ok(out)
}

/// Escapes only what cannot stand on a request line.
pub(crate) fn encode_target(target: &str) -> String {
    let mut out = String::with_capacity(target.len());
    for byte in target.bytes() {
        if byte == b' ' || !byte.is_ascii() {
            out.push_str(&format!("%{byte:02X}"));
        } else {
            out.push(char::from(byte));
        }
    }
    out
}

/// In chunks of 1000 bytes, so that several come.
fn in_chunks(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for chunk in body.chunks(1000) {
        out.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        out.extend_from_slice(chunk);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"0\r\n\r\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(step: Step) -> String {
        let endpoint = Endpoint::parse(Service::Table, "http://127.0.0.1:10002/acct", None, "AAAA").unwrap();
        let outgoing = build(&endpoint, &Scope::new(), &step).unwrap();
        String::from_utf8([outgoing.head, outgoing.body].concat()).unwrap()
    }

    fn step(verb: &str, target: &str) -> Step {
        Step { verb: verb.into(), target: target.into(), auth: "sharedkey".into(), ..Step::default() }
    }

    #[test]
    fn fills_in_what_a_client_would_send() {
        let text = sent(Step { body: Body::Text("{}".into()), ..step("POST", "/T?$filter=a eq 'ü'") });
        assert!(
            text.starts_with("POST /acct/T?$filter=a%20eq%20'%C3%BC' HTTP/1.1\r\nHost: 127.0.0.1:10002\r\n"),
            "{text}"
        );
        for header in
            ["Content-Type: application/json\r\n", "Content-Length: 2\r\n", "Authorization: SharedKey acct:"]
        {
            assert!(text.contains(header), "{text}");
        }
        assert!(text.ends_with("\r\n\r\n{}"), "{text}");
    }

    #[test]
    fn overrides_and_leaves_out() {
        let text = sent(Step {
            headers: vec![("accept".into(), "*/*".into())],
            without: vec!["x-ms-version".into()],
            auth: "none".into(),
            address: "host-style secondary".into(),
            ..step("GET", "/Tables")
        });
        assert!(text.starts_with("GET /Tables HTTP/1.1\r\n"), "{text}");
        assert!(text.contains("Host: acct-secondary.table.localhost:10002\r\n"), "{text}");
        assert!(text.contains("accept: */*\r\n") && !text.contains("odata="), "{text}");
        assert!(!text.contains("x-ms-version") && !text.contains("Authorization"), "{text}");
    }
}
