//! The documents of the one payment that is modelled: its submission and the quotes of two settlers in two auctions. They are real
//! ones, so that the engine's own functions judge, decide and fold.

use std::str::FromStr;

use ed25519_dalek::SigningKey;

use events::{
    Account, ChainId, Did, Hash32, OwnedAsset, PaymentId, Terms, VerifierMember, VerifierSet,
    event::{Authorization, EscrowPlan, PayerTransaction, Permit2, Submitted, TronSpend, VerifierRef},
    quote::{Quote, SignedQuote, auction_of, reassignment_auction_of},
    time::{Timestamp, from_unix_seconds},
};

use super::config::{Config, Scheme};

/// UNIX second of tick 0.
const BASE: u64 = 1_800_000_000;
/// Seconds of a tick: more than every pause of the engine that is shorter than a window.
const TICK: u64 = 100;

/// Settlers.
pub const SETTLERS: usize = 2;
/// Quotes: one of each settler in each of two auctions. That of settler `s` in auction `r` is `2 * r + s`.
pub const QUOTES: usize = 4;
/// What the payer has, and lets be taken at most.
pub const CAP: u16 = 1_100;
/// What each quote asks for.
pub const PRICES: [u16; QUOTES] = [1_000, 1_010, 1_004, 1_005];

/// The hash of the payer's own transaction.
pub const DEPOSIT_HASH: &str = "0xd1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1";

const PAYER: &str = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
const CONTRACT: &str = "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359";
const SETTLER_ACCOUNTS: [&str; SETTLERS] =
    ["0xdbf03b407c01e7cd3cbea99509d93f8dddc8c6fb", "0xd1220a0cf47c7b9be7a2e6ba89f429762e7b9adb"];
const MEMBERS: [&str; 3] = [
    "0x00000000000000000000000000000000000000a1",
    "0x00000000000000000000000000000000000000a2",
    "0x00000000000000000000000000000000000000a3",
];

/// A document that is not what the engine reads.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a document of the model is not valid: {0}")]
pub struct Invalid(String);

fn read<T: FromStr>(text: &str) -> Result<T, Invalid> {
    text.parse().map_err(|_| Invalid(text.to_owned()))
}

/// Who quotes `quote`.
pub fn settler_of(quote: u8) -> usize {
    usize::from(quote) % SETTLERS
}

/// The auction of `quote`.
pub fn auction(quote: u8) -> usize {
    usize::from(quote) / SETTLERS
}

/// The quote that an escrow is reserved for when it is reassigned to `quote`: the other settler's of the auction before.
pub fn previous(quote: u8) -> Option<u8> {
    let other = (quote & 1) ^ 1;
    (auction(quote) == 1).then_some(other)
}

/// The time of a tick.
///
/// # Errors
/// [`Invalid`] beyond the calendar.
pub fn time(tick: u8) -> Result<Timestamp, Invalid> {
    from_unix_seconds(second(tick)).ok_or_else(|| Invalid(format!("tick {tick}")))
}

/// The UNIX second of a tick.
pub fn second(tick: u8) -> u64 {
    BASE + TICK * u64::from(tick)
}

/// What all parties hold in hand.
pub struct Documents {
    /// The payment's submission.
    pub submitted: Submitted,
    /// The settlers.
    pub settlers: [Did; SETTLERS],
    /// Their quotes.
    pub quotes: Vec<SignedQuote>,
    /// The time of each tick.
    times: Vec<Timestamp>,
}

