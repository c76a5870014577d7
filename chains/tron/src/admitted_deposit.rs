//! Admitted deposit: one call of anyone's, with the reserver's admission, which deposits and names the settler. The money comes from an
//! address that it was sent to (ADR 155), or from the payer's account by Permit2 (ADR 156).

use alloy::{
    primitives::{Address, Bytes, U256, aliases::U48},
    sol_types::{Eip712Domain, SolCall},
};

use chains::escrow;
use escrow_abi::{
    attest,
    contracts::{
        self,
        GatewayEscrow::{self, depositMoreWithWitnessCall, depositWithWitnessCall},
        units,
    },
    deposit_addresses::DepositAddresses,
    eip712::{self, Admission, GatewayDeposit, LargerAdmission, Reservation, escrow_domain},
    permit2, signature,
};
use events::{
    Amount, Hash32,
    event::{Authorization, TransactionPrepared},
    time::unix_seconds,
};
use sagas::ports::{Clock, DepositOrder, PrepareError, Transient};
use signer::Secp256k1Key;

use super::{
    address::{address, trc20},
    agreement::agreement,
    calls::{GatewayCall, RECORD_WAITS, Trial, refused, reservable_until, waiting},
    cost::ADMITTED_DEPOSIT_ENERGY_MAX,
    deposit_addresses::Place,
    escrows::Escrows,
    node::Node,
    reservation, transaction,
};

/// How long what is tried out is admitted, in seconds: whoever is shown it may make it.
const TRIAL_SECONDS: u64 = 30;
/// How long a deposit is admitted, in seconds, which is as long as a transaction can get into a block.
const ADMISSION_SECONDS: u64 = 60;

/// The deposit of `amount` of the payer's, or of what is at the payment's address, reserved for the order's quote.
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
    let unsigned = Unsigned::of(order, amount, u64::from(node.reference()))?;
    // At once: where the key is elsewhere, each is a round trip.
    let (trial, data) = tokio::try_join!(unsigned.signed(reserver, tried_until), unsigned.signed(reserver, until))?;
    // What the chain would refuse then is no refusal of the payment.
    if now < tried_until && unix_seconds(clock.now()).saturating_sub(own) >= tried_until - now {
        let what = "the reserver's key took longer to sign than what is tried out holds";
        return Err(Transient::unreachable(what).into());
    }
    Ok(GatewayCall {
        contract: unsigned.contract(),
        data,
        trial: Some(Trial { data: trial, valid_until: tried_until }),
        taken_until: Some(until),
        valid_until: until,
        energy_max: Some(ADMITTED_DEPOSIT_ENERGY_MAX),
        ..GatewayCall::default()
    })
}

/// Where the money comes from.
enum Source {
    /// The address that it was sent to.
    Address(Box<Place>),
    /// The payer's account, by Permit2.
    Permit(GatewayEscrow::Permit),
}

/// The deposit, before it is admitted.
struct Unsigned {
    source: Source,
    escrow: Address,
    token: Address,
    deposit: GatewayDeposit,
    award: Reservation,
    amount: U256,
    /// More than the award asks for.
    is_larger: bool,
    domain: Eip712Domain,
}

impl Unsigned {
    /// The deposit of `amount` for `order`, on the chain with the EIP-712 id `chain`.
    fn of(order: &DepositOrder, amount: Amount, chain: u64) -> Result<Self, Transient> {
        let (escrow, asset) = (address(&order.escrow.contract)?, order.terms.source.asset());
        let (payer, token) = (order.terms.source.account(), trc20(asset)?);
        let (source, agreed) = match &order.authorization {
            Authorization::TronPermit2Escrow(permit) => {
                let signature = signature::bytes(&permit.signature).map_err(Transient::misconfigured)?;
                (Source::Permit(permit2::call_argument(permit, token, signature.into())), permit.quote_hash)
            }
            _ => (Source::Address(Box::new(Place::of(&order.payer_deposit())?)), Hash32::ZERO),
        };
        let deposit = agreement(&order.payment_id, payer, order.terms_hash, agreed, &order.escrow);
        let award = reservation::message(&order.payment_id, &order.reservation);
        Ok(Self {
            source,
            escrow,
            token,
            deposit: deposit.map_err(Transient::from)?,
            award: award.map_err(Transient::from)?,
            is_larger: amount != order.reservation.source_amount,
            amount: units(amount),
            domain: escrow_domain(chain, escrow),
        })
    }

