//! The requirement against what is served, and the payment against the requirement, field by field (spec 2.14).
//!
//! A fault of the requirement is the merchant's: `UNSUPPORTED_SCHEME`, `INVALID_NETWORK` or `INVALID_PAYMENT_REQUIREMENTS`. A
//! payment that is not what the requirement asks for is the payer's: `PAYMENT_REQUIREMENTS_MISMATCH`. Both name the field.

use chrono::TimeDelta;

use chains::{config::AssetConfig, offer::Commitment};
use chains_evm::offers;
use chains_solana::offers::{self as offers_on_solana, RESERVE_SECONDS_MAX};
use events::{
    Account, Amount, AssetId, ChainId, Family, OwnedAsset, Terms, caip,
    event::{EscrowPlan, VerifierRef},
    time::Timestamp,
};

use super::{
    EXACT, SCHEME,
    fault::Fault,
    requirement::{Destination, ExactOffer, Requirement, Scheme, stated_asset},
};
use crate::{
    error::{Code, Error},
    request::{
        corridors::{Corridor, Corridors},
        order::Order,
    },
};

/// How far the payer's clock may be ahead, in seconds. The payer sets its deadlines before the gateway sees them, so that
/// a clock that is behind needs no tolerance.
const CLOCK_TOLERANCE_SECONDS: i64 = 30;

/// A requirement whose every member means something that is served here.
#[derive(Debug)]
pub(super) struct Resolved<'a> {
    requirement: &'a Requirement,
    source: AssetId,
    amount: Amount,
    destination: OwnedAsset,
    fulfillment_amount: Amount,
    escrow: Account,
    proxy: Account,
    reserver: Account,
    /// The default verifier where the requirement names none.
    verifier: VerifierRef,
}

impl<'a> Resolved<'a> {
    /// Judges a requirement by itself.
    ///
    /// # Errors
    /// The first fault.
    pub(super) fn new(requirement: &'a Requirement, corridors: &Corridors) -> Result<Self, Fault> {
        let resolved = Self::of(requirement, corridors)?;
        let is = |family, account: &Account| Account::parse(family, &requirement.pay_to).as_ref() == Ok(account);
        match &requirement.scheme {
            Scheme::Exact(offer) => {
                let address = resolved.offer_address(&resolved.merchant(offer, corridors)?, offer)?;
                if !is(address.family(), &address) {
                    let rule = "the address of this offer: its members, or the gateway's contracts and accounts, are others by now";
                    return Err(Fault::invalid("payTo", format!("must be {address}, {rule}")));
                }
            }
            Scheme::GwEscrow | Scheme::Other => {
                let (paid, escrow) = (resolved.destination.account(), &resolved.escrow);
                if !is(paid.family(), paid) && !is(escrow.family(), escrow) {
                    return Err(Fault::invalid("payTo", "must be extra.gw.destination.address, or the escrow"));
                }
            }
        }
        Ok(resolved)
    }

