//! Orders: what a payer asks for, checked field by field: the members that a submission (spec 2.1) and a quote-request (spec
//! 2.12) have in common, turned into the terms of the domain.

use chrono::TimeDelta;
use serde_json::Value;

use config::{self, DeadlinesConfig};
use events::{
    Account, Amount, AssetId, Did, Family, Hash32, OwnedAsset, PaymentId, Terms, amount, caip, event::VerifierRef,
    time::Timestamp,
};

use super::{
    corridors::{Corridor, Corridors, TrustedSelector},
    credential,
    fields::{self, Faults, Object, account_rule, date_time},
    horizons,
    proxies::StatedProxies,
};
use crate::{
    authorization::{AuthorizationRequest, MessageScheme},
    error::{Code, Error},
};

/// Most destinations (spec 8).
pub const DESTINATIONS_MAX: usize = 16;
/// Most settlers in one list (spec 8).
pub const SETTLERS_MAX: usize = 100;
/// Longest `request_id` (design: readings of the contract).
const REQUEST_ID_CHARS_MAX: usize = 128;
/// What is wrong with an escrow beside the default one where a set of verifiers would have to release from it.
const HEEDS_NO_SET: &str =
    "takes a single verifier's word only; name one in fulfillment_verifier, or leave the escrow out";
/// Longest part of a policy's name that is repeated.
const POLICY_CHARS_SHOWN: usize = 64;
/// What is wrong with a policy that this gateway does not have.
const UNKNOWN_POLICY: &str = "is not a policy of this gateway; settler_policies in /v1/defaults lists those that are";
/// What a `request_id` must be (idempotency rule 1).
pub const REQUEST_ID_RULE: &str = "must have 1 to 128 characters out of letters, digits, _ - .";

/// A payment as it is asked for, without what authorizes it. Deadlines against the clock, and idempotency, are judged
/// later.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    pub request_id: String,
    pub terms: Terms,
    pub quote_deadline: Timestamp,
    pub fulfillment_deadline: Timestamp,
    pub required_policies: Vec<String>,
    pub verifier: VerifierRef,
    pub escrow_contract: Account,
    /// Permit2 on the source's chain, where it has it.
    pub permit2: Option<Account>,
    pub reserver: Account,
    pub refund_delay_seconds: u64,
    /// One for each of `terms.destination()`, in its order.
    pub fulfillment_proxies: Vec<Account>,
    pub whitelist: Vec<Did>,
    pub blacklist: Vec<Did>,
    /// Who chooses among the quotes; the gateway when absent.
    pub selector: Option<TrustedSelector>,
}

impl Order {
    /// Reads the members of `body`. `None` only after a fault was noted.
    pub fn read(body: &Object<'_>, corridors: &Corridors, faults: &mut Faults) -> Option<Self> {
        version(body, faults);
        let request_id = request_id(body, faults);
        let source = body.required_object("source", faults).and_then(|owned| source(&owned, corridors, faults));
        let destination = destination(body, corridors, faults);
        let fulfillment_amount = body.required("fulfillment_amount", faults).and_then(|text| {
            let families = destination.iter().flatten().map(OwnedAsset::family);
            let bits = families.map(Family::amount_bits).min().unwrap_or(256);
            amount(text, bits, "fulfillment_amount", faults)
        });
        let max_source_amount = max_source_amount(body, source.as_ref(), faults);
        let quote_deadline = deadline(body, "quote_deadline", faults);
        let fulfillment_deadline = deadline(body, "fulfillment_deadline", faults);
        if let (Some(quote), Some(fulfillment)) = (quote_deadline, fulfillment_deadline) {
            // To the last digit. Whether a deposit fits in between is asked where one is signed.
            if quote >= fulfillment {
                faults.add(Code::INVALID_DEADLINE, "quote_deadline", "must be before fulfillment_deadline");
            }
        }
        let required_policies = required_policies(body, corridors, faults);
        if let Some(auth) = body.optional_object("originator_auth", faults) {
            credential::check(&auth, faults);
        }
        let lists = settler_requirements(body, faults);
        let selector = quote_selector(body, corridors, faults);

        let corridor = source.as_ref().and_then(|source| corridors.get(source.asset().chain()));
        let verifier = verifier(body, corridor, faults);
        let escrow_contract = escrow_contract(body, corridor, verifier.as_ref(), faults);
        let proxies = StatedProxies::read(body, faults);

        let (source, destination) = (source?, destination?);
        let terms = Terms::new(source, destination, fulfillment_amount?, max_source_amount?);
        let fulfillment_proxies = proxies?.of_destinations(&terms, corridors, faults)?;
        let (whitelist, blacklist) = lists?;
        let corridor = corridor?;
        let chains = terms.destination().iter().chain([&terms.source]).map(|owned| owned.asset().chain());
        Some(Self {
            request_id: request_id?.to_owned(),
            quote_deadline: quote_deadline?,
            fulfillment_deadline: fulfillment_deadline?,
            required_policies: required_policies?,
            verifier: verifier?,
            escrow_contract: escrow_contract?,
            permit2: corridor.permit2.clone(),
            reserver: corridor.reserver.clone(),
            refund_delay_seconds: corridors.refund_delay_seconds(chains),
            fulfillment_proxies,
            whitelist,
            blacklist,
            selector,
            terms,
        })
    }

