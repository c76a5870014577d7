//! Deposits by Permit2 through the engine's port: one transaction that deposits and reserves, whoever sends it, and nothing else that a
//! payer's signature is good for.

mod ends;
mod served;

use std::slice::from_ref;

use alloy::{
    primitives::{B256, Bytes, U256, aliases::U48},
    signers::{SignerSync, local::PrivateKeySigner},
    sol,
    sol_types::{SolCall, SolStruct},
};
use anyhow::{Context, Result, bail};

use chains_tron::{
    address::{address, parse_address},
    node::{Answer, State},
    permit2,
};
use escrow_abi::{
    contracts::GatewayEscrow::{self, depositMoreWithWitnessCall, depositWithWitnessCall},
    eip712::{self, Admission, escrow_domain},
};
use events::Hash32;
use sagas::ports::{Chains, DepositOrder, DepositState, EscrowState, PrepareError};

use crate::support::{
    TOKENS, World, holder, key,
    payment::{CAP, PRICE, reason, refusal},
    permitted::{call_of, permit},
    quoted::amount,
};

const WINDOW: u64 = 600;

sol! {
    struct TokenPermissions {
        address token;
        uint256 amount;
    }

    struct PermitTransferFrom {
        TokenPermissions permitted;
        uint256 nonce;
        uint256 deadline;
    }

    struct SignatureTransferDetails {
        address to;
        uint256 requestedAmount;
    }

    function permitTransferFrom(
        PermitTransferFrom permit,
        SignatureTransferDetails transferDetails,
        address owner,
        bytes signature
    ) external;

    function permitWitnessTransferFrom(
        PermitTransferFrom permit,
        SignatureTransferDetails transferDetails,
        address owner,
        bytes32 witness,
        string witnessTypeString,
        bytes signature
    ) external;
}

/// Whether Permit2 has the payer's nonce of this order as used.
async fn is_used(world: &World, order: &DepositOrder) -> Result<bool> {
    let permit2 = world.contracts.permit2.parse()?;
    Ok(permit2::is_used(&world.node(), &permit2, &holder(&world.payer), permit(order).nonce).await?)
}

#[tokio::test]
async fn one_transaction_deposits_what_the_award_asks_for_and_reserves_it() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let order = world.permitted(WINDOW).await?;
    let sun = world.sun(&world.payer).await?;
    assert!(!is_used(&world, &order).await?);
    assert_eq!(chains.deposit_secured(&order).await?, None);
    let prepared = chains.prepare_deposit(&order, 1).await?;
    let (contract, data) = call_of(&prepared.raw)?;
    let call = depositWithWitnessCall::abi_decode(&data)?;
    assert_eq!((contract, call.d.payer), (world.escrow(), world.payer.address()));
    assert_eq!((call.r.settler, call.r.sourceAmount), (world.settler.address(), U256::from(PRICE)));
    // As long as the transaction can get into a block, and no longer.
    let admitted_until = call.admittedUntil.to::<u64>();
    assert!((1..=60).contains(&admitted_until.saturating_sub(world.time().await?)), "{admitted_until}");
    assert!(prepared.validity.expiration_ms().is_some_and(|end| end <= admitted_until * 1_000));

    assert_eq!(chains.deposit_mined(&order, from_ref(&prepared)).await?, None);
    chains.broadcast(&prepared).await?;
    world.mine(1).await?;
    let mined = chains.deposit_mined(&order, from_ref(&prepared)).await?.context("it is in no block")?;
    assert_eq!(mined.transaction_hash, prepared.transaction_hash);
    assert_eq!(chains.deposit_state(&order, from_ref(&prepared)).await?, DepositState::Pending, "not solidified");
    world.solidify().await?;
    let DepositState::Secured(secured) = chains.deposit_state(&order, from_ref(&prepared)).await? else {
        bail!("it is not in escrow")
    };
    assert_eq!((&secured.inclusion, secured.amount, &secured.deposit), (&mined, amount(PRICE), &None));
    assert_eq!(chains.deposit_secured(&order).await?, Some(secured));
    assert_eq!(world.tokens(&world.payer).await?, TOKENS - PRICE);
    assert_eq!(world.sun(&world.payer).await?, sun, "the payer pays no fee");
    assert!(is_used(&world, &order).await?);
    let allowed = world.allowed().await?;
    assert_eq!(allowed, U256::from(CAP - PRICE), "what is not drawn stays allowed");
    assert_eq!(chains.escrow_state(&order.payment_id, &order.escrow).await?, EscrowState::Held);
    assert!(!chains.deposit_ruled_out(&order.payment_id, &order.escrow, 0).await?);
    // Who does not know the terms is told them by the events.
    let found = world.chains().escrow_found(&order.payer_deposit()).await?.context("nothing is found")?;
    assert_eq!((found.amount, found.reserved_for), (amount(PRICE), Some(order.reservation.quote_hash)));

    let again = reason(chains.prepare_deposit(&order, 2).await)?;
    assert!(again.contains("is used by a deposit already"), "{again}");
    let again = world.dev.execute(&world.settler, &world.contracts.escrow, data, 0).await;
    assert!(again.is_err_and(|error| error.to_string().contains("PaymentIdUsed")));
    Ok(())
}

