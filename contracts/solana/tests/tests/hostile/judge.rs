//! What a transaction may have changed: all accounts of the runtime before and after it, judged by who signed the transaction and
//! by what was ever signed off the chain. It knows nothing of how the transaction was made.

use std::collections::{BTreeMap, BTreeSet};

use gateway_program::{
    GatewayError, Hash, Key,
    account::{Escrow, FulfillmentRecord, State},
    host::{self, Instruction, Message},
    ids,
    instruction::Purchase,
    message::{Delivery, Deposit, NonDelivery, Offer},
    rules,
};
use gateway_program_tests::{Outcome, Verifiers, World};
use solana_account::ReadableAccount;
use solana_instruction::error::InstructionError;
use solana_transaction::TransactionError;

/// What every payer here lets be taken at most.
pub const CAP: u64 = 300;

/// A token account: mint, owner, amount.
type Tokens = (Key, Key, u64);

/// All accounts that count.
#[derive(Default)]
pub struct Snapshot {
    lamports: BTreeMap<Key, u64>,
    wallets: BTreeSet<Key>,
    pub escrows: BTreeMap<Key, Escrow>,
    pub deliveries: BTreeMap<Key, FulfillmentRecord>,
    config: Vec<u8>,
    tokens: BTreeMap<Key, Tokens>,
}

/// What is in a token account, frozen ones too; `None` where it is none.
fn tokens(data: &[u8]) -> Option<Tokens> {
    const SIZE: usize = 165;
    // Behind the account of Token-2022 comes what it is, and 2 is an account.
    let is_account = data.len() == SIZE || data.get(SIZE) == Some(&2);
    let key = |at: usize| data[at..at + 32].try_into().ok();
    let amount = data.get(64..72)?.try_into().ok()?;
    is_account.then_some((key(0)?, key(32)?, u64::from_le_bytes(amount)))
}

impl Snapshot {
    pub fn of(world: &World) -> Self {
        let mut all = Self::default();
        for (address, account) in &world.svm.accounts_db().inner {
            let (address, owner, data) = (address.to_bytes(), account.owner().to_bytes(), account.data());
            if account.lamports() == 0 {
                continue;
            }
            all.lamports.insert(address, account.lamports());
            if owner == ids::SYSTEM_PROGRAM {
                all.wallets.insert(address);
            } else if owner == world.program {
                if let Some(escrow) = Escrow::from_bytes(data) {
                    all.escrows.insert(address, escrow);
                } else if let Some(record) = FulfillmentRecord::from_bytes(data) {
                    all.deliveries.insert(address, record);
                } else {
                    all.config.extend_from_slice(data);
                }
            } else if ids::is_token_program(&owner)
                && let Some(tokens) = tokens(data)
            {
                all.tokens.insert(address, tokens);
            }
        }
        all
    }

    fn lamports_of_all(&self) -> u128 {
        self.lamports.values().map(|lamports| u128::from(*lamports)).sum()
    }

    fn held(&self, account: &Key) -> u64 {
        self.tokens.get(account).map_or(0, |(_, _, amount)| *amount)
    }

    fn by_mint(&self) -> BTreeMap<Key, u128> {
        let mut sums = BTreeMap::new();
        for (mint, _, amount) in self.tokens.values() {
            *sums.entry(*mint).or_default() += u128::from(*amount);
        }
        sums
    }

    fn by_owner(&self) -> BTreeMap<(Key, Key), i128> {
        let mut sums = BTreeMap::new();
        for (mint, owner, amount) in self.tokens.values() {
            *sums.entry((*owner, *mint)).or_default() += i128::from(*amount);
        }
        sums
    }
}

/// What is known besides the accounts.
pub struct Facts<'a> {
    pub world: &'a World,
    /// Every digest that a key ever signed off the chain.
    pub words: &'a BTreeSet<(Key, Hash)>,
    pub sets: &'a [Verifiers],
    /// What every address commits to that something was sent to.
    pub addresses: &'a BTreeMap<Key, Deposit>,
    /// Every offer to whose address something was sent.
    pub offers: &'a BTreeMap<Key, Offer>,
    /// Who signed this transaction.
    pub signers: &'a BTreeSet<Key>,
    pub fee: u64,
}

type Verdict<T = ()> = Result<T, String>;

