//! What a command of MongoDB needs, by its first key and by every operator below it. Never takes a word in a value for an operator.

use std::fmt;

use serde::Deserializer as _;
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};

use super::lex::MAX_STATEMENT;
use super::verdict::{Class, Verdict, shown};

/// JSON whose keys keep their order.
#[derive(Debug)]
pub(super) enum Tree {
    Document(Vec<(String, Tree)>),
    Array(Vec<Tree>),
    Text(String),
    Bool(bool),
    Number(f64),
    Null,
}

/// Reading commands and the fields that they may have besides those of every command.
const READS: &[(&str, &[&str])] = &[
    (
        "find",
        &[
            "filter",
            "sort",
            "projection",
            "hint",
            "skip",
            "limit",
            "batchSize",
            "singleBatch",
            "max",
            "min",
            "returnKey",
            "showRecordId",
            "allowPartialResults",
            "collation",
            "allowDiskUse",
            "let",
            "noCursorTimeout",
            "tailable",
            "awaitData",
            "oplogReplay",
        ],
    ),
    (
        "aggregate",
        &[
            "pipeline",
            "explain",
            "allowDiskUse",
            "cursor",
            "collation",
            "hint",
            "let",
            "bypassDocumentValidation",
        ],
    ),
    (
        "count",
        &["query", "limit", "skip", "hint", "collation", "fields"],
    ),
    ("distinct", &["key", "query", "collation", "hint"]),
    ("explain", &["verbosity"]),
    ("collStats", &["scale"]),
    ("collstats", &["scale"]),
    ("dbStats", &["scale", "freeStorage"]),
    ("dbstats", &["scale", "freeStorage"]),
    ("dataSize", &["keyPattern", "min", "max", "estimate"]),
    ("datasize", &["keyPattern", "min", "max", "estimate"]),
    ("dbHash", &["collections"]),
    ("dbhash", &["collections"]),
    ("validate", &["full", "metadata", "checkBSONConformance"]),
    (
        "listCollections",
        &["filter", "nameOnly", "authorizedCollections", "cursor"],
    ),
    ("listIndexes", &["cursor"]),
    ("listDatabases", &["filter", "nameOnly", "authorizedDatabases"]),
    ("listSearchIndexes", &["id", "name"]),
    ("connectionStatus", &["showPrivileges"]),
    ("profile", &[]),
    ("hello", &[]),
    ("isMaster", &[]),
    ("ismaster", &[]),
    ("ping", &[]),
    ("buildInfo", &[]),
    ("buildinfo", &[]),
    ("listCommands", &[]),
    ("hostInfo", &[]),
];
const OF_EVERY_READ: &[&str] = &["$db", "$readPreference", "readConcern", "maxTimeMS", "comment"];

const WRITES: &[&str] = &[
    "insert",
    "update",
    "delete",
    "findAndModify",
    "findandmodify",
    "bulkWrite",
    "mapReduce",
    "mapreduce",
    "create",
    "drop",
    "dropDatabase",
    "createIndexes",
    "dropIndexes",
    "deleteIndexes",
    "reIndex",
    "collMod",
    "convertToCapped",
    "compact",
    "renameCollection",
    "cloneCollectionAsCapped",
    "planCacheClear",
    "planCacheSetFilter",
    "planCacheClearFilters",
    "createSearchIndexes",
    "updateSearchIndex",
    "dropSearchIndex",
    "setIndexCommitQuorum",
    "shardCollection",
    "enableSharding",
];

/// Operators that run JavaScript, never end or show other people's work.
const REFUSED_OPERATORS: &[&str] = &[
    "$where",
    "$function",
    "$accumulator",
    "$changeStream",
    "$changeStreamSplitLargeEvent",
    "$currentOp",
    "$listSessions",
    "$listLocalSessions",
    "$listClusterCatalog",
    "$eval",
    "$queryStats",
    "$operationMetrics",
    "$backupCursor",
    "$backupCursorExtend",
    "$listCatalog",
    "$listMqlEntities",
    "$_internalInhibitOptimization",
];
/// Kinds of values that have had no use for long, but are taken where a name is wanted: a name in one would not be seen. `$code` is
/// JavaScript.
const OLD_VALUES: &[&str] = &["$symbol", "$code", "$dbPointer"];

