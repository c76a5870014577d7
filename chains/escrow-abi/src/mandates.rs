//! Mandates (ADR 159): the contract that keeps them, what its address commits to, what a payer signs for one, and what its merchant signs for
//! each payment.

use alloy::{
    primitives::{Address, B256, U256, aliases::U160, keccak256},
    sol,
    sol_types::{Eip712Domain, SolValue, eip712_domain},
};
use serde_json::{Value, json};

use events::{Account, Amount, Terms, event::Mandate};

use super::{
    contracts::{ConvertError, address, erc20, time, units, word},
    eip712::{self, Cancellation, Charge, PermitDetails, PermitSingle},
    permit2::{self, Deployed},
    typed_data::{AddressForm, FieldError, Members, Object, check_types, equal, render_types},
};

sol!(
    #[sol(abi)]
    #[derive(Debug, PartialEq, Eq)]
    Mandates,
    "../../contracts/artifacts/Mandates.json"
);

eip712::structs_of!(GatewayEscrow);

sol! {
    /// Permit2's calls about allowances: the view, and the owner's `approve`.
    interface Permit2Allowances {
        /// What is left, up to when, and how many messages were taken.
        function allowance(address owner, address token, address spender) external view returns (uint160 amount, uint48 expiration, uint48 nonce);
        /// Sets the caller's allowance for `spender`; `expiration` is the last second, UNIX.
        function approve(address token, address spender, uint160 amount, uint48 expiration) external;
    }
}

/// The name and version of the contract in what is signed for it (EIP-712).
const NAME: &str = "GatewayMandates";
const VERSION: &str = "1";
const DOMAIN: Members =
    &[("name", "string"), ("version", "string"), ("chainId", "uint256"), ("verifyingContract", "address")];
const CHARGE: Members = &[
    ("mandate", "address"),
    ("paymentId", "bytes32"),
    ("fulfillmentAmount", "uint256"),
    ("amount", "uint160"),
    ("reserver", "address"),
    ("reserveDeadline", "uint48"),
    ("fulfillmentDeadline", "uint48"),
    ("refundAfter", "uint48"),
];
const CANCELLATION: Members = &[("mandate", "address")];
const SINGLE: Members = &[("details", "PermitDetails"), ("spender", "address"), ("sigDeadline", "uint256")];
const DETAILS: Members = &[("token", "address"), ("amount", "uint160"), ("expiration", "uint48"), ("nonce", "uint48")];

/// A mandate of a payment with these terms, whatever their amounts.
#[derive(Debug, Clone, Copy)]
pub struct Granted<'a> {
    /// What the mandate says.
    pub mandate: &'a Mandate,
    /// Who pays with what, and to whom it is delivered.
    pub terms: &'a Terms,
    /// The escrow contract.
    pub escrow: &'a Account,
    /// Who attests deliveries.
    pub releaser: &'a Account,
}

impl Granted<'_> {
    /// The same as the contract takes it.
    ///
    /// # Errors
    /// [`ConvertError`] for what fits no EVM chain.
    pub fn mandate(&self) -> Result<Mandates::Mandate, ConvertError> {
        let (before, behind) = self.terms.around_amounts();
        let Mandate { merchant, amount, least, begins, period_seconds, periods, lock_seconds, salt } = self.mandate;
        Ok(Mandates::Mandate {
            payer: address(self.terms.source.account())?,
            merchant: address(merchant)?,
            token: erc20(self.terms.source.asset())?,
            amount: allowed(*amount)?,
            least: least.map_or(U256::ZERO, units),
            escrow: address(self.escrow)?,
            releaser: address(self.releaser)?,
            begins: time(*begins)?,
            periodSeconds: *period_seconds,
            periods: *periods,
            lockSeconds: *lock_seconds,
            salt: word(*salt),
            termsBefore: before.into_bytes().into(),
            termsAfter: behind.into_bytes().into(),
        })
    }
}