impl World {
    /// What Permit2 may draw on the payer.
    async fn allowed(&self) -> Result<U256> {
        let spender = parse_address(&self.contracts.permit2)?;
        let call = escrow_abi::contracts::DevToken::allowanceCall { owner: self.payer.address(), spender };
        match self.node().call(None, self.token_address(), &call, State::Newest).await? {
            Answer::Returned { value, .. } => Ok(value),
            other => bail!("{other:?}"),
        }
    }
}

/// Room for a dearer settler that may follow, as far as the payer permits.
#[tokio::test]
async fn a_larger_deposit_is_of_as_much_as_the_payer_permits_and_no_more() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let order = world.permitted(WINDOW).await?;
    world.allow_permit2(2 * CAP).await?;
    let above = reason(chains.prepare_larger_deposit(&order, amount(CAP + 1), 1).await)?;
    assert!(above.contains("AmountAboveCap") && above.contains(&CAP.to_string()), "{above}");
    let below = reason(chains.prepare_larger_deposit(&order, amount(PRICE - 1), 1).await)?;
    assert!(below.contains("AmountAboveCap"), "{below}");
    let dearer = DepositOrder {
        reservation: sagas::ports::Reservation { source_amount: amount(CAP + 1), ..order.reservation.clone() },
        ..order.clone()
    };
    let above = reason(chains.prepare_deposit(&dearer, 1).await)?;
    assert!(above.contains("AmountAboveCap"), "{above}");

    let prepared = chains.prepare_larger_deposit(&order, amount(CAP), 1).await?;
    let call = depositMoreWithWitnessCall::abi_decode(&call_of(&prepared.raw)?.1)?;
    assert_eq!((call.amount, call.r.sourceAmount), (U256::from(CAP), U256::from(PRICE)));
    world.settle(&chains, &prepared).await?;
    let DepositState::Secured(secured) = chains.deposit_state(&order, from_ref(&prepared)).await? else {
        bail!("it is not in escrow")
    };
    assert_eq!((secured.amount, secured.deposit), (amount(CAP), None));
    assert_eq!(world.tokens(&world.payer).await?, TOKENS - CAP);
    let found = world.chains().escrow_found(&order.payer_deposit()).await?.context("nothing is found")?;
    assert_eq!(found.amount, amount(CAP));
    Ok(())
}

#[tokio::test]
async fn a_stranger_who_copies_the_call_makes_the_same_deposit() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let order = world.permitted(WINDOW).await?;
    let prepared = chains.prepare_deposit(&order, 1).await?;
    let (_, data) = call_of(&prepared.raw)?;
    let theirs = world.dev.execute(&world.settler, &world.contracts.escrow, data, 0).await?;
    chains.broadcast(&prepared).await?;
    world.mine(1).await?;
    let own = world.node().info(prepared.transaction_hash.parse()?, State::Newest).await?.context("in no block")?;
    assert!(own.failure.as_deref().is_some_and(|failure| failure.contains("PaymentIdUsed")), "{own:?}");
    assert_eq!(chains.deposit_mined(&order, from_ref(&prepared)).await?, None);
    assert_eq!(chains.deposit_state(&order, from_ref(&prepared)).await?, DepositState::Pending);
    world.solidify().await?;
    let DepositState::Secured(secured) = chains.deposit_state(&order, from_ref(&prepared)).await? else {
        bail!("it is not in escrow")
    };
    assert_eq!((secured.inclusion.transaction_hash, secured.amount), (theirs.id.to_string(), amount(PRICE)));
    assert_eq!(world.tokens(&world.payer).await?, TOKENS - PRICE, "once");
    Ok(())
}

