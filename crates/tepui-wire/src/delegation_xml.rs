//! User delegation keys as XML: what is asked for, and the answer. The same in all services.

use crate::address::Service;
use crate::auth::service_letter;
use crate::xml::Printer;
use crate::xml::document::{self, Element, invalid};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use tepui_model::delegation::{KeyRequest, UserDelegationKey};
use tepui_model::{ServiceError, Timestamp};

/// Reads the body of Get User Delegation Key.
pub fn parse(body: &[u8]) -> Result<KeyRequest, ServiceError> {
    let mut root = document::parse(body, "KeyInfo")?;
    let mut text = |name| {
        let text = root.take(name).map(Element::into_text).transpose()?;
        Ok::<_, ServiceError>(text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()))
    };
    let (start, expiry, delegated_tenant) = (text("Start")?, text("Expiry")?, text("DelegatedUserTid")?);
    root.done()?;
    let time = |text: String| Timestamp::parse_iso(&text).ok_or_else(|| invalid("not a time"));
    let expiry = expiry.ok_or_else(|| invalid("a required element is missing"))?;
    Ok(KeyRequest { start: start.map(time).transpose()?, expiry: time(expiry)?, delegated_tenant })
}

/// The answer to Get User Delegation Key.
pub fn encode(service: Service, key: &UserDelegationKey) -> Response<Vec<u8>> {
    let mut response = Response::new(print(service, key));
    *response.status_mut() = StatusCode::OK;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    response
}

fn print(service: Service, key: &UserDelegationKey) -> Vec<u8> {
    let mut body = Printer::new(service);
    body.parent("UserDelegationKey", |body| {
        body.leaf("SignedOid", &key.object_id);
        body.leaf("SignedTid", &key.tenant_id);
        body.leaf("SignedStart", &key.start);
        body.leaf("SignedExpiry", &key.expiry);
        body.leaf("SignedService", service_letter(key.service));
        body.leaf("SignedVersion", &key.version);
        if let Some(tenant) = &key.delegated_tenant {
            body.leaf("SignedDelegatedUserTid", tenant);
        }
        body.leaf("Value", &STANDARD.encode(key.value));
    });
    body.finish()
}

/// `2026-03-04T05:06:07Z`, as clients put it into a SAS.
pub fn whole_seconds(moment: Timestamp) -> String {
    format!("{}Z", &moment.to_iso_7()[..19])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests() {
        let at = |text| Timestamp::parse_iso(text);
        for (inside, expected) in [
            (
                "<Start>2026-03-04T05:06:07Z</Start><Expiry>2026-03-05T05:06:07Z</Expiry>",
                Some((at("2026-03-04T05:06:07Z"), at("2026-03-05T05:06:07Z"), None)),
            ),
            ("<Expiry>2026-03-05</Expiry><Start/>", Some((None, at("2026-03-05"), None))),
            (
                "<Expiry>2026-03-05</Expiry><DelegatedUserTid>x</DelegatedUserTid>",
                Some((None, at("2026-03-05"), Some("x"))),
            ),
            ("<Start>2026-03-04</Start>", None),
            ("<Expiry>soon</Expiry>", None),
            ("<Expiry>2026-03-05</Expiry><Other/>", None),
            ("<Expiry>2026-03-05</Expiry><Expiry>2026-03-05</Expiry>", None),
        ] {
            let read = parse(format!("<KeyInfo>{inside}</KeyInfo>").as_bytes()).ok();
            let read =
                read.as_ref().map(|read| (read.start, Some(read.expiry), read.delegated_tenant.as_deref()));
            assert_eq!(read, expected, "{inside}");
        }
    }

    #[test]
    fn answers() {
        let key = |delegated_tenant: Option<&str>| UserDelegationKey {
            object_id: "o".to_owned(),
            tenant_id: "t".to_owned(),
            start: "2026-03-04T05:06:07Z".to_owned(),
            expiry: "2026-03-05T05:06:07Z".to_owned(),
            service: Service::Queue,
            version: "2025-07-05".to_owned(),
            delegated_tenant: delegated_tenant.map(str::to_owned),
            value: [0; 32],
        };
        for (tenant, element) in
            [(None, ""), (Some("u"), "<SignedDelegatedUserTid>u</SignedDelegatedUserTid>")]
        {
            let expected = format!(
                "<?xml version=\"1.0\" encoding=\"utf-8\"?><UserDelegationKey><SignedOid>o</SignedOid>\
                 <SignedTid>t</SignedTid><SignedStart>2026-03-04T05:06:07Z</SignedStart>\
                 <SignedExpiry>2026-03-05T05:06:07Z</SignedExpiry><SignedService>q</SignedService>\
                 <SignedVersion>2025-07-05</SignedVersion>{element}\
                 <Value>AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=</Value></UserDelegationKey>"
            );
            let response = encode(Service::Queue, &key(tenant));
            assert_eq!(String::from_utf8_lossy(response.body()), expected);
        }
    }
}
