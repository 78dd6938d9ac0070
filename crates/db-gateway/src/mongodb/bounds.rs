//! What a command of MongoDB is bounded by: its time, and the documents of its first batch. Never lets a caller's own bound be the wider one.

use bson::{Document, doc};

use super::reply::number;
use crate::limits::Limits;

/// The longest time of a command: the limit of the call, or what the command asks for itself where that is shorter. Zero would be no limit.
pub(super) fn shorten_time(command: &mut Document, limits: Limits) {
    let most = i64::try_from(limits.milliseconds()).unwrap_or(i64::MAX);
    let asked = command.get("maxTimeMS").and_then(number);
    let longest = asked
        .filter(|asked| *asked > 0)
        .map_or(most, |asked| asked.min(most));
    command.insert("maxTimeMS", longest);
}

/// The gateway's own bounds come after the caller's.
pub(super) fn bound(command: &mut Document, limits: Limits) {
    let name = command.keys().next().cloned().unwrap_or_default();
    let batch = i32::try_from(limits.rows.saturating_add(1)).unwrap_or(i32::MAX);
    match name.as_str() {
        "find" => {
            let asked = command.get("batchSize").and_then(number).unwrap_or(i64::MAX);
            command.insert("batchSize", asked.min(i64::from(batch)));
            shorten_time(command, limits);
        }
        "aggregate" => {
            if !command.contains_key("explain") {
                command.insert("cursor", doc! { "batchSize": batch });
            }
            shorten_time(command, limits);
        }
        "count" | "distinct" | "explain" | "collStats" | "collstats" | "dbStats" | "dbstats" | "dataSize"
        | "datasize" | "validate" | "dbHash" | "dbhash" | "listCollections" | "listIndexes" => {
            shorten_time(command, limits);
        }
        _ => {
            command.remove("maxTimeMS");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Server;
    use super::*;
    use crate::address::Url;

    fn server() -> Server {
        Server::new(Url::parse("mongodb://127.0.0.1:1/app").unwrap())
    }

    fn limits() -> Limits {
        Limits {
            time: Duration::from_millis(1500),
            ..Limits::default()
        }
    }

    #[test]
    fn every_write_has_the_time_of_its_call_or_less_of_its_own() {
        for command in [
            r#""insert":"a","documents":[{"_id":1}]"#,
            r#""update":"a","updates":[{"q":{},"u":{"$set":{"a":1}},"multi":true}]"#,
            r#""delete":"a","deletes":[{"q":{},"limit":0}]"#,
            r#""findAndModify":"a","query":{},"remove":true"#,
            r#""findandmodify":"a","query":{},"remove":true"#,
            r#""bulkWrite":1,"ops":[],"nsInfo":[{"ns":"app.a"}]"#,
            r#""aggregate":"a","pipeline":[{"$out":"b"}],"cursor":{}"#,
            r#""createIndexes":"a","indexes":[]"#,
        ] {
            for (asked, has) in [
                ("", 1500),
                (r#","maxTimeMS":20"#, 20),
                (r#","maxTimeMS":90000"#, 1500),
                (r#","maxTimeMS":{"$numberLong":"90000"}"#, 1500),
                (r#","maxTimeMS":0"#, 1500),
                (r#","maxTimeMS":-1"#, 1500),
                (r#","maxTimeMS":1e9"#, 1500),
            ] {
                let statement = format!("{{{command}{asked}}}");
                let bounded = server().writing(&statement, limits()).unwrap();
                assert_eq!(bounded.get_i64("maxTimeMS").unwrap(), has, "{statement}");
            }
        }
    }

    #[test]
    fn a_plan_that_runs_its_statement_has_the_time_of_its_call() {
        let statement =
            r#"{"explain":{"aggregate":"a","pipeline":[],"cursor":{}},"verbosity":"executionStats"}"#;
        let bounded = server().planning(statement, limits()).unwrap();
        assert_eq!(bounded.get_i64("maxTimeMS").unwrap(), 1500);
    }
}
