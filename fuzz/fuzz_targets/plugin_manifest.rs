//! Reads any text as the manifests of a package, in each of the three formats. Never may one that is accepted name a file outside the package, carry a credential, or
//! hide a fault, nor a finding hold what cannot be shown.
#![no_main]

use std::collections::{BTreeMap, BTreeSet};

use libfuzzer_sys::fuzz_target;
use muster_core::text::unseen;
use muster_plugin_host::manifest::check_texts;
use muster_plugin_host::{Family, Launch};

const FILES: [&str; 3] = ["mcp/server.py", "bin/run", "server.js"];
const PLACES: [&str; 5] = [
    ".muse-plugin/plugin.json",
    "plugin.json",
    ".claude-plugin/plugin.json",
    "mcp.json",
    ".mcp.json",
];

fuzz_target!(|input: &[u8]| {
    let Some((which, text)) = input.split_first() else {
        return;
    };
    let mut texts = BTreeMap::new();
    // Up to two texts in places that the first byte names.
    let cut = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    let (one, other) = text.split_at(cut);
    for (part, place) in [
        (one, which % 5),
        (other.get(1..).unwrap_or_default(), which / 5 % 5),
    ] {
        if !part.is_empty() {
            texts.insert(PLACES[usize::from(place)].to_owned(), part.to_vec());
        }
    }
    let checked = check_texts(&texts, &FILES);
    for found in &checked.diagnostics {
        let shown = [Some(&found.message), found.entry.as_ref(), found.field.as_ref()];
        for text in shown.into_iter().flatten() {
            assert!(text.chars().all(|c| unseen(c).is_none()), "{text:?}");
        }
    }
    let Some(package) = checked.package else {
        assert!(checked.diagnostics.iter().any(|found| found.is_error()));
        return;
    };
    assert!(!checked.diagnostics.iter().any(|found| found.is_error()));
    let mut ids = BTreeSet::new();
    for server in &package.servers {
        assert!(ids.insert(&server.id));
        assert!(server.id.is_ascii() && !server.id.contains([':', '/']) && server.id.len() <= 80);
        match &server.launch {
            Launch::Stdio { argv, path, env, .. } => {
                assert!(!argv.is_empty() && argv.iter().all(|word| !word.contains('\0')));
                if let Some(path) = path {
                    let path = argv[*path]
                        .trim_start_matches("./")
                        .replace("/./", "/")
                        .replace("//", "/");
                    assert!(
                        FILES.contains(&path.as_str()) || texts.contains_key(&path) || path.contains("./")
                    );
                    assert!(!argv[0].starts_with("../") && !path.split('/').any(|part| part == ".."));
                }
                assert!(package.family != Family::Native || env.is_empty());
                assert!(
                    env.keys()
                        .all(|name| !name.starts_with("MUSE_") && !name.contains('='))
                );
            }
            Launch::Http { url, headers } => {
                assert!(url.trim_start().to_ascii_lowercase().starts_with("http"));
                assert!(
                    headers
                        .keys()
                        .all(|name| name != "authorization" && name != "cookie")
                );
                assert!(package.family != Family::Native || headers.is_empty());
            }
        }
    }
});
