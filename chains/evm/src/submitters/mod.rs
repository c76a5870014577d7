//! Submitters, the accounts that send the gateway's transactions: which one sends what, what is done when a transaction
//! waits, nonces that nothing uses, and how long their coins last.

mod watch;

use std::{sync::Arc, time::Duration};

use alloy::{
    consensus::TxEip1559,
    primitives::{Address, U256},
};
use chrono::TimeDelta;

use chains::{
    sign_failures::SignFailures,
    submitters::{Leg, Submitters},
};
use events::{PaymentId, event::TransactionPrepared, mutant, time::Timestamp};
use journal::ledger::{Ledger, Purpose, RENEW_AFTER, Reservation, SignerAccount};
use sagas::{
    payment::VERSIONS_MAX,
    ports::{Clock, Transient},
};
use signer::{Secp256k1Key, SignError};

pub use self::watch::SignerHealth;
use self::watch::{Seen, Watch};
use super::{
    node::{At, Node},
    query::{Fees, Query},
    rpc::Fault,
    transaction::{self, Signed, account_of, hash_of, plain},
    transaction_status::sender_and_nonce,
};

/// Longest time between two looks at the submitters; there are two in each chain's `reprice_seconds`.
const MAINTAIN_EVERY: Duration = Duration::from_secs(30);
/// Shortest time between two of them.
const MAINTAIN_EVERY_MIN: Duration = Duration::from_secs(1);
/// A nonce that is the next one for so many times the chain's `reprice_seconds`, and that the node knows no transaction at, is
/// filled with an empty one. Within that time a payment under way has signed its transaction again and sent it. It is no
/// less than twice [`RENEW_AFTER`], so that a worker that asks for its nonce again is heard in time.
const PATIENCE_WITH_A_GAP: i32 = 2;
/// A transaction that offers enough and still waits gets a higher tip after so many times the chain's `reprice_seconds`.
const PATIENCE_OF_THE_PRICED: i32 = 4;
/// Gas of a transfer of coins to an account without code.
const TRANSFER_GAS: u64 = 21_000;
/// Gas of a usual deposit, for the estimate of how many an account can still pay.
pub(crate) const DEPOSIT_GAS: u64 = 300_000;
/// Gas of an exit, for what deposits leave over: the escrow asks for much of it only so that nobody can starve a payout.
const EXIT_GAS: u64 = 500_000;
/// Prices at which an empty transaction is offered to a node that holds another at its nonce.
const FILLER_PRICES_MAX: u32 = 10;
/// Most nonces of one account that one look uses up.
const FILLED_MAX: usize = 16;
/// How often it is tried to give back a nonce. One that stays binds its purpose to a submitter whose key does not sign.
const GIVE_BACK_TRIES: usize = 3;

/// How long a nonce is the next one before it counts as one that nothing uses.
fn gap_age(node: &Node) -> TimeDelta {
    (seconds(node.config().reprice_seconds) * PATIENCE_WITH_A_GAP).max(RENEW_AFTER * 2)
}

/// A time from the configuration; beyond a year nobody waits.
fn seconds(seconds: u64) -> TimeDelta {
    const YEAR: i64 = 31_536_000;
    TimeDelta::seconds(i64::try_from(seconds).unwrap_or(YEAR).min(YEAR))
}

/// The highest nonce that was given out and not given back: everything below it has to be used up first.
fn last_awaited(open: &[Reservation]) -> Option<u64> {
    open.iter().filter(|reservation| !reservation.purpose.is_free()).map(|reservation| reservation.nonce).max()
}

/// What a transaction may cost at most, wei: what nodes ask its sender to hold.
fn cost(gas_limit: u64, fees: Fees) -> U256 {
    U256::from(gas_limit).saturating_mul(U256::from(fees.max))
}

/// The accounts that may send a transaction.
pub(crate) struct Senders<'a> {
    /// Those that may begin it, the preferred one first: that of the payment, unless its key gave no signature lately.
    pub signers: Vec<&'a Secp256k1Key>,
    /// Those that may have a nonce of it already: the same, and the draining ones.
    pub holders: Vec<&'a Secp256k1Key>,
    /// The preferred one, which is named as the caller where it does not matter who that is.
    pub preferred: Address,
    /// How many exits whoever sends it must have the coins for after it.
    pub exits_left: u64,
}

/// A nonce that was taken for a transaction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TakenNonce {
    pub nonce: u64,
    /// When.
    pub at: Timestamp,
}

