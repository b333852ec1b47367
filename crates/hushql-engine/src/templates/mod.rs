//! Templates: questions that an owner fixed, asked with values.
//!
//! In: a template as it is written or stored, and the arguments of a call. Out: the template with
//! canonical values, and for a call one literal for each parameter. The owner fixes mechanisms, ε,
//! bounds and shape; a caller chooses values of the declared domains, and nothing else.
//!
//! ```text
//! monthly(region VARCHAR IN ('north', 'south'), least BIGINT DEFAULT 0)
//! monthly('south')              →   region = 'south', least = 0
//! monthly('east')               →   refused, with the domain
//! ```

mod values;

use sqlparser::ast::Expr;

use crate::catalog::{
    Catalog, CatalogError, Column, ParameterDomain, ParameterType, Template, TemplateParameter,
    quoted,
};
use crate::dialect::{
    ArgumentValue, Literal, ParameterClause, ParameterDomainClause, TemplateArgument,
    TemplateClause, typed_literal,
};
use crate::error::Error;
use crate::refusal::{Reason, Refusal, nearest};

/// The most values of IN.
const MOST_VALUES: usize = 1_000;

/// The most values of IN that messages repeat.
const MOST_SHOWN: usize = 20;

/// A template as the vault stores it.
///
/// # Errors
/// For a value that is not of its parameter's type, an empty domain, a default outside of the
/// domain, and a column that cannot be the domain.
pub(crate) fn declared(catalog: &Catalog, clause: &TemplateClause) -> Result<Template, Error> {
    let TemplateClause { name, parameters, body } = clause;
    let refuse = |reason: String| CatalogError::Template { template: name.clone(), reason };
    let mut stored = Vec::new();
    for clause in parameters {
        stored.push(parameter(catalog, clause).map_err(refuse)?);
    }
    let template = Template { name: name.clone(), parameters: stored, body: body.clone() };
    template.check()?;
    Ok(template)
}

fn parameter(catalog: &Catalog, clause: &ParameterClause) -> Result<TemplateParameter, String> {
    let ParameterClause { name, data_type, domain, default } = clause;
    let data_type = *data_type;
    let value = |literal: &Literal| {
        values::canonical(data_type, literal).map_err(|why| format!("{name}: {literal} {why}"))
    };
    let domain = match domain {
        None => None,
        Some(ParameterDomainClause::In(literals)) => {
            if literals.len() > MOST_VALUES {
                return Err(format!(
                    "{name} has more than {MOST_VALUES} values: write REFERENCES table(column), with a public table"
                ));
            }
            let mut listed = Vec::new();
            for literal in literals {
                let value = value(literal)?;
                if listed.contains(&value) {
                    return Err(format!("{name} has the value {literal} twice"));
                }
                listed.push(value);
            }
            Some(ParameterDomain::In(listed))
        }
        Some(ParameterDomainClause::Between(lo, hi)) => {
            let (lo, hi) = (value(lo)?, value(hi)?);
            match values::order(data_type, &lo, &hi) {
                Some(order) if order.is_le() => Some(ParameterDomain::Between { lo, hi }),
                Some(_) => return Err(format!("{name} lies between {lo} and less than that")),
                None => return Err(format!("{name} is a {data_type}: write IN (…)")),
            }
        }
        Some(ParameterDomainClause::References { table, column }) => {
            let found = catalog.table(table).ok_or_else(|| format!("there is no table {table}"))?;
            let found = found.column(column).filter(|_| found.is_public());
            let why = format!(
                "{name} takes the values of {table}({column}), which is no column of a public table"
            );
            let found = found.ok_or(why)?;
            if !has_values_of(found, data_type) {
                return Err(format!(
                    "{name} is a {data_type}, and {table}({column}) has values of another type"
                ));
            }
            Some(ParameterDomain::References { table: table.clone(), column: column.clone() })
        }
    };
    let default = default.as_ref().map(value).transpose()?;
    let parameter = TemplateParameter { name: name.clone(), data_type, domain, default };
    match parameter.default.as_deref().filter(|value| !values::is_in_domain(&parameter, value)) {
        None => Ok(parameter),
        Some(value) => Err(format!(
            "the default {} of {name} is outside of its domain",
            data_type.literal(value)
        )),
    }
}

/// Whether the texts of a column's values are those of a type.
fn has_values_of(column: &Column, data_type: ParameterType) -> bool {
    let begins = |kinds: &[&str]| kinds.iter().any(|kind| column.data_type.starts_with(kind));
    match data_type {
        ParameterType::Varchar => begins(&["Utf8", "LargeUtf8"]),
        ParameterType::Bigint => begins(&["Int", "UInt"]),
        ParameterType::Date => begins(&["Date32"]),
        ParameterType::Double | ParameterType::Boolean | ParameterType::Timestamp => false,
    }
}

