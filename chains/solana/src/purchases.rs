//! Purchases of merchants' offers (ADR 160): the buyer's transfer to the offer's address is brought first, and then what it brought is
//! deposited in the payment's name. From the transfer on the money is the merchant's, so what cannot be deposited any more is collected for it.

use gateway_program::{
    Key, host,
    instruction::{DepositFromOffer, Purchase as Bought, Reservation},
    message::Offer,
    rules,
    token::Mint,
};
use signer::Ed25519Key;

use events::{
    Amount,
    event::{EscrowRefunded, PayerStep, TransactionPrepared},
};
use sagas::ports::{AddressState, DepositOrder, OwnReturn, PayerDeposit, PrepareError, Transient};

use super::{
    broadcaster::Broadcaster,
    calls::{Call, balances, config, unused_escrow},
    exact::ExactTransfer,
    history::History,
    node::{Commitment, Node, Snapshot},
    offers,
    program::{key, reason, text, units},
    refusal::refused,
    submitters,
    token_accounts::{balance, place_of, token_accounts},
    transaction::{hash_of, wire_of},
};

/// Seconds that have to be left for the deposit when the transfer is sent: what has been paid and cannot be deposited is paid on this chain.
const DEPOSIT_SECONDS: u64 = 15;

/// The purchase of a payment, in the program's types.
pub(super) struct Purchase {
    program: Key,
    offer: Offer,
    bought: Bought,
    amount: Amount,
    /// The address of the offer, and its token accounts in the two token programs.
    at: Key,
    tokens: [Key; 2],
    /// The merchant's.
    merchant_tokens: [Key; 2],
    transfer: ExactTransfer,
    /// The transfer's hash, once the journal says that it is sent.
    sent: Option<String>,
}

/// What became of a buyer's transfer that was sent.
enum Transfer {
    /// It is in this slot, which is confirmed.
    Landed { slot: u64 },
    /// It is in one, and failed.
    Failed { why: String },
    /// It is in a block that is not confirmed yet.
    Seen,
    /// No block has it.
    Nowhere,
}

impl Purchase {
    /// Of the deposit, where it is a purchase.
    ///
    /// # Errors
    /// [`Transient`] where it is not, or fits no Solana chain.
    pub fn of(deposit: &PayerDeposit) -> Result<Self, Transient> {
        let PayerDeposit { payment_id, terms, escrow, authorization, transfer: sent, .. } = deposit;
        let recorded =
            authorization.purchase().ok_or_else(|| Transient::misconfigured("the payment is no purchase"))?;
        let offer = offers::offer(&offers::of_purchase(terms, escrow, recorded))?;
        let at = key(&recorded.pay_to)?;
        let transfer = wire_of(&recorded.transaction).map(|wire| ExactTransfer::read(&wire));
        let transfer = transfer.ok_or_else(|| Transient::misconfigured("the buyer's transaction is not hex"))?;
        Ok(Self {
            program: key(&escrow.contract)?,
            bought: Bought { payment_id: payment_id.on_chain().0, reserve_deadline: escrow.reserve_deadline },
            amount: recorded.amount,
            at,
            tokens: token_accounts(&at, &offer.mint),
            merchant_tokens: token_accounts(&offer.merchant, &offer.mint),
            offer,
            transfer: transfer.map_err(Transient::misconfigured)?,
            sent: sent.clone(),
        })
    }

    /// Whose signature it takes to send the transfer.
    pub fn fee_payer(&self) -> Key {
        self.transfer.fee_payer()
    }