    /// What authorizes it in the one-call flow, where the payer signs before the auction, as payment `payment_id` with these terms' hash. Nothing is
    /// signed yet.
    pub fn authorization<'a>(
        &'a self,
        payment_id: &'a PaymentId,
        terms_hash: Hash32,
        message_scheme: MessageScheme,
    ) -> AuthorizationRequest<'a> {
        AuthorizationRequest {
            payment_id,
            terms: &self.terms,
            terms_hash,
            quote_deadline: self.quote_deadline,
            fulfillment_deadline: self.fulfillment_deadline,
            refund_delay_seconds: self.refund_delay_seconds,
            escrow_contract: &self.escrow_contract,
            permit2: self.permit2.as_ref(),
            reserver: &self.reserver,
            releaser: &self.verifier.account,
            quote_hash: Hash32::ZERO,
            message_scheme,
            signed_messages: &[],
            caller: None,
        }
    }

    /// The deadlines of something new against the clock: in the future, with room to act and within the longest windows
    /// (design: order of checks; a replay is answered whatever its deadlines). That they are in order was checked with the body.
    ///
    /// # Errors
    /// 400 with the rule that is broken.
    pub fn check_deadlines(&self, now: Timestamp, limits: DeadlinesConfig) -> Result<(), Error> {
        let invalid = |message: String| Err(Error::new(Code::INVALID_DEADLINE, message));
        let (quote, fulfillment) = (self.quote_deadline, self.fulfillment_deadline);
        for (name, deadline) in [("quote_deadline", quote), ("fulfillment_deadline", fulfillment)] {
            if deadline <= now {
                return invalid(format!("{name}: must be in the future"));
            }
        }
        if quote - now < milliseconds(limits.quote_ms_min) {
            return invalid(format!("quote_deadline: must be at least {} ms away", limits.quote_ms_min));
        }
        if fulfillment - quote < milliseconds(limits.settlement_ms_min) {
            let least = limits.settlement_ms_min;
            return invalid(format!("fulfillment_deadline: must be at least {least} ms after quote_deadline"));
        }
        Ok(horizons::check_deadlines(quote, fulfillment, now, limits)?)
    }
}

fn milliseconds(count: u64) -> TimeDelta {
    i64::try_from(count).ok().and_then(TimeDelta::try_milliseconds).unwrap_or(TimeDelta::MAX)
}

/// The member `max_source_amount`, which may be left out.
fn max_source_amount(body: &Object<'_>, source: Option<&OwnedAsset>, faults: &mut Faults) -> Option<Option<Amount>> {
    let Some(text) = body.optional("max_source_amount", faults) else { return Some(None) };
    let bits = source.map_or(256, |source| source.family().amount_bits());
    amount(text, bits, "max_source_amount", faults).map(Some)
}

