//! The values of a Permit2 message, and what the request demands of each.

use alloy::{
    primitives::{Address, B256, U256, keccak256},
    sol_types::{Eip712Domain, SolStruct},
};
use serde_json::{Value, json};

use chains::windows::{Broken, Window, Windows};
use escrow_abi::{
    contracts::{self, ConvertError},
    eip712::{GatewayDeposit, PermitTransferFrom, PermitWitnessTransferFrom, TokenPermissions, permit2_domain, uint},
};
use events::{Amount, Hash32, event::EscrowPlan, time::unix_seconds};

use super::{AuthorizationError, Scheme, SpendRequest};

/// The numbers that are the payer's to choose. What is absent has its default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    /// Last second of the deposit, UNIX; by default `fulfillment_deadline`.
    pub reserve_deadline: Option<u64>,
    /// First second of the refund, UNIX; by default `fulfillment_deadline` plus the corridor's refund delay.
    pub refund_after: Option<u64>,
    /// Permit2's own deadline, UNIX; by default the reserve deadline.
    pub permit_deadline: Option<u64>,
    /// The permitted amount where the terms set no cap; else the cap.
    pub permitted_amount: Option<Amount>,
}

impl Choice {
    /// Reads the members `reserve_deadline`, `refund_after`, `permit_deadline` and `permitted_amount` of a signed message's
    /// `payload`, each a decimal string, a hex string or a JSON integer. Other members are none of ours.
    ///
    /// # Errors
    /// [`AuthorizationError::Malformed`] naming the member.
    pub fn from_payload(payload: Option<&Value>) -> Result<Self, AuthorizationError> {
        let Some(payload) = payload else { return Ok(Self::default()) };
        let number = |name: &str| match payload.get(name) {
            None => Ok(None),
            Some(value) => uint(value)
                .map(Some)
                .ok_or_else(|| AuthorizationError::malformed(format!("payload.{name}"), "must be a whole number")),
        };
        let time = |name: &str| match number(name)? {
            None => Ok(None),
            Some(value) => u64::try_from(value)
                .map(Some)
                .map_err(|_| AuthorizationError::malformed(format!("payload.{name}"), "must fit 64 bits")),
        };
        let permitted_amount = match number("permitted_amount")? {
            None => None,
            Some(value) => Some(
                Amount::new(value)
                    .ok_or_else(|| AuthorizationError::malformed("payload.permitted_amount", "must not be zero"))?,
            ),
        };
        Ok(Self {
            reserve_deadline: time("reserve_deadline")?,
            refund_after: time("refund_after")?,
            permit_deadline: time("permit_deadline")?,
            permitted_amount,
        })
    }

    /// The choice as it was made, defaults filled in, for `payload`.
    pub(super) fn made(&self, spend: &SpendRequest, message: &PermitMessage, plan: &EscrowPlan) -> Value {
        let mut payload = json!({
            "reserve_deadline": plan.reserve_deadline,
            "refund_after": plan.refund_after,
            "permit_deadline": message.deadline,
        });
        if spend.terms.max_source_amount.is_none() {
            payload["permitted_amount"] = message.amount.to_string().into();
        }
        payload
    }
}

/// The values of one Permit2 message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PermitMessage {
    /// EIP-155 id of the domain's chain.
    pub chain_id: U256,
    /// The Permit2 contract, which verifies the message.
    pub permit2: Address,
    /// The ERC-20 token that is drawn.
    pub token: Address,
    /// The most that may be drawn, smallest unit of the token.
    pub amount: U256,
    /// The escrow, which alone may draw.
    pub spender: Address,
    /// Permit2's unordered nonce: 248 bits of a word's position, 8 of the bit in it.
    pub nonce: U256,
    /// The last second in which Permit2 takes the message, UNIX.
    pub deadline: u64,
    /// The deposit that the message is for; `None` where it is signed without a witness.
    pub witness: Option<GatewayDeposit>,
}

impl PermitMessage {
    /// The permitted amount.
    pub fn permitted(&self) -> Result<Amount, AuthorizationError> {
        Amount::new(self.amount).ok_or_else(|| AuthorizationError::malformed("permitted.amount", "must not be zero"))
    }

    fn domain(&self) -> Eip712Domain {
        // A chain id above 64 bits is refused before any digest is made.
        permit2_domain(u64::try_from(self.chain_id).unwrap_or_default(), self.permit2)
    }

    fn hash_struct(&self) -> B256 {
        let permitted = TokenPermissions { token: self.token, amount: self.amount };
        let (spender, nonce, deadline) = (self.spender, self.nonce, U256::from(self.deadline));
        match &self.witness {
            Some(witness) => {
                PermitWitnessTransferFrom { permitted, spender, nonce, deadline, witness: witness.clone() }
                    .eip712_hash_struct()
            }
            None => PermitTransferFrom { permitted, spender, nonce, deadline }.eip712_hash_struct(),
        }
    }

    fn preimage(&self) -> [u8; 66] {
        let mut preimage = [0; 66];
        preimage[..2].copy_from_slice(&[0x19, 0x01]);
        preimage[2..34].copy_from_slice(self.domain().separator().as_slice());
        preimage[34..].copy_from_slice(self.hash_struct().as_slice());
        preimage
    }

