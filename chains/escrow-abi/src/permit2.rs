//! Permit2's transfer into the escrow: what a payer signs, its typed data, and what a request demands of it.

use alloy::{
    primitives::{Address, B256, U256, keccak256},
    sol,
    sol_types::Eip712Domain,
};
use serde_json::{Value, json};

use chains::auditor::Discrepancies;
use events::{
    Amount, Hash32, PaymentId, Terms,
    event::{EscrowPlan, Permit2},
};

use super::{
    contracts::{self, GatewayEscrow, units, word},
    eip712::{self, GatewayDeposit, PermitTransferFrom, PermitWitnessTransferFrom, TokenPermissions, permit2_domain},
    typed_data::{AddressForm, FieldError, Members, Object, check_types, equal, render_types},
};

sol! {
    /// What is asked of Permit2 itself.
    interface IPermit2 {
        /// Unordered nonces: 256 of them in each word.
        function nonceBitmap(address owner, uint256 word) external view returns (uint256);
        /// What it verifies signatures in.
        function DOMAIN_SEPARATOR() external view returns (bytes32);
    }
}

pub(crate) const NAME: &str = "Permit2";
pub(crate) const DOMAIN: Members = &[("name", "string"), ("chainId", "uint256"), ("verifyingContract", "address")];
pub(crate) const TOKEN_PERMISSIONS: Members = &[("token", "address"), ("amount", "uint256")];
const PLAIN: Members =
    &[("permitted", "TokenPermissions"), ("spender", "address"), ("nonce", "uint256"), ("deadline", "uint256")];
const WITNESSED: Members = &[
    ("permitted", "TokenPermissions"),
    ("spender", "address"),
    ("nonce", "uint256"),
    ("deadline", "uint256"),
    ("witness", "GatewayDeposit"),
];
const GATEWAY_DEPOSIT: Members = &[
    ("paymentId", "bytes32"),
    ("termsHash", "bytes32"),
    ("quoteHash", "bytes32"),
    ("payer", "address"),
    ("reserver", "address"),
    ("releaser", "address"),
    ("reserveDeadline", "uint48"),
    ("fulfillmentDeadline", "uint48"),
    ("refundAfter", "uint48"),
];

/// A Permit2 of one chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deployed {
    /// EIP-155 id of the chain; on Tron the reference of its CAIP-2 id.
    pub chain_id: u64,
    /// The contract.
    pub address: Address,
}

impl Deployed {
    /// What it verifies signatures in.
    pub fn domain(&self) -> Eip712Domain {
        permit2_domain(self.chain_id, self.address)
    }
}

/// What a permit lets move: a token, into an escrow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drawn {
    /// The token.
    pub token: Address,
    /// The escrow, which alone may draw.
    pub escrow: Address,
}

/// The values of one Permit2 message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermitMessage {
    /// EIP-155 id of the domain's chain; on Tron the reference of its CAIP-2 id.
    pub chain_id: U256,
    /// The Permit2 contract, which verifies the message.
    pub permit2: Address,
    /// The token that is drawn.
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
    /// Permit2's domain.
    pub fn domain(&self) -> Eip712Domain {
        // A chain id above 64 bits is refused before any digest is made.
        let chain_id = u64::try_from(self.chain_id).unwrap_or_default();
        Deployed { chain_id, address: self.permit2 }.domain()
    }

    /// What is hashed and signed (EIP-712, TIP-712).
    pub fn preimage(&self) -> [u8; 66] {
        let permitted = TokenPermissions { token: self.token, amount: self.amount };
        let (spender, nonce, deadline) = (self.spender, self.nonce, U256::from(self.deadline));
        let domain = self.domain();
        match self.witness.clone() {
            Some(witness) => {
                let message = PermitWitnessTransferFrom { permitted, spender, nonce, deadline, witness };
                eip712::preimage(&message, &domain)
            }
            None => eip712::preimage(&PermitTransferFrom { permitted, spender, nonce, deadline }, &domain),
        }
    }

    /// The digest that is signed.
    pub fn digest(&self) -> B256 {
        keccak256(self.preimage())
    }

    /// The typed data, as wallets take it, with addresses in this form. Numbers are decimal strings, which every wallet reads exactly.
    pub fn render(&self, form: &AddressForm) -> Value {
        let account = |address: Address| Value::from((form.write)(address));
        let with_witness = self.witness.is_some();
        let mut message = json!({
            "permitted": {"token": account(self.token), "amount": self.amount.to_string()},
            "spender": account(self.spender),
            "nonce": self.nonce.to_string(),
            "deadline": self.deadline.to_string(),
        });
        if let Some(witness) = &self.witness {
            message["witness"] = json!({
                "paymentId": witness.paymentId.to_string(),
                "termsHash": witness.termsHash.to_string(),
                "quoteHash": witness.quoteHash.to_string(),
                "payer": account(witness.payer),
                "reserver": account(witness.reserver),
                "releaser": account(witness.releaser),
                "reserveDeadline": witness.reserveDeadline.to_string(),
                "fulfillmentDeadline": witness.fulfillmentDeadline.to_string(),
                "refundAfter": witness.refundAfter.to_string(),
            });
        }
        json!({
            "types": render_types(&types(with_witness), DOMAIN),
            "primaryType": primary(with_witness),
            "domain": {
                "name": NAME,
                // Wallets compare it with the chain they are on, and some only as a number.
                "chainId": u64::try_from(self.chain_id).unwrap_or_default(),
                "verifyingContract": account(self.permit2),
            },
            "message": message,
        })
    }

    /// Reads what [`PermitMessage::render`] writes.
    ///
    /// # Errors
    /// [`FieldError`], naming the member.
    pub fn read(whole: &Object<'_>, with_witness: bool) -> Result<Self, FieldError> {
        let primary_type = whole.text("primaryType")?;
        if primary_type != primary(with_witness) {
            return Err(FieldError::mismatch("primaryType", primary(with_witness), primary_type));
        }
        check_types(&types(with_witness), DOMAIN, whole)?;
        let domain = whole.within("domain", "domain", DOMAIN)?;
        let name = domain.text("name")?;
        if name != NAME {
            return Err(FieldError::mismatch("domain.name", NAME, name));
        }
        let message = whole.within("message", "message", if with_witness { WITNESSED } else { PLAIN })?;
        let permitted = message.within("message.permitted", "permitted", TOKEN_PERMISSIONS)?;
        Ok(Self {
            chain_id: domain.uint("chainId")?,
            permit2: domain.address("verifyingContract")?,
            token: permitted.address("token")?,
            amount: permitted.uint("amount")?,
            spender: message.address("spender")?,
            nonce: message.uint("nonce")?,
            deadline: message.seconds("deadline")?,
            witness: if with_witness { Some(read_witness(&message)?) } else { None },
        })
    }
}

