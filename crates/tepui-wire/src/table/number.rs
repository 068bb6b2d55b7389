//! Doubles as text: the shortest digits that read back as the same number, dressed as .NET does it.

/// Whole numbers below this are exact, and are written without an exponent.
const WHOLE_LIMIT: f64 = 1e15;

/// Appends a number so that it reads back as a Double: there is always a `.` or an `E`.
///
/// The point stays fixed for magnitudes from 0.0001 to below 1E+15 (`0.0001`, `123456789012345.0`);
/// outside there is an exponent with a sign and at least two digits (`1E-05`, `1E+15`, `1.5E+300`).
/// The special ones are `NaN`, `Infinity` and `-Infinity`; JSON needs quotes around them.
pub(crate) fn write_double(out: &mut Vec<u8>, number: f64) {
    if number.trunc() == number && number.abs() < WHOLE_LIMIT {
        if number.is_sign_negative() && number == 0.0 {
            out.push(b'-');
        }
        out.extend_from_slice(itoa::Buffer::new().format(number as i64).as_bytes());
        out.extend_from_slice(b".0");
    } else if number.is_nan() {
        out.extend_from_slice(b"NaN");
    } else if number.is_infinite() {
        out.extend_from_slice(if number > 0.0 { b"Infinity" } else { b"-Infinity" });
    } else {
        write_digits(out, number);
    }
}

fn write_digits(out: &mut Vec<u8>, number: f64) {
    let mut buffer = ryu::Buffer::new();
    let text = buffer.format_finite(number);
    // Between these the printer keeps the point fixed too, and prints just what is wanted.
    if (1e-4..WHOLE_LIMIT).contains(&number.abs()) {
        return out.extend_from_slice(text.as_bytes());
    }
    let (sign, text) = text.strip_prefix('-').map_or(("", text), |positive| ("-", positive));
    let (digits, exponent) = text
        .split_once('e')
        .map_or((text, 0), |(digits, exponent)| (digits, exponent.parse::<i32>().unwrap_or(0)));
    // What the printer still writes with a fixed point is 0.0000123 or 1234567890123456.0.
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{fraction}");
    let leading = all.len() - all.trim_start_matches('0').len();
    let significant = all.trim_matches('0');
    let exponent = exponent + whole.len() as i32 - 1 - leading as i32;
    let (first, rest) = significant.split_at(1.min(significant.len()));
    let point = if rest.is_empty() { "" } else { "." };
    let exponent_sign = if exponent < 0 { '-' } else { '+' };
    let text = format!("{sign}{first}{point}{rest}E{exponent_sign}{:02}", exponent.abs());
    out.extend_from_slice(text.as_bytes());
}

/// A number from its digits; `None` if they are none, or beyond what a Double holds.
pub(crate) fn parse_digits(text: &str) -> Option<f64> {
    let digits = |byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
    let number: f64 = text.bytes().all(digits).then(|| text.parse().ok())??;
    number.is_finite().then_some(number)
}

/// A number from its digits or from the name of a special one, in the words of JSON and of XML.
pub(crate) fn parse_double(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" | "INF" => Some(f64::INFINITY),
        "-Infinity" | "-INF" => Some(f64::NEG_INFINITY),
        _ => parse_digits(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(number: f64) -> String {
        let mut out = Vec::new();
        write_double(&mut out, number);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn written() {
        for (number, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (3.0, "3.0"),
            (-3.0, "-3.0"),
            (2.5, "2.5"),
            (-1234.5625, "-1234.5625"),
            (0.1, "0.1"),
            (0.0001, "0.0001"),
            (0.00012345, "0.00012345"),
            (0.00001, "1E-05"),
            (1.5e-7, "1.5E-07"),
            (123456789012345.0, "123456789012345.0"),
            (999999999999999.0, "999999999999999.0"),
            (12345678901234.5, "12345678901234.5"),
            (123456789012345.67, "123456789012345.67"),
            (1e15, "1E+15"),
            (1234567890123456.0, "1.234567890123456E+15"),
            (1e20, "1E+20"),
            (-1.5e300, "-1.5E+300"),
            (f64::MAX, "1.7976931348623157E+308"),
            (f64::MIN_POSITIVE, "2.2250738585072014E-308"),
            (5e-324, "5E-324"),
            (std::f64::consts::PI, "3.141592653589793"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(text(number), expected);
        }
    }

    #[test]
    fn read() {
        for (text, expected) in [
            ("3", Some(3.0)),
            ("1E+20", Some(1e20)),
            ("INF", Some(f64::INFINITY)),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            ("1e400", None),
            ("inf", None),
            ("nan", None),
            ("", None),
            ("-", None),
            ("1e", None),
            (" 1", None),
            ("0x10", None),
        ] {
            assert_eq!(parse_double(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn written_numbers_read_back(bits in any::<u64>(), scale in -20i32..20, digits in -100_000i64..100_000) {
            for number in [f64::from_bits(bits), digits as f64 * 10f64.powi(scale)] {
                prop_assume!(!number.is_nan());
                let text = text(number);
                prop_assert_eq!(parse_double(&text).map(f64::to_bits), Some(number.to_bits()), "{}", text);
                prop_assert!(!number.is_finite() || text.contains(['.', 'E']));
            }
        }
    }
}
