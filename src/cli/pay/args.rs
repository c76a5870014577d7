//! Arguments of `gw pay`, and what is paid by them: an order, or what a link asks for.

use std::{path::PathBuf, str::FromStr, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use chrono::Utc;
use clap::Args as ClapArgs;
use ruint::aliases::U256;
use serde_json::{Value, json};
use url::Url;

use events::{Account, Amount, AssetId, Did, Family, OwnedAsset, time::Timestamp};
use gateway_client::{Gateway, Order, Pins, Windows, link::PaymentLink};

/// Arguments of `gw pay`.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Exit codes: 0 completed; 1 failed or refused, and the answer says where the money is; 2 bad usage; 3 not known \
                        yet: the same command goes on, and pays once."
)]
pub struct Args {
    /// A link of `gw request`, or of a payment page.
    #[arg(conflicts_with_all = ["to", "amount"])]
    link: Option<String>,
    /// The gateway's address. A link of another gateway is refused.
    #[arg(long, env = "GW_GATEWAY", required_unless_present = "link")]
    gateway: Option<String>,
    /// The asset that is paid with, CAIP-19. A link may name the only one.
    #[arg(long, required_unless_present = "link")]
    from: Option<AssetId>,
    /// Who is paid in what, ASSET=ACCOUNT; where there are several, the settler takes one of them.
    #[arg(long, required_unless_present = "link", value_name = "ASSET=ACCOUNT")]
    to: Vec<Recipient>,
    /// What arrives, in the smallest unit of the asset.
    #[arg(long, required_unless_present = "link")]
    amount: Option<Amount>,
    /// The most that may be spent, in the smallest unit of the asset that is paid with. A link may say it.
    #[arg(long, required_unless_present = "link")]
    max: Option<Amount>,
    /// Keystore of the account that pays, as `gw keys` makes them.
    #[arg(long)]
    pub key: PathBuf,
    /// File with the passphrase of the keystore; asked for without it.
    #[arg(long, env = "GW_PASSPHRASE_FILE")]
    pub passphrase_file: Option<PathBuf>,
    /// A node of the chain that is paid on: to give an allowance where one is missing, on EVM chains and Solana. An address with a
    /// key in it belongs into the variable, which other users of the machine cannot list.
    #[arg(long, env = "GW_NODE", hide_env_values = true)]
    pub node: Option<String>,
    /// Idempotency key. One key is one payment, for ever; without it a new one is made, and kept until the payment is over.
    #[arg(long, conflicts_with = "link")]
    request_id: Option<String>,
    /// Only these settlers may win.
    #[arg(long, value_name = "DID")]
    settler: Vec<Did>,
    /// Pay without asking. With a link, what the link says is not enough: --max is needed, and --gateway or all of --escrow,
    /// --reserver and --releaser.
    #[arg(long)]
    pub yes: bool,
    /// For how many seconds the outcome is waited for; without it, until it is known or every window has passed.
    #[arg(long, value_name = "SECONDS")]
    wait: Option<u64>,
    /// For how many seconds quotes are collected.
    #[arg(long, default_value_t = 10, value_name = "SECONDS")]
    quote_seconds: u64,
    /// After how many seconds the payment fails that is not delivered.
    #[arg(long, default_value_t = 240, value_name = "SECONDS")]
    fulfillment_seconds: u64,
    /// The escrow, where you know it: another one that the gateway names is refused.
    #[arg(long)]
    escrow: Option<String>,
    /// The same for the account that reserves the money.
    #[arg(long)]
    reserver: Option<String>,
    /// The same for the account that attests the delivery; of a set of verifiers its id, which `gw verifiers id` computes.
    #[arg(long)]
    releaser: Option<String>,
    /// Permit2, where it is not where Uniswap has it on EVM chains, or SUN.io on Tron.
    #[arg(long)]
    permit2: Option<String>,
    /// The longest that money may be locked, in seconds from now to the refund window.
    #[arg(long, default_value_t = 7_200, value_name = "SECONDS")]
    lock_max: u64,
    /// The most that a transaction of your own may cost, in the smallest unit of the chain's coin: 0.01 ETH, 0.01 SOL or 300 TRX
    /// unless named.
    #[arg(long, value_name = "UNITS")]
    fee_max: Option<U256>,
    /// Where intents and receipts are kept; in the place for a program's state of your account unless named.
    #[arg(long, env = "GW_PAY_JOURNAL", value_name = "DIRECTORY")]
    pub journal: Option<PathBuf>,
}

