//! Text as JSON: ASCII only, whatever it holds.

/// Appends a text with its quotes.
///
/// Fidelity: what is not ASCII becomes `\uXXXX` in lower case. scenario: values-text-escapes
pub fn write_json_string(out: &mut Vec<u8>, utf8: &[u8]) {
    match std::str::from_utf8(utf8) {
        Ok(text) => write_text(out, text),
        // Only a bug could have stored this; the answer stays JSON.
        Err(_) => write_text(out, &String::from_utf8_lossy(utf8)),
    }
}

/// Appends a text with its quotes.
pub(super) fn write_text(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    write_escaped(out, text);
    out.push(b'"');
}

fn write_escaped(out: &mut Vec<u8>, text: &str) {
    let mut rest = text;
    while let Some(length) = rest.bytes().position(|byte| !STANDS_AS_IT_IS[usize::from(byte)]) {
        out.extend_from_slice(&rest.as_bytes()[..length]);
        // The run before was ASCII, so a character starts here.
        let mut characters = rest[length..].chars();
        if let Some(character) = characters.next() {
            write_escape(out, character);
        }
        rest = characters.as_str();
    }
    out.extend_from_slice(rest.as_bytes());
}

fn write_escape(out: &mut Vec<u8>, character: char) {
    match character {
        '"' => out.extend_from_slice(b"\\\""),
        '\\' => out.extend_from_slice(b"\\\\"),
        '\n' => out.extend_from_slice(b"\\n"),
        '\r' => out.extend_from_slice(b"\\r"),
        '\t' => out.extend_from_slice(b"\\t"),
        '\u{8}' => out.extend_from_slice(b"\\b"),
        '\u{C}' => out.extend_from_slice(b"\\f"),
        _ => {
            const DIGITS: &[u8; 16] = b"0123456789abcdef";
            for unit in character.encode_utf16(&mut [0; 2]) {
                let digit = |shift: u16| DIGITS[usize::from(*unit >> shift & 15)];
                out.extend_from_slice(&[b'\\', b'u', digit(12), digit(8), digit(4), digit(0)]);
            }
        }
    }
}

static STANDS_AS_IT_IS: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = b' ';
    while byte <= 0x7F {
        table[byte as usize] = byte != b'"' && byte != b'\\';
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn json(text: &str) -> String {
        let mut out = Vec::new();
        write_json_string(&mut out, text.as_bytes());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn escapes() {
        for (text, expected) in [
            ("", r#""""#),
            ("plain /<>&'", r#""plain /<>&'""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\u{0}\u{1f}\u{8}\u{c}\n\r\t\u{7f}", "\"\\u0000\\u001f\\b\\f\\n\\r\\t\u{7f}\""),
            ("Zoë ô", r#""Zo\u00eb \u00f4""#),
            ("\u{80}大", r#""\u0080\u5927""#),
            ("😀!", r#""\ud83d\ude00!""#),
        ] {
            assert_eq!(json(text), expected);
        }
        let mut out = Vec::new();
        write_json_string(&mut out, b"a\xFF");
        assert_eq!(out, br#""a\ufffd""#);
    }

    proptest! {
        #[test]
        fn any_text_reads_back(text in any::<String>()) {
            prop_assert_eq!(serde_json::from_str::<String>(&json(&text)).unwrap(), text);
        }
    }
}
