//! What the three languages of SQL share: one statement or several, its calls of functions, its places of danger. Never knows what a function does.

use std::collections::HashSet;

use super::clauses::Clause;
use super::lex::{Kind, Token};
use super::work;

/// A list of words in a text file, looked up without regard to how many there are.
pub(super) fn words(text: &'static str) -> HashSet<&'static str> {
    text.split_whitespace().collect()
}

/// The tokens of one statement, less the semicolons that end it.
#[derive(Clone, Copy)]
pub(super) struct Tokens<'t, 'a> {
    all: &'t [Token<'a>],
}

/// Words before which a name with a parenthesis is a call: after any other word it is a name for columns.
pub(super) struct Grammar {
    /// Words that take a parenthesis without being a function.
    pub(super) constructs: &'static [&'static str],
    /// The same, but only where no expression begins; there they could be the name of a function.
    pub(super) soft_constructs: &'static [&'static str],
    /// Words of the language: a name behind one of them is no alias, so with a parenthesis it is a call.
    pub(super) leading: &'static HashSet<&'static str>,
    /// Whether letter case does not matter in quoted names of functions either.
    pub(super) folds_quoted: bool,
}

/// A function that is called by name.
pub(super) struct Call<'a> {
    /// As the engine looks it up.
    pub(super) name: std::borrow::Cow<'a, str>,
    /// The name before the dot, if there is one.
    pub(super) qualifier: Option<std::borrow::Cow<'a, str>>,
    /// The place of the parenthesis.
    pub(super) open: usize,
}

