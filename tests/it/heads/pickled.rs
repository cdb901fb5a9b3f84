//! Heads whose weights `torch.save` wrote, as most published ones are.

use std::fs;

use safetensors::SafeTensors;
use specdec::engine::Source;

use super::parity::{CLOSE, expected, folder, largest, text};
use crate::family_files::torch_files::Archive;

/// Catches: a file that is not found; a folder that is not taken for a head.
#[test]
fn pickled_heads_draft_as_their_references_do() {
    for (case, file) in [
        ("eagle1", "pytorch_model.bin"),
        ("eagle1_no_bias", "model.pt"),
        ("medusa", "medusa_lm_head.pt"),
    ] {
        let bytes = fs::read(folder(case).join("model.safetensors")).unwrap();
        let stored = SafeTensors::deserialize(&bytes).unwrap();
        let tensors = stored.iter().map(|(name, view)| {
            // They are numbers of bf16, the upper half of f32.
            let numbers = view.data().as_chunks().0.iter();
            let numbers = numbers.map(|&[low, high]| f32::from_le_bytes([0, 0, low, high]));
            (name.to_owned(), view.shape().to_vec(), numbers.collect())
        });
        let head = tempfile::tempdir().unwrap();
        fs::copy(folder(case).join("config.json"), head.path().join("config.json")).unwrap();
        let archive = Archive::of_tensors(&tensors.collect::<Vec<_>>());
        fs::write(head.path().join(file), archive.bytes()).unwrap();
        let expected = expected(case);
        let source = Source::from(text(head.path()));
        let ids = expected.ids.as_deref();
        let most = largest(&source, &folder(&expected.target), ids, &expected.rounds);
        assert!(most < CLOSE, "{case}: {most}");
    }
}
