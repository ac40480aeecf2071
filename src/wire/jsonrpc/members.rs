//! The members of a JSON object by their names, raw.
//!
//! One reader for every object of the protocol: what serde derives is some kilobytes of code for each.
//! Must not know what a member means.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// What is read from a JSON object of the protocol.
pub(crate) trait Object<'a>: Sized {
    /// Reads one. Members that nobody asks for do not count.
    fn read(json: &'a str) -> serde_json::Result<Self>;
}

/// The members with these names, in their order; one that is null is absent. A member that stands
/// twice is an error, and so is anything but an object.
pub(crate) fn given<'a, const N: usize>(
    json: &'a str,
    names: [&str; N],
) -> serde_json::Result<[Option<&'a RawValue>; N]> {
    let is_given = |raw: &&RawValue| raw.get() != "null";
    Ok(members(json, names)?.map(|member| member.filter(is_given)))
}

/// A member that has to be there.
pub(crate) fn required<'a>(
    member: Option<&'a RawValue>,
    name: &'static str,
) -> serde_json::Result<&'a RawValue> {
    member.ok_or_else(|| serde_json::Error::missing_field(name))
}

/// The text of a member that has to be there.
pub(crate) fn required_text<'a>(
    member: Option<&'a RawValue>,
    name: &'static str,
) -> serde_json::Result<Cow<'a, str>> {
    text(required(member, name)?.get()).map_err(|e| misfit(name, &e))
}

/// What a member says that is of a type of ours.
pub(crate) fn value<'a, T: Deserialize<'a>>(
    member: &'a RawValue,
    name: &str,
) -> serde_json::Result<T> {
    serde_json::from_str(member.get()).map_err(|e| misfit(name, &e))
}

/// Says which member it was. The position in it tells nobody anything.
pub(crate) fn misfit(name: &str, error: &serde_json::Error) -> serde_json::Error {
    let text = error.to_string();
    let (text, _) = text.rsplit_once(" at line ").unwrap_or((&text, ""));
    Error::custom(format_args!("`{name}`: {text}"))
}

/// The text of a JSON string, borrowed if nothing in it is escaped.
pub(crate) fn text(json: &str) -> serde_json::Result<Cow<'_, str>> {
    // A `Cow` would be owned in any case.
    match serde_json::from_str::<&str>(json) {
        Ok(text) => Ok(text.into()),
        Err(_) => serde_json::from_str::<String>(json).map(Cow::from),
    }
}

/// As [`given`], but one that is null is there.
pub(crate) fn members<'a, const N: usize>(
    json: &'a str,
    names: [&str; N],
) -> serde_json::Result<[Option<&'a RawValue>; N]> {
    let mut found = [None; N];
    read(json, &names, &mut found)?;
    Ok(found)
}

/// Apart, so that there is one of it for any number of names.
#[inline(never)]
fn read<'a>(
    json: &'a str,
    names: &[&str],
    found: &mut [Option<&'a RawValue>],
) -> serde_json::Result<()> {
    if json.trim_start().starts_with('[') {
        return Err(Error::custom("an array where an object has to be"));
    }
    let mut json = serde_json::Deserializer::from_str(json);
    json.deserialize_map(Members { names, found })?;
    json.end()
}

struct Members<'m, 'a> {
    names: &'m [&'m str],
    found: &'m mut [Option<&'a RawValue>],
}

impl<'de> Visitor<'de> for Members<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(place) = map.next_key_seed(Name(self.names))? {
            let wanted = place.and_then(|place| Some((place, self.found.get_mut(place)?)));
            match wanted {
                None => drop(map.next_value::<IgnoredAny>()?),
                Some((_, member @ None)) => *member = Some(map.next_value()?),
                Some((place, Some(_))) => {
                    let name = self.names.get(place).copied().unwrap_or_default();
                    return Err(A::Error::custom(format_args!("duplicate field `{name}`")));
                }
            }
        }
        Ok(())
    }
}

/// Looks up where a name stands, without keeping it.
struct Name<'m>(&'m [&'m str]);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|wanted| *wanted == name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_by_their_names_wherever_they_stand() {
        for (json, wanted) in [
            ("{}", Ok([None, None])),
            (r#"{"a":1}"#, Ok([Some("1"), None])),
            (
                r#" {"x":{"a":2},"b":[1],"a":"t"} "#,
                Ok([Some("\"t\""), Some("[1]")]),
            ),
            (r#"{"\u0061":null}"#, Ok([Some("null"), None])),
            (r#"{"a":1,"x":0,"x":0}"#, Ok([Some("1"), None])),
            (
                r#"{"a":1,"a":1}"#,
                Err("duplicate field `a` at line 1 column 10"),
            ),
            (
                r#"{"a":null,"a":1}"#,
                Err("duplicate field `a` at line 1 column 13"),
            ),
            (" [1,2]", Err("an array where an object has to be")),
            (
                "7",
                Err("invalid type: integer `7`, expected an object at line 1 column 1"),
            ),
            ("{} {}", Err("trailing characters at line 1 column 4")),
            (
                r#"{"a":1"#,
                Err("EOF while parsing an object at line 1 column 6"),
            ),
        ] {
            let found = members(json, ["a", "b"]).map_err(|e| e.to_string());
            let found = found.map(|found| found.map(|raw| raw.map(RawValue::get)));
            assert_eq!(found, wanted.map_err(str::to_owned), "{json}");
        }
        let given = given(r#"{"a":null,"b":false}"#, ["a", "b"]).unwrap();
        assert_eq!(
            given.map(|raw| raw.map(RawValue::get)),
            [None, Some("false")]
        );
    }

    #[test]
    fn a_member_of_another_type_is_named() {
        let [a] = members(r#"{"a":[7]}"#, ["a"]).unwrap();
        let wanted = "`a`: invalid type: sequence, expected a string";
        assert_eq!(required_text(a, "a").unwrap_err().to_string(), wanted);
        let wanted = "missing field `b`";
        assert_eq!(required_text(None, "b").unwrap_err().to_string(), wanted);
        assert_eq!(value::<Vec<u8>>(a.unwrap(), "a").unwrap(), [7]);
    }
}