/// A recipient of an asset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipient(pub OwnedAsset);

impl FromStr for Recipient {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (asset, account) = text.rsplit_once('=').ok_or("is not ASSET=ACCOUNT, such as eip155:1/erc20:0x…=0x…")?;
        let asset: AssetId = asset.parse().map_err(|rule| format!("{asset}: {rule}"))?;
        OwnedAsset::new(asset, account).map(Self).map_err(|rule| format!("{account}: {rule}"))
    }
}

/// What is to be paid, before the account is known.
#[derive(Debug)]
pub struct Wanted {
    /// Through whom.
    pub gateway: Gateway,
    /// With what.
    pub source: AssetId,
    /// To whom.
    pub destination: Vec<OwnedAsset>,
    /// How much arrives.
    pub amount: Amount,
    /// The most that is spent.
    pub cap: Amount,
    /// The idempotency key, where it is given.
    pub request_id: Option<String>,
    /// What whoever asks says.
    pub memo: Option<String>,
    /// Nothing is begun afterwards; what was signed before goes on.
    pub expires_at: Option<Timestamp>,
    settlers: Vec<Did>,
}

impl Args {
    /// What is to be paid.
    ///
    /// # Errors
    /// When arguments or link cannot be meant.
    pub fn wanted(&self) -> Result<Wanted> {
        if let Some(link) = &self.link {
            return self.by_link(link);
        }
        let gateway = self.gateway.as_deref().context("--gateway is needed")?;
        Ok(Wanted {
            gateway: Gateway::new(gateway)?,
            source: self.from.clone().context("--from is needed")?,
            destination: self.to.iter().map(|recipient| recipient.0.clone()).collect(),
            amount: self.amount.context("--amount is needed")?,
            cap: self.max.context("--max is needed")?,
            request_id: self.request_id.clone(),
            memo: None,
            expires_at: None,
            settlers: self.settler.clone(),
        })
    }

    fn by_link(&self, text: &str) -> Result<Wanted> {
        let (named, link): (Url, PaymentLink) = PaymentLink::parse(text)?;
        let gateway = Gateway::new(named.as_str())?;
        if let Some(own) = &self.gateway {
            let own = Gateway::new(own)?;
            let address = |gateway: &Gateway| gateway.url().as_str().trim_end_matches('/').to_owned();
            ensure!(
                address(&own) == address(&gateway),
                "the link is of the gateway {}, and --gateway (GW_GATEWAY) is {}",
                gateway.url(),
                own.url()
            );
        }
        if self.yes {
            let is_pinned = self.escrow.is_some() && self.reserver.is_some() && self.releaser.is_some();
            ensure!(self.max.is_some(), "--yes with a link needs --max: whoever made the link chose what may be spent");
            ensure!(
                self.gateway.is_some() || is_pinned,
                "--yes with a link needs --gateway, or all of --escrow, --reserver and --releaser: whoever made the link chose \
                 the gateway"
            );
        }
        let names = || link.pay_with.iter().map(|source| source.asset_identifier.to_string()).collect::<Vec<_>>();
        let offered = match (&self.from, link.pay_with.as_slice()) {
            (None, [only]) => Some(only),
            (None, []) => bail!("--from ASSET is needed: the link leaves open what it is paid with"),
            (None, _) => bail!("--from ASSET is needed: the link is paid with one of {}", names().join(", ")),
            (Some(_), []) => None,
            (Some(from), several) => {
                let found = several.iter().find(|source| source.asset_identifier == *from);
                Some(found.with_context(|| format!("the link is paid with one of {}", names().join(", ")))?)
            }
        };
        let source = self.from.clone().or_else(|| offered.map(|source| source.asset_identifier.clone()));
        // Whoever asks may bound what is taken; whoever pays has the last word.
        let asked = offered.and_then(|source| source.max_source_amount);
        let cap = match (self.max, asked) {
            (Some(own), Some(asked)) => own.min(asked),
            (own, asked) => {
                own.or(asked).context("--max AMOUNT is needed: the link does not say what may be spent at most")?
            }
        };
        Ok(Wanted {
            gateway,
            source: source.context("--from ASSET is needed")?,
            destination: link.destination,
            amount: link.fulfillment_amount,
            cap,
            request_id: Some(link.request_id),
            memo: link.memo,
            expires_at: link.expires_at,
            settlers: self.settler.clone(),
        })
    }

