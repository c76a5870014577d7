//! Deposit from an address that the payer's money was sent to (ADR 155): one call of anyone's, with the reserver's admission, which
//! deposits and names the settler.

use alloy::{
    primitives::U256,
    sol_types::{Eip712Domain, SolCall},
};

use chains::escrow;
use escrow_abi::{
    attest,
    contracts::{self, units},
    deposit_addresses::DepositAddresses,
    eip712::{self, Admission, GatewayDeposit, LargerAdmission, Reservation, escrow_domain},
    signature,
};
use events::{
    Amount, Hash32,
    event::{Authorization, TransactionPrepared},
    time::unix_seconds,
};
use sagas::ports::{Clock, DepositOrder, PrepareError, Transient};
use signer::Secp256k1Key;

use super::{
    address::address,
    agreement::agreement,
    calls::{GatewayCall, RECORD_WAITS, Trial, refused, reservable_until, waiting},
    cost::ADDRESS_ENERGY_MAX,
    deposit_addresses::Place,
    escrows::Escrows,
    node::Node,
    reservation, transaction,
};

/// How long what is tried out is admitted, in seconds: whoever is shown it may make it.
const TRIAL_SECONDS: u64 = 30;
/// How long a deposit is admitted, in seconds, which is as long as a transaction can get into a block.
const ADMISSION_SECONDS: u64 = 60;

/// The deposit of `amount` of what is at the payment's address, reserved for the order's quote.
///
/// # Errors
/// [`PrepareError`] while a change of the record waits for a block, or where the escrow has one already.
pub(super) async fn call(
    node: &Node,
    order: &DepositOrder,
    amount: Amount,
    reserver: &Secp256k1Key,
    clock: &dyn Clock,
) -> Result<GatewayCall, PrepareError> {
    let escrow = address(&order.escrow.contract)?;
    let Some(read) = Escrows::of(node).newest(&order.payment_id, escrow).await? else {
        return Err(waiting(RECORD_WAITS));
    };
    if let Some(record) = read.record {
        let what = match record.escrow.state {
            escrow::State::Deposited | escrow::State::Reserved => "the payment's id is used by a deposit already",
            escrow::State::Released | escrow::State::Refunded => "the escrow has paid out already",
        };
        return Err(refused(node.refusal(escrow, what.to_owned()), order.escrow.reserve_deadline));
    }
    let span = node.span().await?;
    let own = unix_seconds(clock.now());
    // Both clocks count, as a node may lag; ours only as far as the next transaction could land.
    let now = span.head.seconds().max(own.min(span.head.seconds().saturating_add(ADMISSION_SECONDS)));
    let ends = |seconds: u64| now.saturating_add(seconds).min(reservable_until(order));
    let (tried_until, until) = (ends(TRIAL_SECONDS), ends(ADMISSION_SECONDS));
    let place = Place::of(&order.payer_deposit())?;
    let payer = order.terms.source.account();
    let deposit = agreement(&order.payment_id, payer, order.terms_hash, Hash32::ZERO, &order.escrow);
    let award = reservation::message(&order.payment_id, &order.reservation);
    let unsigned = Unsigned {
        deposit: deposit.map_err(Transient::from)?,
        award: award.map_err(Transient::from)?,
        is_larger: amount != order.reservation.source_amount,
        amount: units(amount),
        domain: escrow_domain(u64::from(node.reference()), escrow),
        place,
    };
    // At once: where the key is elsewhere, each is a round trip.
    let (trial, data) = tokio::try_join!(unsigned.signed(reserver, tried_until), unsigned.signed(reserver, until))?;
    // What the chain would refuse then is no refusal of the payment.
    if now < tried_until && unix_seconds(clock.now()).saturating_sub(own) >= tried_until - now {
        let what = "the reserver's key took longer to sign than what is tried out holds";
        return Err(Transient::unreachable(what).into());
    }
    Ok(GatewayCall {
        contract: unsigned.place.factory(),
        data,
        trial: Some(Trial { data: trial, valid_until: tried_until }),
        taken_until: Some(until),
        valid_until: until,
        energy_max: Some(ADDRESS_ENERGY_MAX),
        ..GatewayCall::default()
    })
}

/// The deposit, before it is admitted.
struct Unsigned {
    place: Place,
    deposit: GatewayDeposit,
    award: Reservation,
    amount: U256,
    /// More than the award asks for.
    is_larger: bool,
    domain: Eip712Domain,
}

impl Unsigned {
    /// The call, admitted up to the UNIX second `until`.
    async fn signed(&self, reserver: &Secp256k1Key, until: u64) -> Result<Vec<u8>, Transient> {
        let (deposit, reservation, token) = (self.deposit.clone(), self.award.clone(), self.place.token());
        let until = contracts::time(until)?;
        let preimage = match self.is_larger {
            false => eip712::preimage(&Admission { deposit, reservation, token, admittedUntil: until }, &self.domain),
            true => {
                let amount = self.amount;
                let admission = LargerAdmission { deposit, reservation, token, amount, admittedUntil: until };
                eip712::preimage(&admission, &self.domain)
            }
        };
        let signed = attest::sign_preimage(reserver, &preimage).await?;
        let call = DepositAddresses::depositCall {
            t: self.place.terms().clone(),
            amount: self.amount,
            r: (&self.award).into(),
            admittedUntil: until,
            reserverSignature: signature::bytes(&signed).map_err(Transient::misconfigured)?.into(),
        };
        Ok(call.abi_encode())
    }
}

/// The last second in which the escrow takes any of the deposits from an address that `versions` call, as its reserver admitted them: up to
/// then anyone may make one. One that cannot be read may hold as long as any. `None` where the payer's own transaction deposits.
pub(super) fn admitted_until(order: &DepositOrder, versions: &[TransactionPrepared]) -> Option<u64> {
    let Authorization::DepositAddress(_) = &order.authorization else { return None };
    let until = |version: &TransactionPrepared| {
        let bytes = hex::decode(version.raw.strip_prefix("0x")?).ok()?;
        let (decoded, _) = transaction::read_signed(&bytes).ok()?;
        let call = DepositAddresses::depositCall::abi_decode(&decoded.draft.call.data).ok()?;
        Some(contracts::seconds(call.admittedUntil))
    };
    let longest = order.escrow.reserve_deadline;
    Some(versions.iter().map(|version| until(version).unwrap_or(longest)).max().unwrap_or(longest))
}
