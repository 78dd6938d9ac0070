//! The full screen as it is drawn: messages, who and what is here, the line that is typed. Never draws what was not made safe before.

#[cfg(test)]
mod tests;

use muster_bus::Source;
use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use crate::app::App;
use crate::person::Peer;
use crate::text::{fit, line, width, wrap};
use crate::timeline::{Row, Tone};

/// From this many columns on there is a list beside the messages.
const WIDE: u16 = 72;
/// Its columns.
const SIDE: u16 = 24;
/// Counts above are not shown exactly.
const MANY: u64 = 999;

/// Whether colours may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Colours(pub(crate) bool);

impl Colours {
    fn style(self, tone: Tone) -> Style {
        const NAMES: [Color; 6] = [
            Color::Cyan,
            Color::Green,
            Color::Magenta,
            Color::Blue,
            Color::LightCyan,
            Color::LightGreen,
        ];
        let plain = Style::new();
        let coloured = |colour: Color| if self.0 { plain.fg(colour) } else { plain };
        match tone {
            Tone::Plain => plain,
            Tone::Dim => plain.add_modifier(Modifier::DIM),
            Tone::Name(which) => {
                let colour = NAMES.get(usize::from(which) % NAMES.len()).copied();
                coloured(colour.unwrap_or(Color::Cyan)).add_modifier(Modifier::BOLD)
            }
            Tone::Mine => plain.add_modifier(Modifier::BOLD),
            Tone::Mention => coloured(Color::Yellow).add_modifier(Modifier::BOLD),
            Tone::Tag => coloured(Color::Yellow),
            Tone::Answer => plain.add_modifier(Modifier::ITALIC),
            Tone::Problem => coloured(Color::Red).add_modifier(Modifier::BOLD),
            Tone::Rule => coloured(Color::Red).add_modifier(Modifier::DIM),
        }
    }

    fn line(self, row: Row) -> Line<'static> {
        row.into_iter()
            .map(|(tone, text)| Span::styled(text, self.style(tone)))
            .collect()
    }
}

/// Draws everything.
pub(crate) fn draw(frame: &mut Frame<'_>, app: &mut App, colours: Colours) {
    let area = frame.area();
    let input = Typed::of(app, area);
    let typed_rows = u16::try_from(input.rows.len()).unwrap_or(1).min(area.height);
    let head_rows = u16::from(area.height > typed_rows + 1);
    let rows = area.height - typed_rows - head_rows;
    let side = if area.width >= WIDE { SIDE } else { 0 };
    let messages = Rect::new(area.x, area.y + head_rows, area.width - side, rows);
    app.height = usize::from(rows);
    let window = app.timeline.window(
        usize::from(messages.width),
        usize::from(rows),
        app.now,
        &app.watch,
    );
    // What there is stands at the bottom, next to where one types.
    let above = rows.saturating_sub(u16::try_from(window.len()).unwrap_or(rows));
    let lines: Vec<Line<'_>> = window.into_iter().map(|row| colours.line(row)).collect();
    let below = Rect::new(messages.x, messages.y + above, messages.width, rows - above);
    frame.render_widget(Paragraph::new(lines), below);
    if side > 0 {
        let beside = Rect::new(area.x + messages.width, messages.y, side, rows);
        frame.render_widget(Paragraph::new(beside_lines(app, rows, colours)), beside);
    }
    if head_rows > 0 {
        let head = Rect::new(area.x, area.y, area.width, 1);
        let text = head_line(app, usize::from(area.width));
        let style = Style::new().add_modifier(Modifier::REVERSED);
        frame.render_widget(Paragraph::new(text).style(style), head);
    }
    let place = Rect::new(area.x, area.y + area.height - typed_rows, area.width, typed_rows);
    let (row, column) = input.cursor;
    let lines: Vec<Line<'_>> = input.rows.into_iter().map(Line::from).collect();
    frame.render_widget(Paragraph::new(lines), place);
    if area.width > 0 && typed_rows > 0 {
        frame.set_cursor_position(Position::new(
            place.x + u16::try_from(column).unwrap_or(0).min(area.width - 1),
            place.y + u16::try_from(row).unwrap_or(0).min(typed_rows - 1),
        ));
    }
}

fn head_line(app: &App, columns: usize) -> String {
    let what = match &app.timeline.source {
        Source::Room(room) => match &app.here.topic {
            Some(topic) => format!(" #{room}: {topic}"),
            None => format!(" #{room}"),
        },
        Source::Inbox => " direct messages".to_owned(),
        Source::Status => " status".to_owned(),
    };
    let below = match app.timeline.below() {
        0 if app.timeline.at_end() => String::new(),
        0 => " scrolled; Esc: back ".to_owned(),
        below => format!(" {below} below; Esc: back "),
    };
    let what = fit(&what, columns.saturating_sub(width(&below)));
    let gap = columns.saturating_sub(width(&what) + width(&below));
    format!("{what}{}{below}", " ".repeat(gap))
}

