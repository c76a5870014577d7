//! Deposit addresses (ADR 153, 157): accounts without a key that commit to a payment. Who sends the payment's money to the associated
//! token account of one has made the deposit; the program carries it into the escrow with the award, or gives it back.
//!
//! The escrow's own program makes and commands them, so an address follows from it and the terms, and nothing is configured.

use gateway_program::{
    GatewayError, Key, host, ids,
    instruction::{GiveBack, Tag},
    log,
    message::Deposit,
    token::{Mint, TokenAccount},
};
use signer::Ed25519Key;

use chains::deposit_address::worth_giving_back;
use events::{
    Account, Amount, Hash32, OwnedAsset, PaymentId, Terms,
    event::{DepositAddress, EscrowPlan, EscrowRefunded, TransactionPrepared},
    time::Timestamp,
};
use sagas::ports::{AddressFunds, AddressState, OwnReturn, PayerDeposit, PrepareError, Transient};

use super::{
    calls::{Call, balances},
    evidence::{self, Effect},
    history::{Executed, History},
    node::{Commitment, Node, Snapshot},
    program::{self, ConvertError, account, amount, key, mint, text, units},
    records::Read,
    refusal::refused,
    submitters,
    token_accounts::{Balance, balance, place_of, token_accounts},
};

/// Place of the address among the accounts of a return.
const ADDRESS_IN_RETURN: usize = 2;
/// Place of the token account that is emptied.
const FROM_IN_RETURN: usize = 3;
/// So many transactions that name an address's token account are looked at for one that emptied it. Who hides it behind more pays for each.
const LOOKS_MAX: usize = 64;

/// What the deposit address of a payment commits to, of whose money at least `amount` is deposited. No quote is agreed to, for the
/// address is there before the auction.
///
/// # Errors
/// [`ConvertError`] for what fits no Solana chain.
pub fn committed(
    payment_id: &PaymentId,
    terms: &Terms,
    plan: &EscrowPlan,
    amount: Amount,
) -> Result<Deposit, ConvertError> {
    Ok(Deposit {
        payment_id: payment_id.on_chain().0,
        terms_hash: terms.hash().0,
        quote_hash: Hash32::ZERO.0,
        payer: key(terms.source.account())?,
        mint: mint(terms.source.asset())?,
        amount: units(amount)?,
        reserver: key(&plan.reserver)?,
        releaser: key(&plan.releaser)?,
        reserve_deadline: plan.reserve_deadline,
        fulfillment_deadline: plan.fulfillment_deadline,
        refund_after: plan.refund_after,
    })
}

/// The deposit address of a payment.
///
/// # Errors
/// [`ConvertError`] for what fits no Solana chain.
pub fn of_payment(
    payment_id: &PaymentId,
    terms: &Terms,
    plan: &EscrowPlan,
    amount: Amount,
    pay_by: Timestamp,
    from_block: u64,
) -> Result<DepositAddress, ConvertError> {
    let committed = committed(payment_id, terms, plan, amount)?;
    let at = host::deposit_address(&key(&plan.contract)?, &committed).key;
    Ok(DepositAddress {
        amount,
        address: account(&at).ok_or_else(|| ConvertError::Account(text(&at)))?,
        factory: plan.contract.clone(),
        implementation: plan.contract.clone(),
        pay_by,
        from_block,
    })
}

/// Why an address that is on record is not the payment's at its escrow's program; `None` where it is.
///
/// # Errors
/// [`ConvertError`] for what fits no Solana chain.
pub(crate) fn mismatch(
    payment_id: &PaymentId,
    terms: &Terms,
    plan: &EscrowPlan,
    recorded: &DepositAddress,
) -> Result<Option<String>, ConvertError> {
    let expected = of_payment(payment_id, terms, plan, recorded.amount, recorded.pay_by, recorded.from_block)?;
    Ok(if expected.address != recorded.address {
        Some(format!("the payment's terms lead to {}, not to {}", expected.address, recorded.address))
    } else if expected != *recorded {
        Some(format!("it is made by {}, not by the escrow's program", recorded.factory))
    } else {
        None
    })
}

