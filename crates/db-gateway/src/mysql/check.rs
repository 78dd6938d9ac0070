//! Whether an account of MySQL may do more than read, and whether the guarantees hold on it. Never leaves anything behind: all of it runs as reads do.

use std::time::{Duration, Instant};

use super::Server;
use super::describe::quoted;
use crate::answer::Cell;
use crate::catalogue::{Guarantee, Wide, first, text};
use crate::error::Error;
use crate::limits::Limits;

/// Rights that only read.
const NARROW: [&str; 5] = ["USAGE", "SELECT", "SHOW VIEW", "SHOW DATABASES", "SHOW_ROUTINE"];

fn short() -> Limits {
    Limits {
        rows: 100,
        bytes: 64 * 1024,
        time: Duration::from_secs(5),
    }
}

/// What one line of SHOW GRANTS gives beyond reading.
fn beyond(line: &str) -> Option<String> {
    let rest = line.strip_prefix("GRANT ")?;
    let Some((rights, on)) = split_on(rest) else {
        // A role: what it gives is not in the line.
        let role = rest.split(" TO ").next().unwrap_or_default();
        return Some(format!("The account has the role {role}."));
    };
    let place = on.split(" TO ").next().unwrap_or_default();
    let mut more: Vec<&str> = list(rights)
        .into_iter()
        .filter(|right| !NARROW.contains(&right.split('(').next().unwrap_or_default().trim()))
        .collect();
    if line.contains("WITH GRANT OPTION") {
        more.push("GRANT OPTION");
    }
    if !more.is_empty() {
        return Some(format!("The account has {} on {place}.", more.join(", ")));
    }
    (place == "*.*" && list(rights).contains(&"SELECT"))
        .then(|| "The account reads every database, the accounts of the server included.".to_owned())
}

/// `RIGHTS ON PLACE …`, where a right may have columns in parentheses.
fn split_on(rest: &str) -> Option<(&str, &str)> {
    rest.split_once(" ON ")
}

/// Cuts at commas outside of parentheses.
fn list(rights: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    rights
        .split(|letter: char| {
            match letter {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            letter == ',' && depth == 0
        })
        .map(str::trim)
        .collect()
}

impl Server {
    pub(crate) async fn version(&self) -> Result<String, Error> {
        let rows = self.read("SELECT VERSION()", short()).await?;
        Ok(first(&rows).unwrap_or_default())
    }

    pub(crate) async fn wide(&self) -> Result<Wide, Error> {
        let rows = self.read("SHOW GRANTS", short()).await?;
        let mut reasons: Vec<String> = rows
            .rows
            .iter()
            .filter_map(|row| text(row.first()))
            .filter_map(|line| beyond(&line))
            .collect();
        if rows.rows.is_empty() || rows.truncated {
            reasons.push("The server does not say all that the account may do.".to_owned());
        }
        let database = self.read("SELECT DATABASE()", short()).await?;
        let database = database.rows.first().and_then(|row| text(row.first()));
        let place = database.map_or_else(
            || "`DATABASE`.*".to_owned(),
            |name| format!("{}.*", quoted(&name)),
        );
        Ok(Wide {
            wide: !reasons.is_empty(),
            reasons: reasons.into_iter().map(|reason| hide_hash(&reason)).collect(),
            statements: vec![
                "CREATE USER 'muster_reader'@'%' IDENTIFIED BY 'CHANGE_ME';".to_owned(),
                format!("GRANT SELECT, SHOW VIEW ON {place} TO 'muster_reader'@'%';"),
            ],
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
            // 1792 is the read-only mode; the others say that the account may not, which comes first.
            (
                "no_write",
                "to make a temporary table",
                "CREATE TEMPORARY TABLE muster_check (x INT)",
                &["1792", "1044", "1142", "1046"] as &[&str],
            ),
            (
                "one_statement",
                "two statements at once",
                "SELECT 1; SELECT 2",
                &["1064"],
            ),
        ] {
            let got = match self.read(statement, short()).await {
                Ok(_) => "no error".to_owned(),
                Err(Error::Engine { code, .. }) => code,
                Err(error) => error.to_string(),
            };
            let ok = right.contains(&got.as_str());
            found.push(Guarantee::refused(id, what, ok, &got, &right.join(" or ")));
        }
        found.push(self.leaves_nothing().await);
        let limits = Limits {
            time: Duration::from_millis(300),
            ..short()
        };
        let begun = Instant::now();
        let _ = self.read("SELECT SLEEP(8)", limits).await;
        found.push(Guarantee::of(
            "time_limit",
            begun.elapsed() < Duration::from_secs(4),
            "Let a statement of 8 s run with a limit of 0.3 s: the server stopped it, or muster hung up.",
            "Let a statement of 8 s run with a limit of 0.3 s: it was not stopped.",
        ));
        found
    }

    /// A variable and a lock of one read are gone in the next, on whichever session it runs.
    async fn leaves_nothing(&self) -> Guarantee {
        let id = "nothing_stays";
        if let Err(error) = self
            .read("SELECT @muster_check := 1, GET_LOCK('muster_check', 0)", short())
            .await
        {
            return Guarantee::broken(id, error.to_string());
        }
        match self
            .read(
                "SELECT @muster_check IS NULL AND IS_USED_LOCK('muster_check') IS NULL",
                short(),
            )
            .await
        {
            Ok(rows) => Guarantee::of(
                id,
                matches!(rows.rows.first().and_then(|row| row.first()), Some(Cell::Int(1))),
                "Set a variable and took a lock in one read: both were gone in the next.",
                "Set a variable and took a lock in one read: one of them was still there in the next.",
            ),
            Err(error) => Guarantee::broken(id, error.to_string()),
        }
    }
}

/// SHOW GRANTS of MariaDB prints the hash of the password; nobody needs it here.
fn hide_hash(reason: &str) -> String {
    reason
        .split(" IDENTIFIED BY")
        .next()
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_beyond_reading_is_named() {
        assert_eq!(
            beyond("GRANT USAGE ON *.* TO `r`@`%` IDENTIFIED BY PASSWORD '*AB'"),
            None
        );
        assert_eq!(beyond("GRANT SELECT, SHOW VIEW ON `app`.* TO `r`@`%`"), None);
        assert_eq!(beyond("GRANT SELECT (`a`, `b`) ON `app`.`t` TO `r`@`%`"), None);
        let insert = beyond("GRANT SELECT, INSERT (`a`) ON `app`.`t` TO `r`@`%`").unwrap();
        assert!(
            insert.contains("INSERT") && !insert.contains("SELECT"),
            "{insert}"
        );
        assert!(beyond("GRANT ALL PRIVILEGES ON *.* TO `root`@`localhost` WITH GRANT OPTION").is_some());
        assert!(
            beyond("GRANT SELECT ON `app`.* TO `r`@`%` WITH GRANT OPTION")
                .unwrap()
                .contains("GRANT OPTION")
        );
        assert!(beyond("GRANT SELECT ON *.* TO `r`@`%`").is_some());
        assert!(beyond("GRANT `writer` TO `r`@`%`").is_some());
    }
}
