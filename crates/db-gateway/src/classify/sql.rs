//! What the three languages of SQL share: one statement or several, its calls of functions, its places of danger. Never knows what a function does.

use std::collections::HashSet;

use super::lex::{Kind, Token};

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
    /// Words of the language, behind which an expression may begin.
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
    /// The name hides its letters behind numbers.
    pub(super) escaped: bool,
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

    pub(super) fn all(self) -> &'t [Token<'a>] {
        self.all
    }

    pub(super) fn get(self, at: usize) -> Option<&'t Token<'a>> {
        self.all.get(at)
    }

    pub(super) fn word(self, at: usize) -> Option<&'t Token<'a>> {
        self.all.get(at).filter(|token| token.kind == Kind::Word)
    }

    pub(super) fn before(self, at: usize) -> Option<&'t Token<'a>> {
        at.checked_sub(1).and_then(|before| self.all.get(before))
    }

    pub(super) fn is_at(self, at: usize, words: &[&str]) -> bool {
        self.word(at).is_some_and(|token| token.is_any(words))
    }

    pub(super) fn has(self, words: &[&str]) -> bool {
        self.all.iter().any(|token| token.is_any(words))
    }

    /// `first` and right behind it one of `then`.
    pub(super) fn has_pair(self, first: &str, then: &[&str]) -> bool {
        self.all
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

    /// Where in the tokens an `INSERT INTO`, `DELETE FROM`, `UPDATE …` or `MERGE INTO` begins that is no column of that name.
    pub(super) fn changes_data(self) -> bool {
        self.all.iter().enumerate().any(|(at, token)| {
            let next = self.all.get(at + 1);
            let follows = |words: &[&str]| next.is_some_and(|next| next.is_any(words));
            let begins = (token.is_any(&["insert", "replace", "merge"])
                && follows(&[
                    "into",
                    "or",
                    "ignore",
                    "low_priority",
                    "high_priority",
                    "delayed",
                    "overwriting",
                ]))
                || (token.is_word("delete") && follows(&["from", "quick", "ignore", "low_priority"]))
                || (token.is_word("update")
                    && next.is_some_and(|next| {
                        next.is_name() && !next.is_any(&["from", "as", "union", "where", "order", "limit"])
                    }));
            begins
                && self.before(at).is_none_or(|before| {
                    !before.is_any(&[
                        "select", "as", "for", "key", "by", "distinct", "where", "and", "or",
                    ]) && (before.kind != Kind::Mark || before.is_mark("(") || before.is_mark(")"))
                })
        })
    }

    /// Every function that is called by name, wherever it stands. What names columns or a type only is none.
    pub(super) fn calls(self, grammar: &'t Grammar) -> impl Iterator<Item = Call<'a>> + use<'t, 'a> {
        (0..self.all.len()).filter_map(move |at| self.call(at, grammar))
    }

    fn call(self, at: usize, grammar: &Grammar) -> Option<Call<'a>> {
        let token = self.all.get(at).filter(|token| token.is_name())?;
        let open = at + 1;
        let paren = self.all.get(open).filter(|next| next.is_mark("("))?;
        let mut start = at;
        while self.before(start).is_some_and(|dot| dot.is_mark("."))
            && self.before(start - 1).is_some_and(Token::is_name)
        {
            start -= 2;
        }
        let before = self.before(start);
        if start == at {
            if token.is_any(grammar.constructs) {
                return None;
            }
            let soft = token.is_any(grammar.soft_constructs);
            if soft && (!before.is_none_or(begins_expression) || self.continues_clause(at)) {
                return None;
            }
        }
        if self.names_columns(start, paren.pair, before, grammar) {
            return None;
        }
        let qualifier = (start < at)
            .then(|| self.all.get(at - 2))
            .flatten()
            .map(|name| name.name(grammar.folds_quoted));
        Some(Call {
            name: token.name(grammar.folds_quoted),
            qualifier,
            escaped: token.kind == Kind::Escaped,
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
            && self
                .all
                .get(..at)
                .unwrap_or_default()
                .windows(2)
                .any(|pair| matches!(pair, [group, by] if group.is_word("group") && by.is_word("by")))
    }

    /// Whether the name at `start` with the parenthesis that ends at `close` is an alias with columns, a common table
    /// expression with columns or a type. In doubt it is not.
    fn names_columns(
        self,
        start: usize,
        close: usize,
        before: Option<&Token<'a>>,
        grammar: &Grammar,
    ) -> bool {
        let Some(before) = before else { return false };
        if before.is_word("as") {
            return true;
        }
        if before.is_mark(":") {
            let two_before = start.checked_sub(2).and_then(|at| self.all.get(at));
            return two_before.is_some_and(|colon| colon.is_mark(":") && colon.at + 1 == before.at);
        }
        if (before.is_any(&["with", "recursive"]) || before.is_mark(",")) && self.is_cte_body(close) {
            return true;
        }
        match before.kind {
            Kind::Quoted | Kind::Escaped => true,
            Kind::Word => !grammar.leading.contains(before.name(false).as_ref()),
            Kind::Mark if before.is_mark(")") => before
                .pair
                .checked_sub(1)
                .and_then(|at| self.all.get(at))
                .is_some_and(|opened_by| {
                    opened_by.is_any(&["from", "join", "lateral"])
                        || opened_by.is_mark(",")
                        || opened_by.is_mark("(")
                        || (opened_by.is_name() && !grammar.leading.contains(opened_by.name(false).as_ref()))
                }),
            _ => false,
        }
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
        self.is_at(
            at,
            &["select", "with", "table", "insert", "update", "delete", "merge"],
        ) || self.get(at).is_some_and(|token| token.is_mark("("))
            || (self.is_at(at, &["values"]) && self.get(at + 1).is_some_and(|token| token.is_mark("(")))
    }
}

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
