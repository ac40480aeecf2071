//! Integers in the spellings that JSON has for them.

/// The integer that a JSON number stands for, also written as `42.0` or `4.2e1`; `None` for a
/// fraction, for more than an `i64` holds, and for what is no number. Exact to the last digit, and
/// without the tables that reading floats takes.
pub(crate) fn integer(json: &str) -> Option<i64> {
    let (sign, rest) = match json.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", json),
    };
    let (decimal, exponent) = match rest.split_once(['e', 'E']) {
        Some((decimal, exponent)) => (decimal, exponent.parse::<i64>().ok()?),
        None => (rest, 0),
    };
    let (whole, fraction) = decimal.split_once('.').unwrap_or((decimal, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let counted = digits.trim_end_matches('0');
    if counted.is_empty() {
        return Some(0);
    }
    let zeros = i64::try_from(digits.len() - counted.len()).ok()?;
    let behind = i64::try_from(fraction.len()).ok()?;
    let power = exponent.checked_sub(behind)?.checked_add(zeros)?;
    let factor = 10i64.checked_pow(u32::try_from(power).ok()?)?;
    format!("{sign}{counted}")
        .parse::<i64>()
        .ok()?
        .checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_integer_is_one_in_every_spelling() {
        for (json, wanted) in [
            ("0", Some(0)),
            ("-0.0e7", Some(0)),
            ("42", Some(42)),
            ("42.0", Some(42)),
            ("4.2e1", Some(42)),
            ("4200E-2", Some(42)),
            ("-4.2e+1", Some(-42)),
            ("420.00e-1", Some(42)),
            ("0.0042e4", Some(42)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808.0", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("1e18", Some(1_000_000_000_000_000_000)),
            ("1e19", None),
            ("1e9223372036854775807", None),
            ("0e9223372036854775807", Some(0)),
            ("1e-9223372036854775808", None),
            ("1e99999999999999999999", None),
            ("42.5", None),
            ("42e-1", None),
            ("9007199254740992.5", None),
            ("1.00000000000000000001", None),
            ("", None),
            ("-", None),
            ("+1", None),
            ("1.", None),
            (".5", None),
            ("1e", None),
            ("true", None),
            ("null", None),
            ("\"1\"", None),
        ] {
            assert_eq!(integer(json), wanted, "{json}");
        }
    }
}
