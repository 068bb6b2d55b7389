//! Fields of an entity: what their attributes say.

use crate::template::Spec;
use proc_macro2::Span;
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Error, GenericArgument, Ident, LitStr, PathArguments, Token, Type};

/// A field of the struct.
pub(crate) struct Field {
    pub(crate) name: Ident,
    /// Without `Option`.
    pub(crate) ty: Type,
    /// As it was written.
    pub(crate) full_ty: Type,
    /// What was said of it, to be said again of a copy.
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) is_optional: bool,
    pub(crate) role: Role,
    /// Only clients with the key can read it.
    pub(crate) is_encrypted: bool,
    /// The name of its property.
    pub(crate) property: String,
    /// Where that name was said, or the field.
    pub(crate) property_span: Span,
}

/// What becomes of a field that is not read from the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Property,
    /// A String that it prints itself as.
    Text,
    Json,
    /// Text or bytes in several properties.
    Split,
    Skip,
    Rest,
}

/// The most properties that a value is split over.
pub(crate) const MAX_PIECES: usize = 15;

/// What a type can be as part of a key, as far as its name tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Unsigned,
    Signed,
    Float,
    Time,
    Text,
    Unknown,
}

impl Kind {
    /// How a field of this kind is written into a key.
    pub(crate) fn takes(self, spec: Spec) -> bool {
        match spec {
            Spec::Plain | Spec::Ordered => matches!(self, Self::Text | Self::Unknown),
            Spec::Padded(_) => matches!(self, Self::Unsigned | Self::Unknown),
            Spec::Signed => matches!(self, Self::Signed | Self::Unknown),
            Spec::Float => matches!(self, Self::Float | Self::Unknown),
            Spec::Ascending | Spec::Descending | Spec::Seconds => matches!(self, Self::Time | Self::Unknown),
            Spec::Hash(_) => true,
        }
    }

    pub(crate) fn advice(self, name: &str) -> String {
        match self {
            Self::Unsigned => format!(
                "a number, which sorts right only with a fixed number of digits: write `{{{name}:06}}`"
            ),
            Self::Signed => format!("a number with a sign: write `{{{name}:signed}}`"),
            Self::Float => format!("a number with a fraction: write `{{{name}:float}}`"),
            Self::Time => {
                format!("a time: write `{{{name}:asc}}`, or `{{{name}:desc}}` for the newest first")
            }
            Self::Text | Self::Unknown => {
                format!("text: write `{{{name}}}`, or `{{{name}:ordered}}` for any text in its order")
            }
        }
    }
}

impl Field {
    pub(crate) fn parse(field: &syn::Field, rename: fn(&str) -> String) -> Result<Self, Error> {
        let name = field.ident.clone().ok_or_else(|| Error::new_spanned(field, "a field without a name"))?;
        let plain_name = name.to_string().trim_start_matches("r#").to_owned();
        let mut parsed = Self {
            property: rename(&plain_name),
            property_span: name.span(),
            ty: field.ty.clone(),
            full_ty: field.ty.clone(),
            attributes: Vec::new(),
            is_optional: false,
            role: Role::Property,
            is_encrypted: false,
            name,
        };
        if let Some(inner) = option_of(&field.ty) {
            (parsed.ty, parsed.is_optional) = (inner.clone(), true);
        }
        for attribute in &field.attrs {
            let path = attribute.path();
            if ["property", "json", "split", "rest", "encrypt"].iter().any(|name| path.is_ident(name)) {
                parsed.attributes.push(attribute.clone());
            }
            if path.is_ident("encrypt") {
                parsed.is_encrypted = true;
                continue;
            }
            let role = if path.is_ident("property") {
                let said: PropertyAttribute = attribute.parse_args()?;
                if let Some(name) = said.name {
                    (parsed.property, parsed.property_span) = (name.value(), name.span());
                }
                if !said.is_text {
                    continue;
                }
                Role::Text
            } else if path.is_ident("json") {
                Role::Json
            } else if path.is_ident("split") {
                Role::Split
            } else if path.is_ident("skip") {
                Role::Skip
            } else if path.is_ident("rest") {
                Role::Rest
            } else {
                if ["key", "entity", "index", "upgrade"].iter().any(|name| path.is_ident(name)) {
                    return Err(Error::new_spanned(attribute, "this belongs to the struct, not to a field"));
                }
                continue;
            };
            if parsed.role != Role::Property {
                let message = "a field is one of `as = \"String\"`, #[json], #[split], #[skip] and #[rest]: leave out the others";
                return Err(Error::new_spanned(attribute, message));
            }
            parsed.role = role;
        }
        parsed.check()?;
        Ok(parsed)
    }

    /// The names of the properties that it takes.
    pub(crate) fn property_names(&self) -> Vec<String> {
        let pieces = if self.role == Role::Split { MAX_PIECES } else { 1 };
        let name = |piece| match piece {
            0 => self.property.clone(),
            piece => format!("{}{piece}", self.property),
        };
        (0..pieces).map(name).collect()
    }

