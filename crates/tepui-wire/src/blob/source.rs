//! Where the bytes of a copy come from: the URL in `x-ms-copy-source`, read like the target of a request.

use super::conditions;
use super::headers::{self, COPY_SOURCE, COPY_SOURCE_AUTHORIZATION, given, given_utf8};
use super::request::resource::Resource;
use crate::address::{self, AddressRules, Target};
use crate::percent;
use crate::query::Query;
use crate::request_headers::RequestHeaders;
use http::header::HOST;
use http::{HeaderMap, HeaderValue, Uri};
use tepui_model::ServiceError;
use tepui_model::blob::{
    ContentMd5, CopySource, HttpProperties, Md5Sum, Revision, SourceBlob, SourceHead, SourcePlace,
};
use tepui_model::metadata::Metadata;

const MAX_URL_BYTES: usize = 2048;
/// What the hosts of accounts end with in Azure itself. Clients make such URLs of the names of accounts, wherever
/// these are.
const AZURE_SUFFIX: &str = ".blob.core.windows.net";

/// Reads the source of a request that names one.
pub(super) fn decode(
    headers: &RequestHeaders<'_>,
    target: &Target,
    rules: &AddressRules,
) -> Result<CopySource, ServiceError> {
    let Some(text) = given_utf8(headers, COPY_SOURCE)? else {
        return Err(headers::missing(COPY_SOURCE));
    };
    let url = Some(ascii(text)).filter(|url| url.len() <= MAX_URL_BYTES);
    let located = url.and_then(|url| {
        let place = locate(&url, target, rules)?;
        Some((url, place))
    });
    let (url, place) = located.ok_or_else(|| headers::invalid(headers, COPY_SOURCE))?;
    Ok(CopySource {
        url,
        place,
        authorization: given(headers, COPY_SOURCE_AUTHORIZATION)?.map(str::to_owned),
        conditions: conditions::of_source(headers)?,
    })
}

/// What the server of a source says of it in the headers of its answer. What is no use to a blob is left out.
pub fn head(headers: &HeaderMap) -> SourceHead {
    let headers = &RequestHeaders::new(headers);
    let said = |name| given(headers, name).ok().flatten();
    let text = |name| said(name).map(str::to_owned);
    let md5 = said(headers::BLOB_CONTENT_MD5).or_else(|| said(headers::CONTENT_MD5));
    let mut metadata = headers.metadata().unwrap_or_default();
    if metadata.iter().any(|(_, value)| value.trim().is_empty()) {
        metadata = Metadata::default();
    }
    SourceHead {
        http: HttpProperties {
            content_type: text("content-type"),
            content_encoding: text("content-encoding"),
            content_language: text("content-language"),
            content_disposition: text("content-disposition"),
            cache_control: text("cache-control"),
            content_md5: md5.and_then(|text| Md5Sum::parse(text).ok()).map(ContentMd5::from),
        },
        metadata,
        bytes: said(headers::CONTENT_LENGTH).and_then(|text| text.parse().ok()),
    }
}

/// With everything escaped that a URL cannot hold but some clients send.
fn ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'!'..=b'~' => out.push(char::from(byte)),
            _ => percent::push_escape(byte, &mut out),
        }
    }
    out
}

/// Whether a URL names a blob of this very service, and which. `None` if it names nothing.
fn locate(url: &str, target: &Target, rules: &AddressRules) -> Option<SourcePlace> {
    let uri = Uri::try_from(url).ok()?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none_or(str::is_empty) {
        return None;
    }
    let Some((source, query)) = here(&uri, target, rules) else { return Some(SourcePlace::Elsewhere) };
    let moment = |name| match query.get_ignore_case(name).filter(|value| !value.is_empty()) {
        Some(text) => Revision::parse_moment(text).map(Some),
        None => Some(None),
    };
    let revision = match (moment("snapshot")?, moment("versionid")?) {
        (None, None) => Revision::Base,
        (Some(snapshot), None) => Revision::Snapshot(snapshot),
        (None, Some(version)) => Revision::Version(version),
        (Some(_), Some(_)) => return None,
    };
    let blob = Resource::parse(&source.path, &query).ok()?.blob_path().ok()?;
    Some(SourcePlace::Here(SourceBlob { account: source.account, blob, revision }))
}

