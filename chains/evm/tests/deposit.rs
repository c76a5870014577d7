//! Deposits on a real chain: secured, reverted, superseded, expired, made by others.

use std::slice::from_ref;

use alloy::{
    primitives::{TxKind, U256},
    sol_types::SolCall,
};
use anyhow::{Result, bail};

use chains_evm::{adapter::EvmChain, attest, authorization::Scheme, escrows::Escrows, node::At};
use escrow_abi::{
    attest::sign_preimage,
    contracts::{GatewayEscrow, address, parse_address},
    eip712,
};
use events::{Hash32, event::EscrowPlan};
use journal::ledger::{Ledger, Purpose, SignerAccount};
use sagas::ports::{Chains, DepositState, EscrowState, PrepareError, RefundOrder, Statement, TransactionState};

use crate::support::*;

alloy::sol! {
    struct GatewayDeposit {
        bytes32 paymentId;
        bytes32 termsHash;
        bytes32 quoteHash;
        address payer;
        address reserver;
        address releaser;
        uint48 reserveDeadline;
        uint48 fulfillmentDeadline;
        uint48 refundAfter;
    }

    struct Opening {
        GatewayDeposit deposit;
        address token;
        uint256 amount;
    }
}

impl From<eip712::GatewayDeposit> for GatewayDeposit {
    fn from(deposit: eip712::GatewayDeposit) -> Self {
        Self {
            paymentId: deposit.paymentId,
            termsHash: deposit.termsHash,
            quoteHash: deposit.quoteHash,
            payer: deposit.payer,
            reserver: deposit.reserver,
            releaser: deposit.releaser,
            reserveDeadline: deposit.reserveDeadline,
            fulfillmentDeadline: deposit.fulfillmentDeadline,
            refundAfter: deposit.refundAfter,
        }
    }
}

