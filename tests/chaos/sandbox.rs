//! A machine of the test's own: network and mounts that nobody else sees. The test runs itself again in namespaces of its own,
//! where the kernel gives them; there each nats-server has a network namespace, with a cable to a switch, and a disk of limited size.
//!
//! A packet is lost by a neighbour that is not there: what is sent to an address goes to a hardware address that
//! nobody has, in this direction alone. Connections stay open meanwhile, and both ends find out by themselves.

use std::{
    collections::BTreeMap,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context, Result, ensure};
use devkit::cluster::Place;
use devnet::nats::NatsPlace;
use tempfile::TempDir;
use tokio::process::Command;

/// Set for the test that runs in namespaces of its own: the file by which it says that it has begun.
const INSIDE: &str = "GW_CHAOS_INSIDE";
/// How namespaces can be had: by root, and by anybody where the kernel allows it.
const NAMESPACES: [&[&str]; 2] = [&["--net", "--mount"], &["--map-root-user", "--net", "--mount"]];
/// The switch in the test's own namespace, and the end of a cable in a server's.
const SWITCH: &str = "gwswitch";
const CABLE: &str = "eth0";
/// A hardware address that nobody has.
const NOBODY: &str = "02:00:00:00:00:01";
/// What a link lets through when it is narrow: some packets wait, and what finds no room is lost.
const NARROW: [&str; 7] = ["tbf", "rate", "300kbit", "burst", "3kb", "limit", "9kb"];
/// Size of a server's disk.
const DISK_BYTES: u64 = 400 << 20;
pub const SERVERS: usize = 3;
pub const GATEWAYS: usize = 3;

/// Where the test is.
pub enum Where {
    /// In namespaces of its own.
    Inside,
    /// The kernel gives none.
    Outside,
    /// It has run in namespaces, and passed.
    Done,
}

/// Runs the test `name` in namespaces, if it is not in them already.
///
/// # Errors
/// When it fails there.
pub async fn enter(name: &str) -> Result<Where> {
    if let Some(begun) = std::env::var_os(INSIDE) {
        std::fs::write(begun, [])?;
        return Ok(Where::Inside);
    }
    for namespaces in NAMESPACES {
        let try_it = Command::new("unshare").args(namespaces).args(["sh", "-c", "ip link set lo up"]).output().await;
        if !try_it.is_ok_and(|output| output.status.success()) {
            continue;
        }
        let mut command = Command::new("unshare");
        command.args(namespaces).arg(std::env::current_exe()?).args(["--exact", name, "--nocapture"]);
        let directory = TempDir::new()?;
        let begun = directory.path().join("begun");
        let status = command.env(INSIDE, &begun).stdin(Stdio::null()).kill_on_drop(true).status().await?;
        ensure!(status.success(), "it failed in namespaces of its own: {status}");
        // No test of a name that there is not fails, either.
        ensure!(begun.exists(), "there is no test {name}");
        return Ok(Where::Done);
    }
    Ok(Where::Outside)
}

/// What packets do not get through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Between a server and the other servers; clients reach it.
    Server(usize),
    /// Between a server and everybody.
    Island(usize),
    /// From one server to another, in this direction.
    OneWay(usize, usize),
    /// Between two servers, which both reach the third.
    Pair(usize, usize),
    /// Between a gateway and all servers.
    Gateway(usize),
    /// Between a gateway and one server.
    Link { gateway: usize, server: usize },
}

/// The namespaces' insides. It goes with them.
pub struct Sandbox {
    directory: TempDir,
    /// How many cuts each direction is part of.
    cuts: BTreeMap<(End, Ipv4Addr), usize>,
}

/// The namespace of a server; `None` for the test's own.
type End = Option<usize>;

fn host(server: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, last(server), 1)
}

/// A server's address for a gateway.
fn for_gateway(server: usize, gateway: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, last(server), 10 + last(gateway))
}

/// Whom a server sees a gateway as.
fn gateway_host(gateway: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, 10 + last(gateway))
}

/// Whom it sees everybody else as.
const OTHERS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);

fn last(n: usize) -> u8 {
    u8::try_from(n + 1).expect("there are three")
}

fn namespace(server: usize) -> String {
    format!("nats{}", server + 1)
}

