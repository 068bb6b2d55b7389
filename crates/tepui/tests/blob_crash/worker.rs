//! A client with blobs of its own, and a model of what must survive.

use super::CONTAINER;
use super::model::{
    Account, Acknowledged, Found, FoundState, INLINE_BYTES, Key, Kind, Part, Sent, Slot, State,
    UNACKNOWLEDGED,
};
use crate::support::blob::{inside, noise, signed, signed_by_beta};
use crate::support::http::{Client, Reply};
use crate::support::random::Random;
use crate::support::{Step, expect_killed};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const NAMES: usize = 3;
const BLOCK_IDS: usize = 6;
const PAGE: usize = 512;
const PAGE_BLOB_BYTES: usize = 2048 * PAGE;

pub(crate) struct Worker {
    name: String,
    random: Random,
    /// What must survive: acknowledged, or found after an earlier restart.
    slots: BTreeMap<Key, Slot>,
    /// The slot after the request in flight, if that is executed.
    in_flight: Option<(Key, Slot)>,
    /// Number of the last request: no two blobs have the same.
    sequence: u64,
    /// What was acknowledged, by kind.
    pub(crate) counts: BTreeMap<&'static str, usize>,
}

/// What became of the request in flight at the kill, if there was one.
pub(crate) struct Recovered {
    pub(crate) interrupted: bool,
    pub(crate) kept: bool,
}

/// A request that changes one slot.
struct Request {
    what: &'static str,
    key: Key,
    method: &'static str,
    query: String,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    status: u16,
    after: Slot,
}

impl Worker {
    pub(crate) fn new(number: usize, seed: u64) -> Self {
        Self {
            name: format!("worker{number}"),
            random: Random::new(seed),
            slots: BTreeMap::new(),
            in_flight: None,
            sequence: 0,
            counts: BTreeMap::new(),
        }
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.slots.values()
    }

    /// Works until the server is killed.
    pub(crate) fn work(&mut self, port: u16, killed: &AtomicBool) {
        let mut client = match Client::connect(port) {
            Ok(client) => client,
            Err(error) => return expect_killed(&error, killed),
        };
        loop {
            match self.step(&mut client) {
                Ok(step) => step.expect_done(),
                Err(error) => return expect_killed(&error, killed),
            }
        }
    }

    /// Makes one random request, if its blob allows one.
    pub(crate) fn step(&mut self, client: &mut Client) -> io::Result<Step> {
        self.sequence += 1;
        let request = match self.random.below(100) {
            0..20 => self.put(),
            20..42 => self.put_block(),
            42..52 => self.commit(),
            52..60 => self.append(),
            60..70 => self.pages(),
            70..80 => self.copy(),
            80..85 => self.snapshot(),
            85..92 => self.delete(),
            92..95 => self.set_metadata(),
            _ => return self.read(client).map(|()| Step::Done),
        };
        let Some(request) = request else { return Ok(Step::Done) };
        self.send(client, request)
    }

    /// To be called when all blobs were deleted by others.
    #[allow(dead_code, reason = "another test needs it")]
    pub(crate) fn forget_all(&mut self) {
        self.slots.clear();
    }

    /// Deletes most of the blobs, and all that have shared bytes which they no longer hold.
    #[allow(dead_code, reason = "another test needs it")]
    pub(crate) fn delete_most(&mut self, client: &mut Client) -> io::Result<Step> {
        let keys: Vec<Key> = self.slots.keys().cloned().collect();
        for key in keys {
            let slot = &self.slots[&key];
            let Some(base) = &slot.base else { continue };
            let has_shared = slot.snapshots.values().chain([base]).any(|state| !state.shared.is_empty());
            if !has_shared && self.random.once_in(4) {
                continue;
            }
            self.sequence += 1;
            match self.send(client, delete_with_snapshots(key))? {
                Step::Done => {}
                other => return Ok(other),
            }
        }
        Ok(Step::Done)
    }

    fn send(&mut self, client: &mut Client, request: Request) -> io::Result<Step> {
        let Request { what, key, method, query, headers, body, status, mut after } = request;
        self.in_flight = Some((key.clone(), after.clone()));
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let reply = ask(client, &key, method, &query, &headers, &body)?;
        if let Some(step) = Step::failed(reply.status, &reply.text()) {
            if matches!(step, Step::Refused(_)) {
                self.in_flight = None;
            }
            return Ok(step);
        }
        assert_eq!(reply.status, status, "{what} of {key:?}: {}", reply.text());
        if let Some(state) = after.snapshots.remove(UNACKNOWLEDGED) {
            after.snapshots.insert(reply.header("x-ms-snapshot").unwrap().to_owned(), state);
        } else if let Some(base) = &mut after.base
            && base.acknowledged.is_none()
        {
            base.acknowledged = Some(acknowledged(&reply));
        }
        self.slots.insert(key, after);
        self.in_flight = None;
        *self.counts.entry(what).or_default() += 1;
        Ok(Step::Done)
    }

