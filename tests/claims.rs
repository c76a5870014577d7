//! A token that denies a settler when it is paid: the payment is done, its money waits in the escrow and is shown there, and the
//! settler brings it home by itself once it can.

use alloy::primitives::{Bytes, U256};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use devkit::denying::denying;
use devnet::keys::Role;
use escrow_abi::contracts::parse_address;
use events::{PaymentEvent, event::Claim};

use crate::support::*;

/// From now on the source's token pays none of these. `code` has the token's own code.
async fn deny(world: &World, code: &str, roles: &[Role]) -> Result<()> {
    let source = &world.network.source;
    let denied: Vec<_> = roles.iter().map(|role| role.address().0.0).collect();
    let code = Bytes::from(denying(&denied, parse_address(code)?.0.0));
    let _: Value = source.dev.rpc("anvil_setCode", (parse_address(source.token()?.reference())?, code)).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_token_denied_a_settler_is_shown_and_brought_home_once_it_does_not() -> Result<()> {
    let mut world = World::start(1).await?;
    let source = &world.network.source;
    let code = source.dev.deploy_token("Development USD", "dUSD", 6).await?;
    deny(&world, &code, &[1, 2, 3].map(Role::Settler)).await?;
    let before = settlers(source).await?;
    let payment_id = world.submit(&world.spec("denied")?).await?;
    world.completed(&payment_id).await?;
    assert_eq!(settlers(source).await?, before);

    let Some(PaymentEvent::EscrowReleased(released)) = world.events(&payment_id, "EscrowReleased").await?.pop() else {
        bail!("not released");
    };
    let [Claim { owner, amount }] = &released.claims[..] else { bail!("not one claim: {released:?}") };
    assert_eq!(amount.to_string(), PRICE.to_string());
    let winner = (1..=3).find(|n| Role::Settler(*n).account() == owner.as_str()).context("none of the settlers")?;
    let status = world.payer.status(&world.base(0), payment_id.as_str()).await?;
    let token = source.token()?;
    let shown = json!([{
        "owner": owner, "asset": token, "amount": amount, "chain_id": token.chain(),
        "escrow_contract": source.contracts.escrow, "call": format!("claimFor({owner}, {})", token.reference()),
    }]);
    assert_eq!((status.text("status"), &status.body["claims"]), ("completed", &shown));
    world.audited(&payment_id).await?;

    deny(&world, &code, &[]).await?;
    world.network.kill_settler(winner).await?;
    world.network.start_settler(winner)?;
    let source = &world.network.source;
    let home = || async { settlers(source).await.is_ok_and(|held| held == before + U256::from(PRICE)) };
    eventually(home).await.context("the claim stays in the escrow")
}
