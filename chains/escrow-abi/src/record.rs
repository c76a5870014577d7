//! The escrow's record: what `GatewayEscrow` stores of a payment, the terms that it commits to, and both in the words of every
//! family.
//!
//! The contract stores the hash of a payment's terms, its state, and the blocks of its changes. The terms themselves are told by
//! its events, by whoever holds the signed messages, or by anyone: they count when their hash is the one that is stored, and
//! only then ([`EscrowTerms::commitment`], [`read`]).

use alloy::{
    primitives::{Address, B256, U256, aliases::U48, keccak256},
    sol_types::SolValue,
};

use chains::escrow::{EscrowRecord, State};
use events::{Account, Amount, ChainId, Family, Hash32};

use crate::{
    contracts::{GatewayEscrow, seconds},
    eip712,
};

/// What the contract stores of a payment.
pub type Stored = GatewayEscrow::Record;

/// Why what a node says of a payment is not its record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The contract numbers a state that it does not have.
    #[error("the unknown state {0}")]
    State(u8),
    /// The chain has no `GatewayEscrow` of Solidity.
    #[error("{0} is neither an EVM chain nor Tron")]
    Chain(ChainId),
    /// The token cannot be named on the chain.
    #[error("{0} is not an asset")]
    Token(String),
    /// The terms are not those that are stored.
    #[error("terms with the hash {given} where {committed} is stored")]
    Terms {
        /// What is stored.
        committed: B256,
        /// The hash of the terms.
        given: B256,
    },
    /// The state and the terms cannot both be.
    #[error("the state {state:?} with {reservations} reservations and the settler {settler}")]
    Reservation {
        /// The state.
        state: State,
        /// How often a settler was named.
        reservations: u8,
        /// Who is paid by the terms.
        settler: Address,
    },
}

/// The terms of a payment in escrow as they stand: what the payer agreed to, what was deposited, and the award once there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EscrowTerms(pub GatewayEscrow::Escrow);

impl EscrowTerms {
    /// Those of a deposit for which no settler is named.
    pub fn deposited(deposit: &eip712::GatewayDeposit, token: Address, amount: U256) -> Self {
        Self(GatewayEscrow::Escrow {
            deposit: deposit.into(),
            token,
            deposited: amount,
            quoteHash: deposit.quoteHash,
            settler: Address::ZERO,
            sourceAmount: U256::ZERO,
            fulfillBy: U48::ZERO,
        })
    }

    /// Those that the event of a deposit tells.
    pub fn told_by(event: &GatewayEscrow::Deposited) -> Self {
        Self(GatewayEscrow::Escrow {
            deposit: event.deposit.clone(),
            token: event.token,
            deposited: event.amount,
            quoteHash: event.quoteHash,
            settler: Address::ZERO,
            sourceAmount: U256::ZERO,
            fulfillBy: U48::ZERO,
        })
    }

    /// Whether the event of a deposit tells these in all that it says, of one for which no settler is named.
    pub fn are_told_by(&self, event: &GatewayEscrow::Deposited) -> bool {
        let GatewayEscrow::GatewayDeposit { paymentId, payer, .. } = &self.0.deposit;
        Self::told_by(event) == *self && (&event.paymentId, &event.payer) == (paymentId, payer)
    }

    /// As [`are_told_by`](Self::are_told_by), of a deposit that named a settler at once, whichever it was.
    pub fn are_told_by_reserved(&self, event: &GatewayEscrow::Deposited) -> bool {
        let mut told = event.clone();
        told.quoteHash = told.deposit.quoteHash;
        self.are_told_by(&told)
    }

    /// The same with a settler named.
    pub fn reserved(mut self, quote_hash: B256, settler: Address, source_amount: U256, fulfill_by: U48) -> Self {
        let terms = &mut self.0;
        (terms.quoteHash, terms.settler) = (quote_hash, settler);
        (terms.sourceAmount, terms.fulfillBy) = (source_amount, fulfill_by);
        self
    }

    /// The same with the settler that the event of a reservation tells.
    pub fn reserved_by(self, event: &GatewayEscrow::Reserved) -> Self {
        self.reserved(event.quoteHash, event.settler, event.sourceAmount, event.fulfillBy)
    }

