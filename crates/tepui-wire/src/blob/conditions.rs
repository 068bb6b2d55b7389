//! Conditional headers as conditions. Which ones may be there depends on the operation.

use super::headers::{self, date, given_list, given_text};
use super::tag_filter_text;
use crate::remote::Outgoing;
use crate::request_headers::RequestHeaders;
use tepui_model::blob::{
    AppendConditions, Conditions, EtagMatch, LeaseId, Preconditions, SequenceConditions, etag,
};
use tepui_model::{ErrorCode, ServiceError, Timestamp};

/// The headers in which one set of conditions comes.
pub(super) struct Names {
    pub(super) if_match: &'static str,
    pub(super) if_none_match: &'static str,
    modified_since: &'static str,
    unmodified_since: &'static str,
    tags: &'static str,
}

pub(super) const OF_BLOB: Names = Names {
    if_match: headers::IF_MATCH,
    if_none_match: headers::IF_NONE_MATCH,
    modified_since: headers::IF_MODIFIED_SINCE,
    unmodified_since: headers::IF_UNMODIFIED_SINCE,
    tags: headers::IF_TAGS,
};

pub(super) const OF_SOURCE: Names = Names {
    if_match: headers::SOURCE_IF_MATCH,
    if_none_match: headers::SOURCE_IF_NONE_MATCH,
    modified_since: headers::SOURCE_IF_MODIFIED_SINCE,
    unmodified_since: headers::SOURCE_IF_UNMODIFIED_SINCE,
    tags: headers::SOURCE_IF_TAGS,
};

/// Where tags are what is read and written, the blob has headers of its own.
pub(super) const OF_TAGGED_BLOB: Names = Names {
    if_match: "x-ms-blob-if-match",
    if_none_match: "x-ms-blob-if-none-match",
    modified_since: "x-ms-blob-if-modified-since",
    unmodified_since: "x-ms-blob-if-unmodified-since",
    tags: headers::IF_TAGS,
};

fn all(headers: &RequestHeaders<'_>, names: &Names) -> Result<Conditions, ServiceError> {
    let tags = match given_text(headers, names.tags)? {
        Some(text) => Some(tag_filter_text::parse_condition(&text).map_err(|error| {
            headers::invalid(headers, names.tags)
                .with_cause(format!("position {}: {}", error.position, error.reason))
        })?),
        None => None,
    };
    let etags = |name| Ok::<_, ServiceError>(given_list(headers, name)?.as_deref().map(EtagMatch::parse));
    Ok(Conditions {
        if_match: etags(names.if_match)?,
        if_none_match: etags(names.if_none_match)?,
        modified_since: date(headers, names.modified_since)?,
        unmodified_since: date(headers, names.unmodified_since)?,
        tags,
    })
}

/// Writes conditions as a client sends them: the mirror of [`all`].
pub(super) fn push(out: &mut Outgoing<'_>, conditions: &Conditions, names: &Names) {
    let Conditions { if_match, if_none_match, modified_since, unmodified_since, tags } = conditions;
    out.header_if(names.if_match, if_match.as_ref().map(etags));
    out.header_if(names.if_none_match, if_none_match.as_ref().map(etags));
    out.header_if(names.modified_since, modified_since.map(|time| time.http_bytes()));
    out.header_if(names.unmodified_since, unmodified_since.map(|time| time.http_bytes()));
    out.header_if(names.tags, tags.as_ref().map(tag_filter_text::print));
}

fn etags(etags: &EtagMatch) -> String {
    match etags {
        EtagMatch::Any => "*".to_owned(),
        EtagMatch::OneOf(moments) => {
            let text = |moment: &Option<Timestamp>| match moment {
                Some(moment) => format!("\"{}\"", etag::to_text(*moment)),
                // One that nothing has.
                None => "\"none\"".to_owned(),
            };
            moments.iter().map(text).collect::<Vec<_>>().join(", ")
        }
    }
}

fn lease(headers: &RequestHeaders<'_>) -> Result<Option<LeaseId>, ServiceError> {
    headers::word(headers, headers::LEASE_ID, LeaseId::parse)
}

/// Of an operation that reads a blob.
pub(super) fn of_read(headers: &RequestHeaders<'_>) -> Result<Preconditions, ServiceError> {
    let conditions = all(headers, &OF_BLOB)?;
    if conditions.only_creates() {
        return Err(headers::invalid_value(ErrorCode::UnsatisfiableCondition, headers::IF_NONE_MATCH, "*"));
    }
    Ok(Preconditions { lease: lease(headers)?, conditions })
}

/// Of an operation that changes a blob.
pub(super) fn of_write(headers: &RequestHeaders<'_>) -> Result<Preconditions, ServiceError> {
    let conditions = all(headers, &OF_BLOB)?;
    check_combination(&conditions)?;
    Ok(Preconditions { lease: lease(headers)?, conditions })
}