/// The value of a parameter in a call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AssignedValue<'a> {
    pub(crate) parameter: &'a TemplateParameter,
    /// The value as canonical text.
    pub(crate) value: String,
    /// The position of the statement's parameter that will give the value, if it has none yet.
    pub(crate) later: Option<usize>,
}

impl AssignedValue<'_> {
    /// The literal that takes the parameter's place.
    pub(crate) fn literal(&self) -> (String, Expr) {
        (self.parameter.name.clone(), typed_literal(self.parameter.data_type, &self.value))
    }
}

/// The value of each parameter in a call. A value that is not known yet is one of the domain.
///
/// # Errors
/// A refusal of arguments that are too many, of unknown or repeated names, of a value that is
/// missing, of another type, or outside of its domain. The refusal names the domain.
pub(crate) fn assigned<'a>(
    template: &'a Template,
    arguments: &[TemplateArgument],
) -> Result<Vec<AssignedValue<'a>>, Refusal> {
    let parameters = &template.parameters;
    let mut given: Vec<Option<&TemplateArgument>> = vec![None; parameters.len()];
    for (position, argument) in arguments.iter().enumerate() {
        let at = match &argument.name {
            None => position,
            Some(name) => {
                let found = parameters.iter().position(|parameter| parameter.name == *name);
                found.ok_or_else(|| unknown(template, name))?
            }
        };
        let Some(place) = given.get_mut(at) else {
            let message = format!("{} takes {} values at most", template.name, parameters.len());
            return Err(refused(template, &template.name, message));
        };
        if place.replace(argument).is_some() {
            let name = argument.name.as_deref().unwrap_or_default();
            return Err(refused(template, name, format!("{name} is given twice")));
        }
    }
    let assign = |(parameter, argument): (&'a TemplateParameter, Option<&TemplateArgument>)| {
        let (value, later) = match argument.map(|argument| &argument.value) {
            Some(ArgumentValue::Literal(literal)) => {
                (value_of(template, parameter, literal)?, None)
            }
            Some(ArgumentValue::Later(position)) => {
                (values::sample(template, parameter), Some(*position))
            }
            None => match &parameter.default {
                Some(default) => (default.clone(), None),
                None => return Err(missing(template, parameter)),
            },
        };
        Ok(AssignedValue { parameter, value, later })
    };
    parameters.iter().zip(given).map(assign).collect()
}

fn value_of(
    template: &Template,
    parameter: &TemplateParameter,
    literal: &Literal,
) -> Result<String, Refusal> {
    let value = values::canonical(parameter.data_type, literal).map_err(|why| {
        let message = format!("{literal} {why}; {}", takes(template, parameter));
        refused(template, &parameter.name, message)
    })?;
    match values::is_in_domain(parameter, &value) {
        true => Ok(value),
        false => Err(outside(template, parameter, &value)),
    }
}

/// The refusal of a value that is outside of its parameter's domain.
pub(crate) fn outside(template: &Template, parameter: &TemplateParameter, value: &str) -> Refusal {
    let written = parameter.data_type.literal(value);
    let message =
        format!("{written} is not a value of {}; {}", parameter.name, takes(template, parameter));
    refused(template, &parameter.name, message)
}

fn missing(template: &Template, parameter: &TemplateParameter) -> Refusal {
    let message = format!("{} has no value; {}", parameter.name, takes(template, parameter));
    refused(template, &parameter.name, message)
}

fn unknown(template: &Template, name: &str) -> Refusal {
    let known = template.parameters.iter().map(|parameter| parameter.name.as_str());
    let near =
        nearest(name, known).map_or_else(String::new, |near| format!("; did you mean {near}?"));
    let message = format!(
        "{name} is not a parameter of {}({}){near}",
        template.name,
        short_signature(template)
    );
    refused(template, name, message)
}

/// What a parameter takes, in words.
fn takes(template: &Template, parameter: &TemplateParameter) -> String {
    format!("the template {} takes {}", template.name, short(parameter))
}

/// A parameter as it is declared, with a long list of values shortened.
fn short(parameter: &TemplateParameter) -> String {
    match &parameter.domain {
        Some(ParameterDomain::In(values)) if values.len() > MOST_SHOWN => {
            let shown = values.iter().take(MOST_SHOWN).cloned().collect();
            let shown =
                TemplateParameter { domain: Some(ParameterDomain::In(shown)), ..parameter.clone() };
            let text = shown.to_string();
            text.replacen(')', &format!(", … {} in all)", values.len()), 1)
        }
        _ => parameter.to_string(),
    }
}

