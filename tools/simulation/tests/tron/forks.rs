//! Forks of what is not solidified: transactions come back or do not, and no money is made or lost by it.

use alloy::{
    primitives::{Address, B256, U256},
    signers::local::PrivateKeySigner,
    sol_types::SolCall,
};
use anyhow::Result;
use serde_json::{Value, json};

use escrow_abi::contracts::DevToken;
use simulation::{
    chain::Dropped,
    random::RandomSource,
    tron::{BLOCK_MS, SimTron, TronError, TronView},
};

use crate::support::*;

fn transfer(chain: &mut SimTron, from: &PrivateKeySigner, to: Address, amount: u64) -> Result<B256> {
    let call = DevToken::transferCall { to, value: U256::from(amount) };
    let token = chain.contracts().token;
    Ok(chain.submit(from, token, 0, call.abi_encode())?)
}

fn next(chain: &mut SimTron) -> Result<()> {
    chain.mine(chain.head().time_ms + BLOCK_MS)?;
    Ok(())
}

fn pending(chain: &SimTron) -> Vec<B256> {
    chain.pending().iter().map(|one| B256::from(one.id.0)).collect()
}

/// The number of the block that holds the transaction, for the node of `view`.
fn block_of(chain: &mut SimTron, view: TronView, id: B256) -> Result<Option<u64>> {
    let asked = json!({"value": hex::encode(id)});
    let reply = chain.answer(view, "wallet/gettransactioninfobyid", &asked);
    Ok(serde_json::from_slice::<Value>(&reply.body)?["blockNumber"].as_u64())
}

#[test]
fn dropped_transactions_are_forgotten_or_wait_or_change_places() -> Result<()> {
    for dropped in [Dropped::Forgotten, Dropped::Pooled, Dropped::Reordered] {
        let mut chain = chain(0)?;
        next(&mut chain)?;
        let base = chain.head().number;
        let ids = [transfer(&mut chain, &payer(), recipient(), 1)?, transfer(&mut chain, &payer(), recipient(), 2)?];
        next(&mut chain)?;
        let last = transfer(&mut chain, &settler(), recipient(), 4)?;
        next(&mut chain)?;
        assert_eq!(chain.token_balance(recipient()), U256::from(7));
        let old = chain.head();

        let reorganised = chain.reorganise(2, dropped)?;
        assert_eq!(reorganised.transactions, [ids[0], ids[1], last]);
        assert_eq!(reorganised.common, base);
        assert_eq!((chain.head().number, chain.head().time_ms), (old.number, old.time_ms));
        assert_ne!(chain.head().id, old.id);
        assert_conserved(&chain);
        let (now, waiting) = match dropped {
            Dropped::Forgotten => (0, vec![]),
            Dropped::Pooled => (0, vec![ids[0], ids[1], last]),
            Dropped::Reordered => (7, vec![]),
        };
        assert_eq!((chain.token_balance(recipient()), pending(&chain)), (U256::from(now), waiting), "{dropped:?}");
        let place = if dropped == Dropped::Reordered { Some(base + 2) } else { None };
        for (id, was) in [(ids[0], base + 1), (ids[1], base + 1), (last, base + 2)] {
            assert_eq!(block_of(&mut chain, TronView::Honest, id)?, place, "{dropped:?}");
            assert_eq!(block_of(&mut chain, TronView::OnFork, id)?, Some(was), "{dropped:?}");
        }
        if dropped == Dropped::Reordered {
            let order: Vec<_> = chain.mined().iter().rev().take(3).map(|mined| mined.id).collect();
            assert_eq!(order, [ids[0], ids[1], last], "the last comer is first");
        }
        next(&mut chain)?;
        let all = if dropped == Dropped::Forgotten { 0 } else { 7 };
        assert_eq!((chain.token_balance(recipient()), pending(&chain)), (U256::from(all), vec![]), "{dropped:?}");
        assert_conserved(&chain);
    }
    Ok(())
}

#[test]
fn what_is_solidified_stays() -> Result<()> {
    let mut chain = chain(0)?;
    chain.set_solidified_lag(3);
    for _ in 0..5 {
        next(&mut chain)?;
    }
    let (solidified, head) = (chain.solidified(), chain.head().number);
    assert_eq!(head - solidified.number, 3);
    let refused = TronError::Solidified { depth: 4, head, solidified: solidified.number };
    assert_eq!(chain.reorganise(4, Dropped::Pooled), Err(refused));
    chain.reorganise(3, Dropped::Pooled)?;
    assert_eq!(chain.solidified(), solidified);
    // A longer lag takes nothing back.
    chain.set_solidified_lag(100);
    next(&mut chain)?;
    assert_eq!(chain.solidified(), solidified);
    let time_ms = chain.head().time_ms;
    assert_eq!(chain.mine(time_ms), Err(TronError::Time { time_ms, head_ms: time_ms }));
    Ok(())
}

