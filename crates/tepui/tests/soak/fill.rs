//! A tenant who writes through the API until the disk is full, and then deletes.

use crate::disk::mib;
use crate::support::blob::{BLOCK_BLOB, noise};
use crate::support::http::{Client, Reply};
use crate::support::table::{Applied, Change, properties};
use crate::support::{Server, Step, wait_until};
use serde_json::json;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How the server says that its disk is full.
const NO_SPACE: &str = "The disk of the server is full.";

/// How large blobs are: smaller ones once larger ones do not fit any more.
const BLOB_BYTES: [usize; 4] = [mib(12) as usize, mib(1) as usize, 100_000, 9_000];
const ENTITIES: usize = 50;
const ENTITY_TEXT_BYTES: usize = 12_000;
const MESSAGE_BYTES: usize = 30_000;

pub(crate) fn is_no_space(text: &str) -> bool {
    text.contains(NO_SPACE)
}

/// Everything has names of its own, for those of what was deleted can not be used again at once.
pub(crate) struct Fill {
    parts: [Part; 3],
}

#[derive(Clone, Copy, PartialEq)]
enum Service {
    Blob,
    Table,
    Queue,
}

/// What was written to one service.
struct Part {
    service: Service,
    /// The name of the container, table or queue.
    name: String,
    seed: u64,
    items: Vec<Item>,
    under_way: Option<Item>,
    is_refused: bool,
}

/// A blob, a batch of entities, or a message.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Item {
    number: usize,
    length: usize,
}

impl Fill {
    pub(crate) fn new(number: usize, seed: u64, server: &Server) -> Self {
        let name = format!("fill{number}");
        server.client().create_table(&name);
        server.blobs().create_container(&name);
        queues(server).create_queue(&name);
        let part = |service| {
            let name = name.clone();
            Part { service, name, seed, items: Vec::new(), under_way: None, is_refused: false }
        };
        Self { parts: [part(Service::Blob), part(Service::Table), part(Service::Queue)] }
    }

    /// Writes until every service says that the disk is full, or the server is killed.
    pub(crate) fn go_on(&mut self, table_port: u16, queue_port: u16, blob_port: u16, killed: &AtomicBool) {
        std::thread::scope(|scope| {
            for part in &mut self.parts {
                let port = match part.service {
                    Service::Blob => blob_port,
                    Service::Table => table_port,
                    Service::Queue => queue_port,
                };
                scope.spawn(move || part.go_on(port, killed));
            }
        });
    }

    pub(crate) fn is_refused(&self) -> bool {
        self.parts.iter().all(|part| part.is_refused)
    }

    /// After a restart: resolves requests of unknown outcome, which were executed or not.
    pub(crate) fn resolve_in_flight(&mut self, server: &Server) {
        for part in &mut self.parts {
            if let Some(item) = part.under_way.take() {
                let is_there = match part.service {
                    Service::Queue => {
                        let count = queues(server).count_messages(&part.name).unwrap() as usize;
                        assert!(
                            [part.items.len(), part.items.len() + 1].contains(&count),
                            "{count} messages"
                        );
                        count > part.items.len()
                    }
                    _ => part.is_there(item, server),
                };
                if is_there {
                    part.items.push(item);
                }
            }
        }
    }

    /// Reads everything back.
    pub(crate) fn verify(&self, server: &Server) {
        for part in &self.parts {
            match part.service {
                Service::Queue => {
                    let count = queues(server).count_messages(&part.name).unwrap() as usize;
                    assert_eq!(count, part.items.len(), "messages on a full disk");
                }
                _ => part.items.iter().for_each(|item| {
                    assert!(part.is_there(*item, server), "it is gone: {item:?} of {}", part.name);
                }),
            }
        }
    }

    /// Every service refuses to write, and says why.
    pub(crate) fn expect_refusals(&self, server: &Server) {
        for part in &self.parts {
            // What is small is in rows; what is not is refused before there is a row.
            for length in [1, 100_000].into_iter().take(if part.service == Service::Blob { 2 } else { 1 }) {
                part.expect_refusal(server, Item { number: usize::MAX, length });
            }
        }
    }

