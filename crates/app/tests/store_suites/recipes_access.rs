//! The same for what permissions govern, and for permissions themselves: one row of everything, and the arguments that name those rows. Never decides what may be seen.

use muster_store::Value;

use crate::recipes::Expect::{Nothing, Own, Refused, Zero};
use crate::recipes::{Expect, LATE, NO_TEXT, Seeded, THEN, args};

/// The ids of an owner's rows.
pub(crate) struct Access {
    integration: i64,
    pub(crate) policy: i64,
    fork: i64,
    layer: i64,
    project: i64,
    pub(crate) task: i64,
    spare_task: i64,
    worktree: i64,
    host: i64,
    run: i64,
    connection: i64,
    agent: i64,
    ask: i64,
    others: i64,
    approved: i64,
    abandoned: i64,
    spare_policy: i64,
    spare_layer: i64,
    bare_policy: i64,
    revoked: i64,
}

impl Access {
    pub(crate) fn from(base: i64) -> Self {
        let id = |n: i64| base + n;
        Self {
            integration: id(60),
            policy: id(61),
            fork: id(62),
            layer: id(63),
            project: id(65),
            task: id(66),
            spare_task: id(67),
            worktree: id(68),
            host: id(69),
            run: id(70),
            connection: id(71),
            agent: id(73),
            ask: id(74),
            others: id(80),
            approved: id(90),
            abandoned: id(91),
            spare_policy: id(92),
            spare_layer: id(93),
            bare_policy: id(94),
            revoked: id(95),
        }
    }
}

