//! What a hint proposes, as statements.
//!
//! In: a statement, the clause that was refused, and the hint. Out: what somebody who follows the
//! hint may type: whole statements that it contains, and the statement with a piece of the hint in
//! the place of the clause. A hint holds several proposals, with words around them, so more pieces
//! come out than proposals: those with words do not parse.

use std::collections::BTreeSet;

/// Words that whole statements start with.
const STATEMENTS: [&str; 16] = [
    "SELECT",
    "WITH",
    "FROM",
    "VALUES",
    "ALTER",
    "CREATE",
    "DROP",
    "EXPLAIN",
    "SHOW",
    "DESCRIBE",
    "SET",
    "COPY",
    "REFRESH",
    "SUMMARIZE",
    "GRANT",
    "RESET",
];
/// Clauses of a query, in order.
const CLAUSES: [&str; 9] =
    ["FROM", "WHERE", "GROUP", "KEYS", "HAVING", "QUALIFY", "ORDER", "LIMIT", "OFFSET"];
/// Where the words behind a proposal may start.
const ENDS: [&str; 14] = [
    ": ", ", ", "; ", " for ", " with ", " in ", " (", " where ", " of ", " over ", " as ", " to ",
    " and ", " or ",
];
/// Words that descriptions start with.
const DESCRIBE: [&str; 25] = [
    "a", "an", "the", "its", "each", "one", "some", "no", "not", "of", "what", "which", "where",
    "whose", "from", "with", "or", "and", "as", "such", "in", "released", "columns", "texts",
    "dates",
];
/// What chooses, in front of a mechanism.
const SELECTORS: [&str; 4] = ["argmax", "argmin", "top", "bottom"];
/// Mechanisms.
const MECHANISMS: [&str; 8] = [
    "laplace",
    "gaussian",
    "exponential",
    "generalized_exponential",
    "permute_and_flip",
    "noisy_max",
    "randomized_response",
    "auto",
];
/// Where the words in front of a proposal may end.
const STARTS: [&str; 5] = [": ", "; ", " or ", ", ", " by "];

/// A token: its text, lower case unless it is quoted, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Token {
    text: String,
    start: usize,
    end: usize,
}

fn tokens(sql: &str) -> Vec<Token> {
    let mut found = Vec::new();
    let mut letters = sql.char_indices().peekable();
    while let Some((start, letter)) = letters.next() {
        let mut end = start + letter.len_utf8();
        let mut take_while = |continues: &dyn Fn(char) -> bool| {
            while let Some((at, next)) = letters.next_if(|(_, next)| continues(*next)) {
                end = at + next.len_utf8();
            }
        };
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        match letter {
            c if c.is_whitespace() => continue,
            '\'' | '"' => {
                take_while(&|next| next != letter);
                end = letters.next().map_or(end, |(at, quote)| at + quote.len_utf8());
            }
            '<' | '>' | '!' | '|' | ':' => take_while(&|next| "=>|:".contains(next)),
            c if c.is_ascii_digit() => take_while(&|next| is_word(next) || next == '.'),
            c if is_word(c) => take_while(&is_word),
            _ => {}
        }
        let text = &sql[start..end];
        let text = if letter == '\'' { text.to_owned() } else { text.to_lowercase() };
        found.push(Token { text, start, end });
    }
    unqualified(&found)
}

/// The tokens without the tables in front of columns, which belong to them.
fn unqualified(tokens: &[Token]) -> Vec<Token> {
    let is_name = |token: Option<&Token>| {
        token.is_some_and(|t| {
            t.text.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '"')
        })
    };
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let start = token.start;
        let is_table = |at: usize| {
            is_name(tokens.get(at))
                && tokens.get(at + 1).is_some_and(|t| t.text == ".")
                && is_name(tokens.get(at + 2))
        };
        while is_table(at) {
            at += 2;
        }
        found.push(Token { start, ..tokens[at].clone() });
        at += 1;
    }
    found
}

/// The end of what opens with the token `at`.
fn closed(tokens: &[Token], at: usize) -> Option<usize> {
    let mut depth = 0_i32;
    for (i, token) in tokens.iter().enumerate().skip(at) {
        depth += i32::from(token.text == "(") - i32::from(token.text == ")");
        if depth == 0 {
            return Some(i);
        }
    }
    None
}

