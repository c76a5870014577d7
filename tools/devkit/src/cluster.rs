//! Three nats-servers in a cluster.

use std::{
    net::Ipv4Addr,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    process::Command,
    time::timeout,
};

use crate::{Process, Signal, free_port, tools};

/// How long a cluster may take to agree on a leader.
const READY_WITHIN: Duration = Duration::from_secs(60);
const READY_POLL: Duration = Duration::from_millis(50);
/// How long one question to a server's monitoring may take.
const HEALTH_WAIT: Duration = Duration::from_secs(2);
/// Routes between two servers: three that accounts share, and one of the system account's own (`pool_size` of nats-server's
/// `cluster`, by default).
const ROUTES_TO_EACH: usize = 4;
/// A cluster without users, with the variables of `config/nats.cluster.conf`.
const OPEN: &str = "\
jetstream { sync_interval: always }
server_name: $GW_NATS_SERVER_NAME
cluster {
  name: gateway
  listen: $GW_NATS_CLUSTER_LISTEN
  routes: $GW_NATS_CLUSTER_ROUTES
}
";

/// nats-servers that hold their streams together; each can be killed, paused and started again on the same data.
pub struct NatsCluster {
    nodes: Vec<Node>,
    _temporary: Option<TempDir>,
}

/// Where a server runs, if not beside the others: in a network namespace of its own, on a disk of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Program and arguments that begin what is to run there, as `ip netns exec NAME` does.
    pub launcher: Vec<String>,
    /// The address that the other servers and everybody else reach it on.
    pub host: Ipv4Addr,
    /// Where its streams go.
    pub store: PathBuf,
}

struct Node {
    name: String,
    process: Option<Process>,
    port: u16,
    monitor: u16,
    config: PathBuf,
    env: Vec<(String, String)>,
    directory: PathBuf,
    place: Option<Place>,
}

impl NatsCluster {
    /// Three servers without users, `sync_interval: always`, in a temporary directory; returns when they have a leader.
    ///
    /// # Errors
    /// When nats-server is missing, or the servers do not come together.
    pub async fn open() -> Result<Self> {
        let temporary = TempDir::new()?;
        let config = temporary.path().join("nats.cluster.conf");
        std::fs::write(&config, OPEN)?;
        let nodes = nodes(3, &[], &config, temporary.path())?;
        Self::start(nodes, Some(temporary)).await
    }

    /// So many servers with the configuration file `config`, whose variables are those of `config/nats.cluster.conf`; data and logs go under `directory`, which is kept. Returns when they have a
    /// leader.
    ///
    /// # Errors
    /// When nats-server is missing, or the servers do not come together.
    pub async fn in_directory(count: usize, config: &Path, directory: &Path) -> Result<Self> {
        Self::in_places(count, &[], config, directory).await
    }

    /// The same, with as many of the servers in a place of their own as there are `places`.
    ///
    /// # Errors
    /// As [`NatsCluster::in_directory`].
    pub async fn in_places(count: usize, places: &[Place], config: &Path, directory: &Path) -> Result<Self> {
        Self::start(nodes(count, places, config, directory)?, None).await
    }

    async fn start(mut nodes: Vec<Node>, temporary: Option<TempDir>) -> Result<Self> {
        for node in &mut nodes {
            node.spawn()?;
        }
        let mut cluster = Self { nodes, _temporary: temporary };
        for n in 0..cluster.len() {
            cluster.ready(n).await?;
        }
        Ok(cluster)
    }

    /// Number of servers.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is no server; never the case.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Addresses of all servers, separated by commas as the configuration of gateways and settlers has them.
    pub fn url(&self) -> String {
        let urls: Vec<String> = (0..self.len()).map(|n| self.url_of(n)).collect();
        urls.join(",")
    }

    /// Address of server `n`.
    pub fn url_of(&self, n: usize) -> String {
        format!("nats://{}:{}", self.nodes[n].host(), self.nodes[n].port)
    }

    /// The port that clients reach server `n` on.
    pub fn port_of(&self, n: usize) -> u16 {
        self.nodes[n].port
    }

    /// The process id of server `n`, while it runs.
    pub fn id_of(&self, n: usize) -> Option<u32> {
        self.nodes[n].process.as_ref()?.id()
    }

