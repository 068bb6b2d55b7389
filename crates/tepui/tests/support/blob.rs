//! The requests of a blob's client.

use super::http::{Client, Reply};
use std::io;

/// A shared access signature of the development account with every right to blobs, until 2099.
pub(crate) const BLOB_SAS: &str = "sv=2021-12-02&ss=b&srt=sco&sp=rwdxlactfi&se=2099-01-01\
    &sig=GlfZw5V8OiIh6XNBTTqUnFCL%2Foa5Ov50SnsgAOscOW0%3D";

/// What makes a request one for a block blob.
pub(crate) const BLOCK_BLOB: (&str, &str) = ("x-ms-blob-type", "BlockBlob");

/// The target of a request of the development account, with its signature.
pub(crate) fn signed(path: &str) -> String {
    let join = if path.contains('?') { '&' } else { '?' };
    format!("/devstoreaccount1{path}{join}{BLOB_SAS}")
}

impl Client {
    /// A request for blobs of the development account.
    pub(crate) fn blob(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Reply> {
        let empty = method == "PUT" && body.is_empty();
        let headers = [headers, if empty { &[("Content-Length", "0")] } else { &[] }].concat();
        self.unsigned(method, &signed(path), &headers, body)
    }

    pub(crate) fn create_container(&mut self, container: &str) {
        let reply = self.blob("PUT", &format!("/{container}?restype=container"), &[], b"").unwrap();
        assert_eq!(reply.status, 201, "{}", reply.text());
    }

    pub(crate) fn put_blob(&mut self, path: &str, body: &[u8]) -> Reply {
        let reply = self.blob("PUT", path, &[BLOCK_BLOB], body).unwrap();
        assert_eq!(reply.status, 201, "{}", reply.text());
        reply
    }

    pub(crate) fn get_blob(&mut self, path: &str) -> Reply {
        self.blob("GET", path, &[], b"").unwrap()
    }
}