/// Of an operation on the tags of a blob. `If-Match` and its like are about the blob, not about the tags.
pub(super) fn of_tags(headers: &RequestHeaders<'_>) -> Result<Preconditions, ServiceError> {
    let conditions = all(headers, &OF_TAGGED_BLOB)?;
    check_combination(&conditions)?;
    Ok(Preconditions { lease: lease(headers)?, conditions })
}

/// Of the source of a copy.
pub(super) fn of_source(headers: &RequestHeaders<'_>) -> Result<Conditions, ServiceError> {
    let conditions = all(headers, &OF_SOURCE)?;
    check_combination(&conditions)?;
    Ok(conditions)
}

/// Of an operation that has no conditions but on the lease and on tags.
pub(super) fn of_lease_only(headers: &RequestHeaders<'_>) -> Result<Preconditions, ServiceError> {
    let Conditions { if_match, if_none_match, modified_since, unmodified_since, tags } =
        all(headers, &OF_BLOB)?;
    let unsupported = if_match.is_some()
        || if_none_match.is_some()
        || modified_since.is_some()
        || unmodified_since.is_some();
    if unsupported {
        return Err(ErrorCode::ConditionHeadersNotSupported.into());
    }
    let conditions = Conditions { tags, ..Conditions::default() };
    Ok(Preconditions { lease: lease(headers)?, conditions })
}

/// Of an operation that only looks at the lease.
pub(super) fn ignored(headers: &RequestHeaders<'_>) -> Result<Preconditions, ServiceError> {
    Ok(Preconditions { lease: lease(headers)?, conditions: Conditions::default() })
}

/// Of an operation that changes a container: only times count.
pub(super) fn of_container(headers: &RequestHeaders<'_>) -> Result<Preconditions, ServiceError> {
    let conditions = all(headers, &OF_BLOB)?;
    if conditions.if_match.is_some() || conditions.if_none_match.is_some() {
        return Err(ErrorCode::ConditionHeadersNotSupported.into());
    }
    let conditions = Conditions { tags: None, ..conditions };
    check_combination(&conditions)?;
    Ok(Preconditions { lease: lease(headers)?, conditions })
}

/// Of Set Container Metadata: that it was changed since is all that can be asked for.
pub(super) fn of_container_metadata(headers: &RequestHeaders<'_>) -> Result<Preconditions, ServiceError> {
    let preconditions = of_container(headers)?;
    match preconditions.conditions.unmodified_since {
        Some(_) => Err(ErrorCode::ConditionHeadersNotSupported.into()),
        None => Ok(preconditions),
    }
}

/// Writes know two pairs of conditions, and no lists.
fn check_combination(conditions: &Conditions) -> Result<(), ServiceError> {
    let Conditions { if_match, if_none_match, modified_since, unmodified_since, .. } = conditions;
    let lists = [if_match, if_none_match].into_iter().flatten().any(EtagMatch::is_list);
    let good = matches!(
        (if_match, if_none_match, modified_since, unmodified_since),
        (Some(_) | None, None, None, Some(_) | None) | (None, Some(_) | None, Some(_) | None, None)
    );
    if good && !lists { Ok(()) } else { Err(ErrorCode::MultipleConditionHeadersNotSupported.into()) }
}

pub(super) fn of_append(headers: &RequestHeaders<'_>) -> Result<AppendConditions, ServiceError> {
    Ok(AppendConditions {
        position: headers::number(headers, headers::APPEND_POSITION)?,
        max_bytes: headers::number(headers, headers::MAX_SIZE)?,
    })
}

