//! What a person typed, as an act: plain text, or a command that begins with a slash. Never takes a command it does not know for text.

use muster_bus::push::ControlCommand;
use muster_bus::tools::To;
use muster_bus::{RoomName, SeatId};

/// A line of `/help`: how it is spelled and what it does.
pub(crate) struct Help {
    /// Its name, without the slash.
    pub(crate) name: &'static str,
    /// What follows it.
    pub(crate) takes: &'static str,
    /// What it does.
    pub(crate) does: &'static str,
    /// What its first argument names, for completion.
    pub(crate) first: First,
}

/// What the first argument of a command names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum First {
    /// An agent.
    Agent,
    /// A channel.
    Channel,
    /// An agent, or a channel with its `#`.
    Either,
    /// Nothing that can be completed.
    Free,
}

const fn help(name: &'static str, takes: &'static str, does: &'static str, first: First) -> Help {
    Help {
        name,
        takes,
        does,
        first,
    }
}

/// Every command, in the order in which they are shown.
pub(crate) const COMMANDS: [Help; 22] = [
    help("dm", "<agent> <text>", "send a direct message", First::Agent),
    help(
        "msg",
        "<#chan> <text>",
        "post to a channel without switching to it",
        First::Channel,
    ),
    help(
        "join",
        "<#chan>",
        "join a channel and switch to it; makes it if it is new",
        First::Channel,
    ),
    help(
        "part",
        "[#chan]",
        "leave this channel, or the named one",
        First::Channel,
    ),
    help(
        "rooms",
        "",
        "list the channels: topic, members, unread",
        First::Free,
    ),
    help("topic", "[text]", "show or set this channel's topic", First::Free),
    help("motd", "[text]", "show or set this channel's rules", First::Free),
    help(
        "list",
        "",
        "who is registered, and how they are reached",
        First::Free,
    ),
    help(
        "whois",
        "<agent>",
        "one agent: role, channels, status",
        First::Agent,
    ),
    help(
        "nick",
        "<id>",
        "take another id; messages and channels come along",
        First::Free,
    ),
    help("away", "[msg]", "say that you are away", First::Free),
    help("back", "", "say that you are back", First::Free),
    help(
        "ignore",
        "[agent]",
        "mute an agent until you quit; alone: whom you mute",
        First::Agent,
    ),
    help("unignore", "<agent>", "hear a muted agent again", First::Agent),
    help(
        "history",
        "[n]",
        "show the last n messages of this channel (20)",
        First::Free,
    ),
    help(
        "doctor",
        "[--fix]",
        "check the bus's directory; --fix repairs what is safe to",
        First::Free,
    ),
    help(
        "clear",
        "<agent|#chan>",
        "empty the context of an attached agent's program, or of every one in a channel",
        First::Either,
    ),
    help("compact", "<agent|#chan>", "shorten it instead", First::Either),
    help(
        "reload-skills",
        "<agent|#chan>",
        "have the program read its skills again",
        First::Either,
    ),
    help("help", "", "this list", First::Free),
    help(
        "quit",
        "[msg]",
        "say msg here if given, unregister and end",
        First::Free,
    ),
    help("exit", "", "the same as /quit", First::Free),
];

/// The text of `/help`, without what the keys of one screen do.
pub(crate) fn help_lines() -> Vec<String> {
    let commands = COMMANDS
        .iter()
        .map(|help| (format!("/{} {}", help.name, help.takes), help.does));
    let texts = [
        ("text".to_owned(), "post to this channel"),
        ("//text".to_owned(), "post a text that begins with a slash"),
    ];
    let marks = [(
        "! #chan [dm]".to_owned(),
        "before a name: it names you, it was said there, it is for you alone",
    )];
    texts
        .into_iter()
        .chain(commands)
        .chain(marks)
        .map(|(spelled, does)| format!("{:<29} {does}", spelled.trim_end()))
        .collect()
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    /// Nothing was typed.
    Nothing,
    Say(String),
    Dm {
        to: SeatId,
        text: String,
    },
    Msg {
        room: RoomName,
        text: String,
    },
    Join(RoomName),
    Part(Option<RoomName>),
    Rooms,
    Topic(Option<String>),
    Motd(Option<String>),
    List,
    Whois(SeatId),
    Nick(SeatId),
    Away(Option<String>),
    Back,
    Ignore(Option<String>),
    Unignore(String),
    History(usize),
    Doctor {
        fix: bool,
    },
    /// A command for agents' own programs.
    Control {
        to: To,
        command: ControlCommand,
    },
    Help,
    Quit(Option<String>),
}