/// Where a clause stands in a statement. A call whose arguments the planner has changed is found by
/// its function.
fn places(sql: &str, clause: &str) -> Vec<(usize, usize)> {
    let found = written_places(sql, clause);
    match clause.split_once('(') {
        Some((function, _)) if found.is_empty() => {
            let spelled = if function == "date_part" { "extract" } else { function };
            written_places(sql, spelled)
        }
        _ => found,
    }
}

/// Where the tokens of a clause stand in a statement. Of a call that the clause names only by its
/// function, all of it.
fn written_places(sql: &str, clause: &str) -> Vec<(usize, usize)> {
    let (all, wanted) = (tokens(sql), tokens(clause));
    if wanted.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for at in 0..all.len() {
        let end = at + wanted.len();
        let fits = all.get(at..end).is_some_and(|here| {
            here.iter().zip(&wanted).all(|(here, wanted)| here.text == wanted.text)
        });
        if !fits {
            continue;
        }
        let start = all[at].start;
        if all.get(end).is_some_and(|next| next.text == "(")
            && let Some(close) = closed(&all, end)
        {
            if all.get(close + 1).is_some_and(|next| next.text == "over")
                && let Some(close) = closed(&all, close + 2)
            {
                found.push((start, all[close].end));
            }
            found.push((start, all[close].end));
        }
        found.push((start, all[end - 1].end));
    }
    found
}

/// Where a clause stands with the mechanism in front of it, and with a selector in front of that.
fn with_mechanisms(sql: &str, here: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let all = tokens(sql);
    let mut found = Vec::new();
    for (start, end) in here {
        let Some(at) = all.iter().position(|token| token.start == *start) else { continue };
        // Its own word, an opening parenthesis, parameters, and the one that closes them.
        let opened = (0..at)
            .rev()
            .find(|i| all[*i].text == "(" && closed(&all, *i).is_some_and(|close| close + 1 == at));
        let Some(word) = opened.and_then(|opened| opened.checked_sub(1)) else { continue };
        if !MECHANISMS.contains(&all[word].text.as_str()) {
            continue;
        }
        found.push((all[word].start, *end));
        // TOP 2 EXPONENTIAL(…) x
        let before = [1, 2].map(|back| word.checked_sub(back).map(|at| &all[at]));
        let is_selector = |token: &&Token| SELECTORS.contains(&token.text.as_str());
        if let Some(selector) = before.into_iter().flatten().find(is_selector) {
            found.push((selector.start, *end));
        }
    }
    found
}

/// Where a clause stands with the candidates and the score behind it: x IN (…) BY SUM(y).
fn with_candidates(sql: &str, here: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let all = tokens(sql);
    let is = |at: usize, word: &str| all.get(at).is_some_and(|token| token.text == word);
    let mut found = here.to_vec();
    for (start, end) in here {
        let Some(mut at) = all.iter().position(|token| token.start >= *end) else { continue };
        if is(at, "in") {
            at += if is(at + 1, "range") { 2 } else { 1 };
            let Some(close) = closed(&all, at) else { continue };
            found.push((*start, all[close].end));
            at = close + 1;
        }
        if is(at, "by")
            && let Some(close) = closed(&all, at + 2)
        {
            found.push((*start, all[close].end));
        }
    }
    found
}

/// Where a piece that starts with the word of a clause belongs: that clause, or the end.
fn clause_places(sql: &str, piece: &str) -> Vec<(usize, usize)> {
    let first = piece.split_whitespace().next().unwrap_or_default().to_uppercase();
    let Some(rank) = CLAUSES.iter().position(|word| *word == first) else { return Vec::new() };
    let all = tokens(sql);
    let word = |token: &Token| CLAUSES.iter().position(|c| c.eq_ignore_ascii_case(&token.text));
    let (mut found, mut is_there) = (Vec::new(), false);
    for (i, token) in all.iter().enumerate() {
        let Some(here) = word(token) else { continue };
        if here > rank {
            found.push((token.start, token.start));
        }
        if here == rank {
            is_there = true;
            found.push((token.start, end_of_clause(&all[i + 1..], rank).unwrap_or(sql.len())));
        }
    }
    if !is_there {
        found.push((sql.len(), sql.len()));
    }
    found
}

