//! Where tables and entities are, as the caller addressed them: links in bodies and in `Location`.

use crate::percent;

/// An entity set as the caller addressed it.
#[derive(Debug, Clone, Copy)]
pub struct TableLinks<'a> {
    /// Scheme, host and, in path style, the account; without a final slash.
    pub base: &'a str,
    pub account: &'a str,
    pub table: &'a str,
}

impl TableLinks<'_> {
    /// The address of one entity: `Location`, `DataServiceId` and `odata.id`.
    pub fn entity_url(&self, partition_key: &str, row_key: &str) -> String {
        let mut url = String::with_capacity(self.base.len() + self.table.len() + 64);
        url.push_str(self.base);
        url.push('/');
        self.push_entity(&mut url, partition_key, row_key);
        url
    }

    /// The same relative to the base: `odata.editLink`.
    pub fn entity_path(&self, partition_key: &str, row_key: &str) -> String {
        let mut path = String::with_capacity(self.table.len() + 64);
        self.push_entity(&mut path, partition_key, row_key);
        path
    }

    fn push_entity(&self, out: &mut String, partition_key: &str, row_key: &str) {
        out.push_str(self.table);
        out.push_str("(PartitionKey='");
        percent::encode_key(partition_key, out);
        out.push_str("',RowKey='");
        percent::encode_key(row_key, out);
        out.push_str("')");
    }
}

/// The address of a table relative to the base.
pub fn table_path(name: &str) -> String {
    format!("Tables('{name}')")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_in_links() {
        let links = TableLinks { base: "http://127.0.0.1:10002/d1", account: "d1", table: "Orders" };
        for (partition_key, row_key, expected) in [
            ("p1", "r1", "Orders(PartitionKey='p1',RowKey='r1')"),
            ("", "", "Orders(PartitionKey='',RowKey='')"),
            ("o'k", "r %", "Orders(PartitionKey='o''k',RowKey='r%20%25')"),
            ("ô\"", "a:b", "Orders(PartitionKey='%C3%B4%22',RowKey='a%3Ab')"),
            ("a+b,c=d", "(x)@y", "Orders(PartitionKey='a%2Bb%2Cc%3Dd',RowKey='%28x%29%40y')"),
        ] {
            assert_eq!(links.entity_path(partition_key, row_key), expected);
            assert_eq!(
                links.entity_url(partition_key, row_key),
                format!("http://127.0.0.1:10002/d1/{expected}")
            );
        }
        assert_eq!(table_path("Orders"), "Tables('Orders')");
    }
}
