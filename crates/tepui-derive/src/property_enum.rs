//! `#[derive(PropertyEnum)]`: an enum without fields as the text of its variant.

use proc_macro2::TokenStream;
use quote::quote;
use std::collections::HashMap;
use syn::{Data, DeriveInput, Error, Fields, Ident, LitStr};

pub(crate) struct PropertyEnum {
    name: Ident,
    variants: Vec<(Ident, String)>,
}

impl PropertyEnum {
    pub(crate) fn parse(input: &DeriveInput) -> Result<Self, Error> {
        let Data::Enum(data) = &input.data else {
            return Err(Error::new(
                input.ident.span(),
                "only an enum has variants that are stored as their names",
            ));
        };
        if !input.generics.params.is_empty() {
            return Err(Error::new_spanned(&input.generics, "an enum that is a property has no parameters"));
        }
        let mut variants = Vec::new();
        let mut seen = HashMap::new();
        for variant in &data.variants {
            if !matches!(variant.fields, Fields::Unit) {
                let message = "a variant with fields is more than a name: store the enum with #[json]";
                return Err(Error::new_spanned(variant, message));
            }
            let said = variant.attrs.iter().find(|attribute| attribute.path().is_ident("property"));
            let (text, span) = match said {
                Some(said) => {
                    let text: LitStr = said.parse_args()?;
                    (text.value(), text.span())
                }
                None => (variant.ident.to_string().trim_start_matches("r#").to_owned(), variant.ident.span()),
            };
            if let Some(other) = seen.insert(text.clone(), variant.ident.clone()) {
                return Err(Error::new(span, format!("`{other}` is stored as \"{text}\" too")));
            }
            variants.push((variant.ident.clone(), text));
        }
        if variants.is_empty() {
            return Err(Error::new(
                input.ident.span(),
                "there are no variants, so there is nothing to store",
            ));
        }
        Ok(Self { name: input.ident.clone(), variants })
    }

    pub(crate) fn expand(&self) -> TokenStream {
        let name = &self.name;
        let variants: Vec<_> = self.variants.iter().map(|(variant, _)| variant).collect();
        let texts: Vec<_> = self.variants.iter().map(|(_, text)| text).collect();
        quote! {
            impl #name {
                #[doc(hidden)]
                fn property_text(&self) -> &'static str {
                    match self {
                        #(Self::#variants => #texts,)*
                    }
                }

                #[doc(hidden)]
                fn of_property_text(text: &str) -> ::std::option::Option<Self> {
                    match text {
                        #(#texts => ::std::option::Option::Some(Self::#variants),)*
                        _ => ::std::option::Option::None,
                    }
                }
            }

            impl ::tepui_client::entity::typed::PropertyValue for #name {
                const TYPE: ::tepui_client::EdmType = ::tepui_client::EdmType::String;

                fn to_value(&self) -> ::tepui_client::entity::ValueRef<'_> {
                    ::tepui_client::entity::ValueRef::string(self.property_text())
                }

                fn from_value(value: ::tepui_client::entity::ValueRef<'_>) -> ::std::option::Option<Self> {
                    match value {
                        ::tepui_client::entity::ValueRef::String(text) => Self::of_property_text(text.as_str()),
                        _ => ::std::option::Option::None,
                    }
                }
            }

            impl ::tepui_client::entity::typed::KeyText for #name {
                fn to_key_text(&self) -> ::std::borrow::Cow<'_, str> {
                    ::std::borrow::Cow::Borrowed(self.property_text())
                }

                fn from_key_text(text: ::std::string::String) -> ::std::option::Option<Self> {
                    Self::of_property_text(&text)
                }
            }
        }
    }
}
