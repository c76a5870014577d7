//! Reorganisations: dropped transactions come back or do not, and no money is made or lost by it.

use alloy::{
    primitives::{Address, B256, Bytes, U256},
    signers::local::PrivateKeySigner,
    sol_types::SolCall,
};
use anyhow::Result;
use serde_json::json;

use simulation::chain::{Dropped, NodeKind, SimChain, SimError};

use escrow_abi::contracts::DevToken;

use crate::support::*;

fn transfer(chain: &mut SimChain, from: &PrivateKeySigner, to: Address, amount: u64) -> Result<B256> {
    let call = DevToken::transferCall { to, value: U256::from(amount) };
    let token = chain.contracts().tokens[0];
    Ok(chain.submit(from, token, U256::ZERO, Bytes::from(call.abi_encode()))?)
}

fn mine(chain: &mut SimChain) -> Result<()> {
    chain.mine(chain.head().time + BLOCK_SECONDS)?;
    Ok(())
}

fn held(chain: &SimChain, account: Address) -> u64 {
    chain.token_balance(chain.contracts().tokens[0], account).to()
}

/// The number of the block that holds the transaction, for the node of `view`.
fn block_of(chain: &mut SimChain, view: NodeKind, hash: B256) -> Result<Option<u64>> {
    let receipt = chain.rpc(&view, "eth_getTransactionReceipt", &json!([hash]))?;
    let number = receipt["blockNumber"].as_str().map(|text| text.trim_start_matches("0x").to_owned());
    Ok(number.map(|digits| u64::from_str_radix(&digits, 16)).transpose()?)
}

#[test]
fn dropped_transactions_are_forgotten_or_wait_or_change_places() -> Result<()> {
    let (payer, settler, receiver) = (key(10), key(12), key(11).address());
    for dropped in [Dropped::Forgotten, Dropped::Pooled, Dropped::Reordered] {
        let mut chain = chain(31_337)?;
        let first = transfer(&mut chain, &payer, receiver, 1)?;
        let second = transfer(&mut chain, &payer, receiver, 2)?;
        mine(&mut chain)?;
        let third = transfer(&mut chain, &settler, receiver, 4)?;
        mine(&mut chain)?;
        assert_eq!(held(&chain, receiver), 7);
        let old = chain.head();

        let reorganised = chain.reorganise(2, dropped)?;
        assert_eq!(reorganised.transactions, [first, second, third]);
        assert_eq!((reorganised.common.number, reorganised.head), (0, chain.head()));
        assert_eq!((chain.head().number, chain.head().time), (old.number, old.time));
        assert_ne!(chain.head().hash, old.hash);
        assert_conserved(&chain);
        let (now, waiting) = match dropped {
            Dropped::Forgotten => (0, vec![]),
            Dropped::Pooled => (0, vec![first, second, third]),
            Dropped::Reordered => (7, vec![]),
        };
        assert_eq!((held(&chain, receiver), chain.pending()), (now, waiting), "{dropped:?}");
        // Nonces hold the order of one sender; between senders the last comer is first.
        let places =
            |chain: &mut SimChain, view| [first, second, third].map(|hash| block_of(chain, view, hash).ok().flatten());
        let expected = if dropped == Dropped::Reordered { [Some(2); 3] } else { [None; 3] };
        assert_eq!(places(&mut chain, NodeKind::Honest), expected, "{dropped:?}");
        assert_eq!(places(&mut chain, NodeKind::OnFork), [Some(1), Some(1), Some(2)], "{dropped:?}");
        if dropped == Dropped::Reordered {
            let receipt = chain.rpc(&NodeKind::Honest, "eth_getTransactionReceipt", &json!([third]))?;
            assert_eq!(receipt["transactionIndex"], "0x0");
        }

        // A state of the old branch is not a canonical one any more, but the node still has it.
        let named = |canonical| json!({"blockHash": old.hash, "requireCanonical": canonical});
        let balance = |canonical| {
            let data = Bytes::from(DevToken::balanceOfCall { account: receiver }.abi_encode());
            json!([{"to": chain.contracts().tokens[0], "data": data}, named(canonical)])
        };
        let (strict, lax) = (balance(true), balance(false));
        assert!(
            chain.rpc(&NodeKind::Honest, "eth_call", &strict).unwrap_err().message.contains("not currently canonical")
        );
        assert_eq!(chain.rpc(&NodeKind::Honest, "eth_call", &lax)?, json!(B256::from(U256::from(7))));
        assert_eq!(chain.rpc(&NodeKind::OnFork, "eth_call", &strict)?, json!(B256::from(U256::from(7))));

        mine(&mut chain)?;
        let all = if dropped == Dropped::Forgotten { 0 } else { 7 };
        assert_eq!((held(&chain, receiver), chain.pending()), (all, vec![]), "{dropped:?}");
        assert_conserved(&chain);
    }
    Ok(())
}