    /// One of the names for blobs of a kind: also those that copies are made to.
    fn key(&mut self, kind: Kind) -> Key {
        let letter = letter(kind);
        let number = self.random.below(NAMES);
        match self.random.below(4) {
            0 => self.copy_key(kind),
            _ => (Account::Development, format!("{}/{letter}{number}", self.name)),
        }
    }

    fn copy_key(&mut self, kind: Kind) -> Key {
        let account = [Account::Development, Account::Beta][self.random.below(2)];
        (account, format!("{}/copy-{}{}", self.name, letter(kind), self.random.below(NAMES)))
    }

    fn slot(&self, key: &Key) -> Slot {
        self.slots.get(key).cloned().unwrap_or_default()
    }

    fn note(&self) -> String {
        format!("request{}", self.sequence)
    }

    fn sent(&mut self, length: usize, in_extent: bool) -> Arc<Sent> {
        Arc::new(Sent { bytes: noise(self.random.next(), length), in_extent })
    }

    /// Lengths around what makes a difference: nothing, inline or not, one frame or more.
    fn length(&mut self) -> usize {
        let below = match self.random.below(12) {
            0 => return [0, 1, INLINE_BYTES, INLINE_BYTES + 1][self.random.below(4)],
            1..5 => INLINE_BYTES,
            5..9 => 200_000,
            9 | 10 => 1_000_000,
            _ => 5_000_000,
        };
        self.random.below(below)
    }

    /// Any existing blob.
    fn existing(&mut self) -> Option<Key> {
        let keys: Vec<&Key> =
            self.slots.iter().filter(|(_, slot)| slot.base.is_some()).map(|(key, _)| key).collect();
        let at = self.random.below(keys.len().max(1));
        keys.get(at).map(|key| (*key).clone())
    }

    fn put(&mut self) -> Option<Request> {
        let key = self.key(Kind::Block);
        let length = self.length();
        let sent = self.sent(length, length > INLINE_BYTES);
        let mut after = self.slot(&key);
        let mut base = State::new(Kind::Block, vec![Part::whole(&sent)], self.note());
        base.blocks = Some(Vec::new());
        after.base = Some(base);
        after.blocks.clear();
        let headers = vec![("x-ms-blob-type", "BlockBlob".to_owned()), ("x-ms-meta-note", self.note())];
        Some(Request { headers, body: sent.bytes.clone(), ..Request::new("put", key, after) })
    }

    fn put_block(&mut self) -> Option<Request> {
        let key = self.key(Kind::Block);
        let id = block_id(self.random.below(BLOCK_IDS));
        let source = self.existing().filter(|_| self.random.once_in(4));
        let query = format!("?comp=block&blockid={id}");
        let mut after = self.slot(&key);
        if let Some(source) = source {
            let bytes = self.slots[&source].base.as_ref().map(State::bytes).unwrap_or_default();
            if !bytes.is_empty() {
                let (first, last) = (bytes.len() / 3, bytes.len() - 1);
                // A block of zeros is stored as its length.
                let in_extent = bytes[first..].iter().any(|byte| *byte != 0);
                let sent = Sent { bytes: bytes[first..].to_vec(), in_extent };
                after.blocks.insert(id, Arc::new(sent));
                let range = ("x-ms-source-range", format!("bytes={first}-{last}"));
                let headers = vec![("x-ms-copy-source", url(&source, "")), range];
                return Some(Request { query, headers, ..Request::new("block from URL", key, after) });
            }
        }
        let length = self.length().max(1);
        let sent = self.sent(length, true);
        after.blocks.insert(id, Arc::clone(&sent));
        Some(Request { query, body: sent.bytes.clone(), ..Request::new("block", key, after) })
    }

