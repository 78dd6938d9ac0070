//! `/setup`: the first owner's account, made once, with the code that the server printed. Without it there is no such page.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use muster_app::accounts::{self, AccountError, OwnerName, Password};
use muster_core::Secret;
use serde::Deserialize;

use super::caller::Visitor;
use super::fields::{Asked, Fields};
use super::refuse::{self, sentence};
use super::sign_in::signed_in;
use super::view::{self, Shell, see_other};
use crate::Web;

#[derive(Template)]
#[template(path = "setup.html")]
pub(super) struct SetupPage {
    shell: Shell,
    code: String,
    name: String,
    errors: Errors,
}

/// What each field lacks.
#[derive(Debug, Default)]
struct Errors {
    name: Option<String>,
    password: Option<String>,
    again: Option<String>,
}

impl Errors {
    fn any(&self) -> bool {
        self.name.is_some() || self.password.is_some() || self.again.is_some()
    }
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Code {
    #[serde(default)]
    code: String,
}

#[derive(Deserialize)]
pub(super) struct Form {
    #[serde(default)]
    code: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    password: String,
    #[serde(default)]
    again: String,
}

pub(super) async fn show(
    State(web): State<Web>,
    _visitor: Visitor,
    headers: HeaderMap,
    Asked(query): Asked<Code>,
) -> Result<Response, Response> {
    admitted(&web, &headers, &query.code).await?;
    Ok(form(StatusCode::OK, query.code, String::new(), Errors::default()))
}

/// The page exists only for who has the code, and only until there is an owner.
async fn admitted(web: &Web, headers: &HeaderMap, code: &str) -> Result<(), Response> {
    match web.setup.admits(&web.app, code).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(refuse::no_setup(headers)),
        Err(fault) => Err(refuse::fault(&fault)),
    }
}

fn form(status: StatusCode, code: String, name: String, errors: Errors) -> Response {
    view::page(
        status,
        &SetupPage {
            shell: Shell::bare("Set up muster"),
            code,
            name,
            errors,
        },
    )
}

pub(super) async fn submit(
    State(web): State<Web>,
    _visitor: Visitor,
    headers: HeaderMap,
    Fields(sent): Fields<Form>,
) -> Result<Response, Response> {
    admitted(&web, &headers, &sent.code).await?;
    let (name, password) = match read(&sent) {
        Ok(account) => account,
        Err(errors) => return Err(form(StatusCode::BAD_REQUEST, sent.code, sent.name, errors)),
    };
    let spoken = name.as_str().to_owned();
    match accounts::add(&web.app, name, password, true).await {
        Ok(_) => web.setup.close(),
        Err(AccountError::Fault(fault)) => return Err(refuse::fault(&fault)),
        Err(AccountError::AlreadySetUp) => return Err(refuse::no_setup(&headers)),
        Err(refused) => {
            let errors = Errors {
                name: Some(sentence(&refused.to_string())),
                ..Errors::default()
            };
            return Err(form(
                refuse::account_status(&refused),
                sent.code,
                sent.name,
                errors,
            ));
        }
    }
    match accounts::sign_in_password(&web.app, &spoken, &Secret::new(sent.password)).await {
        Ok(cookie) => Ok(signed_in(&web, see_other("/"), &cookie, &spoken)),
        // The account stands; signing in by hand shows what is wrong.
        Err(_) => Ok(see_other("/sign-in")),
    }
}

/// The account that the form asks for, or what its fields lack.
fn read(sent: &Form) -> Result<(OwnerName, Password), Errors> {
    let (name, password) = (
        OwnerName::parse(sent.name.trim()),
        Password::parse(&sent.password),
    );
    let errors = Errors {
        name: name.as_ref().err().map(|error| sentence(&error.to_string())),
        password: password.as_ref().err().map(|error| sentence(&error.to_string())),
        again: (sent.password != sent.again)
            .then(|| "The two passwords differ; nothing was stored.".to_owned()),
    };
    match (name, password) {
        (Ok(name), Ok(password)) if !errors.any() => Ok((name, password)),
        _ => Err(errors),
    }
}

#[cfg(test)]
impl SetupPage {
    pub(super) fn samples() -> Vec<Self> {
        let hostile = || super::tests::HOSTILE.to_owned();
        let errors = Errors {
            name: Some(hostile()),
            password: Some(hostile()),
            again: Some(hostile()),
        };
        vec![
            Self {
                shell: Shell::bare("Set up muster"),
                code: "0".to_owned(),
                name: String::new(),
                errors: Errors::default(),
            },
            Self {
                shell: Shell::bare("Set up muster"),
                code: hostile(),
                name: hostile(),
                errors,
            },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wrong_field_is_named_at_once() {
        let sent = |name: &str, password: &str, again: &str| Form {
            code: String::new(),
            name: name.to_owned(),
            password: password.to_owned(),
            again: again.to_owned(),
        };
        assert!(read(&sent(" ada ", "long enough", "long enough")).is_ok());
        let errors = read(&sent("Ada!", "short", "other")).unwrap_err();
        assert!(errors.name.is_some() && errors.password.is_some() && errors.again.is_some());
        let errors = read(&sent("ada", "long enough", "long enough ")).unwrap_err();
        assert!(errors.name.is_none() && errors.password.is_none() && errors.again.is_some());
    }
}
