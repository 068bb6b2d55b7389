//! Handshakes of good clients, and plain HTTP beside them.

use crate::support::{BOTH, HEALTH, TABLES, client, client_of, connect, exchange, start};
use std::sync::Arc;
use tepui_server::Config;
use tokio::net::TcpStream;
use tokio_rustls::rustls::HandshakeKind;
use tokio_rustls::rustls::version::{TLS12, TLS13};

#[tokio::test]
async fn both_versions_and_only_http_1_1() {
    let server = start(|_, _| {}).await;
    for version in BOTH {
        for (case, offered, agreed) in [
            ("nothing", &[][..], Ok(None)),
            ("the usual", &["http/1.1"], Ok(Some("http/1.1"))),
            ("two", &["h2", "http/1.1"], Ok(Some("http/1.1"))),
            ("another", &["h2"], Err(())),
        ] {
            let mut config = client_of(&server.ca(), &[version]);
            config.alpn_protocols = offered.iter().map(|name| name.as_bytes().to_vec()).collect();
            let connected = connect(&Arc::new(config), server.table(), "localhost").await;
            assert_eq!(connected.is_ok(), agreed.is_ok(), "{case}: {connected:?}");
            let (Ok(mut stream), Ok(agreed)) = (connected, agreed) else { continue };
            assert_eq!(stream.get_ref().1.protocol_version(), Some(version.version), "{case}");
            assert_eq!(stream.get_ref().1.alpn_protocol(), agreed.map(str::as_bytes), "{case}");
            assert!(exchange(&mut stream, HEALTH).await.contains(r#""status":"ok""#), "{case}");
            let reply = exchange(&mut stream, TABLES).await;
            assert!(reply.starts_with("HTTP/1.1 403 "), "{case}: {reply}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn sessions_are_resumed() {
    let server = start(|_, _| {}).await;
    for version in [&TLS12, &TLS13] {
        let config = Arc::new(client_of(&server.ca(), &[version]));
        for (round, expected) in
            [HandshakeKind::Full, HandshakeKind::Resumed, HandshakeKind::Resumed].into_iter().enumerate()
        {
            // A ticket is good for every port.
            let port = server.ports()[round];
            let mut stream = connect(&config, port, "localhost").await.unwrap();
            // With TLS 1.3 the tickets come with the first bytes.
            assert!(exchange(&mut stream, HEALTH).await.starts_with("HTTP/1.1 200 "));
            assert_eq!(stream.get_ref().1.handshake_kind(), Some(expected), "{version:?} {round}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn both_protocols_on_every_port() {
    let server = start(|_, _| {}).await;
    let config = Arc::new(client(&server.ca()));
    for port in server.ports().into_iter().chain([server.admin]) {
        for round in 0..3 {
            let mut plain = TcpStream::connect(port).await.unwrap();
            let mut encrypted = connect(&config, port, "127.0.0.1").await.unwrap();
            for _ in 0..2 {
                assert!(exchange(&mut plain, HEALTH).await.starts_with("HTTP/1.1 200 "), "{port} {round}");
                assert!(
                    exchange(&mut encrypted, HEALTH).await.starts_with("HTTP/1.1 200 "),
                    "{port} {round}"
                );
            }
        }
    }
    let metrics = server.metrics().await;
    for line in [
        r#"tepui_tls_handshakes_total{service="table",outcome="ok"} 3"#,
        r#"tepui_tls_handshakes_total{service="admin",outcome="ok"} 3"#,
        r#"tepui_tls_handshakes_total{service="blob",outcome="failed"} 0"#,
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    let expiry = metrics.lines().find_map(|line| line.strip_prefix("tepui_tls_certificate_expiry_seconds "));
    let expiry: f64 = expiry.unwrap().parse().unwrap();
    assert!(expiry > 1.7e9, "{expiry}");
    server.stop().await;
}

#[tokio::test]
async fn without_certificates_nothing_is_encrypted() {
    let server = start(|config, _| {
        *config = Config { tls: "off".parse().unwrap(), tls_dir: None, ..config.clone() };
    })
    .await;
    assert!(server.tls.is_none() && !server.metrics().await.contains("tepui_tls"));
    let mut plain = TcpStream::connect(server.table()).await.unwrap();
    assert!(exchange(&mut plain, HEALTH).await.starts_with("HTTP/1.1 200 "));
    let other = start(|_, _| {}).await;
    let config = Arc::new(client(&other.ca()));
    assert!(connect(&config, server.table(), "localhost").await.is_err());
    server.stop().await;
}

#[tokio::test]
async fn whatever_name_is_asked_for_the_certificate_is_the_same() {
    let server = start(|config, _| config.allowed_hosts = vec!["store.example".to_owned()]).await;
    let config = Arc::new(client(&server.ca()));
    let nameless = {
        let mut config = client(&server.ca());
        config.enable_sni = false;
        Arc::new(config)
    };
    for (case, config, name, is_good) in [
        ("an address", &config, "127.0.0.1", true),
        ("another address", &config, "::1", true),
        ("a name", &config, "localhost", true),
        ("none", &nameless, "localhost", true),
        ("of an account", &config, "people.table.localhost", true),
        ("that was allowed", &config, "store.example", true),
        ("below it", &config, "people.blob.store.example", true),
        ("another", &config, "example.com", false),
    ] {
        let connected = connect(config, server.table(), name).await;
        assert_eq!(connected.is_ok(), is_good, "{case}: {connected:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn plain_requests_are_refused_where_that_is_wanted() {
    let server = start(|config, _| {
        config.require_tls = true;
        config.trusted_proxies = vec!["::1".parse().unwrap()];
    })
    .await;
    let config = Arc::new(client(&server.ca()));
    let forwarded = TABLES.replace("\r\n\r\n", "\r\nX-Forwarded-Proto: https\r\n\r\n");
    for port in server.ports() {
        let mut plain = TcpStream::connect(port).await.unwrap();
        let reply = exchange(&mut plain, TABLES).await;
        assert!(reply.starts_with("HTTP/1.1 400 "), "{reply}");
        assert!(reply.contains("AccountRequiresHttps"), "{reply}");
        assert!(reply.contains("The account being accessed does not support http."), "{reply}");
        let reply = exchange(&mut plain, &forwarded).await;
        assert!(reply.starts_with("HTTP/1.1 400 "), "it is not from a proxy: {reply}");
        assert!(exchange(&mut plain, HEALTH).await.starts_with("HTTP/1.1 200 "));
        let mut encrypted = connect(&config, port, "localhost").await.unwrap();
        assert!(!exchange(&mut encrypted, TABLES).await.contains("AccountRequiresHttps"));
    }
    let metrics = server.metrics().await;
    assert!(metrics.starts_with("HTTP/1.1 400 ") && metrics.contains("AccountRequiresHttps"), "{metrics}");
    let mut encrypted = connect(&config, server.admin, "localhost").await.unwrap();
    let reply = exchange(&mut encrypted, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert!(reply.starts_with("HTTP/1.1 200 "), "{reply}");
    server.stop().await;
}

#[tokio::test]
async fn what_a_proxy_was_asked_over_tls_is_served() {
    let server = start(|config, _| {
        config.require_tls = true;
        config.trusted_proxies = vec!["127.0.0.1".parse().unwrap()];
    })
    .await;
    for (proto, is_refused) in [("https", false), ("http", true)] {
        let end = format!("\r\nX-Forwarded-Proto: {proto}\r\n\r\n");
        for (port, request) in
            [(server.table(), TABLES), (server.admin, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")]
        {
            let mut plain = TcpStream::connect(port).await.unwrap();
            let reply = exchange(&mut plain, request.replace("\r\n\r\n", &end)).await;
            assert_eq!(reply.contains("AccountRequiresHttps"), is_refused, "{proto} {port}: {reply}");
        }
    }
    server.stop().await;
}
