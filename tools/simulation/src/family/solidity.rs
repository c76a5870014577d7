//! The escrow and the proxy in Solidity, which are the same on EVM and on Tron: the calls that parties make, and what calls and
//! events say.

use alloy::{
    primitives::{Address, aliases::U48},
    signers::SignerSync,
    sol_types::{SolCall, SolError, SolStruct},
};

use escrow_abi::{
    contracts::{self, FulfillmentProxy, GatewayEscrow, word},
    eip712::{self, escrow_domain},
    record::EscrowTerms,
};
use events::{Account, AssetId, Hash32, PaymentId};

use super::{Cancelled, Delivered, EscrowCall, FamilyChain, Reassigned, Refusal, Released, Reservation, secp256k1};

/// Bytes of hex with 0x.
fn bytes_of(text: &str) -> Result<Vec<u8>, String> {
    hex::decode(text.trim_start_matches("0x")).map_err(|error| error.to_string())
}

fn hex_of(bytes: &[u8]) -> String {
    format!("0x{}", hex::encode(bytes))
}

/// A chain with the contracts in Solidity, and how its family writes what they say.
pub(crate) trait SolidityChain: FamilyChain {
    /// The CAIP-19 namespace of its tokens.
    const TOKENS: &'static str;

    /// `address` as the engine writes addresses.
    fn text_of(address: Address) -> String;

    /// The account of an address that is not zero.
    fn account_at(address: Address) -> Account;

    /// The address of an account.
    ///
    /// # Errors
    /// That the account is of another family.
    fn address_of(account: &Account) -> Result<Address, String>;

    /// The chain's id and its escrow, in the domain of what is signed.
    fn escrow_domain_of(&self) -> (u64, Address);

    // --- what is said

    /// The asset of a token; of zero the chain's coin.
    fn asset_of(&self, token: Address) -> AssetId {
        match token.is_zero() {
            true => self.coin().clone(),
            false => {
                let named = format!("{}/{}:{}", self.common().chain_id, Self::TOKENS, Self::text_of(token));
                // Every address makes one; what would not is told as the token that is paid with, and compared with it.
                named.parse().unwrap_or_else(|_| self.token().clone())
            }
        }
    }

    /// The delivery that an event tells of.
    fn delivery_of(&self, event: &FulfillmentProxy::Fulfilled) -> Delivered {
        Delivered {
            payment: Hash32(event.paymentId.0),
            quote_hash: Hash32(event.quoteHash.0),
            settler: Self::account_at(event.settler),
            asset: self.asset_of(event.token),
            recipient: Self::account_at(event.recipient),
            amount: event.amount,
            fulfill_by: contracts::seconds(event.fulfillBy),
        }
    }

    /// What a call of the escrow said that reassigned; `None` of any other.
    fn reassigned_by(data: &[u8]) -> Option<Reassigned> {
        let call = GatewayEscrow::reassignCall::abi_decode(data).ok()?;
        Some(Reassigned {
            previous: Hash32(call.e.quoteHash.0),
            deposited: call.e.deposited,
            reservation: Reservation {
                quote_hash: Hash32(call.r.quoteHash.0),
                settler: Self::account_at(call.r.settler),
                source_amount: call.r.sourceAmount,
                fulfill_by: contracts::seconds(call.r.fulfillBy),
            },
            non_delivery: hex_of(&call.nonDelivery),
        })
    }

    /// What a call of the escrow said that released; `None` of any other.
    fn released_by(data: &[u8]) -> Option<Released> {
        let call = GatewayEscrow::releaseCall::abi_decode(data).ok()?;
        Some(Released {
            quote_hash: Hash32(call.e.quoteHash.0),
            settler: Self::account_at(call.e.settler),
            attestation: hex_of(&call.attestation),
        })
    }

    // --- what is called

    /// The data of a call of the escrow in the terms that it has of the payment.
    ///
    /// # Errors
    /// Why there is no such call.
    fn call_data(&self, terms: EscrowTerms, payment_id: &PaymentId, call: &EscrowCall) -> Result<Vec<u8>, String> {
        let EscrowTerms(e) = terms;
        Ok(match call {
            EscrowCall::Release { attestation } => {
                GatewayEscrow::releaseCall { e, attestation: bytes_of(attestation)?.into() }.abi_encode()
            }
            EscrowCall::Cancel { non_delivery } => {
                GatewayEscrow::cancelCall { e, nonDelivery: bytes_of(non_delivery)?.into() }.abi_encode()
            }
            EscrowCall::Refund => GatewayEscrow::refundCall { e }.abi_encode(),
            EscrowCall::Remainder => return Err("a release leaves nothing here".to_owned()),
            EscrowCall::Reassign { previous, reservation, reserver, non_delivery } => {
                let r = GatewayEscrow::Reservation {
                    paymentId: word(payment_id.on_chain()),
                    quoteHash: word(reservation.quote_hash),
                    settler: Self::address_of(&reservation.settler)?,
                    sourceAmount: reservation.source_amount,
                    fulfillBy: U48::from(reservation.fulfill_by),
                };
                let signature = self.reassignment_signature(reserver, *previous, &r)?;
                GatewayEscrow::reassignCall {
                    e,
                    r,
                    reserverSignature: signature.into(),
                    nonDelivery: bytes_of(non_delivery)?.into(),
                }
                .abi_encode()
            }
        })
    }

    /// The signature of the party `reserver` under a reassignment.
    ///
    /// # Errors
    /// Why it cannot be signed.
    fn reassignment_signature(
        &self,
        reserver: &str,
        previous: Hash32,
        reservation: &GatewayEscrow::Reservation,
    ) -> Result<Vec<u8>, String> {
        let GatewayEscrow::Reservation { paymentId, quoteHash, settler, sourceAmount, fulfillBy } = reservation.clone();
        let reservation = eip712::Reservation { paymentId, quoteHash, settler, sourceAmount, fulfillBy };
        let reassignment = eip712::Reassignment { previousQuoteHash: word(previous), reservation };
        let (number, escrow) = self.escrow_domain_of();
        let digest = reassignment.eip712_signing_hash(&escrow_domain(number, escrow));
        let signature = secp256k1(reserver).sign_hash_sync(&digest).map_err(|error| error.to_string())?;
        Ok(signature.as_bytes().to_vec())
    }
}

/// What a call of the escrow said that cancelled; `None` of any other.
pub(crate) fn cancelled_by(data: &[u8]) -> Option<Cancelled> {
    let call = GatewayEscrow::cancelCall::abi_decode(data).ok()?;
    Some(Cancelled { quote_hash: Hash32(call.e.quoteHash.0), non_delivery: hex_of(&call.nonDelivery) })
}

/// The quote that a call reassigns an escrow to; `None` of any other call.
pub(crate) fn reassigns_to(data: &[u8]) -> Option<Hash32> {
    let call = GatewayEscrow::reassignCall::abi_decode(data).ok()?;
    Some(Hash32(call.r.quoteHash.0))
}

/// Why the escrow reverted, by the bytes that it returned; what else it may be is told by `otherwise`.
pub(crate) fn refusal(returned: &[u8], otherwise: impl FnOnce() -> String) -> Refusal {
    let is = |selector: [u8; 4]| returned.starts_with(&selector);
    match () {
        () if is(GatewayEscrow::ReleaserSignatureInvalid::SELECTOR) => Refusal::Releaser,
        () if is(GatewayEscrow::ReserverSignatureInvalid::SELECTOR) => Refusal::Reserver,
        () if is(GatewayEscrow::ReservationNotOver::SELECTOR) => Refusal::ReservationNotOver,
        () => Refusal::Other(otherwise()),
    }
}
