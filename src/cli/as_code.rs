//! `hushql apply` and `hushql reload`: what a scheduled job runs.
//!
//! In: an engine, and a file of declarations or the names of tables. Out: a plan on standard
//! output, sentences on standard error, and an exit status: 0 if the vault is as it should be, 1 if
//! something failed.
//!
//! ```text
//! hushql apply study.db study.sql --plan   →   ALTER PRIVACY BUDGET study SET LIMIT (epsilon=6);
//! hushql reload study.db visits            →   table visits is reloaded; …
//! ```

use std::path::Path;

use hushql::{ApplyPlan, Engine};

use super::exec;
use super::failure::Failure;
use super::print::Printer;

/// Brings a vault to what a file says, or prints what that takes.
pub(super) async fn apply(
    engine: &Engine,
    file: &Path,
    is_plan: bool,
    printer: Printer,
) -> Result<u8, Failure> {
    let script = match file.as_os_str() == "-" {
        true => exec::read_input()?,
        false => exec::read(file)?,
    };
    let owner = engine.owner();
    let plan = match is_plan {
        true => owner.plan(&script).await?,
        false => owner.apply(&script).await?,
    };
    let ApplyPlan { statements, only_here, .. } = &plan;
    if is_plan {
        let lines: String = statements.iter().map(|line| format!("{line};\n")).collect();
        printer.script(&lines)?;
    }
    for name in only_here {
        printer.note(&format!("only in the vault, and stays: {name}"));
    }
    let number = match statements.len() {
        1 => "1 statement".to_owned(),
        number => format!("{number} statements"),
    };
    printer.note(&match (plan.is_nothing(), is_plan) {
        (true, _) if !only_here.is_empty() => {
            "nothing to do: the vault has all that the file says, and what is named above"
                .to_owned()
        }
        (true, _) => "nothing to do: the vault is as the file says".to_owned(),
        (false, true) => format!("{number} to run: hushql apply without --plan runs them"),
        (false, false) => format!("{number} carried out"),
    });
    Ok(0)
}

/// Reloads tables, and goes on after one that fails.
pub(super) async fn reload(
    engine: &Engine,
    tables: &[String],
    printer: Printer,
) -> Result<u8, Failure> {
    let mut status = 0;
    for (_, told) in engine.owner().reload(tables).await? {
        match told {
            Ok(sentence) => printer.done(&sentence)?,
            Err(error) => {
                status = 1;
                printer.warn(&Failure::from(error).text());
            }
        }
    }
    Ok(status)
}
