//! What spans departments: a directory by name, the manager in the department, moves. All of it follows by way of a queue.

use crate::{Application, Outcome};
use tepui_client::entity::Properties;
use tepui_client::patterns::copies::CopyRow;
use tepui_client::patterns::denormalization::Denormalized;
use tepui_client::patterns::index_across_partitions::IndexAcrossPartitions;
use tepui_client::patterns::materialized_view::{MaterializedView, View};
use tepui_client::patterns::outbox::{Outbox, Worker};
use tepui_client::{DynamicEntity, Entity, EntityKey, Error, Match};

/// The name is a second key, in a partition of its own.
#[derive(Entity, Debug, Clone)]
#[entity(table = "Directory", closed)]
#[key(partition = "{department}", row = "empid_{id:06}")]
#[index(by_name, partition = "name_{last_name}", row = "name_{department}_{id:06}", fields(phone))]
struct Person {
    department: String,
    id: u32,
    last_name: String,
    phone: String,
    /// The department that the employee leads.
    manages: Option<String>,
}

/// How many employees there are of each name, in all departments.
struct Names;

impl View for Names {
    type Source = Person;

    fn keys(&self, person: &Person) -> Result<Vec<String>, Error> {
        Ok(vec![person.last_name.clone()])
    }

    fn fold(&self, _: &str, people: &[Person]) -> Result<Properties, Error> {
        DynamicEntity::new("", "").with("People", people.len() as i64).to_properties()
    }
}

fn person(id: u32, department: &str, last_name: &str, manages: Option<&str>) -> Person {
    Person {
        department: department.to_owned(),
        id,
        last_name: last_name.to_owned(),
        phone: format!("+1 555 {id:04}"),
        manages: manages.map(str::to_owned),
    }
}

pub(crate) async fn run(application: &Application) -> Outcome {
    let Application { account, costs, .. } = application;
    let people = account.table(&application.name("Directory"))?.of::<Person>();
    let departments = account.table(&application.name("Departments"))?;
    let queue = account.queue(&application.name("directory-"))?;
    people.create().await?;
    departments.create().await?;
    queue.create_if_missing().await?;
    departments.insert(&DynamicEntity::new("Sales", "department").with("Floor", 3)).await?;

    let manager = Denormalized::new("manager", departments.clone(), |person: &Person| {
        let Some(department) = &person.manages else { return Ok(Vec::new()) };
        let properties =
            DynamicEntity::new("", "").with("Manager", person.last_name.as_str()).to_properties()?;
        let key = EntityKey::new(department.as_str(), "department");
        Ok(vec![CopyRow { table: None, key, properties }])
    });
    let names = MaterializedView::new(Names, &application.name("Names"), &people)?;
    names.create_if_missing().await?;
    let outbox = Outbox::new(people.clone(), queue.clone()).with(manager.of(&people)).with(names.clone());

    application.step("Secondary index across partitions: the entry follows by way of a queue");
    outbox.insert(&person(1, "Sales", "Jones", None)).await?;
    costs.show("an employee, its entry by name, and what else follows from it");
    outbox.insert(&person(2, "Marketing", "Jones", None)).await?;
    outbox.insert(&person(3, "Sales", "Cao", Some("Sales"))).await?;

    application.step("All of one name, in all departments: one range");
    let by_name = IndexAcrossPartitions::of(&outbox);
    let found = by_name.query("name_Jones").all().await?;
    costs.show(format_args!("{} entries", found.len()));

    application.step("Denormalization: the department holds the name of its manager");
    let sales = departments.get(&EntityKey::new("Sales", "department")).await?.ok_or("no department")?;
    costs.show(format_args!("{:?}", sales.get("Manager").and_then(|name| name.as_str())));

    application.step("Materialized view: how many have a name, counted when somebody is hired");
    let row = names.get("Jones").await?.ok_or("nobody is called Jones")?;
    costs.show(format_args!("{:?} employees", row.get("People").and_then(|count| count.as_i64())));

    application
        .step("A move to another department: no transaction reaches both, so it goes through the queue");
    outbox.move_to(&Person::key("Sales", 1)?, Match::Any, &Person::key("Marketing", 1)?).await?;
    let found = people.get(&Person::key("Marketing", 1)?).await?;
    costs.show(format_args!("moved: {}", found.is_some()));

    application.step("The worker, which finishes what others have left undone");
    let worked = Worker::of(&outbox).drain().await?;
    costs.show(format_args!("{} messages were left", worked.total()));

    queue.delete_queue().await?;
    departments.delete_table().await?;
    people.delete_table().await?;
    for name in account.table_names(&application.name("Names")).await? {
        account.table(&name)?.delete_table().await?;
    }
    Ok(())
}
