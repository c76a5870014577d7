//! The call of the escrow that deposits a payer's money and reserves it for a settler.

use alloy::{
    primitives::{Address, Bytes, U256, aliases::U48},
    sol_types::SolCall,
};

use chains::escrow::QuotedEscrow;
use escrow_abi::{
    contracts::{self, ConvertError, GatewayEscrow, address, units},
    deposit_addresses::GatewayEscrow as AddressedEscrow,
    eip712::{self, Admission, LargerAdmission},
    offers::GatewayEscrow as OfferedEscrow,
    payment_batches::GatewayEscrow as BatchedEscrow,
    permit2,
    record::EscrowTerms,
    signature,
};
use events::{
    Amount, Hash32,
    event::{Authorization, BatchPermit, DepositAddress, Eip3009, MandateCharge, Permit2, TokenPermit, X402Exact},
};
use sagas::ports::{DepositOrder, ExpectedTerms, Transient};
use signer::Secp256k1Key;

use super::{
    attest,
    calls::Call,
    deposit_addresses, erc6492, mandates, offers, payment_batches, permitted_deposit,
    transaction::{plain, raw_bytes},
};

/// The deposit-and-reserve, admitted by the reserver up to the UNIX second `admitted_until`; of `larger` where that is given, which is
/// more than the quote asks for.
///
/// # Errors
/// [`Transient`] for an order that fits no EVM chain, and where the key does not sign.
pub(crate) async fn deposit_call(
    order: &DepositOrder,
    larger: Option<Amount>,
    reserver: &Secp256k1Key,
    (evm_id, permit2): (u64, Address),
    sender: Address,
    admitted_until: u64,
) -> Result<Call, Transient> {
    let escrow = address(&order.escrow.contract)?;
    let source = &order.terms.source;
    let payer = address(source.account())?;
    let token = contracts::erc20(source.asset())?;
    let signed = Signed::of(&order.authorization)
        .ok_or_else(|| Transient::misconfigured("the payer signed for no EVM chain"))?;
    let is_signed = !matches!(signed, Signed::Nothing(_));
    let deposit = eip712::deposit(&order.payment_id, order.terms_hash, signed.quote_hash(), payer, &order.escrow)?;
    let reservation = eip712::reservation(&order.payment_id, &order.reservation)?;
    let d = GatewayEscrow::GatewayDeposit::from(&deposit);
    let r = GatewayEscrow::Reservation::from(&reservation);
    let raw =
        raw_bytes(signed.signature()).ok_or_else(|| Transient::misconfigured("the payer's signature is not hex"))?;
    let wrapped = match is_signed && signature::is_erc6492(&raw) {
        true => Some(signature::unwrap_erc6492(&raw).map_err(Transient::misconfigured)?),
        false => None,
    };
    let signature = wrapped.as_ref().map_or(raw, |wrapped| wrapped.signature.clone());
    let until = contracts::time(admitted_until)?;
    // An authorization of the token's is carried out whole.
    let larger = order
        .authorization
        .drawn_whole()
        .or(larger)
        .filter(|amount| *amount != order.reservation.source_amount)
        .map(units);
    let admission = match larger {
        None => {
            let admission = Admission { deposit, reservation: reservation.clone(), token, admittedUntil: until };
            attest::sign_admission(reserver, &admission, evm_id, escrow).await?
        }
        Some(amount) => {
            let reservation = reservation.clone();
            let admission = LargerAdmission { deposit, reservation, token, amount, admittedUntil: until };
            attest::sign_admission(reserver, &admission, evm_id, escrow).await?
        }
    };
    let reserver_signature =
        raw_bytes(&admission).ok_or_else(|| Transient::misconfigured("the reserver's signature is not hex"))?;
    let data = match &signed {
        Signed::Nothing(given) => {
            let (amount, r) = (larger.unwrap_or(r.sourceAmount), AddressedEscrow::Reservation::from(&reservation));
            let from = (order, *given);
            return Ok(deposit_addresses::deposit_call(sender, from, amount, r, until, reserver_signature)?);
        }
        Signed::Batch(permit) => {
            let (signed, r) = ((*permit, signature), BatchedEscrow::Reservation::from(&reservation));
            return Ok(payment_batches::deposit_call(sender, order, signed, r, until, reserver_signature)?);
        }
        Signed::Charged(charge) => {
            let asked = (*charge, signature);
            return mandates::deposit_call(sender, order, asked, &reservation, until, reserver_signature);
        }
        Signed::Offered(purchase) => {
            let (what, bought) = ((&order.terms, &order.escrow), (*purchase, signature));
            let r = OfferedEscrow::Reservation::from(&reservation);
            return Ok(offers::deposit_call(sender, what, bought, r, until, reserver_signature)?);
        }
        Signed::Permit(permit, with_witness) => {
            let p = permit2::call_argument(permit, token, signature);
            encoded(d, p, r, larger, until, reserver_signature, *with_witness)
        }
        Signed::Transfer(transfer) => {
            let a = authorization_of(transfer, token, signature);
            GatewayEscrow::depositWithAuthorizationCall {
                d,
                a,
                r,
                admittedUntil: until,
                reserverSignature: reserver_signature,
            }
            .abi_encode()
        }
    };
    Ok(match (wrapped, signed.allowance()) {
        (Some(wrapped), _) => erc6492::deposit(sender, payer, &wrapped, escrow, data),
        (None, Some(permit)) => permitted_deposit::deposit(sender, (token, payer, permit2), permit, escrow, data)?,
        (None, None) => plain(sender, escrow, data),
    })
}

