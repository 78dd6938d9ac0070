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
    let Some((rights, on)) = split_at(rest, " ON ") else {
        // A role: what it gives is not in the line.
        let role = split_at(rest, " TO ").map_or(rest, |(role, _)| role);
        return Some(format!("The account has the role {role}."));
    };
    let (place, to) = split_at(on, " TO ").unwrap_or((on, ""));
    // Behind the place there are no rights any more, unless a name was taken for its end.
    let odd = bare(to).any(|(_, letter)| matches!(letter, '(' | ')' | ','));
    let Some(rights) = list(rights).filter(|_| !odd) else {
        return Some(format!(
            "The server tells what the account may do on {place} in a way that muster does not understand."
        ));
    };
    let mut more: Vec<&str> = rights
        .iter()
        .copied()
        .filter(|right| !NARROW.contains(&right.split('(').next().unwrap_or_default().trim()))
        .collect();
    if bare(to).any(|(at, _)| {
        to.get(at..)
            .is_some_and(|rest| rest.starts_with("WITH GRANT OPTION"))
    }) {
        more.push("GRANT OPTION");
    }
    if !more.is_empty() {
        return Some(format!("The account has {} on {place}.", more.join(", ")));
    }
    (place == "*.*" && rights.contains(&"SELECT"))
        .then(|| "The account reads every database, the accounts of the server included.".to_owned())
}

/// The letters outside of quotes with their places. A name may hold anything, and the server quotes it: in backticks, or with ANSI_QUOTES in double ones;
/// a quote within a name is doubled.
fn bare(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut quote = None;
    text.char_indices().filter(move |(_, letter)| match quote {
        Some(open) => {
            if *letter == open {
                quote = None;
            }
            false
        }
        None if matches!(letter, '`' | '"' | '\'') => {
            quote = Some(*letter);
            false
        }
        None => true,
    })
}

/// What stands before and behind a word, where it is outside of quotes.
fn split_at<'t>(text: &'t str, word: &str) -> Option<(&'t str, &'t str)> {
    bare(text).find_map(|(at, _)| {
        let (front, rest) = text.split_at_checked(at)?;
        Some((front, rest.strip_prefix(word)?))
    })
}

/// The rights, cut at commas outside of parentheses. None where what stands in parentheses is anything but names and commas: a server that does not
/// quote the names of columns could be made to say what it does not mean.
fn list(rights: &str) -> Option<Vec<&str>> {
    let (mut inside, mut begins, mut found) = (false, 0, Vec::new());
    for (at, letter) in bare(rights) {
        match letter {
            '(' if !inside => inside = true,
            ')' if inside => inside = false,
            '(' | ')' => return None,
            ',' if !inside => {
                found.push(rights.get(begins..at)?.trim());
                begins = at + 1;
            }
            _ if inside && !letter.is_alphanumeric() && !matches!(letter, '_' | '$' | ',' | ' ') => {
                return None;
            }
            _ => {}
        }
    }
    found.push(rights.get(begins..)?.trim());
    (!inside).then_some(found)
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
        let _ = self.read("SELECT SLEEP(30)", limits).await;
        found.push(Guarantee::of(
            "time_limit",
            begun.elapsed() < Duration::from_secs(15),
            "Let a statement of 30 s run with a limit of 0.3 s: the server stopped it, or muster hung up.",
            "Let a statement of 30 s run with a limit of 0.3 s: it was not stopped.",
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

    #[test]
    fn no_name_of_a_column_hides_a_right_behind_it() {
        let insert = |line: &str| beyond(line).is_some_and(|found| found.contains("INSERT (`id`)"));
        for name in [
            "`a(`",
            "`a)`",
            "`a ON x.* TO y`",
            "`a``(`",
            "`)(`",
            "`,`",
            "`\"(`",
            "`'(`",
        ] {
            let rights = format!("SELECT ({name}, `id`)");
            assert_eq!(
                beyond(&format!("GRANT {rights} ON `app`.`t` TO `r`@`%`")),
                None,
                "{name} is read alone"
            );
            assert!(
                insert(&format!("GRANT {rights}, INSERT (`id`) ON `app`.`t` TO `r`@`%`")),
                "{name}"
            );
        }
        // With ANSI_QUOTES.
        let quoted = r#"GRANT SELECT ("a("), INSERT ("b`") ON "app"."t" TO "r"@"%""#;
        assert!(beyond(quoted).unwrap().contains("INSERT"));
        // Of a server that quotes no columns nothing is believed that could be made up.
        for unquoted in [
            "GRANT SELECT (a(, id), INSERT (id) ON `app`.`t` TO `r`@`%`",
            "GRANT SELECT (a(), INSERT (b)) ON `app`.`t` TO `r`@`%`",
            "GRANT SELECT (a) ON `x`.* TO `r`@`%`), INSERT (id) ON `app`.`t` TO `r`@`%`",
            "GRANT SELECT (a`), INSERT (id) ON `app`.`t` TO `r`@`%`",
        ] {
            assert!(beyond(unquoted).is_some(), "{unquoted}");
        }
        assert_eq!(beyond("GRANT SELECT (a, b_1) ON `app`.`t` TO `r`@`%`"), None);
        // A name that says so is not the option, and one that closes nothing is not the end of the place.
        assert_eq!(beyond("GRANT SELECT ON `WITH GRANT OPTION`.* TO `r`@`%`"), None);
        assert!(
            beyond("GRANT SELECT ON `a TO b`.* TO `r`@`%` WITH GRANT OPTION")
                .unwrap()
                .contains("GRANT OPTION on `a TO b`.*")
        );
    }
}
