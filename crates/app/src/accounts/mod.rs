//! Owners and how they prove who they are: passwords, passkeys, browser sessions, tokens. Never stores a secret in the clear.

mod error;
mod failed;
mod ops;
mod passkeys;
mod password;
mod sessions;
mod sql;
mod state;
mod tokens;

pub use error::{AccountError, PasskeyError, SignInError, TokenError};
pub(crate) use failed::{Failed, tell_due};
pub use ops::{Owner, add, any_owner, disable, enable, find, first, list, set_password};
pub use passkeys::{
    Begun, Passkey, Passkeys, begin_confirm, begin_register, begin_sign_in, finish_confirm, finish_register,
    finish_sign_in, passkeys, remove_passkey,
};
pub use sessions::{
    BrowserCaller, browser, confirm_password, sign_in_password, sign_out, sign_out_everywhere,
};
pub use sql::STATEMENTS;
pub use state::{OwnerName, Password, SESSION_IDLE, SESSION_LIFETIME};
pub use tokens::{
    AgentCaller, MirrorCaller, NewToken, PersonalCaller, Token, TokenTask, agent, create_agent_token,
    create_token, mirror, personal, revoke_token, tokens,
};
