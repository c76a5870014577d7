//! Diagnosis of a Solana cluster: its node, its tokens, and what accounts there hold.

use std::time::Duration;

use async_trait::async_trait;
use gateway_program::ids::{TOKEN_2022_PROGRAM, TOKEN_PROGRAM};
use ruint::aliases::U256;
use tokio::time::{sleep, timeout};

use chains::{
    config::AssetConfig,
    diagnosis::{self, Diagnosis, ExaminedChain, Verdict},
};
use events::{Account, AssetId, OwnedAsset};
use sagas::ports::Transient;

use super::{
    holding::Holding,
    node::{Commitment, Node},
    program::{key, mint, text},
    submitters::{LAMPORTS_MAX, LAMPORTS_MIN},
};

/// How long a new slot is waited for.
const NEW_SLOT_MAX: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Where the decimals stand in a mint, of either token program.
const MINT_DECIMALS: usize = 44;
/// Bytes of a mint without extensions.
const MINT_BYTES: usize = 82;

#[async_trait]
impl ExaminedChain for Node {
    async fn node(&self, now_seconds: u64) -> Vec<Diagnosis> {
        let mut found = diagnosis::nodes(self.chain_id(), &self.node_reports().await);
        if found.first().is_none_or(|first| first.verdict == Verdict::Wrong) {
            return found;
        }
        // The clock comes along with whatever is asked for.
        let newest = self.accounts(&[], Commitment::Confirmed, 0).await;
        let newest = match newest {
            Ok(newest) => newest,
            Err(fault) => {
                found.push(Diagnosis::wrong("newest slot", fault, "use another node"));
                return found;
            }
        };
        found.push(diagnosis::head_age("newest slot", newest.time, now_seconds));
        let (moves, settled) = tokio::join!(self.moves(newest.slot), self.settled());
        found.push(moves);
        found.push(match settled {
            Ok(settled) => {
                let behind = newest.slot.saturating_sub(settled.slot);
                Diagnosis::ok(
                    "required depth",
                    format!("slot {} is finalized, {behind} below the newest", settled.slot),
                )
            }
            Err(fault) => Diagnosis::wrong("required depth", fault, "use another node"),
        });
        found.extend(diagnosis::head_feed(self.head_feed()).await);
        found
    }

    async fn token(&self, asset: &AssetConfig) -> Vec<Diagnosis> {
        let Ok(mint) = mint(&asset.asset_identifier) else { return Vec::new() };
        let subject = format!("{} ({})", asset.symbol, text(&mint));
        let found = match self.accounts(&[mint], Commitment::Confirmed, 0).await {
            Ok(found) => found,
            Err(fault) => return vec![Diagnosis::not_checked(subject, fault, "first see to the node")],
        };
        let of_token = |owner| owner == TOKEN_PROGRAM || owner == TOKEN_2022_PROGRAM;
        let account = found.account(0).filter(|account| of_token(account.owner) && account.data.len() >= MINT_BYTES);
        let Some(account) = account else {
            let remedy = "compare the asset's address with its issuer's documents";
            return vec![Diagnosis::wrong(subject, "there is no mint of a token at this address", remedy)];
        };
        let decimals = account.data.get(MINT_DECIMALS).copied();
        diagnosis::token(&subject, (decimals, None), (asset.decimals, &asset.symbol))
    }

    async fn coins(&self, role: &str, account: &Account, least: u64) -> Diagnosis {
        let subject = format!("coins of {role} {account}");
        let read = async { self.lamports(&key(account)?).await };
        match read.await {
            Ok(lamports) => {
                let spare = lamports.saturating_sub(LAMPORTS_MIN);
                diagnosis::balance(&subject, spare.into(), LAMPORTS_MAX.into(), least, account.as_str())
            }
            Err(fault) => Diagnosis::not_checked(subject, fault, "first see to the node"),
        }
    }

    async fn holding(&self, asset: &AssetId, account: &Account) -> Result<U256, Transient> {
        if asset.is_coin() {
            return Ok(U256::from(self.lamports(&key(account)?).await?));
        }
        let owned = OwnedAsset::new(asset.clone(), account.as_str());
        let owned = owned.map_err(|error| Transient::misconfigured(error.to_string()))?;
        Ok(Holding::read(self, &owned).await?.map_or(U256::ZERO, |holding| U256::from(holding.amount)))
    }
}

impl Node {
    async fn moves(&self, from: u64) -> Diagnosis {
        let subject = "new slots";
        let next = async {
            loop {
                sleep(LOOK_EVERY).await;
                if let Ok(slot) = self.head().await
                    && slot > from
                {
                    return slot;
                }
            }
        };
        match timeout(NEW_SLOT_MAX, next).await {
            Ok(slot) => Diagnosis::ok(subject, format!("slot {slot} followed {from}")),
            Err(_) => Diagnosis::warning(
                subject,
                format!("none followed {from} within {} s", NEW_SLOT_MAX.as_secs()),
                "compare with a public explorer: the node has lost its peers, or the cluster stands still",
            ),
        }
    }
}
