//! Batches (ADR 158): one signature for many payments. Each is a payment as any other, with a stream, an auction and an end of its own; what is
//! of the batch is only what the payer signs, and that the bodies of many come in one.
//!
//! What a batch states beside its list of payments counts for each of them that does not state it itself.

pub mod prepare;
pub mod submit;

use std::collections::BTreeSet;

use serde_json::{Map, Value};

pub use escrow_abi::payment_batches::PAYMENTS_MAX;
use events::PaymentId;

use crate::{
    App,
    authorization::{AuthorizationRequest, MessageScheme, PreparedBatch},
    error::{Code, Error},
    prepare::unsignable,
    request::{
        body::JsonBody,
        fields::{Faults, Object},
        order::Order,
    },
};

/// The members that are the batch's own.
const OWN: [&str; 3] = ["payments", "sender_auth", "reserve_deadline"];
/// The members by which somebody else than the payer asks, which nobody does for a batch.
const OF_NOBODY: [&str; 3] = ["originator_auth", "proof", "originator"];

/// Most bytes of what payments state beside their own, all of them together: it is read for each of them.
const SHARED_BYTES_MAX: usize = 1_024 * 1_024;

/// A batch as it is asked for.
struct Batch<'a> {
    /// What counts for each payment that does not state it itself.
    shared: Map<String, Value>,
    payments: Vec<Member<'a>>,
    /// The last second of the deposits, UNIX, where the payer chooses it.
    reserve_deadline: Option<u64>,
}

/// One payment of a batch.
struct Member<'a> {
    /// What it states itself.
    own: &'a Map<String, Value>,
    order: Order,
    payment_id: PaymentId,
}

impl<'a> Batch<'a> {
    /// Reads a batch, of which every payment keeps its rules.
    ///
    /// # Errors
    /// 400 with what is wrong; what is one payment's fault names it.
    fn read(body: &'a JsonBody, state: &App) -> Result<Self, Error> {
        let (root, mut faults) = (Object::root(&body.members), Faults::default());
        let reserve_deadline: Option<u64> = root.optional("reserve_deadline", &mut faults);
        let items: Option<&Vec<Value>> = root.required("payments", &mut faults);
        if let Some(items) = items
            && !(1..=PAYMENTS_MAX).contains(&items.len())
        {
            faults.invalid("payments", format!("must have 1 to {PAYMENTS_MAX} payments"));
        }
        for name in OF_NOBODY {
            if root.has(name) {
                faults.invalid(name, "is nothing of a batch, whose payments are the payer's own");
            }
        }
        let items = faults.or(items)?;
        let shared = body.members.iter().filter(|(name, _)| !OWN.contains(&name.as_str()));
        let shared: Map<String, Value> = shared.map(|(name, value)| (name.clone(), value.clone())).collect();
        let bytes = Value::Object(shared.clone()).to_string().len();
        if bytes.saturating_mul(items.len()) > SHARED_BYTES_MAX {
            let most = SHARED_BYTES_MAX / items.len();
            let rule = format!("what stands beside them must have at most {most} bytes for so many, and has {bytes}");
            return Err(Error::new(Code::REQUEST_TOO_LARGE, format!("payments: {rule}")));
        }
        let (mut payments, mut known) = (Vec::with_capacity(items.len()), BTreeSet::new());
        for (index, item) in items.iter().enumerate() {
            let within = |error: Error| error.within(&format!("payments[{index}]"));
            let member = Member::read(item, &shared, state).map_err(within)?;
            if !known.insert(member.payment_id.clone()) {
                let rule = "request_id: is that of another payment of the batch";
                return Err(within(Error::new(Code::INVALID_REQUEST, rule)));
            }
            payments.push(member);
        }
        Ok(Self { shared, payments, reserve_deadline })
    }

    /// What is signed for all of them.
    async fn prepared(&self, state: &App) -> Result<PreparedBatch, Error> {
        let requests: Vec<AuthorizationRequest<'_>> = self.payments.iter().map(Member::authorization).collect();
        for (index, request) in requests.iter().enumerate() {
            let chain = request.terms.source.asset().chain();
            let within = |error: Error| error.within(&format!("payments[{index}]"));
            let checked = state.corridors.check_scheme(chain, MessageScheme::EvmPermit2Batch);
            checked.map_err(within)?;
            request.check_window().map_err(|error| within(error.into()))?;
        }
        let authorizer = state.services.authorizer.as_ref();
        authorizer.prepare_batch(&requests, self.reserve_deadline).await.map_err(unsignable)
    }
}

/// The body of a payment that states `own` itself.
fn whole(shared: &Map<String, Value>, own: &Map<String, Value>) -> Map<String, Value> {
    let mut body = shared.clone();
    body.extend(own.iter().map(|(name, value)| (name.clone(), value.clone())));
    body
}

impl<'a> Member<'a> {
    fn read(item: &'a Value, shared: &Map<String, Value>, state: &App) -> Result<Self, Error> {
        let own = item.as_object().ok_or_else(|| Error::new(Code::INVALID_REQUEST, "must be an object"))?;
        let mut faults = Faults::default();
        let mut not_of_one = OF_NOBODY.iter().chain(&OWN);
        if let Some(name) = not_of_one.find(|name| own.contains_key(**name)) {
            faults.invalid(name, "is nothing of one payment of a batch");
        }
        let body = whole(shared, own);
        let order = Order::read(&Object::root(&body), &state.corridors, &mut faults);
        let order = faults.or(order)?;
        let payment_id = PaymentId::derive(&order.terms.source.account().originator(), &order.request_id);
        Ok(Self { own, order, payment_id })
    }

    fn authorization(&self) -> AuthorizationRequest<'_> {
        self.order.authorization(&self.payment_id, self.order.terms.hash(), MessageScheme::EvmPermit2Batch)
    }
}