pub(crate) fn seeds(s: &Seeded) -> Vec<String> {
    let (o, n, t, a) = (s.owner, s.name.as_str(), THEN, &s.access);
    let task = |id: i64, source: &str| {
        format!(
            "INSERT INTO tasks (id, owner_id, project_id, title, body, status, policy_id, unscoped, source_integration_id, source_key, created_by, created_at) \
             VALUES ({id}, {o}, {}, '{n}-title', '{n}-body', 'open', {}, FALSE, {source}, '{n}-by', {t})",
            a.project, a.policy
        )
    };
    let policy = |id: i64, kin: &str| {
        format!(
            "INSERT INTO policies (id, owner_id, name, parent_id, root_id, revision, created_at, updated_at) VALUES ({id}, {o}, '{n}-policy-{id}', {kin}, {kin}, 1, {t}, {t})"
        )
    };
    vec![
        format!(
            "INSERT INTO integrations (id, owner_id, name, kind, url, secret, created_at) VALUES ({}, {o}, '{n}-integration', 'github', '{n}-url', '{n}-secret', {t})",
            a.integration
        ),
        policy(a.policy, "NULL"),
        policy(a.fork, &a.policy.to_string()),
        format!(
            "INSERT INTO policy_layers (id, owner_id, policy_id, layer, authored_at) VALUES ({}, {o}, {}, 'task', {t})",
            a.layer, a.fork
        ),
        format!(
            "INSERT INTO grants (id, owner_id, layer_id, action, scope_kind, scope, effect) VALUES ({}, {o}, {}, 'hosts_read', 'host', '{n}-scope', 'ask')",
            a.others, a.layer
        ),
        format!(
            "INSERT INTO projects (id, owner_id, name, root, repo, integration_id, default_policy_id, created_at) VALUES ({}, {o}, '{n}-project', '{n}-root', '{n}-repo', {}, {}, {t})",
            a.project, a.integration, a.policy
        ),
        task(a.task, &format!("{}, '{n}-key'", a.integration)),
        task(a.spare_task, "NULL, NULL"),
        format!(
            "INSERT INTO worktrees (id, owner_id, task_id, path, branch, base, created_at) VALUES ({}, {o}, {}, '{n}-path', '{n}-branch', '{n}-base', {t})",
            a.worktree, a.task
        ),
        format!(
            "INSERT INTO hosts (id, owner_id, name, created_at) VALUES ({}, {o}, '{n}-host', {t})",
            a.host
        ),
        format!(
            "INSERT INTO runs (id, owner_id, task_id, policy_id, host_id, profile, prompt, state, created_by, created_at) VALUES ({}, {o}, {}, {}, {}, '{n}-profile', '{n}-prompt', 'queued', '{n}-by', {t})",
            a.run, a.task, a.policy, a.host
        ),
        format!(
            "INSERT INTO db_connections (id, owner_id, project_id, name, engine, url, write_url, wide, created_at, checked_at, checked) VALUES ({}, {o}, {}, '{n}-connection', 'postgres', '{n}-url', '{n}-write-url', FALSE, {t}, {t}, '{n}-checked')",
            a.connection, a.project
        ),
        format!(
            "INSERT INTO settings (id, owner_id, key, value) VALUES ({}, {o}, '{n}-key', '{n}-value')",
            a.others
        ),
        format!(
            "INSERT INTO tokens (id, owner_id, kind, token_hash, label, task_id, created_at) VALUES ({}, {o}, 'agent', '{n}-task-token', '{n}-worker', {}, {t})",
            a.agent, a.task
        ),
        format!(
            "INSERT INTO asks (id, owner_id, state, kind, token_id, task_id, tool, arguments, pairs, parking_key, approval_key, created_at, expires_at) \
             VALUES ({}, {o}, 'parked', 'permission', {}, {}, '{n}-tool', '{n}-arguments', '{n}-pairs', '{n}-parking', '{n}-approval', {t}, {LATE})",
            a.ask, a.agent, a.task
        ),
        format!(
            "INSERT INTO ask_callers (id, owner_id, ask_id, process) VALUES ({}, {o}, {}, 1)",
            a.others, a.ask
        ),
        format!(
            "INSERT INTO approvers (id, owner_id, process, kind) VALUES ({}, {o}, 1, 'page')",
            a.others
        ),
        format!(
            "INSERT INTO asks (id, owner_id, state, kind, token_id, tool, arguments, pairs, parking_key, approval_key, created_at, expires_at, decided_at, decided_by) \
             VALUES ({}, {o}, 'approved', 'permission', {}, '{n}-tool', '{n}-arguments', '{n}-pairs', '{n}-other', '{n}-approved', {t}, {LATE}, {t}, '{n}-by')",
            a.approved, a.agent
        ),
        format!(
            "INSERT INTO asks (id, owner_id, state, kind, token_id, tool, arguments, pairs, parking_key, approval_key, created_at, expires_at) \
             VALUES ({}, {o}, 'parked', 'plugin_tool', {}, '{n}-tool', '{n}-arguments', '{n}-pairs', '{n}-abandoned', '{n}-approval', {t}, {LATE})",
            a.abandoned, a.agent
        ),
        format!(
            "INSERT INTO tokens (id, owner_id, kind, token_hash, label, task_id, created_at, revoked_at) VALUES ({}, {o}, 'agent', '{n}-revoked-token', '{n}-gone', {}, {t}, {t})",
            a.revoked, a.task
        ),
        format!(
            "INSERT INTO asks (id, owner_id, state, kind, token_id, tool, arguments, pairs, parking_key, approval_key, created_at, expires_at) \
             VALUES ({}, {o}, 'parked', 'permission', {}, '{n}-tool', '{n}-arguments', '{n}-pairs', '{n}-revoked', '{n}-approval', {t}, {LATE})",
            a.revoked, a.revoked
        ),
        policy(a.spare_policy, "NULL"),
        policy(a.bare_policy, "NULL"),
        format!(
            "INSERT INTO policy_layers (id, owner_id, policy_id, layer, authored_at) VALUES ({}, {o}, {}, 'global', {t})",
            a.spare_layer, a.spare_policy
        ),
        format!(
            "INSERT INTO audit (id, owner_id, at, actor, event, subject, data, agent, task, tool, outcome, hash) VALUES ({}, {o}, {t}, '{n}-actor', 'call', '{n}-subject', '{n}-data', '{n}-agent', '{n}-task', '{n}-tool', '{n}-outcome', '{n}-hash')",
            a.others
        ),
        format!(
            "INSERT INTO audit (id, owner_id, at, actor, event, subject, data) VALUES ({}, {o}, {t}, '{n}-actor', 'db.shell', '{n}-connection', '{n}-data')",
            a.connection
        ),
    ]
}

pub(crate) fn recipe(slice: &str, act: &str, s: &Seeded) -> Option<(Expect, Vec<Value>)> {
    match slice {
        "integrations" => integrations(act, s),
        "projects" => projects(act, s),
        "tasks" => tasks(act, s),
        "hosts" => hosts(act, s),
        "databases" => databases(act, s),
        "access" => access(act, s),
        "policies" => policies(act, s),
        "resources" => resources(act, s),
        "settings" => settings(act, s),
        _ => None,
    }
}

