//! The gateway's own release, on each family's real runtime: it pays the settler whatever has become of it, is refused where the
//! escrow takes none, and where somebody else's comes first its transaction is given up by proof.

use std::{slice::from_ref, time::Duration};

use anyhow::{Context, Result, bail, ensure};

use chains::{
    auditor::{Audit, check_prepared},
    evm::{attest, contracts::address},
};
use events::event::{EscrowPlan, TransactionPrepared};
use sagas::ports::{
    Chains, DepositOrder, EscrowState, PrepareError, RefundOrder, ReleaseOrder, Statement, TransactionState,
};

use crate::{solana_support, support, tron_support};

fn order(deposit: &DepositOrder, attestation: String) -> ReleaseOrder {
    ReleaseOrder {
        payment_id: deposit.payment_id.clone(),
        escrow: deposit.escrow.clone(),
        quote_hash: deposit.reservation.quote_hash,
        payout_account: deposit.reservation.payout_account.clone(),
        attestation,
    }
}

fn statement(deposit: &DepositOrder) -> Statement {
    Statement::Delivery {
        payment_id: deposit.payment_id.clone(),
        quote_hash: deposit.reservation.quote_hash,
        payout_account: deposit.reservation.payout_account.clone(),
    }
}

/// Why a release is refused, which costs nothing and shows a node nothing that anybody could misuse. It is an attempt that has no
/// nonce: one that has uses it up, so that what comes behind is not held up.
async fn refused(chains: &dyn Chains, order: &ReleaseOrder) -> Result<String> {
    match chains.prepare_release(order, 2).await {
        Err(PrepareError::Refused(refusal)) => {
            ensure!(refusal.valid_until == 0, "{refusal:?}");
            refusal.context.revert_reason.context("no reason")
        }
        other => bail!("not refused: {other:?}"),
    }
}

mod on_evm {
    use super::*;
    use support::*;

    fn attested(payment: &Payment) -> Result<String> {
        let escrow = address(&payment.escrow.contract)?;
        Ok(attest::sign_statement(&key(3), &statement(&payment.deposit()), 31_337, escrow)?)
    }

    #[tokio::test]
    async fn the_gateway_pays_a_settler_that_is_gone_and_only_in_time() -> Result<()> {
        let world = World::start().await?;
        let payment = world.payment("gone")?;
        let release = order(&payment.deposit(), attested(&payment)?);
        assert!(refused(&world.chains, &release).await?.starts_with("StateNotAllowed"), "nothing is reserved");
        world.secure(&payment).await?;
        let before = world.source.balance(&world.settler).await?;

        let forged = attest::sign_statement(
            &key(4),
            &statement(&payment.deposit()),
            31_337,
            address(&payment.escrow.contract)?,
        )?;
        refused(&world.chains, &ReleaseOrder { attestation: forged, ..release.clone() }).await?;

        let prepared = world.chains.prepare_release(&release, 1).await?;
        assert_eq!(check_prepared(&prepared), Ok(()));
        // Nothing is sent before it is journaled; asked again, as after a crash, it has the same nonce.
        assert_eq!(world.source.balance(&world.settler).await?, before);
        let again = world.chains.prepare_release(&release, 1).await?;
        assert_eq!((again.nonce, &again.sender), (prepared.nonce, &prepared.sender));
        assert_eq!(world.chains.transaction_state(from_ref(&prepared)).await?, TransactionState::Pending);
        world.chains.broadcast(&prepared).await?;
        world.chains.broadcast(&prepared).await?;
        world.source.mine(1 + DEPTH).await?;
        let state = world.chains.escrow_state(payment.id(), &payment.escrow).await?;
        let EscrowState::Released(inclusion) = state else { bail!("{state:?}") };
        assert_eq!(inclusion.transaction_hash, prepared.transaction_hash);
        assert_eq!(world.source.balance(&world.settler).await?, before + PRICE);
        assert!(refused(&world.chains, &release).await?.starts_with("StateNotAllowed"));

        let late = world.payment("late")?;
        world.secure(&late).await?;
        let release = order(&late.deposit(), attested(&late)?);
        world.source.pass(late.escrow.refund_after).await?;
        assert!(refused(&world.chains, &release).await?.starts_with("ReleaseWindowClosed"));
        assert_eq!(world.chains.escrow_state(late.id(), &late.escrow).await?, EscrowState::Lapsed);
        Ok(())
    }

