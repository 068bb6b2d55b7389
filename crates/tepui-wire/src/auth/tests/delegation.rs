//! SAS by keys of users, and requests with tokens.

use super::*;
use tepui_model::grant::{AccountRoles, Delegator};
use tepui_model::role::AssignedRoles;

const ACCOUNT: &str = DEVELOPMENT_ACCOUNT;
const KEY: &str = "skoid=o&sktid=t&skt=2026-03-10&ske=2026-03-12";
const SAS: &str = "sp=r&se=2026-03-11";

/// The strings to sign as documentation has them: names of parameters, `R` for the resource, nothing for an empty line.
const STRINGS: [(Service, &str, &str); 7] = {
    use Service::*;
    [
        (
            Blob,
            "2018-11-09",
            "sp st se R skoid sktid skt ske sks skv sip spr sv sr - rscc rscd rsce rscl rsct",
        ),
        (
            Blob,
            "2020-02-10",
            "sp st se R skoid sktid skt ske sks skv saoid suoid scid sip spr sv sr - rscc rscd rsce rscl rsct",
        ),
        (
            Blob,
            "2020-12-06",
            "sp st se R skoid sktid skt ske sks skv saoid suoid scid sip spr sv sr - ses rscc rscd rsce rscl rsct",
        ),
        (
            Blob,
            "2025-07-05",
            "sp st se R skoid sktid skt ske sks skv saoid suoid scid skdutid sduoid sip spr sv sr - ses rscc rscd \
             rsce rscl rsct",
        ),
        (
            Blob,
            "2026-04-06",
            "sp st se R skoid sktid skt ske sks skv saoid suoid scid skdutid sduoid sip spr sv sr - ses - - rscc rscd \
             rsce rscl rsct",
        ),
        (Queue, "2025-07-05", "sp st se R skoid sktid skt ske sks skv skdutid sduoid sip spr sv"),
        (
            Table,
            "2025-07-05",
            "sp st se R skoid sktid skt ske sks skv skdutid sduoid sip spr sv spk srk epk erk",
        ),
    ]
};

fn letter(service: Service) -> &'static str {
    match service {
        Service::Table => "t",
        Service::Queue => "q",
        Service::Blob => "b",
    }
}

/// A request with a SAS by the key of a user, with further or other parameters. `unsigned` is added after signing.
fn delegated(service: Service, sv: &str, more: &str, unsigned: &str) -> Request {
    let lines = STRINGS
        .iter()
        .rev()
        .find(|(of, since, _)| *of == service && *since <= sv)
        .map_or("sp se R", |(_, _, lines)| lines);
    let (path, resource, own) = match service {
        Service::Table => ("Orders()", format!("/table/{ACCOUNT}/orders"), "tn=Orders"),
        Service::Queue => ("jobs/messages", format!("/queue/{ACCOUNT}/jobs"), ""),
        Service::Blob => ("c/b", format!("/blob/{ACCOUNT}/c/b"), "sr=b"),
    };
    let given = format!("{more}&{SAS}&{KEY}&sks={}&skv={sv}&sv={sv}&{own}", letter(service));
    // The first of a name counts.
    let mut names: Vec<&str> = Vec::new();
    let pairs: Vec<&str> = given
        .split('&')
        .filter(|pair| {
            let name = pair.split('=').next().unwrap_or_default();
            let is_new = !pair.is_empty() && !names.contains(&name);
            names.push(name);
            is_new
        })
        .collect();
    let parameters = pairs.join("&");
    let query = Query::parse(Some(&parameters));
    let value = |name: &str| query.get(name).unwrap_or_default();
    let lines: Vec<&str> =
        lines.split(' ').map(|name| if name == "R" { &resource } else { value(name) }).collect();
    let delegation = Delegation {
        account: ACCOUNT,
        object_id: value("skoid"),
        tenant_id: value("sktid"),
        start: value("skt"),
        expiry: value("ske"),
        service: letter(service),
        version: value("skv"),
        delegated_tenant: value("skdutid"),
    };
    let none = Account { name: ACCOUNT.to_owned(), keys: Vec::new() };
    let key = SigningKeys::new(&none).with_delegation_secret(SECRET).delegate(&delegation).unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    mac.update(lines.join("\n").as_bytes());
    let signature = STANDARD.encode(mac.finalize().into_bytes()).replace('+', "%2B");
    let mut request = table("GET", &format!("/{ACCOUNT}/{path}?{parameters}&sig={signature}{unsigned}"));
    request.secure = true;
    request.service(service).version("2026-04-06")
}

fn delegator(authorized: Option<&str>) -> Option<Box<Delegator>> {
    Some(Box::new(Delegator {
        object_id: "o".to_owned(),
        tenant_id: "t".to_owned(),
        authorized_object_id: authorized.map(str::to_owned),
        roles: AccountRoles { account: ACCOUNT.to_owned(), assigned: AssignedRoles::default() },
    }))
}