fn primary(with_witness: bool) -> &'static str {
    if with_witness { "PermitWitnessTransferFrom" } else { "PermitTransferFrom" }
}

fn types(with_witness: bool) -> Vec<(&'static str, Members)> {
    let mut types = vec![("TokenPermissions", TOKEN_PERMISSIONS)];
    match with_witness {
        true => types.extend([(primary(true), WITNESSED), ("GatewayDeposit", GATEWAY_DEPOSIT)]),
        false => types.push((primary(false), PLAIN)),
    }
    types
}

fn read_witness(message: &Object<'_>) -> Result<GatewayDeposit, FieldError> {
    let witness = message.within("message.witness", "witness", GATEWAY_DEPOSIT)?;
    Ok(GatewayDeposit {
        paymentId: witness.word("paymentId")?,
        termsHash: witness.word("termsHash")?,
        quoteHash: witness.word("quoteHash")?,
        payer: witness.address("payer")?,
        reserver: witness.address("reserver")?,
        releaser: witness.address("releaser")?,
        reserveDeadline: witness.time("reserveDeadline")?,
        fulfillmentDeadline: witness.time("fulfillmentDeadline")?,
        refundAfter: witness.time("refundAfter")?,
    })
}

/// Permit2's nonce of a payment: keccak256(paymentId ‖ termsHash), which binds the terms even without a witness.
pub fn nonce(payment_id: Hash32, terms_hash: Hash32) -> Hash32 {
    Hash32::keccak256([payment_id.0, terms_hash.0].concat())
}

/// Whether a nonce is used, by the word of nonces that has it (`nonceBitmap` of the nonce without its last eight bits).
pub fn is_used(nonce: U256, word: U256) -> bool {
    word.bit(usize::from(nonce.byte(0)))
}

/// The word of nonces that has this one.
pub fn word_of(nonce: U256) -> U256 {
    nonce >> 8
}

/// What a request demands of a Permit2 message.
#[derive(Debug, Clone)]
pub struct Demand {
    /// EIP-155 id of the source's chain; on Tron the reference of its CAIP-2 id.
    pub chain_id: u64,
    /// The Permit2 contract.
    pub permit2: Address,
    /// The source's token.
    pub token: Address,
    /// The escrow.
    pub escrow: Address,
    /// The cap of the spend, where the terms set one.
    pub cap: Option<Amount>,
    /// The deposit that the message is for, with the windows that the payer chose.
    pub deposit: GatewayDeposit,
}

impl Demand {
    fn nonce(&self) -> U256 {
        let (payment_id, terms_hash) = (Hash32(self.deposit.paymentId.0), Hash32(self.deposit.termsHash.0));
        U256::from_be_bytes(nonce(payment_id, terms_hash).0)
    }

    /// The message of `amount`, which Permit2 takes up to the second `deadline`.
    pub fn message(&self, amount: Amount, deadline: u64, with_witness: bool) -> PermitMessage {
        PermitMessage {
            chain_id: U256::from(self.chain_id),
            permit2: self.permit2,
            token: self.token,
            amount: amount.get(),
            spender: self.escrow,
            nonce: self.nonce(),
            deadline,
            witness: with_witness.then(|| self.deposit.clone()),
        }
    }

