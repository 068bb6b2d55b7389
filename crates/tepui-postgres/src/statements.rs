//! All SQL that is run again and again, prepared once for each connection.

use tokio_postgres::{Client, Error, Statement};

/// What is said to a new connection. Servers that do not know a setting refuse it, which is ignored.
///
/// There is one table and one good way to it: its primary key. The planner would take another one when it knows nothing about
/// a table, or that it had been small, so the others are made expensive; plans are then the same for all parameters.
///
/// The server must not end statements by itself: with a synchronous standby, a COMMIT that is cancelled while it waits for that
/// is reported as a success, though the standby may not have it. Waiting for locks is ended: by `lock_timeout`, see `connect.rs`.
///
/// The last one is about settings that PostgreSQL does not have. It asks which there are, so that nothing is refused, which the
/// server would log for each connection. YugabyteDB would keep rows by the hash of their first column, and scans would read all of them.
/// CockroachDB refuses statements that change a table twice, because the same row could be changed twice; [`PUT`] changes rows that
/// are there, and makes others.
pub(crate) const SETTINGS: [&str; 10] = [
    "SET statement_timeout = 0",
    "SET plan_cache_mode = force_generic_plan",
    "SET enable_seqscan = off",
    "SET enable_bitmapscan = off",
    "SET enable_hashjoin = off",
    "SET enable_mergejoin = off",
    // Only whole sorts: what the index has sorted by its first column is sorted on in small groups.
    "SET enable_sort = off",
    "SET jit = off",
    "SET client_min_messages = warning",
    "SELECT set_config(name, CASE name WHEN 'yb_use_hash_splitting_by_default' THEN 'off' ELSE 'on' END, false) \
     FROM pg_settings WHERE name IN ('yb_use_hash_splitting_by_default', 'enable_multiple_modifications_of_table')",
];

pub(crate) const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ";

/// Values by number. A row without a value is only there to be locked.
pub(crate) const GET: &str = "\
SELECT k.n, r.v
FROM unnest($1::bytea[], $2::bytea[]) WITH ORDINALITY AS k(p, h, n)
JOIN tepui_rows AS r ON r.p = k.p AND r.h = k.h
WHERE r.v IS NOT NULL";

/// The rows from ($1, $2) up to ($3, $4), $5 of them, as long as they have $6 bytes together, but at least one. One row more
/// without its value says where to continue.
pub(crate) const SCAN: &str = "\
SELECT p, t, CASE WHEN n < $5 AND (bytes <= $6 OR n = 1) THEN v END
FROM (
  SELECT p, t, v, octet_length(p) + octet_length(t) + octet_length(v) AS own,
    (sum(octet_length(p) + octet_length(t) + octet_length(v)) OVER w)::bigint AS bytes, row_number() OVER w AS n
  FROM (
    SELECT p, t, v FROM tepui_rows
    WHERE p >= $1 AND p <= $3 AND (p, t) >= ($1, $2) AND (p, t) < ($3, $4) AND v IS NOT NULL
    ORDER BY p, t LIMIT $5
  ) AS first
  WINDOW w AS (ORDER BY p, t ROWS UNBOUNDED PRECEDING)
) AS page
WHERE bytes - own <= $6 OR n <= 2
ORDER BY p, t";

/// Locks rows for guards that are shared. That they are counted makes the server lock them all, and first. A row that is not there is made, without a value, to be locked by others.
pub(crate) const SHARE: &str = "\
WITH k AS (
  SELECT p, h, t, n FROM unnest($1::bytea[], $2::bytea[], $3::bytea[]) WITH ORDINALITY AS k(p, h, t, n)
), found AS MATERIALIZED (
  SELECT r.p, r.h FROM k JOIN tepui_rows AS r ON r.p = k.p AND r.h = k.h ORDER BY k.n FOR SHARE OF r
)
INSERT INTO tepui_rows (p, h, t)
SELECT p, h, t FROM k WHERE (SELECT count(*) FROM found) >= 0 AND (p, h) NOT IN (SELECT p, h FROM found)
ON CONFLICT (p, h) DO NOTHING";

