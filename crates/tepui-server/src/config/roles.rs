//! Role assignments in the configuration file.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use tepui_model::role::{InvalidAssignment, RoleAssignment};

/// The part of the configuration file that has role assignments.
#[derive(Deserialize)]
pub(super) struct File {
    #[serde(
        default,
        rename = "role-assignment",
        alias = "role_assignment",
        deserialize_with = "assignments_of_file"
    )]
    pub(super) assignments: Vec<RoleAssignment>,
}

fn assignments_of_file<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<RoleAssignment>, D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Entry {
        principal: String,
        role: String,
        scope: String,
        issuer: Option<String>,
    }
    let entries = Vec::<Entry>::deserialize(from)?;
    let parse = |(number, entry): (usize, &Entry)| {
        let Entry { principal, role, scope, issuer } = entry;
        let wrong = |error: InvalidAssignment| {
            D::Error::custom(format!("[[role-assignment]] number {}, for {principal}: {error}", number + 1))
        };
        if issuer.as_ref().is_some_and(String::is_empty) {
            return Err(D::Error::custom(format!(
                "[[role-assignment]] number {}, for {principal}: an issuer is as tokens have it in `iss`; leave it out for any",
                number + 1
            )));
        }
        Ok(RoleAssignment {
            principal: principal.parse().map_err(wrong)?,
            issuer: issuer.clone(),
            role: role.parse().map_err(wrong)?,
            scope: scope.parse().map_err(wrong)?,
        })
    };
    entries.iter().enumerate().map(parse).collect()
}
