//! One nats-server for many runs, each in an account of its own: streams of the same names, and nothing shared.

use std::{
    fmt::Write,
    sync::atomic::{AtomicUsize, Ordering},
};

use anyhow::{Result, ensure};

use super::Credentials;
use crate::NatsServer;

/// The password of every user: the server is for one test.
const PASSWORD: &str = "run";

/// The server, and the accounts of its runs, which are given out in turn.
pub struct RunServer {
    server: NatsServer,
    accounts: usize,
    given: AtomicUsize,
}

impl RunServer {
    /// A server with so many accounts, each with a user that may do anything and those of `users`, in the form of nats-server's
    /// configuration, which get the account's number. What is stored is synced every two minutes, as nothing here kills it.
    ///
    /// # Errors
    /// When nats-server is missing or does not start.
    pub async fn open(accounts: usize, users: impl Fn(usize) -> Vec<String>) -> Result<Self> {
        let mut text = String::from("jetstream {}\nmax_connections: 20000\naccounts {\n");
        for number in 0..accounts {
            let Credentials { user, password } = credentials(&format!("run{number}"));
            let own = format!("{{ user: \"{user}\", password: \"{password}\" }}");
            let users = [vec![own], users(number)].concat().join(",\n");
            writeln!(text, "  RUN{number} {{ jetstream: enabled, users: [ {users} ] }}")?;
        }
        text.push_str("}\n");
        Ok(Self { server: NatsServer::written(&text).await?, accounts, given: AtomicUsize::new(0) })
    }

    /// The number of an account that nobody was given before.
    ///
    /// # Errors
    /// When all are given.
    pub fn account(&self) -> Result<usize> {
        let number = self.given.fetch_add(1, Ordering::Relaxed);
        ensure!(number < self.accounts, "all {} accounts are given", self.accounts);
        Ok(number)
    }

    /// `nats://127.0.0.1:port`.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// The server itself.
    pub fn server(&self) -> &NatsServer {
        &self.server
    }
}

/// The credentials of `user`; `run{number}` is the one of account `number` that may do anything.
pub fn credentials(user: &str) -> Credentials {
    Credentials { user: user.to_owned(), password: PASSWORD.to_owned() }
}
