//! Tests the model against an enumeration of all combinations.

use super::super::Paths;
use super::*;
use crate::sampler::{QueryRng, Uniform};
use crate::synthetic::noise::{Mode, Noise};
use crate::synthetic::task::Sensitivity;

fn measured(columns: ColumnSet, values: Vec<i128>) -> Released<Measured> {
    let noise = Noise::calibrate(Mode::Pure, Sensitivity::rows(1), 1_000_000_000).unwrap();
    Released::for_tests(Measured { columns, values, noise })
}

/// A model of random measurements of random sets over five columns.
fn some(sizes: &[usize], rng: &mut QueryRng) -> Model {
    let mut model = Model::new(sizes);
    for _ in 0..rng.below_u64(6) + 1 {
        let columns = ColumnSet::new((0..sizes.len()).filter(|_| rng.below_u64(5) < 2));
        let cells = columns.cells(sizes);
        let values = (0..cells).map(|_| i128::from(rng.below_u64(200)) - 20).collect();
        model.add(&measured(columns, values));
    }
    model
}

/// exp(Σθ) of all combinations, scaled to the total.
fn all(model: &Model) -> FactorTable {
    let columns = ColumnSet::new(0..model.sizes.len());
    let mut logs = vec![0.0; columns.cells(&model.sizes)];
    for target in &model.targets {
        let index = index(columns.as_slice(), target.columns.as_slice(), &model.sizes);
        spread(&mut logs, &index, &target.potential);
    }
    let top = logs.iter().copied().fold(f64::MIN, f64::max);
    let values: Vec<f64> = logs.iter().map(|log| (log - top).exp()).collect();
    let sum: f64 = values.iter().sum();
    FactorTable { columns, values: values.iter().map(|value| value * model.total / sum).collect() }
}

/// All marginals of five columns, also of columns that are in no clique together, equal those of
/// the product of all factors.
#[test]
fn marginals_are_those_of_all_combinations() {
    let sizes = [2, 3, 2, 4, 3];
    let mut rng = QueryRng::seeded_for_tests(1);
    for _ in 0..40 {
        let mut model = some(&sizes, &mut rng);
        model.fit(6, &|| false);
        let all = all(&model);
        let mut paths = Paths::new(&model, &sizes, 1 << 22);
        for chosen in 0..32_u32 {
            let set = ColumnSet::new((0..5).filter(|column| chosen >> column & 1 == 1));
            let (should, is) = (all.onto(&set, &sizes), paths.marginal(&set).unwrap());
            for (should, is) in should.iter().zip(&is) {
                assert!((should - is).abs() < 1e-6 * model.total, "{set:?}: {should} {is}");
            }
        }
    }
}

/// Each set is in a clique, the cliques of each column are connected, and parents come first.
#[test]
fn trees_are_junction_trees() {
    let sizes = [2, 3, 2, 4, 3, 2, 5];
    let mut rng = QueryRng::seeded_for_tests(2);
    for _ in 0..200 {
        let sets: Vec<ColumnSet> = (0..rng.below_u64(9))
            .map(|_| ColumnSet::new((0..7).filter(|_| rng.below_u64(3) == 0)))
            .collect();
        let tree = Tree::new(&sizes, sets.iter());
        assert!(sets.iter().all(|set| tree.holding(set, &sizes).is_some()));
        for column in 0..7 {
            let has = |at: &usize| tree.cliques[*at].columns.contains(column);
            let with: Vec<usize> = (0..tree.cliques.len()).filter(has).collect();
            let tops = with.iter().filter(|at| !tree.cliques[**at].shared.contains(column));
            assert_eq!(tops.count(), 1, "{tree:?}");
        }
        for (at, clique) in tree.cliques.iter().enumerate() {
            assert!(clique.parent.is_none_or(|parent| parent < at));
            assert!(clique.parent.is_some() || at == 0);
        }
        let more = ColumnSet::new([1, 4, 6]);
        let with = Tree::new(&sizes, sets.iter().chain([&more]));
        assert_eq!(Tree::cells_with(&sizes, sets.iter(), &[&more]), [with.cells(&sizes)]);
    }
    let square = [[0, 1], [1, 2], [2, 3], [0, 3]].map(ColumnSet::new);
    assert_eq!(Tree::new(&sizes[..4], square.iter()).cliques.len(), 2, "a square is cut in two");
}

/// Consistent measurements are met, and a fit never makes the loss larger.
#[test]
fn fits_meet_what_agrees() {
    let sizes = [2, 2, 2];
    let mut model = Model::new(&sizes);
    model.add(&measured(ColumnSet::new([0, 1]), vec![40, 10, 20, 30]));
    model.add(&measured(ColumnSet::new([1, 2]), vec![50, 10, 5, 35]));
    let mut last = f64::INFINITY;
    for _ in 0..30 {
        model.fit(10, &|| false);
        let loss = model.answer(&model.potentials()).loss;
        assert!(loss <= last * (1.0 + 1e-9));
        last = loss;
    }
    assert!((model.total() - 100.0).abs() < 1e-9);
    let mut paths = Paths::new(&model, &sizes, 1 << 22);
    let pair = paths.marginal(&ColumnSet::new([0, 1])).unwrap();
    for (is, should) in pair.iter().zip([40.0, 10.0, 20.0, 30.0]) {
        assert!((is - should).abs() < 0.05, "{pair:?}");
    }
    // The sum over the middle column: 40·50/60 + 10·5/40.
    let far = paths.marginal(&ColumnSet::new([0, 2])).unwrap();
    assert!((far[0] - (40.0 * 50.0 / 60.0 + 10.0 * 5.0 / 40.0)).abs() < 0.1, "{far:?}");
}

/// Two measurements of one set count as their weighted mean. The total is that of all measurements,
/// at least 1.
#[test]
fn measurements_are_put_together() {
    let mut model = Model::new(&[2]);
    model.add(&measured(ColumnSet::new([0]), vec![10, 20]));
    model.add(&measured(ColumnSet::new([0]), vec![30, 0]));
    assert!((model.total() - 30.0).abs() < 1e-9);
    assert!((model.targets[0].mean[0] - 20.0).abs() < 1e-9 && model.targets.len() == 1);
    let mut none = Model::new(&[2]);
    none.add(&measured(ColumnSet::new([0]), vec![-10, -20]));
    none.fit(60, &|| false);
    assert!((none.total() - 1.0).abs() < 1e-9);
    assert!(none.counts[0].iter().all(|count| count.is_finite() && *count >= 0.0));
}

/// A fit without time leaves the model unchanged.
#[test]
fn fits_end_in_time() {
    let mut model = Model::new(&[2, 2]);
    model.add(&measured(ColumnSet::new([0, 1]), vec![1_000, 0, 0, 1_000]));
    let before = model.counts.clone();
    model.fit(1_000, &|| true);
    assert_eq!(model.counts, before);
}
