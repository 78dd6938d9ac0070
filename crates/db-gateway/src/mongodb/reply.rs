//! What a server of MongoDB's protocol answered: its batch, its indexes, what a write did in part, cut to the limits. Never asks for anything.

use bson::{Bson, Document};

use super::json;
use crate::answer::Answer;
use crate::catalogue::Rule;
use crate::limits::Limits;

pub(super) fn number(value: &Bson) -> Option<i64> {
    match value {
        Bson::Int32(number) => Some(i64::from(*number)),
        Bson::Int64(number) => Some(*number),
        _ => None,
    }
}

pub(super) fn batch(reply: &Document) -> impl Iterator<Item = &Document> {
    reply
        .get_document("cursor")
        .and_then(|cursor| cursor.get_array("firstBatch"))
        .into_iter()
        .flatten()
        .filter_map(Bson::as_document)
}

pub(super) fn index(described: &Document) -> Rule {
    let unique = described.get_bool("unique").unwrap_or(false);
    let key = described.get_document("key").cloned().unwrap_or_default();
    Rule {
        name: described.get_str("name").unwrap_or_default().to_owned(),
        kind: if unique { "unique" } else { "index" }.to_owned(),
        definition: json::write(&Bson::Document(key)),
    }
}

/// Cuts the first batch, or another list of the reply, to the limits. Whether anything was left off.
pub(super) fn shorten(reply: &mut Document, limits: Limits) -> bool {
    let mut cut = false;
    let list = if reply.contains_key("cursor") {
        reply
            .get_document_mut("cursor")
            .and_then(|cursor| cursor.get_array_mut("firstBatch"))
            .ok()
    } else {
        reply.get_array_mut("values").ok()
    };
    if let Some(list) = list {
        let mut bytes = 0_usize;
        let fitting = list
            .iter()
            .take(limits.rows)
            .take_while(|item| {
                bytes = bytes.saturating_add(json::write(item).len());
                bytes <= limits.bytes
            })
            .count();
        cut = fitting < list.len();
        list.truncate(fitting);
    }
    cut
}

/// What a write that failed at some place did all the same. An insert counts what was stored, an update what was found, a delete what is gone.
pub(super) fn partly(reply: &Document, errors: usize) -> String {
    let done = reply.get("n").and_then(number).unwrap_or(0);
    let more = match errors {
        0 | 1 => String::new(),
        errors => format!(" {} more failed.", errors - 1),
    };
    match done {
        0 => format!(" Nothing else of the command was done.{more}"),
        done => format!(
            " This is one part of the command; others were done and stay: the server counts {done}.{more}"
        ),
    }
}

/// Without what the cluster tells its drivers.
pub(super) fn tidy(mut reply: Document) -> Document {
    for key in [
        "$clusterTime",
        "operationTime",
        "electionId",
        "opTime",
        "$configTime",
        "$topologyTime",
    ] {
        reply.remove(key);
    }
    reply
}

pub(super) fn answer(reply: Document, truncated: bool) -> Answer {
    let text = json::write(&Bson::Document(tidy(reply)));
    let document = serde_json::from_str(&text).unwrap_or_default();
    Answer::Document { document, truncated }
}