fn require(held: bool, what: &str) -> Verdict {
    if held { Ok(()) } else { Err(what.to_owned()) }
}

/// What became of the records, by name, for counting.
pub type Changes = Vec<&'static str>;

/// Judges a transaction that went through.
pub fn judge(before: &Snapshot, after: &Snapshot, facts: &Facts) -> Verdict<Changes> {
    require(
        before.lamports_of_all() == after.lamports_of_all() + u128::from(facts.fee),
        "lamports appeared or vanished",
    )?;
    require(before.by_mint() == after.by_mint(), "tokens appeared or vanished")?;
    require(before.config == after.config, "the configuration changed")?;
    for wallet in &before.wallets {
        let lost = after.lamports.get(wallet) < before.lamports.get(wallet);
        let lost = lost && !facts.addresses.contains_key(wallet) && !facts.offers.contains_key(wallet);
        require(!lost || facts.signers.contains(wallet), "a wallet that did not sign lost lamports")?;
    }
    let mut changes = Changes::new();
    let mut due: BTreeMap<(Key, Key), i128> = BTreeMap::new();
    let addresses: BTreeSet<&Key> = before.escrows.keys().chain(after.escrows.keys()).collect();
    for address in addresses {
        escrow(address, before, after, facts, &mut due, &mut changes)?;
    }
    let addresses: BTreeSet<&Key> = before.deliveries.keys().chain(after.deliveries.keys()).collect();
    for address in addresses {
        delivery(address, before, after, facts, &mut due, &mut changes)?;
    }
    let (had, has) = (before.by_owner(), after.by_owner());
    for ((owner, mint), held) in &had {
        let Some(terms) = facts.addresses.get(owner) else { continue };
        let gone = held - has.get(&(*owner, *mint)).copied().unwrap_or_default();
        let returned = gone + due.get(&(*owner, *mint)).copied().unwrap_or_default();
        if returned > 0 {
            let record = host::escrow_address(&facts.world.program, &terms.payment_id).key;
            let is_open = facts.world.now <= terms.reserve_deadline && !after.escrows.contains_key(&record);
            require(*mint != terms.mint || !is_open, "given back before its time")?;
            *due.entry((terms.payer, *mint)).or_default() += returned;
            *due.entry((*owner, *mint)).or_default() -= returned;
            changes.push("given back");
        }
    }
    collected(before, after, facts, &mut due, &mut changes)?;
    for (at, terms) in facts.addresses {
        let of = |snapshot: &Snapshot, who: &Key| snapshot.lamports.get(who).copied().unwrap_or_default();
        let (had, has) = (of(before, at), of(after, at));
        if has < had {
            let arrived = of(after, &terms.payer) >= of(before, &terms.payer) + (had - has);
            require(arrived || facts.signers.contains(&terms.payer), "an address's lamports went elsewhere")?;
            changes.push("lamports given back");
        }
    }
    for (owner, held) in &had {
        let gained = has.get(owner).copied().unwrap_or_default() - held;
        let owed = due.remove(owner).unwrap_or_default();
        // A vault's owner is the escrow, of which `escrow` judged.
        let is_vault = before.escrows.contains_key(&owner.0) || after.escrows.contains_key(&owner.0);
        require(is_vault || facts.signers.contains(&owner.0) || gained >= owed, "somebody got less than is due")?;
    }
    for (owner, owed) in due {
        let gained = has.get(&owner).copied().unwrap_or_default();
        require(facts.signers.contains(&owner.0) || gained >= owed, "somebody new got less than is due")?;
    }
    Ok(changes)
}

