//! `gw pay`: pays through a gateway from an account whose key is in a keystore. What is signed is rebuilt and compared; the intent is
//! on disk before anything is sent.
//!
//! One `request_id` is one payment: the escrow takes a payment's id once. So whatever was signed for it before, and whatever became
//! of that, going on under the same `request_id` can never pay twice.

mod args;
mod follow;
mod intents;
mod key;
mod receipt;
mod text;

use std::{
    io::{BufRead, IsTerminal, Write, stderr, stdin},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use chrono::{DateTime, Utc};
use ruint::aliases::U256;
use tokio::time::Instant;

use events::{Account, Family, time::unix_seconds};
use gateway_client::{
    Corridor, Error, Gateway, Key, Mismatch, Order, Pins, Submission,
    authorization::{self, Checked},
    onchain::Chain,
    prepare_checked, until,
};

pub use self::args::Args;
pub(super) use self::{
    args::Recipient,
    intents::Intents,
    key::open as open_key,
    text::{plain, plain_error},
};
use self::{
    args::Wanted,
    intents::{Held, Intent},
    receipt::Receipt,
    text::{node_host, whole},
};

/// A signature whose deadlines have passed: nothing was accepted for it.
const DEADLINE_PASSED: &str = "INVALID_DEADLINE";
/// How long a gateway may go by what it read of an allowance before that was given.
const ALLOWANCE_SEEN_MAX: Duration = Duration::from_secs(5);
/// Pause between two looks.
const ALLOWANCE_LOOK_PAUSE: Duration = Duration::from_millis(250);

/// Pays, or goes on with a payment that was begun.
///
/// # Errors
/// When nothing was submitted, for the reason that it says.
pub async fn run(args: &Args) -> Result<ExitCode> {
    pay(args).await.map_err(|error| plain_error(&error))
}

async fn pay(args: &Args) -> Result<ExitCode> {
    let wanted = args.wanted()?;
    let family = wanted.source.chain().family().context("--from is on a chain of no family that is known here")?;
    let pins = args.pins(family)?;
    let (key, account) = open_key(&args.key, args.passphrase_file.clone(), family)?;
    let intents = Intents::open(args.journal.as_deref())?;
    let payer = Payer { args, wanted: &wanted, pins, key, account };
    let held = intents.hold(&wanted.identity(&payer.account))?;
    let mut order = wanted.order(&payer.account, args.windows())?;
    let begun = held.begun()?;
    if let Some(begun) = &begun {
        order = order.under(&begun.order.request_id);
        // What is shown is what is signed, whatever the file says.
        ensure!(
            begun.order.terms() == order.terms() && begun.order.members == order.members,
            "{} is of another payment than the one that is asked for",
            held.path().display()
        );
    } else if wanted.request_id.is_some()
        && let Some(over) = intents.over(&order.payment_id())?
    {
        let (before, now) = (&over.order, &order);
        ensure!(
            before.destination == now.destination && before.fulfillment_amount == now.fulfillment_amount,
            "the request_id is taken: {} of this account is over, and was another payment, of {}; whoever asks has to ask under \
             another one",
            now.payment_id(),
            before.fulfillment_amount
        );
        eprintln!("This was paid before: {} is over.", order.payment_id());
        let payment = wanted.gateway.status(&order.payment_id()).await?;
        return receipt::of(&wanted.gateway, &over, &payment).await.give();
    }
    let intent = match begun {
        Some(intent) if intent.submission.is_some() => {
            eprintln!("Going on with {}, which was signed before.", intent.order.payment_id());
            intent
        }
        begun => match payer.begin(&held, order.clone(), begun).await {
            Ok(intent) => intent,
            Err(error) => {
                let Some(reason) = error.downcast_ref::<Error>() else { return Err(error) };
                let intent = held.begun()?;
                let intent = intent.unwrap_or_else(|| Intent::new(wanted.gateway.url().to_string(), order, 0));
                return receipt::refused(&intent, reason).give();
            }
        },
    };
    let (intent, receipt) = payer.finish(&held, intent).await?;
    let code = receipt.give()?;
    // Only what was told is over: whoever is killed before is told again.
    if receipt.is_over {
        let mut intent = intent;
        intent.receipt = Some(receipt.answer);
        let kept = intents.end(&held, &intent)?;
        eprintln!("The receipt is kept in {}.", kept.display());
    }
    Ok(code)
}

/// Who pays, and what it asks for.
struct Payer<'a> {
    args: &'a Args,
    wanted: &'a Wanted,
    pins: Pins,
    key: Key,
    account: Account,
}