    /// Compares every member of `message` but its deadline, and in the witness all but the two windows that are the payer's to choose,
    /// with what is demanded. Addresses in errors have this form.
    ///
    /// # Errors
    /// [`FieldError`], naming the member.
    pub fn check(&self, message: &PermitMessage, form: &AddressForm) -> Result<(), FieldError> {
        let same = |field, expected: Address, found: Address| equal(field, (form.write)(expected), (form.write)(found));
        equal("domain.chainId", U256::from(self.chain_id), message.chain_id)?;
        same("domain.verifyingContract", self.permit2, message.permit2)?;
        same("message.permitted.token", self.token, message.token)?;
        match self.cap {
            Some(cap) => equal("message.permitted.amount", cap.get(), message.amount)?,
            None if message.amount.is_zero() => {
                return Err(FieldError::malformed("message.permitted.amount", "must not be zero"));
            }
            None => {}
        }
        same("message.spender", self.escrow, message.spender)?;
        equal("message.nonce", self.nonce(), message.nonce)?;
        let (Some(witness), deposit) = (&message.witness, &self.deposit) else { return Ok(()) };
        equal("message.witness.paymentId", deposit.paymentId, witness.paymentId)?;
        equal("message.witness.termsHash", deposit.termsHash, witness.termsHash)?;
        equal("message.witness.quoteHash", deposit.quoteHash, witness.quoteHash)?;
        same("message.witness.payer", deposit.payer, witness.payer)?;
        same("message.witness.reserver", deposit.reserver, witness.reserver)?;
        same("message.witness.releaser", deposit.releaser, witness.releaser)?;
        let of = |deposit: &GatewayDeposit| contracts::seconds(deposit.fulfillmentDeadline);
        equal("message.witness.fulfillmentDeadline", of(deposit), of(witness))
    }
}

/// Checks that Permit2 takes the message for as long as the escrow takes the deposit.
///
/// # Errors
/// [`FieldError::Mismatch`].
pub fn check_deadline(message: &PermitMessage, reserve_deadline: u64) -> Result<(), FieldError> {
    if message.deadline >= reserve_deadline {
        return Ok(());
    }
    let expected = format!("at least the reserve deadline, {reserve_deadline}");
    Err(FieldError::mismatch("message.deadline", expected, message.deadline))
}

/// The message that a permit on record signs, rebuilt for the deposit that it is for.
pub fn recorded(
    permit: &Permit2,
    verified_by: Deployed,
    drawn: Drawn,
    witness: Option<GatewayDeposit>,
) -> PermitMessage {
    PermitMessage {
        chain_id: U256::from(verified_by.chain_id),
        permit2: verified_by.address,
        token: drawn.token,
        amount: units(permit.amount),
        spender: drawn.escrow,
        nonce: U256::from_be_bytes(permit.nonce.0),
        deadline: permit.deadline,
        witness,
    }
}

/// What does not fit in a permit on record, but for its signature: its nonce is the payment's, it is of the cap where the terms set
/// one, and Permit2 takes it for as long as the escrow takes the deposit.
pub fn check_recorded(
    permit: &Permit2,
    payment_id: &PaymentId,
    terms: &Terms,
    plan: &EscrowPlan,
    discrepancies: &mut Discrepancies,
) {
    discrepancies.same("the permit's nonce", permit.nonce, nonce(payment_id.on_chain(), terms.hash()));
    if let Some(cap) = terms.max_source_amount {
        discrepancies
            .require(cap == permit.amount, || format!("the payer permits {}, the terms say {cap}", permit.amount));
    }
    discrepancies.require(permit.deadline >= plan.reserve_deadline, || {
        format!("the permit ends at {}, before the reserve deadline {}", permit.deadline, plan.reserve_deadline)
    });
}

/// The permit as the escrow's calls take it, with its signature in the form in which Permit2 takes it.
pub fn call_argument(permit: &Permit2, token: Address, signature: alloy::primitives::Bytes) -> GatewayEscrow::Permit {
    GatewayEscrow::Permit {
        token,
        amount: units(permit.amount),
        nonce: word(permit.nonce).into(),
        deadline: U256::from(permit.deadline),
        signature,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_has_a_bit_of_a_word() {
        let nonce = U256::from((3 << 8) + 5);
        let bit = U256::from(1 << 5);
        assert_eq!(word_of(nonce), U256::from(3));
        assert!(is_used(nonce, bit) && is_used(nonce, U256::MAX));
        assert!(!is_used(nonce, U256::MAX - bit) && !is_used(nonce, U256::ZERO));
        let most: U256 = U256::MAX >> 1;
        assert!(is_used(U256::MAX, U256::MAX - most) && !is_used(U256::MAX, most));
    }

    #[test]
    fn the_nonce_binds_payment_and_terms() {
        let (one, other) = (Hash32([1; 32]), Hash32([2; 32]));
        let nonces = [(one, one), (one, other), (other, one), (other, other)].map(|(id, terms)| nonce(id, terms));
        assert_eq!(nonces[1], Hash32::keccak256([[1; 32], [2; 32]].concat()));
        assert!((1..4).all(|at| !nonces[..at].contains(&nonces[at])));
    }
}