    /// The deposit, and who sends it, once the buyer's transfer has landed. Before that the journal is told that the transfer is sent, where
    /// everything is in order for it and for the deposit, and then it is; `fee_payer` signs it, and the first of `submitters` that can sends
    /// the deposit.
    ///
    /// # Errors
    /// [`PrepareError::PayerSent`] when the transfer is to be journaled, [`PrepareError::Waiting`] while it is on its way,
    /// [`PrepareError::Refused`] when it never lands or the program would refuse the deposit.
    pub async fn deposit<'a>(
        &self,
        node: &Node,
        order: &DepositOrder,
        fee_payer: impl Fn() -> Result<&'a Ed25519Key, Transient>,
        submitters: &[&'a Ed25519Key],
        exits_left: u64,
    ) -> Result<(Call<'a>, &'a Ed25519Key), PrepareError> {
        let refuse = |reason: String| refused(node, &self.program, reason);
        let settled = node.settled().await?;
        let landed_in = match &self.sent {
            None => None,
            Some(hash) => match self.transfer(node, hash, settled.slot).await? {
                Transfer::Landed { slot } => Some(slot),
                Transfer::Failed { why } => return Err(refuse(format!("the buyer's transfer {hash} failed: {why}"))),
                Transfer::Seen => return Err(on_its_way(hash)),
                Transfer::Nowhere => return Err(self.send(node, hash, fee_payer()?).await?),
            },
        };
        let mut wanted = self.wanted().to_vec();
        let fixed = wanted.len();
        wanted.extend(submitters.iter().map(|submitter| submitter.public()));
        // A node that is behind the transfer is asked again.
        let at_least = settled.slot.max(landed_in.unwrap_or(0));
        let found = node.accounts(&wanted, Commitment::Confirmed, at_least).await?;
        let call = DepositFromOffer {
            offer: self.offer.clone(),
            purchase: self.bought.clone(),
            reservation: Reservation {
                deposited: self.offer.amount,
                quote_hash: order.reservation.quote_hash.0,
                settler: key(&order.reservation.payout_account)?,
                source_amount: units(order.reservation.source_amount)?,
                fulfill_by: order.reservation.fulfill_by,
            },
        };
        let token_program = self.check(node, &found, &call)?;
        let balances = balances(&found, fixed);
        let submitter = submitters::choose(node, submitters, &balances, exits_left)?;
        if landed_in.is_none() {
            let fee_payer = fee_payer()?;
            // Who pays for the transfer leaves as much as who sends a deposit.
            let lamports = node.lamports(&self.fee_payer()).await?;
            submitters::choose(node, &[fee_payer], &[lamports], exits_left)?;
            self.try_out(node, found.time).await?;
            let transaction_hash = hash_of(&fee_payer.sign(self.transfer.message()).await.map_err(Transient::from)?);
            return Err(PrepareError::PayerSent { step: PayerStep::Transfer, transaction_hash });
        }
        let held = balance(&found, 1 + place_of(&token_program), &self.at).map_or(0, |held| held.amount);
        if held < self.offer.amount {
            // The merchant has collected it.
            return Err(refuse(format!("{held} of {} are at the address of the offer", self.offer.amount)));
        }
        let instruction = host::deposit_from_offer(
            &self.program,
            submitter.public(),
            token_program,
            &self.offer,
            &self.bought,
            &call.reservation,
        );
        let call = Call {
            program: self.program,
            instructions: vec![instruction],
            contended: vec![self.tokens[place_of(&token_program)]],
            submitters: submitters.iter().copied().zip(balances).collect(),
        };
        Ok((call, submitter))
    }

