//! The struct that derives `Entity`: what its attributes say, checked as a whole.

use crate::field::{Field, Role};
use crate::index::{self, Index};
use crate::template::{self, Piece, Spec};
use crate::version::{kind_and_version, upgrade_from};
use std::collections::HashMap;
use syn::{Attribute, Data, DeriveInput, Error, Fields, Ident, LitInt, LitStr, Path, Type, Visibility};

/// Of an entity, without its keys and its timestamp.
const MAX_PROPERTIES: usize = 252;
/// Without those that say how the others are encrypted.
const MAX_PROPERTIES_ENCRYPTED: usize = 250;

pub(crate) struct EntityStruct {
    pub(crate) name: Ident,
    pub(crate) visibility: Visibility,
    pub(crate) table: String,
    /// What `EntityType` says that it is, and the version of its properties.
    pub(crate) kind: Option<(String, u32)>,
    /// The type with the version before.
    pub(crate) upgrade_from: Option<Type>,
    pub(crate) indexes: Vec<Index>,
    /// What the types of entries derive besides.
    pub(crate) entry_derives: Vec<Path>,
    /// It is an entry of an index, which is written together with its entity.
    pub(crate) is_entry: bool,
    pub(crate) rename_all: Option<LitStr>,
    pub(crate) is_append_only_fine: bool,
    pub(crate) keys: (LitStr, LitStr),
    /// The struct has all properties that are stored.
    pub(crate) is_closed: bool,
    pub(crate) fields: Vec<Field>,
    pub(crate) partition: Vec<Piece>,
    pub(crate) row: Vec<Piece>,
}

impl EntityStruct {
    pub(crate) fn parse(input: &DeriveInput) -> Result<Self, Error> {
        let Data::Struct(data) = &input.data else {
            return Err(Error::new(input.ident.span(), "an entity is a struct with named fields"));
        };
        let Fields::Named(fields) = &data.fields else {
            return Err(Error::new(input.ident.span(), "an entity is a struct with named fields: name them"));
        };
        if !input.generics.params.is_empty() {
            return Err(Error::new_spanned(
                &input.generics,
                "an entity has no parameters: a table holds one type",
            ));
        }
        let options = Options::parse(input)?;
        let (partition, row) = Keys::parse(input)?;
        let mut errors = Errors::default();
        let mut parsed = Vec::new();
        for field in &fields.named {
            errors.take(Field::parse(field, options.rename).map(|field| parsed.push(field)));
        }
        let mut entity = Self {
            name: input.ident.clone(),
            visibility: input.vis.clone(),
            upgrade_from: upgrade_from(input, options.kind.as_ref())?,
            table: options.table,
            kind: options.kind,
            indexes: Vec::new(),
            entry_derives: options.entry_derives,
            is_entry: options.is_entry,
            rename_all: options.rename_all,
            is_append_only_fine: options.is_append_only_fine,
            keys: (partition.clone(), row.clone()),
            is_closed: options.is_closed,
            fields: parsed,
            partition: Vec::new(),
            row: Vec::new(),
        };
        if errors.0.is_none() {
            entity.partition = errors.take(entity.pieces(&partition)).unwrap_or_default();
            entity.row = errors.take(entity.pieces(&row)).unwrap_or_default();
        }
        if errors.0.is_none() {
            errors.take(entity.check_properties(input));
            errors.take(entity.check_partition(&partition));
        }
        if errors.0.is_none() && entity.is_encrypted() {
            errors.take(entity.check_encrypted(input));
        }
        if errors.0.is_none() {
            entity.indexes = errors.take(Index::parse_all(&entity, input)).unwrap_or_default();
        }
        errors.0.map_or(Ok(entity), Err)
    }

    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The fields that the keys are made of, each once, in their order.
    pub(crate) fn key_fields(&self, pieces: &[&[Piece]]) -> Vec<&Field> {
        let mut fields: Vec<&Field> = Vec::new();
        for piece in pieces.iter().copied().flatten() {
            if let Piece::Field { name, .. } = piece
                && let Some(field) = self.field(name)
                && !fields.iter().any(|known| known.name == field.name)
            {
                fields.push(field);
            }
        }
        fields
    }

