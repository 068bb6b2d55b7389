//! Where regions end, as a hint.
//!
//! The client sends a scan to all regions of its range at once, each with the whole limit: a page of a table in a thousand regions
//! would be a thousand requests. It does not tell where regions end, so PD is asked here, and the answer is remembered for
//! a while. If it is outdated, a scan asks two regions, or ends where none does, and that is all.

use parking_lot::Mutex;
use prost::Message;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tonic::client::Grpc;
use tonic::codec::ProstCodec;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

/// How long an answer is good, how many are kept, and how long to wait for one.
const FRESH: Duration = Duration::from_secs(60);
const MAX_REGIONS: usize = 20_000;
const TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) struct Regions {
    /// One for each PD. Connected when it is first used.
    channels: Vec<Channel>,
    cluster: Mutex<Option<u64>>,
    /// By their first keys.
    known: Mutex<BTreeMap<Vec<u8>, Region>>,
}

#[derive(Clone)]
struct Region {
    /// Empty: it has no end.
    end: Vec<u8>,
    since: Instant,
}

impl Region {
    fn contains(&self, key: &[u8]) -> bool {
        self.end.is_empty() || key < &self.end[..]
    }
}

impl Regions {
    pub(crate) fn new(endpoints: &[String]) -> Self {
        let channel = |endpoint: &String| {
            let has_scheme = endpoint.starts_with("http://") || endpoint.starts_with("https://");
            let uri = if has_scheme { endpoint.clone() } else { format!("http://{endpoint}") };
            let endpoint = Endpoint::from_shared(uri).ok()?;
            Some(endpoint.connect_timeout(TIMEOUT).timeout(TIMEOUT).connect_lazy())
        };
        Self {
            channels: endpoints.iter().filter_map(channel).collect(),
            cluster: Mutex::default(),
            known: Mutex::default(),
        }
    }

    /// The end of the region of a key. `None` if it cannot be told, or has none.
    pub(crate) async fn end_of(&self, key: &[u8]) -> Option<Vec<u8>> {
        let known = self.known(key);
        let region = match known {
            Some(region) => region,
            None => self.ask(key).await?,
        };
        (!region.end.is_empty()).then_some(region.end)
    }

    fn known(&self, key: &[u8]) -> Option<Region> {
        let known = self.known.lock();
        let (_, region) = known.range(..=key.to_vec()).next_back()?;
        (region.contains(key) && region.since.elapsed() < FRESH).then(|| region.clone())
    }

    async fn ask(&self, key: &[u8]) -> Option<Region> {
        for channel in &self.channels {
            // The next one may know it.
            let Ok(Ok(Some((start, end)))) = tokio::time::timeout(TIMEOUT, self.ask_one(channel, key)).await
            else {
                continue;
            };
            let region = Region { end, since: Instant::now() };
            let mut known = self.known.lock();
            if known.len() >= MAX_REGIONS {
                known.clear();
            }
            known.insert(start, region.clone());
            return region.contains(key).then_some(region);
        }
        None
    }

    async fn ask_one(&self, channel: &Channel, key: &[u8]) -> Result<Option<(Vec<u8>, Vec<u8>)>, Status> {
        let remembered = *self.cluster.lock();
        let cluster_id = match remembered {
            Some(cluster_id) => cluster_id,
            None => {
                let members: MembersAnswer =
                    call(channel, "/pdpb.PD/GetMembers", MembersQuestion::default()).await?;
                let cluster_id = members.header.unwrap_or_default().cluster_id;
                *self.cluster.lock() = Some(cluster_id);
                cluster_id
            }
        };
        let header = Some(QuestionHeader { cluster_id });
        let question = RegionQuestion { header, key: encode(key) };
        let answer: RegionAnswer = call(channel, "/pdpb.PD/GetRegion", question).await?;
        let Some(region) = answer.region else { return Ok(None) };
        Ok(decode(&region.start).zip(decode(&region.end)))
    }
}

