//! The tokens' file: readable, sound, and private. Never shows a token, and never throws one away.

use super::Severity::Error;
use super::{Exam, Fix};
use crate::error::BusError;
use crate::tokens::{self, FILE, Tokens};

pub(super) fn tokens(exam: &mut Exam<'_>) -> Result<(), BusError> {
    match Tokens::load(exam.home) {
        Ok(_) => {}
        Err(error @ BusError::Tokens(_)) => {
            let why = format!(
                "{error}. No daemon starts with it, and one that runs goes on with the map it read before"
            );
            exam.find("tokens", Error, FILE, why);
        }
        Err(error) => exam.cannot("tokens", FILE, &error),
    }
    let path = exam.home.path(FILE);
    let file = std::fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_file());
    if file && tokens::loose_mode(exam.home) {
        let why = "others than its owner may read the tokens; with fix, only the owner may. Whoever read them can still use them: mint new ones";
        exam.fixable("tokens", Error, FILE, why, |home| {
            Ok(if tokens::tighten(home)? {
                Fix::Done
            } else {
                Fix::NotNeeded
            })
        });
    }
    Ok(())
}
