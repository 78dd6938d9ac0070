//! Just enough reading of Rust to check rules on it: code without comments and strings, and the paths that code names. Never a full parser.

/// The code with every comment and the inside of every string and character blanked out; line breaks stay where they were.
pub(super) fn code_only(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let hidden = hidden_length(rest, out.chars().next_back());
        let (taken, after) = rest.split_at(hidden.unwrap_or(first.len_utf8()));
        if hidden.is_some() {
            out.extend(taken.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        } else {
            out.push(first);
        }
        rest = after;
    }
    out
}

/// How many bytes of a comment, string or character stand at the beginning of `rest`, if one does.
fn hidden_length(rest: &str, before: Option<char>) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(block_comment_length(rest));
    }
    if rest.starts_with('"') {
        return Some(quoted_length(rest, '"'));
    }
    if rest.starts_with('\'') {
        return character_length(rest);
    }
    // r"..", br#".."#: only where the letter does not end a longer name.
    if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
        return None;
    }
    raw_string_length(rest)
}

fn block_comment_length(rest: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(tail) = rest.get(at..).filter(|tail| !tail.is_empty()) {
        if tail.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if tail.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += tail.chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

fn quoted_length(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == quote {
            return at + c.len_utf8();
        }
    }
    rest.len()
}

/// `'x'` and `'\n'` are characters; `'a` without a closing quote is a lifetime.
fn character_length(rest: &str) -> Option<usize> {
    let mut chars = rest.char_indices().skip(1);
    let (_, inside) = chars.next()?;
    if inside == '\\' {
        return Some(quoted_length(rest, '\''));
    }
    chars.next().filter(|(_, c)| *c == '\'').map(|(at, _)| at + 1)
}

fn raw_string_length(rest: &str) -> Option<usize> {
    let body = ["br", "cr", "r"]
        .iter()
        .find_map(|prefix| rest.strip_prefix(prefix))?;
    let hashes = body.chars().take_while(|c| *c == '#').count();
    let opened = body.get(hashes..)?.strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let head = rest.len() - opened.len();
    Some(opened.find(&end).map_or(rest.len(), |at| head + at + end.len()))
}

/// The number of the line that holds byte `at`, counted from 1.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

/// Every path of two or more segments that the code names, with its line; the trees of `use` are spelt out.
pub(super) fn paths(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let (mut rest, mut line) = (code, 1);
    while let Some(first) = rest.chars().next() {
        let word: usize = rest.chars().take_while(|c| is_path(*c)).map(char::len_utf8).sum();
        let (name, after) = rest.split_at(word);
        let taken = if name == "use" && after.starts_with(char::is_whitespace) {
            let (tree, _) = after.split_once(';').unwrap_or((after, ""));
            let mut spelt = Vec::new();
            spell_out(
                "",
                &tree.split_whitespace().collect::<Vec<_>>().join(" "),
                &mut spelt,
            );
            found.extend(spelt.into_iter().map(|path| (line, path)));
            word + tree.len()
        } else if word > 0 {
            if name.contains("::") {
                found.push((line, name.trim_matches(':').to_owned()));
            }
            word
        } else {
            first.len_utf8()
        };
        let (passed, next) = rest.split_at(taken);
        line += passed.matches('\n').count();
        rest = next;
    }
    found
}

fn is_path(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == ':'
}

fn spell_out(prefix: &str, tree: &str, found: &mut Vec<String>) {
    let tree = tree.trim();
    if let Some((head, tail)) = tree.split_once('{') {
        let inside = tail.strip_suffix('}').unwrap_or(tail);
        let prefix = format!("{prefix}{}", head.trim());
        for branch in branches(inside) {
            spell_out(&prefix, branch, found);
        }
    } else if !tree.is_empty() {
        let name = tree.split(" as ").next().unwrap_or(tree).trim();
        let path = format!("{prefix}{name}");
        found.push(
            path.trim_end_matches("::self")
                .trim_start_matches("::")
                .to_owned(),
        );
    }
}

/// Splits at the commas that stand outside every brace.
fn branches(inside: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let comma = |c: char| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    };
    inside.split(comma).collect()
}
