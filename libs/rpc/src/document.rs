//! A document, of JSON or YAML, in which no key is given twice.
//!
//! Owns the reading of any such text as a JSON value. Invariant: a key that an object holds more than once is told, with its
//! path; `serde_json` alone would keep the last of them without a word. Bounded: a path tells the beginning of each key, and
//! of repeated keys only the first few are told. Deliberately not here: what the document means.

use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt;

/// Repeated keys that are told.
const REPEATED_MAX: usize = 20;

/// Characters of each key in a path.
const KEY_CHARS_MAX: usize = 64;

/// What is wrong with a key that stands in [`Document::repeated`].
pub const REPEATED: &str = "is given more than once: keep one";

/// A document as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// What it holds; of a repeated key, the last.
    pub value: Value,
    /// The paths of repeated keys, such as `run.exec` or `jobs[2].name`: the first 20.
    pub repeated: BTreeSet<String>,
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut repeated = BTreeSet::new();
        let value = Place { path: Path::Whole, repeated: &mut repeated }.deserialize(deserializer)?;
        Ok(Self { value, repeated })
    }
}

/// Where in the document something stands.
#[derive(Clone, Copy)]
enum Path<'a> {
    Whole,
    Key(&'a Path<'a>, &'a str),
    Element(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => Ok(()),
            Self::Element(list, index) => write!(f, "{list}[{index}]"),
            Self::Key(object, key) => {
                let dot = if matches!(object, Self::Whole) { "" } else { "." };
                let cut = key.char_indices().nth(KEY_CHARS_MAX);
                let (key, rest) = cut.map_or((*key, ""), |(end, _)| (&key[..end], "…"));
                write!(f, "{object}{dot}{key}{rest}")
            }
        }
    }
}

/// Reads the value that stands at `path`.
struct Place<'a> {
    path: Path<'a>,
    repeated: &'a mut BTreeSet<String>,
}

impl<'de> DeserializeSeed<'de> for Place<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Place<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON has")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = elements.next_element_seed(Place {
            path: Path::Element(&self.path, list.len()),
            repeated: &mut *self.repeated,
        })? {
            list.push(value);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            let path = Path::Key(&self.path, &key);
            if object.contains_key(&key) && self.repeated.len() < REPEATED_MAX {
                self.repeated.insert(path.to_string());
            }
            let value = members.next_value_seed(Place { path, repeated: &mut *self.repeated })?;
            object.insert(key, value);
        }
        Ok(object.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Document {
        serde_json::from_str(text).expect("JSON")
    }

    #[test]
    fn a_sound_document_is_read_as_json_reads_it() {
        for text in [
            r#"{"a": {"b": [1, -2, 2.5, 18446744073709551615, "x\ny", true, null, {}]}, "": [], "ß": 1e300}"#,
            "null",
            "7",
            r#""text""#,
        ] {
            let Document { value, repeated } = read(text);
            assert_eq!(value, serde_json::from_str::<Value>(text).expect("JSON"));
            assert!(repeated.is_empty(), "{repeated:?}");
        }
    }

    #[test]
    fn keys_that_are_given_twice_are_told_by_their_paths() {
        let read = read(
            r#"{"name": "a", "name": null, "run": {"exec": {}, "exec": {"argv": 1, "argv": 2, "argv": 3}},
                "jobs": [{"name": 1}, {"name": 1, "name": 1}]}"#,
        );
        let told: Vec<_> = read.repeated.iter().map(String::as_str).collect();
        assert_eq!(told, ["jobs[1].name", "name", "run.exec", "run.exec.argv"]);
    }

    #[test]
    fn however_much_is_given_twice_little_is_told() {
        let long = "k".repeat(1 << 20);
        let twice: Vec<_> = (0..10_000).map(|key| format!(r#""{key}": 1, "{key}": 2"#)).collect();
        let read = read(&format!(r#"{{"{long}": {{{}}}}}"#, twice.join(",")));
        assert_eq!(read.repeated.len(), REPEATED_MAX);
        assert!(read.repeated.iter().all(|path| path.len() < 100), "{:?}", read.repeated);
    }
}
