//! The tables in which Storage Analytics keeps its metrics. They belong to the service: users read them like other tables and may
//! delete what is in them, and nothing else.

/// A metrics table that can exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MetricsTable {
    HourBlob,
    HourQueue,
    HourTable,
    MinuteBlob,
    MinuteQueue,
    MinuteTable,
    CapacityBlob,
}

/// A name that only a metrics table has.
#[derive(Debug, PartialEq, Eq)]
pub struct MetricsTableName {
    /// As the service spells it.
    pub name: &'static str,
    /// Whose entities it shows. `None`: there is no such table here, as in an account of Azure without files or without a
    /// secondary endpoint.
    pub table: Option<MetricsTable>,
}

impl MetricsTableName {
    const fn of(name: &'static str, table: MetricsTable) -> Self {
        Self { name, table: Some(table) }
    }

    const fn absent(name: &'static str) -> Self {
        Self { name, table: None }
    }

    /// Finds a name, in whatever case it is spelled.
    ///
    /// ```
    /// use tepui_model::table::{MetricsTable, MetricsTableName};
    /// let old = MetricsTableName::find("$metricstransactionsblob").unwrap();
    /// assert_eq!((old.name, old.table), ("$MetricsTransactionsBlob", Some(MetricsTable::HourBlob)));
    /// assert_eq!(MetricsTableName::find("Orders"), None);
    /// ```
    pub fn find(text: &str) -> Option<&'static Self> {
        if !text.starts_with('$') {
            return None;
        }
        NAMES.iter().find(|known| known.name.eq_ignore_ascii_case(text))
    }
}

use MetricsTable::*;

/// A table's own name comes before others that show the same entities.
const NAMES: &[MetricsTableName] = &[
    MetricsTableName::of("$MetricsHourPrimaryTransactionsBlob", HourBlob),
    MetricsTableName::of("$MetricsHourPrimaryTransactionsQueue", HourQueue),
    MetricsTableName::of("$MetricsHourPrimaryTransactionsTable", HourTable),
    MetricsTableName::of("$MetricsMinutePrimaryTransactionsBlob", MinuteBlob),
    MetricsTableName::of("$MetricsMinutePrimaryTransactionsQueue", MinuteQueue),
    MetricsTableName::of("$MetricsMinutePrimaryTransactionsTable", MinuteTable),
    MetricsTableName::of("$MetricsCapacityBlob", CapacityBlob),
    // The names before version 2013-08-15.
    MetricsTableName::of("$MetricsTransactionsBlob", HourBlob),
    MetricsTableName::of("$MetricsTransactionsQueue", HourQueue),
    MetricsTableName::of("$MetricsTransactionsTable", HourTable),
    MetricsTableName::absent("$MetricsHourPrimaryTransactionsFile"),
    MetricsTableName::absent("$MetricsMinutePrimaryTransactionsFile"),
    MetricsTableName::absent("$MetricsHourSecondaryTransactionsBlob"),
    MetricsTableName::absent("$MetricsHourSecondaryTransactionsQueue"),
    MetricsTableName::absent("$MetricsHourSecondaryTransactionsTable"),
    MetricsTableName::absent("$MetricsMinuteSecondaryTransactionsBlob"),
    MetricsTableName::absent("$MetricsMinuteSecondaryTransactionsQueue"),
    MetricsTableName::absent("$MetricsMinuteSecondaryTransactionsTable"),
];

impl MetricsTable {
    pub const ALL: [Self; 7] =
        [HourBlob, HourQueue, HourTable, MinuteBlob, MinuteQueue, MinuteTable, CapacityBlob];

    /// Its name, not one of the old ones.
    pub fn name(self) -> &'static str {
        let own = NAMES.iter().find(|known| known.table == Some(self));
        own.map_or("", |known| known.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::TableName;

    #[test]
    fn every_table_has_its_own_name() {
        for table in MetricsTable::ALL {
            let found = MetricsTableName::find(table.name());
            assert_eq!(found.map(|found| (found.name, found.table)), Some((table.name(), Some(table))));
            assert!(TableName::parse(table.name()).is_err(), "{}", table.name());
        }
    }

    #[test]
    fn names() {
        for (text, expected) in [
            ("$METRICSCAPACITYBLOB", Some(Some(CapacityBlob))),
            ("$MetricsTransactionsQueue", Some(Some(HourQueue))),
            ("$MetricsHourPrimaryTransactionsFile", Some(None)),
            ("$MetricsMinuteSecondaryTransactionsTable", Some(None)),
            ("$MetricsCapacityTable", None),
            ("$Metrics", None),
            ("MetricsCapacityBlob", None),
        ] {
            assert_eq!(MetricsTableName::find(text).map(|found| found.table), expected, "{text}");
        }
    }
}
