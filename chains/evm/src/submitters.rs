//! The accounts that send the gateway's transactions: which one sends what, what is done when a transaction waits, nonces
//! that nothing uses, and how long their coins last.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use alloy::{primitives::U256, signers::local::PrivateKeySigner};

use escrow_abi::contracts::text;
use events::{ChainId, event::TransactionPrepared, time::Timestamp};
use journal::ledger::{Purpose, RENEW_AFTER, Reservation, SignerAccount};
use sagas::{payment::VERSIONS_MAX, ports::Transient};

use super::{
    adapter::{EvmChain, EvmChains, Keys, hash_of},
    node::{At, Node},
    query::Fees,
    rpc::Fault,
    transaction::{self, plain},
    transaction_status::sender_and_nonce,
};

/// Longest time between two looks of [`EvmChains::maintain`]; it looks twice in each chain's `reprice_seconds`.
pub(super) const MAINTAIN_EVERY: Duration = Duration::from_secs(30);
/// Shortest time between two of them.
const MAINTAIN_EVERY_MIN: Duration = Duration::from_secs(1);
/// A nonce that stands next for so many times the chain's `reprice_seconds`, and that the node knows no transaction at, is
/// filled with an empty one. Within that time a payment under way has signed its transaction again and sent it. It is no
/// less than twice [`RENEW_AFTER`], so that a worker that asks for its nonce again is heard in time.
const PATIENCE_WITH_A_GAP: i32 = 2;
/// A transaction that offers enough and still waits gets a higher tip after so many times the chain's `reprice_seconds`.
const PATIENCE_OF_THE_PRICED: i32 = 4;
/// Gas of a transfer of coins to an account without code.
const TRANSFER_GAS: u64 = 21_000;
/// Gas of a usual deposit, for the estimate of how many an account can still pay.
const DEPOSIT_GAS: u64 = 300_000;
/// Gas of an exit, for what deposits leave over: the escrow asks for much of it only so that nobody can starve a payout.
const EXIT_GAS: u64 = 500_000;
/// How often an account that is low is warned of.
const WARN_EVERY: chrono::TimeDelta = chrono::TimeDelta::minutes(10);
/// Prices at which an empty transaction is offered to a node that holds another at its nonce.
const FILLER_PRICES_MAX: u32 = 10;

/// How a submitter stands, as [`EvmChains::maintain`] found it last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignerHealth {
    /// The chain.
    pub chain_id: ChainId,
    /// The account.
    pub account: String,
    /// Its coins at the newest block, wei.
    pub balance: U256,
    /// How many usual deposits they pay for at the newest block's price.
    pub deposits_left: u64,
    /// Whether that is fewer than the chain's `submitter_deposits_warning`.
    pub low: bool,
    /// When it was looked at.
    pub checked_at: Timestamp,
}

/// What was seen of the submitters so far.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// The nonce that stands next in each account while something waits for it, and since when.
    blocked: Mutex<HashMap<SignerAccount, Blocked>>,
    health: Mutex<HashMap<SignerAccount, Health>>,
    /// The last nonce of each account whose transaction a node refuses for ever: it fits no block.
    hopeless: Mutex<HashMap<SignerAccount, u64>>,
    /// When it was last said of an account that a transaction of it waits.
    warned: Mutex<HashMap<SignerAccount, Timestamp>>,
}

