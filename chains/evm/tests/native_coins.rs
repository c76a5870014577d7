//! The chain's own coin as what is delivered (ADR 115): it arrives to the wei, at accounts and at contracts that take it, and a
//! recipient's code, whatever it does, costs no more than the gas of a delivery.

use alloy::primitives::{Address, Bytes, U256};
use anyhow::{Result, bail};
use serde_json::Value;

use chains::{perform::PerformError, settler::DeliveryChain};
use chains_evm::{
    authorization::Scheme,
    node::At,
    settler::{DELIVERIES_RESERVED, SettlerChain},
};
use escrow_abi::contracts::address;
use events::{AssetId, OwnedAsset, failure::BlockchainContext};
use sagas::ports::{Chains, DeliveryOrder, DeliveryState};

use crate::support::*;

const COIN: &str = "eip155:31338/slip44:60";

/// Does nothing: STOP.
const TAKES: &str = "0x00";
/// Returns 65,536 bytes: PUSH3, PUSH0, RETURN.
const RETURNS_MUCH: &str = "0x620100005ff3";
/// Loops while more than a thousand gas are left, and then takes the coins.
const BURNS_AND_TAKES: &str = "0x5b5a6103e81060005700";
/// Reverts.
const REFUSES: &str = "0x5f5ffd";
/// Reverts with 65,536 bytes.
const REFUSES_WITH_MUCH: &str = "0x620100005ffd";
/// Loops for ever.
const BURNS_ALL: &str = "0x5b600056";
/// Sends all it has to another account: CALL with SELFBALANCE.
const PASSES_ON: &str = "0x5f5f5f5f4761dead5af100";
/// Reverts where gas has a price, which it has in every transaction and not in every simulation.
const REFUSES_IN_EARNEST: &str = "0x3a600557005b5f5ffd";

/// A payment to whoever the order names, in coins.
fn coins(world: &World, name: &str, recipient: &str) -> Result<DeliveryOrder> {
    let payment = world.payment_by(name, Scheme::EvmPermit2Escrow, COIN)?;
    Ok(DeliveryOrder { destination: OwnedAsset::new(COIN.parse()?, recipient)?, ..payment.delivery() })
}

fn settler(world: &World) -> SettlerChain {
    SettlerChain::new(world.destination.node.clone(), world.settler.clone())
}

/// A contract with this code, at an address by number.
async fn contract(world: &World, number: u8, code: &str) -> Result<String> {
    let account = format!("{:#x}", Address::repeat_byte(number));
    turn(world, &account, code).await?;
    Ok(account)
}

async fn turn(world: &World, account: &str, code: &str) -> Result<()> {
    let code: Bytes = code.parse()?;
    Ok(world.destination.dev.rpc::<_, Value>("anvil_setCode", (account, code)).await.map(drop)?)
}

/// Coins of `account` in the newest block.
async fn held(world: &World, account: &str) -> Result<U256> {
    Ok(world.destination.dev.balance(account).await?)
}

