//! Admission control in front of the nodes that are asked about payers.

use std::{sync::Arc, time::Duration};

use moka::future::Cache;
use ruint::aliases::U256;

use events::{
    Amount, Family, PaymentId,
    time::{Timestamp, unix_seconds},
};
use projections::PaymentView;
use sagas::ports::Transient;

use super::{
    Approval, Coverage, Draw, FirstSteps, Funds, Holding, Spend, Wrap,
    promises::{Limits, Overdrawn, Promised, Promises},
};
use crate::{
    bulkhead::families::{FamilyBulkheads, Guarded},
    error::{Code, Error},
    views::payments::Payments,
};

/// How long what an account holds is told without asking again.
const RECENT: Duration = Duration::from_secs(1);
/// Accounts of which that is remembered.
const RECENT_MAX: u64 = 10_000;

/// Asks whether payers can pay.
pub struct FundsCheck {
    families: FamilyBulkheads<dyn Funds>,
    recent: Cache<String, Holding>,
    promises: Promises,
}

impl FundsCheck {
    /// A check of payers of these families.
    pub fn new(families: impl IntoIterator<Item = (Family, Arc<dyn Funds>)>) -> Self {
        Self {
            families: FamilyBulkheads::new(families),
            recent: Cache::builder().time_to_live(RECENT).max_capacity(RECENT_MAX).build(),
            promises: Promises::new(),
        }
    }

    /// Whether the payer of a spend whose signature holds can pay it besides all that it has signed away already, and takes
    /// note of it: to be kept by whoever accepts the payment.
    ///
    /// # Errors
    /// 400 with what is missing, or that the signature is used up; 503 when the chain cannot be asked.
    pub async fn promised(
        &self,
        spend: &Spend<'_>,
        payment_id: &PaymentId,
        payments: &dyn Payments,
        now: Timestamp,
    ) -> Result<Promised, Error> {
        let Some(holding) = self.signed(spend).await? else { return Ok(Promised::nothing(&self.promises)) };
        let (until, now) = (spend.escrow.reserve_deadline, unix_seconds(now));
        let allowance = holding.allowance.map(|units| (holding.spender.as_str(), units));
        let mandate = holding.mandate.as_ref().map(|mandate| (mandate.spender.as_str(), mandate.units));
        let limits = Limits { balance: holding.balance, allowance, mandate };
        let make = || self.promises.make(spend.source, payment_id, spend.amount, until, &limits, now);
        let refused = match make() {
            Ok(promised) => return Ok(promised),
            Err(refused) => refused,
        };
        // What is in a block is out of balance and allowance already, and what has failed will never be drawn.
        let mut over = Vec::new();
        for waiting in &refused.payments {
            match payments.view(waiting).await {
                Ok(Some(view)) if is_drawn(&view) || view.status.is_final() => over.push(waiting.clone()),
                _ => {}
            }
        }
        self.promises.forget(spend.source, &refused.payments, &over);
        make().map_err(|Overdrawn { promised, by_allowance, .. }| {
            let (asset, amount) = (spend.source.asset(), spend.amount);
            let by_allowance = by_allowance.as_deref();
            let short = allowance.into_iter().chain(mandate).find(|(spender, _)| by_allowance == Some(*spender));
            let (code, has) = match short {
                Some((spender, units)) => {
                    (Code::INSUFFICIENT_ALLOWANCE, format!("allows {spender} to draw {units}"))
                }
                None => (Code::INSUFFICIENT_FUNDS, format!("holds {}", holding.balance)),
            };
            let message = format!(
                "source: {has} of {asset}, of which {promised} are signed away for payments that are not deposited yet, needs \
                 {amount}"
            );
            Error::new(code, message)
        })
    }

