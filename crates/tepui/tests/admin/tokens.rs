//! Tokens of the development issuer: for people, and for programs that expect a managed identity.

use crate::commands::{run, said};
use crate::support::Server;
use crate::support::http::Client;
use crate::{Admin, test_bench};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

fn issuer() -> Server {
    Server::in_memory(&["--dev-issuer", "--admin-port", "0"])
}

fn claims(token: &str) -> Value {
    let part = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

#[test]
fn tokens_say_what_was_asked_for() {
    const GUID: &str = "5b1f0b7e-0a0e-4a38-9f6c-2f6f6f0d5a11";
    let server = issuer();
    let mut admin = Admin::of(&server);
    let answer = admin.post("/token", json!({"principal": "ada"}));
    let plain = claims(answer["token"].as_str().unwrap());
    assert_eq!((&plain["sub"], &plain["aud"]), (&json!("ada"), &json!("https://storage.azure.com")));
    assert_eq!((&plain["oid"], &plain["tid"]), (&answer["objectId"], &answer["tenantId"]));
    assert_eq!(plain["iss"], answer["issuer"]);
    assert_eq!(plain["exp"].as_u64().unwrap() - plain["iat"].as_u64().unwrap(), 3600);
    let line =
        ["token", "--principal", GUID, "--group", "a", "--group", "b", "--audience", "x", "--tenant", GUID];
    let full = claims(&said(&server, &[&line[..], &["--lifetime", "2m"]].concat()));
    assert_eq!((&full["oid"], &full["tid"], &full["aud"]), (&json!(GUID), &json!(GUID), &json!("x")));
    assert_eq!(full["groups"], json!(["a", "b"]));
    assert_eq!(full["exp"].as_u64().unwrap() - full["iat"].as_u64().unwrap(), 120);
    let whole: Value =
        serde_json::from_str(&said(&server, &["token", "--principal", "ada", "--json"])).unwrap();
    assert_eq!(whole["objectId"], answer["objectId"], "the same name is the same principal");
}

#[test]
fn what_is_no_token_is_refused() {
    let server = issuer();
    let mut admin = Admin::of(&server);
    for (case, body, says) in [
        ("nobody", json!({}), "missing field `principal`"),
        ("an empty name", json!({"principal": ""}), "1 to 256 bytes"),
        ("a tenant", json!({"principal": "a", "tenant": "contoso"}), "a tenant is a GUID"),
        ("a long time", json!({"principal": "a", "lifetimeSeconds": 86_401}), "24 hours"),
        ("no time", json!({"principal": "a", "lifetimeSeconds": 0}), "1 second"),
        ("a field too many", json!({"principal": "a", "roles": []}), "unknown field `roles`"),
    ] {
        let reply = admin.raw("POST", "/token", &body.to_string());
        assert_eq!(reply.status, 400, "{case}");
        assert!(reply.text().contains(says), "{case}: {}", reply.text());
    }
    let (code, _, error) = run(&server, &["token", "--principal", "a", "--lifetime", "soon"]);
    assert!(code == Some(2) && error.contains("a duration is"), "{error}");

    let server = test_bench();
    let reply = Admin::of(&server).raw("POST", "/token", r#"{"principal":"ada"}"#);
    assert!(reply.status == 403 && reply.text().contains("NoDevelopmentIssuer"), "{}", reply.text());
}

#[test]
fn programs_get_tokens_as_they_do_on_azure() {
    let server = issuer();
    let mut admin = Admin::of(&server);
    let path = "/admin/identity?api-version=2019-08-01&resource=https%3A%2F%2Fstorage.azure.com";
    let own = [("X-IDENTITY-HEADER", server.admin_token.as_str())];
    let mut get =
        |path: &str, headers: &[(&str, &str)]| admin.client.unsigned("GET", path, headers, b"").unwrap();
    for (path, who) in [(path.to_owned(), "managed-identity"), (format!("{path}&client_id=app"), "app")] {
        let answer = get(&path, &own).json();
        let claims = claims(answer["access_token"].as_str().unwrap());
        assert_eq!((&claims["sub"], &claims["aud"]), (&json!(who), &json!("https://storage.azure.com")));
        assert_eq!(answer["expires_on"], claims["exp"].to_string());
        assert_eq!((&answer["token_type"], &answer["resource"]), (&json!("Bearer"), &claims["aud"]));
    }
    let bearer = format!("Bearer {}", server.admin_token);
    for (case, path, headers, status) in [
        ("no secret", path, &[][..], 401),
        ("another one", path, &[("X-IDENTITY-HEADER", "0123456789abcdef")], 401),
        ("in another header", path, &[("Authorization", bearer.as_str())], 401),
        ("twice", path, &[own[0], own[0]], 401),
        ("of a page", path, &[own[0], ("Origin", "http://evil.example")], 403),
        ("no version", "/admin/identity?resource=x", &own, 400),
        ("nothing it is for", "/admin/identity?api-version=2019-08-01", &own, 400),
    ] {
        assert_eq!(get(path, headers).status, status, "{case}");
    }
    let bench = test_bench();
    let own = [("X-IDENTITY-HEADER", bench.admin_token.as_str())];
    let reply = Admin::of(&bench).client.unsigned("GET", path, &own, b"").unwrap();
    assert_eq!(reply.status, 404, "there is no issuer");
}

#[test]
fn tokens_are_counted_by_what_became_of_them() {
    // Tokens are taken over TLS only, which this proxy vouches for.
    let server = Server::in_memory(&["--dev-issuer", "--admin-port", "0", "--trusted-proxy", "127.0.0.1"]);
    let mut admin = Admin::of(&server);
    let good = admin.post("/token", json!({"principal": "ada"}));
    let foreign = admin.post("/token", json!({"principal": "ada", "audience": "https://vault.azure.net"}));
    let mut queues = Client::connect(server.queue_port).unwrap();
    for token in [&good, &good, &foreign] {
        let bearer = format!("Bearer {}", token["token"].as_str().unwrap());
        let headers =
            [("Authorization", &*bearer), ("x-ms-version", "2021-12-02"), ("X-Forwarded-Proto", "https")];
        queues.unsigned("GET", "/devstoreaccount1?comp=list", &headers, b"").unwrap();
    }
    let metrics =
        admin.client.unsigned("GET", "/metrics", &[("Authorization", &admin.authorization)], b"").unwrap();
    for line in [
        "tepui_tokens_total{outcome=\"accepted\"} 2",
        "tepui_tokens_total{outcome=\"audience\"} 1",
        "tepui_tokens_total{outcome=\"signature\"} 0",
        "tepui_token_cache_hits_total 1",
        "tepui_issuer_key_fetches_total{outcome=\"failed\"} 0",
    ] {
        assert!(metrics.text().lines().any(|found| found == line), "{line}: {}", metrics.text());
    }
}
