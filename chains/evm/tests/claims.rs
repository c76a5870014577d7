//! Claims: what a token refuses to hand over stays in the escrow as its owner's, and a settler brings it home once it can.

use alloy::primitives::{Bytes, U256};
use anyhow::{Result, bail};
use serde_json::Value;

use chains::settler::DeliveryChain;
use chains_evm::{attest, node::At, settler::SettlerChain};
use devkit::denying::denying;
use escrow_abi::contracts::{address, parse_address};
use events::{AssetId, event::Claim};
use sagas::ports::{Chains, EscrowState, RefundOrder};

use crate::support::{
    release::{reason, statement},
    *,
};

/// A token whose code is before that of `implementation` and denies these.
async fn deny(chain: &Chain, implementation: &str, accounts: &[&str]) -> Result<()> {
    let accounts = accounts.iter().map(|account| parse_address(account).map(|account| account.0.0));
    let code = denying(&accounts.collect::<Result<Vec<_>, _>>()?, parse_address(implementation)?.0.0);
    let _: Value = chain.dev.rpc("anvil_setCode", (parse_address(&chain.token)?, Bytes::from(code))).await?;
    Ok(())
}

async fn attested(payment: &Payment) -> Result<String> {
    let statement = statement(&payment.deposit());
    Ok(attest::sign_statement(&key(3).into(), &statement, 31_337, address(&payment.escrow.contract)?).await?)
}

#[tokio::test]
async fn a_settler_whom_the_token_denied_collects_once_it_does_not() -> Result<()> {
    let world = World::start().await?;
    let source = &world.source;
    let payment = world.payment("denied")?;
    world.secure(&payment).await?;
    let code = source.dev.deploy_token("Development USD", "dUSD", 6).await?;
    deny(source, &code, &[&text(&world.settler)]).await?;

    let settling = SettlerChain::new(source.node.clone(), world.settler.clone());
    let (escrow, asset): (_, AssetId) = (&payment.escrow.contract, source.asset().parse()?);
    assert_eq!(settling.claimable(escrow, &asset).await?, U256::ZERO);
    assert!(reason(settling.claim(escrow, &asset).await)?.starts_with("NothingToClaim"));
    let before = source.balance(&world.settler).await?;
    settling.release(payment.id(), &payment.escrow, &attested(&payment).await?).await?;
    assert_eq!(source.balance(&world.settler).await?, before);
    assert_eq!(settling.claimable(escrow, &asset).await?, U256::from(PRICE));
    source.mine(1 + DEPTH).await?;
    let state = world.chains.escrow_state(payment.id(), &payment.escrow).await?;
    let EscrowState::Released(end) = state else { bail!("{state:?}") };
    let told = world.chains.claims(payment.id(), &payment.escrow, &end).await?;
    assert_eq!(told, [Claim { owner: text(&world.settler).parse()?, amount: PRICE.to_string().parse()? }]);

    // It is denied still: nothing is sent, and no gas is paid.
    let sent = async || source.query().nonce(world.settler.address(), At::Pending).await;
    let nonce = sent().await?;
    assert!(reason(settling.claim(escrow, &asset).await)?.starts_with("ClaimNotPaid"));
    assert_eq!((sent().await?, settling.claimable(escrow, &asset).await?), (nonce, U256::from(PRICE)));

    deny(source, &code, &[]).await?;
    settling.claim(escrow, &asset).await?;
    assert_eq!((sent().await?, source.balance(&world.settler).await?), (nonce + 1, before + PRICE));
    assert_eq!(settling.claimable(escrow, &asset).await?, U256::ZERO);
    assert!(reason(settling.claim(escrow, &asset).await)?.starts_with("NothingToClaim"));
    assert!(settling.claimable(&text(&key(77)).parse()?, &asset).await.is_err(), "there is no escrow");
    Ok(())
}

#[tokio::test]
async fn what_a_payer_is_owed_is_told_and_of_whom_the_token_pays_nothing_is() -> Result<()> {
    let world = World::start().await?;
    let source = &world.source;
    let code = source.dev.deploy_token("Development USD", "dUSD", 6).await?;
    let ended = async |payment: &Payment| {
        source.pass(world.now().await?.max(payment.escrow.refund_after) + 1).await?;
        let order =
            RefundOrder { payment_id: payment.id().clone(), escrow: payment.escrow.clone(), non_delivery: None };
        let prepared = world.chains.prepare_refund(&order, 1).await?;
        world.chains.broadcast(&prepared).await?;
        source.mine(1 + DEPTH).await?;
        let state = world.chains.escrow_state(payment.id(), &payment.escrow).await?;
        let EscrowState::Refunded(refunded) = state else { bail!("{state:?}") };
        anyhow::Ok(refunded.inclusion)
    };
    let (healthy, denied) = (world.payment("healthy")?, world.payment("denied")?);
    world.secure(&healthy).await?;
    world.secure(&denied).await?;
    let end = ended(&healthy).await?;
    assert_eq!(world.chains.claims(healthy.id(), &healthy.escrow, &end).await?, []);
    // It is another payment's end: nothing is concluded from it.
    assert!(world.chains.claims(denied.id(), &denied.escrow, &end).await.is_err());
    deny(source, &code, &[&text(&world.payer)]).await?;
    let end = ended(&denied).await?;
    let told = world.chains.claims(denied.id(), &denied.escrow, &end).await?;
    assert_eq!(told, [Claim { owner: text(&world.payer).parse()?, amount: PRICE.to_string().parse()? }]);
    Ok(())
}