    /// The constant that stands for it, in capitals.
    pub(crate) fn constant(&self) -> String {
        constant_name(&self.name)
    }

    pub(crate) fn kind(&self) -> Kind {
        match type_name(&self.ty).as_deref() {
            Some("u8" | "u16" | "u32" | "u64" | "usize") => Kind::Unsigned,
            Some("i8" | "i16" | "i32" | "i64" | "isize") => Kind::Signed,
            Some("f32" | "f64") => Kind::Float,
            Some("Timestamp") => Kind::Time,
            Some("String" | "Guid") => Kind::Text,
            _ => Kind::Unknown,
        }
    }

    /// Whether it is handed over as `&str`; other parts of keys are copied.
    pub(crate) fn is_string(&self) -> bool {
        type_name(&self.ty).as_deref() == Some("String")
    }

    fn check(&self) -> Result<(), Error> {
        if self.is_encrypted && !matches!(self.role, Role::Property | Role::Text | Role::Json) {
            let message = "#[encrypt] is for a field that is one property: leave out the other attribute";
            return Err(Error::new(self.name.span(), message));
        }
        if matches!(self.role, Role::Skip | Role::Rest) {
            return Ok(());
        }
        let error = |message: String| Err(Error::new(self.property_span, message));
        let name = &self.property;
        if ["PartitionKey", "RowKey", "Timestamp"].contains(&name.as_str()) {
            return error(format!(
                "`{name}` is a property that every entity has: choose another name with #[property(\"…\")]"
            ));
        }
        if ["_WriteToken", "_ClientEncryptionMetadata1", "_ClientEncryptionMetadata2"]
            .contains(&name.as_str())
        {
            return error(format!(
                "the client itself has a property `{name}`: choose another name with #[property(\"…\")]"
            ));
        }
        let is_letter = |character: char| character.is_alphabetic() || character == '_';
        let is_spelled = name.starts_with(is_letter) && name.chars().all(|c| is_letter(c) || c.is_numeric());
        let longest = if self.role == Role::Split { 253 } else { 255 };
        if !is_spelled || name.encode_utf16().count() > longest {
            return error(format!(
                "`{name}` cannot be the name of a property: use up to 255 letters, digits and `_`, no digit first"
            ));
        }
        Ok(())
    }

    /// Whether a table has a type for it. Only for fields that become properties as they are.
    pub(crate) fn check_type(&self) -> Result<(), Error> {
        if self.role == Role::Split
            && !["String", "Vec"].contains(&type_name(&self.ty).unwrap_or_default().as_str())
        {
            let message =
                "only `String` and `Vec<u8>` can be split over several properties: leave out #[split]";
            return Err(Error::new_spanned(&self.ty, message));
        }
        let wide = ["u64", "usize", "isize", "u128", "i128"];
        if let Some(name) = type_name(&self.ty)
            && self.role == Role::Property
            && wide.contains(&name.as_str())
        {
            let message = format!(
                "tables have no type for `{name}`: use i64 or u32, or write #[property(as = \"String\")] to store its digits"
            );
            return Err(Error::new_spanned(&self.ty, message));
        }
        Ok(())
    }
}

/// The name of a constant for a field.
pub(crate) fn constant_name(field: &Ident) -> String {
    field.to_string().trim_start_matches("r#").to_uppercase()
}

/// `#[property("Name", as = "String")]`, either part alone or both.
struct PropertyAttribute {
    name: Option<LitStr>,
    is_text: bool,
}

impl Parse for PropertyAttribute {
    fn parse(input: ParseStream<'_>) -> Result<Self, Error> {
        let usage = "write #[property(\"Name\")], #[property(as = \"String\")] or #[property(\"Name\", as = \"String\")]";
        let mut parsed = Self { name: None, is_text: false };
        if input.peek(LitStr) {
            parsed.name = Some(input.parse()?);
            if input.is_empty() {
                return Ok(parsed);
            }
            input.parse::<Token![,]>()?;
        }
        if !input.peek(Token![as]) {
            return Err(input.error(usage));
        }
        input.parse::<Token![as]>()?;
        input.parse::<Token![=]>()?;
        let stored_as: LitStr = input.parse()?;
        if stored_as.value() != "String" {
            return Err(Error::new(
                stored_as.span(),
                "a property can be stored as \"String\"; other types follow from the field's",
            ));
        }
        parsed.is_text = true;
        if input.is_empty() { Ok(parsed) } else { Err(input.error(usage)) }
    }
}

fn option_of(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == "Option")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first() {
        Some(GenericArgument::Type(inner)) => Some(inner),
        _ => None,
    }
}

fn type_name(ty: &Type) -> Option<String> {
    let Type::Path(path) = ty else { return None };
    path.path.segments.last().map(|last| last.ident.to_string())
}