    /// The same, but for who is paid.
    ///
    /// # Errors
    /// The first fault.
    pub(super) fn of(requirement: &'a Requirement, corridors: &Corridors) -> Result<Self, Fault> {
        if requirement.scheme == Scheme::Other {
            let rule = format!("must be {SCHEME} or {EXACT}");
            return Err(Fault { code: Code::UNSUPPORTED_SCHEME, member: "scheme".to_owned(), rule });
        }
        let (chain, corridor) = network(&requirement.network, "network", corridors)?;
        let source = asset(&requirement.asset, &chain, corridor, "asset")?.asset_identifier.clone();
        let amount = amount(&requirement.amount, corridor.family, "amount")?;

        let Destination { network: at, asset: token, address } = &requirement.destination;
        let (to, target) = network(at, "extra.gw.destination.network", corridors)?;
        let token = asset(token, &to, target, "extra.gw.destination.asset")?.asset_identifier.clone();
        let destination = OwnedAsset::new(token, address)
            .map_err(|rule| Fault::invalid("extra.gw.destination.address", caip_rule(&rule)))?;
        let fulfillment_amount =
            self::amount(&requirement.fulfillment_amount, target.family, "extra.gw.fulfillmentAmount")?;

        let escrow = contract(requirement.escrow.as_deref(), corridor, &corridor.escrow, "extra.gw.escrow")?;
        if !corridor.trusts_escrow(&escrow) {
            return Err(Fault::invalid("extra.gw.escrow", format!("is not the escrow of {chain}")));
        }
        let name = "extra.gw.fulfillmentProxy";
        let proxy = contract(requirement.fulfillment_proxy.as_deref(), target, &target.proxy, name)?;
        if !target.trusts_proxy(&proxy) {
            return Err(Fault::invalid(name, format!("is not the proxy of {to}")));
        }
        let name = "extra.gw.reserver";
        let reserver = contract(requirement.reserver.as_deref(), corridor, &corridor.reserver, name)?;
        if reserver != corridor.reserver {
            return Err(Fault::invalid(name, format!("is not the reserver of {chain}")));
        }
        let verifier = verifier(requirement, corridor)?;
        if !corridor.escrow_heeds(&escrow, &verifier) {
            let rule = "takes a single verifier's word only; name one in extra.gw.releaser, or leave the escrow out";
            return Err(Fault::invalid("extra.gw.escrow", rule));
        }
        signing_domain(requirement, corridor)?;
        if let (Some(quote), Some(fulfillment)) =
            (requirement.quote_deadline_seconds, requirement.fulfillment_deadline_seconds)
            && quote >= fulfillment
        {
            return Err(Fault::invalid("extra.gw.quoteDeadlineSeconds", "must be below fulfillmentDeadlineSeconds"));
        }
        Ok(Self { requirement, source, amount, destination, fulfillment_amount, escrow, proxy, reserver, verifier })
    }

    /// The merchant of an offer for stock clients, as an owner of the source asset.
    ///
    /// # Errors
    /// The first fault of what an offer says besides.
    pub(super) fn merchant(&self, offer: &ExactOffer, corridors: &Corridors) -> Result<OwnedAsset, Fault> {
        let family = self.source.chain().family();
        if !matches!(family, Some(Family::Evm | Family::Solana)) {
            return Err(Fault::invalid("network", "exact is served on EVM chains and Solana; see gw-escrow"));
        }
        // What is signed there says no time, so this is how long the program takes a deposit.
        if family == Some(Family::Solana) && self.requirement.timeout_seconds_max > RESERVE_SECONDS_MAX {
            let rule = format!("must be at most {RESERVE_SECONDS_MAX} on Solana");
            return Err(Fault::invalid("maxTimeoutSeconds", rule));
        }
        let least = corridors.refund_delay_seconds([self.source.chain(), self.destination.asset().chain()].into_iter());
        if u64::from(offer.refund_seconds) < least {
            return Err(Fault::invalid("extra.gw.refundSeconds", format!("must be at least {least}")));
        }
        let merchant = OwnedAsset::new(self.source.clone(), &offer.merchant)
            .map_err(|rule| Fault::invalid("extra.gw.merchant", caip_rule(&rule)))?;
        match corridors.contract_at(&merchant) {
            Some(contract) => {
                Err(Fault::invalid("extra.gw.merchant", format!("is {contract}, from which no money comes back")))
            }
            None => Ok(merchant),
        }
    }

    /// What buyers of an offer for stock clients pay to.
    ///
    /// # Errors
    /// Where the source asset is no token.
    pub(super) fn offer_address(&self, merchant: &OwnedAsset, offer: &ExactOffer) -> Result<Account, Fault> {
        // Whoever pays, the terms around its account are the same.
        let destination = vec![self.destination.clone()];
        let terms = Terms::new(merchant.clone(), destination, self.fulfillment_amount, Some(self.amount));
        let refused = |rule: &dyn std::fmt::Display| Fault::invalid("asset", format!("exact is not served: {rule}"));
        let commitment = Commitment {
            terms: &terms,
            amount: self.amount,
            escrow: &self.escrow,
            reserver: &self.reserver,
            releaser: &self.verifier.account,
            merchant: merchant.account(),
            delivery_seconds: offer.delivery_seconds,
            refund_seconds: offer.refund_seconds,
        };
        match merchant.family() {
            Family::Solana => offers_on_solana::address_of(&commitment).map_err(|rule| refused(&rule)),
            Family::Evm | Family::Tron => Ok(offers::address_of(&commitment).map_err(|rule| refused(&rule))?.pay_to),
        }
    }

