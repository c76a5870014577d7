//! `gw pay`, `gw request` and `gw refund`: payers with a keystore and nothing else. They pay once, whatever kills them and whoever lies
//! to them, and their money comes back without a gateway.

mod gate;

use std::{
    fs,
    path::PathBuf,
    process::{Output, Stdio},
};

use alloy::{
    primitives::{U64, U256, keccak256},
    signers::local::PrivateKeySigner,
};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use devnet::{
    keys::Role,
    network::{Network, Options},
    solana::SolanaOptions,
    tron::TronOptions,
};
use events::{AssetId, Family, OwnedAsset, PaymentId};
use gateway_client::{Key, onchain::Chain};

use self::gate::Gate;
use crate::support::{
    example_payers::{DEFAULTS, FALSE_DEFAULTS},
    tampering_proxy::{self, Tampering, TamperingProxy, member},
    *,
};

const TOKENS: u64 = 100_000_000;
const CAP: u64 = 25_500_000;
const PREPARE: &str = "/v1/payments/prepare";
const PASSPHRASE: &str = "a passphrase of tests";
/// The exit code of what is not known yet, or not over.
const OPEN: Option<i32> = Some(3);

/// Somebody at a command line: a keystore, a passphrase and a journal.
struct Shell {
    directory: TempDir,
    from: AssetId,
    node: String,
}

/// What a command ended with.
struct Ended {
    code: Option<i32>,
    answer: Value,
    output: Output,
}

impl Ended {
    fn of(output: Output) -> Self {
        let answer = serde_json::from_slice(&output.stdout).unwrap_or_default();
        Self { code: output.status.code(), answer, output }
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    /// The answer of a command that ended with `code`.
    fn with(self, code: Option<i32>) -> Result<Value> {
        ensure!(self.code == code, "{:?}", self.output);
        Ok(self.answer)
    }
}

impl Shell {
    /// One whose keystore has this key, which pays with `from` and knows a node of that chain.
    async fn new(key: &str, from: AssetId, node: String) -> Result<Self> {
        let shell = Self { directory: TempDir::new()?, from, node };
        fs::write(shell.path("passphrase"), PASSPHRASE)?;
        fs::write(shell.path("key"), key)?;
        let mut import = shell.gw(&["keys", "import", "--from"]);
        let output = import.args([shell.path("key"), shell.path("key.json")]).output().await?;
        ensure!(output.status.success(), "{output:?}");
        fs::remove_file(shell.path("key"))?;
        Ok(shell)
    }