impl Sandbox {
    /// Lays cables, and mounts disks.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub async fn build() -> Result<Self> {
        let directory = TempDir::new()?;
        // Names of namespaces are files here, and nobody else is to see them.
        run("mount", &["-t", "tmpfs", "tmpfs", "/run"]).await?;
        ip("link set lo up").await?;
        ip(&format!("link add {SWITCH} type bridge")).await?;
        for address in (0..GATEWAYS).map(gateway_host).chain([OTHERS]) {
            ip(&format!("addr add {address}/16 dev {SWITCH}")).await?;
        }
        ip(&format!("link set {SWITCH} up")).await?;
        for server in 0..SERVERS {
            let name = namespace(server);
            ip(&format!("netns add {name}")).await?;
            ip(&format!("link add {name} type veth peer name {CABLE} netns {name}")).await?;
            ip(&format!("link set {name} master {SWITCH} up")).await?;
            ip(&format!("-n {name} link set lo up")).await?;
            // The first address is the one that the server speaks from.
            for address in [host(server)].into_iter().chain((0..GATEWAYS).map(|gateway| for_gateway(server, gateway))) {
                ip(&format!("-n {name} addr add {address}/16 dev {CABLE}")).await?;
            }
            ip(&format!("-n {name} link set {CABLE} up")).await?;
            for gateway in 0..GATEWAYS {
                let (to, from) = (for_gateway(server, gateway), gateway_host(gateway));
                ip(&format!("route add {to}/32 dev {SWITCH} src {from}")).await?;
            }
            let disk = directory.path().join(&name);
            std::fs::create_dir(&disk)?;
            let size = format!("size={DISK_BYTES}");
            run("mount", &["-t", "tmpfs", "-o", &size, "tmpfs", &disk.to_string_lossy()]).await?;
        }
        Ok(Self { directory, cuts: BTreeMap::new() })
    }

    /// Where the servers are to run.
    pub fn places(&self) -> Vec<NatsPlace> {
        let place = |server| NatsPlace {
            place: Place {
                launcher: ["ip", "netns", "exec", &namespace(server)].map(str::to_owned).to_vec(),
                host: host(server),
                store: self.disk(server).join("jetstream"),
            },
            for_gateways: (0..GATEWAYS).map(|gateway| for_gateway(server, gateway)).collect(),
        };
        (0..SERVERS).map(place).collect()
    }

    fn disk(&self, server: usize) -> PathBuf {
        self.directory.path().join(namespace(server))
    }

    /// Loses packets from now on.
    pub async fn cut(&mut self, cut: Cut) -> Result<()> {
        for (end, address) in cut.directions() {
            let count = self.cuts.entry((end, address)).or_default();
            *count += 1;
            if *count == 1 {
                neighbour(end, &format!("replace {address} lladdr {NOBODY} nud permanent")).await?;
            }
        }
        Ok(())
    }

    /// Lets them through again, where no other cut is in the way.
    pub async fn heal(&mut self, cut: Cut) -> Result<()> {
        for (end, address) in cut.directions() {
            let count = self.cuts.entry((end, address)).or_default();
            *count = count.saturating_sub(1);
            if *count == 0 {
                neighbour(end, &format!("del {address}")).await?;
            }
        }
        Ok(())
    }

    /// Makes the cable of a server narrow, for what it sends: what does not fit is late, or lost.
    pub async fn narrow(&self, server: usize) -> Result<()> {
        let to = ["-n", &namespace(server), "qdisc", "add", "dev", CABLE, "root"];
        run("tc", &[&to[..], &NARROW[..]].concat()).await
    }

    /// Makes it wide again.
    pub async fn widen(&self, server: usize) -> Result<()> {
        run("tc", &["-n", &namespace(server), "qdisc", "del", "dev", CABLE, "root"]).await
    }

    /// Fills the disk of a server to the last byte.
    pub fn fill(&self, server: usize) -> Result<()> {
        let mut ballast = std::fs::File::create(self.ballast(server))?;
        let block = vec![0; 1 << 16];
        for size in [block.len(), 1] {
            while let Ok(written) = std::io::Write::write(&mut ballast, &block[..size]) {
                ensure!(written > 0, "nothing was written, and no fault");
            }
        }
        Ok(())
    }

    /// Makes room again.
    pub fn empty(&self, server: usize) -> Result<()> {
        Ok(std::fs::remove_file(self.ballast(server))?)
    }

    fn ballast(&self, server: usize) -> PathBuf {
        self.disk(server).join("ballast")
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // Else the directories that the disks are mounted on stay behind.
        let disks = (0..SERVERS).map(|server| self.disk(server));
        let unmounted = std::process::Command::new("umount").arg("--lazy").args(disks).status();
        if !unmounted.is_ok_and(|status| status.success()) {
            eprintln!("{} is left behind", self.directory.path().display());
        }
    }
}

impl Cut {
    /// In which namespace which address is out of reach.
    fn directions(self) -> Vec<(End, Ipv4Addr)> {
        let pair = |a: usize, b: usize| [(Some(a), host(b)), (Some(b), host(a))];
        let link = |gateway: usize, server: usize| {
            [(None, for_gateway(server, gateway)), (Some(server), gateway_host(gateway))]
        };
        match self {
            Self::Server(n) => others(n).flat_map(|other| pair(n, other)).collect(),
            Self::Island(n) => {
                let clients = [(None, host(n)), (Some(n), OTHERS)];
                let gateways = (0..GATEWAYS).flat_map(|gateway| link(gateway, n));
                Self::Server(n).directions().into_iter().chain(clients).chain(gateways).collect()
            }
            Self::OneWay(from, to) => vec![(Some(from), host(to))],
            Self::Pair(a, b) => pair(a, b).to_vec(),
            Self::Gateway(gateway) => (0..SERVERS).flat_map(|server| link(gateway, server)).collect(),
            Self::Link { gateway, server } => link(gateway, server).to_vec(),
        }
    }
}

/// The other servers.
pub fn others(server: usize) -> impl Iterator<Item = usize> {
    (0..SERVERS).filter(move |other| *other != server)
}

async fn neighbour(end: End, change: &str) -> Result<()> {
    match end {
        None => ip(&format!("neigh {change} dev {SWITCH}")).await,
        Some(server) => ip(&format!("-n {} neigh {change} dev {CABLE}", namespace(server))).await,
    }
}

async fn ip(arguments: &str) -> Result<()> {
    run("ip", &arguments.split(' ').collect::<Vec<_>>()).await
}

async fn run(program: &str, arguments: &[&str]) -> Result<()> {
    let output = Command::new(program).args(arguments).output().await.with_context(|| program.to_owned())?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} {arguments:?}: {said}");
    Ok(())
}

/// Whether there is a program of this name, and it can be run with this argument.
pub async fn has(program: &str, argument: &str) -> bool {
    Command::new(program).arg(argument).output().await.is_ok_and(|output| output.status.success())
}

/// Writes a script that anybody may run.
pub fn script(path: &Path, text: &str) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;

    std::fs::write(path, text)?;
    Ok(std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?)
}
