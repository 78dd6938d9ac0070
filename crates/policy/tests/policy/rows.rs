//! The rows of the ledger that permissions alone can prove, one by one. Never a row that needs storage, tools or pages.

use muster_core::Time;
use muster_core::ids::TokenId;
use muster_policy::{
    Action, Answer, Approval, Basis, Decision, Effect, Grant, Invalid, Layer, LayerName, LayerState, Needs,
    Pair, Policy, Request, Scope, Standing, Tangled, decide, is_covered, may_author, root_of,
};

use crate::support::{answer, grant, layer, pair, policy, target};

fn only(grants: &str) -> Policy {
    policy(layer(grants), Layer::absent(), Layer::absent())
}

fn reason(policy: &Policy, needs: &Needs) -> String {
    match decide(Standing::Under(policy), needs) {
        Decision::Deny(refusal) => refusal.to_string(),
        other => panic!("{other:?}"),
    }
}

// spec: POL-002 POL-003 POL-031
#[test]
fn one_grant_opens_one_action_on_one_resource_and_nothing_else() {
    let policy = only("db_read db_connection:staging allow");
    assert_eq!(answer(&policy, "db_read db_connection:staging"), Answer::Allow);
    assert_eq!(answer(&policy, "db_read db_connection:prod"), Answer::NotGranted);
    for action in Action::ALL.iter().filter(|action| **action != Action::DbRead) {
        for named in [
            "db_connection:staging",
            "project:p1",
            "host:h1",
            "integration:i1",
            "repo:acme/app",
        ] {
            let pair = Pair::new(*action, target(named));
            assert_eq!(policy.verdict(&pair).answer, Answer::NotGranted, "{pair}");
        }
    }
}

// spec: POL-005 POL-006
#[test]
fn a_grant_without_one_of_its_words_or_with_an_unknown_one_is_refused_by_a_list_of_the_valid_ones() {
    let eleven = "projects_read, tasks_write, tasks_close, worktree_read, diff_read, pr_write, hosts_read, db_read, \
                  db_write, issues_read, issues_write";
    for bad in ["db_reed", "", "DB_READ", "db_read ", "any"] {
        let sentence = Grant::parse(bad, "any", "allow").unwrap_err().to_string();
        assert!(
            sentence.contains("the eleven actions are") && sentence.contains(eleven),
            "{sentence}"
        );
    }
    for bad in ["maybe", "", "ALLOW", "allow,deny"] {
        let sentence = Grant::parse("db_read", "any", bad).unwrap_err().to_string();
        assert!(
            sentence.contains("the three effects are allow, ask, deny"),
            "{sentence}"
        );
    }
    for bad in ["", "staging", "db_connection", "ANY", "db:staging"] {
        let sentence = Grant::parse("db_read", bad, "allow").unwrap_err().to_string();
        assert!(
            sentence.contains("project, worktree, db_connection, host, integration, repo"),
            "{sentence}"
        );
    }
    assert!(
        "tasks"
            .parse::<LayerName>()
            .unwrap_err()
            .to_string()
            .contains("global, project, task")
    );
}

// spec: POL-011
#[test]
fn there_are_eleven_actions_and_each_reads_back_as_itself() {
    let words: Vec<&str> = Action::ALL.iter().map(|action| action.as_str()).collect();
    assert_eq!(words, crate::support::KINDS.map(|(action, _)| action));
    for (action, kinds) in Action::ALL
        .iter()
        .zip(crate::support::KINDS.map(|(_, kinds)| kinds))
    {
        assert_eq!(action.as_str().parse::<Action>().as_ref(), Ok(action));
        assert_eq!(
            action
                .kinds()
                .iter()
                .map(|kind| kind.as_str())
                .collect::<Vec<_>>(),
            kinds
        );
        assert!(!action.covers().is_empty());
    }
}

#[test]
fn writing_tasks_does_not_include_closing_them() {
    let writer = only("tasks_write any allow");
    assert_eq!(answer(&writer, "tasks_write project:p1"), Answer::Allow);
    assert_eq!(answer(&writer, "tasks_close project:p1"), Answer::NotGranted);
    let closer = only("tasks_write any allow, tasks_close any allow");
    assert_eq!(answer(&closer, "tasks_close project:p1"), Answer::Allow);
}

#[test]
fn a_diff_and_a_worktree_are_opened_each_by_its_own_action() {
    for (granted, other) in [("worktree_read", "diff_read"), ("diff_read", "worktree_read")] {
        let policy = only(&format!("{granted} worktree:w1 allow"));
        assert_eq!(
            answer(&policy, &format!("{granted} worktree:w1@p1")),
            Answer::Allow
        );
        assert_eq!(
            answer(&policy, &format!("{other} worktree:w1@p1")),
            Answer::NotGranted
        );
    }
}