#[tokio::test]
async fn both_schemes_secure_the_quoted_amount_and_nothing_more() -> Result<()> {
    let world = World::start().await?;
    let destination = world.destination.asset();
    let mut before = world.source.balance(&world.payer).await?;
    for (id, scheme) in [("witness", Scheme::EvmPermit2Escrow), ("plain", Scheme::EvmPermit2)] {
        let payment = world.payment_by(id, scheme, &destination)?;
        let order = payment.deposit();
        assert_eq!(world.chains.escrow_state(payment.id(), &payment.escrow).await?, EscrowState::Absent);
        let prepared = world.chains.prepare_deposit(&order, 1).await?;
        assert_eq!(
            world.chains.prepare_deposit(&order, 1).await?.validity,
            prepared.validity,
            "one purpose, one nonce"
        );
        assert_eq!(world.chains.deposit_state(&order, from_ref(&prepared)).await?, DepositState::Pending);
        assert_eq!(world.chains.deposit_mined(&order, from_ref(&prepared)).await?, None);

        world.chains.broadcast(&prepared).await?;
        world.chains.broadcast(&prepared).await?;
        assert_eq!(
            world.chains.deposit_state(&order, from_ref(&prepared)).await?,
            DepositState::Pending,
            "not deep enough"
        );
        let mined = world.chains.deposit_mined(&order, from_ref(&prepared)).await?;
        world.source.mine(DEPTH).await?;
        let DepositState::Secured(secured) = world.chains.deposit_state(&order, from_ref(&prepared)).await? else {
            bail!("not secured");
        };
        assert_eq!(secured.inclusion.transaction_hash, prepared.transaction_hash);
        assert_eq!(mined, Some(secured.inclusion), "shown where it is before it is settled there");
        assert_eq!(secured.amount.to_string(), PRICE.to_string());
        assert_eq!(world.chains.escrow_state(payment.id(), &payment.escrow).await?, EscrowState::Held);
        let after = world.source.balance(&world.payer).await?;
        assert_eq!(before - after, PRICE);
        before = after;
        world.chains.broadcast(&prepared).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_reverted_deposit_tells_why() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("order")?;
    let prepared = world.chains.prepare_deposit(&payment.deposit(), 1).await?;
    let source = &world.source;
    source.dev.approve(&world.payer, &source.token, &source.contracts.permit2, U256::ZERO).await?;
    world.chains.broadcast(&prepared).await?;
    assert_eq!(world.chains.deposit_state(&payment.deposit(), from_ref(&prepared)).await?, DepositState::Pending);
    source.mine(DEPTH).await?;
    assert_eq!(
        world.chains.deposit_state(&payment.deposit(), from_ref(&prepared)).await?,
        DepositState::Pending,
        "admitted still"
    );
    world.end_admissions().await?;
    let DepositState::Reverted(context) = world.chains.deposit_state(&payment.deposit(), from_ref(&prepared)).await?
    else {
        bail!("not reverted");
    };
    assert_eq!(context.transaction_hash.as_deref(), Some(prepared.transaction_hash.as_str()));
    assert_eq!(context.contract_address.as_deref(), Some(source.contracts.escrow.as_str()));
    assert!(context.revert_reason.unwrap().contains("TRANSFER_FROM_FAILED"));
    assert!(context.gas_used.unwrap().parse::<u64>()? > 21_000);
    assert!(context.block_number.is_some());

    let now = world.now().await?;
    match world.chains.prepare_deposit(&payment.deposit(), 2).await {
        Err(PrepareError::Refused(refusal)) => {
            assert!(refusal.context.revert_reason.unwrap().contains("TRANSFER_FROM_FAILED"));
            assert_eq!(refusal.context.transaction_hash, None);
            assert!((now + 15..now + 20).contains(&refusal.valid_until), "{} at {now}", refusal.valid_until);
        }
        other => bail!("not refused: {other:?}"),
    }
    Ok(())
}

/// Its calldata is public once it reverted, and the payer mends the allowance for another payment.
#[tokio::test]
async fn a_reverted_deposit_is_given_up_only_when_nobody_can_make_it_any_more() -> Result<()> {
    let world = World::start().await?;
    let source = &world.source;
    let stranger = key(40);
    source.dev.fund(&text(&stranger), U256::from(10).pow(U256::from(18))).await?;
    for (id, scheme) in [("witness", Scheme::EvmPermit2Escrow), ("plain", Scheme::EvmPermit2)] {
        let payment = world.payment_by(id, scheme, &world.destination.asset())?;
        let order = payment.deposit();
        let prepared = world.chains.prepare_deposit(&order, 1).await?;
        source.dev.approve(&world.payer, &source.token, &source.contracts.permit2, U256::ZERO).await?;
        world.chains.broadcast(&prepared).await?;
        source.dev.approve(&world.payer, &source.token, &source.contracts.permit2, U256::MAX).await?;
        source.mine(DEPTH).await?;
        assert_eq!(world.chains.deposit_state(&order, from_ref(&prepared)).await?, DepositState::Pending);

        // The end has passed, but no settled block says so.
        let end = world.now().await? + ADMISSION_SECONDS;
        let _: serde_json::Value = source.dev.rpc("evm_setNextBlockTimestamp", (end + 1,)).await?;
        source.mine(DEPTH).await?;
        assert_eq!(world.chains.deposit_state(&order, from_ref(&prepared)).await?, DepositState::Pending);
        assert!(!world.chains.deposit_ruled_out(payment.id(), &payment.escrow, end).await?);
        source.mine(1).await?;
        assert!(matches!(world.chains.deposit_state(&order, from_ref(&prepared)).await?, DepositState::Reverted(_)));
        assert!(world.chains.deposit_ruled_out(payment.id(), &payment.escrow, end).await?);

        let before = source.balance(&world.payer).await?;
        let refused = resend_as(&world, &prepared.raw, &stranger).await.unwrap_err();
        assert!(format!("{refused:#}").contains("AdmissionExpired"), "{refused:#}");
        assert_eq!(source.balance(&world.payer).await?, before);
    }
    Ok(())
}

#[tokio::test]
async fn a_deposit_mined_too_late_is_tried_again() -> Result<()> {
    let world = World::start().await?;
    for (id, scheme) in [("witness", Scheme::EvmPermit2Escrow), ("plain", Scheme::EvmPermit2)] {
        let payment = world.payment_by(id, scheme, &world.destination.asset())?;
        let order = payment.deposit();
        let late = world.chains.prepare_deposit(&order, 1).await?;
        world.end_admissions().await?;
        world.chains.broadcast(&late).await?;
        assert_eq!(
            world.chains.deposit_state(&order, from_ref(&late)).await?,
            DepositState::Pending,
            "not deep enough"
        );
        world.source.mine(DEPTH).await?;
        let DepositState::Superseded { evidence } = world.chains.deposit_state(&order, from_ref(&late)).await? else {
            bail!("not superseded");
        };
        assert!(evidence.contains(&late.transaction_hash), "{evidence}");
        let second = world.chains.prepare_deposit(&order, 2).await?;
        world.chains.broadcast(&second).await?;
        world.source.mine(1 + DEPTH).await?;
        assert!(matches!(world.chains.deposit_state(&order, from_ref(&second)).await?, DepositState::Secured(_)));
        let passed = world.source.node.settled().await?.time - 1;
        assert!(!world.chains.deposit_ruled_out(payment.id(), &payment.escrow, passed).await?, "it is in escrow");
    }
    Ok(())
}

#[tokio::test]
async fn a_refusal_after_the_nonce_was_taken_still_uses_it_up() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("order")?;
    let prepared = world.chains.prepare_deposit(&payment.deposit(), 1).await?;
    let source = &world.source;
    source.dev.approve(&world.payer, &source.token, &source.contracts.permit2, U256::ZERO).await?;
    // The worker died here, and asks again for the same attempt.
    let again = world.chains.prepare_deposit(&payment.deposit(), 1).await?;
    assert_eq!(again.validity, prepared.validity);
    world.chains.broadcast(&again).await?;
    source.mine(1 + DEPTH).await?;
    assert_eq!(world.chains.deposit_state(&payment.deposit(), from_ref(&again)).await?, DepositState::Pending);
    world.end_admissions().await?;
    assert!(matches!(
        world.chains.deposit_state(&payment.deposit(), from_ref(&again)).await?,
        DepositState::Reverted(_)
    ));
    Ok(())
}