/// What left the address of an offer and is in no escrow: merchant or reserver wanted it, and the merchant has it.
fn collected(
    before: &Snapshot,
    after: &Snapshot,
    facts: &Facts,
    due: &mut BTreeMap<(Key, Key), i128>,
    changes: &mut Changes,
) -> Verdict {
    let may = |offer: &Offer| facts.signers.contains(&offer.merchant) || facts.signers.contains(&offer.reserver);
    let (had, has) = (before.by_owner(), after.by_owner());
    for ((owner, mint), held) in had {
        let Some(offer) = facts.offers.get(&owner) else { continue };
        let gone = held - has.get(&(owner, mint)).copied().unwrap_or_default();
        let taken = gone + due.get(&(owner, mint)).copied().unwrap_or_default();
        if taken > 0 {
            require(may(offer), "collected by who may not")?;
            *due.entry((offer.merchant, mint)).or_default() += taken;
            *due.entry((owner, mint)).or_default() -= taken;
            changes.push("collected");
        }
    }
    for (account, (_, owner, _)) in &before.tokens {
        let stays = after.tokens.get(account).is_some_and(|(_, now, _)| now == owner);
        require(stays || !facts.offers.contains_key(owner), "a token account of an offer went")?;
    }
    for (at, offer) in facts.offers {
        let of = |snapshot: &Snapshot, who: &Key| snapshot.lamports.get(who).copied().unwrap_or_default();
        let (had, has) = (of(before, at), of(after, at));
        if has < had {
            require(may(offer), "collected by who may not")?;
            let arrived = of(after, &offer.merchant) >= of(before, &offer.merchant) + (had - has);
            require(arrived || facts.signers.contains(&offer.merchant), "an offer's lamports went elsewhere")?;
            changes.push("lamports collected");
        }
    }
    Ok(())
}

fn is_over(escrow: &Escrow) -> bool {
    matches!(escrow.state(), Some(State::Released | State::Refunded))
}

impl Facts<'_> {
    fn said(&self, releaser: &Key, digest: &Hash) -> bool {
        let by = |key: &Key| self.words.contains(&(*key, *digest));
        by(releaser)
            || self.sets.iter().any(|set| {
                let signed = set.members.iter().filter(|member| by(member)).count();
                set.id() == *releaser && signed >= usize::from(set.threshold)
            })
    }

    fn said_undelivered(&self, escrow: &Escrow) -> bool {
        let word = NonDelivery { payment_id: escrow.payment_id, quote_hash: escrow.quote_hash };
        self.said(&escrow.releaser, &word.digest(&self.world.domain()))
    }

    /// The address of the offer that makes these terms, if there is one.
    fn offer(&self, e: &Escrow) -> Option<Key> {
        let purchase = Purchase { payment_id: e.payment_id, reserve_deadline: e.reserve_deadline };
        let makes = |offer: &Offer| offer.deposit(&purchase) == consent(e, &[0; 32]);
        self.offers.iter().find(|(_, offer)| makes(offer)).map(|(at, _)| *at)
    }

    /// Whose money it is that was deposited: the payer's, who consented, or an address's that commits to these terms.
    fn deposited(&self, e: &Escrow) -> Verdict<(Key, &'static str)> {
        let now = self.world.now;
        require(self.signers.contains(&self.world.config().reserver), "a deposit without the reserver")?;
        let consents = [[0; 32], e.quote_hash].iter().any(|quote_hash| {
            let digest = consent(e, quote_hash).digest(&self.world.domain());
            // An open quote stays open in the record, and a named one does not.
            let open = *quote_hash == [0; 32];
            (is_over(e) || e.takes_any_quote() == open) && self.words.contains(&(e.payer, digest))
        });
        // The same terms may be signed and have an address, too: then either may have paid, and what either lost tells.
        let is_signed_for = consents && e.deposited == e.source_amount && (1..=CAP).contains(&e.deposited);
        let addresses = [[0; 32], e.quote_hash].map(|quote_hash| {
            let is_right = is_over(e) || e.takes_any_quote() == (quote_hash == [0; 32]);
            let at = host::deposit_address(&self.world.program, &consent(e, &quote_hash)).key;
            (is_right && self.addresses.contains_key(&at)).then_some(at)
        });
        let from = addresses.into_iter().flatten().next().filter(|_| !is_signed_for);
        let offer = self.offer(e);
        if offer.is_some() {
            require(is_over(e) || e.takes_any_quote(), "a purchase for one quote")?;
            require(e.deposited == CAP && (1..=CAP).contains(&e.source_amount), "a purchase of another amount")?;
            require(e.reserve_deadline <= now + 600, "a purchase too far ahead")?;
        } else if from.is_some() {
            require(e.deposited >= CAP && (1..=CAP).contains(&e.source_amount), "a deposit beyond the terms")?;
        } else {
            require(consents, "a deposit to which the payer did not consent")?;
            require(is_signed_for, "a deposit beyond the cap")?;
        }
        require(now <= e.reserve_deadline && e.reserve_deadline <= e.fulfillment_deadline, "a deposit too late")?;
        require(e.fulfillment_deadline < e.refund_after && now < e.fulfill_by, "windows out of order")?;
        require(e.fulfill_by <= e.fulfillment_deadline, "a promise beyond the payer's deadline")?;
        Ok(match (offer, from) {
            (Some(at), _) => (at, "deposited from an offer"),
            (None, Some(at)) => (at, "deposited from an address"),
            (None, None) => (e.payer, "deposited"),
        })
    }

    fn reassigned(&self, old: &Escrow, new: &Escrow) -> Verdict {
        let now = self.world.now;
        require(old.state() == Some(State::Reserved), "a reassignment of what is over")?;
        require(self.signers.contains(&old.reserver), "a reassignment without the reserver")?;
        require(self.said_undelivered(old), "a reassignment without the verifiers' word")?;
        require(old.takes_any_quote(), "the quote that the payer named was replaced")?;
        require(now > old.fulfill_by && now < new.fulfill_by, "a reassignment at the wrong time")?;
        require(new.fulfill_by <= old.fulfillment_deadline, "a promise beyond the payer's deadline")?;
        require((1..=old.deposited).contains(&new.source_amount), "a settler that costs more than is there")?;
        require(new.quote_hash != old.quote_hash && new.reassignments() == old.reassignments() + 1, "a wrong count")
    }

    fn ended(&self, e: &Escrow) -> Verdict {
        let open = self.world.now < e.refund_after;
        if e.state() == Some(State::Released) {
            let word = Delivery { payment_id: e.payment_id, quote_hash: e.quote_hash, settler: e.settler };
            require(open, "a release from refund_after on")?;
            require(self.said(&e.releaser, &word.digest(&self.world.domain())), "a release without the verifiers' word")
        } else {
            require(!open || self.said_undelivered(e), "a refund before its time without the verifiers' word")
        }
    }
}

