//! The keys of block drafters, which stand at the top of a file, or in tables.

use super::files::HeadFiles;
use crate::checkpoint::families::{ConfigKeys, windowed_layers};
use crate::core::distribution::Token;
use crate::core::error::Error;

/// Tables with the keys of a block; what they have counts before what is at the top.
const TABLES: [&str; 2] = ["dflash_config", "dspark_config"];
/// Keys of other models, which drafters of the same layout have.
const OTHERS: [(&str, &str); 2] =
    [("conv_kernel_size", "convolutions of DFlash2"), ("selector_rank", "selectors of DFlash2")];
/// The sinks of attention.
const SINKS: &str = "self_attn.attention_sink_bias";

/// The keys of a block drafter.
pub(super) struct BlockKeys<'a> {
    /// The tables that a key is looked up in, in this order.
    tables: Vec<ConfigKeys<'a>>,
    /// The keys of the layers.
    pub(super) layers: ConfigKeys<'a>,
    /// Whether the file is one of speculators.
    pub(super) speculators: bool,
    /// Whether the tensors of layer 0 have sinks, for files that do not say so.
    has_sinks: bool,
    anchor_first: Option<bool>,
}

impl<'a> BlockKeys<'a> {
    pub(super) fn of(files: &HeadFiles<'a>) -> Result<Self, Error> {
        let mut tables = Vec::new();
        for table in TABLES {
            tables.extend(files.keys.table(table)?);
        }
        let layers = files.keys.table("transformer_layer_config")?;
        let speculators = layers.is_some();
        tables.push(files.keys.clone());
        let has_sinks = files.weights.has(&format!("layers.0.{SINKS}"));
        let layers = layers.unwrap_or_else(|| files.keys.clone());
        let anchor_first = files.settings.anchor_first;
        Ok(Self { tables, layers, speculators, has_sinks, anchor_first })
    }

    /// The first value of a key that a table has.
    fn first<T>(
        &self,
        read: impl Fn(&ConfigKeys<'a>) -> Result<Option<T>, Error>,
    ) -> Result<Option<T>, Error> {
        for table in &self.tables {
            if let Some(value) = read(table)? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    pub(super) fn size(&self, key: &str) -> Result<Option<usize>, Error> {
        self.first(|table| table.size(key))
    }

    pub(super) fn required_size(&self, key: &str, most: usize) -> Result<usize, Error> {
        let size = self.first(|table| table.size_up_to(most, key))?;
        self.tables[0].required(key, size)
    }

    pub(super) fn count(&self, key: &str) -> Result<Option<usize>, Error> {
        self.first(|table| table.count(key))
    }

    /// A number above 0.
    pub(super) fn number(&self, key: &str) -> Result<Option<f64>, Error> {
        self.first(|table| table.positive(key))
    }

    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, Error> {
        self.first(|table| table.flag(key))
    }

    pub(super) fn choice<T: Copy>(
        &self,
        key: &str,
        choices: &[(&str, T)],
    ) -> Result<Option<T>, Error> {
        self.first(|table| table.choice(key, choices))
    }

    /// A list of whole numbers from −1 on.
    pub(super) fn layer_ids(&self, key: &str) -> Result<Option<Vec<i64>>, Error> {
        self.first(|table| table.layer_ids(key))
    }

    /// The token of a mask, one of `tokens`.
    pub(super) fn mask(&self, tokens: usize) -> Result<Token, Error> {
        let id = self.tables[0].required("mask_token_id", self.count("mask_token_id")?)?;
        if id < tokens || tokens == 0 {
            return Ok(id as Token);
        }
        let what = format!("mask_token_id is {id}, but the embedding has {tokens} rows");
        Err(self.tables[0].fault(what))
    }

    /// Refuses what the layout does not say how to compute.
    pub(super) fn refuse_other_models(&self) -> Result<(), Error> {
        for table in &self.tables {
            for (key, what) in OTHERS {
                table.refuse(key, what)?;
            }
            if table.text("projector_type")? == Some("domino") {
                return Err(table.fault("projector_type domino is not supported"));
            }
        }
        Ok(())
    }

    /// Whether a row predicts the token after its position. Only DSpark drafters do, unless their
    /// file says otherwise.
    pub(super) fn anchor_first(&self, markov: bool) -> Result<bool, Error> {
        let said =
            self.anchor_first.map_or_else(|| self.flag("sample_from_anchor"), |set| Ok(Some(set)));
        match said? {
            Some(said) => Ok(said),
            None if markov && self.speculators => Err(self.tables[0].fault(
                "sample_from_anchor is missing, and programs that read such files disagree on what \
                 that means: name the head in configs/models.toml, with anchor_first = true or false",
            )),
            None => Ok(markov),
        }
    }

    /// Whether all layers are causal, or none is, if a key says so.
    pub(super) fn causal(&self) -> Result<Option<bool>, Error> {
        let said = self.flag("is_causal")?;
        said.map_or_else(|| self.flag("causal"), |said| Ok(Some(said)))
    }

    /// The name of the sinks of attention, if there are any.
    pub(super) fn sinks(&self) -> Result<Option<&'static str>, Error> {
        let said = self.flag("attention_sink_bias")?;
        let said =
            said.map_or_else(|| self.flag("add_swa_attention_sink_bias"), |said| Ok(Some(said)));
        Ok(Some(SINKS).filter(|_| self.has_sinks).or(said?.filter(|said| *said).map(|_| SINKS)))
    }

    /// The windows of layers where a key outside of the layers' own gives them to all, or where all
    /// have one unless a list says which.
    pub(super) fn forced_windows(
        &self,
        layers: usize,
        all: bool,
    ) -> Result<Option<ForcedWindows>, Error> {
        let forced = self.flag("use_swa")?.unwrap_or(false);
        if !forced && !all {
            return Ok(None);
        }
        let listed = windowed_layers(&self.layers, layers)?;
        let open = forced && listed.is_none();
        let listed = listed.filter(|listed| !forced || listed.contains(&true));
        let windowed = listed.unwrap_or_else(|| vec![true; layers]);
        let own = if forced { self.size("swa_window_size")? } else { None };
        let window = own.map_or_else(|| self.layers.size("sliding_window"), |own| Ok(Some(own)))?;
        let window = self.layers.required("sliding_window", window)?;
        let by_layer = windowed.into_iter().map(|windowed| windowed.then_some(window)).collect();
        Ok(Some(ForcedWindows { by_layer, open }))
    }

    /// Refuses layers with windows that the keys of the layers switch off: programs disagree on
    /// whether they have one.
    pub(super) fn check_windows(&self, layers: usize) -> Result<(), Error> {
        let on = self.layers.flag("use_sliding_window")?.unwrap_or(false);
        let listed = windowed_layers(&self.layers, layers)?;
        if on || listed.is_none_or(|listed| !listed.contains(&true)) {
            return Ok(());
        }
        Err(self.layers.fault(
            "layer_types names sliding_attention, but use_sliding_window is not true, and programs \
             disagree on what that means: set it as in training",
        ))
    }
}

/// Windows that a key gives to layers.
pub(super) struct ForcedWindows {
    pub(super) by_layer: Vec<Option<usize>>,
    /// Whether rows see those after them, if no key says so.
    pub(super) open: bool,
}
