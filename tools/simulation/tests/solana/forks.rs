//! Blocks, skipped slots, forks, and blockhashes that expire.

use anyhow::Result;
use gateway_program::host::{AccountMeta, Instruction};

use chains_solana::{
    history::History,
    node::{Commitment, Node},
};
use simulation::solana::{Dropped, SharedCluster, SimError, SimTransport, Slots, Template, Timing};

use crate::support::*;

const MEMO: &str = "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr";

/// A transfer of lamports from 10 to 11, with a note that makes it another transaction each time.
fn transfer(cluster: &SharedCluster, lamports: u64) -> Result<String> {
    let mut data = vec![2, 0, 0, 0];
    data.extend_from_slice(&lamports.to_le_bytes());
    let account = |seed, signer| AccountMeta { key: public(seed), signer, writable: true };
    let transfer = Instruction { program_id: [0; 32], accounts: vec![account(10, true), account(11, false)], data };
    Ok(lock(cluster).submit(&[&key(10)], &[transfer])?)
}

fn node(cluster: &SharedCluster) -> Result<Node> {
    Ok(SimTransport::honest(cluster.clone()).connect(&lock(cluster).config(REFUND_DELAY)?)?)
}

fn received(cluster: &SharedCluster) -> u64 {
    lock(cluster).lamports(&public(11))
}

