//! Images among the arguments of a call.

use std::collections::BTreeMap;
use std::path::PathBuf;

use agent_hub_kit::{DataUri, encode_image_to_data_uri};
use serde_json::value::{RawValue, to_raw_value};

use crate::failure::Failure;

/// Adds files to the argument `images`, behind those that the JSON gives. All else stays as it was
/// written.
pub(crate) fn add(arguments: Box<RawValue>, files: &[PathBuf]) -> Result<Box<RawValue>, Failure> {
    if files.is_empty() {
        return Ok(arguments);
    }
    let images: Vec<DataUri> = files
        .iter()
        .map(|file| encode_image_to_data_uri(file.as_path()))
        .collect::<Result<_, _>>()
        .map_err(|error| Failure::usage(error.to_string(), ""))?;
    let odd = |why: serde_json::Error| Failure::usage(format!("the arguments: {why}"), "");
    let mut members: BTreeMap<String, Box<RawValue>> =
        serde_json::from_str(arguments.get()).map_err(odd)?;
    let given: Option<Vec<Box<RawValue>>> = match members.get("images") {
        None => None,
        Some(given) => serde_json::from_str(given.get()).map_err(|_| {
            let what = "`images` in the JSON is no array, so that --image has nothing to add to";
            Failure::usage(what, "leave one of them out")
        })?,
    };
    let mut all = given.unwrap_or_default();
    for image in images {
        all.push(to_raw_value(&image).map_err(odd)?);
    }
    members.insert("images".to_owned(), to_raw_value(&all).map_err(odd)?);
    to_raw_value(&members).map_err(odd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_added_to_those_that_the_json_gives() {
        let name = format!("agent-hub-images-{}.png", std::process::id());
        let file = std::env::temp_dir().join(name);
        std::fs::write(&file, b"\x89PNG\r\n\x1a\n").unwrap();
        const URI: &str = r#""data:image/png;base64,iVBORw0KGgo=""#;
        for (json, times, wanted) in [
            ("{}", 1, Some(format!(r#"{{"images":[{URI}]}}"#))),
            ("{}", 2, Some(format!(r#"{{"images":[{URI},{URI}]}}"#))),
            (
                r#"{ "n": 1e999, "images": null }"#,
                1,
                Some(format!(r#"{{"images":[{URI}],"n":1e999}}"#)),
            ),
            (
                r#"{"images":["data:,x", {"n":1e999}]}"#,
                1,
                Some(format!(r#"{{"images":["data:,x",{{"n":1e999}},{URI}]}}"#)),
            ),
            (r#"{"images":"data:,x"}"#, 1, None),
            (r#"{"images":{}}"#, 1, None),
            (
                r#"{ "images": 7 }"#,
                0,
                Some(r#"{ "images": 7 }"#.to_owned()),
            ),
        ] {
            let arguments = RawValue::from_string(json.to_owned()).unwrap();
            let files = vec![file.clone(); times];
            let added = add(arguments, &files).ok();
            assert_eq!(added.map(|raw| raw.get().to_owned()), wanted, "{json}");
        }
        std::fs::remove_file(&file).unwrap();
    }
}
