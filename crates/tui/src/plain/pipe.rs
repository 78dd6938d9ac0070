//! Lines in, lines out, for scripts. Never a prompt within a line: where the prompt is another, it stands on a line of its own.

use std::io::{self, Write};

use super::{Surface, Wish};
use crate::completion::Names;
use crate::terminal::Event;

pub(super) struct Pipe<W> {
    out: W,
    prompt: String,
}

impl<W: Write> Pipe<W> {
    pub(super) fn new(out: W) -> Self {
        Self {
            out,
            prompt: String::new(),
        }
    }
}

impl<W: Write> Surface for Pipe<W> {
    fn show(&mut self, lines: &[String]) -> io::Result<()> {
        for line in lines {
            writeln!(self.out, "{line}")?;
        }
        self.out.flush()
    }

    fn prompt(&mut self, prompt: &str) -> io::Result<()> {
        if self.prompt == prompt {
            return Ok(());
        }
        prompt.clone_into(&mut self.prompt);
        writeln!(self.out, "{prompt}")?;
        self.out.flush()
    }

    fn take(&mut self, event: Event, _: &Names) -> io::Result<Vec<Wish>> {
        Ok(match event {
            Event::Line(Ok(line)) => vec![Wish::Line(line)],
            Event::Line(Err(sentence)) => vec![Wish::Refused(sentence)],
            Event::End | Event::Stop => vec![Wish::Leave],
            Event::Input(_) | Event::Resize => Vec::new(),
        })
    }

    fn echo(&mut self, _: &str) -> io::Result<()> {
        Ok(())
    }
}
