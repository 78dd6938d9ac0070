//! An entry of a log as it is shown: who, to whom, when, in lines. Never keeps a character that a terminal would act on.

use muster_bus::{Entry, SeatId, Source};

use crate::text::{self, Watch, bounded, short};

/// A message, safe to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Post {
    /// Milliseconds since 1970; 0 when it does not say.
    pub(crate) ts: i64,
    /// Who sent it.
    pub(crate) from: String,
    /// Whom it was sent to, on direct messages.
    pub(crate) to: Option<String>,
    /// The person at this terminal sent it.
    pub(crate) mine: bool,
    /// The bus itself did.
    pub(crate) system: bool,
    /// It names the person at this terminal.
    pub(crate) mention: bool,
    /// The person at this terminal does not want to hear its sender.
    pub(crate) muted: bool,
    /// It is a decision, a status or a control command, in a word.
    pub(crate) kind: Option<&'static str>,
    /// What it says.
    pub(crate) body: Vec<String>,
}

fn field<'e>(entry: &'e Entry, name: &str) -> Option<&'e str> {
    entry.get(name)?.as_str()
}

/// Who an entry says it is from, as it stands there.
pub(crate) fn sender(entry: &Entry) -> &str {
    field(entry, "from")
        .or_else(|| field(entry, "agentId"))
        .unwrap_or("?")
}

impl Post {
    /// An entry of `source` as `me` is shown it.
    pub(crate) fn of(entry: &Entry, source: &Source, me: &SeatId) -> Self {
        let from = sender(entry);
        let said = field(entry, "text")
            .or_else(|| field(entry, "status"))
            .unwrap_or("");
        let flag = |name| entry.get(name).and_then(serde_json::Value::as_bool) == Some(true);
        let (mine, system) = (from == me.as_str(), flag("system"));
        let kind = match field(entry, "kind") {
            _ if flag("control") => Some("command"),
            Some("decision") => Some("decision"),
            Some("status") => Some("status"),
            _ => None,
        };
        Self {
            ts: entry.get("ts").and_then(serde_json::Value::as_i64).unwrap_or(0),
            from: short(from),
            to: match source {
                Source::Inbox => Some(short(field(entry, "to").unwrap_or(me.as_str()))),
                _ => None,
            },
            mine,
            system,
            mention: !mine && !system && *source != Source::Inbox && text::mentions(said, me.as_str()),
            muted: false,
            kind,
            body: bounded(said),
        }
    }

    /// A direct message that was just sent: it stands in the inbox of somebody else.
    pub(crate) fn direct(me: &SeatId, to: &SeatId, ts: i64, said: &str) -> Self {
        Self {
            ts,
            from: me.as_str().to_owned(),
            to: Some(to.as_str().to_owned()),
            mine: true,
            system: false,
            mention: false,
            muted: false,
            kind: None,
            body: bounded(said),
        }
    }

    /// About how many bytes it takes.
    pub(crate) fn weight(&self) -> usize {
        self.body.iter().map(|line| line.len() + 48).sum::<usize>() + 256
    }

    /// Who speaks, as the line begins.
    pub(crate) fn who(&self) -> String {
        let kind = self.kind.map(|kind| format!(" [{kind}]")).unwrap_or_default();
        match &self.to {
            _ if self.system => "--".to_owned(),
            Some(to) if self.mine => format!("[dm to {to}] <{}>{kind}", self.from),
            Some(_) => format!("[dm] <{}>{kind}", self.from),
            None => format!("<{}>{kind}", self.from),
        }
    }

    /// Its lines as text: the time, `!` where it names this person, the channel when it is another than the one in focus, who, and what. Further
    /// lines are set off, so that none looks like another message.
    pub(crate) fn plain(&self, tag: Option<&str>, watch: &Watch, now: i64) -> Vec<String> {
        let mut head = watch.at(self.ts, now);
        if self.mention {
            head.push_str(" !");
        }
        if let Some(tag) = tag {
            head.push(' ');
            head.push_str(tag);
        }
        let mut said = self.body.iter();
        let first = said.next().map_or("", String::as_str);
        let mut out = vec![format!("{head} {} {first}", self.who()).trim_end().to_owned()];
        out.extend(said.map(|line| format!("{SET_OFF}{line}")));
        out
    }
}

/// Before each further line of a message.
pub(crate) const SET_OFF: &str = "    | ";

#[cfg(test)]
mod tests {
    use muster_bus::RoomName;
    use serde_json::json;

    use super::*;

    fn of(entry: serde_json::Value, source: &Source) -> Post {
        let entry = entry.as_object().unwrap().clone();
        Post::of(&entry, source, &SeatId::parse("david").unwrap())
    }

    fn room() -> Source {
        Source::Room(RoomName::general())
    }

    // spec: CHAT-009
    #[test]
    fn a_peer_cannot_make_a_line_that_looks_like_anothers() {
        let said = "hi\n00:00 <boss> do it\u{1b}[1A\r\n";
        let post = of(json!({"ts": 1, "from": "eve\u{1b}[31m", "text": said}), &room());
        assert_eq!(
            post.plain(None, &Watch::utc(), 1),
            ["00:00 <eve\\u{1b}[31m> hi", "    | 00:00 <boss> do it\\u{1b}[1A"]
        );
    }

    #[test]
    fn each_kind_of_message_is_told_apart_in_words() {
        let watch = Watch::utc();
        let line = |entry, source: &Source, tag| of(entry, source).plain(tag, &watch, 0).join("|");
        let inbox = Source::Inbox;
        assert_eq!(
            line(
                json!({"ts": 60_000, "from": "bob", "text": "see #ops"}),
                &room(),
                Some("#ops")
            ),
            "00:01 #ops <bob> see #ops"
        );
        assert_eq!(
            line(
                json!({"ts": 60_000, "from": "bob", "text": "David?"}),
                &room(),
                None
            ),
            "00:01 ! <bob> David?"
        );
        assert_eq!(
            line(
                json!({"ts": 60_000, "from": "bob", "to": "david", "text": "psst"}),
                &inbox,
                None
            ),
            "00:01 [dm] <bob> psst"
        );
        assert_eq!(
            line(
                json!({"from": "system", "system": true, "text": "bob joined"}),
                &room(),
                None
            ),
            "--:-- -- bob joined"
        );
        assert_eq!(
            line(
                json!({"ts": 60_000, "from": "bob", "kind": "decision", "text": "ship"}),
                &room(),
                None
            ),
            "00:01 <bob> [decision] ship"
        );
        assert_eq!(line(json!({}), &room(), None), "--:-- <?>");
    }
}
