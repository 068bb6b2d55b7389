//! SAS by keys of users: their roles are looked up when they are used, by object id and tenant alone.

use crate::client::{Keyed, signature};
use crate::support::Server;
use crate::support::http::{Client, Reply};
use crate::{Admin, CONFIGURED};
use serde_json::{Value, json};
use std::time::Duration;
use tepui_model::Clock as _;
use tepui_model::account::DEVELOPMENT_KEY_BASE64;
use tepui_model::time::SystemClock;

const VERSION: &str = "2021-12-02";

/// In an hour, as keys and SAS have it.
fn soon() -> String {
    let moment = SystemClock::new().now().saturating_add(Duration::from_secs(3600));
    format!("{}Z", &moment.to_iso_7()[..19])
}

/// The text of an element.
fn element<'a>(text: &'a str, name: &str) -> &'a str {
    let inside = text.split(&format!("<{name}>")).nth(1).unwrap_or_else(|| panic!("{name}: {text}"));
    inside.split("</").next().unwrap()
}

/// The query of a SAS to read, which the owner of a token signs for the container `files`.
fn signed(server: &Server, token: &str) -> String {
    let expiry = soon();
    let bearer = format!("Bearer {token}");
    let headers =
        [("Authorization", bearer.as_str()), ("x-ms-version", VERSION), ("X-Forwarded-Proto", "https")];
    let path = format!("/{CONFIGURED}/?restype=service&comp=userdelegationkey");
    let asked = format!("<KeyInfo><Expiry>{expiry}</Expiry></KeyInfo>");
    let mut client = Client::connect(server.blob_port).unwrap();
    let key = client.unsigned("POST", &path, &headers, asked.as_bytes()).unwrap();
    let text = key.text();
    assert_eq!(key.status, 200, "{text}");
    let said = ["SignedOid", "SignedTid", "SignedStart", "SignedExpiry", "SignedService", "SignedVersion"]
        .map(|name| element(&text, name));
    let resource = format!("/blob/{CONFIGURED}/files");
    let to_sign =
        format!("r\n\n{expiry}\n{resource}\n{}\n\n\n\n\n\n{VERSION}\nc\n\n\n\n\n\n\n", said.join("\n"));
    let signature = signature(element(&text, "Value"), &to_sign);
    let signature = signature.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    let [oid, tid, start, end, service, version] = said;
    format!(
        "sp=r&se={expiry}&skoid={oid}&sktid={tid}&skt={start}&ske={end}&sks={service}&skv={version}\
         &sv={VERSION}&sr=c&sig={signature}"
    )
}

fn read(server: &Server, sas: &str) -> Reply {
    let path = format!("/{CONFIGURED}/files/one?{sas}");
    Client::connect(server.blob_port).unwrap().unsigned("GET", &path, &[], b"").unwrap()
}

#[test]
fn roles_for_the_tokens_of_one_issuer_count_for_sas_of_its_users() {
    const TENANT: &str = "72f988bf-86f1-41af-91ab-2d7cd011db47";
    // Tokens are taken over TLS only, which this proxy vouches for.
    let server = Server::in_memory(&["--dev-issuer", "--admin-port", "0", "--trusted-proxy", "127.0.0.1"]);
    Keyed { server: &server, account: CONFIGURED, key: DEVELOPMENT_KEY_BASE64 }.fill(1);
    let mut admin = Admin::of(&server);
    let mut token = |body: Value| admin.call("POST", "/token", body);
    let ada = token(json!({"principal": "ada"}));
    let elsewhere = token(json!({"principal": "ada", "tenant": TENANT}));
    let bob = token(json!({"principal": "bob"}));
    let mut assign = |of: &Value, role: &str, issuer: &str| {
        let principal = format!("oid:{}", of["objectId"].as_str().unwrap());
        let body = json!({"principal": principal, "role": role, "scope": "/", "issuer": issuer});
        admin.call("POST", "/role-assignments", body)
    };
    let own = ada["issuer"].as_str().unwrap();
    assign(&ada, "Storage Blob Data Reader", own);
    // Who may ask for keys, and has a role only for tokens of somebody else.
    assign(&bob, "Storage Blob Delegator", own);
    assign(&bob, "Storage Blob Data Reader", &format!("https://sts.windows.net/{TENANT}/"));
    let text = |answer: &Value| answer["token"].as_str().unwrap().to_owned();
    for (case, of, expected) in [
        ("of the issuer's own tenant", &ada, 200),
        ("of another tenant", &elsewhere, 403),
        ("for tokens of another issuer", &bob, 403),
    ] {
        let reply = read(&server, &signed(&server, &text(of)));
        assert_eq!(reply.status, expected, "{case}: {}", reply.text());
        let denied = if expected == 403 { "AuthorizationPermissionMismatch" } else { "" };
        assert_eq!(reply.code(), denied, "{case}");
    }
}