impl<'de> Visitor<'de> for Depth {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(value))
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "only small numbers decide anything here"
    )]
    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Number(value as f64))
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "only small numbers decide anything here"
    )]
    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Number(value as f64))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree::Number(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Text(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(self)? {
            items.push(item);
        }
        Ok(Tree::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut fields: Vec<(String, Tree)> = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            fields.push((key, map.next_value_seed(self)?));
        }
        let mut keys: Vec<&str> = fields.iter().map(|(key, _)| key.as_str()).collect();
        keys.sort_unstable();
        if keys
            .windows(2)
            .any(|pair| matches!(pair, [one, two] if one == two))
        {
            return Err(serde::de::Error::custom("a key stands twice in one document"));
        }
        Ok(Tree::Document(fields))
    }
}

/// `serde_json` ends what nests deeper than 128, so the walks below are bounded.
#[derive(Clone, Copy)]
struct Depth;

impl<'de> DeserializeSeed<'de> for Depth {
    type Value = Tree;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        deserializer.deserialize_any(self)
    }
}

fn parse(statement: &str) -> Result<Tree, &'static str> {
    if statement.len() > MAX_STATEMENT {
        return Err("the command is longer than 256 KiB");
    }
    let mut json = serde_json::Deserializer::from_str(statement);
    let tree = (&mut json)
        .deserialize_any(Depth)
        .map_err(|_| "it is no JSON, nests too deep or has a key twice")?;
    json.end().map_err(|_| "something follows the document")?;
    Ok(tree)
}

pub(super) fn classify(statement: &str) -> Verdict {
    match parse(statement) {
        Ok(Tree::Document(fields)) => command(&fields, true),
        Ok(_) => Verdict::refuse("a command is a JSON document"),
        Err(why) => Verdict::refuse(why),
    }
}

fn command(fields: &[(String, Tree)], top: bool) -> Verdict {
    let Some((name, target)) = fields.first() else {
        return Verdict::refuse("the document is empty");
    };
    let options = fields.get(1..).unwrap_or_default();
    match options.iter().find(|(key, _)| key == "$db") {
        Some((_, Tree::Text(db))) if matches!(db.as_str(), "admin" | "config" | "local" | "$external") => {
            return Verdict::refuse("that database is the server's own");
        }
        Some((_, Tree::Text(_))) | None => {}
        Some(_) => return Verdict::refuse("the name of a database is a text"),
    }
    match target {
        Tree::Text(collection) if is_secret(collection) => {
            return Verdict::refuse("that collection holds accounts or other people's work");
        }
        Tree::Document(_) | Tree::Array(_) if name != "explain" => {
            return Verdict::refuse("the name of a collection is a text");
        }
        _ => {}
    }
    if name == "mapReduce" || name == "mapreduce" {
        return map_reduce(options);
    }
    if WRITES.contains(&name.as_str()) {
        return if options.iter().any(|(key, _)| is_session(key)) {
            Verdict::refuse("it controls a session or transaction")
        } else {
            Verdict::write(format!("{} writes", shown(name))).or_stricter(operators(options))
        };
    }
    let Some((_, allowed)) = READS.iter().find(|(known, _)| known == name) else {
        return Verdict::refuse(format!(
            "{} is no command that is known to be harmless",
            shown(name)
        ));
    };
    if name == "explain" {
        return explain(target, options, top);
    }
    if name == "profile" {
        return match target {
            Tree::Number(level)
                if (*level - -1.0).abs() < f64::EPSILON
                    && options
                        .iter()
                        .all(|(key, _)| OF_EVERY_READ.contains(&key.as_str())) =>
            {
                Verdict::read("it asks for the level")
            }
            _ => Verdict::write("it turns the profiler"),
        };
    }
    if name == "validate"
        && options.iter().any(|(key, value)| {
            matches!(key.as_str(), "repair" | "fixMultikey" | "background")
                && !matches!(value, Tree::Bool(false))
        })
    {
        return Verdict::write("validate with repair writes");
    }
    if let Some((key, _)) = options
        .iter()
        .find(|(key, _)| !allowed.contains(&key.as_str()) && !OF_EVERY_READ.contains(&key.as_str()))
    {
        return Verdict::refuse(format!(
            "{} is no field of {} that is known",
            shown(key),
            shown(name)
        ));
    }
    if options.iter().any(|(key, value)| {
        matches!(
            key.as_str(),
            "noCursorTimeout" | "tailable" | "awaitData" | "oplogReplay"
        ) && !matches!(value, Tree::Bool(false))
    }) {
        return Verdict::refuse("the cursor would stay open without end");
    }
    Verdict::read(format!("{} reads", shown(name))).or_stricter(operators(options))
}

fn is_session(key: &str) -> bool {
    matches!(
        key,
        "lsid" | "txnNumber" | "autocommit" | "startTransaction" | "$clusterTime" | "apiVersion"
    )
}