async fn call<Q, A>(channel: &Channel, path: &'static str, question: Q) -> Result<A, Status>
where
    Q: Message + Send + Sync + 'static,
    A: Message + Default + Send + Sync + 'static,
{
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let codec: ProstCodec<Q, A> = ProstCodec::default();
    let answer = grpc.unary(Request::new(question), PathAndQuery::from_static(path), codec).await?;
    Ok(answer.into_inner())
}

/// A key as TiKV and PD have it: groups of 8 bytes, filled up with zeros, and after each 255 less the zeros that it has.
fn encode(key: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity((key.len() / 8 + 1) * 9);
    let (groups, rest) = key.as_chunks::<8>();
    for group in groups {
        encoded.extend_from_slice(group);
        encoded.push(0xFF);
    }
    encoded.extend_from_slice(rest);
    encoded.resize(encoded.len() + 8 - rest.len(), 0);
    // Fewer than 8.
    encoded.push(0xF7 + rest.len() as u8);
    encoded
}

/// `None` if it is not the beginning or end of a region as they should be. Regions without one have an empty key.
fn decode(encoded: &[u8]) -> Option<Vec<u8>> {
    let mut key = Vec::with_capacity(encoded.len());
    let (groups, rest) = encoded.as_chunks::<9>();
    for group in groups {
        let (mark, bytes) = group.split_last()?;
        let zeros = usize::from(0xFF - mark);
        key.extend_from_slice(bytes.get(..8usize.checked_sub(zeros)?)?);
        if zeros > 0 {
            return Some(key);
        }
    }
    rest.is_empty().then_some(key)
}

#[derive(Clone, PartialEq, Message)]
struct QuestionHeader {
    #[prost(uint64, tag = "1")]
    cluster_id: u64,
}

#[derive(Clone, PartialEq, Message)]
struct AnswerHeader {
    #[prost(uint64, tag = "1")]
    cluster_id: u64,
}

#[derive(Clone, PartialEq, Message)]
struct MembersQuestion {
    #[prost(message, optional, tag = "1")]
    header: Option<QuestionHeader>,
}

#[derive(Clone, PartialEq, Message)]
struct MembersAnswer {
    #[prost(message, optional, tag = "1")]
    header: Option<AnswerHeader>,
}

#[derive(Clone, PartialEq, Message)]
struct RegionQuestion {
    #[prost(message, optional, tag = "1")]
    header: Option<QuestionHeader>,
    #[prost(bytes = "vec", tag = "2")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct RegionAnswer {
    #[prost(message, optional, tag = "2")]
    region: Option<RegionRange>,
}

#[derive(Clone, PartialEq, Message)]
struct RegionRange {
    #[prost(bytes = "vec", tag = "2")]
    start: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    end: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_encoded_as_tikv_does() {
        assert_eq!(encode(b""), [0, 0, 0, 0, 0, 0, 0, 0, 0xF7]);
        assert_eq!(encode(b"abc"), [b'a', b'b', b'c', 0, 0, 0, 0, 0, 0xFA]);
        assert_eq!(encode(b"12345678").len(), 18);
        for length in 0..40 {
            let key: Vec<u8> = (0..length).map(|byte: u8| byte.wrapping_mul(77)).collect();
            assert_eq!(decode(&encode(&key)), Some(key));
        }
        assert_eq!(decode(b""), Some(Vec::new()));
        assert_eq!(decode(b"not encoded"), None);
    }

    #[tokio::test]
    async fn a_known_region_is_not_asked_for_until_it_is_old() {
        let regions = Regions::new(&[]);
        assert_eq!(regions.end_of(b"b").await, None, "nobody to ask");
        let region =
            |end: &[u8], age| Region { end: end.to_vec(), since: Instant::now().checked_sub(age).unwrap() };
        regions.known.lock().insert(b"a".to_vec(), region(b"c", Duration::ZERO));
        regions.known.lock().insert(b"d".to_vec(), region(b"", Duration::ZERO));
        assert_eq!(regions.end_of(b"b").await, Some(b"c".to_vec()));
        assert_eq!(regions.end_of(b"c").await, None, "between two");
        assert_eq!(regions.end_of(b"z").await, None, "the last one has no end");
        regions.known.lock().insert(b"a".to_vec(), region(b"c", FRESH));
        assert_eq!(regions.end_of(b"b").await, None);
    }
}