/// An allowance that has to be given.
struct Missing {
    chain: Chain,
    spender: Account,
    stands: U256,
}

impl Payer<'_> {
    fn gateway(&self) -> &Gateway {
        &self.wanted.gateway
    }

    /// Shows what is paid, has it confirmed, gives the allowance, and signs. What was signed is kept when this returns.
    async fn begin(&self, held: &Held, order: Order, begun: Option<Intent>) -> Result<Intent> {
        if let Some(expired) = self.wanted.expires_at.filter(|at| *at <= Utc::now()) {
            bail!("the link could be paid until {expired}");
        }
        let corridor = self.gateway().corridor(&order.source, &order.destination).await?;
        let now = unix_seconds(Utc::now());
        self.pins.check(&order, &corridor, now).map_err(Error::from)?;
        // Another escrow would take the id once more while the first signature holds.
        if let Some(begun) = begun.as_ref().filter(|begun| now <= begun.order.fulfillment_seconds()) {
            unchanged(begun, &corridor).map_err(Error::from)?;
        }
        let missing = self.missing(&order, &corridor).await?;
        self.confirm(&order, &corridor, missing.as_ref())?;
        let mut intent = begun.unwrap_or_else(|| {
            Intent::new(self.gateway().url().to_string(), order.clone(), corridor.refund_delay_seconds)
        });
        // From here on the same command is the same payment.
        held.keep(&intent)?;
        if let Some(Missing { chain, spender, .. }) = missing {
            let cap = self.wanted.cap;
            let fee_max = self.pins.fee_max(order.source.family());
            let sent = chain.approve(&order.source, &spender, cap, &self.key, fee_max).await?;
            eprintln!("{spender} may draw {cap}: {}", sent.join(", "));
            intent.approvals.extend(sent);
        }
        self.sign(held, intent, &corridor).await
    }

    /// Signs for deadlines from now on. Allowances take the blocks that they take.
    async fn sign(&self, held: &Held, mut intent: Intent, corridor: &Corridor) -> Result<Intent> {
        let order = intent.order.from_now(Utc::now(), self.args.windows());
        let (mut prepared, mut checked) = prepare_checked(self.gateway(), &order, corridor, &self.pins).await?;
        // The gateway may still say what it read before the allowance was given.
        let given = Instant::now();
        while prepared.approval.is_some() && !intent.approvals.is_empty() && given.elapsed() < ALLOWANCE_SEEN_MAX {
            tokio::time::sleep(ALLOWANCE_LOOK_PAUSE).await;
            (prepared, checked) = prepare_checked(self.gateway(), &order, corridor, &self.pins).await?;
        }
        if let Some(wrap) = &prepared.wrap {
            let lacking = wrap["amount"].as_str().unwrap_or_default();
            bail!(
                "the account lacks {} of the asset: wrap coins first, as `wrap` of /v1/payments/prepare says",
                plain(lacking)
            );
        }
        ensure!(prepared.approval.is_none(), not_allowed(&order, &checked));
        let auth = checked.sign(&self.key).await?;
        intent.submission = Some(Submission::new(&order, auth)?);
        intent.plan = Some(checked.plan);
        intent.refund_delay_seconds = corridor.refund_delay_seconds;
        intent.order = order;
        held.keep(&intent)?;
        Ok(intent)
    }

    /// The allowance that is too small, where a node was named to ask.
    async fn missing(&self, order: &Order, corridor: &Corridor) -> Result<Option<Missing>> {
        let Some(spender) = authorization::spender(order, corridor, &self.pins)? else { return Ok(None) };
        let Some(node) = &self.args.node else { return Ok(None) };
        // Where the token takes signatures, no transaction is needed. What prepare says is checked before anything is signed.
        if corridor.source.takes_token_signatures() && self.gateway().prepare(order).await?.is_allowed_by_signature() {
            return Ok(None);
        }
        let chain_id = order.source.asset().chain();
        let permit2 = self.pins.permit2_on(chain_id);
        let chain = Chain::connect(chain_id, node, &corridor.source.escrow_contract_address, permit2.as_ref()).await?;
        let stands =
            chain.allowance(&order.source, &spender).await.with_context(|| format!("--node {}", node_host(node)))?;
        Ok((stands < self.wanted.cap.get()).then_some(Missing { chain, spender, stands }))
    }

    /// Says what is going to happen, and asks whether it may.
    fn confirm(&self, order: &Order, corridor: &Corridor, missing: Option<&Missing>) -> Result<()> {
        let mut lines = Vec::new();
        if let Some(memo) = &self.wanted.memo {
            lines.push(("For", format!("“{}”", plain(memo))));
        }
        let with_whole = |amount, asset: Option<&_>, id: &dyn std::fmt::Display| match whole(amount, asset) {
            Some(whole) => format!("{amount} of {id} ({whole}, by the gateway's word)"),
            None => format!("{amount} of {id}"),
        };
        let source = order.source.asset();
        let cap = with_whole(self.wanted.cap, corridor.source.asset(source), source);
        lines.push(("You pay", format!("at most {cap}")));
        lines.push(("from", self.account.to_string()));
        for (index, (owned, asset)) in order.destination.iter().zip(&corridor.destinations).enumerate() {
            let amount = with_whole(order.fulfillment_amount, asset.as_ref(), owned.asset());
            lines.push((if index == 0 { "They get" } else { "or" }, amount));
            lines.push(("to", owned.account().to_string()));
        }
        lines.push(("through", self.gateway().url().to_string()));
        for (name, account) in self.pins.believed(corridor) {
            lines.push((name, format!("{account}, by the gateway's word")));
        }
        lines.extend(verifiers(corridor).map(|text| ("verifiers", text)));
        lines.extend(by_transactions(order, corridor, &self.pins).map(|text| ("signing", text)));
        let locked = order.fulfillment_seconds().saturating_add(corridor.refund_delay_seconds);
        lines.push(("locked", format!("until {} at the latest, if nobody delivers", time(locked))));
        if let Some(Missing { spender, stands, .. }) = missing {
            let fee = self.pins.fee_max(order.source.family());
            let allowed = format!("{spender} is allowed to draw {} (now {stands})", self.wanted.cap);
            lines.push(("first", format!("{allowed}, by a transaction of yours that costs at most {fee}")));
        }
        for (name, value) in lines {
            eprintln!("{name:>10}  {value}");
        }
        if self.args.yes {
            return Ok(());
        }
        ensure!(stdin().is_terminal(), "nobody is there to confirm it; with --yes it is paid without asking");
        eprint!("Pay? [y/N] ");
        stderr().flush()?;
        let mut said = String::new();
        stdin().lock().read_line(&mut said)?;
        ensure!(matches!(said.trim(), "y" | "Y" | "yes"), "not paid");
        Ok(())
    }

    /// Submits what was signed, and follows it to its outcome. What was signed and ran out before anybody accepted it is signed
    /// anew, once, under the same `request_id`.
    async fn finish(&self, held: &Held, mut intent: Intent) -> Result<(Intent, Receipt)> {
        let mut may_renew = true;
        loop {
            let ends = until(&intent.order, intent.refund_delay_seconds);
            let until = self.args.wait().map_or(ends, |wait| ends.min(Instant::now() + wait));
            let submission = intent.submission.clone().context("nothing was signed")?;
            let error = match self.gateway().submit_holding(&submission, Duration::ZERO, until).await {
                Ok(payment) => {
                    let outcome = follow::follow(self.gateway(), &payment.payment_id, until).await;
                    let payment = outcome.unwrap_or(payment);
                    let receipt = receipt::of(self.gateway(), &intent, &payment).await;
                    return Ok((intent, receipt));
                }
                Err(error) => error,
            };
            let refusal = match &error {
                Error::Refused(refusal) if !refusal.is_unknown() => refusal,
                // Whatever else it is, something was sent.
                _ => {
                    let receipt = receipt::unknown(&intent, &error);
                    return Ok((intent, receipt));
                }
            };
            let is_free = refusal.request_id_reusable == Some(true);
            if is_free {
                // The next run signs anew, under the same `request_id`.
                intent.submission = None;
                held.keep(&intent)?;
            }
            // The payer's own clock says whether that can be so.
            let has_passed = refusal.code == DEADLINE_PASSED && intent.order.quote_deadline <= Utc::now();
            if !(is_free && may_renew && has_passed) {
                let receipt = receipt::refused(&intent, &error);
                return Ok((intent, receipt));
            }
            may_renew = false;
            eprintln!("What was signed before was never accepted, and its time has passed; it is signed anew.");
            let corridor = self.gateway().corridor(&intent.order.source, &intent.order.destination).await?;
            // Nobody is asked again, so it has to be what was confirmed.
            if let Err(changed) = unchanged(&intent, &corridor) {
                let receipt = receipt::refused(&intent, &changed.into());
                return Ok((intent, receipt));
            }
            intent = self.sign(held, intent, &corridor).await?;
        }
    }
}