/// How many messages `/history` shows unless told otherwise.
pub(crate) const HISTORY: usize = 20;

/// Reads what was typed. The error is a sentence; nothing is to be done then.
pub(crate) fn parse(typed: &str) -> Result<Command, String> {
    if typed.trim().is_empty() {
        return Ok(Command::Nothing);
    }
    let Some(command) = typed.strip_prefix('/') else {
        return Ok(Command::Say(typed.to_owned()));
    };
    if command.starts_with('/') {
        return Ok(Command::Say(command.to_owned()));
    }
    let (name, rest) = first_word(command);
    let name = name.to_ascii_lowercase();
    let rest = rest.trim_end();
    let some = || Some(rest.to_owned()).filter(|text| !text.is_empty());
    Ok(match name.as_str() {
        "dm" => {
            let (to, text) = with_text(rest, "/dm <agent> <text>")?;
            Command::Dm { to: seat(to)?, text }
        }
        "msg" => {
            let (to, text) = with_text(rest, "/msg <#chan> <text>")?;
            Command::Msg {
                room: room(to)?,
                text,
            }
        }
        "join" => Command::Join(room(one(rest, "/join <#chan>")?)?),
        "part" if rest.is_empty() => Command::Part(None),
        "part" => Command::Part(Some(room(one(rest, "/part [#chan]")?)?)),
        "rooms" => Command::Rooms,
        "topic" => Command::Topic(some()),
        "motd" => Command::Motd(some()),
        "list" => Command::List,
        "whois" => Command::Whois(seat(one(rest, "/whois <agent>")?)?),
        "nick" => Command::Nick(seat(one(rest, "/nick <id>")?)?),
        "away" => Command::Away(some()),
        "back" => Command::Back,
        "ignore" if rest.is_empty() => Command::Ignore(None),
        "ignore" => Command::Ignore(Some(bare(one(rest, "/ignore [agent]")?))),
        "unignore" => Command::Unignore(bare(one(rest, "/unignore <agent>")?)),
        "history" => Command::History(count(rest)?),
        "doctor" if rest.is_empty() => Command::Doctor { fix: false },
        "doctor" if rest == "--fix" => Command::Doctor { fix: true },
        "doctor" => return Err(usage("/doctor [--fix]")),
        "clear" => control(rest, ControlCommand::Clear)?,
        "compact" => control(rest, ControlCommand::Compact)?,
        "reload-skills" => control(rest, ControlCommand::ReloadSkills)?,
        "help" => Command::Help,
        "quit" | "exit" => Command::Quit(some()),
        _ => {
            let name = crate::text::fit(&crate::text::line(&name), 40);
            return Err(format!(
                "there is no command /{name}, so nothing was posted; /help lists them, and //{name} posts a text that begins with a slash"
            ));
        }
    })
}

/// The first word and what follows it.
fn first_word(text: &str) -> (&str, &str) {
    match text
        .find(char::is_whitespace)
        .and_then(|at| text.split_at_checked(at))
    {
        Some((word, rest)) => (word, rest.trim_start_matches([' ', '\t'])),
        None => (text, ""),
    }
}

fn with_text<'t>(rest: &'t str, how: &str) -> Result<(&'t str, String), String> {
    let (to, text) = first_word(rest);
    if to.is_empty() || text.trim().is_empty() {
        return Err(usage(how));
    }
    Ok((to, text.to_owned()))
}

fn one<'t>(rest: &'t str, how: &str) -> Result<&'t str, String> {
    let (word, more) = first_word(rest);
    if word.is_empty() || !more.is_empty() {
        return Err(usage(how));
    }
    Ok(word)
}

fn usage(how: &str) -> String {
    format!("it is spelled {how}; nothing was done")
}

/// An id may be written as it is mentioned.
fn bare(word: &str) -> String {
    word.strip_prefix('@').unwrap_or(word).to_owned()
}

fn seat(word: &str) -> Result<SeatId, String> {
    SeatId::parse(&bare(word)).map_err(|error| error.to_string())
}

fn room(word: &str) -> Result<RoomName, String> {
    RoomName::parse(word).map_err(|error| error.to_string())
}

fn control(rest: &str, command: ControlCommand) -> Result<Command, String> {
    let whom = one(rest, &format!("{command} <agent|#chan>"))?;
    let to = if whom.starts_with('#') {
        To::Room(room(whom)?)
    } else {
        To::Agent(seat(whom)?)
    };
    Ok(Command::Control { to, command })
}

