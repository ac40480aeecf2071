//! Header values that hold any text: as it is where HTTP keeps it so, else wrapped base64.
//!
//! Owns the spelling; must not know which header it is or what the text means.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The value to send for `text`.
pub(crate) fn encode(text: &str) -> Cow<'_, str> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }
    let mut value = String::with_capacity(OPEN.len() + text.len().div_ceil(3) * 4 + CLOSE.len());
    value.push_str(OPEN);
    STANDARD.encode_string(text, &mut value);
    value.push_str(CLOSE);
    Cow::Owned(value)
}

/// The text of a value that came in, without the white space around it. One that is not wrapped on
/// both sides is literal, and then ASCII: of other bytes nobody knows what they mean.
pub(crate) fn decode(text: &str) -> Result<Cow<'_, str>, &'static str> {
    let wrapped = text.strip_prefix(OPEN).and_then(|t| t.strip_suffix(CLOSE));
    let Some(wrapped) = wrapped else {
        return match text.is_ascii() {
            true => Ok(Cow::Borrowed(text)),
            false => Err("is not ASCII: wrap it as `=?base64?...?=`"),
        };
    };
    let bytes = STANDARD
        .decode(wrapped)
        .map_err(|_| "is not valid padded base64 inside its wrapper")?;
    String::from_utf8(bytes)
        .map(Cow::Owned)
        .map_err(|_| "is not UTF-8 inside its wrapper")
}

/// Whether `text` arrives unchanged. A tab inside would too, but common peers want it wrapped.
fn is_plain(text: &str) -> bool {
    // Also where both marks share the `?`: some peers look at the two ends alone.
    let looks_wrapped = text.starts_with(OPEN) && text.ends_with(CLOSE);
    let padded = text.starts_with(' ') || text.ends_with(' ');
    !looks_wrapped && !padded && text.bytes().all(|b| matches!(b, b' '..=b'~'))
}

const OPEN: &str = "=?base64?";
const CLOSE: &str = "?=";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // Covers R-1411.
    #[test]
    fn a_text_goes_plain_only_if_it_arrives_unchanged() {
        let plain = [
            "",
            "us-west1",
            "us west 1",
            "~!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}",
            "=?base64?SGVsbG8=",
            "SGVsbG8=?=",
            "=?BASE64?SGVsbG8=?=",
            "=?utf-8?SGVsbG8=?=",
        ];
        for text in plain {
            assert_eq!(encode(text), text, "{text:?}");
        }
        let wrapped = [
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            (" us-west1", "=?base64?IHVzLXdlc3Qx?="),
            ("us-west1 ", "=?base64?dXMtd2VzdDEg?="),
            (" ", "=?base64?IA==?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("line1\r\nline2", "=?base64?bGluZTENCmxpbmUy?="),
            ("\tindented", "=?base64?CWluZGVudGVk?="),
            ("a\tb", "=?base64?YQli?="),
            ("\0", "=?base64?AA==?="),
            ("\x7f", "=?base64?fw==?="),
            ("é", "=?base64?w6k=?="),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("=?base64??=", "=?base64?PT9iYXNlNjQ/Pz0=?="),
            ("=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="),
        ];
        for (text, value) in wrapped {
            assert_eq!(encode(text), value, "{text:?}");
            assert_eq!(decode(value).as_deref(), Ok(text), "{value:?}");
        }
    }

    // Covers R-1412.
    #[test]
    fn only_a_whole_wrapper_is_decoded() {
        let literal = [
            "",
            "us-west1",
            "SGVsbG8=",
            "=?base64?SGVsbG8=",
            "SGVsbG8=?=",
            "=?base64?=",
            "=?BASE64?SGVsbG8=?=",
            "=?Base64?SGVsbG8=?=",
            "x=?base64?SGVsbG8=?=",
            "=?base64?SGVsbG8=?=x",
        ];
        for text in literal {
            assert_eq!(decode(text).as_deref(), Ok(text), "{text:?}");
        }
        assert_eq!(decode("=?base64??=").as_deref(), Ok(""));
        assert_eq!(decode("=?base64?SGVsbG8=?=").as_deref(), Ok("Hello"));
    }

    // Covers R-1412.
    #[test]
    fn a_broken_wrapper_is_refused() {
        let cases = [
            ("=?base64?SGVsbG8?=", "no padding"),
            ("=?base64?SGVsbG8==?=", "too much padding"),
            ("=?base64?=SGVsbG8?=", "padding in front"),
            ("=?base64?SGVs!!!bG8=?=", "outside the alphabet"),
            ("=?base64?SGVs bG8=?=", "a space"),
            ("=?base64?PD8_Pg==?=", "the alphabet of URLs"),
            ("=?base64?SGVsbG9=?=", "bits after the end"),
            ("=?base64?SGVsbG8=?=, =?base64?SGVsbG8=?=", "sent twice"),
            ("=?base64?/w==?=", "no UTF-8"),
            ("=?base64?7aCA?=", "a lone surrogate"),
            ("é", "no wrapper at all"),
            ("\u{fffd}", "what stands for bytes that are no text"),
        ];
        for (value, case) in cases {
            assert!(decode(value).is_err(), "{case}: {value:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_comes_back(text in any::<String>()) {
            let value = encode(&text);
            prop_assert_eq!(decode(&value), Ok(Cow::Borrowed(text.as_str())));
            prop_assert!(value.bytes().all(|b| matches!(b, b' '..=b'~')), "{}", value);
            prop_assert_eq!(value.trim(), &*value);
        }

        #[test]
        fn a_text_near_the_wrapper_comes_back(text in "(=\\?base64\\?)?[ -~\t]{0,8}(\\?=)?") {
            let value = encode(&text);
            prop_assert_eq!(decode(value.trim()), Ok(Cow::Borrowed(text.as_str())));
        }

        #[test]
        fn no_value_breaks_the_decoder(value in "(=\\?base64\\?)?\\PC{0,12}(\\?=)?") {
            let _ = decode(&value);
        }
    }
}