    /// The EIP-712 digest.
    pub fn digest(&self) -> B256 {
        keccak256(self.preimage())
    }

    /// Compares a `0x1901…` preimage with the rebuilt one.
    pub fn check_preimage(&self, text: &str) -> Result<(), AuthorizationError> {
        const FORM: &str = "must be EIP-712 typed-data JSON or 66 bytes 0x1901… in hex";
        let malformed = || AuthorizationError::malformed("message_prehash", FORM);
        let bytes = hex::decode(text.strip_prefix("0x").ok_or_else(malformed)?).map_err(|_| malformed())?;
        if bytes.len() != 66 || bytes[..2] != [0x19, 0x01] {
            return Err(malformed());
        }
        let rebuilt = self.preimage();
        for (field, part) in [("message_prehash.domainSeparator", 2..34), ("message_prehash.structHash", 34..66)] {
            let (expected, found) = (&rebuilt[part.clone()], &bytes[part]);
            if expected != found {
                let hex = |bytes: &[u8]| format!("0x{}", hex::encode(bytes));
                return Err(AuthorizationError::mismatch(field, hex(expected), hex(found)));
            }
        }
        Ok(())
    }
}

/// What the request demands.
pub(super) struct Expected {
    evm_id: u64,
    permit2: Address,
    escrow: Address,
    token: Address,
    /// The account that pays and signs.
    pub payer: Address,
    reserver: Address,
    releaser: Address,
    nonce: U256,
    payment_id: B256,
    terms_hash: B256,
    quote_deadline: u64,
    fulfillment_deadline: u64,
}

