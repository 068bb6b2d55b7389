//! Parts of entities: read by a projection, and merged.

use super::Table;
use super::write::{Verb, new_token};
use crate::entity::typed::{MergeProjection, Projection};
use crate::{ETag, Error, Match, Versioned};
use tepui_model::table::EntityKey;

impl<E> Table<E> {
    /// The properties of a projection, of one entity; `None` if there is none.
    pub async fn get_part<P: Projection<Of = E>>(
        &self,
        key: &EntityKey,
    ) -> Result<Option<Versioned<P>>, Error> {
        let names = P::properties();
        // The keys are known. Something has to be selected, or everything is.
        let select: Vec<&str> = ["Timestamp"].into_iter().chain(names).collect();
        match self.read(key, &select).await? {
            Some(stored) => Ok(Some(Versioned::from_stored(stored)?)),
            None => Ok(None),
        }
    }

    /// Sets the properties of a projection in an entity that is there; others that it has stay. Not for fields that an index
    /// depends on: those rows follow from the whole entity.
    ///
    /// ```
    /// use tepui_client::{Entity, Match, Projection};
    ///
    /// #[derive(Entity)]
    /// #[entity(table = "Employees")]
    /// #[key(partition = "{department}", row = "empid_{id:06}")]
    /// struct Employee {
    ///     department: String,
    ///     id: u32,
    ///     email: String,
    ///     age: Option<i32>,
    /// }
    ///
    /// #[derive(Projection)]
    /// #[projection(of = Employee, merge)]
    /// struct Age {
    ///     age: Option<i32>,
    /// }
    ///
    /// # tepui_client_testing::run_with_table(async |people| {
    /// # let people = people.of::<Employee>();
    /// let (department, email) = ("Sales".to_owned(), "jun@contoso.com".to_owned());
    /// people.insert(&Employee { department, id: 223, email, age: None }).await?;
    /// let key = Employee::key("Sales", 223)?;
    /// people.merge_part(&key, &Age { age: Some(35) }, Match::Any).await?;
    /// let found = people.get(&key).await?.expect("it was inserted");
    /// assert_eq!((found.age, found.email.as_str()), (Some(35), "jun@contoso.com"));
    /// # Ok(()) });
    /// ```
    pub async fn merge_part<P: MergeProjection<Of = E>>(
        &self,
        key: &EntityKey,
        part: &P,
        condition: impl Into<Match>,
    ) -> Result<ETag, Error> {
        let token = self.writes_tokens.then(new_token);
        let properties = part.to_properties()?;
        let prepared = Verb::Merge.prepare_parts(key.clone(), properties, Some(condition.into()), token)?;
        let etag = self.write(&prepared).await?;
        etag.ok_or_else(|| Error::decode("a write was answered without an ETag"))
    }
}