/// What the payer signed for this escrow.
fn consent(e: &Escrow, quote_hash: &Hash) -> Deposit {
    Deposit {
        payment_id: e.payment_id,
        terms_hash: e.terms_hash,
        quote_hash: *quote_hash,
        payer: e.payer,
        mint: e.mint,
        amount: CAP,
        reserver: e.reserver,
        releaser: e.releaser,
        reserve_deadline: e.reserve_deadline,
        fulfillment_deadline: e.fulfillment_deadline,
        refund_after: e.refund_after,
    }
}

/// The terms that stay for ever.
fn identity(e: &Escrow) -> impl PartialEq + use<> {
    let keys = [e.payment_id, e.payer, e.rent_payer, e.reserver, e.releaser, e.mint, e.token_program, e.terms_hash];
    let numbers = [e.deposited, e.reserve_deadline, e.fulfillment_deadline, e.refund_after, e.secured_slot()];
    (keys, numbers, e.bump, e.vault_bump)
}

fn escrow(
    address: &Key,
    before: &Snapshot,
    after: &Snapshot,
    facts: &Facts,
    due: &mut BTreeMap<(Key, Key), i128>,
    changes: &mut Changes,
) -> Verdict {
    let mut old = before.escrows.get(address);
    let new = after.escrows.get(address);
    let vault_of = |e: &Escrow| host::vault_address(&facts.world.program, &e.payment_id).key;
    let mut add = |who: Key, mint: Key, amount: i128| *due.entry((who, mint)).or_default() += amount;
    // A remainder leaves for the payer alone.
    if let Some(e) = old
        && e.state() == Some(State::Released)
        && before.tokens.contains_key(&vault_of(e))
        && !after.tokens.contains_key(&vault_of(e))
    {
        add(e.payer, e.mint, i128::from(e.remainder()));
        changes.push("remainder returned");
    }
    if let Some(gone) = old
        && new.is_none_or(|new| is_over(gone) && new != gone)
    {
        require(is_over(gone), "the record of an open escrow vanished")?;
        let at = rules::reclaim_from(gone.refund_after);
        require(facts.world.now >= at, "a final record changed, or went before its time")?;
        require(!after.tokens.contains_key(&vault_of(gone)) || new.is_some(), "a record went and left a vault")?;
        changes.push("escrow reclaimed");
        old = None;
    }
    let Some(new) = new else { return Ok(()) };
    let mut was_over = false;
    if let Some(old) = old {
        require(identity(old) == identity(new), "terms changed that never do")?;
        was_over = is_over(old);
        let reservation = |e: &Escrow| (e.quote_hash, e.settler, e.source_amount, e.fulfill_by, e.reassignments());
        if reservation(old) != reservation(new) {
            facts.reassigned(old, new)?;
            changes.push("reassigned");
        }
    } else {
        let (from, change) = facts.deposited(new)?;
        add(from, new.mint, -i128::from(new.deposited));
        changes.push(change);
    }
    if is_over(new) && !was_over {
        facts.ended(new)?;
        if new.state() == Some(State::Released) {
            add(new.settler, new.mint, i128::from(new.source_amount));
            changes.push("released");
            // Released and returned in one transaction.
            if !after.tokens.contains_key(&vault_of(new)) {
                add(new.payer, new.mint, i128::from(new.remainder()));
            }
        } else {
            add(new.payer, new.mint, i128::from(new.deposited));
            changes.push(if facts.world.now < new.refund_after { "cancelled" } else { "refunded" });
        }
    }
    let there = after.held(&vault_of(new));
    if is_over(new) {
        let left = after.tokens.contains_key(&vault_of(new));
        return require(!left || there >= new.remainder(), "less in the vault than the remainder");
    }
    require(there >= new.deposited, "less in the vault than was deposited")
}

