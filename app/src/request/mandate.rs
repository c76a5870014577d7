//! Mandates as they are asked for (ADR 159): from which account what may be drawn, to whom it is delivered, and what binds the merchant.

use escrow_abi::mandates;
use events::{
    Account, Amount, Family, Hash32, OwnedAsset, Terms,
    event::{EscrowPlan, Mandate, VerifierRef},
    time::{Timestamp, unix_seconds},
};

use super::{
    corridors::Corridors,
    fields::{Faults, Object, account_rule},
    order,
};

/// The most time that a payment may be held for where the payer says nothing, besides the refund delay of its chains, seconds.
const LOCK_SECONDS: u64 = 86_400;

/// A mandate that nobody has signed yet.
#[derive(Debug, Clone, PartialEq)]
pub struct MandateOrder {
    /// What it says.
    pub mandate: Mandate,
    /// The terms of a payment under it; the amounts are any.
    pub terms: Terms,
    /// Who attests deliveries.
    pub verifier: VerifierRef,
    /// Where payments are deposited.
    pub escrow_contract: Account,
    /// Permit2 on the source's chain.
    pub permit2: Option<Account>,
    reserver: Account,
}

impl MandateOrder {
    /// Reads the members of `body`; the first period begins at `now` where it does not say. `None` only after a fault was noted.
    pub fn read(body: &Object<'_>, corridors: &Corridors, now: Timestamp, faults: &mut Faults) -> Option<Self> {
        order::version(body, faults);
        let source = body.required_object("source", faults).and_then(|owned| order::source(&owned, corridors, faults));
        let destination = order::destination(body, corridors, faults);
        let corridor = source.as_ref().and_then(|source| corridors.get(source.asset().chain()));
        let verifier = order::verifier(body, corridor, faults);
        let escrow_contract = order::escrow_contract(body, corridor, verifier.as_ref(), faults);
        if let Some(source) = source.as_ref().filter(|source| source.family() != Family::Evm) {
            let chain = source.asset().chain();
            faults.invalid(
                "source.asset_identifier",
                format!("is on {chain}, and mandates are taken on EVM chains alone"),
            );
            return None;
        }
        let members = body.required_object("mandate", faults);
        let (source, destination) = (source?, destination?);
        let chains = destination.iter().chain([&source]).map(|owned| owned.asset().chain());
        let lock_seconds = LOCK_SECONDS.saturating_add(corridors.refund_delay_seconds(chains));
        let mandate = members.and_then(|members| mandate(&members, (&source, &destination), lock_seconds, now, faults));
        let corridor = corridor?;
        // All but the amounts is in a mandate, so these are never looked at.
        let terms = Terms::new(source, destination, mandate.as_ref()?.amount, None);
        Some(Self {
            mandate: mandate?,
            terms,
            verifier: verifier?,
            escrow_contract: escrow_contract?,
            permit2: corridor.permit2.clone(),
            reserver: corridor.reserver.clone(),
        })
    }

    /// The escrow of whatever is drawn under it: up to its end, and held for as long as it allows.
    pub fn plan(&self) -> EscrowPlan {
        let ends = mandates::ends(&self.mandate);
        EscrowPlan {
            chain_id: self.terms.source.asset().chain().clone(),
            contract: self.escrow_contract.clone(),
            reserver: self.reserver.clone(),
            releaser: self.verifier.account.clone(),
            reserve_deadline: ends,
            fulfillment_deadline: ends,
            refund_after: ends.saturating_add(self.mandate.lock_seconds.into()),
        }
    }
}

fn mandate(
    members: &Object<'_>,
    (source, destination): (&OwnedAsset, &[OwnedAsset]),
    lock_seconds: u64,
    now: Timestamp,
    faults: &mut Faults,
) -> Option<Mandate> {
    let merchant = members.required::<&str>("merchant", faults).and_then(|text| {
        let parsed = Account::parse(source.family(), text);
        parsed.map_err(|rule| faults.invalid(&members.path("merchant"), account_rule(&rule))).ok()
    });
    let amount_of = |name: &str, text: Option<&str>, bits: u32, faults: &mut Faults| -> Option<Amount> {
        text.and_then(|text| order::amount(text, bits, &members.path(name), faults))
    };
    let text = members.required("amount", faults);
    let amount = amount_of("amount", text, source.family().amount_bits(), faults);
    let bits = destination.iter().map(|owned| owned.family().amount_bits()).min().unwrap_or(256);
    let stated = members.optional("least", faults);
    let least = amount_of("least", stated, bits, faults);
    let begins = members.optional("begins", faults).or_else(|| Some(unix_seconds(now)));
    let period_seconds = nonzero(members, "period_seconds", None, faults);
    let periods = nonzero(members, "periods", None, faults);
    let lock_seconds = nonzero(members, "lock_seconds", Some(lock_seconds), faults);
    let salt = members.required::<&str>("salt", faults).and_then(|text| {
        let rule = "must be 0x followed by 64 hex digits, drawn at random by the payer";
        text.parse::<Hash32>().map_err(|_| faults.invalid(&members.path("salt"), rule)).ok()
    });
    if stated.is_some() && least.is_none() {
        return None;
    }
    Some(Mandate {
        merchant: merchant?,
        amount: amount?,
        least,
        begins: begins?,
        period_seconds: period_seconds?,
        periods: periods?,
        lock_seconds: lock_seconds?,
        salt: salt?,
    })
}

/// A member of 32 bits that is not zero; required where there is nothing that it is `otherwise`.
fn nonzero(members: &Object<'_>, name: &str, otherwise: Option<u64>, faults: &mut Faults) -> Option<u32> {
    let stated: Option<u64> = match otherwise {
        Some(otherwise) => members.optional(name, faults).or(Some(otherwise)),
        None => members.required(name, faults),
    };
    let fits = u32::try_from(stated?).ok().filter(|number| *number > 0);
    if fits.is_none() {
        faults.invalid(&members.path(name), "must be 1 to 4294967295");
    }
    fits
}