    /// What became of the money, by the finalized state, where nothing was deposited: it is the merchant's, once the transfer has landed.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn state(&self, node: &Node) -> Result<AddressState, Transient> {
        let settled = node.settled().await?;
        let found = node.accounts(&self.wanted(), Commitment::Finalized, settled.slot).await?;
        if found.time <= self.bought.reserve_deadline {
            return Ok(AddressState::Open);
        }
        // Nothing is sent before the journal says so.
        let Some(hash) = &self.sent else { return Ok(AddressState::Empty) };
        let state = self.state_of(node, hash, &found, settled.slot).await?;
        // That nothing is there may end the payment, and no event proves it.
        if state == AddressState::Empty {
            let again = node.accounts(&self.wanted(), Commitment::Finalized, found.slot.max(settled.slot)).await?;
            if self.state_of(node, hash, &again, settled.slot).await? != AddressState::Empty {
                return Err(node.contradiction("two answers about a buyer's transfer"));
            }
        }
        Ok(state)
    }

    /// The same of a transfer that was sent, past the deadline, with the accounts as `found`.
    async fn state_of(
        &self,
        node: &Node,
        hash: &str,
        found: &Snapshot,
        settled: u64,
    ) -> Result<AddressState, Transient> {
        // It was sent with a blockhash that counted, and some time before the deadline, which the finalized state is past: so a state that
        // is no earlier knows the blockhash, and one that does not count there never will again. What landed before that has a status.
        let blockhash = self.transfer.blockhash();
        let (counts, slot) = Broadcaster::of(node).counts(&blockhash, Commitment::Confirmed, settled).await?;
        let status = History::of(node).status(hash, slot).await?;
        Ok(match status {
            Some(status) if status.slot > settled => AddressState::Open,
            Some(status) if status.error.is_none() => {
                let place = self.token_program(found).map_or(0, |program| place_of(&program));
                let held = balance(found, 1 + place, &self.at).map_or(0, |held| held.amount);
                // What is not there any more the merchant has collected itself.
                match held >= self.offer.amount {
                    true => AddressState::Held { amount: self.amount, block_number: found.slot },
                    false => AddressState::Empty,
                }
            }
            None if counts => AddressState::Open,
            Some(_) | None => AddressState::Empty,
        })
    }

    /// The call that collects the purchase's money for the merchant, which `reserver` signs, and who sends it.
    ///
    /// # Errors
    /// See [`PrepareError`].
    pub async fn collect<'a>(
        &self,
        node: &Node,
        reserver: &Key,
        submitters: &[&'a Ed25519Key],
        exits_left: u64,
    ) -> Result<(Call<'a>, &'a Ed25519Key), PrepareError> {
        let refuse = |reason: String| refused(node, &self.program, reason);
        let settled = node.settled().await?;
        let mut wanted = self.wanted().to_vec();
        let fixed = wanted.len();
        wanted.extend(submitters.iter().map(|submitter| submitter.public()));
        let found = node.accounts(&wanted, Commitment::Confirmed, settled.slot).await?;
        let token_program = self.token_program(&found).ok_or_else(|| refuse("the token is gone".to_owned()))?;
        self.check_merchant(&found, &token_program).map_err(refuse)?;
        let balances = balances(&found, fixed);
        let submitter = submitters::choose(node, submitters, &balances, exits_left)?;
        let call = Call {
            program: self.program,
            instructions: vec![host::collect(&self.program, *reserver, token_program, &self.offer, self.offer.amount)],
            contended: vec![self.tokens[place_of(&token_program)]],
            submitters: submitters.iter().copied().zip(balances).collect(),
        };
        Ok((call, submitter))
    }

    /// What one of the gateway's own transactions has collected, as of the finalized state.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn collected_by(&self, node: &Node, versions: &[TransactionPrepared]) -> Result<OwnReturn, Transient> {
        let (settled, history) = (node.settled().await?, History::of(node));
        let landed = history.landed_of(versions, settled.slot).await?;
        let Some((hash, slot)) = landed else { return Ok(OwnReturn::NotLanded) };
        // The program moves the amount that it is told, or nothing.
        let inclusion = history.inclusion(hash.to_owned(), slot, Commitment::Finalized).await?;
        Ok(OwnReturn::Returned(EscrowRefunded { inclusion, amount: self.amount, claims: Vec::new() }))
    }

    async fn transfer(&self, node: &Node, hash: &str, at_least: u64) -> Result<Transfer, Transient> {
        let history = History::of(node);
        if history.status(hash, at_least).await?.is_none() {
            return Ok(Transfer::Nowhere);
        }
        // A status may be of a block that nobody has voted for yet.
        Ok(match history.transaction(hash, Commitment::Confirmed).await? {
            None => Transfer::Seen,
            Some(landed) => match &landed.error {
                None => Transfer::Landed { slot: landed.slot },
                Some(error) => Transfer::Failed { why: reason(error, &landed.programs) },
            },
        })
    }

    /// Sends the buyer's transfer, which the journal says is sent, as long as it can land; what the engine is told.
    async fn send(&self, node: &Node, hash: &str, fee_payer: &Ed25519Key) -> Result<PrepareError, Transient> {
        let broadcaster = Broadcaster::of(node);
        let (counts, slot) = broadcaster.counts(&self.transfer.blockhash(), Commitment::Confirmed, 0).await?;
        if !counts {
            // It may have landed since it was looked for.
            return Ok(match History::of(node).status(hash, slot).await? {
                Some(_) => on_its_way(hash),
                None => refused(node, &self.program, format!("the buyer's transfer {hash} did not land in its time")),
            });
        }
        let signature = fee_payer.sign(self.transfer.message()).await?;
        if hash_of(&signature) != hash {
            return Err(Transient::misconfigured("the payer of the fee signs another transfer than is journaled"));
        }
        broadcaster.send(&self.transfer.signed(&signature)).await?;
        Ok(on_its_way(hash))
    }

    /// Whether the buyer's transfer would succeed, and leaves time for the deposit. A node is shown what nobody can send.
    async fn try_out(&self, node: &Node, time: u64) -> Result<(), PrepareError> {
        let refuse = |reason: String| refused(node, &self.program, reason);
        let deadline = self.bought.reserve_deadline;
        if time.saturating_add(DEPOSIT_SECONDS) > deadline {
            return Err(refuse(format!(
                "it is too late for the buyer's transfer: the cluster is at {time}, and the deposit is taken up to {deadline}"
            )));
        }
        let broadcaster = Broadcaster::of(node);
        let (counts, _) = broadcaster.counts(&self.transfer.blockhash(), Commitment::Confirmed, 0).await?;
        if !counts {
            return Err(refuse(
                "the blockhash of the buyer's transfer does not count, or does not any more".to_owned(),
            ));
        }
        // The buyer chose its bytes, so whatever is wrong with them is no trouble of the node's.
        match broadcaster.simulate(&self.transfer.unsigned()).await?.error {
            Some(error) => Err(refuse(format!("the buyer's transfer would fail: {}", reason(&error, &[])))),
            None => Ok(()),
        }
    }

    /// The token's program; a refusal when the program would refuse the deposit, whatever is at the address.
    fn check(&self, node: &Node, found: &Snapshot, call: &DepositFromOffer) -> Result<Key, PrepareError> {
        let refuse = |reason: String| refused(node, &self.program, reason);
        let config = config(node, found.account(5), &self.program).map_err(refuse)?;
        unused_escrow(node, found.account(6), &self.program)?;
        let token_program = self.token_program(found);
        let (mint, token_program) =
            found.account(0).zip(token_program).ok_or_else(|| refuse("there is no such token".to_owned()))?;
        Mint::parse(&mint.owner, &mint.data).map_err(|error| refuse(error.to_string()))?;
        match balance(found, 1 + place_of(&token_program), &self.at) {
            None => return Err(refuse(format!("the address {} has no token account", text(&self.at)))),
            Some(held) if held.is_frozen => {
                return Err(refuse(format!("the token account of {} is frozen", text(&self.at))));
            }
            Some(_) => {}
        }
        self.check_merchant(found, &token_program).map_err(refuse)?;
        let judged = rules::deposit(&call.as_signed(), &self.offer.reserver, &config.reserver, found.time);
        judged.and_then(|()| rules::purchase(call, found.time)).map_err(|error| refuse(error.to_string()))?;
        Ok(token_program)
    }

    /// What is not delivered goes to the merchant, so its account has to be there.
    fn check_merchant(&self, found: &Snapshot, token_program: &Key) -> Result<(), String> {
        let place = place_of(token_program);
        match balance(found, 3 + place, &self.offer.merchant) {
            Some(_) => Ok(()),
            None => {
                let (merchant, account) = (text(&self.offer.merchant), text(&self.merchant_tokens[place]));
                Err(format!("the merchant {merchant} has no token account {account}"))
            }
        }
    }

    /// The mint, the token accounts of the address and of the merchant, the program's configuration, the record of the payment's escrow.
    fn wanted(&self) -> [Key; 7] {
        let ([from, from_extended], [to, to_extended]) = (self.tokens, self.merchant_tokens);
        [
            self.offer.mint,
            from,
            from_extended,
            to,
            to_extended,
            host::config_address(&self.program).key,
            host::escrow_address(&self.program, &self.bought.payment_id).key,
        ]
    }

    fn token_program(&self, found: &Snapshot) -> Option<Key> {
        found.account(0).map(|mint| mint.owner).filter(gateway_program::ids::is_token_program)
    }
}

fn on_its_way(hash: &str) -> PrepareError {
    PrepareError::Waiting(format!("the buyer's transfer {hash} is on its way"))
}
