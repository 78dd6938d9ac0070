//! muster's own database is no connection, by whichever name. Never writes to it.

use serde_json::json;

use crate::databases::{add, document, place};

#[test]
fn musters_own_database_is_no_connection_by_any_name() {
    let place = place();
    let own = place.data().join("muster.db");
    let (link, twin) = (place.path("link.db"), place.path("twin.db"));
    std::os::unix::fs::symlink(&own, &link).unwrap();
    std::fs::hard_link(&own, &twin).unwrap();
    for file in [&own, &link, &twin] {
        let url = format!("sqlite://{}", file.display());
        for more in [&[][..], &["--accept-wide-account"]] {
            let said = add(&place, "own", &url, more);
            assert_eq!(document(&said)["error"]["code"], "own_database", "{said:?}");
        }
        let other = format!("sqlite://{}", place.path("other.db").display());
        let said = add(&place, "own", &other, &["--write-url", &url]);
        assert_eq!(document(&said)["error"]["code"], "own_database", "{said:?}");
    }
    assert_eq!(place.json(&["db", "list"]), json!([]));
    // One that leads there later is not opened.
    let later = place.path("later.db");
    std::fs::write(&later, "").unwrap();
    add(&place, "later", &format!("sqlite://{}", later.display()), &[]).ok();
    place.ok(&["db", "test", "later"]);
    std::fs::remove_file(&later).unwrap();
    std::os::unix::fs::symlink(&own, &later).unwrap();
    for words in [
        &["db", "test", "later", "--json"][..],
        &["db", "check", "later", "--json"],
        &["db", "shell", "later", "--json"],
    ] {
        let said = place.run_with(words, "SELECT 1;\n");
        assert_eq!(said.code(), 1, "{said:?}");
        assert_eq!(document(&said)["error"]["code"], "own_database", "{said:?}");
    }
}
