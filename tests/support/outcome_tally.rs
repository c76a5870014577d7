//! The tally after faults: what was accepted has ended, and all the money is where the events say.

use std::{collections::BTreeMap, time::Duration};

use alloy::primitives::U256;
use anyhow::{Context, Result, ensure};
use devnet::keys::Role;

use events::{AssetId, Family, PaymentEvent, PaymentId, event::AuctionClosed};
use sagas::payment::{Payment, Stage, fold};

use super::{
    DEPOSITED, FULFILLED, REFUNDED, RELEASED, World,
    client::{Asked, Client, LastAnswer},
    logs,
    tron::TronLogs,
};

/// Everything of the development tokens, by token and holder.
pub type Holdings = BTreeMap<(String, String), U256>;

/// How payments ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct OutcomeTally {
    pub completed: usize,
    pub failed: usize,
    pub refunded: usize,
    pub refused: usize,
    /// Payments a transaction of which was signed again with higher fees.
    pub repriced: usize,
    /// Why payments failed, and how often.
    pub codes: BTreeMap<String, usize>,
    pub retries: usize,
}

/// Who is paid, and who pays for it there.
const OTHERS: [Role; 4] = [Role::Settler(1), Role::Settler(2), Role::Settler(3), Role::Recipient];

/// What everyone holds now, on every chain.
pub async fn holdings(world: &World, clients: &[Client]) -> Result<Holdings> {
    let mut holdings = Holdings::new();
    let payers: Vec<String> = clients.iter().map(|client| client.payer.account()).collect();
    for chain in [&world.network.source, &world.network.destination] {
        let contracts = [chain.contracts.escrow.clone(), chain.contracts.proxy.clone()];
        let payers = payers.iter().filter(|account| account.starts_with("0x")).cloned();
        for account in OTHERS.map(Role::account).into_iter().chain(payers).chain(contracts) {
            let amount = chain.dev.token_balance(&chain.token, &account).await?;
            holdings.insert((chain.token()?.to_string(), account.to_ascii_lowercase()), amount);
        }
    }
    if let Some(chain) = &world.network.solana {
        for account in OTHERS.map(Role::solana_account).into_iter().chain([Role::Payer.solana_account()]) {
            let amount = U256::from(chain.dev.token_balance(&chain.token, &account).await?);
            holdings.insert((chain.token()?.to_string(), account), amount);
        }
    }
    if let Some(chain) = &world.network.tron {
        let contracts = [chain.contracts.escrow.clone(), chain.contracts.proxy.clone()];
        let accounts = OTHERS.map(Role::tron_account).into_iter().chain([Role::Payer.tron_account()]);
        for account in accounts.chain(contracts) {
            let amount = chain.dev.token_balance(&chain.token, &account).await?;
            holdings.insert((chain.token()?.to_string(), account), amount);
        }
    }
    Ok(holdings)
}

/// Waits until nothing is left to do for any payment that exists, and checks that every accepted one exists, that events
/// and chains say the same of each, and that the balances add up to the unit.
pub async fn tally_outcomes(
    world: &World,
    clients: &[Client],
    asked: &[Asked],
    before: &Holdings,
    patience: Duration,
) -> Result<OutcomeTally> {
    let mut tally = OutcomeTally { retries: asked.iter().map(|asked| asked.retries).sum(), ..OutcomeTally::default() };
    let mut expected = before.clone();
    let mut tron = TronLogs::default();
    let deadline = tokio::time::Instant::now() + patience;
    for one in asked {
        let at_rest = tokio::time::timeout_at(deadline, rest(world, &one.payment_id)).await;
        let (payment, repriced) = match at_rest {
            Ok(payment) => payment?,
            Err(_) => {
                let types = world.types(&one.payment_id).await;
                anyhow::bail!("{one:?} has not ended: {types:?}");
            }
        };
        tally.repriced += usize::from(repriced);
        match (payment, &one.last_answer) {
            (None, LastAnswer::Accepted) => anyhow::bail!("{} was accepted and is not in the journal", one.payment_id),
            (None, _) => tally.refused += 1,
            (Some(payment), last_answer) => {
                if let LastAnswer::Refused(code) = last_answer {
                    // A gateway that hung in mid-request may store it afterwards; then it must come to nothing.
                    let nothing = payment.failed.is_some() && payment.secured.is_none();
                    ensure!(nothing, "{} was refused with {code} and went on", one.payment_id);
                }
                settle(world, &payment, &mut tron, &mut expected, &mut tally).await?;
                shown_alike(world, clients, &payment).await?;
            }
        }
    }
    let after = holdings(world, clients).await?;
    for (holder, amount) in &after {
        ensure!(expected[holder] == *amount, "{holder:?} holds {amount} and should hold {}", expected[holder]);
    }
    Ok(tally)
}