    /// Whether the field is read from a key, and so is no property.
    pub(crate) fn is_in_key(&self, field: &Field) -> bool {
        self.partition.iter().chain(&self.row).any(|piece| match piece {
            Piece::Field { name, spec } => field.name == name && spec.is_readable(),
            Piece::Literal(_) => false,
        })
    }

    /// The fields that become properties.
    pub(crate) fn properties(&self) -> impl Iterator<Item = &Field> {
        let is_property =
            |field: &&Field| !matches!(field.role, Role::Skip | Role::Rest) && !self.is_in_key(field);
        self.fields.iter().filter(is_property)
    }

    pub(crate) fn pieces(&self, template: &LitStr) -> Result<Vec<Piece>, Error> {
        let error = |message| Error::new(template.span(), message);
        let pieces = template::parse(&template.value()).map_err(error)?;
        for piece in &pieces {
            if let Piece::Field { name, spec } = piece {
                self.check_part(name, *spec).map_err(error)?;
            }
        }
        Ok(pieces)
    }

    fn check_part(&self, name: &str, spec: Spec) -> Result<(), String> {
        let Some(field) = self.field(name) else {
            let names: Vec<_> = self.fields.iter().map(|field| format!("`{}`", field.name)).collect();
            return Err(format!("there is no field `{name}`, only {}", names.join(", ")));
        };
        if field.is_optional {
            return Err(format!("`{name}` is an Option, and a part of a key cannot be absent"));
        }
        if field.is_encrypted {
            return Err(format!(
                "`{name}` is part of a key, and keys are not encrypted: leave out #[encrypt]"
            ));
        }
        match field.role {
            Role::Skip => {
                return Err(format!(
                    "`{name}` is not stored, so it cannot be part of a key: leave out #[skip]"
                ));
            }
            Role::Rest => {
                return Err(format!("`{name}` holds all other properties, so it cannot be part of a key"));
            }
            Role::Json | Role::Text | Role::Split if spec.is_readable() => {
                return Err(format!(
                    "`{name}` is part of a key and no property: leave out #[json], #[split] or `as`"
                ));
            }
            Role::Property | Role::Json | Role::Text | Role::Split => {}
        }
        if field.kind().takes(spec) {
            Ok(())
        } else {
            Err(format!("`{name}` is {}", field.kind().advice(name)))
        }
    }

    fn check_properties(&self, input: &DeriveInput) -> Result<(), Error> {
        let mut errors = Errors::default();
        let mut seen: HashMap<String, &Field> = HashMap::new();
        for field in self.properties() {
            errors.take(field.check_type());
            for property in field.property_names() {
                if property == "EntityType" && self.kind.is_some() {
                    let message =
                        "`EntityType` says which `kind` it is: choose another name with #[property(\"…\")]";
                    errors.add(Error::new(field.property_span, message));
                }
                if let Some(other) = seen.insert(property.clone(), field) {
                    let message =
                        format!("`{}` and `{}` have the same property `{property}`", other.name, field.name);
                    errors.add(Error::new(field.property_span, message));
                }
            }
        }
        let count = self.property_names().len();
        let (max, kind) = match self.is_encrypted() {
            true => (MAX_PROPERTIES_ENCRYPTED, "an entity with encrypted fields"),
            false => (MAX_PROPERTIES, "an entity"),
        };
        if count > max {
            let message = format!("{kind} has at most {max} properties, this one has {count}");
            errors.add(Error::new(input.ident.span(), message));
        }
        let mut rests = self.fields.iter().filter(|field| field.role == Role::Rest);
        if let (Some(_), Some(second)) = (rests.next(), rests.next()) {
            errors.add(Error::new(second.name.span(), "one field can hold all other properties, not two"));
        }
        if let Some(rest) = self.rest()
            && self.is_closed
        {
            let message =
                "the entity is `closed`, so there are no other properties: leave out one of the two";
            errors.add(Error::new(rest.name.span(), message));
        }
        errors.0.map_or(Ok(()), Err)
    }

