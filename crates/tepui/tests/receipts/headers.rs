//! When there are receipts, what is asked for with them, and who may read them.

use crate::ledger::foreseen;
use crate::support::Server;
use crate::support::http::{Client, Reply};
use crate::support::table::{Change, batch_body};
use tepui_model::Timestamp;
use tepui_model::grant::KeyBounds;
use tepui_model::permissions::Permissions;
use tepui_wire::auth::{SasLimits, SasResource, ServiceSas, Signer, decode_key};

const TABLE: &str = "Asked";
const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const ACCEPT: (&str, &str) = ("Accept", "application/json;odata=nometadata");

fn query(client: &mut Client, headers: &[(&str, &str)]) -> Reply {
    let reply = client.request("GET", &format!("/{TABLE}()"), &[&[ACCEPT], headers].concat(), b"").unwrap();
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply
}

fn server(receipts: &str) -> (Server, Client) {
    let server = Server::in_memory(&["--receipts", receipts]);
    let mut client = server.client();
    client.create_table(TABLE);
    (server, client)
}

#[test]
fn receipts_and_timing_are_for_those_who_ask() {
    for (receipts, cases) in [
        (
            "always",
            [("", true, false), ("want", true, false), ("timing", true, true), ("want, timing", true, true)],
        ),
        (
            "asked",
            [
                ("", false, false),
                ("want", true, false),
                ("timing", false, true),
                ("want, timing", true, true),
            ],
        ),
        (
            "never",
            [
                ("", false, false),
                ("want", false, false),
                ("timing", false, false),
                ("want, timing", false, false),
            ],
        ),
    ] {
        let (_server, mut client) = server(receipts);
        for (asked, has_receipt, has_timing) in cases {
            let headers: &[(&str, &str)] = if asked.is_empty() { &[] } else { &[("tepui-receipt", asked)] };
            let reply = query(&mut client, headers);
            let found = |name| reply.header(name).is_some();
            assert_eq!(
                (found("tepui-receipt"), found("server-timing")),
                (has_receipt, has_timing),
                "{receipts}, asked for {asked:?}"
            );
        }
    }
}

/// The metrics of a Server-Timing header, in milliseconds.
fn timing(reply: &Reply) -> Vec<(String, f64)> {
    let text = reply.header("server-timing").expect("Server-Timing");
    let metric = |metric: &str| {
        let (name, duration) = metric.split_once(";dur=").unwrap();
        (name.to_owned(), duration.parse().unwrap())
    };
    text.split(", ").map(metric).collect()
}

#[test]
fn the_phases_add_up_to_the_time_of_the_receipt() {
    let directory = tempfile::TempDir::new().unwrap();
    let server = Server::on_disk(directory.path());
    let mut client = server.client();
    client.create_table(TABLE);
    let asks = ("tepui-receipt", "timing");
    let content = ("Content-Type", "application/json");
    let entity = format!("/{TABLE}(PartitionKey='p',RowKey='1')");
    let put = client.request("PUT", &entity, &[asks, content], b"{\"Number\":1}").unwrap();
    let got = client.request("GET", &entity, &[asks, ACCEPT], b"").unwrap();
    let found = query(&mut client, &[asks]);
    let missing = client.request("GET", &entity.replace('1', "2"), &[asks, ACCEPT], b"").unwrap();
    let batch = batch_body(TABLE, "p", &[Change::new("PUT", "3", Default::default())]);
    let content = ("Content-Type", "multipart/mixed; boundary=batch_1");
    let batch = client.request("POST", "/$batch", &[asks, content], &batch).unwrap();
    let mut queue = Client::connect(server.queue_port).unwrap();
    queue.create_queue("asked");
    let body = b"<QueueMessage><MessageText>x</MessageText></QueueMessage>";
    let message = queue.request("POST", "/asked/messages", &[asks], body).unwrap();
    let taken = queue.request("GET", "/asked/messages", &[asks], b"").unwrap();
    let listed = queue.request("GET", "/?comp=list", &[asks], b"").unwrap();
    for (case, reply, status, commits, has_body) in [
        ("a change", put, 204, true, true),
        ("a read", got, 200, false, false),
        ("a query", found, 200, false, false),
        ("an entity that is missing", missing, 404, false, false),
        ("a batch", batch, 202, true, true),
        ("a message", message, 201, true, true),
        ("a message that is taken", taken, 200, true, false),
        ("a list", listed, 200, false, false),
    ] {
        assert_eq!(reply.status, status, "{case}: {}", reply.text());
        let times = timing(&reply);
        let names: Vec<&str> = times.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["auth", "body", "plan", "read", "commit", "reply"], "{case}");
        let of = |name: &str| times.iter().find(|(known, _)| known == name).unwrap().1;
        assert!(of("auth") > 0.0 && of("plan") > 0.0 && of("read") > 0.0, "{case}: {times:?}");
        assert_eq!(of("commit") > 0.0, commits, "{case}: {times:?}");
        assert!(of("body") > 0.0 || !has_body, "{case}: {times:?}");
        let receipt: tepui_model::cost::Receipt = reply.header("tepui-receipt").unwrap().parse().unwrap();
        let total: f64 = times.iter().map(|(_, time)| time).sum();
        // Each is rounded to a microsecond, and the receipt is written last.
        assert!(total <= receipt.time.as_secs_f64() * 1000.0 + 0.006, "{case}: {times:?}, {receipt}");
    }
}