    /// What is called.
    fn contract(&self) -> Address {
        match &self.source {
            Source::Address(place) => place.factory(),
            Source::Permit(_) => self.escrow,
        }
    }

    /// The call, admitted up to the UNIX second `until`.
    async fn signed(&self, reserver: &Secp256k1Key, until: u64) -> Result<Vec<u8>, Transient> {
        let (deposit, reservation, token) = (self.deposit.clone(), self.award.clone(), self.token);
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
        Ok(self.encoded(until, signature::bytes(&signed).map_err(Transient::misconfigured)?.into()))
    }

    #[expect(non_snake_case, reason = "the arguments have the contract's names")]
    fn encoded(&self, admittedUntil: U48, reserverSignature: Bytes) -> Vec<u8> {
        let (amount, d) = (self.amount, GatewayEscrow::GatewayDeposit::from(&self.deposit));
        match &self.source {
            Source::Address(place) => DepositAddresses::depositCall {
                t: place.terms().clone(),
                amount,
                r: (&self.award).into(),
                admittedUntil,
                reserverSignature,
            }
            .abi_encode(),
            Source::Permit(permit) => {
                let (p, r) = (permit.clone(), GatewayEscrow::Reservation::from(&self.award));
                match self.is_larger {
                    false => depositWithWitnessCall { d, p, r, admittedUntil, reserverSignature }.abi_encode(),
                    true => {
                        depositMoreWithWitnessCall { d, p, r, amount, admittedUntil, reserverSignature }.abi_encode()
                    }
                }
            }
        }
    }
}

/// Whether the deposit is one call of the gateway's that reserves at once.
pub(super) fn is_admitted(authorization: &Authorization) -> bool {
    matches!(authorization, Authorization::DepositAddress(_) | Authorization::TronPermit2Escrow(_))
}

/// What a deposit of this payment calls.
///
/// # Errors
/// [`Transient`] for what fits no Tron chain.
pub(super) fn called(order: &DepositOrder) -> Result<Address, Transient> {
    match &order.authorization {
        Authorization::DepositAddress(_) => Ok(Place::of(&order.payer_deposit())?.factory()),
        _ => Ok(address(&order.escrow.contract)?),
    }
}

/// The last second in which the escrow takes any of the deposits that `versions` call, as its reserver admitted them: up to then anyone may
/// make one. One that cannot be read may hold as long as any. `None` where the payer's own transaction deposits.
pub(super) fn admitted_until(order: &DepositOrder, versions: &[TransactionPrepared]) -> Option<u64> {
    if !is_admitted(&order.authorization) {
        return None;
    }
    let until = |version: &TransactionPrepared| {
        let bytes = hex::decode(version.raw.strip_prefix("0x")?).ok()?;
        let (decoded, _) = transaction::read_signed(&bytes).ok()?;
        admission_end(&decoded.draft.call.data)
    };
    let longest = order.escrow.reserve_deadline;
    Some(versions.iter().map(|version| until(version).unwrap_or(longest)).max().unwrap_or(longest))
}

/// The last second in which the escrow takes the deposit that `data` calls.
fn admission_end(data: &[u8]) -> Option<u64> {
    let until = DepositAddresses::depositCall::abi_decode(data).map(|call| call.admittedUntil);
    let until = until.or_else(|_| depositWithWitnessCall::abi_decode(data).map(|call| call.admittedUntil));
    let until = until.or_else(|_| depositMoreWithWitnessCall::abi_decode(data).map(|call| call.admittedUntil));
    until.ok().map(contracts::seconds)
}
