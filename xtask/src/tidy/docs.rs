//! Rules about documents: decisions are well formed, links between files lead somewhere. Never fetches an outside address.

use std::collections::BTreeSet;

use super::{Report, Tree};

const DECISIONS: &str = "docs/spec-decisions.md";

/// Every item of the list is `- ID: why` (or `- ID..ID: why`), and no row is decided twice.
pub(super) fn decisions(tree: &Tree, report: &mut Report) {
    let Some(text) = tree.text(DECISIONS) else {
        report.finding(
            DECISIONS,
            1,
            "the file is missing; it lists the rows of the specification that muster meets otherwise",
        );
        return;
    };
    let mut seen = BTreeSet::new();
    for (number, line) in text.lines().enumerate() {
        let Some(item) = line.strip_prefix("- ") else {
            if line.starts_with("* ") || line.starts_with('-') {
                report.finding(DECISIONS, number + 1, "an item must be `- ID: why`");
            }
            continue;
        };
        let (ids, why) = item.split_once(": ").unwrap_or((item, ""));
        let well_formed = match ids.split_once("..") {
            Some((first, last)) => is_id(first) && is_id(last) && area(first) == area(last) && first < last,
            None => is_id(ids),
        };
        if !well_formed || why.trim().is_empty() {
            report.finding(
                DECISIONS,
                number + 1,
                "an item must be `- ID: why`, with ID like MSG-001 or MSG-001..MSG-004",
            );
        } else if !seen.insert(ids) {
            report.finding(DECISIONS, number + 1, format!("{ids} is decided twice"));
        }
    }
}

/// Three to five capitals, a dash, three digits.
fn is_id(id: &str) -> bool {
    id.split_once('-').is_some_and(|(area, number)| {
        (3..=5).contains(&area.len())
            && area.bytes().all(|byte| byte.is_ascii_uppercase())
            && number.len() == 3
            && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

fn area(id: &str) -> &str {
    id.split('-').next().unwrap_or(id)
}

/// Every relative link of a document leads to a file or folder of the repository.
pub(super) fn links(tree: &Tree, report: &mut Report) {
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".md")) {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut fenced = false;
        for (number, line) in text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                fenced = !fenced;
            }
            if fenced {
                continue;
            }
            for target in targets(line) {
                let file = target.split('#').next().unwrap_or(target);
                if file.is_empty() || file.contains("://") || file.starts_with("mailto:") {
                    continue;
                }
                if !resolve(folder, file).is_some_and(|file| tree.holds(&file)) {
                    report.finding(path, number + 1, format!("the link to `{target}` leads nowhere"));
                }
            }
        }
    }
}

/// What stands in the round brackets of `[text](target)` and after `[name]: `, outside of `code`.
fn targets(line: &str) -> Vec<&str> {
    if let Some((_, target)) = line
        .split_once("]: ")
        .filter(|(name, _)| name.starts_with('[') && !name.contains(']'))
    {
        return target.split_whitespace().take(1).collect();
    }
    // Text and code take turns between single backticks; an example in code is no link.
    let prose = line.split('`').step_by(2);
    prose
        .flat_map(|prose| prose.split("](").skip(1))
        .filter_map(|rest| rest.split([')', ' ']).next())
        .collect()
}

fn resolve(folder: &str, target: &str) -> Option<String> {
    let mut segments: Vec<&str> = if target.starts_with('/') {
        Vec::new()
    } else {
        folder.split('/').collect()
    };
    for segment in target.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()?),
            name => segments.push(name),
        }
    }
    segments.retain(|segment| !segment.is_empty());
    Some(segments.join("/"))
}
