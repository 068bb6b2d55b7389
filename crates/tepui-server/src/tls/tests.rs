//! Certificates in files: made, renewed, read again. By a clock that the tests set.

use super::*;
use crate::tls::x509::{Facts, Name};
use std::collections::BTreeSet;
use std::fs;
use tempfile::TempDir;
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::ServerCertVerifier as _;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A clock that stands still until it is set.
struct SetClock(Mutex<Timestamp>);

impl SetClock {
    fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(SystemClock::new().now())))
    }

    fn pass(&self, days: u32) {
        let mut now = self.0.lock();
        *now = now.saturating_add(DAY * days);
    }
}

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        *self.0.lock()
    }

    fn tick(&self) -> Timestamp {
        self.now()
    }
}

fn authority(directory: &TempDir, names: &[&str]) -> Authority {
    let name = |name: &&str| match name.parse() {
        Ok(address) => Name::Ip(address),
        Err(_) => Name::Dns((*name).to_owned()),
    };
    let names = ["localhost", "127.0.0.1", "::1"].iter().chain(names).map(name);
    Authority::new(directory.path().join("tls"), names.collect::<BTreeSet<_>>())
}

fn auto(directory: &TempDir, names: &[&str], clock: &Arc<SetClock>) -> Result<Arc<Tls>, TlsError> {
    let clock = Arc::<SetClock>::clone(clock);
    Tls::new(Source::Auto(authority(directory, names)), clock).map(Arc::new)
}

fn leaf(tls: &Tls) -> CertificateDer<'static> {
    tls.current.0.read().key.cert[0].clone()
}

fn read(directory: &TempDir, name: &str) -> String {
    fs::read_to_string(directory.path().join("tls").join(name)).unwrap()
}

/// Whether a client that trusts the authority takes the certificate for a name.
fn is_trusted(tls: &Tls, name: &str, now: Timestamp) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(tls.ca_file().unwrap()).unwrap()).unwrap();
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&tls.provider));
    let at = UnixTime::since_unix_epoch(Duration::from_secs(now.unix_seconds()));
    let name = ServerName::try_from(name.to_owned()).unwrap();
    verifier.build().unwrap().verify_server_cert(&leaf(tls), &[], &name, &[], at).is_ok()
}

