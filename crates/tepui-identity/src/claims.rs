//! What a token says: how long it is good, and who its owner is.

use crate::guids;
use serde_json::{Map, Value};
use tepui_model::guid;
use tepui_model::role::{Principal, PrincipalName};
use tepui_model::token::TokenFailure;

pub(crate) type Claims = Map<String, Value>;

/// The claim with an object id, which nobody chooses for themselves.
const OBJECT_ID: &str = "oid";

/// As many groups of one token as count. Others are left out, as they would be by Entra ID.
const MAX_GROUPS: usize = 1000;

/// A claim by its path: names with dots between them. A name that has dots of its own wins.
pub(crate) fn at<'a>(claims: &'a Claims, path: &str) -> Option<&'a Value> {
    if let Some(value) = claims.get(path) {
        return Some(value);
    }
    path.match_indices('.').find_map(|(dot, _)| at(claims.get(&path[..dot])?.as_object()?, &path[dot + 1..]))
}

fn text<'a>(claims: &'a Claims, path: &str) -> Option<&'a str> {
    at(claims, path).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// From when to when a token is good, in seconds since 1970; what clocks may differ by is part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lifetime {
    not_before: u64,
    end: u64,
}

impl Lifetime {
    /// Of the claims `nbf` and `exp`, the second of which must be there.
    pub(crate) fn of(claims: &Claims, skew_seconds: u64) -> Result<Self, TokenFailure> {
        let seconds = |name| match claims.get(name) {
            None => Ok(None),
            Some(value) => seconds(value).map(Some).ok_or(TokenFailure::Form),
        };
        // When it was made means nothing here, but must mean something.
        seconds("iat")?;
        let end = seconds("exp")?.ok_or(TokenFailure::Form)?;
        Ok(Self {
            not_before: seconds("nbf")?.unwrap_or(0).saturating_sub(skew_seconds),
            end: end.saturating_add(skew_seconds),
        })
    }

    pub(crate) fn check(&self, now: u64) -> Result<(), TokenFailure> {
        match () {
            () if now >= self.end => Err(TokenFailure::Expired),
            () if now < self.not_before => Err(TokenFailure::NotYetValid),
            () => Ok(()),
        }
    }
}

/// A time: a number of seconds, which may have a fraction.
fn seconds(value: &Value) -> Option<u64> {
    /// The year 9999. Beyond it is a mistake, such as milliseconds.
    const MAX: f64 = 253_402_300_799.0;
    let number = value.as_f64()?;
    (0.0..=MAX).contains(&number).then_some(number as u64)
}

/// Where a token of an issuer says who its owner is.
#[derive(Debug, Clone)]
pub(crate) struct OwnerRules {
    pub(crate) issuer: String,
    /// The claim with the object id. `None`: `oid`, and `sub` where there is none.
    pub(crate) subject: Option<String>,
    pub(crate) tenant: TenantRule,
    /// Claims with groups, each text or a list of texts.
    pub(crate) groups: Vec<String>,
}

/// Where the tenant of a token comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TenantRule {
    /// The claim `tid` if the issuer's URL names the same one, or else a GUID that is made of the issuer: who is trusted for
    /// their own tokens cannot make some of a tenant of others.
    OfIssuer,
    /// The claim `tid` whatever it is, or else a GUID that is made of the issuer.
    Any,
    /// A claim that must be there, and is believed whatever it is.
    Claim(String),
    /// Always this one, in lower case. A token with another `tid` is refused.
    Fixed(String),
}

impl OwnerRules {
    /// The tenant of tokens that do not say one.
    pub(crate) fn default_tenant(&self) -> String {
        match &self.tenant {
            TenantRule::Fixed(id) => id.clone(),
            TenantRule::OfIssuer | TenantRule::Any | TenantRule::Claim(_) => guids::of_issuer(&self.issuer),
        }
    }

    /// Whether the URL of the issuer has this tenant as one of its parts, as those of Entra ID have.
    fn names_tenant(&self, tenant: u128) -> bool {
        self.issuer.split('/').any(|part| guid::parse(part) == Some(tenant))
    }

    /// Whether tokens are of this tenant, as far as it can be told without one. What a claim may say is not known.
    pub(crate) fn has_tenant(&self, tenant_id: &str) -> bool {
        let Some(tenant) = guid::parse(tenant_id) else { return false };
        match &self.tenant {
            TenantRule::Fixed(id) => *id == guid::print(tenant),
            TenantRule::Claim(_) => self.names_tenant(tenant),
            TenantRule::OfIssuer | TenantRule::Any => {
                self.names_tenant(tenant) || self.default_tenant() == guid::print(tenant)
            }
        }
    }

