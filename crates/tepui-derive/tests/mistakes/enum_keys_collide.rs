use tepui_client::{Entity, EntityEnum};

#[derive(Entity)]
#[entity(table = "Staff")]
#[key(partition = "{department}", row = "emp_{id:06}")]
struct Employee {
    department: String,
    id: u32,
}

#[derive(Entity)]
#[entity(table = "Staff", kind = "Review")]
#[key(partition = "{department}", row = "emp_{id:06}_{year:04}")]
struct Review {
    department: String,
    id: u32,
    year: u16,
}

#[derive(EntityEnum)]
enum Staff {
    Employee(Employee),
    Review(Review),
}

fn main() {}
