//! The builder of queries for the rows of a partition: what the row key can answer.

use crate::entity::EntityStruct;
use crate::field::Field;
use crate::index::Index;
use crate::key;
use crate::template::{Piece, Spec};
use proc_macro2::TokenStream;
use quote::{format_ident, quote};

/// Methods that every builder has.
const TAKEN: [&str; 3] = ["rows", "all_rows", "scan"];

pub(crate) fn expand(entity: &EntityStruct) -> TokenStream {
    let (name, visibility) = (&entity.name, &entity.visibility);
    let builder = format_ident!("{name}Partition");
    let fields = entity.key_fields(&[&entity.partition]);
    let types: Vec<_> = fields.iter().map(|field| part_type(field)).collect();
    let names: Vec<_> = fields.iter().map(|field| &field.name).collect();
    let (parts, pattern) = match (types.as_slice(), names.as_slice()) {
        ([ty], [name]) => (quote!(#ty), quote!(#name)),
        _ => (quote!((#(#types),*)), quote!((#(#names),*))),
    };
    let methods = methods(entity);
    let indexes = entity.indexes.iter().filter_map(|index: &Index| index.builder_method(entity));
    let doc = format!("Rows of a partition of [`{name}`]: which ones, by what the row key can answer.");
    quote! {
        #[doc = #doc]
        #[derive(Debug, Clone)]
        #[must_use]
        #visibility struct #builder(::tepui_client::Query<#name>);

        impl ::tepui_client::entity::typed::Keyed for #name {
            type PartitionParts<'a> = #parts;
            type Rows = #builder;
            const SCANNED_PARTITIONS: &'static str =
                <#name as ::tepui_client::entity::typed::TypedEntity>::PARTITION_PREFIX;
            const SCANNED_ROWS: &'static str = <#name as ::tepui_client::entity::typed::TypedEntity>::ROW_PREFIX;

            fn partition(table: &::tepui_client::Table<Self>, parts: Self::PartitionParts<'_>) -> #builder {
                let #pattern = parts;
                #builder(::tepui_client::Query::of_partition(table, Self::partition_key(#(#names),*)))
            }
        }

        #[allow(dead_code, clippy::too_many_arguments, clippy::wrong_self_convention)]
        impl #builder {
            #(#methods)*
            #(#indexes)*

            /// All rows of this kind of entity.
            #visibility fn all_rows(self) -> ::tepui_client::Query<#name> {
                self.0.row_prefix(<#name as ::tepui_client::entity::typed::TypedEntity>::ROW_PREFIX)
            }

            /// The rows with a key in this range.
            #visibility fn rows(self, range: ::tepui_client::key::KeyRange) -> ::tepui_client::Query<#name> {
                self.0.rows(range)
            }

            /// All rows of this kind of entity, to be filtered: the others are read and thrown away.
            #visibility fn scan(self) -> ::tepui_client::Scan<#name> {
                self.all_rows().scan()
            }
        }
    }
}

fn part_type(field: &Field) -> TokenStream {
    let ty = &field.ty;
    if field.is_string() { quote!(&'a str) } else { quote!(#ty) }
}

/// One method for each range that the key can answer; the ranges themselves are functions of the entity.
fn methods(entity: &EntityStruct) -> Vec<TokenStream> {
    let (name, visibility) = (&entity.name, &entity.visibility);
    let query = quote!(::tepui_client::Query<#name>);
    let mut methods = Vec::new();
    for (index, piece) in entity.row.iter().enumerate() {
        let Piece::Field { name: field, spec } = piece else { continue };
        let Some(field) = entity.field(field) else { continue };
        let leading = entity.key_fields(&[&entity.row[..index]]);
        if leading.iter().any(|known| known.name == field.name) {
            continue;
        }
        let parameters: Vec<_> = leading.iter().copied().map(key::parameter).collect();
        let arguments: Vec<_> = leading.iter().map(|field| &field.name).collect();
        let (this, ty, plain) = (&field.name, &field.ty, plain_name(field));
        if spec.is_readable() {
            let method = format_ident!("with_{plain}", span = this.span());
            let doc = format!("The rows with this `{plain}`.");
            let parameter = key::parameter(field);
            let is_last = index + 1 == entity.row.len();
            let rows = if is_last {
                quote!(self.0.row_of_parts(#name::row_key(#(#arguments,)* #this)))
            } else {
                let range = format_ident!("rows_with_{plain}", span = this.span());
                quote!(self.0.rows_of_parts(#name::#range(#(#arguments,)* #this)))
            };
            methods.push(quote! {
                #[doc = #doc]
                #visibility fn #method(self, #(#parameters,)* #parameter) -> #query {
                    #rows
                }
            });
        }
        if spec.is_ordered() && *spec != Spec::Ordered {
            let method = match TAKEN.contains(&plain.as_str()) {
                true => format_ident!("{plain}_between", span = this.span()),
                false => this.clone(),
            };
            let range = format_ident!("rows_between_{plain}", span = this.span());
            let doc = format!("The rows with a `{plain}` in this range, whatever follows in the row key.");
            methods.push(quote! {
                #[doc = #doc]
                #visibility fn #method(self, #(#parameters,)* range: ::std::ops::RangeInclusive<#ty>) -> #query {
                    let (first, last) = range.into_inner();
                    self.0.rows_of_parts(#name::#range(#(#arguments,)* first, last))
                }
            });
        }
        if *spec == Spec::Ordered || (*spec == Spec::Plain && index + 1 == entity.row.len()) {
            let method = format_ident!("{plain}_prefix", span = this.span());
            let range = format_ident!("rows_beginning_{plain}", span = this.span());
            let doc = format!("The rows whose `{plain}` begins with `prefix`.");
            methods.push(quote! {
                #[doc = #doc]
                #visibility fn #method(self, #(#parameters,)* prefix: &str) -> #query {
                    self.0.rows_of_parts(#name::#range(#(#arguments,)* prefix))
                }
            });
        }
        if !spec.is_readable() {
            break;
        }
    }
    methods
}

fn plain_name(field: &Field) -> String {
    field.name.to_string().trim_start_matches("r#").to_owned()
}

/// A function for all partitions that a load is spread over, if the partition key begins differently for each and says
/// nothing else of what was hashed.
pub(crate) fn all_partition_keys(entity: &EntityStruct) -> Option<TokenStream> {
    let is_spread = |piece: &&Piece| matches!(piece, Piece::Field { spec, .. } if !spec.is_readable());
    if entity.partition.iter().filter(is_spread).count() != 1 {
        return None;
    }
    let at = entity.partition.iter().position(|piece| is_spread(&piece))?;
    let Piece::Field { name: spread, spec } = &entity.partition[at] else { return None };
    let (before, after) = (&entity.partition[..at], &entity.partition[at + 1..]);
    let others = entity.key_fields(&[before, after]);
    if others.iter().any(|field| field.name == spread) {
        return None;
    }
    let visibility = &entity.visibility;
    let parameters = others.iter().copied().map(key::parameter);
    let (before, after) = (key::write(entity, before), key::calls(entity, after));
    let prefixes = match spec {
        Spec::Hash(count) => quote!(::tepui_client::key::Buckets::new(#count)?.prefixes()),
        _ => quote!(::tepui_client::key::second_prefixes()),
    };
    let doc = format!("The keys of all partitions that `{spread}` is spread over, for `Table::fan_out`.");
    Some(quote! {
        #[doc = #doc]
        #[allow(dead_code)]
        #visibility fn all_partition_keys(#(#parameters),*)
            -> ::std::result::Result<::std::vec::Vec<::std::string::String>, ::tepui_client::Error>
        {
            let mut keys = ::std::vec::Vec::new();
            for prefix in #prefixes {
                keys.push(#before.literal(&prefix) #(#after)*.finish()?);
            }
            ::std::result::Result::Ok(keys)
        }
    })
}
