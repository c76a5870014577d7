//! The requirement (spec 2.14): what the merchant asked for in its 402.

use std::time::Duration;

use serde_json::{Map, Value};

use events::{
    Account, AssetId, ChainId, Family, caip,
    event::{Authorization, EscrowPlan, Submitted, TokenDomain},
    time::Timestamp,
};

use super::{EXACT, SCHEME, matching::window};
use crate::{
    error::{Code, Error},
    request::{
        corridors::is_at,
        fields::{Faults, Object},
    },
};

/// A requirement of the right form. What it means on its chains is judged later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Requirement {
    pub(super) scheme: Scheme,
    /// The source chain.
    pub(super) network: String,
    /// The source asset, as a reference on `network` or as a CAIP-19 id.
    pub(super) asset: String,
    pub(super) pay_to: String,
    /// The cap of the spend.
    pub(super) amount: String,
    pub(super) timeout_seconds_max: u64,
    pub(super) destination: Destination,
    pub(super) fulfillment_amount: String,
    pub(super) escrow: Option<String>,
    pub(super) fulfillment_proxy: Option<String>,
    pub(super) reserver: Option<String>,
    pub(super) releaser: Option<String>,
    pub(super) verifier_endpoint: Option<String>,
    pub(super) quote_deadline_seconds: Option<u64>,
    pub(super) fulfillment_deadline_seconds: Option<u64>,
    pub(super) signature_cluster_id: Option<String>,
    pub(super) signature_domain_version: Option<u64>,
}

/// The scheme of a requirement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Scheme {
    /// The gateway's own.
    GwEscrow,
    /// That of stock clients, with what an offer says besides.
    Exact(ExactOffer),
    /// One that is not served.
    Other,
}

/// What a merchant's offer says besides, where stock clients pay it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExactOffer {
    /// The domain in which clients sign for the token, on EVM chains.
    pub(super) domain: Option<TokenDomain>,
    /// The merchant's account on the source chain, for what comes to the offer's address without a deposit, and on Solana for all that is not
    /// delivered.
    pub(super) merchant: String,
    /// From the end of a client's authorization to the last second of the delivery.
    pub(super) delivery_seconds: u32,
    /// From there to the first second of the refund.
    pub(super) refund_seconds: u32,
}

impl ExactOffer {
    /// The last seconds of deposit and delivery and the first of the refund, UNIX, where an authorization holds until before `valid_before`.
    pub(super) fn windows(&self, valid_before: u64) -> [u64; 3] {
        let reserve_deadline = valid_before.saturating_sub(1);
        let fulfillment_deadline = reserve_deadline.saturating_add(self.delivery_seconds.into());
        [reserve_deadline, fulfillment_deadline, fulfillment_deadline.saturating_add(self.refund_seconds.into())]
    }

    fn read(network: Option<&str>, extra: &Object<'_>, gw: &Object<'_>, faults: &mut Faults) -> Option<Self> {
        let chain: Option<ChainId> = network.and_then(|network| network.parse().ok());
        let domain = if chain.and_then(|chain| chain.family()) == Some(Family::Solana) {
            // Who pays the fee is read from what clients sign.
            text(extra, "feePayer", faults).map(|_| None)
        } else {
            let (name, version) = (text(extra, "name", faults), text(extra, "version", faults));
            name.zip(version).map(|(name, version)| Some(TokenDomain { name, version }))
        };
        let merchant = text(gw, "merchant", faults);
        let delivery_seconds = gw.required("deliverySeconds", faults);
        let delivery_seconds = delivery_seconds.and_then(|stated| seconds(stated, gw, "deliverySeconds", faults));
        let refund_seconds = gw.required("refundSeconds", faults);
        let refund_seconds = refund_seconds.and_then(|stated| seconds(stated, gw, "refundSeconds", faults));
        // The address commits to them, so no default of another day may count.
        for name in ["escrow", "reserver", "releaser", "fulfillmentVerifierEndpoint"] {
            let _: Option<&str> = gw.required(name, faults);
        }
        Some(Self {
            domain: domain?,
            merchant: merchant?,
            delivery_seconds: delivery_seconds?,
            refund_seconds: refund_seconds?,
        })
    }
}

/// Where the merchant is paid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Destination {
    pub(super) network: String,
    pub(super) asset: String,
    pub(super) address: String,
}

impl Destination {
    /// Reads the member `destination` of `object`.
    pub(super) fn read(object: &Object<'_>, faults: &mut Faults) -> Option<Self> {
        let destination = object.required_object("destination", faults)?;
        let network = text(&destination, "network", faults);
        let asset = text(&destination, "asset", faults);
        let address = text(&destination, "address", faults);
        Some(Self { network: network?, asset: asset?, address: address? })
    }
}