#[tokio::test]
async fn a_superseded_nonce_is_found_at_depth_only() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("order")?;
    let prepared = world.chains.prepare_deposit(&payment.deposit(), 1).await?;
    let account = SignerAccount { chain_id: payment.escrow.chain_id.clone(), address: text(&world.submitter).parse()? };
    let open = world.ledger.open(&account).await?;
    assert_eq!(open[0].purpose, Purpose(format!("{}/deposit/1", payment.id())));
    // Any transaction of the same account takes the nonce.
    world.source.dev.approve(&world.submitter, &world.source.token, &text(&key(1)), U256::from(1)).await?;
    assert_eq!(world.chains.deposit_state(&payment.deposit(), from_ref(&prepared)).await?, DepositState::Pending);
    assert_eq!(world.chains.transaction_state(from_ref(&prepared)).await?, TransactionState::Pending);
    world.source.mine(DEPTH).await?;
    // A copy of its call may still be sent by whoever saw it.
    assert_eq!(world.chains.deposit_state(&payment.deposit(), from_ref(&prepared)).await?, DepositState::Pending);
    world.end_admissions().await?;
    let DepositState::Superseded { evidence } =
        world.chains.deposit_state(&payment.deposit(), from_ref(&prepared)).await?
    else {
        bail!("not superseded");
    };
    assert!(evidence.contains(&prepared.transaction_hash), "{evidence}");
    assert!(matches!(world.chains.transaction_state(from_ref(&prepared)).await?, TransactionState::Dead { .. }));
    // The next attempt gets the next nonce and goes through.
    let second = world.chains.prepare_deposit(&payment.deposit(), 2).await?;
    assert_eq!(nonce_of(&second), nonce_of(&prepared) + 1);
    world.chains.broadcast(&second).await?;
    world.source.mine(1 + DEPTH).await?;
    assert!(matches!(
        world.chains.deposit_state(&payment.deposit(), from_ref(&second)).await?,
        DepositState::Secured(_)
    ));
    Ok(())
}

