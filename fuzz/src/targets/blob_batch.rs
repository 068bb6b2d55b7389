//! Batches of the Blob service: the first line is the content type, the rest the body.

use crate::checks::refused;
use crate::material::{ACCOUNT, cut_line};
use http::Response;
use tepui_wire::address::{AddressRules, Service, Target};
use tepui_wire::blob::batch::{self, MAX_PARTS, PartAnswer};
use tepui_wire::blob::request::Request;
use tepui_wire::version::ServiceVersion;

pub(super) const WORDS: &[&str] = &[
    "multipart/mixed; boundary=b",
    "multipart/mixed; boundary=\"b=1\"",
    "--b\r\n",
    "--b--\r\n",
    "--",
    "\r\n",
    "\n",
    "Content-Type: application/http\r\n",
    "Content-Transfer-Encoding: binary\r\n",
    "Content-ID: 0\r\n",
    "DELETE /devstoreaccount1/c01/b HTTP/1.1\r\n",
    "DELETE /c01/b? HTTP/1.1\r\n",
    "PUT /c01/b?comp=tier HTTP/1.1\r\n",
    "x-ms-access-tier: Cool\r\n",
    "x-ms-delete-snapshots: include\r\n",
    "Authorization: SharedKey devstoreaccount1:x\r\n",
    "If-Match: *\r\n",
];

/// Every part is read like a request of its own, and its answer can be written.
pub fn blob_batch(data: &[u8]) {
    let (content_type, body) = cut_line(data);
    let content_type = std::str::from_utf8(content_type).ok();
    let rules = AddressRules::new(Service::Blob);
    for host_style in [true, false] {
        let envelope = Target {
            account: ACCOUNT.to_owned(),
            secondary: false,
            base: format!("http://127.0.0.1/{ACCOUNT}"),
            raw_path: format!("/{ACCOUNT}/"),
            path: String::new(),
            host_style,
        };
        let parts = match batch::decode(content_type, body, &envelope) {
            Ok(parts) => parts,
            Err(error) => return refused(&error),
        };
        assert!((1..=MAX_PARTS).contains(&parts.len()));
        let mut answers = Vec::new();
        for part in parts {
            let request = Request::read(&part.head(ServiceVersion::NEWEST), &rules);
            let kind = request.map(|request| request.kind());
            if let Err(error) = kind.and_then(|kind| batch::check_kinds(&[kind])) {
                refused(&error);
            }
            answers.push(PartAnswer {
                content_id: part.content_id,
                response: Response::default(),
                reason: None,
            });
        }
        assert!(batch::encode("1", &answers).body().ends_with(b"--batchresponse_1--\r\n"));
    }
}
