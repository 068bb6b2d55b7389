//! Templates of keys: literals, and fields in braces with how they are written: `empid_{id:06}`.

/// A piece of a template.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Piece {
    Literal(String),
    Field { name: String, spec: Spec },
}

/// How a field is written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Spec {
    Plain,
    Padded(usize),
    Signed,
    Float,
    Ascending,
    Descending,
    Ordered,
    Hash(u16),
    Seconds,
}

const SPECS: &str =
    "`:06` (digits), `:signed`, `:float`, `:asc`, `:desc`, `:ordered`, `:hash16` (buckets) or `:seconds`";

impl Spec {
    /// Whether the field can be read back.
    pub(crate) fn is_readable(self) -> bool {
        !matches!(self, Self::Hash(_) | Self::Seconds)
    }

    /// Whether keys sort as the values do.
    pub(crate) fn is_ordered(self) -> bool {
        !matches!(self, Self::Plain | Self::Hash(_) | Self::Seconds)
    }

    /// The least number of characters that it takes.
    fn min_length(self) -> usize {
        match self {
            Self::Plain | Self::Ordered => 0,
            Self::Padded(digits) => digits,
            Self::Signed | Self::Float => 16,
            Self::Ascending | Self::Descending => 19,
            Self::Hash(..=10) => 1,
            Self::Hash(11..=100) | Self::Seconds => 2,
            Self::Hash(_) => 3,
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        Ok(match text {
            "signed" => Self::Signed,
            "float" => Self::Float,
            "asc" => Self::Ascending,
            "desc" => Self::Descending,
            "ordered" => Self::Ordered,
            "seconds" => Self::Seconds,
            _ => return Self::parse_number(text),
        })
    }

    fn parse_number(text: &str) -> Result<Self, String> {
        let unknown = || format!("`:{text}` is not known: write {SPECS}");
        if let Some(count) = text.strip_prefix("hash") {
            let count: u16 = count.parse().map_err(|_| unknown())?;
            if !(2..=1000).contains(&count) {
                return Err(format!("`:{text}` must have 2 to 1000 buckets, for example `:hash16`"));
            }
            return Ok(Self::Hash(count));
        }
        let digits: usize = text.parse().map_err(|_| unknown())?;
        if !text.starts_with('0') {
            return Err(format!(
                "`:{text}` must begin with a zero, because that is what fills it up: write `:0{text}`"
            ));
        }
        if !(1..=20).contains(&digits) {
            return Err(format!("`:{text}` must have 1 to 20 digits, for example `:06`"));
        }
        Ok(Self::Padded(digits))
    }
}

/// The pieces of a template, or what is wrong with it.
pub(crate) fn parse(text: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("{{").or_else(|| rest.strip_prefix("}}")) {
            literal.push(character);
            rest = after;
        } else if character == '}' {
            return Err("`}` has no `{` before it; the character itself is written `}}`".to_owned());
        } else if character == '{' {
            let (inner, after) = rest[1..]
                .split_once('}')
                .ok_or("`{` has no `}` after it; the character itself is written `{{`")?;
            rest = after;
            if !literal.is_empty() {
                pieces.push(Piece::Literal(std::mem::take(&mut literal)));
            }
            let (name, spec) = inner.split_once(':').map_or((inner, None), |(name, spec)| (name, Some(spec)));
            if name.is_empty() {
                return Err("`{}` names no field: write for example `{id:06}`".to_owned());
            }
            let spec = spec.map_or(Ok(Spec::Plain), Spec::parse)?;
            pieces.push(Piece::Field { name: name.to_owned(), spec });
        } else {
            literal.push(character);
            rest = &rest[character.len_utf8()..];
        }
    }
    if !literal.is_empty() {
        pieces.push(Piece::Literal(literal));
    }
    check(&pieces)?;
    Ok(pieces)
}

/// What pieces must not be, whatever the fields are.
fn check(pieces: &[Piece]) -> Result<(), String> {
    for (index, piece) in pieces.iter().enumerate() {
        let next = pieces.get(index + 1);
        match piece {
            Piece::Literal(text) => {
                if let Some(character) = text.chars().find(|&character| !is_key_character(character)) {
                    return Err(format!("keys must not hold {character:?}"));
                }
            }
            Piece::Field { name, spec: Spec::Plain } => {
                if matches!(next, Some(Piece::Field { .. })) {
                    return Err(format!(
                        "nothing tells where `{{{name}}}` ends: write a separator after it, for example `{{{name}}}_`"
                    ));
                }
            }
            Piece::Field { name, spec: Spec::Ordered } => {
                let ends = match next {
                    None => true,
                    Some(Piece::Literal(text)) => text.starts_with(' '),
                    Some(Piece::Field { .. }) => false,
                };
                if !ends {
                    return Err(format!(
                        "ordered text ends at a blank, which sorts before all else: write `{{{name}:ordered}} ` with a blank after it"
                    ));
                }
            }
            Piece::Field { .. } => {}
        }
    }
    let length: usize = pieces.iter().map(min_length).sum();
    if length > 512 {
        return Err(format!(
            "the key has at least {length} UTF-16 code units, of which 512 are valid everywhere"
        ));
    }
    Ok(())
}

fn min_length(piece: &Piece) -> usize {
    match piece {
        Piece::Literal(text) => text.encode_utf16().count(),
        Piece::Field { spec, .. } => spec.min_length(),
    }
}

/// As the Table service has it.
fn is_key_character(character: char) -> bool {
    !matches!(character, '/' | '\\' | '#' | '?') && !character.is_control()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str, spec: Spec) -> Piece {
        Piece::Field { name: name.to_owned(), spec }
    }

    fn literal(text: &str) -> Piece {
        Piece::Literal(text.to_owned())
    }

    #[test]
    fn templates() {
        for (text, expected) in [
            ("", vec![]),
            ("Sales", vec![literal("Sales")]),
            ("empid_{id:06}", vec![literal("empid_"), field("id", Spec::Padded(6))]),
            ("{a}_{b}", vec![field("a", Spec::Plain), literal("_"), field("b", Spec::Plain)]),
            ("{a:hash16}{at:desc}", vec![field("a", Spec::Hash(16)), field("at", Spec::Descending)]),
            (
                "{p:ordered} {n:signed}",
                vec![field("p", Spec::Ordered), literal(" "), field("n", Spec::Signed)],
            ),
            ("{{a}}", vec![literal("{a}")]),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_templates_must_not_be() {
        for text in [
            "{",
            "}",
            "{}",
            "{:06}",
            "{id:6}",
            "{id:00}",
            "{id:021}",
            "{id:x}",
            "{id:hash1}",
            "{id:hash}",
            "{id:hash1001}",
            "a/b",
            "a\tb",
            "{a}{b}",
            "{a:ordered}_",
            "{a:ordered}{b}",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse(&"x".repeat(512)).is_ok() && parse(&"x".repeat(513)).is_err());
    }
}
