//! The requirement (spec 2.14): what the merchant asked for in its 402.

use serde_json::{Map, Value};

use events::{Account, AssetId, ChainId, Family, event::Submitted, time::Timestamp};

use super::{SCHEME, matching::window};
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
    pub(super) scheme: String,
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

/// Where the merchant is paid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Destination {
    pub(super) network: String,
    pub(super) asset: String,
    pub(super) address: String,
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
        let scheme = text(members, "scheme", faults);
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
        let gw = members.required_object("extra", faults).and_then(|extra| extra.required_object("gw", faults))?;
        let destination = gw.required_object("destination", faults).and_then(|destination| {
            let network = text(&destination, "network", faults);
            let asset = text(&destination, "asset", faults);
            let address = text(&destination, "address", faults);
            Some(Destination { network: network?, asset: asset?, address: address? })
        });
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
        let funded = is_account(&self.pay_to, from, &escrow.contract);
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
            ("payTo", funded || is_account(&self.pay_to, target, destination.account())),
            ("extra.gw.fulfillmentAmount", self.fulfillment_amount.parse() == Ok(terms.fulfillment_amount)),
            ("extra.gw.escrow", may_be(&self.escrow, from, &escrow.contract)),
            ("extra.gw.fulfillmentProxy", may_be(&self.fulfillment_proxy, target, proxy)),
            ("extra.gw.reserver", may_be(&self.reserver, from, &escrow.reserver)),
            ("extra.gw.releaser", may_be(&self.releaser, from, &escrow.releaser)),
            ("extra.gw.fulfillmentVerifierEndpoint", self.verifier_endpoint.as_ref().is_none_or(endpoint_is)),
            ("scheme", self.scheme == SCHEME),
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
    let stated = match text.contains('/') {
        true => text.parse::<AssetId>(),
        false => format!("{}/{}:{text}", asset.chain(), asset.namespace()).parse(),
    };
    stated.as_ref() == Ok(asset)
}

fn text(object: &Object<'_>, name: &str, faults: &mut Faults) -> Option<String> {
    object.required::<&str>(name, faults).map(str::to_owned)
}

/// A member that may be left out; empty says as much (spec 2.1).
fn stated(object: &Object<'_>, name: &str, faults: &mut Faults) -> Option<String> {
    object.optional::<&str>(name, faults).filter(|text| !text.is_empty()).map(str::to_owned)
}
