//! Writes and reads encrypted entities as lines of JSON, for `conformance/encryption.py`, which exchanges them with an old client:
//! `encryption_exchange CONNECTION_STRING TABLE write-v1|write|read|rotate`.
//!
//! `EXCHANGE_KEYS` has the keys, `id=BASE64` and commas between them; the first one is that of today. Properties whose names begin with
//! `Secret` are encrypted.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value as Json};
use std::error::Error;
use std::io::{Write as _, stdin, stdout};
use tepui_client::patterns::encryption::{AesKey, EncryptedTable, Format, KeyRing, Policy};
use tepui_client::{Account, DynamicEntity, Value};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [connection_string, table, command] = arguments.as_slice() else {
        return Err("usage: encryption_exchange CONNECTION_STRING TABLE write-v1|write|read|rotate".into());
    };
    let table = Account::from_connection_string(connection_string)?.table(table)?;
    let policy = policy(&std::env::var("EXCHANGE_KEYS")?)?;
    match command.as_str() {
        "write" => write(table.encrypted(policy)).await,
        "write-v1" => write(table.encrypted(policy.format(Format::LegacyV1))).await,
        "read" => read(table.encrypted(policy.require())).await,
        "rotate" => {
            let report = table.encrypted(policy).rotate_all(None).await?;
            println!("{}", report.wrapped);
            Ok(())
        }
        _ => Err(format!("there is no such command: {command}").into()),
    }
}

fn policy(keys: &str) -> Result<Policy, Box<dyn Error>> {
    let key = |text: &str| -> Result<AesKey, Box<dyn Error>> {
        let (id, key) = text.split_once('=').ok_or("a key is id=BASE64")?;
        Ok(AesKey::new(id, &STANDARD.decode(key)?)?)
    };
    let first = key(keys.split(',').next().unwrap_or_default())?;
    let mut others = KeyRing::new();
    for text in keys.split(',').skip(1) {
        others = others.with(key(text)?);
    }
    Ok(Policy::new(first).keys(others).encrypt_if(|_, name| name.starts_with("Secret")))
}

/// Texts and whole numbers are enough here.
async fn write(table: EncryptedTable<DynamicEntity>) -> Result<(), Box<dyn Error>> {
    for line in stdin().lines() {
        let json: Map<String, Json> = serde_json::from_str(&line?)?;
        let key = |name: &str| json.get(name).and_then(Json::as_str).unwrap_or_default().to_owned();
        let mut entity = DynamicEntity::new(key("PartitionKey"), key("RowKey"));
        for (name, value) in
            json.iter().filter(|(name, _)| !["PartitionKey", "RowKey"].contains(&name.as_str()))
        {
            match value {
                Json::String(text) => entity.set(name, text.as_str()),
                Json::Number(number) => entity.set(name, i32::try_from(number.as_i64().ok_or("too large")?)?),
                _ => return Err(format!("neither a text nor a number: {name}").into()),
            }
        }
        table.insert(&entity).await?;
    }
    Ok(())
}

async fn read(table: EncryptedTable<DynamicEntity>) -> Result<(), Box<dyn Error>> {
    for entity in table.scan().all().await? {
        let mut json = Map::new();
        json.insert("PartitionKey".to_owned(), entity.key.partition_key.as_str().into());
        json.insert("RowKey".to_owned(), entity.key.row_key.as_str().into());
        for (name, value) in entity.iter() {
            let value = match value {
                Value::String(text) => Json::from(text.as_str()),
                Value::Int32(number) => Json::from(*number),
                other => {
                    return Err(format!("neither a text nor a number: {name}: {:?}", other.edm_type()).into());
                }
            };
            json.insert(name.to_owned(), value);
        }
        writeln!(stdout(), "{}", Json::Object(json))?;
    }
    Ok(())
}
