//! The development network's nats-server, or its cluster of them.

use std::{
    net::Ipv4Addr,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use async_nats::Client;

use devkit::{NatsCluster, NatsServer, cluster::Place, free_port};
use gateway::nats::{self, ROUTES_FILE, TLS_FILE, certificates};
use journal_jetstream::headerless::HeaderlessClient;

use super::users::{self, NatsUser};

/// Where a server of a cluster runs, if not on loopback, and under which addresses the gateways reach it there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatsPlace {
    /// Where it runs.
    pub place: Place,
    /// Its address for each of the gateways, so that what is between a gateway and a server can be told from the rest.
    pub for_gateways: Vec<Ipv4Addr>,
}

/// What carries the journal.
pub enum Nats {
    /// One server with `nats.conf`.
    Server(Box<NatsServer>),
    /// Several with `config/nats.cluster.conf`, among themselves and with everybody over TLS, by the authority in this file.
    Cluster(NatsCluster, PathBuf, Vec<NatsPlace>),
}

impl Nats {
    /// Starts so many servers with the repository's configuration, with data and logs under `directory`.
    ///
    /// # Errors
    /// When nats-server is missing or does not start.
    pub async fn start(nodes: usize, directory: &Path) -> Result<Self> {
        Self::start_on(None, nodes, &[], directory).await
    }

    /// As [`Nats::start`], where the one server, if it is one, has this port, a free one when `None`; and where as many
    /// servers of a cluster run in a place of their own as there are `places`.
    ///
    /// # Errors
    /// As [`Nats::start`], and when the port is taken.
    pub async fn start_on(port: Option<u16>, nodes: usize, places: &[NatsPlace], directory: &Path) -> Result<Self> {
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
        let hosts = places.iter().flat_map(|place| [&place.place.host].into_iter().chain(&place.for_gateways));
        let hosts: Vec<String> = [&Ipv4Addr::LOCALHOST].into_iter().chain(hosts).map(ToString::to_string).collect();
        let server = certificates::server(&authority.key, &hosts)?;
        let place = std::path::absolute(directory)?.join("nats");
        files.retain(|(name, _)| name != TLS_FILE);
        files.push((TLS_FILE.to_owned(), nats::tls(&place)));
        // A client that is told of other addresses than it was given goes around what is between.
        let advertised = if places.is_empty() { "" } else { "no_advertise: true\n" };
        files.push((ROUTES_FILE.to_owned(), nats::routes(&place) + advertised));
        let issued =
            [("ca.pem", authority.certificate), ("server.pem", server.certificate), ("server.key", server.key)];
        files.extend(issued.map(|(name, text)| (format!("nats/{name}"), text)));
        devkit::nats::configure(directory, &files)?;
        let config = directory.join("config/nats.cluster.conf");
        let own: Vec<Place> = places.iter().map(|place| place.place.clone()).collect();
        let cluster = NatsCluster::in_places(nodes, &own, &config, directory).await?;
        Ok(Self::Cluster(cluster, place.join("ca.pem"), places.to_vec()))
    }

    /// Address, or addresses separated by commas, as configuration files have them.
    pub fn url(&self) -> String {
        match self {
            Self::Server(server) => server.url(),
            Self::Cluster(cluster, ..) => cluster.url().replace("nats://", "tls://"),
        }
    }

    /// The same for gateway `n`, which may have addresses of its own.
    pub fn url_for_gateway(&self, n: usize) -> String {
        let Self::Cluster(cluster, _, places) = self else { return self.url() };
        let hosts: Option<Vec<_>> = places.iter().map(|place| place.for_gateways.get(n)).collect();
        match hosts {
            Some(hosts) if !hosts.is_empty() => {
                let urls =
                    hosts.iter().enumerate().map(|(server, host)| format!("tls://{host}:{}", cluster.port_of(server)));
                urls.collect::<Vec<_>>().join(",")
            }
            _ => self.url(),
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
            Self::Cluster(_, ca_file, _) => Some(ca_file),
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
            Self::Cluster(cluster, ..) => cluster.len().min(3),
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
            Self::Cluster(cluster, ..) => Ok(cluster),
        }
    }

    /// Ends every server as `kill -9` does.
    ///
    /// # Errors
    /// When the system refuses.
    pub async fn kill(&mut self) -> Result<()> {
        match self {
            Self::Server(server) => server.kill().await,
            Self::Cluster(cluster, ..) => {
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
            Self::Cluster(cluster, ..) => {
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