    /// The deadlines from now on.
    pub fn windows(&self) -> Windows {
        Windows {
            quote: Duration::from_secs(self.quote_seconds),
            fulfillment: Duration::from_secs(self.fulfillment_seconds),
        }
    }

    /// How long the outcome is waited for, where that is bounded.
    pub fn wait(&self) -> Option<Duration> {
        self.wait.map(Duration::from_secs)
    }

    /// What the payer knows by itself, for a source of this family.
    ///
    /// # Errors
    /// When an account is not one of the family.
    pub fn pins(&self, family: Family) -> Result<Pins> {
        let account = |name: &str, text: &Option<String>| {
            let parsed = text.as_deref().map(|text| Account::parse(family, text)).transpose();
            parsed.with_context(|| format!("--{name}"))
        };
        ensure!(self.permit2.is_none() || family != Family::Solana, "--permit2 is for EVM chains and Tron");
        Ok(Pins {
            escrow: account("escrow", &self.escrow)?,
            reserver: account("reserver", &self.reserver)?,
            releaser: account("releaser", &self.releaser)?,
            permit2: account("permit2", &self.permit2)?,
            deposit_address_factory: None,
            lock_max: Duration::from_secs(self.lock_max),
            fee_max: self.fee_max,
        })
    }
}

impl Wanted {
    /// The payment as it is asked for by an account, with deadlines from now on.
    ///
    /// # Errors
    /// When the account is of another family.
    pub fn order(&self, account: &Account, windows: Windows) -> Result<Order> {
        let source = OwnedAsset::new(self.source.clone(), account.as_str())?;
        let mut order = Order::new(source, self.destination.clone(), self.amount, Some(self.cap), Utc::now(), windows);
        if let Some(id) = &self.request_id {
            order = order.under(id);
        }
        if !self.settlers.is_empty() {
            order.members.insert("settler_requirements".to_owned(), json!({"whitelist": self.settlers}));
        }
        Ok(order)
    }