    /// The escrow with these last seconds of deposit and delivery and first of the refund, UNIX.
    pub(super) fn plan(&self, [reserve_deadline, fulfillment_deadline, refund_after]: [u64; 3]) -> EscrowPlan {
        EscrowPlan {
            chain_id: self.source.chain().clone(),
            contract: self.escrow.clone(),
            reserver: self.reserver.clone(),
            releaser: self.verifier.account.clone(),
            reserve_deadline,
            fulfillment_deadline,
            refund_after,
        }
    }

    /// Where the merchant is paid.
    pub(super) fn destination(&self) -> &OwnedAsset {
        &self.destination
    }

    /// Judges a payment by the requirement. The deadlines only ever come nearer, so that what passes once always will.
    ///
    /// # Errors
    /// `PAYMENT_REQUIREMENTS_MISMATCH` with the first field that differs.
    pub(super) fn check(&self, order: &Order, now: Timestamp) -> Result<(), Error> {
        let terms = &order.terms;
        let proxies = &order.fulfillment_proxies;
        let proxy_is_asked = || proxies.iter().all(|proxy| *proxy == self.proxy);
        let rules: [(bool, &str, String); 7] = [
            (*terms.source.asset() == self.source, "source.asset_identifier", format!("must be {}", self.source)),
            (
                terms.destination() == [self.destination.clone()],
                "destination",
                format!("must be {} at {} and nothing else", self.destination.asset(), self.destination.account()),
            ),
            (
                terms.fulfillment_amount == self.fulfillment_amount,
                "fulfillment_amount",
                format!("must be {}", self.fulfillment_amount),
            ),
            (
                terms.max_source_amount == Some(self.amount),
                "max_source_amount",
                format!("must be {}, the requirement's amount", self.amount),
            ),
            (order.escrow_contract == self.escrow, "escrow_contract_address", format!("must be {}", self.escrow)),
            (proxy_is_asked(), "fulfillment_proxy", format!("must be {}", self.proxy)),
            (
                order.verifier == self.verifier,
                "fulfillment_verifier",
                format!("must be {} at {}", self.verifier.account, self.verifier.endpoint),
            ),
        ];
        if let Some((_, field, rule)) = rules.into_iter().find(|(holds, ..)| !holds) {
            return Err(mismatch(field, rule));
        }
        let windows = [
            ("quote_deadline", order.quote_deadline, self.requirement.quote_deadline_seconds),
            ("fulfillment_deadline", order.fulfillment_deadline, self.requirement.fulfillment_deadline_seconds),
        ];
        for (field, deadline, seconds) in windows {
            let Some(seconds) = seconds else { continue };
            if deadline - now > window(seconds) {
                return Err(mismatch(field, format!("must be at most {seconds} seconds away")));
            }
        }
        Ok(())
    }
}

/// How far away a deadline may be where the merchant asks for at most so many seconds.
pub(super) fn window(seconds: u64) -> TimeDelta {
    let window = i64::try_from(seconds).ok().and_then(|seconds| seconds.checked_add(CLOCK_TOLERANCE_SECONDS));
    window.and_then(TimeDelta::try_seconds).unwrap_or(TimeDelta::MAX)
}

fn mismatch(field: &str, rule: impl std::fmt::Display) -> Error {
    Error::new(Code::PAYMENT_REQUIREMENTS_MISMATCH, format!("paymentRequest.{field}: {rule}"))
}

/// The rule without the word that the field says already.
fn caip_rule(rule: &caip::Error) -> String {
    let rule = rule.to_string();
    rule.strip_prefix("account ").map_or(rule.clone(), str::to_owned)
}

pub(super) fn network<'a>(text: &str, field: &str, corridors: &'a Corridors) -> Result<(ChainId, &'a Corridor), Fault> {
    let fault = |rule: String| Fault { code: Code::INVALID_NETWORK, member: field.to_owned(), rule };
    let chain: ChainId = text.parse().map_err(|rule: caip::Error| fault(rule.to_string()))?;
    match corridors.get(&chain) {
        Some(corridor) => Ok((chain, corridor)),
        None => Err(fault("is not served; /v1/defaults lists the chains that are".to_owned())),
    }
}

