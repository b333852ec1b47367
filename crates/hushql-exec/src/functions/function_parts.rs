//! Functions of private plans as plain values, from which another process builds the same
//! functions.
//!
//! In: a function that the engine put into a plan. Out: its parts, or `None` for a function that is
//! not on the list. A function without a description cannot be sent. Functions of DataFusion itself
//! are sent by name, elsewhere.
//!
//! ```text
//! listed_3f…(x), made for 'a', 'b' ─▶ FunctionParts::Listed(['a', 'b']) ─▶ listed_3f…(x), over there
//! ```

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{Column, Result, ScalarValue, plan_err};
use datafusion::logical_expr::{Expr, Operator, ScalarUDF};
use serde::{Deserialize, Serialize};

use super::axis::{AxisPlace, OnLine, on_line, place, snap};
use super::block_of::block_of_function;
use super::capped::{capped, is_capped};
use super::cast::{cast_parts, opaque_cast};
use super::checked::{checked, checked_abs, checked_to, not_negative, not_zero};
use super::concat::{joined, joined_to};
use super::date_bin::date_bin_function;
use super::date_label::date_label_functions;
use super::date_trunc::date_trunc_function;
use super::file_values::file_values_function;
use super::histogram::{classes_made, classes_parts};
use super::late_value::{late_made, late_parts};
use super::magnitude::magnitude_function;
use super::micros::in_microseconds_function;
use super::moment_text::without_offset_function;
use super::moments::{date_diff_function, moved_made, moved_parts};
use super::month_unit::month_unit_function;
use super::moved_times::moved_times_function;
use super::null_unsupported::{in_calendar_function, sound_function};
use super::pair::{pair, paired};
use super::round::{Direction, Rounding, rounding_parts};
use super::struct_fields::struct_field_function;
use super::travelling_values;
use super::width_bucket::width_bucket_function;
use super::{clamp_function, members_of, only_listed};
use crate::grid::GridRange;
use crate::grid::pairs::Pairs;
use crate::ticks::Ticks;

/// A function of the engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Function(FunctionParts);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum FunctionParts {
    /// A function without parameters, by its name.
    Plain(String),
    /// The values of a list; other values become NULL.
    Listed(#[serde(with = "travelling_values::values")] Vec<ScalarValue>),
    /// Arithmetic that returns NULL where it fails, by its name.
    Checked {
        name: String,
        #[serde(with = "travelling_values::data_type")]
        to: DataType,
    },
    /// A cast. Values that do not fit become NULL if it is safe.
    Cast {
        #[serde(with = "travelling_values::data_type")]
        to: DataType,
        safe: bool,
    },
    /// The concatenation of two texts.
    Joined {
        #[serde(with = "travelling_values::data_type")]
        to: DataType,
    },
    /// A function of DataFusion whose results may be long, by its name.
    Capped(String),
    /// Rounding, by the name of its direction.
    Rounded {
        direction: String,
        places: i32,
        #[serde(with = "travelling_values::data_type")]
        from: DataType,
        #[serde(with = "travelling_values::data_type")]
        to: DataType,
    },
    /// A moment moved by months and ticks.
    Moved {
        name: String,
        months: i32,
        ticks: i128,
        #[serde(with = "travelling_values::data_type")]
        of: DataType,
    },
    /// Classes of numbers: the beginnings of all but the first, and the names.
    Classes {
        starts: Vec<Bits>,
        names: Vec<String>,
    },
    /// A value that is released before the rows are read: empty before it is drawn, and afterwards
    /// one value.
    Late {
        name: String,
        #[serde(with = "travelling_values::data_type")]
        of: DataType,
        #[serde(with = "travelling_values::values")]
        value: Vec<ScalarValue>,
    },
    /// The codes of pairs.
    Paired(Pairs),
    /// The nearest tick.
    Nearest(Ticks),
    /// The place on an axis: see [`AxisPlace`].
    Tick(Ticks),
    Index(GridRange),
    Ticks {
        ticks: Ticks,
        strict: bool,
    },
    Floats {
        numbers: Vec<Bits>,
        strict: bool,
    },
    Units {
        numbers: Vec<i128>,
        strict: bool,
    },
}

/// A float as its bits, because reading a float from text may round it.
type Bits = u64;

