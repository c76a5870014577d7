//! Batches (ADR 158): many payments for one signature. The first deposit of a batch draws all that was permitted to the batch's address, from
//! which each payment is deposited by itself.
//!
//! The contract that draws them is at one address on every chain, because it follows from its code alone ([`deploy`](crate::deploy)).
//! So nothing is configured: where it is, payments can be paid so.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use alloy::{
    primitives::{Address, B256, Bytes, aliases::U48},
    sol_types::SolCall,
};
use moka::future::Cache;

use escrow_abi::{
    artefacts::{self, PAYMENT_BATCHES},
    contracts::{self, ConvertError, address},
    payment_batches::{
        self, DepositAddresses, GatewayEscrow,
        PaymentBatches::{self, Batch},
    },
    permit2::Deployed,
};
use events::{
    Account, Amount, PaymentId, Terms,
    event::{BatchPermit, EscrowPlan},
};
use sagas::ports::{DepositOrder, Transient};

use super::{
    calls::Call,
    deployer,
    deposit_addresses::unquoted,
    factories::is_served,
    minimal_proxy::{self, implementation},
    node::{At, Node},
    query::Query,
    transaction::plain,
};

/// How long it counts whether a batch is drawn. Blocks are hardly closer.
const MOMENT: Duration = Duration::from_secs(1);
/// Batches of which it is known.
const BATCHES_MAX: u64 = 4_096;

/// Where the contract that draws batches is, on every chain.
static CONTRACT: LazyLock<Address> = LazyLock::new(|| deployer::place_of(&PAYMENT_BATCHES.creation));

/// Where the contract that draws batches is.
pub fn contract() -> Address {
    *CONTRACT
}

/// The address of a batch, whether its code is made or not: that of a minimal proxy whose salt is its hash.
pub(crate) fn address_of(contract: Address, implementation: Address, batch: &Batch) -> Address {
    minimal_proxy::address(contract, implementation, payment_batches::salt(batch))
}

/// What the tree of a batch has of a payment.
///
/// # Errors
/// [`ConvertError`] for what fits no EVM chain.
fn terms_of(
    payment_id: &PaymentId,
    terms: &Terms,
    plan: &EscrowPlan,
    amount: Amount,
) -> Result<DepositAddresses::Terms, ConvertError> {
    let (deposit, escrow, token) = unquoted(payment_id, terms, plan)?;
    Ok(payment_batches::terms(&deposit, escrow, token, amount))
}

/// The leaf of a payment in the tree of its batch.
///
/// # Errors
/// [`ConvertError`] for what fits no EVM chain.
pub fn leaf_of(payment_id: &PaymentId, terms: &Terms, plan: &EscrowPlan, amount: Amount) -> Result<B256, ConvertError> {
    Ok(payment_batches::leaf(&terms_of(payment_id, terms, plan, amount)?))
}

/// Why a batch that is on record is not one of the payment's, by what its payer signed; `None` where it is.
///
/// # Errors
/// [`ConvertError`] for what fits no EVM chain.
pub(crate) fn mismatch(
    payment_id: &PaymentId,
    terms: &Terms,
    plan: &EscrowPlan,
    recorded: &BatchPermit,
) -> Result<Option<String>, ConvertError> {
    let leaf = leaf_of(payment_id, terms, plan, recorded.amount)?;
    let root = payment_batches::root_by(leaf, &payment_batches::proof(recorded));
    if root.0 != recorded.payments.0 {
        return Ok(Some(format!("the payment leads to the root {root}, not to {}", recorded.payments)));
    }
    if recorded.deadline != plan.reserve_deadline {
        let (deadline, reserve_deadline) = (recorded.deadline, plan.reserve_deadline);
        return Ok(Some(format!("it ends at {deadline}, and the payment's reserve deadline is {reserve_deadline}")));
    }
    let (contract, code) = (address(&recorded.contract)?, address(&recorded.implementation)?);
    let batch = payment_batches::batch(recorded, terms.source.account(), &plan.contract)?;
    let (expected, found) = (address_of(contract, code, &batch), address(&recorded.address)?);
    let text = |address: Address| contracts::text(address);
    if expected != found {
        return Ok(Some(format!("it leads to the address {}, not to {}", text(expected), text(found))));
    }
    // Another contract may do anything with what it draws.
    let is_ours = contract == self::contract() && code == implementation(contract);
    Ok((!is_ours).then(|| format!("its contract {} is not known", text(contract))))
}