    /// Whether the payer of a spend whose signature holds can pay it; what it holds, or `None` where it has paid already.
    async fn signed(&self, spend: &Spend<'_>) -> Result<Option<Holding>, Error> {
        let family = self.family(spend)?;
        let _permit = family.signed.permit().await.ok_or(Code::SERVICE_UNAVAILABLE)?;
        let funds = family.inner.as_ref();
        let asked = async { tokio::try_join!(self.holding(funds, spend, true), funds.is_used(spend)) };
        let (holding, used) = asked.await.map_err(unavailable)?;
        if used {
            let is_drawn =
                matches!(spend.draw, Draw::Batch { .. }) && funds.has_landed(spend).await.map_err(unavailable)?;
            return if is_drawn { Ok(None) } else { Err(Code::NONCE_ALREADY_USED.into()) };
        }
        match refusal(spend, &holding) {
            Some(refusal) if !funds.has_landed(spend).await.map_err(unavailable)? => Err(refusal),
            Some(_) => Ok(None),
            None => Ok(Some(holding)),
        }
    }

    /// Whether the payer of a spend that nobody signed yet could pay it, and what it has to send to the chain first.
    ///
    /// # Errors
    /// 400 with what is missing besides an approval or coins that are to be wrapped; 503 when the chain cannot be asked.
    pub async fn unsigned(&self, spend: &Spend<'_>) -> Result<FirstSteps, Error> {
        let family = self.family(spend)?;
        let _permit = family.unsigned.permit().await.ok_or(Code::SERVICE_UNAVAILABLE)?;
        let funds = family.inner.as_ref();
        let asked = async { tokio::try_join!(self.holding(funds, spend, false), funds.is_used(spend)) };
        let (holding, used) = asked.await.map_err(unavailable)?;
        if used {
            return Err(Code::NONCE_ALREADY_USED.into());
        }
        if matches!(spend.draw, Draw::Mandate { .. }) {
            // Who asks is not who pays.
            return refusal(spend, &holding).map_or_else(|| Ok(FirstSteps::default()), Err);
        }
        let wrap = match holding.coverage(spend.amount) {
            Coverage::Sufficient | Coverage::Allowance(_) | Coverage::Mandate(_) => None,
            Coverage::Balance(_) => match wrap(funds, spend, &holding).map_err(unavailable)? {
                Some(wrap) => Some(wrap),
                None => return refusal(spend, &holding).map_or_else(|| Ok(FirstSteps::default()), Err),
            },
        };
        let approval = match holding.lacks_allowance(spend.amount) {
            true => funds.approval(spend).await.map_err(unavailable)?,
            false => None,
        };
        Ok(FirstSteps { wrap, approval })
    }

    /// The approval that `spend` needs some day, whatever the payer holds today; `None` where the allowance is there.
    ///
    /// # Errors
    /// 503 when the chain cannot be asked.
    pub async fn standing_approval(&self, spend: &Spend<'_>) -> Result<Option<Approval>, Error> {
        let family = self.family(spend)?;
        let _permit = family.unsigned.permit().await.ok_or(Code::SERVICE_UNAVAILABLE)?;
        let funds = family.inner.as_ref();
        let holding = self.holding(funds, spend, false).await.map_err(unavailable)?;
        match holding.lacks_allowance(spend.amount) {
            true => funds.approval(spend).await.map_err(unavailable),
            false => Ok(None),
        }
    }

    fn family(&self, spend: &Spend<'_>) -> Result<&Guarded<dyn Funds>, Error> {
        self.families.of(spend.source.family()).map_err(unavailable)
    }

    /// What the payer holds. What was read a moment ago may say that it is enough, and to who signed not that it is not:
    /// the payer may have funded its account, or approved, since.
    async fn holding(
        &self,
        funds: &dyn Funds,
        spend: &Spend<'_>,
        refusal_is_fresh: bool,
    ) -> Result<Holding, Transient> {
        let key = key(spend);
        let read = || self.recent.entry_by_ref(&key).or_try_insert_with(funds.holding(spend));
        let known = read().await.map_err(|error| error.as_ref().clone())?;
        let suffices = known.value().coverage(spend.amount) == Coverage::Sufficient;
        if suffices || known.is_fresh() || !refusal_is_fresh {
            return Ok(known.into_value());
        }
        self.recent.invalidate(&key).await;
        read().await.map(moka::Entry::into_value).map_err(|error| error.as_ref().clone())
    }
}

/// Whether the deposit is in a block, settled or not.
fn is_drawn(view: &PaymentView) -> bool {
    // A transfer that is sent is out of the balance as soon as it lands.
    view.escrowed.is_some()
        || view.transfer.is_some()
        || view.deposit.as_ref().is_some_and(|deposit| deposit.block_number.is_some())
}