/// How many of which verifiers have to attest the delivery, where the releaser stands for a set, with which they were compared.
/// Nothing of one alone: it is the releaser.
fn verifiers(corridor: &Corridor) -> Option<String> {
    let shown = corridor.source.fulfillment_verifier.as_ref()?;
    let members = shown.members.as_ref().filter(|members| members.len() > 1)?;
    let accounts: Vec<_> = members.iter().map(|member| member.account.as_str()).collect();
    let threshold = shown.threshold?;
    Some(format!("{threshold} of {} have to attest the delivery: {}", accounts.len(), accounts.join(", ")))
}

/// That the payer signs transactions on Tron, which cost TRX, where one signature would do if the gateway's Permit2 were the payer's.
fn by_transactions(order: &Order, corridor: &Corridor, pins: &Pins) -> Option<String> {
    let named = authorization::foreign_permit2(order, corridor, pins)?;
    let own = match pins.permit2_on(order.source.asset().chain()) {
        Some(own) => format!("yours is {own}"),
        None => "you named none".to_owned(),
    };
    Some(format!("transactions of yours, which cost TRX: the gateway's Permit2 is {named}, and {own} (--permit2)"))
}

/// Why what was prepared is not signed: whoever draws may not draw enough.
fn not_allowed(order: &Order, checked: &Checked) -> String {
    let (amount, chain) = (checked.amount, order.source.asset().chain());
    let spender = checked.spender.as_ref().map_or("the escrow", Account::as_str);
    match order.source.family() {
        // It is offered to nobody whose allowance is not there.
        Family::Tron => format!("{spender} has no allowance of {amount} any more: pay again, by transactions of yours"),
        Family::Evm | Family::Solana => {
            format!("{spender} has no allowance of {amount} yet: name a node of {chain} by --node, and it is given")
        }
    }
}