/// An asset that is served on `chain`, by its CAIP-19 id or by its bare reference.
pub(super) fn asset<'a>(
    text: &str,
    chain: &ChainId,
    corridor: &'a Corridor,
    field: &str,
) -> Result<&'a AssetConfig, Fault> {
    let is_it = |served: &&AssetConfig| {
        let asset = &served.asset_identifier;
        stated_asset(text, chain, asset.namespace()).as_ref() == Ok(asset)
    };
    let not_served = || match text.contains('/').then(|| text.parse::<AssetId>()) {
        Some(Err(rule)) => Fault::invalid(field, rule),
        _ => Fault::invalid(field, format!("is not an asset that is served on {chain}")),
    };
    corridor.assets.iter().find(is_it).ok_or_else(not_served)
}

fn amount(text: &str, family: Family, field: &str) -> Result<Amount, Fault> {
    let amount = text.parse::<Amount>().and_then(|amount| amount.within(family.amount_bits()));
    amount.map_err(|rule| Fault::invalid(field, rule))
}

/// An account of the corridor's chain, or the default where none is stated.
fn contract(stated: Option<&str>, corridor: &Corridor, default: &Account, field: &str) -> Result<Account, Fault> {
    let Some(text) = stated else { return Ok(default.clone()) };
    Account::parse(corridor.family, text).map_err(|rule| Fault::invalid(field, caip_rule(&rule)))
}

/// The verifier that is asked for, the default or a trusted one; a set by the origin of any of its members.
fn verifier(requirement: &Requirement, corridor: &Corridor) -> Result<VerifierRef, Fault> {
    let account = requirement.releaser.as_deref().map(|text| {
        Account::parse(corridor.family, text).map_err(|rule| Fault::invalid("extra.gw.releaser", caip_rule(&rule)))
    });
    let origin = requirement.verifier_endpoint.as_deref().map(|text| {
        let rule = "must be an origin, http(s)://host[:port] without a path";
        net::origin::origin(text).ok_or_else(|| Fault::invalid("extra.gw.fulfillmentVerifierEndpoint", rule))
    });
    let (account, origin) = (account.transpose()?, origin.transpose()?);
    if corridor.verifier_by(account.as_ref(), None).is_none() {
        return Err(Fault::invalid(
            "extra.gw.releaser",
            "is neither the default verifier's account nor a trusted one's",
        ));
    }
    corridor.verifier_by(account.as_ref(), origin.as_deref()).cloned().ok_or_else(|| {
        Fault::invalid(
            "extra.gw.fulfillmentVerifierEndpoint",
            "is neither the default verifier's origin nor a trusted one's",
        )
    })
}

/// On Solana a signature binds the cluster and the version of what is signed. Elsewhere there is neither, and a merchant who
/// names one means another network.
fn signing_domain(requirement: &Requirement, corridor: &Corridor) -> Result<(), Fault> {
    let Requirement { signature_cluster_id, signature_domain_version, .. } = requirement;
    let Some((cluster_id, version)) = &corridor.signature_domain else {
        let stated = [
            ("extra.gw.svmSignatureClusterId", signature_cluster_id.is_some()),
            ("extra.gw.svmSignatureDomainVersion", signature_domain_version.is_some()),
        ];
        let stated = stated.into_iter().find(|(_, stated)| *stated);
        return stated.map_or(Ok(()), |(field, _)| {
            Err(Fault::invalid(field, "must not be given where network is not Solana's"))
        });
    };
    if signature_cluster_id.as_ref().is_some_and(|stated| stated != cluster_id) {
        return Err(Fault::invalid("extra.gw.svmSignatureClusterId", format!("must be {cluster_id}")));
    }
    if signature_domain_version.is_some_and(|stated| stated != u64::from(*version)) {
        return Err(Fault::invalid("extra.gw.svmSignatureDomainVersion", format!("must be {version}")));
    }
    Ok(())
}