impl Requirement {
    /// Reads the member `paymentRequirements`.
    ///
    /// # Errors
    /// `INVALID_PAYMENT_REQUIREMENTS` with the first fault.
    pub(super) fn read(members: &Map<String, Value>) -> Result<Self, Error> {
        let mut faults = Faults::default();
        let read = Self::of(&Object::at("paymentRequirements", members), &mut faults);
        faults.or(read).map_err(|fault| Error::new(Code::INVALID_PAYMENT_REQUIREMENTS, fault.message()))
    }

    fn of(members: &Object<'_>, faults: &mut Faults) -> Option<Self> {
        let scheme: Option<&str> = members.required("scheme", faults);
        let network = text(members, "network", faults);
        let asset = text(members, "asset", faults);
        let pay_to = text(members, "payTo", faults);
        let amount = text(members, "amount", faults);
        let timeout_seconds_max = members.required("maxTimeoutSeconds", faults).and_then(|seconds| {
            if seconds == 0 {
                faults.invalid(&members.path("maxTimeoutSeconds"), "must be above zero");
            }
            Some(seconds).filter(|seconds| *seconds > 0)
        });
        let extra = members.required_object("extra", faults)?;
        let gw = extra.required_object("gw", faults)?;
        let scheme = match scheme {
            Some(SCHEME) => Some(Scheme::GwEscrow),
            Some(EXACT) => ExactOffer::read(network.as_deref(), &extra, &gw, faults).map(Scheme::Exact),
            Some(_) => Some(Scheme::Other),
            None => None,
        };
        let destination = Destination::read(&gw, faults);
        Some(Self {
            scheme: scheme?,
            network: network?,
            asset: asset?,
            pay_to: pay_to?,
            amount: amount?,
            timeout_seconds_max: timeout_seconds_max?,
            destination: destination?,
            fulfillment_amount: text(&gw, "fulfillmentAmount", faults)?,
            escrow: stated(&gw, "escrow", faults),
            fulfillment_proxy: stated(&gw, "fulfillmentProxy", faults),
            reserver: stated(&gw, "reserver", faults),
            releaser: stated(&gw, "releaser", faults),
            verifier_endpoint: stated(&gw, "fulfillmentVerifierEndpoint", faults),
            quote_deadline_seconds: gw.optional("quoteDeadlineSeconds", faults),
            fulfillment_deadline_seconds: gw.optional("fulfillmentDeadlineSeconds", faults),
            signature_cluster_id: stated(&gw, "svmSignatureClusterId", faults),
            signature_domain_version: gw.optional("svmSignatureDomainVersion", faults),
        })
    }
}

impl Requirement {
    /// Whether what the address of an offer commits to besides is that of the purchase that was authorized so, where that is one.
    fn is_of_purchase(&self, authorization: &Authorization, source: &Account, plan: &EscrowPlan) -> bool {
        let offer = match &self.scheme {
            Scheme::Exact(offer) => Some(offer),
            Scheme::GwEscrow | Scheme::Other => None,
        };
        let is_merchant = |offer: &ExactOffer, account: &Account| {
            Account::parse(account.family(), &offer.merchant).as_ref() == Ok(account)
        };
        match authorization {
            Authorization::EvmX402Exact(purchase) => offer.is_some_and(|offer| {
                is_merchant(offer, &purchase.merchant)
                    && offer.windows(purchase.valid_before)
                        == [plan.reserve_deadline, plan.fulfillment_deadline, plan.refund_after]
            }),
            // Its deadlines were counted from when it came.
            Authorization::SolanaX402Exact(purchase) => offer.is_some_and(|offer| {
                is_merchant(offer, source)
                    && offer.delivery_seconds == purchase.delivery_seconds
                    && offer.refund_seconds == purchase.refund_seconds
            }),
            _ => true,
        }
    }

    /// How long the merchant waits for its delivery: of an offer until a client's authorization and then the delivery's time are over.
    pub(super) fn timeout(&self) -> Duration {
        let delivery = match &self.scheme {
            Scheme::Exact(offer) => offer.delivery_seconds.into(),
            Scheme::GwEscrow | Scheme::Other => 0,
        };
        Duration::from_secs(self.timeout_seconds_max.saturating_add(delivery))
    }

