//! Expected calls: the payer's approval and deposit, rebuilt from the request and compared with what was signed.

use alloy::{
    primitives::{Address, B256, U256, keccak256},
    sol_types::SolCall,
};

use chains::windows::{Broken, Window, Windows};
use escrow_abi::{
    contracts::{
        self,
        DevToken::approveCall,
        GatewayEscrow::{self, depositOwnCall},
    },
    eip712::{self, GatewayDeposit, Opening},
    signature,
};
use events::{Amount, event::EscrowPlan, time::unix_seconds};

use super::{AuthorizationError, Choice, LIFETIME_MS_MAX, REACH_MS, SpendRequest};
use crate::{
    address::{self, ConvertError, text},
    transaction::Draft,
};

/// How long before its expiration a transaction may say that it was made: what the network takes, and an hour for clocks
/// that are wrong.
const AGE_MS_MAX: u64 = LIFETIME_MS_MAX + STAMPS_MS;
/// The time over which the timestamps of one moment's payments are spread.
const STAMPS_MS: u64 = 60 * 60 * 1_000;

/// What the request demands.
pub(super) struct Expected {
    pub chain_id: u64,
    pub escrow: Address,
    pub token: Address,
    pub payer: Address,
    pub reserver: Address,
    releaser: Address,
    payment_id: B256,
    terms_hash: B256,
    quote_hash: B256,
    cap: Option<Amount>,
    pub quote_deadline: u64,
    pub fulfillment_deadline: u64,
    refund_delay_seconds: u64,
}

/// The windows that are the payer's to choose, UNIX seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chosen {
    /// The last second in which the escrow takes the deposit and the reservation.
    pub reserve_deadline: u64,
    /// From here on anyone can send the refund.
    pub refund_after: u64,
}

