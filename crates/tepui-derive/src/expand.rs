//! The code that the macro writes.

use crate::entity::EntityStruct;
use crate::field::{Field, Role};
use crate::template::Piece;
use crate::{index, key, rows};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::Type;
use syn::spanned::Spanned;

pub(crate) fn expand(entity: &EntityStruct) -> TokenStream {
    let (name, visibility) = (&entity.name, &entity.visibility);
    let fields_name = format_ident!("{name}Fields");
    let keys = keys(entity);
    let columns = columns(entity);
    let ranges = key::ranges(entity);
    let all_partition_keys = rows::all_partition_keys(entity);
    let index_functions = entity.indexes.iter().filter_map(|index| index.function(entity));
    let implementation = implementation(entity);
    let table = &entity.table;
    let properties = entity.property_names();
    let (partition_prefix, row_prefix) = (prefix(&entity.partition), prefix(&entity.row));
    let kind = entity.kind.as_ref().map(|(kind, version)| {
        quote! {
            const KIND: &'static str = #kind;
            const VERSION: u32 = #version;
        }
    });
    let upgrade = entity.upgrade_from.as_ref().map(|from| check_upgrade(from, name));
    let Traits { typed, replace, .. } = Traits::of(entity);
    let replace = (entity.is_closed || entity.rest().is_some()).then(|| quote!(impl #replace for #name {}));
    // Projections and queries of the keys' parts are for what is stored as it is.
    let queries = (!entity.is_encrypted()).then(|| {
        let fields = fields(entity);
        let (rows, indexes) = (rows::expand(entity), index::expand(entity));
        quote! {
            #[doc(hidden)]
            #visibility struct #fields_name;

            #[allow(non_upper_case_globals, dead_code, clippy::needless_question_mark, clippy::type_complexity)]
            impl #fields_name {
                #(#fields)*
            }

            impl ::tepui_client::entity::typed::HasFields for #name {
                type Fields = #fields_name;
            }

            #rows
            #indexes
        }
    });
    quote! {
        #[allow(clippy::too_many_arguments)]
        impl #name {
            #keys
            #all_partition_keys
            #(#ranges)*
            #(#index_functions)*
            #(#columns)*
        }

        #implementation

        impl #typed for #name {
            const TABLE: &'static str = #table;
            const PARTITION_PREFIX: &'static str = #partition_prefix;
            const ROW_PREFIX: &'static str = #row_prefix;
            const PROPERTIES: &'static [&'static str] = &[#(#properties),*];
            #kind
        }

        #upgrade
        #replace
        #queries
    }
}