fn integrations(act: &str, s: &Seeded) -> Option<(Expect, Vec<Value>)> {
    let id = s.access.integration;
    Some(match act {
        "insert" => (
            Own,
            args![format!("{}-integration", s.name), "github", "https://forge", THEN],
        ),
        "set_secret" => (Nothing, args![id, "taken over"]),
        "list" => (Nothing, args![]),
        "find" => (Nothing, args![id, format!("{}-integration", s.name)]),
        "secret" | "used_by" => (Nothing, args![id]),
        "rename" => (Nothing, args![id, "taken-over"]),
        "remove" => (Nothing, args![id, LATE]),
        _ => return None,
    })
}

fn projects(act: &str, s: &Seeded) -> Option<(Expect, Vec<Value>)> {
    let id = s.access.project;
    Some(match act {
        "insert" => (
            Own,
            args![
                format!("{}-project", s.name),
                "/somewhere",
                NO_TEXT,
                None::<i64>,
                THEN
            ],
        ),
        "list" => (Nothing, args![]),
        "find" => (Nothing, args![id, format!("{}-project", s.name)]),
        "root" | "open_tasks" | "connections" => (Nothing, args![id]),
        "rename" => (Nothing, args![id, "taken-over"]),
        "set_default" => (Nothing, args![id, None::<i64>]),
        "remove" => (Nothing, args![id, LATE]),
        "policy" => (
            Nothing,
            args![s.access.policy, format!("{}-policy-{}", s.name, s.access.policy)],
        ),
        _ => return None,
    })
}

fn tasks(act: &str, s: &Seeded) -> Option<(Expect, Vec<Value>)> {
    let a = &s.access;
    Some(match act {
        "list" | "project" => (Nothing, args![a.project]),
        "find" | "stands" | "worktree" => (Nothing, args![a.task]),
        "runs" => (Nothing, args![a.task, a.project]),
        "integration" => (Nothing, args![a.integration]),
        "host" => (Nothing, args![a.host]),
        "insert" => (
            Refused,
            args![
                a.project,
                "a title",
                "a body",
                None::<i64>,
                false,
                None::<i64>,
                NO_TEXT,
                "owner",
                THEN
            ],
        ),
        "imported" => (
            Nothing,
            args![a.project, a.integration, format!("{}-key", s.name)],
        ),
        "set_status" => (Nothing, args![a.task, "closed", LATE]),
        "cancel_runs" => (Nothing, args![a.task, LATE]),
        // Her task is not one of theirs.
        "insert_run" => (
            Nothing,
            args![a.task, None::<i64>, NO_TEXT, NO_TEXT, "owner", THEN],
        ),
        "cancel_run" => (Nothing, args![a.run, LATE]),
        "run" => (Nothing, args![a.run]),
        "insert_worktree" => (
            Refused,
            args![a.spare_task, "/somewhere", "a branch", "a base", THEN],
        ),
        _ => return None,
    })
}

fn hosts(act: &str, s: &Seeded) -> Option<(Expect, Vec<Value>)> {
    let id = s.access.host;
    Some(match act {
        "insert" => (Own, args![format!("{}-host", s.name), THEN]),
        "list" => (Nothing, args![]),
        "find" => (Nothing, args![id, format!("{}-host", s.name)]),
        "rename" => (Nothing, args![id, "taken-over"]),
        "remove" => (Nothing, args![id, LATE]),
        "queued" => (Nothing, args![id]),
        _ => return None,
    })
}

fn databases(act: &str, s: &Seeded) -> Option<(Expect, Vec<Value>)> {
    let id = s.access.connection;
    Some(match act {
        // Her project is not one of theirs.
        "insert" => (
            Nothing,
            args![s.access.project, "a-connection", "postgres", false, THEN, THEN],
        ),
        "set_urls" => (Nothing, args![id, "taken over", NO_TEXT]),
        "set_url" => (Nothing, args![id, "taken over", true, LATE]),
        "set_write_url" => (Nothing, args![id, "taken over"]),
        "list" => (Nothing, args![]),
        "find" => (Nothing, args![id, format!("{}-connection", s.name)]),
        "urls" => (Nothing, args![id]),
        "looked" => (Nothing, args![id, LATE]),
        "checked" => (Nothing, args![id, LATE, "{}"]),
        "checks" => (Nothing, args![]),
        "statements" => (
            Nothing,
            args![format!("{}-connection", s.name), "%", "%", 500_i64],
        ),
        "rename" => (Nothing, args![id, "taken-over"]),
        "remove" => (Nothing, args![id, LATE]),
        _ => return None,
    })
}