/// Where a clause ends: at a later one, or at the parenthesis around it.
fn end_of_clause(rest: &[Token], rank: usize) -> Option<usize> {
    let mut depth = 0_i32;
    for token in rest {
        let rank_of = |name: &&str| name.eq_ignore_ascii_case(&token.text);
        let next = CLAUSES.iter().position(rank_of);
        depth += i32::from(token.text == "(") - i32::from(token.text == ")");
        if depth < 0 || depth == 0 && next.is_some_and(|next| next > rank) {
            return Some(token.start);
        }
    }
    None
}

/// Pieces of a hint: from the start of a proposal, or behind words in front of it, to its end, or
/// to words behind it. Nothing starts or ends within parentheses.
fn pieces(hint: &str) -> Vec<&str> {
    let mut starts = vec![0];
    for start in STARTS {
        starts.extend(hint.match_indices(start).map(|(at, found)| at + found.len()));
    }
    starts.extend(hint.match_indices('`').map(|(at, _)| at + 1));
    starts.retain(|at| is_closed(&hint[..*at]) || *at == 0);
    let mut found = Vec::new();
    for start in starts {
        let rest = &hint[start..];
        found.push(rest);
        for end in ENDS {
            found.extend(rest.match_indices(end).map(|(at, _)| &rest[..at]));
        }
        found.extend(rest.match_indices('`').map(|(at, _)| &rest[..at]));
    }
    let mut found: Vec<&str> =
        found.into_iter().map(|piece| piece.trim().trim_end_matches(';')).collect();
    found.retain(|piece| {
        !piece.is_empty()
            && !piece.contains('…')
            && is_closed(piece)
            && !is_description(piece)
            && !is_cut(piece, hint)
    });
    // Those that say most come first.
    found.sort_by_key(|piece| std::cmp::Reverse(piece.len()));
    found.dedup();
    found
}

/// Whether a piece starts as a description does.
fn is_description(piece: &str) -> bool {
    let first = piece.split(' ').next().unwrap_or_default();
    DESCRIBE.contains(&first)
}

/// Whether a piece ends between a word of SQL and its parenthesis: EXISTS (…).
fn is_cut(piece: &str, hint: &str) -> bool {
    let last = piece.rsplit(' ').next().unwrap_or_default();
    let is_keyword = last.chars().all(|letter| letter.is_ascii_uppercase());
    let opened = format!("{piece} (");
    is_keyword && hint.contains(&opened)
}

/// Whether a piece closes what it opens.
fn is_closed(piece: &str) -> bool {
    let depths = piece.chars().scan(0_i32, |depth, letter| {
        *depth += i32::from(letter == '(') - i32::from(letter == ')');
        Some(*depth)
    });
    let depths: Vec<i32> = depths.collect();
    depths.iter().all(|depth| *depth >= 0)
        && depths.last() == Some(&0)
        && piece.matches('\'').count().is_multiple_of(2)
}

/// A statement that follows a hint, and the piece of the hint that it has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Proposal {
    pub(super) sql: String,
    piece: String,
}

impl Proposal {
    /// A piece in the place of a part of the statement.
    fn placed(sql: &str, piece: &str, (start, end): (usize, usize)) -> Self {
        let sql = format!("{} {piece} {}", &sql[..start], &sql[end..]);
        Self { sql, piece: piece.to_owned() }
    }

    /// A piece in the place of several parts of the statement.
    fn placed_everywhere(sql: &str, piece: &str, places: &[(usize, usize)]) -> Option<Self> {
        let mut places = places.to_vec();
        // The longest of those that start together.
        places.sort_by_key(|(start, end)| (*start, std::cmp::Reverse(*end)));
        places.dedup_by_key(|(start, _)| *start);
        let (mut written, mut at) = (String::new(), 0);
        for (start, end) in &places {
            if *start < at {
                return None;
            }
            written += &format!("{} {piece} ", &sql[at..*start]);
            at = *end;
        }
        written += &sql[at..];
        (places.len() > 1).then(|| Self { sql: written, piece: piece.to_owned() })
    }

    /// Whether a refused clause is a part of what the hint says.
    pub(super) fn has(&self, clause: &str) -> bool {
        !written_places(&self.piece, clause).is_empty()
    }
}

