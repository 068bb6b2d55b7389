//! Whole requests with tokens and with SAS by keys of users, on a directory that knows everybody by name.

use super::*;
use crate::config::AccountSwitches;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::body::{Body as _, Buf as _};
use hyper::http::{HeaderMap, Request, StatusCode};
use std::future::{poll_fn, ready};
use std::pin::Pin;
use std::sync::Mutex;
use tepui_model::TokenFailure;
use tepui_model::account::{Account, AccountKey, DEVELOPMENT_ACCOUNT as ACCOUNT};
use tepui_model::role::{Actions, AssignedRoles, Principal, PrincipalName, Role, Scope};
use tepui_model::time::ManualClock;
use tepui_service::identity::Identity;
use tepui_service::{BlobOptions, BlobService, GarbageCollector, QueueOptions, QueueService};
use tepui_service::{TableOptions, TableService};
use tepui_storage::{MemoryEngine, MemoryExtents};
use tepui_wire::auth::{Challenge, TokenText};
use tepui_wire::crypto::MacKey;

const NOW: &str = "2026-03-10T08:15:30Z";
const HTTP_NOW: &str = "Tue, 10 Mar 2026 08:15:30 GMT";
const VERSION: &str = "2026-02-06";
const TENANT: &str = "72f988bf-86f1-41af-91ab-2d7cd011db47";

/// The token of ANNE is `ANNE`, and her object id too. What begins with a small letter is a token with a fault.
#[derive(Debug)]
struct Names {
    roles: Mutex<Vec<(String, Scope, Actions)>>,
    challenge: Challenge,
}

impl Directory for Names {
    fn verify<'a>(&'a self, token: &'a TokenText, _: Service, account: &'a str) -> Verified<'a> {
        let failure = match token.as_str() {
            "expired" => Some(TokenFailure::Expired),
            "audience" => Some(TokenFailure::Audience),
            name if name.starts_with(|first: char| first.is_ascii_lowercase()) => Some(TokenFailure::Form),
            _ if account != ACCOUNT => Some(TokenFailure::Audience),
            _ => None,
        };
        let principal = || {
            Arc::new(Principal {
                issuer: "https://issuer".to_owned(),
                object_id: token.as_str().to_owned(),
                tenant_id: TENANT.to_owned(),
                names: vec![PrincipalName::Object(token.as_str().to_owned())],
            })
        };
        Box::pin(ready(failure.map_or_else(|| Ok(principal()), Err)))
    }

    fn roles(&self, principal: &Principal, account: &str) -> AssignedRoles {
        self.roles_of_object(&principal.object_id, &principal.tenant_id, account)
    }

    fn roles_of_object(&self, object_id: &str, tenant_id: &str, _: &str) -> AssignedRoles {
        let roles = self.roles.lock().unwrap();
        let own = roles.iter().filter(|(of, ..)| of == object_id && tenant_id == TENANT);
        own.map(|(_, scope, actions)| (scope.clone(), *actions)).collect()
    }

    fn challenge(&self) -> &Challenge {
        &self.challenge
    }
}

/// All services, and nobody with a role but `OWNER`.
struct Bench {
    names: Arc<Names>,
    tables: Tables<MemoryEngine>,
    queues: Queues<MemoryEngine>,
    blobs: Blobs<MemoryEngine, MemoryExtents>,
    tls: bool,
}

/// An answer: status, code, and text.
#[derive(Debug)]
struct Told {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

impl Told {
    fn code(&self) -> &str {
        self.headers.get("x-ms-error-code").map_or("", |code| code.to_str().unwrap())
    }

    /// The text of an element.
    fn element(&self, name: &str) -> &str {
        let inside = self.text.split(&format!("<{name}>")).nth(1).unwrap_or_default();
        inside.split("</").next().unwrap_or_default()
    }
}

fn role(name: &str, role: Role, scope: &str) -> (String, Scope, Actions) {
    (name.to_owned(), scope.parse().unwrap(), role.actions())
}

impl Bench {
    fn new() -> Self {
        Self::with_account(AccountSwitches::default())
    }