/// The newest settled slot, where `escrow` is the chain's own program and has deposit addresses; `None` where not.
///
/// # Errors
/// [`Transient`].
pub async fn served_from(node: &Node, escrow: &Account) -> Result<Option<u64>, Transient> {
    if *escrow != node.config().common.escrow_contract {
        return Ok(None);
    }
    let settled = node.settled().await?;
    Ok(node.program_says(&key(escrow)?, log::GIVE_BACK_SAID).await?.then_some(settled.slot))
}

/// Why money that comes to an address could not be deposited, or could not come back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// The program takes no such token.
    #[error("{0}")]
    Token(String),
    /// The refund account could not be given anything.
    #[error("{0}")]
    RefundAccount(String),
}

/// Why money that comes to an address of `source` could not be deposited or could not come back, as far as the token and the refund
/// account tell now; `None` where it could.
///
/// # Errors
/// [`Transient`].
pub async fn unfit(node: &Node, source: &OwnedAsset) -> Result<Option<Unfit>, Transient> {
    let (payer, mint) = (key(source.account())?, mint(source.asset())?);
    let tokens = token_accounts(&payer, &mint);
    let found = node.accounts(&[mint, tokens[0], tokens[1], payer], Commitment::Confirmed, 0).await?;
    let Some(token) = found.account(0) else {
        return Ok(Some(Unfit::Token(format!("there is no token {}", text(&mint)))));
    };
    if let Err(error) = Mint::parse(&token.owner, &token.data) {
        return Ok(Some(Unfit::Token(error.to_string())));
    }
    if found.account(3).is_some_and(|wallet| wallet.executable || ids::is_token_program(&wallet.owner)) {
        return Ok(Some(Unfit::RefundAccount(format!("{} is no wallet", text(&payer)))));
    }
    // None is made at the gateway's cost: whoever has it made can close it and keep the rent, again and again.
    let at = place_of(&token.owner);
    let account = text(&tokens[at]);
    let demands_memo = found.account(1 + at).is_some_and(|account| TokenAccount::demands_memo(&account.data));
    let why = match balance(&found, 1 + at, &payer) {
        Some(held) if held.is_frozen => Some(format!("its token account {account} is frozen")),
        Some(_) if demands_memo => Some(format!("its token account {account} demands a memo with each transfer")),
        Some(_) => None,
        None => Some(format!("it has no token account {account} of {}; make it first", text(&mint))),
    };
    Ok(why.map(Unfit::RefundAccount))
}

/// The address of a payment's deposit, with what it commits to.
pub(crate) struct Place {
    program: Key,
    at: Key,
    terms: Deposit,
    asked: Amount,
    from_slot: u64,
    tokens: [Key; 2],
}

/// What is at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    /// The token's program.
    pub token_program: Key,
    /// What is in the address's token account there; nothing where there is none.
    pub balance: Balance,
}

impl Place {
    /// Of the deposit, where it is made through an address.
    ///
    /// # Errors
    /// [`Transient`] where it is not, or fits no Solana chain.
    pub fn of(deposit: &PayerDeposit) -> Result<Self, Transient> {
        let recorded = deposit.authorization.deposit_address();
        let recorded = recorded.ok_or_else(|| Transient::misconfigured("the payment has no deposit address"))?;
        let PayerDeposit { payment_id, terms, escrow, .. } = deposit;
        let committed = committed(payment_id, terms, escrow, recorded.amount)?;
        let at = key(&recorded.address)?;
        Ok(Self {
            program: key(&escrow.contract)?,
            at,
            tokens: token_accounts(&at, &committed.mint),
            terms: committed,
            asked: recorded.amount,
            from_slot: recorded.from_block,
        })
    }

    /// What it commits to.
    pub fn terms(&self) -> &Deposit {
        &self.terms
    }

    /// The program that commands it.
    pub fn program(&self) -> Key {
        self.program
    }

    /// Its token account, in the token program where it is.
    pub fn token_account(&self, token_program: &Key) -> Key {
        self.tokens[place_of(token_program)]
    }

    /// Its token accounts, of which the token's program has one.
    pub fn token_accounts(&self) -> [Key; 2] {
        self.tokens
    }

