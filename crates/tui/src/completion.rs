//! What Tab makes of a half-typed name: commands, agents, channels. Never changes more than the word before the cursor.

use crate::commands::{COMMANDS, First};

/// The names there are, safe to show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Names {
    /// Agents and people.
    pub(crate) agents: Vec<String>,
    /// Channels, without `#`.
    pub(crate) rooms: Vec<String>,
}

/// A word that Tab completes, again with each further Tab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cycle {
    /// Where the word begins, in bytes.
    pub(crate) from: usize,
    /// What it may become, in order.
    options: Vec<String>,
    next: usize,
}

impl Cycle {
    /// The next thing it may become.
    pub(crate) fn turn(&mut self) -> &str {
        let option = self.options.get(self.next).map_or("", String::as_str);
        self.next = (self.next + 1) % self.options.len().max(1);
        option
    }
}

/// What the word before the cursor may become; `None` when nothing begins like it.
pub(crate) fn complete(text: &str, at: usize, names: &Names) -> Option<Cycle> {
    let before = text.get(..at)?;
    let from = before
        .char_indices()
        .rev()
        .find(|(_, c)| c.is_whitespace())
        .map_or(0, |(at, c)| at + c.len_utf8());
    let word = before.get(from..)?;
    let mut options = if from == 0 && word.starts_with('/') {
        commands(word)
    } else {
        let first = argument(before.get(..from)?);
        if first == First::Channel || (word.starts_with('#') && first != First::Agent) {
            channels(word, names)
        } else {
            agents(word, from == 0, names)
        }
    };
    options.dedup();
    (!options.is_empty()).then_some(Cycle {
        from,
        options,
        next: 0,
    })
}

/// What the command before the cursor wants next.
fn argument(before: &str) -> First {
    let mut words = before.split_whitespace();
    match (words.next().and_then(|word| word.strip_prefix('/')), words.next()) {
        (Some(name), None) => COMMANDS
            .iter()
            .find(|help| help.name.eq_ignore_ascii_case(name))
            .map_or(First::Free, |help| help.first),
        _ => First::Free,
    }
}

fn begins(name: &str, word: &str) -> bool {
    name.get(..word.len())
        .is_some_and(|head| head.eq_ignore_ascii_case(word))
}

fn commands(word: &str) -> Vec<String> {
    let word = word.trim_start_matches('/');
    COMMANDS
        .iter()
        .filter(|help| begins(help.name, word))
        .map(|help| format!("/{}{}", help.name, if help.takes.is_empty() { "" } else { " " }))
        .collect()
}

fn channels(word: &str, names: &Names) -> Vec<String> {
    let word = word.trim_start_matches('#');
    names
        .rooms
        .iter()
        .filter(|room| begins(room, word))
        .map(|room| format!("#{room} "))
        .collect()
}

fn agents(word: &str, begins_text: bool, names: &Names) -> Vec<String> {
    let (at, id) = match word.strip_prefix('@') {
        Some(id) => ("@", id),
        None => ("", word),
    };
    // An empty word names everybody, which helps only where an agent is wanted.
    if word.is_empty() && begins_text {
        return Vec::new();
    }
    let after = if begins_text { ": " } else { " " };
    names
        .agents
        .iter()
        .filter(|agent| begins(agent, id))
        .map(|agent| format!("{at}{agent}{after}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names {
            agents: vec!["alice".into(), "albert".into(), "bob".into()],
            rooms: vec!["general".into(), "ops".into()],
        }
    }

    fn turns(text: &str) -> Vec<String> {
        let Some(mut cycle) = complete(text, text.len(), &names()) else {
            return Vec::new();
        };
        (0..cycle.options.len())
            .map(|_| cycle.turn().to_owned())
            .collect()
    }

    #[test]
    fn a_word_becomes_what_stands_in_its_place() {
        assert_eq!(turns("/jo"), ["/join "]);
        assert_eq!(turns("/li"), ["/list"]);
        assert_eq!(turns("al"), ["alice: ", "albert: "]);
        assert_eq!(turns("ask AL"), ["alice ", "albert "]);
        assert_eq!(turns("ask @bo"), ["@bob "]);
        assert_eq!(turns("see #o"), ["#ops "]);
        assert_eq!(turns("/join o"), ["#ops "]);
        assert_eq!(turns("/part "), ["#general ", "#ops "]);
        assert_eq!(turns("/dm "), ["alice ", "albert ", "bob "]);
        assert_eq!(turns("/dm bob al"), ["alice ", "albert "]);
        assert_eq!(turns("/clear al"), ["alice ", "albert "]);
        assert_eq!(turns("/clear #"), ["#general ", "#ops "]);
        assert_eq!(turns("zz"), [""; 0]);
        assert_eq!(turns(""), [""; 0]);
    }

    #[test]
    fn each_further_tab_takes_the_next_name() {
        let mut cycle = complete("al", 2, &names()).unwrap();
        assert_eq!(cycle.turn(), "alice: ");
        assert_eq!(cycle.turn(), "albert: ");
        assert_eq!(cycle.turn(), "alice: ");
        assert_eq!(cycle.from, 0);
    }

    #[test]
    fn only_the_word_before_the_cursor_counts() {
        let cycle = complete("ask bo now", 6, &names()).unwrap();
        assert_eq!(cycle.from, 4);
        assert!(complete("日本", 1, &names()).is_none());
    }
}
