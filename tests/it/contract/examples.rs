//! Every example runs, leaves with 0 and prints what it is there to show; plots are drawn.
//!
//! `cargo test` builds the examples beside the tests; a run of this binary alone (`--test it`)
//! finds those of the last whole run.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// What each example must print, whatever the noise.
const SHOWN: [(&str, &[&str]); 17] = [
    (
        "best_price",
        &[
            "revenue at 1.0000: 4.0000\n",
            "revenue at 1.0001: 1.0001\n",
            "revenue at 3.0100: 3.0100\n",
            "revenue at 3.0101: 0.0000\n",
            "3758096385, public (RANGE(0, 3.5), a grid of 2^-30)",
            "within 87.5 of the best, whatever the data; on average within 77.2",
            "ε = 0.01, textbook, R = 7             0.286      0.575        0.140",
            "ε = 1, textbook, R = 7                0.298      0.594        0.108",
            "ε = 5, textbook, R = 7                0.373      0.595        0.032",
            "ε = 1, HushQL, R = 3.5                0.313      0.605        0.082",
            "left sale ε = 0\n",
        ],
    ),
    (
        "declare",
        &["owner: budget study for people: ε = 1 left", "does not suffice", "left ε = 0.2"],
    ),
    ("embed", &["north", "south", "east", "HQ012 refused"]),
    ("explain", &["Δ₁ = 2000", "Δ₁ = 200\n", "HQ007", "it would cost ε = 0.25"]),
    (
        "eye_colour",
        &[
            "textbook: worse than (2/ε)(ln 5 + 3) = 92.19 with at most e^−3 = 0.0498",
            "textbook, worse than that: exactly 0.0078",
            "HushQL: worse than (1/ε)(ln 5 + 3) = 46.09 with at most e^−3 = 0.0498",
            "HushQL, worse than that: exactly 0.0009",
            "within 43.0 rows of the best, whatever the data; on average within 16.1",
        ],
    ),
    (
        "laplace_from_exponential",
        &["scale of the noise, exponential over Laplace: 2\n", " 1.9992 ", " 0.9983 "],
    ),
    (
        "marital_status",
        &[
            "(published: 180)",
            "(published: 192)",
            "14976    0.8888 ",
            "10683    0.1039 ",
            "4443    0.0046 ",
            "1025    0.0008 ",
            "993    0.0008 ",
            "418    0.0006 ",
            "23    0.0005 ",
            "14976    0.9785 ",
            "10683    0.0215 ",
            "P(status) ∝ exp(0.0005 × score)",
            "Laplace noise of scale 1000 on every score",
        ],
    ),
    (
        "meeting_date",
        &[
            "one unit by 0..8   range 8 (all one way: no factor 2)   the lowest wins",
            "one unit by 0..1   range 1 (all one way: no factor 2)   the lowest wins",
            "P(slot) ∝ exp(−0.2 × score)",
            "Tue 14      20          0.2401",
            "Thu 9       15          0.6527",
            "left calendar ε = 0.8\n",
        ],
    ),
    (
        "people_with_many_orders",
        &[
            "| islands |",
            "spends: ± 2.1",
            "made up, so it may be told: 1199; answered ",
            "per unit 160 rows in all (MAX ROWS, through the joins), 6 rows in a group (rows=), 2 groups (groups=)",
            "a unit's rows beyond these bounds (with more in a group, each row counts by the same share), its further groups, values beyond their range",
            "Join orders, customers on items(order_no), added: its rows are those of their unit",
            "6093 orders, at most 40 of a person; ε = 0.2 for each answer\n",
            "      1      2801      3292        15      3307 ",
            "      8      5870       223       120       343 ",
            "     40      6093         0       599       599 ",
        ],
    ),
    (
        "prepared",
        &[
            "ε = 0.01: within ",
            "ε = 1: within 3.0 of the count\n",
            "columns: n\n",
            "left adult ε = 9.8",
            "a parameter is not allowed here: write ε, δ, bounds, keys and candidates in the statement\n",
        ],
    ),
    ("quickstart", &["Married-civ-spouse", "rows: 1", "status: winner 4.00", "spent: ε = 1"]),
    (
        "randomized_response",
        &[
            "2000 entries of the roster answer, each once",
            "  0.5      0.6225 ",
            "    1      0.7311 ",
            "    2      0.8808 ",
            "    3      0.9526 ",
            "2000 answers each time",
        ],
    ),
    (
        "register_files",
        &[
            "owner: table people has 2 columns; it is undeclared",
            "lab:   ",
            "owner: table wards is public",
            "owner: table visits is private; its unit is that of people, reached through people",
            "owner: budget study for people: ε = 2 left",
            "| east ",
            "left study ε = 1\n",
        ],
    ),
    (
        "revenue_loss",
        &[
            "within 45.7 of the best, whatever the data; on average within 31.0",
            "best revenue 1680.00 from 2000 bidders, 500 prices",
            "    0.001       494.562 ",
            "        1         2.703 ",
        ],
    ),
    (
        "small_database",
        &[
            "1287 tables of 5 rows over 9 combinations; range of the score 9",
            "| tiny ",
            "cost ε = 1",
        ],
    ),
    ("stream", &["cost ε = 0.5 · left adult ε = 9.5", "100000 rows in 13 batches\n"]),
    (
        "synthetic_adult",
        &[
            "AIM(eps=1, delta=1e-9, marginals=2)",
            "| people ",
            "marginals are off by at most ",
            "synthetic: Married-civ-spouse > Divorced > Never-married",
        ],
    ),
];

