//! Every template with every sample, hostile text in each field from outside: nothing of it may become markup.

use askama::Template;
use muster_core::clock::Time;

use super::view::{Here, Shell, Signed, When};
use super::{
    asks, audit, chief, confirm, databases, drafts, overview, packages, permissions, plugins, policies,
    projects, refuse, settings, setup, sign_in, tasks,
};

/// What somebody outside would write to get out of its place.
pub(super) const HOSTILE: &str = "\"'><script>alert(1)</script><img src=x onerror=alert(2) style=color:red> javascript:alert(3) \u{202e}bidi\u{200b} {{ 7*7 }} &lt; --> </pre></textarea>";

pub(super) fn when() -> When {
    When::new(
        Time::from_micros(1_700_000_000_000_000),
        Time::from_micros(1_700_000_600_000_000),
    )
}

pub(super) fn shell(here: Here) -> Shell {
    let signed = Signed {
        name: HOSTILE.to_owned(),
        asks: 1,
        waiting: 2,
        unasked: true,
        plugins: true,
        now: "2026-03-04T05:06:07Z".to_owned(),
        command_needs: HOSTILE.to_owned(),
    };
    Shell {
        title: HOSTILE.to_owned(),
        here,
        signed: Some(signed),
        passkeys_at: Some("http://localhost:7447".to_owned()),
        answers: true,
    }
}

/// A tag of a page: its name and its attributes.
#[derive(Debug)]
struct Tag {
    name: String,
    attributes: Vec<(String, String)>,
}

/// The tags of a page as a browser finds them: `<`, a name, attributes whose quoted values may hold anything but their quote.
fn tags(html: &str) -> Vec<Tag> {
    let mut found = Vec::new();
    let mut rest = html;
    while let Some((_, after)) = rest.split_once('<') {
        rest = after;
        if !rest.starts_with(|c: char| c.is_ascii_alphabetic()) {
            continue;
        }
        let (name, after) = word(rest);
        let mut tag = Tag {
            name,
            attributes: Vec::new(),
        };
        rest = after.trim_start_matches([' ', '\n', '/']);
        while !rest.starts_with('>') {
            let (name, after) = word(rest);
            assert!(!name.is_empty(), "a tag ends: {tag:?}");
            let value = after.strip_prefix('=').map(|after| {
                let quoted = after
                    .strip_prefix('"')
                    .unwrap_or_else(|| panic!("{name} has a value without quotes in {tag:?}"));
                quoted.split_once('"').expect("a value ends")
            });
            let (value, after) = value.unwrap_or(("", after));
            tag.attributes.push((name, value.to_owned()));
            rest = after.trim_start_matches([' ', '\n', '/']);
        }
        found.push(tag);
    }
    found
}

/// The name that `text` begins with, and what follows it.
fn word(text: &str) -> (String, &str) {
    let end = text
        .find(|c: char| c.is_whitespace() || matches!(c, '=' | '>' | '/'))
        .expect("a tag ends");
    let (name, rest) = text.split_at(end);
    (name.to_ascii_lowercase(), rest)
}

/// Every id once, every label and description tied to something that is there, headings in order.
fn check_structure(name: &str, tags: &[Tag]) {
    let value = |tag: &Tag, wanted: &str| {
        tag.attributes
            .iter()
            .find(|(name, _)| name == wanted)
            .map(|(_, value)| value.clone())
    };
    let mut ids = std::collections::HashSet::new();
    for tag in tags {
        if let Some(id) = value(tag, "id") {
            assert!(ids.insert(id.clone()), "{name}: the id {id} stands twice");
        }
    }
    let mut level = 0;
    for tag in tags {
        for attribute in ["for", "aria-describedby", "aria-labelledby", "list"] {
            for id in value(tag, attribute)
                .iter()
                .flat_map(|ids| ids.split_whitespace())
            {
                assert!(
                    ids.contains(id),
                    "{name}: {attribute} names {id}, which is not there"
                );
            }
        }
        let labelled = value(tag, "id").is_some_and(|id| {
            tags.iter()
                .any(|label| value(label, "for").as_deref() == Some(id.as_str()))
        });
        let hidden = value(tag, "type").as_deref() == Some("hidden");
        assert!(
            hidden || labelled || !matches!(tag.name.as_str(), "input" | "select" | "textarea"),
            "{name}: a field without a label: {tag:?}"
        );
        if let Some(new) = tag
            .name
            .strip_prefix('h')
            .and_then(|level| level.parse::<u32>().ok())
        {
            assert!(
                new <= level + 1,
                "{name}: a heading of level {new} after one of level {level}"
            );
            level = new;
        }
        if tag.name == "form" {
            assert_eq!(
                value(tag, "action")
                    .as_deref()
                    .and_then(|action| action.chars().next()),
                Some('/'),
                "{name}: a form leads elsewhere"
            );
        }
    }
}

