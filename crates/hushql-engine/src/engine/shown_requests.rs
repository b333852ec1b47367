//! The requests for more of a budget, as a session sees them.
//!
//! In: the history of the vault, and a reader. Out: a table. An analyst sees their own requests;
//! the owner sees all.
//!
//! ```text
//! SHOW PRIVACY REQUESTS   →   17 | 2026-03-01 | lab | study | ε = 1 | open | the second year
//! ```

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampSecondArray};

use crate::answer::Answer;
use crate::catalog::Catalog;
use crate::error::Error;
use crate::instance::Inner;
use crate::ledger::{BudgetRequest, OWNER, RequestState, own_requests, requests};

/// The requests that a reader may see, the newest first.
pub(super) fn shown_requests(
    inner: &Inner,
    catalog: &Catalog,
    reader: &str,
) -> Result<Answer, Error> {
    let history = inner.vault.declarations()?;
    let mut all = requests(&history);
    if reader != OWNER {
        let own = own_requests(&history, reader);
        all.retain(|request| own.contains(&request.number));
        for request in &mut all {
            request.number = number_among(catalog, &own, request.number);
        }
    }
    all.reverse();
    let texts = |of: fn(&BudgetRequest) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(all.iter().map(of)))
    };
    let at = TimestampSecondArray::from_iter_values(all.iter().map(|request| request.at));
    let columns: [(&str, ArrayRef); 7] = [
        ("request", Arc::new(Int64Array::from_iter_values(all.iter().map(|r| r.number)))),
        ("time", Arc::new(at.with_timezone("UTC"))),
        ("analyst", texts(|request| request.analyst.clone())),
        ("budget", texts(|request| request.budget.clone())),
        ("add", texts(|request| request.add.to_string())),
        ("state", texts(|request| state_text(&request.state))),
        ("reason", texts(|request| request.reason.clone())),
    ];
    let batch = RecordBatch::try_from_iter(columns).map_err(|_| Error::Internal)?;
    Ok(Answer::public(batch))
}

/// The number of a request, as whoever asked sees it.
///
/// # Errors
/// The vault's own.
pub(super) fn shown_number(
    inner: &Inner,
    catalog: &Catalog,
    reader: &str,
    number: i64,
) -> Result<i64, Error> {
    let own = own_requests(&inner.vault.declarations()?, reader);
    Ok(number_among(catalog, &own, number))
}

/// The number of a request among these, from 1, where the reader sees a part of the declarations:
/// that of its entry would reveal how many there are. Otherwise the number itself.
fn number_among(catalog: &Catalog, own: &[i64], number: i64) -> i64 {
    match catalog.is_part() {
        true => (1..).zip(own).find(|(_, own)| **own == number).map_or(0, |(among, _)| among),
        false => number,
    }
}

fn state_text(state: &RequestState) -> String {
    match state {
        RequestState::Open => "open".to_owned(),
        RequestState::Approved(_) => "approved".to_owned(),
        RequestState::Denied(_, reason) if reason.is_empty() => "denied".to_owned(),
        RequestState::Denied(_, reason) => format!("denied: {reason}"),
    }
}