/// Checks the member `version`.
pub fn version(body: &Object<'_>, faults: &mut Faults) {
    if let Some(version) = body.required::<&str>("version", faults) {
        let minor = version.strip_prefix("1.").unwrap_or_default();
        if minor.is_empty() || !minor.bytes().all(|c| c.is_ascii_digit()) {
            faults.invalid("version", r"must match ^1\.[0-9]+$");
        }
    }
}

/// The member `request_id`.
pub fn request_id<'a>(body: &Object<'a>, faults: &mut Faults) -> Option<&'a str> {
    let text: &str = body.required("request_id", faults)?;
    if is_request_id(text) {
        return Some(text);
    }
    faults.add(Code::INVALID_REQUEST_ID, "request_id", REQUEST_ID_RULE);
    None
}

/// Whether `text` keeps [`REQUEST_ID_RULE`].
pub fn is_request_id(text: &str) -> bool {
    let legal = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-' | b'.');
    (1..=REQUEST_ID_CHARS_MAX).contains(&text.len()) && text.bytes().all(legal)
}

/// [`REQUEST_ID_RULE`] as a regular expression, for JSON Schemas.
pub fn request_id_pattern() -> String {
    format!("^[A-Za-z0-9_.-]{{1,{REQUEST_ID_CHARS_MAX}}}$")
}

/// An asset of the body, by the code with which a malformed one is answered. `unfit` is the rule that it breaks in its place.
fn asset(
    owned: &Object<'_>,
    malformed: &'static Code,
    unfit: impl Fn(&AssetId) -> Option<String>,
    corridors: &Corridors,
    faults: &mut Faults,
) -> Option<AssetId> {
    let text: &str = owned.required("asset_identifier", faults)?;
    let path = owned.path("asset_identifier");
    let parsed = text.parse::<AssetId>();
    if let Some(rule) = parsed.as_ref().ok().and_then(&unfit) {
        faults.add(Code::UNSUPPORTED_ASSET, &path, rule);
        return parsed.ok();
    }
    let fault = match parsed {
        Ok(asset) if corridors.serves(&asset) => return Some(asset),
        // The account is judged by the chain's family, so a chain of a known family goes on to that.
        Ok(asset) if asset.chain().family().is_some() => {
            faults.add(Code::UNSUPPORTED_ASSET, &path, "is not served; /v1/defaults lists the assets that are");
            return Some(asset);
        }
        Ok(_) | Err(caip::Error::ChainReference) => {
            (Code::UNSUPPORTED_ASSET, "names a chain that is not served".to_owned())
        }
        Err(rule) => (malformed, rule.to_string()),
    };
    faults.add(fault.0, &path, fault.1);
    None
}

pub(super) fn source(owned: &Object<'_>, corridors: &Corridors, faults: &mut Faults) -> Option<OwnedAsset> {
    let unfit = |asset: &AssetId| source_rule(asset, corridors);
    let asset = asset(owned, Code::INVALID_SOURCE_ASSET, unfit, corridors, faults);
    let account: Option<&str> = owned.required("account", faults);
    let source = OwnedAsset::new(asset?, account?);
    source.map_err(|rule| faults.invalid(&owned.path("account"), account_rule(&rule))).ok()
}

/// The rule that a source asset breaks which is not of a namespace that escrows of its chain's family take. A coin is paid
/// with in its wrapped form (ADR 116).
fn source_rule(asset: &AssetId, corridors: &Corridors) -> Option<String> {
    let family = asset.chain().family()?;
    let token = match family {
        Family::Evm => "an ERC-20",
        Family::Solana => "a token on Solana",
        Family::Tron => "a TRC-20 on Tron",
    };
    let corridor = corridors.get(asset.chain()).filter(|_| asset.namespace() != family.token_namespace())?;
    Some(match corridor.wrapped_coin().filter(|_| asset.namespace() == "slip44") {
        Some(wrapped) => format!(
            "is the chain's own coin, which is paid with in its wrapped form: name {wrapped}, and /v1/payments/prepare shows how to \
             wrap it"
        ),
        None => format!("must be {token}"),
    })
}

