//! Makes the payments of `sdk/scenarios.json` on a running network of `gw-dev`, which `GW_DEV_DIRECTORY` names; see sdk/README.md.
//! Ends with 1 when one of them does not end as it says.

use std::{collections::BTreeMap, fs, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context, Result, anyhow, bail, ensure};
use chrono::Utc;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use events::{Account, Amount, AssetId, Family, OwnedAsset};
use gateway_client::{
    Award, Defaults, Error, Gateway, Key, MandateOrder, Order, Payment, Pins, Windows, authorization, caller_secret,
    charge, deposit_address, onchain::Chain, pay, pay_batch, pay_quote, request_id, sign_mandate, until,
};

const QUOTE_SECONDS: u64 = 10;
const FULFILLMENT_SECONDS: u64 = 180;
/// From Tron approval, deposit and reservation land one after the other.
const TRON_FULFILLMENT_SECONDS: u64 = 240;
/// How long what is over may take to come back.
const BACK_WITHIN: Duration = Duration::from_secs(60);
/// How long a period of a mandate is, how many there are, and for how long it lets a payment be held, in seconds.
const DAY: u32 = 86_400;
const DAYS: u32 = 3;
const LOCK_SECONDS: u32 = 7_200;
const POLL: Duration = Duration::from_millis(500);

#[derive(Deserialize)]
struct File {
    recipients: BTreeMap<String, String>,
    scenarios: Vec<Scenario>,
}

#[derive(Deserialize)]
struct Scenario {
    name: String,
    #[serde(default)]
    way: Option<String>,
    source: Asset,
    destination: Vec<Asset>,
    amount: String,
    cap: String,
    #[serde(default)]
    quote_seconds: Option<u64>,
    #[serde(default)]
    fulfillment_seconds: Option<u64>,
    #[serde(default)]
    members: Map<String, Value>,
    #[serde(default)]
    request_id_of: Option<String>,
    expected: Expected,
}

#[derive(Deserialize)]
struct Asset {
    chain: String,
    #[serde(default)]
    symbol: Option<String>,
    #[serde(default)]
    asset: Option<AssetId>,
    #[serde(default)]
    account: Option<String>,
}

#[derive(Deserialize)]
struct Expected {
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    code: Option<String>,
    #[serde(default)]
    idempotent_replay: Option<bool>,
    #[serde(default)]
    refused: Option<String>,
}

/// A family's payer: its node, its pins and its key.
struct Payer {
    node: String,
    pins: Pins,
    key: Key,
}

