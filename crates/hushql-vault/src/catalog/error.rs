//! Why a declaration is refused, or a stored declaration cannot be read.
//!
//! Declarations and stored rows go in; a [`CatalogError`] with a sentence for the owner comes out.
//! It never quotes a cell of a table, because this code has not read one.
//!
//! ```
//! use hushql_vault::catalog::CatalogError;
//!
//! let error = CatalogError::UnknownTable { table: "adlut".to_owned() };
//! assert_eq!(error.to_string(), "there is no table `adlut`");
//! ```

use thiserror::Error;

use super::quoted::{quoted, quoted_analyst};

/// Why a declaration is refused, or a stored declaration cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CatalogError {
    /// No table has this name.
    #[error("there is no table `{table}`")]
    UnknownTable {
        /// The requested name.
        table: String,
    },
    /// A table of this name is declared already.
    #[error("there is a table `{table}` already")]
    DuplicateTable {
        /// The name that is taken.
        table: String,
    },
    /// A request, or a decision on one, is refused, in this sentence.
    #[error("{0}")]
    Request(String),
    /// No view has this name.
    #[error("there is no view `{view}`")]
    UnknownView {
        /// The requested name.
        view: String,
    },
    /// A view of this name is declared already.
    #[error("there is a view `{view}` already; CREATE OR REPLACE VIEW puts another in its place")]
    DuplicateView {
        /// The name that is taken.
        view: String,
    },
    /// The statement expects a table, but the name belongs to a view.
    #[error(
        "`{view}` is a view: it has no rows, unit or domains but those of the tables that it reads, and DROP VIEW drops it"
    )]
    IsView {
        /// The view.
        view: String,
    },
    /// The statement expects a view, but the name belongs to a table.
    #[error("`{table}` is a table, not a view")]
    IsTable {
        /// The table.
        table: String,
    },
    /// A view contradicts itself.
    #[error("the view `{view}` cannot be created: {reason}")]
    View {
        /// The view.
        view: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No template of this name is declared, or none that the person who asks may call.
    #[error("there is no template `{template}`")]
    UnknownTemplate {
        /// The requested name.
        template: String,
    },
    /// A template of this name is declared already.
    #[error(
        "there is a template `{template}` already; CREATE OR REPLACE TEMPLATE puts another in its place"
    )]
    DuplicateTemplate {
        /// The name that is taken.
        template: String,
    },
    /// The statement expects a table or a view, but the name belongs to a template.
    #[error(
        "`{template}` is a template, which is called: SELECT * FROM {}(…); DROP TEMPLATE drops it",
        quoted(template)
    )]
    IsTemplate {
        /// The template.
        template: String,
    },
    /// A template contradicts itself.
    #[error("the template `{template}` cannot be created: {reason}")]
    Template {
        /// The template.
        template: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No release table of this name is visible to the person who asks.
    #[error("there is no release table `{table}`")]
    UnknownReleaseTable {
        /// The requested name.
        table: String,
    },
    /// A release table of this name exists already.
    #[error(
        "there is a release table `{table}` already: choose another name, or write DROP RELEASE TABLE {} first, which gives nothing back",
        quoted(table)
    )]
    DuplicateReleaseTable {
        /// The name that is taken.
        table: String,
    },
    /// The name is taken by something that the person who asks cannot see.
    #[error("the name `{name}` is taken: choose another one")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// The release table has another creator.
    #[error(
        "the release table `{table}` is {creator}'s: only {creator} and the owner drop it and grant it"
    )]
    OthersReleaseTable {
        /// The table.
        table: String,
        /// The creator.
        creator: String,
    },
    /// The creator has the largest allowed number of release tables, or of bytes in them.
    #[error(
        "you have {most} release tables, or {mebibytes} MiB in them, and may store no more: write DROP RELEASE TABLE … first, which gives nothing back, or the query alone"
    )]
    TooManyReleaseTables {
        /// The most tables.
        most: usize,
        /// The most bytes, in 2²⁰.
        mebibytes: i64,
    },
    /// Today, the creator has stored the largest allowed number of answers that were paid for
    /// before.
    #[error(
        "you have stored {most} answers today that were paid for before, and may store no more before tomorrow (UTC): write the query alone, which is free"
    )]
    TooManyFreeTables {
        /// The limit for one day.
        most: usize,
    },
    /// The table is granted to the largest allowed number of analysts.
    #[error("a release table is granted to at most {most} analysts")]
    TooManyGrants {
        /// The most analysts.
        most: usize,
    },
    /// No role has this name.
    #[error("there is no role `{role}`")]
    UnknownRole {
        /// The requested name.
        role: String,
    },
    /// A group would contain itself.
    #[error(
        "the role `{group}` has the grants of `{role}` already, so `{role}` cannot have those of `{group}`"
    )]
    GroupOfItself {
        /// The group.
        group: String,
        /// The role that would join it.
        role: String,
    },
    /// A role of this name exists already.
    #[error("there is a role `{role}` already: ALTER ROLE {} changes it", quoted_analyst(role))]
    DuplicateRole {
        /// The name that is taken.
        role: String,
    },
    /// No budget has this name.
    #[error("there is no privacy budget `{budget}`")]
    UnknownBudget {
        /// The requested name.
        budget: String,
    },
    /// A budget of this name is declared already.
    #[error(
        "there is a privacy budget `{budget}` already; change it with `ALTER PRIVACY BUDGET {} SET LIMIT (…)`",
        quoted(budget)
    )]
    DuplicateBudget {
        /// The name that is taken.
        budget: String,
    },
    /// The budget to be replaced is for another table.
    #[error(
        "the privacy budget `{budget}` is for the table `{table}`; DROP PRIVACY BUDGET {} first, or use another name",
        quoted(budget)
    )]
    OtherTable {
        /// The budget.
        budget: String,
        /// The table that it is for.
        table: String,
    },
    /// A budget was declared for a table that is not private.
    #[error(
        "the table `{table}` has no privacy unit, so there is nothing to budget; write `ALTER TABLE {} SET PRIVACY UNIT …` first",
        quoted(table)
    )]
    NotPrivate {
        /// The table that the budget is for.
        table: String,
    },
    /// The table still has budgets, so it cannot be dropped.
    #[error("the table `{table}` has privacy budgets ({}); drop them first", budgets.join(", "))]
    HasBudgets {
        /// The table.
        table: String,
        /// Its budgets.
        budgets: Vec<String>,
    },
    /// A name is empty or too long, or has control characters.
    #[error("`{}` cannot be a name: names have 1 to 128 characters and no control characters", name.escape_debug())]
    Name {
        /// The name.
        name: String,
    },
    /// An amount of a budget contradicts another, or is out of range.
    #[error("the privacy budget `{budget}` cannot be declared: {reason}")]
    Amount {
        /// The budget.
        budget: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The slices of a budget contradict the budget or each other.
    #[error("the privacy budget `{budget}` cannot have these slices: {reason}")]
    Slice {
        /// The budget.
        budget: String,
        /// What is wrong with them.
        reason: String,
    },
    /// The people of a budget cannot be partitioned like this.
    #[error("the privacy budget `{budget}` cannot have these cells: {reason}")]
    Cells {
        /// The budget.
        budget: String,
        /// Why not, and what to write.
        reason: String,
    },
    /// A budget has no slice for an analyst.
    #[error(
        "the privacy budget `{budget}` has no slice for `{analyst}`; write `ALTER PRIVACY BUDGET {} ADD SLICE {} LIMIT (…)`",
        quoted(budget),
        quoted_analyst(analyst)
    )]
    UnknownSlice {
        /// The budget.
        budget: String,
        /// The analyst.
        analyst: String,
    },
    /// A budget already has a slice for an analyst.
    #[error(
        "the privacy budget `{budget}` has a slice for `{analyst}` already; change it with `ALTER PRIVACY BUDGET {} ALTER SLICE {} SET LIMIT (…)`",
        quoted(budget),
        quoted_analyst(analyst)
    )]
    DuplicateSlice {
        /// The budget.
        budget: String,
        /// The analyst.
        analyst: String,
    },
    /// The new limit of a budget is in another measure than that of the budget.
    #[error(
        "the privacy budget `{budget}` counts in {notion}, and that never changes: write LIMIT ({notion}=…), or create another budget"
    )]
    Accounting {
        /// The budget.
        budget: String,
        /// The measure of its limits: `epsilon` or `rho`.
        notion: &'static str,
    },
    /// A new budget counts coupons, but more than a coupon was charged at once on its people.
    #[error(
        "the privacy budget `{budget}` cannot count coupons of ε = {coupon}: a release that was charged to these people costs more than that, or has a rho only; write ACCOUNTANT COUPONS (epsilon=…) with an epsilon as large as that of the dearest release, or ACCOUNTANT ZCDP"
    )]
    Uncoupled {
        /// The budget.
        budget: String,
        /// The ε of a coupon.
        coupon: String,
    },
    /// A budget counts coupons, but more than a coupon was charged at once on its people.
    #[error(
        "the privacy budget `{budget}` counts coupons of ε = {coupon}, and a release that was charged to these people costs more than that, or has a rho only: write `DROP PRIVACY BUDGET {}`, declare this again, and create a budget that can count it, such as one with ACCOUNTANT ZCDP",
        quoted(budget)
    )]
    UncarriedCoupons {
        /// The budget.
        budget: String,
        /// The ε of a coupon.
        coupon: String,
    },
    /// A new budget counts in ε, but releases without an ε were charged on its people.
    #[error(
        "the privacy budget `{budget}` cannot count in epsilon: some of what was released here has a rho only; write LIMIT (rho=…), or LIMIT (epsilon=…, delta=…) ACCOUNTANT ZCDP"
    )]
    Uncountable {
        /// The budget.
        budget: String,
    },
    /// A budget counts in ε, but releases without an ε were charged on its people.
    #[error(
        "the privacy budget `{budget}` counts in epsilon, and some of what was released for these people has a rho only: write `DROP PRIVACY BUDGET {}`, declare this again, and create a budget with LIMIT (rho=…), or LIMIT (epsilon=…, delta=…) ACCOUNTANT ZCDP",
        quoted(budget)
    )]
    Uncarried {
        /// The budget.
        budget: String,
    },
    /// A declaration contradicts itself.
    #[error("the table `{table}` cannot be declared: {reason}")]
    Declaration {
        /// The table.
        table: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A stored declaration differs from the declaration that was written.
    #[error("the catalog is damaged: {0}")]
    Damaged(&'static str),
    /// SQLite failed.
    #[error("the catalog cannot be read or written")]
    Store(#[from] rusqlite::Error),
}
