//! Expected text with wildcards: `--batchresponse_<guid=b>`, `<etag>`, `<any>`. A wildcard with a name
//! (`<guid=b>`) matches the same text wherever the name comes again, and captures it.

use std::collections::HashMap;

/// Texts that named wildcards matched.
pub(crate) type Captures = HashMap<String, String>;

/// Matches all of `actual`, giving the named wildcards' texts.
pub(crate) fn matches(expected: &str, actual: &str) -> Option<Captures> {
    // Alternatives: the first that fits.
    expected.split(" <or> ").find_map(|choice| {
        let tokens = tokens(choice);
        let mut captures = Captures::new();
        follow(&tokens, actual, &mut captures).then_some(captures)
    })
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token<'a> {
    Literal(&'a str),
    Wild(Wild, Option<&'a str>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wild {
    /// Anything, also nothing.
    Any,
    Guid,
    /// `W/"datetime'…'"`, or the same as it stands inside a JSON string.
    Etag,
    /// A time with up to seven digits of fraction and no zero at their end.
    Time,
    /// A time with exactly seven digits of fraction.
    Time7,
    /// `Tue, 10 Mar 2026 08:15:30 GMT`.
    Date,
    Number,
}

const WILDS: [(&str, Wild); 7] = [
    ("any", Wild::Any),
    ("guid", Wild::Guid),
    ("etag", Wild::Etag),
    ("time", Wild::Time),
    ("time7", Wild::Time7),
    ("date", Wild::Date),
    ("number", Wild::Number),
];

fn tokens(expected: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut literal = 0;
    let mut at = 0;
    while let Some(open) = expected[at..].find('<').map(|offset| at + offset) {
        at = open + 1;
        let Some(close) = expected[open..].find('>').map(|offset| open + offset) else { break };
        let inner = &expected[open + 1..close];
        let (word, name) = inner.split_once('=').map_or((inner, None), |(word, name)| (word, Some(name)));
        if let Some((_, wild)) = WILDS.iter().find(|(known, _)| *known == word) {
            tokens.push(Token::Literal(&expected[literal..open]));
            tokens.push(Token::Wild(*wild, name));
            literal = close + 1;
            at = literal;
        }
    }
    tokens.push(Token::Literal(&expected[literal..]));
    tokens
}

fn follow(tokens: &[Token<'_>], actual: &str, captures: &mut Captures) -> bool {
    match tokens {
        [] => actual.is_empty(),
        [Token::Literal(text), rest @ ..] => {
            actual.strip_prefix(text).is_some_and(|after| follow(rest, after, captures))
        }
        [Token::Wild(_, Some(name)), rest @ ..] if captures.contains_key(*name) => {
            let known = captures[*name].clone();
            actual.strip_prefix(known.as_str()).is_some_and(|after| follow(rest, after, captures))
        }
        [Token::Wild(wild, name), rest @ ..] => {
            // The literal that must come next narrows where the wildcard may end.
            let next = if let [Token::Literal(text), ..] = rest { *text } else { "" };
            let last = rest.len() == 1 && next.is_empty();
            let ends = if last { vec![actual.len()] } else { ends(*wild, actual, next) };
            for end in ends {
                let (text, after) = actual.split_at(end);
                if !wild.accepts(text) {
                    continue;
                }
                let before = captures.clone();
                if let Some(name) = name {
                    captures.insert((*name).to_owned(), text.to_owned());
                }
                if follow(rest, after, captures) {
                    return true;
                }
                *captures = before;
            }
            false
        }
    }
}

fn ends(wild: Wild, actual: &str, next: &str) -> Vec<usize> {
    let longest = if wild == Wild::Any { actual.len() } else { actual.len().min(64) };
    actual
        .char_indices()
        .map(|(at, _)| at)
        .chain([actual.len()])
        .take_while(|at| *at <= longest)
        .filter(|at| actual[*at..].starts_with(next))
        .collect()
}

impl Wild {
    fn accepts(self, text: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Number => !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()),
            Self::Guid => shaped(text, "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh"),
            Self::Time => trimmed_time(text),
            Self::Time7 => shaped(text, "dddd-dd-ddTdd:dd:dd.dddddddZ"),
            Self::Date => shaped(text, "Aaa, dd Aaa dddd dd:dd:dd GMT"),
            Self::Etag => {
                let inner =
                    text.strip_prefix("W/\"datetime'").and_then(|rest| rest.strip_suffix("'\"")).or_else(
                        || text.strip_prefix("W/\\\"datetime'").and_then(|rest| rest.strip_suffix("'\\\"")),
                    );
                inner.is_some_and(|inner| !inner.contains(':') && trimmed_time(&inner.replace("%3A", ":")))
            }
        }
    }
}

fn trimmed_time(text: &str) -> bool {
    let Some((whole, fraction)) = text.strip_suffix('Z').and_then(|text| text.split_at_checked(19)) else {
        return false;
    };
    let digits = fraction.strip_prefix('.').unwrap_or(fraction);
    shaped(whole, "dddd-dd-ddTdd:dd:dd")
        && (fraction.is_empty() || fraction.starts_with('.'))
        && digits.len() <= 7
        && fraction != "."
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && !digits.ends_with('0')
}

/// `d` digit, `h` lower-case hex, `A` and `a` letters; anything else is itself.
fn shaped(text: &str, shape: &str) -> bool {
    text.len() == shape.len()
        && text.bytes().zip(shape.bytes()).all(|(byte, kind)| match kind {
            b'd' => byte.is_ascii_digit(),
            b'h' => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
            b'A' => byte.is_ascii_uppercase(),
            b'a' => byte.is_ascii_lowercase(),
            other => byte == other,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match_their_shapes() {
        for (expected, actual, fits) in [
            ("plain", "plain", true),
            ("plain", "plainer", false),
            ("a<any>c", "abbc", true),
            ("a<any>c", "ac", true),
            ("<any>", "", true),
            ("<guid>", "0f8fad5b-d9cb-469f-a165-70867728950e", true),
            ("<guid>", "0F8FAD5B-D9CB-469F-A165-70867728950E", false),
            ("<etag>", "W/\"datetime'2026-03-10T08%3A15%3A30.1234567Z'\"", true),
            ("<etag>", "W/\\\"datetime'2026-03-10T08%3A15%3A30Z'\\\"", true),
            ("<etag>", "W/\"datetime'2026-03-10T08%3A15%3A30.10Z'\"", false),
            ("<etag>", "W/\"datetime'2026-03-10T08%3a15%3a30.1Z'\"", false),
            ("<time>", "2026-03-10T08:15:30.5Z", true),
            ("<time>", "2026-03-10T08:15:30.50Z", false),
            ("<time7>", "2026-03-10T08:15:30.5000000Z", true),
            ("<date>", "Tue, 10 Mar 2026 08:15:30 GMT", true),
            ("<m:code>X</m:code>", "<m:code>X</m:code>", true),
            ("A <or> B", "B", true),
            ("A <or> B", "C", false),
        ] {
            assert_eq!(matches(expected, actual).is_some(), fits, "{expected} / {actual}");
        }
    }

    #[test]
    fn a_name_stands_for_one_text() {
        assert!(matches("<number=n>-<number=n>", "12-12").is_some());
        assert!(matches("<number=n>-<number=n>", "12-13").is_none());
        assert_eq!(matches("x<any=y>z", "x1z").unwrap()["y"], "1");
    }
}
