//! An enum of the kinds of entities that one table holds.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Fields, Ident, Type};

pub(crate) struct EntityEnum {
    name: Ident,
    kinds: Vec<Kind>,
    /// Takes what is none of the kinds.
    other: Option<Kind>,
}

struct Kind {
    name: Ident,
    ty: Type,
}

impl EntityEnum {
    pub(crate) fn parse(input: &DeriveInput) -> Result<Self, Error> {
        let Data::Enum(data) = &input.data else {
            return Err(Error::new(
                input.ident.span(),
                "the kinds of entities of a table are an enum; a struct derives `Entity`",
            ));
        };
        if !input.generics.params.is_empty() {
            return Err(Error::new_spanned(&input.generics, "an enum of entities has no parameters"));
        }
        let mut parsed = Self { name: input.ident.clone(), kinds: Vec::new(), other: None };
        for variant in &data.variants {
            let field = match &variant.fields {
                Fields::Unnamed(fields) if fields.unnamed.len() == 1 => fields.unnamed.first(),
                _ => None,
            };
            let Some(field) = field else {
                let name = &variant.ident;
                return Err(Error::new_spanned(
                    variant,
                    format!("a kind is one entity: write `{name}({name})`"),
                ));
            };
            let kind = Kind { name: variant.ident.clone(), ty: field.ty.clone() };
            let is_other = variant.attrs.iter().any(|attribute| attribute.path().is_ident("other"));
            if !is_other {
                parsed.kinds.push(kind);
            } else if parsed.other.replace(kind).is_some() {
                return Err(Error::new_spanned(
                    variant,
                    "one variant takes what is none of the kinds, not two",
                ));
            }
        }
        if parsed.kinds.is_empty() {
            return Err(Error::new(input.ident.span(), "there are no kinds: write one variant for each"));
        }
        Ok(parsed)
    }

    pub(crate) fn expand(&self) -> TokenStream {
        let name = &self.name;
        let all: Vec<_> = self.kinds.iter().chain(&self.other).map(|kind| &kind.name).collect();
        let reads = self.kinds.iter().map(|Kind { name, ty }| {
            // Kinds whose keys begin the same are told apart by what they say they are.
            let others = self.kinds.iter().filter(|other| other.name != *name).map(|other| &other.ty);
            let needs_kind =
                quote!(false #(|| ::tepui_client::entity::typed::keys_collide::<#ty, #others>())*);
            quote_spanned! {ty.span()=>
                if ::tepui_client::entity::typed::is_of::<#ty>(stored, #needs_kind) {
                    return <#ty as ::tepui_client::Entity>::from_stored(stored).map(Self::#name);
                }
            }
        });
        let read_other = match &self.other {
            Some(Kind { name, ty }) => {
                quote!(<#ty as ::tepui_client::Entity>::from_stored(stored).map(Self::#name))
            }
            None => {
                quote!(::std::result::Result::Err(::tepui_client::entity::typed::unknown_kind(&stored.key)))
            }
        };
        let checks = self.checks();
        let first = &self.kinds[0].ty;
        let types = self.kinds.iter().map(|kind| &kind.ty);
        quote! {
            impl ::tepui_client::Entity for #name {
                const IS_WRITTEN_WITH_OTHERS: bool =
                    false #(|| <#types as ::tepui_client::Entity>::IS_WRITTEN_WITH_OTHERS)*;

                fn entity_key(&self) -> ::std::result::Result<::tepui_client::EntityKey, ::tepui_client::Error> {
                    match self {
                        #(Self::#all(entity) => ::tepui_client::Entity::entity_key(entity),)*
                    }
                }

                fn to_properties(&self)
                    -> ::std::result::Result<::tepui_client::entity::Properties, ::tepui_client::Error>
                {
                    match self {
                        #(Self::#all(entity) => ::tepui_client::Entity::to_properties(entity),)*
                    }
                }

                fn from_stored(stored: &::tepui_client::StoredEntity)
                    -> ::std::result::Result<Self, ::tepui_client::Error>
                {
                    #(#reads)*
                    #read_other
                }
            }

            impl ::tepui_client::entity::typed::TypedEntity for #name {
                const TABLE: &'static str = <#first as ::tepui_client::entity::typed::TypedEntity>::TABLE;
                const PARTITION_PREFIX: &'static str = "";
                const ROW_PREFIX: &'static str = "";
                const PROPERTIES: &'static [&'static str] = &[];
            }

            impl ::tepui_client::entity::typed::Keyed for #name {
                type PartitionParts<'a> = &'a str;
                type Rows = ::tepui_client::Query<Self>;

                fn partition(table: &::tepui_client::Table<Self>, key: &str) -> ::tepui_client::Query<Self> {
                    table.query().partition(key)
                }
            }

            #(#checks)*
        }
    }

    /// Each pair of kinds is told apart by how keys begin or by what they say they are, and in the same table.
    fn checks(&self) -> Vec<TokenStream> {
        let mut checks = Vec::new();
        for (index, kind) in self.kinds.iter().enumerate() {
            for before in &self.kinds[..index] {
                let (one, two) = (&before.ty, &kind.ty);
                let collide = format!(
                    "keys of `{}` and `{}` begin the same: give each kind a literal of its own, such as `row = \"empid_…\"`, or say `kind = \"…\"` in each",
                    before.name, kind.name
                );
                let tables = format!("`{}` and `{}` are in different tables", before.name, kind.name);
                checks.push(quote_spanned! {two.span()=>
                    const _: () = {
                        ::std::assert!(::tepui_client::entity::typed::is_same_table::<#one, #two>(), #tables);
                        ::std::assert!(
                            !::tepui_client::entity::typed::keys_collide::<#one, #two>()
                                || ::tepui_client::entity::typed::is_different_kind::<#one, #two>(),
                            #collide
                        );
                    };
                });
            }
        }
        checks
    }
}
