//! Options of a development chain.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use crate::Address;

/// Sun in one TRX.
pub const SUN_PER_TRX: u64 = 1_000_000;

/// When blocks are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocks {
    /// By a clock, empty or not.
    Every(Duration),
    /// When `POST /dev/mine` says so.
    OnDemand,
}

/// How a development chain behaves. The defaults are Tron's main network's, as far as a chain without staking has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Where the API listens; port 0 takes a free one.
    pub bind: SocketAddr,
    /// What `CHAINID` gives in contracts: on Tron the last four bytes of the first block's id, which end in it here.
    pub chain_id: u32,
    /// When blocks are made.
    pub blocks: Blocks,
    /// How many blocks the solidified one is behind the head.
    pub solidified_lag: u64,
    /// Sun for one unit of energy.
    pub energy_price_sun: u64,
    /// Sun for one byte, where the free ones are spent.
    pub bandwidth_price_sun: u64,
    /// Bytes that each account has for nothing in a day.
    pub free_bandwidth: u64,
    /// The highest `fee_limit` of a transaction, in sun.
    pub fee_limit_max_sun: u64,
    /// Accounts that have sun from the start.
    pub accounts: Vec<(Address, u64)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            bind: (Ipv4Addr::LOCALHOST, 0).into(),
            // Shasta's, a network for tests.
            chain_id: 2_494_104_990,
            blocks: Blocks::Every(Duration::from_secs(3)),
            solidified_lag: 19,
            energy_price_sun: 100,
            bandwidth_price_sun: 1_000,
            free_bandwidth: 600,
            fee_limit_max_sun: 15_000 * SUN_PER_TRX,
            accounts: Vec::new(),
        }
    }
}
