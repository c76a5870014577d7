//! `gw refund`: what the escrows have on record for payments, and bringing home what is overdue or waits as a claim. It needs nodes,
//! escrows and a key that pays gas, and no gateway. The money goes to the payer, whoever sends it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    process::ExitCode,
    str::FromStr,
};

use anyhow::{Context, Result, ensure};
use clap::Args as ClapArgs;
use ruint::aliases::U256;
use serde_json::{Value, json};

use chains::escrow::EscrowRecord;
use events::{Account, ChainId, PaymentId};
use gateway_client::{
    Key, fee_max,
    onchain::{Chain, Outlook},
};

use super::pay::{Intents, open_key, plain_error, time};

/// Exit code: something failed, or could not be asked.
const FAILED: u8 = 1;
/// Exit code: money is still locked, or waits to be sent for with `--yes`.
const OPEN: u8 = 3;

/// Arguments of `gw refund`.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Without --yes nothing is sent.\nExit codes: 0 nothing is left to do; 1 something failed or could not be \
                        asked; 2 bad usage; 3 money is locked still, or --yes would send something."
)]
pub struct Args {
    /// The payments.
    #[arg(required = true)]
    payment: Vec<PaymentId>,
    /// A node, CHAIN=URL, of each chain that is looked at. Addresses with a key in them belong into the variable, with a space
    /// between two.
    #[arg(
        long,
        required = true,
        env = "GW_NODES",
        hide_env_values = true,
        value_delimiter = ' ',
        value_name = "CHAIN=URL"
    )]
    node: Vec<NodeAt>,
    /// An escrow, CHAIN:ACCOUNT (CAIP-10). Those of payments of `gw pay` are in its journal.
    #[arg(long, value_name = "CHAIN:ACCOUNT")]
    escrow: Vec<EscrowAt>,
    /// Keystore of the account that pays gas, of any account. Without it only what is on record is shown.
    #[arg(long)]
    key: Option<PathBuf>,
    /// File with the passphrase of the keystore; asked for without it.
    #[arg(long, env = "GW_PASSPHRASE_FILE")]
    passphrase_file: Option<PathBuf>,
    /// Send what can be sent. Without this it is only tried out, and what it costs is shown.
    #[arg(long, requires = "key")]
    yes: bool,
    /// The most that one transaction may cost, in the smallest unit of the chain's coin.
    #[arg(long, value_name = "UNITS")]
    fee_max: Option<U256>,
    /// Where `gw pay` keeps its intents.
    #[arg(long, env = "GW_PAY_JOURNAL", value_name = "DIRECTORY")]
    journal: Option<PathBuf>,
    /// The answer as JSON.
    #[arg(long)]
    json: bool,
}

/// A chain's node.
#[derive(Debug, Clone)]
struct NodeAt(ChainId, String);

impl FromStr for NodeAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (chain, url) = text.split_once('=').ok_or("is not CHAIN=URL, such as eip155:1=https://…")?;
        Ok(Self(chain.parse().map_err(|rule| format!("{chain}: {rule}"))?, url.to_owned()))
    }
}

/// An escrow on its chain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct EscrowAt(ChainId, Account);

impl FromStr for EscrowAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (chain, account) = text.rsplit_once(':').ok_or("is not CHAIN:ACCOUNT, such as eip155:1:0x…")?;
        let chain: ChainId = chain.parse().map_err(|rule| format!("{chain}: {rule}"))?;
        let family = chain.family().ok_or_else(|| format!("{chain} is of no family that is known here"))?;
        let account = Account::parse(family, account).map_err(|rule| format!("{account}: {rule}"))?;
        Ok(Self(chain, account))
    }
}

/// What was found of a payment in an escrow, and what was done.
struct Found {
    shown: Value,
    said: Vec<String>,
    is_open: bool,
}

/// Looks, and sends what can be sent where that is wanted.
///
/// # Errors
/// When arguments cannot be meant, or the key cannot be opened.
pub async fn run(args: &Args) -> Result<ExitCode> {
    refund_all(args).await.map_err(|error| plain_error(&error))
}