/// Compares what the gateway names now with what was signed for an intent before.
fn unchanged(intent: &Intent, corridor: &Corridor) -> Result<(), Mismatch> {
    let Some(plan) = &intent.plan else { return Ok(()) };
    let named = &corridor.source;
    for (name, before, now) in [
        ("escrow", &plan.contract, &named.escrow_contract_address),
        ("reserver", &plan.reserver, &named.reserver),
        ("releaser", &plan.releaser, &named.releaser),
    ] {
        if before != now {
            return Err(Mismatch::new(name, before, now));
        }
    }
    let (before, now) = (intent.refund_delay_seconds, corridor.refund_delay_seconds);
    match before == now {
        true => Ok(()),
        false => Err(Mismatch::new("the refund delay", format!("{before} s"), format!("{now} s"))),
    }
}

/// A UNIX second as a time.
pub(super) fn time(seconds: u64) -> String {
    let at = i64::try_from(seconds).ok().and_then(|seconds| DateTime::from_timestamp(seconds, 0));
    at.map_or_else(|| seconds.to_string(), |at| at.format("%Y-%m-%d %H:%M:%S UTC").to_string())
}

#[cfg(test)]
mod tests {
    use events::{ChainId, OwnedAsset, event::EscrowPlan};
    use gateway_client::Windows;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_set_of_verifiers_is_shown_with_its_threshold_and_one_alone_is_not() {
        let account = |digit: &str| format!("0x{}", digit.repeat(40));
        let shown = |members: &[&str]| {
            let members: Vec<_> =
                members.iter().map(|it| json!({"account": account(it), "endpoint": "https://v.example"})).collect();
            verifiers(&Corridor {
                source: serde_json::from_value(json!({
                    "escrow_contract_address": account("1"), "reserver": account("2"), "releaser": account("3"),
                    "fulfillment_verifier": {"account": account("3"), "threshold": 2, "members": members},
                    "refund_delay_seconds": 1, "assets": [],
                }))
                .unwrap(),
                refund_delay_seconds: 1,
                destinations: Vec::new(),
            })
        };
        let all = [account("4"), account("5"), account("6")].join(", ");
        assert_eq!(shown(&["4", "5", "6"]), Some(format!("2 of 3 have to attest the delivery: {all}")));
        assert_eq!((shown(&["3"]), shown(&[])), (None, None));
    }

