//! Deposit addresses (ADR 153): numbers that commit to a payment. Who sends the payment's money there has made the deposit; it is carried
//! into the escrow with the award, or given back.
//!
//! The contract that makes them is at one address on every chain, because it follows from its code alone
//! ([`deploy`](crate::deploy)). So nothing is configured: where it is, payments can be paid so.

use std::sync::LazyLock;

use alloy::{
    primitives::{Address, Bytes, U64, U256, aliases::U48},
    rpc::types::Log,
    sol_types::{SolCall, SolEvent},
};
use serde_json::json;

use chains::deposit_address::worth_giving_back;
use escrow_abi::{
    artefacts::{self, DEPOSIT_ADDRESSES},
    contracts::{self, ConvertError, DevToken as Erc20, address},
    deposit_addresses::{
        self,
        DepositAddresses::{self, Terms},
        GatewayEscrow,
    },
    eip712,
};
use events::{
    Account, Amount, Hash32, OwnedAsset, PaymentId,
    event::{DepositAddress, EscrowPlan, EscrowRefunded},
};
use sagas::ports::{AddressFunds, AddressState, PayerDeposit, Transient};

use super::{
    calls::{Call, CallError, Calls},
    deployer,
    logs::{RANGE_BLOCKS, RANGE_BLOCKS_MIN},
    minimal_proxy::{self, implementation},
    node::{At, BlockRef, Node},
    query::Query,
    rpc::Fault,
    transaction::plain,
};

/// Where the contract that makes deposit addresses is, on every chain.
static FACTORY: LazyLock<Address> = LazyLock::new(|| deployer::place_of(&DEPOSIT_ADDRESSES.creation));

/// Where the contract that makes deposit addresses is.
pub fn factory() -> Address {
    *FACTORY
}

/// The address for `terms`, whether its code is made or not: that of a minimal proxy whose salt is their hash.
pub fn address_for(factory: Address, implementation: Address, terms: &Terms) -> Address {
    minimal_proxy::address(factory, implementation, deposit_addresses::salt(terms))
}

/// What the deposit address of a payment commits to.
fn committed(
    payment_id: &PaymentId,
    terms: &events::Terms,
    plan: &EscrowPlan,
    amount: Amount,
) -> Result<Terms, ConvertError> {
    let payer = address(terms.source.account())?;
    let deposit = eip712::deposit(payment_id, terms.hash(), Hash32::ZERO, payer, plan)?;
    let (escrow, token) = (address(&plan.contract)?, contracts::erc20(terms.source.asset())?);
    Ok(deposit_addresses::terms(&deposit, escrow, token, amount))
}

/// The deposit address of a payment at this version's contract, whose code need not be there.
///
/// # Errors
/// [`ConvertError`] for what fits no EVM chain.
pub fn of_payment(
    payment_id: &PaymentId,
    terms: &events::Terms,
    plan: &EscrowPlan,
    amount: Amount,
    pay_by: events::time::Timestamp,
    from_block: u64,
) -> Result<DepositAddress, ConvertError> {
    let committed = committed(payment_id, terms, plan, amount)?;
    let (factory, implementation) = (factory(), implementation(factory()));
    let account =
        |address: Address| contracts::account(address).ok_or_else(|| ConvertError::Address(address.to_string()));
    Ok(DepositAddress {
        amount,
        address: account(address_for(factory, implementation, &committed))?,
        factory: account(factory)?,
        implementation: account(implementation)?,
        pay_by,
        from_block,
    })
}

/// Why an address that is on record is not the payment's; `None` where it is.
///
/// # Errors
/// [`ConvertError`] for what fits no EVM chain.
pub fn mismatch(
    payment_id: &PaymentId,
    terms: &events::Terms,
    plan: &EscrowPlan,
    recorded: &DepositAddress,
) -> Result<Option<String>, ConvertError> {
    let committed = committed(payment_id, terms, plan, recorded.amount)?;
    let (factory, code) = (address(&recorded.factory)?, address(&recorded.implementation)?);
    let (expected, found) = (address_for(factory, code, &committed), address(&recorded.address)?);
    let text = |address: Address| contracts::text(address);
    if expected != found {
        return Ok(Some(format!("the payment's terms lead to {}, not to {}", text(expected), text(found))));
    }
    // Another factory's addresses may do anything with what comes there.
    let is_ours = factory == self::factory() && code == implementation(factory);
    Ok((!is_ours).then(|| format!("its factory {} is not known", text(factory))))
}

/// Whether the token lets the refund account receive, as far as a transfer of nothing tells: a blocklisted account could not be given
/// anything back.
///
/// # Errors
/// [`Transient`]; the token's own reason where it refuses.
pub async fn refuses_refunds(
    node: &Node,
    given: &DepositAddress,
    source: &OwnedAsset,
) -> Result<Option<String>, Transient> {
    let (from, token, to) = (address(&given.address)?, contracts::erc20(source.asset())?, address(source.account())?);
    let transfer = Erc20::transferCall { to, value: U256::ZERO }.abi_encode();
    let call = plain(from, token, transfer);
    match Calls::of(node).call_foreign(&call, At::Latest, node.config().gas.call_max).await {
        Ok(_) => Ok(None),
        Err(CallError::Reverted(revert)) => Ok(Some(revert.reason)),
        Err(CallError::Transient(fault)) => Err(fault),
    }
}

