//! Whether a command leaves the database of its connection. Never looks into data: a document that is stored may say what it likes.

use bson::{Bson, Document};

/// Stages that name a collection, and may name its database.
const STAGES: &[&str] = &["$out", "$merge", "$lookup", "$graphLookup", "$unionWith"];

/// Whether the command reads or writes a collection of another database than `own`.
pub(super) fn leaves(command: &Document, own: &str) -> bool {
    let Some((name, value)) = command.iter().next() else {
        return false;
    };
    match name.as_str() {
        "aggregate" => command
            .get("pipeline")
            .is_some_and(|pipeline| stages(pipeline, own)),
        "explain" => value.as_document().is_some_and(|inner| {
            let named = inner.get("$db");
            named.is_some_and(|database| !is(database, own)) || leaves(inner, own)
        }),
        // Both names are whole, database and collection.
        "renameCollection" => ["renameCollection", "to"]
            .iter()
            .filter_map(|key| command.get(*key))
            .any(|place| !in_own(place, own)),
        "bulkWrite" => {
            let places = command.get_array("nsInfo").ok();
            let mut places = places.into_iter().flatten();
            places.any(|place| {
                let place = place.as_document().and_then(|place| place.get("ns"));
                !place.is_some_and(|place| in_own(place, own))
            })
        }
        "mapReduce" | "mapreduce" => command.get("out").is_some_and(|out| elsewhere(out, own)),
        // A view reads by a pipeline.
        "create" | "collMod" => command
            .get("pipeline")
            .is_some_and(|pipeline| stages(pipeline, own)),
        _ => false,
    }
}

/// A text that is no plain string (a symbol, say) is none that is compared as the server compares it.
fn is(database: &Bson, own: &str) -> bool {
    matches!(database, Bson::String(name) if name == own)
}

fn in_own(place: &Bson, own: &str) -> bool {
    place
        .as_str()
        .and_then(|place| place.strip_prefix(own))
        .is_some_and(|rest| rest.starts_with('.'))
}

/// Whether any stage, however deep, names another database. Pipelines nest in stages, so everything is walked.
fn stages(value: &Bson, own: &str) -> bool {
    match value {
        Bson::Array(values) => values.iter().any(|value| stages(value, own)),
        Bson::Document(document) => document.iter().any(|(key, value)| {
            (STAGES.contains(&key.as_str()) && elsewhere(value, own)) || stages(value, own)
        }),
        _ => false,
    }
}

/// Whether a stage's target is in another database: `{db, coll}`, by itself or under `into` or `from`.
fn elsewhere(target: &Bson, own: &str) -> bool {
    let Bson::Document(target) = target else {
        return false;
    };
    target.get("db").is_some_and(|database| !is(database, own))
        || ["into", "from"]
            .iter()
            .filter_map(|key| target.get(*key))
            .any(|below| elsewhere(below, own))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> bool {
        leaves(&serde_json::from_str(text).unwrap(), "app")
    }

    #[test]
    fn a_pipeline_stays_in_the_database_of_its_connection() {
        for text in [
            r#"{"aggregate":"a","pipeline":[{"$out":{"db":"other","coll":"c"}}],"cursor":{}}"#,
            r#"{"aggregate":"a","pipeline":[{"$merge":{"into":{"db":"other","coll":"c"}}}],"cursor":{}}"#,
            r#"{"aggregate":"a","pipeline":[{"$merge":{"into":{"coll":"c","db":{"$symbol":"other"}}}}],"cursor":{}}"#,
            r#"{"aggregate":"a","pipeline":[{"$facet":{"x":[{"$out":{"db":"other","coll":"c"}}]}}],"cursor":{}}"#,
            r#"{"aggregate":"a","pipeline":[{"$lookup":{"from":{"db":"other","coll":"c"},"as":"x"}}],"cursor":{}}"#,
            r#"{"aggregate":"a","pipeline":[{"$unionWith":{"db":"other","coll":"c"}}],"cursor":{}}"#,
            r#"{"explain":{"aggregate":"a","pipeline":[{"$out":{"db":"other","coll":"c"}}],"cursor":{}}}"#,
            r#"{"explain":{"find":"a","$db":"other"}}"#,
            r#"{"aggregate":"a","pipeline":[{"$facet":{"x":[{"$lookup":{"from":"b","pipeline":[{"$out":{"db":"other","coll":"b"}}],"as":"r"}}]}}]}"#,
            r#"{"mapReduce":"a","map":"f","reduce":"f","out":{"merge":"m","db":"other"}}"#,
            r#"{"renameCollection":"app.a","to":"other.a"}"#,
            r#"{"renameCollection":"other.a","to":"app.a"}"#,
            r#"{"renameCollection":"application.a","to":"app.a"}"#,
            r#"{"bulkWrite":1,"ops":[],"nsInfo":[{"ns":"app.a"},{"ns":"other.a"}]}"#,
            r#"{"create":"v","viewOn":"a","pipeline":[{"$lookup":{"from":{"db":"other","coll":"c"},"as":"x"}}]}"#,
        ] {
            assert!(of(text), "{text}");
        }
        for text in [
            r#"{"aggregate":"a","pipeline":[{"$out":{"db":"app","coll":"c"}}],"cursor":{}}"#,
            r#"{"aggregate":"a","pipeline":[{"$merge":{"into":"c"}},{"$match":{"db":"other"}}],"cursor":{}}"#,
            r#"{"insert":"a","documents":[{"$out":{"db":"other"}}]}"#,
            r#"{"renameCollection":"app.a","to":"app.b"}"#,
            r#"{"bulkWrite":1,"ops":[],"nsInfo":[{"ns":"app.a"}]}"#,
            r#"{"find":"a","filter":{"out":{"db":"other"},"from":{"db":"other"},"ns":"other.a","db":"other"}}"#,
            r#"{"aggregate":"a","pipeline":[{"$match":{"into":{"db":"other"}}}]}"#,
        ] {
            assert!(!of(text), "{text}");
        }
    }
}