#[tokio::test]
async fn a_nonce_that_nothing_used_is_filled_in_time() -> Result<()> {
    let world = World::start().await?;
    let (lost, waiting) = (world.payment("lost")?, world.payment("waiting")?);
    // The worker dies with the first, and the payment needs it no more; the second is stuck behind it.
    let unused = world.chains.prepare_deposit(&lost.deposit(), 1).await?;
    let stuck = world.chains.prepare_deposit(&waiting.deposit(), 1).await?;
    assert_eq!(nonce_of(&stuck), nonce_of(&unused) + 1);
    world.chains.broadcast(&stuck).await?;
    world.source.mine(1 + DEPTH).await?;
    assert_eq!(world.chains.deposit_state(&waiting.deposit(), from_ref(&stuck)).await?, DepositState::Pending);

    let secured = async {
        eventually("the stuck deposit gets through", || async {
            world.source.mine(1).await?;
            let state = world.chains.deposit_state(&waiting.deposit(), from_ref(&stuck)).await?;
            Ok(matches!(state, DepositState::Secured(_)))
        })
        .await
    };
    let gateway = [world.gateway.clone()];
    let in_time =
        tokio::time::timeout(std::time::Duration::from_millis(300), EvmChain::maintain(&gateway, &*world.clock)).await;
    assert!(in_time.is_err(), "it runs for as long as it is let");
    let next = world.source.query().nonce(world.submitter.address(), At::Latest).await?;
    assert_eq!(next, nonce_of(&unused), "too young to be given up");
    world.clock.advance(REPRICE_SECONDS as i64 + 1);
    world.gateway.maintain_once().await;
    world.clock.advance(REPRICE_SECONDS as i64 + 1);
    tokio::select! {
        () = EvmChain::maintain(&gateway, &*world.clock) => bail!("it ended"),
        secured = secured => secured?,
    }
    world.end_admissions().await?;
    let superseded = world.chains.deposit_state(&lost.deposit(), from_ref(&unused)).await?;
    assert!(matches!(superseded, DepositState::Superseded { .. }));
    Ok(())
}

#[tokio::test]
async fn a_window_that_closed_without_a_deposit_is_expired_when_settled() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("order")?;
    let prepared = world.chains.prepare_deposit(&payment.deposit(), 1).await?;
    let source = &world.source;
    let _: serde_json::Value =
        source.dev.rpc("evm_setNextBlockTimestamp", (payment.escrow.reserve_deadline + 1,)).await?;
    source.mine(1).await?;
    assert_eq!(world.chains.deposit_state(&payment.deposit(), from_ref(&prepared)).await?, DepositState::Pending);
    source.mine(DEPTH).await?;
    assert!(matches!(
        world.chains.deposit_state(&payment.deposit(), from_ref(&prepared)).await?,
        DepositState::Expired { .. }
    ));
    // Too late, the transaction lands after all: it can only revert.
    world.chains.broadcast(&prepared).await?;
    source.mine(1 + DEPTH).await?;
    assert!(matches!(world.chains.transaction_state(from_ref(&prepared)).await?, TransactionState::Dead { .. }));
    assert!(matches!(
        world.chains.deposit_state(&payment.deposit(), from_ref(&prepared)).await?,
        DepositState::Expired { .. }
    ));
    Ok(())
}

#[tokio::test]
async fn a_deposit_that_a_stranger_brought_counts() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("order")?;
    let prepared = world.chains.prepare_deposit(&payment.deposit(), 1).await?;
    let stranger = key(40);
    world.source.dev.fund(&text(&stranger), U256::from(10).pow(U256::from(18))).await?;
    let theirs = resend_as(&world, &prepared.raw, &stranger).await?;
    world.chains.broadcast(&prepared).await?;
    world.source.mine(1 + DEPTH).await?;
    let DepositState::Secured(secured) = world.chains.deposit_state(&payment.deposit(), from_ref(&prepared)).await?
    else {
        bail!("not secured");
    };
    assert_eq!(secured.inclusion.transaction_hash, theirs);
    Ok(())
}

