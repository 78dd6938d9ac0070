//! What the program says of itself: help with an example for each command, completions, the manual page. Never runs a command for its effect.

use crate::support::Place;

/// The commands that `--help` of a command lists, without `help` itself.
fn subcommands(help: &str) -> Vec<String> {
    let listed = help
        .split_once("\nCommands:\n")
        .map_or("", |(_, rest)| rest.split("\n\n").next().unwrap());
    // A description that needs a second line is indented further.
    let names = listed
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Every command of the program, as its words.
fn commands(place: &Place, words: &[String]) -> Vec<Vec<String>> {
    let mut arguments: Vec<&str> = words.iter().map(String::as_str).collect();
    arguments.push("--help");
    let mut all = vec![words.to_vec()];
    for name in subcommands(&place.ok(&arguments)) {
        all.extend(commands(place, &[words, &[name]].concat()));
    }
    all
}

#[test]
fn every_command_has_help_with_an_example() {
    let place = Place::new();
    let all = commands(&place, &[]);
    let of = |words: &str| words.split(' ').map(str::to_owned).collect::<Vec<_>>();
    for known in [
        "serve",
        "demo",
        "owner add",
        "owner passwd",
        "token revoke",
        "connector add",
        "chief set",
        "plugins retry",
        "audit list",
        "config show",
        "doctor",
        "completions",
        "man",
    ] {
        assert!(all.contains(&of(known)), "{known} is not in {all:?}");
    }
    for words in all {
        let mut arguments: Vec<&str> = words.iter().map(String::as_str).collect();
        for flag in ["--help", "-h"] {
            arguments.push(flag);
            let said = place.run(&arguments);
            assert_eq!((said.code(), said.err.as_str()), (0, ""), "{words:?}");
            let example = said
                .out
                .split_once("Example: ")
                .unwrap_or_else(|| panic!("muster {} has no example:\n{}", words.join(" "), said.out))
                .1;
            assert!(
                example.contains(&format!("muster {}", words.join(" "))),
                "{words:?}: {example}"
            );
            arguments.pop();
        }
    }
    assert!(!place.data().exists(), "help made a data folder");
}

#[test]
fn completions_exist_for_each_shell_and_name_the_commands() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = place.ok(&["completions", shell]);
        for word in ["connector", "password-stdin", "data-scope"] {
            assert!(text.contains(word), "{shell} does not complete {word}");
        }
        for hidden in ["demo-chief", "demo-connector", "demo__chief"] {
            assert!(
                !text.contains(hidden),
                "{shell} offers {hidden}, which is no command for people"
            );
        }
    }
    let script = place.path("muster.bash");
    std::fs::write(&script, place.ok(&["completions", "bash"])).unwrap();
    let checked = std::process::Command::new("bash")
        .arg("-n")
        .arg(&script)
        .output()
        .unwrap();
    assert!(checked.status.success(), "{checked:?}");
    assert_eq!(place.run(&["completions", "csh"]).code(), 2);
}

#[test]
fn the_manual_page_renders_and_holds_every_command() {
    let place = Place::new();
    let page = place.ok(&["man"]);
    assert!(page.contains(".TH muster 1"));
    for words in commands(&place, &[])
        .into_iter()
        .filter(|words| !words.is_empty())
    {
        assert!(
            page.contains(&format!("muster {}", words.join(" ")).replace('-', r"\-")),
            "{words:?} is not on the page"
        );
    }
    let file = place.path("muster.1");
    std::fs::write(&file, &page).unwrap();
    let Ok(drawn) = std::process::Command::new("groff")
        .args(["-man", "-Tutf8", "-ww"])
        .arg(&file)
        .output()
    else {
        assert!(
            std::env::var_os("CI").is_none(),
            "groff is not installed, and in CI this may not be left out"
        );
        eprintln!("SKIPPED: groff is not installed, so the page was not drawn");
        return;
    };
    assert!(
        drawn.status.success() && drawn.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&drawn.stderr)
    );
    let drawn = String::from_utf8(drawn.stdout).unwrap();
    assert!(
        drawn.contains("--password-stdin")
            && drawn.contains("printf '%s\\n' \"$PASSWORD\" | muster owner add"),
        "{drawn}"
    );
}