    /// All that decides which payment this is.
    pub fn identity(&self, account: &Account) -> Value {
        json!({
            "gateway": self.gateway.url(),
            "source": [self.source, account.as_str()],
            "destination": self.destination,
            "amount": self.amount,
            "cap": self.cap,
            "request_id": self.request_id,
            "settlers": self.settlers,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    const FROM: &str = "eip155:1/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48";
    const OTHER: &str = "eip155:1/erc20:0xdac17f958d2ee523a2206206994597c13d831ec7";
    const ACCOUNT: &str = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";

    fn wanted(arguments: &[&str]) -> Result<Wanted> {
        Cli::try_parse_from([&["pay", "--key", "k"], arguments].concat())?.args.wanted()
    }

    fn link(change: impl FnOnce(&mut PaymentLink)) -> String {
        let mut link = PaymentLink {
            request_id: "invoice-7".to_owned(),
            destination: vec![OwnedAsset::new("eip155:10/slip44:60".parse().unwrap(), ACCOUNT).unwrap()],
            fulfillment_amount: "25".parse().unwrap(),
            pay_with: Vec::new(),
            expires_at: None,
            memo: None,
        };
        change(&mut link);
        link.to_url(&"https://pay.example".parse().unwrap()).unwrap().into()
    }

    fn with(asset: &str, most: Option<&str>) -> gateway_client::link::Source {
        let max_source_amount = most.map(|most| most.parse().unwrap());
        gateway_client::link::Source { asset_identifier: asset.parse().unwrap(), max_source_amount }
    }

    #[test]
    fn an_order_is_what_the_arguments_say() {
        let to = format!("eip155:10/slip44:60={ACCOUNT}");
        let gateway = ["--gateway", "https://pay.example"];
        let all = [&gateway[..], &["--from", FROM, "--to", &to, "--amount", "25", "--max", "26"]].concat();
        let found = wanted(&all).unwrap();
        let account: Account = ACCOUNT.parse().unwrap();
        let order = found.order(&account, Windows::default()).unwrap();
        assert_eq!((order.fulfillment_amount.to_string().as_str(), order.destination.len()), ("25", 1));
        // The same command is the same payment, whatever id it is given while it runs.
        assert_eq!(found.identity(&account), wanted(&all).unwrap().identity(&account));
        let other = [&all[..], &["--request-id", "x"]].concat();
        assert_ne!(found.identity(&account), wanted(&other).unwrap().identity(&account));
        for lacking in [&all[2..], &all[..all.len() - 2], &["--amount", "0"], &["--to", "nowhere"]] {
            assert!(wanted(lacking).is_err(), "{lacking:?}");
        }
    }

    #[test]
    fn a_link_says_what_is_paid_and_the_payer_what_it_costs_at_most() {
        let said = |link: &str, arguments: &[&str]| wanted(&[&[link], arguments].concat());
        let open = link(|_| ());
        assert!(said(&open, &[]).unwrap_err().to_string().contains("--from ASSET is needed"));
        assert!(said(&open, &["--from", FROM]).unwrap_err().to_string().contains("--max AMOUNT is needed"));
        let found = said(&open, &["--from", FROM, "--max", "30"]).unwrap();
        assert_eq!((found.cap.to_string().as_str(), found.request_id.as_deref()), ("30", Some("invoice-7")));

        let one = link(|link| link.pay_with = vec![with(FROM, Some("26"))]);
        assert_eq!(said(&one, &[]).unwrap().cap.to_string(), "26");
        assert_eq!(said(&one, &["--max", "25"]).unwrap().cap.to_string(), "25");
        assert_eq!(said(&one, &["--max", "27"]).unwrap().cap.to_string(), "26");
        assert!(said(&one, &["--from", OTHER]).unwrap_err().to_string().contains("paid with one of"));

        let two = link(|link| link.pay_with = vec![with(FROM, None), with(OTHER, Some("9"))]);
        assert!(said(&two, &[]).unwrap_err().to_string().contains(OTHER));
        assert_eq!(said(&two, &["--from", OTHER]).unwrap().cap.to_string(), "9");
        let old = link(|link| link.expires_at = "2020-01-01T00:00:00Z".parse().ok());
        assert!(said(&old, &["--from", FROM, "--max", "30"]).unwrap().expires_at.is_some());
    }

    #[test]
    fn a_link_alone_chooses_neither_gateway_nor_cap_where_nobody_is_asked() {
        let said = |link: &str, arguments: &[&str]| wanted(&[&[link], arguments].concat());
        let one = link(|link| link.pay_with = vec![with(FROM, Some("26"))]);
        let own = ["--gateway", "https://pay.example/"];
        assert!(said(&one, &own).is_ok());
        let other = said(&one, &["--gateway", "https://other.example"]).unwrap_err().to_string();
        assert!(other.contains("the link is of the gateway https://pay.example/"), "{other}");

        assert!(said(&one, &[&own[..], &["--yes"]].concat()).unwrap_err().to_string().contains("needs --max"));
        let bounded = ["--yes", "--max", "30"];
        assert!(said(&one, &bounded).unwrap_err().to_string().contains("needs --gateway"));
        assert_eq!(said(&one, &[&own[..], &bounded].concat()).unwrap().cap.to_string(), "26");
        let pins = ["--escrow", ACCOUNT, "--reserver", ACCOUNT, "--releaser", ACCOUNT];
        assert!(said(&one, &[&pins[..], &bounded].concat()).is_ok());
        assert!(said(&one, &[&pins[..4], &bounded].concat()).is_err());

        let disguised = one.replace("https://pay.example", "https://pay.example@evil.example");
        assert!(said(&disguised, &[]).unwrap_err().to_string().contains("neither user nor password"));
    }
}
