//! The development network's nats-server, or its cluster of them.

use std::path::Path;

use anyhow::{Context, Result};
use devkit::{NatsCluster, NatsServer, free_port, tools};

/// What carries the journal.
pub enum Nats {
    /// One server with `nats.conf`.
    Server(Box<NatsServer>),
    /// Several with `config/nats.cluster.conf`.
    Cluster(NatsCluster),
}

impl Nats {
    /// Starts so many servers with the repository's configuration, with data and logs under `directory`.
    pub(super) async fn start(nodes: usize, env: &[(String, String)], directory: &Path) -> Result<Self> {
        if nodes == 1 {
            let config = tools::root().join("nats.conf");
            let server = NatsServer::in_directory(&config, env.to_vec(), &directory.join("nats"), free_port()?).await?;
            return Ok(Self::Server(Box::new(server)));
        }
        let config = tools::root().join("config/nats.cluster.conf");
        Ok(Self::Cluster(NatsCluster::in_directory(nodes, &config, env, directory).await?))
    }

    /// Address, or addresses separated by commas, as configuration files have them.
    pub fn url(&self) -> String {
        match self {
            Self::Server(server) => server.url(),
            Self::Cluster(cluster) => cluster.url(),
        }
    }

    /// The addresses, as a client takes them.
    pub fn urls(&self) -> Vec<String> {
        self.url().split(',').map(str::to_owned).collect()
    }

    /// Copies of each stream: one for each server, at most three.
    pub fn replicas(&self) -> usize {
        match self {
            Self::Server(_) => 1,
            Self::Cluster(cluster) => cluster.len().min(3),
        }
    }

    /// The process id of the one server, while it runs.
    pub fn id(&self) -> Option<u32> {
        match self {
            Self::Server(server) => server.id(),
            Self::Cluster(_) => None,
        }
    }

    /// The servers of a cluster, one by one.
    ///
    /// # Errors
    /// When there is only one.
    pub fn cluster(&mut self) -> Result<&mut NatsCluster> {
        match self {
            Self::Server(_) => Err(anyhow::anyhow!("the network has one nats-server")),
            Self::Cluster(cluster) => Ok(cluster),
        }
    }

    /// Ends every server as `kill -9` does.
    ///
    /// # Errors
    /// When the system refuses.
    pub async fn kill(&mut self) -> Result<()> {
        match self {
            Self::Server(server) => server.kill().await,
            Self::Cluster(cluster) => {
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
            Self::Cluster(cluster) => {
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
