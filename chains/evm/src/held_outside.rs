//! What is of a payment's money outside of its escrow: at its deposit address (ADR 153), or at the address of its batch (ADR 158). Before
//! the deposit it waits there; after a failure it is given back from there.

use alloy::{
    primitives::{Address, B256, U64},
    rpc::types::Log,
    sol_types::{SolCall, SolEvent},
};
use serde_json::json;

use chains::deposit_address::worth_giving_back;
use escrow_abi::{
    contracts::{self, ConvertError, DevToken as Erc20, address},
    deposit_addresses::DepositAddresses,
    payment_batches::{self, PaymentBatches},
};
use events::{
    Amount,
    event::{Authorization, EscrowRefunded},
};
use sagas::ports::{AddressFunds, AddressState, PayerDeposit, Transient};

use super::{
    calls::{Call, Calls},
    deposit_addresses::committed,
    logs::{RANGE_BLOCKS, RANGE_BLOCKS_MIN},
    node::{At, BlockRef, Node},
    query::Query,
    rpc::Fault,
    transaction::plain,
};

/// Where a payment's money may be outside of its escrow.
pub(crate) struct Place {
    /// The contract that alone moves what is there, and tells of it.
    factory: Address,
    at: Address,
    token: Address,
    /// Of what is there, so much is the payment's: with a deposit address all of it, and it was asked for so much.
    asked: Amount,
    from_block: u64,
    /// The last second in which a deposit may be made of it, UNIX.
    until: u64,
    commitment: Commitment,
}

/// What the address commits to.
enum Commitment {
    /// One payment.
    Payment(DepositAddresses::Terms),
    /// A batch, of which this payment is one.
    Batch(PaymentBatches::Batch),
}

impl Place {
    /// Of the deposit, where it is made through an address.
    ///
    /// # Errors
    /// [`Transient`] where it is not, or fits no EVM chain.
    pub(crate) fn of(deposit: &PayerDeposit) -> Result<Self, Transient> {
        Self::found(deposit)?.ok_or_else(|| Transient::misconfigured("the payment has no money outside of its escrow"))
    }

    fn found(deposit: &PayerDeposit) -> Result<Option<Self>, ConvertError> {
        let PayerDeposit { payment_id, terms, escrow, .. } = deposit;
        let token = contracts::erc20(terms.source.asset())?;
        let (factory, at, asked, from_block, commitment) = match &deposit.authorization {
            Authorization::DepositAddress(given) => {
                let committed = committed(payment_id, terms, escrow, given.amount)?;
                (&given.factory, &given.address, given.amount, given.from_block, Commitment::Payment(committed))
            }
            Authorization::EvmPermit2Batch(permit) => {
                let batch = payment_batches::batch(permit, terms.source.account(), &escrow.contract)?;
                let commitment = Commitment::Batch(batch);
                (&permit.contract, &permit.address, permit.amount, permit.from_block, commitment)
            }
            _ => return Ok(None),
        };
        let (factory, at, until) = (address(factory)?, address(at)?, escrow.reserve_deadline);
        Ok(Some(Self { factory, at, token, asked, from_block, until, commitment }))
    }

    /// The address.
    pub(crate) fn at(&self) -> Address {
        self.at
    }

    /// The token that is deposited.
    pub(crate) fn token(&self) -> Address {
        self.token
    }

    /// What is there of the token, by the newest block.
    ///
    /// # Errors
    /// [`Transient`].
    pub(crate) async fn funds(&self, node: &Node) -> Result<AddressFunds, Transient> {
        let head = node.head().await?;
        Ok(AddressFunds { amount: self.held(node, head).await?, block_number: head.number, block_time: head.time })
    }

    /// What became of what is there, by the newest settled block; where it was there in block `since`, after that one.
    ///
    /// # Errors
    /// [`Transient`].
    pub(crate) async fn state(&self, node: &Node, since: Option<u64>) -> Result<AddressState, Transient> {
        let settled = node.settled().await?;
        if settled.time <= self.until {
            return Ok(AddressState::Open);
        }
        if self.is_shared() {
            return self.shared_state(node, settled).await;
        }
        let held = self.held(node, settled).await?;
        let held = worth_giving_back(held, self.asked);
        // What comes after what was given back is nobody's to wait for.
        if since.is_some() || held.is_none() {
            let from = since.map_or(self.from_block, |since| since.saturating_add(1));
            // Nothing is given back from an address whose code is not made.
            if !Query::of(node).code(self.at, At::Block(settled)).await?.is_empty()
                && let Some(given_back) = self.given_back(node, from, settled).await?
            {
                return Ok(AddressState::GivenBack(given_back));
            }
        }
        Ok(self.held_in(held, settled))
    }

    /// The same of a batch's address. What came there and was given back before the batch was drawn, or where it never was, is nothing
    /// of a payment's.
    async fn shared_state(&self, node: &Node, settled: BlockRef) -> Result<AddressState, Transient> {
        let Some(drawn_in) = self.drawn_in(node, settled).await? else { return Ok(AddressState::Empty) };
        if let Some(given_back) = self.given_back(node, drawn_in, settled).await? {
            return Ok(AddressState::GivenBack(given_back));
        }
        let held = self.held(node, settled).await?;
        Ok(self.held_in(worth_giving_back(held, self.asked).map(|held| self.share(held)), settled))
    }