    /// A payer on the network's first EVM chain, who has coins and tokens and has given no allowance.
    async fn on_evm(network: &Network, name: &str) -> Result<Self> {
        let chain = &network.source;
        let key = PrivateKeySigner::from_bytes(&keccak256(name))?;
        let account = key.address().to_string();
        chain.dev.fund(&account, U256::from(10_u64.pow(18))).await?;
        chain.dev.mint(&chain.token, &account, U256::from(TOKENS)).await?;
        Self::new(&key.to_bytes().to_string(), chain.token()?, chain.anvil.url()).await
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn gw(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gw"));
        command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
        command.env("GW_PASSPHRASE_FILE", self.path("passphrase")).env("GW_PAY_JOURNAL", self.path("journal"));
        command
    }

    async fn run(&self, command: &mut Command) -> Result<Ended> {
        Ok(Ended::of(tokio::time::timeout(PATIENCE, command.output()).await??))
    }

    /// `gw pay` for an ordinary payment to an EVM account.
    fn pay(&self, network: &Network, gateway: &str, besides: &[&str]) -> Result<Command> {
        let to = format!("{}={}", network.destination.token()?, Role::Recipient.account());
        let (from, amount, cap) = (self.from.to_string(), AMOUNT.to_string(), CAP.to_string());
        let mut command = self.gw(&["pay", "--gateway", gateway, "--from", &from, "--to", &to, "--yes"]);
        command.args(["--amount", &amount, "--max", &cap, "--key"]).arg(self.path("key.json")).args(besides);
        Ok(command)
    }

    /// The same through the payer's own node, which gives the allowance that is missing.
    async fn paid(&self, network: &Network, gateway: &str, besides: &[&str]) -> Result<Ended> {
        let mut command = self.pay(network, gateway, besides)?;
        self.run(command.args(["--node", &self.node])).await
    }

    /// `gw refund` for a payment of the journal's.
    async fn refund(&self, payment: &str, besides: &[&str]) -> Result<Ended> {
        let node = format!("{}={}", self.from.chain(), self.node);
        self.run(self.gw(&["refund", payment, "--node", &node, "--json"]).args(besides)).await
    }

    /// The refund that is sent from the payer's own account.
    async fn refund_by_key(&self, payment: &str, besides: &[&str]) -> Result<Ended> {
        let key = self.path("key.json").display().to_string();
        self.refund(payment, &[&["--key", &key], besides].concat()).await
    }

    /// Waits until the refund of a payment can be sent, by what the escrow says.
    async fn overdue(&self, payment: &str) -> Result<()> {
        let is = || async {
            let looked = self.refund(payment, &[]).await;
            looked.is_ok_and(|ended| ended.answer[0]["outlook"]["state"] == "refundable")
        };
        eventually(is).await
    }
}

/// The payment that an answer is about.
fn payment_of(answer: &Value) -> Result<PaymentId> {
    Ok(answer["payment_id"].as_str().with_context(|| format!("no payment in {answer}"))?.parse()?)
}

/// The settler that never delivers.
fn vanishing() -> Result<String> {
    let key = settler::dev::key(3).context("the network has three settlers")?;
    Ok(events::Did::from_ed25519(&key.verifying_key()).to_string())
}

/// Changes the typed data that a gateway wants signed, and has its digest say something else, too.
fn retype(prepared: &mut Value, pointer: &str, value: &str) -> Result<()> {
    tampering_proxy::retype(prepared, pointer, value)?;
    *member(prepared, "/signed_messages/0/message")? = json!(keccak256(value));
    Ok(())
}

/// What a gateway, or somebody in front of it, might want signed, and what the payer names that it refuses. Of what is asked
/// otherwise, the gateway prepares what is consistent and not the payer's.
const TAMPERINGS: [(Tampering, &str); 8] = [
    (
        Tampering::Request(PREPARE, |order| {
            *member(order, "/destination/0/account")? = Role::Settler(1).account().into();
            Ok(())
        }),
        "message.nonce must be",
    ),
    (
        Tampering::Request(PREPARE, |order| {
            order["max_source_amount"] = TOKENS.to_string().into();
            Ok(())
        }),
        "message.permitted.amount must be 25500000",
    ),
    (
        Tampering::Request(PREPARE, |order| {
            order["request_id"] = "another".into();
            Ok(())
        }),
        "payment_id must be",
    ),
    (
        Tampering::Response(PREPARE, |prepared| retype(prepared, "/message/spender", &Role::Settler(1).account())),
        "message.spender must be",
    ),
    (
        Tampering::Response(PREPARE, |prepared| {
            retype(prepared, "/message/witness/releaser", &Role::Settler(1).account())
        }),
        "message.witness.releaser must be",
    ),
    (
        Tampering::Response(PREPARE, |prepared| retype(prepared, "/message/witness/refundAfter", "99999999999")),
        "message must be",
    ),
    (
        Tampering::Response(PREPARE, |prepared| {
            *member(prepared, "/signed_messages/0/message")? = json!(keccak256("another message"));
            Ok(())
        }),
        "message must be",
    ),
    (
        Tampering::Response(DEFAULTS, |defaults| {
            defaults["permit2"] = Role::Settler(1).account().into();
            Ok(())
        }),
        "permit2 must be",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_signed_that_was_not_asked_for() -> Result<()> {
    let world = World::start(1).await?;
    let (network, base) = (&world.network, world.base(0));
    let shell = Shell::on_evm(network, "a payer who believes nobody").await?;
    // With pins nothing is sent to the chain either, not even an allowance.
    let escrow = network.source.contracts.escrow.clone();
    let (reserver, releaser) = (Role::Reserver.account(), Role::Releaser.account());
    let pins = ["--escrow", &escrow, "--reserver", &reserver, "--releaser", &releaser];
    let watched = TamperingProxy::start(shell.node.clone(), Tampering::NONE).await?;
    for (change, _) in FALSE_DEFAULTS {
        let proxy = TamperingProxy::start(base.clone(), Tampering::Response(DEFAULTS, change)).await?;
        let mut command = shell.pay(network, &proxy.url, &pins)?;
        let ended = shell.run(command.args(["--node", &watched.url])).await?;
        assert_eq!((ended.code, proxy.submissions(), watched.submissions()), (Some(1), 0, 0), "{}", ended.said());
        assert!(ended.said().contains("nothing was signed for it"), "{}", ended.said());
        assert_eq!(ended.answer["money"]["where"], "with_payer", "{}", ended.said());
    }
    // The node says neither the chain, nor what may be spent on it.
    let elsewhere = network.destination.anvil.url();
    let mut command = shell.pay(network, &base, &[])?;
    let ended = shell.run(command.args(["--node", &elsewhere])).await?;
    assert_eq!(ended.code, Some(1), "{}", ended.said());
    let dear = Tampering::Call("eth_maxPriorityFeePerGas", 0, |told| {
        *member(told, "/result")? = json!("0x38d7ea4c68000");
        Ok(())
    });
    let dear = TamperingProxy::start(shell.node.clone(), dear).await?;
    let mut command = shell.pay(network, &base, &[])?;
    let ended = shell.run(command.args(["--node", &dear.url])).await?;
    assert_eq!((ended.code, dear.submissions()), (Some(1), 0), "{}", ended.said());
    assert!(ended.said().contains("at most 10000000000000000 wei may be spent"), "{}", ended.said());

    // Without a node an allowance cannot be given, and that is said.
    let ended = shell.run(&mut shell.pay(network, &base, &[])?).await?;
    assert!(ended.code == Some(1) && ended.said().contains("--node"), "{}", ended.said());
    for (number, (tampering, answer)) in TAMPERINGS.into_iter().enumerate() {
        let proxy = TamperingProxy::start(base.clone(), tampering).await?;
        let ended = shell.paid(network, &proxy.url, &[]).await?;
        assert_eq!((ended.code, proxy.submissions()), (Some(1), 0), "{number}: {}", ended.said());
        assert!(ended.said().contains(answer), "{number}, {answer}: {}", ended.said());
    }
    // Nobody is there to confirm it.
    let mut command =
        shell.gw(&["pay", "--gateway", &base, "--from", &shell.from.to_string(), "--amount", "5", "--max", "6"]);
    let to = format!("{}={}", network.destination.token()?, Role::Recipient.account());
    let ended = shell.run(command.args(["--to", &to, "--key"]).arg(shell.path("key.json"))).await?;
    assert!(ended.code == Some(1) && ended.said().contains("nobody is there to confirm it"), "{}", ended.said());
    // What is refused is told with its code.
    let refused = shell.paid(network, &base, &["--fulfillment-seconds", "5"]).await?;
    assert_eq!(refused.answer["error"]["code"], "INVALID_DEADLINE", "{}", refused.said());
    assert_eq!((refused.code, &refused.answer["status"]), (Some(1), &json!("refused")));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payer_who_is_killed_goes_on_with_the_same_signature_and_pays_once() -> Result<()> {
    let world = World::start(1).await?;
    let network = &world.network;
    let shell = Shell::on_evm(network, "a payer who is killed").await?;
    let gate = Gate::start(world.base(0)).await?;

    // The submission never arrives, and the payer is killed while it waits.
    gate.hold();
    let mut killed = shell.pay(network, &gate.url, &["--node", &shell.node, "--quote-seconds", "30"])?.spawn()?;
    eventually(|| async { !gate.submissions().is_empty() }).await?;
    killed.kill().await?;
    // The gateway gets it, and its answer is lost; nobody can say more within two seconds.
    gate.lose();
    let ended = shell.paid(network, &gate.url, &["--wait", "2"]).await?;
    let answer = ended.with(OPEN)?;
    assert_eq!(answer["status"], "unknown", "{answer}");
    let payment_id = payment_of(&answer)?;
    gate.open();
    let ended = shell.paid(network, &gate.url, &[]).await?;
    assert!(ended.said().contains("which was signed before"), "{}", ended.said());
    let answer = ended.with(Some(0))?;
    assert_eq!((payment_of(&answer)?, &answer["status"]), (payment_id.clone(), &json!("completed")));
    assert_eq!((&answer["source_amount"], &answer["money"]["where"]), (&json!(PRICE.to_string()), &json!("delivered")));
    let submissions = gate.submissions();
    assert!(submissions.len() >= 3 && submissions.iter().all(|body| *body == submissions[0]), "{}", submissions.len());
    world.completed(&payment_id).await?;
    world.settled_once(std::slice::from_ref(&payment_id)).await?;
    let account = answer["source"]["account"].as_str().context("an account")?;
    let left = || async { network.source.dev.token_balance(&network.source.token, account).await };
    assert_eq!(left().await?, U256::from(TOKENS - PRICE));

    // It is over, so the same command is another payment, and its allowance is given anew.
    let answer = shell.paid(network, &world.base(0), &["--request-id", "invoice-8"]).await?.with(Some(0))?;
    assert_ne!(payment_of(&answer)?, payment_id);
    assert_eq!(answer["approvals"].as_array().map(Vec::len), Some(2), "{answer}");
    // But one request is one payment.
    let again = shell.paid(network, &world.base(0), &["--request-id", "invoice-8"]).await?;
    assert!(again.said().contains("paid before"), "{}", again.said());
    assert_eq!(payment_of(&again.with(Some(0))?)?, payment_of(&answer)?);
    // What was deposited beyond the price comes back with the release.
    world.completed(&payment_of(&answer)?).await?;
    assert_eq!(left().await?, U256::from(TOKENS - 2 * PRICE));

    // Somebody asks for money by a link, and gets it once from one account.
    let to = format!("{}={}", network.destination.token()?, Role::Recipient.account());
    let (from, amount) = (format!("{}={CAP}", shell.from), AMOUNT.to_string());
    let base = world.base(0);
    let mut request = shell.gw(&["request", "--gateway", &base, "--to", &to, "--amount", &amount, "--from", &from]);
    let link =
        shell.run(request.args(["--memo", "two coffees", "--valid-seconds", "600", "--json"])).await?.with(Some(0))?;
    let link = link["link"].as_str().context("a link")?;
    ensure!(link.starts_with(&format!("{base}/pay#")), "{link}");
    let cap = CAP.to_string();
    let yes = ["--yes", "--max", &cap, "--gateway", &base];
    let mut pay = shell.gw(&["pay", link, "--key"]);
    pay.arg(shell.path("key.json")).args(yes).env("GW_NODE", &shell.node);
    let paid = shell.run(&mut pay).await?;
    assert!(paid.said().contains("“two coffees”"), "{}", paid.said());
    let paid = paid.with(Some(0))?;
    let again = shell.run(&mut pay).await?;
    assert!(again.said().contains("paid before"), "{}", again.said());
    assert_eq!(payment_of(&again.with(Some(0))?)?, payment_of(&paid)?);
    world.completed(&payment_of(&paid)?).await?;
    assert_eq!(left().await?, U256::from(TOKENS - 3 * PRICE));

    // Another link under the same id is not taken for the one that was paid.
    let id = paid["request_id"].as_str().context("a request_id")?;
    let other = format!("{}={}", network.destination.token()?, Role::Settler(1).account());
    let mut request = shell.gw(&["request", "--gateway", &base, "--to", &other, "--amount", &amount, "--from", &from]);
    let other = shell.run(request.args(["--request-id", id, "--json"])).await?.with(Some(0))?;
    let mut pay = shell.gw(&["pay", other["link"].as_str().context("a link")?, "--key"]);
    let refused = shell.run(pay.arg(shell.path("key.json")).args(yes)).await?;
    assert!(refused.code == Some(1) && refused.said().contains("the request_id is taken"), "{}", refused.said());

    // A link that is too old is not begun.
    let mut request = shell.gw(&["request", "--gateway", &base, "--to", &to, "--amount", &amount, "--from", &from]);
    let old = shell.run(request.args(["--valid-seconds", "0", "--json"])).await?.with(Some(0))?;
    let mut pay = shell.gw(&["pay", old["link"].as_str().context("a link")?, "--key"]);
    let refused = shell.run(pay.arg(shell.path("key.json")).args(yes)).await?;
    assert!(refused.code == Some(1) && refused.said().contains("could be paid until"), "{}", refused.said());

    // What cannot be paid for is said, and nothing is signed for it.
    let refused = shell.paid(network, &base, &[]).await?;
    assert_eq!(
        (refused.code, &refused.answer["error"]["code"]),
        (Some(1), &json!("INSUFFICIENT_FUNDS")),
        "{}",
        refused.said()
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn overdue_money_comes_back_without_a_gateway() -> Result<()> {
    let mut world = World::with(|options| Options { refund_delay_seconds: 10, ..options }).await?;
    let shell = Shell::on_evm(&world.network, "a payer who waits").await?;
    let settler = vanishing()?;
    let besides = ["--settler", &settler, "--fulfillment-seconds", "25", "--wait", "0"];
    let answer = shell.paid(&world.network, &world.base(0), &besides).await?.with(OPEN)?;
    let payment_id = payment_of(&answer)?;
    world.until(&payment_id, "EscrowSecured").await?;
    world.network.kill_gateway(0).await?;

    let id = payment_id.as_str();
    let looked = shell.refund(id, &[]).await?.with(OPEN)?;
    assert_eq!(looked[0]["outlook"]["state"], "locked", "{looked}");
    let deposited = looked[0]["record"]["deposited"].as_str().context("a deposit")?.parse::<u64>()?;
    assert!((AMOUNT..=CAP).contains(&deposited), "{looked}");
    shell.overdue(id).await?;
    // It is tried out first, and costs no more than is allowed.
    let tried = shell.refund_by_key(id, &[]).await?.with(OPEN)?;
    assert_eq!(tried[0]["refund"]["sent"], false, "{tried}");
    let dear = shell.refund_by_key(id, &["--yes", "--fee-max", "1"]).await?.with(Some(1))?;
    assert!(dear[0]["error"].as_str().is_some_and(|text| text.contains("at most 1 wei")), "{dear}");
    assert_eq!(logs(&world.network.source, REFUNDED, &payment_id).await?, 0);
    let sent = shell.refund_by_key(id, &["--yes"]).await?.with(Some(0))?;
    assert_eq!(sent[0]["refund"]["sent"], true, "{sent}");
    assert_eq!(logs(&world.network.source, REFUNDED, &payment_id).await?, 1);
    let account = answer["source"]["account"].as_str().context("an account")?;
    let source = &world.network.source;
    assert_eq!(source.dev.token_balance(&source.token, account).await?, U256::from(TOKENS));
    let over = shell.refund_by_key(id, &["--yes"]).await?.with(Some(0))?;
    assert_eq!(over[0]["outlook"]["state"], "refunded", "{over}");

    // An escrow that knows nothing of a payment says so, and a node of another chain is believed nothing.
    let stranger = PaymentId::derive("nobody", "nothing");
    let escrow = format!("{}:{}", shell.from.chain(), source.contracts.escrow);
    let nothing = shell.refund(stranger.as_str(), &["--escrow", &escrow]).await?.with(Some(0))?;
    assert_eq!(nothing[0]["outlook"]["state"], "nothing", "{nothing}");
    let elsewhere = format!("{}={}", shell.from.chain(), world.network.destination.anvil.url());
    let mut command = shell.gw(&["refund", id, "--json", "--node", &elsewhere]);
    ensure!(shell.run(&mut command).await?.code == Some(1), "a node of another chain was believed");
    let block: Value = source.dev.rpc("eth_getBlockByNumber", ("latest", false)).await?;
    let now: U64 = serde_json::from_value(block["timestamp"].clone())?;
    assert!(looked[0]["record"]["refund_after"].as_u64().is_some_and(|after| after <= now.to::<u64>()), "{looked}");
    Ok(())
}

/// By a node alone Permit2 gets its allowance, which takes back what stood there before. Then `gw pay` signs once and spends no TRX,
/// for the Permit2 that its payer names, and says so where it signs transactions instead.
#[tokio::test(flavor = "multi_thread")]
async fn a_payer_on_tron_lets_permit2_draw_and_pays_by_one_signature() -> Result<()> {
    let world = World::with_tron(|options| options).await?;
    let (network, tron) = (&world.network, world.tron()?);
    let signer = PrivateKeySigner::from_bytes(&keccak256("a payer on Tron who signs once"))?;
    let account = chains_tron::address::text(signer.address());
    tron.dev.fund(&account, 1_000_000_000).await?;
    tron.dev.mint(&tron.token, &account, U256::from(TOKENS)).await?;
    let (from, permit2) = (tron.token()?, tron.contracts.permit2.as_str());
    let shell = Shell::new(&hex::encode(signer.to_bytes()), from.clone(), tron.node.url()).await?;

    let key = Key::parse(Family::Tron, &hex::encode(signer.to_bytes()))?;
    let (source, spender) = (OwnedAsset::new(from.clone(), &account)?, permit2.parse()?);
    let chain = Chain::connect(from.chain(), &shell.node, &tron.contracts.escrow.parse()?, None).await?;
    let fee_max = gateway_client::fee_max(Family::Tron);
    assert_eq!(chain.allowance(&source, &spender).await?, U256::ZERO);
    for (units, transactions) in [(CAP - 1, 1), (2 * CAP, 2)] {
        let sent = chain.approve(&source, &spender, units.to_string().parse()?, &key, fee_max).await?;
        assert_eq!(
            (sent.len(), chain.allowance(&source, &spender).await?),
            (transactions, U256::from(units)),
            "{sent:?}"
        );
    }
    let dear = chain.approve(&source, &spender, CAP.to_string().parse()?, &key, U256::from(1_000)).await;
    assert!(matches!(dear, Err(gateway_client::Error::Dear { .. })), "{dear:?}");

    let held = || async {
        anyhow::Ok((tron.dev.token_balance(&tron.token, &account).await?, tron.dev.balance(&account).await?))
    };
    let scheme = async |answer: &Value| -> Result<Value> {
        let timeline = reqwest::get(format!("{}/v1/payments/{}/timeline", world.base(0), payment_of(answer)?)).await?;
        Ok(timeline.json::<Value>().await?["entries"][0]["data"]["message_scheme"].take())
    };
    let (tokens, sun) = held().await?;
    let ended = shell.paid(network, &world.base(0), &["--permit2", permit2]).await?;
    assert!(!ended.said().contains("transactions of yours"), "{}", ended.said());
    let answer = ended.with(Some(0))?;
    assert_eq!((&answer["status"], scheme(&answer).await?), (&json!("completed"), json!("TRON_PERMIT2_ESCROW")));
    // What was deposited beyond the price comes back with the release.
    world.until(&payment_of(&answer)?, "EscrowReleased").await?;
    assert_eq!(held().await?, (tokens - U256::from(PRICE), sun));

    let (proxy, named) = (tron.contracts.proxy.as_str(), format!("the gateway's Permit2 is {permit2}"));
    for (besides, says) in [(&[][..], "you named none"), (&["--permit2", proxy], proxy)] {
        let ended = shell.paid(network, &world.base(0), besides).await?;
        let said = ended.said();
        assert!(said.contains("transactions of yours") && said.contains(&named) && said.contains(says), "{said}");
        let answer = ended.with(Some(0))?;
        assert_eq!((&answer["status"], scheme(&answer).await?), (&json!("completed"), json!("TRON")));
    }
    assert!(held().await?.1 < sun, "transactions burn TRX");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn payers_on_solana_and_tron_pay_and_get_overdue_money_back() -> Result<()> {
    let mut world = World::with(|options| Options {
        refund_delay_seconds: 10,
        solana: Some(SolanaOptions::default()),
        tron: Some(TronOptions::default()),
        ..options
    })
    .await?;
    let shells = {
        let (solana, tron) = (world.solana()?, world.tron()?);
        [
            Shell::new(&Role::Payer.solana_secret(), solana.token()?, solana.surfnet.url()).await?,
            Shell::new(&Role::Payer.secret_hex(), tron.token()?, tron.node.url()).await?,
        ]
    };
    for shell in &shells {
        let answer = shell.paid(&world.network, &world.base(0), &[]).await?.with(Some(0))?;
        assert_eq!((&answer["status"], &answer["source_amount"]), (&json!("completed"), &json!(PRICE.to_string())));
        world.until(&payment_of(&answer)?, "EscrowReleased").await?;
    }
    let before = [U256::from(world.solana()?.balance(Role::Payer).await?), world.tron()?.balance(Role::Payer).await?];
    let (settler, mut payments) = (vanishing()?, Vec::new());
    for shell in &shells {
        let besides = ["--settler", &settler, "--fulfillment-seconds", "40", "--wait", "0"];
        let answer = shell.paid(&world.network, &world.base(0), &besides).await?.with(OPEN)?;
        payments.push(payment_of(&answer)?);
    }
    for payment_id in &payments {
        world.until(payment_id, "EscrowSecured").await?;
    }
    world.network.kill_gateway(0).await?;
    for (shell, payment_id) in shells.iter().zip(&payments) {
        let id = payment_id.as_str();
        shell.overdue(id).await?;
        let tried = shell.refund_by_key(id, &[]).await?.with(OPEN)?;
        assert!(tried[0]["refund"]["cost_max"].as_str().is_some(), "{tried}");
        let sent = shell.refund_by_key(id, &["--yes"]).await?.with(Some(0))?;
        assert_eq!(sent[0]["refund"]["sent"], true, "{sent}");
        let is_back = || async {
            let looked = shell.refund(id, &[]).await;
            looked.is_ok_and(|ended| ended.answer[0]["outlook"]["state"] == "refunded")
        };
        eventually(is_back).await?;
    }
    let after = [U256::from(world.solana()?.balance(Role::Payer).await?), world.tron()?.balance(Role::Payer).await?];
    assert_eq!(after, before);
    Ok(())
}
