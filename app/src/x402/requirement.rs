//! The requirement (spec 2.14): what the merchant asked for in its 402.

use serde_json::{Map, Value};

use crate::{
    error::{Code, Error},
    request::fields::{Faults, Object},
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

fn text(object: &Object<'_>, name: &str, faults: &mut Faults) -> Option<String> {
    object.required::<&str>(name, faults).map(str::to_owned)
}

/// A member that may be left out; empty says as much (spec 2.1).
fn stated(object: &Object<'_>, name: &str, faults: &mut Faults) -> Option<String> {
    object.optional::<&str>(name, faults).filter(|text| !text.is_empty()).map(str::to_owned)
}