    fn held_in(&self, held: Option<Amount>, settled: BlockRef) -> AddressState {
        match held {
            Some(amount) => AddressState::Held { amount, block_number: settled.number },
            None => AddressState::Empty,
        }
    }

    /// The call that gives back what is there of the token.
    pub(crate) fn give_back(&self, sender: Address) -> Call {
        let token = self.token;
        let data = match &self.commitment {
            Commitment::Payment(terms) => DepositAddresses::giveBackCall { t: terms.clone(), token }.abi_encode(),
            Commitment::Batch(batch) => PaymentBatches::giveBackCall { b: batch.clone(), token }.abi_encode(),
        };
        plain(sender, self.factory, data)
    }

    /// The address and the token of which something may be there.
    pub(crate) fn key(&self) -> (Address, Address) {
        (self.at, self.token)
    }

    /// Whether one call gives back what many payments have left there.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.commitment, Commitment::Batch(_))
    }

    /// What of so much that is there, or was given back from there, is the payment's.
    pub(crate) fn share(&self, of: Amount) -> Amount {
        match &self.commitment {
            Commitment::Payment(_) => of,
            Commitment::Batch(_) => of.min(self.asked),
        }
    }

    /// The contract that is called.
    pub(crate) fn factory(&self) -> Address {
        self.factory
    }

    async fn held(&self, node: &Node, block: BlockRef) -> Result<Option<Amount>, Transient> {
        let call = Erc20::balanceOfCall { account: self.at };
        let held = Calls::of(node).view(self.token, &call, At::Block(block)).await?;
        let held = held.ok_or_else(|| node.contradiction(format!("there is no token at {}", self.token)))?;
        Ok(Amount::new(held))
    }

    /// The block in which the batch was drawn, up to the block `up_to`.
    async fn drawn_in(&self, node: &Node, up_to: BlockRef) -> Result<Option<u64>, Transient> {
        let drawn = |log: &Log| {
            let event = PaymentBatches::Drawn::decode_log(&log.inner).ok()?.data;
            (event.at == self.at).then_some(())
        };
        let kind = PaymentBatches::Drawn::SIGNATURE_HASH;
        Ok(self.first_said(node, kind, (self.from_block, up_to), drawn).await?.map(|(said, ())| said.number))
    }

    /// The first return of the token from here, from the block `from` up to the block `up_to`. It was of all that was there: what was given back
    /// after it came after it.
    async fn given_back(&self, node: &Node, from: u64, up_to: BlockRef) -> Result<Option<EscrowRefunded>, Transient> {
        let returned = |log: &Log| {
            // Both contracts have this event.
            let event = DepositAddresses::GivenBack::decode_log(&log.inner).ok()?.data;
            (event.from == self.at && event.token == self.token).then_some(event.amount)
        };
        let kind = DepositAddresses::GivenBack::SIGNATURE_HASH;
        let Some((said, amount)) = self.first_said(node, kind, (from, up_to), returned).await? else { return Ok(None) };
        let block = node.below(said.number, said.hash, up_to).await?;
        let amount = Amount::new(amount).ok_or_else(|| node.contradiction("nothing was given back"))?;
        let (inclusion, amount) = (node.inclusion(said.transaction, block), self.share(amount));
        Ok(Some(EscrowRefunded { inclusion, amount, claims: Vec::new() }))
    }

    /// The first event of this kind of which `read` makes something, that the contract told of the address in these blocks.
    async fn first_said<T>(
        &self,
        node: &Node,
        kind: B256,
        (from, up_to): (u64, BlockRef),
        read: impl Fn(&Log) -> Option<T>,
    ) -> Result<Option<(Said, T)>, Transient> {
        let (mut bottom, mut range) = (from, RANGE_BLOCKS);
        while bottom <= up_to.number {
            let top = bottom.saturating_add(range - 1).min(up_to.number);
            let filter = json!({
                "fromBlock": U64::from(bottom), "toBlock": U64::from(top), "address": self.factory,
                "topics": [kind, self.at.into_word()],
            });
            let logs: Vec<Log> = match node.request("eth_getLogs", (filter,)).await {
                Ok(logs) => logs,
                Err(Fault::Rejected(_)) if range > RANGE_BLOCKS_MIN => {
                    range /= 2;
                    continue;
                }
                Err(fault) => return Err(fault.into()),
            };
            let found = logs.iter().filter(|log| !log.removed && log.address() == self.factory).filter_map(|log| {
                let place = (log.block_number?, log.log_index?);
                let said = Said { number: place.0, hash: log.block_hash?, transaction: log.transaction_hash? };
                Some((place, said, read(log)?))
            });
            if let Some((_, said, read)) = found.min_by_key(|(place, ..)| *place) {
                return Ok(Some((said, read)));
            }
            bottom = top.saturating_add(1);
        }
        Ok(None)
    }
}

/// Where an event is.
struct Said {
    number: u64,
    hash: B256,
    transaction: B256,
}