/// What one look found of the nonce that stands next.
struct Seen {
    nonce: u64,
    reservation: Option<Reservation>,
    /// Whether the node knows a transaction at it.
    known: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Blocked {
    nonce: u64,
    /// What it was given out for; `None` for a nonce that was given out for nothing.
    reservation: Option<Reservation>,
    since: Timestamp,
    /// Since when the node has known no transaction at it.
    unknown_since: Option<Timestamp>,
    /// When it was looked at last. What happened in a long pause since then nobody knows.
    looked_at: Timestamp,
}

#[derive(Debug, Clone)]
struct Health {
    seen: SignerHealth,
    warned_at: Option<Timestamp>,
}

pub(super) fn account(chain: &EvmChain, signer: &PrivateKeySigner) -> SignerAccount {
    SignerAccount { chain_id: chain.node.chain_id().clone(), address: text(signer.address()) }
}

/// How long a nonce stands next before it counts as one that nothing uses.
fn gap_age(node: &Node) -> chrono::TimeDelta {
    (seconds(node.config().reprice_seconds) * PATIENCE_WITH_A_GAP).max(RENEW_AFTER * 2)
}

/// A time from the configuration; beyond a year nobody waits.
fn seconds(seconds: u64) -> chrono::TimeDelta {
    const YEAR: i64 = 31_536_000;
    chrono::TimeDelta::seconds(i64::try_from(seconds).unwrap_or(YEAR).min(YEAR))
}

/// What a transaction may cost at most, wei: what nodes ask its sender to hold.
fn cost(gas_limit: u64, fees: Fees) -> U256 {
    U256::from(gas_limit).saturating_mul(U256::from(fees.max))
}

impl EvmChains {
    /// The one of `signers` that `purpose` has a nonce of.
    pub(super) async fn holder<'a>(
        &self,
        chain: &EvmChain,
        signers: &[&'a PrivateKeySigner],
        purpose: &Purpose,
    ) -> Result<Option<&'a PrivateKeySigner>, Transient> {
        for signer in signers {
            let open = self.ledger.open(&account(chain, signer)).await;
            let open = open.map_err(Transient::from)?;
            if open.iter().any(|reservation| reservation.purpose == *purpose) {
                return Ok(Some(signer));
            }
        }
        Ok(None)
    }

