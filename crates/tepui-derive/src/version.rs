//! Kinds of entities, and versions of each: what the attributes say of them.

use syn::{DeriveInput, Error, LitInt, LitStr, Type};

/// `kind = "Employee", version = 2` of `#[entity(…)]`.
pub(crate) fn kind_and_version(
    kind: Option<LitStr>,
    version: Option<LitInt>,
) -> Result<Option<(String, u32)>, Error> {
    match (kind, version) {
        (None, None) => Ok(None),
        (Some(kind), None) => Ok(Some((kind.value(), 1))),
        (None, Some(version)) => {
            let message = "a version is of a kind, which is stored with it: add `kind = \"Employee\"`";
            Err(Error::new(version.span(), message))
        }
        (Some(kind), Some(version)) => match version.base10_parse::<u32>()? {
            0 => Err(Error::new(version.span(), "the first version is 1")),
            number => Ok(Some((kind.value(), number))),
        },
    }
}

/// `#[upgrade(from = EmployeeV1)]`: every version but the first has one before it.
pub(crate) fn upgrade_from(input: &DeriveInput, kind: Option<&(String, u32)>) -> Result<Option<Type>, Error> {
    let said = input.attrs.iter().find(|attribute| attribute.path().is_ident("upgrade"));
    let name = &input.ident;
    match (said, kind) {
        (Some(said), Some((_, 2..))) => {
            let mut from = None;
            said.parse_nested_meta(|meta| {
                if !meta.path.is_ident("from") {
                    return Err(
                        meta.error("write #[upgrade(from = EmployeeV1)]: the struct of the version before")
                    );
                }
                from = Some(meta.value()?.parse()?);
                Ok(())
            })?;
            from.map(Some).ok_or_else(|| Error::new_spanned(said, "write #[upgrade(from = EmployeeV1)]"))
        }
        (Some(said), _) => {
            let message = "there is nothing to upgrade from: say `kind = \"…\", version = 2` in #[entity(…)], or leave this out";
            Err(Error::new_spanned(said, message))
        }
        (None, Some((kind, version @ 2..))) => {
            let before = version - 1;
            let message = format!(
                "version {version} of `{kind}` cannot read what version {before} has written: keep its struct as \
                 `{name}V{before}`, write `impl From<{name}V{before}> for {name}` and #[upgrade(from = {name}V{before})]"
            );
            Err(Error::new(name.span(), message))
        }
        (None, _) => Ok(None),
    }
}
