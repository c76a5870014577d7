//! `[[corridors]]`: what is traded, and how it is priced.

use std::{collections::HashMap, sync::Arc};

use events::AssetId;
use protocol::CORRIDORS_MAX;
use ruint::aliases::U256;
use serde::Deserialize;

use super::{Config, Error, prices::Market, units};
use crate::pricing::{Book, ChainFees, Margin, Pricing, Rate, Rates, Skew, Tier};

const KEY: &str = "corridors";
/// Most tiers of a corridor.
const TIERS_MAX: usize = 32;
/// Most bits of a target of inventory, which is multiplied by basis points.
const TARGET_BITS_MAX: usize = 200;

/// `[[corridors]]`: a pair of assets that is traded.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorridorConfig {
    /// What the payer spends, CAIP-19.
    pub source_asset: AssetId,
    /// What is delivered, CAIP-19.
    pub destination_asset: AssetId,
    /// Margin on the converted amount, in basis points.
    #[serde(default)]
    pub spread_bps: u32,
    /// Other margins of larger deliveries.
    #[serde(default)]
    pub tiers: Vec<TierConfig>,
    /// What is added to the margin as the inventory of what is delivered falls below its target, up to this where nothing is left, in basis
    /// points.
    #[serde(default)]
    pub skew_bps: u32,
    /// The least that is left of a payment, in the smallest unit of the source asset, decimal text.
    #[serde(default, deserialize_with = "units")]
    pub profit_min: U256,
    /// Flat cost of the transactions in the smallest unit of the source asset, decimal text.
    #[serde(default, deserialize_with = "units")]
    pub gas_cost: U256,
    /// Whether what the chains ask for delivery and release is counted besides, by the prices of their coins; where the assets are priced by
    /// the market, if it is left out.
    #[serde(default)]
    pub chain_fees: Option<bool>,
    /// What is added to those fees, in basis points.
    #[serde(default = "usual_fee_margin")]
    pub fee_margin_bps: u32,
    /// Whether the assets trade by their `[[prices]]`.
    #[serde(default)]
    pub market: bool,
    /// Units of the source asset for units of the destination asset, where the market does not say. Without either the assets trade one for
    /// one, and both must be listed under their chains with the same decimals.
    #[serde(default)]
    pub rate: Option<RateConfig>,
}

/// Exchange rate: smallest units of one asset for smallest units of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateConfig {
    /// Smallest units of the source asset.
    pub source: u64,
    /// Smallest units of the destination asset.
    pub destination: u64,
}

/// `[[corridors.tiers]]`: the margin of deliveries of at least an amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TierConfig {
    /// The least amount, smallest unit of the destination asset, decimal text.
    #[serde(deserialize_with = "units")]
    pub from: U256,
    /// The margin, in basis points.
    pub spread_bps: u32,
}

fn usual_fee_margin() -> u32 {
    2_500
}

/// How everything is priced.
pub(super) fn book(config: &Config) -> Result<Book, Error> {
    if config.corridors.is_empty() || config.corridors.len() > CORRIDORS_MAX {
        return Err(Error::new(KEY, format!("there must be 1 to {CORRIDORS_MAX}")));
    }
    let market = Market::of(config)?;
    let mut corridors = HashMap::new();
    for corridor in &config.corridors {
        let pair = (corridor.source_asset.clone(), corridor.destination_asset.clone());
        if corridors.insert(pair, pricing(config, corridor, &market)?).is_some() {
            return Err(Error::new(KEY, "the same pair of assets stands twice"));
        }
    }
    Ok(Book { corridors, assets: market.asset_prices(), board: market.board, followers: market.followers })
}

fn pricing(config: &Config, corridor: &CorridorConfig, market: &Market) -> Result<Pricing, Error> {
    let (source, destination) = (&corridor.source_asset, &corridor.destination_asset);
    if source.is_coin() {
        return Err(Error::new(KEY, format!("{source} is a coin, which is paid with in its wrapped form")));
    }
    for asset in [source, destination] {
        if !config.chains.iter().any(|chain| chain.common().chain_id == *asset.chain()) {
            return Err(Error::new(KEY, format!("{} is none of the chains", asset.chain())));
        }
    }
    let fees = |asset: &AssetId| -> Result<Arc<dyn Rates>, Error> {
        Ok(Arc::new(market.rate(source, market.coin(asset.chain())?)?))
    };
    let chain_fees = match corridor.chain_fees.unwrap_or(corridor.market) {
        false => None,
        true => Some(ChainFees {
            delivery: fees(destination)?,
            release: fees(source)?,
            margin_bps: corridor.fee_margin_bps,
        }),
    };
    Ok(Pricing {
        rates: rates(config, corridor, market)?,
        margin: margin(config, corridor)?,
        gas_cost: corridor.gas_cost,
        chain_fees,
    })
}

fn rates(config: &Config, corridor: &CorridorConfig, market: &Market) -> Result<Arc<dyn Rates>, Error> {
    let (source, destination) = (&corridor.source_asset, &corridor.destination_asset);
    match (corridor.market, corridor.rate) {
        (true, Some(_)) => Err(Error::new(KEY, "either market or rate")),
        (true, None) => Ok(Arc::new(market.rate(source, destination)?)),
        (false, Some(rate)) => {
            let made = Rate::new(U256::from(rate.source), U256::from(rate.destination));
            Ok(Arc::new(made.ok_or_else(|| Error::new(KEY, "rate must have no zero in it"))?))
        }
        (false, None) => {
            let decimals = [source, destination].map(|asset| config.decimals(asset));
            match decimals[0].is_some() && decimals[0] == decimals[1] {
                true => Ok(Arc::new(Rate::PAR)),
                false => Err(Error::new(KEY, "rate may be left out only for listed assets of the same decimals")),
            }
        }
    }
}

fn margin(config: &Config, corridor: &CorridorConfig) -> Result<Margin, Error> {
    let tiers: Vec<Tier> =
        corridor.tiers.iter().map(|tier| Tier { from: tier.from, spread_bps: tier.spread_bps }).collect();
    if tiers.len() > TIERS_MAX || !tiers.is_sorted_by(|one, next| one.from < next.from) {
        return Err(Error::new(KEY, format!("tiers must be at most {TIERS_MAX}, the smallest first")));
    }
    let skew = match corridor.skew_bps {
        0 => None,
        bps => {
            let of = config.inventory.iter().find(|bound| bound.asset == corridor.destination_asset);
            let target = of.and_then(|bound| bound.target).filter(|target| !target.is_zero());
            let target = target.filter(|target| target.bit_len() <= TARGET_BITS_MAX).ok_or_else(|| {
                Error::new(KEY, format!("skew_bps needs a target of {} in [[inventory]]", corridor.destination_asset))
            })?;
            Some(Skew { bps, target })
        }
    };
    Ok(Margin { spread_bps: corridor.spread_bps, tiers, skew, profit_min: corridor.profit_min })
}