/// The parameters of a template, with long lists of values shortened.
pub(crate) fn short_signature(template: &Template) -> String {
    template.parameters.iter().map(short).collect::<Vec<_>>().join(", ")
}

fn refused(template: &Template, clause: &str, message: String) -> Refusal {
    Refusal::new(Reason::Parameter, clause, message, sample_call(template))
}

/// A call of the template with values of its domains.
pub(crate) fn sample_call(template: &Template) -> String {
    let value = |parameter: &TemplateParameter| {
        parameter.data_type.literal(&values::sample(template, parameter))
    };
    let values: Vec<String> = template.parameters.iter().map(value).collect();
    format!("SELECT * FROM {}({})", quoted(&template.name), values.join(", "))
}

/// The parameters of a call, each with its literal.
pub(crate) type CallLiterals = Vec<(String, Expr)>;

/// The most parameters whose ends are tried together.
const MOST_TOGETHER: usize = 3;

/// Calls of a new template, of which one has to be planned: values of several parameters can
/// exclude one another, as in `seen >= $first AND seen < $last`, and such a call is refused when it
/// is made.
#[derive(Debug)]
pub(crate) struct Trial {
    /// The calls, in the order in which they are tried.
    pub(crate) calls: Vec<CallLiterals>,
    /// True for an end of one range among several: the other ends may all exclude it, as the upper
    /// end of `$first` does.
    pub(crate) may_be_excluded: bool,
}

/// What a new template is tried with: samples of each domain; and for each parameter the values at
/// the ends of its domain, or all values of a short list.
pub(crate) fn trials(template: &Template) -> Vec<Trial> {
    let is_range = |parameter: &&TemplateParameter| {
        matches!(parameter.domain, Some(ParameterDomain::Between { .. }))
    };
    let may_be_excluded = template.parameters.iter().filter(is_range).count() > 1;
    let trial = |calls, may_be_excluded| Trial { calls, may_be_excluded };
    let assignments = assignments(template);
    let calls = |fixed: Option<(usize, &str)>| {
        let call = |values: &Vec<String>| {
            let parameters = template.parameters.iter().zip(values).enumerate();
            let literal = |(i, (parameter, value)): (usize, (&TemplateParameter, &String))| {
                let fixed = fixed.filter(|(at, _)| *at == i).map(|(_, value)| value);
                let value = fixed.unwrap_or(value);
                (parameter.name.clone(), typed_literal(parameter.data_type, value))
            };
            parameters.map(literal).collect::<CallLiterals>()
        };
        assignments.iter().map(call).collect::<Vec<_>>()
    };
    let mut trials = vec![trial(calls(None), false)];
    for (at, parameter) in template.parameters.iter().enumerate() {
        match &parameter.domain {
            Some(ParameterDomain::In(values)) => {
                let shown = values.iter().take(MOST_SHOWN);
                trials.extend(shown.map(|value| trial(calls(Some((at, value.as_str()))), false)));
            }
            Some(ParameterDomain::Between { lo, hi }) => {
                trials.extend(
                    [lo, hi].map(|value| trial(calls(Some((at, value.as_str()))), may_be_excluded)),
                );
            }
            Some(ParameterDomain::References { .. }) | None => {}
        }
    }
    trials
}

/// Values for all parameters: a sample of each first, and then the ends of the first few, in all
/// combinations.
fn assignments(template: &Template) -> Vec<Vec<String>> {
    let sample = |parameter: &TemplateParameter| values::sample(template, parameter);
    let samples: Vec<String> = template.parameters.iter().map(sample).collect();
    let mut all = vec![samples.clone()];
    let mut combined = vec![samples];
    let ends = template.parameters.iter().map(values::ends).enumerate();
    for (at, (low, high)) in ends.filter(|(_, (low, high))| low != high).take(MOST_TOGETHER) {
        let with = |values: &Vec<String>, end: &String| {
            let mut values = values.clone();
            if let Some(value) = values.get_mut(at) {
                value.clone_from(end);
            }
            values
        };
        combined = combined.iter().flat_map(|one| [with(one, &low), with(one, &high)]).collect();
    }
    all.extend(combined);
    all.dedup();
    all
}