/// What is upgraded from is the version before, of the same kind.
fn check_upgrade(from: &Type, name: &Ident) -> TokenStream {
    let text = quote!(#from).to_string();
    let message = format!(
        "`{text}` is not the version before this one: it needs the same `kind`, and `version` one less"
    );
    quote_spanned! {from.span()=>
        const _: () = ::std::assert!(::tepui_client::entity::typed::is_next_version::<#from, #name>(), #message);
    }
}

/// What a struct becomes. With encrypted fields it is no `Entity`, so that it cannot be written in the clear, nor merged.
struct Traits {
    entity: TokenStream,
    typed: TokenStream,
    replace: TokenStream,
    check_key: TokenStream,
}

impl Traits {
    fn of(entity: &EntityStruct) -> Self {
        if entity.is_encrypted() {
            let module = quote!(::tepui_client::patterns::encryption);
            return Self {
                entity: quote!(#module::EncryptedEntity),
                typed: quote!(#module::TypedEncryptedEntity),
                replace: quote!(#module::ReplaceEncryptedEntity),
                check_key: quote!(#module::check_key),
            };
        }
        Self {
            entity: quote!(::tepui_client::Entity),
            typed: quote!(::tepui_client::entity::typed::TypedEntity),
            replace: quote!(::tepui_client::ReplaceEntity),
            check_key: quote!(::tepui_client::entity::typed::check_key),
        }
    }
}

/// The literal that all keys begin with.
fn prefix(pieces: &[Piece]) -> &str {
    match pieces.first() {
        Some(Piece::Literal(text)) => text,
        _ => "",
    }
}

/// Functions that make keys of their parts.
fn keys(entity: &EntityStruct) -> TokenStream {
    let visibility = &entity.visibility;
    let function = |pieces: &[&[Piece]]| {
        let fields = entity.key_fields(pieces);
        let parameters: Vec<_> = fields.iter().copied().map(key::parameter).collect();
        let names: Vec<_> = fields.iter().map(|field| field.name.clone()).collect();
        (parameters, names)
    };
    let (partition_parameters, partition_names) = function(&[&entity.partition]);
    let (row_parameters, row_names) = function(&[&entity.row]);
    let (parameters, _) = function(&[&entity.partition, &entity.row]);
    let (partition, row) = (key::write(entity, &entity.partition), key::write(entity, &entity.row));
    quote! {
        /// Both keys, made of their parts.
        #visibility fn key(#(#parameters),*) -> ::std::result::Result<::tepui_client::EntityKey, ::tepui_client::Error> {
            ::std::result::Result::Ok(::tepui_client::EntityKey::new(
                Self::partition_key(#(#partition_names),*)?,
                Self::row_key(#(#row_names),*)?,
            ))
        }

        /// The PartitionKey, made of its parts.
        #visibility fn partition_key(#(#partition_parameters),*)
            -> ::std::result::Result<::std::string::String, ::tepui_client::Error>
        {
            ::std::result::Result::Ok(#partition.finish()?)
        }

        /// The RowKey, made of its parts.
        #visibility fn row_key(#(#row_parameters),*)
            -> ::std::result::Result<::std::string::String, ::tepui_client::Error>
        {
            ::std::result::Result::Ok(#row.finish()?)
        }
    }
}

/// A constant for each property that filters can name.
fn columns(entity: &EntityStruct) -> Vec<TokenStream> {
    let visibility = &entity.visibility;
    let is_comparable = |field: &&Field| field.role == Role::Property && !field.is_encrypted;
    let column = |field: &Field| {
        let name = format_ident!("{}", field.constant(), span = field.name.span());
        let (ty, property) = (&field.ty, &field.property);
        let doc = format!("The property `{property}`, for filters.");
        quote_spanned! {field.ty.span()=>
            #[doc = #doc]
            #[allow(dead_code)]
            #visibility const #name: ::tepui_client::entity::typed::Column<Self, #ty> =
                ::tepui_client::entity::typed::Column::new(#property);
        }
    };
    entity.properties().filter(is_comparable).map(column).collect()
}

/// A constant for each field that projections can have.
fn fields(entity: &EntityStruct) -> Vec<TokenStream> {
    let (entity_name, visibility) = (&entity.name, &entity.visibility);
    let read_names: Vec<_> =
        entity.fields.iter().filter(|field| entity.is_in_key(field)).map(|field| &field.name).collect();
    let field = |field: &Field| {
        let (name, ty, is_key) = (&field.name, &field.full_ty, entity.is_in_key(field));
        let is_indexed = entity.is_indexed(field);
        let (properties, read, write) = if is_key {
            let read = quote! {{
                #[allow(unused_variables)]
                let (#(#read_names,)*) = #entity_name::read_keys(stored).map_err(::tepui_client::entity::typed::other_key)?;
                ::std::result::Result::Ok(#name)
            }};
            (Vec::new(), quote!(|stored| #read), quote!(|_, _| ::std::result::Result::Ok(())))
        } else {
            let (get, put) = (get(field), put_value(field));
            let write = quote!(|properties, value| {
                #put
                ::std::result::Result::Ok(())
            });
            (field.property_names(), quote!(|stored| ::std::result::Result::Ok(#get)), write)
        };
        quote! {
            #visibility const #name: ::tepui_client::entity::typed::Field<#entity_name, #ty> =
                ::tepui_client::entity::typed::Field {
                    properties: &[#(#properties),*],
                    is_indexed: #is_indexed,
                    is_key: #is_key,
                    read: #read,
                    write: #write,
                    entity: ::std::marker::PhantomData,
                };
        }
    };
    let is_stored = |field: &&Field| !matches!(field.role, Role::Skip | Role::Rest);
    entity.fields.iter().filter(is_stored).map(field).collect()
}

fn implementation(entity: &EntityStruct) -> TokenStream {
    let name = &entity.name;
    let Traits { entity: entity_trait, check_key, .. } = Traits::of(entity);
    let encrypted: Vec<_> =
        entity.fields.iter().filter(|field| field.is_encrypted).map(|field| &field.property).collect();
    let encrypted =
        entity.is_encrypted().then(|| quote!(const ENCRYPTED: &'static [&'static str] = &[#(#encrypted),*];));
    let key_fields = entity.key_fields(&[&entity.partition, &entity.row]);
    let arguments = key_fields.iter().copied().map(key::argument);
    let puts = entity.properties().map(|field| {
        let name = &field.name;
        put(field, quote!(self.#name))
    });
    let put_kind = entity
        .kind
        .is_some()
        .then(|| quote!(::tepui_client::entity::typed::put_version::<Self>(&mut properties)?;));
    let upgrade = entity.kind.is_some().then(|| upgrade(entity));
    let is_written_with_others = entity.is_entry || !entity.indexes.is_empty();
    let is_written_with_others = (!entity.is_encrypted())
        .then(|| quote!(const IS_WRITTEN_WITH_OTHERS: bool = #is_written_with_others;));
    let put_rest = entity.rest().map(|field| {
        let name = &field.name;
        quote!(::tepui_client::entity::typed::put_rest(&mut properties, &self.#name)?;)
    });
    let read_partition = key::read(entity, &entity.partition, quote!(&stored.key.partition_key));
    let read_row = key::read(entity, &entity.row, quote!(&stored.key.row_key));
    let known = entity.property_names();
    let check_closed = entity
        .is_closed
        .then(|| quote!(::tepui_client::entity::typed::check_closed(&stored.properties, &[#(#known),*])?;));
    let read_names: Vec<_> =
        entity.fields.iter().filter(|field| entity.is_in_key(field)).map(|field| &field.name).collect();
    let read_types = entity.fields.iter().filter(|field| entity.is_in_key(field)).map(|field| &field.ty);
    let values = entity.fields.iter().map(|field| {
        let name = &field.name;
        if entity.is_in_key(field) {
            return quote!(#name);
        }
        match field.role {
            Role::Skip => quote!(#name: ::std::default::Default::default()),
            Role::Rest => {
                quote!(#name: ::tepui_client::entity::typed::rest(&stored.properties, &[#(#known),*])?)
            }
            Role::Property | Role::Text | Role::Json | Role::Split => {
                let value = get(field);
                quote!(#name: #value)
            }
        }
    });
    quote! {
        impl #name {
            #[allow(clippy::type_complexity, unused_parens)]
            fn read_keys(stored: &::tepui_client::StoredEntity)
                -> ::std::result::Result<(#(#read_types,)*), ::tepui_client::key::KeyError>
            {
                #read_partition
                #read_row
                ::std::result::Result::Ok((#(#read_names,)*))
            }
        }

        impl #entity_trait for #name {
            #encrypted
            #is_written_with_others

            fn entity_key(&self) -> ::std::result::Result<::tepui_client::EntityKey, ::tepui_client::Error> {
                Self::key(#(#arguments),*)
            }

            fn to_properties(&self)
                -> ::std::result::Result<::tepui_client::entity::Properties, ::tepui_client::Error>
            {
                let mut properties = ::tepui_client::entity::PropertiesBuilder::new();
                #(#puts)*
                #put_rest
                #put_kind
                ::std::result::Result::Ok(properties.finish())
            }

            fn from_stored(stored: &::tepui_client::StoredEntity) -> ::std::result::Result<Self, ::tepui_client::Error> {
                #upgrade
                let (#(#read_names,)*) = Self::read_keys(stored).map_err(::tepui_client::entity::typed::other_key)?;
                #check_closed
                let entity = Self { #(#values,)* };
                #check_key(&entity, stored)?;
                ::std::result::Result::Ok(entity)
            }
        }
    }
}

/// Reads an older version, if it is one.
fn upgrade(entity: &EntityStruct) -> TokenStream {
    let version = quote!(::tepui_client::entity::typed::check_version::<Self>(&stored.properties)?);
    let name = &entity.name;
    let convert = entity
        .upgrade_from
        .as_ref()
        .map(|from| quote_spanned!(from.span()=> <#name as ::std::convert::From<#from>>::from(older)));
    match &entity.upgrade_from {
        Some(from) => quote! {
            if #version < <Self as ::tepui_client::entity::typed::TypedEntity>::VERSION {
                let older = <#from as ::tepui_client::Entity>::from_stored(stored)?;
                let upgraded = #convert;
                ::tepui_client::entity::typed::check_key(&upgraded, stored)?;
                return ::std::result::Result::Ok(upgraded);
            }
        },
        None => quote!(#version;),
    }
}

/// Puts a field, which is an expression of a place, into `properties`.
pub(crate) fn put(field: &Field, place: TokenStream) -> TokenStream {
    let value = if field.is_optional {
        quote!(#place.as_ref())
    } else {
        quote!(::std::option::Option::Some(&#place))
    };
    put_into(field, quote!(&mut properties), value)
}

/// The same for references `properties` and `value`.
fn put_value(field: &Field) -> TokenStream {
    let value =
        if field.is_optional { quote!(value.as_ref()) } else { quote!(::std::option::Option::Some(value)) };
    put_into(field, quote!(properties), value)
}

fn put_into(field: &Field, properties: TokenStream, value: TokenStream) -> TokenStream {
    let function = match field.role {
        Role::Text => format_ident!("put_text"),
        Role::Json => format_ident!("put_json"),
        Role::Split => format_ident!("put_split"),
        Role::Property | Role::Skip | Role::Rest => format_ident!("put"),
    };
    let name = property_argument(field);
    quote_spanned!(field.ty.span()=> ::tepui_client::entity::typed::#function(#properties, #name, #value)?;)
}

/// The name of the property, or the names of all pieces.
fn property_argument(field: &Field) -> TokenStream {
    let names = field.property_names();
    match field.role {
        Role::Split => quote!(&[#(#names),*]),
        _ => quote!(#(#names)*),
    }
}

/// An expression for the field, read from `stored`.
fn get(field: &Field) -> TokenStream {
    let (ty, property, names) = (&field.ty, &field.property, property_argument(field));
    let function = match field.role {
        Role::Text => format_ident!("get_text"),
        Role::Json => format_ident!("get_json"),
        Role::Split => format_ident!("get_split"),
        Role::Property | Role::Skip | Role::Rest => format_ident!("get"),
    };
    let value = quote_spanned!(field.ty.span()=> ::tepui_client::entity::typed::#function::<#ty>(&stored.properties, #names)?);
    if field.is_optional {
        value
    } else {
        quote!(::tepui_client::entity::typed::required(#property, #value)?)
    }
}