#[test]
fn what_is_final_stays() -> Result<()> {
    let mut chain = chain(31_337)?;
    chain.set_lags(1, 3);
    for _ in 0..5 {
        mine(&mut chain)?;
    }
    let last = chain.finalized();
    assert_eq!((last.number, chain.safe().number, chain.head().number), (2, 4, 5));
    assert_eq!(chain.reorganise(4, Dropped::Pooled), Err(SimError::Final { depth: 4, head: 5, finalized: 2 }));
    chain.reorganise(3, Dropped::Pooled)?;
    assert_eq!(chain.finalized(), last);
    // A longer lag takes nothing back.
    chain.set_lags(1, 100);
    assert_eq!(chain.finalized(), last);
    chain.reorganise(3, Dropped::Pooled)?;
    mine(&mut chain)?;
    assert_eq!(chain.finalized(), last);
    assert_eq!(chain.mine(chain.head().time), Err(SimError::Time { time: chain.head().time, head: chain.head().time }));
    Ok(())
}

/// Plays a script that `seed` decides; everything that was, in order.
fn play(seed: u64) -> Result<Vec<B256>> {
    let mut chain = chain(31_337)?;
    let (payer, settler) = (key(10), key(12));
    let mut state = seed;
    let mut roll = |sides: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % sides
    };
    let mut hashes = Vec::new();
    let mut finalized = chain.finalized();
    for _ in 0..120 {
        match roll(8) {
            0..3 => {
                let (from, to) = if roll(2) == 0 { (&payer, &settler) } else { (&settler, &payer) };
                hashes.push(transfer(&mut chain, from, to.address(), 1 + roll(1_000))?);
            }
            3..6 => mine(&mut chain)?,
            6 => {
                let dropped = [Dropped::Forgotten, Dropped::Pooled, Dropped::Reordered];
                let depth = roll(chain.head().number - chain.finalized().number + 1);
                chain.reorganise(depth, dropped[roll(3) as usize])?;
            }
            _ => match chain.pending().first() {
                Some(hash) if roll(2) == 0 => assert!(chain.drop_transaction(*hash)),
                Some(hash) => assert!(chain.delay(*hash, chain.head().number + 1 + roll(4))),
                None => {}
            },
        }
        assert_conserved(&chain);
        let token = chain.contracts().tokens[0];
        assert_eq!(chain.token_supply(token), U256::from(20 * CAP));
        assert!(chain.finalized().number >= finalized.number);
        if chain.finalized().number == finalized.number {
            assert_eq!(chain.finalized(), finalized);
        }
        finalized = chain.finalized();
        hashes.push(chain.head().hash);
    }
    Ok(hashes)
}

#[test]
fn whatever_happens_no_money_is_made_and_a_seed_plays_the_same_again() -> Result<()> {
    let mut ends = Vec::new();
    for seed in 0..12 {
        let hashes = play(seed)?;
        assert_eq!(hashes, play(seed)?, "seed {seed}");
        ends.push(hashes.last().copied());
    }
    ends.sort();
    ends.dedup();
    assert_eq!(ends.len(), 12, "each seed plays another way");
    Ok(())
}