impl Expected {
    /// What the payer's transactions must be for `spend`.
    ///
    /// # Errors
    /// [`AuthorizationError`] with the field of the request that is not Tron's.
    pub fn of(spend: &SpendRequest) -> Result<Self, AuthorizationError> {
        let named = |field: &'static str| {
            move |error: ConvertError| AuthorizationError::malformed(field, format!("is unusable: {error}"))
        };
        let source = &spend.terms.source;
        let token = address::trc20(source.asset()).map_err(named("source.asset_identifier"))?;
        let reference = source.asset().chain().reference().parse::<u32>().map_err(|_| {
            AuthorizationError::malformed("source.asset_identifier", "is on a chain whose reference has no 32 bits")
        })?;
        Ok(Self {
            chain_id: reference.into(),
            escrow: address::address(&spend.escrow.contract).map_err(named("escrow_contract_address"))?,
            token,
            payer: address::address(source.account()).map_err(named("source.account"))?,
            reserver: address::address(&spend.escrow.reserver).map_err(named("reserver"))?,
            releaser: address::address(&spend.escrow.releaser).map_err(named("fulfillment_verifier.account"))?,
            payment_id: contracts::word(spend.payment_id.on_chain()),
            terms_hash: contracts::word(spend.terms.hash()),
            quote_hash: contracts::word(spend.quote_hash),
            cap: spend.terms.max_source_amount,
            quote_deadline: unix_seconds(spend.quote_deadline),
            fulfillment_deadline: unix_seconds(spend.fulfillment_deadline),
            refund_delay_seconds: spend.escrow.refund_delay_seconds,
        })
    }

    /// What is deposited: the cap of the terms, else the payer's.
    pub fn amount(&self, choice: &Choice) -> Result<Amount, AuthorizationError> {
        self.cap.or(choice.permitted_amount).ok_or_else(|| {
            let reason = "is needed where max_source_amount does not say what is permitted";
            AuthorizationError::malformed("payload.permitted_amount", reason)
        })
    }

    /// The payer's windows, with their defaults and checked.
    pub fn chosen(&self, choice: &Choice) -> Result<Chosen, AuthorizationError> {
        let refund_delayed = self.fulfillment_deadline.saturating_add(self.refund_delay_seconds);
        let chosen = Chosen {
            reserve_deadline: choice.reserve_deadline.unwrap_or(self.fulfillment_deadline),
            refund_after: choice.refund_after.unwrap_or(refund_delayed),
        };
        self.check_windows(chosen, |window| match window {
            Window::Reserve => "payload.reserve_deadline",
            Window::Refund => "payload.refund_after",
        })?;
        Ok(chosen)
    }

    /// The terms of the deposit. Every time in them was checked to fit.
    pub fn deposit(&self, chosen: Chosen) -> Result<GatewayDeposit, AuthorizationError> {
        let fits = |field: &'static str, seconds| {
            contracts::time(seconds).map_err(|error| AuthorizationError::malformed(field, error.to_string()))
        };
        Ok(GatewayDeposit {
            paymentId: self.payment_id,
            termsHash: self.terms_hash,
            quoteHash: self.quote_hash,
            payer: self.payer,
            reserver: self.reserver,
            releaser: self.releaser,
            reserveDeadline: fits("reserve_deadline", chosen.reserve_deadline)?,
            fulfillmentDeadline: fits("fulfillment_deadline", self.fulfillment_deadline)?,
            refundAfter: fits("refund_after", chosen.refund_after)?,
        })
    }

    /// What the reserver signs to let the deposit in, before it is hashed.
    pub fn opening(&self, deposit: GatewayDeposit, amount: U256) -> [u8; 66] {
        let opening = Opening { deposit, token: self.token, amount };
        eip712::preimage(&opening, &eip712::escrow_domain(self.chain_id, self.escrow))
    }

    /// The approval that the deposit needs: the amount and no more, so that nothing stays behind.
    pub fn approval(&self, amount: U256) -> approveCall {
        approveCall { spender: self.escrow, value: amount }
    }

    /// When a transaction of this payment says that it was made. Nobody asks for the time, but two payments with one cap
    /// would have the same approval, byte for byte, and the network would take it once.
    pub fn timestamp_ms(&self, now_ms: u64) -> u64 {
        let spread = self.payment_id[..8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        now_ms.saturating_sub(spread % STAMPS_MS)
    }

    /// Checks what every transaction has: whose it is, and its times.
    pub fn check_envelope(&self, draft: &Draft) -> Result<(), AuthorizationError> {
        equal("message_prehash.owner_address", text(self.payer), text(draft.call.owner))?;
        equal("message_prehash.call_value", 0, draft.call.value_sun)?;
        if draft.fee_limit_sun == 0 {
            return Err(AuthorizationError::malformed("message_prehash.fee_limit", "must not be zero"));
        }
        let Draft { timestamp_ms, expiration_ms, .. } = *draft;
        let auction_ends = self.quote_deadline.saturating_mul(1_000).saturating_add(REACH_MS);
        if expiration_ms <= auction_ends {
            let expected = format!("after {auction_ends}, {} s past quote_deadline", REACH_MS / 1_000);
            return Err(AuthorizationError::mismatch("message_prehash.expiration", expected, expiration_ms));
        }
        let earliest = expiration_ms.saturating_sub(AGE_MS_MAX);
        if !(earliest..expiration_ms).contains(&timestamp_ms) {
            let expected = format!("between {earliest} and the expiration, {expiration_ms}");
            return Err(AuthorizationError::mismatch("message_prehash.timestamp", expected, timestamp_ms));
        }
        Ok(())
    }

    /// Checks the approval: the token's, for the escrow, of what is deposited.
    pub fn check_approval(&self, draft: &Draft, amount: Amount) -> Result<(), AuthorizationError> {
        equal("message_prehash.contract_address", text(self.token), text(draft.call.contract))?;
        let call: approveCall = arguments(&draft.call.data)?;
        equal("message_prehash.approve.spender", text(self.escrow), text(call.spender))?;
        equal("message_prehash.approve.value", amount.get(), call.value)
    }

    /// Checks the deposit, and gives what it deposits and the windows in it.
    pub fn check_deposit(&self, draft: &Draft) -> Result<(Amount, Chosen), AuthorizationError> {
        equal("message_prehash.contract_address", text(self.escrow), text(draft.call.contract))?;
        let depositOwnCall { d, token, amount, reserverSignature } = arguments(&draft.call.data)?;
        for (field, expected, found) in [
            ("message_prehash.depositOwn.d.paymentId", self.payment_id, d.paymentId),
            ("message_prehash.depositOwn.d.termsHash", self.terms_hash, d.termsHash),
            ("message_prehash.depositOwn.d.quoteHash", self.quote_hash, d.quoteHash),
        ] {
            equal(field, expected, found)?;
        }
        for (field, expected, found) in [
            ("message_prehash.depositOwn.d.payer", self.payer, d.payer),
            ("message_prehash.depositOwn.d.reserver", self.reserver, d.reserver),
            ("message_prehash.depositOwn.d.releaser", self.releaser, d.releaser),
            ("message_prehash.depositOwn.token", self.token, token),
        ] {
            equal(field, text(expected), text(found))?;
        }
        let found = contracts::seconds(d.fulfillmentDeadline);
        equal("message_prehash.depositOwn.d.fulfillmentDeadline", self.fulfillment_deadline, found)?;
        let chosen = Chosen {
            reserve_deadline: contracts::seconds(d.reserveDeadline),
            refund_after: contracts::seconds(d.refundAfter),
        };
        self.check_windows(chosen, |window| match window {
            Window::Reserve => "message_prehash.depositOwn.d.reserveDeadline",
            Window::Refund => "message_prehash.depositOwn.d.refundAfter",
        })?;
        let field = "message_prehash.depositOwn.amount";
        let deposited = Amount::new(amount).ok_or_else(|| AuthorizationError::malformed(field, "must not be zero"))?;
        equal(field, self.cap.unwrap_or(deposited), deposited)?;
        self.check_opening(keccak256(self.opening(self.deposit(chosen)?, amount)), &reserverSignature)?;
        Ok((deposited, chosen))
    }

    /// The contract takes a signature in one form only: 65 bytes, v 27 or 28, s in the lower half.
    fn check_opening(&self, opening: B256, bytes: &[u8]) -> Result<(), AuthorizationError> {
        let field = "message_prehash.depositOwn.reserverSignature";
        let parsed = signature::parse(bytes).ok().filter(|parsed| signature::canonical(parsed).as_ref() == bytes);
        let recovered = parsed.and_then(|parsed| signature::recover(&parsed, opening).ok());
        if recovered == Some(self.reserver) {
            return Ok(());
        }
        let reason = format!(
            "is not the signature of the reserver {} over this deposit, which /v1/payments/prepare gives",
            text(self.reserver)
        );
        Err(AuthorizationError::malformed(field, reason))
    }

    /// The escrow and its windows.
    pub fn plan(&self, spend: &SpendRequest, chosen: Chosen) -> EscrowPlan {
        EscrowPlan {
            chain_id: spend.terms.source.asset().chain().clone(),
            contract: spend.escrow.contract.clone(),
            reserver: spend.escrow.reserver.clone(),
            releaser: spend.escrow.releaser.clone(),
            reserve_deadline: chosen.reserve_deadline,
            fulfillment_deadline: self.fulfillment_deadline,
            refund_after: chosen.refund_after,
        }
    }

    /// Checks the windows that were chosen, which stand at `field`.
    pub fn check_windows(
        &self,
        chosen: Chosen,
        field: impl Fn(Window) -> &'static str,
    ) -> Result<(), AuthorizationError> {
        let windows = Windows {
            quote_deadline: self.quote_deadline,
            reserve_deadline: chosen.reserve_deadline,
            fulfillment_deadline: self.fulfillment_deadline,
            refund_after: chosen.refund_after,
            refund_delay_seconds: self.refund_delay_seconds,
        };
        windows.check().map_err(|broken| match broken {
            Broken::Mismatch { window, expected, found } => {
                AuthorizationError::mismatch(field(window), expected, found)
            }
            Broken::TooFar(window, reason) => AuthorizationError::malformed(field(window), reason),
        })
    }
}

