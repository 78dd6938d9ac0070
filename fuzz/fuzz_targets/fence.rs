//! Feeds the chief's turn with any message and checks that nothing leaves the fence, hides, or acts; it never checks wording.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_core::fence::{MessageTurn, Nonce, PREFIX, Retry, STANDING, UNVERIFIED, message_turn, one_line};
use muster_core::text::{is_line_break, unseen};

type Input = (
    Option<String>,
    Option<String>,
    String,
    String,
    bool,
    bool,
    Option<(i64, i64, i64)>,
);

fuzz_target!(|input: Input| {
    let (sender, subject, body, words, verified, no_reply, retry) = input;
    let nonce = Nonce::parse("0123456789abcdef0123456789abcdef").expect("32 hexadecimal digits");
    let turn = message_turn(&MessageTurn {
        nonce: &nonce,
        message_id: 42,
        plugin_label: &words,
        data_scope: &words,
        sender: sender.as_deref(),
        verified,
        received: None,
        subject: subject.as_deref(),
        body: &body,
        no_reply,
        retry: retry.map(|(retry, attempt, age_seconds)| Retry {
            retry,
            attempt,
            age_seconds,
        }),
    });

    assert!(turn.starts_with(|c: char| c.is_ascii_alphabetic()) && turn.ends_with('\n'));
    assert!(
        turn.chars()
            .all(|c| c == '\n' || c == '\t' || unseen(c).is_none())
    );
    assert_eq!(turn.split(is_line_break).count(), turn.split('\n').count());

    let (open, close) = (nonce.open(), nonce.close());
    assert_eq!(turn.lines().filter(|line| *line == open).count(), 1);
    assert_eq!(turn.lines().filter(|line| *line == close).count(), 1);
    assert_eq!(turn.lines().last(), Some(close.as_str()));

    let inside: Vec<&str> = turn
        .lines()
        .skip_while(|line| *line != open)
        .skip(1)
        .take_while(|line| *line != close)
        .collect();
    let ours = inside.iter().filter(|line| !line.starts_with(PREFIX)).count();
    assert_eq!(ours, STANDING.len() + 2 + usize::from(subject.is_some()));
    assert!(verified || inside[STANDING.len() + 1].ends_with(UNVERIFIED));

    let mut before = ' ';
    let mut rest = turn.chars().peekable();
    while let Some(c) = rest.next() {
        if c == '@' {
            assert!(before.is_ascii_alphanumeric() && rest.peek().is_some_and(char::is_ascii_alphanumeric));
        }
        before = c;
    }

    let once = one_line(&body);
    assert_eq!(one_line(&once), once);
});