/// What was drawn: the example, the text before the number, how many numbers stand between, the
/// least and the most.
///
/// Each check fails by chance with probability at most 5·10⁻⁸, all of them together with at most
/// 10⁻⁶: binomial tails summed exactly, Chernoff bounds of the discrete Laplace law, Hoeffding's
/// inequality for revenues.
const DRAWN: [(&str, &str, usize, f64, f64); 19] = [
    ("best_price", "ε = 1, 10000 draws", 0, 0.273, 0.324),
    ("best_price", "ε = 1, 10000 draws", 1, 0.567, 0.621),
    ("best_price", "ε = 5, 10000 draws", 2, 0.022, 0.042),
    ("eye_colour", "textbook, worse than that: exactly 0.0078, drawn", 0, 0.0035, 0.0131),
    ("eye_colour", "HushQL, worse than that: exactly 0.0009, drawn", 0, 0.0, 0.003),
    ("laplace_from_exponential", "  exponential ", 1, 1.859, 2.140),
    ("laplace_from_exponential", "  Laplace     ", 1, 0.928, 1.069),
    ("marital_status", "EXPONENTIAL: ", 0, 150.0, 197.0),
    ("marital_status", "NOISY_MAX: ", 0, 181.0, 200.0),
    ("meeting_date", "Thu 9 was drawn ", 0, 6_266.0, 6_785.0),
    ("people_with_many_orders", "may be told: 1199; answered", 0, 1_155.0, 1_243.0),
    ("randomized_response", "  0.5      0.6225", 0, 0.559, 0.684),
    ("randomized_response", "    1      0.7311", 0, 0.672, 0.787),
    ("randomized_response", "    2      0.8808", 0, 0.837, 0.921),
    ("randomized_response", "    3      0.9526", 0, 0.922, 0.978),
    ("randomized_response", "    1      0.7311", 1, 0.31, 0.69),
    ("randomized_response", "    3      0.9526", 1, 0.31, 0.69),
    // Losses are at most 1,680: 1,680·√(ln(4·10⁷)/4,000) = 111.2.
    ("revenue_loss", "    0.001       494.562", 0, 383.3, 605.8),
    ("revenue_loss", "    0.003       441.090", 0, 329.8, 552.3),
];

/// The examples that draw a plot.
const PLOTTED: [&str; 9] = [
    "best_price",
    "eye_colour",
    "laplace_from_exponential",
    "marital_status",
    "meeting_date",
    "people_with_many_orders",
    "randomized_response",
    "revenue_loss",
    "synthetic_adult",
];

/// The names of the files in `examples/`, sorted.
fn sources() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

/// `target/PROFILE/examples/NAME`, seen from `target/PROFILE/deps/it-…`.
fn binary(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let profile = tests.parent().and_then(Path::parent).unwrap();
    let binary = profile.join("examples").join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(binary.exists(), "example {name} is not built; `cargo test` without --test builds it");
    binary
}