    /// Deletes half of it piece by piece, which works on a full disk.
    pub(crate) fn delete_some(&mut self, server: &Server) {
        for part in &mut self.parts {
            let gone = part.items.split_off(part.items.len() / 2);
            match part.service {
                Service::Queue => {
                    part.take_messages(server, gone.len());
                }
                _ => gone.iter().for_each(|item| part.delete(*item, server)),
            }
            for item in gone.iter().filter(|_| part.service != Service::Queue) {
                assert!(!part.is_there(*item, server), "it is back: {item:?}");
            }
        }
    }

    /// Deletes the container, the table and the queue.
    pub(crate) fn delete_all(&mut self, server: &Server) {
        for part in &mut self.parts {
            let mut last = None;
            wait_until(&format!("{} can be deleted", part.name), || {
                let mut client = part.connect(server);
                let reply = match part.service {
                    Service::Blob => {
                        client.blob("DELETE", &format!("/{}?restype=container", part.name), &[], b"")
                    }
                    Service::Table => {
                        client.request("DELETE", &format!("/Tables('{}')", part.name), &[], b"")
                    }
                    Service::Queue => client.request("DELETE", &format!("/{}", part.name), &[], b""),
                }
                .unwrap();
                if reply.status < 300 {
                    return true;
                }
                assert!(reply.status == 503 && is_no_space(&reply.text()), "{}", reply.text());
                last = Some(reply);
                false
            });
            part.items.clear();
        }
    }
}

impl Part {
    fn connect(&self, server: &Server) -> Client {
        match self.service {
            Service::Blob => server.blobs(),
            Service::Table => server.client(),
            Service::Queue => queues(server),
        }
    }

    /// Waits until the server has seen that the disk is full, and says so.
    fn expect_refusal(&self, server: &Server, item: Item) {
        let mut last = None;
        wait_until(&format!("{} refuses {item:?}", self.name), || {
            let outcome = self.write(&mut self.connect(server), item);
            let is_refused = matches!(&outcome, Ok(Step::Refused(text)) if is_no_space(text));
            last = Some(outcome);
            is_refused || !matches!(last, Some(Ok(Step::Done)))
        });
        let is_refused = matches!(&last, Some(Ok(Step::Refused(text))) if is_no_space(text));
        assert!(is_refused, "{} does not say that the disk is full: {item:?}: {last:?}", self.name);
    }

    fn go_on(&mut self, port: u16, killed: &AtomicBool) {
        let (mut size, mut connection) = (0, None);
        self.is_refused = false;
        while !killed.load(Ordering::SeqCst) && !self.is_refused {
            let length = match self.service {
                Service::Blob => BLOB_BYTES[size],
                Service::Table => ENTITY_TEXT_BYTES,
                Service::Queue => MESSAGE_BYTES,
            };
            let item = Item { number: self.items.len(), length };
            self.under_way = Some(item);
            let outcome = match &mut connection {
                Some(client) => self.write(client, item),
                None => Client::connect(port).and_then(|client| self.write(connection.insert(client), item)),
            };
            match outcome {
                Ok(Step::Done) => {
                    self.items.push(item);
                    self.under_way = None;
                }
                Ok(Step::Refused(text)) => {
                    self.under_way = None;
                    connection = None;
                    match is_no_space(&text) {
                        true if self.service == Service::Blob && size + 1 < BLOB_BYTES.len() => size += 1,
                        true => self.is_refused = true,
                        false => std::thread::sleep(Duration::from_millis(50)),
                    }
                }
                // What became of it is found after the next start.
                Ok(Step::Unknown(text)) => {
                    println!("soak: while the disk gets full: {text}");
                    self.is_refused = true;
                }
                Err(error) => {
                    assert_ne!(error.kind(), io::ErrorKind::InvalidData, "{error}");
                    if !killed.load(Ordering::SeqCst) {
                        println!("soak: while the disk gets full: {}: {error}", self.name);
                        self.is_refused = true;
                    }
                    return;
                }
            }
        }
    }

    fn bytes(&self, item: Item) -> Vec<u8> {
        noise(self.seed ^ (item.number as u64).wrapping_mul(0x9E37_79B9), item.length)
    }

    fn text(&self, item: Item) -> String {
        self.bytes(item).into_iter().map(|byte| char::from(b'a' + byte % 26)).collect()
    }