/// Locks rows that are to be changed, or must not be. If $4, a row that is not there is made, marked by its `t`: this fails if
/// somebody else has made it.
pub(crate) const LOCK: &str = "\
WITH k AS (
  SELECT p, h, t, m, n
  FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bool[]) WITH ORDINALITY AS k(p, h, t, m, n)
), found AS MATERIALIZED (
  SELECT r.p, r.h FROM k JOIN tepui_rows AS r ON r.p = k.p AND r.h = k.h ORDER BY k.n FOR UPDATE OF r
)
INSERT INTO tepui_rows (p, h, t)
SELECT p, h, t FROM k WHERE (SELECT count(*) FROM found) >= 0 AND m AND (p, h) NOT IN (SELECT p, h FROM found)
ON CONFLICT (p, h) DO NOTHING";

/// Changes rows, and makes those that are not there. Both fail if somebody else has done the same since the state of the
/// transaction. It is not `ON CONFLICT DO UPDATE`, which would make a row again that somebody else has deleted.
pub(crate) const PUT: &str = "\
WITH k AS (
  SELECT p, h, t, v FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bytea[]) AS k(p, h, t, v)
), found AS (
  UPDATE tepui_rows AS r SET t = k.t, v = k.v FROM k WHERE r.p = k.p AND r.h = k.h RETURNING r.p, r.h
)
INSERT INTO tepui_rows (p, h, t, v)
SELECT p, h, t, v FROM k WHERE (p, h) NOT IN (SELECT p, h FROM found)
ON CONFLICT (p, h) DO NOTHING";

/// Deletes rows, or only those that [`LOCK`] has made, if $4.
pub(crate) const DELETE: &str = "\
DELETE FROM tepui_rows AS r
USING unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bool[]) AS k(p, h, t, m)
WHERE r.p = k.p AND r.h = k.h AND (NOT k.m OR (r.v IS NULL AND r.t = k.t))";

/// Deletes some rows from ($1, $2) up to ($3, $4).
pub(crate) const RECLAIM: &str = "\
DELETE FROM tepui_rows
WHERE (p, h) IN (
  SELECT p, h FROM tepui_rows
  WHERE p >= $1 AND p <= $3 AND (p, t) >= ($1, $2) AND (p, t) < ($3, $4)
  ORDER BY p LIMIT $5
)
RETURNING p";

/// The statements of one connection.
pub(crate) struct Statements {
    pub(crate) get: Statement,
    pub(crate) scan: Statement,
    pub(crate) share: Statement,
    pub(crate) lock: Statement,
    pub(crate) put: Statement,
    pub(crate) delete: Statement,
    pub(crate) reclaim: Statement,
}

