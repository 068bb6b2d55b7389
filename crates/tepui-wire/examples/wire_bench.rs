//! How many entities a second one core decodes from JSON and writes to it.
//!
//! `cargo run --release -p tepui-wire --example wire_bench`

use std::hint::black_box;
use std::time::{Duration, Instant};
use tepui_model::Timestamp;
use tepui_model::table::{Entity, EntityKey, EntitySink};
use tepui_wire::table::filter_text;
use tepui_wire::table::format::MetadataLevel;
use tepui_wire::table::json::{DecodedEntity, EntityWriter, KeysIn, decode_entity};
use tepui_wire::table::links::TableLinks;
use tepui_wire::table::select::Select;

const LINKS: TableLinks<'_> = TableLinks {
    base: "http://127.0.0.1:10002/devstoreaccount1",
    account: "devstoreaccount1",
    table: "Bench",
};
const PAGE: usize = 1000;

fn main() {
    for size in [300, 1024, 1200] {
        let bodies: Vec<_> = (0..PAGE).map(|index| body(index, size)).collect();
        let bytes = bodies.iter().map(Vec::len).sum();
        measure(&format!("decode, {size} bytes"), PAGE, || {
            for body in &bodies {
                black_box(decode_entity(body, KeysIn::Address).expect("a body that was made here"));
            }
            bytes
        });
        let entities: Vec<_> = bodies.iter().map(|body| stored(body)).collect();
        for (name, level) in [
            ("nometadata", MetadataLevel::None),
            ("minimalmetadata", MetadataLevel::Minimal),
            ("fullmetadata", MetadataLevel::Full),
        ] {
            measure(&format!("write, {size} bytes, {name}"), PAGE, || page(level, "", &entities));
        }
        let select = "PartitionKey,RowKey,Count,Name,Nope";
        measure(&format!("write, {size} bytes, five selected"), PAGE, || {
            page(MetadataLevel::None, select, &entities)
        });
    }
    let text = "PartitionKey eq 'p000001' and RowKey ge 'r000100' and RowKey lt 'r000200' and Count gt 10";
    measure("parse a filter", 1, || {
        black_box(filter_text::parse(text).expect("a filter that is right"));
        text.len()
    });
}

fn page(level: MetadataLevel, select: &str, entities: &[Entity]) -> usize {
    let mut writer = EntityWriter::set(level, &LINKS, Select::parse(select).expect("a list that is right"));
    for entity in entities {
        writer.accept(&entity.view());
    }
    black_box(writer.finish()).len()
}

/// Keys and eight properties, the last of which fills up to the size.
fn body(index: usize, size: usize) -> Vec<u8> {
    let mut text = format!(
        concat!(
            r#"{{"PartitionKey":"p000001","RowKey":"r{0:06}","Name":"name-{0:012}","Count":{1},"#,
            r#""Big@odata.type":"Edm.Int64","Big":"{2}","Flag":{3},"Ratio":{0}.25,"#,
            r#""When@odata.type":"Edm.DateTime","When":"2024-03-{4:02}T10:11:12.5Z","#,
            r#""Id@odata.type":"Edm.Guid","Id":"8c1bac20-4ed1-4f3b-9a0e-{0:012x}","Payload":""#
        ),
        index,
        index % 100,
        index * 1_000_003,
        index.is_multiple_of(2),
        index % 28 + 1,
    );
    let letters = ('a'..='z').chain('A'..='Z').chain('0'..='9').cycle().skip(index % 62);
    text.extend(letters.take(size.saturating_sub(text.len() + 2)));
    text.push_str("\"}");
    text.into_bytes()
}

fn stored(body: &[u8]) -> Entity {
    let DecodedEntity { partition_key, row_key, properties } =
        decode_entity(body, KeysIn::Address).expect("a body that was made here");
    Entity {
        key: EntityKey::new(partition_key.unwrap_or_default(), row_key.unwrap_or_default()),
        timestamp: Timestamp::parse_iso("2026-03-10T08:15:30.1234567Z").expect("a moment"),
        properties,
    }
}

/// Repeats the work for a second, of which the best tenth counts: the machine may be busy.
fn measure(name: &str, count: usize, mut work: impl FnMut() -> usize) {
    let mut times: Vec<Duration> = Vec::new();
    let mut bytes = 0;
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(1) {
        let begun = Instant::now();
        bytes = work();
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    let best = times[times.len() / 10].as_secs_f64();
    let (rate, throughput) = (count as f64 / best, bytes as f64 / best / 1e6);
    println!("{name:<40} {rate:>12.0}/s {throughput:>8.0} MB/s");
}