/// The digest that the payer of a batch on record signed.
///
/// # Errors
/// [`ConvertError`] for what fits no EVM chain.
pub(crate) fn recorded_digest(
    recorded: &BatchPermit,
    escrow: &Account,
    verified_by: Deployed,
) -> Result<B256, ConvertError> {
    Ok(payment_batches::message(recorded, escrow, verified_by)?.digest())
}

/// The newest settled block, where the chain has the contract that draws batches, and the escrow takes what comes from them; `None` where
/// not.
///
/// # Errors
/// [`Transient`].
pub async fn served_from(node: &Node, escrow: &Account) -> Result<Option<u64>, Transient> {
    let served = is_served(node, escrow, contract(), artefacts::payment_batch_findings);
    let (is_served, settled) = futures::try_join!(served, node.settled())?;
    Ok(is_served.then_some(settled.number))
}

/// Whether the batch with this address was drawn, by the newest block. Its code is there from then on; past its deadline a return of strays makes
/// it, too.
///
/// # Errors
/// [`Transient`].
pub async fn is_drawn(node: &Node, at: &Account) -> Result<bool, Transient> {
    Ok(!Query::of(node).code(address(at)?, At::Latest).await?.is_empty())
}

/// Which batches were drawn, asked of the node once a moment for all payments of one that wait for it.
#[derive(Clone)]
pub(crate) struct DrawnBatches {
    node: Node,
    lately: Cache<Account, bool>,
}

impl DrawnBatches {
    /// As `node` says.
    pub(crate) fn of(node: Node) -> Self {
        Self { node, lately: Cache::builder().time_to_live(MOMENT).max_capacity(BATCHES_MAX).build() }
    }

    /// As [`is_drawn`], a moment ago at most.
    ///
    /// # Errors
    /// [`Transient`].
    pub(crate) async fn has(&self, at: &Account) -> Result<bool, Transient> {
        let asked = self.lately.try_get_with_by_ref(at, is_drawn(&self.node, at)).await;
        asked.map_err(|error: Arc<Transient>| (*error).clone())
    }
}

/// The call that brings the payment's amount into the escrow with the award, and draws the batch before, where it is not drawn.
///
/// # Errors
/// [`ConvertError`] for what fits no EVM chain.
pub(crate) fn deposit_call(
    sender: Address,
    order: &DepositOrder,
    (recorded, signature): (&BatchPermit, Bytes),
    reservation: GatewayEscrow::Reservation,
    admitted_until: U48,
    reserver_signature: Bytes,
) -> Result<Call, ConvertError> {
    let data = PaymentBatches::depositCall {
        b: payment_batches::batch(recorded, order.terms.source.account(), &order.escrow.contract)?,
        signature,
        t: terms_of(&order.payment_id, &order.terms, &order.escrow, recorded.amount)?,
        proof: payment_batches::proof(recorded),
        r: reservation,
        admittedUntil: admitted_until,
        reserverSignature: reserver_signature,
    };
    Ok(plain(sender, address(&recorded.contract)?, data.abi_encode()))
}

/// The last second in which the escrow takes the deposit that `data` calls; `None` when it is none.
pub(crate) fn admitted_until(data: &[u8]) -> Option<u64> {
    PaymentBatches::depositCall::abi_decode(data).ok().map(|call| contracts::seconds(call.admittedUntil))
}

#[cfg(test)]
mod tests {
    use alloy::primitives::{U256, keccak256};
    use serde_json::Value;