    fn with_account(switches: AccountSwitches) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(Timestamp::parse_iso(NOW).unwrap()));
        let engine = Arc::new(MemoryEngine::new());
        let collector = Arc::new(GarbageCollector::new(Arc::clone(&engine)));
        let account = Account { name: ACCOUNT.to_owned(), keys: vec![AccountKey::new(b"key".to_vec())] };
        let config = Config {
            accounts: vec![account],
            account_switches: [(ACCOUNT.to_owned(), switches)].into(),
            ..Config::default()
        };
        let server_secret = Some(AccountKey::new(b"secret".to_vec()));
        let accounts = AccountDirectory::new(&config, &Identity { server_secret, ..Identity::default() });
        let accounts = Arc::new(accounts);
        let challenge = Challenge::new("https://login.example.org", TENANT).unwrap();
        let all = AssignedRoles::everything();
        let everything = Service::ALL.map(|service| all.actions(ACCOUNT, service, None));
        let everything = everything.into_iter().fold(Actions::NONE, |all, some| all | some);
        let owner = ("OWNER".to_owned(), Scope::Server, everything);
        let names = Arc::new(Names { roles: Mutex::new(vec![owner]), challenge });
        let front = |service, port| {
            let (address, accounts) = (([127, 0, 0, 1], port).into(), Arc::clone(&accounts));
            Front::new(service, Arc::clone(&clock), &config, accounts, address, None, Arc::default())
                .with_directory(Arc::<Names>::clone(&names))
        };
        let tables = Arc::new(TableService::new(
            Arc::clone(&engine),
            Arc::clone(&clock),
            Arc::clone(&collector),
            TableOptions::default(),
        ));
        let queues = Arc::new(QueueService::new(
            Arc::clone(&engine),
            Arc::clone(&clock),
            collector,
            QueueOptions::default(),
        ));
        let blobs = Arc::new(BlobService::new(
            engine,
            Arc::new(MemoryExtents::new()),
            Arc::clone(&clock),
            crate::ids::random_ids(),
            BlobOptions::default(),
        ));
        let remote = RemoteCopies::new(config.remote_hosts(), &config.limits);
        let limits = &config.limits;
        Self {
            tables: Tables::new(front(Service::Table, 10002), tables, limits),
            queues: Queues::new(front(Service::Queue, 10001), queues, limits),
            blobs: Blobs::new(front(Service::Blob, 10000), blobs, remote, BackgroundCopies::new(), limits),
            names,
            tls: true,
        }
    }

    fn assign(&self, roles: impl IntoIterator<Item = (String, Scope, Actions)>) {
        self.names.roles.lock().unwrap().extend(roles);
    }

    fn take_back(&self, name: &str) {
        self.names.roles.lock().unwrap().retain(|(of, ..)| of != name);
    }

    /// Sends `METHOD /path` with headers in lines, for an account, with the token of somebody unless that is empty.
    async fn send(&self, service: Service, token: &str, head: &str, body: &str) -> Told {
        let (head, mut body) = self.answer(service, token, head, body).await.into_parts();
        let mut text = Vec::new();
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            if let Ok(mut data) = frame.unwrap().into_data() {
                text.extend_from_slice(&data.copy_to_bytes(data.remaining()));
            }
        }
        let text = String::from_utf8_lossy(&text).into_owned();
        Told { status: head.status, headers: head.headers, text }
    }

    /// The same; the answer is not read yet.
    async fn answer(&self, service: Service, token: &str, head: &str, body: &str) -> Response<ReplyBody> {
        let mut lines = head.lines().map(str::trim);
        let (method, path) = lines.next().unwrap().split_once(' ').unwrap();
        let port = match service {
            Service::Blob => 10000,
            Service::Queue => 10001,
            Service::Table => 10002,
        };
        let mut request = Request::builder()
            .method(method)
            .uri(format!("/{ACCOUNT}{path}"))
            .header("host", format!("127.0.0.1:{port}"))
            .header("content-length", body.len());
        if service == Service::Table {
            request = request.header("accept", "application/json;odata=nometadata");
        }
        if !head.contains("x-ms-version") {
            request = request.header("x-ms-version", VERSION);
        }
        if !token.is_empty() {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        for line in lines {
            let (name, value) = line.split_once(": ").unwrap();
            request = request.header(name, value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let peer = Peer { address: ([192, 0, 2, 7], 50_000).into(), tls: self.tls };
        let body = Body::given(Bytes::from(body.to_owned()));
        match service {
            Service::Table => respond(&self.tables, peer, parts, body).await,
            Service::Queue => respond(&self.queues, peer, parts, body).await,
            Service::Blob => respond(&self.blobs, peer, parts, body).await,
        }
    }

    /// The status of an answer, and the code of an error. `S METHOD /path`, S being the first letter of the service.
    async fn status(&self, token: &str, head: &str, body: &str) -> (u16, String) {
        let (letter, head) = head.split_at(2);
        let service = match letter.trim() {
            "t" => Service::Table,
            "q" => Service::Queue,
            "b" => Service::Blob,
            other => panic!("{other}"),
        };
        let told = self.send(service, token, head, body).await;
        let in_json = told.text.split("\"code\":\"").nth(1).and_then(|rest| rest.split('"').next());
        (told.status.as_u16(), in_json.unwrap_or(told.code()).to_owned())
    }

    /// A table, a queue and two containers with a blob.
    async fn fill(&self) {
        for (head, body) in [
            ("t POST /Tables\ncontent-type: application/json", "{\"TableName\":\"Orders\"}"),
            ("t POST /Tables\ncontent-type: application/json", "{\"TableName\":\"Others\"}"),
            ("q PUT /jobs", ""),
            ("b PUT /docs?restype=container", ""),
            ("b PUT /copies?restype=container", ""),
            ("b PUT /docs/one\nx-ms-blob-type: BlockBlob", "hello"),
        ] {
            let (status, code) = self.status("OWNER", head, body).await;
            assert!(matches!(status, 201 | 204), "{head}: {status} {code}");
        }
        assert_eq!(self.status("OWNER", "q POST /jobs/messages", MESSAGE).await.0, 201);
    }

    /// A key for a user, as the service gives it.
    async fn key(&self, service: Service, token: &str, inside: &str) -> Told {
        let body = format!("<KeyInfo><Expiry>2026-03-11T00:00:00Z</Expiry>{inside}</KeyInfo>");
        self.send(service, token, "POST /?restype=service&comp=userdelegationkey", &body).await
    }
}

const MESSAGE: &str = "<QueueMessage><MessageText>hello</MessageText></QueueMessage>";
const DENIED: (u16, &str) = (403, "AuthorizationPermissionMismatch");
const INSERT: &str = "content-type: application/json\nprefer: return-no-content";
const ENTITY: &str = "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}";

#[tokio::test]
async fn roles_allow_what_they_say() {
    let bench = Bench::new();
    bench.fill().await;
    bench.assign([
        role("READER", Role::BlobDataReader, "/devstoreaccount1"),
        role("PROCESSOR", Role::QueueDataMessageProcessor, "/devstoreaccount1/queue/jobs"),
        role("TABLES", Role::TableDataContributor, "/devstoreaccount1/table/Orders"),
        role("ELSEWHERE", Role::BlobDataOwner, "/other"),
        role("DELEGATOR", Role::TableDelegator, "/"),
    ]);
    let insert = |table: &str| format!("t POST /{table}\n{INSERT}");
    for (who, head, body, expected) in [
        ("READER", "b GET /docs/one", "", (200, "")),
        ("READER", "b GET /docs/none", "", (404, "BlobNotFound")),
        ("READER", "b GET /?comp=list", "", (200, "")),
        ("READER", "b GET /docs?restype=container&comp=list", "", (200, "")),
        ("READER", "b GET /docs?restype=container&comp=list&include=tags", "", DENIED),
        ("READER", "b PUT /docs/two\nx-ms-blob-type: BlockBlob", "x", DENIED),
        ("READER", "b GET /docs/one?comp=tags", "", DENIED),
        ("OWNER", "b GET /docs/one?comp=tags", "", (200, "")),
        ("READER", "b GET /docs/one\nx-ms-if-tags: \"a\" = 'b'", "", DENIED),
        ("READER", "b GET /docs?restype=container&comp=acl", "", DENIED),
        ("OWNER", "b GET /docs?restype=container&comp=acl", "", (200, "")),
        (
            "OWNER",
            "b GET /docs?restype=container&comp=acl\nx-ms-version: 2024-11-04",
            "",
            (404, "ResourceNotFound"),
        ),
        ("OWNER", "t GET /Orders?comp=acl\nx-ms-version: 2019-02-02", "", (404, "ResourceNotFound")),
        ("PROCESSOR", "q GET /jobs/messages?peekonly=true", "", (200, "")),
        ("PROCESSOR", "q GET /jobs/messages?visibilitytimeout=1", "", (200, "")),
        ("PROCESSOR", "q PUT /jobs/messages/x?popreceipt=y&visibilitytimeout=1", "", DENIED),
        ("PROCESSOR", "q POST /jobs/messages", MESSAGE, DENIED),
        ("PROCESSOR", "q GET /others/messages", "", DENIED),
        ("PROCESSOR", "q GET /?comp=list", "", DENIED),
        ("TABLES", &insert("Orders"), ENTITY, (204, "")),
        ("TABLES", &insert("orders"), ENTITY, (409, "EntityAlreadyExists")),
        ("TABLES", &insert("Others"), ENTITY, DENIED),
        ("TABLES", "t GET /Tables", "", DENIED),
        ("ELSEWHERE", "b GET /docs/one", "", DENIED),
        ("DELEGATOR", "t GET /Orders()", "", DENIED),
        ("NOBODY", "t GET /Orders()", "", DENIED),
        ("NOBODY", "q GET /jobs?comp=metadata", "", DENIED),
        ("NOBODY", "b HEAD /docs/one", "", DENIED),
    ] {
        let (status, code) = bench.status(who, head, body).await;
        assert_eq!((status, &*code), expected, "{who} {head}");
    }
}

#[tokio::test]
async fn tokens_that_are_not_accepted() {
    let mut bench = Bench::new();
    let challenge = format!(
        "Bearer authorization_uri=https://login.example.org/{TENANT}/oauth2/authorize \
         resource_id=https://storage.azure.com"
    );
    for (service, path, token, version, status, code) in [
        (Service::Queue, "/jobs/messages", "audience", "2023-11-03", 401, "InvalidAuthenticationInfo"),
        (Service::Queue, "/jobs/messages", "audience", "2019-10-10", 403, "AuthenticationFailed"),
        (Service::Table, "/Orders()", "expired", "2020-12-06", 401, "InvalidAuthenticationInfo"),
        (Service::Table, "/Orders()", "expired", "2019-12-12", 403, "AuthenticationFailed"),
        (Service::Blob, "/docs/one", "x.y.z", "2019-12-12", 401, "InvalidAuthenticationInfo"),
        (Service::Blob, "/docs/one", "", "2019-12-12", 401, "NoAuthenticationInformation"),
        (Service::Table, "/Orders()", "", "2020-12-06", 401, "NoAuthenticationInformation"),
        (Service::Table, "/Orders()", "", "2019-12-12", 403, "AuthenticationFailed"),
        (Service::Queue, "/jobs/messages", "OWNER", "2017-07-29", 403, "AuthenticationFailed"),
    ] {
        let told = bench.send(service, token, &format!("GET {path}\nx-ms-version: {version}"), "").await;
        assert_eq!((told.status.as_u16(), told.code()), (status, code), "{service:?} {token} {version}");
        let header = told.headers.get("www-authenticate").map(|value| value.to_str().unwrap());
        assert_eq!(header, (status == 401).then_some(&*challenge), "{service:?} {token} {version}");
        assert!(!told.text.contains(&format!("Bearer {token}")));
    }
    let told = bench.send(Service::Queue, "audience", "GET /jobs/messages", "").await;
    let detail = "Audience validation failed. Audience did not match.";
    assert_eq!(told.element("AuthenticationErrorDetail"), detail);
    bench.tls = false;
    let told = bench.send(Service::Queue, "OWNER", "GET /jobs/messages", "").await;
    assert_eq!((told.status.as_u16(), told.code()), (403, "AuthenticationFailed"));
    let detail = "Authentication scheme Bearer is not allowed with HTTP.";
    assert_eq!(told.element("AuthenticationErrorDetail"), detail);
}

#[tokio::test]
async fn every_part_of_a_batch_is_checked() {
    let bench = Bench::new();
    bench.fill().await;
    let orders: Scope = "/devstoreaccount1/table/orders".parse().unwrap();
    bench.assign([
        ("ADDER".to_owned(), orders, Actions::ENTITY_ADD),
        role("READER", Role::BlobDataReader, "/"),
        role("DOCS", Role::BlobDataContributor, "/devstoreaccount1/blob/docs"),
        role("CONTRIBUTOR", Role::BlobDataContributor, "/devstoreaccount1"),
    ]);
    let change = |method: &str, path: &str| {
        format!(
            "--c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n{method} \
             http://127.0.0.1:10002/{ACCOUNT}/{path} HTTP/1.1\r\nContent-Type: application/json\r\n\
             Accept: application/json;odata=nometadata\r\nIf-Match: *\r\n\r\n"
        )
    };
    let insert =
        |row: u32| format!("{}{{\"PartitionKey\":\"b\",\"RowKey\":\"{row}\"}}\r\n", change("POST", "Orders"));
    let batch = |changes: &str| {
        format!("--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n{changes}--c--\r\n--b--\r\n")
    };
    let head = "POST /$batch\ncontent-type: multipart/mixed; boundary=b";
    let good = batch(&format!("{}{}", insert(1), insert(2)));
    let told = bench.send(Service::Table, "ADDER", head, &good).await;
    assert_eq!((told.status.as_u16(), told.text.matches("HTTP/1.1 201").count()), (202, 2), "{}", told.text);
    let delete = change("DELETE", "Orders(PartitionKey='b',RowKey='1')");
    let bad = batch(&format!("{}{}{delete}\r\n", insert(3), insert(4)));
    let told = bench.send(Service::Table, "ADDER", head, &bad).await;
    assert!(told.text.contains("HTTP/1.1 403") && told.text.contains("\"2:This request"), "{}", told.text);
    let told = bench.send(Service::Table, "OWNER", "GET /Orders()", "").await;
    assert_eq!(told.text.matches("RowKey").count(), 2, "nothing of it was done: {}", told.text);

    let part = |token: &str| {
        format!(
            "--b\r\nContent-Type: application/http\r\nContent-ID: 0\r\n\r\nDELETE /docs/none HTTP/1.1\r\n\
             Authorization: Bearer {token}\r\nContent-Length: 0\r\n\r\n"
        )
    };
    let body = format!("{}{}{}--b--\r\n", part("CONTRIBUTOR"), part("READER"), part("audience"));
    let whole = "b POST /?comp=batch\ncontent-type: multipart/mixed; boundary=b";
    let told = bench.send(Service::Blob, "CONTRIBUTOR", &whole[2..], &body).await;
    let statuses: Vec<&str> = told.text.matches("HTTP/1.1 404").collect();
    assert_eq!((told.status.as_u16(), statuses.len()), (202, 1), "{}", told.text);
    for code in ["BlobNotFound", "AuthorizationPermissionMismatch", "InvalidAuthenticationInfo"] {
        assert!(told.text.contains(&format!("x-ms-error-code: {code}")), "{code}: {}", told.text);
    }
    let in_docs = whole.replace("/?comp=batch", "/docs?restype=container&comp=batch");
    for (who, head, expected) in [
        ("READER", whole, DENIED),
        ("DOCS", whole, DENIED),
        ("READER", &in_docs, DENIED),
        ("DOCS", &in_docs, (202, "")),
    ] {
        let (status, code) = bench.status(who, head, &body).await;
        assert_eq!((status, &*code), expected, "{who} {head}");
    }
}

#[tokio::test]
async fn what_a_batch_repeats_of_its_requests_has_memory() {
    let bench = Bench::new();
    bench.fill().await;
    let head = "POST /?comp=batch\ncontent-type: multipart/mixed; boundary=b";
    let start = "--b\r\nContent-Type: application/http\r\n";
    // Of nothing, but as long as one.
    let signature = STANDARD.encode([7; 32]);
    let sas = format!("sv=2019-02-02&sr=b&sig={signature}&sp={}", "<".repeat(8000));
    let key = format!(
        "x-ms-date: {HTTP_NOW}\r\nAuthorization: SharedKey {ACCOUNT}:{signature}\r\nx-ms-meta-a: {}\r\n",
        "&".repeat(8000)
    );
    let id = format!("Content-ID: {}\r\n", "1".repeat(8000));
    for (case, part) in [
        ("a SAS", format!("{start}\r\nDELETE /docs/x?{sas} HTTP/1.1\r\n\r\n")),
        ("a header", format!("{start}\r\nDELETE /docs/x HTTP/1.1\r\n{key}\r\n")),
        ("an id", format!("{start}{id}\r\nDELETE /docs/x HTTP/1.1\r\n\r\n")),
    ] {
        let body = part.repeat(100) + "--b--\r\n";
        let response = bench.answer(Service::Blob, "OWNER", head, &body).await;
        assert_eq!(response.status(), StatusCode::ACCEPTED, "{case}");
        let bytes = response.body().size_hint().exact().unwrap();
        assert!(bytes > 700_000, "{case}: {bytes}");
        assert!(bench.blobs.memory.used_bytes() >= bytes, "{case}: {bytes}");
        drop(response);
        assert_eq!(bench.blobs.memory.used_bytes(), 0);
    }
}

#[tokio::test]
async fn sources_of_copies() {
    let bench = Bench::new();
    bench.fill().await;
    bench.assign([
        role("WRITER", Role::BlobDataContributor, "/devstoreaccount1/blob/copies"),
        role("BOTH", Role::BlobDataContributor, "/devstoreaccount1/blob/copies"),
        role("BOTH", Role::BlobDataReader, "/devstoreaccount1/blob/docs"),
        role("READS_TAGS", Role::BlobDataContributor, "/devstoreaccount1/blob/copies"),
        role("READS_TAGS", Role::BlobDataOwner, "/devstoreaccount1/blob/docs"),
        role("WRITES_TAGS", Role::BlobDataOwner, "/devstoreaccount1/blob/copies"),
        role("WRITES_TAGS", Role::BlobDataReader, "/devstoreaccount1/blob/docs"),
    ]);
    let copy = |more: &str| {
        format!(
            "b PUT /copies/two\nx-ms-requires-sync: true\n\
             x-ms-copy-source: http://127.0.0.1:10000/{ACCOUNT}/docs/one{more}"
        )
    };
    for (who, head, expected) in [
        ("BOTH", copy(""), (202, "")),
        ("WRITER", copy(""), (404, "CannotVerifyCopySource")),
        ("WRITER", copy("\nx-ms-copy-source-authorization: Bearer BOTH"), (202, "")),
        ("WRITER", copy("\nx-ms-copy-source-authorization: Bearer WRITER"), (403, "CannotVerifyCopySource")),
        ("WRITER", copy("\nx-ms-copy-source-authorization: Bearer expired"), (401, "CannotVerifyCopySource")),
        ("NOBODY", copy(""), DENIED),
        ("READS_TAGS", copy(""), (202, "")),
        ("READS_TAGS", copy("\nx-ms-copy-source-tag-option: COPY"), DENIED),
        ("READS_TAGS", copy("\nx-ms-copy-source-tag-option: REPLACE"), (202, "")),
        ("WRITES_TAGS", copy("\nx-ms-copy-source-tag-option: COPY"), (404, "CannotVerifyCopySource")),
        ("OWNER", copy("\nx-ms-copy-source-tag-option: COPY"), (202, "")),
    ] {
        let (status, code) = bench.status(who, &head, "").await;
        assert_eq!((status, &*code), expected, "{who} {head}");
    }
}

#[tokio::test]
async fn keys_of_users() {
    let bench = Bench::new();
    bench.assign([
        role("READER", Role::BlobDataReader, "/devstoreaccount1"),
        role("NARROW", Role::BlobDataReader, "/devstoreaccount1/blob/docs"),
        role("QUEUES", Role::QueueDelegator, "/"),
        role("TABLES", Role::TableDelegator, "/devstoreaccount1/table"),
    ]);
    for (service, letter, who) in
        [(Service::Blob, "b", "READER"), (Service::Queue, "q", "QUEUES"), (Service::Table, "t", "TABLES")]
    {
        let told = bench.key(service, who, "").await;
        assert_eq!(told.status, StatusCode::OK, "{told:?}");
        for (element, expected) in [
            ("SignedOid", who),
            ("SignedTid", TENANT),
            ("SignedStart", NOW),
            ("SignedExpiry", "2026-03-11T00:00:00Z"),
            ("SignedService", letter),
            ("SignedVersion", VERSION),
            ("SignedDelegatedUserTid", ""),
        ] {
            assert_eq!(told.element(element), expected, "{service:?}");
        }
        assert_eq!(STANDARD.decode(told.element("Value")).unwrap().len(), 32);
        assert_eq!(told.text, bench.key(service, who, "").await.text, "the same request, the same key");
        let other = bench.key(service, who, &format!("<DelegatedUserTid>{TENANT}</DelegatedUserTid>")).await;
        assert_eq!(other.element("SignedDelegatedUserTid"), TENANT);
        assert_ne!(other.element("Value"), told.element("Value"));
        let told = bench.key(service, "NOBODY", "").await;
        assert_eq!((told.status.as_u16(), told.code()), DENIED, "{service:?}");
        let late = "<Start>2026-03-12T00:00:00Z</Start>";
        let told = bench.key(service, who, late).await;
        assert_eq!((told.status.as_u16(), told.code()), (400, "InvalidXmlNodeValue"), "{service:?}");
    }
    let told = bench.key(Service::Blob, "NARROW", "").await;
    assert_eq!((told.status.as_u16(), told.code()), DENIED, "not of one container");
    for (head, expected) in [
        ("q POST /?restype=service&comp=userdelegationkey\nx-ms-version: 2025-05-05", 400),
        ("t POST /?restype=service&comp=userdelegationkey\nx-ms-version: 2025-05-05", 400),
        ("b POST /?restype=service&comp=userdelegationkey\nx-ms-version: 2018-03-28", 400),
    ] {
        assert_eq!(bench.status("OWNER", head, "<KeyInfo/>").await.0, expected, "{head}");
    }
}

/// The query of a SAS that somebody signs with their own key. `more`: further parameters, of those `sduoid` and `skdutid`.
async fn signed(bench: &Bench, service: Service, who: &str, sp: &str, more: &[(&str, &str)]) -> String {
    let tenant = more.iter().find(|(name, _)| *name == "skdutid").map_or("", |(_, value)| value);
    let inside = match tenant {
        "" => String::new(),
        tenant => format!("<DelegatedUserTid>{tenant}</DelegatedUserTid>"),
    };
    let key = bench.key(service, who, &inside).await;
    assert_eq!(key.status, StatusCode::OK, "{key:?}");
    let (resource, own, order) = match service {
        Service::Table => ("/table/devstoreaccount1/orders", ("tn", "Orders"), "sip spr sv spk srk epk erk"),
        Service::Queue => ("/queue/devstoreaccount1/jobs", ("x", ""), "sip spr sv"),
        Service::Blob => {
            ("/blob/devstoreaccount1/docs", ("sr", "c"), "sip spr sv sr - ses rscc rscd rsce rscl rsct")
        }
    };
    let mut pairs = vec![
        ("sp", sp),
        ("se", "2026-03-10T20:00:00Z"),
        ("sv", VERSION),
        ("skoid", key.element("SignedOid")),
        ("sktid", key.element("SignedTid")),
        ("skt", key.element("SignedStart")),
        ("ske", key.element("SignedExpiry")),
        ("sks", key.element("SignedService")),
        ("skv", key.element("SignedVersion")),
        own,
    ];
    pairs.extend(more);
    let ids = if service == Service::Blob { "saoid suoid scid skdutid sduoid" } else { "skdutid sduoid" };
    let order = format!("sp st se R skoid sktid skt ske sks skv {ids} {order}");
    let lines: Vec<&str> = order
        .split(' ')
        .map(|line| match line {
            "R" => resource,
            name => pairs.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value),
        })
        .collect();
    let mac = MacKey::new(&STANDARD.decode(key.element("Value")).unwrap());
    let signature = STANDARD.encode(mac.sign([lines.join("\n").as_bytes()])).replace('+', "%2B");
    let query: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("{}&sig={signature}", query.join("&"))
}

#[tokio::test]
async fn a_sas_of_a_user_is_good_as_long_as_their_roles() {
    for (service, reads, letters, writes) in [
        (Service::Table, "t GET /Orders()?", "r", format!("t POST /Orders?SAS\n{INSERT}")),
        (Service::Queue, "q GET /jobs/messages?peekonly=true&", "r", "q POST /jobs/messages?SAS".to_owned()),
        (Service::Blob, "b GET /docs/one?", "r", "b PUT /docs/two?SAS\nx-ms-blob-type: BlockBlob".to_owned()),
    ] {
        let bench = Bench::new();
        bench.fill().await;
        bench.assign([
            role("USER", Role::BlobDataReader, "/"),
            role("USER", Role::QueueDataReader, "/"),
            role("USER", Role::QueueDelegator, "/"),
            role("USER", Role::TableDataReader, "/"),
            role("USER", Role::TableDelegator, "/"),
        ]);
        let sas = signed(&bench, service, "USER", letters, &[]).await;
        let read = format!("{reads}{sas}");
        assert_eq!(bench.status("", &read, "").await, (200, String::new()), "{service:?}");
        // The SAS allows it, and the user may not.
        let wide = signed(&bench, service, "USER", "racwdup", &[]).await;
        let body = if service == Service::Table { ENTITY } else { MESSAGE };
        let (status, code) = bench.status("", &writes.replace("SAS", &wide), body).await;
        assert_eq!((status, &*code), DENIED, "{service:?}");
        // The user may, and the SAS does not allow it.
        let (status, code) =
            bench.status("", &format!("{reads}{}", read_nothing(&bench, service).await), "").await;
        assert_eq!((status, &*code), DENIED, "{service:?}");
        let forged = read.replace("skoid=USER", "skoid=OWNER");
        assert_eq!(bench.status("", &forged, "").await, (403, "AuthenticationFailed".to_owned()));
        let policy = format!("{read}&si=p");
        assert_eq!(bench.status("", &policy, "").await, (403, "AuthorizationFailure".to_owned()));
        bench.take_back("USER");
        let (status, code) = bench.status("", &read, "").await;
        assert_eq!((status, &*code), DENIED, "{service:?}");
    }
}

async fn read_nothing(bench: &Bench, service: Service) -> String {
    signed(bench, service, "USER", "d", &[]).await
}

#[tokio::test]
async fn a_sas_for_one_user_needs_their_token() {
    let other_tenant = "11111111-86f1-41af-91ab-2d7cd011db47";
    let failed = (403, "AuthenticationFailed");
    for (service, read) in [
        (Service::Table, "t GET /Orders()?"),
        (Service::Queue, "q GET /jobs/messages?peekonly=true&"),
        (Service::Blob, "b GET /docs/one?"),
    ] {
        let bench = Bench::new();
        bench.fill().await;
        let sas = signed(&bench, service, "OWNER", "r", &[("sduoid", "ANNE")]).await;
        let elsewhere =
            signed(&bench, service, "OWNER", "r", &[("sduoid", "ANNE"), ("skdutid", other_tenant)]).await;
        let open = signed(&bench, service, "OWNER", "r", &[]).await;
        for (who, sas, expected) in [
            ("", &sas, failed),
            ("BOB", &sas, failed),
            ("audience", &sas, (401, "InvalidAuthenticationInfo")),
            ("ANNE", &sas, (200, "")),
            ("ANNE", &elsewhere, failed),
            ("BOB", &open, (200, "")),
            ("audience", &open, (200, "")),
        ] {
            let (status, code) = bench.status(who, &format!("{read}{sas}"), "").await;
            assert_eq!((status, &*code), expected, "{service:?} {who}");
        }
        let stripped = sas.replace("&sduoid=ANNE", "");
        assert_eq!(bench.status("", &format!("{read}{stripped}"), "").await.0, 403, "it is signed");
    }
}

#[tokio::test]
async fn accounts_without_keys_and_disabled_ones() {
    let bench = Bench::with_account(AccountSwitches { allow_shared_keys: false, ..Default::default() });
    bench.fill().await;
    let sas = signed(&bench, Service::Blob, "OWNER", "r", &[]).await;
    assert_eq!(bench.status("", &format!("b GET /docs/one?{sas}"), "").await.0, 200);
    let (sp, se) = ("r", "2026-03-11");
    let text = format!("{sp}\n\n{se}\n/blob/{ACCOUNT}/docs\n\n\n\n{VERSION}\nc\n\n\n\n\n\n\n");
    let signature = STANDARD.encode(MacKey::new(b"key").sign([text.as_bytes()])).replace('+', "%2B");
    let by_key = format!("b GET /docs/one?sp={sp}&se={se}&sv={VERSION}&sr=c&sig={signature}");
    let refused = (403, "KeyBasedAuthenticationNotPermitted".to_owned());
    assert_eq!(bench.status("", &by_key, "").await, refused);

    let bench = Bench::with_account(AccountSwitches { disabled: true, ..Default::default() });
    for (who, head) in [
        ("OWNER", "b GET /docs/one"),
        ("", &by_key),
        ("", "b GET /docs/one"),
        ("OWNER", "t GET /Tables"),
        ("OWNER", "q GET /?comp=list"),
    ] {
        assert_eq!(bench.status(who, head, "").await, (403, "AccountIsDisabled".to_owned()), "{who} {head}");
    }
}

#[tokio::test]
async fn without_a_directory_there_are_no_tokens() {
    let mut bench = Bench::new();
    bench.queues.front.directory = Arc::new(NoDirectory::default());
    let told = bench.send(Service::Queue, "OWNER", "GET /?comp=list", "").await;
    assert_eq!((told.status.as_u16(), told.code()), (401, "InvalidAuthenticationInfo"));
    assert!(told.headers["www-authenticate"].to_str().unwrap().contains("/common/oauth2/authorize"));
}