    /// The first of `signers` that can pay for one more transaction, besides those it has on their way, and has the coins for
    /// so many exits left then.
    ///
    /// # Errors
    /// [`Transient`], also when none can: no nonce is taken before somebody can pay for its transaction.
    pub(super) async fn payer_of_gas<'a>(
        &self,
        node: &Node,
        signers: &[&'a PrivateKeySigner],
        gas_limit: u64,
        fees: Fees,
        exits_left: u64,
    ) -> Result<&'a PrivateKeySigner, Transient> {
        let exit = U256::from(EXIT_GAS).saturating_mul(U256::from(fees.base.saturating_add(fees.priority)));
        let reserve = exit.saturating_mul(U256::from(exits_left));
        for signer in signers {
            let account = signer.address();
            let (balance, mined, sent) = tokio::try_join!(
                node.balance(account, At::Latest),
                node.nonce(account, At::Latest),
                node.nonce(account, At::Pending),
            )?;
            let waiting = sent.saturating_sub(mined);
            let on_their_way = cost(gas_limit.min(DEPOSIT_GAS), fees).saturating_mul(U256::from(waiting));
            if balance >= cost(gas_limit, fees).saturating_add(on_their_way).saturating_add(reserve) {
                return Ok(signer);
            }
        }
        Err(Transient::rate_limited(format!("no submitter of {} has the coins for its gas", node.chain_id())))
    }

    /// See [`sagas::ports::Chains::reprice`].
    pub(super) async fn replacement(
        &self,
        versions: &[TransactionPrepared],
    ) -> Result<Option<TransactionPrepared>, Transient> {
        let Some(newest) = versions.last().filter(|_| versions.len() < VERSIONS_MAX) else { return Ok(None) };
        let chain = self.chain(&newest.chain_id)?;
        let node = &chain.node;
        let now = self.clock.now();
        let patience = seconds(node.config().reprice_seconds);
        if now - newest.prepared_at < patience {
            return Ok(None);
        }
        let (sender, nonce) = sender_and_nonce(versions)?;
        let next = node.nonce(sender, At::Latest).await?;
        if next > nonce {
            return Ok(None);
        }
        let signer = chain.keys.iter().flat_map(Keys::all).find(|signer| signer.address() == sender);
        let Some(signer) = signer else {
            self.warn_of(newest, "a waiting transaction cannot be signed again: its sender's key is not configured");
            return Ok(None);
        };
        let waiting = transaction::unsigned(&newest.raw)
            .ok_or_else(|| Transient::misconfigured("a journaled transaction cannot be read"))?;
        let fees = node.fees().await?;
        if !transaction::is_outpriced(&waiting, fees) {
            let long = now - newest.prepared_at >= patience * PATIENCE_OF_THE_PRICED;
            // One that waits for a nonce below it would only grow dearer, and so would one that the node has lost.
            if !long || next < nonce || !node.knows(hash_of(newest)?).await? {
                return Ok(None);
            }
        }
        let Some(bumped) = transaction::replacement(&waiting, fees) else { return Ok(None) };
        let needed = U256::from(bumped.gas_limit).saturating_mul(U256::from(bumped.max_fee_per_gas));
        if node.balance(sender, At::Latest).await? < needed {
            self.warn_of(newest, "a waiting transaction needs a higher price than its sender has coins for");
            return Ok(None);
        }
        let signed = transaction::sign(signer, &bumped).map_err(Transient::misconfigured)?;
        let version = versions.len() + 1;
        tracing::info!(chain_id = %newest.chain_id, sender = newest.sender, nonce, version,
            max_fee = bumped.max_fee_per_gas, "a waiting transaction is signed again with higher fees");
        if version == VERSIONS_MAX {
            tracing::warn!(chain_id = %newest.chain_id, sender = newest.sender, nonce,
                "a waiting transaction has its last price; from here on it is only sent again");
        }
        Ok(Some(TransactionPrepared {
            transaction_hash: signed.hash.to_string(),
            raw: signed.raw.to_string(),
            prepared_at: now,
            ..newest.clone()
        }))
    }

    /// Says what keeps a transaction waiting, once in a while for each account.
    fn warn_of(&self, waiting: &TransactionPrepared, reason: &'static str) {
        let account = SignerAccount { chain_id: waiting.chain_id.clone(), address: waiting.sender.clone() };
        if self.watch.is_due(&account, self.clock.now()) {
            tracing::warn!(chain_id = %waiting.chain_id, sender = waiting.sender, nonce = waiting.validity.nonce(), "{reason}");
        }
    }

    /// Looks after the submitters for as long as it runs; the process runs it beside the engine.
    ///
    /// A nonce whose transaction never comes holds up everything behind it. A worker may have died between taking it and
    /// journaling its transaction, for a payment that then needed none any more; or the payment ended, by somebody else's
    /// transaction or by its deadline, while its own transaction waits for a price that no block takes. Such nonces are
    /// used up by empty transactions. Also watches the submitters' coins.
    pub async fn maintain(&self) {
        let reprice = self.chains.values().map(|chain| Duration::from_secs(chain.node.config().reprice_seconds)).min();
        let every = reprice.map_or(MAINTAIN_EVERY, |reprice| (reprice / 2).clamp(MAINTAIN_EVERY_MIN, MAINTAIN_EVERY));
        loop {
            self.tend_once().await;
            self.clock.sleep(every).await;
        }
    }

    /// One look of [`EvmChains::maintain`].
    pub async fn tend_once(&self) {
        for chain in self.chains.values() {
            for signer in chain.keys.iter().flat_map(Keys::all) {
                if let Err(fault) = self.unblock(chain, signer).await {
                    tracing::debug!(chain_id = %chain.node.chain_id(), %fault, "nonces not maintained");
                }
                if let Err(fault) = self.check_coins(chain, signer).await {
                    tracing::debug!(chain_id = %chain.node.chain_id(), %fault, "coins not checked");
                }
            }
        }
    }

    /// How the submitters stand, as [`EvmChains::maintain`] found them last; without those it has not looked at yet.
    pub fn signer_health(&self) -> Vec<SignerHealth> {
        // Entries are replaced whole, so a poisoned lock guards nothing half done.
        let health = self.watch.health.lock().unwrap_or_else(PoisonError::into_inner);
        let mut seen: Vec<_> = health.values().map(|health| health.seen.clone()).collect();
        seen.sort_by(|a, b| (&a.chain_id, &a.account).cmp(&(&b.chain_id, &b.account)));
        seen
    }

    /// Uses up the nonce that stands next with an empty transaction when nothing else is going to.
    ///
    /// What it takes the place of can have no effect any more, or never existed. A payment under way keeps its transaction
    /// known to the node and prices it, so one that the node does not know is nobody's; and one that it knows is left
    /// alone until every admission signed for the nonce has ended. The ledger takes the nonce from its purpose *before*
    /// the empty transaction is signed, so that nobody is given it any more; and a worker that asked for it again in the
    /// meantime keeps it. Should a transaction be under way all the same, one of the two lands, and the payment's saga
    /// finds out which.
    async fn unblock(&self, chain: &EvmChain, signer: &PrivateKeySigner) -> Result<(), Transient> {
        let (node, account) = (&chain.node, account(chain, signer));
        let open = self.ledger.open(&account).await.map_err(Transient::from)?;
        let next = node.nonce(signer.address(), At::Latest).await?;
        let now = self.clock.now();
        let awaited = open.iter().any(|reservation| reservation.nonce >= next);
        let reservation = open.into_iter().find(|reservation| reservation.nonce == next);
        let known = awaited && node.nonce(signer.address(), At::Pending).await? > next;
        let gap_age = gap_age(node);
        let seen = awaited.then_some(Seen { nonce: next, reservation, known });
        let Some(blocked) = self.watch.blocked(&account, seen, gap_age, now) else {
            return Ok(());
        };
        // Of several nodes behind one address, or one that was just started, one answer proves nothing. What was refused for
        // its size needs no more of them: whichever transaction uses the nonce, its payment finds out.
        let is_young =
            now - blocked.since < gap_age || blocked.unknown_since.is_some_and(|since| now - since < gap_age);
        if is_young && !self.watch.is_hopeless(&account, next) {
            return Ok(());
        }
        let admission = seconds(node.config().admission_seconds);
        let given_out = blocked.reservation.as_ref().map_or(blocked.since, |reservation| reservation.reserved_at);
        if known && now - given_out < admission + gap_age {
            return Ok(());
        }
        if let Some(reservation) = &blocked.reservation {
            let retired = self.ledger.retire(&account, reservation).await;
            if !retired.map_err(Transient::from)? {
                return Ok(());
            }
        }
        let purpose = blocked.reservation.as_ref().map_or("none", |reservation| &reservation.purpose.0);
        tracing::warn!(chain_id = %account.chain_id, sender = account.address, nonce = next, purpose, known,
            "using up a nonce that nothing else does");
        self.fill(node, signer, next).await?;
        self.watch.restart(&account, now);
        Ok(())
    }

    async fn fill(&self, node: &Node, signer: &PrivateKeySigner, nonce: u64) -> Result<(), Transient> {
        let call = plain(signer.address(), signer.address(), Vec::new());
        let fees = node.fees().await?;
        let mut filler = transaction::transaction(&call, node.evm_id(), nonce, TRANSFER_GAS, fees);
        for _ in 1..FILLER_PRICES_MAX {
            match node.try_send(&transaction::sign(signer, &filler).map_err(Transient::misconfigured)?.raw).await {
                Err(Fault::Rejected(text)) if text.contains("underpriced") => {
                    filler = transaction::bumped(&filler, fees);
                }
                sent => return sent.map_err(Transient::from),
            }
        }
        Err(Transient::rate_limited(format!("{}: nonce {nonce} is held by a dearer transaction", node.chain_id())))
    }

    async fn check_coins(&self, chain: &EvmChain, signer: &PrivateKeySigner) -> Result<(), Transient> {
        let (node, account) = (&chain.node, account(chain, signer));
        let fees = node.fees().await?;
        let balance = node.balance(signer.address(), At::Latest).await?;
        let price = U256::from(DEPOSIT_GAS).saturating_mul(U256::from(fees.base.saturating_add(fees.priority)));
        let deposits_left = balance.checked_div(price).unwrap_or(U256::MAX).saturating_to::<u64>();
        let seen = SignerHealth {
            chain_id: account.chain_id.clone(),
            account: account.address.clone(),
            balance,
            deposits_left,
            low: deposits_left < node.config().submitter_deposits_warning,
            checked_at: self.clock.now(),
        };
        self.watch.note(account, seen);
        Ok(())
    }
}