/// Spends that stand on the same balance and the same allowance.
fn key(spend: &Spend<'_>) -> String {
    let Spend { source, draw, escrow, .. } = spend;
    let drawn_by = match draw {
        // What comes with the signature is judged by each for itself.
        Draw::Permit2 { prepares: false, .. } | Draw::Batch { .. } => "permit2".to_owned(),
        Draw::Permit2 { nonce, prepares: true } => format!("permit2 {nonce}"),
        Draw::Mandate { charge } => format!("{} {}", charge.address, charge.permit.is_some()),
        Draw::Transfer { .. } => "token".to_owned(),
        Draw::Delegate { signer } => format!("{} {signer}", escrow.contract),
        Draw::PayerDeposit { deposit, approves } => {
            let is_told = deposit.is_some() && !approves;
            format!("{} {is_told}", escrow.contract)
        }
    };
    format!("{} {} {drawn_by}", source.asset(), source.account())
}

/// What wraps the coins that are missing of the amount; `None` where the payer does not hold them.
fn wrap(funds: &dyn Funds, spend: &Spend<'_>, holding: &Holding) -> Result<Option<Wrap>, Transient> {
    let missing = spend.amount.get().saturating_sub(holding.balance);
    let coin = holding.coin.as_ref().filter(|coin| coin.balance >= missing);
    let (Some(coin), Some(amount)) = (coin, Amount::new(missing)) else { return Ok(None) };
    let calls = funds.wrapping(spend, amount)?;
    Ok(Some(Wrap { asset_identifier: spend.source.asset().clone(), coin: coin.asset.clone(), amount, calls }))
}

fn refusal(spend: &Spend<'_>, holding: &Holding) -> Option<Error> {
    let (asset, amount, spender) = (spend.source.asset(), spend.amount, &holding.spender);
    let short = |units: U256, what: String| format!("source: {what} {units} of {asset}, needs {amount}");
    match holding.coverage(spend.amount) {
        Coverage::Sufficient => None,
        Coverage::Balance(units) => {
            let wrappable = holding.coin.as_ref().map(|coin| {
                let (held, coin) = (coin.balance, &coin.asset);
                format!("; it holds {held} of {coin}: where that is enough, /v1/payments/prepare shows how to wrap it")
            });
            let message = short(units, "holds".to_owned()) + &wrappable.unwrap_or_default();
            Some(Error::new(Code::INSUFFICIENT_FUNDS, message))
        }
        Coverage::Mandate(units) => {
            let mandate = holding.mandate.as_ref().map_or("", |mandate| mandate.spender.as_str());
            let message = short(units, format!("allows the mandate {mandate} to draw now"));
            Some(Error::new(Code::INSUFFICIENT_ALLOWANCE, message))
        }
        Coverage::Allowance(units) => {
            let message = short(units, format!("allows {spender} to draw"));
            Some(Error::new(Code::INSUFFICIENT_ALLOWANCE, message))
        }
    }
}