    /// Commits some uncommitted and some committed blocks, some of them twice.
    fn commit(&mut self) -> Option<Request> {
        let with_blocks = |(_, slot): &(&Key, &Slot)| !slot.blocks.is_empty();
        let keys: Vec<Key> = self.slots.iter().filter(with_blocks).map(|(key, _)| key.clone()).collect();
        let key = keys.get(self.random.below(keys.len().max(1)))?.clone();
        let mut after = self.slot(&key);
        let mut chosen: Vec<(String, Part)> = Vec::new();
        let mut list = String::from("<BlockList>");
        if let Some(State { blocks: Some(ids), parts, .. }) = &after.base {
            for id in ids.iter().filter(|_| self.random.once_in(2)) {
                // The last one of an id is the one that is found by it.
                let last = ids.iter().rposition(|other| other == id).unwrap();
                list += &format!("<Committed>{id}</Committed>");
                chosen.push((id.clone(), parts[last].clone()));
            }
        }
        for (id, sent) in &after.blocks {
            // Mostly once, at times not at all or twice.
            for _ in 0..[0, 1, 1, 1, 1, 1, 1, 2][self.random.below(8)] {
                list += &format!("<Latest>{id}</Latest>");
                chosen.push((id.clone(), Part::whole(sent)));
            }
        }
        list += "</BlockList>";
        let (ids, parts) = chosen.into_iter().unzip();
        let mut base = State::new(Kind::Block, parts, self.note());
        base.blocks = Some(ids);
        after.base = Some(base);
        after.blocks.clear();
        let (query, headers) = ("?comp=blocklist".to_owned(), vec![("x-ms-meta-note", self.note())]);
        Some(Request { query, headers, body: list.into_bytes(), ..Request::new("commit", key, after) })
    }

    fn append(&mut self) -> Option<Request> {
        let key = self.key(Kind::Append);
        let mut after = self.slot(&key);
        let Some(base) = &mut after.base else {
            after.base = Some(State::new(Kind::Append, Vec::new(), self.note()));
            let headers = vec![("x-ms-blob-type", "AppendBlob".to_owned()), ("x-ms-meta-note", self.note())];
            return Some(Request { headers, ..Request::new("create", key, after) });
        };
        let length = self.length().clamp(1, 4_000_000);
        let sent = self.sent(length, length > INLINE_BYTES);
        base.parts.push(Part::whole(&sent));
        base.acknowledged = None;
        let query = "?comp=appendblock".to_owned();
        Some(Request { query, body: sent.bytes.clone(), ..Request::new("append", key, after) })
    }

    fn pages(&mut self) -> Option<Request> {
        let key = self.key(Kind::Page);
        let mut after = self.slot(&key);
        let Some(base) = &mut after.base else {
            after.base = Some(State::new(Kind::Page, vec![Part::zeros(PAGE_BLOB_BYTES)], self.note()));
            let headers = vec![
                ("x-ms-blob-type", "PageBlob".to_owned()),
                ("x-ms-blob-content-length", PAGE_BLOB_BYTES.to_string()),
                ("x-ms-meta-note", self.note()),
            ];
            return Some(Request { headers, ..Request::new("create", key, after) });
        };
        let first = self.random.below(PAGE_BLOB_BYTES / PAGE);
        let most = (PAGE_BLOB_BYTES / PAGE - first).min([8, 64, 600][self.random.below(3)]);
        let (start, length) = (first * PAGE, (1 + self.random.below(most)) * PAGE);
        let clears = self.random.once_in(5);
        let mut body = Vec::new();
        if clears {
            base.overwrite(start, Part::zeros(length));
        } else {
            let sent = self.sent(length, length > INLINE_BYTES);
            base.overwrite(start, Part::whole(&sent));
            body.clone_from(&sent.bytes);
        }
        base.acknowledged = None;
        let headers = vec![
            ("x-ms-page-write", if clears { "clear" } else { "update" }.to_owned()),
            ("x-ms-range", format!("bytes={start}-{}", start + length - 1)),
        ];
        let query = "?comp=page".to_owned();
        Some(Request { query, headers, body, ..Request::new("pages", key, after) })
    }

    /// Copies a blob or a snapshot, within the account or into another.
    fn copy(&mut self) -> Option<Request> {
        let source = self.existing()?;
        let kind = self.slots[&source].base.as_ref()?.kind;
        let key = self.copy_key(kind);
        let slot = self.slots.get_mut(&source)?;
        let snapshot_ids: Vec<String> = slot.snapshots.keys().cloned().collect();
        let snapshot_id = snapshot_ids.get(self.random.below(snapshot_ids.len() + 1));
        let state = match snapshot_id {
            Some(snapshot_id) => slot.snapshots.get_mut(snapshot_id)?,
            None => slot.base.as_mut()?,
        };
        let mut copy = state.share();
        (copy.acknowledged, copy.blocks) = (None, None);
        if source == key {
            return None;
        }
        let mut after = self.slot(&key);
        after.base = Some(copy);
        after.blocks.clear();
        let query = snapshot_id.map(|snapshot_id| format!("?snapshot={snapshot_id}")).unwrap_or_default();
        let mut headers = vec![("x-ms-copy-source", url(&source, &query))];
        let (what, status) = match (kind, self.random.below(3)) {
            (Kind::Block, 0) => {
                headers.push(("x-ms-blob-type", "BlockBlob".to_owned()));
                ("put from URL", 201)
            }
            (Kind::Block, 1) => {
                headers.push(("x-ms-requires-sync", "true".to_owned()));
                ("copy", 202)
            }
            _ => ("copy", 202),
        };
        Some(Request { headers, status, ..Request::new(what, key, after) })
    }

