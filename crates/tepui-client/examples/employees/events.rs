//! What comes with time: logins, expense claims, messages, the log of the application.

use crate::{Application, Outcome};
use tepui_client::patterns::data_series::Series;
use tepui_client::patterns::log_blobs::{LogBlobs, LogLimits};
use tepui_client::patterns::log_tail::{Log, LogEntry};
use tepui_client::patterns::table_series::TableSeries;
use tepui_client::patterns::wide_entity::WideTable;
use tepui_client::{DynamicEntity, Entity, EntityKey, Timestamp};

/// The newest first.
#[derive(Entity, Debug)]
#[entity(table = "Claims")]
#[key(partition = "{employee}", row = "{at:desc}_{seq:04}")]
struct Claim {
    employee: String,
    at: Timestamp,
    seq: u16,
    cents: i64,
}

impl LogEntry for Claim {
    fn at(&self) -> Timestamp {
        self.at
    }

    fn set_seq(&mut self, seq: u16) {
        self.seq = seq;
    }
}

pub(crate) async fn run(application: &Application) -> Outcome {
    let Application { account, costs, .. } = application;

    application.step("Log tail: the last three expense claims of an employee, whatever came before");
    let claims = account.table(&application.name("Claims"))?.of::<Claim>();
    claims.create().await?;
    let log = Log::new(&claims);
    let mut at = Timestamp::parse_iso("2026-03-10T08:15:30Z").ok_or("no such time")?;
    for cents in 1..=50 {
        at = at.next();
        log.append(Claim { employee: "emp22".to_owned(), at, seq: 0, cents: cents * 100 }).await?;
    }
    costs.forget();
    let newest = log.tail("emp22", 3).await?;
    costs.show(format_args!("the last one was about {} cents", newest[0].cents));
    claims.delete_table().await?;

    application.step("High volume delete: logins of each day have a table, and old ones go in one request");
    // The date follows.
    let prefix = format!("{}Day", application.name("Logins"));
    let logins = TableSeries::daily(&prefix).keep(60).open::<DynamicEntity>(account)?;
    logins.create_next().await?;
    let now = logins.now();
    logins.table(now).await?.insert(&DynamicEntity::new("emp22", "000001")).await?;
    let dropped = logins.drop_expired().await?;
    costs.show(format_args!("{} tables were older than 60 days", dropped.len()));
    for name in account.table_names(&prefix).await? {
        account.table(&name)?.delete_table().await?;
    }

    application.step("Data series: the messages of each hour of a day, in one entity");
    let messages = account.table(&application.name("Messages"))?;
    messages.create().await?;
    let hours = Series::<i32, 24>::new(&messages, "H")?;
    let day = EntityKey::new("emp22", "2026-03-10");
    hours.set(&day, 8, 5).await?;
    hours.add(&day, 9, 2).await?;
    let read = hours.read(&day).await?.ok_or("no messages")?;
    costs.show(format_args!("{} messages", read.iter().flatten().sum::<i32>()));

    application.step("Wide entity: a value for each day of a year takes more properties than one entity has");
    let wide = WideTable::new(&messages);
    let mut year = DynamicEntity::new("emp22", "2026");
    for day in 0..365 {
        year.set(format!("D{day:03}"), day);
    }
    wide.insert(&year).await?;
    let read = wide.get(&EntityKey::new("emp22", "2026")).await?.ok_or("no such year")?;
    costs.show(format_args!("read back from {} rows", read.rows));
    messages.delete_table().await?;

    application.step("The log of the application: lines in append blobs, and not in a table");
    let container = account.container(&application.name("log-"))?;
    container.create_if_missing().await?;
    let log = LogBlobs::new(&container, "orders", LogLimits::default())?;
    for number in 0..100 {
        log.write(&format!("order {number} accepted")).await?;
    }
    log.flush().await?;
    costs.show("100 lines");
    container.delete_container().await?;
    Ok(())
}
