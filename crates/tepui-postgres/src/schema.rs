//! The two tables, and their version.

use crate::connect::Connection;
use crate::outcome::{failure, message};
use std::time::Duration;
use tepui_storage::StorageError;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, SimpleQueryMessage};

/// The version of the schema that this program reads and writes.
const FORMAT: u32 = 1;

/// What [`PostgresEngine::init`](crate::PostgresEngine::init) has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaChange {
    /// There was none.
    Created,
    /// It was of an older version.
    Upgraded { from: u32 },
    /// It was there.
    Unchanged,
}

/// How often it is tried to make the schema while others do the same.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);

const CREATE: [&str; 2] = [
    "CREATE TABLE IF NOT EXISTS tepui_rows (
       p bytea NOT NULL, h bytea NOT NULL, t bytea NOT NULL, v bytea, PRIMARY KEY (p, h)
     )",
    "CREATE TABLE IF NOT EXISTS tepui_meta (name text PRIMARY KEY, value text NOT NULL)",
];

/// Makes the schema, unless it is there. Several may do so at once.
pub(crate) async fn init(client: &Client) -> Result<SchemaChange, StorageError> {
    let mut attempts = 1..=ATTEMPTS;
    loop {
        attempts.next();
        match try_init(client).await {
            Ok(change) => return change,
            // Two that make a table at once: one of them is told that it is there already, in one way or another.
            Err(error) if is_race(&error) && !attempts.is_empty() => tokio::time::sleep(PAUSE).await,
            Err(error) => return Err(failure(error).error),
        }
    }
}

async fn try_init(client: &Client) -> Result<Result<SchemaChange, StorageError>, Error> {
    match format(client).await {
        Ok(Some(found)) if found == FORMAT => return Ok(Ok(SchemaChange::Unchanged)),
        Ok(Some(found)) => return Ok(Err(newer(found))),
        Ok(None) => {}
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => {}
        Err(error) => return Err(error),
    }
    for statement in CREATE {
        client.batch_execute(statement).await?;
    }
    // Last: who finds it finds all of the schema.
    let insert = format!(
        "INSERT INTO tepui_meta (name, value) VALUES ('format', '{FORMAT}') ON CONFLICT (name) DO NOTHING"
    );
    let answer = client.simple_query(&insert).await?;
    let is_ours = answer.iter().any(|message| matches!(message, SimpleQueryMessage::CommandComplete(1)));
    Ok(Ok(if is_ours { SchemaChange::Created } else { SchemaChange::Unchanged }))
}

fn is_race(error: &Error) -> bool {
    const RACES: [SqlState; 6] = [
        SqlState::UNIQUE_VIOLATION,
        SqlState::DUPLICATE_TABLE,
        SqlState::DUPLICATE_OBJECT,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::INTERNAL_ERROR,
    ];
    error.code().is_some_and(|code| RACES.contains(code))
}

/// Refuses a database without the schema, or with another version of it.
pub(crate) async fn check(client: &Client) -> Result<(), StorageError> {
    let missing = || StorageError::failed("the database has no schema for Tepui: run `tepui storage init`");
    match format(client).await {
        Ok(Some(FORMAT)) => Ok(()),
        Ok(Some(found)) if found < FORMAT => {
            let message = format!("the schema of the database has version {found}: run `tepui storage init`");
            Err(StorageError::failed(message))
        }
        Ok(Some(found)) => Err(newer(found)),
        Ok(None) => Err(missing()),
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => Err(missing()),
        Err(error) => Err(failure(error).error),
    }
}

fn newer(found: u32) -> StorageError {
    StorageError::failed(format!(
        "the schema of the database has version {found}, and this program knows version {FORMAT}: take a newer one \
         (`tepui storage init` cannot go back)"
    ))
}

/// The version of the schema. What is no number is newer than any.
async fn format(client: &Client) -> Result<Option<u32>, Error> {
    let answer = client.simple_query("SELECT value FROM tepui_meta WHERE name = 'format'").await?;
    let value = answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    Ok(value.map(|value| value.parse().unwrap_or(u32::MAX)))
}

/// Warns if the server may lose what it has acknowledged.
pub(crate) async fn warn_if_not_durable(connection: &Connection) {
    for setting in ["fsync", "synchronous_commit", "full_page_writes"] {
        let answer = match connection.client.simple_query(&format!("SHOW {setting}")).await {
            Ok(answer) => answer,
            Err(error) => {
                // Other servers than PostgreSQL do not have all of them.
                let why = error.as_db_error().map(message).unwrap_or_default();
                tracing::debug!(setting, why, "a setting of the database cannot be read");
                continue;
            }
        };
        let is_off = answer
            .iter()
            .any(|message| matches!(message, SimpleQueryMessage::Row(row) if row.get(0) == Some("off")));
        if is_off {
            tracing::warn!(setting, "PostgreSQL may lose acknowledged writes in a crash: a setting is off");
        }
    }
}