    /// A partition key that is only time makes one partition take all writes.
    fn check_partition(&self, template: &LitStr) -> Result<(), Error> {
        let mut specs = self.partition.iter().filter_map(|piece| match piece {
            Piece::Field { spec, .. } => Some(spec),
            Piece::Literal(_) => None,
        });
        let is_time = |spec: &Spec| matches!(spec, Spec::Ascending | Spec::Descending);
        let is_hot = specs.clone().next().is_some() && specs.all(is_time);
        if is_hot && !self.is_append_only_fine {
            let message = "a partition key of nothing but time makes one partition take all writes at any time: begin with \
                           another field or with `{…:hash16}`, or write #[entity(append_only_is_fine)]";
            return Err(Error::new(template.span(), message));
        }
        Ok(())
    }

    /// Copies of an index and older versions would have encrypted fields in the clear.
    fn check_encrypted(&self, input: &DeriveInput) -> Result<(), Error> {
        for attribute in &input.attrs {
            for name in ["index", "upgrade"] {
                if attribute.path().is_ident(name) {
                    let message =
                        format!("an entity with encrypted fields cannot have #[{name}(…)]: leave it out");
                    return Err(Error::new_spanned(attribute, message));
                }
            }
        }
        match &self.kind {
            Some(_) => {
                let message = "an entity with encrypted fields cannot have a `kind`: leave it out";
                Err(Error::new(input.ident.span(), message))
            }
            None => Ok(()),
        }
    }

    /// Whether a field is encrypted. Then it is another trait that the struct has, and another table that it is written to.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.fields.iter().any(|field| field.is_encrypted)
    }

    /// The names of all properties that the struct knows.
    pub(crate) fn property_names(&self) -> Vec<String> {
        let kind = self.kind.iter().map(|_| "EntityType".to_owned());
        self.properties().flat_map(Field::property_names).chain(kind).collect()
    }

    /// Whether rows of an index depend on the field.
    pub(crate) fn is_indexed(&self, field: &Field) -> bool {
        self.indexes.iter().any(|index| index.has(self, field))
    }

    pub(crate) fn rest(&self) -> Option<&Field> {
        self.fields.iter().find(|field| field.role == Role::Rest)
    }
}

/// `#[entity(…)]`.
struct Options {
    table: String,
    is_closed: bool,
    is_append_only_fine: bool,
    is_entry: bool,
    entry_derives: Vec<Path>,
    kind: Option<(String, u32)>,
    rename: fn(&str) -> String,
    rename_all: Option<LitStr>,
}

impl Options {
    fn parse(input: &DeriveInput) -> Result<Self, Error> {
        let missing = "say in which table: #[entity(table = \"People\")]";
        let attribute = only(input, "entity", missing)?;
        let mut options = Self {
            table: String::new(),
            is_closed: false,
            is_append_only_fine: false,
            is_entry: false,
            entry_derives: Vec::new(),
            kind: None,
            rename: str::to_owned,
            rename_all: None,
        };
        let (mut kind, mut version) = (None::<LitStr>, None::<LitInt>);
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("table") {
                let table: LitStr = meta.value()?.parse()?;
                check_table(&table)?;
                options.table = table.value();
            } else if meta.path.is_ident("closed") {
                options.is_closed = true;
            } else if meta.path.is_ident("append_only_is_fine") {
                options.is_append_only_fine = true;
            } else if meta.path.is_ident("kind") {
                let said: LitStr = meta.value()?.parse()?;
                if said.value().is_empty() || said.value().contains('/') {
                    let message = "a kind has a name without `/`, for example `kind = \"Employee\"`";
                    return Err(Error::new(said.span(), message));
                }
                kind = Some(said);
            } else if meta.path.is_ident("version") {
                version = Some(meta.value()?.parse()?);
            } else if meta.path.is_ident("entry_derive") {
                options.entry_derives = index::list(meta.input)?;
            } else if meta.path.is_ident("__entry") {
                // Said by #[index(…)] of the types that it makes.
                options.is_entry = true;
            } else if meta.path.is_ident("rename_all") {
                let style: LitStr = meta.value()?.parse()?;
                options.rename = match style.value().as_str() {
                    "PascalCase" => pascal_case,
                    "camelCase" => camel_case,
                    _ => {
                        return Err(Error::new(
                            style.span(),
                            "properties can be renamed to \"PascalCase\" or \"camelCase\"",
                        ));
                    }
                };
                options.rename_all = Some(style);
            } else {
                let known = "there is `table = \"…\"`, `closed`, `kind = \"…\"`, `version = 2`, `rename_all = \"…\"`, \
                             `entry_derive(…)` and `append_only_is_fine`";
                return Err(meta.error(known));
            }
            Ok(())
        })?;
        options.kind = kind_and_version(kind, version)?;
        if options.table.is_empty() { Err(Error::new_spanned(attribute, missing)) } else { Ok(options) }
    }
}

