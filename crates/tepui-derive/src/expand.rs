//! The code that the macro writes.

use crate::entity::EntityStruct;
use crate::field::{Field, Role};
use crate::key;
use crate::template::Piece;
use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;

pub(crate) fn expand(entity: &EntityStruct) -> TokenStream {
    let name = &entity.name;
    let keys = keys(entity);
    let columns = columns(entity);
    let ranges = key::ranges(entity);
    let implementation = implementation(entity);
    let table = &entity.table;
    let properties = entity.properties().map(|field| &field.property);
    let (partition_prefix, row_prefix) = (prefix(&entity.partition), prefix(&entity.row));
    let Traits { typed, replace, .. } = Traits::of(entity);
    let replace = (entity.is_closed || entity.rest().is_some()).then(|| quote!(impl #replace for #name {}));
    quote! {
        impl #name {
            #keys
            #(#ranges)*
            #(#columns)*
        }

        #implementation

        impl #typed for #name {
            const TABLE: &'static str = #table;
            const PARTITION_PREFIX: &'static str = #partition_prefix;
            const ROW_PREFIX: &'static str = #row_prefix;
            const PROPERTIES: &'static [&'static str] = &[#(#properties),*];
        }

        #replace
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
        let name = field.name.to_string().trim_start_matches("r#").to_uppercase();
        let name = format_ident!("{name}", span = field.name.span());
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

fn implementation(entity: &EntityStruct) -> TokenStream {
    let name = &entity.name;
    let Traits { entity: entity_trait, check_key, .. } = Traits::of(entity);
    let encrypted: Vec<_> =
        entity.fields.iter().filter(|field| field.is_encrypted).map(|field| &field.property).collect();
    let encrypted =
        entity.is_encrypted().then(|| quote!(const ENCRYPTED: &'static [&'static str] = &[#(#encrypted),*];));
    let key_fields = entity.key_fields(&[&entity.partition, &entity.row]);
    let arguments = key_fields.iter().copied().map(key::argument);
    let puts = entity.properties().map(put);
    let put_rest = entity.rest().map(|field| {
        let name = &field.name;
        quote!(::tepui_client::entity::typed::put_rest(&mut properties, &self.#name)?;)
    });
    let read_partition = key::read(entity, &entity.partition, quote!(&stored.key.partition_key));
    let read_row = key::read(entity, &entity.row, quote!(&stored.key.row_key));
    let known: Vec<_> = entity.properties().map(|field| &field.property).collect();
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
            Role::Property | Role::Text | Role::Json => get(field),
        }
    });
    quote! {
        impl #entity_trait for #name {
            #encrypted

            fn entity_key(&self) -> ::std::result::Result<::tepui_client::EntityKey, ::tepui_client::Error> {
                Self::key(#(#arguments),*)
            }

            fn to_properties(&self)
                -> ::std::result::Result<::tepui_client::entity::Properties, ::tepui_client::Error>
            {
                let mut properties = ::tepui_client::entity::PropertiesBuilder::new();
                #(#puts)*
                #put_rest
                ::std::result::Result::Ok(properties.finish())
            }

            fn from_stored(stored: &::tepui_client::StoredEntity) -> ::std::result::Result<Self, ::tepui_client::Error> {
                #[allow(clippy::type_complexity, unused_parens)]
                fn read_keys(stored: &::tepui_client::StoredEntity)
                    -> ::std::result::Result<(#(#read_types,)*), ::tepui_client::key::KeyError>
                {
                    #read_partition
                    #read_row
                    ::std::result::Result::Ok((#(#read_names,)*))
                }
                let (#(#read_names,)*) = read_keys(stored).map_err(::tepui_client::entity::typed::other_key)?;
                #check_closed
                let entity = Self { #(#values,)* };
                #check_key(&entity, stored)?;
                ::std::result::Result::Ok(entity)
            }
        }
    }
}

fn put(field: &Field) -> TokenStream {
    let (name, property) = (&field.name, &field.property);
    let value = if field.is_optional {
        quote!(self.#name.as_ref())
    } else {
        quote!(::std::option::Option::Some(&self.#name))
    };
    let function = match field.role {
        Role::Text => format_ident!("put_text"),
        Role::Json => format_ident!("put_json"),
        Role::Property | Role::Skip | Role::Rest => format_ident!("put"),
    };
    quote_spanned!(field.ty.span()=> ::tepui_client::entity::typed::#function(&mut properties, #property, #value)?;)
}

fn get(field: &Field) -> TokenStream {
    let (name, ty, property) = (&field.name, &field.ty, &field.property);
    let function = match field.role {
        Role::Text => format_ident!("get_text"),
        Role::Json => format_ident!("get_json"),
        Role::Property | Role::Skip | Role::Rest => format_ident!("get"),
    };
    let value = quote_spanned!(field.ty.span()=> ::tepui_client::entity::typed::#function::<#ty>(&stored.properties, #property)?);
    if field.is_optional {
        quote!(#name: #value)
    } else {
        quote!(#name: ::tepui_client::entity::typed::required(#property, #value)?)
    }
}
