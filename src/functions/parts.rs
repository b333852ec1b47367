//! Functions of private plans as plain values, from which another process makes the same functions.
//!
//! In: a function that the engine put into a plan. Out: what it is made of, or nothing for a function that is not on the list:
//! what is not described cannot be sent. Functions of DataFusion itself go by their names, which is not decided here.
//!
//! ```text
//! listed_3f…(x), made for 'a', 'b' ─▶ Function::Listed(['a', 'b']) ─▶ listed_3f…(x), over there
//! ```

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{Column, Result, ScalarValue, plan_err};
use datafusion::logical_expr::{Expr, Operator, ScalarUDF};
use serde::{Deserialize, Serialize};

use super::capped::{capped, is_capped};
use super::cast::{cast_parts, opaque_cast};
use super::checked::{checked, checked_abs, checked_to, not_negative, not_zero};
use super::date_bin::date_bin_function;
use super::date_label::date_label_functions;
use super::joined::{joined, joined_to};
use super::magnitude::magnitude_function;
use super::moments::date_diff_function;
use super::places::{Direction, Rounding, rounding_parts};
use super::portable;
use super::sound::sound_function;
use super::width_bucket::width_bucket_function;
use super::{clamp_function, members_of, only_listed};

/// A function of the engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Function {
    /// One without parameters, by its name.
    Plain(String),
    /// The values of a list, and NULL for others.
    Listed(#[serde(with = "portable::values")] Vec<ScalarValue>),
    /// Arithmetic that yields NULL where it fails, by its name.
    Checked {
        /// The name of the operation.
        name: String,
        /// The type of its results.
        #[serde(with = "portable::data_type")]
        to: DataType,
    },
    /// A cast.
    Cast {
        /// The type of its results.
        #[serde(with = "portable::data_type")]
        to: DataType,
        /// Whether what does not fit becomes NULL.
        safe: bool,
    },
    /// Two texts, one behind the other.
    Joined {
        /// The type of its results.
        #[serde(with = "portable::data_type")]
        to: DataType,
    },
    /// A function of DataFusion whose results may be long, by its name.
    Capped(String),
    /// Rounding.
    Rounded {
        /// Nearest, Zero, Down or Up.
        direction: String,
        /// Decimal places.
        places: i32,
        /// The type of its arguments.
        #[serde(with = "portable::data_type")]
        from: DataType,
        /// The type of its results.
        #[serde(with = "portable::data_type")]
        to: DataType,
    },
}

/// The functions without parameters.
fn plain() -> Vec<Arc<ScalarUDF>> {
    let mut plain = vec![
        clamp_function(),
        sound_function(),
        date_bin_function(),
        date_diff_function(),
        magnitude_function(),
        width_bucket_function(),
    ];
    plain.extend(date_label_functions().iter().cloned());
    plain
}

const DIRECTIONS: [(&str, Direction); 4] = [
    ("Nearest", Direction::Nearest),
    ("Zero", Direction::Zero),
    ("Down", Direction::Down),
    ("Up", Direction::Up),
];

impl Function {
    /// What a function of the engine is made of; `None` for others.
    ///
    /// # Guarantee
    /// [`Function::made`] of the result is equal to the function.
    pub fn of(function: &ScalarUDF) -> Option<Self> {
        if plain().iter().any(|one| one.as_ref() == function) {
            return Some(Self::Plain(function.name().to_owned()));
        }
        if let Some(members) = members_of(function) {
            return Some(Self::Listed(members.to_vec()));
        }
        if let Some(to) = checked_to(function) {
            return Some(Self::Checked { name: function.name().to_owned(), to });
        }
        if let Some((to, safe)) = cast_parts(function) {
            return Some(Self::Cast { to, safe });
        }
        if let Some(to) = joined_to(function) {
            return Some(Self::Joined { to });
        }
        if is_capped(function) {
            return Some(Self::Capped(function.name().to_owned()));
        }
        let (direction, places, from, to) = rounding_parts(function)?;
        let (direction, _) = DIRECTIONS.iter().find(|(_, one)| *one == direction)?;
        Some(Self::Rounded { direction: (*direction).to_owned(), places, from, to })
    }