    fn write(&self, client: &mut Client, item: Item) -> io::Result<Step> {
        let done = |reply: &Reply| {
            Step::failed(reply.status, &reply.text()).unwrap_or_else(|| {
                assert_eq!(reply.status, 201, "{}", reply.text());
                Step::Done
            })
        };
        match self.service {
            Service::Blob => {
                let path = format!("/{}/{}", self.name, item.number);
                Ok(done(&client.blob("PUT", &path, &[BLOCK_BLOB], &self.bytes(item))?))
            }
            Service::Queue => {
                let text = format!("{} {}", item.number, self.text(item));
                Ok(done(&client.put_message(&self.name, &text)?))
            }
            Service::Table => {
                let text = self.text(item);
                let change = |number: usize| {
                    let entity = properties(json!({"Number": number, "Text": text}));
                    Change::new("POST", format!("{number:03}"), entity)
                };
                let changes: Vec<Change> = (0..ENTITIES).map(change).collect();
                match client.batch(&self.name, &item.number.to_string(), &changes)? {
                    Applied::All(_) => Ok(Step::Done),
                    Applied::Failed(status, text) => Ok(Step::failed(status, &text).unwrap()),
                    Applied::Refused(status) => panic!("{status}"),
                }
            }
        }
    }

    /// Whether it is there; if so, it is as it was sent.
    fn is_there(&self, item: Item, server: &Server) -> bool {
        match self.service {
            Service::Blob => {
                let reply = server.blobs().get_blob(&format!("/{}/{}", self.name, item.number));
                let is_same = reply.status == 200 && reply.body == self.bytes(item);
                assert!(reply.status == 404 || is_same, "{item:?} of {}: {}", self.name, reply.status);
                is_same
            }
            Service::Table => {
                let filter = format!("$filter=PartitionKey%20eq%20'{}'", item.number);
                let found = server.client().query(&self.name, &filter).unwrap();
                let text = self.text(item);
                assert!([0, ENTITIES].contains(&found.len()), "a part of a batch: {}", found.len());
                for (number, entity) in found.iter().enumerate() {
                    assert!(entity["Number"] == number && entity["Text"] == text, "{item:?}: {number}");
                }
                !found.is_empty()
            }
            Service::Queue => panic!("messages are not looked for"),
        }
    }

    fn delete(&self, item: Item, server: &Server) {
        match self.service {
            Service::Blob => {
                let reply =
                    server.blobs().blob("DELETE", &format!("/{}/{}", self.name, item.number), &[], b"");
                let reply = reply.unwrap();
                assert_eq!(reply.status, 202, "{}", reply.text());
            }
            Service::Table => {
                let change = |number: usize| {
                    Change::new("DELETE", format!("{number:03}"), properties(json!({}))).if_match("*")
                };
                let changes: Vec<Change> = (0..ENTITIES).map(change).collect();
                let applied = server.client().batch(&self.name, &item.number.to_string(), &changes);
                assert!(matches!(applied, Ok(Applied::All(_))), "{applied:?}");
            }
            Service::Queue => panic!("messages are not deleted by their numbers"),
        }
    }

    /// Takes and deletes so many messages, and looks at each of them.
    fn take_messages(&self, server: &Server, mut count: usize) {
        let mut client = queues(server);
        while count > 0 {
            let taken = client.get_messages(&self.name, count.min(32), 3600).unwrap();
            assert!(!taken.is_empty(), "messages are missing: {count}");
            for message in &taken {
                let (number, text) = message.text.split_once(' ').unwrap();
                let item = Item { number: number.parse().unwrap(), length: MESSAGE_BYTES };
                assert_eq!(text, self.text(item), "another text of message {number}");
                let reply = client.delete_message(&self.name, message).unwrap();
                assert_eq!(reply.status, 204, "{}", reply.text());
            }
            count -= taken.len();
        }
    }
}

/// Waits until everything can be written again.
pub(crate) fn expect_space(server: &Server) {
    wait_until("blobs can be written again", || {
        let reply =
            server.blobs().blob("PUT", &format!("/{}/space", crate::CONTAINER), &[BLOCK_BLOB], &[1; 50_000]);
        reply.is_ok_and(|reply| reply.status == 201)
    });
    let reply = server.blobs().blob("DELETE", &format!("/{}/space", crate::CONTAINER), &[], b"").unwrap();
    assert_eq!(reply.status, 202, "{}", reply.text());
}

fn queues(server: &Server) -> Client {
    Client::connect(server.queue_port).unwrap()
}
