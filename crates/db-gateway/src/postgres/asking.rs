//! What PostgreSQL is asked about a statement before it is begun. Never lets one through that it was not asked about.

use super::wire::Session;
use crate::classify::asked::Asked;
use crate::classify::postgres::may_be_a_call;
use crate::classify::{Verdict, shown};
use crate::error::Error;

/// Asks for a function that one of the names ($1) of a statement could call and that is not known to only read. It fails with its name, and
/// then the statement is not begun.
///
/// A name that is called ($2) may be that of a namesake which somebody made for other arguments; what an extension brought is known by its name. Only
/// what the server would look at counts: what is on the path and not hidden by another, or anywhere, where the statement names a schema ($4).
/// A name behind a dot ($3) is a call where there is no such column (`classify::attribute`); where it is not known to only read ($5), any function
/// that an extension brought, or that acts, counts as well.
///
/// Most of what this costs is its plan, so the planner is not shown what it would look up statistics for: the names, and the terms inside of CASE.
const NO_OTHER_FUNCTION: &str = "SELECT pg_catalog.int4in(pg_catalog.textout(pg_catalog.concat('muster(', p.proname, ')'))) \
     FROM pg_catalog.pg_proc p WHERE p.proname OPERATOR(pg_catalog.=) ANY ((SELECT $1::pg_catalog.name[])::pg_catalog.name[]) AND CASE \
     WHEN p.oid OPERATOR(pg_catalog.>=) 16384 AND (pg_catalog.array_position($2::pg_catalog.name[], p.proname) IS NOT NULL \
     AND ($4::pg_catalog.bool OR pg_catalog.pg_function_is_visible(p.oid)) OR pg_catalog.array_position($3::pg_catalog.name[], p.proname) IS NOT NULL \
     AND (p.pronargs OPERATOR(pg_catalog.-) p.pronargdefaults OPERATOR(pg_catalog.<=) 1 OR p.provariadic OPERATOR(pg_catalog.<>) 0) \
     AND p.pronargs OPERATOR(pg_catalog.>) 0) AND (SELECT d.deptype FROM pg_catalog.pg_depend d WHERE d.classid OPERATOR(pg_catalog.=) 1255 \
     AND d.objid OPERATOR(pg_catalog.=) p.oid AND d.deptype OPERATOR(pg_catalog.=) 'e' LIMIT 1) IS NULL THEN true \
     WHEN pg_catalog.array_position($5::pg_catalog.name[], p.proname) IS NOT NULL AND p.pronargs OPERATOR(pg_catalog.>) 0 \
     AND (p.pronargs OPERATOR(pg_catalog.-) p.pronargdefaults OPERATOR(pg_catalog.<=) 1 OR p.provariadic OPERATOR(pg_catalog.<>) 0) \
     THEN p.oid OPERATOR(pg_catalog.>=) 16384 OR p.provolatile OPERATOR(pg_catalog.=) 'v' ELSE false END";

/// A name behind a value is a field where a composite type has one of the name and no function at all could be called by it.
const ONLY_FIELDS: &str = "SELECT pg_catalog.int4in(pg_catalog.textout((SELECT pg_catalog.concat('muster(', n.field, ')') \
     FROM pg_catalog.unnest($1::pg_catalog.name[]) n(field) WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a \
     JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) a.attrelid WHERE c.relkind OPERATOR(pg_catalog.=) 'c' \
     AND a.attname OPERATOR(pg_catalog.=) n.field AND a.attnum OPERATOR(pg_catalog.>) 0) OR EXISTS (SELECT FROM pg_catalog.pg_proc p \
     WHERE p.proname OPERATOR(pg_catalog.=) n.field AND p.pronargs OPERATOR(pg_catalog.>) 0 \
     AND (p.pronargs OPERATOR(pg_catalog.-) p.pronargdefaults OPERATOR(pg_catalog.<=) 1 OR p.provariadic OPERATOR(pg_catalog.<>) 0)) LIMIT 1)))";

/// What is asked ahead of a statement, in the trip that it is sent with. Each fails where the answer stops it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    Functions,
    Fields,
}

/// The questions about a statement, in the order in which they are asked.
pub(super) fn questions(about: &Asked) -> impl Iterator<Item = Question> {
    let functions = !about.dots.is_empty() || !about.calls.is_empty();
    let fields = !about.fields.is_empty();
    [
        functions.then_some(Question::Functions),
        fields.then_some(Question::Fields),
    ]
    .into_iter()
    .flatten()
}

impl Question {
    pub(super) fn put(self, session: &mut Session, about: &Asked) -> Result<(), Error> {
        match self {
            Self::Functions => {
                let all = array(about.calls.iter().chain(&about.dots));
                let (calls, dots, unknown) = (array(&about.calls), array(&about.dots), array(&about.unknown));
                let anywhere = if about.in_schemas { "t" } else { "f" };
                let values = [all.as_str(), &calls, &dots, anywhere, &unknown];
                session.put(NO_OTHER_FUNCTION, &values, false, 0)
            }
            Self::Fields => session.put(ONLY_FIELDS, &[&array(&about.fields)], false, 0),
        }
    }

    /// Why a statement is no read, out of the message that it failed with.
    pub(super) fn stops(self, about: &Asked, message: &str) -> Verdict {
        let called = which(&about.calls, message);
        match (self, called) {
            (Self::Fields, _) => may_be_a_call(which(&about.fields, message).unwrap_or_default()),
            (Self::Functions, Some(name)) => {
                let name = shown(name);
                Verdict::write(format!(
                    "{name}() can be a function here that somebody made, which may do more than read; where the server's own is meant, write pg_catalog.{name}(…)"
                ))
            }
            (Self::Functions, None) => Verdict::write(format!(
                "a function here is named {}, which stands behind a dot; where it is a column, write it without its table, or read the row by (…).* or to_jsonb(…)",
                shown(which(&about.dots, message).unwrap_or("like a name"))
            )),
        }
    }
}

/// The name that the server answered with. It words its answer in its own language, so the name is looked for.
fn which<'n>(names: &'n [String], message: &str) -> Option<&'n str> {
    let told = names
        .iter()
        .find(|name| message.contains(&format!("muster({name})")));
    told.map(String::as_str)
}

/// Names as a list that the server reads.
fn array<'n>(names: impl IntoIterator<Item = &'n String>) -> String {
    let quoted = names
        .into_iter()
        .map(|name| format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\"")));
    format!("{{{}}}", quoted.collect::<Vec<_>>().join(","))
}
