//! JSON, keeping what a comparison must see: the order of members, members given twice, and numbers as
//! they were written (`3` and `3.0` are not the same answer).

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut reader = Reader { text, at: 0 };
        let value = reader.value()?;
        reader.blanks();
        if reader.at == text.len() { Ok(value) } else { Err(reader.complaint("the end")) }
    }

    pub(crate) fn member(&self, name: &str) -> Option<&Json> {
        match self {
            Self::Object(members) => members.iter().find(|(key, _)| key == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// Values at a path such as `odata.error.code`, `value[0].Name` or `value[*].RowKey`. Member names
    /// may contain dots themselves: every way to cut the path is tried.
    pub(crate) fn find<'a>(&'a self, path: &str) -> Found<'a> {
        if path.is_empty() {
            return Found::One(self);
        }
        if let Some((index, after)) = path.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            let Self::Array(elements) = self else { return Found::Nothing };
            let after = after.strip_prefix('.').unwrap_or(after);
            if index == "*" {
                return Found::Many(elements.iter().map(|element| element.find(after).one()).collect());
            }
            let element = index.parse::<usize>().ok().and_then(|index| elements.get(index));
            return element.map_or(Found::Nothing, |element| element.find(after));
        }
        let cuts = path.char_indices().filter(|(_, mark)| matches!(mark, '.' | '[')).map(|(at, _)| at);
        for cut in cuts.chain([path.len()]) {
            if let Some(value) = self.member(&path[..cut]) {
                let after = &path[cut..];
                let found = value.find(after.strip_prefix('.').unwrap_or(after));
                if !matches!(found, Found::Nothing) {
                    return found;
                }
            }
        }
        Found::Nothing
    }
}

/// What a path leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    Nothing,
    One(&'a Json),
    /// Of a path with `[*]`: one for each element.
    Many(Vec<Option<&'a Json>>),
}

impl<'a> Found<'a> {
    fn one(self) -> Option<&'a Json> {
        if let Self::One(value) = self { Some(value) } else { None }
    }
}

impl std::fmt::Display for Json {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Null => write!(out, "null"),
            Self::Bool(value) => write!(out, "{value}"),
            Self::Number(text) => write!(out, "{text}"),
            Self::Text(text) => write!(out, "{text:?}"),
            Self::Array(elements) => {
                write!(out, "[")?;
                for (index, element) in elements.iter().enumerate() {
                    write!(out, "{}{element}", if index == 0 { "" } else { "," })?;
                }
                write!(out, "]")
            }
            Self::Object(members) => {
                write!(out, "{{")?;
                for (index, (name, value)) in members.iter().enumerate() {
                    write!(out, "{}{name:?}:{value}", if index == 0 { "" } else { "," })?;
                }
                write!(out, "}}")
            }
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn complaint(&self, wanted: &str) -> String {
        let found: String = self.rest().chars().take(20).collect();
        format!("not JSON: at byte {} wanted {wanted}, found '{found}'", self.at)
    }

    fn blanks(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
    }

    fn take(&mut self, mark: char) -> bool {
        self.blanks();
        let found = self.rest().starts_with(mark);
        if found {
            self.at += mark.len_utf8();
        }
        found
    }