async fn refund_all(args: &Args) -> Result<ExitCode> {
    let intents = Intents::open(args.journal.as_deref()).map(|intents| intents.all()).unwrap_or_default();
    let mut wanted = Vec::new();
    for payment in &args.payment {
        let ours = intents.iter().filter(|intent| intent.order.payment_id() == *payment);
        let signed = ours.filter_map(|intent| intent.plan.as_ref());
        let mut escrows = args.escrow.clone();
        escrows.extend(signed.map(|plan| EscrowAt(plan.chain_id.clone(), plan.contract.clone())));
        ensure!(!escrows.is_empty(), "--escrow CHAIN:ACCOUNT is needed: no journal of `gw pay` has {payment}");
        wanted.extend(escrows.into_iter().collect::<BTreeSet<_>>().into_iter().map(|escrow| (payment, escrow)));
    }
    let mut connections = Connections::new(args);
    let (mut answer, mut failed, mut is_open) = (Vec::new(), false, false);
    for (payment, escrow) in &wanted {
        let (chain, key) = connections.of(escrow).await?;
        match look(args, payment, chain, key).await {
            Ok(found) => {
                is_open |= found.is_open;
                say(args, &found.said)?;
                answer.push(found.shown);
            }
            Err(error) => {
                failed = true;
                let error = plain_error(&error).to_string();
                eprintln!("{payment} on {}: {error}", chain.id());
                answer.push(json!({"payment_id": payment, "chain_id": chain.id(), "error": error}));
            }
        }
    }
    if args.json {
        super::answer(&serde_json::to_string_pretty(&answer)?)?;
    }
    Ok(match (failed, is_open) {
        (true, _) => ExitCode::from(FAILED),
        (false, true) => ExitCode::from(OPEN),
        (false, false) => ExitCode::SUCCESS,
    })
}

/// The chains that were connected to, and the key's account on each family.
struct Connections<'a> {
    args: &'a Args,
    chains: BTreeMap<EscrowAt, Chain>,
    keys: BTreeMap<&'static str, (Key, Account)>,
}

impl<'a> Connections<'a> {
    fn new(args: &'a Args) -> Self {
        Self { args, chains: BTreeMap::new(), keys: BTreeMap::new() }
    }

    /// The chain of an escrow, and who sends there.
    async fn of(&mut self, escrow: &EscrowAt) -> Result<(&Chain, Option<&(Key, Account)>)> {
        let EscrowAt(id, account) = escrow;
        let family = id.family().context("a family")?;
        if !self.chains.contains_key(escrow) {
            let node = self.args.node.iter().find(|NodeAt(chain, _)| chain == id);
            let NodeAt(_, url) =
                node.with_context(|| format!("--node {id}=URL is needed, where the escrow {account} is"))?;
            self.chains.insert(escrow.clone(), Chain::connect(id, url, account, None).await?);
        }
        if let Some(keystore) = &self.args.key
            && !self.keys.contains_key(family.namespace())
        {
            let opened = open_key(keystore, self.args.passphrase_file.clone(), family)?;
            self.keys.insert(family.namespace(), opened);
        }
        let chain = self.chains.get(escrow).context("a connection")?;
        Ok((chain, self.keys.get(family.namespace())))
    }
}

fn say(args: &Args, lines: &[String]) -> Result<()> {
    match args.json {
        true => Ok(()),
        false => super::answer(&lines.join("\n")),
    }
}

async fn look(args: &Args, payment: &PaymentId, chain: &Chain, key: Option<&(Key, Account)>) -> Result<Found> {
    let look = chain.look(payment).await?;
    let outlook = look.outlook();
    let mut shown = json!({
        "payment_id": payment,
        "chain_id": chain.id(),
        "escrow": chain.escrow(),
        "outlook": outlook,
    });
    let mut said = vec![format!("{payment} on {}, in {}:", chain.id(), chain.escrow())];
    let Some(record) = &look.record else {
        said.push("  nothing is on record: nothing was deposited here, or not under this id.".to_owned());
        return Ok(Found { shown, said, is_open: false });
    };
    shown["record"] = described(record);
    said.extend(lines(record));
    let mut is_open = false;
    match outlook {
        Outlook::Nothing => {}
        Outlook::Locked { refund_after, seconds_left } => {
            is_open = true;
            said.push(format!(
                "  locked until {}, for {seconds_left} s more: until then only the word of the releaser, a verifier or a set of \
                 them, ends it, afterwards anyone can send the refund.",
                time(refund_after)
            ));
        }
        Outlook::Refundable { refund_after } => {
            let done = refund(args, payment, chain, key, refund_after).await?;
            shown["refund"] = done.shown;
            said.extend(done.said);
            is_open = done.is_open;
        }
        Outlook::Released => {
            said.push("  the settler was paid, and what the price left went back to the payer.".to_owned())
        }
        Outlook::Refunded => said.push("  the payer was paid back.".to_owned()),
    }
    if let Some(payer) = &record.payer {
        let claims = claims(args, chain, key, payer, record).await?;
        if let Some(claims) = claims {
            shown["claim"] = claims.shown;
            said.extend(claims.said);
            is_open |= claims.is_open;
        }
    }
    Ok(Found { shown, said, is_open })
}

