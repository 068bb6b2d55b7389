//! `#[derive(Projection)]`: a struct with some fields of an entity.

use crate::field::constant_name;
use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Fields, Ident, Path, Type};

pub(crate) struct Projection {
    name: Ident,
    of: Path,
    can_merge: bool,
    fields: Vec<(Ident, Type)>,
}

impl Projection {
    pub(crate) fn parse(input: &DeriveInput) -> Result<Self, Error> {
        let Data::Struct(data) = &input.data else {
            return Err(Error::new(input.ident.span(), "a projection is a struct with fields of an entity"));
        };
        let Fields::Named(fields) = &data.fields else {
            return Err(Error::new(
                input.ident.span(),
                "the fields of a projection are named as those of the entity",
            ));
        };
        if !input.generics.params.is_empty() {
            return Err(Error::new_spanned(
                &input.generics,
                "a projection has no parameters: it is of one entity",
            ));
        }
        let missing = "say of which entity: #[projection(of = Employee)]";
        let mut attributes = input.attrs.iter().filter(|attribute| attribute.path().is_ident("projection"));
        let attribute = attributes.next().ok_or_else(|| Error::new(input.ident.span(), missing))?;
        let (mut of, mut can_merge) = (None, false);
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("of") {
                of = Some(meta.value()?.parse()?);
            } else if meta.path.is_ident("merge") {
                can_merge = true;
            } else {
                return Err(meta.error("there is `of = Employee` and `merge`"));
            }
            Ok(())
        })?;
        let of = of.ok_or_else(|| Error::new_spanned(attribute, missing))?;
        let named = fields.named.iter().filter_map(|field| Some((field.ident.clone()?, field.ty.clone())));
        Ok(Self { name: input.ident.clone(), of, can_merge, fields: named.collect() })
    }

    pub(crate) fn expand(&self) -> TokenStream {
        let Self { name, of, .. } = self;
        let names: Vec<_> = self.fields.iter().map(|(name, _)| name).collect();
        let constants: Vec<_> =
            names.iter().map(|name| format_ident!("FIELD_{}", constant_name(name))).collect();
        // The entity has a constant for each field. Another name or another type does not compile, and is told at the field.
        let checks = self.fields.iter().map(|(name, ty)| {
            let constant = format_ident!("FIELD_{}", constant_name(name));
            quote_spanned! {ty.span()=>
                const #constant: ::tepui_client::entity::typed::Field<#of, #ty> =
                    <<#of as ::tepui_client::entity::typed::HasFields>::Fields>::#name;
            }
        });
        let merge = self.can_merge.then(|| self.merge(&names, &constants));
        quote! {
            const _: () = {
                #(#checks)*

                impl ::tepui_client::entity::ReadEntity for #name {
                    fn read(stored: &::tepui_client::StoredEntity) -> ::std::result::Result<Self, ::tepui_client::Error> {
                        ::tepui_client::entity::typed::check_projected::<#of>(stored)?;
                        ::std::result::Result::Ok(Self { #(#names: (#constants.read)(stored)?,)* })
                    }
                }

                impl ::tepui_client::entity::typed::Projection for #name {
                    type Of = #of;

                    fn properties() -> ::std::vec::Vec<&'static str> {
                        let own: &[&[&'static str]] = &[#(#constants.properties),*];
                        ::tepui_client::entity::typed::projected::<#of>(own)
                    }
                }

                #merge
            };
        }
    }

    fn merge(&self, names: &[&Ident], constants: &[Ident]) -> TokenStream {
        let Self { name, of, .. } = self;
        let entity = quote!(#of).to_string();
        let checks = names.iter().zip(constants).map(|(name, constant)| {
            let indexed = format!(
                "an index of `{entity}` depends on `{name}`: to change it takes the whole entity, as in `table.indexed().update(…)`"
            );
            let key = format!("`{name}` is a part of the key of `{entity}`, which a merge cannot change: leave it out");
            quote_spanned! {name.span()=>
                ::std::assert!(!#constant.is_key, #key);
                ::std::assert!(!#constant.is_indexed, #indexed);
            }
        });
        let versions = format!(
            "`{entity}` has several versions, and the stored one may be an older: a merge takes the whole entity"
        );
        quote! {
            const _: () = {
                #(#checks)*
                ::std::assert!(<#of as ::tepui_client::entity::typed::TypedEntity>::VERSION == 1, #versions);
            };

            impl ::tepui_client::entity::typed::MergeProjection for #name {
                fn to_properties(&self)
                    -> ::std::result::Result<::tepui_client::entity::Properties, ::tepui_client::Error>
                {
                    let mut properties = ::tepui_client::entity::PropertiesBuilder::new();
                    #((#constants.write)(&mut properties, &self.#names)?;)*
                    ::std::result::Result::Ok(properties.finish())
                }
            }
        }
    }
}
