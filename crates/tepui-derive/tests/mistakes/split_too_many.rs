use tepui_client::Entity;

#[derive(Entity)]
#[entity(table = "People")]
#[key(partition = "all", row = "{id:06}")]
struct Employee {
    id: u32,
    #[split]
    note_a: String,
    #[split]
    note_b: String,
    #[split]
    note_c: String,
    #[split]
    note_d: String,
    #[split]
    note_e: String,
    #[split]
    note_f: String,
    #[split]
    note_g: String,
    #[split]
    note_h: String,
    #[split]
    note_i: String,
    #[split]
    note_j: String,
    #[split]
    note_k: String,
    #[split]
    note_l: String,
    #[split]
    note_m: String,
    #[split]
    note_n: String,
    #[split]
    note_o: String,
    #[split]
    note_p: String,
    #[split]
    note_q: String,
}

fn main() {}
