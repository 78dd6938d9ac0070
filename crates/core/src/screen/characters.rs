//! Characters that a reader of the card could not see or would take for others. It never judges letters, marks, signs or emoji.

use super::body::Body;
use super::{Found, RefusalKind};
use crate::text::{Unseen, unseen};

/// The first character that may not be in a reply. Of the controls only line feed and tab may, of the blanks only the space.
pub(super) fn find(body: &Body) -> Found {
    body.chars.iter().enumerate().find_map(|(place, c)| {
        let what = match *c {
            '\n' | '\t' | ' ' => None,
            c => unseen(c)
                .map(Unseen::words)
                .or_else(|| c.is_whitespace().then_some("an unusual blank")),
        };
        what.map(|what| {
            (
                place,
                RefusalKind::Character {
                    code: u32::from(*c),
                    what,
                },
            )
        })
    })
}