pub(super) fn destination(body: &Object<'_>, corridors: &Corridors, faults: &mut Faults) -> Option<Vec<OwnedAsset>> {
    let items: &Vec<Value> = body.required("destination", faults)?;
    if !(1..=DESTINATIONS_MAX).contains(&items.len()) {
        faults.invalid("destination", "must have 1 to 16 items");
        return None;
    }
    let (mut destination, mut read) = (Vec::with_capacity(items.len()), 0);
    for (i, item) in items.iter().enumerate() {
        let path = format!("destination[{i}]");
        let Some(owned) = fields::item_object(&path, item, faults) else { continue };
        let asset = asset(&owned, Code::INVALID_REQUEST, |_| None, corridors, faults);
        let account: Option<&str> = owned.required("account", faults);
        let (Some(asset), Some(account)) = (asset, account) else { continue };
        match OwnedAsset::new(asset, account) {
            Err(rule) => {
                faults.add(Code::INVALID_DESTINATION_ACCOUNT, &owned.path("account"), account_rule(&rule));
            }
            Ok(recipient) if corridors.contract_at(&recipient).is_some() => {
                let what = corridors.contract_at(&recipient).unwrap_or_default();
                let rule = format!("must not be {what}: nobody could get back what is delivered there");
                faults.add(Code::INVALID_DESTINATION_ACCOUNT, &owned.path("account"), rule);
            }
            Ok(owned) => {
                read += 1;
                // They are a set: an item that is repeated says nothing more.
                if !destination.contains(&owned) {
                    destination.push(owned);
                }
            }
        }
    }
    (read == items.len()).then_some(destination)
}

pub(super) fn amount(text: &str, bits: u32, path: &str, faults: &mut Faults) -> Option<Amount> {
    let amount = text.parse::<Amount>().and_then(|amount| amount.within(bits));
    amount.map_err(|rule: amount::Error| faults.invalid(path, rule)).ok()
}

fn deadline(body: &Object<'_>, name: &str, faults: &mut Faults) -> Option<Timestamp> {
    let text: &str = body.required(name, faults)?;
    date_time(text).map_err(|rule| faults.invalid(name, rule)).ok()
}

/// The policies that are required. One that this gateway does not have is held by nobody, and is required in vain; that it is
/// not required is true of it.
fn required_policies(body: &Object<'_>, corridors: &Corridors, faults: &mut Faults) -> Option<Vec<String>> {
    const NAME: &str = "settler_auth_required";
    let Some(policies) = body.optional_object(NAME, faults) else { return Some(Vec::new()) };
    let mut required = Vec::new();
    for (name, path, value) in policies.entries() {
        if fields::read(&path, value, faults) != Some(true) {
            continue;
        }
        if corridors.has_policy(name) {
            required.push(name.clone());
        } else if path == NAME {
            // A name that cannot stand in a path is told with its odd characters escaped.
            let name: String = name.chars().take(POLICY_CHARS_SHOWN).collect();
            faults.invalid(&path, format!("{name:?} {UNKNOWN_POLICY}"));
        } else {
            faults.invalid(&path, UNKNOWN_POLICY);
        }
    }
    // The order in the body has no meaning.
    required.sort();
    Some(required)
}

fn settler_requirements(body: &Object<'_>, faults: &mut Faults) -> Option<(Vec<Did>, Vec<Did>)> {
    let Some(lists) = body.optional_object("settler_requirements", faults) else { return Some(Default::default()) };
    let whitelist = dids(&lists, "whitelist", faults);
    let blacklist = dids(&lists, "blacklist", faults);
    Some((whitelist?, blacklist?))
}