    /// The first member in which a payment that exists is not what is asked for; `None` when it is. Read without the
    /// configuration: what the merchant leaves open may be whatever the payment was accepted with. Its windows are counted from
    /// when the payment was accepted, as it may have come another way.
    pub(super) fn difference(&self, submitted: &Submitted) -> Option<&'static str> {
        let (source, escrow) = (&submitted.terms.source, &submitted.escrow);
        let (from, to) = (source.family(), submitted.terms.destination());
        let ([destination], [proxy]) = (to, submitted.fulfillment_proxies.as_slice()) else {
            return Some("extra.gw.destination");
        };
        let target = destination.family();
        let is_account =
            |stated: &str, family, account: &Account| Account::parse(family, stated).as_ref() == Ok(account);
        let may_be = |stated: &Option<String>, family, account: &Account| {
            stated.as_ref().is_none_or(|stated| is_account(stated, family, account))
        };
        let endpoint_is = |stated: &String| is_at(&submitted.verifier, stated);
        let pay_to = match &submitted.authorization {
            Authorization::EvmX402Exact(purchase) => Some(&purchase.pay_to),
            Authorization::SolanaX402Exact(purchase) => Some(&purchase.pay_to),
            _ => None,
        };
        // The address of an offer commits to all that it is made of.
        let is_paid = match pay_to {
            Some(pay_to) => is_account(&self.pay_to, from, pay_to),
            None => {
                is_account(&self.pay_to, from, &escrow.contract)
                    || is_account(&self.pay_to, target, destination.account())
            }
        };
        let is_within = |deadline: Timestamp, seconds: Option<u64>| {
            seconds.is_none_or(|seconds| deadline - submitted.submitted_at <= window(seconds))
        };
        // Which domain a signature on Solana was for is not recorded; elsewhere there is none.
        let has_domain = from == Family::Solana;
        let terms = &submitted.terms;
        let members = [
            ("network", is_chain(&self.network, source.asset().chain())),
            ("asset", is_asset(&self.asset, source.asset())),
            ("amount", self.amount.parse().ok() == terms.max_source_amount && terms.max_source_amount.is_some()),
            ("extra.gw.destination.network", is_chain(&self.destination.network, destination.asset().chain())),
            ("extra.gw.destination.asset", is_asset(&self.destination.asset, destination.asset())),
            ("extra.gw.destination.address", is_account(&self.destination.address, target, destination.account())),
            ("payTo", is_paid),
            ("extra.gw.merchant", self.is_of_purchase(&submitted.authorization, source.account(), &submitted.escrow)),
            ("extra.gw.fulfillmentAmount", self.fulfillment_amount.parse() == Ok(terms.fulfillment_amount)),
            ("extra.gw.escrow", may_be(&self.escrow, from, &escrow.contract)),
            ("extra.gw.fulfillmentProxy", may_be(&self.fulfillment_proxy, target, proxy)),
            ("extra.gw.reserver", may_be(&self.reserver, from, &escrow.reserver)),
            ("extra.gw.releaser", may_be(&self.releaser, from, &escrow.releaser)),
            ("extra.gw.fulfillmentVerifierEndpoint", self.verifier_endpoint.as_ref().is_none_or(endpoint_is)),
            ("scheme", pay_to.is_some() || self.scheme == Scheme::GwEscrow),
            ("extra.gw.quoteDeadlineSeconds", is_within(submitted.quote_deadline, self.quote_deadline_seconds)),
            (
                "extra.gw.fulfillmentDeadlineSeconds",
                is_within(submitted.fulfillment_deadline, self.fulfillment_deadline_seconds),
            ),
            ("extra.gw.svmSignatureClusterId", has_domain || self.signature_cluster_id.is_none()),
            ("extra.gw.svmSignatureDomainVersion", has_domain || self.signature_domain_version.is_none()),
        ];
        members.into_iter().find(|(_, holds)| !holds).map(|(member, _)| member)
    }
}

fn is_chain(text: &str, chain: &ChainId) -> bool {
    text.parse().as_ref() == Ok(chain)
}

/// Whether `text` is the asset, by its CAIP-19 id or by its bare reference.
fn is_asset(text: &str, asset: &AssetId) -> bool {
    stated_asset(text, asset.chain(), asset.namespace()).as_ref() == Ok(asset)
}

/// The asset that `text` is: by its CAIP-19 id, or by its bare reference on this chain and in this namespace, normalised as such references
/// are.
///
/// # Errors
/// The rule that it breaks.
pub(super) fn stated_asset(text: &str, chain: &ChainId, namespace: &str) -> Result<AssetId, caip::Error> {
    match text.contains('/') {
        true => text.parse(),
        false => format!("{chain}/{namespace}:{text}").parse(),
    }
}

/// So many seconds, which stand in the member `name` of `object`, in the width that an offer has for them.
pub(super) fn seconds(stated: u64, object: &Object<'_>, name: &str, faults: &mut Faults) -> Option<u32> {
    u32::try_from(stated).map_err(|_| faults.invalid(&object.path(name), "must fit 32 bits")).ok()
}

pub(super) fn text(object: &Object<'_>, name: &str, faults: &mut Faults) -> Option<String> {
    object.required::<&str>(name, faults).map(str::to_owned)
}

/// A member that may be left out; empty says as much (spec 2.1).
pub(super) fn stated(object: &Object<'_>, name: &str, faults: &mut Faults) -> Option<String> {
    object.optional::<&str>(name, faults).filter(|text| !text.is_empty()).map(str::to_owned)
}