/// Everything that a hint may propose.
pub(super) fn proposals(sql: &str, clause: &str, hint: &str) -> Vec<Proposal> {
    let clause = clause.split(", in a query over").next().unwrap_or_default();
    let clause = clause.strip_prefix("the expression ").unwrap_or(clause);
    // What only the asker knows has letters in hints.
    let hint = &hint.replace(", lo, hi", ", 0, 100").replace("(lo, hi)", "(0, 100)");
    let here = places(sql, clause);
    let mut found = Vec::new();
    if ["the query without it", "leave it out"].iter().any(|words| hint.contains(words)) {
        found.extend(here.iter().map(|at| Proposal::placed(sql, "", *at)));
    }
    found.extend(in_place_of(sql, hint));
    let behind = with_mechanisms(sql, &with_candidates(sql, &here));
    let alone = with_candidates(sql, &here);
    for piece in pieces(hint) {
        let words = tokens(piece);
        let first = words.first().map(|word| word.text.as_str()).unwrap_or_default();
        if STATEMENTS.iter().any(|word| word.eq_ignore_ascii_case(first)) && piece.contains(' ') {
            found.push(Proposal { sql: piece.to_owned(), piece: piece.to_owned() });
        }
        let is_clause =
            words.iter().map(|word| &word.text).eq(tokens(clause).iter().map(|w| &w.text));
        if is_clause
            || hint.starts_with("one of ")
            || hint.contains(&format!("{piece} in place of"))
        {
            continue;
        }
        // A mechanism takes the place of the one in front of the clause.
        let has_mechanism = SELECTORS.contains(&first) || MECHANISMS.contains(&first);
        // A choice stands where one was.
        let chooses = SELECTORS.contains(&first) && !behind.is_empty();
        let is_bare =
            |(_, end): &(usize, usize)| !chooses && behind.iter().all(|(_, other)| other != end);
        let bare: Vec<(usize, usize)> = here.iter().copied().filter(is_bare).collect();
        let places = match has_mechanism && !behind.is_empty() {
            true => [behind.clone(), bare.clone()].concat(),
            false => [alone.clone(), behind.clone(), clause_places(sql, piece)].concat(),
        };
        found.extend(places.into_iter().map(|at| Proposal::placed(sql, piece, at)));
        let all = if has_mechanism { &bare } else { &here };
        found.extend(Proposal::placed_everywhere(sql, piece, all));
    }
    let mut seen = BTreeSet::new();
    found.retain(|proposal| seen.insert(proposal.sql.clone()));
    found
}

/// `CLAMP(x, 0, 100) in place of x`.
fn in_place_of(sql: &str, hint: &str) -> Vec<Proposal> {
    const WORDS: &str = " in place of ";
    let mut found = Vec::new();
    for (end, _) in hint.match_indices(WORDS) {
        let starts = [0].into_iter().chain(hint[..end].match_indices(' ').map(|(at, _)| at + 1));
        let own = starts.map(|start| &hint[start..end]).filter(|piece| is_closed(piece));
        let own: Vec<&str> = own.collect();
        let others = &hint[end + WORDS.len()..];
        for other in pieces(others.strip_prefix("each ").unwrap_or(others)) {
            let here = places(sql, other);
            for own in &own {
                found.extend(Proposal::placed_everywhere(sql, own, &here));
                found.extend(here.iter().map(|at| Proposal::placed(sql, own, *at)));
            }
        }
    }
    found
}

#[test]
fn proposals_are_found() {
    let sql = "SELECT LAPLACE(eps=1) SUM(o.x) FROM t AS o WHERE y > 1 LIMIT 3";
    for (clause, hint, proposed) in [
        (
            "SUM(t.x)",
            "SUM(CLAMP(x, 0, 1)), or COUNT(*)",
            "SELECT LAPLACE(eps=1)  COUNT(*)  FROM t AS o WHERE y > 1 LIMIT 3",
        ),
        ("t", "ALTER TABLE t SET PUBLIC, in an owner's session", "ALTER TABLE t SET PUBLIC"),
        (
            "LIMIT",
            "the query without it",
            "SELECT LAPLACE(eps=1) SUM(o.x) FROM t AS o WHERE y > 1  3",
        ),
        (
            "x",
            "WHERE x IS NULL",
            "SELECT LAPLACE(eps=1) SUM(o.x) FROM t AS o  WHERE x IS NULL LIMIT 3",
        ),
    ] {
        let found = proposals(sql, clause, hint);
        let same = |found: &Proposal| found.sql.split_whitespace().eq(proposed.split_whitespace());
        assert!(found.iter().any(same), "{found:#?}");
    }
}
