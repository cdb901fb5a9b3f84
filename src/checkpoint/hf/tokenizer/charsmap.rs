//! The map of a `Precompiled` normaliser of `tokenizer.json`.
//!
//! It starts with the length of its trie in bytes, for which the library sets aside memory
//! before it reads on: twice that length, so that four bytes can ask for 8 GiB.

use serde::Deserialize;
use serde_json::Value;

/// The part of `tokenizer.json` that can hold such a map.
#[derive(Deserialize)]
struct Normalised {
    #[serde(default)]
    normalizer: Value,
}

/// Checks that no map states a longer trie than there are bytes. A file that is no JSON
/// passes: what reads the rest of it says that better.
///
/// # Errors
/// If a map is too short, with both lengths.
pub(super) fn check(json: &[u8]) -> Result<(), String> {
    serde_json::from_slice(json).map_or(Ok(()), |head: Normalised| check_step(&head.normalizer))
}

/// Checks the map of a normaliser, or those of all normalisers of a sequence.
fn check_step(step: &Value) -> Result<(), String> {
    if let Some(steps) = step.get("normalizers").and_then(Value::as_array) {
        return steps.iter().try_for_each(check_step);
    }
    let map = step.get("precompiled_charsmap").and_then(Value::as_str).unwrap_or_default();
    // Eight characters are six bytes, of which four are the length.
    let start = map.get(..8).and_then(|start| base64::decode(start).ok());
    let Some(stated) = start.as_deref().and_then(<[u8]>::first_chunk) else { return Ok(()) };
    let (stated, most) = (u32::from_le_bytes(*stated) as usize, map.len() / 4 * 3);
    if stated > most {
        return Err(format!(
            "precompiled_charsmap states a trie of {stated} bytes, but has {most} bytes at most"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tokenizer whose normaliser is a sequence with this map in it.
    fn tokenizer(map: &[u8]) -> Vec<u8> {
        let map = base64::encode(map);
        let map = serde_json::json!({ "type": "Precompiled", "precompiled_charsmap": map });
        let steps = serde_json::json!([{ "type": "NFC" }, map]);
        serde_json::to_vec(&serde_json::json!({ "normalizer": { "normalizers": steps } })).unwrap()
    }

    #[test]
    fn a_map_that_states_more_than_it_has_is_refused() {
        let error = check(&tokenizer(&[255; 4])).unwrap_err();
        assert_eq!(
            error,
            "precompiled_charsmap states a trie of 4294967295 bytes, but has 6 bytes at most"
        );
    }

    #[test]
    fn other_maps_and_other_files_are_left_to_the_library() {
        check(&tokenizer(&[4, 0, 0, 0, 1, 2, 3, 4])).unwrap();
        check(&tokenizer(&[255; 3])).unwrap();
        check(br#"{ "normalizer": null }"#).unwrap();
        check(br#"{ "normalizer": 7"#).unwrap();
    }
}