    /// The server that calls itself `name`, as the leader of a stream is named.
    pub fn node_of(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.name == name)
    }

    /// Ends server `n` as `kill -9` does.
    ///
    /// # Errors
    /// When the system refuses.
    pub async fn kill(&mut self, n: usize) -> Result<()> {
        match self.nodes[n].process.take() {
            Some(mut process) => process.kill().await,
            None => Ok(()),
        }
    }

    /// Ends server `n` in order: it writes the state of its streams beside them.
    ///
    /// # Errors
    /// When the system refuses.
    pub async fn stop(&mut self, n: usize) -> Result<()> {
        let Some(mut process) = self.nodes[n].process.take() else { return Ok(()) };
        process.signal(Signal::Terminate).await?;
        process.wait().await.map(drop)
    }

    /// Where server `n` has its data and log.
    pub fn directory_of(&self, n: usize) -> &Path {
        &self.nodes[n].directory
    }

    /// Starts a killed server again on the same ports and data; [`NatsCluster::ready`] waits until it takes part.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn restart(&mut self, n: usize) -> Result<()> {
        self.nodes[n].spawn()
    }

    /// Stops server `n` where it stands, as a machine that hangs: its connections stay open and nothing comes of them.
    ///
    /// # Errors
    /// When it does not run or the system refuses.
    pub async fn pause(&self, n: usize) -> Result<()> {
        self.signal(n, Signal::Stop).await
    }

    /// Lets a paused server go on.
    ///
    /// # Errors
    /// When it does not run or the system refuses.
    pub async fn resume(&self, n: usize) -> Result<()> {
        self.signal(n, Signal::Continue).await
    }

    async fn signal(&self, n: usize, signal: Signal) -> Result<()> {
        let process = self.nodes[n].process.as_ref();
        process.with_context(|| format!("{} does not run", self.nodes[n].name))?.signal(signal).await
    }

    /// Waits until server `n` knows a leader of the cluster, has all its routes to the servers that were started, and
    /// answers requests to JetStream. Streams may still be without a leader, and copies behind.
    ///
    /// # Errors
    /// When it ends first, or does not get there in a minute.
    pub async fn ready(&mut self, n: usize) -> Result<()> {
        self.healthy(n, "/healthz?js-meta-only=true").await?;
        self.routed(n).await
    }

    /// Waits until server `n` has all its routes. Two servers speak over several, each account over one of them, and are
    /// in touch when the first is there. What an account says over one that is missing is lost, such as the answer of a
    /// new stream's leader to whoever created it.
    async fn routed(&mut self, n: usize) -> Result<()> {
        let others = self.nodes.iter().filter(|node| node.process.is_some()).count().saturating_sub(1);
        let wanted = format!("\"num_routes\": {},", others * ROUTES_TO_EACH);
        self.answers(n, "/routez", |answer| answer.contains(&wanted).then_some(()).ok_or("routes are missing")).await
    }

    /// Waits until server `n` has caught up with every stream and consumer that it has a copy of.
    ///
    /// # Errors
    /// When it ends first, or does not get there in a minute.
    pub async fn current(&mut self, n: usize) -> Result<()> {
        self.healthy(n, "/healthz").await
    }

    async fn healthy(&mut self, n: usize, path: &str) -> Result<()> {
        let ok = |answer: &str| answer.starts_with("HTTP/1.1 200") || answer.starts_with("HTTP/1.0 200");
        self.answers(n, path, |answer| if ok(answer) { Ok(()) } else { Err(answer.lines().last().unwrap_or_default()) })
            .await
    }

    /// Waits until the monitoring of server `n` answers so that `judge` is content; else it says what is wrong.
    async fn answers(
        &mut self,
        n: usize,
        path: &str,
        judge: impl for<'t> Fn(&'t str) -> Result<(), &'t str>,
    ) -> Result<()> {
        let node = &mut self.nodes[n];
        let monitor = (node.host(), node.monitor);
        let process = node.process.as_mut().with_context(|| format!("{} does not run", node.name))?;
        let started = Instant::now();
        loop {
            let problem = match timeout(HEALTH_WAIT, get(monitor, path)).await {
                Ok(Ok(answer)) => match judge(&answer) {
                    Ok(()) => return Ok(()),
                    Err(problem) => problem.to_owned(),
                },
                Ok(Err(error)) => error.to_string(),
                Err(_) => "no answer".to_owned(),
            };
            let log = node.directory.join("nats-server.log");
            if let Some(status) = process.try_wait()? {
                bail!("{} ended with {status}, see {}", node.name, log.display());
            }
            ensure!(started.elapsed() < READY_WITHIN, "{} is not ready ({problem}), see {}", node.name, log.display());
            tokio::time::sleep(READY_POLL).await;
        }
    }
}

fn nodes(count: usize, places: &[Place], config: &Path, directory: &Path) -> Result<Vec<Node>> {
    let host = |n: usize| places.get(n).map_or(Ipv4Addr::LOCALHOST, |place| place.host);
    let routes = (0..count).map(|n| Ok(format!("{}:{}", host(n), free_port()?))).collect::<Result<Vec<String>>>()?;
    let urls: Vec<String> = routes.iter().map(|route| format!("\"nats-route://{route}\"")).collect();
    let urls = format!("[{}]", urls.join(","));
    let node = |(n, route): (usize, &String)| {
        let name = format!("nats_{}", n + 1);
        let directory = directory.join(&name);
        std::fs::create_dir_all(&directory)?;
        let own = [
            ("GW_NATS_SERVER_NAME", name.clone()),
            ("GW_NATS_CLUSTER_LISTEN", format!("\"{route}\"")),
            ("GW_NATS_CLUSTER_ROUTES", urls.clone()),
        ];
        let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
        Ok(Node {
            name,
            process: None,
            port: free_port()?,
            monitor: free_port()?,
            config: config.to_owned(),
            env: own.collect(),
            directory,
            place: places.get(n).cloned(),
        })
    };
    routes.iter().enumerate().map(node).collect()
}

impl Node {
    fn host(&self) -> Ipv4Addr {
        self.place.as_ref().map_or(Ipv4Addr::LOCALHOST, |place| place.host)
    }

    fn spawn(&mut self) -> Result<()> {
        let program = tools::program("nats-server")?;
        let (launcher, store) = match &self.place {
            Some(place) => (place.launcher.as_slice(), place.store.clone()),
            None => (&[][..], self.directory.join("jetstream")),
        };
        let mut command = match launcher {
            [] => Command::new(program),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(program);
                command
            }
        };
        // In a place of its own it has every address there.
        let address = if self.place.is_some() { Ipv4Addr::UNSPECIFIED } else { Ipv4Addr::LOCALHOST };
        command.arg("--config").arg(&self.config).args(["--addr", &address.to_string()]);
        command.args(["--port", &self.port.to_string(), "--http_port", &self.monitor.to_string()]);
        command.arg("--store_dir").arg(store);
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        self.process = Some(Process::spawn(&self.name, &mut command, &self.directory.join("nats-server.log"))?);
        Ok(())
    }
}

/// The answer to a GET of `path`, as it came.
async fn get(monitor: (Ipv4Addr, u16), path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(monitor).await?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}