/// The keys of the submitters of one chain.
#[derive(Debug, Default)]
pub(crate) struct SubmitterKeys {
    /// They send everything that `exits` do not.
    pub usual: Vec<Secp256k1Key>,
    /// They send what takes money out of escrow, and nothing else.
    pub exits: Vec<Secp256k1Key>,
    /// They begin nothing, and end what has a nonce of theirs.
    pub draining: Vec<Secp256k1Key>,
}

/// The submitters of one chain.
pub(crate) struct SubmitterAccounts {
    node: Node,
    keys: SubmitterKeys,
    ledger: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
    watch: Watch,
    failures: SignFailures<Address>,
}

/// How often the submitters of chains that replace transactions after so many seconds are looked at.
pub(crate) fn maintain_every(reprice_seconds: impl IntoIterator<Item = u64>) -> Duration {
    let reprice = reprice_seconds.into_iter().map(Duration::from_secs).min();
    reprice.map_or(MAINTAIN_EVERY, |reprice| (reprice / 2).clamp(MAINTAIN_EVERY_MIN, MAINTAIN_EVERY))
}

impl SubmitterAccounts {
    /// The accounts of `keys`; nonces come from `ledger`.
    pub fn new(node: Node, keys: SubmitterKeys, ledger: Arc<dyn Ledger>, clock: Arc<dyn Clock>) -> Self {
        Self { node, keys, ledger, clock, watch: Watch::default(), failures: SignFailures::default() }
    }

