//! Why an account, a sign-in, a passkey or a token was refused. Never tells whether a name exists to somebody who is not signed in.

use muster_core::Fault;

/// A refusal about an account.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// Not a name.
    #[error(
        "an owner's name is 1 to 64 characters of a-z, 0-9, '.', '_' and '-', begins with a letter or digit, and is not digits alone; nothing was stored"
    )]
    Name,
    /// Too short or too long.
    #[error("a password has 8 to 1024 characters; nothing was stored")]
    Password,
    /// Taken.
    #[error("there is already an owner of this name; nothing was stored")]
    NameTaken,
    /// Missing.
    #[error("there is no owner of this name")]
    NotFound,
    /// Set-up is only for a server without owners.
    #[error("this server already has an owner")]
    AlreadySetUp,
    /// Something broke.
    #[error("{}", .0.sentence())]
    Fault(#[from] Fault),
}

/// A refused sign-in or confirmation. One sentence for a wrong name, a wrong password and a disabled account.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// Wrong, whatever of it.
    #[error("this name and password do not belong to an account that may sign in")]
    Wrong,
    /// Something broke.
    #[error("{}", .0.sentence())]
    Fault(#[from] Fault),
}

/// A refusal about a passkey.
#[derive(Debug, thiserror::Error)]
pub enum PasskeyError {
    /// The server's address is a bare IP address, to which no passkey can belong.
    #[error(
        "passkeys need a host name: open muster under its name (on this machine, http://localhost) or set MUSTER_PUBLIC_URL"
    )]
    NoHost,
    /// Nothing to sign in with.
    #[error("no passkey of an account that may sign in fits this; use the password")]
    None,
    /// The ceremony was begun elsewhere, too long ago, or used already.
    #[error("this passkey request is no longer valid; begin again")]
    Stale,
    /// The authenticator's answer does not hold.
    #[error("the passkey's answer could not be verified; nothing was changed")]
    Unverified,
    /// The label breaks a rule.
    #[error("{0}")]
    Label(muster_core::text::TextError),
    /// Missing or another owner's.
    #[error("there is no such passkey")]
    NotFound,
    /// Something broke.
    #[error("{}", .0.sentence())]
    Fault(#[from] Fault),
}

/// A refusal about a token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The label breaks a rule.
    #[error("{0}")]
    Label(#[from] muster_core::text::TextError),
    /// Missing, another owner's, or closed.
    #[error("there is no such open task; no token was made")]
    NoTask,
    /// Missing, another owner's, or already revoked.
    #[error("there is no such live token")]
    NotFound,
    /// Something broke.
    #[error("{}", .0.sentence())]
    Fault(#[from] Fault),
}