/// The hash of a mandate, which is its address's salt.
pub fn salt(mandate: &Mandates::Mandate) -> B256 {
    keccak256(mandate.abi_encode())
}

/// An amount as allowances have it.
///
/// # Errors
/// [`ConvertError::Amount`] above 160 bits.
pub fn allowed(amount: Amount) -> Result<U160, ConvertError> {
    narrow(units(amount))
}

fn narrow(units: U256) -> Result<U160, ConvertError> {
    U160::checked_from_limbs_slice(units.as_limbs()).ok_or_else(|| ConvertError::Amount(units.to_string()))
}

/// The rule that a mandate breaks for which the contract has no address; `None` where it has one.
pub fn broken_rule(mandate: &Mandate) -> Option<&'static str> {
    if mandate.period_seconds == 0 || mandate.periods == 0 {
        return Some("period_seconds and periods must not be zero");
    }
    if total(mandate).is_none_or(|all| all >= U256::from(U160::MAX)) {
        return Some("amount times periods must be less than 160 bits hold");
    }
    if time(ends(mandate)).is_err() {
        return Some("must end within the times that contracts hold (48 bits)");
    }
    None
}

/// All periods together, smallest unit; `None` above 256 bits.
fn total(mandate: &Mandate) -> Option<U256> {
    units(mandate.amount).checked_mul(U256::from(mandate.periods))
}

/// Whether `delivered` is as much as the mandate says for `drawn`, by the contract's reckoning, which takes no products beyond 256 bits.
pub fn delivers_enough(mandate: &Mandate, delivered: Amount, drawn: Amount) -> bool {
    let Some(least) = mandate.least else { return units(delivered).checked_mul(units(mandate.amount)).is_some() };
    let products = units(delivered).checked_mul(units(mandate.amount)).zip(units(least).checked_mul(units(drawn)));
    products.is_some_and(|(delivered, least)| delivered >= least)
}

/// First second behind the last period, UNIX.
pub fn ends(mandate: &Mandate) -> u64 {
    let length = u64::from(mandate.period_seconds).saturating_mul(u64::from(mandate.periods));
    mandate.begins.saturating_add(length)
}

/// The period that runs in the UNIX second `now`; `None` where none does.
pub fn period(mandate: &Mandate, now: u64) -> Option<u32> {
    let since = now.checked_sub(mandate.begins)?;
    let period = u32::try_from(since.checked_div(u64::from(mandate.period_seconds))?).ok()?;
    (period < mandate.periods).then_some(period)
}

/// What may still be drawn in the UNIX second `now`, of a mandate of which the contract says `used`.
pub fn left(mandate: &Mandate, used: &Mandates::usedReturn, now: u64) -> U256 {
    let Some(period) = period(mandate, now).filter(|_| !used.cancelled) else { return U256::ZERO };
    let drawn = if used.period == period { U256::from(used.amount) } else { U256::ZERO };
    units(mandate.amount).saturating_sub(drawn)
}

/// What a payer signs for a mandate: an allowance at Permit2 of all periods together, up to the last second of the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The Permit2 that verifies it.
    pub verified_by: Deployed,
    /// The token.
    pub token: Address,
    /// All periods together, smallest unit.
    pub amount: U160,
    /// The last second, UNIX: of the allowance, and in which the signature is taken.
    pub last: u64,
    /// The mandate's address.
    pub spender: Address,
}

impl Grant {
    /// Of the mandate at the address `at`.
    ///
    /// # Errors
    /// [`ConvertError`] for one that breaks a rule.
    pub fn of(granted: &Granted<'_>, at: Address, verified_by: Deployed) -> Result<Self, ConvertError> {
        let mandate = granted.mandate;
        let amount = narrow(total(mandate).unwrap_or(U256::MAX))?;
        let token = erc20(granted.terms.source.asset())?;
        Ok(Self { verified_by, token, amount, last: ends(mandate).saturating_sub(1), spender: at })
    }

