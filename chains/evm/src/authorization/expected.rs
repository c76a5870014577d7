//! What the request demands of what is signed.

use alloy::{
    primitives::{Address, B256, U256},
    sol_types::SolStruct,
};

use chains::windows::{Broken, Window, Windows};
use escrow_abi::{
    contracts::{self, ConvertError},
    eip712::GatewayDeposit,
    permit2::{self, Demand, PermitMessage},
    typed_data::{HEX, equal},
};
use events::{Hash32, event::EscrowPlan, time::unix_seconds};

use super::{
    AuthorizationError, Scheme, SpendRequest,
    batch::BatchSpend,
    choice::Choice,
    exact::OfferSpend,
    mandate::MandateSpend,
    message::Message,
    transfer::{CarriedOutBy, TransferMessage},
};
use crate::token_domain::TokenDomain;

/// What the request demands.
pub(super) struct Expected {
    /// EIP-155 id of the source's chain.
    pub evm_id: u64,
    /// The Permit2 contract.
    pub permit2: Address,
    /// The escrow contract.
    pub escrow: Address,
    /// The source's token.
    pub token: Address,
    domain: Option<TokenDomain>,
    /// The account that pays and signs.
    pub payer: Address,
    reserver: Address,
    releaser: Address,
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
            domain: spend.token.clone(),
            payer: contracts::address(source.account()).map_err(named("source.account"))?,
            reserver: contracts::address(&spend.escrow.reserver).map_err(named("reserver"))?,
            releaser: contracts::address(&spend.escrow.releaser).map_err(named("fulfillment_verifier.account"))?,
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
    ///
    /// # Errors
    /// [`AuthorizationError`] with the choice that cannot be.
    pub fn rebuild(&self, spend: &SpendRequest, choice: &Choice) -> Result<Message, AuthorizationError> {
        if spend.scheme == Scheme::EvmX402Exact {
            let purchase = OfferSpend::of(spend, choice)?;
            return Ok(Message::Transfer(purchase.message(self, self.domain()?.clone())?));
        }
        if spend.scheme == Scheme::EvmPermit2Batch {
            return Ok(Message::Batch(BatchSpend::of(spend, self, choice)?.message));
        }
        if spend.scheme == Scheme::EvmPermit2Mandate {
            return Ok(Message::Charge(MandateSpend::of(spend, self, choice)?.message));
        }
        let cap = spend.terms.max_source_amount;
        let amount = match spend.scheme {
            Scheme::EvmEip3009 if spend.quote_hash != Hash32::ZERO => choice.permitted_amount.or(cap),
            _ => cap.or(choice.permitted_amount),
        };
        let amount = amount.ok_or_else(|| {
            let reason = "is needed where neither max_source_amount nor typed data says what is permitted";
            AuthorizationError::malformed("payload.permitted_amount", reason)
        })?;
        let deposit = self.deposit(spend, choice)?;
        let reserve_deadline = contracts::seconds(deposit.reserveDeadline);
        let with_witness = match spend.scheme {
            Scheme::EvmEip3009 => {
                return Ok(Message::Transfer(TransferMessage {
                    carried_out_by: CarriedOutBy::Payee,
                    domain: self.domain()?.clone(),
                    chain_id: U256::from(self.evm_id),
                    token: self.token,
                    from: self.payer,
                    to: self.escrow,
                    value: amount.get(),
                    valid_after: U256::ZERO,
                    valid_before: choice.valid_before.unwrap_or_else(|| reserve_deadline.saturating_add(1)),
                    nonce: deposit.eip712_hash_struct(),
                }));
            }
            Scheme::EvmPermit2Escrow => true,
            Scheme::EvmPermit2 | Scheme::EvmPermit2Batch | Scheme::EvmPermit2Mandate | Scheme::EvmX402Exact => false,
        };
        let deadline = choice.permit_deadline.unwrap_or(reserve_deadline);
        Ok(Message::Permit(self.demand(spend, deposit).message(amount, deadline, with_witness)))
    }

    fn demand(&self, spend: &SpendRequest, deposit: GatewayDeposit) -> Demand {
        let Self { evm_id, permit2, token, escrow, .. } = *self;
        Demand { chain_id: evm_id, permit2, token, escrow, cap: spend.terms.max_source_amount, deposit }
    }

