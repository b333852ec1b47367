#[tokio::main(flavor = "current_thread")]
async fn main() {
    let engine = hushql::Engine::demo().unwrap();
    let s = engine.analyst("lab").unwrap();
    for q in std::env::args().skip(1) {
        println!("> {q}");
        match s.explain(&q) {
            Ok(e) => println!("{e}"),
            Err(e) => println!("EXPLAIN ERR {e}"),
        }
        match s.execute(&q).await {
            Ok(hushql::Output::Answer(a)) => println!("{a}"),
            Ok(o) => println!("{o:?}"),
            Err(e) => println!("ERR[{}] {e}\n   {:?}", e.kind(), e),
        }
    }
}
