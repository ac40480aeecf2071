//! Some members of a JSON object, read without the rest of it.
//!
//! What a peer sends may be large, and a tree of it takes up to twenty times as much. Must not know
//! what a member means.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The members with these keys; `None` if `json` is no object that can be read.
pub(super) fn members<'k, 'a>(
    json: &'a str,
    keys: impl Iterator<Item = &'k str>,
) -> Option<BTreeMap<&'k str, Option<&'a RawValue>>> {
    let mut wanted = Members(BTreeMap::new());
    // Collecting would sort first, which is a lot of code for a few keys.
    for key in keys {
        wanted.0.insert(key, None);
    }
    let mut json = serde_json::Deserializer::from_str(json);
    let Members(found) = wanted.deserialize(&mut json).ok()?;
    Some(found)
}

/// Those members of an object whose keys are in the map. Of a key that stands twice the last value
/// counts, as wherever serde_json reads an object.
struct Members<'h, 'a>(BTreeMap<&'h str, Option<&'a RawValue>>);

impl<'de> DeserializeSeed<'de> for Members<'_, 'de> {
    type Value = Self;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Members<'_, 'de> {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self, A::Error> {
        while let Some(wanted) = map.next_key_seed(Key(&mut self.0))? {
            match wanted {
                Some(member) => *member = Some(map.next_value()?),
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(self)
    }
}

/// Looks a key up without keeping it.
struct Key<'m, 'h, 'a>(&'m mut BTreeMap<&'h str, Option<&'a RawValue>>);

impl<'de, 'm, 'a> DeserializeSeed<'de> for Key<'m, '_, 'a> {
    type Value = Option<&'m mut Option<&'a RawValue>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'m, 'a> Visitor<'_> for Key<'m, '_, 'a> {
    type Value = Option<&'m mut Option<&'a RawValue>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.get_mut(key))
    }
}