    /// The same before a settler was named in a transaction of its own.
    pub fn unreserved(self) -> Self {
        let agreed = self.0.deposit.quoteHash;
        self.reserved(agreed, Address::ZERO, U256::ZERO, U48::ZERO)
    }

    /// Terms of nothing but a payment's id. The contract refuses them after it has looked at the payment's state, so that a call
    /// with them tells the state of a payment that holds no money.
    pub fn unknown(payment_id: B256) -> Self {
        let deposit = GatewayEscrow::GatewayDeposit {
            paymentId: payment_id,
            termsHash: B256::ZERO,
            quoteHash: B256::ZERO,
            payer: Address::ZERO,
            reserver: Address::ZERO,
            releaser: Address::ZERO,
            reserveDeadline: U48::ZERO,
            fulfillmentDeadline: U48::ZERO,
            refundAfter: U48::ZERO,
        };
        Self(GatewayEscrow::Escrow {
            deposit,
            token: Address::ZERO,
            deposited: U256::ZERO,
            quoteHash: B256::ZERO,
            settler: Address::ZERO,
            sourceAmount: U256::ZERO,
            fulfillBy: U48::ZERO,
        })
    }

    /// What the contract stores of them: the hash of their ABI encoding, fifteen words.
    pub fn commitment(&self) -> B256 {
        keccak256(self.0.abi_encode())
    }
}

/// The state that `GatewayEscrow` numbers `number`; `None` where no deposit was ever made.
///
/// # Errors
/// [`RecordError::State`] when it has no such state.
pub fn state(number: u8) -> Result<Option<State>, RecordError> {
    match number {
        0 => Ok(None),
        1 => Ok(Some(State::Deposited)),
        2 => Ok(Some(State::Reserved)),
        3 => Ok(Some(State::Released)),
        4 => Ok(Some(State::Refunded)),
        unknown => Err(RecordError::State(unknown)),
    }
}

/// The record of a payment of which `stored` is stored on the chain `chain_id`, EVM or Tron, and whose terms are said to be
/// `terms`; `None` when the contract knows nothing of the payment. No word of `terms` is believed unless all of them hash to what
/// is stored.
///
/// # Errors
/// [`RecordError`].
pub fn read(stored: &Stored, terms: &EscrowTerms, chain_id: &ChainId) -> Result<Option<EscrowRecord>, RecordError> {
    let Some(state) = state(stored.state)? else { return Ok(None) };
    let given = terms.commitment();
    if given != stored.commitment {
        return Err(RecordError::Terms { committed: stored.commitment, given });
    }
    let EscrowTerms(GatewayEscrow::Escrow { deposit, token, deposited, quoteHash, settler, sourceAmount, fulfillBy }) =
        terms;
    let is_reserved = stored.round != 0;
    let can_be = match state {
        State::Deposited => !is_reserved,
        State::Reserved | State::Released => is_reserved,
        State::Refunded => true,
    };
    if !can_be || is_reserved == settler.is_zero() {
        return Err(RecordError::Reservation { state, reservations: stored.round, settler: *settler });
    }
    let family = match chain_id.family() {
        Some(family @ (Family::Evm | Family::Tron)) => family,
        Some(Family::Solana) | None => return Err(RecordError::Chain(chain_id.clone())),
    };
    let account = |address: Address| Account::from_bytes(family, address.as_slice());
    let token = account(*token).ok_or_else(|| RecordError::Token(token.to_string()))?;
    let asset = format!("{chain_id}/{}:{token}", family.token_namespace());
    Ok(Some(EscrowRecord {
        chain_id: chain_id.clone(),
        state,
        payer: account(deposit.payer),
        reserver: account(deposit.reserver),
        releaser: account(deposit.releaser),
        asset: asset.parse().map_err(|_| RecordError::Token(asset))?,
        settler: account(*settler),
        deposited: Amount::new(*deposited),
        source_amount: Amount::new(*sourceAmount),
        terms_hash: Hash32(deposit.termsHash.0),
        quote_hash: Hash32(quoteHash.0),
        reserve_deadline: seconds(deposit.reserveDeadline),
        fulfillment_deadline: seconds(deposit.fulfillmentDeadline),
        fulfill_by: seconds(*fulfillBy),
        refund_after: seconds(deposit.refundAfter),
    }))
}

#[cfg(test)]
mod tests {
    use alloy::sol_types::SolEvent;