// spec: POL-029 POL-030
#[test]
fn a_scope_is_any_or_exactly_one_resource_of_six_kinds() {
    for good in [
        "any",
        "project:p",
        "worktree:7",
        "db_connection:staging",
        "host:build-1.example",
        "integration:GitHub_1",
        "repo:acme/app",
        "repo:acme/.github",
        "repo:group/sub/app",
    ] {
        assert_eq!(good.parse::<Scope>().unwrap().to_string(), good);
    }
    let too_long = format!("db_connection:{}", "a".repeat(65));
    for bad in [
        "db_connection:a,b",
        "db_connection:*",
        "db_connection:a*",
        "db_connection:",
        "db_connection: a",
        "db_connection:a b",
        "db_connection:../a",
        "db_connection:a/b",
        "db_connection:-a",
        "db_connection:a:b",
        "db_connection:ä",
        "db_connection:a\n",
        "db_connection:a\u{200b}",
        too_long.as_str(),
        "repo:app",
        "repo:acme/*",
        "repo:acme/..",
        "repo:../acme",
        "repo:acme//app",
        "repo:/acme/app",
        "repo:acme/app/",
        "repo:acme/-x",
        "task:1",
        "any:x",
        "*",
        " any",
    ] {
        assert!(bad.parse::<Scope>().is_err(), "{bad}");
    }
    assert_eq!(Scope::from_parts("any", None), Ok(Scope::Any));
    assert_eq!(
        Scope::from_parts("host", Some("h1")),
        Ok("host:h1".parse().unwrap())
    );
    for (kind, id) in [
        ("any", Some("h1")),
        ("host", None),
        ("", None),
        ("task", Some("1")),
    ] {
        assert!(Scope::from_parts(kind, id).is_err(), "{kind} {id:?}");
    }
}

// spec: POL-032
#[test]
fn one_worktree_only_can_be_expressed_and_a_project_stands_for_its_worktrees() {
    let one = only("worktree_read worktree:w1 allow, diff_read worktree:w1 allow");
    assert_eq!(answer(&one, "diff_read worktree:w1@p1"), Answer::Allow);
    assert_eq!(answer(&one, "diff_read worktree:w2@p1"), Answer::NotGranted);
    assert_eq!(answer(&one, "diff_read project:p1"), Answer::NotGranted);
    let project = only("diff_read project:p1 allow, diff_read worktree:w2 deny");
    assert_eq!(answer(&project, "diff_read worktree:w1@p1"), Answer::Allow);
    assert_eq!(answer(&project, "diff_read worktree:w2@p1"), Answer::Deny);
    assert_eq!(answer(&project, "diff_read worktree:w3@p2"), Answer::NotGranted);
}

// spec: POL-033 POL-034 POL-038
#[test]
fn any_covers_every_resource_of_its_actions_kinds_those_to_come_too_and_never_no_resource() {
    let policy = only("db_read any allow");
    for connection in ["db_connection:a", "db_connection:made-later"] {
        assert_eq!(answer(&policy, &format!("db_read {connection}")), Answer::Allow);
    }
    for other in [
        "db_read none",
        "db_read project:p1",
        "diff_read worktree:w1@p1",
        "hosts_read host:h1",
    ] {
        assert_eq!(answer(&policy, other), Answer::NotGranted, "{other}");
    }
    let sentence = reason(&policy, &Needs::naming_nothing(Action::DbRead));
    assert!(sentence.contains("db_read names no resource"), "{sentence}");
    assert_eq!(
        answer(&only("db_read any deny"), "db_read none"),
        Answer::NotGranted
    );
}

// spec: POL-037
#[test]
fn a_grant_of_the_wrong_kind_is_refused_when_authored_and_opens_nothing_when_stored() {
    let refused = Grant::parse("db_read", "project:x", "allow").unwrap_err();
    assert_eq!(
        refused.to_string(),
        "db_read is never about a project; it takes `any` or a db_connection"
    );
    assert_eq!(
        Layer::absent().with(grant("db_read project:x allow")),
        Err(refused)
    );
    let stored = only("db_read project:x allow");
    assert_eq!(stored.layer(LayerName::Global).state(), LayerState::Authored);
    assert_eq!(answer(&stored, "db_read project:x"), Answer::NotGranted);
    assert_eq!(answer(&stored, "db_read db_connection:x"), Answer::NotGranted);
}

