#[allow(dead_code)]
#[path = "../tests/it/checkpoint.rs"]
mod checkpoint;
use checkpoint::*;
use specdec::model::*;
use specdec::tree::Draft;
use std::time::Instant;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let dir = std::path::PathBuf::from("/tmp/specdec-bench");
    let (t, d) = if args.len() > 2 {
        (args[1].clone(), args[2].clone())
    } else {
        Checkpoint {
            hidden: 384,
            intermediate: 1088,
            layers: 4,
            heads: 6,
            kv_heads: 2,
            head_dim: 64,
            vocab_rows: 4096,
            positions: 1024,
            ..Checkpoint::default()
        }
        .write(&dir.join("t"));
        Checkpoint {
            hidden: 96,
            intermediate: 320,
            layers: 2,
            heads: 3,
            kv_heads: 1,
            head_dim: 32,
            vocab_rows: 4096,
            positions: 1024,
            ..Checkpoint::default()
        }
        .write(&dir.join("d"));
        // pretend the tokenizer has all rows
        (dir.join("t").display().to_string(), dir.join("d").display().to_string())
    };
    for source in [t, d] {
        let start = Instant::now();
        let loaded = load(&source, Role::Target).unwrap();
        println!(
            "{source} load {:?} vocab {} params {}",
            start.elapsed(),
            loaded.model.info().vocab,
            loaded.model.info().parameters
        );
        let model = loaded.model;
        for ctx in [64usize, 512] {
            let mut session = model.session().unwrap();
            let context: Vec<u32> = (0..ctx as u32).map(|i| (i * 37) % 250 + 2).collect();
            let v = model.info().vocab;
            let empty = Draft::empty(v);
            let start = Instant::now();
            evaluate_one(
                &*model,
                Work {
                    session: &mut session,
                    context: &context,
                    draft: &empty,
                    want: Want::Nothing,
                },
            )
            .unwrap();
            let pre = start.elapsed();
            let mut out = format!("ctx {ctx} prefill {pre:?} ");
            let mut times = vec![vec![]; 9];
            for _ in 0..60 {
                for n in [1usize, 2, 3, 5, 9] {
                    let mut draft = Draft::empty(v);
                    let mut parent = None;
                    for i in 0..n - 1 {
                        parent = Some(draft.certain(parent, 5 + i as u32));
                    }
                    let start = Instant::now();
                    evaluate_one(
                        &*model,
                        Work {
                            session: &mut session,
                            context: &context,
                            draft: &draft,
                            want: Want::All,
                        },
                    )
                    .unwrap();
                    times[n - 1].push(start.elapsed().as_secs_f64() * 1e6);
                    session.settle(&context[..ctx - 1]).unwrap();
                }
            }
            for n in [1usize, 2, 3, 5, 9] {
                times[n - 1].sort_by(f64::total_cmp);
                out += &format!(" T({n}) {:.0}us (min {:.0})", times[n - 1][30], times[n - 1][0]);
            }
            println!("{out}");
        }
    }
}
