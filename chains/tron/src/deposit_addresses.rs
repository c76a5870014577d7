//! Deposit addresses (ADR 153, 155): numbers that commit to a payment. Who sends the payment's money there has made the deposit; it is
//! carried into the escrow with the award, or given back.
//!
//! Nothing puts the contract that makes them at the same place on every network, so the configuration says where it is. All else
//! follows from that and from its code. Its `heldAsOf` tells by which block it answers, and the blocks of what was given back, which
//! nodes of Tron search for nobody.

use alloy::{
    primitives::{Address, B256, U256},
    sol_types::SolCall,
};

use chains::{deployment::Finding, deposit_address::worth_giving_back};
use escrow_abi::{
    artefacts::{self, DEPOSIT_ADDRESS, TRON_DEPOSIT_ADDRESSES},
    contracts::{DevToken as Trc20, word},
    deposit_addresses::{
        self,
        DepositAddresses::{self, Terms},
        TronDepositAddresses,
    },
    minimal_proxy,
};
use events::{
    Account, Amount, Hash32, OwnedAsset, PaymentId,
    event::{DepositAddress, EscrowPlan, EscrowRefunded},
};
use sagas::ports::{AddressFunds, AddressState, PayerDeposit, Transient};

use super::{
    address::{ConvertError, account, address, text, trc20},
    agreement::agreement,
    calls::GatewayCall,
    cost::ADMITTED_DEPOSIT_ENERGY_MAX,
    creation::{constructed, create2},
    deliveries::OrderError,
    node::{Answer, Node, State},
    query::ContractCode,
    reads::Read,
    search::{EventSearch, SearchScope},
};

/// So many returns after the one that is looked for are gone through. Whoever makes more pays for each.
const LATER_RETURNS_MAX: usize = 32;

/// What all addresses of a factory run: it is made by CREATE2 with the salt zero.
pub fn implementation(factory: Address) -> Address {
    create2(factory, B256::ZERO, &DEPOSIT_ADDRESS.creation)
}

/// The address for `terms`, whether its code is made or not: that of a minimal proxy whose salt is their hash.
pub fn address_for(factory: Address, terms: &Terms) -> Address {
    create2(factory, deposit_addresses::salt(terms), &minimal_proxy::creation(implementation(factory)))
}

/// What the deposit address of a payment commits to, of whose money at least `amount` is deposited. No quote is agreed to, for the
/// address is there before the auction.
fn committed(
    payment_id: &PaymentId,
    terms: &events::Terms,
    plan: &EscrowPlan,
    amount: Amount,
) -> Result<Terms, OrderError> {
    let deposit = agreement(payment_id, terms.source.account(), terms.hash(), Hash32::ZERO, plan)?;
    let (escrow, token) = (address(&plan.contract)?, trc20(terms.source.asset())?);
    Ok(deposit_addresses::terms(&deposit, escrow, token, amount))
}

/// The deposit address of a payment, whose code need not be there.
///
/// # Errors
/// [`OrderError`] for what fits no Tron chain.
pub fn of_payment(
    factory: Address,
    payment_id: &PaymentId,
    terms: &events::Terms,
    plan: &EscrowPlan,
    amount: Amount,
    pay_by: events::time::Timestamp,
    from_block: u64,
) -> Result<DepositAddress, OrderError> {
    let committed = committed(payment_id, terms, plan, amount)?;
    let account = |address: Address| account(address).ok_or_else(|| ConvertError::Address(address.to_string()));
    Ok(DepositAddress {
        amount,
        address: account(address_for(factory, &committed))?,
        factory: account(factory)?,
        implementation: account(implementation(factory))?,
        pay_by,
        from_block,
    })
}

/// Why an address that is on record is not the payment's at its factory, whose code is not looked at here; `None` where it is.
///
/// # Errors
/// [`OrderError`] for what fits no Tron chain.
pub(crate) fn mismatch(
    payment_id: &PaymentId,
    terms: &events::Terms,
    plan: &EscrowPlan,
    recorded: &DepositAddress,
) -> Result<Option<String>, OrderError> {
    let committed = committed(payment_id, terms, plan, recorded.amount)?;
    let factory = address(&recorded.factory)?;
    let (expected, found) = (address_for(factory, &committed), address(&recorded.address)?);
    if expected != found {
        return Ok(Some(format!("the payment's terms lead to {}, not to {}", text(expected), text(found))));
    }
    let code = address(&recorded.implementation)?;
    Ok((code != implementation(factory)).then(|| format!("addresses of its factory do not run {}", text(code))))
}