// spec: POL-040 POL-041
#[test]
fn a_write_to_a_database_is_charged_as_a_read_too() {
    let needs = Needs::of(Action::DbWrite, target("db_connection:x"));
    let words: Vec<String> = needs.pairs().iter().map(ToString::to_string).collect();
    assert_eq!(
        words,
        ["db_read on db_connection:x", "db_write on db_connection:x"]
    );

    let write_only = only("db_write db_connection:x allow");
    let sentence = reason(&write_only, &needs);
    assert!(
        sentence.contains("db_read on db_connection:x is not granted by the global layer"),
        "{sentence}"
    );
    assert!(!sentence.contains("db_write"), "{sentence}");

    let both = only("db_write any allow, db_read any allow");
    let narrowed = both.with(LayerName::Project, layer("db_read any deny, db_write any allow"));
    assert!(reason(&narrowed, &needs).contains("denied by the project layer"));

    let asking = only("db_write any allow, db_read any ask");
    let Decision::Ask(asked) = decide(Standing::Under(&asking), &needs) else {
        panic!()
    };
    assert_eq!(asked.asking().count(), 1);
    assert!(!answer(&asking, "db_read db_connection:x").refuses());
}

#[test]
fn a_refusal_says_which_pair_and_which_layer_and_what_the_owner_can_do() {
    let policy = policy(
        layer("pr_write any allow, issues_read any allow"),
        layer("pr_write repo:acme/app deny, issues_read any allow"),
        Layer::absent(),
    );
    let needs = Needs::of(Action::PrWrite, target("repo:acme/app"));
    assert_eq!(
        reason(&policy, &needs),
        "Refused, and nothing was done: pr_write on repo:acme/app is denied by the project layer, and the owner can revoke that grant."
    );
    let both = Needs::new(
        pair("pr_write repo:acme/app"),
        [pair("hosts_read host:h1"), pair("issues_read integration:i1")],
    );
    let Decision::Deny(refusal) = decide(Standing::Under(&policy), &both) else {
        panic!()
    };
    assert_eq!(
        (
            refusal.outcome(),
            refusal.refused().count(),
            refusal.verdicts().len()
        ),
        ("refused_denied", 2, 3)
    );
    assert!(
        refusal
            .to_string()
            .contains("hosts_read on host:h1 is not granted by the global layer")
    );
    let closed = reason(&Policy::closed(), &needs);
    assert!(closed.contains("the policy has no layer"), "{closed}");
}

// spec: POL-060
#[test]
fn a_narrower_allow_does_not_lift_a_wider_deny_of_its_own_layer() {
    let policy = only("db_read any deny, db_read db_connection:x allow");
    assert_eq!(answer(&policy, "db_read db_connection:x"), Answer::Deny);
    let asked = only("db_read any ask, db_read db_connection:x allow");
    assert_eq!(answer(&asked, "db_read db_connection:x"), Answer::Ask);
}

// spec: POL-062 POL-066
#[test]
fn layers_intersect() {
    let policy = policy(
        layer("issues_read any allow, db_read any allow"),
        layer("db_read any allow, hosts_read any allow"),
        layer("db_read db_connection:x allow, pr_write any allow"),
    );
    assert_eq!(answer(&policy, "db_read db_connection:x"), Answer::Allow);
    for none in [
        "db_read db_connection:y",
        "issues_read integration:i1",
        "hosts_read host:h1",
        "pr_write repo:acme/app",
    ] {
        assert_eq!(answer(&policy, none), Answer::NotGranted, "{none}");
    }
}

// spec: POL-071 POL-072 POL-076
#[test]
fn absent_inherits_empty_refuses_and_no_layer_at_all_grants_nothing() {
    let granted = only("db_read any allow");
    let question = "db_read db_connection:x";
    assert_eq!(answer(&granted, question), Answer::Allow);
    assert_eq!(
        answer(&granted.with(LayerName::Task, Layer::empty()), question),
        Answer::NotGranted
    );
    assert_eq!(answer(&Policy::closed(), question), Answer::NotGranted);
    // The last grant taken away leaves the layer empty, and granting into an absent one authors it.
    let emptied = layer("db_read any allow")
        .without(Action::DbRead, &Scope::Any)
        .unwrap();
    assert_eq!(emptied.state(), LayerState::Empty);
    assert_eq!(emptied, Layer::empty());
    assert_ne!(emptied, Layer::absent());
    assert_eq!(
        Layer::absent().with(grant("db_read any allow")),
        Ok(layer("db_read any allow"))
    );
    assert!(matches!(
        Layer::absent().without(Action::DbRead, &Scope::Any),
        Err(Invalid::NoSuchGrant { .. })
    ));
}

