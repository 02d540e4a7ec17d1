//! Durations as texts: `"30s"`, `"1h30m"`.

use std::time::Duration;

/// From the largest to the smallest, the order in which they may stand; with their milliseconds.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// The longest duration that Outlast accepts: a hundred years.
const LONGEST: u64 = 100 * 366 * 86_400_000;

/// Reads a duration, or says what is wrong with the text.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let mut millis = 0u64;
    let mut next_unit = 0;
    let mut rest = text;
    loop {
        let (count, after) = split(rest, |c| c.is_ascii_digit());
        let (unit, after) = split(after, char::is_alphabetic);
        if count.is_empty() || unit.is_empty() {
            return Err(
                r#"write whole numbers with units, such as "250ms", "30s", "5m", "2h", "1d", "1h30m""#.into(),
            );
        }
        let Some(at) = UNITS.iter().position(|(name, _)| *name == unit) else {
            return Err(format!(r#"`{unit}` is no unit: use ms, s, m, h or d, as in "30s" or "1h30m""#));
        };
        if at < next_unit {
            return Err(r#"write the largest unit first and each once, as in "1h30m""#.into());
        }
        let part = count.parse::<u64>().ok().and_then(|count| count.checked_mul(UNITS[at].1));
        match part.and_then(|part| part.checked_add(millis)) {
            Some(sum) if sum <= LONGEST => millis = sum,
            _ => return Err("the longest duration is a hundred years".into()),
        }
        if after.is_empty() {
            return Ok(Duration::from_millis(millis));
        }
        next_unit = at + 1;
        rest = after;
    }
}

fn split(text: &str, belongs: fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_numbers_with_units() {
        let cases = [
            ("250ms", 250),
            ("30s", 30_000),
            ("5m", 300_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
            ("1h30m", 5_400_000),
            ("1d2h3m4s5ms", 93_784_005),
            ("0s", 0),
            ("36600d", LONGEST),
        ];
        for (text, millis) in cases {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused_with_the_remedy() {
        let cases = [
            ("", "whole numbers with units"),
            ("30", "whole numbers with units"),
            ("s", "whole numbers with units"),
            ("1.5h", "whole numbers with units"),
            ("-1s", "whole numbers with units"),
            ("30 s", "whole numbers with units"),
            (" 30s", "whole numbers with units"),
            ("1h30", "whole numbers with units"),
            ("١s", "whole numbers with units"),
            ("30sec", "`sec` is no unit"),
            ("2H", "`H` is no unit"),
            ("5µs", "`µs` is no unit"),
            ("30m1h", "largest unit first"),
            ("1s1s", "largest unit first"),
            ("36601d", "a hundred years"),
            ("36600d1ms", "a hundred years"),
            ("99999999999999999999d", "a hundred years"),
            ("18446744073709551615d", "a hundred years"),
        ];
        for (text, remedy) in cases {
            let said = parse(text).unwrap_err();
            assert!(said.contains(remedy), "{text:?}: {said}");
        }
    }
}
