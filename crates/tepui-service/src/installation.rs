//! The number of an installation: of the rows of one engine, whoever serves them.
//!
//! What is stored elsewhere and referred to by rows, such as objects in a bucket, says whose it is, so that no other
//! installation takes it for garbage.

use crate::keyspace;
use crate::record::{decode_number, encode_number};
use crate::transact::{Attempt, Outcome, SpaceUse, commit, retry, storage_error};
use tepui_model::ServiceError;
use tepui_storage::{Engine, Snapshot, Write};

/// The number of the installation, which is `random` if it has none yet.
pub async fn installation_number<E: Engine>(engine: &E, random: u64) -> Result<u64, ServiceError> {
    retry(|()| async move {
        let transaction = engine.begin().await.map_err(storage_error)?;
        let key = keyspace::installation();
        if let Some(row) = transaction.get(&key).await.map_err(storage_error)? {
            return Ok(Attempt::Done(decode_number(&row)?));
        }
        let writes = vec![Write::Put(key, encode_number(random))];
        let outcome = Outcome { reply: random, guards: Vec::new(), writes };
        commit(engine, transaction, outcome, SpaceUse::Consumes).await.map_err(ServiceError::from)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use tepui_storage::MemoryEngine;

    #[tokio::test]
    async fn the_first_number_stays() {
        let engine = MemoryEngine::new();
        assert_eq!(installation_number(&engine, 17).await, Ok(17));
        assert_eq!(installation_number(&engine, 18).await, Ok(17));
    }
}
