//! Counts the steps of a classification in tests, so that "it grows with the length" can be measured without a clock. Never counts elsewhere.

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
pub(super) fn count(steps: usize) {
    STEPS.with(|counted| counted.set(counted.get() + steps));
}

#[cfg(not(test))]
pub(super) const fn count(_steps: usize) {}

/// The steps since the last call.
#[cfg(test)]
pub(super) fn taken() -> usize {
    STEPS.with(|counted| counted.replace(0))
}

#[cfg(test)]
mod heavy {
    use super::super::{classify, mysql, postgres_words, sqlite};
    use super::taken;
    use muster_core::engine::Engine;

    const MARKS: &[&str] = &[
        "(",
        ")",
        "()",
        "(1)",
        "(1),",
        "(a,b)",
        "(a) as (select 1),",
        ",",
        ".",
        "a.",
        ".a",
        "(a).b ",
        "(1).a,",
        ";",
        "'",
        "''",
        "'a'\n",
        "e'\\'\n",
        "\"",
        "\"a\"",
        "`",
        "`a`",
        "[",
        "]",
        "[a]",
        "$",
        "$$",
        "$a$",
        "$a",
        "{",
        "}",
        "{fn a()}",
        "/*",
        "*/",
        "/**/",
        "/*+ set */",
        "/*!",
        "/*!1 ",
        "*/ ",
        "--\n",
        "-- ",
        "#",
        "\n",
        "\t",
        " ",
        ":",
        "::",
        ":=",
        "=",
        "*",
        "@",
        "\\",
        "1",
        "1.",
        ".1",
        "1e",
        "1e5",
        "0x",
        "0x1 ",
        "_1",
        "e'",
        "u&'",
        "u&\"a\"",
        "x''",
        "n''",
        "a ",
        "a(",
        "f(f(",
        "a(1),",
        "from a(1) b,",
        "(b) c.d ",
        "crosstab('a',",
        "insert into ",
        "delete from ",
        "update a ",
        "group by cube(1),",
        "group by rollup(1),",
        "sets(1),",
        "with a as (",
        "as not ",
        "not materialized (",
        "case when ",
        "é",
        "🦀",
    ];

    fn pieces() -> Vec<String> {
        let grammars = [&*postgres_words::GRAMMAR, &*mysql::GRAMMAR, &*sqlite::GRAMMAR];
        let mut words: Vec<String> = grammars
            .iter()
            .flat_map(|grammar| {
                let leading = grammar.leading.iter().copied();
                let constructs = grammar.constructs.iter().chain(grammar.soft_constructs);
                leading.chain(constructs.copied())
            })
            .map(str::to_owned)
            .collect();
        words.sort_unstable();
        words.dedup();
        let mut found: Vec<String> = MARKS.iter().map(|mark| (*mark).to_owned()).collect();
        for word in &words {
            found.extend([
                format!("{word} "),
                format!("{word}(1),"),
                format!("{word} a(b) "),
                format!("a.{word} "),
            ]);
        }
        found
    }

    fn pairs() -> impl Iterator<Item = String> {
        MARKS
            .iter()
            .flat_map(|one| MARKS.iter().map(move |two| format!("{one}{two}")))
    }

    fn steps(engine: Engine, text: &str) -> usize {
        taken();
        let _ = classify(engine, text);
        taken()
    }

    /// At most this many steps for a byte, whatever the bytes are.
    const STEPS: usize = 100;

    fn grows_evenly(engine: Engine, front: &str, piece: &str) {
        let short = 256;
        // A dozen or a multiple of it, so that what opens and closes is alike in both.
        let times = (short / piece.len()).max(12).next_multiple_of(12);
        let text = |times: usize| format!("{front}{}", piece.repeat(times));
        let long = 4 * times * piece.len();
        let (less, more) = (steps(engine, &text(times)), steps(engine, &text(4 * times)));
        assert!(
            more <= STEPS * long && more <= 5 * less.max(short),
            "{engine}: {less} steps for {times} times {front}{piece}…, {more} for four times as many"
        );
    }

    #[test]
    fn the_work_grows_with_the_length_and_with_nothing_else() {
        for piece in pieces() {
            for front in [
                "",
                "select ",
                "select 1 from t group by ",
                "with a as (select 1) select ",
            ] {
                for engine in [Engine::Postgres, Engine::Mysql, Engine::Sqlite] {
                    grows_evenly(engine, front, &piece);
                }
            }
        }
        for pair in pairs() {
            grows_evenly(Engine::Postgres, "select ", &pair);
        }
    }
}
