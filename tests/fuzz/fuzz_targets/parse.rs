//! The parser, on any text: an error or a statement, never a panic; what parses does so again.

#![no_main]

use hushql_engine::dialect::parse;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let first = format!("{:?}", parse(text));
    assert_eq!(first, format!("{:?}", parse(text)), "one text, one meaning");
    if let Ok(statements) = hushql::split_statements(text) {
        for statement in statements {
            let _ = parse(statement.text());
        }
    }
});