/// The newest settled block, where the chain has the contract that makes deposit addresses, and the escrow takes what comes from them; `None`
/// where not.
///
/// # Errors
/// [`Transient`].
pub async fn served_from(node: &Node, escrow: &Account) -> Result<Option<u64>, Transient> {
    let (newest, settled) = futures::try_join!(node.head(), node.settled())?;
    let head = At::Block(newest);
    let (query, escrow) = (Query::of(node), address(escrow)?);
    let (made_by, escrow) = futures::try_join!(query.code(factory(), head), query.code(escrow, head))?;
    let is_ours = artefacts::deposit_address_findings(&made_by, implementation(factory()))
        .iter()
        .all(|finding| finding.fault.is_none());
    Ok((is_ours && artefacts::takes_deposits_for(&escrow)).then_some(settled.number))
}

/// The address of a payment's deposit, with what it commits to.
pub(crate) struct Place {
    factory: Address,
    at: Address,
    terms: Terms,
    asked: Amount,
    from_block: u64,
}

impl Place {
    /// Of the deposit, where it is made through an address.
    ///
    /// # Errors
    /// [`Transient`] where it is not, or fits no EVM chain.
    pub(crate) fn of(deposit: &PayerDeposit) -> Result<Self, Transient> {
        let recorded = deposit.authorization.deposit_address();
        let recorded = recorded.ok_or_else(|| Transient::misconfigured("the payment has no deposit address"))?;
        let PayerDeposit { payment_id, terms, escrow, .. } = deposit;
        Ok(Self {
            factory: address(&recorded.factory)?,
            at: address(&recorded.address)?,
            terms: committed(payment_id, terms, escrow, recorded.amount)?,
            asked: recorded.amount,
            from_block: recorded.from_block,
        })
    }

    /// The address.
    pub(crate) fn at(&self) -> Address {
        self.at
    }

    /// The token that is deposited.
    pub(crate) fn token(&self) -> Address {
        self.terms.token
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
        if settled.time <= self.terms.deposit.reserveDeadline.to::<u64>() {
            return Ok(AddressState::Open);
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
        Ok(match held {
            Some(amount) => AddressState::Held { amount, block_number: settled.number },
            None => AddressState::Empty,
        })
    }

    /// The call that gives back what is there of the token.
    pub(crate) fn give_back(&self, sender: Address) -> Call {
        let data = DepositAddresses::giveBackCall { t: self.terms.clone(), token: self.terms.token }.abi_encode();
        plain(sender, self.factory, data)
    }

    /// The contract that is called.
    pub(crate) fn factory(&self) -> Address {
        self.factory
    }

    async fn held(&self, node: &Node, block: BlockRef) -> Result<Option<Amount>, Transient> {
        let call = Erc20::balanceOfCall { account: self.at };
        let held = Calls::of(node).view(self.terms.token, &call, At::Block(block)).await?;
        let held = held.ok_or_else(|| node.contradiction(format!("there is no token at {}", self.terms.token)))?;
        Ok(Amount::new(held))
    }

    /// The first return of the token from here, from the block `from` up to the block `up_to`. It was of all that was there: what was given back after it came
    /// after it.
    async fn given_back(&self, node: &Node, from: u64, up_to: BlockRef) -> Result<Option<EscrowRefunded>, Transient> {
        let (mut bottom, mut range) = (from, RANGE_BLOCKS);
        while bottom <= up_to.number {
            let top = bottom.saturating_add(range - 1).min(up_to.number);
            let filter = json!({
                "fromBlock": U64::from(bottom), "toBlock": U64::from(top), "address": self.factory,
                "topics": [DepositAddresses::GivenBack::SIGNATURE_HASH, self.at.into_word()],
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
                let event = DepositAddresses::GivenBack::decode_log(&log.inner).ok()?.data;
                let is_it = event.from == self.at && event.token == self.terms.token;
                let place = (log.block_number?, log.log_index?);
                is_it.then_some((place, log.block_hash?, log.transaction_hash?, event.amount))
            });
            if let Some(((number, _), hash, transaction, amount)) = found.min_by_key(|(place, ..)| *place) {
                let block = node.below(number, hash, up_to).await?;
                let amount = Amount::new(amount).ok_or_else(|| node.contradiction("nothing was given back"))?;
                let inclusion = node.inclusion(transaction, block);
                return Ok(Some(EscrowRefunded { inclusion, amount, claims: Vec::new() }));
            }
            bottom = top.saturating_add(1);
        }
        Ok(None)
    }
}

/// The call that brings `amount` of what is at the payment's address into the escrow, with the award.
pub(crate) fn deposit_call(
    sender: Address,
    place: &Place,
    amount: U256,
    reservation: GatewayEscrow::Reservation,
    admitted_until: U48,
    reserver_signature: Bytes,
) -> Call {
    let data = DepositAddresses::depositCall {
        t: place.terms.clone(),
        amount,
        r: reservation,
        admittedUntil: admitted_until,
        reserverSignature: reserver_signature,
    };
    plain(sender, place.factory, data.abi_encode())
}

/// The last second in which the escrow takes the deposit that `data` calls; `None` when it is none.
pub(crate) fn admitted_until(data: &[u8]) -> Option<u64> {
    DepositAddresses::depositCall::abi_decode(data).ok().map(|call| contracts::seconds(call.admittedUntil))
}