/// Collections of the server with accounts, keys or the statements of others in them.
fn is_secret(name: &str) -> bool {
    // With the database before it, or without.
    let behind = name.split_once('.').map_or(name, |(_, behind)| behind);
    [name, behind]
        .iter()
        .any(|collection| is_secret_collection(collection))
}

fn is_secret_collection(collection: &str) -> bool {
    matches!(
        collection,
        "system.users"
            | "system.roles"
            | "system.version"
            | "system.keys"
            | "system.profile"
            | "system.sessions"
            | "$cmd"
            | "$cmd.aggregate"
    ) || collection.starts_with("$cmd.")
}

fn explain(target: &Tree, options: &[(String, Tree)], top: bool) -> Verdict {
    let Tree::Document(inner) = target else {
        return Verdict::refuse("explain explains a command");
    };
    if !top {
        return Verdict::refuse("explain in explain");
    }
    if options
        .iter()
        .any(|(key, _)| key != "verbosity" && !OF_EVERY_READ.contains(&key.as_str()))
    {
        return Verdict::refuse("that is no field of explain");
    }
    let inner = command(inner, false);
    let plans_only = options.iter().any(|(key, value)| {
        key == "verbosity" && matches!(value, Tree::Text(word) if word == "queryPlanner")
    });
    match inner.class {
        Class::Write if plans_only => Verdict::write("the plan of a write; a word less and it would run"),
        _ => inner,
    }
}

fn map_reduce(options: &[(String, Tree)]) -> Verdict {
    let inline = options.iter().any(|(key, value)| {
        key == "out"
            && matches!(value, Tree::Document(fields) if fields.iter().any(|(key, _)| key == "inline"))
    });
    if inline || !options.iter().any(|(key, _)| key == "out") {
        Verdict::refuse("it runs JavaScript")
    } else {
        Verdict::write("it runs JavaScript and writes a collection")
    }
}

/// The strictest of what the operators below say.
fn operators(fields: &[(String, Tree)]) -> Verdict {
    fields
        .iter()
        .map(|(key, value)| operator(key, value))
        .fold(Verdict::read("it reads"), Verdict::or_stricter)
}

/// `stages`: an array here is a pipeline, each document in it a stage.
fn below(tree: &Tree, stages: bool) -> Verdict {
    let none = Verdict::read("it reads");
    match tree {
        Tree::Array(items) => items.iter().fold(none, |verdict, item| {
            let inner = match item {
                Tree::Document(fields) if stages => stage(fields),
                other => below(other, false),
            };
            verdict.or_stricter(inner)
        }),
        Tree::Document(fields) => fields.iter().fold(none, |verdict, (key, value)| {
            verdict.or_stricter(operator(key, value))
        }),
        Tree::Text(_) | Tree::Bool(_) | Tree::Number(_) | Tree::Null => none,
    }
}

fn stage(fields: &[(String, Tree)]) -> Verdict {
    fields
        .iter()
        .fold(Verdict::read("it reads"), |verdict, (key, value)| {
            let this = match key.as_str() {
                "$out" | "$merge" | "$unionWith" if matches!(value, Tree::Text(name) if is_secret(name)) => {
                    Verdict::refuse("that collection holds accounts or other people's work")
                }
                "$out" | "$merge" => {
                    Verdict::write(format!("{key} writes a collection")).or_stricter(below(value, false))
                }
                "$facet" => match value {
                    Tree::Document(facets) => facets
                        .iter()
                        .fold(Verdict::read("it reads"), |verdict, (_, pipeline)| {
                            verdict.or_stricter(below(pipeline, true))
                        }),
                    other => below(other, false),
                },
                _ => operator(key, value),
            };
            verdict.or_stricter(this)
        })
}

fn operator(key: &str, value: &Tree) -> Verdict {
    match key {
        "$literal" => Verdict::read("it reads"),
        "$out" | "$merge" => Verdict::refuse(format!("{key} stands where no stage can stand")),
        _ if REFUSED_OPERATORS.contains(&key) || key.starts_with("$_internal") => {
            Verdict::refuse(format!("{key} runs code, never ends or shows the work of others"))
        }
        _ if OLD_VALUES.contains(&key) => {
            Verdict::refuse(format!("{key} is a kind of value that hides what it is"))
        }
        "from" | "coll" | "into" | "viewOn" | "to" | "ns" if matches!(value, Tree::Text(name) if is_secret(name)) => {
            Verdict::refuse("that collection holds accounts or other people's work")
        }
        // In a filter this is data with an odd key; in $lookup, $unionWith and $graphLookup it is a pipeline.
        "pipeline" => below(value, true),
        _ => below(value, false),
    }
}
