//! `muster config show`. Never shows a secret.

use serde_json::{Value, json};

use crate::config::{Config, VARIABLES};
use crate::output::{self, Failure};

pub(super) fn show(config: &Config, json: bool) -> Result<(), Failure> {
    let shown = |name: &str, secret: bool| match config.origin(name) {
        Some(_) if secret => (
            "(set)".to_owned(),
            config.origin(name).map_or("default", |(_, from)| from),
        ),
        Some((text, from)) => (text.to_owned(), from),
        None => (String::new(), "default"),
    };
    if json {
        let all: Vec<Value> = VARIABLES
            .iter()
            .map(|v| {
                let (value, from) = shown(v.name, v.secret);
                json!({"name": v.name, "value": if from == "default" { Value::Null } else { json!(value) }, "default": v.default, "from": from, "description": v.meaning})
            })
            .collect();
        return output::document(&Value::Array(all));
    }
    let rows: Vec<Vec<String>> = VARIABLES
        .iter()
        .map(|v| {
            let (value, from) = shown(v.name, v.secret);
            vec![
                v.name.to_owned(),
                if from == "default" {
                    v.default.to_owned()
                } else {
                    value
                },
                from.to_owned(),
            ]
        })
        .collect();
    output::table(&["SETTING", "VALUE", "FROM"], &rows)
}