/// The call of the escrow inside a transaction that creates a contract; `None` when `data` is something else.
pub(crate) fn created_in(data: &[u8]) -> Option<Bytes> {
    erc6492::deposit_in(data).or_else(|| permitted_deposit::deposit_in(data))
}

/// What the payer signed, to whom.
enum Signed<'a> {
    /// To Permit2; whether with a witness.
    Permit(&'a Permit2, bool),
    /// To Permit2, for a batch of payments.
    Batch(&'a BatchPermit),
    /// By the merchant of the payer's mandate.
    Charged(&'a MandateCharge),
    /// To the token.
    Transfer(&'a Eip3009),
    /// To the token, for the address of a merchant's offer.
    Offered(&'a X402Exact),
    /// Nothing: the money is at the payment's deposit address.
    Nothing(&'a DepositAddress),
}

impl<'a> Signed<'a> {
    fn of(authorization: &'a Authorization) -> Option<Self> {
        match authorization {
            Authorization::EvmPermit2Escrow(permit) => Some(Self::Permit(permit, true)),
            Authorization::EvmPermit2(permit) => Some(Self::Permit(permit, false)),
            Authorization::EvmEip3009(transfer) => Some(Self::Transfer(transfer)),
            Authorization::EvmX402Exact(purchase) => Some(Self::Offered(purchase)),
            Authorization::EvmPermit2Batch(permit) => Some(Self::Batch(permit)),
            Authorization::EvmPermit2Mandate(charge) => Some(Self::Charged(charge)),
            Authorization::DepositAddress(given) => Some(Self::Nothing(given)),
            Authorization::Solana(_)
            | Authorization::SolanaX402Exact(_)
            | Authorization::Tron(_)
            | Authorization::TronPermit2Escrow(_) => None,
        }
    }

    fn quote_hash(&self) -> Hash32 {
        match self {
            Self::Permit(permit, _) => permit.quote_hash,
            Self::Transfer(transfer) => transfer.quote_hash,
            Self::Batch(_) | Self::Charged(_) | Self::Offered(_) | Self::Nothing(_) => Hash32::ZERO,
        }
    }

    fn allowance(&self) -> Option<&'a TokenPermit> {
        match self {
            Self::Permit(permit, _) => permit.allowance.as_ref(),
            Self::Batch(_) | Self::Charged(_) | Self::Transfer(_) | Self::Offered(_) | Self::Nothing(_) => None,
        }
    }

    fn signature(&self) -> &'a str {
        match self {
            Self::Permit(permit, _) => &permit.signature,
            Self::Transfer(transfer) => &transfer.signature,
            Self::Offered(purchase) => &purchase.signature,
            Self::Batch(permit) => &permit.signature,
            Self::Charged(charge) => &charge.signature,
            Self::Nothing(_) => "0x",
        }
    }
}

fn encoded(
    d: GatewayEscrow::GatewayDeposit,
    p: GatewayEscrow::Permit,
    r: GatewayEscrow::Reservation,
    larger: Option<U256>,
    #[allow(non_snake_case)] admittedUntil: U48,
    #[allow(non_snake_case)] reserverSignature: Bytes,
    with_witness: bool,
) -> Vec<u8> {
    match (larger, with_witness) {
        (None, true) => {
            GatewayEscrow::depositWithWitnessCall { d, p, r, admittedUntil, reserverSignature }.abi_encode()
        }
        (None, false) => {
            GatewayEscrow::depositWithPermitCall { d, p, r, admittedUntil, reserverSignature }.abi_encode()
        }
        (Some(amount), true) => {
            GatewayEscrow::depositMoreWithWitnessCall { d, p, r, amount, admittedUntil, reserverSignature }.abi_encode()
        }
        (Some(amount), false) => {
            GatewayEscrow::depositMoreWithPermitCall { d, p, r, amount, admittedUntil, reserverSignature }.abi_encode()
        }
    }
}

/// The last second in which the escrow takes the deposit that `data` calls, as its reserver admitted it; `None` when it is none.
pub(crate) fn admitted_until(data: &[u8]) -> Option<u64> {
    let until = GatewayEscrow::depositWithWitnessCall::abi_decode(data).map(|call| call.admittedUntil);
    let until =
        until.or_else(|_| GatewayEscrow::depositWithPermitCall::abi_decode(data).map(|call| call.admittedUntil));
    let until =
        until.or_else(|_| GatewayEscrow::depositMoreWithWitnessCall::abi_decode(data).map(|call| call.admittedUntil));
    let until =
        until.or_else(|_| GatewayEscrow::depositMoreWithPermitCall::abi_decode(data).map(|call| call.admittedUntil));
    let until =
        until.or_else(|_| GatewayEscrow::depositWithAuthorizationCall::abi_decode(data).map(|call| call.admittedUntil));
    let until = until.ok().map(contracts::seconds);
    let until = until.or_else(|| deposit_addresses::admitted_until(data)).or_else(|| offers::admitted_until(data));
    until.or_else(|| payment_batches::admitted_until(data)).or_else(|| mandates::admitted_until(data))
}

/// The terms that the escrow commits to once the deposit is made, which reserves at once; `None` before there is an award, and
/// when the payer signed for no EVM chain.
///
/// # Errors
/// [`ConvertError`] for what fits no EVM chain.
pub(crate) fn terms(expected: &ExpectedTerms<'_>) -> Result<Option<EscrowTerms>, ConvertError> {
    let ExpectedTerms { payment_id, terms, terms_hash, escrow, authorization, reservation, deposited } = expected;
    let Some(signed) = Signed::of(authorization) else { return Ok(None) };
    let Some(reservation) = reservation else { return Ok(None) };
    let payer = address(terms.source.account())?;
    let deposit = eip712::deposit(payment_id, *terms_hash, signed.quote_hash(), payer, escrow)?;
    let eip712::Reservation { quoteHash, settler, sourceAmount, fulfillBy, .. } =
        eip712::reservation(payment_id, reservation)?;
    // What the reservation asks for, unless another came before it, or all is taken whatever it asks for.
    let amount = authorization.drawn_whole().or(*deposited).map_or(sourceAmount, units);
    let deposited = EscrowTerms::deposited(&deposit, contracts::erc20(terms.source.asset())?, amount);
    Ok(Some(deposited.reserved(quoteHash, settler, sourceAmount, fulfillBy)))
}

/// The terms that the escrow may commit to once the quote is reserved: its payer had agreed to it when it signed, or to none. A
/// deposit on an EVM chain is of what the quote asks for, where no other was reserved before.
///
/// # Errors
/// [`ConvertError`] for what fits no EVM chain.
pub(crate) fn quoted_terms(quoted: &QuotedEscrow<'_>) -> Result<[EscrowTerms; 2], ConvertError> {
    let QuotedEscrow { payment_id, plan, payer, terms_hash, quote_hash, .. } = *quoted;
    let (payer, token) = (address(payer)?, contracts::erc20(quoted.asset)?);
    let (settler, amount) = (address(quoted.payout_account)?, units(quoted.source_amount));
    let fulfill_by = contracts::time(quoted.fulfill_by)?;
    let of = |agreed| -> Result<EscrowTerms, ConvertError> {
        let deposit = eip712::deposit(payment_id, terms_hash, agreed, payer, plan)?;
        let deposited = EscrowTerms::deposited(&deposit, token, quoted.deposited.map_or(amount, units));
        Ok(deposited.reserved(contracts::word(quote_hash), settler, amount, fulfill_by))
    };
    Ok([of(Hash32::ZERO)?, of(quote_hash)?])
}

fn authorization_of(transfer: &Eip3009, token: Address, signature: Bytes) -> GatewayEscrow::Authorization {
    GatewayEscrow::Authorization {
        token,
        amount: units(transfer.amount),
        validBefore: U256::from(transfer.valid_before),
        signature,
    }
}