/// What the code found where the factory is, compared with this version's, and whose constructor made it: another one could have left in
/// its storage returns that there never were.
pub(crate) fn factory_findings(found: &ContractCode, factory: Address) -> Vec<Finding> {
    let mut findings = artefacts::tron_deposit_address_findings(&found.runtime, implementation(factory));
    if findings.iter().all(|finding| finding.fault.is_none()) {
        findings.push(constructed(&TRON_DEPOSIT_ADDRESSES, &found.creation, <[u8]>::is_empty));
    }
    findings
}

/// Whether the contract at `factory` is this version's.
///
/// # Errors
/// [`Transient`].
pub(crate) async fn is_factory(node: &Node, factory: Address) -> Result<bool, Transient> {
    let code = node.nodes().contract_code(factory).await.map_err(Transient::from)?;
    Ok(code.is_some_and(|code| factory_findings(&code, factory).iter().all(|finding| finding.fault.is_none())))
}

/// The contract that makes deposit addresses and the newest settled block, where the chain has one and the escrow takes what comes from
/// its addresses; `None` where not.
///
/// # Errors
/// [`Transient`].
pub async fn served_from(node: &Node, escrow: &Account) -> Result<Option<(Address, u64)>, Transient> {
    let Some(factory) = node.config().deposit_address_factory.as_ref().map(address).transpose()? else {
        return Ok(None);
    };
    let settled = node.settled().await?;
    if !is_factory(node, factory).await? {
        return Ok(None);
    }
    let code = node.nodes().contract_code(address(escrow)?).await.map_err(Transient::from)?;
    let is_taken = code.is_some_and(|code| artefacts::takes_deposits_for(&code.runtime));
    Ok(is_taken.then_some((factory, settled.number)))
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
    let (from, token, to) = (address(&given.address)?, trc20(source.asset())?, address(source.account())?);
    let transfer = Trc20::transferCall { to, value: U256::ZERO }.abi_encode();
    Ok(match node.trial(from, token, transfer, 0).await? {
        Answer::Returned { .. } => None,
        Answer::Reverted { reason, .. } => Some(reason),
    })
}

/// The address of a payment's deposit, with what it commits to.
pub(crate) struct Place {
    factory: Address,
    at: Address,
    terms: Terms,
    asked: Amount,
    from_block: u64,
}

/// What is at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    amount: U256,
    /// The block in which something was last given back; zero where nothing ever was.
    given_back_in: u64,
}

impl Place {
    /// Of the deposit, where it is made through an address.
    ///
    /// # Errors
    /// [`Transient`] where it is not, or fits no Tron chain.
    pub fn of(deposit: &PayerDeposit) -> Result<Self, Transient> {
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
    pub fn at(&self) -> Address {
        self.at
    }

    /// The token that is deposited.
    pub fn token(&self) -> Address {
        self.terms.token
    }

    /// The contract that commands the address.
    pub fn factory(&self) -> Address {
        self.factory
    }

    /// What is there of the token: by the solidified state, and what a log watcher saw in blocks since. A full node shows transfers that
    /// wait, too, of which anyone can make one that never lands, so its newest state is not asked. That there is too little is concluded
    /// at the time of the settled block.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn funds(&self, node: &Node) -> Result<AddressFunds, Transient> {
        let settled = node.settled().await?;
        let certain = self.held(node, State::Solidified).await?.at_least(&settled, node)?;
        let arrived = node.block_logs().arrived(self.token(), self.at, certain.number);
        let held = certain.record.map_or(U256::ZERO, |held| held.amount);
        Ok(AddressFunds {
            amount: Amount::new(held.saturating_add(arrived.amount)),
            block_number: arrived.block_number.unwrap_or(certain.number),
            block_time: settled.seconds(),
        })
    }

