//! The three parts of a token (RFC 7515), before anything of it is believed.

use crate::MAX_TOKEN_BYTES;
use crate::keys::Algorithm;
use crate::unique_json::parse_object;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use tepui_model::token::TokenFailure;

/// A token, taken apart.
pub(crate) struct Jws<'a> {
    pub(crate) algorithm: Algorithm,
    /// The name of the key, if the token says one.
    pub(crate) key: Option<String>,
    pub(crate) claims: Map<String, Value>,
    /// What was signed.
    pub(crate) signed: &'a [u8],
    pub(crate) signature: Vec<u8>,
}

impl<'a> Jws<'a> {
    pub(crate) fn parse(token: &'a str) -> Result<Self, TokenFailure> {
        let parts = Parts::of(token).ok_or(TokenFailure::Form)?;
        let header = parse_object(&parts.header).ok_or(TokenFailure::Form)?;
        let algorithm = header.get("alg").and_then(Value::as_str).ok_or(TokenFailure::Form)?;
        // What is not known could change the meaning: RFC 7515 wants such tokens refused, and none are known here.
        if header.contains_key("crit") || header.contains_key("b64") || header.contains_key("enc") {
            return Err(TokenFailure::Form);
        }
        let text = |name| match header.get(name) {
            None => Ok(None),
            Some(value) => value.as_str().map(Some).ok_or(TokenFailure::Form),
        };
        // Issuers sign other things with the same keys: proofs, events, answers. And a token may be inside another.
        let is_token = |kind: &str| {
            let kind = kind.to_ascii_lowercase();
            matches!(kind.strip_prefix("application/").unwrap_or(&kind), "jwt" | "at+jwt")
        };
        if !text("typ")?.is_none_or(is_token) || text("cty")?.is_some() {
            return Err(TokenFailure::Form);
        }
        Ok(Self {
            algorithm: Algorithm::named(algorithm).ok_or(TokenFailure::Signature)?,
            key: text("kid")?.map(str::to_owned),
            claims: parse_object(&parts.claims).ok_or(TokenFailure::Form)?,
            signed: parts.signed,
            signature: parts.signature,
        })
    }
}

/// The parts as bytes. What a token says about its signature may be believed or not.
pub(crate) struct Parts<'a> {
    header: Vec<u8>,
    pub(crate) claims: Vec<u8>,
    signed: &'a [u8],
    signature: Vec<u8>,
}

impl<'a> Parts<'a> {
    pub(crate) fn of(token: &'a str) -> Option<Self> {
        if token.len() > MAX_TOKEN_BYTES {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        // No padding, and no bits that mean nothing: a token has one spelling. A further dot is no letter of it.
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
        Some(Self {
            header: decode(header)?,
            claims: decode(claims)?,
            signed: signed.as_bytes(),
            signature: decode(signature)?,
        })
    }
}