#[tokio::test]
async fn an_escrow_of_another_payer_under_the_payment_id_is_not_the_payments() -> Result<()> {
    let world = World::start().await?;
    let payment = world.payment("order")?;
    let prepared = world.chains.prepare_deposit(&payment.deposit(), 1).await?;
    let source = &world.source;
    let stranger = key(41);
    source.dev.fund(&text(&stranger), U256::from(10).pow(U256::from(18))).await?;
    source.dev.mint(&source.token, &text(&stranger), U256::from(1)).await?;
    source.dev.approve(&stranger, &source.token, &source.contracts.escrow, U256::MAX).await?;
    let plan = EscrowPlan { releaser: text(&stranger).parse()?, ..payment.escrow.clone() };
    let deposit = eip712::deposit(payment.id(), Hash32::ZERO, Hash32::ZERO, stranger.address(), &plan)?;
    let (token, amount) = (parse_address(&source.token)?, U256::from(1));
    let opening = Opening { deposit: deposit.clone().into(), token, amount };
    let domain = eip712::escrow_domain(31_337, parse_address(&source.contracts.escrow)?);
    let signed = sign_preimage(&key(2).into(), &eip712::preimage(&opening, &domain)).await?;
    let call = GatewayEscrow::depositOwnCall {
        d: (&deposit).into(),
        token,
        amount,
        reserverSignature: hex::decode(&signed[2..])?.into(),
    };
    send_as(&world, &stranger, &source.contracts.escrow, call.abi_encode()).await?;
    world.chains.broadcast(&prepared).await?;
    eventually("the deposit is in a block", || async {
        let receipt: serde_json::Value =
            source.dev.rpc("eth_getTransactionReceipt", (&prepared.transaction_hash,)).await?;
        Ok(!receipt.is_null())
    })
    .await?;
    world.end_admissions().await?;
    assert_eq!(world.chains.escrow_state(payment.id(), &payment.escrow).await?, EscrowState::Absent);
    let passed = source.node.settled().await?.time - 1;
    assert!(world.chains.deposit_ruled_out(payment.id(), &payment.escrow, passed).await?);
    let DepositState::Reverted(context) = world.chains.deposit_state(&payment.deposit(), from_ref(&prepared)).await?
    else {
        bail!("not reverted");
    };
    assert!(context.revert_reason.unwrap().starts_with("PaymentIdUsed"));
    Ok(())
}

#[tokio::test]
async fn an_escrow_address_without_a_contract_is_refused() -> Result<()> {
    let world = World::start().await?;
    let mut order = world.payment("order")?.deposit();
    order.escrow.contract = text(&key(50)).parse()?;
    assert!(matches!(world.chains.prepare_deposit(&order, 1).await, Err(PrepareError::Refused(_))));
    assert_eq!(world.chains.escrow_state(&order.payment_id, &order.escrow).await?, EscrowState::Absent);
    Ok(())
}

/// An escrow of another layout would take the deposit: what is signed for it is the same.
#[tokio::test]
async fn nothing_goes_into_an_escrow_whose_records_cannot_be_read() -> Result<()> {
    let world = World::start().await?;
    let order = world.payment("order")?.deposit();
    let other = world.source.contracts.permit2.clone();
    for (contract, readable) in [(&world.source.contracts.escrow, Some(true)), (&other, Some(false))] {
        let found = Escrows::of(&world.source.node).is_readable(&contract.parse()?).await?;
        assert_eq!(found, readable, "{contract}");
    }
    assert_eq!(Escrows::of(&world.source.node).is_readable(&text(&key(50)).parse()?).await?, None);
    let mut elsewhere = order.clone();
    elsewhere.escrow.contract = other.parse()?;
    let refused = world.chains.prepare_deposit(&elsewhere, 1).await;
    let Err(PrepareError::Transient(fault)) = &refused else { bail!("{refused:?}") };
    assert!(fault.to_string().contains("keeps no records that can be read"), "{fault}");
    assert!(world.chains.prepare_deposit(&order, 1).await.is_ok());
    Ok(())
}