#[test]
fn an_authority_is_made_once() {
    let (directory, clock) = (tempfile::tempdir().unwrap(), SetClock::new());
    let first = auto(&directory, &["box", "*.blob.localhost"], &clock).unwrap();
    for (name, expected) in [
        ("localhost", true),
        ("127.0.0.1", true),
        ("::1", true),
        ("box", true),
        ("people.blob.localhost", true),
        ("people-secondary.blob.localhost", true),
        ("people.queue.localhost", false),
        ("127.0.0.2", false),
        ("example.com", false),
    ] {
        assert_eq!(is_trusted(&first, name, clock.now()), expected, "{name}");
    }
    let certificate = leaf(&first);
    let facts = Facts::read(&certificate).unwrap();
    assert!(facts.not_after.since(facts.not_before) <= DAY * 397);
    let files: BTreeSet<String> = fs::read_dir(directory.path().join("tls"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let expected = ["ca-key.pem", "ca.pem", "lock", "server-key.pem", "server.pem"].map(str::to_owned);
    assert_eq!(files, BTreeSet::from(expected));
    let again = auto(&directory, &["box", "*.blob.localhost"], &clock).unwrap();
    assert_eq!(leaf(&again), certificate);
}

#[cfg(unix)]
#[test]
fn keys_are_for_their_owner_only() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let (directory, clock) = (tempfile::tempdir().unwrap(), SetClock::new());
    let mode = |name: &str| fs::metadata(directory.path().join("tls").join(name)).unwrap().mode() & 0o777;
    for case in ["made", "made anew, over one that all may read"] {
        auto(&directory, &[], &clock).unwrap();
        for (name, others) in [
            ("ca-key.pem", 0o077),
            ("server-key.pem", 0o077),
            ("lock", 0o077),
            ("ca.pem", 0o022),
            ("", 0o022),
        ] {
            assert_eq!(mode(name) & others, 0, "{case}: {name}");
        }
        for name in ["server-key.pem", "lock"] {
            let file = directory.path().join("tls").join(name);
            fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        }
        clock.pass(300);
    }
}

#[test]
fn a_certificate_is_renewed_when_a_third_of_its_life_is_left() {
    let (directory, clock) = (tempfile::tempdir().unwrap(), SetClock::new());
    let tls = auto(&directory, &[], &clock).unwrap();
    let (first, authority) = (leaf(&tls), read(&directory, "ca.pem"));
    clock.pass(264);
    assert!(!tls.is_renewal_due());
    clock.pass(1);
    assert!(tls.is_renewal_due());
    assert!(tls.read_again());
    let second = leaf(&tls);
    assert!(second != first && !tls.is_renewal_due());
    assert!(is_trusted(&tls, "localhost", clock.now()));
    assert_eq!(read(&directory, "ca.pem"), authority, "those who trust it need not do anything");
    assert_eq!(tls.expiry(), Facts::read(&second).unwrap().not_after);
}

#[test]
fn other_names_make_another_certificate() {
    let (directory, clock) = (tempfile::tempdir().unwrap(), SetClock::new());
    let first = auto(&directory, &["a.example"], &clock).unwrap();
    let authority = read(&directory, "ca.pem");
    for names in [&["a.example", "b.example"][..], &["b.example"], &[]] {
        let other = auto(&directory, names, &clock).unwrap();
        assert_ne!(leaf(&other), leaf(&first), "{names:?}");
        assert_eq!(is_trusted(&other, "b.example", clock.now()), names.contains(&"b.example"), "{names:?}");
        assert_eq!(read(&directory, "ca.pem"), authority, "{names:?}");
    }
}

#[test]
fn what_is_broken_is_made_anew_but_not_the_authority() {
    let (directory, clock) = (tempfile::tempdir().unwrap(), SetClock::new());
    let other = tempfile::tempdir().unwrap();
    auto(&other, &[], &clock).unwrap();
    let file = |name: &str| directory.path().join("tls").join(name);
    let authority = {
        auto(&directory, &[], &clock).unwrap();
        read(&directory, "ca.pem")
    };
    for (case, name, content) in [
        ("no certificate", "server.pem", None),
        ("no key", "server-key.pem", None),
        ("an empty certificate", "server.pem", Some(String::new())),
        ("nonsense", "server-key.pem", Some("nonsense".to_owned())),
        ("another key", "server-key.pem", Some(read(&other, "server-key.pem"))),
        ("of another authority", "server.pem", Some(read(&other, "server.pem"))),
    ] {
        match content {
            Some(content) => fs::write(file(name), content).unwrap(),
            None => fs::remove_file(file(name)).unwrap(),
        }
        let tls = auto(&directory, &[], &clock).unwrap();
        assert!(is_trusted(&tls, "localhost", clock.now()), "{case}");
        assert_eq!(read(&directory, "ca.pem"), authority, "{case}");
    }
    for (case, name, content, says) in [
        ("an authority without a key", "ca-key.pem", None, "half of the certificate authority is gone"),
        ("a key of nothing", "ca.pem", None, "half of the certificate authority is gone"),
        ("no PEM", "ca.pem", Some("nonsense"), "there is no certificate in PEM in it"),
        ("no key", "ca-key.pem", Some("nonsense"), "there is no key in PEM in it"),
    ] {
        let before = read(&directory, name);
        match content {
            Some(content) => fs::write(file(name), content).unwrap(),
            None => fs::remove_file(file(name)).unwrap(),
        }
        let error = auto(&directory, &[], &clock).err().unwrap().to_string();
        assert!(error.contains(says) && error.contains(name), "{case}: {error}");
        fs::write(file(name), before).unwrap();
    }
    auto(&directory, &[], &clock).unwrap();
}

#[test]
fn an_authority_that_has_expired_is_made_anew() {
    let (directory, clock) = (tempfile::tempdir().unwrap(), SetClock::new());
    auto(&directory, &[], &clock).unwrap();
    let authority = read(&directory, "ca.pem");
    clock.pass(3640);
    let late = auto(&directory, &[], &clock).unwrap();
    assert_eq!(read(&directory, "ca.pem"), authority);
    assert!(late.expiry() <= clock.now().saturating_add(DAY * 10), "not longer than its authority");
    clock.pass(11);
    let tls = auto(&directory, &[], &clock).unwrap();
    assert_ne!(read(&directory, "ca.pem"), authority);
    assert!(is_trusted(&tls, "localhost", clock.now()));
}

/// Waits for what a watcher does, with time that passes at once.
async fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    panic!("in vain: {what}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_runs_follows_its_files_and_renews_its_certificate() {
    let (directory, clock) = (tempfile::tempdir().unwrap(), SetClock::new());
    let tls = auto(&directory, &[], &clock).unwrap();
    let watching = tokio::spawn(Arc::clone(&tls).watch());
    let first = leaf(&tls);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(leaf(&tls), first, "nothing has changed");
    clock.pass(300);
    wait_until("it is renewed", || leaf(&tls) != first).await;

    // The same for files that somebody else replaces.
    let (cert, key) = (directory.path().join("c.pem"), directory.path().join("k.pem"));
    let copy = |from: &TempDir| {
        fs::write(&cert, read(from, "server.pem")).unwrap();
        fs::write(&key, read(from, "server-key.pem")).unwrap();
    };
    let others = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let made = others.each_ref().map(|other| leaf(&auto(other, &[], &clock).unwrap()));
    copy(&others[0]);
    let clock = Arc::<SetClock>::clone(&clock);
    let tls = Arc::new(Tls::new(Source::Pem { cert: cert.clone(), key: key.clone() }, clock).unwrap());
    let watching_files = tokio::spawn(Arc::clone(&tls).watch());
    assert_eq!(leaf(&tls), made[0]);
    fs::write(&key, "nonsense").unwrap();
    wait_until("the file is read", || *tls.seen.lock() == tls.source.stamps()).await;
    assert_eq!(leaf(&tls), made[0], "a bad file changes nothing");
    fs::remove_file(&cert).unwrap();
    wait_until("the file is missed", || *tls.seen.lock() == tls.source.stamps()).await;
    assert_eq!(leaf(&tls), made[0], "nor does one that is gone");
    copy(&others[1]);
    wait_until("the good ones are read", || leaf(&tls) == made[1]).await;
    watching.abort();
    watching_files.abort();
}

#[cfg(unix)]
#[test]
fn a_file_that_becomes_readable_has_changed() {
    use std::os::unix::fs::PermissionsExt as _;
    let file = tempfile::NamedTempFile::new().unwrap();
    let may = |mode| fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
    may(0o000);
    let before = Stamp::of(file.path()).unwrap();
    assert_eq!(Stamp::of(file.path()).unwrap(), before);
    // Longer than a tick of the clock of the file system.
    std::thread::sleep(Duration::from_millis(50));
    may(0o600);
    assert_ne!(Stamp::of(file.path()).unwrap(), before);
}
