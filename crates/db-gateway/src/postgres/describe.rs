//! What is in a database of PostgreSQL, by constant queries of its catalogue. Never puts a name into a statement without quoting it.

use super::Server;
use crate::answer::{Cell, Rows};
use crate::catalogue::{
    self, Description, Listed, Object, Schema, many, not_found, rules, schemas, split_name, text,
};
use crate::error::Error;
use crate::limits::Limits;

pub(super) const SCHEMAS: &str = "SELECT n.nspname FROM pg_catalog.pg_namespace n \
     WHERE n.nspname !~ '^pg_(toast|temp_|toast_temp_)' AND pg_catalog.has_schema_privilege(n.oid, 'USAGE') \
     ORDER BY n.nspname IN ('pg_catalog', 'information_schema'), n.nspname";

pub(super) const OBJECTS: &str = "SELECT n.nspname, c.relname, CASE c.relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized_view' \
     WHEN 'f' THEN 'foreign_table' WHEN 'S' THEN 'sequence' WHEN 'i' THEN 'index' WHEN 'I' THEN 'index' ELSE 'table' END, \
     CASE WHEN c.relkind IN ('r', 'm', 'i', 'p') THEN pg_catalog.pg_relation_size(c.oid)::text END, \
     pg_catalog.obj_description(c.oid, 'pg_class') \
     FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
     WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S', 'i', 'I') AND pg_catalog.has_schema_privilege(n.oid, 'USAGE') \
     AND (n.nspname = $1 OR ($1 = '' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema')) \
     ORDER BY n.nspname, c.relkind IN ('i', 'I'), c.relname";

const FIND: &str = "SELECT c.oid::text, n.nspname, c.relname, CASE c.relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized_view' \
     WHEN 'f' THEN 'foreign_table' WHEN 'S' THEN 'sequence' WHEN 'i' THEN 'index' WHEN 'I' THEN 'index' ELSE 'table' END, \
     CASE WHEN c.relkind IN ('r', 'm', 'i', 'p') THEN pg_catalog.pg_total_relation_size(c.oid)::text END, \
     pg_catalog.obj_description(c.oid, 'pg_class'), c.reltuples::bigint::text \
     FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
     WHERE c.relname = $2 AND (n.nspname = $1 OR ($1 = '' AND pg_catalog.pg_table_is_visible(c.oid))) \
     ORDER BY c.relkind IN ('i', 'I') LIMIT 1";

const COLUMNS: &str = "SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), NOT a.attnotnull, \
     pg_catalog.pg_get_expr(d.adbin, d.adrelid), pg_catalog.col_description(a.attrelid, a.attnum) \
     FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
     WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum";

const KEYS: &str = "SELECT conname, CASE contype WHEN 'p' THEN 'primary' WHEN 'f' THEN 'foreign' WHEN 'u' THEN 'unique' \
     WHEN 'c' THEN 'check' WHEN 'x' THEN 'exclusion' ELSE 'other' END, pg_catalog.pg_get_constraintdef(oid) \
     FROM pg_catalog.pg_constraint WHERE conrelid = $1::oid ORDER BY contype <> 'p', conname";

const INDEXES: &str = "SELECT c.relname, CASE WHEN i.indisunique THEN 'unique' ELSE 'index' END, pg_catalog.pg_get_indexdef(i.indexrelid) \
     FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = $1::oid ORDER BY c.relname";

struct Found {
    oid: String,
    object: Object,
    rows: f64,
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
        let rows = self
            .read_with(OBJECTS, &[schema.unwrap_or_default()], many(limits))
            .await?;
        let object = |row: &Vec<Cell>| Object {
            schema: text(row.first()),
            name: text(row.get(1)).unwrap_or_default(),
            kind: text(row.get(2)).unwrap_or_default(),
            bytes: text(row.get(3)).and_then(|bytes| bytes.parse().ok()),
            comment: text(row.get(4)),
        };
        Ok(Listed {
            all: rows.rows.iter().map(object).collect(),
            truncated: rows.truncated,
        })
    }

    async fn find(&self, object: &str, limits: Limits) -> Result<Found, Error> {
        let (schema, name) = split_name(object)?;
        let rows = self
            .read_with(FIND, &[schema.as_deref().unwrap_or_default(), &name], limits)
            .await?;
        let row = rows.rows.first().ok_or_else(|| not_found(object))?;
        Ok(Found {
            oid: text(row.first()).unwrap_or_default(),
            object: Object {
                schema: text(row.get(1)),
                name: text(row.get(2)).unwrap_or_default(),
                kind: text(row.get(3)).unwrap_or_default(),
                bytes: text(row.get(4)).and_then(|bytes| bytes.parse().ok()),
                comment: text(row.get(5)),
            },
            rows: text(row.get(6))
                .and_then(|rows| rows.parse().ok())
                .unwrap_or(-1.0),
        })
    }

    pub(crate) async fn describe(&self, object: &str, limits: Limits) -> Result<Description, Error> {
        let limits = many(limits);
        let found = self.find(object, limits).await?;
        let columns = self.read_with(COLUMNS, &[&found.oid], limits).await?;
        let keys = self.read_with(KEYS, &[&found.oid], limits).await?;
        let indexes = self.read_with(INDEXES, &[&found.oid], limits).await?;
        Ok(Description {
            object: found.object,
            columns: catalogue::columns(&columns, |cell| matches!(cell, Some(Cell::Bool(true)))),
            keys: rules(&keys),
            indexes: rules(&indexes),
        })
    }

    pub(crate) async fn preview(
        &self,
        object: &str,
        rows: usize,
        sample: bool,
        limits: Limits,
    ) -> Result<Rows, Error> {
        let found = self.find(object, limits).await?;
        if found.object.kind == "index" {
            return Err(not_found(object));
        }
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let table = format!(
            "{}.{}",
            quoted(found.object.schema.as_deref().unwrap_or("public")),
            quoted(&found.object.name)
        );
        #[expect(clippy::cast_precision_loss, reason = "a share of the rows need not be exact")]
        let share = (rows as f64 * 200.0 / found.rows.max(1.0)).clamp(0.000_1, 100.0);
        let sampled =
            sample && matches!(found.object.kind.as_str(), "table" | "materialized_view") && found.rows > 0.0;
        let picked = if sampled {
            format!(" TABLESAMPLE BERNOULLI ({share})")
        } else {
            String::new()
        };
        // One more than wanted, so that it is known whether there are more.
        self.read(
            &format!("SELECT * FROM {table}{picked} LIMIT {}", rows.saturating_add(1)),
            Limits { rows, ..limits },
        )
        .await
    }

    /// The plan as PostgreSQL prints it. Nothing runs, unless the statement itself says ANALYZE and only reads.
    pub(crate) async fn explain(&self, statement: &str, limits: Limits) -> Result<String, Error> {
        let rows = self.query(statement, limits).await?;
        let lines: Vec<String> = rows.rows.iter().filter_map(|row| text(row.first())).collect();
        if lines.is_empty() {
            // EXPLAIN (FORMAT JSON) answers one JSON value.
            let json = rows.rows.first().and_then(|row| row.first());
            return Ok(json
                .and_then(|json| serde_json::to_string(json).ok())
                .unwrap_or_default());
        }
        Ok(lines.join("\n"))
    }
}