#[test]
fn keys_of_users_sign_as_documented() {
    for (service, sv, _) in STRINGS {
        let grant = delegated(service, sv, "", "").grant(None);
        let found = grant.as_ref().ok().and_then(Grant::delegator).cloned();
        assert_eq!(found.map(Box::new), delegator(None), "{service:?} {sv}: {grant:?}");
        for (case, more, unsigned) in [
            ("more than was signed", "", "&sip=10.0.0.1"),
            ("the key is old", "skt=2026-03-01&ske=2026-03-09&se=2026-03-09", ""),
            ("the key is new", "skt=2026-03-11&ske=2026-03-12", ""),
            ("it outlives the key", "se=2026-03-13", ""),
            ("it begins before the key", "st=2026-03-09", ""),
            ("of another service", "sks=f", ""),
            ("what is not understood", "srh=a", ""),
            ("no end of the key", "ske=", ""),
            ("nobody's", "skoid=", ""),
            ("of no tenant", "sktid=", ""),
        ] {
            let refused = delegated(service, sv, more, unsigned).grant(None).map_err(|error| error.code);
            assert_eq!(refused, Err(ErrorCode::AuthenticationFailed), "{service:?} {sv}: {case}");
        }
    }
    for (service, sv) in
        [(Service::Blob, "2018-03-28"), (Service::Queue, "2025-05-05"), (Service::Table, "2025-05-05")]
    {
        let refused = delegated(service, sv, "", "").grant(None).map_err(|error| error.code);
        assert_eq!(refused, Err(ErrorCode::AuthenticationFailed), "{service:?} {sv}: too early");
    }
}

#[test]
fn nothing_of_a_key_can_be_changed() {
    let request = delegated(Service::Queue, "2025-07-05", "", "");
    for (from, to) in [
        ("skoid=o", "skoid=p"),
        ("sktid=t", "sktid=u"),
        ("ske=2026-03-12", "ske=2026-03-13"),
        ("skt=2026-03-10", "skt=2026-03-09"),
        ("skv=2025-07-05", "skv=2025-11-05"),
        ("/jobs/", "/others/"),
    ] {
        let mut changed = table("GET", &request.uri.replace(from, to)).service(Service::Queue);
        changed.secure = true;
        let refused = changed.grant(None).map_err(|error| error.code);
        assert_eq!(refused, Err(ErrorCode::AuthenticationFailed), "{from} {to}");
    }
    let other = SigningKeys::new(&Account { name: "b".to_owned(), keys: Vec::new() });
    for keys in [other.clone(), other.with_delegation_secret(b"of another account")] {
        let refused = request.run(|head, verifier| {
            Verifier { keys: &keys, ..*verifier }.authenticate(head).map(drop).map_err(|error| error.code)
        });
        assert_eq!(refused, Err(ErrorCode::AuthenticationFailed));
    }
}

#[test]
fn parameters_of_keys_of_users() {
    use ErrorCode::*;
    for (service, sv, more, unsigned, expected) in [
        (Service::Blob, "2020-12-06", "saoid=a&scid=c", "", Ok(Some("a"))),
        (Service::Blob, "2020-12-06", "scid=c", "", Ok(None)),
        (Service::Blob, "2018-11-09", "", "&saoid=a", Err(AuthenticationFailed)),
        (Service::Queue, "2025-07-05", "", "&saoid=a", Err(AuthenticationFailed)),
        (Service::Blob, "2020-12-06", "suoid=a", "", Err(AuthenticationFailed)),
        (Service::Blob, "2020-12-06", "saoid=a&suoid=a", "", Err(AuthenticationFailed)),
        (Service::Blob, "2020-12-06", "", "&sduoid=u", Err(AuthenticationFailed)),
        (Service::Blob, "2020-12-06", "", "&si=p", Err(AuthorizationFailure)),
        (Service::Queue, "2025-07-05", "", "&si=p", Err(AuthorizationFailure)),
        (Service::Table, "2025-07-05", "", "&si=p", Err(AuthorizationFailure)),
    ] {
        let grant = delegated(service, sv, more, unsigned).grant(None).map_err(|error| error.code);
        let found = grant.map(|grant| grant.delegator().and_then(|of| of.authorized_object_id.clone()));
        assert_eq!(found, expected.map(|id| id.map(str::to_owned)), "{service:?} {sv} {more} {unsigned}");
    }
    let bounded = delegated(Service::Table, "2025-07-05", "spk=p&srk=r&epk=p", "").grant(None);
    let Ok(Grant::TableSas { table, bounds, .. }) = bounded else { panic!("{bounded:?}") };
    assert_eq!((&*table, bounds.start_row.as_deref()), ("Orders", Some("r")));
}