    #[test]
    fn a_signature_is_renewed_for_what_was_confirmed() {
        let account = |digit: &str| format!("0x{}", digit.repeat(40)).parse::<Account>().unwrap();
        let owned = |asset: &str| OwnedAsset::new(asset.parse().unwrap(), account("9").as_str()).unwrap();
        let order = Order::new(
            owned("eip155:1/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48"),
            vec![owned("eip155:10/slip44:60")],
            "5".parse().unwrap(),
            Some("6".parse().unwrap()),
            Utc::now(),
            Windows::default(),
        );
        let corridor = |escrow: &str, reserver: &str, releaser: &str, refund_delay_seconds: u64| Corridor {
            source: serde_json::from_value(json!({
                "escrow_contract_address": account(escrow),
                "reserver": account(reserver),
                "releaser": account(releaser),
                "refund_delay_seconds": refund_delay_seconds,
                "assets": [],
            }))
            .unwrap(),
            refund_delay_seconds,
            destinations: Vec::new(),
        };
        let mut intent = Intent::new("https://pay.example/".to_owned(), order, 900);
        assert_eq!(unchanged(&intent, &corridor("8", "8", "8", 1)), Ok(()), "nothing was signed before");
        intent.plan = Some(EscrowPlan {
            chain_id: ChainId::evm(1),
            contract: account("1"),
            reserver: account("2"),
            releaser: account("3"),
            reserve_deadline: 1,
            fulfillment_deadline: 2,
            refund_after: 3,
        });
        assert_eq!(unchanged(&intent, &corridor("1", "2", "3", 900)), Ok(()));
        for (other, field) in [
            (corridor("8", "2", "3", 900), "escrow"),
            (corridor("1", "8", "3", 900), "reserver"),
            (corridor("1", "2", "8", 900), "releaser"),
            (corridor("1", "2", "3", 901), "the refund delay"),
        ] {
            assert_eq!(unchanged(&intent, &other).unwrap_err().field, field);
        }
    }
}