#[test]
fn refusals_have_neither() {
    let (_server, mut client) = server("always");
    let asks = ("tepui-receipt", "want, timing");
    let path = format!("/{TABLE}()");
    let unsigned = client.unsigned("GET", &format!("/devstoreaccount1{path}"), &[asks], b"").unwrap();
    let forged = client
        .unsigned(
            "GET",
            &format!("/devstoreaccount1{path}?sv=2019-02-02&ss=t&srt=sco&sp=r&se=2099-01-01&sig=eA%3D%3D"),
            &[asks],
            b"",
        )
        .unwrap();
    let filter = client.request("GET", &format!("{path}?$filter=x%20y"), &[asks, ACCEPT], b"").unwrap();
    let table = client.request("GET", "/Missing()", &[asks, ACCEPT], b"").unwrap();
    let entity = client.request("GET", "/Missing(PartitionKey='',RowKey='')", &[asks, ACCEPT], b"").unwrap();
    for (case, reply, status) in [
        ("not signed", unsigned, 401),
        ("a signature that is wrong", forged, 403),
        ("a filter that cannot be read", filter, 400),
        ("a table that is missing", table, 404),
        ("an entity of it", entity, 404),
    ] {
        assert_eq!(reply.status, status, "{case}: {}", reply.text());
        let found = |name| reply.header(name).is_some();
        assert_eq!((found("tepui-receipt"), found("server-timing")), (false, false), "{case}");
    }
}

#[test]
fn a_token_for_some_keys_reads_no_others() {
    let (_server, mut client) = server("always");
    for partition in ["a", "b", "c"] {
        for row in 0..10 {
            let change = Change::new("PUT", row.to_string(), Default::default());
            assert_eq!(client.change(TABLE, partition, &change).unwrap().status, 204);
        }
    }
    let from_b = Some("b".to_owned());
    let bounds =
        KeyBounds { start_partition: from_b.clone(), end_partition: from_b, ..KeyBounds::EVERYTHING };
    let token = Signer::new("devstoreaccount1", decode_key(KEY).unwrap()).unwrap().service_sas(&ServiceSas {
        resource: SasResource::Table { name: TABLE, bounds: &bounds },
        permissions: Permissions::parse("r"),
        policy_id: None,
        limits: SasLimits::until(Timestamp::parse_iso("2099-01-01").unwrap()),
    });
    let token = token.unwrap();
    let mut get = |path: &str| {
        let target = format!("/devstoreaccount1/{TABLE}{path}{token}").replace(' ', "%20");
        client.unsigned("GET", &target, &[ACCEPT], b"").unwrap()
    };
    for (path, status, receipt) in [
        ("()?", 200, Some("plan=table, ranges=1, scanned=10, returned=10, units=10")),
        (
            "()?$filter=PartitionKey eq 'a'&",
            200,
            Some("plan=partition, ranges=0, scanned=0, returned=0, units=1"),
        ),
        ("(PartitionKey='b',RowKey='1')?", 200, Some("plan=point, ranges=1, scanned=1, returned=1, units=1")),
        (
            "(PartitionKey='b',RowKey='none')?",
            404,
            Some("plan=point, ranges=1, scanned=0, returned=0, units=1"),
        ),
        // Neither whether it exists nor what it costs.
        ("(PartitionKey='a',RowKey='1')?", 403, None),
        ("(PartitionKey='a',RowKey='none')?", 403, None),
    ] {
        let reply = get(path);
        assert_eq!(reply.status, status, "{path}: {}", reply.text());
        assert_eq!(reply.header("tepui-receipt").map(foreseen).as_deref(), receipt, "{path}");
    }
}

#[test]
fn scripts_read_what_the_rules_expose() {
    let (_server, mut client) = server("always");
    const ORIGIN: (&str, &str) = ("Origin", "http://page.example");
    for (exposed, expected) in [
        ("", None),
        ("x-ms-*", Some("x-ms-")),
        ("tepui-receipt,Server-Timing", Some("tepui-receipt,Server-Timing")),
        ("tepui-*", Some("tepui-receipt")),
        ("*", Some("tepui-receipt")),
    ] {
        let rule = format!(
            "<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>{}</AllowedOrigins>\
             <AllowedMethods>GET</AllowedMethods><AllowedHeaders>tepui-receipt</AllowedHeaders>\
             <ExposedHeaders>{exposed}</ExposedHeaders><MaxAgeInSeconds>5</MaxAgeInSeconds>\
             </CorsRule></Cors></StorageServiceProperties>",
            ORIGIN.1
        );
        let set = client.request("PUT", "/?restype=service&comp=properties", &[], rule.as_bytes()).unwrap();
        assert_eq!(set.status, 202, "{}", set.text());
        let reply = query(&mut client, &[ORIGIN, ("tepui-receipt", "timing")]);
        assert_eq!(reply.header("access-control-allow-origin"), Some(ORIGIN.1));
        let names = reply.header("access-control-expose-headers");
        match expected {
            None => assert_eq!(names, None, "{exposed}"),
            Some("x-ms-") => {
                assert!(!names.unwrap().contains("tepui") && !names.unwrap().contains("server-timing"))
            }
            Some(expected) => assert!(names.unwrap().contains(expected), "{exposed}: {names:?}"),
        }
        if exposed == "*" {
            assert!(names.unwrap().contains("server-timing"), "{names:?}");
        }
        let preflight = [
            ORIGIN,
            ("Access-Control-Request-Method", "GET"),
            ("Access-Control-Request-Headers", "tepui-receipt"),
        ];
        let target = format!("/devstoreaccount1/{TABLE}()");
        assert_eq!(client.unsigned("OPTIONS", &target, &preflight, b"").unwrap().status, 200);
    }
}