    /// What is there of the token, as of a confirmed slot, and in which account.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn funds(&self, node: &Node) -> Result<(AddressFunds, Key), Transient> {
        let settled = node.settled().await?;
        let read = self.held(node, Commitment::Confirmed, settled.slot).await?;
        let held = read.record.filter(|held| !held.balance.is_frozen).and_then(|held| amount(held.balance.amount));
        let at = self.token_account(&read.record.map_or(ids::TOKEN_PROGRAM, |held| held.token_program));
        Ok((AddressFunds { amount: held, block_number: read.slot, block_time: read.time }, at))
    }

    /// What became of what is there, by the finalized state; where it was there in slot `since`, after that one.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn state(&self, node: &Node, since: Option<u64>) -> Result<AddressState, Transient> {
        let settled = node.settled().await?;
        let read = self.held(node, Commitment::Finalized, settled.slot).await?;
        if read.time <= self.terms.reserve_deadline {
            return Ok(AddressState::Open);
        }
        // That nothing is there may end the payment, and no event proves it.
        let again = self.held(node, Commitment::Finalized, settled.slot).await?;
        if read.record != again.record {
            return Err(node.contradiction("two answers about a deposit address"));
        }
        let held = read.record.map_or(0, |held| held.balance.amount);
        let amount = worth_giving_back(program::amount(held), self.asked);
        // What comes after what was given back is nobody's to wait for.
        if since.is_some() || amount.is_none() {
            let after = since.unwrap_or(self.from_slot.saturating_sub(1));
            let token_program = read.record.map_or(ids::TOKEN_PROGRAM, |held| held.token_program);
            if let Some(refunded) = self.first_return(node, (after, read.slot.min(again.slot)), &token_program).await? {
                // One node's word; two answers have reached the settled slot.
                if refunded.inclusion.block_number > settled.slot {
                    return Err(Transient::unreachable("the return from the deposit address is not finalized yet"));
                }
                return Ok(AddressState::GivenBack(refunded));
            }
        }
        Ok(match amount {
            Some(amount) => AddressState::Held { amount, block_number: read.slot.min(again.slot) },
            None => AddressState::Empty,
        })
    }

    /// What one of the gateway's own transactions gave back, as of the finalized state.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn given_back_by(&self, node: &Node, versions: &[TransactionPrepared]) -> Result<OwnReturn, Transient> {
        let settled = node.settled().await?;
        let landed = History::of(node).landed_of(versions, settled.slot).await?;
        let Some((hash, _)) = landed else { return Ok(OwnReturn::NotLanded) };
        Ok(match self.returned_by(node, hash).await? {
            Some(refunded) => OwnReturn::Returned(refunded),
            None => OwnReturn::Nothing { evidence: format!("{hash} is finalized, and found nothing to give back") },
        })
    }

    /// The call that gives back what is there of the token, and who sends it: the first of `submitters` that can and has the lamports for
    /// so many exits left. The rent of the token account goes to it.
    ///
    /// # Errors
    /// See [`PrepareError`].
    pub async fn give_back<'a>(
        &self,
        node: &Node,
        submitters: &[&'a Ed25519Key],
        exits_left: u64,
    ) -> Result<(Call<'a>, &'a Ed25519Key), PrepareError> {
        let refuse = |reason: String| refused(node, &self.program, reason);
        let settled = node.settled().await?;
        let payer_tokens = token_accounts(&self.terms.payer, &self.terms.mint);
        let mut wanted = vec![self.terms.mint];
        wanted.extend(self.tokens);
        wanted.extend(payer_tokens);
        let fixed = wanted.len();
        wanted.extend(submitters.iter().map(|submitter| submitter.public()));
        let found = node.accounts(&wanted, Commitment::Confirmed, settled.slot).await?;
        let token_program = self.token_program(&found).ok_or_else(|| refuse("the token is gone".to_owned()))?;
        if self.held_in(&found).is_none_or(|held| held.balance.amount == 0) {
            return Err(refuse(GatewayError::NothingToGiveBack.to_string()));
        }
        let payer_token = payer_tokens[place_of(&token_program)];
        if balance(&found, 3 + place_of(&token_program), &self.terms.payer).is_none() {
            let (wallet, account) = (text(&self.terms.payer), text(&payer_token));
            let reason = format!("{wallet} has no token account {account}; the money goes there as soon as it is made");
            return Err(refuse(reason));
        }
        let balances = balances(&found, fixed);
        let submitter = submitters::choose(node, submitters, &balances, exits_left)?;
        let call = Call {
            program: self.program,
            instructions: vec![host::give_back(&self.program, submitter.public(), token_program, &self.terms)],
            contended: vec![payer_token],
            submitters: submitters.iter().copied().zip(balances).collect(),
        };
        Ok((call, submitter))
    }

    /// The mint, and the address's token accounts, in the order in which [`Self::held_in`] reads them.
    pub fn wanted(&self) -> [Key; 3] {
        [self.terms.mint, self.tokens[0], self.tokens[1]]
    }

    /// What is at the address in a snapshot that begins with [`Self::wanted`]; `None` where there is no such token.
    pub fn held_in(&self, found: &Snapshot) -> Option<Held> {
        let token_program = self.token_program(found)?;
        let at = 1 + place_of(&token_program);
        let nothing = Balance { amount: 0, is_frozen: false };
        Some(Held { token_program, balance: balance(found, at, &self.at).unwrap_or(nothing) })
    }

    fn token_program(&self, found: &Snapshot) -> Option<Key> {
        found.account(0).map(|mint| mint.owner).filter(ids::is_token_program)
    }

    async fn held(&self, node: &Node, commitment: Commitment, at_least: u64) -> Result<Read<Held>, Transient> {
        let found = node.accounts(&self.wanted(), commitment, at_least).await?;
        Ok(Read { slot: found.slot, time: found.time, record: self.held_in(&found) })
    }

    fn is_return_call(&self, data: &[u8], accounts: &[Key], from: &Key) -> bool {
        data.first() == Some(&(Tag::GiveBack as u8))
            && accounts.get(ADDRESS_IN_RETURN) == Some(&self.at)
            && accounts.get(FROM_IN_RETURN) == Some(from)
            && GiveBack::from_bytes(data).is_some_and(|call| call.terms == self.terms)
    }

    /// What the return `effect` moved out of the address's token account; `None` for another instruction, and for one that moved nothing.
    pub fn amount_returned(&self, effect: &Effect) -> Option<u64> {
        let from = effect.call.accounts.get(FROM_IN_RETURN)?;
        let evidence::Call { accounts, data, .. } = &effect.call;
        let is_return = self.tokens.contains(from) && self.is_return_call(data, accounts, from);
        let moved = if is_return { effect.tokens_moved(|source, _| source == from) } else { 0 };
        (moved > 0).then_some(moved)
    }

    /// The first return after slot `after`, among so many transactions that name the address's token account: strangers may name it, too.
    async fn first_return(
        &self,
        node: &Node,
        (after, settled): (u64, u64),
        token_program: &Key,
    ) -> Result<Option<EscrowRefunded>, Transient> {
        let tokens = self.token_account(token_program);
        let history = History::of(node);
        for signature in history.signatures_after(&tokens, after, settled, LOOKS_MAX).await? {
            // A finalized transaction stays what it is, so no other is asked for twice.
            if node.is_no_return(&tokens, &signature) {
                continue;
            }
            let landed = history.transaction(&signature, Commitment::Finalized).await?;
            let landed = landed.ok_or_else(|| node.contradiction(format!("no transaction {signature}")))?;
            let is_return = |Executed { program, accounts, data }: &Executed| {
                *program == self.program && self.is_return_call(data, accounts, &tokens)
            };
            if landed.instructions.iter().any(is_return)
                && let Some(refunded) = self.returned_by(node, &signature).await?
            {
                return Ok(Some(refunded));
            }
            node.note_no_return(tokens, signature);
        }
        Ok(None)
    }

    /// What the finalized transaction gave back; `None` where it gave nothing back.
    async fn returned_by(&self, node: &Node, signature: &str) -> Result<Option<EscrowRefunded>, Transient> {
        let history = History::of(node);
        let Some((evidence, block_hash)) = history.evidence(signature, Commitment::Finalized).await? else {
            return Err(node.contradiction(format!("no transaction {signature}")));
        };
        if let Some(error) = &evidence.error {
            return Err(node.contradiction(format!("{signature} did not fail, and it failed: {error}")));
        }
        let effects = evidence.effects(&self.program);
        let Some(moved) = effects.iter().find_map(|effect| self.amount_returned(effect)) else { return Ok(None) };
        let amount = amount(moved).ok_or_else(|| node.contradiction("nothing was given back"))?;
        let inclusion = evidence.inclusion(node, signature, block_hash);
        Ok(Some(EscrowRefunded { inclusion, amount, claims: Vec::new() }))
    }
}
