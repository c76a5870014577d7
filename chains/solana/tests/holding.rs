//! Holdings: a payer's tokens on a real cluster, and the delegate that may draw on them.

use std::time::Instant;

use anyhow::{Result, bail};

use chains_solana::{
    authorization::allowance_delegate,
    dev::{DevToken, TokenProgram},
    holding::Holding,
    keys::account,
};
use events::{Account, OwnedAsset};

use crate::support::{TOKENS, WITHIN, World, key};

fn source(world: &World, mint: &str, owner: &str) -> OwnedAsset {
    let asset = format!("{}/token:{mint}", world.surfnet.chain_id());
    OwnedAsset::new(asset.parse().unwrap(), owner).unwrap()
}

/// The amount, the delegate and what it may draw.
type Held = (u64, Option<Account>, u64);

fn held(holding: Holding) -> Held {
    (holding.amount, holding.delegate, holding.delegated)
}

/// What `source` holds, as soon as it is `expected`.
async fn holds(world: &World, source: &OwnedAsset, expected: Option<Held>) -> Result<()> {
    let (node, until) = (world.node(), Instant::now() + WITHIN);
    loop {
        let found = Holding::read(&node, source).await.map(|holding| holding.map(held));
        if found.as_ref().ok() == Some(&expected) {
            return Ok(());
        }
        if Instant::now() > until {
            bail!("{source:?} must hold {expected:?}, not {found:?}");
        }
        node.next_block().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_payers_own_account_is_read() -> Result<()> {
    let world = World::start().await?;
    let extended = world.dev.create_token(&key(22), TokenProgram::Token2022, 2).await?;
    world.dev.mint(&extended, &account(&world.payer), 500).await?;
    let payer = account(&world.payer);
    let drawn_by =
        |signer: &str| -> Result<Account> { Ok(allowance_delegate(&world.program.parse()?, &signer.parse()?)?) };
    let own = drawn_by(&payer)?;
    let of = |token: &DevToken, owner: &str| source(&world, &token.mint, owner);
    let holding = |amount, delegate: Option<&Account>, delegated| Some((amount, delegate.cloned(), delegated));

    holds(&world, &of(&world.token, &payer), holding(TOKENS, Some(&own), TOKENS)).await?;
    holds(&world, &of(&extended, &payer), holding(500, None, 0)).await?;
    // Who has no account holds nothing.
    holds(&world, &of(&world.token, &account(&world.recipient)), None).await?;
    holds(&world, &of(&extended, &account(&world.settler)), None).await?;

    // The allowance is the last one's alone.
    let delegate = account(&key(9));
    world.dev.approve(&world.payer, &world.token, &world.program, &delegate, 70).await?;
    let theirs = drawn_by(&delegate)?;
    holds(&world, &of(&world.token, &payer), holding(TOKENS, Some(&theirs), 70)).await?;
    let held = Holding::read(&world.node(), &of(&world.token, &payer)).await?.unwrap();
    assert_eq!((held.allowed_to(&theirs), held.allowed_to(&own)), (70, 0));
    let other = Holding::read(&world.node(), &of(&extended, &payer)).await?.unwrap();
    assert_eq!(held.token_program, "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA");
    assert_eq!(other.token_program, "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb");
    assert_ne!(held.address, other.address);
    world.dev.approve(&world.payer, &extended, &world.program, &payer, 20).await?;
    holds(&world, &of(&extended, &payer), holding(500, Some(&own), 20)).await?;

    // What is not a token is an error, and not a holding of nothing.
    let no_mint = source(&world, &account(&key(99)), &payer);
    assert!(Holding::read(&world.node(), &no_mint).await.is_err());
    let a_wallet = source(&world, &payer, &payer);
    assert!(Holding::read(&world.node(), &a_wallet).await.is_err());
    Ok(())
}
