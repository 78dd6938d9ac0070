//! In which clause of a query a token stands, so far as it changes what a name before a parenthesis is. Never judges a statement.

use super::lex::{Kind, Token};
use super::work;

/// The parts of a query where a name before a parenthesis means something of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clause {
    Other,
    /// The list of tables behind FROM or JOIN, parentheses that group tables included.
    From,
    /// What stands behind GROUP BY, and inside of GROUPING SETS.
    GroupBy,
}

/// Says of each token in which clause it stands, in one walk.
pub(super) fn mark(tokens: &mut [Token<'_>]) {
    let mut around = Vec::new();
    let mut now = Clause::Other;
    let mut before: [Option<Token<'_>>; 2] = [None, None];
    for token in tokens {
        work::count(1);
        let [two_before, one_before] = before;
        let follows = |words: &[&str]| one_before.is_some_and(|before| before.is_any(words));
        let follows_mark = |mark: &str| one_before.is_some_and(|before| before.is_mark(mark));
        if token.is_mark(")") {
            now = around.pop().unwrap_or(Clause::Other);
        } else if token.kind == Kind::Word && !follows(&["as"]) && !follows_mark(".") {
            let of_distinct =
                follows(&["distinct"]) && two_before.is_some_and(|before| before.is_any(&["is", "not"]));
            if (token.is_word("from") && !of_distinct) || token.is_any(&["join", "straight_join"]) {
                now = Clause::From;
            } else if token.is_word("by") && follows(&["group"]) {
                now = Clause::GroupBy;
            } else if token.is_any(ENDS_A_CLAUSE) {
                now = Clause::Other;
            }
        }
        token.clause = now;
        if token.is_mark("(") {
            around.push(now);
            let goes_on = match now {
                Clause::From => {
                    follows(&["from", "join", "straight_join", "lateral"])
                        || follows_mark(",")
                        || follows_mark("(")
                }
                Clause::GroupBy => follows(&["sets"]),
                Clause::Other => false,
            };
            if !goes_on {
                now = Clause::Other;
            }
        }
        before = [one_before, Some(*token)];
    }
}

/// `WITHIN GROUP (…)` stands in a list of tables too, so GROUP ends one only with its BY. Words that no table and no alias of PostgreSQL can be named by and that end a list of tables or of groups.
const ENDS_A_CLAUSE: &[&str] = &[
    "select",
    "where",
    "having",
    "window",
    "order",
    "limit",
    "offset",
    "fetch",
    "for",
    "union",
    "except",
    "intersect",
    "returning",
    "into",
];