/// The payment once nothing is left to do for it, `None` when there is none, and whether it was repriced. What is stored
/// must be a legal life.
async fn rest(world: &World, payment_id: &PaymentId) -> Result<(Option<Payment>, bool)> {
    loop {
        // Servers that are being started again do not answer for a moment.
        if let Ok(timeline) = world.auditor.timeline(payment_id).await {
            let events: Vec<PaymentEvent> = timeline.into_iter().map(|entry| entry.event).collect();
            match fold(&events).with_context(|| payment_id.to_string())? {
                None => return Ok((None, false)),
                Some(payment) if payment.stage() == Stage::Rest => {
                    let repriced = events.iter().any(|event| event.type_name().ends_with("Repriced"));
                    return Ok((Some(payment), repriced));
                }
                Some(_) => {}
            }
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// How often an event of the payment was emitted on the chain of this asset; `None` on Solana, where there is none.
async fn emitted(
    world: &World,
    tron: &mut TronLogs,
    asset: &AssetId,
    event: &str,
    payment_id: &PaymentId,
) -> Result<Option<usize>> {
    match asset.chain().family() {
        Some(Family::Evm) => {
            let mut chains = world.network.chains();
            let chain = chains.find(|chain| chain.id() == *asset.chain()).context("a payment on another chain")?;
            Ok(Some(logs(chain, event, payment_id).await?))
        }
        Some(Family::Tron) => Ok(Some(tron.count(world, event, payment_id).await?)),
        Some(Family::Solana) | None => Ok(None),
    }
}

/// Compares a payment with both chains, and carries what it moved over to `expected`.
async fn settle(
    world: &World,
    payment: &Payment,
    tron: &mut TronLogs,
    expected: &mut Holdings,
    tally: &mut OutcomeTally,
) -> Result<()> {
    let payment_id = &payment.submitted.payment_id;
    let terms = &payment.submitted.terms;
    let source = terms.source.asset();
    let destination = terms.destination().first().context("a payment goes somewhere")?.asset();
    // Deposits, deliveries, releases and refunds.
    let right = match (payment.released.is_some(), payment.refunded.is_some()) {
        (true, false) => [1, 1, 1, 0],
        (false, true) => [1, 0, 0, 1],
        _ => [0; 4],
    };
    let looked_for = [(source, DEPOSITED), (destination, FULFILLED), (source, RELEASED), (source, REFUNDED)];
    for ((asset, event), right) in looked_for.into_iter().zip(right) {
        let found = emitted(world, tron, asset, event, payment_id).await?;
        let name = event.split('(').next().unwrap_or_default();
        ensure!(found.is_none_or(|found| found == right), "{payment_id}: {found:?} times {name}, not {right} times");
    }
    if payment.released.is_none() {
        ensure!(payment.failed.is_some() && payment.confirmed.is_none(), "{payment_id} is at rest without an end");
        tally.failed += 1;
        if let (Some(auction), None) = (&payment.auction, &payment.award) {
            let AuctionClosed { addressed, quotes, declines, dropped, closed_at, .. } = auction;
            println!(
                "{payment_id} closed at {closed_at} without an award: {} addressed, {} quotes, declines {declines:?}, \
                 dropped {dropped:?}; submitted at {}, quotes until {}",
                addressed.len(),
                quotes.len(),
                payment.submitted.submitted_at,
                payment.submitted.quote_deadline,
            );
        }
        let code =
            payment.failed.as_ref().map(|failed| format!("{:?}: {}", failed.failure.code, failed.failure.message));
        *tally.codes.entry(code.unwrap_or_default()).or_default() += 1;
        tally.refunded += usize::from(payment.refunded.is_some());
        return Ok(());
    }
    ensure!(payment.confirmed.is_some() && payment.failed.is_none(), "{payment_id} was released and not completed");
    tally.completed += 1;
    let award = payment.award.as_ref().context("a payment is released to a winner")?;
    let price: U256 = award.quote.source_amount.to_string().parse()?;
    let amount: U256 = award.quote.fulfillment_amount.to_string().parse()?;
    *amount_of(expected, source, terms.source.account().as_str())? -= price;
    *amount_of(expected, source, award.quote.payout_account.as_str())? += price;
    *amount_of(expected, destination, award.quote.delivery_account.as_str())? -= amount;
    *amount_of(expected, destination, award.quote.destination.account().as_str())? += amount;
    Ok(())
}

fn amount_of<'a>(holdings: &'a mut Holdings, asset: &AssetId, account: &str) -> Result<&'a mut U256> {
    let account =
        if asset.chain().family() == Some(Family::Evm) { account.to_ascii_lowercase() } else { account.to_owned() };
    let key = (asset.to_string(), account);
    holdings.get_mut(&key).with_context(|| format!("money of {} moved: {}", key.1, key.0))
}

/// Every gateway shows the payment as it ended.
async fn shown_alike(world: &World, clients: &[Client], payment: &Payment) -> Result<()> {
    let payer = &clients.first().context("there is a client")?.payer;
    let status = if payment.confirmed.is_some() { "completed" } else { "failed" };
    for gateway in &world.network.gateways {
        let id = payment.submitted.payment_id.as_str();
        let shown = payer.outcome(&gateway.base_url(), id, super::PATIENCE).await?;
        ensure!(shown.text("status") == status, "{id} is {status} and is shown as {shown:?}");
    }
    Ok(())
}