#[test]
fn a_fork_reads_the_upper_layers_from_its_root_however_far_up_it_is() {
    let parents = |id: u8| {
        Ok::<_, ()>(match id {
            3 => Some(2),
            2 => Some(1),
            _ => None,
        })
    };
    assert_eq!(root_of(3, parents), Ok(1));
    let root = policy(
        layer("db_read any allow"),
        layer("db_read any allow"),
        layer("db_read any deny"),
    );
    let own = layer("db_read db_connection:x allow");
    let fork = Policy::fork(&root, own.clone());
    assert_eq!(answer(&fork, "db_read db_connection:x"), Answer::Allow);
    let revoked = root.with(LayerName::Project, Layer::empty());
    assert_eq!(
        answer(&Policy::fork(&revoked, own), "db_read db_connection:x"),
        Answer::NotGranted
    );
    for upper in [LayerName::Global, LayerName::Project] {
        let refused = may_author(true, upper).unwrap_err().to_string();
        assert!(
            refused.contains(upper.as_str()) && refused.contains("root"),
            "{refused}"
        );
        assert_eq!(may_author(false, upper), Ok(()));
    }
    assert_eq!(may_author(true, LayerName::Task), Ok(()));
}

#[test]
fn a_circle_of_parents_a_chain_without_end_and_an_unreadable_parent_have_no_root() {
    assert_eq!(
        root_of(1, |id| Ok::<_, ()>(Some(if id == 5 { 3 } else { id + 1 }))),
        Err(Tangled::Circle)
    );
    assert_eq!(root_of(1, |id| Ok::<_, ()>(Some(id))), Err(Tangled::Circle));
    assert_eq!(
        root_of(1_u64, |id| Ok::<_, ()>(Some(id + 1))),
        Err(Tangled::TooDeep)
    );
    assert_eq!(root_of(1, |_| Err("gone")), Err(Tangled::Unread("gone")));
}

#[test]
fn without_a_policy_nothing_is_restricted_and_the_permit_says_so() {
    let needs = Needs::of(Action::DbWrite, target("db_connection:x"));
    let Decision::Allow(permit) = decide(Standing::Unscoped, &needs) else {
        panic!()
    };
    assert_eq!(
        (permit.basis(), permit.basis().outcome()),
        (Basis::Unscoped, "allowed")
    );
    assert_eq!(
        Standing::Unscoped.verdict(&pair("db_read none")).answer.as_str(),
        "unscoped"
    );
}

// spec: ASK-006
#[test]
fn one_prompt_covers_all_pairs_and_a_deny_that_came_meanwhile_beats_the_approval() {
    let needs = Needs::of(Action::DbWrite, target("db_connection:x"));
    for (grants, asking) in [
        ("db_read any ask, db_write any ask", 2),
        ("db_read any allow, db_write any ask", 1),
    ] {
        let policy = only(grants);
        let Decision::Ask(asked) = decide(Standing::Under(&policy), &needs) else {
            panic!()
        };
        assert_eq!((asked.asking().count(), asked.needs().pairs().len()), (asking, 2));
        let permit = decide(Standing::Under(&policy), &needs)
            .approved(Approval::Person)
            .unwrap();
        assert_eq!(permit.basis().outcome(), "allowed_by_person");
        for action in [Action::DbRead, Action::DbWrite] {
            assert!(permit.covers(action, target("db_connection:x").resource()));
            assert!(!permit.covers(action, target("db_connection:y").resource()));
        }
        let denied = policy.with(LayerName::Task, layer("db_read any deny, db_write any allow"));
        let refusal = decide(Standing::Under(&denied), &needs)
            .approved(Approval::Person)
            .unwrap_err();
        assert!(refusal.is_denied());
    }
    let denied = only("db_read any ask, db_write any deny");
    assert!(matches!(
        decide(Standing::Under(&denied), &needs),
        Decision::Deny(_)
    ));
}

#[test]
fn each_way_to_a_permit_has_a_word_of_its_own() {
    let policy = only("db_read any ask");
    let needs = Needs::of(Action::DbRead, target("db_connection:x"));
    let words = [Approval::Person, Approval::Recent, Approval::NobodyToAsk].map(|approval| {
        let Decision::Ask(asked) = decide(Standing::Under(&policy), &needs) else {
            panic!()
        };
        asked.approved(approval).basis().outcome()
    });
    assert_eq!(
        words,
        [
            "allowed_by_person",
            "allowed_by_recent_approval",
            "auto_allowed_app_closed"
        ]
    );
}

