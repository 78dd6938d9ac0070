//! The pages in a real browser: runs each story of `tests/browser` against the program just built. Never lets a story be forgotten: in CI a missing browser fails.
#![cfg(test)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// What the stories need beside the program.
struct Tools {
    /// The folder that holds `npm/node_modules`.
    folder: PathBuf,
    chromium: PathBuf,
}

impl Tools {
    /// What there is, or what is missing.
    fn found() -> Result<Self, String> {
        let folder = std::env::var_os("MUSTER_TEST_TOOLS")
            .map(PathBuf::from)
            .ok_or("MUSTER_TEST_TOOLS is not set")?;
        let chromium = std::env::var_os("MUSTER_TEST_CHROMIUM")
            .map_or_else(|| PathBuf::from("/usr/bin/chromium"), PathBuf::from);
        for needed in [
            &folder.join("npm/node_modules/playwright-core"),
            &folder.join("npm/node_modules/axe-core"),
            &chromium,
        ] {
            if !needed.exists() {
                return Err(format!("{} does not exist", needed.display()));
            }
        }
        let node = Command::new("node")
            .arg("--version")
            .output()
            .map_err(|error| format!("node cannot be started: {error}"))?;
        if node.status.success() {
            Ok(Self { folder, chromium })
        } else {
            Err("node --version fails".to_owned())
        }
    }
}

/// Runs one story to its end.
fn tell(story: &str) {
    let tools = match Tools::found() {
        Ok(tools) => tools,
        Err(missing) if std::env::var_os("CI").is_some() => {
            panic!("{missing}; ./test installs what the browser tests need")
        }
        Err(missing) => {
            eprintln!("SKIPPED in the browser: {story}: {missing} (./test installs it)");
            return;
        }
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = Path::new(env!("CARGO_BIN_EXE_muster"));
    let screenshots = program.ancestors().nth(2).unwrap().join("screenshots");
    let ended = Command::new("node")
        .arg(root.join("tests/browser").join(format!("{story}.mjs")))
        .env("MUSTER_TEST_BINARY", program)
        .env("MUSTER_TEST_TOOLS", tools.folder)
        .env("MUSTER_TEST_CHROMIUM", tools.chromium)
        .env("MUSTER_TEST_SCREENSHOTS", screenshots)
        .status()
        .unwrap();
    assert!(
        ended.success(),
        "the story {story} ended with {ended}; what it said stands above"
    );
}

/// One browser at a time: it takes both cores of a small machine.
mod heavy {
    use super::tell;

    // spec: TOK-003 TOK-025 TOK-026 UIP-007
    #[test]
    fn an_owner_is_set_up_once_signs_in_and_out_and_ends_every_sign_in() {
        tell("accounts");
    }

    // spec: TOK-026 DRF-043 DRF-044 UIP-007 UIP-021
    #[test]
    fn a_passkey_signs_in_and_confirms_only_when_its_holder_was_verified() {
        tell("passkeys");
    }

    // spec: DRF-035 DRF-036 DRF-037 DRF-081 UIP-005 UIP-008 UIP-009 UIP-016 UIP-017
    #[test]
    fn the_tour_goes_from_its_printed_link_to_a_sent_mail_and_a_hostile_mail_does_nothing() {
        tell("demo");
    }

    // spec: TOK-001 TOK-002 TOK-004 TOK-005 DRF-036..DRF-042 DRF-044..DRF-049 DRF-051 DRF-052 DRF-079 DRF-081
    // spec: UIP-010..UIP-012 UIP-015..UIP-021 RTY-001 RTY-002 RTY-004
    #[test]
    fn every_act_works_without_a_script() {
        tell("without_script");
    }

    // spec: TOK-005 TOK-022 TOK-023 TOK-024 UIP-005 UIP-008 UIP-011 UIP-012 UIP-016 UIP-018
    #[test]
    fn an_open_page_keeps_itself_up_to_date_and_takes_nothing_from_the_hand() {
        tell("live");
    }

    // spec: UIP-009
    #[test]
    fn every_page_is_for_everybody() {
        tell("access");
    }
}