pub(super) fn of_sequence(headers: &RequestHeaders<'_>) -> Result<SequenceConditions, ServiceError> {
    Ok(SequenceConditions {
        at_most: headers::number(headers, headers::SEQUENCE_AT_MOST)?,
        less_than: headers::number(headers, headers::SEQUENCE_LESS)?,
        equal: headers::number(headers, headers::SEQUENCE_EQUAL)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ErrorCode::*;

    const ETAG: (&str, &str) = ("if-match", "\"0x8DE79AF1D9F3580\"");
    const NONE: (&str, &str) = ("if-none-match", "\"0x8DE79AF1D9F3580\"");
    const SINCE: (&str, &str) = ("if-modified-since", "Wed, 04 Mar 2026 05:06:07 GMT");
    const UNTIL: (&str, &str) = ("if-unmodified-since", "Wed, 04 Mar 2026 05:06:07 GMT");

    /// What a function of this file makes of some headers.
    fn code<T>(
        read: impl Fn(&RequestHeaders<'_>) -> Result<T, ServiceError>,
        pairs: &[(&'static str, &str)],
    ) -> Result<(), ErrorCode> {
        let mut headers = http::HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, value.parse().unwrap());
        }
        read(&RequestHeaders::new(&headers)).map(drop).map_err(|error| error.code)
    }

    #[test]
    fn combinations() {
        let multiple = Err(MultipleConditionHeadersNotSupported);
        let unsupported = Err(ConditionHeadersNotSupported);
        let list = ("if-none-match", "\"a\", \"b\"");
        let star = ("if-none-match", "*");
        for (pairs, read, write, container) in [
            (&[][..], Ok(()), Ok(()), Ok(())),
            (&[ETAG], Ok(()), Ok(()), unsupported),
            (&[ETAG, UNTIL], Ok(()), Ok(()), unsupported),
            (&[NONE, SINCE], Ok(()), Ok(()), unsupported),
            (&[ETAG, NONE], Ok(()), multiple, unsupported),
            (&[ETAG, SINCE], Ok(()), multiple, unsupported),
            (&[SINCE, UNTIL], Ok(()), multiple, multiple),
            (&[SINCE], Ok(()), Ok(()), Ok(())),
            (&[("if-unmodified-since", "null"), SINCE], Ok(()), Ok(()), Ok(())),
            (&[list], Ok(()), multiple, unsupported),
            (&[star], Err(UnsatisfiableCondition), Ok(()), unsupported),
        ] {
            assert_eq!(code(of_read, pairs), read, "read {pairs:?}");
            assert_eq!(code(of_write, pairs), write, "write {pairs:?}");
            assert_eq!(code(of_container, pairs), container, "container {pairs:?}");
        }
        assert_eq!(code(of_container_metadata, &[UNTIL]), unsupported);
        assert_eq!(code(of_lease_only, &[SINCE]), unsupported);
    }

    /// A header as clients in other alphabets send it.
    fn raw(name: &'static str, lines: &[&[u8]]) -> http::HeaderMap {
        let mut headers = http::HeaderMap::new();
        for line in lines {
            headers.append(name, http::HeaderValue::from_bytes(line).unwrap());
        }
        headers
    }

    #[test]
    fn no_condition_is_dropped() {
        let of = |names: &Names| {
            [names.if_match, names.if_none_match, names.modified_since, names.unmodified_since, names.tags]
        };
        for (names, read) in [
            (of(&OF_BLOB), of_write as fn(&RequestHeaders<'_>) -> _),
            (of(&OF_TAGGED_BLOB), of_tags),
            (of(&OF_SOURCE), |headers| of_source(headers).map(|_| Preconditions::default())),
        ] {
            for name in names {
                for value in ["ö".as_bytes(), b"\xF6", b"\xFF\xFE"] {
                    let headers = raw(name, &[value]);
                    let read = read(&RequestHeaders::new(&headers)).map_err(|error| error.code);
                    assert_eq!(read, Err(InvalidHeaderValue), "{name}: {value:?}");
                }
            }
        }
        let twice = raw(headers::IF_UNMODIFIED_SINCE, &[UNTIL.1.as_bytes(), UNTIL.1.as_bytes()]);
        assert_eq!(
            of_write(&RequestHeaders::new(&twice)).map_err(|error| error.code),
            Err(InvalidHeaderValue)
        );
    }

    #[test]
    fn tags_are_read_in_utf_8_and_in_latin_1() {
        let both = ["\"city\"='Köln'".as_bytes(), b"\"city\"='K\xF6ln'"];
        let [utf_8, latin_1] = both.map(|value| {
            let headers = raw(headers::IF_TAGS, &[value]);
            of_write(&RequestHeaders::new(&headers)).map(|preconditions| preconditions.conditions.tags)
        });
        // Tags have no such characters: whether that makes a condition bad or one that never holds, both are alike.
        assert_eq!(utf_8.as_ref().map_err(|error| error.code), latin_1.as_ref().map_err(|error| error.code));
        assert_ne!(utf_8.ok(), Some(None));
    }

    #[test]
    fn lines_are_one_list() {
        let headers = raw(headers::IF_NONE_MATCH, &[b"\"0x1\"", b"", b"\"0x2\", \"0x3\""]);
        let read = of_read(&RequestHeaders::new(&headers)).unwrap();
        assert_eq!(read.conditions.if_none_match, Some(EtagMatch::parse("\"0x1\", \"0x2\", \"0x3\"")));
    }

    #[test]
    fn secrets_are_not_repeated() {
        let headers = raw(headers::ENCRYPTION_KEY, &["sëcret".as_bytes()]);
        let refused = headers::given(&RequestHeaders::new(&headers), headers::ENCRYPTION_KEY).unwrap_err();
        assert!(!format!("{refused:?}").contains("cret"), "{refused:?}");
    }

    #[test]
    fn values() {
        let lease = ("x-ms-lease-id", "{5B1F0B7E-0A0E-4A38-9F6C-2F6F6F0D5A11}");
        assert_eq!(code(of_read, &[lease]), Ok(()));
        for pair in
            [("x-ms-lease-id", "mine"), ("x-ms-if-tags", "k ~ 'v'"), ("x-ms-if-tags", "@container='c'")]
        {
            assert_eq!(code(of_write, &[pair]), Err(InvalidHeaderValue), "{pair:?}");
        }
        for value in ["-1", "x", "9223372036854775808", "+1"] {
            assert_eq!(code(of_append, &[(headers::MAX_SIZE, value)]), Err(InvalidHeaderValue));
            assert_eq!(code(of_sequence, &[(headers::SEQUENCE_LESS, value)]), Err(InvalidHeaderValue));
        }
    }
}