#[test]
fn an_approval_covers_the_same_agent_tool_and_pairs_and_for_what_changes_something_the_same_arguments() {
    let read = |connection: &str| Needs::of(Action::DbRead, target(connection));
    let (x, y) = (read("db_connection:x"), read("db_connection:y"));
    let write = Needs::of(Action::DbWrite, target("db_connection:x"));
    let request = |agent, tool, needs, arguments| Request {
        agent: TokenId::new(agent),
        tool,
        needs,
        arguments,
    };
    let first = request(1, "muster_db_query", &x, "{\"a\":1}");
    let same = |other: Request<'_>| first.approval_key() == other.approval_key();
    assert!(same(request(1, "muster_db_query", &x, "{\"a\":2}")));
    assert!(!same(request(2, "muster_db_query", &x, "{\"a\":1}")));
    assert!(!same(request(1, "muster_db_preview", &x, "{\"a\":1}")));
    assert!(!same(request(1, "muster_db_query", &y, "{\"a\":1}")));
    assert!(!same(request(1, "muster_db_query", &write, "{\"a\":1}")));
    let written = |arguments| request(1, "muster_db_execute", &write, arguments).approval_key();
    assert_ne!(written("{\"a\":1}"), written("{\"a\":2}"));
    // One prompt while parked: the arguments count for a read as well.
    let parked = |arguments| request(1, "muster_db_query", &x, arguments).parking_key();
    assert_eq!(parked("{}"), parked("{}"));
    assert_ne!(parked("{\"a\":1}"), parked("{\"a\":2}"));
    for action in Action::ALL {
        let word = action.as_str();
        assert_eq!(
            action.changes(),
            word.ends_with("_write") || word == "tasks_close",
            "{word}"
        );
    }
}

#[test]
fn an_approval_covers_sixty_seconds_from_itself_and_nothing_before_it() {
    let at = |micros: i64| Time::from_micros(1_000_000_000 + micros);
    for (micros, covered) in [
        (0, true),
        (59_999_999, true),
        (60_000_000, false),
        (65_000_000, false),
        (-1, false),
    ] {
        assert_eq!(is_covered(at(0), at(micros)), covered, "{micros}");
    }
}

#[test]
fn a_layer_holds_one_effect_for_an_action_and_a_scope_and_ten_thousand_grants() {
    let twice = Layer::authored([grant("db_read any allow"), grant("db_read any deny")]);
    assert!(matches!(twice, Err(Invalid::Twice { .. })));
    let many =
        |count: usize| (0..count).map(|number| grant(&format!("db_read db_connection:c{number} allow")));
    assert_eq!(Layer::authored(many(10_000)).unwrap().grants().len(), 10_000);
    assert_eq!(
        Layer::authored(many(10_001)),
        Err(Invalid::TooMany { given: 10_001 })
    );
    let full = Layer::authored(many(10_000)).unwrap();
    assert!(full.with(grant("db_read any deny")).is_err());
    assert!(full.with(grant("db_read db_connection:c1 deny")).is_ok());
    assert_eq!(Effect::ALL.len(), 3);
}

#[test]
fn a_repo_is_the_same_in_every_case_of_its_letters_and_is_shown_as_it_was_written() {
    let held = layer("pr_write repo:Acme/App deny");
    for named in ["repo:acme/app", "repo:ACME/APP", "repo:Acme/App"] {
        let policy = policy(layer("pr_write any allow"), held.clone(), Layer::absent());
        assert_eq!(
            answer(&policy, &format!("pr_write {named}")),
            Answer::Deny,
            "{named}"
        );
        assert!(
            held.without(Action::PrWrite, &named.parse().unwrap())
                .unwrap()
                .grants()
                .is_empty()
        );
    }
    let replaced = held.with(grant("pr_write repo:acme/app allow")).unwrap();
    assert_eq!(format!("{replaced:?}"), "[\"pr_write repo:acme/app allow\"]");
    // Stored before the two spellings were one: the strictest counts, and one edit reaches both.
    let both = layer("pr_write repo:acme/app allow, pr_write repo:Acme/App deny");
    assert_eq!(both.matching(&pair("pr_write repo:acme/APP")).len(), 2);
    let policy = policy(both.clone(), Layer::absent(), Layer::absent());
    assert_eq!(answer(&policy, "pr_write repo:acme/app"), Answer::Deny);
    assert!(
        both.without(Action::PrWrite, &"repo:acme/app".parse().unwrap())
            .unwrap()
            .grants()
            .is_empty()
    );
    let turned = layer("pr_write repo:Acme/App deny, pr_write repo:acme/app allow");
    let json = |layer: Layer| Policy::new(layer, Layer::absent(), Layer::absent()).to_json();
    assert_eq!(json(turned), json(both));
}
