//! Claims: what a token refuses to hand over stays in the escrow as its owner's, and a settler brings it home once it can.

use alloy::primitives::U256;
use anyhow::{Result, bail};
use serde_json::json;

use chains::settler::DeliveryChain;
use chains_tron::address::parse_address;
use devkit::denying::denying;
use events::event::Claim;
use sagas::ports::{Chains, EscrowState};

use crate::{
    evm_support::release::reason,
    support::{payment::PRICE, quoted::Payment, *},
};

async fn deny(world: &World, implementation: &str, accounts: &[&str]) -> Result<()> {
    let accounts = accounts.iter().map(|account| parse_address(account).map(|account| account.0.0));
    let code = denying(&accounts.collect::<Result<Vec<_>, _>>()?, parse_address(implementation)?.0.0);
    world.dev.control("code", json!({"address": world.token, "code": hex::encode(code)})).await?;
    Ok(())
}

#[tokio::test]
async fn a_settler_whom_the_token_denied_collects_each_time_that_it_does_not() -> Result<()> {
    let world = World::start().await?;
    let (settler, own) = (world.settling(), account(&world.settler));
    let code = world.dev.deploy_token("Test Dollar", "TUSD", 6).await?;
    // The second claim comes after the first has landed, under the same purpose.
    for times in 1..=2 {
        let payment = Payment::within_tron(&world, 600, world.trx()).await?;
        payment.secure(&world).await?;
        deny(&world, &code, &[&own]).await?;
        world.release(&payment.deposit()).await?;
        let (escrow, asset) = (&payment.plan.contract, payment.terms.source.asset());
        assert_eq!(settler.claimable(escrow, asset).await?, U256::from(PRICE));
        let EscrowState::Released(end) = payment.ended(&world).await? else { bail!("not released") };
        let told = world.chains().claims(&payment.id, &payment.plan, &end).await?;
        assert_eq!(told, [Claim { owner: own.parse()?, amount: PRICE.to_string().parse()? }]);
        let held = world.tokens(&world.settler).await?;
        let sun = world.sun(&world.settler).await?;
        assert!(reason(settler.claim(escrow, asset).await)?.starts_with("ClaimNotPaid"));
        assert_eq!(world.sun(&world.settler).await?, sun, "nothing was sent");

        deny(&world, &code, &[]).await?;
        world.mining(settler.claim(escrow, asset)).await??;
        assert_eq!(world.tokens(&world.settler).await?, held + PRICE, "claim {times}");
        assert_eq!(settler.claimable(escrow, asset).await?, U256::ZERO);
    }
    Ok(())
}