/// Sends an overdue refund, or tells what sending it costs.
async fn refund(
    args: &Args,
    payment: &PaymentId,
    chain: &Chain,
    key: Option<&(Key, Account)>,
    refund_after: u64,
) -> Result<Found> {
    let since = time(refund_after);
    let Some((key, account)) = key else {
        let said = vec![format!("  overdue since {since}: anyone can send the refund; --key KEYSTORE names who does.")];
        return Ok(Found { shown: json!({"sent": false}), said, is_open: true });
    };
    if !args.yes {
        let trial = chain.try_refund(payment, account).await?;
        let cost = &trial.cost_max;
        let said = vec![format!("  overdue since {since}: --yes sends the refund from {account}, for at most {cost}.")];
        return Ok(Found { shown: json!({"sent": false, "cost_max": cost}), said, is_open: true });
    }
    let transaction = chain.refund(payment, key, limit(args, chain)).await?;
    let said = vec![format!("  overdue since {since}: the refund is in a block, {transaction}.")];
    Ok(Found { shown: json!({"sent": true, "transaction": transaction}), said, is_open: false })
}

/// Brings the payer what the token would not hand over before, or tells that it is there.
async fn claims(
    args: &Args,
    chain: &Chain,
    key: Option<&(Key, Account)>,
    payer: &Account,
    record: &EscrowRecord,
) -> Result<Option<Found>> {
    let owed = chain.claimable(payer, &record.asset).await?;
    if owed.is_zero() {
        return Ok(None);
    }
    let amount = owed.to_string();
    let (Some((key, _)), true) = (key, args.yes) else {
        let said =
            vec![format!("  {amount} of {} wait as a claim of {payer}; --key and --yes bring them.", record.asset)];
        return Ok(Some(Found { shown: json!({"amount": amount, "sent": false}), said, is_open: true }));
    };
    let transaction = chain.claim_for(payer, &record.asset, key, limit(args, chain)).await?;
    let said = vec![format!("  {amount} of {} were a claim of {payer}; brought by {transaction}.", record.asset)];
    let shown = json!({"amount": amount, "sent": true, "transaction": transaction});
    Ok(Some(Found { shown, said, is_open: false }))
}

fn limit(args: &Args, chain: &Chain) -> U256 {
    args.fee_max.unwrap_or_else(|| chain.id().family().map_or(U256::ZERO, fee_max))
}

fn described(record: &EscrowRecord) -> Value {
    json!({
        "payer": record.payer.as_ref().map(Account::as_str),
        "settler": record.settler.as_ref().map(Account::as_str),
        "reserver": record.reserver.as_ref().map(Account::as_str),
        "releaser": record.releaser.as_ref().map(Account::as_str),
        "asset": record.asset,
        "deposited": record.deposited,
        "source_amount": record.source_amount,
        "terms_hash": record.terms_hash,
        "quote_hash": record.reserved_for(),
        "reserve_deadline": record.reserve_deadline,
        "fulfillment_deadline": record.fulfillment_deadline,
        "refund_after": record.refund_after,
    })
}

fn lines(record: &EscrowRecord) -> Vec<String> {
    let name = |account: &Option<Account>| account.as_ref().map_or_else(|| "nobody".to_owned(), Account::to_string);
    let amount = |amount: &Option<events::Amount>| amount.map_or_else(|| "0".to_owned(), |amount| amount.to_string());
    let mut lines = vec![format!("  {} of {} from {}", amount(&record.deposited), record.asset, name(&record.payer))];
    if record.settler.is_some() {
        lines.push(format!(
            "  reserved for {}, which is paid {}",
            name(&record.settler),
            amount(&record.source_amount)
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escrows_and_nodes_are_named_by_their_chain() {
        let EscrowAt(chain, account) = "eip155:1:0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed".parse().unwrap();
        assert_eq!((chain.as_str(), account.as_str()), ("eip155:1", "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed"));
        let NodeAt(chain, url) = "tron:728126428=https://node.example/?key=a=b".parse().unwrap();
        assert_eq!((chain.as_str(), url.as_str()), ("tron:728126428", "https://node.example/?key=a=b"));
        for wrong in ["eip155:1", "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed", "cosmos:hub:0x1", "tron:5:0x1"] {
            assert!(wrong.parse::<EscrowAt>().is_err(), "{wrong}");
        }
        assert!("https://node.example".parse::<NodeAt>().is_err());
    }
}
