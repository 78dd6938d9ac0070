//! What is in a file of SQLite, by constant queries. Never puts a name into a statement without quoting it.

use super::{File, Mode};
use crate::answer::{Cell, Rows};
use crate::catalogue::{
    self, Description, Listed, Object, Rule, Schema, many, not_found, rules, schemas, split_name, text,
};
use crate::error::Error;
use crate::limits::Limits;

impl File {
    async fn ask(&self, statement: &str, values: &[&str], limits: Limits) -> Result<Rows, Error> {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        self.run(statement, values, many(limits), Mode::Read).await
    }

    pub(crate) async fn schemas(&self, limits: Limits) -> Result<Listed<Schema>, Error> {
        let rows = self
            .ask("SELECT name FROM pragma_database_list ORDER BY seq", &[], limits)
            .await?;
        Ok(schemas(&rows))
    }

    pub(crate) async fn objects(
        &self,
        schema: Option<&str>,
        limits: Limits,
    ) -> Result<Listed<Object>, Error> {
        if schema.is_some_and(|schema| schema != "main") {
            return Ok(Listed::whole(Vec::new()));
        }
        let rows = self
            .ask(
                "SELECT name, type FROM sqlite_schema WHERE type IN ('table', 'view', 'index') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' \
                 ORDER BY type = 'index', name",
                &[],
                limits,
            )
            .await?;
        let object = |row: &Vec<Cell>| Object {
            schema: Some("main".to_owned()),
            name: text(row.first()).unwrap_or_default(),
            kind: text(row.get(1)).unwrap_or_default(),
            ..Object::default()
        };
        Ok(Listed {
            all: rows.rows.iter().map(object).collect(),
            truncated: rows.truncated,
        })
    }

    async fn find(&self, named: &str, limits: Limits) -> Result<Object, Error> {
        let (schema, name) = split_name(named)?;
        let rows = self
            .ask(
                "SELECT name, type FROM sqlite_schema WHERE type IN ('table', 'view') AND name = ?1 COLLATE NOCASE",
                &[&name],
                limits,
            )
            .await?;
        let row = rows
            .rows
            .first()
            .filter(|_| schema.is_none_or(|schema| schema == "main"))
            .ok_or_else(|| not_found(named))?;
        Ok(Object {
            schema: Some("main".to_owned()),
            name: text(row.first()).unwrap_or_default(),
            kind: text(row.get(1)).unwrap_or_default(),
            ..Object::default()
        })
    }

    pub(crate) async fn describe(&self, named: &str, limits: Limits) -> Result<Description, Error> {
        let object = self.find(named, limits).await?;
        let columns = self
            .ask(
                "SELECT name, type, \"notnull\", dflt_value, NULL, pk FROM pragma_table_info(?1)",
                &[&object.name],
                limits,
            )
            .await?;
        let keys = self
            .ask(
                "SELECT 'foreign_' || id, group_concat(\"from\"), \"table\", group_concat(\"to\") FROM pragma_foreign_key_list(?1) GROUP BY id",
                &[&object.name],
                limits,
            )
            .await?;
        let indexes = self
            .ask(
                "SELECT l.name, CASE WHEN l.\"unique\" THEN 'unique' ELSE 'index' END, \
                 coalesce(s.sql, (SELECT '(' || group_concat(i.name) || ')' FROM pragma_index_info(l.name) i)) \
                 FROM pragma_index_list(?1) l LEFT JOIN sqlite_schema s ON s.type = 'index' AND s.name = l.name ORDER BY l.name",
                &[&object.name],
                limits,
            )
            .await?;
        let primary: Vec<String> = columns
            .rows
            .iter()
            .filter(|row| text(row.get(5)).is_some_and(|place| place != "0"))
            .filter_map(|row| text(row.first()))
            .collect();
        let mut found = Vec::new();
        if !primary.is_empty() {
            found.push(Rule {
                name: "primary".to_owned(),
                kind: "primary".to_owned(),
                definition: format!("({})", primary.join(",")),
            });
        }
        found.extend(keys.rows.iter().map(|row| {
            let part = |at: usize| text(row.get(at)).unwrap_or_default();
            Rule {
                name: part(0),
                kind: "foreign".to_owned(),
                definition: format!("({}) REFERENCES {} ({})", part(1), part(2), part(3)),
            }
        }));
        Ok(Description {
            object,
            columns: catalogue::columns(&columns, |cell| text(cell).as_deref() == Some("0")),
            keys: found,
            indexes: rules(&indexes),
        })
    }

    pub(crate) async fn preview(
        &self,
        named: &str,
        rows: usize,
        sample: bool,
        limits: Limits,
    ) -> Result<Rows, Error> {
        let object = self.find(named, limits).await?;
        let order = if sample { " ORDER BY random()" } else { "" };
        let table = object.name.replace('"', "\"\"");
        let statement = format!(
            "SELECT * FROM \"{table}\"{order} LIMIT {}",
            rows.saturating_add(1)
        );
        self.read(&statement, Limits { rows, ..limits }).await
    }

    /// The plan, a line a step, indented as the steps nest.
    pub(crate) async fn explain(&self, statement: &str, limits: Limits) -> Result<String, Error> {
        let rows = self.read(statement, limits).await?;
        let is_plan = rows
            .columns
            .iter()
            .map(|column| column.name.as_str())
            .eq(["id", "parent", "notused", "detail"]);
        if !is_plan || rows.rows.is_empty() {
            return Ok(crate::answer::Answer::Rows(rows).text());
        }
        let mut depths = std::collections::HashMap::new();
        let mut lines = Vec::new();
        for row in &rows.rows {
            let depth = text(row.get(1))
                .and_then(|parent| depths.get(&parent).copied())
                .map_or(0_usize, |depth| depth + 1);
            depths.insert(text(row.first()).unwrap_or_default(), depth);
            lines.push(format!(
                "{}{}",
                "  ".repeat(depth),
                text(row.get(3)).unwrap_or_default()
            ));
        }
        Ok(lines.join("\n"))
    }
}
