//! Wrong words of the command line, as a terminal may show them. Never changes one that can be seen whole.

use clap::error::{ContextKind, ContextValue};

/// Letters and marks that are drawn as nothing or as a blank, though they are neither controls nor blanks.
const BLANK: [char; 6] = [
    '\u{34f}', '\u{115f}', '\u{1160}', '\u{2800}', '\u{3164}', '\u{ffa0}',
];

/// Spells out what cannot be seen in the words that a refusal repeats; help and versions repeat none.
pub(crate) fn spell(error: &mut clap::Error) {
    let mut spelled = false;
    let mut seen: Vec<(ContextKind, ContextValue)> = Vec::new();
    for (kind, value) in error.context() {
        let value = match value {
            ContextValue::String(text) => ContextValue::String(shown(text)),
            ContextValue::Strings(texts) => {
                ContextValue::Strings(texts.iter().map(|text| shown(text)).collect())
            }
            _ => continue,
        };
        seen.push((kind, value));
    }
    for (kind, value) in seen {
        spelled |= error.get(kind) != Some(&value);
        error.insert(kind, value);
    }
    // A hint repeats the word among marks of style, where it cannot be told from them.
    if spelled {
        error.remove(ContextKind::Suggested);
    }
}

/// The text with everything that cannot be seen as `\u{hex}`, a line feed as `\n`.
fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter == ' ' || letter.is_ascii_graphic() {
            out.push(letter);
        } else if BLANK.contains(&letter) {
            out.extend(letter.escape_unicode());
        } else {
            // What Rust prints of a letter is the letter, unless it is no letter to be seen.
            out.extend(letter.escape_debug());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser};

    use super::*;

    #[derive(Parser)]
    #[command(name = "muster-maildir")]
    struct Words {
        #[command(flatten)]
        options: muster_maildir::Options,
    }

    fn refused(words: &[&str]) -> String {
        let mut command = Words::command();
        let args = ["muster-maildir"].iter().chain(words);
        let mut error = command
            .try_get_matches_from_mut(args)
            .unwrap_err()
            .with_cmd(&command);
        assert_eq!(error.exit_code(), 2);
        spell(&mut error);
        error.render().ansi().to_string()
    }

    #[test]
    fn a_wrong_word_is_repeated_with_everything_in_it_that_cannot_be_seen_spelled_out() {
        let odd = "a\u{202e}b\u{1b}[31mc\u{200b}\nd\u{3164}";
        let spelled = "a\\u{202e}b\\u{1b}[31mc\\u{200b}\\nd\\u{3164}";
        let (flag, valued, dismissed) = (
            format!("--{odd}"),
            format!("--{odd}=x"),
            format!("--dismiss={odd}"),
        );
        for words in [
            &[odd][..],
            &[flag.as_str()],
            &[valued.as_str()],
            &[dismissed.as_str()],
            &["--state", "s", "--sendmail-seconds", odd],
        ] {
            let text = refused(words);
            assert!(text.contains(spelled), "{text:?}");
            for raw in ["\u{202e}", "\u{200b}", "\u{3164}", "\u{1b}[31mc", "c\nd"] {
                assert!(!text.contains(raw), "{text:?}");
            }
        }
        // What can be seen is repeated as it was, with its hint.
        let text = refused(&["--maildr", "Post ä"]);
        assert!(
            text.contains("--maildr") && text.contains("--maildir"),
            "{text:?}"
        );
        assert_eq!(shown("Grüße, 日本 'x'"), "Grüße, 日本 'x'");
    }
}