struct Run {
    gateway: Gateway,
    defaults: Defaults,
    payers: BTreeMap<&'static str, Payer>,
    recipients: BTreeMap<String, String>,
    request_ids: BTreeMap<String, String>,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let directory = PathBuf::from(std::env::var_os("GW_DEV_DIRECTORY").unwrap_or_else(|| ".dev".into()));
    let env = environment(&fs::read_to_string(directory.join("env")).context("the network's file env")?);
    let scenarios = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios.json");
    let file: File = serde_json::from_str(&fs::read_to_string(scenarios)?)?;
    let gateway = Gateway::new(env.get("GATEWAY_URL").context("GATEWAY_URL")?)?;
    let mut payers = BTreeMap::new();
    for (family, name, node) in [
        (Family::Evm, "EVM", "EVM_RPC_URL"),
        (Family::Solana, "SOLANA", "SOLANA_RPC_URL"),
        (Family::Tron, "TRON", "TRON_API_URL"),
    ] {
        let Some(node) = env.get(node) else { continue };
        let pin = |what: &str| env.get(&format!("{name}_{what}")).map(|text| Account::parse(family, text)).transpose();
        let pins = Pins {
            escrow: pin("ESCROW")?,
            reserver: pin("RESERVER")?,
            releaser: pin("RELEASER")?,
            permit2: pin("PERMIT2")?,
            deposit_address_factory: pin("DEPOSIT_ADDRESS_FACTORY")?,
            ..Pins::default()
        };
        let text = fs::read_to_string(directory.join("examples").join(format!("{}.key", name.to_lowercase())))?;
        payers.insert(family.namespace(), Payer { node: node.clone(), pins, key: Key::parse(family, &text)? });
    }
    let defaults = gateway.defaults().await?;
    let mut run = Run { gateway, defaults, payers, recipients: file.recipients, request_ids: BTreeMap::new() };
    let mut failed = 0;
    for scenario in &file.scenarios {
        if let Some(left_out) = run.left_out(scenario) {
            println!("· {}: {left_out} is left out of this network", scenario.name);
            continue;
        }
        match run.play(scenario).await {
            Ok(said) => println!("✓ {}: {said}", scenario.name),
            Err(error) => {
                failed += 1;
                println!("✗ {}: {error:#}", scenario.name);
            }
        }
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Lines `export NAME='value'`.
fn environment(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix("export ")?.split_once('='));
    lines.map(|(name, value)| (name.to_owned(), value.trim_matches(['\'', '"']).to_owned())).collect()
}

impl Run {
    /// The first family of a scenario that the network has not.
    fn left_out<'a>(&self, scenario: &'a Scenario) -> Option<&'a str> {
        let mut chains = scenario.destination.iter().chain([&scenario.source]).map(|asset| asset.chain.as_str());
        chains.find(|chain| !self.payers.contains_key(chain.split(':').next().unwrap_or_default()))
    }

    fn asset(&self, asset: &Asset) -> Result<AssetId> {
        if let Some(id) = &asset.asset {
            return Ok(id.clone());
        }
        let is_chain = |id: &str| id == asset.chain || id.split(':').next() == Some(asset.chain.as_str());
        let (_, chain) = self.defaults.chains.iter().find(|(id, _)| is_chain(id)).context("a chain that is served")?;
        let found = chain.assets.iter().find(|served| Some(&served.symbol) == asset.symbol.as_ref());
        Ok(found.context("an asset that is served")?.asset_identifier.clone())
    }

    async fn play(&mut self, scenario: &Scenario) -> Result<String> {
        let (source, mut destination) = (self.asset(&scenario.source)?, Vec::new());
        let family = source.chain().family().context("a family")?;
        let payer = &self.payers[family.namespace()];
        let account = payer.key.account(family).context("the payer's account")?;
        let mut unreadable = None;
        for asset in &scenario.destination {
            let id = self.asset(asset)?;
            let namespace = id.as_namespace();
            let recipient = asset.account.as_ref().or_else(|| self.recipients.get(namespace)).context("a recipient")?;
            match OwnedAsset::new(id, recipient) {
                Ok(owned) => destination.push(owned),
                Err(error) => unreadable = Some(error),
            }
        }
        // What no account can be is not sent: the crate's types refuse it where it is written.
        if let Some(error) = unreadable {
            ensure!(scenario.expected.refused.as_deref() == Some("INVALID_DESTINATION_ACCOUNT"), "{error}");
            return Ok(format!("is refused before it is sent: {error}"));
        }
        let usual = if family == Family::Tron { TRON_FULFILLMENT_SECONDS } else { FULFILLMENT_SECONDS };
        let windows = Windows {
            quote: Duration::from_secs(scenario.quote_seconds.unwrap_or(QUOTE_SECONDS)),
            fulfillment: Duration::from_secs(scenario.fulfillment_seconds.unwrap_or(usual)),
        };
        let id = match &scenario.request_id_of {
            Some(name) => self.request_ids.get(name).context("an earlier scenario")?.clone(),
            None => request_id(),
        };
        self.request_ids.insert(scenario.name.clone(), id.clone());
        let by_address = scenario.way.as_deref() == Some("address");
        // Money comes back to an account that has none: whoever sends it to a deposit address is not the payer.
        let new_account = || {
            let bytes = rand::random::<[u8; 32]>();
            Account::from_bytes(family, if family == Family::Solana { &bytes } else { &bytes[..20] })
        };
        let payer_account = if by_address { new_account().context("a new account")? } else { account };
        let source = OwnedAsset::new(source, payer_account.as_str())?;
        let (amount, cap) = (scenario.amount.parse()?, scenario.cap.parse()?);
        let mut order = Order::new(source, destination, amount, Some(cap), Utc::now(), windows).under(id);
        order.members = scenario.members.clone();
        if by_address {
            return judge(&scenario.expected, Ok(self.pay_by_address(payer, &order).await?));
        }
        if scenario.way.as_deref() == Some("batch") {
            return self.pay_batch(scenario, payer, &order, windows).await;
        }
        if scenario.way.as_deref() == Some("mandate") {
            return self.pay_by_mandate(scenario, payer, &order, windows).await;
        }
        let (sent, outcome) = match self.allow(payer, &order).await {
            Ok(sent) => (sent, self.pay(payer, order, windows, scenario.way.as_deref() == Some("quotes")).await),
            Err(error) => (Vec::new(), Err(error)),
        };
        if let (Some(scheme), Ok(payment)) = (by_signature(&scenario.name), &outcome) {
            ensure!(sent.is_empty(), "the payer sent {}", sent.join(", "));
            let timeline = self.gateway.timeline(&payment.payment_id).await?;
            let submitted = timeline.last("Submitted").context("the payment was not submitted")?;
            let signed = submitted.more.get("data").and_then(|data| data["message_scheme"].as_str());
            ensure!(signed == Some(scheme), "{scheme} is expected, and {signed:?} was signed");
        }
        judge(&scenario.expected, outcome)
    }

    async fn pay(&self, payer: &Payer, order: Order, windows: Windows, quotes_first: bool) -> Result<Payment, Error> {
        // Allowances take the blocks that they take.
        let order = order.from_now(Utc::now(), windows);
        if !quotes_first {
            return pay(&self.gateway, &order, &payer.key, &payer.pins).await;
        }
        let batch = self.gateway.quote(&order).await?;
        let first = batch.quotes.as_deref().and_then(<[_]>::first);
        let quote = first.ok_or_else(|| Error::Invalid("nobody offers a quote".to_owned()))?;
        let award = Award::new(&order, &batch, quote, &request_id())?;
        pay_quote(&self.gateway, &award, &payer.key, &payer.pins).await
    }

    /// Three times the same, for one signature.
    async fn pay_batch(&self, scenario: &Scenario, payer: &Payer, order: &Order, windows: Windows) -> Result<String> {
        let others = [request_id(), request_id()].map(|id| order.clone().under(id));
        let orders: Vec<Order> = [order.clone()].into_iter().chain(others).collect();
        for (source, amount) in authorization::draws(&orders)? {
            let escrow = payer.pins.escrow.as_ref().context("the network's escrow")?;
            let corridor = self.gateway.corridor(&source, &order.destination).await?;
            let spender = authorization::spender(order, &corridor, &payer.pins)?.context("a spender")?;
            let permit2 = payer.pins.permit2_on(source.asset().chain());
            let node = Chain::connect(source.asset().chain(), &payer.node, escrow, permit2.as_ref()).await?;
            if node.allowance(&source, &spender).await? < amount.get() {
                let fee_max = payer.pins.fee_max(source.family());
                node.approve(&source, &spender, amount, &payer.key, fee_max).await?;
            }
        }
        let orders: Vec<Order> = orders.into_iter().map(|order| order.from_now(Utc::now(), windows)).collect();
        let mut said = String::new();
        for (paid, order) in pay_batch(&self.gateway, &orders, &payer.key, &payer.pins).await?.iter().zip(&orders) {
            let accepted =
                paid.outcome.as_ref().map_err(|refusal| anyhow!("{} is refused: {refusal}", paid.payment_id))?;
            let payment = self.gateway.wait(&accepted.payment_id, until(order, 0)).await?;
            said = judge(&scenario.expected, Ok(payment))?;
        }
        Ok(said)
    }

    /// A merchant asks under a mandate of two such payments a day, and for one more once its payer has ended it.
    async fn pay_by_mandate(
        &self,
        scenario: &Scenario,
        payer: &Payer,
        order: &Order,
        windows: Windows,
    ) -> Result<String> {
        let (source, pins) = (&order.source, &payer.pins);
        let merchant = Key::parse(source.family(), &hex::encode(rand::random::<[u8; 32]>()))?;
        let twice = |amount: &str| anyhow::Ok((2 * amount.parse::<u64>()?).to_string().parse()?);
        let mandate = MandateOrder {
            source: source.clone(),
            destination: order.destination.clone(),
            merchant: merchant.account(source.family()).context("the merchant's account")?,
            amount: twice(&scenario.cap)?,
            least: Some(twice(&scenario.amount)?),
            begins: u64::try_from(Utc::now().timestamp())?,
            period_seconds: DAY,
            periods: DAYS,
            lock_seconds: LOCK_SECONDS,
        };
        let signed = sign_mandate(&self.gateway, &mandate, &payer.key, pins).await?;
        let (escrow, permit2) = (pins.escrow.as_ref().context("the escrow")?, pins.permit2_on(source.asset().chain()));
        let node = Chain::connect(source.asset().chain(), &payer.node, escrow, permit2.as_ref()).await?;
        let fee_max = pins.fee_max(source.family());
        if signed.approval.is_some() {
            let spender = permit2.as_ref().context("Permit2 of the network")?;
            node.approve(source, spender, signed.total, &payer.key, fee_max).await?;
        }
        let asked = order.clone().from_now(Utc::now(), windows);
        let payment = charge(&self.gateway, &asked, &signed.payload, &merchant, pins).await;
        let said = judge(&scenario.expected, payment)?;
        node.end_mandate(&signed, &payer.key, fee_max).await?;
        let another = order.clone().under(request_id()).from_now(Utc::now(), windows);
        match charge(&self.gateway, &another, &signed.payload, &merchant, pins).await {
            Err(error) if error.refusal().is_some_and(|refusal| refusal.code == "NONCE_ALREADY_USED") => Ok(said),
            Err(error) => Err(error.into()),
            Ok(payment) => bail!("{} was made after the payer had ended its mandate", payment.payment_id),
        }
    }

    /// The payer's own account is the exchange that sends the money, by an ordinary transfer. What the settler does not get is
    /// back at the refund account afterwards.
    async fn pay_by_address(&self, exchange: &Payer, order: &Order) -> Result<Payment> {
        let source = &order.source;
        let escrow = exchange.pins.escrow.as_ref().context("the network's escrow")?;
        let node = Chain::connect(source.asset().chain(), &exchange.node, escrow, None).await?;
        let fee_max = exchange.pins.fee_max(source.family());
        // Without it the gateway gives no address on Solana.
        node.open_token_account(source, &exchange.key, fee_max).await?;
        let options = deposit_address::Options { caller_secret: Some(caller_secret()), ..Default::default() };
        let opened = deposit_address::open(&self.gateway, order, &exchange.pins, &options).await?;
        ensure!(opened.believed.is_empty(), "only the gateway says {:?}", opened.believed);
        let address = &opened.address;
        let to = OwnedAsset::new(source.asset().clone(), address.address.as_str())?;
        node.transfer(&to, address.amount, &exchange.key, fee_max).await?;
        let ends = until(order, 0);
        let payment = self.gateway.wait(&address.payment_id, ends).await?;
        while !self.gateway.timeline(&address.payment_id).await?.at_rest {
            ensure!(Instant::now() < ends, "{} does not come to rest", address.payment_id);
            tokio::time::sleep(POLL).await;
        }
        let price = payment.more.get("fulfillment_quote").and_then(|quote| quote["sourceAmount"].as_str());
        let over = address.amount.get() - price.context("a price")?.parse::<Amount>()?.get();
        // On Solana it comes in a transaction of its own behind the release.
        let late = Instant::now() + BACK_WITHIN;
        while node.balance(source).await?.is_zero() && Instant::now() < late {
            tokio::time::sleep(POLL).await;
        }
        let (back, left) = (node.balance(source).await?, node.balance(&to).await?);
        ensure!(!over.is_zero() && back == over && left.is_zero(), "{over} is over, {back} came back, {left} is left");
        Ok(payment)
    }

    /// Gives the allowance where it is missing; the transactions that the payer sent for that.
    async fn allow(&self, payer: &Payer, order: &Order) -> Result<Vec<String>, Error> {
        let source = &order.source;
        let corridor = self.gateway.corridor(source, &order.destination).await?;
        let spender = authorization::spender(order, &corridor, &payer.pins)?;
        // A token may take a signature in its place.
        if corridor.source.takes_token_signatures() && self.gateway.prepare(order).await?.is_allowed_by_signature() {
            return Ok(Vec::new());
        }
        let (Some(cap), Some(escrow), Some(spender)) = (order.max_source_amount, &payer.pins.escrow, spender) else {
            return Ok(Vec::new());
        };
        let permit2 = payer.pins.permit2_on(source.asset().chain());
        let node = Chain::connect(source.asset().chain(), &payer.node, escrow, permit2.as_ref()).await?;
        if node.allowance(source, &spender).await? >= cap.get() {
            return Ok(Vec::new());
        }
        node.approve(source, &spender, cap, &payer.key, payer.pins.fee_max(source.family())).await
    }
}

