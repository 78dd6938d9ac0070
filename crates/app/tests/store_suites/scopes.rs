//! Just enough reading of SQL to say which tables each part of a statement touches and whether it binds them to the owner. Never a full parser: what it does not know it refuses.

/// A word, a quoted text or a sign.
#[derive(Debug, Clone, PartialEq)]
enum Token {
    /// An identifier, keyword, number or placeholder; a dotted name is one word.
    Word(String),
    /// A text in quotes.
    Text,
    /// Any other sign.
    Sign(char),
    /// A sub-select, which stands as a scope of its own.
    Inner,
}

/// One SELECT, INSERT, UPDATE or DELETE without what is nested in it.
#[derive(Debug, Default)]
struct Scope {
    tokens: Vec<Token>,
}

/// A table of a scope, and the name its columns are reached by.
#[derive(Debug, PartialEq)]
struct Table {
    name: String,
    alias: String,
    how: How,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum How {
    Read,
    Inserted,
}

/// What is wrong with a statement that must touch one owner's rows only.
pub(crate) fn unbound(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for scope in scopes(text) {
        let tables = match scope.tables() {
            Ok(tables) => tables,
            Err(why) => {
                wrong.push(why);
                continue;
            }
        };
        let readers = tables.iter().filter(|table| table.how == How::Read).count();
        for table in &tables {
            let bound = match table.how {
                How::Inserted => scope.inserts_the_owner(&tables),
                How::Read => scope.is_bound(table, readers == 1),
            };
            if !bound {
                wrong.push(format!(
                    "{} {} is not bound to the owner's $1",
                    table.name, table.alias
                ));
            }
        }
        if !tables.is_empty() && scope.loosens() {
            wrong.push("an OR or a NOT outside parentheses may undo the owner's predicate".to_owned());
        }
    }
    wrong
}

/// What is wrong with a statement's order: every list that has one must end in what is unique, and a cut must have one.
pub(crate) fn disordered(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for scope in scopes(text) {
        match (scope.order(), scope.find("LIMIT")) {
            (Some(last), _) if last != "id" && !last.ends_with(".id") => {
                wrong.push(format!("ORDER BY ends in {last}, not in an id"))
            }
            (None, Some(_)) => wrong.push("a LIMIT without an ORDER BY cuts at random".to_owned()),
            _ => {}
        }
    }
    wrong
}

/// The words of a statement, for rules about single words. Texts in quotes are left out.
pub(crate) fn words(text: &str) -> Vec<String> {
    let word = |token| match token {
        Token::Word(word) => Some(word.to_ascii_uppercase()),
        _ => None,
    };
    tokens(text).into_iter().filter_map(word).collect()
}

/// The statement without the texts in quotes.
pub(crate) fn without_texts(text: &str) -> String {
    text.split('\'').step_by(2).collect::<Vec<_>>().join("''")
}

fn tokens(text: &str) -> Vec<Token> {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.' || c == '$';
    let mut found = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if c == '\'' {
            while rest.next().is_some_and(|c| c != '\'') {}
            found.push(Token::Text);
        } else if part(c) {
            let mut word = String::from(c);
            while let Some(next) = rest.next_if(|c| part(*c)) {
                word.push(next);
            }
            found.push(Token::Word(word));
        } else if !c.is_whitespace() {
            found.push(Token::Sign(c));
        }
    }
    found
}

fn is_word(token: Option<&Token>, word: &str) -> bool {
    matches!(token, Some(Token::Word(found)) if found.eq_ignore_ascii_case(word))
}

fn scopes(text: &str) -> Vec<Scope> {
    let mut done = Vec::new();
    // Each open scope with the depth of parentheses inside it.
    let mut open = vec![(Scope::default(), 0_usize)];
    let tokens = tokens(text);
    for (at, token) in tokens.iter().enumerate() {
        let (scope, depth) = open.last_mut().unwrap();
        match token {
            Token::Sign('(') if is_word(tokens.get(at + 1), "SELECT") => {
                scope.tokens.push(Token::Inner);
                open.push((Scope::default(), 0));
            }
            Token::Sign(')') if *depth == 0 => done.push(open.pop().unwrap().0),
            // Two SELECTs side by side are two scopes.
            Token::Word(_) if is_word(Some(token), "UNION") && *depth == 0 => {
                done.push(std::mem::take(scope))
            }
            token => {
                match token {
                    Token::Sign('(') => *depth += 1,
                    Token::Sign(')') => *depth -= 1,
                    _ => {}
                }
                scope.tokens.push(token.clone());
            }
        }
    }
    done.extend(open.into_iter().map(|(scope, _)| scope));
    done
}

const AFTER_A_TABLE: [&str; 13] = [
    "WHERE",
    "JOIN",
    "LEFT",
    "INNER",
    "CROSS",
    "ON",
    "SET",
    "ORDER",
    "GROUP",
    "LIMIT",
    "FOR",
    "RETURNING",
    "VALUES",
];

