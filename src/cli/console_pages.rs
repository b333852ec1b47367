//! How pages in a browser write answers: by the formats of the shell.
//!
//! In: answers, and what is typed. Out: cells, files and pictures.

use hushql::{Answer, AnswerFile, BudgetState, DaySpending};
use hushql_engine::visible::rounded;

use super::chart::{Chart, ChartShape};
use super::complete::Vocabulary;
use super::table::{csv, shown_with, with_neat_budgets};
use super::view::{Cell, View, percent};
use super::{json, walkthrough};
use crate::console::{NamedTables, PageCell, PageColumn, PageTable, Presentation};

/// The writers of the program.
pub(super) const PRESENTATION: Presentation = Presentation {
    table,
    csv: |answer| {
        // Values come from people, and a spreadsheet would run some of them.
        View::for_answer(answer).ok().map(|view| csv(&view, true, true))
    },
    json: |answer| json::answer(answer, &View::for_answer(answer).ok()?).ok(),
    parquet: |answer| {
        let with_errors = AnswerFile::parquet_bytes(answer, true);
        with_errors.or_else(|_| AnswerFile::parquet_bytes(answer, false)).ok()
    },
    chart: |answer| {
        let chart = Chart::of(&View::for_answer(answer).ok()?, ChartShape::Fitting)?;
        Some(chart.svg(answer.notes()))
    },
    spending,
    complete,
    table_of_file: walkthrough::table_of_file,
    domain: walkthrough::typed_domain,
    domain_asked: walkthrough::domain_asked,
    most_rows: walkthrough::typed_rows,
    budget: walkthrough::typed_budget,
};

fn table(answer: &Answer) -> Option<PageTable> {
    let mut view = View::for_answer(answer).ok()?;
    with_neat_budgets(&mut view);
    let columns = view.columns.iter().map(|column| PageColumn {
        name: column.name.clone(),
        is_number: column.kind.is_numeric(),
        confidence: column.margin.as_ref().map(|margin| percent(margin.confidence)),
    });
    let row = |(at, cells): (usize, &Vec<Cell>)| {
        let cell = |(cell, column): (&Cell, &super::view::AnswerColumn)| {
            let errors = column.margin.as_ref().map(|margin| &margin.errors);
            let error = errors.and_then(|errors| errors.get(at).copied().flatten());
            PageCell {
                text: shown_with(column.kind, cell, error),
                error: error.map(rounded),
                is_null: *cell == Cell::Null,
            }
        };
        cells.iter().zip(&view.columns).map(cell).collect()
    };
    Some(PageTable {
        columns: columns.collect(),
        rows: view.rows.iter().enumerate().map(row).collect(),
        winners: view.winners.clone(),
    })
}

fn spending(states: &[BudgetState], days: &[DaySpending]) -> Option<String> {
    let days = days.iter().map(|day| (day.budget.clone(), day.day.clone(), day.spent));
    let chart = Chart::of_budgets(states, &days.collect::<Vec<_>>(), "")?;
    Some(chart.svg(&[]))
}

fn complete(tables: NamedTables, sql: &str, at: usize) -> (usize, Vec<String>) {
    // A statement, never a command of the shell.
    Vocabulary::new(tables).complete(" ", sql, at)
}