/// The bytes of a deposit's call.
pub(super) fn deposit_call(expected: &Expected, deposit: &GatewayDeposit, amount: U256, signature: &[u8]) -> Vec<u8> {
    let call = depositOwnCall {
        d: GatewayEscrow::GatewayDeposit::from(deposit),
        token: expected.token,
        amount,
        reserverSignature: signature.to_vec().into(),
    };
    call.abi_encode()
}

/// The arguments of a call, when the bytes are its one encoding.
fn arguments<C: SolCall>(data: &[u8]) -> Result<C, AuthorizationError> {
    let field = "message_prehash.data";
    let selector = data.get(..4).unwrap_or(data);
    if selector != C::SELECTOR {
        let expected = format!("a call of {} (0x{})", C::SIGNATURE, hex::encode(C::SELECTOR));
        return Err(AuthorizationError::mismatch(field, expected, format!("0x{}", hex::encode(selector))));
    }
    let call = C::abi_decode_validate(data).ok().filter(|call| call.abi_encode() == data);
    call.ok_or_else(|| AuthorizationError::malformed(field, format!("must be the ABI encoding of {}", C::SIGNATURE)))
}

fn equal<T: PartialEq + ToString>(field: &'static str, expected: T, found: T) -> Result<(), AuthorizationError> {
    if expected == found { Ok(()) } else { Err(AuthorizationError::mismatch(field, expected, found)) }
}