/// What a source would be as a request of its own: whoever reads it for the caller checks the credentials in
/// its query as for any other. `None` if it is not of this service.
pub fn as_request(url: &str, target: &Target, rules: &AddressRules) -> Option<(Target, Query)> {
    here(&Uri::try_from(url).ok()?, target, rules)
}

/// The target and the parameters of a URL, if it is addressed to where the request came to, or to another name
/// of this server.
fn here(uri: &Uri, target: &Target, rules: &AddressRules) -> Option<(Target, Query)> {
    let mut headers = HeaderMap::new();
    headers.insert(HOST, HeaderValue::from_str(uri.authority()?.as_str()).ok()?);
    if uri.host().is_some_and(is_in_azure) {
        let source = address::parse(uri, &headers, false, &AddressRules::new(rules.service)).ok()?;
        let account = rules.accounts.find(&source.account)?;
        return Some((Target { account, ..source }, Query::parse(uri.query())));
    }
    let source = address::parse(uri, &headers, false, rules).ok()?;
    let named = without_account(&source);
    let same = source.host_style == target.host_style && named.eq_ignore_ascii_case(without_account(target));
    let own = rules.own_hosts.iter().any(|own| own.eq_ignore_ascii_case(named));
    (same || own).then(|| (source, Query::parse(uri.query())))
}

fn is_in_azure(host: &str) -> bool {
    let suffix = host.len().checked_sub(AZURE_SUFFIX.len()).and_then(|at| host.get(at..));
    suffix.is_some_and(|suffix| suffix.eq_ignore_ascii_case(AZURE_SUFFIX))
}

/// The host of a target. In the style that has accounts in it, accounts differ in the first label only.
fn without_account(target: &Target) -> &str {
    let host = host(&target.base);
    match target.host_style {
        true => host.split_once('.').map_or(host, |(_, rest)| rest),
        false => host,
    }
}