/// `#[key(…)]`.
struct Keys;

impl Keys {
    fn parse(input: &DeriveInput) -> Result<(LitStr, LitStr), Error> {
        let missing =
            "say what the keys are made of: #[key(partition = \"{department}\", row = \"{id:06}\")]";
        let attribute = only(input, "key", missing)?;
        let (mut partition, mut row) = (None, None);
        attribute.parse_nested_meta(|meta| {
            let key = if meta.path.is_ident("partition") {
                &mut partition
            } else if meta.path.is_ident("row") {
                &mut row
            } else {
                return Err(meta.error("there is `partition = \"…\"` and `row = \"…\"`"));
            };
            if key.replace(meta.value()?.parse::<LitStr>()?).is_some() {
                return Err(meta.error("this key was said before"));
            }
            Ok(())
        })?;
        partition.zip(row).ok_or_else(|| Error::new_spanned(attribute, missing))
    }
}

/// The attribute of that name, of which there is one.
fn only<'a>(input: &'a DeriveInput, name: &str, missing: &str) -> Result<&'a Attribute, Error> {
    let mut found = input.attrs.iter().filter(|attribute| attribute.path().is_ident(name));
    let first = found.next().ok_or_else(|| Error::new(input.ident.span(), missing))?;
    match found.next() {
        Some(second) => {
            Err(Error::new_spanned(second, format!("#[{name}(…)] was said before: put all into one")))
        }
        None => Ok(first),
    }
}

pub(crate) fn check_table(table: &LitStr) -> Result<(), Error> {
    let name = table.value();
    let is_spelled = name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let starts = name.starts_with(|first: char| first.is_ascii_alphabetic());
    if is_spelled && starts && (3..=63).contains(&name.len()) && !name.eq_ignore_ascii_case("tables") {
        Ok(())
    } else {
        let message = "a table has a name of 3 to 63 letters and digits, a letter first, and not `tables`";
        Err(Error::new(table.span(), message))
    }
}

pub(crate) fn pascal_case(name: &str) -> String {
    name.split('_').map(capitalized).collect()
}

fn camel_case(name: &str) -> String {
    let (first, rest) = name.split_once('_').unwrap_or((name, ""));
    format!("{first}{}", pascal_case(rest))
}

fn capitalized(word: &str) -> String {
    let mut characters = word.chars();
    characters.next().into_iter().flat_map(char::to_uppercase).chain(characters).collect()
}

/// Errors found so far: all are told at once.
#[derive(Default)]
pub(crate) struct Errors(pub(crate) Option<Error>);

impl Errors {
    pub(crate) fn take<T>(&mut self, outcome: Result<T, Error>) -> Option<T> {
        outcome.map_err(|error| self.add(error)).ok()
    }

    pub(crate) fn add(&mut self, error: Error) {
        match &mut self.0 {
            Some(errors) => errors.combine(error),
            None => self.0 = Some(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_properties() {
        for (name, pascal, camel) in
            [("age", "Age", "age"), ("last_name", "LastName", "lastName"), ("é_ü", "ÉÜ", "éÜ")]
        {
            assert_eq!((pascal_case(name), camel_case(name)), (pascal.to_owned(), camel.to_owned()));
        }
    }
}