fn delivery(
    address: &Key,
    before: &Snapshot,
    after: &Snapshot,
    facts: &Facts,
    due: &mut BTreeMap<(Key, Key), i128>,
    changes: &mut Changes,
) -> Verdict {
    let now = facts.world.now;
    match (before.deliveries.get(address), after.deliveries.get(address)) {
        (Some(old), Some(new)) => require(old == new, "the record of a delivery changed"),
        (Some(old), None) => {
            changes.push("delivery reclaimed");
            require(facts.signers.contains(&old.settler), "a delivery's record went without its settler")?;
            require(now >= rules::reclaim_from(old.fulfill_by), "a delivery's record went before its time")
        }
        (None, Some(new)) => {
            changes.push("delivered");
            require(facts.signers.contains(&new.settler), "a delivery without its settler")?;
            require(now <= new.fulfill_by && new.amount > 0, "a delivery too late, or of nothing")?;
            if new.mint != [0; 32] {
                *due.entry((new.recipient, new.mint)).or_default() += i128::from(new.amount);
                return Ok(());
            }
            let had = before.lamports.get(&new.recipient).copied().unwrap_or_default();
            let has = after.lamports.get(&new.recipient).copied().unwrap_or_default();
            require(facts.signers.contains(&new.recipient) || has >= had + new.amount, "a delivery that did not arrive")
        }
        (None, None) => Ok(()),
    }
}

/// Judges what a transaction failed with. The program fails with its own errors, and with those of the programs that it calls and of
/// accounts that are not what they should be; it never panics, and never tries what the runtime has to stop.
pub fn judge_failure(outcome: &Outcome, sent: &[Instruction], program: &Key) -> Verdict<String> {
    let Err(failed) = outcome else { return Ok("done".to_owned()) };
    let (at, error) = match &failed.err {
        TransactionError::InstructionError(at, error) => (usize::from(*at), error),
        // Refused before anything ran.
        error => return Ok(format!("{error:?}").split(['(', '{', ' ']).next().unwrap_or_default().to_owned()),
    };
    if sent[at].program_id != *program {
        return Ok("another instruction failed".to_owned());
    }
    match error {
        InstructionError::Custom(code) => {
            Ok(GatewayError::from_code(*code)
                .map_or(format!("called program: {code}"), |error| error.name().to_owned()))
        }
        InstructionError::ProgramFailedToComplete
        | InstructionError::ComputationalBudgetExceeded
        | InstructionError::ProgramEnvironmentSetupFailure
        | InstructionError::UnbalancedInstruction
        | InstructionError::ReadonlyLamportChange
        | InstructionError::ReadonlyDataModified
        | InstructionError::ExternalAccountLamportSpend
        | InstructionError::ExternalAccountDataModified
        | InstructionError::ExecutableModified
        | InstructionError::ModifiedProgramId
        | InstructionError::PrivilegeEscalation
        | InstructionError::CallDepth
        | InstructionError::InvalidError
        | InstructionError::GenericError => Err(format!("failed with {error:?}: {}", failed.meta.logs.join("\n"))),
        error => Ok(format!("{error:?}")),
    }
}