impl Scope {
    fn find(&self, word: &str) -> Option<usize> {
        self.tokens.iter().position(|token| is_word(Some(token), word))
    }

    fn tables(&self) -> Result<Vec<Table>, String> {
        let mut found = Vec::new();
        for (at, token) in self.tokens.iter().enumerate() {
            let before = at.checked_sub(1).and_then(|at| self.tokens.get(at));
            let how = match token {
                // FOR UPDATE and DO UPDATE name no table.
                token
                    if is_word(Some(token), "UPDATE")
                        && !is_word(before, "FOR")
                        && !is_word(before, "DO") =>
                {
                    How::Read
                }
                // IS DISTINCT FROM compares.
                token if is_word(Some(token), "FROM") && !is_word(before, "DISTINCT") => How::Read,
                token if is_word(Some(token), "JOIN") => How::Read,
                token if is_word(Some(token), "INTO") => How::Inserted,
                _ => continue,
            };
            let Some(Token::Word(name)) = self.tokens.get(at + 1) else {
                return Err("a table that is not a name: write the sub-select another way".to_owned());
            };
            let mut next = at + 2;
            if is_word(self.tokens.get(next), "AS") {
                next += 1;
            }
            let alias = match self.tokens.get(next) {
                Some(Token::Word(word))
                    if !AFTER_A_TABLE.iter().any(|after| word.eq_ignore_ascii_case(after)) =>
                {
                    next += 1;
                    word.clone()
                }
                _ => name.clone(),
            };
            if how == How::Read && self.tokens.get(next) == Some(&Token::Sign(',')) {
                return Err("tables side by side: write a JOIN, which names what binds each".to_owned());
            }
            found.push(Table {
                name: name.clone(),
                alias,
                how,
            });
        }
        Ok(found)
    }

    /// `alias.owner_id = $1` outside every parenthesis; without the alias where there is one table.
    fn is_bound(&self, table: &Table, only: bool) -> bool {
        let column = crate::support::owner_column(&table.name);
        let full = format!("{}.{column}", table.alias);
        let mut depth = 0_usize;
        self.tokens.iter().enumerate().any(|(at, token)| {
            match token {
                Token::Sign('(') => depth += 1,
                Token::Sign(')') => depth = depth.saturating_sub(1),
                _ => {}
            }
            let named = is_word(Some(token), &full) || (only && is_word(Some(token), column));
            named
                && depth == 0
                && self.tokens.get(at + 1) == Some(&Token::Sign('='))
                && is_word(self.tokens.get(at + 2), "$1")
                // `SET owner_id = $1` is no predicate.
                && !is_word(at.checked_sub(1).and_then(|at| self.tokens.get(at)), "SET")
        })
    }

    /// `(owner_id, …)` and then `VALUES ($1, …)`, `SELECT $1, …` or `SELECT id, … FROM owners`, whose own predicate is asked for as well.
    fn inserts_the_owner(&self, tables: &[Table]) -> bool {
        let Some(into) = self.find("INTO") else {
            return false;
        };
        let first_column = self.tokens.get(into + 2) == Some(&Token::Sign('('))
            && is_word(self.tokens.get(into + 3), "owner_id");
        let values = self
            .find("VALUES")
            .is_some_and(|at| is_word(self.tokens.get(at + 2), "$1"));
        let select = self.find("SELECT").is_some_and(|at| {
            let owners = tables
                .iter()
                .any(|table| table.how == How::Read && table.name == "owners");
            is_word(self.tokens.get(at + 1), "$1") || (owners && is_word(self.tokens.get(at + 1), "id"))
        });
        first_column && (values || select)
    }

    fn loosens(&self) -> bool {
        let mut depth = 0_usize;
        self.tokens.iter().enumerate().any(|(at, token)| {
            match token {
                Token::Sign('(') => depth += 1,
                Token::Sign(')') => depth = depth.saturating_sub(1),
                _ => {}
            }
            let negates = is_word(Some(token), "NOT")
                && !["IN", "NULL", "EXISTS", "DISTINCT"]
                    .iter()
                    .any(|next| is_word(self.tokens.get(at + 1), next))
                && self.tokens.get(at + 1) != Some(&Token::Inner);
            // ON CONFLICT DO NOTHING is one word; DO UPDATE would need its own rule, and `is_bound` finds no predicate for it.
            depth == 0 && (is_word(Some(token), "OR") || negates)
        })
    }

