//! Durations as people write them.

/// Reads `90`, `90s`, `250ms`, `5m`, `2h` and `7d`; the seconds.
pub(crate) fn seconds(text: &str) -> Option<f64> {
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return None,
    };
    number.parse::<f64>().ok().map(|number| number * unit).filter(|seconds| seconds.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, expected) in [
            ("90", Some(90.0)),
            ("90s", Some(90.0)),
            ("250ms", Some(0.25)),
            ("1.5m", Some(90.0)),
            ("2h", Some(7200.0)),
            ("7d", Some(604_800.0)),
            ("-1s", None),
            ("1w", None),
            ("", None),
            ("s", None),
            ("1.2.3", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }
}