fn host(base: &str) -> &str {
    let after = base.split_once("://").map_or(base, |(_, rest)| rest);
    after.split('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::AccountNames;
    use crate::address::Service;
    use proptest::prelude::*;

    fn target(base: &str, host_style: bool) -> Target {
        Target {
            account: "a".to_owned(),
            secondary: false,
            base: base.to_owned(),
            raw_path: String::new(),
            path: String::new(),
            host_style,
        }
    }

    /// `account container/blob revision` of a source here, `elsewhere`, or nothing.
    fn located(url: &str, target: &Target) -> Option<String> {
        let own_hosts = vec!["[::1]:10000".to_owned(), "blob.localhost:10000".to_owned()];
        let accounts = AccountNames::new(|name| {
            ["a", "other"].into_iter().find(|known| known.eq_ignore_ascii_case(name)).map(str::to_owned)
        });
        let rules = AddressRules { own_hosts, accounts, ..AddressRules::new(Service::Blob) };
        let place = locate(&ascii(url), target, &rules)?;
        Some(match place {
            SourcePlace::Elsewhere | SourcePlace::Fetched(_) => "elsewhere".to_owned(),
            SourcePlace::Here(SourceBlob { account, blob, revision }) => {
                let revision = match revision {
                    Revision::Base => "",
                    Revision::Snapshot(_) => " snapshot",
                    Revision::Version(_) => " version",
                };
                format!("{account} {blob}{revision}")
            }
        })
    }

    #[test]
    fn urls() {
        let path_style = target("http://127.0.0.1:10000/a", false);
        let host_style = target("https://a.blob.local", true);
        let moment = "2026-03-04T05%3A06%3A07.0201905Z";
        for (url, target, expected) in [
            ("http://127.0.0.1:10000/a/c01/b", &path_style, Some("a c01/b")),
            ("http://127.0.0.1:10000/other/c01/b?sv=1&sig=x", &path_style, Some("other c01/b")),
            ("http://127.0.0.1:10000/a/c01/b%20c/é", &path_style, Some("a c01/b c/é")),
            (
                &format!("http://127.0.0.1:10000/a/c01/b?snapshot={moment}"),
                &path_style,
                Some("a c01/b snapshot"),
            ),
            (
                &format!("http://127.0.0.1:10000/a/c01/b?versionid={moment}"),
                &path_style,
                Some("a c01/b version"),
            ),
            ("http://127.0.0.1:10000/a/robots.txt", &path_style, Some("a $root/robots.txt")),
            ("http://127.0.0.1:9999/a/c01/b", &path_style, Some("elsewhere")),
            ("http://[::1]:10000/a/c01/b", &path_style, Some("a c01/b")),
            ("http://[::1]:10000/a/c01/b", &host_style, Some("a c01/b")),
            ("http://other.blob.localhost:10000/c01/b", &path_style, Some("other c01/b")),
            ("https://a.blob.core.windows.net/c01/b", &path_style, Some("a c01/b")),
            ("https://A.Blob.Core.Windows.NET:443/c01/b", &path_style, Some("a c01/b")),
            ("http://other.blob.core.windows.net/c01/b?sig=x", &host_style, Some("other c01/b")),
            ("https://a-secondary.blob.core.windows.net/c01/b", &path_style, Some("a c01/b")),
            ("https://unknown.blob.core.windows.net/c01/b", &path_style, Some("elsewhere")),
            ("https://a.blob.core.windows.net.example/c01/b", &path_style, Some("elsewhere")),
            ("https://x.a.blob.core.windows.net/c01/b", &path_style, Some("elsewhere")),
            ("https://.blob.core.windows.net/c01/b", &path_style, Some("elsewhere")),
            ("https://example.com/x", &path_style, Some("elsewhere")),
            ("https://example.com", &path_style, Some("elsewhere")),
            ("https://other.blob.local/c01/b", &host_style, Some("other c01/b")),
            ("https://other.blob.example/c01/b", &host_style, Some("elsewhere")),
            ("http://127.0.0.1:10000/a/c01/b?snapshot=x", &path_style, None),
            (
                &format!("http://127.0.0.1:10000/a/c01/b?snapshot={moment}&versionid={moment}"),
                &path_style,
                None,
            ),
            ("http://127.0.0.1:10000/a/C/b", &path_style, None),
            ("ftp://127.0.0.1/a/c01/b", &path_style, None),
            ("/a/c01/b", &path_style, None),
            ("not a url", &path_style, None),
            ("http://", &path_style, None),
        ] {
            assert_eq!(located(url, target).as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn a_source_is_a_request_of_its_own() {
        let rules = AddressRules::new(Service::Blob);
        let target = target("http://127.0.0.1:10000/a", false);
        let url = "http://127.0.0.1:10000/other/c01/b?sv=1&sig=x%2By";
        let (source, query) = as_request(url, &target, &rules).unwrap();
        assert_eq!((source.account.as_str(), source.path.as_str()), ("other", "c01/b"));
        assert_eq!(query.get("sig"), Some("x+y"));
        assert!(as_request("http://example.com/other/c01/b", &target, &rules).is_none());
    }

    #[test]
    fn what_a_source_says_of_itself() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("content-type", "image/png"),
            ("content-language", "de"),
            ("cache-control", "no-store"),
            ("content-length", "12"),
            ("x-ms-meta-color", "red"),
            ("content-md5", "not a sum"),
            ("server", "other"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        let said = head(&headers);
        assert_eq!(said.http.content_type.as_deref(), Some("image/png"));
        assert_eq!(said.http.content_language.as_deref(), Some("de"));
        assert_eq!(said.http.cache_control.as_deref(), Some("no-store"));
        assert_eq!((said.http.content_md5, said.bytes), (None, Some(12)));
        assert_eq!(said.metadata.iter().collect::<Vec<_>>(), [("color", "red")]);
        headers.insert("x-ms-meta-bad-name", HeaderValue::from_static("x"));
        assert!(head(&headers).metadata.is_empty());
    }

    proptest! {
        #[test]
        fn any_text_is_located_or_not(text in "(http://127\\.0\\.0\\.1:10000/|http://|a|/|%|\\?|snapshot=|é| |&|[0-9]){0,10}") {
            let _ = located(&text, &target("http://127.0.0.1:10000/a", false));
        }
    }
}
