//! Cross-origin requests of browsers: preflights, and the headers on ordinary answers.
//!
//! See the REST page "Cross-Origin Resource Sharing (CORS) support for Azure Storage".

use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Response};
use tepui_model::service_properties::CorsRule;
use tepui_model::{ErrorCode, ServiceError};

const TRUE: HeaderValue = HeaderValue::from_static("true");
const ANY_ORIGIN: HeaderValue = HeaderValue::from_static("*");

/// Answers an OPTIONS request. Needs no credentials, and the resource need not exist.
pub fn preflight(rules: &[CorsRule], headers: &HeaderMap) -> Result<Response<Vec<u8>>, ServiceError> {
    let required = |name: &HeaderName| {
        headers.get(name).filter(|value| !value.is_empty()).ok_or_else(|| {
            ServiceError::new(ErrorCode::InvalidHeaderValue)
                .with_message("A required CORS header is not present.")
        })
    };
    let origin = required(&header::ORIGIN)?;
    let method = required(&header::ACCESS_CONTROL_REQUEST_METHOD)?;
    let wanted = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS);
    // The first rule for the origin and the method decides: a later one that has the headers is not asked.
    let rule = find_rule(rules, text(origin), text(method))
        .filter(|rule| wanted.is_none_or(|names| allows_headers(rule, text(names))))
        .ok_or(ErrorCode::CorsPreflightFailure)?;
    let mut response = Response::new(Vec::new());
    let answer = response.headers_mut();
    answer.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, allowed_origin(rule, origin));
    answer.insert(header::ACCESS_CONTROL_ALLOW_METHODS, method.clone());
    if let Some(names) = wanted.filter(|names| !names.is_empty()) {
        answer.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
    }
    answer.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from(rule.max_age_seconds));
    answer.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, TRUE);
    Ok(response)
}

/// Adds what browsers want to see on the answer to an ordinary request, whether it succeeded or not. The
/// other headers must be there already, because the exposed ones are looked up among them.
pub fn apply(rules: &[CorsRule], method: &Method, request: &HeaderMap, response: &mut HeaderMap) {
    if rules.is_empty() {
        return;
    }
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    let origin = request.get(header::ORIGIN);
    let rule = match origin {
        Some(origin) => find_rule(rules, text(origin), method.as_str()),
        // Fidelity: where any origin is allowed, reads say so without being asked. scenario: cors-actual-request-any-origin
        None if is_read => {
            rules.iter().find(|rule| allows_any_origin(rule) && allows_method(rule, method.as_str()))
        }
        None => None,
    };
    if is_read && !rule.is_some_and(allows_any_origin) {
        response.append(header::VARY, HeaderValue::from_static("Origin"));
    }
    let Some(rule) = rule else { return };
    let exposed = exposed_headers(rule, response);
    match origin {
        Some(origin) if !allows_any_origin(rule) => {
            response.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            response.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, TRUE);
        }
        _ => {
            response.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, ANY_ORIGIN);
        }
    }
    if let Ok(exposed) = HeaderValue::from_str(&exposed)
        && !exposed.is_empty()
    {
        response.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    }
}

/// Whether a rule allows a page of this origin to use the method.
pub fn allows(rules: &[CorsRule], origin: &str, method: &Method) -> bool {
    find_rule(rules, origin, method.as_str()).is_some()
}

fn text(value: &HeaderValue) -> &str {
    value.to_str().unwrap_or_default()
}

fn find_rule<'a>(rules: &'a [CorsRule], origin: &str, method: &str) -> Option<&'a CorsRule> {
    rules.iter().find(|rule| allows_origin(rule, origin) && allows_method(rule, method))
}

fn allows_any_origin(rule: &CorsRule) -> bool {
    rule.allowed_origins.iter().any(|allowed| allowed == "*")
}

fn allows_origin(rule: &CorsRule, origin: &str) -> bool {
    rule.allowed_origins.iter().any(|allowed| match allowed.split_once("*.") {
        _ if allowed == "*" || allowed == origin => true,
        // One label stands in for the star: `https://*.contoso.com`.
        Some((scheme, domain)) if scheme.ends_with("://") => origin
            .strip_prefix(scheme)
            .and_then(|host| host.split_once('.'))
            .is_some_and(|(label, rest)| !label.is_empty() && rest == domain),
        _ => false,
    })
}

fn allows_method(rule: &CorsRule, method: &str) -> bool {
    rule.allowed_methods.iter().any(|allowed| allowed.eq_ignore_ascii_case(method))
}

fn allows_headers(rule: &CorsRule, names: &str) -> bool {
    names
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .all(|name| rule.allowed_headers.iter().any(|pattern| matches_name(pattern, name)))
}

/// Whether a header's name is the given one, or begins like it if that ends with a star.
fn matches_name(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix)),
        None => pattern.eq_ignore_ascii_case(name),
    }
}

fn allowed_origin(rule: &CorsRule, origin: &HeaderValue) -> HeaderValue {
    if allows_any_origin(rule) { ANY_ORIGIN } else { origin.clone() }
}

