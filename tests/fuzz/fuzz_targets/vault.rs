//! Vault files with any bytes changed: opened whole, or refused with an error; never a panic, and
//! never a budget with more left than before.
//!
//! The input is read as changes to a sound file: pairs of a place and a byte, each 3 bytes; a last
//! odd byte cuts the file short.

#![no_main]

use std::sync::LazyLock;

use hushql::{Engine, VaultFile};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

const STATEMENTS: [&str; 4] = [
    "CREATE EXTERNAL TABLE people STORED AS CSV LOCATION 'people.csv'",
    "ALTER TABLE people SET PRIVACY UNIT (id) MAX ROWS 3",
    "CREATE PRIVACY BUDGET people FOR people LIMIT (epsilon=10, delta=1e-6) PER QUERY (min=0.01, max=5)",
    "SELECT LAPLACE(eps=4) COUNT(*) FROM people",
];

/// A sound vault with something spent, and what it says of its budgets.
static SOUND: LazyLock<(Vec<u8>, String)> = LazyLock::new(|| {
    let folder = TempDir::new().expect("a folder");
    let data = folder.path().join("people.csv");
    std::fs::write(&data, "id,age\n1,30\n1,31\n2,40\n").expect("a file");
    let path = folder.path().join("study.db");
    let runtime = runtime();
    let engine = Engine::init(&path).expect("a vault");
    for statement in STATEMENTS {
        let statement = statement.replace("people.csv", &data.display().to_string());
        runtime.block_on(engine.owner().execute(&statement)).expect("a statement");
    }
    let budgets = format!("{:?}", engine.owner().budgets().expect("budgets"));
    drop(engine);
    (std::fs::read(&path).expect("the vault's bytes"), budgets)
});

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fuzz_target!(|changes: &[u8]| {
    let (sound, budgets) = &*SOUND;
    let mut bytes = sound.clone();
    let mut changes = changes.chunks_exact(3);
    for change in &mut changes {
        let place = usize::from(change[0]) << 8 | usize::from(change[1]);
        let place = place % bytes.len();
        bytes[place] ^= change[2];
    }
    if let [keep] = changes.remainder() {
        bytes.truncate(bytes.len() * usize::from(*keep) / 256);
    }
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("study.db");
    std::fs::write(&path, &bytes).expect("a file");
    // It is a copy, which only its owner can make the one that is used.
    let adopted = VaultFile::at(&path).adopt(None);
    let Ok(engine) = adopted.and_then(|()| Engine::open(&path)) else { return };
    // Whoever can write the file can also write back an older one; damage is not that, and must
    // show.
    if let Ok(left) = engine.owner().budgets() {
        assert_eq!(format!("{left:?}"), *budgets, "a changed vault says something else");
    }
    let _ = runtime().block_on(engine.owner().execute("SHOW PRIVACY BUDGET people"));
});
