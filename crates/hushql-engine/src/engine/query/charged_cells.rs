//! The cells of people that a planned query is charged to.
//!
//! In: a [`Planned`] query. Out: for each private aggregate, the cells that its releases are
//! charged to, if not to all; and sentences about them, which every analyst may see. Both follow
//! from the statement and the declarations.
//!
//! ```text
//! SELECT LAPLACE(eps=1) COUNT(*) FROM customers WHERE region = 'Oslo'     charged to region 'Oslo' alone
//! SELECT LAPLACE(eps=1) COUNT(*) FROM customers                           charged to all cells of region, because …
//! ```

use super::choose::Planned;
use crate::analysis::CellsRead;
use crate::catalog::{Touched, quoted};

impl Planned {
    /// The only cells that the releases of a private aggregate are charged to; `None` for all
    /// cells.
    pub(super) fn touched(&self, part: usize) -> Option<Touched> {
        match self.cells_read(part) {
            Some(CellsRead::Only(touched)) => Some(touched),
            Some(CellsRead::Undivided | CellsRead::All(..)) | None => None,
        }
    }

    /// For each private aggregate over people with cells, which cells it is charged to, and why.
    /// Equal sentences appear once.
    pub(crate) fn cells_told(&self) -> Vec<String> {
        let mut told: Vec<String> = Vec::new();
        for part in 0..self.release().analysis().parts().len() {
            let sentence = match self.cells_read(part) {
                Some(CellsRead::Only(touched)) => format!("charged to {touched} alone"),
                Some(CellsRead::All(column, why)) => {
                    let why = why.replace("{column}", &quoted(&column));
                    format!("charged to all cells of {column}, because {why}")
                }
                Some(CellsRead::Undivided) | None => continue,
            };
            if !told.contains(&sentence) {
                told.push(sentence);
            }
        }
        told
    }

    fn cells_read(&self, part: usize) -> Option<CellsRead> {
        let release = self.release();
        let read = release.analysis().parts().get(part)?.cells(self.catalog());
        Some(match read {
            CellsRead::Only(Touched { column, .. }) if release.unit_domains().len() > 1 => {
                CellsRead::All(column, "the query reads tables of other people too")
            }
            read => read,
        })
    }
}
