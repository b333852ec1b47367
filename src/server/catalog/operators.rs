//! Operators and casts as nodes.

use sqlparser::ast::{BinaryOperator, DataType};

use super::super::types;
use super::datum::{CatalogType, Datum, Unanswered};
use super::node::{Arithmetic, Comparison, FUNCTION_NUMBER, Node};

/// The node of an operator between two values.
pub(super) fn binary(
    op: &BinaryOperator,
    left: (Node, CatalogType),
    right: (Node, CatalogType),
) -> Result<(Node, CatalogType), Unanswered> {
    let kinds = [left.1, right.1];
    let [left, right] = match comparison(op) {
        Some(_) => [numbered(left.0, kinds), numbered(right.0, [right.1, left.1])],
        None => [left.0, right.0],
    }
    .map(Box::new);
    if let Some(how) = comparison(op) {
        return Ok((Node::Compare(how, left, right), CatalogType::BOOL));
    }
    let how = match op {
        BinaryOperator::And => return Ok((Node::And(left, right), CatalogType::BOOL)),
        BinaryOperator::Or => return Ok((Node::Or(left, right), CatalogType::BOOL)),
        BinaryOperator::StringConcat => {
            let array = kinds.into_iter().find(|kind| kind.is_array());
            return Ok((Node::Concat(left, right), array.unwrap_or(CatalogType::TEXT)));
        }
        BinaryOperator::Plus => Arithmetic::Plus,
        BinaryOperator::Minus => Arithmetic::Minus,
        BinaryOperator::Multiply => Arithmetic::Times,
        BinaryOperator::Divide => Arithmetic::Over,
        BinaryOperator::Modulo => Arithmetic::Modulo,
        BinaryOperator::BitwiseAnd => Arithmetic::And,
        BinaryOperator::BitwiseOr => Arithmetic::Or,
        BinaryOperator::PGBitwiseShiftLeft => Arithmetic::Left,
        BinaryOperator::PGBitwiseShiftRight => Arithmetic::Right,
        BinaryOperator::PGCustomBinaryOperator(parts) => match parts.last().map(String::as_str) {
            Some("+") => Arithmetic::Plus,
            Some("-") => Arithmetic::Minus,
            Some("*") => Arithmetic::Times,
            Some("/") => Arithmetic::Over,
            Some("||") => return Ok((Node::Concat(left, right), CatalogType::TEXT)),
            _ => return Ok((Node::Unknown(Unanswered::part(op)), CatalogType::TEXT)),
        },
        _ => return Ok((Node::Unknown(Unanswered::part(op)), CatalogType::TEXT)),
    };
    let wide = kinds.contains(&CatalogType::INT8) || kinds.contains(&CatalogType::TEXT);
    let kind = if wide { CatalogType::INT8 } else { CatalogType::INT4 };
    Ok((Node::Add(left, right, how), kind))
}

/// The name of a function as its number, where it is compared with a number.
fn numbered(node: Node, [own, other]: [CatalogType; 2]) -> Node {
    match own == CatalogType::REGPROC && other.is_int() {
        true => Node::Cast(FUNCTION_NUMBER.to_owned(), Box::new(node)),
        false => node,
    }
}

/// Whether it is the constant NULL.
pub(super) fn is_null(node: &Node) -> bool {
    matches!(node, Node::Constant(Datum::Null))
}

/// The type of values of which one is taken, such as the branches of CASE.
pub(super) fn unified<'a>(values: impl Iterator<Item = &'a (Node, CatalogType)>) -> CatalogType {
    let kinds = values.filter(|(node, _)| !is_null(node)).map(|(_, kind)| *kind);
    let wider = |a: CatalogType, b: CatalogType| match (a, b) {
        (CatalogType::INT4 | CatalogType::INT2, CatalogType::INT8) => b,
        (CatalogType::INT2, CatalogType::INT4) => b,
        (a, _) => a,
    };
    kinds.reduce(wider).unwrap_or(CatalogType::TEXT)
}

/// The comparison that an operator stands for.
pub(super) fn comparison(op: &BinaryOperator) -> Option<Comparison> {
    Some(match op {
        BinaryOperator::Eq => Comparison::Equal,
        BinaryOperator::NotEq => Comparison::Unequal,
        BinaryOperator::Lt => Comparison::Less,
        BinaryOperator::LtEq => Comparison::AtMost,
        BinaryOperator::Gt => Comparison::Greater,
        BinaryOperator::GtEq => Comparison::AtLeast,
        BinaryOperator::AtArrow => Comparison::Contains,
        BinaryOperator::PGOverlap => Comparison::Overlaps,
        BinaryOperator::PGLikeMatch => Comparison::Like { negated: false, folded: false },
        BinaryOperator::PGNotLikeMatch => Comparison::Like { negated: true, folded: false },
        BinaryOperator::PGILikeMatch => Comparison::Like { negated: false, folded: true },
        BinaryOperator::PGNotILikeMatch => Comparison::Like { negated: true, folded: true },
        BinaryOperator::PGRegexMatch => Comparison::Regex { negated: false, folded: false },
        BinaryOperator::PGRegexNotMatch => Comparison::Regex { negated: true, folded: false },
        BinaryOperator::PGRegexIMatch => Comparison::Regex { negated: false, folded: true },
        BinaryOperator::PGRegexNotIMatch => Comparison::Regex { negated: true, folded: true },
        BinaryOperator::PGCustomBinaryOperator(parts) => match parts.last().map(String::as_str) {
            Some("~") => Comparison::Regex { negated: false, folded: false },
            Some("!~") => Comparison::Regex { negated: true, folded: false },
            Some("~*") => Comparison::Regex { negated: false, folded: true },
            Some("!~*") => Comparison::Regex { negated: true, folded: true },
            Some("~~") => Comparison::Like { negated: false, folded: false },
            Some("!~~") => Comparison::Like { negated: true, folded: false },
            Some("=") => Comparison::Equal,
            Some("<>" | "!=") => Comparison::Unequal,
            Some("<") => Comparison::Less,
            Some("<=") => Comparison::AtMost,
            Some(">") => Comparison::Greater,
            Some(">=") => Comparison::AtLeast,
            Some("@>") => Comparison::Contains,
            Some("&&") => Comparison::Overlaps,
            _ => return None,
        },
        _ => return None,
    })
}

/// A cast, and its type. If a number that stands for an object becomes a text, the text is the
/// object's name.
pub(super) fn cast(node: Node, to: &DataType) -> (Node, CatalogType) {
    let written = to.to_string().to_lowercase();
    let bare = written.replace("pg_catalog.", "");
    let quoted_char = bare == "\"char\"";
    let bare = if quoted_char { bare } else { bare.replace('"', "") };
    let is_array = bare.ends_with("[]");
    let name = bare.split('(').next().unwrap_or_default().trim_matches('"').to_owned();
    let oid = types::named(&bare).and_then(|oid| u32::try_from(oid).ok());
    let kind = CatalogType(oid.unwrap_or(25));
    let is_text = !is_array && matches!(kind.0, 18 | 19 | 25 | 1042 | 1043);
    let name = if is_array { bare.clone() } else { name };
    match node {
        Node::Cast(of, inner) if is_text && ["regclass", "regtype"].contains(&of.as_str()) => {
            (Node::Shown(of, inner), CatalogType::TEXT)
        }
        node => (Node::Cast(name, Box::new(node)), kind),
    }
}