impl<'t, 'a> Tokens<'t, 'a> {
    /// # Errors
    /// There is no statement, or more than one.
    pub(super) fn single(all: &'t [Token<'a>]) -> Result<Self, &'static str> {
        let end = all
            .iter()
            .rposition(|token| !token.is_mark(";"))
            .map_or(0, |last| last + 1);
        let all = all.get(..end).unwrap_or_default();
        if all.is_empty() {
            return Err("there is no statement");
        }
        let this = Self { all };
        if all.iter().any(|token| token.is_mark(";")) && !this.is_body() {
            return Err("there is more than one statement");
        }
        Ok(this)
    }

    /// `CREATE TRIGGER … BEGIN …; …; END`: the semicolons stand inside of a body.
    fn is_body(self) -> bool {
        let head = |token: &Token<'_>| token.is_any(&["trigger", "procedure", "function", "event"]);
        self.word(0).is_some_and(|token| token.is_word("create"))
            && self.all.iter().take(12).any(head)
            && self.all.last().is_some_and(|token| token.is_word("end"))
            && {
                let begin = self.all.iter().position(|token| token.is_word("begin"));
                let semicolon = self.all.iter().position(|token| token.is_mark(";"));
                matches!((begin, semicolon), (Some(begin), Some(semicolon)) if begin < semicolon)
            }
    }

    /// For a walk over all of them.
    pub(super) fn all(self) -> &'t [Token<'a>] {
        work::count(self.all.len());
        self.all
    }

    pub(super) fn get(self, at: usize) -> Option<&'t Token<'a>> {
        work::count(1);
        self.all.get(at)
    }

    pub(super) fn word(self, at: usize) -> Option<&'t Token<'a>> {
        self.get(at).filter(|token| token.kind == Kind::Word)
    }

    pub(super) fn before(self, at: usize) -> Option<&'t Token<'a>> {
        at.checked_sub(1).and_then(|before| self.get(before))
    }

    pub(super) fn is_at(self, at: usize, words: &[&str]) -> bool {
        self.word(at).is_some_and(|token| token.is_any(words))
    }

    pub(super) fn has(self, words: &[&str]) -> bool {
        self.all().iter().any(|token| token.is_any(words))
    }

    /// `first` and right behind it one of `then`.
    pub(super) fn has_pair(self, first: &str, then: &[&str]) -> bool {
        self.all()
            .windows(2)
            .any(|pair| matches!(pair, [one, two] if one.is_word(first) && two.is_any(then)))
    }

    pub(super) fn from(self, at: usize) -> Self {
        Self {
            all: self.all.get(at..).unwrap_or_default(),
        }
    }

    /// Where the first word stands behind the opening parentheses.
    pub(super) fn head(self) -> usize {
        self.all.iter().position(|token| !token.is_mark("(")).unwrap_or(0)
    }

    /// Whether an `INSERT INTO`, `DELETE FROM`, `UPDATE …` or `MERGE INTO` begins somewhere that is no column of that name.
    pub(super) fn changes_data(self) -> bool {
        (0..self.all().len()).any(|at| self.begins_a_change(at))
    }

    /// Whether the token begins a statement that changes rows. Where these words may name columns they stand behind a word or
    /// a mark of an expression; a statement begins behind a parenthesis or behind a name.
    pub(super) fn begins_a_change(self, at: usize) -> bool {
        let Some(token) = self.get(at) else { return false };
        let next = self.get(at + 1);
        let follows = |words: &[&str]| next.is_some_and(|next| next.is_any(words));
        let begins = (token.is_any(&["insert", "replace", "merge"])
            && follows(&[
                "into",
                "or",
                "ignore",
                "low_priority",
                "high_priority",
                "delayed",
                "overriding",
            ]))
            || (token.is_word("delete") && follows(&["from", "quick", "ignore", "low_priority"]))
            || (token.is_word("update") && next.is_some_and(|next| next.is_name() && !next.is_any(NO_TABLE)));
        begins
            && self.before(at).is_none_or(|before| {
                !before.is_any(&["select", "as", "distinct", "where", "and", "or"])
                    && (before.kind != Kind::Mark || before.is_mark("(") || before.is_mark(")"))
            })
    }

    /// Every function that is called by name, wherever it stands. What names columns or a type only is none.
    pub(super) fn calls(self, grammar: &'t Grammar) -> impl Iterator<Item = Call<'a>> + use<'t, 'a> {
        (0..self.all.len()).filter_map(move |at| self.call(at, grammar))
    }

    fn call(self, at: usize, grammar: &Grammar) -> Option<Call<'a>> {
        let token = self.get(at).filter(|token| token.is_name())?;
        let open = at + 1;
        self.get(open).filter(|next| next.is_mark("("))?;
        let start = self.chain(at);
        let before = self.before(start);
        if start == at {
            if token.is_any(grammar.constructs) && !(at > 0 && token.is_any(&["explain", "copy"])) {
                return None;
            }
            let soft = token.is_any(grammar.soft_constructs);
            if soft && (!before.is_none_or(begins_expression) || self.continues_clause(at)) {
                return None;
            }
        }
        if self.names_columns(start, open, grammar) {
            return None;
        }
        let qualifier = (start < at)
            .then(|| self.get(at - 2))
            .flatten()
            .map(|name| name.name(grammar.folds_quoted));
        Some(Call {
            name: token.name(grammar.folds_quoted),
            qualifier,
            open,
        })
    }

    /// `AS NOT MATERIALIZED (`, `GROUP BY a, ROLLUP (`: what stands before looks like the beginning of an expression and is none.
    fn continues_clause(self, at: usize) -> bool {
        if self.is_at(at, &["materialized"]) {
            return at
                .checked_sub(2)
                .is_some_and(|as_at| self.is_at(as_at, &["as"]) && self.is_at(as_at + 1, &["not"]));
        }
        self.is_at(at, &["rollup", "cube", "sets"])
            && self.get(at).is_some_and(|token| token.clause == Clause::GroupBy)
            && self.before(at).is_some_and(|before| {
                before.is_any(&["by", "distinct", "all"]) || before.is_mark(",") || before.is_mark("(")
            })
    }

    /// Where the name that ends at `at` begins, with what is before its dots.
    pub(super) fn chain(self, at: usize) -> usize {
        let mut start = at;
        while self.before(start).is_some_and(|dot| dot.is_mark("."))
            && start
                .checked_sub(1)
                .and_then(|dot| self.before(dot))
                .is_some_and(Token::is_name)
        {
            start -= 2;
        }
        start
    }

    /// Whether the name at `start` with the parentheses from `open` is an alias with columns, a common table expression with
    /// columns or a type. In doubt it is not, and then it is a call.
    fn names_columns(self, start: usize, open: usize, grammar: &Grammar) -> bool {
        let Some(before) = self.before(start) else {
            return false;
        };
        let close = self.get(open).map_or(usize::MAX, |token| token.pair);
        if before.is_any(&["as", "into"]) {
            return true;
        }
        if before.is_mark(":") {
            let two_before = start.checked_sub(2).and_then(|at| self.get(at));
            return two_before.is_some_and(|colon| colon.is_mark(":") && colon.at + 1 == before.at);
        }
        if before.is_any(&["with", "recursive"]) || (before.is_mark(",") && self.follows_a_cte(start)) {
            return self.holds_only(open, Token::is_name) && self.is_cte_body(close);
        }
        match before.kind {
            Kind::Word if grammar.leading.contains(before.name(false).as_ref()) => false,
            Kind::Word | Kind::Quoted => self.is_alias_or_type(start - 1, open),
            Kind::Mark if before.is_mark(")") => before
                .pair
                .checked_sub(1)
                .and_then(|at| self.get(at))
                .is_some_and(|opened_by| {
                    opened_by.is_any(&["from", "join", "lateral"])
                        || opened_by.is_mark(",")
                        || opened_by.is_mark("(")
                        || (opened_by.is_name() && !grammar.leading.contains(opened_by.name(false).as_ref()))
                }),
            _ => false,
        }
    }

    /// `FROM t a(x, y)`, where the name before is a table, and `(a mytype(3), …)`, where it is a column.
    fn is_alias_or_type(self, before: usize, open: usize) -> bool {
        let Some(front) = self.before(self.chain(before)) else {
            return false;
        };
        let lists = front.is_mark(",") || front.is_mark("(");
        let table =
            lists || front.is_any(&["from", "join", "straight_join", "only", "into", "update", "using"]);
        (table && self.holds_only(open, Token::is_name))
            || (lists && self.holds_only(open, |token| token.kind == Kind::Number))
    }

    /// Whether the parentheses hold such tokens with a comma between each two, and nothing else.
    fn holds_only(self, open: usize, wanted: impl Fn(&Token<'a>) -> bool) -> bool {
        let close = self.get(open).map_or(0, |token| token.pair);
        let inside = self.all.get(open + 1..close).unwrap_or_default();
        inside.len() % 2 == 1
            && inside.iter().enumerate().all(|(place, token)| {
                work::count(1);
                if place % 2 == 0 {
                    wanted(token)
                } else {
                    token.is_mark(",")
                }
            })
    }

    /// Whether the comma before `start` ends a common table expression: `AS (…),` that is no list of tables, where `f(…) AS (a int),` looks alike.
    fn follows_a_cte(self, start: usize) -> bool {
        let ended = start.checked_sub(2).and_then(|at| self.get(at));
        let body = ended.filter(|token| token.is_mark(")")).map(|token| token.pair);
        body.and_then(|open| self.before(open))
            .is_some_and(|before| before.is_any(&["as", "materialized"]))
            && self.get(start).is_some_and(|token| token.clause != Clause::From)
    }

    /// Behind the columns of a common table expression comes `AS (SELECT …`.
    fn is_cte_body(self, close: usize) -> bool {
        let mut at = close + 1;
        if !self.is_at(at, &["as"]) {
            return false;
        }
        at += 1;
        while self.is_at(at, &["not", "materialized"]) {
            at += 1;
        }
        if !self.get(at).is_some_and(|token| token.is_mark("(")) {
            return false;
        }
        at += 1;
        // `f(x) AS (insert text)` names a column by a word that begins statements.
        self.is_at(at, &["select", "with", "table"])
            || self.get(at).is_some_and(|token| token.is_mark("("))
            || (self.is_at(at, &["values"]) && self.get(at + 1).is_some_and(|token| token.is_mark("(")))
            || self.begins_a_change(at)
    }
}

/// Behind a column named `update`; no table has such a name without quotes.
const NO_TABLE: &[&str] = &[
    "from",
    "as",
    "union",
    "where",
    "order",
    "limit",
    "desc",
    "asc",
    "fetch",
    "having",
    "group",
    "intersect",
    "in",
    "and",
    "or",
    "not",
    "then",
    "else",
    "when",
    "is",
    "like",
];

fn begins_expression(before: &Token<'_>) -> bool {
    (before.kind == Kind::Mark && !before.is_mark(")"))
        || before.is_any(&[
            "select",
            "where",
            "and",
            "or",
            "not",
            "on",
            "when",
            "then",
            "else",
            "case",
            "having",
            "limit",
            "offset",
            "by",
            "distinct",
            "all",
            "returning",
            "in",
            "like",
            "between",
            "from",
            "join",
            "lateral",
            "set",
            "values",
        ])
}

/// `parent.child` lists: is `name` in `exact` or does it begin with one of `fronts`?
pub(super) fn listed(name: &str, exact: &[&str], fronts: &[&str]) -> bool {
    exact.contains(&name) || fronts.iter().any(|front| name.starts_with(front))
}