    fn single(&self) -> Result<PermitSingle, ConvertError> {
        let (expiration, nonce) = (time(self.last)?, time(0)?);
        let details = PermitDetails { token: self.token, amount: self.amount, expiration, nonce };
        Ok(PermitSingle { details, spender: self.spender, sigDeadline: U256::from(self.last) })
    }

    /// What is hashed and signed (EIP-712).
    ///
    /// # Errors
    /// [`ConvertError`] for a time that no contract holds.
    pub fn preimage(&self) -> Result<[u8; 66], ConvertError> {
        Ok(eip712::preimage(&self.single()?, &self.verified_by.domain()))
    }

    /// The digest that is signed.
    ///
    /// # Errors
    /// As [`Grant::preimage`].
    pub fn digest(&self) -> Result<B256, ConvertError> {
        Ok(keccak256(self.preimage()?))
    }

    /// The typed data, as wallets take it, with addresses in this form.
    pub fn render(&self, form: &AddressForm) -> Value {
        let account = |address: Address| Value::from((form.write)(address));
        json!({
            "types": render_types(&[("PermitSingle", SINGLE), ("PermitDetails", DETAILS)], permit2::DOMAIN),
            "primaryType": "PermitSingle",
            "domain": {
                "name": permit2::NAME,
                "chainId": self.verified_by.chain_id,
                "verifyingContract": account(self.verified_by.address),
            },
            "message": {
                "details": {
                    "token": account(self.token),
                    "amount": self.amount.to_string(),
                    "expiration": self.last.to_string(),
                    "nonce": "0",
                },
                "spender": account(self.spender),
                "sigDeadline": self.last.to_string(),
            },
        })
    }
}

/// The domain of the contract.
fn domain(deployed: Deployed) -> Eip712Domain {
    eip712_domain! { name: NAME, version: VERSION, chain_id: deployed.chain_id, verifying_contract: deployed.address, }
}

fn rendered_domain(chain_id: u64, contract: Value) -> Value {
    json!({"name": NAME, "version": VERSION, "chainId": chain_id, "verifyingContract": contract})
}

/// What a payer signs who has somebody else bring the end of a mandate to the contract: typed data, with addresses in this form.
pub fn cancellation(contract: Deployed, at: Address, form: &AddressForm) -> (Value, B256) {
    let typed = json!({
        "types": render_types(&[("Cancellation", CANCELLATION)], DOMAIN),
        "primaryType": "Cancellation",
        "domain": rendered_domain(contract.chain_id, (form.write)(contract.address).into()),
        "message": {"mandate": (form.write)(at)},
    });
    (typed, eip712::digest(&Cancellation { mandate: at }, &domain(contract)))
}

/// The values of what a merchant signs for one payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChargeMessage {
    /// EIP-155 id of the domain's chain.
    pub chain_id: U256,
    /// The contract, which verifies the message.
    pub contract: Address,
    /// The mandate's address.
    pub mandate: Address,
    /// The payment's id on chain.
    pub payment_id: B256,
    /// What is delivered, smallest unit of the asset that is delivered.
    pub fulfillment_amount: U256,
    /// What is drawn, smallest unit; at most 160 bits.
    pub amount: U256,
    /// Who admits the deposit.
    pub reserver: Address,
    /// Last second of the deposit, UNIX.
    pub reserve_deadline: u64,
    /// Last second of the delivery.
    pub fulfillment_deadline: u64,
    /// First second of the refund.
    pub refund_after: u64,
}

