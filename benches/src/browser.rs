//! The owner's browser: signs in, opens pages, approves. Never runs a page's script.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::{Answer, Link, request};
use crate::server::{OWNER, Place, Server};

/// A signed-in person on one kept connection.
pub(crate) struct Browser {
    link: Link,
    address: SocketAddr,
    cookie: String,
}

impl Browser {
    /// Signs in with the password.
    pub(crate) async fn sign_in(server: &Server, place: &Place) -> Result<Self> {
        let address = server.address;
        let mut browser = Self {
            link: Link::open(address).await?,
            address,
            cookie: String::new(),
        };
        let form = format!("name={OWNER}&password={}", place.password());
        let answer = browser.post("/sign-in", &form).await?;
        let cookie = answer
            .header("set-cookie")
            .and_then(|line| line.split(';').next());
        browser.cookie = cookie
            .filter(|_| answer.status == 303)
            .context("the sign-in was refused")?
            .to_owned();
        Ok(browser)
    }

    /// Sends a form of ours.
    async fn post(&mut self, path: &str, form: &str) -> Result<Answer> {
        let headers = format!(
            "cookie: {}\r\norigin: http://{}\r\ncontent-type: application/x-www-form-urlencoded\r\n",
            self.cookie, self.address
        );
        self.link
            .call(&request("POST", path, self.address, &headers, form))
            .await
    }

    /// Approves a draft; done when the answer leads back to its card.
    pub(crate) async fn approve(&mut self, draft: i64) -> Result<()> {
        let answer = self
            .post(&format!("/attention/drafts/{draft}/approve"), "")
            .await?;
        let card = format!("/attention?tab=drafts#draft-{draft}");
        if answer.status != 303 || answer.header("location") != Some(card.as_str()) {
            bail!(
                "the approval of draft {draft} was answered with {}: {}",
                answer.status,
                answer.text()
            );
        }
        Ok(())
    }

    /// Opens a stream and leaves it open for as long as the answer is kept.
    pub(crate) async fn stream(&self, path: &str) -> Result<TcpStream> {
        let headers = format!("cookie: {}\r\naccept: text/event-stream\r\n", self.cookie);
        let mut stream = TcpStream::connect(self.address).await?;
        stream
            .write_all(&request("GET", path, self.address, &headers, ""))
            .await?;
        let mut head = [0_u8; 12];
        stream.read_exact(&mut head).await?;
        if !head.ends_with(b" 200") {
            bail!("{path} was not opened");
        }
        Ok(stream)
    }

    /// The ask that waits, once one does.
    pub(crate) async fn parked(&mut self) -> Result<i64> {
        for _ in 0..500 {
            let page = self.open("/attention?tab=asks").await?;
            let id = page
                .split_once("action=\"/attention/asks/")
                .and_then(|(_, rest)| rest.split_once('/'))
                .and_then(|(id, _)| id.parse().ok());
            if let Some(id) = id {
                return Ok(id);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        bail!("no ask was parked")
    }

    /// Allows a call that waits.
    pub(crate) async fn allow(&mut self, ask: i64) -> Result<()> {
        let answer = self.post(&format!("/attention/asks/{ask}/allow"), "").await?;
        if answer.status != 303 {
            bail!("the answer to ask {ask} was {}: {}", answer.status, answer.text());
        }
        Ok(())
    }

    /// Opens a page and answers its text.
    pub(crate) async fn open(&mut self, path: &str) -> Result<String> {
        let headers = format!("cookie: {}\r\naccept: text/html\r\n", self.cookie);
        let answer = self
            .link
            .call(&request("GET", path, self.address, &headers, ""))
            .await?;
        if answer.status != 200 {
            bail!("{path} was answered with {}", answer.status);
        }
        Ok(answer.text())
    }
}
