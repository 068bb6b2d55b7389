//! Disabling accounts, and refusing their keys.

use crate::client::Keyed;
use crate::support::Server;
use crate::{Admin, CONFIGURED, on_disk};
use serde_json::json;
use tepui_model::account::DEVELOPMENT_KEY_BASE64;

/// The code of the answers to a request by Shared Key, and of one by SAS to each service.
fn codes(server: &Server, account: &str, key: &str) -> Vec<String> {
    let client = Keyed { server, account, key };
    let Server { port, queue_port, blob_port, .. } = *server;
    let accept = [("Accept", "application/json")];
    let replies = [
        client.by_shared_key(),
        client.with_sas(port, "GET", "/Tables", &accept, ""),
        client.with_sas(queue_port, "GET", "/?comp=list", &[], ""),
        client.with_sas(blob_port, "GET", "/?comp=list", &[], ""),
    ];
    replies
        .into_iter()
        .map(|reply| match reply.status {
            200 => "200".to_owned(),
            status => format!("{status} {}", reply.code()),
        })
        .collect()
}

#[test]
fn switches_count_at_once_and_after_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = on_disk(directory.path());
    let made = Admin::of(&server).create("people");
    let steps = [
        (json!({"disabled": true}), "403 AccountIsDisabled", "disabled", true),
        (json!({"disabled": false}), "200", "enabled", true),
        (json!({"allowSharedKeys": false}), "403 KeyBasedAuthenticationNotPermitted", "enabled", false),
        (json!({"allowSharedKeys": false, "disabled": true}), "403 AccountIsDisabled", "disabled", false),
        (json!({"allowSharedKeys": true, "disabled": false}), "200", "enabled", true),
    ];
    for (account, key) in [("people", made[0].as_str()), (CONFIGURED, DEVELOPMENT_KEY_BASE64)] {
        for (change, expected, state, allowed) in &steps {
            let shown = Admin::of(&server).call("PATCH", &format!("/accounts/{account}"), change.clone());
            assert_eq!((&shown["state"], &shown["allowSharedKeys"]), (&json!(state), &json!(allowed)));
            assert_eq!(codes(&server, account, key), [*expected; 4], "{account} {change}");
            server.kill_now();
            server = on_disk(directory.path());
            assert_eq!(codes(&server, account, key), [*expected; 4], "{account} {change}, after a restart");
        }
    }
}

#[test]
fn a_wrong_key_is_told_nothing_else() {
    let server = crate::in_memory();
    let mut admin = Admin::of(&server);
    let keys = admin.create("people");
    let others = admin.create("others");
    admin.call("PATCH", "/accounts/people", json!({"allowSharedKeys": false}));
    assert_eq!(codes(&server, "people", &others[0])[1], "403 AuthenticationFailed");
    assert_eq!(codes(&server, "people", &keys[0])[1], "403 KeyBasedAuthenticationNotPermitted");
    assert_eq!(codes(&server, "nobody", &keys[0])[1], "404 ResourceNotFound");
}

#[test]
fn switches_of_the_configuration() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tepui.toml");
    let key = "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0ISE=";
    std::fs::write(
        &file,
        format!(
            "[[account]]\nname = 'off'\nkeys = ['{key}']\ndisabled = true\n\
             [[account]]\nname = 'tokens'\nkeys = ['{key}']\nallow-shared-keys = false\n\
             [[role-assignment]]\nprincipal = 'group:team'\nrole = 'Storage Table Data Reader'\nscope = '/'\n"
        ),
    )
    .unwrap();
    let server = Server::in_memory(&["--admin-port", "0", "--config", file.to_str().unwrap()]);
    assert_eq!(codes(&server, "off", key)[0], "403 AccountIsDisabled");
    assert_eq!(codes(&server, "tokens", key)[0], "403 KeyBasedAuthenticationNotPermitted");
    let mut admin = Admin::of(&server);
    let roles = admin.get("/role-assignments");
    assert_eq!(roles["roleAssignments"][0]["source"], "configuration");
    let id = roles["roleAssignments"][0]["id"].as_str().unwrap().to_owned();
    let refused = admin.raw("DELETE", &format!("/role-assignments/{id}"), "");
    assert_eq!(refused.status, 409, "{}", refused.text());
    admin.call("PATCH", "/accounts/off", json!({"disabled": false}));
    assert_eq!(codes(&server, "off", key)[0], "200");
}