impl ChargeMessage {
    /// What is hashed and signed (EIP-712).
    ///
    /// # Errors
    /// [`ConvertError`] for what fits no contract.
    pub fn preimage(&self) -> Result<[u8; 66], ConvertError> {
        // A chain id above 64 bits is refused before any digest is made.
        let chain_id = u64::try_from(self.chain_id).unwrap_or_default();
        let message = Charge {
            mandate: self.mandate,
            paymentId: self.payment_id,
            fulfillmentAmount: self.fulfillment_amount,
            amount: narrow(self.amount)?,
            reserver: self.reserver,
            reserveDeadline: time(self.reserve_deadline)?,
            fulfillmentDeadline: time(self.fulfillment_deadline)?,
            refundAfter: time(self.refund_after)?,
        };
        Ok(eip712::preimage(&message, &domain(Deployed { chain_id, address: self.contract })))
    }

    /// The digest that is signed.
    ///
    /// # Errors
    /// As [`ChargeMessage::preimage`].
    pub fn digest(&self) -> Result<B256, ConvertError> {
        Ok(keccak256(self.preimage()?))
    }

    /// The typed data, as wallets take it, with addresses in this form.
    pub fn render(&self, form: &AddressForm) -> Value {
        let account = |address: Address| Value::from((form.write)(address));
        json!({
            "types": render_types(&[("Charge", CHARGE)], DOMAIN),
            "primaryType": "Charge",
            "domain": rendered_domain(u64::try_from(self.chain_id).unwrap_or_default(), account(self.contract)),
            "message": {
                "mandate": account(self.mandate),
                "paymentId": self.payment_id.to_string(),
                "fulfillmentAmount": self.fulfillment_amount.to_string(),
                "amount": self.amount.to_string(),
                "reserver": account(self.reserver),
                "reserveDeadline": self.reserve_deadline.to_string(),
                "fulfillmentDeadline": self.fulfillment_deadline.to_string(),
                "refundAfter": self.refund_after.to_string(),
            },
        })
    }

