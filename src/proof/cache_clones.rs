//! Checks that a forked sequence of the CPU engine continues like the original. Its caches are
//! tiles of sixteen slots, and a fork copies the filled part of the last tile. Toys have no tiles,
//! so enumeration cannot check this.

use crate::bugs::WrapCache;
use crate::checkpoint::SMALL_PAIR;
use crate::core::distribution::Token;
use crate::core::error::Error;
use crate::core::lanes::LANES;
use crate::core::tree::Draft;
use crate::engine::Settings;
use crate::model::{Evaluation, Session, Want, Work, evaluate_one};

/// Lengths at which sequences are forked: with zero, one and two whole tiles.
const LENGTHS: usize = 2 * LANES + LANES / 2;

/// Whether forks at every length yield the same bits as the originals.
pub(super) fn clones_continue(wrap: WrapCache) -> Result<bool, Error> {
    let settings = Settings { threads: Some(1), ..Settings::default() };
    let model = SMALL_PAIR[0].model(&settings)?;
    let vocab = model.info().vocab;
    // A sequence without equal neighbours.
    let sequence = (0..LENGTHS).map(|i| (7 * i % vocab) as Token).collect::<Vec<_>>();
    let (nothing, mut draft) = (Draft::empty(vocab), Draft::empty(vocab));
    let first = draft.certain(None, 1);
    draft.certain(Some(first), 2);
    draft.certain(None, 3);
    for length in 1..LENGTHS {
        let mut session = model.session()?.map_cache(wrap);
        let pass = |session: &mut Session, length, draft, want| {
            let work = Work { session, context: &sequence[..length], draft, want };
            evaluate_one(&*model, work)
        };
        pass(&mut session, length, &nothing, Want::Nothing)?;
        let mut copy = session.try_clone()?;
        let continued = |session| pass(session, length + 1, &draft, Want::All);
        let [one, other]: [Evaluation; 2] = [continued(&mut session)?, continued(&mut copy)?];
        if one.rows != other.rows {
            return Ok(false);
        }
    }
    Ok(true)
}