/// What an example prints, with its plots in the folder.
fn printed(name: &str, folder: &Path) -> String {
    let output = Command::new(binary(name)).arg(folder).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// The numbers behind a text, up to the end of its line.
fn numbers_after(text: &str, before: &str) -> Vec<f64> {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("no {before:?} in\n{text}"));
    let words = rest.lines().next().unwrap().split_whitespace();
    words.filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn every_example_runs_and_shows_its_point() {
    assert_eq!(sources(), SHOWN.map(|(name, _)| name.to_owned()), "examples and what they show");
    let folder = TempDir::new().unwrap();
    for (name, shown) in SHOWN {
        let text = printed(name, folder.path());
        for part in shown {
            assert!(text.contains(part), "{name} does not print {part:?}:\n{text}");
        }
        for (_, before, skip, least, most) in DRAWN.iter().filter(|drawn| drawn.0 == name) {
            let number = numbers_after(&text, before)[*skip];
            assert!((*least..=*most).contains(&number), "{name}, {before:?}: {number}\n{text}");
        }
        if name == "revenue_loss" {
            losses_fall_and_stay_below_the_bound(&text);
        }
        if name == "people_with_many_orders" {
            counts_are_those_of_the_kept_rows(&text);
        }
        if PLOTTED.contains(&name) {
            let path = folder.path().join(format!("{name}.svg"));
            assert!(text.ends_with(&format!("plot: {}\n", path.display())), "{text}");
            let svg = std::fs::read_to_string(path).unwrap();
            assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{name}");
            let shapes = ["<rect", "<polyline", "<circle"].map(|shape| svg.matches(shape).count());
            assert!(shapes.iter().sum::<usize>() >= 20, "{name} draws {shapes:?}");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{name} draws what is no number");
        }
    }
    let plots = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(plots, PLOTTED.len(), "files in the folder of the plots");
}

fn losses_fall_and_stay_below_the_bound(text: &str) {
    let (_, table) = text.split_once("at most\n").unwrap();
    let rows: Vec<Vec<f64>> = table
        .lines()
        .take(11)
        .map(|line| line.split_whitespace().map(|word| word.parse().unwrap()).collect())
        .collect();
    for row in &rows {
        assert!(row[1] <= row[3] && row[2] <= row[3], "a loss above its bound: {row:?}");
    }
    for pair in rows.windows(2) {
        assert!(pair[0][0] < pair[1][0] && pair[0][1] >= pair[1][1], "{pair:?}");
    }
}

/// Each answer is the count of the kept rows with noise of scale m/0.2: off by 22 scales with
/// probability below 2·e⁻²² = 5.6·10⁻¹⁰, all nine together below 5.1·10⁻⁹. Of the bounds, neither
/// the least nor the largest is best.
fn counts_are_those_of_the_kept_rows(text: &str) {
    let (_, table) = text.split_once("together    answer\n").unwrap();
    let rows: Vec<Vec<f64>> = table
        .lines()
        .take(9)
        .map(|line| line.split_whitespace().map(|word| word.parse().unwrap()).collect())
        .collect();
    for row in &rows {
        let scale = row[0] / 0.2;
        assert!((row[5] - row[1]).abs() <= 22.0 * scale, "not a count of the kept rows: {row:?}");
        assert!((row[3] - scale * 20.0_f64.ln()).abs() <= 1.0, "no 95 % of Laplace: {row:?}");
    }
    for pair in rows.windows(2) {
        assert!(pair[0][2] > pair[1][2] && pair[0][3] < pair[1][3], "{pair:?}");
    }
    let together = |row: &Vec<f64>| row[4];
    let least = rows.iter().map(together).fold(f64::INFINITY, f64::min);
    assert!(least < together(&rows[0]) && least < together(&rows[8]) / 1.5, "{rows:?}");
}

/// What is said to be deterministic is: nothing of the data or of the noise is in an explanation.
#[test]
fn explanations_are_the_same_every_time() {
    let run = || Command::new(binary("explain")).output().unwrap().stdout;
    assert_eq!(run(), run());
}
