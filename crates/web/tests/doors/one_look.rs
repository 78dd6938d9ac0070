//! The drafts' page while drafts move: what it shows is of one moment. Everything here races on purpose.

use serde_json::json;

use super::kit::{Ask, doors};

#[test]
fn a_draft_that_ends_while_the_page_is_written_stands_on_it_once() {
    const MANY: usize = 12;
    doors(|doors| async move {
        let mail = doors.connector(doors.ada(), "mail").await;
        let cookie = doors.sign_in("ada").await;
        let mut all = Vec::new();
        for n in 0..MANY {
            all.push(doors.approved(&cookie, &mail, &format!("m{n}"), "Yes.").await);
        }
        let acting = async {
            for _ in 0..MANY {
                let claimed = doors.claim(&mail).await["draft_id"].as_i64().unwrap();
                let path = format!("/plugin/v1/drafts/{claimed}/result");
                let done = doors
                    .send(Ask::json(&path, &json!({"ok": true})).bearer(&mail.token))
                    .await;
                assert_eq!(done.status, 200);
            }
        };
        let looking = async || {
            let mut page = String::new();
            while page.matches("details class=\"card archived sent\"").count() < MANY {
                page = doors.page(&cookie, "/attention?tab=drafts").await;
                for draft in &all {
                    let stands = page.matches(&format!("id=\"draft-{draft}\"")).count();
                    assert_eq!(stands, 1, "draft {draft}: {page}");
                }
            }
        };
        tokio::join!(acting, looking(), looking(), looking());
    });
}
