//! Configuration of an EVM chain.

mod gas;

use events::Account;

pub use self::gas::GasConfig;
use super::{ChainTable, CommonConfig, Error};

/// Where Uniswap deployed Permit2 on every chain that has it.
const PERMIT2: &str = "0x000000000022D473030F116dDEE9F6B43aC78BA3";
const ADMISSION_SECONDS: u64 = 120;
const REPRICE_SECONDS: u64 = 30;

/// An EVM chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvmConfig {
    /// What chains of every family have.
    pub common: CommonConfig,
    /// Uniswap's Permit2.
    pub permit2: Account,
    /// How long the escrow takes a deposit after the gateway signed it, in seconds. One that reverted can be sent again by
    /// anyone for so long, and its payment does not fail before.
    pub admission_seconds: u64,
    /// How long a transaction waits for a block before it is signed again with higher fees, in seconds; only done when it
    /// offers less than the chain asks for by then, or has waited four times as long.
    pub reprice_seconds: u64,
    /// Whether payers may be contracts, whose code the gateway then runs.
    pub contract_payers: bool,
    /// What that code may cost.
    pub gas: GasConfig,
}

impl EvmConfig {
    pub(super) fn read(mut table: ChainTable) -> Result<Self, Error> {
        let ws_url = table.take("ws_url")?;
        Ok(Self {
            permit2: table.take_account("permit2")?.unwrap_or_else(permit2),
            admission_seconds: table.take("admission_seconds")?.unwrap_or(ADMISSION_SECONDS),
            reprice_seconds: table.take("reprice_seconds")?.unwrap_or(REPRICE_SECONDS),
            contract_payers: table.take("contract_payers")?.unwrap_or(true),
            gas: table.take("gas")?.unwrap_or_default(),
            common: CommonConfig { ws_url, ..table.rest()? },
        })
    }
}

#[expect(clippy::expect_used, reason = "the constant above is an account")]
fn permit2() -> Account {
    PERMIT2.parse().expect("Permit2's address is an account")
}