impl Statements {
    pub(crate) async fn prepare(client: &Client) -> Result<Self, Error> {
        let (get, scan, share, lock, put, delete, reclaim) = tokio::try_join!(
            client.prepare(GET),
            client.prepare(SCAN),
            client.prepare(SHARE),
            client.prepare(LOCK),
            client.prepare(PUT),
            client.prepare(DELETE),
            client.prepare(RECLAIM),
        )?;
        Ok(Self { get, scan, share, lock, put, delete, reclaim })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PostgresOptions;
    use crate::connect::Connector;
    use crate::options::Endpoints;
    use std::time::Duration;
    use tepui_postgres_testing::{PostgresServer, is_skipped};
    use tokio_postgres::SimpleQueryMessage;

    /// What PostgreSQL does for a statement, with the settings of our connections. `ANALYZE` runs it, too.
    async fn plan(client: &Client, sql: &str, types: &str, values: &str) -> String {
        client
            .batch_execute(&format!("BEGIN; PREPARE planned ({types}) AS {sql}"))
            .await
            .expect("it can be prepared");
        let explain = format!("EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF) EXECUTE planned ({values})");
        let answer = client.simple_query(&explain).await.expect("it runs");
        client.batch_execute("ROLLBACK; DEALLOCATE planned").await.expect("it is not needed any more");
        let lines = answer.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// How many rows the index was read for, and that nothing else was.
    fn rows_read(plan: &str) -> u64 {
        assert!(!plan.contains("Seq Scan") && !plan.contains("Bitmap"), "{plan}");
        let index: Vec<&str> =
            plan.lines().filter(|line| line.contains("Index Scan using tepui_rows_pkey")).collect();
        assert!(!index.is_empty() && plan.contains("Index Cond: "), "{plan}");
        let number = |line: &str, name: &str| -> u64 {
            let digits = line.split(name).nth(1).unwrap_or_default();
            let digits: String = digits.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().unwrap_or_else(|_| panic!("{plan}"))
        };
        index.iter().map(|line| number(line, "actual rows=") * number(line, " loops=")).sum()
    }

    #[tokio::test]
    async fn every_statement_reads_by_the_key_and_no_more_than_it_needs() {
        if is_skipped() {
            return;
        }
        let options = PostgresOptions::new(PostgresServer::shared().new_schema());
        crate::PostgresEngine::init(&options).await.expect("a schema can be made");
        let endpoints = Endpoints::parse(&options.url, options.timeout).expect("the URL is valid");
        let connector = Connector::new(endpoints, Duration::from_secs(5)).expect("it is valid");
        let connection = connector.connect().await.expect("the server runs");
        let client = &connection.client;
        // Planned when the table was empty as far as anybody knows, and again when it is known to be large.
        client.batch_execute("ANALYZE tepui_rows").await.expect("it is ours");
        let fill = "INSERT INTO tepui_rows SELECT decode(lpad(n::text, 8, '0'), 'escape'), '', '', '\\x00' \
                    FROM generate_series(1, 30000) AS n";
        client.batch_execute(fill).await.expect("it is ours");
        let key = |number: u32| format!("'{number:08}'::bytea");
        let keys = |numbers: &[u32]| {
            format!("ARRAY[{}]", numbers.iter().map(|number| key(*number)).collect::<Vec<_>>().join(","))
        };
        let none = "ARRAY['', '']::bytea[]";
        let two = keys(&[100, 200]);
        for _ in 0..2 {
            let types = "bytea, bytea, bytea, bytea, bigint, bigint";
            let range = format!("{}, '', {}, ''", key(5), key(29_000));
            let scan = plan(client, SCAN, types, &format!("{range}, 1001, 1000000")).await;
            // Groups of at least 32 rows are sorted on.
            assert!((1001..1100).contains(&rows_read(&scan)) && scan.contains("Incremental Sort"), "{scan}");
            let get = plan(client, GET, "bytea[], bytea[]", &format!("{two}, {none}")).await;
            assert_eq!(rows_read(&get), 2, "{get}");
            let share =
                plan(client, SHARE, "bytea[], bytea[], bytea[]", &format!("{two}, {none}, {none}")).await;
            assert_eq!(rows_read(&share), 2, "{share}");
            let marked = "ARRAY[false, false]";
            let types = "bytea[], bytea[], bytea[], bool[]";
            let lock = plan(client, LOCK, types, &format!("{two}, {none}, {none}, {marked}")).await;
            assert_eq!(rows_read(&lock), 2, "also if no row is to be made: {lock}");
            let delete = plan(client, DELETE, types, &format!("{two}, {none}, {none}, {marked}")).await;
            assert_eq!(rows_read(&delete), 2, "{delete}");
            let types = "bytea[], bytea[], bytea[], bytea[]";
            let put = plan(client, PUT, types, &format!("{two}, {none}, {none}, {none}")).await;
            assert_eq!(rows_read(&put), 2, "{put}");
            let types = "bytea, bytea, bytea, bytea, bigint";
            let reclaim = plan(client, RECLAIM, types, &format!("{range}, 1000")).await;
            assert!(rows_read(&reclaim) <= 2100, "{reclaim}");
            client.batch_execute("ANALYZE tepui_rows").await.expect("it is ours");
        }
    }
}
