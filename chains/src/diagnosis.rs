//! Diagnosis: what a check of a running deployment found, and what an operator can do about it (`gw doctor`).

use std::fmt::Display;

use async_trait::async_trait;
use ruint::aliases::U256;
use serde::Serialize;

use events::{Account, AssetId, ChainId};
use sagas::ports::Transient;

use crate::{
    config::AssetConfig,
    deployment::Finding,
    head_feed::HeadFeed,
    nodes::{NodeOutcome, NodeReport},
};

/// What can be found out about one chain without changing anything there.
#[async_trait]
pub trait ExaminedChain: Send + Sync {
    /// The node: whether it answers, is of the chain and in sync, and offers what an adapter asks for.
    async fn node(&self, now_seconds: u64) -> Vec<Diagnosis>;

    /// A token of the configuration: whether it is what is said of it. Nothing of the chain's own coin.
    async fn token(&self, asset: &AssetConfig) -> Vec<Diagnosis>;

    /// How many transactions the coins of an account pay for; fewer than `least` are warned of.
    async fn coins(&self, role: &str, account: &Account, least: u64) -> Diagnosis;

    /// What an account holds of an asset, in its smallest unit.
    ///
    /// # Errors
    /// [`Transient`].
    async fn holding(&self, asset: &AssetId, account: &Account) -> Result<U256, Transient>;
}

/// How it stands with one thing that was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is as it has to be.
    Ok,
    /// Nobody could tell; what was found says why.
    NotChecked,
    /// It works, and will not for long, or not for all.
    Warning,
    /// It does not work.
    Wrong,
}

/// One thing that was looked at. It holds no secret: addresses of nodes are given by their origin alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// What was looked at, for example `reserver of GatewayEscrow`.
    pub subject: String,
    /// How it stands.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What to do about it; none where all is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Diagnosis {
    /// All is well.
    pub fn ok(subject: impl Into<String>, found: impl Display) -> Self {
        Self { subject: subject.into(), verdict: Verdict::Ok, found: found.to_string(), remedy: None }
    }

    /// It works, and somebody should look after it.
    pub fn warning(subject: impl Into<String>, found: impl Display, remedy: impl Display) -> Self {
        Self::with(subject, Verdict::Warning, found, remedy)
    }

    /// It does not work.
    pub fn wrong(subject: impl Into<String>, found: impl Display, remedy: impl Display) -> Self {
        Self::with(subject, Verdict::Wrong, found, remedy)
    }

    /// Nobody could tell, because of `why`.
    pub fn not_checked(subject: impl Into<String>, why: impl Display, remedy: impl Display) -> Self {
        Self::with(subject, Verdict::NotChecked, why, remedy)
    }

    /// What was compared with what it has to be; `remedy` where it is not.
    pub fn of_finding(finding: Finding, remedy: &str) -> Self {
        match finding.fault {
            None => Self::ok(finding.subject, "as it has to be"),
            Some(fault) => Self::wrong(finding.subject, fault, remedy),
        }
    }

    fn with(subject: impl Into<String>, verdict: Verdict, found: impl Display, remedy: impl Display) -> Self {
        Self { subject: subject.into(), verdict, found: found.to_string(), remedy: Some(remedy.to_string()) }
    }
}

/// What the nodes of a chain said of themselves. The first entry is wrong where none of them can be asked.
pub fn nodes(chain_id: &ChainId, reports: &[NodeReport]) -> Vec<Diagnosis> {
    /// So many blocks a node may be behind the others of its chain.
    const LAG_BLOCKS_MAX: u64 = 20;
    const NODE: &str = "node";
    let remedy = format!(
        "see that the address is reachable from here, that a key in it is valid, and that the node is of {chain_id}"
    );
    let is_usable = |report: &&NodeReport| matches!(report.outcome, NodeOutcome::Answers { .. });
    let usable = reports.iter().filter(is_usable).count();
    let mut found = vec![match (reports, usable) {
        ([NodeReport { outcome: NodeOutcome::Unusable(why) | NodeOutcome::Silent(why), .. }], _) => {
            return vec![Diagnosis::wrong(NODE, why, remedy)];
        }
        ([_], _) => Diagnosis::ok(NODE, format!("answers, and is of {chain_id}")),
        (_, 0) => Diagnosis::wrong(NODE, format!("none of {} can be asked", reports.len()), &remedy),
        (_, usable) => Diagnosis::ok(NODE, format!("{usable} of {} answer, and are of {chain_id}", reports.len())),
    }];
    for NodeReport { origin, outcome } in reports {
        let subject = format!("node {origin}");
        found.extend(match outcome {
            NodeOutcome::Unusable(why) => Some(Diagnosis::wrong(subject, why, &remedy)),
            NodeOutcome::Silent(why) => Some(Diagnosis::warning(subject, why, &remedy)),
            NodeOutcome::Answers { lag_blocks, .. } if *lag_blocks > LAG_BLOCKS_MAX => Some(Diagnosis::warning(
                subject,
                format!("is {lag_blocks} blocks behind the others"),
                "use another node",
            )),
            NodeOutcome::Answers { .. } => None,
        });
    }
    found
}

