//! `#[index(…)]`: rows with other keys that follow from an entity.

use crate::entity::{EntityStruct, Errors, check_table, pascal_case};
use crate::expand::put;
use crate::field::{Field, Role};
use crate::key;
use crate::template::Piece;
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Attribute, DeriveInput, Error, LitStr, Token};

/// An update changes the entity, and for each index deletes a row and writes one: 100 changes are a transaction.
const MAX_INDEXES: usize = 49;

pub(crate) struct Index {
    pub(crate) name: Ident,
    table: Option<LitStr>,
    partition: Option<LitStr>,
    row: LitStr,
    /// What is copied besides the keys; `None`: everything.
    fields: Option<Vec<Ident>>,
    partition_pieces: Vec<Piece>,
    row_pieces: Vec<Piece>,
}

impl Index {
    pub(crate) fn parse_all(entity: &EntityStruct, input: &DeriveInput) -> Result<Vec<Self>, Error> {
        let mut errors = Errors::default();
        let mut indexes: Vec<Self> = Vec::new();
        for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("index")) {
            if let Some(index) = errors.take(Self::parse(entity, attribute)) {
                errors.take(index.check(entity, &indexes));
                indexes.push(index);
            }
        }
        if indexes.len() > MAX_INDEXES {
            let message = format!(
                "an entity has at most {MAX_INDEXES} indexes: to change one is a transaction, which has at most 100 changes"
            );
            errors.add(Error::new(input.ident.span(), message));
        }
        errors.0.map_or(Ok(indexes), Err)
    }

    fn parse(entity: &EntityStruct, attribute: &Attribute) -> Result<Self, Error> {
        let usage = "write #[index(by_email, row = \"email_{email}\")], with `partition = \"…\"` if it is in another partition \
                     and `fields(…)` if not everything is copied";
        let (mut name, mut table, mut partition, mut row) = (None, None, None, None);
        let mut fields = None;
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("row") {
                row = Some(meta.value()?.parse::<LitStr>()?);
            } else if meta.path.is_ident("partition") {
                partition = Some(meta.value()?.parse::<LitStr>()?);
            } else if meta.path.is_ident("table") {
                let said: LitStr = meta.value()?.parse()?;
                check_table(&said)?;
                table = Some(said);
            } else if meta.path.is_ident("fields") {
                fields = Some(list::<Ident>(meta.input)?);
            } else if name.is_none() && !meta.input.peek(Token![=]) {
                name = Some(meta.path.require_ident()?.clone());
            } else {
                return Err(meta.error(usage));
            }
            Ok(())
        })?;
        let Some((name, row)) = name.zip(row) else { return Err(Error::new_spanned(attribute, usage)) };
        let partition_pieces = entity.pieces(partition.as_ref().unwrap_or(&entity.keys.0))?;
        let row_pieces = entity.pieces(&row)?;
        Ok(Self { name, table, partition, row, fields, partition_pieces, row_pieces })
    }

    fn check(&self, entity: &EntityStruct, others: &[Self]) -> Result<(), Error> {
        let mut errors = Errors::default();
        for field in self.fields.iter().flatten() {
            match entity.field(&field.to_string()) {
                None => errors.add(Error::new(field.span(), format!("there is no field `{field}`"))),
                Some(known) if known.role == Role::Skip => {
                    errors.add(Error::new(field.span(), format!("`{field}` is not stored: leave it out")));
                }
                Some(_) => {}
            }
        }
        // In the table of the entity, rows of different kinds begin differently.
        let own = [("the entity itself".to_owned(), &entity.partition, &entity.row, None)];
        let known = others.iter().map(|other| {
            let name = format!("the index `{}`", other.name);
            (name, &other.partition_pieces, &other.row_pieces, other.table.as_ref())
        });
        for (name, partition, row, table) in own.into_iter().chain(known) {
            let is_same_table = table_name(entity, table) == table_name(entity, self.table.as_ref());
            if is_same_table
                && begin_alike(prefix(partition), prefix(&self.partition_pieces))
                && begin_alike(prefix(row), prefix(&self.row_pieces))
            {
                let message = format!(
                    "rows of this index begin like those of {name}, so they cannot be told apart: let `row` begin with a \
                     literal of its own, for example `{}_…`",
                    self.name.to_string().trim_start_matches("by_")
                );
                errors.add(Error::new(self.row.span(), message));
            }
        }
        if let Some(other) = others.iter().find(|other| other.name == self.name) {
            errors.add(Error::new(self.name.span(), format!("there is an index `{}` before", other.name)));
        }
        if !self.is_within_partition() {
            errors.take(self.check_is_unique(entity));
        }
        errors.0.map_or(Ok(()), Err)
    }

    /// Rows of other partitions are written without a look at what is there: two entities must never share one.
    fn check_is_unique(&self, entity: &EntityStruct) -> Result<(), Error> {
        let own = entity.key_fields(&[&self.partition_pieces, &self.row_pieces]);
        let missing = entity
            .key_fields(&[&entity.partition, &entity.row])
            .into_iter()
            .find(|field| entity.is_in_key(field) && !own.iter().any(|known| known.name == field.name));
        match missing {
            Some(field) => Err(Error::new(
                self.row.span(),
                format!(
                    "two entities that differ only in `{}` would share a row of this index: name every field of the key, \
                     as in `…_{{{}}}`",
                    field.name, field.name
                ),
            )),
            None => Ok(()),
        }
    }

    /// Whether its rows can be written in one transaction with the entity.
    pub(crate) fn is_within_partition(&self) -> bool {
        self.partition.is_none() && self.table.is_none()
    }

    /// Whether it depends on the field.
    pub(crate) fn has(&self, entity: &EntityStruct, field: &Field) -> bool {
        field.role != Role::Skip
            && match &self.fields {
                None => true,
                Some(fields) => {
                    let keys: [&[Piece]; 4] =
                        [&entity.partition, &entity.row, &self.partition_pieces, &self.row_pieces];
                    fields.contains(&field.name)
                        || entity.key_fields(&keys).iter().any(|known| known.name == field.name)
                }
            }
    }

    /// The type of its entries.
    fn entry(&self, entity: &EntityStruct) -> Ident {
        let name = pascal_case(self.name.to_string().trim_start_matches("r#"));
        format_ident!("{}{name}", entity.name, span = self.name.span())
    }

    fn builder(&self, entity: &EntityStruct) -> Ident {
        format_ident!("{}Partition", self.entry(entity))
    }

    /// Whether the field is a part of the entry's keys, and so no property of it.
    fn is_in_key(&self, field: &Field) -> bool {
        self.partition_pieces.iter().chain(&self.row_pieces).any(|piece| match piece {
            Piece::Field { name, spec } => field.name == name && spec.is_readable(),
            Piece::Literal(_) => false,
        })
    }

    /// The struct of its entries, which derives `Entity` in turn.
    fn entry_struct(&self, entity: &EntityStruct) -> TokenStream {
        let (name, visibility, primary) = (self.entry(entity), &entity.visibility, &entity.name);
        let derives = &entity.entry_derives;
        let table = table_name(entity, self.table.as_ref());
        let rename = entity.rename_all.as_ref().map(|style| quote!(rename_all = #style,));
        let append = entity.is_append_only_fine.then(|| quote!(append_only_is_fine,));
        let (partition, row) = (self.partition.as_ref().unwrap_or(&entity.keys.0), &self.row);
        let fields = entity.fields.iter().filter(|field| self.has(entity, field)).map(|field| {
            let (name, ty) = (&field.name, &field.full_ty);
            // What is part of the key is no property, whatever it is in the entity.
            let attributes = field.attributes.iter().filter(|_| !self.is_in_key(field));
            quote!(#(#attributes)* #visibility #name: #ty)
        });
        let arguments = entity
            .key_fields(&[&entity.partition, &entity.row])
            .into_iter()
            .map(key::argument)
            .collect::<Vec<_>>();
        let doc = format!("An entry of the index `{}` of [`{primary}`].", self.name);
        quote! {
            #[doc = #doc]
            #[derive(::tepui_client::Entity, #(#derives),*)]
            #[entity(table = #table, __entry, #rename #append)]
            #[key(partition = #partition, row = #row)]
            #[allow(dead_code)]
            #visibility struct #name {
                #(#fields,)*
            }

            impl ::tepui_client::entity::typed::IndexEntry for #name {
                type Primary = #primary;

                fn primary_key(&self) -> ::std::result::Result<::tepui_client::EntityKey, ::tepui_client::Error> {
                    #primary::key(#(#arguments),*)
                }
            }
        }
    }

    /// An entry with everything is the entity under another key.
    fn conversion(&self, entity: &EntityStruct) -> Option<TokenStream> {
        if self.fields.is_some() {
            return None;
        }
        let (name, primary) = (self.entry(entity), &entity.name);
        let fields = entity.fields.iter().map(|field| {
            let name = &field.name;
            match field.role {
                Role::Skip => quote!(#name: ::std::default::Default::default()),
                _ => quote!(#name: entry.#name),
            }
        });
        Some(quote! {
            impl ::std::convert::From<#name> for #primary {
                fn from(entry: #name) -> Self {
                    Self { #(#fields,)* }
                }
            }
        })
    }

    /// An expression for the row that follows from `self`.
    fn copy(&self, entity: &EntityStruct) -> TokenStream {
        let name = self.entry(entity);
        let arguments =
            entity.key_fields(&[&self.partition_pieces, &self.row_pieces]).into_iter().map(key::argument);
        let is_property = |field: &&Field| {
            self.has(entity, field)
                && !matches!(field.role, Role::Skip | Role::Rest)
                && !self.is_in_key(field)
        };
        let puts = entity.fields.iter().filter(is_property).map(|field| {
            let name = &field.name;
            put(field, quote!(self.#name))
        });
        let put_rest = entity.rest().filter(|field| self.has(entity, field)).map(|field| {
            let name = &field.name;
            quote!(::tepui_client::entity::typed::put_rest(&mut properties, &self.#name)?;)
        });
        let table = match &self.table {
            Some(table) => quote!(::std::option::Option::Some(::std::string::String::from(#table))),
            None => quote!(::std::option::Option::None),
        };
        quote! {{
            #[allow(unused_mut)]
            let mut properties = ::tepui_client::entity::PropertiesBuilder::new();
            #(#puts)*
            #put_rest
            ::tepui_client::patterns::copies::CopyRow {
                table: #table,
                key: #name::key(#(#arguments),*)?,
                properties: properties.finish(),
            }
        }}
    }

    /// A method of the builder of the entity's partition, for an index in the same one.
    pub(crate) fn builder_method(&self, entity: &EntityStruct) -> Option<TokenStream> {
        let (name, builder) = (&self.name, self.builder(entity));
        let doc = format!("The entries of the index `{name}` of this partition.");
        let visibility = &entity.visibility;
        self.is_within_partition().then(|| {
            quote! {
                #[doc = #doc]
                #[allow(dead_code)]
                #visibility fn #name(self) -> #builder {
                    #builder(self.0.of())
                }
            }
        })
    }

    /// A function of the entity, for an index in other partitions.
    pub(crate) fn function(&self, entity: &EntityStruct) -> Option<TokenStream> {
        let (name, entry, builder) = (&self.name, self.entry(entity), self.builder(entity));
        let (visibility, primary) = (&entity.visibility, &entity.name);
        let fields = entity.key_fields(&[&self.partition_pieces]);
        let parameters = fields.iter().copied().map(key::parameter);
        let arguments = fields.iter().map(|field| &field.name);
        let doc =
            format!("The entries of the index `{name}` of a partition. They may be behind the entities.");
        (!self.is_within_partition()).then(|| {
            quote! {
                #[doc = #doc]
                #[allow(dead_code)]
                #visibility fn #name(table: &::tepui_client::Table<#primary>, #(#parameters),*) -> #builder {
                    let table = table.sibling_of::<#entry>();
                    #builder(::tepui_client::Query::of_partition(&table, #entry::partition_key(#(#arguments),*)))
                }
            }
        })
    }
}

/// Everything that indexes add to an entity.
pub(crate) fn expand(entity: &EntityStruct) -> TokenStream {
    if entity.indexes.is_empty() {
        return TokenStream::new();
    }
    let name = &entity.name;
    let structs = entity.indexes.iter().map(|index| index.entry_struct(entity));
    let conversions = entity.indexes.iter().filter_map(|index| index.conversion(entity));
    let copies = entity.indexes.iter().map(|index| index.copy(entity));
    let within = entity.indexes.iter().all(Index::is_within_partition).then(|| {
        quote_spanned!(name.span()=>
            impl ::tepui_client::patterns::index_within_partition::CopiesWithinPartition for #name {}
        )
    });
    quote! {
        #(#structs)*
        #(#conversions)*

        impl ::tepui_client::patterns::copies::Copies for #name {
            fn copies(&self) -> ::std::result::Result<
                ::std::vec::Vec<::tepui_client::patterns::copies::CopyRow>,
                ::tepui_client::Error,
            > {
                ::std::result::Result::Ok(::std::vec![#(#copies),*])
            }
        }

        #within
    }
}

/// What stands in parentheses, which may be nothing.
pub(crate) fn list<T: Parse>(input: ParseStream<'_>) -> Result<Vec<T>, Error> {
    let content;
    syn::parenthesized!(content in input);
    Ok(Punctuated::<T, Token![,]>::parse_terminated(&content)?.into_iter().collect())
}

fn table_name(entity: &EntityStruct, said: Option<&LitStr>) -> String {
    said.map_or_else(|| entity.table.clone(), LitStr::value)
}

fn prefix(pieces: &[Piece]) -> &str {
    match pieces.first() {
        Some(Piece::Literal(text)) => text,
        _ => "",
    }
}

fn begin_alike(a: &str, b: &str) -> bool {
    a.starts_with(b) || b.starts_with(a)
}