/// The refusal of everything but templates, with the list of what may be asked.
pub(crate) fn templates_only(role: &str, catalog: &Catalog) -> Refusal {
    let list: Vec<String> = catalog
        .templates()
        .map(|template| format!("{}({})", template.name, short_signature(template)))
        .collect();
    let (may, hint) = match (list.as_slice(), catalog.templates().next()) {
        (list @ [_, ..], Some(first)) => (list.join("; "), sample_call(first)),
        _ => (
            "none so far".to_owned(),
            format!("ask the owner for GRANT EXECUTE ON TEMPLATE … TO {role}"),
        ),
    };
    let message = format!("{role} may call templates, and nothing else: {may}");
    Refusal::new(Reason::Statement, "", message, hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{Declaration, Statement, parse};

    fn template(text: &str) -> Result<Template, String> {
        let Ok(Statement::Declare(declared)) = parse(text) else { panic!("{text}") };
        let Declaration::CreateTemplate { template, .. } = *declared else { panic!("{text}") };
        super::declared(&Catalog::default(), &template).map_err(|error| error.to_string())
    }

    fn call(template: &Template, text: &str) -> Result<Vec<String>, String> {
        let Ok(Statement::Query(query)) = parse(text) else { panic!("{text}") };
        let arguments = query.template.unwrap().arguments;
        let values = assigned(template, &arguments).map_err(|refusal| refusal.to_string())?;
        Ok(values.into_iter().map(|one| one.value).collect())
    }

    const MONTHLY: &str = "CREATE TEMPLATE monthly(region VARCHAR IN ('north', 'south'), least BIGINT BETWEEN (0, 90) DEFAULT 0, since DATE DEFAULT DATE '2026-01-01') AS SELECT 1 AS n";

    #[test]
    fn calls_give_each_parameter_a_value() {
        let monthly = template(MONTHLY).unwrap();
        for (text, expected) in [
            ("SELECT * FROM monthly('north')", ["north", "0", "2026-01-01"]),
            ("SELECT * FROM monthly('south', 7, DATE '2026-2-1')", ["south", "7", "2026-02-01"]),
            (
                "SELECT * FROM monthly(since => '2026-03-01', region => 'north')",
                ["north", "0", "2026-03-01"],
            ),
            ("SELECT * FROM monthly('north', since => '2026-03-01')", ["north", "0", "2026-03-01"]),
        ] {
            assert_eq!(call(&monthly, text).unwrap(), expected, "{text}");
        }
        for text in [
            "SELECT * FROM monthly()",
            "SELECT * FROM monthly('east')",
            "SELECT * FROM monthly('NORTH')",
            "SELECT * FROM monthly('north''')",
            "SELECT * FROM monthly('north', 91)",
            "SELECT * FROM monthly('north', -1)",
            "SELECT * FROM monthly('north', 1.5)",
            "SELECT * FROM monthly('north', '1')",
            "SELECT * FROM monthly(NULL)",
            "SELECT * FROM monthly('north', 1, 'yesterday')",
            "SELECT * FROM monthly('north', 1, DATE '2026-01-01', 4)",
            "SELECT * FROM monthly('north', region => 'south')",
            "SELECT * FROM monthly('north', lest => 1)",
        ] {
            let refused = call(&monthly, text).unwrap_err();
            assert!(refused.contains("SELECT * FROM monthly('north', 0"), "{text}: {refused}");
        }
        let refused = call(&monthly, "SELECT * FROM monthly('east')").unwrap_err();
        assert!(refused.contains("region VARCHAR IN ('north', 'south')"), "{refused}");
    }

    #[test]
    fn domains_contradict_themselves() {
        for clause in [
            "a BIGINT IN (1, 1)",
            "a BIGINT IN (1, '2')",
            "a BIGINT BETWEEN (2, 1)",
            "a VARCHAR BETWEEN ('a', 'b')",
            "a BIGINT BETWEEN (0, 9) DEFAULT 10",
            "a VARCHAR IN ('x') DEFAULT 'y'",
            "a VARCHAR IN (NULL)",
            "a VARCHAR REFERENCES regions(name)",
            "a DATE DEFAULT DATE '2026-02-30'",
            "a BIGINT, a BIGINT",
        ] {
            let text = format!("CREATE TEMPLATE t({clause}) AS SELECT 1 AS n");
            assert!(template(&text).is_err(), "{text}");
        }
        assert!(trials(&template(MONTHLY).unwrap()).len() == 5);
    }

    #[test]
    fn an_upper_end_is_tried_with_its_last_value() {
        let between = template("CREATE TEMPLATE t(a BIGINT BETWEEN (0, 9), z BIGINT BETWEEN (0, 9), s VARCHAR IN ('x', 'y')) AS SELECT LAPLACE(eps=1) COUNT(*) AS n FROM t WHERE x >= $a AND x < $z AND s = $s").unwrap();
        assert_eq!(sample_call(&between), "SELECT * FROM t(0, 9, 'x')");
        let trials = trials(&between);
        assert_eq!(trials.len(), 7);
        // The sample, and the ends of three parameters.
        assert!(trials.iter().all(|one| (8..=9).contains(&one.calls.len())), "{trials:?}");
        let excluded = trials.iter().filter(|one| one.may_be_excluded).count();
        assert_eq!(excluded, 4);
    }
}