    fn snapshot(&mut self) -> Option<Request> {
        let key = self.existing()?;
        let taken = self.slots.get_mut(&key)?.base.as_mut()?.share();
        let mut after = self.slot(&key);
        after.snapshots.insert(UNACKNOWLEDGED.to_owned(), taken);
        let query = "?comp=snapshot".to_owned();
        Some(Request { query, ..Request::new("snapshot", key, after) })
    }

    /// Deletes a snapshot, or a blob with all of its snapshots.
    fn delete(&mut self) -> Option<Request> {
        let key = self.existing()?;
        let mut after = self.slot(&key);
        if let Some((snapshot_id, _)) = after.snapshots.pop_first().filter(|_| self.random.once_in(2)) {
            let query = format!("?snapshot={snapshot_id}");
            return Some(Request {
                query,
                method: "DELETE",
                status: 202,
                ..Request::new("delete", key, after)
            });
        }
        Some(delete_with_snapshots(key))
    }

    fn set_metadata(&mut self) -> Option<Request> {
        let key = self.existing()?;
        let mut after = self.slot(&key);
        let base = after.base.as_mut()?;
        (base.note, base.acknowledged) = (self.note(), None);
        let (query, headers) = ("?comp=metadata".to_owned(), vec![("x-ms-meta-note", self.note())]);
        Some(Request { query, headers, status: 200, ..Request::new("metadata", key, after) })
    }

    fn read(&mut self, client: &mut Client) -> io::Result<()> {
        let Some(key) = self.existing() else { return Ok(()) };
        let reply = ask(client, &key, "GET", "", &[], b"")?;
        let state = self.slots[&key].base.as_ref().unwrap();
        assert!(reply.status == 200 && reply.body == state.bytes(), "reading {key:?}: {}", reply.status);
        *self.counts.entry("read").or_default() += 1;
        Ok(())
    }

    /// Compares the blobs after a restart with the model, which then takes them over.
    pub(crate) fn verify(&mut self, port: u16) -> Result<Recovered, String> {
        let mut client = Client::connect(port).unwrap();
        let in_flight = self.in_flight.take();
        let mut keys: BTreeSet<Key> = self.slots.keys().cloned().collect();
        keys.extend(in_flight.iter().map(|(key, _)| key.clone()));
        let (listed, mut kept) = (self.list(&mut client), false);
        keys.extend(listed.keys().cloned());
        for key in keys {
            let found = find(&mut client, &key, listed.get(&key));
            let before = self.slot(&key).compare(&found);
            let after = in_flight.as_ref().filter(|(changed, _)| *changed == key);
            let verified = match (before, after) {
                (Ok(slot), _) => slot,
                (Err(error), None) => return Err(format!("{key:?}: {error}")),
                (Err(before), Some((_, after))) => {
                    kept = true;
                    after.compare(&found).map_err(|after| {
                        format!(
                            "{key:?}: not what was acknowledged ({before}), nor with the request in flight ({after})"
                        )
                    })?
                }
            };
            self.slots.insert(key, verified);
        }
        Ok(Recovered { interrupted: in_flight.is_some(), kept })
    }

    /// This client's blobs in a list: ETags and times of snapshots.
    fn list(&self, client: &mut Client) -> BTreeMap<Key, Vec<(Option<String>, String)>> {
        let mut all: BTreeMap<Key, Vec<_>> = BTreeMap::new();
        for account in [Account::Development, Account::Beta] {
            let path = format!(
                "/{CONTAINER}?restype=container&comp=list&prefix={}/&include=snapshots,uncommittedblobs",
                self.name
            );
            let target = target(account, &path);
            let reply = client.unsigned("GET", &target, &[], b"").unwrap();
            assert_eq!(reply.status, 200, "{}", reply.text());
            let text = reply.text();
            assert!(inside(&text, "NextMarker").is_none_or(str::is_empty));
            for blob in text.split("<Blob>").skip(1) {
                let name = inside(blob, "Name").unwrap().to_owned();
                let etag = inside(blob, "Etag").unwrap_or_default().to_owned();
                let snapshot_id = inside(blob, "Snapshot").map(str::to_owned);
                all.entry((account, name)).or_default().push((snapshot_id, etag));
            }
        }
        all
    }
}