    /// The deposit, with the windows that the payer chooses.
    ///
    /// # Errors
    /// [`AuthorizationError::Malformed`] for a time that the escrow cannot hold.
    pub fn deposit(&self, spend: &SpendRequest, choice: &Choice) -> Result<GatewayDeposit, AuthorizationError> {
        let fits = |field: &'static str, value: u64| {
            contracts::time(value).map_err(|error| AuthorizationError::malformed(field, error.to_string()))
        };
        let reserve_deadline = choice.reserve_deadline.unwrap_or(self.fulfillment_deadline);
        let refund_after = choice.refund_after.unwrap_or_else(|| self.refund_delayed(spend));
        Ok(GatewayDeposit {
            paymentId: self.payment_id,
            termsHash: self.terms_hash,
            quoteHash: contracts::word(spend.quote_hash),
            payer: self.payer,
            reserver: self.reserver,
            releaser: self.releaser,
            reserveDeadline: fits("payload.reserve_deadline", reserve_deadline)?,
            fulfillmentDeadline: fits("fulfillment_deadline", self.fulfillment_deadline)?,
            refundAfter: fits("payload.refund_after", refund_after)?,
        })
    }

    /// The escrow of that deposit.
    ///
    /// # Errors
    /// As [`Expected::deposit`].
    pub fn plan(&self, spend: &SpendRequest, choice: &Choice) -> Result<EscrowPlan, AuthorizationError> {
        let deposit = self.deposit(spend, choice)?;
        Ok(EscrowPlan {
            chain_id: spend.terms.source.asset().chain().clone(),
            contract: spend.escrow.contract.clone(),
            reserver: spend.escrow.reserver.clone(),
            releaser: spend.escrow.releaser.clone(),
            reserve_deadline: contracts::seconds(deposit.reserveDeadline),
            fulfillment_deadline: contracts::seconds(deposit.fulfillmentDeadline),
            refund_after: contracts::seconds(deposit.refundAfter),
        })
    }

    fn domain(&self) -> Result<&TokenDomain, AuthorizationError> {
        self.domain.as_ref().ok_or_else(|| {
            let rule = "must be the typed data of the token's ReceiveWithAuthorization under EVM_EIP3009, of its \
                        TransferWithAuthorization under EVM_X402_EXACT";
            AuthorizationError::malformed("message_prehash", rule)
        })
    }

    /// Compares every field of `message` with the request.
    ///
    /// # Errors
    /// [`AuthorizationError`], naming the field.
    pub fn check(
        &self,
        spend: &SpendRequest,
        message: &Message,
        choice: &Choice,
    ) -> Result<EscrowPlan, AuthorizationError> {
        let (reserve_deadline, refund_after) = match message {
            Message::Permit(permit) => self.check_permit(spend, permit, choice)?,
            Message::Batch(signed) => {
                let batch = BatchSpend::of(spend, self, choice)?;
                batch.check(signed)?;
                self.check_windows(spend, batch.plan.reserve_deadline, batch.plan.refund_after)?;
                return Ok(batch.plan);
            }
            Message::Charge(signed) => {
                let charge = MandateSpend::of(spend, self, choice)?;
                charge.check(signed)?;
                self.check_windows(spend, charge.plan.reserve_deadline, charge.plan.refund_after)?;
                return Ok(charge.plan);
            }
            Message::Transfer(transfer) if spend.scheme == Scheme::EvmX402Exact => {
                return self.check_purchase(spend, transfer, choice);
            }
            Message::Transfer(transfer) => self.check_transfer(spend, transfer, choice)?,
        };
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

    fn check_permit(
        &self,
        spend: &SpendRequest,
        message: &PermitMessage,
        choice: &Choice,
    ) -> Result<(u64, u64), AuthorizationError> {
        // The two windows that are the payer's to choose are judged below.
        let signed = message.witness.as_ref().map(|witness| Choice {
            reserve_deadline: Some(contracts::seconds(witness.reserveDeadline)),
            refund_after: Some(contracts::seconds(witness.refundAfter)),
            ..Choice::default()
        });
        self.demand(spend, self.deposit(spend, &signed.unwrap_or_default())?).check(message, &HEX)?;
        let (reserve_deadline, refund_after) = match (&message.witness, spend.scheme) {
            (Some(witness), Scheme::EvmPermit2Escrow) => {
                (contracts::seconds(witness.reserveDeadline), contracts::seconds(witness.refundAfter))
            }
            (None, Scheme::EvmPermit2) => self.check_unsigned_windows(spend, choice)?,
            (Some(_), _) | (None, _) => {
                return Err(AuthorizationError::malformed("message.witness", "must be there exactly with a witness"));
            }
        };
        self.check_windows(spend, reserve_deadline, refund_after)?;
        permit2::check_deadline(message, reserve_deadline)?;
        Ok((reserve_deadline, refund_after))
    }

    /// All of the offer is in the address that is paid to, so what the payload says of it is the merchant's offer, or the address differs.
    fn check_purchase(
        &self,
        spend: &SpendRequest,
        message: &TransferMessage,
        choice: &Choice,
    ) -> Result<EscrowPlan, AuthorizationError> {
        let purchase = OfferSpend::of(spend, choice)?;
        let demanded = purchase.message(self, self.domain()?.clone())?;
        self.check_token(message)?;
        equal("message.from", demanded.from, message.from)?;
        equal("message.to", demanded.to, message.to)?;
        equal("message.value", demanded.value, message.value)?;
        equal("message.validAfter", demanded.valid_after, message.valid_after)?;
        equal("message.validBefore", demanded.valid_before, message.valid_before)?;
        equal("message.nonce", demanded.nonce, message.nonce)?;
        if message.valid_after >= U256::from(self.quote_deadline) {
            let expected = format!("before quote_deadline, {}", self.quote_deadline);
            return Err(AuthorizationError::mismatch("message.validAfter", expected, message.valid_after));
        }
        self.check_windows(spend, purchase.plan.reserve_deadline, purchase.plan.refund_after)?;
        Ok(purchase.plan)
    }

    /// The windows are in the hash that is the nonce, so what the payload says of them is what was signed, or the nonce differs.
    fn check_transfer(
        &self,
        spend: &SpendRequest,
        message: &TransferMessage,
        choice: &Choice,
    ) -> Result<(u64, u64), AuthorizationError> {
        self.check_token(message)?;
        equal("message.from", self.payer, message.from)?;
        equal("message.to", self.escrow, message.to)?;
        match spend.terms.max_source_amount {
            // Of a quote that it knows the payer need not lock more than the price.
            Some(cap) if spend.quote_hash != Hash32::ZERO && message.value > cap.get() => {
                let expected = format!("at most {cap}");
                return Err(AuthorizationError::mismatch("message.value", expected, message.value));
            }
            Some(cap) if spend.quote_hash == Hash32::ZERO => equal("message.value", cap.get(), message.value)?,
            Some(_) | None if message.value.is_zero() => {
                return Err(AuthorizationError::malformed("message.value", "must not be zero"));
            }
            Some(_) | None => {}
        }
        equal("message.validAfter", U256::ZERO, message.valid_after)?;
        let deposit = self.deposit(spend, choice)?;
        let (reserve_deadline, refund_after) =
            (contracts::seconds(deposit.reserveDeadline), contracts::seconds(deposit.refundAfter));
        equal("message.nonce", deposit.eip712_hash_struct(), message.nonce)?;
        self.check_windows(spend, reserve_deadline, refund_after)?;
        if message.valid_before <= reserve_deadline {
            let expected = format!("later than the reserve deadline, {reserve_deadline}");
            return Err(AuthorizationError::mismatch("message.validBefore", expected, message.valid_before));
        }
        Ok((reserve_deadline, refund_after))
    }

    fn check_token(&self, message: &TransferMessage) -> Result<(), AuthorizationError> {
        let domain = self.domain()?;
        equal("domain.name", &domain.name, &message.domain.name)?;
        equal("domain.version", &domain.version, &message.domain.version)?;
        equal("domain.chainId", U256::from(self.evm_id), message.chain_id)?;
        Ok(equal("domain.verifyingContract", self.token, message.token)?)
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

    /// Checks that the windows of a deposit follow one another, and suit the request.
    ///
    /// # Errors
    /// [`AuthorizationError`], naming the field.
    pub fn check_windows(
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
        let field = |window| match (window, spend.scheme) {
            (Window::Reserve, Scheme::EvmX402Exact) => "message.validBefore",
            (Window::Refund, Scheme::EvmX402Exact) => "payload.refund_after",
            (Window::Reserve, Scheme::EvmPermit2Batch | Scheme::EvmPermit2Mandate | Scheme::EvmEip3009) => {
                "payload.reserve_deadline"
            }
            (Window::Refund, Scheme::EvmPermit2Batch | Scheme::EvmPermit2Mandate | Scheme::EvmEip3009) => {
                "payload.refund_after"
            }
            (Window::Reserve, _) => "message.witness.reserveDeadline",
            (Window::Refund, _) => "message.witness.refundAfter",
        };
        windows.check().map_err(|broken| match broken {
            Broken::Mismatch { window, expected, found } => {
                AuthorizationError::mismatch(field(window), expected, found)
            }
            Broken::TooFar(window, reason) => AuthorizationError::malformed(field(window), reason),
        })
    }
}
