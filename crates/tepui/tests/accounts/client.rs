//! Requests of an account, signed with one of its keys.

use crate::support::Server;
use crate::support::http::{Client, Reply};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// A client of an account that has one key.
pub(crate) struct Keyed<'a> {
    pub(crate) server: &'a Server,
    pub(crate) account: &'a str,
    pub(crate) key: &'a str,
}

/// The signature of a text with a key.
pub(crate) fn signature(key: &str, text: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(&STANDARD.decode(key).unwrap()).unwrap();
    mac.update(text.as_bytes());
    STANDARD.encode(mac.finalize().into_bytes())
}

impl Keyed<'_> {
    /// An account SAS with every right.
    pub(crate) fn sas(&self) -> String {
        let text = format!("{}\nrwdlacup\nbqt\nsco\n\n2099-01-01\n\n\n2019-02-02\n", self.account);
        let signature =
            signature(self.key, &text).replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
        format!("sv=2019-02-02&ss=bqt&srt=sco&sp=rwdlacup&se=2099-01-01&sig={signature}")
    }

    /// Sends a request with a SAS to the service on a port.
    pub(crate) fn with_sas(
        &self,
        port: u16,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Reply {
        let join = if path.contains('?') { '&' } else { '?' };
        let target = format!("/{}{path}{join}{}", self.account, self.sas());
        Client::connect(port).unwrap().unsigned(method, &target, headers, body.as_bytes()).unwrap()
    }

    /// Lists tables by Shared Key Lite.
    pub(crate) fn by_shared_key(&self) -> Reply {
        let date = httpdate();
        let resource = format!("/{0}/{0}/Tables", self.account);
        let signature = signature(self.key, &format!("{date}\n{resource}"));
        let authorization = format!("SharedKeyLite {}:{signature}", self.account);
        let headers = [
            ("x-ms-date", date.as_str()),
            ("x-ms-version", "2019-02-02"),
            ("Accept", "application/json"),
            ("Authorization", &authorization),
        ];
        let target = format!("/{}/Tables", self.account);
        Client::connect(self.server.port).unwrap().unsigned("GET", &target, &headers, b"").unwrap()
    }

    /// The statuses of a request by Shared Key, and of one by SAS to each service.
    pub(crate) fn statuses(&self) -> [u16; 4] {
        let Server { port, queue_port, blob_port, .. } = *self.server;
        let accept = [("Accept", "application/json")];
        [
            self.by_shared_key().status,
            self.with_sas(port, "GET", "/Tables", &accept, "").status,
            self.with_sas(queue_port, "GET", "/?comp=list", &[], "").status,
            self.with_sas(blob_port, "GET", "/?comp=list", &[], "").status,
        ]
    }

    /// Makes tables with an entity, a queue with a message, and a container with a blob.
    pub(crate) fn fill(&self, tables: usize) {
        let Server { port, queue_port, blob_port, .. } = *self.server;
        let json = [("Content-Type", "application/json"), ("Accept", "application/json")];
        for number in 0..tables {
            let body = format!("{{\"TableName\":\"Tab{number}\"}}");
            let made = self.with_sas(port, "POST", "/Tables", &json, &body);
            assert_eq!(made.status, 201, "{}", made.text());
        }
        let entity = r#"{"PartitionKey":"p","RowKey":"r","Value":1}"#;
        assert_eq!(self.with_sas(port, "POST", "/Tab0", &json, entity).status, 201);
        assert_eq!(self.with_sas(queue_port, "PUT", "/jobs", &[], "").status, 201);
        let message = "<QueueMessage><MessageText>job</MessageText></QueueMessage>";
        assert_eq!(self.with_sas(queue_port, "POST", "/jobs/messages", &[], message).status, 201);
        let made =
            self.with_sas(blob_port, "PUT", "/files?restype=container", &[("Content-Length", "0")], "");
        assert_eq!(made.status, 201, "{}", made.text());
        let blob = [("x-ms-blob-type", "BlockBlob")];
        assert_eq!(self.with_sas(blob_port, "PUT", "/files/one", &blob, "bytes").status, 201);
        let rules = "<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>http://old</AllowedOrigins>\
            <AllowedMethods>GET</AllowedMethods><MaxAgeInSeconds>5</MaxAgeInSeconds><ExposedHeaders></ExposedHeaders>\
            <AllowedHeaders></AllowedHeaders></CorsRule></Cors></StorageServiceProperties>";
        let set = self.with_sas(queue_port, "PUT", "/?restype=service&comp=properties", &[], rules);
        assert_eq!(set.status, 202, "{}", set.text());
    }

    /// Asserts that nothing is in the account.
    pub(crate) fn expect_empty(&self) {
        let Server { port, queue_port, blob_port, .. } = *self.server;
        let tables = self.with_sas(port, "GET", "/Tables", &[("Accept", "application/json")], "");
        assert_eq!(tables.json()["value"], serde_json::json!([]), "{}", tables.text());
        for (port, word) in [(queue_port, "<Queue>"), (blob_port, "<Container>")] {
            let list = self.with_sas(port, "GET", "/?comp=list", &[], "").text();
            assert!(!list.contains(word), "{list}");
        }
        let settings = self.with_sas(queue_port, "GET", "/?restype=service&comp=properties", &[], "");
        assert!(!settings.text().contains("http://old"), "{}", settings.text());
    }
}

/// Now, as headers have it.
fn httpdate() -> String {
    use tepui_model::Clock as _;
    tepui_model::time::SystemClock::new().now().to_http()
}