#[tokio::test(start_paused = true)]
async fn slots_are_skipped_and_blocks_are_confirmed_and_finalized() -> Result<()> {
    let cluster = cluster(0)?.shared();
    let node = node(&cluster)?;
    let genesis = lock(&cluster).head();
    assert_eq!(node.settled().await?.slot, genesis.slot);
    lock(&cluster).skip(3);
    produce(&cluster, 1)?;
    let first = lock(&cluster).head();
    assert_eq!((first.slot, first.height), (genesis.slot + 4, genesis.height + 1));
    assert_eq!(node.head().await?, genesis.slot, "the newest block is not confirmed");
    let hash = transfer(&cluster, SOL)?;
    produce(&cluster, 2)?;
    assert_eq!(node.head().await?, first.slot + 1);
    let history = History::of(&node);
    let status = history.status(&hash, 0).await?.expect("it is in a block");
    assert_eq!((status.slot, status.error), (first.slot + 1, None));
    assert!(history.transaction(&hash, Commitment::Confirmed).await?.is_some());
    assert!(history.transaction(&hash, Commitment::Finalized).await?.is_none());
    produce(&cluster, 3)?;
    let landed = history.transaction(&hash, Commitment::Finalized).await?.expect("it is finalized");
    assert_eq!((landed.slot, landed.fee), (first.slot + 1, Some(5_000 + 400_000 / 100)));
    // What no leader made is not there, and what there is has its time.
    assert!(history.block_at(genesis.slot + 2, Commitment::Finalized).await.is_err());
    let (_, time) = history.block_at(first.slot, Commitment::Finalized).await?;
    assert_eq!(time, first.time);
    let snapshot = node.accounts(&[public(11)], Commitment::Finalized, 0).await?;
    assert_eq!(snapshot.account(0).map(|account| account.lamports), Some(SOL));
    assert_eq!(snapshot.time, first.time + BLOCK_SECONDS);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_fork_forgets_reorders_or_repeats_what_it_drops() -> Result<()> {
    for (dropped, slots, again, waiting) in [
        (Dropped::Forgotten, Slots::Later, 0, 0),
        (Dropped::Pooled, Slots::Later, 0, 2),
        (Dropped::Again, Slots::Later, 2, 0),
        (Dropped::Again, Slots::Same, 2, 0),
        (Dropped::Reordered, Slots::Same, 2, 0),
        (Dropped::Halved, Slots::Later, 1, 0),
    ] {
        let cluster = cluster(0)?.shared();
        produce(&cluster, 3)?;
        let common = lock(&cluster).head();
        let hashes = [transfer(&cluster, SOL)?, transfer(&cluster, 2 * SOL)?];
        produce(&cluster, 2)?;
        assert_eq!(received(&cluster), 3 * SOL);
        let old = lock(&cluster).head();
        let forked = lock(&cluster).fork(2, dropped, slots)?;
        assert_eq!((forked.common, forked.signatures.len()), (common, 2), "{dropped:?}");
        let new = lock(&cluster).head();
        assert_eq!((new.height, new.time), (old.height, old.time));
        assert_ne!(new.hash, old.hash);
        let later = if slots == Slots::Later { 2 } else { 0 };
        assert_eq!(new.slot, old.slot + later, "{dropped:?}");
        let expected = if dropped == Dropped::Halved { SOL } else { again * SOL * 3 / 2 };
        assert_eq!(received(&cluster), expected, "{dropped:?}");
        assert_eq!(lock(&cluster).pending().len(), waiting, "{dropped:?}");
        let known = hashes.iter().filter(|hash| lock(&cluster).knows(hash)).count() as u64;
        assert_eq!(known, again + waiting as u64, "{dropped:?}");
        // What waits lands in the next block.
        produce(&cluster, 1)?;
        assert_eq!(received(&cluster), if waiting > 0 { 3 * SOL } else { expected });
        // What is finalized is not dropped.
        let depth = lock(&cluster).fork(6, dropped, slots);
        assert!(matches!(depth, Err(SimError::Final { depth: 6, .. })), "{depth:?}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_transaction_lands_while_its_blockhash_counts_and_in_no_later_block() -> Result<()> {
    let timing = Timing { blockhash_age: 5, ..Timing::default() };
    let template = Template::new(&genesis(0xc1, timing))?;
    // In the last block that can hold it, which is one above the height that nodes tell; and one later.
    for (held_back, lands) in [(timing.blockhash_age, true), (timing.blockhash_age + 1, false)] {
        let cluster = begin(&template)?.shared();
        let node = node(&cluster)?;
        let told = {
            let settled = node.settled().await?;
            chains_solana::broadcaster::Broadcaster::of(&node).blockhash(settled).await?.last_valid_height
        };
        let hash = transfer(&cluster, SOL)?;
        let first = lock(&cluster).head();
        assert_eq!(told, first.height + timing.blockhash_age);
        assert!(lock(&cluster).delay(&hash, first.slot + 1 + held_back));
        produce(&cluster, held_back)?;
        assert_eq!(lock(&cluster).pending(), std::slice::from_ref(&hash));
        produce(&cluster, 1)?;
        assert_eq!(lock(&cluster).head().height, told + 1 + held_back - timing.blockhash_age);
        assert_eq!((received(&cluster) > 0, lock(&cluster).pending().len()), (lands, 0));
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_blockhash_of_a_dropped_block_counts_nowhere() -> Result<()> {
    let cluster = cluster(0)?.shared();
    produce(&cluster, 3)?;
    let hash = transfer(&cluster, SOL)?;
    lock(&cluster).fork(1, Dropped::Pooled, Slots::Later)?;
    produce(&cluster, 2)?;
    assert_eq!((received(&cluster), lock(&cluster).knows(&hash)), (0, false));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_leader_forgets_or_holds_back_and_nothing_lands_twice() -> Result<()> {
    let cluster = cluster(0)?.shared();
    let (lost, stuck) = (transfer(&cluster, SOL)?, transfer(&cluster, 2 * SOL)?);
    assert!(lock(&cluster).drop_transaction(&lost));
    let slot = lock(&cluster).head().slot;
    assert!(lock(&cluster).delay(&stuck, slot + 4));
    produce(&cluster, 3)?;
    assert_eq!((received(&cluster), lock(&cluster).pending()), (0, vec![stuck.clone()]));
    produce(&cluster, 1)?;
    assert_eq!((received(&cluster), lock(&cluster).pending().len()), (2 * SOL, 0));
    assert!(!lock(&cluster).delay(&stuck, slot + 9) && !lock(&cluster).drop_transaction(&stuck));
    // Who does not know that it landed sends it again.
    lock(&cluster).fork(2, Dropped::Again, Slots::Later)?;
    produce(&cluster, 3)?;
    assert_eq!(received(&cluster), 2 * SOL);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_fails_has_paid_its_fee_and_is_there() -> Result<()> {
    let cluster = cluster(0)?.shared();
    let node = node(&cluster)?;
    let before = lock(&cluster).lamports(&public(10));
    let hash = transfer(&cluster, 1_000_000 * SOL)?;
    let memo: [u8; 32] = bs58::decode(MEMO).into_vec().unwrap().try_into().expect("32 bytes");
    let memo = Instruction { program_id: memo, accounts: Vec::new(), data: b"nobody pays".to_vec() };
    // Whoever has no lamports for the fee is in no block.
    let unpaid = lock(&cluster).submit(&[&key(99)], &[memo])?;
    produce(&cluster, 6)?;
    let history = History::of(&node);
    assert!(history.status(&unpaid, 0).await?.is_none());
    let status = history.status(&hash, 0).await?.expect("it is in a block");
    assert_eq!(status.error, Some(serde_json::json!({"InstructionError": [2, {"Custom": 1}]})));
    let landed = history.transaction(&hash, Commitment::Finalized).await?.expect("it is finalized");
    assert_eq!(Some(before - lock(&cluster).lamports(&public(10))), landed.fee);
    assert_eq!(received(&cluster), 0);
    Ok(())
}
