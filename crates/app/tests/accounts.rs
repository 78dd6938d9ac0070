//! The laws of accounts, on both engines: owners, sign-ins, browser sessions, tokens and passkeys. Never speaks HTTP.
#![cfg(test)]

#[path = "accounts/kit.rs"]
mod kit;

#[path = "accounts/connectors.rs"]
mod connectors;
#[path = "accounts/owners.rs"]
mod owners;
#[path = "accounts/passkeys.rs"]
mod passkeys;
#[path = "accounts/sessions.rs"]
mod sessions;
#[path = "accounts/tokens.rs"]
mod tokens;
