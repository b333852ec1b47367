//! The types of SQL that DataFusion would understand differently.
//!
//! In: a type of a query. Out: the type in which the engine computes: moments and times of the day
//! are in microseconds.
//!
//! ```text
//! TIMESTAMP, TIME        microseconds, without a zone
//! ```

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::Result;
use datafusion::logical_expr::planner::TypePlanner;
use sqlparser::ast as sql;

use super::temporal::UTC;

/// The types of SQL that DataFusion would understand differently.
#[derive(Debug)]
pub(super) struct Types;

impl TypePlanner for Types {
    fn plan_type_field(&self, sql_type: &sql::DataType) -> Result<Option<FieldRef>> {
        // A TIME has the type of the columns that files give.
        if let sql::DataType::Time(None, sql::TimezoneInfo::None) = sql_type {
            let time = DataType::Time64(TimeUnit::Microsecond);
            return Ok(Some(Arc::new(Field::new("", time, true))));
        }
        let sql::DataType::Timestamp(digits, zone) = sql_type else { return Ok(None) };
        let unit = match digits {
            None | Some(6..=9) => TimeUnit::Microsecond,
            Some(3) => TimeUnit::Millisecond,
            Some(0) => TimeUnit::Second,
            Some(_) => return Ok(None),
        };
        let zone = match zone {
            sql::TimezoneInfo::None | sql::TimezoneInfo::WithoutTimeZone => None,
            sql::TimezoneInfo::Tz | sql::TimezoneInfo::WithTimeZone => Some(UTC.into()),
        };
        Ok(Some(Arc::new(Field::new("", DataType::Timestamp(unit, zone), true))))
    }
}
