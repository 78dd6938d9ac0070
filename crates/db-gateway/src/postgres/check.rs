//! Whether an account of PostgreSQL may do more than read, and whether the guarantees hold on it. Never leaves anything behind: all of it runs as reads do.

use std::time::Duration;

use super::{Server, rights};
use crate::catalogue::{Guarantee, Wide, first, text};
use crate::error::Error;
use crate::limits::Limits;

/// What the statements for a narrow account are made of.
const PLACE: &str = "SELECT pg_catalog.quote_ident(pg_catalog.current_database()), \
     (SELECT string_agg(pg_catalog.quote_ident(n.nspname), ',' ORDER BY n.nspname) FROM pg_catalog.pg_namespace n \
        WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'), \
     (SELECT string_agg(pg_catalog.quote_ident(n.nspname), ',' ORDER BY n.nspname) FROM pg_catalog.pg_namespace n, \
        pg_catalog.aclexplode(n.nspacl) a WHERE a.grantee = 0 AND a.privilege_type = 'CREATE'), \
     (SELECT string_agg(pg_catalog.quote_ident(t.nspname) || E'\\t' || pg_catalog.quote_ident(t.rolname), E'\\n' ORDER BY t.nspname, t.rolname) \
        FROM (SELECT DISTINCT n.nspname, o.rolname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
        JOIN pg_catalog.pg_roles o ON o.oid = c.relowner WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') \
        AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema') t), \
     pg_catalog.current_setting('server_version_num')";

/// For tries that must fail quickly.
fn short() -> Limits {
    Limits {
        rows: 10,
        bytes: 64 * 1024,
        time: Duration::from_secs(5),
    }
}

fn code(answer: &Result<crate::answer::Rows, Error>) -> String {
    match answer {
        Ok(_) => "no error".to_owned(),
        Err(Error::Engine { code, .. }) => code.clone(),
        Err(error) => error.to_string(),
    }
}

impl Server {
    pub(crate) async fn version(&self) -> Result<String, Error> {
        let rows = self.read("SELECT pg_catalog.version()", short()).await?;
        Ok(first(&rows).unwrap_or_default())
    }

    pub(crate) async fn wide(&self) -> Result<Wide, Error> {
        let place = self.read(PLACE, Limits::default()).await?;
        let place = place.rows.first().cloned().unwrap_or_default();
        let said = |at: usize| text(place.get(at)).unwrap_or_default();
        let version = said(4).parse().unwrap_or(0);
        let mut reasons = Vec::new();
        for (words, asked) in rights::of(version) {
            let rows = self.read(&asked, Limits::default()).await?;
            let what = rows.rows.first().and_then(|row| text(row.first()));
            if let Some(what) = what.filter(|what| !what.is_empty()) {
                reasons.push(format!("{words} {what}."));
                // Who passes every check has every other right as well.
                if words == rights::SUPERUSER {
                    break;
                }
            }
        }
        Ok(Wide {
            wide: !reasons.is_empty(),
            reasons,
            statements: narrow(&said(0), &said(1), &said(2), &said(3)),
        })
    }

    pub(crate) async fn check(&self) -> Vec<Guarantee> {
        let version = self.version().await;
        let mut found = vec![Guarantee::reached(&version)];
        if version.is_err() {
            return found;
        }
        found.push(Guarantee::account(self.wide().await));
        for (id, what, statement, right) in [
            (
                "no_write",
                "to make a temporary table",
                "CREATE TEMPORARY TABLE muster_check (x integer)",
                "25006",
            ),
            (
                "no_way_out",
                "to leave the read-only mode",
                "SET TRANSACTION READ WRITE",
                "25001",
            ),
            (
                "one_statement",
                "two statements at once",
                "SELECT 1; SELECT 2",
                "42601",
            ),
        ] {
            let got = code(&self.read(statement, short()).await);
            found.push(Guarantee::refused(id, what, got == right, &got, right));
        }
        found.push(self.leaves_nothing().await);
        let limits = Limits {
            time: Duration::from_millis(200),
            ..short()
        };
        let slow = self.read("SELECT pg_catalog.pg_sleep(5)", limits).await;
        found.push(Guarantee::of(
            "time_limit",
            matches!(slow, Err(Error::TimedOut { .. })),
            "Let a statement of 5 s run with a limit of 0.2 s: the server stopped it.",
            "Let a statement of 5 s run with a limit of 0.2 s: the server did not stop it.",
        ));
        found
    }

    /// A setting and a lock of one read are gone in the next, on whichever session it runs.
    async fn leaves_nothing(&self) -> Guarantee {
        let id = "nothing_stays";
        let set = "SELECT pg_catalog.set_config('muster.check', 'left', false), pg_catalog.pg_try_advisory_lock(7463287)";
        if let Err(error) = self.read(set, short()).await {
            return Guarantee::broken(id, error.to_string());
        }
        let ask = "SELECT coalesce(pg_catalog.current_setting('muster.check', true), '') = '' AND NOT EXISTS \
             (SELECT FROM pg_catalog.pg_locks WHERE locktype = 'advisory' AND objid = 7463287 AND pid = pg_catalog.pg_backend_pid())";
        match self.read(ask, short()).await {
            Ok(rows) => {
                let clean = rows.rows.first().and_then(|row| text(row.first())).as_deref() == Some("true");
                Guarantee::of(
                    id,
                    clean,
                    "Changed a setting and took a lock in one read: both were gone in the next.",
                    "Changed a setting and took a lock in one read: one of them was still there in the next.",
                )
            }
            Err(error) => Guarantee::broken(id, error.to_string()),
        }
    }
}

/// The statements for an account that only reads. The names are quoted by the server already.
fn narrow(database: &str, schemas: &str, open_to_all: &str, makers: &str) -> Vec<String> {
    let mut statements = vec![
        "CREATE ROLE muster_reader LOGIN PASSWORD 'CHANGE_ME' NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;".to_owned(),
        "ALTER ROLE muster_reader SET default_transaction_read_only = on;".to_owned(),
        format!("GRANT CONNECT ON DATABASE {database} TO muster_reader;"),
    ];
    for schema in schemas.split(',').filter(|schema| !schema.is_empty()) {
        statements.push(format!("GRANT USAGE ON SCHEMA {schema} TO muster_reader;"));
        statements.push(format!(
            "GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO muster_reader;"
        ));
        statements.push(format!(
            "ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT SELECT ON TABLES TO muster_reader;"
        ));
        // Default privileges hold for what the named role makes: without this, tables that the application makes later could not be read.
        let of_schema = makers.lines().filter_map(|line| line.split_once('\t'));
        statements.extend(of_schema.filter(|(at, _)| *at == schema).map(|(_, maker)| {
            format!("ALTER DEFAULT PRIVILEGES FOR ROLE {maker} IN SCHEMA {schema} GRANT SELECT ON TABLES TO muster_reader;")
        }));
    }
    for schema in open_to_all.split(',').filter(|schema| !schema.is_empty()) {
        statements.push(format!("REVOKE CREATE ON SCHEMA {schema} FROM PUBLIC;"));
    }
    statements
}
