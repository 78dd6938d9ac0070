//! Words that name how a system is run and seldom stand in a reply to a person. It never judges ordinary technical talk.

use super::body::Body;
use super::{Found, RefusalKind};

/// The infrastructure words, compared as whole words without regard to case; a blank stands for any run of blanks.
pub const INFRASTRUCTURE_WORDS: &[&str] = &[
    // places and the user who may do everything
    "localhost",
    "localdomain",
    "loopback address",
    "root password",
    "root account",
    "root access",
    "root shell",
    "/etc/passwd",
    "/etc/shadow",
    "/var/run",
    "/proc/self",
    // programs that run machines
    "sudo",
    "sudoers",
    "systemd",
    "systemctl",
    "journalctl",
    "crontab",
    "cronjob",
    "iptables",
    "nftables",
    "firewalld",
    "ifconfig",
    // ways in
    "ssh",
    "sshd",
    "authorized_keys",
    "known_hosts",
    "id_rsa",
    "id_ed25519",
    "bastion host",
    "jump host",
    "wireguard",
    "tailnet",
    // clusters and containers
    "kubectl",
    "kubeconfig",
    "kubelet",
    "etcd",
    "dockerd",
    "dockerfile",
    "docker-compose",
    "containerd",
    "tfstate",
    // data
    "psql",
    "pg_dump",
    "pg_hba",
    "redis-cli",
    "mysqldump",
    "database_url",
    "connection string",
    "production database",
    "prod database",
    "staging server",
    "production server",
    // muster's own insides
    "muster_data_dir",
    "muster_database_url",
    "muster_hook_token",
    "muster_agent_token",
    "muster_mcp_url",
    "muster.toml",
];

/// The first infrastructure word in the text.
pub(super) fn find(body: &Body) -> Found {
    let places = INFRASTRUCTURE_WORDS.iter().filter_map(|word| {
        let phrase: Vec<char> = word.chars().collect();
        body.find_phrase(&phrase).map(|place| (place, *word))
    });
    places
        .min()
        .map(|(place, word)| (place, RefusalKind::InfrastructureWord(word)))
}
