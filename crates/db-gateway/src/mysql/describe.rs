//! What is in a database of MySQL, by constant queries of its catalogue. Never puts a name into a statement without quoting it.

use mysql_async::Value;

use super::Server;
use crate::answer::{Cell, Rows};
use crate::catalogue::{
    self, Description, Listed, Object, Rule, Schema, many, not_found, rules, schemas, split_name, text,
};
use crate::error::Error;
use crate::limits::Limits;

const SCHEMAS: &str = "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA \
     ORDER BY SCHEMA_NAME IN ('information_schema', 'mysql', 'performance_schema', 'sys'), SCHEMA_NAME";

/// The objects of a schema or of all, perhaps only those of one name. The catalogue compares names without their case, so whoever wants one looks again.
macro_rules! objects {
    ($only:literal) => {
        concat!(
            "SELECT TABLE_SCHEMA, TABLE_NAME, CASE TABLE_TYPE WHEN 'VIEW' THEN 'view' WHEN 'SYSTEM VIEW' THEN 'view' \
             WHEN 'SEQUENCE' THEN 'sequence' ELSE 'table' END, CAST(DATA_LENGTH + INDEX_LENGTH AS CHAR), TABLE_COMMENT, \
             CAST(TABLE_ROWS AS CHAR) FROM information_schema.TABLES \
             WHERE (TABLE_SCHEMA = COALESCE(NULLIF(?, ''), DATABASE()) OR (? = '' AND DATABASE() IS NULL \
             AND TABLE_SCHEMA NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')))",
            $only,
            " ORDER BY TABLE_SCHEMA, TABLE_NAME"
        )
    };
}

const OBJECTS: &str = objects!("");
const NAMED: &str = objects!(" AND TABLE_NAME = ?");

/// Room for one object with the longest name and comment that there can be, in each schema of a server with many.
const ROOM: usize = 1024 * 1024;

const COLUMNS: &str = "SELECT COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, COLUMN_DEFAULT, COLUMN_COMMENT FROM information_schema.COLUMNS \
     WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? ORDER BY ORDINAL_POSITION";

const INDEXES: &str = "SELECT INDEX_NAME, CASE WHEN MIN(NON_UNIQUE) = 0 THEN 'unique' ELSE 'index' END, \
     CONCAT(MAX(INDEX_TYPE), ' (', GROUP_CONCAT(COLUMN_NAME ORDER BY SEQ_IN_INDEX), ')') FROM information_schema.STATISTICS \
     WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? GROUP BY INDEX_NAME ORDER BY INDEX_NAME";

fn object(row: &[Cell]) -> Object {
    Object {
        schema: text(row.first()),
        name: text(row.get(1)).unwrap_or_default(),
        kind: text(row.get(2)).unwrap_or_default(),
        bytes: text(row.get(3)).and_then(|bytes| bytes.parse().ok()),
        comment: text(row.get(4)).filter(|comment| !comment.is_empty() && comment != "VIEW"),
    }
}

pub(super) fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

impl Server {
    pub(crate) async fn schemas(&self, limits: Limits) -> Result<Listed<Schema>, Error> {
        let rows = self.read(SCHEMAS, many(limits)).await?;
        Ok(schemas(&rows))
    }

    pub(crate) async fn objects(
        &self,
        schema: Option<&str>,
        limits: Limits,
    ) -> Result<Listed<Object>, Error> {
        let schema = Value::from(schema.unwrap_or_default());
        let rows = self
            .read_with(OBJECTS, vec![schema.clone(), schema], many(limits))
            .await?;
        Ok(Listed {
            all: rows.rows.iter().map(|row| object(row)).collect(),
            truncated: rows.truncated,
        })
    }

    async fn find(&self, named: &str, limits: Limits) -> Result<(Object, String, Vec<Value>), Error> {
        let (schema, name) = split_name(named)?;
        let within = Value::from(schema.as_deref().unwrap_or_default());
        let limits = Limits {
            bytes: limits.bytes.max(ROOM),
            ..many(limits)
        };
        let values = vec![within.clone(), within, Value::from(name.as_str())];
        let known = self.read_with(NAMED, values, limits).await?;
        let found = known
            .rows
            .iter()
            .map(|row| object(row))
            .find(|object| object.name == name)
            .ok_or_else(|| not_found(named))?;
        let schema = found.schema.clone().unwrap_or_default();
        let place = vec![Value::from(schema.as_str()), Value::from(found.name.as_str())];
        let table = format!("{}.{}", quoted(&schema), quoted(&found.name));
        Ok((found, table, place))
    }

    pub(crate) async fn describe(&self, named: &str, limits: Limits) -> Result<Description, Error> {
        let limits = many(limits);
        let (object, table, place) = self.find(named, limits).await?;
        let columns = self.read_with(COLUMNS, place.clone(), limits).await?;
        let keys = match object.kind.as_str() {
            "table" => {
                let rows = self.read(&format!("SHOW CREATE TABLE {table}"), limits).await?;
                rows.rows
                    .first()
                    .and_then(|row| text(row.get(1)))
                    .unwrap_or_default()
            }
            _ => String::new(),
        };
        let indexes = self.read_with(INDEXES, place, limits).await?;
        Ok(Description {
            object,
            columns: catalogue::columns(&columns, |cell| text(cell).as_deref() == Some("YES")),
            keys: keys.lines().filter_map(key).collect(),
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
        let (_, table, _) = self.find(named, limits).await?;
        let order = if sample { " ORDER BY RAND()" } else { "" };
        let more = rows.saturating_add(1);
        self.read(
            &format!("SELECT * FROM {table}{order} LIMIT {more}"),
            Limits { rows, ..limits },
        )
        .await
    }

    /// The plan as the server prints it: JSON where it was asked for, else a line for every row.
    pub(crate) async fn explain(&self, statement: &str, limits: Limits) -> Result<String, Error> {
        let rows = self.read(statement, limits).await?;
        if let [row] = rows.rows.as_slice()
            && let [one] = row.as_slice()
        {
            return Ok(match one {
                Cell::Json(raw) => raw.get().to_owned(),
                other => text(Some(other)).unwrap_or_default(),
            });
        }
        Ok(crate::answer::Answer::Rows(rows).text())
    }
}

/// A key or check as a line of the table's own statement says it. The catalogue would tell accounts that only read nothing of it.
fn key(line: &str) -> Option<Rule> {
    let line = line.trim().trim_end_matches(',');
    let (name, rest) = match line.strip_prefix("CONSTRAINT `") {
        Some(rest) => rest.split_once("` ")?,
        None => ("", line),
    };
    let kind = [
        ("PRIMARY KEY", "primary"),
        ("FOREIGN KEY", "foreign"),
        ("UNIQUE KEY", "unique"),
        ("CHECK", "check"),
    ]
    .into_iter()
    .find_map(|(word, kind)| rest.starts_with(word).then_some(kind))?;
    let own_name = || rest.split('`').nth(1).unwrap_or(kind);
    Some(Rule {
        name: match (name, kind) {
            ("", "unique") => own_name().to_owned(),
            ("", _) => kind.to_owned(),
            (name, _) => name.to_owned(),
        },
        kind: kind.to_owned(),
        definition: rest.to_owned(),
    })
}
