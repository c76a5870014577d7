//! The development network's nats-server, or its cluster of them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use async_nats::Client;

use devkit::{NatsCluster, NatsServer, free_port};
use gateway::nats::{self, ROUTES_FILE, TLS_FILE, certificates};
use journal_jetstream::headerless::HeaderlessClient;

use super::users::{self, NatsUser};

/// What carries the journal.
pub enum Nats {
    /// One server with `nats.conf`.
    Server(Box<NatsServer>),
    /// Several with `config/nats.cluster.conf`, among themselves and with everybody over TLS, by the authority in this file.
    Cluster(NatsCluster, PathBuf),
}

impl Nats {
    /// Starts so many servers with the repository's configuration, with data and logs under `directory`.
    ///
    /// # Errors
    /// When nats-server is missing or does not start.
    pub async fn start(nodes: usize, directory: &Path) -> Result<Self> {
        Self::start_on(None, nodes, directory).await
    }

    /// As [`Nats::start`], where the one server, if it is one, has this port; a free one when `None`.
    ///
    /// # Errors
    /// As [`Nats::start`], and when the port is taken.
    pub async fn start_on(port: Option<u16>, nodes: usize, directory: &Path) -> Result<Self> {
        let mut files = users::files()?;
        if nodes == 1 {
            let config = devkit::nats::configure(directory, &files)?;
            let port = match port {
                Some(port) => port,
                None => free_port()?,
            };
            let server = NatsServer::in_directory(&config, &directory.join("nats"), port).await?;
            return Ok(Self::Server(Box::new(server)));
        }
        // On loopback, too: a cluster has no other way to know its members.
        let authority = certificates::authority()?;
        let server = certificates::server(&authority.key, &["127.0.0.1".to_owned()])?;
        let place = std::path::absolute(directory)?.join("nats");
        files.retain(|(name, _)| name != TLS_FILE);
        files.push((TLS_FILE.to_owned(), nats::tls(&place)));
        files.push((ROUTES_FILE.to_owned(), nats::routes(&place)));
        let issued =
            [("ca.pem", authority.certificate), ("server.pem", server.certificate), ("server.key", server.key)];
        files.extend(issued.map(|(name, text)| (format!("nats/{name}"), text)));
        devkit::nats::configure(directory, &files)?;
        let config = directory.join("config/nats.cluster.conf");
        Ok(Self::Cluster(NatsCluster::in_directory(nodes, &config, directory).await?, place.join("ca.pem")))
    }

    /// Address, or addresses separated by commas, as configuration files have them.
    pub fn url(&self) -> String {
        match self {
            Self::Server(server) => server.url(),
            Self::Cluster(cluster, _) => cluster.url().replace("nats://", "tls://"),
        }
    }

    /// The addresses, as a client takes them.
    pub fn urls(&self) -> Vec<String> {
        self.url().split(',').map(str::to_owned).collect()
    }

    /// The authority that its servers' certificates are from, where there is TLS.
    pub fn ca_file(&self) -> Option<&Path> {
        match self {
            Self::Server(_) => None,
            Self::Cluster(_, ca_file) => Some(ca_file),
        }
    }

    /// A connection of this user's.
    ///
    /// # Errors
    /// When no server can be reached, or the user is not admitted.
    pub async fn connect(&self, user: NatsUser) -> Result<Client> {
        let options = user.options_with(self.ca_file());
        options.connect(self.urls()).await.with_context(|| format!("connect to NATS as {user:?}"))
    }

    /// A connection of this user's without headers.
    ///
    /// # Errors
    /// As [`Nats::connect`].
    pub async fn headerless(&self, user: NatsUser) -> Result<HeaderlessClient> {
        let endpoint = user.endpoint(self.urls(), self.ca_file());
        HeaderlessClient::connect(endpoint).await.with_context(|| format!("connect to NATS as {user:?}"))
    }

    /// Copies of each stream: one for each server, at most three.
    pub fn replicas(&self) -> usize {
        match self {
            Self::Server(_) => 1,
            Self::Cluster(cluster, _) => cluster.len().min(3),
        }
    }

    /// The process id of the one server, while it runs.
    pub fn id(&self) -> Option<u32> {
        match self {
            Self::Server(server) => server.id(),
            Self::Cluster(..) => None,
        }
    }

    /// The servers of a cluster, one by one.
    ///
    /// # Errors
    /// When there is only one.
    pub fn cluster(&mut self) -> Result<&mut NatsCluster> {
        match self {
            Self::Server(_) => Err(anyhow::anyhow!("the network has one nats-server")),
            Self::Cluster(cluster, _) => Ok(cluster),
        }
    }

    /// Ends every server as `kill -9` does.
    ///
    /// # Errors
    /// When the system refuses.
    pub async fn kill(&mut self) -> Result<()> {
        match self {
            Self::Server(server) => server.kill().await,
            Self::Cluster(cluster, _) => {
                for n in 0..cluster.len() {
                    cluster.kill(n).await.with_context(|| format!("server {n}"))?;
                }
                Ok(())
            }
        }
    }

    /// Starts every server again on the same ports and data.
    ///
    /// # Errors
    /// When one does not start.
    pub async fn restart(&mut self) -> Result<()> {
        match self {
            Self::Server(server) => server.restart().await,
            Self::Cluster(cluster, _) => {
                for n in 0..cluster.len() {
                    cluster.restart(n)?;
                }
                for n in 0..cluster.len() {
                    cluster.ready(n).await?;
                }
                Ok(())
            }
        }
    }
}