    use super::*;

    const SETTLER: Address = Address::repeat_byte(6);

    fn deposit() -> eip712::GatewayDeposit {
        eip712::GatewayDeposit {
            paymentId: B256::repeat_byte(1),
            termsHash: B256::repeat_byte(2),
            quoteHash: B256::ZERO,
            payer: Address::repeat_byte(3),
            reserver: Address::repeat_byte(4),
            releaser: Address::repeat_byte(5),
            reserveDeadline: U48::from(100),
            fulfillmentDeadline: U48::from(200),
            refundAfter: U48::from(300),
        }
    }

    fn deposited() -> EscrowTerms {
        EscrowTerms::deposited(&deposit(), Address::repeat_byte(7), U256::from(1_000))
    }

    fn reserved() -> EscrowTerms {
        deposited().reserved(B256::repeat_byte(8), SETTLER, U256::from(900), U48::from(150))
    }

    fn stored(state: u8, round: u8, terms: &EscrowTerms) -> Stored {
        let block = |is: bool| alloy::primitives::aliases::U40::from(u8::from(is));
        Stored {
            state,
            round,
            depositedAt: block(state > 0),
            reservedAt: block(round > 0),
            endedAt: block(state > 2),
            commitment: terms.commitment(),
        }
    }

    #[test]
    fn a_record_is_of_a_family_that_has_the_contract() {
        let read = |chain: &str| read(&stored(1, 0, &deposited()), &deposited(), &chain.parse().unwrap());
        for (chain, token) in [("eip155:1", "eip155:1/erc20:0x07"), ("tron:5", "tron:5/trc20:T")] {
            let record = read(chain).unwrap().unwrap();
            assert!(record.asset.to_string().starts_with(token), "{record:?}");
            assert_eq!((record.state, record.settler, record.source_amount), (State::Deposited, None, None));
        }
        for chain in ["solana:abc", "cosmos:cosmoshub-4"] {
            assert_eq!(read(chain), Err(RecordError::Chain(chain.parse().unwrap())));
        }
    }

    /// Whether or not the payer agreed to one quote alone: a deposit is not a reservation, before its refund and after it.
    #[test]
    fn a_deposit_without_a_settler_is_reserved_for_nobody_whatever_quote_it_names() {
        let chain = ChainId::evm(1);
        for quote_hash in [B256::ZERO, B256::repeat_byte(8)] {
            let deposit = eip712::GatewayDeposit { quoteHash: quote_hash, ..deposit() };
            let open = EscrowTerms::deposited(&deposit, Address::repeat_byte(7), U256::from(1_000));
            for state in [1, 4] {
                let record = read(&stored(state, 0, &open), &open, &chain).unwrap().unwrap();
                assert_eq!(record.reserved_for(), None, "{record:?}");
            }
            let named = open.reserved(B256::repeat_byte(8), SETTLER, U256::from(900), U48::from(150));
            let record = read(&stored(2, 1, &named), &named, &chain).unwrap().unwrap();
            assert_eq!(record.reserved_for(), Some(Hash32([8; 32])));
        }
    }

    #[test]
    fn fifteen_words_are_hashed_and_each_of_them_counts() {
        let chain = ChainId::evm(1);
        let honest = stored(2, 1, &reserved());
        assert!(read(&honest, &reserved(), &chain).unwrap().is_some());
        let words = reserved().0.abi_encode();
        assert_eq!(words.len(), 15 * 32);
        assert_eq!(honest.commitment, keccak256(&words));
        for word in 0..15 {
            let mut words = words.clone();
            words[word * 32 + 31] ^= 1;
            let other = EscrowTerms(<GatewayEscrow::Escrow as SolValue>::abi_decode(&words).unwrap());
            let given = other.commitment();
            let fault = RecordError::Terms { committed: honest.commitment, given };
            assert_eq!(read(&honest, &other, &chain), Err(fault), "word {word}");
        }
    }

    #[test]
    fn nothing_on_record_needs_no_terms() {
        let nothing = Stored { state: 0, ..stored(1, 0, &deposited()) };
        assert_eq!(read(&nothing, &EscrowTerms::unknown(B256::repeat_byte(1)), &ChainId::evm(1)), Ok(None));
        let unknown = Stored { state: 5, ..nothing };
        assert_eq!(read(&unknown, &deposited(), &ChainId::evm(1)), Err(RecordError::State(5)));
    }

