use specdec::{
    chance::*, clock::*, decode::*, draft::*, length::*, model::*, sampling::*, verify::*,
};
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let t = load(&args[1], Role::Target).unwrap_or_else(|e| panic!("{e}"));
    let _ = (&t, Blind);
    let mut s = t.model.session().unwrap();
    let mut toks = t.codec.encode(&args[2]).unwrap();
    for _ in 0..60 {
        let e = evaluate_one(
            &*t.model,
            Work {
                session: &mut s,
                context: &toks,
                draft: &specdec::tree::Draft::empty(t.model.info().vocab),
                want: Want::All,
            },
        )
        .unwrap();
        let Logits::F32(l) = &e.rows[0] else { panic!() };
        let best = (0..l.len()).max_by(|&a, &b| l[a].total_cmp(&l[b])).unwrap();
        toks.push(best as u32);
    }
    println!("{}", t.codec.decode(&toks).unwrap());
}
