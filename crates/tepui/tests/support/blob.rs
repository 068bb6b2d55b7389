//! The requests of a blob's client.

use super::http::{Client, Reply};
use super::random::Random;
use std::io;
use std::path::Path;

/// A shared access signature of the development account with every right to blobs, until 2099.
pub(crate) const BLOB_SAS: &str = "sv=2021-12-02&ss=b&srt=sco&sp=rwdxlactfi&se=2099-01-01\
    &sig=GlfZw5V8OiIh6XNBTTqUnFCL%2Foa5Ov50SnsgAOscOW0%3D";

/// The same for an account of another name, and the option that makes a server know both.
pub(crate) const BETA_SAS: &str = "sv=2021-12-02&ss=b&srt=sco&sp=rwdxlactfi&se=2099-01-01\
    &sig=I6wFRC5a1%2BFGgwyb6HY4uXi7rBM1AgQyIu7VfQeObvk%3D";
pub(crate) const TWO_ACCOUNTS: &[&str] = &[
    "--account",
    "devstoreaccount1:Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
    "--account",
    "beta:YmV0YSBvbmUsIHdpdGggdGhpcnR5LXR3byBsZXR0ZXI=",
];

/// What makes a request one for a block blob.
pub(crate) const BLOCK_BLOB: (&str, &str) = ("x-ms-blob-type", "BlockBlob");

/// The target of a request of the development account, with its signature.
pub(crate) fn signed(path: &str) -> String {
    let join = if path.contains('?') { '&' } else { '?' };
    format!("/devstoreaccount1{path}{join}{BLOB_SAS}")
}

/// The target of a request of the account `beta`, with its signature.
pub(crate) fn signed_by_beta(path: &str) -> String {
    let join = if path.contains('?') { '&' } else { '?' };
    format!("/beta{path}{join}{BETA_SAS}")
}

/// Bytes that do not repeat, the same for the same seed.
pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend_from_slice(&random.next().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// How much of the disk the files of a folder take, in bytes: holes in them take nothing.
pub(crate) fn on_disk(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let files = std::fs::read_dir(folder).unwrap();
    files.filter_map(|file| file.unwrap().metadata().ok()).map(|data| data.blocks() * 512).sum()
}

/// What is between the first two tags of a name, if they are there.
pub(crate) fn inside<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let rest = &xml[xml.find(&format!("<{name}>"))? + name.len() + 2..];
    rest.find(&format!("</{name}>")).map(|end| &rest[..end])
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
