//! What the API refuses, and that nothing has changed then.

use crate::{Admin, CONFIGURED, in_memory};

#[test]
fn what_means_nothing_is_refused() {
    let server = in_memory();
    let mut admin = Admin::of(&server);
    let keys = admin.create("people");
    let reader = "Storage Table Data Reader";
    let long = "x".repeat(2000);
    let role = |principal: &str, role: &str, scope: &str| {
        serde_json::json!({"principal": principal, "role": role, "scope": scope}).to_string()
    };
    let cases: &[(&str, &str, &str, &str, u16, &str)] = &[
        ("a name", "PUT", "/accounts/a.b", "", 400, "letters, digits"),
        ("a secondary name", "PUT", "/accounts/a-secondary", "", 400, "-secondary"),
        ("a long name", "PUT", &format!("/accounts/{}", "a".repeat(64)), "", 400, "1 to 63"),
        ("a slash", "PUT", "/accounts/a%2Fb", "", 400, "letters, digits"),
        ("twice", "PUT", "/accounts/people", "", 409, "already"),
        ("a configured one", "PUT", &format!("/accounts/{CONFIGURED}"), "", 409, "already"),
        ("a field", "PUT", "/accounts/other", "{\"key\":1}", 400, "unknown field"),
        ("no object", "PUT", "/accounts/other", "[true]", 400, "an object of JSON"),
        ("no JSON", "PUT", "/accounts/other", "{", 400, "not as it should be"),
        ("a parameter", "PUT", "/accounts/other?x=1", "", 400, "no such parameter"),
        ("text for a switch", "PATCH", "/accounts/people", "{\"disabled\":\"yes\"}", 400, "a boolean"),
        ("nothing to change", "PATCH", "/accounts/people", "{}", 400, "Say disabled"),
        ("nothing at all", "PATCH", "/accounts/people", "", 400, "Say disabled"),
        ("an unknown account", "PATCH", "/accounts/nobody", "{\"disabled\":true}", 404, "no such account"),
        ("its keys", "GET", "/accounts/nobody/keys", "", 404, "no such account"),
        ("its key", "POST", "/accounts/nobody/keys/key1/renew", "", 404, "no such account"),
        ("itself", "GET", "/accounts/nobody", "", 404, "no such account"),
        ("its deletion", "DELETE", "/accounts/nobody", "", 404, "no such account"),
        ("its delegation", "POST", "/accounts/nobody/delegation-keys/revoke", "", 404, "no such account"),
        ("a third key", "POST", "/accounts/people/keys/key3/renew", "", 400, "key1 or key2"),
        ("another case", "POST", "/accounts/people/keys/KEY1/renew", "", 400, "key1 or key2"),
        (
            "a key of one's own",
            "POST",
            "/accounts/people/keys/key1/renew",
            "{\"value\":\"x\"}",
            400,
            "has no body",
        ),
        ("a configured deletion", "DELETE", &format!("/accounts/{CONFIGURED}"), "", 409, "is configured"),
        ("a method", "POST", "/accounts/people", "", 405, "GET, PUT, PATCH, DELETE"),
        (
            "an unknown role",
            "POST",
            "/role-assignments",
            &role("oid:a", "Owner", "/"),
            400,
            "there is no role 'Owner'",
        ),
        ("a principal", "POST", "/role-assignments", &role("ada", reader, "/"), 400, "a principal is"),
        ("a scope", "POST", "/role-assignments", &role("oid:a", reader, "people"), 400, "a scope is"),
        (
            "a long name",
            "POST",
            "/role-assignments",
            &role(&format!("sub:{long}"), reader, "/"),
            400,
            "1024 bytes",
        ),
        (
            "control characters",
            "POST",
            "/role-assignments",
            &role("sub:a\u{1b}", reader, "/"),
            400,
            "control",
        ),
        (
            "a scope of nobody",
            "POST",
            "/role-assignments",
            &role("oid:a", reader, "/nobody"),
            404,
            "no such account",
        ),
        (
            "an empty issuer",
            "POST",
            "/role-assignments",
            "{\"principal\":\"oid:a\",\"role\":\"x\",\"scope\":\"/\",\"issuer\":\"\"}",
            400,
            "`iss`",
        ),
        (
            "no scope",
            "POST",
            "/role-assignments",
            "{\"principal\":\"oid:a\",\"role\":\"x\"}",
            400,
            "missing field",
        ),
        ("no body", "POST", "/role-assignments", "", 400, "A body of JSON"),
        ("no id", "DELETE", "/role-assignments/7", "", 404, "no such role assignment"),
        (
            "an unknown id",
            "DELETE",
            "/role-assignments/00000000-0000-0000-0000-000000000000",
            "",
            404,
            "no such role",
        ),
    ];
    let before = admin.get("/accounts");
    for (case, method, path, body, status, says) in cases {
        let reply = admin.raw(method, path, body);
        let text = reply.text();
        assert_eq!(reply.status, *status, "{case}: {text}");
        let error = &reply.json()["error"];
        assert!(error["message"].as_str().unwrap().contains(says), "{case}: {text}");
        assert!(!text.contains(&keys[0]), "{case}");
    }
    assert_eq!(admin.get("/accounts"), before);
    assert_eq!(admin.keys("people"), keys);
    assert_eq!(admin.get("/role-assignments"), serde_json::json!({"roleAssignments": []}));
}

#[test]
fn data_of_an_account_that_was_configured_is_not_given_away() {
    let directory = tempfile::tempdir().unwrap();
    let key = "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0ISE=";
    let account = format!("people:{key}");
    let server =
        crate::support::Server::on_disk_with(directory.path(), &["--admin-port", "0", "--account", &account]);
    crate::client::Keyed { server: &server, account: "people", key }.fill(1);
    server.stop();
    let server = crate::on_disk(directory.path());
    let reply = Admin::of(&server).raw("PUT", "/accounts/people", "");
    assert!(
        reply.status == 409 && reply.text().contains("There is data under this name"),
        "{}",
        reply.text()
    );
}