    /// Reads what [`ChargeMessage::render`] writes.
    ///
    /// # Errors
    /// [`FieldError`], naming the member.
    pub fn read(whole: &Object<'_>) -> Result<Self, FieldError> {
        equal("primaryType", "Charge", whole.text("primaryType")?)?;
        check_types(&[("Charge", CHARGE)], DOMAIN, whole)?;
        let domain = whole.within("domain", "domain", DOMAIN)?;
        equal("domain.name", NAME, domain.text("name")?)?;
        equal("domain.version", VERSION, domain.text("version")?)?;
        let message = whole.within("message", "message", CHARGE)?;
        let seconds = |name| message.time(name).map(super::contracts::seconds);
        Ok(Self {
            chain_id: domain.uint("chainId")?,
            contract: domain.address("verifyingContract")?,
            mandate: message.address("mandate")?,
            payment_id: message.word("paymentId")?,
            fulfillment_amount: message.uint("fulfillmentAmount")?,
            amount: message.uint("amount")?,
            reserver: message.address("reserver")?,
            reserve_deadline: seconds("reserveDeadline")?,
            fulfillment_deadline: seconds("fulfillmentDeadline")?,
            refund_after: seconds("refundAfter")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::typed_data::{HEX, parse};

    fn message() -> ChargeMessage {
        let token = |n: u8| Address::repeat_byte(n);
        ChargeMessage {
            chain_id: U256::from(1),
            contract: token(9),
            mandate: token(1),
            payment_id: B256::repeat_byte(5),
            fulfillment_amount: U256::MAX,
            amount: U256::from(7),
            reserver: token(3),
            reserve_deadline: 1_800_000_000,
            fulfillment_deadline: 1_800_000_100,
            refund_after: 1_800_000_200,
        }
    }

    #[test]
    fn typed_data_is_read_as_it_is_written_and_only_so() {
        let written = message().render(&HEX);
        let read = |value: &Value| {
            let text = value.to_string();
            let parsed = parse(&text).unwrap();
            Object::typed_data(&parsed, &HEX).and_then(|whole| ChargeMessage::read(&whole))
        };
        assert_eq!(read(&written), Ok(message()));
        let altered = |path: &str, to: Value| {
            let mut other = written.clone();
            *other.pointer_mut(path).unwrap() = to;
            read(&other).unwrap_err().to_string()
        };
        assert!(altered("/primaryType", json!("Cancellation")).starts_with("primaryType"));
        assert!(altered("/domain/name", json!("GatewayEscrow")).starts_with("domain.name"));
        assert!(altered("/domain/version", json!("2")).starts_with("domain.version"));
        assert!(altered("/message/mandate", json!("0x")).starts_with("message.mandate"));
        assert!(altered("/message/refundAfter", json!("281474976710656")).starts_with("message.refundAfter"));
        assert!(message().preimage().is_ok());
        let much = ChargeMessage { amount: U256::from(U160::MAX) + U256::from(1), ..message() };
        assert!(matches!(much.preimage(), Err(ConvertError::Amount(_))));
    }

    fn mandate(amount: &str, begins: u64, period_seconds: u32, periods: u32) -> Mandate {
        let merchant = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed".parse().unwrap();
        let amount = amount.parse().unwrap();
        let salt = events::Hash32::ZERO;
        Mandate { merchant, amount, least: None, begins, period_seconds, periods, lock_seconds: 60, salt }
    }

    #[test]
    fn periods_begin_and_end_to_the_second_and_nothing_is_carried_over() {
        let three = mandate("10", 1_000, 100, 3);
        let used =
            |period, amount: u64, cancelled| Mandates::usedReturn { period, amount: U160::from(amount), cancelled };
        for (now, runs, left_now) in [
            (999, None, 0_u64),
            (1_000, Some(0), 6),
            (1_099, Some(0), 6),
            (1_100, Some(1), 10),
            (1_299, Some(2), 10),
            (1_300, None, 0),
        ] {
            assert_eq!(period(&three, now), runs, "{now}");
            assert_eq!(left(&three, &used(0, 4, false), now), U256::from(left_now), "{now}");
            assert_eq!(left(&three, &used(0, 4, true), now), U256::ZERO, "{now}");
        }
        assert_eq!(left(&three, &used(2, 10, false), 1_250), U256::ZERO);
        assert_eq!(ends(&three), 1_300);
    }

    #[test]
    fn what_is_delivered_is_at_least_in_proportion() {
        let amount = |text: &str| text.parse::<Amount>().unwrap();
        let bound = Mandate { least: Some(amount("95")), ..mandate("100", 1_000, 100, 3) };
        let most = amount(&U256::MAX.to_string());
        for (delivered, drawn, enough) in
            [("95", "100", true), ("94", "100", false), ("19", "20", true), ("18", "20", false)]
        {
            assert_eq!(delivers_enough(&bound, amount(delivered), amount(drawn)), enough, "{delivered} for {drawn}");
        }
        assert!(delivers_enough(&mandate("100", 1_000, 100, 3), amount("1"), amount("100")));
        assert!(!delivers_enough(&bound, most, amount("1")));
    }

    #[test]
    fn a_mandate_that_the_contract_has_no_address_for_breaks_a_rule() {
        assert_eq!(broken_rule(&mandate("10", 1_000, 100, 3)), None);
        assert!(broken_rule(&mandate("10", 1_000, 0, 3)).is_some());
        assert!(broken_rule(&mandate("10", 1_000, 100, 0)).is_some());
        let most = (U256::from(U160::MAX) - U256::from(1)).to_string();
        assert_eq!(broken_rule(&mandate(&most, 1_000, 100, 1)), None);
        assert!(broken_rule(&mandate(&U160::MAX.to_string(), 1_000, 100, 1)).is_some());
        assert!(broken_rule(&mandate(&most, 1_000, 100, 2)).is_some());
        assert!(broken_rule(&mandate("10", (1 << 48) - 300, 100, 3)).is_some());
        assert_eq!(broken_rule(&mandate("10", (1 << 48) - 301, 100, 3)), None);
    }
}
