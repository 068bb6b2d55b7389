//! Who may use the admin port.

use crate::support::Server;
use crate::support::http::{Client, Reply};
use crate::{Admin, test_bench};

/// Sends a request with exactly these headers.
fn ask(server: &Server, path: &str, headers: &[(&str, &str)]) -> Reply {
    let mut client = Client::connect(server.admin_port).unwrap();
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    client.send(format!("GET {path} HTTP/1.1\r\n{headers}\r\n").as_bytes()).unwrap();
    client.reply().unwrap()
}

#[test]
fn hosts_and_origins_come_before_tokens() {
    let server = test_bench();
    let token = format!("Bearer {}", server.admin_token);
    let own = format!("localhost:{}", server.admin_port);
    let own_page = format!("http://{own}");
    let clock = "/admin/v1/clock";
    for (case, path, headers, status, code) in [
        ("right", clock, vec![("Host", "127.0.0.1"), ("Authorization", &token)], 200, ""),
        ("by name", clock, vec![("Host", &own), ("Authorization", &token)], 200, ""),
        (
            "a page of its own",
            clock,
            vec![("Host", &own), ("Origin", &own_page), ("Authorization", &token)],
            200,
            "",
        ),
        ("no token", clock, vec![("Host", &own)], 401, "Unauthorized"),
        (
            "a wrong token",
            clock,
            vec![("Host", &own), ("Authorization", "Bearer 0123456789abcdef")],
            401,
            "Unauthorized",
        ),
        ("no token, no such call", "/admin/v1/nothing", vec![("Host", &own)], 401, "Unauthorized"),
        ("another host", clock, vec![("Host", "evil.com"), ("Authorization", &token)], 403, "UnknownHost"),
        ("another host, no token", clock, vec![("Host", "evil.com")], 403, "UnknownHost"),
        (
            "another page",
            clock,
            vec![("Host", &own), ("Origin", "http://evil.com"), ("Authorization", &token)],
            403,
            "ForeignOrigin",
        ),
        ("another page, no token", clock, vec![("Host", &own), ("Origin", "null")], 403, "ForeignOrigin"),
        (
            "a page that embeds",
            clock,
            vec![("Host", &own), ("Sec-Fetch-Site", "cross-site")],
            403,
            "ForeignOrigin",
        ),
        ("metrics", "/metrics", vec![("Host", &own)], 200, ""),
        ("metrics by another host", "/metrics", vec![("Host", "evil.com")], 403, "UnknownHost"),
        (
            "metrics for another page",
            "/metrics",
            vec![("Host", &own), ("Origin", "http://evil.com")],
            403,
            "ForeignOrigin",
        ),
        ("health", "/health", vec![("Host", &own)], 200, ""),
        ("elsewhere", "/devstoreaccount1", vec![("Host", &own)], 404, "NotFound"),
        (
            "almost the API",
            "/admin/v10/clock",
            vec![("Host", &own), ("Authorization", &token)],
            404,
            "NotFound",
        ),
    ] {
        let reply = ask(&server, path, &headers);
        assert_eq!(reply.status, status, "{case}: {}", reply.text());
        if !code.is_empty() {
            let error = &reply.json()["error"];
            assert_eq!(error["code"], code, "{case}");
            assert!(error["message"].as_str().unwrap().len() > 20, "{case}");
        }
        assert_eq!(reply.header("www-authenticate").is_some(), status == 401, "{case}");
    }
    let server = Server::in_memory(&["--test-bench", "--admin-port", "0", "--allowed-host", "ops.example"]);
    assert_eq!(ask(&server, "/metrics", &[("Host", "ops.example:80")]).status, 200);
}

#[test]
fn a_token_that_is_configured_is_a_secret() {
    use crate::support::{FREE_PORTS, tepui};
    const TOKEN: &str = "a-secret-that-nobody-guesses";
    let arguments = [&["serve", "--in-memory", "--admin-port", "0"], FREE_PORTS].concat();
    let mut command = tepui(&arguments, std::path::Path::new(""));
    command.env("TEPUI_ADMIN_TOKEN", TOKEN);
    let server = Server::run(command);
    assert_eq!(server.admin_token, "", "it is not in the ports file");
    let authorization = format!("Bearer {TOKEN}");
    let headers = [("Host", "localhost"), ("Authorization", &*authorization)];
    assert_eq!(ask(&server, "/admin/v1", &headers).status, 200);
    assert_eq!(ask(&server, "/admin/v1", &[("Host", "localhost")]).status, 401);
    let (_, out, log) = server.stop();
    assert!(!out.contains(TOKEN) && !log.contains(TOKEN), "{out} {log}");

    for line in [["serve", "--help"], ["admin", "--help"], ["serve", "--tabel-port"]] {
        let help = tepui(&line, std::path::Path::new("")).env("TEPUI_ADMIN_TOKEN", TOKEN).output().unwrap();
        let said = [help.stdout, help.stderr].concat();
        assert!(!String::from_utf8_lossy(&said).contains(TOKEN), "{line:?}");
    }
    let short = tepui(&["serve", "--in-memory"], std::path::Path::new(""))
        .env("TEPUI_ADMIN_TOKEN", "tiny-one")
        .output();
    let short = short.unwrap();
    let said = String::from_utf8(short.stderr).unwrap();
    assert!(
        short.status.code() == Some(2) && said.contains("16 to 256") && !said.contains("tiny-one"),
        "{said}"
    );
}

#[test]
fn a_random_token_is_told_to_its_user_only() {
    use std::os::unix::fs::PermissionsExt;
    let server = test_bench();
    assert_eq!(server.admin_token.len(), 32);
    assert!(server.out().contains(&server.admin_token), "{}", server.out());
    let mode = std::fs::metadata(server.ports_file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_ne!(server.admin_token, test_bench().admin_token);
}

#[test]
fn what_changes_a_server_needs_a_test_bench() {
    let server = Server::in_memory(&["--admin-port", "0"]);
    let mut admin = Admin::of(&server);
    for (method, path) in
        [("GET", "/clock"), ("POST", "/clock/freeze"), ("GET", "/faults"), ("DELETE", "/faults")]
    {
        let reply = admin.raw(method, path, "");
        assert_eq!(
            (reply.status, reply.json()["error"]["code"].as_str()),
            (403, Some("NotATestBench")),
            "{path}"
        );
        assert!(reply.text().contains("--test-bench"));
    }
    let index = admin.get("");
    assert_eq!(index["testBench"], false);
    assert!(!index.to_string().contains("/clock") && index.to_string().contains("/requests"));
    server.client().create_table("Served");
}

#[test]
fn the_data_ports_have_no_admin_api() {
    let server = test_bench();
    let authorization = format!("Bearer {}", server.admin_token);
    for port in [server.port, server.queue_port, server.blob_port] {
        let mut client = Client::connect(port).unwrap();
        let reply =
            client.unsigned("GET", "/admin/v1/clock", &[("Authorization", &authorization)], b"").unwrap();
        assert_eq!((reply.status, reply.code().as_str()), (404, "ResourceNotFound"), "{}", reply.text());
    }
}