/// Whether heads are heard, where the configuration names who tells of them.
pub async fn head_feed(feed: Option<&HeadFeed>) -> Option<Diagnosis> {
    const SUBJECT: &str = "ws_url";
    let asked = feed?.probe().await;
    let remedy = "use another address, or leave it out: the nodes are asked as often as ever then";
    Some(match asked {
        Ok(()) => Diagnosis::ok(SUBJECT, "takes the subscription to heads"),
        Err(why) => Diagnosis::warning(SUBJECT, why, remedy),
    })
}

/// How far a newest block's time lies behind this machine's clock, in seconds; negative where it is ahead. Judged by the time
/// that the chain takes between blocks, which nobody but the chain knows: so the bounds are wide.
pub fn head_age(subject: &str, head_seconds: u64, now_seconds: u64) -> Diagnosis {
    /// A block from so far ahead shows that a clock is wrong: chains refuse blocks from further ahead than some fifteen seconds.
    const AHEAD_SECONDS_MAX: u64 = 20;
    /// Blocks of chains that are served come within a quarter of a minute.
    const BEHIND_SECONDS_WARNING: u64 = 60;
    const BEHIND_SECONDS_MAX: u64 = 15 * 60;
    let behind = now_seconds.saturating_sub(head_seconds);
    let ahead = head_seconds.saturating_sub(now_seconds);
    let node = "compare the node with a public explorer: it is not in sync, or the chain stands still; else set this machine's \
                clock by NTP";
    match (ahead, behind) {
        (1.., _) if ahead > AHEAD_SECONDS_MAX => {
            let found = format!("the newest block is {ahead} s ahead of this machine's clock");
            Diagnosis::wrong(subject, found, "set this machine's clock by NTP")
        }
        (_, behind) if behind > BEHIND_SECONDS_MAX => {
            Diagnosis::wrong(subject, format!("the newest block is {behind} s old"), node)
        }
        (_, behind) if behind > BEHIND_SECONDS_WARNING => {
            Diagnosis::warning(subject, format!("the newest block is {behind} s old"), node)
        }
        (0, behind) => Diagnosis::ok(subject, format!("the newest block is {behind} s old")),
        (ahead, _) => Diagnosis::ok(subject, format!("the newest block is {ahead} s ahead, as blocks may be")),
    }
}

/// What an account's coins pay for, in transactions of a kind that costs `each`; fewer than `least` are warned of.
pub fn balance(subject: &str, balance: u128, each: u128, least: u64, account: &str) -> Diagnosis {
    let times = balance.checked_div(each).unwrap_or(u128::MAX);
    let found = format!("holds {balance} of the coin's smallest unit, which pays for {times} transactions");
    match times {
        0 => Diagnosis::wrong(subject, found, format!("send coins to {account}")),
        _ if times < u128::from(least) => Diagnosis::warning(subject, found, format!("send coins to {account}")),
        _ => Diagnosis::ok(subject, found),
    }
}