#[test]
fn a_node_that_is_behind_has_what_was_and_one_that_lies_has_more() -> Result<()> {
    let mut chain = chain(0)?;
    for _ in 0..LAG + 4 {
        next(&mut chain)?;
    }
    let id = transfer(&mut chain, &payer(), recipient(), 1)?;
    next(&mut chain)?;
    let (head, solidified) = (chain.head(), chain.solidified());
    let mut told = |view, path: &str| -> Result<(u64, String)> {
        let reply = chain.answer(view, path, &json!({"detail": false}));
        let block: Value = serde_json::from_slice(&reply.body)?;
        let number = block["block_header"]["raw_data"]["number"].as_u64().unwrap_or_default();
        Ok((number, block["blockID"].as_str().unwrap_or_default().to_owned()))
    };
    let (newest, settled) = ("wallet/getblock", "walletsolidity/getblock");
    assert_eq!(told(TronView::Honest, newest)?, (head.number, hex::encode(head.id)));
    assert_eq!(told(TronView::Honest, settled)?, (solidified.number, hex::encode(solidified.id)));
    for blocks in [1, 3] {
        assert_eq!(told(TronView::Lagging { blocks }, newest)?.0, head.number - blocks);
        assert_eq!(told(TronView::Lagging { blocks }, settled)?.0, solidified.number - blocks);
        assert_eq!(told(TronView::LateSolidified { blocks }, newest)?.0, head.number);
        assert_eq!(told(TronView::LateSolidified { blocks }, settled)?.0, solidified.number - blocks);
        assert_eq!(told(TronView::LyingHead { ahead: blocks }, newest)?.0, head.number + blocks);
        let called = told(TronView::LyingHead { ahead: blocks }, settled)?;
        assert_eq!(called, (head.number, hex::encode(head.id)), "it calls the newest block solidified");
    }
    let made_up = told(TronView::LyingHead { ahead: 1 }, newest)?;
    assert_eq!(block_of(&mut chain, TronView::Honest, id)?, Some(head.number));
    assert_eq!(block_of(&mut chain, TronView::Lagging { blocks: 1 }, id)?, None);
    next(&mut chain)?;
    assert_ne!(hex::encode(chain.head().id), made_up.1, "no real block is made up");
    Ok(())
}

/// Plays a script that `seed` decides; everything that was, in order.
fn play(seed: u64) -> Result<Vec<B256>> {
    let mut chain = chain(0)?;
    chain.set_solidified_lag(5);
    let random = RandomSource::new(seed, "script");
    let mut ids = Vec::new();
    let mut solidified = chain.solidified();
    for _ in 0..60 {
        match random.number(0..=7) {
            0..=2 => {
                let (from, to) = if random.chance(500) { (payer(), settler()) } else { (settler(), payer()) };
                ids.push(transfer(&mut chain, &from, to.address(), random.number(1..=1_000))?);
            }
            3..=5 => {
                let missed = i64::try_from(random.number(1..=3))?;
                chain.mine(chain.head().time_ms + missed * BLOCK_MS)?;
            }
            6 => {
                let depth = random.number(0..=chain.head().number - chain.solidified().number);
                chain.reorganise(depth, random.pick(&[Dropped::Forgotten, Dropped::Pooled, Dropped::Reordered]))?;
            }
            _ => match pending(&chain).first() {
                Some(id) if random.chance(500) => assert!(chain.forget(*id)),
                Some(id) => assert!(chain.delay(*id, chain.head().number + random.number(1..=4))),
                None => {}
            },
        }
        assert_conserved(&chain);
        assert!(chain.solidified().number >= solidified.number);
        assert_eq!(chain.block(solidified.number).map(|block| block.id), Some(solidified.id), "seed {seed}");
        solidified = chain.solidified();
        ids.push(B256::from(chain.head().id));
    }
    Ok(ids)
}

#[test]
fn whatever_happens_no_money_is_made_and_a_seed_plays_the_same_again() -> Result<()> {
    let mut ends = Vec::new();
    for seed in 0..8 {
        let ids = play(seed)?;
        assert_eq!(ids, play(seed)?, "seed {seed}");
        ends.push(ids.last().copied());
    }
    ends.sort();
    ends.dedup();
    assert_eq!(ends.len(), 8, "each seed plays another way");
    Ok(())
}
