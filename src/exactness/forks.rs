//! Whether a copy of a sequence goes on as the sequence itself, in the CPU engine:
//! its caches lie in tiles of sixteen slots, and a copy takes the last tile as far as
//! it is filled. Toys have no tiles, so no walk sees it.

use super::enumerate::WrapCache;
use crate::distribution::Token;
use crate::error::Error;
use crate::lanes::LANES;
use crate::model::{Evaluation, SMALL_PAIR, Session, Settings, Want, Work, evaluate_one};
use crate::tree::Draft;

/// Lengths at which sequences are copied: with no, one and two whole tiles.
const LENGTHS: usize = 2 * LANES + LANES / 2;

/// Whether copies at every length yield the bits of what they are copies of.
pub(super) fn forks_go_on(wrap: WrapCache) -> Result<bool, Error> {
    let settings = Settings { threads: Some(1), ..Settings::default() };
    let model = SMALL_PAIR[0].model(&settings)?;
    let vocab = model.info().vocab;
    // A text in which no two neighbours are alike.
    let text = (0..LENGTHS).map(|i| (7 * i % vocab) as Token).collect::<Vec<_>>();
    let (nothing, mut draft) = (Draft::empty(vocab), Draft::empty(vocab));
    let first = draft.certain(None, 1);
    draft.certain(Some(first), 2);
    draft.certain(None, 3);
    for length in 1..LENGTHS {
        let mut session = model.session()?.map_cache(wrap);
        let pass = |session: &mut Session, length, draft, want| {
            let work = Work { session, context: &text[..length], draft, want };
            evaluate_one(&*model, work)
        };
        pass(&mut session, length, &nothing, Want::Nothing)?;
        let mut copy = session.fork()?;
        let go_on = |session| pass(session, length + 1, &draft, Want::All);
        let [one, other]: [Evaluation; 2] = [go_on(&mut session)?, go_on(&mut copy)?];
        if one.rows != other.rows {
            return Ok(false);
        }
    }
    Ok(true)
}