fn refused(outcome: Result<(), PerformError>) -> Result<BlockchainContext> {
    match outcome {
        Err(PerformError::Refused(context)) => Ok(*context),
        other => bail!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn coins_arrive_to_the_wei_at_accounts_and_at_contracts_that_take_them() -> Result<()> {
    let world = World::start().await?;
    let settler = settler(&world);
    let mut recipients = vec![text(&world.recipient)];
    for (number, code) in [(0xa1, TAKES), (0xa2, RETURNS_MUCH), (0xa3, BURNS_AND_TAKES)] {
        recipients.push(contract(&world, number, code).await?);
    }
    for recipient in recipients {
        let order = coins(&world, &recipient, &recipient)?;
        let before = held(&world, &text(&world.settler)).await?;
        settler.try_delivery(&order).await?;
        let delivered = settler.deliver(&order).await?;
        assert_eq!(settler.deliver(&order).await?, delivered, "once only");
        assert_eq!(held(&world, &recipient).await?, U256::from(DELIVERED), "{recipient}");
        let receipt = world.destination.query().receipt(delivered.transaction_hash.parse()?).await?.unwrap();
        assert!(receipt.gas_used <= world.destination.config.gas.delivery_max, "{receipt:?}");
        // Besides the coins it is gas that the settler paid for, and nothing else.
        let fee: Value = world.destination.dev.rpc("eth_getTransactionReceipt", (receipt.transaction_hash,)).await?;
        let price: U256 = fee["effectiveGasPrice"].as_str().unwrap().parse()?;
        let spent = before - held(&world, &text(&world.settler)).await?;
        assert_eq!(spent, U256::from(DELIVERED) + price * U256::from(receipt.gas_used));
        world.destination.mine(DEPTH).await?;
        assert_eq!(world.chains.delivery_state(&order).await?, DeliveryState::Final(delivered));
    }
    Ok(())
}

#[tokio::test]
async fn a_recipient_that_does_not_take_coins_is_refused_before_anything_is_spent() -> Result<()> {
    let world = World::start().await?;
    let (settler, account) = (settler(&world), world.settler.address());
    let before =
        (held(&world, &text(&world.settler)).await?, world.destination.query().nonce(account, At::Pending).await?);
    let hostile = [REFUSES, REFUSES_WITH_MUCH, BURNS_ALL, PASSES_ON, REFUSES_IN_EARNEST];
    for (number, code) in (0xb1..).zip(hostile) {
        let recipient = contract(&world, number, code).await?;
        let order = coins(&world, &recipient, &recipient)?;
        refused(settler.try_delivery(&order).await).inspect_err(|_| eprintln!("{code}"))?;
        let context = refused(settler.deliver(&order).await.map(drop))?;
        assert_eq!(context.transaction_hash, None, "{code} {context:?}");
        assert_eq!(held(&world, &recipient).await?, U256::ZERO);
    }
    let now =
        (held(&world, &text(&world.settler)).await?, world.destination.query().nonce(account, At::Pending).await?);
    assert_eq!(now, before);
    Ok(())
}

#[tokio::test]
async fn a_recipient_that_turns_after_the_trial_costs_the_gas_of_one_delivery_at_most() -> Result<()> {
    let world = World::start().await?;
    let (settler, account) = (settler(&world), text(&world.settler));
    let recipient = contract(&world, 0xc1, TAKES).await?;
    let order = coins(&world, "turns", &recipient)?;
    let (before, fees) = (held(&world, &account).await?, world.destination.query().fees().await?);
    world.destination.automine(false).await?;
    let turns = async {
        let pending = || async {
            let count: U256 = world.destination.dev.rpc("eth_getBlockTransactionCountByNumber", ("pending",)).await?;
            Ok(count == U256::from(1))
        };
        eventually("one pending transaction", pending).await?;
        turn(&world, &recipient, BURNS_ALL).await?;
        world.destination.mine(1).await
    };
    let (outcome, turned) = tokio::join!(settler.deliver(&order), turns);
    turned?;
    let context = refused(outcome.map(drop))?;
    assert!(context.transaction_hash.is_some(), "{context:?}");
    let gas_max = world.destination.config.gas.delivery_max;
    let used: u64 = context.gas_used.unwrap().parse()?;
    assert!(used > 100_000 && used <= gas_max, "{used}");
    let spent = before - held(&world, &account).await?;
    assert!(spent <= U256::from(gas_max) * U256::from(fees.max), "{spent}");
    // Nothing arrived, and the next look at the recipient shows why before anything is sent.
    assert_eq!(held(&world, &recipient).await?, U256::ZERO);
    world.destination.automine(true).await?;
    assert_eq!(refused(settler.deliver(&order).await.map(drop))?.transaction_hash, None);
    assert_eq!(before - held(&world, &account).await?, spent);
    Ok(())
}

#[tokio::test]
async fn what_a_settler_keeps_for_gas_is_not_promised() -> Result<()> {
    let world = World::start().await?;
    let destination = &world.destination;
    let (coin, token): (AssetId, AssetId) = (COIN.parse()?, destination.asset().parse()?);
    let poor = key(46);
    let settler = SettlerChain::new(destination.node.clone(), poor.clone());
    destination.dev.mint(&destination.token, &text(&poor), U256::from(CAP)).await?;
    // Without a block between, the price stays as it is.
    let fees = destination.query().fees().await?;
    let gas = U256::from(destination.config.gas.delivery_max) * U256::from(fees.max);
    let kept = gas * U256::from(DELIVERIES_RESERVED);
    for (held, coins, tokens) in [
        (U256::ZERO, U256::ZERO, U256::ZERO),
        (kept, U256::ZERO, U256::ZERO),
        (kept + U256::from(7), U256::from(7), U256::from(CAP)),
    ] {
        destination.dev.fund(&text(&poor), held).await?;
        assert_eq!((settler.balance(&coin).await?, settler.balance(&token).await?), (coins, tokens), "{held}");
    }
    // The trial looks at the coins, too: all of the amount and of the gas have to be there.
    let order =
        DeliveryOrder { delivery_account: text(&poor).parse()?, ..coins(&world, "poor", &text(&world.recipient))? };
    assert_eq!(address(&order.delivery_account)?, poor.address());
    let needed = gas + U256::from(DELIVERED);
    destination.dev.fund(&text(&poor), needed - U256::from(1)).await?;
    let reason = refused(settler.try_delivery(&order).await)?.revert_reason.unwrap();
    assert!(reason.starts_with("the settler holds ") && reason.ends_with(&needed.to_string()), "{reason}");
    destination.dev.fund(&text(&poor), needed).await?;
    settler.try_delivery(&order).await?;
    Ok(())
}