    use escrow_abi::payment_batches::{BatchMessage, IPermit2, Tree, leaf, permitted};

    use super::*;

    fn address(value: &Value) -> Address {
        value.as_str().unwrap().parse().unwrap()
    }

    /// Payment `n` as the vectors' rule makes it.
    fn payment(vectors: &Value, n: u64) -> DepositAddresses::Terms {
        let (rule, deadline) = (&vectors["rule"], vectors["deadline"].as_u64().unwrap());
        let fulfillment_deadline = deadline + n % 7;
        DepositAddresses::Terms {
            escrow: address(&vectors["escrow"]),
            token: address(&rule["token"][usize::try_from(n % 3).unwrap()]),
            amount: U256::from(10).pow(U256::from(18)) * U256::from(n + 1) + U256::from(n),
            deposit: GatewayEscrow::GatewayDeposit {
                paymentId: keccak256(format!("payment-{n}")),
                termsHash: keccak256(format!("terms-{n}")),
                quoteHash: B256::ZERO,
                payer: address(&vectors["payer"]),
                reserver: address(&rule["reserver"]),
                releaser: address(&rule["releaser"]),
                reserveDeadline: U48::from(deadline),
                fulfillmentDeadline: U48::from(fulfillment_deadline),
                refundAfter: U48::from(fulfillment_deadline + 30 + n % 3),
            },
        }
    }

    /// What other implementations make of the same payments.
    #[test]
    fn batches_of_any_size_are_those_of_the_vectors() {
        let vectors: Value =
            serde_json::from_str(include_str!("../../../contracts/vectors/payment-batches.json")).unwrap();
        let (contract, code) = (address(&vectors["contract"]), address(&vectors["implementation"]));
        assert_eq!((contract, code), (super::contract(), implementation(super::contract())));
        for (n, shown) in vectors["payments"].as_array().unwrap().iter().enumerate() {
            assert_eq!(leaf(&payment(&vectors, n as u64)).to_string(), shown["leaf"], "{n}");
        }
        let batches = vectors["batches"].as_array().unwrap();
        assert!(batches.len() > 5);
        for shown in batches {
            let count = shown["count"].as_u64().unwrap();
            let payments: Vec<_> = (0..count).map(|n| payment(&vectors, n)).collect();
            let tree = Tree::of(payments.iter().map(leaf).collect()).unwrap();
            assert_eq!(tree.root().to_string(), shown["payments"], "{count}");
            let draws = payments.iter().map(|payment| (payment.token, Amount::new(payment.amount).unwrap()));
            let drawn = permitted(draws).unwrap();
            let texts: Vec<_> = shown["permitted"]
                .as_array()
                .unwrap()
                .iter()
                .map(|each| (address(&each["token"]), each["amount"].as_str().unwrap().parse::<U256>().unwrap()))
                .collect();
            assert_eq!(drawn, texts, "{count}");
            let (escrow, deadline) = (address(&vectors["escrow"]), vectors["deadline"].as_u64().unwrap());
            let message = BatchMessage {
                chain_id: U256::from(vectors["chain_id"].as_u64().unwrap()),
                permit2: address(&vectors["permit2"]),
                permitted: drawn.clone(),
                spender: contract,
                nonce: tree.root().into(),
                deadline,
                escrow,
                payments: tree.root(),
            };
            assert_eq!(message.digest().to_string(), shown["digest"], "{count}");
            let batch = Batch {
                payer: address(&vectors["payer"]),
                permitted: drawn
                    .iter()
                    .map(|(token, amount)| IPermit2::TokenPermissions { token: *token, amount: *amount })
                    .collect(),
                escrow,
                nonce: message.nonce,
                deadline: U256::from(deadline),
                payments: tree.root(),
            };
            assert_eq!(payment_batches::salt(&batch).to_string(), shown["salt"], "{count}");
            assert_eq!(address_of(contract, code, &batch), address(&shown["address"]), "{count}");
        }
    }
}