impl Expected {
    /// What the message must be for `spend`.
    ///
    /// # Errors
    /// [`AuthorizationError`] with the field of the request that is not an EVM chain's.
    pub fn of(spend: &SpendRequest) -> Result<Self, AuthorizationError> {
        let named = |field: &'static str| {
            move |error: ConvertError| AuthorizationError::malformed(field, format!("is unusable: {error}"))
        };
        let source = &spend.terms.source;
        let evm_id = source
            .asset()
            .chain()
            .evm_id()
            .ok_or_else(|| AuthorizationError::malformed("source.asset_identifier", "is not on an EVM chain"))?;
        let (payment_id, terms_hash) = (spend.payment_id.on_chain(), spend.terms.hash());
        Ok(Self {
            evm_id,
            permit2: contracts::address(&spend.escrow.permit2).map_err(named("permit2"))?,
            escrow: contracts::address(&spend.escrow.contract).map_err(named("escrow_contract_address"))?,
            token: contracts::erc20(source.asset()).map_err(named("source.asset_identifier"))?,
            payer: contracts::address(source.account()).map_err(named("source.account"))?,
            reserver: contracts::address(&spend.escrow.reserver).map_err(named("reserver"))?,
            releaser: contracts::address(&spend.escrow.releaser).map_err(named("fulfillment_verifier.account"))?,
            nonce: nonce(payment_id, terms_hash).into(),
            payment_id: contracts::word(payment_id),
            terms_hash: contracts::word(terms_hash),
            quote_deadline: unix_seconds(spend.quote_deadline),
            fulfillment_deadline: unix_seconds(spend.fulfillment_deadline),
        })
    }

    fn refund_delayed(&self, spend: &SpendRequest) -> u64 {
        self.fulfillment_deadline.saturating_add(spend.escrow.refund_delay_seconds)
    }

    /// The message as it must be, with the payer's choices.
    pub fn rebuild(&self, spend: &SpendRequest, choice: &Choice) -> Result<PermitMessage, AuthorizationError> {
        let amount = spend.terms.max_source_amount.or(choice.permitted_amount).ok_or_else(|| {
            let reason = "is needed where neither max_source_amount nor typed data says what is permitted";
            AuthorizationError::malformed("payload.permitted_amount", reason)
        })?;
        let reserve_deadline = choice.reserve_deadline.unwrap_or(self.fulfillment_deadline);
        let fits = |field: &'static str, value: u64| {
            contracts::time(value).map_err(|error| AuthorizationError::malformed(field, error.to_string()))
        };
        let witness = match spend.scheme {
            Scheme::EvmPermit2 => None,
            Scheme::EvmPermit2Escrow => Some(GatewayDeposit {
                paymentId: self.payment_id,
                termsHash: self.terms_hash,
                quoteHash: contracts::word(spend.quote_hash),
                payer: self.payer,
                reserver: self.reserver,
                releaser: self.releaser,
                reserveDeadline: fits("payload.reserve_deadline", reserve_deadline)?,
                fulfillmentDeadline: fits("fulfillment_deadline", self.fulfillment_deadline)?,
                refundAfter: fits(
                    "payload.refund_after",
                    choice.refund_after.unwrap_or_else(|| self.refund_delayed(spend)),
                )?,
            }),
        };
        Ok(PermitMessage {
            chain_id: U256::from(self.evm_id),
            permit2: self.permit2,
            token: self.token,
            amount: amount.get(),
            spender: self.escrow,
            nonce: self.nonce,
            deadline: choice.permit_deadline.unwrap_or(reserve_deadline),
            witness,
        })
    }

    /// Compares every field of `message` with the request.
    pub fn check(
        &self,
        spend: &SpendRequest,
        message: &PermitMessage,
        choice: &Choice,
    ) -> Result<EscrowPlan, AuthorizationError> {
        equal("domain.chainId", U256::from(self.evm_id), message.chain_id)?;
        equal("domain.verifyingContract", self.permit2, message.permit2)?;
        equal("message.permitted.token", self.token, message.token)?;
        match spend.terms.max_source_amount {
            Some(cap) => equal("message.permitted.amount", cap.get(), message.amount)?,
            None if message.amount.is_zero() => {
                return Err(AuthorizationError::malformed("message.permitted.amount", "must not be zero"));
            }
            None => {}
        }
        equal("message.spender", self.escrow, message.spender)?;
        equal("message.nonce", self.nonce, message.nonce)?;
        let (reserve_deadline, refund_after) = match (&message.witness, spend.scheme) {
            (Some(witness), Scheme::EvmPermit2Escrow) => self.check_witness(spend, witness)?,
            (None, Scheme::EvmPermit2) => self.check_unsigned_windows(spend, choice)?,
            (Some(_), Scheme::EvmPermit2) | (None, Scheme::EvmPermit2Escrow) => {
                return Err(AuthorizationError::malformed("message.witness", "must be there exactly with a witness"));
            }
        };
        self.check_windows(spend, reserve_deadline, refund_after)?;
        if message.deadline < reserve_deadline {
            let expected = format!("at least the reserve deadline, {reserve_deadline}");
            return Err(AuthorizationError::mismatch("message.deadline", expected, message.deadline));
        }
        Ok(EscrowPlan {
            chain_id: spend.terms.source.asset().chain().clone(),
            contract: spend.escrow.contract.clone(),
            reserver: spend.escrow.reserver.clone(),
            releaser: spend.escrow.releaser.clone(),
            reserve_deadline,
            fulfillment_deadline: self.fulfillment_deadline,
            refund_after,
        })
    }

    fn check_witness(&self, spend: &SpendRequest, witness: &GatewayDeposit) -> Result<(u64, u64), AuthorizationError> {
        equal("message.witness.paymentId", self.payment_id, witness.paymentId)?;
        equal("message.witness.termsHash", self.terms_hash, witness.termsHash)?;
        equal("message.witness.quoteHash", contracts::word(spend.quote_hash), witness.quoteHash)?;
        equal("message.witness.payer", self.payer, witness.payer)?;
        equal("message.witness.reserver", self.reserver, witness.reserver)?;
        equal("message.witness.releaser", self.releaser, witness.releaser)?;
        equal(
            "message.witness.fulfillmentDeadline",
            self.fulfillment_deadline,
            contracts::seconds(witness.fulfillmentDeadline),
        )?;
        Ok((contracts::seconds(witness.reserveDeadline), contracts::seconds(witness.refundAfter)))
    }

    /// Without a witness the payer signs no windows, so nobody but the gateway may choose them: whoever saw the
    /// signature could else lock the payer's money for as long as he liked.
    fn check_unsigned_windows(&self, spend: &SpendRequest, choice: &Choice) -> Result<(u64, u64), AuthorizationError> {
        let refund_after = self.refund_delayed(spend);
        for (field, expected, chosen) in [
            ("payload.reserve_deadline", self.fulfillment_deadline, choice.reserve_deadline),
            ("payload.refund_after", refund_after, choice.refund_after),
        ] {
            equal(field, expected, chosen.unwrap_or(expected))?;
        }
        Ok((self.fulfillment_deadline, refund_after))
    }

    fn check_windows(
        &self,
        spend: &SpendRequest,
        reserve_deadline: u64,
        refund_after: u64,
    ) -> Result<(), AuthorizationError> {
        let windows = Windows {
            quote_deadline: self.quote_deadline,
            reserve_deadline,
            fulfillment_deadline: self.fulfillment_deadline,
            refund_after,
            refund_delay_seconds: spend.escrow.refund_delay_seconds,
        };
        let field = |window| match window {
            Window::Reserve => "message.witness.reserveDeadline",
            Window::Refund => "message.witness.refundAfter",
        };
        windows.check().map_err(|broken| match broken {
            Broken::Mismatch { window, expected, found } => {
                AuthorizationError::mismatch(field(window), expected, found)
            }
            Broken::TooFar(window, reason) => AuthorizationError::malformed(field(window), reason),
        })
    }
}

/// Permit2's nonce of a payment: keccak256(paymentId ‖ termsHash), which binds the terms even without a witness.
pub(super) fn nonce(payment_id: Hash32, terms_hash: Hash32) -> B256 {
    keccak256([payment_id.0, terms_hash.0].concat())
}

fn equal<T: PartialEq + ToString>(field: &'static str, expected: T, found: T) -> Result<(), AuthorizationError> {
    if expected == found { Ok(()) } else { Err(AuthorizationError::mismatch(field, expected, found)) }
}