    /// The last thing an ORDER BY of this scope sorts by.
    fn order(&self) -> Option<String> {
        let begin = self.find("ORDER")? + 2;
        let ends = |token: &&Token| {
            !["LIMIT", "OFFSET", "FOR", "RETURNING", "DESC", "ASC"]
                .iter()
                .any(|end| is_word(Some(token), end))
        };
        let mut last = None;
        let mut rest = &self.tokens[begin..];
        // Each item is a word, perhaps with a direction, and a comma before the next.
        while let Some(item) = rest.iter().take_while(ends).last() {
            last = Some(item.clone());
            let taken = rest.iter().take_while(ends).count();
            rest = &rest[taken..];
            let direction = is_word(rest.first(), "DESC") || is_word(rest.first(), "ASC");
            if !direction || rest.get(1) != Some(&Token::Sign(',')) {
                break;
            }
            rest = &rest[2..];
        }
        match last {
            Some(Token::Word(word)) => Some(word),
            other => Some(format!("{other:?}")),
        }
    }
}

#[test]
fn a_forgotten_owner_predicate_is_found_wherever_it_is_forgotten() {
    let bound = [
        "SELECT id FROM drafts WHERE owner_id = $1 AND id = $2",
        "SELECT m.id FROM messages m JOIN plugins p ON p.owner_id = $1 AND p.id = m.plugin_id WHERE m.owner_id = $1 FOR UPDATE OF m",
        "UPDATE drafts SET state = $3 WHERE owner_id = $1 AND (state = 'a' OR state = 'b') RETURNING id",
        "DELETE FROM tokens WHERE owner_id = $1 AND turn_id IS NOT NULL",
        "INSERT INTO audit (owner_id, at) VALUES ($1, $2)",
        "INSERT INTO messages (owner_id, at) SELECT $1, $2 WHERE (SELECT count(*) FROM messages WHERE owner_id = $1) < $3 ON CONFLICT (at) DO NOTHING",
        "INSERT INTO audit (owner_id, at) SELECT id, $2 FROM owners WHERE id = $1",
        "SELECT password_hash FROM owners WHERE id = $1",
        "SELECT (SELECT count(*) FROM turns t WHERE t.owner_id = $1) AS n FROM plugins p WHERE p.owner_id = $1 AND p.state NOT IN ('a')",
    ];
    for text in bound {
        assert_eq!(unbound(text), Vec::<String>::new(), "{text}");
    }
    let forgotten = [
        "SELECT id FROM drafts WHERE id = $2",
        "SELECT id FROM drafts WHERE owner_id = $2",
        "SELECT id FROM drafts WHERE owner_id = $1 OR id = $2",
        "SELECT id FROM drafts WHERE NOT owner_id = $1",
        "SELECT id FROM drafts WHERE (owner_id = $1 OR id = $2)",
        "SELECT m.id FROM messages m JOIN plugins p ON p.id = m.plugin_id WHERE m.owner_id = $1",
        "SELECT m.id FROM messages m LEFT JOIN plugins p ON p.owner_id = $1 WHERE m.id = $2",
        "SELECT m.id FROM messages m, plugins p WHERE m.owner_id = $1 AND p.owner_id = $1",
        "SELECT id FROM (SELECT id FROM drafts WHERE owner_id = $1) d",
        "UPDATE drafts SET owner_id = $1 WHERE id = $2",
        "UPDATE drafts SET state = $2 WHERE owner_id = $1 AND EXISTS (SELECT 1 FROM plugins p WHERE p.id = $3)",
        "DELETE FROM tokens WHERE turn_id = $2",
        "INSERT INTO audit (at, owner_id) VALUES ($1, $2)",
        "INSERT INTO audit (owner_id, at) VALUES ($2, $1)",
        "INSERT INTO messages (owner_id, at) SELECT $1, at FROM messages WHERE id = $2",
        "INSERT INTO audit (owner_id, at) SELECT id, $1 FROM owners WHERE name = $2",
        "INSERT INTO audit (owner_id, at) SELECT id, at FROM drafts WHERE owner_id = $1",
        "SELECT id FROM drafts WHERE owner_id = $1 UNION SELECT id FROM drafts",
    ];
    for text in forgotten {
        assert_ne!(unbound(text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn an_order_that_is_not_total_is_found() {
    for text in [
        "SELECT 1 FROM t ORDER BY id",
        "SELECT 1 FROM t ORDER BY a DESC, t.id DESC LIMIT 5",
        "SELECT 1 FROM t ORDER BY a, id LIMIT 1 FOR UPDATE",
        "SELECT 1",
    ] {
        assert_eq!(disordered(text), Vec::<String>::new(), "{text}");
    }
    for text in [
        "SELECT 1 FROM t ORDER BY at",
        "SELECT 1 FROM t ORDER BY id, at",
        "SELECT 1 FROM t ORDER BY id DESC, at DESC LIMIT 1",
        "SELECT 1 FROM t LIMIT 1",
    ] {
        assert_ne!(disordered(text), Vec::<String>::new(), "{text}");
    }
}
