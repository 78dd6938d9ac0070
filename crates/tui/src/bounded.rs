//! The terminal as far as anybody can see it: of one that says that it is enormous only a part is drawn on. Never keeps more cells than that.

use std::io::{self, Stdout};

use ratatui::backend::{Backend, ClearType, CrosstermBackend, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};

/// Most columns and rows that are drawn on: more than the largest screens show, and some megabytes of cells.
const MOST: Size = Size::new(1_000, 300);

/// Standard output, within bounds.
pub(crate) struct Bounded(CrosstermBackend<Stdout>);

impl Bounded {
    pub(crate) fn new() -> Self {
        Self(CrosstermBackend::new(io::stdout()))
    }
}

/// What of a size is drawn on.
fn within(size: Size) -> Size {
    Size::new(size.width.min(MOST.width), size.height.min(MOST.height))
}

impl Backend for Bounded {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        self.0.draw(content)
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.0.hide_cursor()
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.0.show_cursor()
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        self.0.get_cursor_position()
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        self.0.set_cursor_position(position)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.0.clear()
    }

    fn clear_region(&mut self, clear_type: ClearType) -> io::Result<()> {
        self.0.clear_region(clear_type)
    }

    fn size(&self) -> io::Result<Size> {
        self.0.size().map(within)
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        self.0.window_size().map(|size| WindowSize {
            columns_rows: within(size.columns_rows),
            ..size
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Backend::flush(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_enormous_terminal_a_part_is_drawn_on_and_every_other_as_it_is() {
        for (says, drawn) in [
            ((80, 24), (80, 24)),
            ((640, 216), (640, 216)),
            ((9_999, 9_999), (1_000, 300)),
            ((u16::MAX, 1), (1_000, 1)),
            ((0, 0), (0, 0)),
        ] {
            assert_eq!(within(Size::from(says)), Size::from(drawn));
        }
    }
}