    fn tenant(&self, claims: &Claims) -> Result<String, TokenFailure> {
        let guid_of = |claim: &str| match at(claims, claim) {
            None => Ok(None),
            Some(value) => value.as_str().and_then(guid::parse).map(Some).ok_or(TokenFailure::Tenant),
        };
        let said_or_default = |said: Option<u128>| said.map_or_else(|| self.default_tenant(), guid::print);
        match &self.tenant {
            TenantRule::OfIssuer => {
                Ok(said_or_default(guid_of("tid")?.filter(|tenant| self.names_tenant(*tenant))))
            }
            TenantRule::Any => Ok(said_or_default(guid_of("tid")?)),
            TenantRule::Claim(name) => guid_of(name)?.map(guid::print).ok_or(TokenFailure::Tenant),
            TenantRule::Fixed(id) => match guid_of("tid")? {
                Some(other) if guid::print(other) != *id => Err(TokenFailure::Tenant),
                _ => Ok(id.clone()),
            },
        }
    }

    /// Who a token was made for.
    pub(crate) fn owner(&self, claims: &Claims) -> Result<Principal, TokenFailure> {
        let tenant_id = self.tenant(claims)?;
        let claim = match &self.subject {
            Some(claim) => claim.as_str(),
            None if text(claims, OBJECT_ID).is_some() => OBJECT_ID,
            None => "sub",
        };
        let subject = text(claims, claim).ok_or(TokenFailure::Form)?;
        let object_id = match claim {
            OBJECT_ID => guids::of(&self.issuer, subject),
            _ => guids::of_chosen(&self.issuer, subject),
        };
        let mut names = vec![PrincipalName::Object(object_id.clone())];
        names.extend(text(claims, "sub").map(|subject| PrincipalName::Subject(subject.to_owned())));
        let client = ["azp", "appid", "client_id"].iter().find_map(|claim| text(claims, claim));
        names.extend(client.map(|client| PrincipalName::Client(client.to_owned())));
        for group in self.groups.iter().flat_map(|path| texts(at(claims, path))).take(MAX_GROUPS) {
            let group = PrincipalName::Group(group.to_owned());
            if !names.contains(&group) {
                names.push(group);
            }
        }
        Ok(Principal { issuer: self.issuer.clone(), object_id, tenant_id, names })
    }
}

/// A text, or the texts of a list.
fn texts(value: Option<&Value>) -> impl Iterator<Item = &str> {
    let one = value.and_then(Value::as_str);
    let list = value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    one.into_iter().chain(list).filter(|text| !text.is_empty())
}

