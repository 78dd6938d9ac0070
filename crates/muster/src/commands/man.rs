//! `muster man`: the whole manual on one page, made from the command line's own words. Never names a page that does not exist.

use std::io::Write as _;

use clap::{Command, CommandFactory as _};

use crate::cli::Cli;
use crate::output::Failure;

/// The page, in roff.
pub(super) fn page() -> Result<Vec<u8>, Failure> {
    let mut root = Cli::command();
    root.build();
    let man = clap_mangen::Man::new(root.clone());
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    page.extend_from_slice(b".SH COMMANDS\n");
    commands(&mut root, "muster", &mut page)?;
    page.extend_from_slice(b".SH EXIT STATUS\n0 done, 1 refused or failed, 2 wrong usage.\n");
    let text = String::from_utf8_lossy(&page);
    Ok(text.chars().map(ascii).collect::<String>().into_bytes())
}

/// A character in the spelling that every roff reads, whatever it takes its input to be encoded in.
fn ascii(c: char) -> String {
    if c.is_ascii() {
        c.to_string()
    } else {
        format!("\\[u{:04X}]", u32::from(c))
    }
}

/// Each command that does something, as its `--help` says it.
fn commands(parent: &mut Command, path: &str, page: &mut Vec<u8>) -> Result<(), Failure> {
    for command in parent
        .get_subcommands_mut()
        .filter(|command| !command.is_hide_set() && command.get_name() != "help")
    {
        let path = format!("{path} {}", command.get_name());
        let help = command.clone().term_width(76).render_long_help().to_string();
        writeln!(
            page,
            ".SS {}\n.nf\n{}\n.fi",
            roff(&path),
            help.trim_end().lines().map(roff).collect::<Vec<_>>().join("\n")
        )?;
        commands(command, &path, page)?;
    }
    Ok(())
}

/// A line that roff prints as it is.
fn roff(line: &str) -> String {
    let text = line
        .replace('\\', r"\e")
        .replace('-', r"\-")
        .replace('\'', r"\(aq")
        .replace('`', r"\(ga")
        .replace('^', r"\(ha")
        .replace('~', r"\(ti");
    // A line that begins so would be taken for an order.
    if text.starts_with(['.', '\'']) {
        format!(r"\&{text}")
    } else {
        text
    }
}
