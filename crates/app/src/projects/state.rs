//! What a project's fields may be, as pure functions. Never looks a repository up.

use super::ProjectError;

/// Longest part of a repository's path, and longest path, in bytes: what a grant can name.
const PART_MAX: usize = 64;
const PATH_MAX: usize = 200;

/// A repository at a forge: `OWNER/NAME`, with further parts where a forge nests its groups. Kept as it was written; what grants name by it is compared without regard to the case of its letters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RepoName(String);

impl RepoName {
    /// Checks a repository's path.
    ///
    /// # Errors
    /// [`ProjectError::Repo`].
    pub fn parse(text: &str) -> Result<Self, ProjectError> {
        let part = |part: &str| {
            (1..=PART_MAX).contains(&part.len())
                && !part.starts_with('-')
                && !matches!(part, "." | "..")
                && part
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
        };
        let fits = text.len() <= PATH_MAX
            && text.contains('/')
            && text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.split('/').all(part);
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err(ProjectError::Repo)
        }
    }

    /// The path.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_an_owner_and_a_name() {
        for good in [
            "ada/engine",
            "Ada-1/engine.rs",
            "group/sub/name",
            "ada/.github",
            "a/_b",
        ] {
            assert_eq!(RepoName::parse(good).unwrap().as_str(), good);
        }
        for bad in [
            "",
            "ada",
            "/ada",
            "ada/",
            "ada//engine",
            "ada/..",
            "ada/../x",
            "./ada",
            "-ada/x",
            "ada/-x",
            "ada/a b",
            "ada/a\nb",
            "https://x/y",
            "ada/engine#1",
            "ada/\u{e9}",
            "ada/x?y",
            ".ada/x",
            "*/*",
            "a,b/c",
        ] {
            assert!(matches!(RepoName::parse(bad), Err(ProjectError::Repo)), "{bad:?}");
        }
        assert!(RepoName::parse(&format!("a/{}", "b".repeat(64))).is_ok());
        assert!(RepoName::parse(&format!("a/{}", "b".repeat(65))).is_err());
        assert!(RepoName::parse(&format!("a/{0}/{0}/{0}/{0}", "b".repeat(60))).is_err());
    }
}