fn check<T: Template>(name: &str, samples: Vec<T>) {
    assert!(!samples.is_empty(), "{name} has no samples");
    for sample in samples {
        let html = sample.render().unwrap();
        let tags = tags(&html);
        for tag in &tags {
            if tag.name == "script" {
                assert!(
                    tag.attributes
                        .iter()
                        .any(|(name, value)| name == "src" && value.starts_with("/static/")),
                    "{name}: an inline script"
                );
            }
            assert!(
                !matches!(
                    tag.name.as_str(),
                    "style" | "iframe" | "object" | "embed" | "base"
                ),
                "{name}: {tag:?}"
            );
            for (attribute, value) in &tag.attributes {
                assert!(
                    attribute != "style" && !attribute.starts_with("on"),
                    "{name}: {tag:?}"
                );
                if matches!(attribute.as_str(), "href" | "src" | "action" | "formaction") {
                    let scheme = value.trim_start().to_ascii_lowercase();
                    assert!(
                        value.starts_with(['/', '#']) && !scheme.starts_with("//"),
                        "{name}: {attribute} leads to {value}"
                    );
                }
            }
        }
        assert_eq!(
            html.matches("<script").count(),
            tags.iter().filter(|tag| tag.name == "script").count()
        );
        assert!(
            !html.contains("alert(1)</script>") && !html.contains("onerror=alert(2) style=color:red>"),
            "{name}: markup from outside"
        );
        check_structure(name, &tags);
    }
}

// spec: DRF-037
#[test]
fn no_text_from_outside_becomes_markup_on_any_page() {
    check("setup", setup::SetupPage::samples());
    check("sign-in", sign_in::SignInPage::samples());
    check("confirm", confirm::ConfirmPage::samples());
    check("overview", overview::OverviewPage::samples());
    check("notices", overview::NoticesFragment::samples());
    check("plugins", plugins::PluginsPage::samples());
    check("packages", packages::PackagesPage::samples());
    check("package", packages::PackagePage::samples());
    check("asks", asks::AsksPage::samples());
    check("ended", asks::EndedPage::samples());
    check("drafts", drafts::DraftsPage::samples());
    check("archive", drafts::ArchivePage::samples());
    check("chief", chief::ChiefPage::samples());
    check("conversation", chief::ConversationPage::samples());
    check("audit", audit::AuditPage::samples());
    check("policies", policies::PoliciesPage::samples());
    check("policy", policies::PolicyPage::samples());
    check("tasks", tasks::TasksPage::samples());
    check("task", tasks::TaskPage::samples());
    check("permissions", permissions::PermissionsPage::samples());
    check("projects", projects::ProjectsPage::samples());
    check("databases", databases::DatabasesPage::samples());
    check("database", databases::DatabasePage::samples());
    check("settings", settings::SettingsPage::samples());
    check("refusal", refuse::Refusal::samples());
}

#[test]
fn every_template_is_checked() {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/pages");
    let mut templates: Vec<String> = std::fs::read_dir(here)
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .filter(|name| name.ends_with(".html") && !name.starts_with('_') && name != "layout.html")
        .collect();
    templates.sort();
    let checked = [
        "archive",
        "asks",
        "audit",
        "chief",
        "confirm",
        "conversation",
        "database",
        "databases",
        "drafts",
        "ended",
        "notices",
        "overview",
        "package",
        "packages",
        "permissions",
        "plugins",
        "policies",
        "policy",
        "projects",
        "refusal",
        "settings",
        "setup",
        "sign_in",
        "task",
        "tasks",
    ];
    assert_eq!(templates, checked.map(|name| format!("{name}.html")));
}

#[test]
fn the_check_sees_what_it_looks_for() {
    let bad = tags(r#"<p title="a > b" onclick="x()"><script>1</script><IMG src="/x" style="a">"#);
    let names: Vec<_> = bad.iter().map(|tag| tag.name.as_str()).collect();
    assert_eq!(names, ["p", "script", "img"]);
    assert_eq!(
        bad[0].attributes,
        [
            ("title".to_owned(), "a > b".to_owned()),
            ("onclick".to_owned(), "x()".to_owned())
        ]
    );
    assert_eq!(bad[2].attributes[1], ("style".to_owned(), "a".to_owned()));
}