/// The names that scripts may read: a prefix stands for the headers that are there and begin with it.
fn exposed_headers(rule: &CorsRule, response: &HeaderMap) -> String {
    let mut names: Vec<&str> = Vec::new();
    for pattern in &rule.exposed_headers {
        if pattern.ends_with('*') {
            names.extend(response.keys().map(HeaderName::as_str).filter(|name| matches_name(pattern, name)));
        } else {
            names.push(pattern);
        }
    }
    names.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rule(origins: &[&str], methods: &[&str], allowed: &[&str], exposed: &[&str]) -> CorsRule {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        CorsRule {
            allowed_origins: owned(origins),
            allowed_methods: owned(methods),
            allowed_headers: owned(allowed),
            exposed_headers: owned(exposed),
            max_age_seconds: 500,
        }
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    fn print(headers: &HeaderMap) -> Vec<String> {
        let mut lines: Vec<String> =
            headers.iter().map(|(name, value)| format!("{name}: {}", text(value))).collect();
        lines.sort();
        lines
    }

    #[test]
    fn preflights() {
        let rules = [
            rule(&["http://a.b", "https://*.c.d"], &["GET", "PUT"], &["x-ms-*", "Accept"], &[]),
            rule(&["http://a.b"], &["GET"], &["*"], &[]),
            rule(&["*"], &["DELETE"], &["*"], &[]),
        ];
        let ok = Ok(200);
        let refused = Err(ErrorCode::CorsPreflightFailure);
        let missing = Err(ErrorCode::InvalidHeaderValue);
        for (origin, method, wanted, expected) in [
            ("http://a.b", "GET", "", ok),
            ("http://A.b", "GET", "", refused),
            ("https://x.c.d", "PUT", "", ok),
            ("https://x.y.c.d", "PUT", "", refused),
            ("https://.c.d", "PUT", "", refused),
            ("http://a.b", "PUT", "X-MS-date, accept", ok),
            ("http://a.b", "GET", "other", refused),
            ("http://e.f", "DELETE", "other", ok),
            ("http://e.f", "GET", "", refused),
            ("", "GET", "", missing),
            ("http://a.b", "", "", missing),
        ] {
            let request = headers(&[
                ("origin", origin),
                ("access-control-request-method", method),
                ("access-control-request-headers", wanted),
            ]);
            let outcome = preflight(&rules, &request);
            let status = outcome.map(|response| response.status().as_u16()).map_err(|error| error.code);
            assert_eq!(status, expected, "{origin} {method} {wanted}");
        }
        let request = headers(&[("origin", "http://a.b"), ("access-control-request-method", "GET")]);
        assert_eq!(preflight(&[], &request).unwrap_err().code, ErrorCode::CorsPreflightFailure);
        assert_eq!(
            print(preflight(&rules, &request).unwrap().headers()),
            [
                "access-control-allow-credentials: true",
                "access-control-allow-methods: GET",
                "access-control-allow-origin: http://a.b",
                "access-control-max-age: 500",
            ]
        );
    }

    #[test]
    fn ordinary_answers() {
        let exact = vec![rule(&["http://a.b"], &["GET", "POST"], &[], &["x-ms-r*", "ETag"])];
        let any = vec![rule(&["*"], &["GET"], &[], &["x-ms-r*"])];
        let credentials = "access-control-allow-credentials: true";
        let expose = "access-control-expose-headers: x-ms-request-id,ETag";
        let expose_any = "access-control-expose-headers: x-ms-request-id";
        let vary = "vary: Origin";
        let (origin, star) = ("access-control-allow-origin: http://a.b", "access-control-allow-origin: *");
        for (rules, method, from, expected) in [
            (&vec![], "GET", "http://a.b", vec![]),
            (&exact, "GET", "http://a.b", vec![credentials, origin, expose, vary]),
            (&exact, "POST", "http://a.b", vec![credentials, origin, expose]),
            (&exact, "GET", "http://other", vec![vary]),
            (&exact, "PUT", "http://a.b", vec![]),
            (&exact, "GET", "", vec![vary]),
            (&exact, "POST", "", vec![]),
            (&any, "GET", "http://a.b", vec![star, expose_any]),
            (&any, "GET", "", vec![star, expose_any]),
            (&any, "HEAD", "http://a.b", vec![vary]),
        ] {
            let request = if from.is_empty() { headers(&[]) } else { headers(&[("origin", from)]) };
            let mut response = headers(&[("x-ms-request-id", "1")]);
            apply(rules, &method.parse().unwrap(), &request, &mut response);
            response.remove("x-ms-request-id");
            assert_eq!(print(&response), expected, "{rules:?} {method} {from}");
        }
    }

    proptest! {
        #[test]
        fn any_pattern_and_name_match_or_not(pattern in "\\PC{0,8}", name in "\\PC{0,8}") {
            let _ = matches_name(&pattern, &name);
            let _ = allows_origin(&rule(&[&pattern], &[], &[], &[]), &name);
        }
    }
}