    /// A node that knows both commitments of a payment cannot put the one with the other's state.
    #[test]
    fn a_state_goes_with_its_own_terms_only() {
        let chain = ChainId::evm(1);
        for (state, round, is_reserved, can_be) in [
            (1, 0, false, true),
            (1, 0, true, false),
            (1, 1, true, false),
            (2, 1, true, true),
            (2, 1, false, false),
            (2, 0, false, false),
            (3, 1, true, true),
            (3, 0, false, false),
            (4, 0, false, true),
            (4, 1, true, true),
            (4, 0, true, false),
            (4, 1, false, false),
        ] {
            let terms = if is_reserved { reserved() } else { deposited() };
            let found = read(&stored(state, round, &terms), &terms, &chain);
            assert_eq!(found.is_ok(), can_be, "{state} {round} {is_reserved}: {found:?}");
        }
    }

    /// However often it was reassigned: the terms are those of the last reservation, and what was deposited stays.
    #[test]
    fn a_reassigned_payment_is_of_its_last_settler() {
        let chain = ChainId::evm(1);
        let next = Address::repeat_byte(9);
        let terms = reserved().reserved(B256::repeat_byte(10), next, U256::from(800), U48::from(190));
        for (state, round) in [(2, 2), (2, u8::MAX), (3, 2), (4, 2)] {
            let held = stored(state, round, &terms);
            let record = read(&held, &terms, &chain).unwrap().unwrap();
            assert_eq!(record.settler, Account::from_bytes(Family::Evm, next.as_slice()));
            assert_eq!(record.quote_hash, Hash32([10; 32]));
            assert_eq!(
                (record.deposited, record.source_amount),
                (Amount::new(U256::from(1_000)), Amount::new(U256::from(800)))
            );
            assert_eq!(record.fulfill_by, 190);
            // Those of the settler before are over.
            let fault = RecordError::Terms { committed: terms.commitment(), given: reserved().commitment() };
            assert_eq!(read(&held, &reserved(), &chain), Err(fault));
        }
        let unnamed = stored(2, 2, &deposited());
        assert!(matches!(read(&unnamed, &deposited(), &chain), Err(RecordError::Reservation { reservations: 2, .. })));
        let waiting = stored(1, 2, &terms);
        assert!(matches!(
            read(&waiting, &terms, &chain),
            Err(RecordError::Reservation { state: State::Deposited, .. })
        ));
    }

    #[test]
    fn events_tell_the_terms() {
        let deposit = deposit();
        let told = GatewayEscrow::Deposited {
            paymentId: deposit.paymentId,
            quoteHash: B256::ZERO,
            payer: deposit.payer,
            deposit: (&deposit).into(),
            token: Address::repeat_byte(7),
            amount: U256::from(1_000),
        };
        let data = told.encode_log_data();
        let told = GatewayEscrow::Deposited::decode_log_data(&data).unwrap();
        assert_eq!(EscrowTerms::told_by(&told), deposited());
        assert!(deposited().are_told_by(&told));
        let of_another = [
            GatewayEscrow::Deposited { paymentId: B256::repeat_byte(9), ..told.clone() },
            GatewayEscrow::Deposited { payer: SETTLER, ..told.clone() },
            GatewayEscrow::Deposited { quoteHash: B256::repeat_byte(9), ..told.clone() },
            GatewayEscrow::Deposited { amount: U256::from(1), ..told.clone() },
        ];
        for event in of_another {
            assert!(!deposited().are_told_by(&event), "{event:?}");
        }
        let award = GatewayEscrow::Reserved {
            paymentId: deposit.paymentId,
            quoteHash: B256::repeat_byte(8),
            settler: SETTLER,
            sourceAmount: U256::from(900),
            fulfillBy: U48::from(150),
        };
        assert_eq!(EscrowTerms::told_by(&told).reserved_by(&award), reserved());
        let next = GatewayEscrow::Reserved { quoteHash: B256::repeat_byte(10), ..award.clone() };
        let again = reserved().reserved_by(&next).reserved_by(&award);
        assert_eq!(again, reserved(), "the last counts");
        assert_eq!(reserved().unreserved(), deposited());
    }
}