impl Watch {
    /// Notes what stands next in `account`, if anything waits for it, and says since when it does. A pause longer than
    /// `pause_max` since the last look begins it anew.
    fn blocked(
        &self,
        account: &SignerAccount,
        seen: Option<Seen>,
        pause_max: chrono::TimeDelta,
        now: Timestamp,
    ) -> Option<Blocked> {
        // Entries are replaced whole, so a poisoned lock guards nothing half done.
        let mut all = self.blocked.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Seen { nonce, reservation, known }) = seen else {
            all.remove(account);
            return None;
        };
        let before = all.get(account).filter(|before| {
            (before.nonce, &before.reservation) == (nonce, &reservation) && now - before.looked_at <= pause_max
        });
        let since = before.map_or(now, |before| before.since);
        let unknown_since = (!known).then(|| before.and_then(|before| before.unknown_since).unwrap_or(now));
        let blocked = Blocked { nonce, reservation, since, unknown_since, looked_at: now };
        all.insert(account.clone(), blocked.clone());
        Some(blocked)
    }

    /// Notes that no node will take `transaction`.
    pub(super) fn give_up(&self, transaction: &TransactionPrepared) {
        let account = SignerAccount { chain_id: transaction.chain_id.clone(), address: transaction.sender.clone() };
        // Entries are replaced whole, so a poisoned lock guards nothing half done.
        let mut all = self.hopeless.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(nonce) = transaction.validity.nonce() else { return };
        if all.insert(account.clone(), nonce) != Some(nonce) {
            tracing::warn!(chain_id = %account.chain_id, sender = account.address, nonce,
                "a node takes a transaction for larger than a block");
        }
    }

    /// Whether what was signed for `nonce` was refused for ever.
    fn is_hopeless(&self, account: &SignerAccount, nonce: u64) -> bool {
        self.hopeless.lock().unwrap_or_else(PoisonError::into_inner).get(account) == Some(&nonce)
    }

    /// Waits anew for what stands next in `account`.
    fn restart(&self, account: &SignerAccount, now: Timestamp) {
        let mut all = self.blocked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(blocked) = all.get_mut(account) {
            blocked.since = now;
            blocked.unknown_since = blocked.unknown_since.map(|_| now);
        }
    }

    /// Whether something about `account` is to be said again.
    fn is_due(&self, account: &SignerAccount, now: Timestamp) -> bool {
        let mut all = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        let due = all.get(account).is_none_or(|at| now - *at >= WARN_EVERY);
        if due {
            all.insert(account.clone(), now);
        }
        due
    }

    /// Keeps how an account stands, and says so where an operator has to act.
    fn note(&self, account: SignerAccount, seen: SignerHealth) {
        let mut all = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        let before = all.get(&account);
        let was_low = before.is_some_and(|before| before.seen.low);
        let mut warned_at = before.and_then(|before| before.warned_at).filter(|_| seen.low);
        if seen.low && warned_at.is_none_or(|at| seen.checked_at - at >= WARN_EVERY) {
            tracing::warn!(chain_id = %seen.chain_id, account = seen.account, balance = %seen.balance,
                deposits_left = seen.deposits_left, "a submitter is low on coins for gas");
            warned_at = Some(seen.checked_at);
        } else if was_low && !seen.low {
            tracing::info!(chain_id = %seen.chain_id, account = seen.account, balance = %seen.balance,
                deposits_left = seen.deposits_left, "a submitter has coins again");
        }
        all.insert(account, Health { seen, warned_at });
    }
}