impl Documents {
    /// The documents under these windows and verifiers.
    ///
    /// # Errors
    /// [`Invalid`] where the constants above are none.
    pub fn new(config: &Config) -> Result<Self, Invalid> {
        let windows = &config.windows;
        let times = (0..=windows.end).map(time).collect::<Result<Vec<_>, _>>()?;
        let before = |seconds| from_unix_seconds(BASE - seconds).ok_or_else(|| Invalid("before".to_owned()));
        let owned = |asset: &str| OwnedAsset::new(read(asset)?, PAYER).map_err(|error| Invalid(error.to_string()));
        let terms = Terms::new(
            owned("eip155:1/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48")?,
            vec![owned("eip155:10/slip44:60")?],
            read("1000")?,
            Some(read(&CAP.to_string())?),
        );
        let verifier = verifier(config.verifiers.is_set())?;
        let submitted = Submitted {
            payment_id: PaymentId::derive("models", "one"),
            request_id: "one".to_owned(),
            originator: "models".to_owned(),
            terms_hash: terms.hash(),
            terms,
            quote_deadline: before(10)?,
            fulfillment_deadline: time(windows.fulfillment)?,
            authorization: authorization(config)?,
            escrow: EscrowPlan {
                chain_id: ChainId::evm(1),
                contract: read(CONTRACT)?,
                reserver: read(CONTRACT)?,
                releaser: verifier.account.clone(),
                reserve_deadline: second(windows.reserve),
                fulfillment_deadline: second(windows.fulfillment),
                refund_after: second(windows.refund_after),
            },
            fulfillment_proxies: vec![read(CONTRACT)?],
            verifier,
            whitelist: Vec::new(),
            blacklist: Vec::new(),
            required_policies: Vec::new(),
            collected_quote: None,
            selector: None,
            counterparty: None,
            identities: Vec::new(),
            submitted_at: before(50)?,
            request: "{}".to_owned(),
        };
        let keys = [1, 2].map(|seed| SigningKey::from_bytes(&[seed; 32]));
        let settlers = [&keys[0], &keys[1]].map(|key| Did::from_ed25519(&key.verifying_key()));
        let mut quotes = Vec::with_capacity(QUOTES);
        for (index, price) in PRICES.into_iter().enumerate() {
            let (settler, round) = (index % SETTLERS, index / SETTLERS);
            let account: Account = read(SETTLER_ACCOUNTS[settler])?;
            let quote = Quote {
                kind: Quote::kind(),
                auction_id: match round {
                    0 => auction_of(&submitted.payment_id),
                    round => reassignment_auction_of(&submitted.payment_id, round),
                },
                terms_hash: submitted.terms_hash,
                settler: settlers[settler].clone(),
                source_chain: ChainId::evm(1),
                source_amount: read(&price.to_string())?,
                payout_account: account.clone(),
                escrow_contract: read(CONTRACT)?,
                destination: submitted.terms.destination()[0].clone(),
                fulfillment_amount: submitted.terms.fulfillment_amount,
                delivery_account: account,
                fulfillment_proxy: read(CONTRACT)?,
                fulfill_by: time(windows.promises[round])?,
                valid_until: time(windows.end)?,
            };
            let signed = quote.sign(&keys[settler], before(20)?).map_err(|error| Invalid(error.to_string()))?;
            quotes.push(signed);
        }
        Ok(Self { submitted, settlers, quotes, times })
    }

    /// The time of a tick up to the last.
    pub fn time(&self, tick: u8) -> Timestamp {
        self.times[usize::from(tick)]
    }

    /// The quote with this hash.
    pub fn quote_of(&self, hash: Hash32) -> Option<u8> {
        let index = self.quotes.iter().position(|quote| quote.hash() == hash)?;
        u8::try_from(index).ok()
    }

    /// The member of the verifier set with this place.
    pub fn member(&self, place: usize) -> VerifierMember {
        self.submitted.verifier.members()[place].clone()
    }
}

fn authorization(config: &Config) -> Result<Authorization, Invalid> {
    let (amount, quote_hash) = (read(&CAP.to_string())?, Hash32::ZERO);
    let deadline = second(config.windows.reserve);
    Ok(match config.scheme {
        Scheme::Signature => Authorization::EvmPermit2Escrow(Permit2 {
            amount,
            nonce: Hash32([3; 32]),
            deadline,
            quote_hash,
            signature: "0x".to_owned(),
            allowance: None,
        }),
        Scheme::OwnTransaction => {
            let (transaction_hash, raw) = (DEPOSIT_HASH.to_owned(), "0xd1".to_owned());
            let deposit = PayerTransaction { transaction_hash, raw, expires_at: deadline * 1_000 };
            Authorization::Tron(TronSpend { amount, quote_hash, approval: None, deposit })
        }
    })
}

fn verifier(is_set: bool) -> Result<VerifierRef, Invalid> {
    let endpoint = "http://127.0.0.1:1".to_owned();
    if !is_set {
        return Ok(VerifierRef::single(read(MEMBERS[0])?, endpoint));
    }
    let member = |text: &&str| Ok(VerifierMember { account: read(text)?, endpoint: endpoint.clone() });
    let members = MEMBERS.iter().map(member).collect::<Result<Vec<_>, Invalid>>()?;
    let set = VerifierSet::new(2, members).map_err(|error| Invalid(error.to_string()))?;
    VerifierRef::of(set).ok_or_else(|| Invalid("verifier set".to_owned()))
}

impl Invalid {
    /// The fault of this document.
    pub fn of(document: &str) -> Self {
        Self(document.to_owned())
    }
}
