//! Requests for blobs that are sound HTTP, and wrong in every other way.

use crate::siege::{CONTAINER, Siege};
use crate::support::blob::{BLOCK_BLOB, noise};
use crate::support::http::{Client, Reply};
use crate::uploads::{assert_unchanged, victims};

/// A request, and what it is answered with. An empty path is the container's.
struct Case<'a> {
    case: &'a str,
    request: (&'a str, &'a str),
    headers: &'a [(&'a str, &'a str)],
    body: &'a [u8],
    status: u16,
    code: &'a str,
}

fn case<'a>(case: &'a str, method: &'a str, path: &'a str, status: u16, code: &'a str) -> Case<'a> {
    Case { case, request: (method, path), headers: &[], body: b"", status, code }
}

impl<'a> Case<'a> {
    fn with(self, headers: &'a [(&'a str, &'a str)]) -> Self {
        Self { headers, ..self }
    }

    fn body(self, body: &'a [u8]) -> Self {
        Self { body, ..self }
    }
}

fn ask(client: &mut Client, (method, path): (&str, &str), headers: &[(&str, &str)], body: &[u8]) -> Reply {
    let path = match path {
        path if path.starts_with('/') => path.to_owned(),
        path => format!("/{CONTAINER}/{path}"),
    };
    client.blob(method, &path, headers, body).unwrap()
}