#[tokio::test]
async fn refunds_go_back_by_statement_or_by_time() -> Result<()> {
    let world = World::start().await?;
    let before = world.source.balance(&world.payer).await?;
    let by_statement = world.payment("statement")?;
    let by_time = world.payment("time")?;
    for payment in [&by_statement, &by_time] {
        world.secure(payment).await?;
    }
    let statement =
        Statement::NonDelivery { payment_id: by_statement.id().clone(), quote_hash: by_statement.quote.hash() };
    let escrow = address(&by_statement.escrow.contract)?;
    let signed = attest::sign_statement(&key(3).into(), &statement, 31_337, escrow).await?;
    assert!(world.chains.attestation_holds(&statement, &by_statement.escrow, &signed).await?);
    let forged = attest::sign_statement(&key(4).into(), &statement, 31_337, escrow).await?;
    assert!(!world.chains.attestation_holds(&statement, &by_statement.escrow, &forged).await?);
    let elsewhere = attest::sign_statement(&key(3).into(), &statement, 31_338, escrow).await?;
    assert!(!world.chains.attestation_holds(&statement, &by_statement.escrow, &elsewhere).await?);
    assert!(!world.chains.attestation_holds(&statement, &by_statement.escrow, "0x00").await?);

    let order = |payment: &Payment, non_delivery| RefundOrder {
        payment_id: payment.id().clone(),
        escrow: payment.escrow.clone(),
        non_delivery,
    };
    let refused = world.chains.prepare_refund(&order(&by_time, None), 1).await;
    match refused {
        Err(PrepareError::Refused(refusal)) => {
            assert_eq!(refusal.valid_until, 0);
            assert!(refusal.context.revert_reason.unwrap().starts_with("RefundWindowNotOpen(refundAfter: "));
        }
        other => bail!("not refused: {other:?}"),
    }
    let cancel = world.chains.prepare_refund(&order(&by_statement, Some(signed)), 1).await?;
    world.chains.broadcast(&cancel).await?;
    assert_eq!(world.chains.escrow_state(by_statement.id(), &by_statement.escrow).await?, EscrowState::Held);
    world.source.pass(by_time.escrow.refund_after).await?;
    let EscrowState::Refunded(refunded) = world.chains.escrow_state(by_statement.id(), &by_statement.escrow).await?
    else {
        bail!("not refunded");
    };
    assert_eq!(refunded.inclusion.transaction_hash, cancel.transaction_hash);
    assert_eq!(refunded.amount.to_string(), PRICE.to_string());

    let refund = world.chains.prepare_refund(&order(&by_time, None), 1).await?;
    world.chains.broadcast(&refund).await?;
    world.source.mine(1 + DEPTH).await?;
    assert!(matches!(world.chains.escrow_state(by_time.id(), &by_time.escrow).await?, EscrowState::Refunded(_)));
    assert_eq!(world.source.balance(&world.payer).await?, before);
    Ok(())
}

/// Sends the call of a signed transaction from another account.
async fn resend_as(world: &World, raw: &str, signer: &alloy::signers::local::PrivateKeySigner) -> Result<String> {
    use alloy::{
        consensus::{Transaction, TxEnvelope},
        eips::eip2718::Decodable2718,
    };
    let bytes = hex::decode(raw.trim_start_matches("0x"))?;
    let envelope = TxEnvelope::decode_2718(&mut bytes.as_slice())?;
    let Some(TxKind::Call(to)) = Some(envelope.kind()) else { bail!("no call") };
    send_as(world, signer, &format!("{to:#x}"), envelope.input().to_vec()).await
}

async fn send_as(
    world: &World,
    signer: &alloy::signers::local::PrivateKeySigner,
    to: &str,
    data: Vec<u8>,
) -> Result<String> {
    use chains_evm::{calls::Call, wallet::Wallet};
    let wallet = Wallet::new(world.source.node.clone(), signer.clone());
    let call = Call { from: signer.address(), to: Some(parse_address(to)?), value: U256::ZERO, data: data.into() };
    Ok(wallet.execute("test", &call).await?.transaction_hash.to_string())
}