    fn keys(&self) -> Submitters<'_, Secp256k1Key> {
        Submitters { usual: &self.keys.usual, exits: &self.keys.exits }
    }

    /// All of them, the draining ones last.
    fn all(&self) -> impl Iterator<Item = &Secp256k1Key> {
        self.keys().all().chain(&self.keys.draining)
    }

    /// The accounts that may send a transaction of this leg of a payment.
    ///
    /// # Errors
    /// [`Transient`] when there are none: the chain is a destination only.
    pub fn senders(&self, leg: Leg, payment_id: &PaymentId) -> Result<Senders<'_>, Transient> {
        let signers =
            self.failures.failed_last(self.keys().of(leg, payment_id), Secp256k1Key::address, self.clock.now());
        let preferred = signers.first().map(|signer| signer.address());
        let preferred =
            preferred.ok_or_else(|| Transient::misconfigured(format!("{} has no keys", self.node.chain_id())))?;
        let exits_left = self.keys().left_over(leg, self.node.config().common.exits_reserved);
        let holders = signers.iter().copied().chain(&self.keys.draining).collect();
        Ok(Senders { signers, holders, preferred, exits_left })
    }

    /// The account of a submitter in the ledger.
    pub fn account(&self, signer: &Secp256k1Key) -> SignerAccount {
        SignerAccount { chain_id: self.node.chain_id().clone(), address: account_of(signer) }
    }

    /// The one of `signers` that `purpose` has a nonce of.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn holder<'a>(
        &self,
        signers: &[&'a Secp256k1Key],
        purpose: &Purpose,
    ) -> Result<Option<&'a Secp256k1Key>, Transient> {
        for signer in signers {
            let open = self.ledger.open(&self.account(signer)).await?;
            if open.iter().any(|reservation| reservation.purpose == *purpose) {
                return Ok(Some(signer));
            }
        }
        Ok(None)
    }

    /// The first of `senders` that can pay for one more transaction, besides those it has on their way, and has the coins for
    /// the exits left then.
    ///
    /// # Errors
    /// [`Transient`], also when none can: no nonce is taken before somebody can pay for its transaction.
    pub async fn payer_of_gas<'a>(
        &self,
        senders: &Senders<'a>,
        gas_limit: u64,
        fees: Fees,
    ) -> Result<&'a Secp256k1Key, Transient> {
        let query = Query::of(&self.node);
        let exit = U256::from(EXIT_GAS).saturating_mul(U256::from(fees.base.saturating_add(fees.priority)));
        let reserve = exit.saturating_mul(U256::from(senders.exits_left));
        for signer in &senders.signers {
            let account = signer.address();
            let (balance, mined, sent) = tokio::try_join!(
                query.balance(account, At::Latest),
                query.nonce(account, At::Latest),
                query.nonce(account, At::Pending),
            )?;
            let waiting = sent.saturating_sub(mined);
            let on_their_way = cost(gas_limit.min(DEPOSIT_GAS), fees).saturating_mul(U256::from(waiting));
            if balance >= cost(gas_limit, fees).saturating_add(on_their_way).saturating_add(reserve) {
                return Ok(signer);
            }
        }
        Err(Transient::rate_limited(format!("no submitter of {} has the coins for its gas", self.node.chain_id())))
    }

    /// Takes the nonce with which `signer` sends for `purpose`: the same one however often it is asked for, until it is
    /// retired.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn take_nonce(&self, signer: &Secp256k1Key, purpose: &Purpose) -> Result<TakenNonce, Transient> {
        let (node, query, account) = (&self.node, Query::of(&self.node), self.account(signer));
        let final_nonce = query.nonce(signer.address(), At::Block(node.settled().await?)).await?;
        let chain_nonce = query.nonce(signer.address(), At::Latest).await?;
        if chain_nonce < final_nonce {
            return Err(node.contradiction("the newest nonce is below the settled one"));
        }
        let at = self.clock.now();
        let nonce = self.ledger.reserve(&account, purpose, chain_nonce, final_nonce, at).await?;
        Ok(TakenNonce { nonce: if mutant!("nonce-from-the-chain") { chain_nonce } else { nonce }, at })
    }

    /// Signs `transaction`, and notes whether the key did.
    ///
    /// # Errors
    /// [`SignError`].
    pub async fn sign(&self, signer: &Secp256k1Key, transaction: &TxEip1559) -> Result<Signed, SignError> {
        self.failures.try_again(&signer.address(), self.clock.now());
        let signed = transaction::sign(signer, transaction).await;
        self.failures.note(signer.address(), signed.is_ok(), self.clock.now());
        signed
    }

    /// Gives back a nonce of which no signature came, so that the next payment takes it and there is no gap. It stays with its
    /// purpose where another worker asked for it, too, or did before: that one may have signed. Whether it went back.
    ///
    /// A service that gave no answer in time may have signed all the same. That is safe: the signature reached nobody here, so
    /// nothing is journaled or sent with it. Only whoever runs the service could send it, and he can sign with the key at any time.
    /// It would do what the payment asked for; the escrow takes that once, and says that it was done, whichever transaction
    /// did it. The payment that has the nonce by then finds it used, and takes another.
    pub async fn give_back(&self, signer: &Secp256k1Key, purpose: &Purpose, taken: TakenNonce) -> bool {
        let account = self.account(signer);
        let TakenNonce { nonce, at: reserved_at } = taken;
        let given = Reservation { nonce, purpose: purpose.clone(), reserved_at, asked_once: true };
        let mut outcome = self.ledger.give_back(&account, &given).await;
        for _ in 1..GIVE_BACK_TRIES {
            if outcome.is_ok() {
                break;
            }
            outcome = self.ledger.give_back(&account, &given).await;
        }
        tracing::debug!(chain_id = %account.chain_id, sender = account.address.as_str(), nonce, purpose = purpose.0, ?outcome,
            "a nonce that nothing was signed with goes back");
        outcome.unwrap_or(false)
    }

    /// See [`sagas::ports::Chains::reprice`].
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn replacement(
        &self,
        versions: &[TransactionPrepared],
    ) -> Result<Option<TransactionPrepared>, Transient> {
        let Some(newest) = versions.last().filter(|_| versions.len() < VERSIONS_MAX) else { return Ok(None) };
        let query = Query::of(&self.node);
        let now = self.clock.now();
        let patience = seconds(self.node.config().reprice_seconds);
        if now - newest.prepared_at < patience {
            return Ok(None);
        }
        let (sender, nonce) = sender_and_nonce(versions)?;
        let next = query.nonce(sender, At::Latest).await?;
        if next > nonce {
            return Ok(None);
        }
        let Some(signer) = self.all().find(|signer| signer.address() == sender) else {
            self.warn_of(newest, "a waiting transaction cannot be signed again: its sender's key is not configured");
            return Ok(None);
        };
        // The journal may have been in anybody's hands: only what this key signed is signed again.
        let waiting = transaction::signed_by(&newest.raw, sender)
            .filter(|waiting| waiting.nonce == nonce && waiting.chain_id == self.node.evm_id())
            .ok_or_else(|| Transient::misconfigured("a journaled transaction is not one that its sender signed"))?;
        let fees = query.fees().await?;
        if !transaction::is_outpriced(&waiting, fees) {
            let long = now - newest.prepared_at >= patience * PATIENCE_OF_THE_PRICED;
            // One that waits for a nonce below it would only grow dearer, and so would one that the node has lost.
            if !long || next < nonce || !query.knows(hash_of(newest)?).await? {
                return Ok(None);
            }
        }
        let Some(bumped) = transaction::replacement(&waiting, fees) else { return Ok(None) };
        let needed = U256::from(bumped.gas_limit).saturating_mul(U256::from(bumped.max_fee_per_gas));
        if query.balance(sender, At::Latest).await? < needed {
            self.warn_of(newest, "a waiting transaction needs a higher price than its sender has coins for");
            return Ok(None);
        }
        let signed = self.sign(signer, &bumped).await?;
        let version = versions.len() + 1;
        tracing::info!(chain_id = %newest.chain_id, sender = newest.sender.as_str(), nonce, version,
            max_fee = bumped.max_fee_per_gas, "a waiting transaction is signed again with higher fees");
        if version == VERSIONS_MAX {
            tracing::warn!(chain_id = %newest.chain_id, sender = newest.sender.as_str(), nonce,
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
            tracing::warn!(chain_id = %waiting.chain_id, sender = waiting.sender.as_str(), nonce = waiting.validity.nonce(), "{reason}");
        }
    }

    /// Looks at the submitters once.
    ///
    /// A nonce whose transaction never comes holds up everything behind it. A worker may have died between taking it and
    /// journaling its transaction, for a payment that then needed none any more; or the payment ended, by somebody else's
    /// transaction or by its deadline, while its own transaction waits for a price that no block takes. Such nonces are
    /// used up by empty transactions. Also watches the submitters' coins.
    pub async fn maintain_once(&self) {
        for signer in self.all() {
            let chain_id = self.node.chain_id();
            if let Err(fault) = self.unblock(signer).await {
                tracing::debug!(%chain_id, %fault, "nonces not maintained");
            }
            if let Err(fault) = self.check_coins(signer).await {
                tracing::debug!(%chain_id, %fault, "coins not checked");
            }
        }
    }

    /// The state of the submitters, as the last look found it; without those that were not looked at yet.
    pub fn health(&self) -> Vec<SignerHealth> {
        self.watch.health()
    }

    /// As [`health`](Self::health), each with how many nonces were given out whose transactions are not known to be final.
    pub async fn in_flight(&self) -> Result<Vec<(SignerHealth, usize)>, Transient> {
        let (health, mut found) = (self.health(), Vec::new());
        for account in self.all().map(|signer| self.account(signer)) {
            if let Some(seen) = health.iter().find(|seen| seen.account == account.address.as_str()) {
                let open = self.ledger.open(&account).await?;
                found.push((seen.clone(), open.iter().filter(|open| !open.purpose.is_free()).count()));
            }
        }
        Ok(found)
    }

    /// Notes that no node will take `transaction`, so that its nonce is used up by another one.
    pub fn give_up(&self, transaction: &TransactionPrepared) {
        self.watch.give_up(transaction);
    }

    /// Uses up the next nonce by an empty transaction when nothing else is going to, and those behind it that are over too.
    ///
    /// What it takes the place of can have no effect any more, or never existed. A payment under way keeps its transaction
    /// known to the node and prices it, so one that the node does not know is nobody's; and one that it knows is left
    /// alone until every admission signed for the nonce has ended. The ledger takes the nonce from its purpose *before*
    /// the empty transaction is signed, so that nobody is given it any more; and a worker that asked for it again in the
    /// meantime keeps it. Should a transaction be under way all the same, one of the two lands, and the payment's saga
    /// finds out which.
    async fn unblock(&self, signer: &Secp256k1Key) -> Result<(), Transient> {
        let (node, query, account) = (&self.node, Query::of(&self.node), self.account(signer));
        let open = self.ledger.open(&account).await?;
        let next = query.nonce(signer.address(), At::Latest).await?;
        let now = self.clock.now();
        // Behind a nonce that was given back nothing waits but what took one since.
        let awaited = last_awaited(&open).is_some_and(|last| last >= next);
        let reservation = open.iter().find(|reservation| reservation.nonce == next).cloned();
        let known = awaited && query.nonce(signer.address(), At::Pending).await? > next;
        let gap_age = gap_age(node);
        let seen = awaited.then_some(Seen { nonce: next, reservation, known });
        let Some(blocked) = self.watch.blocked(&account, seen, gap_age, now) else {
            return Ok(());
        };
        // Of several nodes behind one address, or one that was just started, one answer proves nothing. What was refused for
        // its size needs no more of them: whichever transaction uses the nonce, its payment finds out.
        let is_young =
            now - blocked.since < gap_age || blocked.unknown_since.is_some_and(|since| now - since < gap_age);
        // One that was given back, or taken from its purpose, is nobody's to come back for.
        let is_nobodys = blocked
            .reservation
            .as_ref()
            .is_some_and(|reservation| reservation.purpose.is_free() || reservation.purpose.is_filler());
        if is_young && !is_nobodys && !self.watch.is_hopeless(&account, next) {
            return Ok(());
        }
        let given_out = blocked.reservation.as_ref().map_or(blocked.since, |reservation| reservation.reserved_at);
        if known && now - given_out < self.admissions_end() {
            return Ok(());
        }
        if !self.use_up(signer, next, blocked.reservation.as_ref(), known).await? {
            return Ok(());
        }
        self.watch.restart(&account, now);
        self.use_up_behind(signer, next, &open, now).await
    }

    /// How long after a nonce was given out no admission signed for it counts any more.
    fn admissions_end(&self) -> TimeDelta {
        seconds(self.node.config().admission_seconds) + gap_age(&self.node)
    }

    /// Uses up the nonces behind `filled` that are over as well, up to the first that may not be. `open` are the account's
    /// reservations, as they were read before.
    ///
    /// A node says of these only now whether it knows transactions at them, and says it once, which proves nothing of an exit under
    /// way: that has its turn as the next nonce. But a deposit whose admission has ended moves no money, wherever it is.
    async fn use_up_behind(
        &self,
        signer: &Secp256k1Key,
        filled: u64,
        open: &[Reservation],
        now: Timestamp,
    ) -> Result<(), Transient> {
        let Some(last) = last_awaited(open) else { return Ok(()) };
        let is_over = |found: &&Reservation| {
            let purpose = &found.purpose;
            let is_late = now - found.reserved_at >= self.admissions_end();
            purpose.is_free() || purpose.is_filler() || (purpose.is_deposit() && is_late)
        };
        let mut nonce = filled;
        for _ in 1..FILLED_MAX {
            let unknown = Query::of(&self.node).nonce(signer.address(), At::Pending).await?;
            // A node that does not know what was sent a moment ago knows nothing of what is behind it.
            if unknown <= nonce || unknown > last {
                return Ok(());
            }
            nonce = unknown;
            let reservation = open.iter().find(|reservation| reservation.nonce == nonce).filter(is_over);
            let Some(reservation) = reservation else { return Ok(()) };
            if !self.use_up(signer, nonce, Some(reservation), false).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Takes the nonce from its purpose, and then sends an empty transaction with it. False when it is not `reservation`'s any
    /// more, and nothing was sent.
    async fn use_up(
        &self,
        signer: &Secp256k1Key,
        nonce: u64,
        reservation: Option<&Reservation>,
        known: bool,
    ) -> Result<bool, Transient> {
        let account = self.account(signer);
        if let Some(reservation) = reservation
            && !self.ledger.retire(&account, reservation).await?
        {
            return Ok(false);
        }
        let purpose = reservation.map_or("none", |reservation| &reservation.purpose.0);
        tracing::warn!(chain_id = %account.chain_id, sender = account.address.as_str(), nonce, purpose, known,
            "using up a nonce that nothing else does");
        self.fill(signer, nonce).await?;
        Ok(true)
    }

    async fn fill(&self, signer: &Secp256k1Key, nonce: u64) -> Result<(), Transient> {
        let (node, query) = (&self.node, Query::of(&self.node));
        let call = plain(signer.address(), signer.address(), Vec::new());
        let fees = query.fees().await?;
        let mut filler = transaction::transaction(&call, node.evm_id(), nonce, TRANSFER_GAS, fees);
        for _ in 1..FILLER_PRICES_MAX {
            match query.try_send(&self.sign(signer, &filler).await?.raw).await {
                Err(Fault::Rejected(text)) if text.contains("underpriced") => {
                    filler = transaction::bumped(&filler, fees);
                }
                sent => return sent.map_err(Transient::from),
            }
        }
        Err(Transient::rate_limited(format!("{}: nonce {nonce} is held by a dearer transaction", node.chain_id())))
    }

    async fn check_coins(&self, signer: &Secp256k1Key) -> Result<(), Transient> {
        let (query, account) = (Query::of(&self.node), self.account(signer));
        let fees = query.fees().await?;
        let balance = query.balance(signer.address(), At::Latest).await?;
        let price = U256::from(DEPOSIT_GAS).saturating_mul(U256::from(fees.base.saturating_add(fees.priority)));
        let deposits_left = balance.checked_div(price).unwrap_or(U256::MAX).saturating_to::<u64>();
        let seen = SignerHealth {
            chain_id: account.chain_id.clone(),
            account: account.address.to_string(),
            balance,
            deposits_left,
            // A draining one is not sent coins any more.
            low: deposits_left < self.node.config().common.submitter_deposits_warning
                && !self.keys.draining.contains(signer),
            checked_at: self.clock.now(),
        };
        self.watch.note(account, seen);
        Ok(())
    }
}