    fn value(&mut self) -> Result<Json, String> {
        self.blanks();
        for (word, value) in [("null", Json::Null), ("true", Json::Bool(true)), ("false", Json::Bool(false))]
        {
            if self.rest().starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        match self.rest().chars().next() {
            Some('"') => self.text().map(Json::Text),
            Some('[') => self.array(),
            Some('{') => self.object(),
            Some('-' | '0'..='9') => self.number(),
            _ => Err(self.complaint("a value")),
        }
    }

    fn number(&mut self) -> Result<Json, String> {
        let rest = self.rest();
        let length = rest.find(|mark: char| !matches!(mark, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'));
        let number = rest[..length.unwrap_or(rest.len())].to_owned();
        if number.parse::<f64>().is_err() {
            return Err(self.complaint("a number"));
        }
        self.at += number.len();
        Ok(Json::Number(number))
    }

    fn array(&mut self) -> Result<Json, String> {
        self.at += 1;
        let mut elements = Vec::new();
        if self.take(']') {
            return Ok(Json::Array(elements));
        }
        loop {
            elements.push(self.value()?);
            if self.take(']') {
                return Ok(Json::Array(elements));
            }
            if !self.take(',') {
                return Err(self.complaint("',' or ']'"));
            }
        }
    }

    fn object(&mut self) -> Result<Json, String> {
        self.at += 1;
        let mut members = Vec::new();
        if self.take('}') {
            return Ok(Json::Object(members));
        }
        loop {
            self.blanks();
            let name = self.text()?;
            if !self.take(':') {
                return Err(self.complaint("':'"));
            }
            members.push((name, self.value()?));
            if self.take('}') {
                return Ok(Json::Object(members));
            }
            if !self.take(',') {
                return Err(self.complaint("',' or '}'"));
            }
        }
    }

    fn text(&mut self) -> Result<String, String> {
        if !self.take('"') {
            return Err(self.complaint("a string"));
        }
        let mut units: Vec<u16> = Vec::new();
        loop {
            let mark = self.rest().chars().next().ok_or_else(|| self.complaint("'\"'"))?;
            self.at += mark.len_utf8();
            match mark {
                '"' => {
                    return String::from_utf16(&units).map_err(|_| self.complaint("whole surrogate pairs"));
                }
                '\\' => units.push(self.escape()?),
                '\0'..='\u{1f}' => return Err(self.complaint("no bare control character")),
                _ => units.extend_from_slice(mark.encode_utf16(&mut [0; 2])),
            }
        }
    }

    fn escape(&mut self) -> Result<u16, String> {
        let mark = self.rest().chars().next().ok_or_else(|| self.complaint("an escape"))?;
        self.at += mark.len_utf8();
        Ok(match mark {
            '"' | '\\' | '/' => mark as u16,
            'b' => 8,
            'f' => 12,
            'n' => 10,
            'r' => 13,
            't' => 9,
            'u' => {
                let digits = self.rest().get(..4).and_then(|digits| u16::from_str_radix(digits, 16).ok());
                let unit = digits.ok_or_else(|| self.complaint("four hex digits"))?;
                self.at += 4;
                unit
            }
            _ => return Err(self.complaint("an escape")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_numbers_as_written() {
        let value = Json::parse(r#"{"a":3.0,"b":[1E+20,-5]}"#).unwrap();
        assert_eq!(value.find("a"), Found::One(&Json::Number("3.0".into())));
        assert_eq!(value.find("b[0]"), Found::One(&Json::Number("1E+20".into())));
    }

    #[test]
    fn finds_members_with_dots_in_their_names() {
        let value = Json::parse(r#"{"odata.error":{"code":"X"},"Big@odata.type":"Edm.Int64"}"#).unwrap();
        assert_eq!(value.find("odata.error.code"), Found::One(&Json::Text("X".into())));
        assert_eq!(value.find("Big@odata.type"), Found::One(&Json::Text("Edm.Int64".into())));
        assert_eq!(value.find("odata.nothing"), Found::Nothing);
    }

    #[test]
    fn collects_over_an_array() {
        let value = Json::parse(r#"{"value":[{"k":1},{}]}"#).unwrap();
        assert_eq!(value.find("value[*].k"), Found::Many(vec![Some(&Json::Number("1".into())), None]));
    }

    #[test]
    fn reads_escapes_and_refuses_what_is_not_json() {
        assert_eq!(Json::parse(r#""\ud83d\ude00\n""#).unwrap(), Json::Text("😀\n".into()));
        for bad in ["{", "{\"a\":}", "[1,]", "\"\u{1}\"", "1 2", "nul"] {
            assert!(Json::parse(bad).is_err(), "{bad}");
        }
    }
}
