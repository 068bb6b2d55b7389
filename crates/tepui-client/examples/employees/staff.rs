//! Departments, their employees and reviews: one table, one partition for each department.

use crate::{Application, Outcome};
use tepui_client::patterns::denormalization::Counter;
use tepui_client::patterns::index_entities::{ListIndex, Listed, MemberRows};
use tepui_client::{DynamicEntity, Entity, EntityEnum, Projection};

/// The address is a second key within the department.
#[derive(Entity, Debug, Clone)]
#[entity(table = "Employees", kind = "Employee", closed)]
#[key(partition = "{department}", row = "empid_{id:06}")]
#[index(by_email, row = "email_{email}")]
struct Employee {
    department: String,
    id: u32,
    first_name: String,
    last_name: String,
    email: String,
    age: i32,
}

/// A review of one year. It lies behind its employee.
#[derive(Entity, Debug, Clone)]
#[entity(table = "Employees", kind = "Review", closed)]
#[key(partition = "{department}", row = "empid_{id:06}_{year:04}")]
struct Review {
    department: String,
    id: u32,
    year: u16,
    rating: i32,
}

/// What a list of names shows of an employee.
#[derive(Projection, Debug)]
#[projection(of = Employee)]
struct Named {
    id: u32,
    last_name: String,
}

#[derive(EntityEnum, Debug)]
enum Row {
    Employee(Employee),
    Review(Review),
    #[other]
    Other(DynamicEntity),
}

/// Those who have left, found by their last name.
#[derive(Entity, Debug, Clone)]
#[entity(table = "Alumni", closed)]
#[key(partition = "{department}", row = "empid_{id:06}")]
struct Alumna {
    department: String,
    id: u32,
    last_name: String,
}

impl Listed for Alumna {
    fn listed_under(&self) -> Option<&str> {
        Some(&self.last_name)
    }
}

const NAMES: [&str; 5] = ["Cao", "Jones", "Garcia", "Smith", "Weber"];

fn employee(id: u32) -> Employee {
    let department = if id.is_multiple_of(2) { "Sales" } else { "Marketing" };
    Employee {
        department: department.to_owned(),
        id,
        first_name: format!("First{id}"),
        last_name: NAMES[id as usize % NAMES.len()].to_owned(),
        email: format!("e{id}@contoso.com"),
        age: 20 + (id as i32 * 7) % 45,
    }
}

pub(crate) async fn run(application: &Application) -> Outcome {
    let Application { account, costs, .. } = application;
    let table = account.table(&application.name("Employees"))?;
    table.create().await?;
    let employees = table.of::<Employee>();

    application.step(
        "Secondary index in the partition: an employee and the entry for its address, written together",
    );
    for id in 0..40 {
        employees.indexed().insert(&employee(id)).await?;
    }
    costs.show("40 employees of two departments");

    application.step("Point query by both keys: the cheapest read");
    let found = employees.get(&Employee::key("Sales", 22)?).await?.ok_or("nobody has this id")?;
    costs.show(format_args!("{} {}", found.first_name, found.last_name));

    application.step("By the address, through the index");
    let found = employees.partition("Sales").by_email().with_email("e22@contoso.com").all().await?;
    costs.show(format_args!("employee {}", found[0].id));

    application.step("Range of ids: all that is read is returned");
    let found = employees.partition("Sales").id(10..=19).all().await?;
    costs.show(format_args!("{} employees", found.len()));

    application.step("Projection: only the names of the same range");
    let found = employees.partition("Sales").id(10..=19).select::<Named>().all().await?;
    costs.show(format_args!("{} is {}, and so on", found[0].id, found[0].last_name));

    application.step("By age, which no key has: a scan of the partition, and it has to be said");
    let found = employees.partition("Sales").scan().filter(Employee::AGE.gt(60)).all().await?;
    costs.show(format_args!("{} employees are older than 60", found.len()));

    application.step("The same over all departments: a scan of the table");
    let found = employees.scan().filter(Employee::AGE.gt(60)).all().await?;
    costs.show(format_args!("{} employees are older than 60", found.len()));

    application
        .step("Compound keys: reviews lie behind their employee, and are counted in the same transaction");
    let reviews = Counter::new(table.of::<Review>(), "department", "Reviews");
    for year in 2021..=2026 {
        let review = Review { department: "Sales".to_owned(), id: 22, year, rating: 4 };
        reviews.insert(&review).await?;
    }
    costs.show(format_args!("{} reviews in the department", reviews.count("Sales").await?));

    application.step("An employee with all reviews: one request for two kinds of entities");
    let rows = table.of::<Row>().family(&Employee::key("Sales", 22)?).all().await?;
    let of_reviews = rows.iter().filter(|row| matches!(row.entity, Row::Review(_))).count();
    costs.show(format_args!("{} rows, {of_reviews} of them reviews", rows.len()));

    application.step("A new address: the old entry of the index goes, in the same transaction");
    let key = Employee::key("Sales", 22)?;
    employees.indexed().update(&key, |employee| employee.email = "jun@contoso.com".to_owned()).await?;
    let old = employees.partition("Sales").by_email().with_email("e22@contoso.com").all().await?;
    costs.show(format_args!("{} employees have the old address", old.len()));

    application.step("Index entities: who has left, by last name, with one row for each");
    let alumni = account.table(&application.name("Alumni"))?.of::<Alumna>();
    alumni.create().await?;
    let by_name = MemberRows::new(&alumni, "Sales", "ln_")?;
    for (id, last_name) in [(101, "Jones"), (102, "Cao"), (103, "Jones")] {
        by_name
            .insert(&Alumna { department: "Sales".to_owned(), id, last_name: last_name.to_owned() })
            .await?;
    }
    let found = by_name.find("Jones").await?;
    costs.show(format_args!("{} are called Jones", found.len()));

    table.delete_table().await?;
    alumni.delete_table().await?;
    Ok(())
}