    #[tokio::test]
    async fn a_release_of_the_settlers_that_comes_first_is_found_and_the_gateways_is_given_up() -> Result<()> {
        let world = World::start().await?;
        let payment = world.payment("overtaken")?;
        world.secure(&payment).await?;
        let before = world.source.balance(&world.settler).await?;
        let attestation = attested(&payment)?;
        let prepared = world.chains.prepare_release(&order(&payment.deposit(), attestation.clone()), 1).await?;
        // The settler's own goes into the block before.
        let settling = chains::evm::settler::SettlerChain::new(world.source.node.clone(), world.settler.clone());
        let theirs = settling.release(payment.id(), &payment.escrow, &attestation).await?.transaction_hash;
        world.chains.broadcast(&prepared).await?;
        world.source.mine(1 + DEPTH).await?;
        let state = world.chains.escrow_state(payment.id(), &payment.escrow).await?;
        let EscrowState::Released(inclusion) = state else { bail!("{state:?}") };
        assert_eq!(inclusion.transaction_hash, theirs);
        assert_eq!(world.source.balance(&world.settler).await?, before + PRICE);
        // It came too late, used its nonce, and nothing waits behind it.
        let state = world.chains.transaction_state(from_ref(&prepared)).await?;
        let TransactionState::Dead { evidence } = state else { bail!("{state:?}") };
        assert!(evidence.contains(&prepared.transaction_hash), "{evidence}");
        world.secure(&world.payment("next")?).await
    }
}

mod on_solana {
    use super::*;
    use solana_support::*;

    async fn ended(chains: &dyn Chains, deposit: &DepositOrder) -> Result<EscrowState> {
        let ask = || chains.escrow_state(&deposit.payment_id, &deposit.escrow);
        until(ask, |state| !matches!(state, EscrowState::Held)).await
    }

    #[tokio::test]
    async fn the_gateway_pays_a_settler_that_is_gone_and_its_own_account_alone() -> Result<()> {
        let world = World::start().await?;
        let chains = world.chains();
        let deposit = world.order(600).await?;
        let release = order(&deposit, world.attest(&world.statement(&deposit)));
        assert!(refused(&chains, &release).await?.starts_with("nothing is in escrow"));
        let prepared = chains.prepare_deposit(&deposit, 1).await?;
        settle(&chains, &deposit, &[prepared]).await?;
        let before = world.tokens(&world.settler).await?;

        let wrong = ReleaseOrder { attestation: world.attest(&world.non_delivery(&deposit)), ..release.clone() };
        assert!(refused(&chains, &wrong).await?.contains("the Ed25519 signature does not hold"));
        let elsewhere = ReleaseOrder { payout_account: chains::solana::keys::account(&world.payer), ..release.clone() };
        assert!(refused(&chains, &elsewhere).await?.contains("under another quote"));

        let prepared = chains.prepare_release(&release, 1).await?;
        assert_eq!(check_prepared(&prepared), Ok(()));
        assert_eq!(world.tokens(&world.settler).await?, before);
        chains.broadcast(&prepared).await?;
        chains.broadcast(&prepared).await?;
        let state = ended(&chains, &deposit).await?;
        let EscrowState::Released(inclusion) = state else { bail!("{state:?}") };
        assert_eq!(inclusion.transaction_hash, prepared.transaction_hash);
        assert_eq!(world.tokens(&world.settler).await?, before + PRICE);
        assert!(refused(&chains, &release).await?.contains("paid out already"));
        Ok(())
    }

    #[tokio::test]
    async fn no_account_is_made_for_a_settler_that_could_close_it_for_its_rent() -> Result<()> {
        let world = World::start().await?;
        let chains = world.chains();
        let token = world.dev.create_token(&key(22), chains::solana::dev::TokenProgram::Token, 6).await?;
        let payer = chains::solana::keys::account(&world.payer);
        world.dev.mint(&token, &payer, CAP).await?;
        world.dev.approve(&world.payer, &token, &world.program, &payer, CAP).await?;
        let deposit = world.order_of(&token, &world.payer, 600).await?;
        let prepared = chains.prepare_deposit(&deposit, 1).await?;
        settle(&chains, &deposit, &[prepared]).await?;
        let release = order(&deposit, world.attest(&world.statement(&deposit)));
        assert!(refused(&chains, &release).await?.contains("the settler has no token account"));
        // A settler makes it before it delivers; then the gateway pays into it.
        let settling = chains::solana::settler::SettlerChain::new(world.node(), world.settler.clone());
        for _ in 0..2 {
            settling.make_payout_account(&world.program, deposit.terms.source.asset()).await?;
        }
        let prepared = chains.prepare_release(&release, 1).await?;
        chains.broadcast(&prepared).await?;
        let state = ended(&chains, &deposit).await?;
        ensure!(matches!(state, EscrowState::Released(_)), "{state:?}");
        let paid = world.dev.token_balance(&token, &chains::solana::keys::account(&world.settler)).await?;
        assert_eq!(paid, PRICE);
        Ok(())
    }