/// The admission of `call`, by another key or for another domain.
fn admitted(
    call: &depositWithWitnessCall,
    order: &DepositOrder,
    key: &PrivateKeySigner,
    (chain, escrow): (u64, alloy::primitives::Address),
) -> Result<Bytes> {
    let (source, plan) = (&order.terms.source, &order.escrow);
    let deposit = eip712::GatewayDeposit {
        paymentId: call.d.paymentId,
        termsHash: call.d.termsHash,
        quoteHash: call.d.quoteHash,
        payer: address(source.account())?,
        reserver: call.d.reserver,
        releaser: address(&plan.releaser)?,
        reserveDeadline: call.d.reserveDeadline,
        fulfillmentDeadline: call.d.fulfillmentDeadline,
        refundAfter: call.d.refundAfter,
    };
    let reservation = eip712::Reservation {
        paymentId: call.r.paymentId,
        quoteHash: call.r.quoteHash,
        settler: call.r.settler,
        sourceAmount: call.r.sourceAmount,
        fulfillBy: call.r.fulfillBy,
    };
    let message = Admission { deposit, reservation, token: call.p.token, admittedUntil: call.admittedUntil };
    let digest = message.eip712_signing_hash(&escrow_domain(chain, escrow));
    Ok(key.sign_hash_sync(&digest)?.as_bytes().to_vec().into())
}

/// Whoever has seen the payer's signature and the gateway's: neither is of use for anything else.
#[tokio::test]
async fn a_signature_that_others_have_seen_takes_nothing_in_another_call_or_escrow() -> Result<()> {
    let world = World::start().await?;
    let (chains, thief) = (world.chains(), key(44));
    let chain = u64::from(world.node().reference());
    let theirs = world.another_escrow(&thief, world.permit2()).await?.escrow;
    // As much as can be taken.
    let order = world.permitted(WINDOW).await?;
    world.allow_permit2(TOKENS).await?;
    let prepared = chains.prepare_deposit(&order, 1).await?;
    let call = depositWithWitnessCall::abi_decode(&call_of(&prepared.raw)?.1)?;
    let refused = async |contract: &str, data: Vec<u8>, why: &str| -> Result<()> {
        match world.node().trial(thief.address(), parse_address(contract)?, data, 0).await? {
            Answer::Reverted { reason, .. } if reason.contains(why) => Ok(()),
            other => bail!("{why}: {other:?}"),
        }
    };
    type Alter<'a> = Box<dyn Fn(&mut depositWithWitnessCall) + 'a>;
    let own = thief.address();
    let altered: [(&str, Alter<'_>); 9] = [
        ("ReserverSignatureInvalid", Box::new(|call| call.r.settler = own)),
        ("ReserverSignatureInvalid", Box::new(|call| call.r.sourceAmount += U256::from(1))),
        ("ReserverSignatureInvalid", Box::new(|call| call.admittedUntil += U48::from(1))),
        ("ReserverSignatureInvalid", Box::new(|call| call.d.releaser = own)),
        ("ReserverSignatureInvalid", Box::new(|call| call.d.refundAfter += U48::from(1))),
        ("ReserverNotAdmitted", Box::new(|call| call.d.reserver = own)),
        ("InvalidSigner", Box::new(|call| call.p.amount = U256::from(TOKENS))),
        ("InvalidSigner", Box::new(|call| call.p.deadline += U256::from(1))),
        ("Invalid", Box::new(|call| call.p.signature = vec![1; 65].into())),
    ];
    for (why, alter) in &altered {
        let mut other = call.clone();
        alter(&mut other);
        refused(&world.contracts.escrow, other.abi_encode(), why).await?;
    }
    // With an admission by a key of the thief's, for its own account.
    let mut other = call.clone();
    other.r.settler = own;
    other.reserverSignature = admitted(&other, &order, &thief, (chain, world.escrow()))?;
    refused(&world.contracts.escrow, other.abi_encode(), "ReserverSignatureInvalid").await?;

    // In an escrow of the thief's own, which draws by the same Permit2.
    let there = address(&theirs)?;
    refused(theirs.as_str(), call.abi_encode(), "ReserverNotAdmitted").await?;
    let mut other = call.clone();
    (other.d.reserver, other.r.settler) = (own, own);
    other.reserverSignature = admitted(&other, &order, &thief, (chain, there))?;
    refused(theirs.as_str(), other.abi_encode(), "InvalidSigner").await?;

    // By Permit2 itself, which takes the signature from the escrow alone.
    let permit = PermitTransferFrom {
        permitted: TokenPermissions { token: call.p.token, amount: call.p.amount },
        nonce: call.p.nonce,
        deadline: call.p.deadline,
    };
    let details = SignatureTransferDetails { to: own, requestedAmount: U256::from(1) };
    let (owner, signature) = (world.payer.address(), call.p.signature.clone());
    let plain = permitTransferFromCall {
        permit: permit.clone(),
        transferDetails: details.clone(),
        owner,
        signature: signature.clone(),
    };
    refused(&world.contracts.permit2, plain.abi_encode(), "InvalidSigner").await?;
    let witnessed = permitWitnessTransferFromCall {
        permit,
        transferDetails: details,
        owner,
        witness: witness(&call.d),
        witnessTypeString:
            "GatewayDeposit witness)GatewayDeposit(bytes32 paymentId,bytes32 termsHash,bytes32 quoteHash,\
            address payer,address reserver,address releaser,uint48 reserveDeadline,uint48 fulfillmentDeadline,\
            uint48 refundAfter)TokenPermissions(address token,uint256 amount)"
                .to_owned(),
        signature,
    };
    refused(&world.contracts.permit2, witnessed.abi_encode(), "InvalidSigner").await?;

    assert_eq!(world.tokens(&world.payer).await?, TOKENS);
    assert!(!is_used(&world, &order).await?);
    // What the payer did sign for goes through all the same.
    let second = chains.prepare_deposit(&order, 2).await?;
    world.settle(&chains, &second).await?;
    let state = chains.deposit_state(&order, &[prepared, second]).await?;
    assert!(matches!(state, DepositState::Secured(_)), "{state:?}");
    Ok(())
}

fn witness(deposit: &GatewayEscrow::GatewayDeposit) -> B256 {
    let GatewayEscrow::GatewayDeposit { paymentId, termsHash, quoteHash, payer, reserver, releaser, .. } =
        deposit.clone();
    let of = eip712::GatewayDeposit {
        paymentId,
        termsHash,
        quoteHash,
        payer,
        reserver,
        releaser,
        reserveDeadline: deposit.reserveDeadline,
        fulfillmentDeadline: deposit.fulfillmentDeadline,
        refundAfter: deposit.refundAfter,
    };
    of.eip712_hash_struct()
}

/// A permit of another payment's terms, or of another's key, is none of this order's, whatever the journal says.
#[tokio::test]
async fn a_permit_of_another_order_is_refused_when_it_is_tried_out() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let (order, other) = (world.permitted(WINDOW).await?, world.permitted(WINDOW).await?);
    let strangers = DepositOrder { authorization: other.authorization, ..order.clone() };
    let refused = refusal(chains.prepare_deposit(&strangers, 1).await)?;
    let why = refused.context.revert_reason.clone().context("no reason")?;
    assert!(why.contains("NonceNotOfPayment"), "{why}");
    // What was tried out can be made by whoever was shown it for a short time only.
    assert!(refused.valid_until <= world.time().await? + 90, "{refused:?}");
    let mut elsewhere = order.clone();
    elsewhere.escrow.contract = world.contracts.proxy.parse()?;
    let outcome = chains.prepare_deposit(&elsewhere, 1).await;
    assert!(matches!(outcome, Err(PrepareError::Transient(_))), "{outcome:?}");
    assert_eq!(world.waiting().await?, 0);
    Ok(())
}