/// What a token says of itself, compared with what is configured; `None` where it does not say.
pub fn token(subject: &str, said: (Option<u8>, Option<&str>), configured: (u8, &str)) -> Vec<Diagnosis> {
    let decimals = match said.0 {
        Some(decimals) if decimals == configured.0 => {
            Diagnosis::ok(format!("decimals of {subject}"), format!("{decimals}"))
        }
        Some(decimals) => Diagnosis::wrong(
            format!("decimals of {subject}"),
            format!("the token says {decimals}, the configuration {}", configured.0),
            format!("set `decimals = {decimals}`: amounts are shown, and prices made, by it"),
        ),
        None => Diagnosis::wrong(
            format!("decimals of {subject}"),
            "the contract does not say",
            "compare the asset's address: it is probably not a token",
        ),
    };
    // Whoever made a token chose what it says; it is shown to operators alone, shortened and without what a terminal obeys.
    let shown = said.1.map(|symbol| symbol.chars().filter(|c| !c.is_control()).take(16).collect::<String>());
    let symbol = match shown {
        Some(symbol) if symbol == configured.1 => Diagnosis::ok(format!("symbol of {subject}"), symbol),
        Some(symbol) => Diagnosis::warning(
            format!("symbol of {subject}"),
            format!("the token says {symbol:?}, the configuration {:?}", configured.1),
            "compare the asset's address with its issuer's documents: another token may be meant",
        ),
        None => Diagnosis::not_checked(
            format!("symbol of {subject}"),
            "the token does not say",
            "compare the asset's address with its issuer's documents",
        ),
    };
    vec![decimals, symbol]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_told_apart_and_one_is_enough_to_go_on() {
        let chain: ChainId = "eip155:1".parse().unwrap();
        let report = |origin: &str, outcome| NodeReport { origin: origin.to_owned(), outcome };
        let answers = |lag_blocks| NodeOutcome::Answers { head: 100, lag_blocks };
        let silent = || NodeOutcome::Silent("no answer".to_owned());
        let verdicts = |reports: &[NodeReport]| -> Vec<_> {
            nodes(&chain, reports).into_iter().map(|one| (one.subject, one.verdict)).collect()
        };
        let named = |subject: &str, verdict| (subject.to_owned(), verdict);
        assert_eq!(verdicts(&[report("a", answers(0))]), [named("node", Verdict::Ok)]);
        assert_eq!(verdicts(&[report("a", silent())]), [named("node", Verdict::Wrong)]);
        let other = NodeOutcome::Unusable("is of chain 0x2".to_owned());
        assert_eq!(
            verdicts(&[
                report("a", answers(21)),
                report("b", silent()),
                report("c", other.clone()),
                report("d", answers(20))
            ]),
            [
                named("node", Verdict::Ok),
                named("node a", Verdict::Warning),
                named("node b", Verdict::Warning),
                named("node c", Verdict::Wrong)
            ]
        );
        let none = verdicts(&[report("a", silent()), report("b", other)]);
        assert_eq!((none[0].clone(), none.len()), (named("node", Verdict::Wrong), 3));
    }

    #[test]
    fn heads_are_judged_on_both_sides_of_the_clock() {
        let verdict = |head, now| head_age("head", head, now).verdict;
        assert_eq!(verdict(1_000, 1_000), Verdict::Ok);
        assert_eq!(verdict(1_020, 1_000), Verdict::Ok);
        assert_eq!(verdict(1_021, 1_000), Verdict::Wrong);
        assert_eq!(verdict(940, 1_000), Verdict::Ok);
        assert_eq!(verdict(939, 1_000), Verdict::Warning);
        assert_eq!(verdict(99, 1_000), Verdict::Wrong);
    }

    #[test]
    fn balances_are_judged_by_what_they_pay_for() {
        let verdict = |held, each| balance("submitter", held, each, 100, "0x1").verdict;
        assert_eq!(verdict(99, 100), Verdict::Wrong);
        assert_eq!(verdict(100, 100), Verdict::Warning);
        assert_eq!(verdict(10_000, 100), Verdict::Ok);
        assert_eq!(verdict(0, 0), Verdict::Ok, "where nothing costs anything nothing is needed");
    }

    #[test]
    fn a_token_is_compared_and_what_it_says_obeys_no_terminal() {
        let verdicts = |said| token("USDC", said, (6, "USDC")).iter().map(|one| one.verdict).collect::<Vec<_>>();
        assert_eq!(verdicts((Some(6), Some("USDC"))), [Verdict::Ok, Verdict::Ok]);
        assert_eq!(verdicts((Some(18), Some("DAI"))), [Verdict::Wrong, Verdict::Warning]);
        assert_eq!(verdicts((None, None)), [Verdict::Wrong, Verdict::NotChecked]);
        let long = format!("\u{1b}[31m{}", "x".repeat(100));
        assert!(!token("USDC", (Some(6), Some(&long)), (6, "USDC"))[1].found.contains(['\u{1b}']));
    }
}