/// A list of settlers; empty when it is left out.
fn dids(lists: &Object<'_>, name: &str, faults: &mut Faults) -> Option<Vec<Did>> {
    let Some(items) = lists.optional::<&Vec<Value>>(name, faults) else { return Some(Vec::new()) };
    let path = lists.path(name);
    if !(1..=SETTLERS_MAX).contains(&items.len()) {
        faults.invalid(&path, "must have 1 to 100 items");
        return None;
    }
    let mut dids = Vec::with_capacity(items.len());
    for (i, item) in items.iter().enumerate() {
        let path = format!("{path}[{i}]");
        let Some(text) = fields::read::<&str>(&path, item, faults) else { continue };
        match text.parse::<Did>() {
            Err(rule) => faults.invalid(&path, rule),
            Ok(did) if dids.contains(&did) => faults.invalid(&path, "must not repeat another item"),
            Ok(did) => dids.push(did),
        }
    }
    (dids.len() == items.len()).then_some(dids)
}

fn quote_selector(body: &Object<'_>, corridors: &Corridors, faults: &mut Faults) -> Option<TrustedSelector> {
    let selector: &str = body.optional("quote_selector", faults).unwrap_or_default();
    if selector.is_empty() {
        return None;
    }
    let trusted = corridors.selector(selector);
    if trusted.is_none() {
        faults.add(Code::UNTRUSTED_SELECTOR, "quote_selector", "is not trusted");
    }
    trusted
}

pub(super) fn verifier(body: &Object<'_>, corridor: Option<&Corridor>, faults: &mut Faults) -> Option<VerifierRef> {
    const NAME: &str = "fulfillment_verifier";
    let default = || corridor.map(|corridor| corridor.default_verifier().clone());
    let Some(stated) = body.optional_object(NAME, faults) else { return default() };
    if stated.is_empty() {
        return default();
    }
    let account: Option<&str> = stated.optional("account", faults);
    let endpoint: Option<&str> = stated.optional("endpoint", faults);
    let (account, endpoint) = (account.unwrap_or_default(), endpoint.unwrap_or_default());
    if account.is_empty() && endpoint.is_empty() {
        return default();
    }
    for (name, text) in [("account", account), ("endpoint", endpoint)] {
        if text.is_empty() {
            faults.invalid(&stated.path(name), "is required");
        }
    }
    let origin = net::origin::origin(endpoint);
    if origin.is_none() && !endpoint.is_empty() {
        faults.invalid(&stated.path("endpoint"), "must be an origin, http(s)://host[:port] without a path");
    }
    let corridor = corridor?;
    let untrusted = "is neither the default verifier nor a trusted one";
    let verifier = match Account::parse(corridor.family, account) {
        Ok(account) => corridor.verifier(&account, &origin?).cloned(),
        Err(_) => None,
    };
    if verifier.is_none() && !account.is_empty() {
        faults.add(Code::UNTRUSTED_VERIFIER, NAME, untrusted);
    }
    verifier
}

/// The escrow contract that is named, or the default one. `verifier` is whose word it would have to take.
pub(super) fn escrow_contract(
    body: &Object<'_>,
    corridor: Option<&Corridor>,
    verifier: Option<&VerifierRef>,
    faults: &mut Faults,
) -> Option<Account> {
    const NAME: &str = "escrow_contract_address";
    let text: &str = body.optional(NAME, faults).unwrap_or_default();
    let corridor = corridor?;
    if text.is_empty() {
        return Some(corridor.escrow.clone());
    }
    let contract =
        Account::parse(corridor.family, text).map_err(|rule| faults.invalid(NAME, account_rule(&rule))).ok()?;
    if !corridor.trusts_escrow(&contract) {
        faults.add(Code::UNTRUSTED_ESCROW, NAME, "is neither the default contract nor a trusted one");
    } else if verifier.is_some_and(|verifier| !corridor.escrow_heeds(&contract, verifier)) {
        faults.add(Code::UNTRUSTED_ESCROW, NAME, HEEDS_NO_SET);
    }
    Some(contract)
}