/// A quote that the payer agreed to is the only one.
#[tokio::test]
async fn a_permit_for_a_quote_is_for_no_other() -> Result<()> {
    let world = World::start().await?;
    let chains = world.chains();
    let until = world.time().await? + WINDOW;
    let id = crate::support::payment::next_id(&world.payer);
    let mut spend = world.request(&world.payer, id, CAP, until - WINDOW / 2, until)?;
    spend.quote_hash = Hash32([9; 32]);
    let order = world.permitted_for(spend).await?;
    assert_eq!((permit(&order).quote_hash, order.reservation.quote_hash), (Hash32([9; 32]), Hash32([9; 32])));
    let mut other = order.clone();
    other.reservation.quote_hash = Hash32([10; 32]);
    let refused = reason(chains.prepare_deposit(&other, 1).await)?;
    assert!(refused.contains("QuoteHashMismatch"), "{refused}");
    let prepared = chains.prepare_deposit(&order, 1).await?;
    world.settle(&chains, &prepared).await?;
    let state = chains.deposit_state(&order, from_ref(&prepared)).await?;
    assert!(matches!(state, DepositState::Secured(_)), "{state:?}");
    let found = world.chains().escrow_found(&order.payer_deposit()).await?.context("nothing is found")?;
    assert_eq!(found.reserved_for, Some(Hash32([9; 32])));
    Ok(())
}