fn access(act: &str, s: &Seeded) -> Option<(Expect, Vec<Value>)> {
    let a = &s.access;
    Some(match act {
        "parked" | "abandoned" | "processes" => (Nothing, args![]),
        "in_state" => (Nothing, args!["approved", i64::MAX, 500_i64]),
        "ended" => (Nothing, args![i64::MAX, 500_i64]),
        "ask" | "state" => (Nothing, args![a.ask]),
        "count_parked" | "count_callers" => (Zero, args![]),
        "same_parked" => (Nothing, args![format!("{}-parking", s.name)]),
        "covering" => (Nothing, args![format!("{}-approved", s.name), THEN - 1]),
        "park" => (
            Refused,
            args![
                "permission",
                a.agent,
                a.task,
                "a tool",
                "{}",
                "[]",
                "a parking key",
                "an approval key",
                THEN,
                LATE,
                NO_TEXT,
                NO_TEXT
            ],
        ),
        "decide" => (Nothing, args![a.ask, "approved", LATE, "taken over"]),
        "expire" => (Nothing, args![LATE]),
        "withdraw_of_task" => (Nothing, args![a.task, LATE]),
        "withdraw_revoked" => (Nothing, args![LATE]),
        "call" => (Refused, args![a.ask, 1_i64]),
        "leave" | "stand_up" => (Nothing, args![a.others]),
        "callers_left" => (Zero, args![a.ask, 0_i64]),
        "callers_gone" | "approvers_gone" => (Nothing, args![1_i64]),
        "sit" => (Own, args![1_i64, "page"]),
        "token_live" => (Zero, args![a.agent]),
        "owner_live" | "owner_name" => (Own, args![]),
        "task_title" => (Nothing, args![a.task]),
        _ => return None,
    })
}

fn policies(act: &str, s: &Seeded) -> Option<(Expect, Vec<Value>)> {
    let a = &s.access;
    Some(match act {
        "list" | "orphans" => (Nothing, args![]),
        "by_id" | "for_edit" | "task_dependents" | "project_dependents" | "run_dependents"
        | "fork_dependents" => (Nothing, args![a.policy]),
        "by_name" => (Nothing, args![format!("{}-policy-{}", s.name, a.policy)]),
        "insert" => (
            Own,
            args![
                format!("{}-policy-{}", s.name, a.policy),
                None::<i64>,
                None::<i64>,
                THEN
            ],
        ),
        "edited" => (Nothing, args![a.policy, LATE]),
        "delete" => (Nothing, args![a.bare_policy]),
        "delete_layers" => (Nothing, args![a.spare_policy]),
        "delete_grants" | "layers" | "in_force" => (Nothing, args![a.fork]),
        "author" => (Refused, args![a.bare_policy, "task", THEN]),
        "clear" => (Nothing, args![a.spare_layer]),
        "empty" => (Nothing, args![a.layer]),
        "grant" => (Refused, args![a.layer, "hosts_read", "host", "9", "allow"]),
        "revoke" => (
            Nothing,
            args![a.layer, "hosts_read", "host", format!("{}-scope", s.name)],
        ),
        "of_task" => (Nothing, args![a.task]),
        "attach" => (Nothing, args![a.task, None::<i64>]),
        "project" => (Nothing, args![a.project]),
        "asks" => (Zero, args![]),
        "calls" => (Nothing, args![0_i64, 500_i64]),
        _ => return None,
    })
}

fn resources(act: &str, s: &Seeded) -> Option<(Expect, Vec<Value>)> {
    Some(match act {
        "all" | "repos" => (Nothing, args![]),
        "of_task" => (Nothing, args![s.access.task]),
        "project" => (Nothing, args![s.access.project]),
        "host" => (Nothing, args![s.access.host]),
        "integration" => (Nothing, args![s.access.integration]),
        "worktree" => (Nothing, args![s.access.worktree]),
        "db_connection" => (Nothing, args![s.access.connection]),
        "repo" => (Nothing, args![format!("{}-repo", s.name)]),
        _ => return None,
    })
}

fn settings(act: &str, s: &Seeded) -> Option<(Expect, Vec<Value>)> {
    Some(match act {
        "value" => (Nothing, args![format!("{}-key", s.name)]),
        "set" => (Own, args!["asks.expiry_seconds", "5"]),
        _ => return None,
    })
}
