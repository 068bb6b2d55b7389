//! Certificates that are given: in PEM, in PFX files, and such that are no good.

use crate::support::{HEALTH, SelfSigned, client, config, connect, exchange, openssl, start};
use std::fs;
use std::sync::Arc;
use tepui_server::config::TlsMode;
use tepui_server::{Server, StartError};

const SELF_SIGNED: &str = "-x509 -nodes -days 30 -subj /CN=localhost -addext subjectAltName=DNS:localhost \
                           -addext basicConstraints=critical,CA:false";

#[tokio::test]
async fn keys_of_every_form() {
    for (case, make) in [
        ("PKCS#8 of RSA", &["req -newkey rsa:2048 -keyout k.pem -out c.pem"][..]),
        (
            "PKCS#1",
            &[
                "req -newkey rsa:2048 -keyout other.pem -out c.pem",
                "rsa -in other.pem -traditional -out k.pem",
            ],
        ),
        ("SEC1", &["ecparam -name prime256v1 -genkey -noout -out k.pem", "req -new -key k.pem -out c.pem"]),
        (
            "with the parameters of its curve",
            &["ecparam -name secp384r1 -genkey -out k.pem", "req -new -key k.pem -out c.pem"],
        ),
    ] {
        let server = start(|config, directory| {
            for arguments in make {
                let is_request = arguments.starts_with("req ");
                openssl(directory, &format!("{arguments} {}", if is_request { SELF_SIGNED } else { "" }));
            }
            config.tls = TlsMode::Off;
            config.tls_dir = None;
            config.cert = Some(directory.join("c.pem"));
            config.key = Some(directory.join("k.pem"));
        })
        .await;
        let config = Arc::new(client(&server.directory.path().join("c.pem")));
        let mut stream =
            connect(&config, server.table(), "localhost").await.unwrap_or_else(|e| panic!("{case}: {e}"));
        assert!(exchange(&mut stream, HEALTH).await.starts_with("HTTP/1.1 200 "), "{case}");
        server.stop().await;
    }
}

#[tokio::test]
async fn pfx_files_of_every_form() {
    for (case, options) in [
        ("as it is written today", ""),
        ("as .NET writes it", "-certpbe PBE-SHA1-3DES -keypbe PBE-SHA1-3DES -macalg sha1"),
        ("with smaller keys", "-certpbe AES-128-CBC -keypbe AES-192-CBC -macalg sha512"),
        ("with the key only encrypted", "-certpbe NONE"),
        ("with nothing encrypted", "-certpbe NONE -keypbe NONE"),
        ("without a code", "-nomac"),
        ("as it was written long ago", "-legacy"),
        ("with two keys of DES and short RC2", "-legacy -certpbe PBE-SHA1-RC2-128 -keypbe PBE-SHA1-2DES"),
    ] {
        let server = start(|config, directory| {
            let (ca, server) = ("ca-key.pem", "k.pem");
            // A chain: the authority is in the file, too, and comes first.
            openssl(directory, &format!("req -newkey rsa:2048 -x509 -nodes -days 30 -subj /CN=authority -keyout {ca} -out ca.pem"));
            fs::write(directory.join("ext"), "subjectAltName=DNS:localhost\n").unwrap();
            openssl(directory, &format!("req -newkey rsa:2048 -nodes -subj /CN=server -keyout {server} -out r.pem"));
            openssl(directory, &format!("x509 -req -in r.pem -CA ca.pem -CAkey {ca} -days 30 -extfile ext -out c.pem"));
            openssl(
                directory,
                &format!("pkcs12 -export -inkey {server} -in c.pem -certfile ca.pem -out c.pfx -passout pass:hünter2 {options}"),
            );
            config.tls = TlsMode::Off;
            config.tls_dir = None;
            config.cert = Some(directory.join("c.pfx"));
            config.pwd = "hünter2".parse().ok();
        })
        .await;
        let config = Arc::new(client(&server.directory.path().join("ca.pem")));
        let mut stream =
            connect(&config, server.table(), "localhost").await.unwrap_or_else(|e| panic!("{case}: {e}"));
        assert!(exchange(&mut stream, HEALTH).await.starts_with("HTTP/1.1 200 "), "{case}");
        server.stop().await;
    }
}

#[tokio::test]
async fn what_cannot_be_used_is_refused_with_a_reason() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    SelfSigned::make(path, "one");
    SelfSigned::make(path, "two");
    openssl(path, "pkcs12 -export -inkey one-key.pem -in one.pem -out one.pfx -passout pass:hunter2");
    openssl(path, "pkcs12 -export -nokeys -in one.pem -out nokeys.pfx -passout pass:hunter2");
    openssl(
        path,
        "pkcs12 -export -nocerts -inkey one-key.pem -in one.pem -out nocerts.pfx -passout pass:hunter2",
    );
    openssl(path, "pkcs8 -topk8 -in one-key.pem -out encrypted-key.pem -passout pass:hunter2");
    fs::write(path.join("empty.pem"), "").unwrap();
    fs::write(path.join("broken.pem"), "-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n")
        .unwrap();
    fs::write(path.join("no.pem"), "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n")
        .unwrap();
    let half = fs::read(path.join("one.pfx")).unwrap();
    fs::write(path.join("half.pfx"), &half[..half.len() / 2]).unwrap();
    for (cert, key, pwd, says) in [
        ("gone.pem", Some("one-key.pem"), None, "cannot read the certificate (No such file"),
        ("one.pem", Some("gone.pem"), None, "cannot read the key (No such file"),
        ("one.pem", Some("two-key.pem"), None, "the key is not that of the certificate"),
        ("one.pem", Some("one.pem"), None, "there is no key in PEM in it"),
        ("one-key.pem", Some("one-key.pem"), None, "there is no certificate in PEM in it"),
        ("empty.pem", Some("one-key.pem"), None, "there is no certificate in PEM in it"),
        ("broken.pem", Some("one-key.pem"), None, "it is no proper PEM"),
        ("no.pem", Some("one-key.pem"), None, "it is no certificate"),
        ("one.pem", Some("encrypted-key.pem"), None, "it is encrypted"),
        ("one.pfx", Some("one-key.pem"), None, "a PFX file needs its password"),
        ("one.pfx", None, Some("wrong"), "the password is not that of the file"),
        ("one.pem", None, Some("hunter2"), "it is PEM, which has no password"),
        ("half.pfx", None, Some("hunter2"), "it is no PFX file"),
        ("nokeys.pfx", None, Some("hunter2"), "there is no key in it"),
        ("nocerts.pfx", None, Some("hunter2"), "there is no certificate in it"),
        ("one.pem", None, None, "a certificate needs its key"),
    ] {
        let mut config = config(path);
        config.tls = TlsMode::Off;
        config.tls_dir = None;
        config.cert = Some(path.join(cert));
        config.key = key.map(|key| path.join(key));
        config.pwd = pwd.and_then(|password| password.parse().ok());
        let error = match Server::start(config).await {
            Err(error @ (StartError::Tls(_) | StartError::Config(_))) => error.to_string(),
            Err(error) => panic!("{cert} {key:?}: {error}"),
            Ok(_) => panic!("{cert} {key:?}: it starts"),
        };
        let names_file = [Some(cert), key].into_iter().flatten().any(|name| error.ends_with(name));
        assert!(error.contains(says) && names_file, "{cert} {key:?}: {error}");
        assert!(!error.contains("hunter2") && !error.contains("wrong"), "{error}");
    }
}
