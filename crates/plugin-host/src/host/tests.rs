//! Acts that meet each other halfway. Never reaches outside a folder of its own.

use std::fs;

use serde_json::json;

use super::*;

#[test]
fn an_update_that_began_before_a_package_was_installed_from_elsewhere_puts_nothing_back() {
    let dir = tempfile::tempdir().unwrap();
    let host = Host::new(&dir.path().join("data"), Clock::system());
    let folder = |name: &str, version: &str| {
        let folder = dir.path().join(name);
        fs::create_dir_all(folder.join(".muse-plugin")).unwrap();
        let manifest = json!({
            "schemaVersion": 1, "name": "p", "version": version, "description": "For tests.",
            "compat": {"manifestDir": ".muse-plugin"},
            "capabilities": {"mcpServers": [{"id": "s", "command": ["true"]}]},
        });
        fs::write(folder.join(".muse-plugin/plugin.json"), manifest.to_string()).unwrap();
        folder.canonicalize().unwrap()
    };
    let (old, new) = (folder("old", "1.0.0"), folder("new", "2.0.0"));
    host.install(&old).unwrap();
    host.remove("p").unwrap();
    host.install(&new).unwrap();
    let seen = || {
        let found = host.inspect("p").unwrap();
        (found.version, found.source, found.diagnostics.len())
    };
    let wanted = ("2.0.0".to_owned(), new.to_string_lossy().into_owned(), 0);
    assert!(matches!(host.update_from("p", &old), Err(PluginError::Moved(_))));
    assert_eq!(seen(), wanted);
    // Nor does what is wrong with the old folder stand at the new one.
    fs::write(old.join(".muse-plugin/plugin.json"), "{").unwrap();
    assert!(matches!(host.update_from("p", &old), Err(PluginError::Moved(_))));
    assert_eq!(seen(), wanted);
    host.update("p").unwrap();
    assert_eq!(seen(), wanted);
}