fn count(rest: &str) -> Result<usize, String> {
    if rest.is_empty() {
        return Ok(HISTORY);
    }
    match rest.parse() {
        Ok(count @ 1..=500) => Ok(count),
        _ => Err("/history takes a number from 1 to 500; nothing was done".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn room_of(name: &str) -> RoomName {
        RoomName::parse(name).unwrap()
    }

    fn seat_of(name: &str) -> SeatId {
        SeatId::parse(name).unwrap()
    }

    #[test]
    fn each_command_is_read_as_it_is_spelled() {
        let (bob, ops) = (seat_of("bob"), room_of("ops"));
        let table = [
            ("hello there ", Command::Say("hello there ".into())),
            ("  ", Command::Nothing),
            ("//clear", Command::Say("/clear".into())),
            (
                "/dm bob hi  there",
                Command::Dm {
                    to: bob.clone(),
                    text: "hi  there".into(),
                },
            ),
            (
                "/DM @bob hi\nyou",
                Command::Dm {
                    to: bob.clone(),
                    text: "hi\nyou".into(),
                },
            ),
            (
                "/msg #Ops GO: now",
                Command::Msg {
                    room: ops.clone(),
                    text: "GO: now".into(),
                },
            ),
            ("/join ops", Command::Join(ops.clone())),
            ("/part", Command::Part(None)),
            ("/part #ops", Command::Part(Some(ops))),
            ("/rooms", Command::Rooms),
            ("/topic", Command::Topic(None)),
            ("/topic ship it", Command::Topic(Some("ship it".into()))),
            ("/motd be kind", Command::Motd(Some("be kind".into()))),
            ("/list", Command::List),
            ("/whois bob", Command::Whois(bob.clone())),
            ("/nick bob", Command::Nick(bob)),
            ("/away", Command::Away(None)),
            ("/away lunch", Command::Away(Some("lunch".into()))),
            ("/back", Command::Back),
            ("/ignore @bob", Command::Ignore(Some("bob".into()))),
            ("/ignore", Command::Ignore(None)),
            ("/unignore bob", Command::Unignore("bob".into())),
            ("/history", Command::History(HISTORY)),
            ("/history 3", Command::History(3)),
            ("/doctor", Command::Doctor { fix: false }),
            ("/doctor --fix", Command::Doctor { fix: true }),
            (
                "/clear @bob",
                Command::Control {
                    to: To::Agent(seat_of("bob")),
                    command: ControlCommand::Clear,
                },
            ),
            (
                "/compact #Ops",
                Command::Control {
                    to: To::Room(room_of("ops")),
                    command: ControlCommand::Compact,
                },
            ),
            (
                "/reload-skills bob",
                Command::Control {
                    to: To::Agent(seat_of("bob")),
                    command: ControlCommand::ReloadSkills,
                },
            ),
            ("/help", Command::Help),
            ("/quit", Command::Quit(None)),
            ("/quit so long", Command::Quit(Some("so long".into()))),
        ];
        for (typed, command) in table {
            assert_eq!(parse(typed), Ok(command), "{typed:?}");
        }
    }

    #[test]
    fn what_is_not_a_command_is_told_and_is_no_text() {
        for typed in [
            "/foo",
            "/",
            "/ hi",
            "/clear",
            "/clear bob now",
            "/compact",
            "/dm",
            "/dm bob",
            "/msg #ops",
            "/join",
            "/join a b",
            "/join ../x",
            "/nick a/b",
            "/doctor --what",
            "/history 0",
            "/history x",
            "/whois",
            "/\u{1b}[2J",
        ] {
            let said = parse(typed).unwrap_err();
            assert!(said.contains("nothing was"), "{typed:?}: {said}");
            assert!(!said.contains('\u{1b}'));
        }
    }

    #[test]
    fn help_names_every_command() {
        let help = help_lines().join("\n");
        for name in [
            "dm",
            "msg",
            "join",
            "part",
            "rooms",
            "topic",
            "motd",
            "list",
            "whois",
            "nick",
            "away",
            "back",
            "ignore",
            "doctor",
            "clear",
            "compact",
            "reload-skills",
            "quit",
            "help",
        ] {
            assert!(help.contains(&format!("/{name}")), "{name}");
            assert!(
                !parse(&format!("/{name} x y")).is_err_and(|said| said.contains("there is no command")),
                "{name}"
            );
        }
    }

    proptest! {
        #[test]
        fn only_a_doubled_slash_posts_a_text_that_begins_with_one(typed in "/[^/](?s:.{0,40})") {
            prop_assert!(!matches!(parse(&typed), Ok(Command::Say(_))));
        }
    }
}