    /// What became of what is there, by a solidified block; where it was there in block `since`, after that one.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn state(&self, node: &Node, since: Option<u64>) -> Result<AddressState, Transient> {
        let settled = node.settled().await?;
        if settled.seconds() <= self.terms.deposit.reserveDeadline.to::<u64>() {
            return Ok(AddressState::Open);
        }
        let read = self.held(node, State::Solidified).await?.at_least(&settled, node)?;
        // That nothing is there may end the payment, and no event proves it.
        let again = self.held(node, State::Solidified).await?.at_least(&settled, node)?;
        let held = read.record.filter(|held| again.record == Some(*held));
        let held = held.ok_or_else(|| node.contradiction("two answers about a deposit address"))?;
        let amount = worth_giving_back(Amount::new(held.amount), self.asked);
        // What comes after what was given back is nobody's to wait for.
        if since.is_some() || amount.is_none() {
            let after = since.unwrap_or(self.from_block.saturating_sub(1));
            if held.given_back_in > after {
                return self.given_back(node, held.given_back_in, after).await.map(AddressState::GivenBack);
            }
        }
        Ok(match amount {
            Some(amount) => AddressState::Held { amount, block_number: read.number.min(again.number) },
            None => AddressState::Empty,
        })
    }

    /// The call that gives back what is there of the token.
    pub fn give_back(&self) -> GatewayCall {
        let call = DepositAddresses::giveBackCall { t: self.terms.clone(), token: self.terms.token };
        let (data, energy_max) = (call.abi_encode(), Some(ADMITTED_DEPOSIT_ENERGY_MAX));
        GatewayCall { contract: self.factory, data, energy_max, ..GatewayCall::default() }
    }

    /// What the contract's call is made with that deposits.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    async fn held(&self, node: &Node, state: State) -> Result<Read<Held>, Transient> {
        let call = TronDepositAddresses::heldAsOfCall { at: self.at, token: self.terms.token };
        let answer = match node.call(None, self.factory, &call, state).await? {
            Answer::Returned { value, .. } => value,
            Answer::Reverted { reason, .. } => return Err(node.contradiction(format!("heldAsOf: {reason}"))),
        };
        let given_back_in = u64::try_from(answer.lastGivenBackIn);
        let given_back_in = given_back_in.map_err(|_| node.contradiction("a return in no block that can be"))?;
        Read::new(node, answer.blockNumber, answer.time, Some(Held { amount: answer.held, given_back_in }))
    }

    /// The first return of the token after block `after`, found from the `last` one on backwards. It was of all that was there: what was
    /// given back after it came after it.
    async fn given_back(&self, node: &Node, last: u64, after: u64) -> Result<EscrowRefunded, Transient> {
        let (mut number, search) = (last, EventSearch::of(node));
        for _ in 0..LATER_RETURNS_MAX {
            let is = |event: &TronDepositAddresses::GivenBackAfter| event.from == self.at;
            let linked = search.find(&self.scope(number), is).await?;
            let before = u64::try_from(linked.event.previous).unwrap_or(u64::MAX);
            if before <= after || before >= number {
                break;
            }
            number = before;
        }
        let is = |event: &DepositAddresses::GivenBack| event.from == self.at && event.token == self.terms.token;
        let found = search.find(&self.scope(number), is).await?;
        let amount = Amount::new(found.event.amount).ok_or_else(|| node.contradiction("nothing was given back"))?;
        Ok(EscrowRefunded { inclusion: found.inclusion, amount, claims: Vec::new() })
    }

    fn scope(&self, number: u64) -> SearchScope<'static> {
        let payment = word(Hash32(self.terms.deposit.paymentId.0));
        SearchScope { contract: self.factory, number, state: State::Solidified, payment, known: &[] }
    }
}

#[cfg(test)]
mod tests {
    use alloy::primitives::{Bytes, hex, keccak256};

    use super::*;

    /// Computed apart, by the description in TRON's developer documentation and the artefacts' bytes.
    #[test]
    fn implementation_and_address_follow_from_the_factory_and_the_terms() {
        let factory = Address::repeat_byte(0x11);
        let hashed = |parts: &[&[u8]]| Address::from_word(keccak256(parts.concat()));
        let code = keccak256(&DEPOSIT_ADDRESS.creation);
        let runs = hashed(&[&[0x41], factory.as_slice(), &[0; 32], code.as_slice()]);
        assert_eq!(implementation(factory), runs);
        let terms = terms();
        let words: Bytes = alloy::sol_types::SolValue::abi_encode(&terms).into();
        assert_eq!(words.len(), 12 * 32);
        let proxy = [
            &hex!("3d602d80600a3d3981f3363d3d373d3d3d363d73")[..],
            runs.as_slice(),
            &hex!("5af43d82803e903d91602b57fd5bf3"),
        ]
        .concat();
        let salt = keccak256(&words);
        let expected = hashed(&[&[0x41], factory.as_slice(), salt.as_slice(), keccak256(proxy).as_slice()]);
        assert_eq!(address_for(factory, &terms), expected);
        assert_ne!(address_for(Address::repeat_byte(0x12), &terms), expected);
    }

    fn terms() -> Terms {
        let byte = Address::repeat_byte;
        Terms {
            escrow: byte(1),
            token: byte(2),
            amount: U256::from(3),
            deposit: deposit_addresses::GatewayEscrow::GatewayDeposit {
                paymentId: B256::repeat_byte(4),
                termsHash: B256::repeat_byte(5),
                quoteHash: B256::ZERO,
                payer: byte(6),
                reserver: byte(7),
                releaser: byte(8),
                reserveDeadline: "9".parse().unwrap(),
                fulfillmentDeadline: "10".parse().unwrap(),
                refundAfter: "11".parse().unwrap(),
            },
        }
    }
}
