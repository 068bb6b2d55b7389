//! Hosts, paths and query strings. The first line is the host, the second the target of the request.

use crate::checks::refused;
use crate::material::cut_line;
use http::Uri;
use http::header::{HOST, HeaderMap, HeaderValue};
use tepui_model::table::TableName;
use tepui_wire::address::{self as wire, AddressError, AddressRules, Service, Target};
use tepui_wire::error_body::invalid_url_page;
use tepui_wire::query::Query;
use tepui_wire::table::links::{TableLinks, table_path};
use tepui_wire::table::request::resource::Resource;

pub(super) const WORDS: &[&str] = &[
    "\n",
    "/",
    "//",
    "devstoreaccount1",
    "-secondary",
    ".table.",
    ".queue.",
    ".blob.",
    "core.windows.net",
    ":10002",
    "[::1]",
    "127.0.0.1",
    "localhost",
    "http://",
    "Tables",
    "Tables('T')",
    "$batch",
    "$metadata",
    "()",
    "(",
    ")",
    "PartitionKey='",
    "',RowKey='",
    "RowKey=",
    "''",
    "'",
    "%27",
    "%2527",
    "%00",
    "%1F",
    "%7f",
    "%C2%81",
    "%C2",
    "%E2%82%AC",
    "%FF",
    "%",
    "%2",
    "%2F",
    "%5C",
    "%23",
    "%3F",
    "?",
    "&",
    "=",
    "+",
    "comp=acl",
    "restype=service",
    "@",
    "user@",
];

/// What an address names is named by the links made of it too.
pub fn address(data: &[u8]) {
    let (host, rest) = cut_line(data);
    let (target, _) = cut_line(rest);
    let Ok(uri) = Uri::try_from(target) else { return };
    let mut headers = HeaderMap::new();
    if let Ok(host) = HeaderValue::from_bytes(host) {
        headers.insert(HOST, host);
    }
    let mut rules = AddressRules::new(Service::Table);
    rules.path_style_hosts.push("tepui.table.svc".to_owned());
    for product_style_urls in [true, false] {
        rules.product_style_urls = product_style_urls;
        match wire::parse(&uri, &headers, product_style_urls, &rules) {
            Ok(target) => resource_survives(&target, &rules, product_style_urls),
            Err(AddressError::Service(error)) => refused(&error),
            Err(AddressError::InvalidUrl { close }) => assert_eq!(invalid_url_page(close).status(), 400),
        }
    }
    let query = Query::parse(uri.query());
    for (name, _) in query.iter().take(20) {
        assert!(query.get(name).is_some() && query.get_ignore_case(name).is_some() && query.count(name) > 0);
    }
}

fn resource_survives(target: &Target, rules: &AddressRules, secure: bool) {
    let resource = match Resource::parse(&target.path, &target.account) {
        Ok(resource) => resource,
        Err(error) => return refused(&error),
    };
    let Some(name) = resource.table().filter(|name| TableName::parse(name).is_ok()) else { return };
    let links = TableLinks { base: &target.base, account: &target.account, table: name };
    let path = match &resource {
        Resource::Table(name) => table_path(name),
        Resource::Entity(_, key) => links.entity_path(&key.partition_key, &key.row_key),
        _ => name.to_owned(),
    };
    assert_eq!(Resource::parse(&path, &target.account), Ok(resource), "{path}");
    let url = format!("{}/{path}", target.base);
    // Hosts come as headers, in which more is allowed than in URLs.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-.:/".contains(&byte);
    let slashes = if target.host_style { 2 } else { 3 };
    if !target.base.bytes().all(is_plain) || target.base.matches('/').count() != slashes {
        return;
    }
    let Ok(uri) = Uri::try_from(&url) else { return };
    let Ok(again) = wire::parse(&uri, &HeaderMap::new(), secure, rules) else { return };
    assert_eq!((&again.account, &again.path), (&target.account, &path), "{url}");
}