fn bits(floats: &[f64]) -> Vec<Bits> {
    floats.iter().map(|float| float.to_bits()).collect()
}

fn floats(bits: &[Bits]) -> Vec<f64> {
    bits.iter().map(|bits| f64::from_bits(*bits)).collect()
}

/// The functions without parameters.
fn plain() -> Vec<Arc<ScalarUDF>> {
    let mut plain = vec![
        clamp_function(),
        sound_function(),
        in_calendar_function(),
        date_bin_function(),
        date_trunc_function(),
        without_offset_function(),
        in_microseconds_function(),
        file_values_function(),
        struct_field_function(),
        month_unit_function(),
        block_of_function(),
        date_diff_function(),
        moved_times_function(),
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
    /// The parts of a function of the engine; `None` for other functions.
    ///
    /// # Guarantee
    /// [`Function::made`] of the result is equal to the function. For a value that is released
    /// earlier in its query, it is a copy, which is never set later.
    pub fn of(function: &ScalarUDF) -> Option<Self> {
        let name = || function.name().to_owned();
        let parts = if plain().iter().any(|one| one.as_ref() == function) {
            FunctionParts::Plain(name())
        } else if let Some(members) = members_of(function) {
            FunctionParts::Listed(members.to_vec())
        } else if let Some(to) = checked_to(function) {
            FunctionParts::Checked { name: name(), to }
        } else if let Some((to, safe)) = cast_parts(function) {
            FunctionParts::Cast { to, safe }
        } else if let Some(to) = joined_to(function) {
            FunctionParts::Joined { to }
        } else if is_capped(function) {
            FunctionParts::Capped(name())
        } else if let Some((name, months, ticks, of)) = moved_parts(function) {
            FunctionParts::Moved { name, months, ticks, of }
        } else if let Some((starts, names)) = classes_parts(function) {
            FunctionParts::Classes { starts: bits(starts), names: names.to_vec() }
        } else if let Some((name, of, value)) = late_parts(function) {
            let value = value.cloned().into_iter().collect();
            FunctionParts::Late { name: name.to_owned(), of: of.clone(), value }
        } else if let Some(pairs) = paired(function) {
            FunctionParts::Paired(pairs)
        } else if let Some(on) = on_line(function) {
            line(on)
        } else {
            let (direction, places, from, to) = rounding_parts(function)?;
            let (direction, _) = DIRECTIONS.iter().find(|(_, one)| *one == direction)?;
            FunctionParts::Rounded { direction: (*direction).to_owned(), places, from, to }
        };
        Some(Self(parts))
    }

    /// Builds the function. `named` finds the functions of DataFusion.
    ///
    /// # Errors
    /// A planning error if the description fits no function.
    pub fn made(&self, named: impl Fn(&str) -> Option<Arc<ScalarUDF>>) -> Result<Arc<ScalarUDF>> {
        let x = || Expr::Column(Column::from_name("x"));
        let call = match &self.0 {
            FunctionParts::Plain(name) => {
                let found = plain().into_iter().find(|one| one.name() == name);
                return found.map_or_else(|| plan_err!("there is no function {name}"), Ok);
            }
            FunctionParts::Capped(name) => {
                let found = named(name).map(capped).filter(|one| is_capped(one));
                return found.map_or_else(|| plan_err!("there is no function {name}"), Ok);
            }
            FunctionParts::Listed(members) => only_listed(x(), members),
            FunctionParts::Checked { name, to } => match name.as_str() {
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
            FunctionParts::Cast { to, safe } => Some(opaque_cast(x(), to, *safe)),
            FunctionParts::Joined { to } => Some(joined(x(), x(), to)),
            FunctionParts::Moved { name, months, ticks, of } => {
                return Ok(Arc::new(moved_made(name, *months, *ticks, of)));
            }
            FunctionParts::Classes { starts, names } => {
                return Ok(Arc::new(classes_made(floats(starts), names.clone())));
            }
            FunctionParts::Late { name, of, value } => {
                return Ok(Arc::new(late_made(name, of, value.first())));
            }
            FunctionParts::Paired(pairs) => Some(pair(x(), x(), *pairs)),
            FunctionParts::Nearest(ticks) => Some(snap(x(), *ticks)),
            FunctionParts::Tick(ticks) => Some(place(x(), AxisPlace::Tick(*ticks))),
            FunctionParts::Index(range) => Some(place(x(), AxisPlace::Index(*range))),
            FunctionParts::Ticks { ticks, strict } => {
                Some(place(x(), AxisPlace::Ticks { ticks: *ticks, strict: *strict }))
            }
            FunctionParts::Floats { numbers, strict } => {
                let numbers = floats(numbers).into();
                Some(place(x(), AxisPlace::Floats { numbers, strict: *strict }))
            }
            FunctionParts::Units { numbers, strict } => {
                let numbers = numbers.as_slice().into();
                Some(place(x(), AxisPlace::Units { numbers, strict: *strict }))
            }
            FunctionParts::Rounded { direction, places, from, to } => {
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

/// The parts of a function on an axis.
fn line(on: &OnLine) -> FunctionParts {
    match on {
        OnLine::Nearest(ticks) => FunctionParts::Nearest(*ticks),
        OnLine::Place(AxisPlace::Tick(ticks)) => FunctionParts::Tick(*ticks),
        OnLine::Place(AxisPlace::Index(range)) => FunctionParts::Index(*range),
        OnLine::Place(AxisPlace::Ticks { ticks, strict }) => {
            FunctionParts::Ticks { ticks: *ticks, strict: *strict }
        }
        OnLine::Place(AxisPlace::Floats { numbers, strict }) => {
            FunctionParts::Floats { numbers: bits(numbers), strict: *strict }
        }
        OnLine::Place(AxisPlace::Units { numbers, strict }) => {
            FunctionParts::Units { numbers: numbers.to_vec(), strict: *strict }
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::IntervalMonthDayNano;
    use datafusion::functions::string;
    use datafusion::prelude::col;

    use super::*;
    use crate::functions::moments::moved;
    use crate::grid::Grid;
    use hushql_privacy::privacy::Rational;

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
            function(moved(x(), IntervalMonthDayNano::new(-1, 3, 0), &DataType::Date32).unwrap()),
            Arc::new(classes_made(vec![0.1, 1e300], vec!["a".to_owned(), "b".to_owned()])),
        ]);
        let cent = |text: &str| Rational::from_integer(text.parse().unwrap());
        let ticks = Ticks::decimal(&cent("-3"), &cent("40"), &cent("2")).unwrap();
        let range = GridRange::new(Grid::Binary { log2: 3 }, -(1 << 70), 1 << 70).unwrap();
        let numbers: Arc<[f64]> = Arc::from([0.1 + 0.2, -0.0, 1e-300]);
        let units: Arc<[i128]> = Arc::from([-5, i128::MAX]);
        all.push(function(snap(x(), ticks)));
        for on in [
            AxisPlace::Tick(ticks),
            AxisPlace::Index(range),
            AxisPlace::Ticks { ticks, strict: true },
            AxisPlace::Floats { numbers, strict: false },
            AxisPlace::Units { numbers: units, strict: true },
        ] {
            all.push(function(place(x(), on)));
        }
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

    /// A released value comes back unchanged, before and after it is drawn.
    #[test]
    fn released_values_come_back_as_they_were() {
        use crate::functions::late_value::LateValue;
        let late = LateValue::new(3, DataType::Float64);
        for drawn in [None, Some(ScalarValue::from(0.1))] {
            if let Some(drawn) = &drawn {
                late.set(drawn).unwrap();
            }
            let text = serde_json::to_string(&Function::of(&function(late.expr())).unwrap());
            let back: Function = serde_json::from_str(&text.unwrap()).unwrap();
            let made = back.made(|_| None).unwrap();
            let expected = (late.name(), &DataType::Float64, drawn.as_ref());
            assert_eq!(late_parts(&made), Some(expected));
        }
    }

    /// A function that is not on the list has no description, even if it has the name of one that
    /// is.
    #[test]
    fn other_functions_are_not_described() {
        assert_eq!(Function::of(&string::repeat()), None);
        assert_eq!(Function::of(&string::upper()), None);
        assert!(Function(FunctionParts::Plain("upper".to_owned())).made(|_| None).is_err());
        assert!(
            Function(FunctionParts::Capped("btrim".to_owned()))
                .made(|_| Some(string::btrim()))
                .is_err()
        );
    }
}