impl Request {
    fn new(what: &'static str, key: Key, after: Slot) -> Self {
        let (query, headers, body) = (String::new(), Vec::new(), Vec::new());
        Self { what, key, method: "PUT", query, headers, body, status: 201, after }
    }
}

fn delete_with_snapshots(key: Key) -> Request {
    let headers = vec![("x-ms-delete-snapshots", "include".to_owned())];
    Request { headers, method: "DELETE", status: 202, ..Request::new("delete", key, Slot::default()) }
}

fn letter(kind: Kind) -> char {
    match kind {
        Kind::Block => 'b',
        Kind::Append => 'a',
        Kind::Page => 'p',
    }
}

fn block_id(number: usize) -> String {
    format!("AAA{number}")
}

fn target(account: Account, path: &str) -> String {
    match account {
        Account::Development => signed(path),
        Account::Beta => signed_by_beta(path),
    }
}

/// The URL of a copy source.
fn url(key: &Key, query: &str) -> String {
    format!("http://127.0.0.1{}", target(key.0, &format!("/{CONTAINER}/{}{query}", key.1)))
}

fn ask(
    client: &mut Client,
    key: &Key,
    method: &str,
    query: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<Reply> {
    let none: &[(&str, &str)] =
        if body.is_empty() && method == "PUT" { &[("Content-Length", "0")] } else { &[] };
    let target = target(key.0, &format!("/{CONTAINER}/{}{query}", key.1));
    client.unsigned(method, &target, &[headers, none].concat(), body)
}

fn acknowledged(reply: &Reply) -> Acknowledged {
    Acknowledged { etag: reply.etag(), last_modified: reply.header("last-modified").unwrap().to_owned() }
}

/// The blob and all snapshots of a name.
fn find(client: &mut Client, key: &Key, listed: Option<&Vec<(Option<String>, String)>>) -> Found {
    let mut found = Found { base: get(client, key, ""), ..Found::default() };
    for (snapshot_id, etag) in listed.into_iter().flatten() {
        match snapshot_id {
            Some(snapshot_id) => {
                let state = get(client, key, &format!("?snapshot={snapshot_id}"));
                found.snapshots.insert(
                    snapshot_id.clone(),
                    state.unwrap_or_else(|| panic!("listed: {key:?} {snapshot_id}")),
                );
            }
            None => {
                let known = found.base.as_ref().map(|base| base.acknowledged.etag.trim_matches('"'));
                assert_eq!(
                    known.unwrap_or_default(),
                    etag.trim_matches('"'),
                    "{key:?}: a list says another ETag"
                );
            }
        }
    }
    let is_listed = listed.into_iter().flatten().any(|(snapshot_id, _)| snapshot_id.is_none());
    assert!(is_listed || found.base.is_none(), "not listed: {key:?}");
    if key.1.contains("/b") || key.1.contains("/copy-b") {
        let reply = ask(client, key, "GET", "?comp=blocklist&blocklisttype=uncommitted", &[], b"").unwrap();
        assert!([200, 404].contains(&reply.status), "{}", reply.text());
        found.blocks = blocks(&reply.text()).into_iter().collect();
    }
    found
}

fn get(client: &mut Client, key: &Key, query: &str) -> Option<FoundState> {
    let reply = ask(client, key, "GET", query, &[], b"").unwrap();
    if reply.status == 404 {
        return None;
    }
    assert_eq!(reply.status, 200, "{key:?} {query}: {}", reply.text());
    let kind = match reply.header("x-ms-blob-type").unwrap() {
        "BlockBlob" => Kind::Block,
        "AppendBlob" => Kind::Append,
        _ => Kind::Page,
    };
    let mut committed = Vec::new();
    if kind == Kind::Block {
        let join = if query.is_empty() { '?' } else { '&' };
        let list = format!("{query}{join}comp=blocklist&blocklisttype=committed");
        committed = blocks(&ask(client, key, "GET", &list, &[], b"").unwrap().text());
    }
    Some(FoundState {
        kind,
        note: reply.header("x-ms-meta-note").unwrap_or_default().to_owned(),
        acknowledged: acknowledged(&reply),
        blocks: committed,
        bytes: reply.body,
    })
}

/// The blocks of a list, with their lengths.
fn blocks(xml: &str) -> Vec<(String, usize)> {
    let block = |part: &str| {
        (inside(part, "Name").unwrap().to_owned(), inside(part, "Size").unwrap().parse().unwrap())
    };
    xml.split("<Block>").skip(1).map(block).collect()
}