fn count(unread: u64) -> String {
    match unread {
        0 => String::new(),
        1..=MANY => format!(" {unread}"),
        _ => format!(" {MANY}+"),
    }
}

/// The list beside the messages: channels with what is unread, then who is here.
fn beside_lines(app: &App, rows: u16, colours: Colours) -> Vec<Line<'static>> {
    let room = usize::from(SIDE) - 2;
    let mut lines = Vec::new();
    for (number, source) in app.sources().iter().enumerate() {
        let name = match source {
            Source::Room(room) => format!("#{room}"),
            _ => "direct messages".to_owned(),
        };
        let unread = count(app.unread(source));
        let mark = if *source == app.timeline.source { '>' } else { ' ' };
        let number = if number < 10 {
            number.to_string()
        } else {
            " ".to_owned()
        };
        let name = fit(&name, room.saturating_sub(4 + width(&unread)));
        let tone = if unread.is_empty() {
            Tone::Plain
        } else {
            Tone::Mention
        };
        lines.push(colours.line(vec![
            (Tone::Dim, format!("│{mark}{number} ")),
            (tone, format!("{name}{unread}")),
        ]));
    }
    lines.push(colours.line(vec![(Tone::Dim, "│".to_owned())]));
    let left = usize::from(rows).saturating_sub(lines.len());
    let mut agents: Vec<&Peer> = app.here.agents.iter().collect();
    agents.sort_by_key(|peer| !peer.online);
    let shown = if agents.len() > left {
        left.saturating_sub(1)
    } else {
        left
    };
    for peer in agents.iter().take(shown) {
        // In letters, too: not every eye and not every terminal tells colours apart.
        let (mark, tone) = match (peer.online, &peer.away) {
            (false, _) => ("○", Tone::Dim),
            (true, Some(_)) => ("◐", Tone::Dim),
            (true, None) => ("●", Tone::Plain),
        };
        let more = match (&peer.away, &peer.held, &peer.attached) {
            (Some(why), _, _) => format!(" away: {why}"),
            (None, Some(why), _) => format!(" held: {why}"),
            (None, None, Some(how)) => format!(" ⇄ {how}"),
            (None, None, None) => String::new(),
        };
        lines.push(colours.line(vec![
            (Tone::Dim, "│ ".to_owned()),
            (tone, fit(&format!("{mark} {}{more}", peer.id), room)),
        ]));
    }
    if agents.len() > shown {
        let more = agents.len() - shown;
        lines.push(colours.line(vec![(Tone::Dim, format!("│ and {more} more: /list"))]));
    }
    lines
}

/// The typed line in rows, and where the cursor is.
struct Typed {
    rows: Vec<String>,
    cursor: (usize, usize),
}

impl Typed {
    /// At most a third of the screen; of a longer text the part around the cursor.
    fn of(app: &App, area: Rect) -> Self {
        let columns = usize::from(area.width).saturating_sub(1).max(1);
        let most = usize::from(area.height / 3).max(1);
        let prompt = format!("{} ", fit(&app.prompt(), columns * 2 / 3));
        let editor = &app.typing.editor;
        let (before, after) = editor
            .text()
            .split_at_checked(editor.at())
            .unwrap_or((editor.text(), ""));
        // The lines around the cursor are enough; the others are not looked at, however many they are.
        let around = most + 1;
        let skipped = before
            .rmatch_indices('\n')
            .nth(around)
            .map_or(0, |(at, _)| at + 1);
        let shown = before.get(skipped..).unwrap_or_default();
        let first = if skipped == 0 { width(&prompt) } else { 0 };
        let mut rows = rows_of(shown, columns, first);
        let row = rows.len() - 1;
        let column = rows.last().map_or(0, |last| width(last)) + if row == 0 { first } else { 0 };
        // What follows is broken as a continuation of the cursor's own row.
        let mut rest = after.split('\n');
        let tail = rest.next().unwrap_or_default();
        let mut tail = wrap(&spell(tail), columns.saturating_sub(column).max(1), columns).into_iter();
        if let (Some(last), Some(head)) = (rows.last_mut(), tail.next()) {
            last.push_str(&head);
        }
        rows.extend(tail.take(most));
        for text in rest.take(most) {
            rows.extend(rows_of(text, columns, 0));
        }
        if skipped == 0
            && let Some(first) = rows.first_mut()
        {
            first.insert_str(0, &prompt);
        }
        let from = (row + 1).saturating_sub(most);
        let rows: Vec<String> = rows.into_iter().skip(from).take(most).collect();
        Self {
            rows,
            cursor: (row - from, column),
        }
    }
}

/// Typed text in rows, the first of which has `taken` columns fewer. At least one.
fn rows_of(text: &str, columns: usize, taken: usize) -> Vec<String> {
    let mut rows = Vec::new();
    for text in text.split('\n') {
        let first = if rows.is_empty() {
            columns.saturating_sub(taken).max(1)
        } else {
            columns
        };
        rows.extend(wrap(&spell(text), first, columns));
    }
    rows
}

fn spell(text: &str) -> String {
    line(&text.replace('\t', "    "))
}
