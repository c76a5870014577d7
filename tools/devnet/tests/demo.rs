//! `gw-dev` as its reader runs it: the commands that it prints and those of the examples' READMEs, as they stand, against one
//! network that it started.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Output,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

use devkit::{Process, Signal, free_port, tools};

/// Longest time that anything here may take.
const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(50);
/// Where the documents have the shops of examples/x402.
const SHOP_PORTS: [&str; 2] = ["4021", "4022"];
/// What begins a line that fetches: scripts/tools.sh has done it, and tests fetch nothing.
const FETCHING: [&str; 4] = ["npm ci", "npm install", "python3 -m pip", "make "];

fn gw_dev() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gw-dev"));
    command.kill_on_drop(true);
    command
}

/// Waits for a condition.
async fn eventually(what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !holds()? {
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    });
    waited.await.with_context(|| format!("not within {PATIENCE:?}: {what}"))?
}

/// The repository's root as its reader sees it, with a network in `.dev` that `gw-dev` keeps up.
struct Reader {
    demo: Process,
    directory: TempDir,
    shop_port: u16,
}

impl Reader {
    async fn start() -> Result<Self> {
        let directory = TempDir::new()?;
        symlink(tools::root().join("examples"), directory.path().join("examples"))?;
        let ports = [free_port()?, free_port()?];
        let mut command = gw_dev();
        command.current_dir(directory.path()).arg("--without-showcase");
        command.args(["--port", &ports[0].to_string(), "--nats-port", &ports[1].to_string()]);
        let demo = Process::spawn("gw-dev", &mut command, &directory.path().join("demo.log"))?;
        let mut reader = Self { demo, directory, shop_port: free_port()? };
        let up = eventually("the network stays up", || {
            if let Some(status) = reader.demo.try_wait()? {
                bail!("gw-dev ended with {status}");
            }
            Ok(reader.log("demo")?.contains("Logs and configuration: .dev"))
        });
        let printed = up.await;
        printed.with_context(|| reader.log("demo").unwrap_or_default())?;
        let printed = reader.log("demo")?;
        for port in ports {
            ensure!(printed.contains(&format!("127.0.0.1:{port}")), "port {port} is not printed: {printed}");
        }
        Ok(reader)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn log(&self, name: &str) -> Result<String> {
        Ok(fs::read_to_string(self.path(&format!("{name}.log")))?)
    }

    /// A shell in the root that finds what scripts/tools.sh has fetched.
    fn shell(&self, script: &str) -> Command {
        let modules =
            ["solana-client", "tronweb"].map(|name| tools::root().join(".tools").join(name).join("node_modules"));
        let mut command = Command::new("sh");
        command
            .args(["-euc", script])
            .current_dir(self.directory.path())
            .env("NODE_PATH", modules.map(|path| path.display().to_string()).join(":"))
            .env("PYTHONPATH", tools::root().join(".tools/settler"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("PORT", self.shop_port.to_string())
            .kill_on_drop(true);
        command
    }

    /// What a script writes that ends by itself, and well.
    async fn run(&self, script: &str) -> Result<String> {
        let output = tokio::time::timeout(PATIENCE, self.shell(script).output()).await;
        let Output { status, stdout, stderr } = output.with_context(|| format!("does not end: {script}"))??;
        let (said, complained) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        ensure!(status.success(), "{script}: {status}\n{said}{complained}");
        Ok(said.into_owned())
    }

    /// Starts a script whose last line, a program that stays, takes the shell's place.
    fn keep(&self, name: &str, script: &str) -> Result<Process> {
        let (before, last) = script.rsplit_once('\n').unwrap_or(("", script));
        let program = ["node ", "python3 "].iter().find_map(|program| last.find(program));
        let (settings, program) = last.split_at(program.with_context(|| format!("no program: {last}"))?);
        let script = format!("{before}\n{settings}exec {program}");
        Process::spawn(name, &mut self.shell(&script), &self.path(&format!("{name}.log")))
    }

    /// The commands of the blocks of a README in `examples/`, one block each, with this reader's port for the shop.
    fn blocks(&self, readme: &str) -> Result<Vec<String>> {
        let path = tools::root().join("examples").join(readme);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split_once("```"));
        let kept = |block: &str| {
            let block = block.replace("\\\n", " ");
            let lines = block.lines().filter(|line| !line.trim().is_empty());
            lines.filter(|line| !FETCHING.iter().any(|word| line.starts_with(word))).collect::<Vec<_>>().join("\n")
        };
        let blocks: Vec<String> = blocks.map(|(block, _)| kept(block)).filter(|block| !block.is_empty()).collect();
        ensure!(!blocks.is_empty(), "{readme} shows no commands");
        let here = |block: String, written: &str| block.replace(written, &self.shop_port.to_string());
        Ok(blocks.into_iter().map(|block| SHOP_PORTS.into_iter().fold(block, here)).collect())
    }

    /// The payments that a README's only block of commands makes, all completed.
    async fn pays(&self, readme: &str) -> Result<Vec<Value>> {
        let blocks = self.blocks(readme)?;
        let [block] = blocks.as_slice() else { bail!("{readme} shows {} blocks", blocks.len()) };
        completed(&self.run(block).await?)
    }

    /// Runs the calls that `gw-dev` prints: none is refused, and what is paid with them completes.
    async fn calls(&self) -> Result<()> {
        let printed = self.log("demo")?;
        let calls: Vec<&str> = printed.lines().map(str::trim).filter(|line| line.starts_with("curl ")).collect();
        ensure!(calls.len() == 5, "two calls for each family but EVM, which has one: {calls:?}");
        for call in calls {
            let said = self.run(call).await?;
            let answer: Value = serde_json::from_str(&said).with_context(|| format!("{call}: {said}"))?;
            ensure!(answer.get("code").is_none(), "{call}: {answer}");
            if call.contains("POST") {
                ensure!(answer["status"] != "failed" && answer["payment_id"].is_string(), "{call}: {answer}");
            }
        }
        Ok(())
    }

    /// The shops and the buyers of examples/x402: of the scheme, and of the stock packages.
    async fn buys(&self) -> Result<()> {
        let blocks = self.blocks("x402/README.md")?;
        let [shop, buyer, stock_shop, stock_buyer] = blocks.as_slice() else { bail!("other blocks: {blocks:?}") };
        for (name, shop, buyer) in [("shop", shop, buyer), ("stock-shop", stock_shop, stock_buyer)] {
            let mut shop = self.keep(name, shop)?;
            shop.listening_on(self.shop_port).await.with_context(|| self.log(name).unwrap_or_default())?;
            let said = self.run(buyer).await?;
            let bought: Value = serde_json::from_str(&said).with_context(|| said.clone())?;
            ensure!(bought["page"]["title"] == "Paid across chains", "{said}");
            shop.kill().await?;
        }
        Ok(())
    }

    /// Puts the settler in Python in the place of each of the demo's settlers.
    async fn replace_settlers(&self) -> Result<Vec<Process>> {
        let blocks = self.blocks("settler/README.md")?;
        let block = blocks.iter().find(|block| block.contains(".dev/settler-1")).context("no block for the demo")?;
        let mut settlers = Vec::new();
        for n in 1..=3 {
            let name = format!("python-settler-{n}");
            settlers.push(self.keep(&name, &block.replace("settler-1", &format!("settler-{n}")))?);
            let at_work = eventually("a settler is at work", || Ok(self.log(&name)?.contains("at work as")));
            at_work.await.with_context(|| self.log(&name).unwrap_or_default())?;
        }
        Ok(settlers)
    }

    /// Waits until a settler in Python has been paid for a payment.
    async fn paid(&self, n: usize, payment: &Value) -> Result<()> {
        let ended = format!("award {} has ended: released", payment["payment_id"].as_str().context("payment_id")?);
        let log = format!("python-settler-{n}");
        let paid = eventually(&ended, || Ok(self.log(&log)?.contains(&ended)));
        paid.await.with_context(|| self.log(&log).unwrap_or_default())
    }
}

/// The payments in lines of JSON, which have all completed.
fn completed(said: &str) -> Result<Vec<Value>> {
    let payments = said.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
    ensure!(!payments.is_empty() && payments.iter().all(|payment| payment["status"] == "completed"), "{said}");
    Ok(payments)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_examples_work_on_the_demo() -> Result<()> {
    let mut reader = Reader::start().await?;
    // What it prints is what the READMEs have.
    let printed = reader.log("demo")?;
    let readmes = ["auditor", "evm", "solana", "tron"].map(|name| format!("{name}/README.md"));
    let written = readmes.iter().map(|readme| reader.blocks(readme)).collect::<Result<Vec<_>>>()?.concat().join("\n");
    let commands = printed.lines().filter_map(|line| line.strip_prefix("  ")).filter(|line| line.contains("examples/"));
    let commands: Vec<&str> = commands.map(|line| line.split("   #").next().unwrap_or(line)).collect();
    ensure!(commands.len() == 5, "{commands:?}");
    for command in commands {
        ensure!(written.contains(command), "no README has `{command}`");
    }

    let (evm, solana, tron, bought) =
        tokio::join!(reader.calls(), reader.pays("solana/README.md"), reader.pays("tron/README.md"), reader.buys());
    evm.context("the calls that are printed")?;
    solana.context("the payer on Solana")?;
    tron.context("the payer on Tron")?;
    bought.context("the shop and the buyer")?;

    // Both payers on EVM chains give an allowance, and the settler in Python that is the cheapest delivers and is paid.
    let mut settlers = reader.replace_settlers().await?;
    let payments = reader.pays("evm/README.md").await?;
    ensure!(payments.len() == 2, "{payments:?}");
    for payment in &payments {
        let approvals = payment["approvals"].as_array().context("approvals")?;
        ensure!(!approvals.is_empty(), "no allowance was given: {payment}");
        reader.paid(1, payment).await?;
        for n in 1..=3 {
            let bid = format!("bid {} quote", payment["payment_id"].as_str().context("payment_id")?);
            eventually(&bid, || Ok(reader.log(&format!("python-settler-{n}"))?.contains(&bid))).await?;
        }
    }
    // Without it the second one is; the third one's file says that it never delivers.
    settlers[0].signal(Signal::Terminate).await?;
    ensure!(settlers[0].wait().await?.success(), "it did not end in order");
    let block = reader.blocks("evm/README.md")?.concat();
    let python: Vec<&str> = block.lines().filter(|line| !line.starts_with("node ")).collect();
    let [payment] =
        completed(&reader.run(&python.join("\n")).await?)?.try_into().map_err(|_| anyhow::anyhow!("not one"))?;
    reader.paid(2, &payment).await?;
    ensure!(reader.log("python-settler-3")?.contains("and delivers nothing"), "{}", reader.log("python-settler-3")?);

    // The auditor takes the demo's port by default, and proves the first of these payments.
    let audit = fs::read_to_string(tools::root().join("examples/auditor/audit.py"))?;
    let help = String::from_utf8(gw_dev().arg("--help").output().await?.stdout)?;
    for usual in ["nats://127.0.0.1:4222", ".dev/nats/auditor.seed"] {
        ensure!(audit.contains(usual), "audit.py does not take {usual}");
    }
    ensure!(help.contains("4222 unless named") && help.contains("8080 unless named"), "{help}");
    let payment_id = payments[0]["payment_id"].as_str().context("payment_id")?;
    for block in reader.blocks("auditor/README.md")? {
        let said = reader.run(&block.replace("pay_…", payment_id)).await?;
        ensure!(said.contains("EscrowReleased") && said.contains("its checkpoints agree"), "{said}");
    }

    reader.demo.signal(Signal::Terminate).await?;
    ensure!(reader.demo.wait().await?.success(), "gw-dev did not end in order: {}", reader.log("demo")?);
    Ok(())
}

#[tokio::test]
async fn a_port_that_is_named_has_to_be_free() -> Result<()> {
    let directory = TempDir::new()?;
    // The program is never run: the ports come first.
    let gw = directory.path().join("gw");
    fs::write(&gw, "")?;
    for argument in ["--port", "--nats-port"] {
        let port = free_port()?;
        let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let said = refused(&gw, directory.path(), &[argument, &port.to_string()]).await?;
        ensure!(said.contains(&format!("port {port} ")) && said.contains(argument), "{said}");
        ensure!(!directory.path().join(".dev").exists(), "a network was begun");
    }
    let said = refused(&gw, directory.path(), &["--nats-nodes", "3", "--nats-port", "14222"]).await?;
    ensure!(said.contains("--nats-port is for one nats-server"), "{said}");
    Ok(())
}

/// What `gw-dev` says when it refuses these arguments.
async fn refused(gw: &Path, directory: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = gw_dev();
    command.arg("--gw").arg(gw).args(arguments).current_dir(directory);
    let output = tokio::time::timeout(PATIENCE, command.output()).await??;
    ensure!(output.status.code() == Some(1), "{arguments:?}: {output:?}");
    Ok(String::from_utf8(output.stderr)?)
}
