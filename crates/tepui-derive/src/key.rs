//! Code that writes keys, reads them, and makes ranges of them.

use crate::entity::EntityStruct;
use crate::field::Field;
use crate::template::{Piece, Spec};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;

/// A parameter of a function that takes a part of a key.
pub(crate) fn parameter(field: &Field) -> TokenStream {
    let (name, ty) = (&field.name, &field.ty);
    if field.is_string() { quote!(#name: &str) } else { quote!(#name: #ty) }
}

/// The same part, from the struct.
pub(crate) fn argument(field: &Field) -> TokenStream {
    let name = &field.name;
    if field.is_string() { quote!(&self.#name) } else { quote!(self.#name) }
}

/// An expression that writes pieces; fields are variables of their name.
pub(crate) fn write(entity: &EntityStruct, pieces: &[Piece]) -> TokenStream {
    let calls = calls(entity, pieces);
    quote!(::tepui_client::key::KeyWriter::new() #(#calls)*)
}

/// The calls of a `KeyWriter` for these pieces.
pub(crate) fn calls(entity: &EntityStruct, pieces: &[Piece]) -> Vec<TokenStream> {
    let call = |(index, piece): (usize, &Piece)| match piece {
        Piece::Literal(text) => quote!(.literal(#text)),
        Piece::Field { name, spec } => match entity.field(name) {
            Some(field) => write_part(field, &field.name, *spec, pieces.get(index + 1)),
            None => TokenStream::new(),
        },
    };
    pieces.iter().enumerate().map(call).collect()
}

fn write_part(field: &Field, variable: &Ident, spec: Spec, next: Option<&Piece>) -> TokenStream {
    let span = field.ty.span();
    let typed = quote!(::tepui_client::entity::typed);
    let shown = if field.is_string() { quote!(#variable) } else { quote!(&#variable) };
    let text = if field.is_string() {
        quote!(#variable)
    } else {
        quote_spanned!(span=> &#typed::KeyText::to_key_text(&#variable))
    };
    match spec {
        Spec::Padded(digits) => {
            quote_spanned!(span=> .padded(#typed::KeyUnsigned::widen(#variable), #digits))
        }
        Spec::Signed => quote_spanned!(span=> .signed(#typed::KeySigned::widen(#variable))),
        Spec::Float => quote_spanned!(span=> .float(#variable)),
        Spec::Ascending => quote_spanned!(span=> .ascending(#variable)),
        Spec::Descending => quote_spanned!(span=> .descending(#variable)),
        Spec::Seconds => quote_spanned!(span=> .seconds(#variable)),
        Spec::Ordered => quote_spanned!(span=> .ordered(#text)),
        Spec::Plain => {
            let until = until(next);
            quote_spanned!(span=> .plain(#text, #until))
        }
        Spec::Hash(count) => quote_spanned!(span=>
            .bucket(&::std::string::ToString::to_string(#shown), ::tepui_client::key::Buckets::new(#count)?)
        ),
    }
}

fn until(next: Option<&Piece>) -> TokenStream {
    let first = next.and_then(|piece| match piece {
        Piece::Literal(text) => text.chars().next(),
        Piece::Field { .. } => None,
    });
    match first {
        Some(separator) => quote!(::tepui_client::key::Until::Separator(#separator)),
        None => quote!(::tepui_client::key::Until::End),
    }
}

/// Statements that read pieces of a key into variables named as the fields.
pub(crate) fn read(entity: &EntityStruct, pieces: &[Piece], key: TokenStream) -> TokenStream {
    let parts = pieces.iter().enumerate().map(|(index, piece)| match piece {
        Piece::Literal(text) => quote!(reader.literal(#text)?;),
        Piece::Field { name, spec } => match entity.field(name) {
            Some(field) => read_part(field, *spec, pieces.get(index + 1)),
            None => TokenStream::new(),
        },
    });
    quote! {
        let mut reader = ::tepui_client::key::KeyReader::new(#key);
        #(#parts)*
        reader.end()?;
    }
}

fn read_part(field: &Field, spec: Spec, next: Option<&Piece>) -> TokenStream {
    let (name, ty, span) = (&field.name, &field.ty, field.ty.span());
    let typed = quote!(::tepui_client::entity::typed);
    let value = match spec {
        Spec::Padded(digits) => {
            quote_spanned!(span=> #typed::narrow_unsigned::<#ty>(reader.padded(#digits)?)?)
        }
        Spec::Signed => quote_spanned!(span=> #typed::narrow_signed::<#ty>(reader.signed()?)?),
        Spec::Float => quote!(reader.float()?),
        Spec::Ascending => quote!(reader.ascending()?),
        Spec::Descending => quote!(reader.descending()?),
        Spec::Ordered => quote_spanned!(span=> #typed::parse_text::<#ty>(reader.ordered()?)?),
        Spec::Plain => {
            let until = until(next);
            quote_spanned!(span=> #typed::parse_text::<#ty>(reader.plain(#until)?)?)
        }
        Spec::Hash(count) => return quote!(reader.bucket(::tepui_client::key::Buckets::new(#count)?)?;),
        Spec::Seconds => return quote!(reader.seconds()?;),
    };
    quote!(let #name: #ty = #value;)
}

/// Functions for the ranges of rows that the row key can answer within a partition.
pub(crate) fn ranges(entity: &EntityStruct) -> Vec<TokenStream> {
    let mut functions = Vec::new();
    let visibility = &entity.visibility;
    let result = quote!(::std::result::Result<::tepui_client::key::KeyRange, ::tepui_client::Error>);
    for (index, piece) in entity.row.iter().enumerate() {
        let Piece::Field { name, spec } = piece else { continue };
        let Some(field) = entity.field(name) else { continue };
        let before = &entity.row[..index];
        let leading = entity.key_fields(&[before]);
        if leading.iter().any(|known| known.name == field.name) {
            continue;
        }
        let leading: Vec<_> = leading.into_iter().map(parameter).collect();
        let is_last = index + 1 == entity.row.len();
        if !is_last && spec.is_readable() {
            let function = format_ident!("rows_with_{}", field.name, span = field.name.span());
            let doc = format!("The rows with this `{name}`, whatever follows in the row key.");
            // With the separator: 12 is no beginning of 123.
            let literal = usize::from(matches!(entity.row.get(index + 1), Some(Piece::Literal(_))));
            let prefix = write(entity, &entity.row[..=index + literal]);
            let this = parameter(field);
            functions.push(quote! {
                #[doc = #doc]
                #[allow(dead_code)]
                #visibility fn #function(#(#leading,)* #this) -> #result {
                    ::std::result::Result::Ok(::tepui_client::key::KeyRange::prefix(#prefix.finish()?))
                }
            });
        }
        if spec.is_ordered() && *spec != Spec::Ordered {
            let function = format_ident!("rows_between_{}", field.name, span = field.name.span());
            let doc = format!("The rows with a `{name}` from `first` to `last`, both included.");
            let (ty, prefix) = (&field.ty, write(entity, before));
            let mut bounds = [format_ident!("first"), format_ident!("last")];
            if *spec == Spec::Descending {
                bounds.reverse();
            }
            let [low, high] = bounds.map(|bound| write_part(field, &bound, *spec, None));
            functions.push(quote! {
                #[doc = #doc]
                #[allow(dead_code)]
                #visibility fn #function(#(#leading,)* first: #ty, last: #ty) -> #result {
                    let low = #prefix #low.finish()?;
                    let high = #prefix #high.finish()?;
                    ::std::result::Result::Ok(::tepui_client::key::KeyRange::prefixes(low, &high))
                }
            });
        }
        if *spec == Spec::Ordered || (*spec == Spec::Plain && is_last) {
            let function = format_ident!("rows_beginning_{}", field.name, span = field.name.span());
            let doc = format!("The rows whose `{name}` begins with `prefix`.");
            let prefix = write(entity, before);
            let part = if *spec == Spec::Ordered {
                quote!(.ordered(prefix))
            } else {
                quote!(.plain(prefix, ::tepui_client::key::Until::End))
            };
            functions.push(quote! {
                #[doc = #doc]
                #[allow(dead_code)]
                #visibility fn #function(#(#leading,)* prefix: &str) -> #result {
                    ::std::result::Result::Ok(::tepui_client::key::KeyRange::prefix(#prefix #part.finish()?))
                }
            });
        }
        if !spec.is_readable() {
            break;
        }
    }
    functions
}