fn unavailable(fault: Transient) -> Error {
    Error::unavailable(&fault, "a payer's funds could not be read")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use futures::future::join_all;
    use serde_json::Value;
    use tokio::sync::Semaphore;

    use events::{Hash32, OwnedAsset, event::EscrowPlan};

    use super::*;
    use crate::bulkhead::families::{UNSIGNED_MAX, WAIT_MAX};

    /// Accounts that all hold the same, behind a gate.
    struct Gated {
        balance: AtomicUsize,
        asked: AtomicUsize,
        gate: Semaphore,
    }

    #[async_trait]
    impl Funds for Gated {
        async fn holding(&self, _: &Spend<'_>) -> Result<Holding, Transient> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            self.gate.acquire().await.unwrap().forget();
            let balance = U256::from(self.balance.load(Ordering::SeqCst));
            Ok(Holding {
                balance,
                allowance: Some(U256::MAX),
                spender: "permit2".to_owned(),
                mandate: None,
                coin: None,
            })
        }

        async fn approval(&self, _: &Spend<'_>) -> Result<Option<Approval>, Transient> {
            Ok(None)
        }

        fn wrapping(&self, _: &Spend<'_>, _: Amount) -> Result<Vec<Value>, Transient> {
            Err(Transient::misconfigured("nobody here holds a coin"))
        }
    }

    fn check(balance: usize, answers: usize) -> (Arc<FundsCheck>, Arc<Gated>) {
        let (balance, asked) = (AtomicUsize::new(balance), AtomicUsize::default());
        let gated = Arc::new(Gated { balance, asked, gate: Semaphore::new(answers) });
        let funds: Arc<dyn Funds> = gated.clone();
        (Arc::new(FundsCheck::new([(Family::Evm, funds)])), gated)
    }

    /// A payment of 10 by account number `account`.
    async fn ask(check: &FundsCheck, account: usize, signed: bool) -> Result<(), &'static str> {
        let asset = "eip155:1/erc20:0x9fe46736679d2d9a65f0992f2272de9f3c7fa6e0".parse().unwrap();
        let source = OwnedAsset::new(asset, &format!("0x{:040x}", account + 1)).unwrap();
        let account: events::Account = "0x9fe46736679d2d9a65f0992f2272de9f3c7fa6e0".parse().unwrap();
        let escrow = EscrowPlan {
            chain_id: "eip155:1".parse().unwrap(),
            contract: account.clone(),
            reserver: account.clone(),
            releaser: account.clone(),
            reserve_deadline: 0,
            fulfillment_deadline: 0,
            refund_after: 0,
        };
        let draw = Draw::Permit2 { nonce: Hash32::ZERO, prepares: false };
        let spend = Spend { source: &source, amount: "10".parse().unwrap(), draw, escrow: &escrow };
        let asked = if signed { check.signed(&spend).await.map(drop) } else { check.unsigned(&spend).await.map(drop) };
        asked.map_err(|error| error.code.code)
    }

    #[tokio::test]
    async fn many_who_ask_about_one_account_cost_one_call() {
        let (check, gated) = check(10, 1);
        let answers = join_all((0..UNSIGNED_MAX * 2).map(|_| ask(&check, 1, false))).await;
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        // Who signed is told the same for a moment.
        assert_eq!(ask(&check, 1, true).await, Ok(()));
        assert_eq!(gated.asked.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn who_signed_is_never_refused_for_what_was_read_before() {
        let (check, gated) = check(9, 3);
        assert_eq!(ask(&check, 1, true).await, Err("INSUFFICIENT_FUNDS"));
        gated.balance.store(10, Ordering::SeqCst);
        // Who did not is told what is known.
        assert_eq!(ask(&check, 1, false).await, Err("INSUFFICIENT_FUNDS"));
        assert_eq!(ask(&check, 1, true).await, Ok(()));
        assert_eq!(gated.asked.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_proved_nothing_take_no_permit_of_those_who_signed() {
        let (check, gated) = check(10, 0);
        let unsigned: Vec<_> = (0..10 * UNSIGNED_MAX)
            .map(|account| {
                let check = check.clone();
                tokio::spawn(async move { ask(&check, account, false).await })
            })
            .collect();
        while gated.asked.load(Ordering::SeqCst) < UNSIGNED_MAX {
            tokio::task::yield_now().await;
        }
        let signed = tokio::spawn({
            let check = check.clone();
            async move { ask(&check, 1_000, true).await }
        });
        while gated.asked.load(Ordering::SeqCst) < UNSIGNED_MAX + 1 {
            tokio::task::yield_now().await;
        }
        // However many come, the node is asked so often at a time and no more.
        tokio::time::sleep(WAIT_MAX * 2).await;
        assert_eq!(gated.asked.load(Ordering::SeqCst), UNSIGNED_MAX + 1);
        gated.gate.add_permits(UNSIGNED_MAX + 1);
        assert_eq!(signed.await.unwrap(), Ok(()));
        let answers = join_all(unsigned).await.into_iter().map(Result::unwrap);
        let refused = answers.filter(|answer| *answer == Err("SERVICE_UNAVAILABLE")).count();
        assert_eq!(refused, 9 * UNSIGNED_MAX);
    }
}