#[test]
fn some_are_good_only_for_one_user() {
    let user = |oid: &str, tid: &str| RequiredUser { object_id: oid.to_owned(), tenant_id: tid.to_owned() };
    for (more, bearer, expected) in [
        ("", None, None),
        ("", Some("Bearer x.y.z"), None),
        ("sduoid=u", None, Some((user("u", "t"), None))),
        ("sduoid=u", Some("Bearer x.y.z"), Some((user("u", "t"), Some("x.y.z")))),
        ("sduoid=u&skdutid=v", Some("bearer x.y.z"), Some((user("u", "v"), Some("x.y.z")))),
    ] {
        for service in Service::ALL {
            let mut request = delegated(service, "2025-07-05", more, "");
            if let Some(bearer) = bearer {
                request = request.with("authorization", bearer);
            }
            let found = request.run(|head, verifier| match verifier.authenticate(head) {
                Ok(Credentials::Sas(sas)) => sas
                    .required_user()
                    .map(|user| (user.clone(), sas.bearer().map(|token| token.as_str().to_owned()))),
                other => panic!("{other:?}"),
            });
            let expected = expected.clone().map(|(user, token)| (user, token.map(str::to_owned)));
            assert_eq!(found, expected, "{service:?} {more} {bearer:?}");
        }
    }
    let mut plain = delegated(Service::Blob, "2025-07-05", "sduoid=u", "").with("authorization", "Bearer x");
    plain.secure = false;
    assert_eq!(plain.authenticate(), Err(ErrorCode::AuthenticationFailed), "tokens need TLS");
    let required = user("A", "b");
    assert!(required.is("a", "B") && !required.is("a", "c") && !required.is("c", "b"));
    assert_eq!(required.refusal().status(), 403);
}

#[test]
fn tokens() {
    use ErrorCode::*;
    for (value, secure, version, expected) in [
        ("Bearer a.b.c", true, "2017-11-09", Ok("a.b.c")),
        ("bearer  a.b.c ", true, "2026-04-06", Ok("a.b.c")),
        ("Bearer a.b.c", false, "2026-04-06", Err((AuthenticationFailed, 403))),
        ("Bearer a.b.c", true, "2017-07-29", Err((AuthenticationFailed, 403))),
        ("Bearer", true, "2026-04-06", Err((InvalidAuthenticationInfo, 401))),
        ("Bearer ", true, "2019-02-02", Err((AuthenticationFailed, 403))),
    ] {
        for service in Service::ALL {
            let mut request = table("GET", &format!("/{ACCOUNT}/things")).service(service);
            request = request.version(version).with("authorization", value);
            request.secure = secure;
            let found = request.run(|head, verifier| match verifier.authenticate(head) {
                Ok(Credentials::Token(token)) => Ok(token.as_str().to_owned()),
                Ok(other) => panic!("{other:?}"),
                Err(error) => Err((error.code, error.status())),
            });
            assert_eq!(found, expected.map(str::to_owned), "{service:?} {value} {secure} {version}");
        }
    }
    let both = table("GET", &format!("/{ACCOUNT}/T")).with("authorization", "Bearer a");
    let mut both = Request { secure: true, ..both }.version("2026-04-06");
    both.headers.append("authorization", "Bearer b".parse().unwrap());
    assert_eq!(both.authenticate(), Err(InvalidAuthenticationInfo));
}

#[test]
fn accounts_can_refuse_keys_and_everybody() {
    use ErrorCode::*;
    let date = "x-ms-date";
    let signed = || {
        let text = format!("GET\n\n\n{DATE}\n/{ACCOUNT}/{ACCOUNT}/T");
        table("GET", &format!("/{ACCOUNT}/T"))
            .with(date, DATE)
            .with("authorization", &authorization("SharedKey", &sign(&text)))
    };
    let account_sas = || {
        let text = format!("{ACCOUNT}\nr\nt\no\n\n2026-04-01\n\n\n2019-02-02\n");
        let signature = sign(&text).replace('+', "%2B");
        table("GET", &format!("/{ACCOUNT}/T?sv=2019-02-02&ss=t&srt=o&sp=r&se=2026-04-01&sig={signature}"))
    };
    let wrong = || signed().with("authorization", &authorization("SharedKey", &sign("other")));
    let token = || {
        let request = table("GET", &format!("/{ACCOUNT}/T")).with("authorization", "Bearer a.b.c");
        Request { secure: true, ..request }
    };
    let anonymous = || table("GET", &format!("/{ACCOUNT}/c/b")).service(Service::Blob);
    let refused = Err(KeyBasedAuthenticationNotPermitted);
    for (case, request, with_keys, without_keys) in [
        ("key", signed(), Ok(()), refused),
        ("account SAS", account_sas(), Ok(()), refused),
        ("table SAS", table_sas(FULL), Ok(()), refused),
        ("wrong key", wrong(), Err(AuthenticationFailed), Err(AuthenticationFailed)),
        ("SAS of a user", delegated(Service::Blob, "2020-12-06", "", ""), Ok(()), Ok(())),
        ("token", token(), Ok(()), Ok(())),
        ("nobody", anonymous(), Ok(()), Ok(())),
    ] {
        assert_eq!(request.authenticate(), with_keys, "{case}");
        let request = Request { without_keys: true, ..request };
        assert_eq!(request.authenticate(), without_keys, "{case}");
        let request = Request { disabled: true, ..request };
        assert_eq!(request.authenticate(), Err(AccountIsDisabled), "{case}");
    }
}
