//! Gas limits on an EVM chain: gas of deposits and deliveries, gas and time of calls, and losses over time.

use serde::Deserialize;

/// `[chains.gas]`: bounds of what deposits may cost, above all of payers whose account is a contract, and deliveries. Only for
/// EVM chains.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GasConfig {
    /// Most gas of a deposit. One that needs more is refused before a nonce is taken, and its payment fails.
    pub deposit_max: u64,
    /// Most gas of a settler's delivery, whose recipient may be a contract. One that needs more is not quoted and not sent. Of use
    /// to settlers only.
    pub delivery_max: u64,
    /// Gas that a contract account has for judging a signature when it is tried out.
    pub call_max: u64,
    /// How long such a trial may take, in milliseconds.
    pub call_ms_max: u64,
    /// So many trials are made at once.
    pub calls_max: usize,
    /// So many of them for one caller.
    pub caller_calls_max: usize,
    /// Time over which losses are counted, in seconds.
    pub loss_window_seconds: u64,
    /// Most gas that an account costs within that time by deposits that came to nothing; a contract account's that are under
    /// way count in full.
    pub account_loss_max: u64,
    /// Most deposits of an account without code that are under way at a time at one gateway.
    pub account_deposits_max: usize,
    /// The same for all accounts with one code, or of one factory.
    pub code_loss_max: u64,
    /// The same for all contract accounts of the chain.
    pub chain_loss_max: u64,
}

impl Default for GasConfig {
    fn default() -> Self {
        Self {
            deposit_max: 1_500_000,
            delivery_max: 300_000,
            call_max: 500_000,
            call_ms_max: 2_000,
            calls_max: 16,
            caller_calls_max: 2,
            loss_window_seconds: 86_400,
            account_loss_max: 4_500_000,
            account_deposits_max: 64,
            code_loss_max: 30_000_000,
            chain_loss_max: 100_000_000,
        }
    }
}

impl GasConfig {
    /// The first key whose value is out of its range, with the rule.
    ///
    /// # Errors
    /// Key and rule.
    pub fn check(&self) -> Result<(), (&'static str, &'static str)> {
        let rules = [
            ("deposit_max", (300_000..=15_000_000).contains(&self.deposit_max), "must be 300000 to 15000000"),
            ("delivery_max", (150_000..=15_000_000).contains(&self.delivery_max), "must be 150000 to 15000000"),
            ("call_max", (50_000..=5_000_000).contains(&self.call_max), "must be 50000 to 5000000"),
            ("call_ms_max", (50..=30_000).contains(&self.call_ms_max), "must be 50 to 30000"),
            ("calls_max", (1..=1_024).contains(&self.calls_max), "must be 1 to 1024"),
            (
                "caller_calls_max",
                (1..=self.calls_max).contains(&self.caller_calls_max),
                "must be at least 1 and at most calls_max",
            ),
            ("loss_window_seconds", (60..=2_592_000).contains(&self.loss_window_seconds), "must be 60 to 2592000"),
            ("account_loss_max", self.account_loss_max >= self.deposit_max, "must be at least deposit_max"),
            ("account_deposits_max", (1..=65_536).contains(&self.account_deposits_max), "must be 1 to 65536"),
            ("code_loss_max", self.code_loss_max >= self.account_loss_max, "must be at least account_loss_max"),
            ("chain_loss_max", self.chain_loss_max >= self.code_loss_max, "must be at least code_loss_max"),
        ];
        let broken = rules.into_iter().find(|(_, kept, _)| !kept);
        broken.map_or(Ok(()), |(key, _, rule)| Err((key, rule)))
    }
}
