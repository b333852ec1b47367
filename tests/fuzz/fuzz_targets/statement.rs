//! Any text as a statement of an analyst, on tiny tables with marked cells: no panic, no failed
//! check, nothing told.
//!
//! A refusal charges nothing, and what is charged has a receipt. The budget allows so little for
//! one statement that a marked cell is not shown by chance.

#![no_main]

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use hushql::{Engine, Error, Output, split_statements};
use libfuzzer_sys::fuzz_target;

const MARK: &str = "zyxquorina-canary";
const MARKED_ID: i64 = 918_273_645_546_372_819;

const DECLARATIONS: &str = "
    ALTER TABLE people SET PRIVACY UNIT (id) MAX ROWS 3;
    ALTER TABLE people ALTER COLUMN city SET PRIVACY DOMAIN IN ('Rome', 'Oslo');
    ALTER TABLE people ALTER COLUMN age SET PRIVACY DOMAIN BETWEEN (0, 120);
    ALTER TABLE people ALTER COLUMN paid SET PRIVACY DOMAIN BETWEEN (0, 100);
    CREATE PRIVACY BUDGET people FOR people LIMIT (epsilon=1000000, delta=0.5) PER QUERY (default=0.1, min=0.001, max=3, max_delta=1e-15);
    ALTER TABLE places SET PUBLIC";

fn batch() -> RecordBatch {
    let marked = format!("{MARK}-that-nobody-may-read");
    let columns: [(&str, ArrayRef); 5] = [
        ("id", Arc::new(Int64Array::from(vec![Some(1), Some(1), None, Some(MARKED_ID)]))),
        ("city", Arc::new(StringArray::from(vec!["Rome", "Oslo", "else", &marked]))),
        ("name", Arc::new(StringArray::from(vec![Some("Ann"), None, Some(""), Some(&marked)]))),
        ("age", Arc::new(Int64Array::from(vec![30, 200, -1, i64::MIN]))),
        ("paid", Arc::new(Float64Array::from(vec![1.5, f64::NAN, f64::INFINITY, -0.0]))),
    ];
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

static ENGINE: LazyLock<Engine> = LazyLock::new(|| {
    let runtime = runtime();
    let engine = Engine::in_memory().expect("SQLite starts");
    engine.register_batch("people", batch()).expect("a new table");
    let names: ArrayRef = Arc::new(StringArray::from(vec!["Rome", "Oslo"]));
    let public = RecordBatch::try_from_iter([("name", names)]).expect("one column");
    engine.register_batch("places", public).expect("a new table");
    for statement in split_statements(DECLARATIONS).expect("they end") {
        runtime.block_on(engine.owner().execute(statement.text())).expect("a declaration");
    }
    engine
});

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fuzz_target!(|text: &str| {
    let session = ENGINE.analyst("lab").expect("a name");
    let before = session.budgets().expect("a vault");
    let result = runtime().block_on(session.execute(text));
    let charged = before != session.budgets().expect("a vault");
    let said = match result {
        Ok(Output::Answer(answer)) => {
            assert_eq!(answer.receipt().is_some(), charged, "charges and receipts go together");
            format!("{answer}{answer:?}{:?}", answer.batches())
        }
        Ok(Output::Explanation(e) | Output::ExplanationJson(e)) => format!("{e}{}", e.to_json()),
        Ok(Output::Done(text)) => text,
        Ok(_) => String::new(),
        Err(error) => {
            assert!(!matches!(error, Error::Internal | Error::Execution), "{error}");
            assert!(!charged, "refused, and charged: {error}");
            format!("{error}{error:?}{:?}", error.hint())
        }
    };
    let said = said.to_lowercase();
    // A text that holds the mark itself may be quoted.
    if !text.to_lowercase().contains(MARK) && !text.contains(&MARKED_ID.to_string()) {
        assert!(!said.contains(MARK) && !said.contains(&MARKED_ID.to_string()), "told: {said}");
    }
});
