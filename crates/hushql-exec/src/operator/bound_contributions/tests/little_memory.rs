//! With little memory, rows wait in files and are bounded in several turns: the integers stay the
//! same.

use super::*;
use crate::operator::shelf::tests::LittleMemory;

/// Covers every kind of aggregate, units as integers and as texts, listed and undeclared keys, and
/// bounds that none, a few or all units exceed. If the memory does not suffice even with files, the
/// query fails; it never gives a different answer.
#[tokio::test]
async fn rows_in_files_and_several_turns_change_nothing() {
    let mut dice = Dice(9);
    let folder = tempfile::tempdir().unwrap();
    let (mut failed, mut in_files, mut in_turns) = (0, 0, 0);
    for round in 0..60 {
        let units = dice.pick(&[3, 40, 400]);
        let rows = random_rows(&mut dice, units, 1_500);
        let unit_type = dice.pick(&[DataType::Int64, DataType::Utf8]);
        let (mut columns, mut space, _) = random_space(&mut dice);
        let mut whole = batch(&rows, &unit_type);
        if dice.roll(3) == 0 {
            if dice.roll(2) == 0 {
                whole = with_views(&whole);
            }
            let types = [whole.column(KEY).data_type(), whole.column(2).data_type()];
            (columns, space) = (vec![KEY, 2], KeySpace::of_the_data(types));
        }
        let inputs = random_inputs(&mut dice);
        let pieces = pieces(&mut dice, &whole, 40);
        let partitions = 1 + dice.roll(3);
        let plan = dealt(&mut dice, pieces, partitions);
        let bound = |plan| {
            let (own, space, inputs) = (columns.clone(), space.clone(), inputs.clone());
            BoundContributionsExec::new(plan, UNIT, own, space, inputs, keyed(HASH)).unwrap()
        };
        let expected = collect(Arc::new(bound(Arc::clone(&plan))), Arc::default()).await.unwrap();
        let reserved = bound(Arc::clone(&plan)).reserved() * partitions;
        for memory in [20_000, 40_000, 80_000, 300_000] {
            let little = LittleMemory::new(folder.path(), reserved + memory);
            let Ok(got) = collect(Arc::new(bound(Arc::clone(&plan))), little.context()).await
            else {
                failed += 1;
                continue;
            };
            assert_eq!(sorted(&got), sorted(&expected), "round {round}, {memory} bytes {inputs:?}");
            in_files += usize::from(little.files() > 0);
            // Each partition has at most one file, unless its rows were dealt.
            in_turns += usize::from(little.files() > partitions);
        }
    }
    assert!(in_files > 60 && in_turns > 20 && failed < 170, "{in_files} {in_turns} {failed}");
}

/// The rows of an answer as texts, in order.
fn sorted(batches: &[RecordBatch]) -> Vec<String> {
    let text = arrow::util::pretty::pretty_format_batches(batches).unwrap().to_string();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}