    /// The function. `named` finds the functions of DataFusion.
    ///
    /// # Errors
    /// A planning error for a description of no function.
    pub fn made(&self, named: impl Fn(&str) -> Option<Arc<ScalarUDF>>) -> Result<Arc<ScalarUDF>> {
        let x = || Expr::Column(Column::from_name("x"));
        let call = match self {
            Self::Plain(name) => {
                let found = plain().into_iter().find(|one| one.name() == name);
                return found.map_or_else(|| plan_err!("there is no function {name}"), Ok);
            }
            Self::Capped(name) => {
                let found = named(name).map(capped).filter(|one| is_capped(one));
                return found.map_or_else(|| plan_err!("there is no function {name}"), Ok);
            }
            Self::Listed(members) => only_listed(x(), members),
            Self::Checked { name, to } => match name.as_str() {
                "sum_or_null" => checked(x(), Operator::Plus, x(), to),
                "difference_or_null" => checked(x(), Operator::Minus, x(), to),
                "product_or_null" => checked(x(), Operator::Multiply, x(), to),
                "quotient_or_null" => checked(x(), Operator::Divide, x(), to),
                "remainder_or_null" => checked(x(), Operator::Modulo, x(), to),
                "magnitude_or_null" => Some(checked_abs(x(), to)),
                "not_negative_or_null" => Some(not_negative(x(), to)),
                "not_zero_or_null" => Some(not_zero(x(), to)),
                _ => None,
            },
            Self::Cast { to, safe } => Some(opaque_cast(x(), to, *safe)),
            Self::Joined { to } => Some(joined(x(), x(), to)),
            Self::Rounded { direction, places, from, to } => {
                let direction = DIRECTIONS.iter().find(|(name, _)| name == direction);
                direction
                    .and_then(|(_, direction)| Rounding::new(*direction, *places, from, to))
                    .map(|rounding| rounding.applied_to(x()))
            }
        };
        match call {
            Some(Expr::ScalarFunction(call)) => Ok(call.func),
            Some(_) | None => plan_err!("this describes no function"),
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::functions::string;
    use datafusion::prelude::col;

    use super::*;

    fn function(call: Expr) -> Arc<ScalarUDF> {
        let Expr::ScalarFunction(call) = call else { panic!("{call} calls no function") };
        call.func
    }

    /// Every function on the list comes back as the same function, through its description as text.
    #[test]
    fn functions_come_back_as_they_were() {
        let cents = DataType::Decimal128(12, 2);
        let x = || col("x");
        let mut all = plain();
        all.extend([
            function(only_listed(x(), &["b", "a"].map(ScalarValue::from)).unwrap()),
            function(only_listed(x(), &[3_i64, -1].map(ScalarValue::from)).unwrap()),
            function(checked(x(), Operator::Plus, x(), &cents).unwrap()),
            function(checked(x(), Operator::Minus, x(), &DataType::Int64).unwrap()),
            function(checked(x(), Operator::Multiply, x(), &DataType::Float64).unwrap()),
            function(checked(x(), Operator::Divide, x(), &DataType::Int32).unwrap()),
            function(checked(x(), Operator::Modulo, x(), &DataType::Int32).unwrap()),
            function(checked_abs(x(), &DataType::Int8)),
            function(not_negative(x(), &DataType::Float64)),
            function(not_zero(x(), &DataType::Float32)),
            function(opaque_cast(x(), &DataType::Utf8View, true)),
            function(opaque_cast(x(), &cents, false)),
            function(joined(x(), x(), &DataType::Utf8View)),
            capped(string::repeat()),
        ]);
        for (_, direction) in DIRECTIONS {
            let float = DataType::Float64;
            let rounding = Rounding::new(direction, -2, &float, &float).unwrap();
            all.push(function(rounding.applied_to(x())));
        }
        for function in &all {
            let parts = Function::of(function).unwrap_or_else(|| panic!("{}", function.name()));
            let text = serde_json::to_string(&parts).unwrap();
            let back: Function = serde_json::from_str(&text).unwrap();
            assert_eq!(back, parts);
            let made = back.made(|name| (name == "repeat").then(string::repeat)).unwrap();
            assert_eq!((made.as_ref(), made.name()), (function.as_ref(), function.name()));
        }
    }

    /// What is not on the list has no description, even under a name that is.
    #[test]
    fn other_functions_are_not_described() {
        assert_eq!(Function::of(&string::repeat()), None);
        assert_eq!(Function::of(&string::upper()), None);
        assert!(Function::Plain("upper".to_owned()).made(|_| None).is_err());
        assert!(Function::Capped("upper".to_owned()).made(|_| Some(string::upper())).is_err());
    }
}