/// Sends each; checks the answer, the connection, that nothing was stored, and the server.
fn refused(cases: Vec<Case<'_>>) {
    let mut siege = Siege::lay_to_blobs("");
    let mut client = siege.server.blobs();
    let etags = victims(&mut client);
    let mut wrong = Vec::new();
    for Case { case, request, headers, body, status, code } in cases {
        let mut attacker = siege.server.blobs();
        let reply = ask(&mut attacker, request, headers, body);
        let found = (reply.status, reply.code());
        if found != (status, code.to_owned()) {
            wrong.push(format!("{case}: {found:?}, not {status} {code}: {:.200}", reply.text()));
        }
        let next = attacker.unsigned("GET", "/health", &[], b"");
        assert_eq!(next.map(|reply| reply.status).ok(), Some(200), "{case}: the next request");
        assert_unchanged(&mut client, &etags, case);
        siege.survived(case);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    siege.lift();
}

#[test]
fn checksums_that_are_wrong() {
    const MD5: &[(&str, &str)] = &[("Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA==")];
    const CRC64: &[(&str, &str)] = &[("x-ms-content-crc64", "AAAAAAAAAAE=")];
    let large = noise(3, 2 * 1024 * 1024);
    let page: &[(&str, &str)] = &[("x-ms-page-write", "update"), ("x-ms-range", "bytes=0-511")];
    let (put_md5, put_crc64) = ([&[BLOCK_BLOB], MD5].concat(), [&[BLOCK_BLOB], CRC64].concat());
    let (page_md5, page_crc64) = ([page, MD5].concat(), [page, CRC64].concat());
    let mut cases = Vec::new();
    for body in [&large[..1], &large[..20_000], &large] {
        cases.extend([
            case("Put Blob", "PUT", "new", 400, "Md5Mismatch").with(&put_md5).body(body),
            case("Put Blob", "PUT", "new", 400, "Crc64Mismatch").with(&put_crc64).body(body),
            case("overwriting", "PUT", "block", 400, "Md5Mismatch").with(&put_md5).body(body),
            case("Put Block", "PUT", "new?comp=block&blockid=AAAA", 400, "Md5Mismatch").with(MD5).body(body),
            case("Put Block", "PUT", "new?comp=block&blockid=AAAA", 400, "Crc64Mismatch")
                .with(CRC64)
                .body(body),
            case("Append Block", "PUT", "append?comp=appendblock", 400, "Md5Mismatch").with(MD5).body(body),
            case("Append Block", "PUT", "append?comp=appendblock", 400, "Crc64Mismatch")
                .with(CRC64)
                .body(body),
        ]);
    }
    cases.extend([
        case("Put Page", "PUT", "page?comp=page", 400, "Md5Mismatch").with(&page_md5).body(&large[..512]),
        case("Put Page", "PUT", "page?comp=page", 400, "Crc64Mismatch").with(&page_crc64).body(&large[..512]),
        case("Put Block List", "PUT", "new?comp=blocklist", 400, "Md5Mismatch")
            .with(MD5)
            .body(b"<BlockList/>"),
    ]);
    let (short, none) = ([BLOCK_BLOB, ("Content-MD5", "AAAA")], [BLOCK_BLOB, ("Content-MD5", "?")]);
    let crc64 = [BLOCK_BLOB, ("x-ms-content-crc64", "AAAA")];
    let both = [&put_md5[..], CRC64].concat();
    cases.extend([
        case("a short MD5", "PUT", "new", 400, "InvalidMd5").with(&short).body(b"x"),
        case("no MD5", "PUT", "new", 400, "InvalidMd5").with(&none).body(b"x"),
        case("a short CRC64", "PUT", "new", 400, "InvalidHeaderValue").with(&crc64).body(b"x"),
        case("both", "PUT", "new", 400, "BothCrc64AndMd5HeaderPresent").with(&both).body(b"x"),
    ]);
    refused(cases);
}

#[test]
fn lists_and_settings_that_are_none() {
    let list = |inside: &str| format!("<?xml version=\"1.0\"?><BlockList>{inside}</BlockList>").into_bytes();
    let bomb =
        b"<?xml version=\"1.0\"?><!DOCTYPE a [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;\">]>\
        <BlockList><Latest>&b;</Latest></BlockList>";
    let deep = "<BlockList>".repeat(100_000).into_bytes();
    let many = list(&"<Latest>AAAA</Latest>".repeat(50_001));
    let unknown = list("<Latest>AAAA</Latest>");
    let (no_base64, odd) = (list("<Latest>****</Latest>"), list("<Oldest>AAAA</Oldest>"));
    let garbage = noise(4, 1_000_000);
    let latin = b"<BlockList><Latest>\xff\xfe</Latest></BlockList>";
    let tag = |n: usize| format!("<Tag><Key>k{n}</Key><Value>v</Value></Tag>");
    let tags = |inside: String| format!("<Tags><TagSet>{inside}</TagSet></Tags>").into_bytes();
    let (eleven, twice) = (tags((0..11).map(tag).collect()), tags(tag(1).repeat(2)));
    let long_key = tags(format!("<Tag><Key>{}</Key><Value/></Tag>", "k".repeat(129)));
    let (blocks, block) = ("new?comp=blocklist", "block?comp=tags");
    let settings = "/?restype=service&comp=properties";
    let cors = format!(
        "<StorageServiceProperties><Cors>{}</Cors></StorageServiceProperties>",
        "<CorsRule/>".repeat(9)
    );
    let batch = format!("/{CONTAINER}?restype=container&comp=batch");
    let multipart = [("Content-Type", "multipart/mixed; boundary=b")];
    let part =
        "--b\r\nContent-Type: application/http\r\n\r\nDELETE /devstoreaccount1/besieged/x HTTP/1.1\r\n\r\n";
    let parts = (part.repeat(257) + "--b--\r\n").into_bytes();
    let long_part = part.replace("/x ", &format!("/x?{} ", "a&".repeat(1_500_000))).into_bytes();
    let mut cases = vec![
        case("an empty list body", "PUT", blocks, 400, "InvalidXmlDocument"),
        case("entities", "PUT", blocks, 400, "InvalidXmlDocument").body(bomb),
        case("deep", "PUT", blocks, 400, "InvalidXmlDocument").body(&deep),
        case("bytes", "PUT", blocks, 400, "InvalidXmlDocument").body(&garbage),
        case("not UTF-8", "PUT", blocks, 400, "InvalidXmlDocument").body(latin),
        case("cut off", "PUT", blocks, 400, "InvalidXmlDocument").body(&unknown[..40]),
        case("another root", "PUT", blocks, 400, "InvalidXmlDocument").body(b"<Blocks></Blocks>"),
        case("an element there is not", "PUT", blocks, 400, "InvalidXmlDocument").body(&odd),
        case("no base64", "PUT", blocks, 400, "InvalidBlockList").body(&no_base64),
        case("a block there is not", "PUT", blocks, 400, "InvalidBlockList").body(&unknown),
        case("50 001 blocks", "PUT", blocks, 400, "BlockListTooLong").body(&many),
        case("11 tags", "PUT", block, 400, "TagsTooLarge").body(&eleven),
        case("a tag twice", "PUT", block, 400, "DuplicateTagNames").body(&twice),
        case("a long key", "PUT", block, 400, "TagsTooLarge").body(&long_key),
        case("no tags", "PUT", block, 400, "InvalidXmlDocument").body(b"<Tags>"),
        case("tags of bytes", "PUT", block, 400, "InvalidXmlDocument").body(&garbage[..50_000]),
        case("settings of bytes", "PUT", settings, 400, "InvalidXmlDocument").body(&garbage[..50_000]),
        case("nine rules", "PUT", settings, 400, "InvalidXmlDocument").body(cors.as_bytes()),
        case("a batch of bytes", "POST", &batch, 400, "InvalidInput")
            .with(&multipart)
            .body(&garbage[..50_000]),
        case("a batch of 257", "POST", &batch, 400, "InvalidInput").with(&multipart).body(&parts),
        case("a batch of a long part", "POST", &batch, 400, "InvalidInput").with(&multipart).body(&long_part),
        case("a batch of no type", "POST", &batch, 400, "InvalidInput").body(part.as_bytes()),
    ];
    for (name, id) in
        [("no base64", "%2A%2A%2A%2A"), ("65 bytes", &*"QUFB".repeat(22)), ("half", "AAA"), ("NUL", "%00")]
    {
        let path: &str = Box::leak(format!("new?comp=block&blockid={id}").into_boxed_str());
        cases.push(case(name, "PUT", path, 400, "InvalidQueryParameterValue").body(b"x"));
    }
    refused(cases);
}

#[test]
fn ranges_and_limits_that_do_not_fit() {
    let page = |range: &'static str| [("x-ms-page-write", "update"), ("x-ms-range", range)];
    let (odd, reversed, beyond) =
        (page("bytes=1-512"), page("bytes=1023-512"), page("bytes=4194304-4194815"));
    let (large, endless, overflow) =
        (page("bytes=0-8388607"), page("bytes=0-"), page("bytes=0-18446744073709551615"));
    let clear = [("x-ms-page-write", "clear"), ("x-ms-range", "bytes=0-511")];
    let other = [("x-ms-page-write", "scribble"), ("x-ms-range", "bytes=0-511")];
    let bytes = noise(6, 513);
    let page_blob =
        |length: &'static str| [("x-ms-blob-type", "PageBlob"), ("x-ms-blob-content-length", length)];
    let (unaligned, giant, negative) =
        (page_blob("511"), page_blob("9223372036854775808"), page_blob("-512"));
    let position = [("x-ms-blob-condition-appendpos", "7")];
    let most = [("x-ms-blob-condition-maxsize", "0")];
    let kind = [("x-ms-blob-type", "CubeBlob")];
    let metadata = [BLOCK_BLOB, ("x-ms-meta-a", &*"a".repeat(9000))];
    let odd_name = [BLOCK_BLOB, ("x-ms-meta-a-b", "x")];
    let empty = [BLOCK_BLOB, ("x-ms-meta-a", "")];
    let pages = "page?comp=page";
    refused(vec![
        case("not aligned", "PUT", pages, 400, "InvalidHeaderValue").with(&odd).body(&bytes[..512]),
        case("backwards", "PUT", pages, 400, "InvalidHeaderValue").with(&reversed).body(&bytes[..512]),
        case("beyond the end", "PUT", pages, 416, "InvalidPageRange").with(&beyond).body(&bytes[..512]),
        case("8 MiB", "PUT", pages, 400, "InvalidHeaderValue").with(&large).body(&bytes[..512]),
        case("no end", "PUT", pages, 400, "InvalidHeaderValue").with(&endless).body(&bytes[..512]),
        case("an end beyond 64 bits", "PUT", pages, 400, "InvalidHeaderValue")
            .with(&overflow)
            .body(&bytes[..512]),
        case("another length", "PUT", pages, 400, "InvalidHeaderValue")
            .with(&page("bytes=0-511"))
            .body(&bytes),
        case("clear with bytes", "PUT", pages, 400, "InvalidHeaderValue").with(&clear).body(&bytes[..512]),
        case("an unknown write", "PUT", pages, 400, "InvalidHeaderValue").with(&other).body(&bytes[..512]),
        case("no range", "PUT", pages, 400, "MissingRequiredHeader")
            .with(&[("x-ms-page-write", "update")])
            .body(&bytes[..512]),
        case("half a page", "PUT", "new", 400, "InvalidHeaderValue").with(&unaligned),
        case("too many pages", "PUT", "new", 400, "InvalidHeaderValue").with(&giant),
        case("negative pages", "PUT", "new", 400, "InvalidHeaderValue").with(&negative),
        case("pages of blocks", "PUT", "block?comp=page", 409, "InvalidBlobType")
            .with(&page("bytes=0-511"))
            .body(&bytes[..512]),
        case("appending elsewhere", "PUT", "append?comp=appendblock", 412, "AppendPositionConditionNotMet")
            .with(&position)
            .body(b"x"),
        case("appending too much", "PUT", "append?comp=appendblock", 412, "MaxBlobSizeConditionNotMet")
            .with(&most)
            .body(b"x"),
        case("appending nothing", "PUT", "append?comp=appendblock", 400, "InvalidHeaderValue"),
        case("appending to blocks", "PUT", "block?comp=appendblock", 409, "InvalidBlobType").body(b"x"),
        case("a block of pages", "PUT", "page?comp=block&blockid=AAAA", 409, "InvalidBlobType").body(b"x"),
        case("an unknown type", "PUT", "new", 400, "InvalidHeaderValue").with(&kind).body(b"x"),
        case("no type", "PUT", "new", 400, "MissingRequiredHeader").body(b"x"),
        case("much metadata", "PUT", "new", 400, "MetadataTooLarge").with(&metadata).body(b"x"),
        case("a name of metadata", "PUT", "new", 400, "InvalidMetadata").with(&odd_name).body(b"x"),
        case("empty metadata", "PUT", "new", 400, "InvalidMetadata").with(&empty).body(b"x"),
        case("beyond the end", "GET", "block", 416, "InvalidRange").with(&[("x-ms-range", "bytes=100000-")]),
    ]);
}

/// Numbers that are none, or too large for anything.
const NUMBERS: [&str; 9] = [
    "-1",
    "+1",
    "1e3",
    "0x10",
    "seven",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775809",
    "99999999999999999999999999999999999999",
];

#[test]
fn numbers_that_are_none() {
    let mut siege = Siege::lay_to_blobs("");
    let mut client = siege.server.blobs();
    let etags = victims(&mut client);
    let list = format!("/{CONTAINER}?restype=container&comp=list");
    let lease = ("x-ms-lease-action", "acquire");
    let page = ("x-ms-page-write", "update");
    let first = ("x-ms-range", "bytes=0-511");
    let source = ("x-ms-copy-source", "http://127.0.0.1/devstoreaccount1/besieged/block");
    let body = noise(2, 512);
    for number in NUMBERS {
        for (header, request, more, body) in [
            ("x-ms-blob-content-length", ("PUT", "new"), &[("x-ms-blob-type", "PageBlob")][..], &b""[..]),
            ("x-ms-blob-content-length", ("PUT", "page?comp=properties"), &[], b""),
            (
                "x-ms-blob-sequence-number",
                ("PUT", "page?comp=properties"),
                &[("x-ms-sequence-number-action", "update")],
                b"",
            ),
            ("x-ms-if-sequence-number-le", ("PUT", "page?comp=page"), &[page, first], &body),
            ("x-ms-if-sequence-number-lt", ("PUT", "page?comp=page"), &[page, first], &body),
            ("x-ms-if-sequence-number-eq", ("PUT", "page?comp=page"), &[page, first], &body),
            ("x-ms-blob-condition-appendpos", ("PUT", "append?comp=appendblock"), &[], &body),
            ("x-ms-blob-condition-maxsize", ("PUT", "append?comp=appendblock"), &[], &body),
            ("x-ms-lease-duration", ("PUT", "block?comp=lease"), &[lease], b""),
            ("x-ms-lease-break-period", ("PUT", "block?comp=lease"), &[("x-ms-lease-action", "break")], b""),
            (
                "x-ms-structured-content-length",
                ("PUT", "new"),
                &[BLOCK_BLOB, ("x-ms-structured-body", "XSM/1.0; properties=crc64")],
                &body,
            ),
            ("x-ms-source-range", ("PUT", "new?comp=block&blockid=AAAA"), &[source], b""),
            ("x-ms-range", ("PUT", "page?comp=page"), &[page], &body),
            ("x-ms-blob-tier", ("PUT", "block?comp=tier"), &[], b""),
            ("x-ms-version", ("GET", "block"), &[], b""),
        ] {
            let text = if header.ends_with("range") {
                format!("bytes={number}-{number}")
            } else {
                number.to_owned()
            };
            // Conditions that such a number fulfils, and leases without end, are right.
            let fits = header.contains("-if-")
                || header.ends_with("maxsize")
                || (header.ends_with("duration") && number == "-1");
            if fits && ["-1", "18446744073709551615"].contains(&number) {
                continue;
            }
            let headers = [more, &[(header, &*text)]].concat();
            let reply = ask(&mut siege.server.blobs(), request, &headers, body);
            let case = format!("{header}: {text}");
            assert!(
                (400..500).contains(&reply.status) && !reply.code().is_empty(),
                "{case}: {} {}",
                reply.status,
                reply.text()
            );
            assert_unchanged(&mut client, &etags, &case);
        }
        for (method, path) in [
            ("GET", &*format!("{list}&maxresults={number}")),
            ("GET", &format!("block?snapshot={number}")),
            ("GET", &format!("block?versionid={number}")),
            ("DELETE", &format!("block?snapshot={number}")),
            ("GET", &format!("page?comp=pagelist&prevsnapshot={number}")),
            ("GET", &format!("page?comp=pagelist&maxresults={number}")),
        ] {
            let reply = ask(&mut siege.server.blobs(), (method, path), &[], b"");
            // More than there are is fine.
            let fine = path.contains("maxresults") && reply.status == 200 && number == "18446744073709551615";
            assert!(fine || (400..500).contains(&reply.status), "{path}: {} {}", reply.status, reply.text());
        }
        // A range that is none is as if there were none; one that is too long ends with the blob.
        for range in [
            format!("bytes={number}-"),
            format!("bytes=0-{number}"),
            format!("bytes={number}"),
            number.to_owned(),
        ] {
            for header in ["Range", "x-ms-range"] {
                let reply = ask(&mut siege.server.blobs(), ("GET", "block"), &[(header, &range)], b"");
                assert!([200, 206, 400, 416].contains(&reply.status), "{header} {range}: {}", reply.status);
            }
        }
        siege.survived(number);
    }
    siege.lift();
}

#[test]
fn names_that_are_odd() {
    let mut siege = Siege::lay_to_blobs("");
    let long = "n".repeat(1024);
    let (slashes, deep) = ("/".repeat(300), "a/".repeat(253) + "a");
    for (name, status) in [
        ("a%20b%2Bc%26d%3De%3Ff%23g", 201),
        ("%C3%A4%E2%82%AC%F0%9F%90%88", 201),
        ("%3Cname%3E%22'%26", 201),
        ("a%0Ab%01c", 400),
        ("..%2F..%2Fetc%2Fpasswd", 201),
        ("dot.", 201),
        (&long, 201),
        (&deep, 201),
        ("%00", 400),
        ("a%00b", 400),
        ("%ff%fe", 400),
        ("%C0%80", 400),
        (&format!("{long}n"), 400),
        (&slashes, 400),
        ("%EF%BF%BF", 201),
    ] {
        let mut client = siege.server.blobs();
        let path = format!("/{CONTAINER}/{name}");
        let put = client.blob("PUT", &path, &[BLOCK_BLOB], b"odd").unwrap();
        // As Azure's front end does, a refusal of the address closes the connection.
        let mut client = siege.server.blobs();
        let got = client.get_blob(&path);
        assert_eq!(put.status, status, "{name:.60}: {}", put.text());
        if put.status == 201 {
            assert_eq!((got.status, &*got.body), (200, &b"odd"[..]), "{name:.60}");
            let list =
                client.blob("GET", &format!("/{CONTAINER}?restype=container&comp=list"), &[], b"").unwrap();
            assert_eq!(list.status, 200, "{name:.60}: {}", list.text());
            assert_eq!(client.blob("DELETE", &path, &[], b"").unwrap().status, 202, "{name:.60}");
        } else {
            assert!(got.status == 400 || got.status == 404, "{name:.60}: {}", got.status);
        }
        siege.survived(name);
    }
    siege.lift();
}

/// Every snapshot between two writes makes a page blob that has one more to look through.
#[test]
fn page_blobs_with_very_many_snapshots() {
    const SNAPSHOTS: usize = 1500;
    let mut siege = Siege::lay_to_blobs("");
    let mut client = siege.server.blobs();
    let headers = [("x-ms-blob-type", "PageBlob"), ("x-ms-blob-content-length", "4194304")];
    assert_eq!(ask(&mut client, ("PUT", "pages"), &headers, b"").status, 201);
    let mut expected = vec![0; 512 * SNAPSHOTS];
    for number in 0..SNAPSHOTS {
        let page = noise(number as u64 + 1, 512);
        let range = format!("bytes={}-{}", number * 512, number * 512 + 511);
        let headers = [("x-ms-page-write", "update"), ("x-ms-range", &*range)];
        assert_eq!(ask(&mut client, ("PUT", "pages?comp=page"), &headers, &page).status, 201);
        assert_eq!(ask(&mut client, ("PUT", "pages?comp=snapshot"), &[], b"").status, 201);
        expected[number * 512..][..512].copy_from_slice(&page);
    }
    let reply = client.get_blob(&format!("/{CONTAINER}/pages"));
    assert!(reply.status == 200 && reply.body.starts_with(&expected), "{}", reply.status);
    let ranges = ask(&mut client, ("GET", "pages?comp=pagelist"), &[], b"");
    assert_eq!(ranges.status, 200, "{}", ranges.text());
    siege.survived("very many snapshots");
    let headers = [("x-ms-delete-snapshots", "include")];
    assert_eq!(ask(&mut client, ("DELETE", "pages"), &headers, b"").status, 202);
    siege.lift();
}
