//! The bus's settings, all from the environment: agents' clients start it, and a folder of its own holds nothing but the bus. Never read from `muster.toml`.

/// Name, default and meaning of each.
pub(crate) const VARIABLES: &[(&str, &str, &str)] = &[
    (
        "AGENT_COORD_DIR",
        "`~/agent-coord`",
        "The bus's directory; two directories are two buses. `CLAUDE_COORD_DIR` counts where this is not set.",
    ),
    (
        "AGENT_COORD_TRANSPORT",
        "none",
        "`herdr` or `tmux-push-remote`, where `config.json` in the directory names none. With neither the bus does not start.",
    ),
    (
        "AGENT_COORD_BOUND_AGENT",
        "none",
        "The agent that a session on standard streams is, from its start.",
    ),
    (
        "AGENT_COORD_HTTP_PORT",
        "none",
        "Serve many agents over HTTP on this port instead of one on standard streams.",
    ),
    (
        "AGENT_COORD_BIND",
        "`127.0.0.1`",
        "Addresses to listen on, separated by commas. An address beyond this machine needs `tokens.json` and `AGENT_COORD_INSECURE=1`.",
    ),
    (
        "AGENT_COORD_TOKEN",
        "none",
        "The bearer token that all share over HTTP. It counts only while there is no `tokens.json`.",
    ),
    (
        "AGENT_COORD_INSECURE",
        "off",
        "`1` says that what lies between this machine and the agents is encrypted otherwise (a private overlay, a TLS proxy).",
    ),
    (
        "AGENT_COORD_ID",
        "none",
        "The agent that a pusher, a node or a hook (`muster bus peek`) is for.",
    ),
    (
        "AGENT_COORD_SERVER",
        "none",
        "The bus that a pusher or a node delivers from, where no flag names it.",
    ),
    (
        "AGENT_COORD_TMUX_TARGET",
        "none",
        "The pane that a pusher types into, where no flag names it.",
    ),
    (
        "AGENT_COORD_INCLUDE_ROOM",
        "off",
        "`1` has the hooks print the agent's channels too.",
    ),
    ("AGENT_COORD_TIERS", "on", "`0` pushes every message at once."),
    (
        "AGENT_COORD_MAX_QUEUE_MS",
        "`15000`",
        "Milliseconds after which routine posts are pushed by themselves; `0` never.",
    ),
    (
        "AGENT_COORD_GATE_RUNNER",
        "the agent's role",
        "`1` or `0` says whether `DONE:` wakes the agent.",
    ),
    (
        "AGENT_COORD_GHOST_TEXT_SGR",
        "`2`",
        "The styling in which an agent's program draws suggestions, which are no draft.",
    ),
    (
        "AGENT_COORD_ROOM_MAX",
        "`1000`",
        "A channel with more entries is cut; what is cut goes to `archive/`.",
    ),
    (
        "AGENT_COORD_ROOM_KEEP",
        "`500`",
        "What such a cut leaves of a channel.",
    ),
    (
        "AGENT_COORD_STATUS_MAX",
        "`2000`",
        "The status stream with more entries is cut.",
    ),
    (
        "AGENT_COORD_STATUS_KEEP",
        "`1000`",
        "What such a cut leaves of the status stream.",
    ),
];
