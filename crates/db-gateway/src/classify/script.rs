//! What a script of `EVAL_RO` needs. Knows one shape only, `return` of values and of commands written out; a script that could
//! loop holds up everyone on the server, and no limit of time ends it. Never runs one.

use super::redis::of_words;
use super::verdict::{Class, Verdict};

/// Tables in tables; more than this nobody writes.
const DEEPEST: u8 = 16;

/// A value of the script, where it is known before the script runs.
enum Value {
    /// What redis.call() would send.
    Known(Vec<u8>),
    /// An answer, a table, a text with escapes.
    Unknown,
}

struct Script<'a> {
    rest: &'a [u8],
    keys: &'a [Vec<u8>],
    values: &'a [Vec<u8>],
    found: Verdict,
}

/// The verdict on `EVAL_RO script numkeys key… value…`.
pub(super) fn classify(words: &[Vec<u8>]) -> Verdict {
    let Some((script, behind)) = words.get(1).zip(words.get(2..)) else {
        return Verdict::refuse("EVAL_RO without its script");
    };
    let parted = behind.split_first().and_then(|(count, rest)| {
        let count: usize = std::str::from_utf8(count).ok()?.parse().ok()?;
        rest.split_at_checked(count)
    });
    let Some((keys, values)) = parted else {
        return Verdict::refuse("EVAL_RO without the number of its keys");
    };
    let mut script = Script {
        rest: script,
        keys,
        values,
        found: Verdict::read("eval_ro returns what reads answer"),
    };
    match script.whole() {
        Some(()) => script.found,
        None => {
            Verdict::write("the script does more than to return what commands answer; nobody could stop it")
        }
    }
}

impl Script<'_> {
    fn whole(&mut self) -> Option<()> {
        self.word("return")?;
        self.value(0)?;
        self.mark(b';');
        self.blanks();
        self.rest.is_empty().then_some(())
    }

    fn blanks(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    fn mark(&mut self, mark: u8) -> bool {
        self.blanks();
        match self.rest.split_first() {
            Some((first, rest)) if *first == mark => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// A name; nothing else that could go on behind it.
    fn word(&mut self, word: &str) -> Option<()> {
        self.blanks();
        let rest = self.rest.strip_prefix(word.as_bytes())?;
        if rest
            .first()
            .is_some_and(|next| next.is_ascii_alphanumeric() || *next == b'_')
        {
            return None;
        }
        self.rest = rest;
        Some(())
    }

    fn value(&mut self, depth: u8) -> Option<Value> {
        self.blanks();
        match self.rest.first()? {
            b'{' if depth < DEEPEST => self.table(depth),
            b'\'' | b'"' => self.text(),
            b'0'..=b'9' => Some(Value::Known(self.number()?.to_vec())),
            b'K' => {
                self.word("KEYS")?;
                let place = self.place()?;
                Some(self.keys.get(place).cloned().map_or(Value::Unknown, Value::Known))
            }
            b'A' => {
                self.word("ARGV")?;
                let place = self.place()?;
                Some(
                    self.values
                        .get(place)
                        .cloned()
                        .map_or(Value::Unknown, Value::Known),
                )
            }
            b'r' => self.call(),
            _ => ["nil", "true", "false"]
                .iter()
                .find_map(|word| self.word(word))
                .map(|()| Value::Unknown),
        }
    }

    fn number(&mut self) -> Option<&[u8]> {
        let length = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        (!digits.is_empty() && digits.len() < 10).then_some(digits)
    }

    /// `[1]`, from nought.
    fn place(&mut self) -> Option<usize> {
        if !self.mark(b'[') {
            return None;
        }
        self.blanks();
        let place: usize = std::str::from_utf8(self.number()?).ok()?.parse().ok()?;
        if self.mark(b']') {
            place.checked_sub(1)
        } else {
            None
        }
    }

    fn text(&mut self) -> Option<Value> {
        let (quote, mut rest) = self.rest.split_first()?;
        let mut inside = Vec::new();
        let mut escapes = false;
        loop {
            let (byte, behind) = rest.split_first()?;
            rest = behind;
            match byte {
                b'\\' => {
                    escapes = true;
                    rest = rest.get(1..)?;
                }
                b'\n' | b'\r' => return None,
                byte if byte == quote => break,
                byte => inside.push(*byte),
            }
        }
        self.rest = rest;
        Some(if escapes {
            Value::Unknown
        } else {
            Value::Known(inside)
        })
    }

    fn table(&mut self, depth: u8) -> Option<Value> {
        self.mark(b'{');
        while !self.mark(b'}') {
            self.value(depth + 1)?;
            if !self.mark(b',') && !self.mark(b';') {
                return self.mark(b'}').then_some(Value::Unknown);
            }
        }
        Some(Value::Unknown)
    }

    /// `redis.call('GET', KEYS[1])`, every word of it known.
    fn call(&mut self) -> Option<Value> {
        self.word("redis")?;
        if !self.mark(b'.') {
            return None;
        }
        self.word("call").or_else(|| self.word("pcall"))?;
        if !self.mark(b'(') {
            return None;
        }
        let mut words = Vec::new();
        loop {
            match self.value(DEEPEST)? {
                Value::Known(word) => words.push(word),
                Value::Unknown => return None,
            }
            if self.mark(b')') {
                break;
            }
            if !self.mark(b',') {
                return None;
            }
        }
        let in_script = words.first().is_some_and(|name| {
            let name = name.to_ascii_lowercase();
            name.starts_with(b"eval") || name.starts_with(b"fcall")
        });
        let verdict = if in_script {
            Verdict::refuse("a script runs another")
        } else {
            of_words(&words)
        };
        if verdict.class > Class::Read && verdict.class > self.found.class {
            self.found = verdict;
        }
        Some(Value::Unknown)
    }
}