/// Whether Entra ID has left the groups out because they are too many.
pub(crate) fn has_too_many_groups(claims: &Claims) -> bool {
    at(claims, "_claim_names.groups").is_some() || claims.get("hasgroups").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const GUID: &str = "5b1f0b7e-0a0e-4a38-9f6c-2f6f6f0d5a11";

    fn claims(value: Value) -> Claims {
        value.as_object().cloned().unwrap()
    }

    fn rules() -> OwnerRules {
        OwnerRules {
            issuer: "https://issuer.example".to_owned(),
            subject: None,
            tenant: TenantRule::OfIssuer,
            groups: vec!["groups".to_owned(), "realm_access.roles".to_owned()],
        }
    }

    #[test]
    fn paths() {
        let claims = claims(json!({"a": {"b.c": {"d": 1}, "b": 2}, "a.b": 3}));
        for (path, expected) in [
            ("a.b", Some(json!(3))),
            ("a.b.c.d", Some(json!(1))),
            ("a.b.c", Some(json!({"d": 1}))),
            ("a.x", None),
            ("", None),
            (".", None),
            ("a.b.c.d.e", None),
        ] {
            assert_eq!(at(&claims, path), expected.as_ref(), "{path}");
        }
    }

    #[test]
    fn lifetimes() {
        type F = TokenFailure;
        for (case, value, now, expected) in [
            ("good", json!({"exp": 1000, "nbf": 100, "iat": 100}), 500, Ok(())),
            ("no beginning", json!({"exp": 1000}), 0, Ok(())),
            ("at the beginning", json!({"exp": 1000, "nbf": 160}), 100, Ok(())),
            ("before it", json!({"exp": 1000, "nbf": 161}), 100, Err(F::NotYetValid)),
            ("the last second", json!({"exp": 1000}), 1059, Ok(())),
            ("expired", json!({"exp": 1000}), 1060, Err(F::Expired)),
            ("a fraction", json!({"exp": 1000.9}), 1059, Ok(())),
            ("no end", json!({"nbf": 100}), 500, Err(F::Form)),
            ("text", json!({"exp": "1000"}), 500, Err(F::Form)),
            ("null", json!({"exp": null}), 500, Err(F::Form)),
            ("negative", json!({"exp": -1}), 500, Err(F::Form)),
            ("milliseconds", json!({"exp": 1_700_000_000_000_000_u64}), 500, Err(F::Form)),
            ("a beginning that is none", json!({"exp": 1000, "nbf": "x"}), 500, Err(F::Form)),
            ("made at no time", json!({"exp": 1000, "iat": []}), 500, Err(F::Form)),
        ] {
            let checked = Lifetime::of(&claims(value), 60).and_then(|lifetime| lifetime.check(now));
            assert_eq!(checked, expected, "{case}");
        }
    }

    #[test]
    fn owners_have_all_their_names() {
        let value = json!({"sub": "ada", "oid": GUID.to_uppercase(), "tid": GUID, "azp": "app", "appid": "old",
            "groups": ["g1", "g2", "g1", 7, ""], "realm_access": {"roles": "r1"}});
        let owner = rules().owner(&claims(value)).unwrap();
        let names: Vec<_> = owner.names.iter().map(ToString::to_string).collect();
        assert_eq!(
            names,
            [&format!("oid:{GUID}"), "sub:ada", "client:app", "group:g1", "group:g2", "group:r1"]
        );
        assert_eq!(owner.object_id, GUID);
    }

    #[test]
    fn who_has_no_guid_is_given_one() {
        let owner = rules().owner(&claims(json!({"sub": "ada"}))).unwrap();
        assert_eq!(owner.object_id, guids::of("https://issuer.example", "ada"));
        assert_eq!(owner.tenant_id, guids::of_issuer("https://issuer.example"));
        for value in [json!({}), json!({"sub": ""}), json!({"sub": 7}), json!({"oid": null})] {
            assert_eq!(rules().owner(&claims(value.clone())), Err(TokenFailure::Form), "{value}");
        }
        let by_mail = OwnerRules { subject: Some("email".to_owned()), ..rules() };
        assert_eq!(by_mail.owner(&claims(json!({"sub": "ada"}))), Err(TokenFailure::Form));
    }

    #[test]
    fn nobody_takes_the_object_id_of_somebody_else_for_a_name() {
        let id = |rules: &OwnerRules, value: Value| rules.owner(&claims(value)).unwrap().object_id;
        let by_name = OwnerRules { subject: Some("name".to_owned()), ..rules() };
        let (of_ada, number) = (id(&rules(), json!({"sub": "ada"})), json!(GUID));
        for (case, rules, value, expected) in [
            ("the id of ada for a subject", rules(), json!({"sub": of_ada}), None),
            ("in another case", rules(), json!({"sub": of_ada.to_uppercase()}), None),
            ("for a name that people choose", by_name.clone(), json!({"name": of_ada}), None),
            ("as the issuer has it", rules(), json!({"oid": of_ada, "sub": "x"}), Some(of_ada.as_str())),
            ("a subject that is a GUID", rules(), json!({"sub": number}), Some(GUID)),
            ("a name that is a GUID", by_name, json!({"name": number}), Some(GUID)),
        ] {
            let id = id(&rules, value);
            let known = [of_ada.as_str(), GUID].into_iter().find(|known| *known == id);
            assert_eq!(known, expected, "{case}: {id}");
        }
    }

    #[test]
    fn tenants() {
        const OTHER: &str = "00000000-0000-0000-0000-000000000001";
        let (fixed, claim) = (TenantRule::Fixed(GUID.to_owned()), TenantRule::Claim("org.id".to_owned()));
        let own = rules().issuer;
        let entra = format!("https://sts.example/{}/", GUID.to_uppercase());
        let made = |issuer: &str| Some(guids::of_issuer(issuer));
        let said = |tenant: &str| Some(tenant.to_owned());
        for (case, issuer, rule, value, expected) in [
            ("not said", &own, TenantRule::OfIssuer, json!({}), made(&own)),
            ("of somebody else", &own, TenantRule::OfIssuer, json!({"tid": GUID}), made(&own)),
            ("what the URL names", &entra, TenantRule::OfIssuer, json!({"tid": GUID}), said(GUID)),
            ("what it does not name", &entra, TenantRule::OfIssuer, json!({"tid": OTHER}), made(&entra)),
            ("one that is none", &entra, TenantRule::OfIssuer, json!({"tid": "common"}), None),
            ("any", &own, TenantRule::Any, json!({"tid": GUID}), said(GUID)),
            ("any, not said", &own, TenantRule::Any, json!({}), made(&own)),
            ("any, which is none", &own, TenantRule::Any, json!({"tid": "common"}), None),
            ("the fixed one", &own, fixed.clone(), json!({"tid": GUID}), said(GUID)),
            ("fixed and not said", &own, fixed.clone(), json!({}), said(GUID)),
            ("another", &own, fixed, json!({"tid": OTHER}), None),
            ("of a claim", &own, claim.clone(), json!({"org": {"id": OTHER}}), said(OTHER)),
            ("no such claim", &own, claim.clone(), json!({"tid": OTHER}), None),
            ("no GUID", &own, claim, json!({"org": {"id": "contoso"}}), None),
        ] {
            let mut value = claims(value);
            value.insert("sub".to_owned(), json!("ada"));
            let rules = OwnerRules { issuer: issuer.clone(), tenant: rule, ..rules() };
            let owner = rules.owner(&value).map(|owner| owner.tenant_id);
            assert_eq!(owner, expected.ok_or(TokenFailure::Tenant), "{case}");
        }
    }

    #[test]
    fn groups_that_were_left_out() {
        assert!(has_too_many_groups(&claims(json!({"_claim_names": {"groups": "src1"}}))));
        assert!(!has_too_many_groups(&claims(json!({"groups": []}))));
    }
}
