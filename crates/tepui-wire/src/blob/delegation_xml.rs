//! User delegation keys as XML: what is asked for, and the answer.

use crate::address::Service;
use crate::xml::Printer;
use crate::xml::document::{self, Element, invalid};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tepui_model::blob::{DelegationKeyRequest, UserDelegationKey};
use tepui_model::{ServiceError, Timestamp};

/// Reads the body of Get User Delegation Key.
pub fn parse(body: &[u8]) -> Result<DelegationKeyRequest, ServiceError> {
    let mut root = document::parse(body, "KeyInfo")?;
    let start =
        root.take("Start").map(Element::into_text).transpose()?.filter(|text| !text.trim().is_empty());
    let expiry = root.require("Expiry")?.into_text()?;
    // For whom the key is. Nobody here could tell.
    root.take("DelegatedUserTid");
    root.done()?;
    let time = |text: &str| Timestamp::parse_iso(text.trim()).ok_or_else(|| invalid("not a time"));
    Ok(DelegationKeyRequest { start: start.as_deref().map(time).transpose()?, expiry: time(&expiry)? })
}

pub(super) fn print(key: &UserDelegationKey) -> Vec<u8> {
    let mut body = Printer::new(Service::Blob);
    body.parent("UserDelegationKey", |body| {
        body.leaf("SignedOid", &key.object_id);
        body.leaf("SignedTid", &key.tenant_id);
        body.leaf("SignedStart", &whole_seconds(key.start));
        body.leaf("SignedExpiry", &whole_seconds(key.expiry));
        body.leaf("SignedService", "b");
        body.leaf("SignedVersion", &key.version);
        body.leaf("Value", &STANDARD.encode(&key.value));
    });
    body.finish()
}

/// `2026-03-04T05:06:07Z`, as clients put it into a SAS.
fn whole_seconds(moment: Timestamp) -> String {
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
                Some((at("2026-03-04T05:06:07Z"), at("2026-03-05T05:06:07Z"))),
            ),
            ("<Expiry>2026-03-05</Expiry><Start/>", Some((None, at("2026-03-05")))),
            (
                "<Expiry>2026-03-05</Expiry><DelegatedUserTid>x</DelegatedUserTid>",
                Some((None, at("2026-03-05"))),
            ),
            ("<Start>2026-03-04</Start>", None),
            ("<Expiry>soon</Expiry>", None),
            ("<Expiry>2026-03-05</Expiry><Other/>", None),
        ] {
            let read = parse(format!("<KeyInfo>{inside}</KeyInfo>").as_bytes()).ok();
            assert_eq!(read.map(|read| (read.start, Some(read.expiry))), expected, "{inside}");
        }
    }
}