/// The scheme of a scenario whose payer signs once, and sends no transaction of its own.
fn by_signature(name: &str) -> Option<&'static str> {
    match name {
        "evm-by-signature" => Some("EVM_EIP3009"),
        "tron-by-signature" => Some("TRON_PERMIT2_ESCROW"),
        _ => None,
    }
}

/// Whether a payment ended as it should.
fn judge(expected: &Expected, outcome: Result<Payment, Error>) -> Result<String> {
    match (outcome, &expected.refused) {
        (Err(error), Some(code)) => {
            let refusal = error.refusal().with_context(|| format!("{code} is expected, not {error}"))?;
            ensure!(refusal.code == *code, "{code} is expected, not {refusal}");
            Ok(format!("is refused: {refusal}"))
        }
        (Err(error), None) => Err(error.into()),
        (Ok(payment), Some(code)) => {
            bail!("{code} is expected, and {} is {}", payment.payment_id, payment.status.as_str())
        }
        (Ok(payment), None) => {
            let found = json!({
                "status": payment.status,
                "code": payment.error.as_ref().map(|error| &error.code),
                "idempotent_replay": expected.idempotent_replay.and(payment.idempotent_replay),
            });
            let wanted = json!({
                "status": expected.status,
                "code": expected.code,
                "idempotent_replay": expected.idempotent_replay,
            });
            ensure!(found == wanted, "{wanted} is expected, not {found}");
            Ok(format!("{} is {}", payment.payment_id, payment.status.as_str()))
        }
    }
}

/// The namespace of an asset's chain.
trait Namespace {
    fn as_namespace(&self) -> &str;
}

impl Namespace for AssetId {
    fn as_namespace(&self) -> &str {
        self.chain().as_str().split(':').next().unwrap_or_default()
    }
}
