//! What a guarantee class promises, in words.

/// The promise behind a class as it is printed: `D`, `G`, `P` or `X`, perhaps
/// with a `~`.
pub(super) fn explain(class: &str) -> &'static str {
    match class {
        "D" => "the output's distribution is that of sampling from the processed target",
        "G" => "the tokens are those of plain greedy decoding",
        "G~" => "the tokens are those of plain greedy decoding, up to near-ties of logits",
        "P" => "the same seed gives the same tokens as plain decoding",
        "P~" => "the same seed gives the tokens of plain decoding, up to near-ties",
        _ => "approximate: no promise, measure its distance from the target",
    }
}