    #[tokio::test]
    async fn one_that_the_settlers_overtook_expires_and_none_is_made_past_the_window() -> Result<()> {
        let world = World::start().await?;
        let chains = world.chains();
        let deposit = world.order(600).await?;
        let prepared = chains.prepare_deposit(&deposit, 1).await?;
        settle(&chains, &deposit, &[prepared]).await?;
        let ours = chains.prepare_release(&order(&deposit, world.attest(&world.statement(&deposit))), 1).await?;
        let before = world.tokens(&world.settler).await?;
        world.release(&deposit).await?;
        // What a node says of one that comes too late is no matter.
        drop(chains.broadcast(&ours).await);
        let state = ended(&chains, &deposit).await?;
        let EscrowState::Released(inclusion) = state else { bail!("{state:?}") };
        assert_ne!(inclusion.transaction_hash, ours.transaction_hash);
        assert_eq!(world.tokens(&world.settler).await?, before + PRICE);
        let dead = |state: &TransactionState| matches!(state, TransactionState::Dead { .. });
        until(|| chains.transaction_state(from_ref(&ours)), dead).await?;

        let late = world.order(600).await?;
        let prepared = chains.prepare_deposit(&late, 1).await?;
        settle(&chains, &late, &[prepared]).await?;
        world.surfnet.travel_to(late.escrow.refund_after + 1).await?;
        ensure!(ended(&chains, &late).await? == EscrowState::Lapsed);
        let release = order(&late, world.attest(&world.statement(&late)));
        assert!(refused(&chains, &release).await?.starts_with("ReleaseWindowClosed"));
        Ok(())
    }
}

mod on_tron {
    use super::*;
    use tron_support::{
        payment::{CAP, DELIVERED, PRICE},
        quoted::Payment,
        *,
    };

    fn release(world: &World, payment: &Payment) -> ReleaseOrder {
        let deposit = payment.deposit();
        order(&deposit, world.attest(&world.statement(&deposit)))
    }

    #[tokio::test]
    async fn the_gateway_pays_a_settler_that_is_gone_with_the_remainder_for_the_payer() -> Result<()> {
        let world = World::start().await?;
        let chains = world.chains();
        let payment = Payment::within_tron(&world, 600, world.trc20(&world.token, &account(&world.recipient))).await?;
        assert!(refused(&chains, &release(&world, &payment)).await?.contains("nothing is in escrow"));
        let (_, secured) = payment.secure(&world).await?;
        world.mining(world.settling().deliver(&payment.delivery())).await??;
        payment.delivered(&world).await?;
        let forged = ReleaseOrder {
            attestation: world.attest(&world.non_delivery(&payment.deposit())),
            ..release(&world, &payment)
        };
        refused(&chains, &forged).await?;

        let prepared = chains.prepare_release(&release(&world, &payment), 1).await?;
        assert_eq!(check_prepared(&prepared), Ok(()));
        assert_eq!(world.tokens_of(&payment.plan.contract).await?, CAP);
        world.settle(&chains, &prepared).await?;
        let EscrowState::Released(inclusion) = payment.ended(&world).await? else { bail!("not released") };
        assert_eq!(inclusion.transaction_hash, prepared.transaction_hash);
        assert_eq!(world.tokens(&world.settler).await?, TOKENS - DELIVERED + PRICE);
        assert_eq!(world.tokens(&world.payer).await?, TOKENS - PRICE);
        assert_eq!(world.tokens_of(&payment.plan.contract).await?, 0);
        assert_eq!(world.node().audit_release(&payment.audited(), &inclusion, secured.amount).await?, []);
        assert!(refused(&chains, &release(&world, &payment)).await?.contains("paid out already"));
        Ok(())
    }

    #[tokio::test]
    async fn one_that_the_settlers_overtook_is_given_up_and_none_is_made_past_the_window() -> Result<()> {
        let world = World::start().await?;
        let chains = world.chains();
        let payment = Payment::within_tron(&world, 600, world.trx()).await?;
        payment.secure(&world).await?;
        let ours = chains.prepare_release(&release(&world, &payment), 1).await?;
        world.release(&payment.deposit()).await?;
        drop(chains.broadcast(&ours).await);
        let EscrowState::Released(inclusion) = payment.ended(&world).await? else { bail!("not released") };
        assert_ne!(inclusion.transaction_hash, ours.transaction_hash);
        given_up(&world, &ours).await?;

        let late = Payment::within_tron(&world, 600, world.trx()).await?;
        late.secure(&world).await?;
        past(&world, &late.plan).await?;
        let reason = refused(&chains, &release(&world, &late)).await?;
        ensure!(reason.starts_with("ReleaseWindowClosed"), "{reason}");
        let refund = RefundOrder { payment_id: late.id.clone(), escrow: late.plan.clone(), non_delivery: None };
        world.settle(&chains, &chains.prepare_refund(&refund, 1).await?).await?;
        Ok(())
    }

    async fn given_up(world: &World, ours: &TransactionPrepared) -> Result<()> {
        let chains = world.chains();
        let dead = |state: &TransactionState| matches!(state, TransactionState::Dead { .. });
        world.mining(until(|| chains.transaction_state(from_ref(ours)), dead)).await??;
        Ok(())
    }

    async fn past(world: &World, plan: &EscrowPlan) -> Result<()> {
        let left = (plan.refund_after + 1).saturating_sub(world.time().await?);
        world.advance(Duration::from_secs(left)).await?;
        world.solidify().await
    }
}
