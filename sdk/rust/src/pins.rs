//! Pins: what a payer knows by itself, and the limits within which it lets a gateway choose.

use std::time::Duration;

use ruint::aliases::U256;

use events::{Account, ChainId, Family, OwnedAsset};

use crate::{answers::Corridor, error::Mismatch, order::Order};

/// Where Uniswap deployed Permit2 on every chain but few.
pub const PERMIT2: &str = "0x000000000022d473030f116ddee9f6b43ac78ba3";
/// Where SUN.io deployed its Permit2 on Tron, whose chain this is.
pub const TRON_PERMIT2: (&str, &str) = ("tron:728126428", "TTJxU3P8rHycAyFY4kVtGNfmnMH4ezcuM9");
const LOCK_MAX: Duration = Duration::from_secs(2 * 60 * 60);

/// What a payer demands of whatever a gateway names. What is not pinned is the gateway's word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pins {
    /// The escrow that holds the money.
    pub escrow: Option<Account>,
    /// Who can reserve the money for a settler.
    pub reserver: Option<Account>,
    /// Who can say that the delivery was made: a verifier's account, or what [`crate::releaser`] makes of a set.
    pub releaser: Option<Account>,
    /// The only contract that is given an allowance on EVM chains. No gateway names it alone. On Tron the one that payers sign for who
    /// gave it an allowance; where a gateway names another there, they sign transactions. See [`Pins::permit2_on`].
    pub permit2: Option<Account>,
    /// On Tron, the contract that makes deposit addresses, their factory: each network has it elsewhere, and another one may do
    /// anything with what comes to its addresses. On EVM chains it is this version's, and on Solana the escrow's program, pinned or not.
    pub deposit_address_factory: Option<Account>,
    /// The longest that money may be locked, from now to the refund window; of a mandate, each time that its merchant asks.
    pub lock_max: Duration,
    /// The most that one transaction of the payer's own may cost, in the smallest unit of its chain's coin; by default
    /// [`fee_max`].
    pub fee_max: Option<U256>,
}

impl Default for Pins {
    fn default() -> Self {
        Self {
            escrow: None,
            reserver: None,
            releaser: None,
            permit2: None,
            deposit_address_factory: None,
            lock_max: LOCK_MAX,
            fee_max: None,
        }
    }
}

/// What a transaction may cost at most where nobody says otherwise: 0.01 ETH, 0.01 SOL, 300 TRX.
pub fn fee_max(family: Family) -> U256 {
    match family {
        Family::Evm => U256::from(10_u64.pow(16)),
        Family::Solana => U256::from(10_000_000),
        Family::Tron => U256::from(300_000_000),
    }
}

impl Pins {
    /// What a transaction on a chain of this family may cost at most.
    pub fn fee_max(&self, family: Family) -> U256 {
        self.fee_max.unwrap_or_else(|| fee_max(family))
    }

    /// Permit2 on a chain as the payer has it: the one that is pinned, of which nothing follows for chains of another family, else
    /// [`PERMIT2`] on EVM chains and [`TRON_PERMIT2`] on its chain. `None` where there is none.
    pub fn permit2_on(&self, chain: &ChainId) -> Option<Account> {
        let family = chain.family()?;
        if let Some(pin) = self.permit2.as_ref().filter(|pin| pin.family() == family) {
            return Some(pin.clone());
        }
        let (tron, on_tron) = TRON_PERMIT2;
        match family {
            Family::Evm => PERMIT2.parse().ok(),
            Family::Tron if chain.as_str() == tron => on_tron.parse().ok(),
            Family::Tron | Family::Solana => None,
        }
    }

    /// Compares the Permit2 that a gateway names for a chain with the payer's.
    ///
    /// # Errors
    /// [`Mismatch`].
    pub(crate) fn check_permit2(&self, chain: &ChainId, named: Option<&Account>) -> Result<(), Mismatch> {
        let pin = self.permit2_on(chain);
        if pin.as_ref() == named {
            return Ok(());
        }
        let text = |account: Option<&Account>| account.map_or_else(|| "none".to_owned(), ToString::to_string);
        Err(Mismatch::new("permit2", text(pin.as_ref()), text(named)))
    }

    /// What of a corridor rests on nothing but the gateway's word: name and account. Of a payment by deposit address
    /// `deposit_address::Demand::believed` says it.
    pub fn believed<'a>(&self, corridor: &'a Corridor) -> Vec<(&'static str, &'a Account)> {
        let named = &corridor.source;
        let all = [
            ("escrow", &self.escrow, &named.escrow_contract_address),
            ("reserver", &self.reserver, &named.reserver),
            ("releaser", &self.releaser, &named.releaser),
        ];
        all.into_iter().filter(|(_, pin, _)| pin.is_none()).map(|(name, _, account)| (name, account)).collect()
    }

    /// Compares what the gateway names for an order with the pins. `now` is in UNIX seconds.
    ///
    /// # Errors
    /// [`Mismatch`], naming the first that differs.
    pub fn check(&self, order: &Order, corridor: &Corridor, now: u64) -> Result<(), Mismatch> {
        self.check_named(&order.source, corridor)?;
        self.check_lock(order, corridor, now)
    }

    /// Compares contracts and accounts on the chain that `source` is on.
    ///
    /// # Errors
    /// [`Mismatch`].
    pub(crate) fn check_named(&self, source: &OwnedAsset, corridor: &Corridor) -> Result<(), Mismatch> {
        let named = &corridor.source;
        for (name, pin, account) in [
            ("escrow", &self.escrow, &named.escrow_contract_address),
            ("reserver", &self.reserver, &named.reserver),
            ("releaser", &self.releaser, &named.releaser),
        ] {
            if let Some(pin) = pin.as_ref().filter(|pin| *pin != account) {
                return Err(Mismatch::new(name, pin, account));
            }
        }
        if let Some(shown) = &named.fulfillment_verifier {
            shown.check(&named.releaser)?;
        }
        if source.family() == Family::Evm {
            self.check_permit2(source.asset().chain(), named.permit2.as_ref())?;
        }
        Ok(())
    }

    /// Compares how long the order's money may be locked.
    ///
    /// # Errors
    /// [`Mismatch`].
    pub(crate) fn check_lock(&self, order: &Order, corridor: &Corridor, now: u64) -> Result<(), Mismatch> {
        let refund_after = order.fulfillment_seconds().saturating_add(corridor.refund_delay_seconds);
        let (locked, most) = (refund_after.saturating_sub(now), self.lock_max.as_secs());
        if locked > most {
            return Err(Mismatch::new(
                "the time that money is locked",
                format!("at most {most} s"),
                format!("{locked} s"),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use events::{OwnedAsset, VerifierMember, time::from_unix_seconds};
    use serde_json::json;

    use super::*;
    #[cfg(feature = "evm")]
    use crate::mandate_order::MandateOrder;
    use crate::{order::Windows, verifiers::releaser};

    pub(crate) const NOW: u64 = 1_800_000_000;

    pub(crate) fn account(digit: u8) -> Account {
        format!("0x{}", format!("{digit:x}").repeat(40)).parse().unwrap()
    }

    pub(crate) fn corridor() -> Corridor {
        let source = json!({
            "escrow_contract_address": account(1),
            "reserver": account(2),
            "releaser": account(3),
            "permit2": PERMIT2,
            "refund_delay_seconds": 900,
            "assets": [],
        });
        Corridor {
            source: serde_json::from_value(source).unwrap(),
            refund_delay_seconds: 900,
            destinations: Vec::new(),
        }
    }

    pub(crate) fn order(payer: &str) -> Order {
        let owned = |asset: &str| OwnedAsset::new(asset.parse().unwrap(), payer).unwrap();
        Order::new(
            owned("eip155:1/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48"),
            vec![owned("eip155:10/slip44:60")],
            "100".parse().unwrap(),
            Some("110".parse().unwrap()),
            from_unix_seconds(NOW).unwrap(),
            Windows::default(),
        )
    }

    /// A mandate for one such order in each of twelve days.
    #[cfg(feature = "evm")]
    pub(crate) fn mandate_order(payer: &str, merchant: &Account) -> MandateOrder {
        let Order { source, destination, fulfillment_amount, .. } = order(payer);
        MandateOrder {
            source,
            destination,
            merchant: merchant.clone(),
            amount: "110".parse().unwrap(),
            least: Some(fulfillment_amount),
            begins: NOW,
            period_seconds: 86_400,
            periods: 12,
            lock_seconds: 3_600,
        }
    }

    #[test]
    fn verifiers_that_are_shown_are_those_of_the_releaser() {
        let (mut corridor, order) = (corridor(), order(account(9).as_str()));
        let members = [4, 5].map(|digit| VerifierMember { account: account(digit), endpoint: String::new() });
        let set = releaser(2, &members).unwrap();
        let shown = json!({"account": set, "endpoint": "https://v1.example", "threshold": 2, "members": members});
        corridor.source.fulfillment_verifier = serde_json::from_value(shown).unwrap();
        let refused = Pins::default().check(&order, &corridor, NOW).unwrap_err();
        assert_eq!((refused.field.as_str(), refused.expected.as_str()), ("the releaser", set.as_str()));
        corridor.source.releaser = set.clone();
        let pinned = Pins { releaser: Some(set), ..Pins::default() };
        assert_eq!(pinned.check(&order, &corridor, NOW), Ok(()));
    }

    #[test]
    fn a_permit2_is_pinned_for_the_chains_of_its_own_family() {
        let (tron, on_tron) = TRON_PERMIT2;
        let (own, own_on_tron) = (account(8), "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t".parse::<Account>().unwrap());
        let nile = "tron:3448148188";
        for (pin, evm, on_main, on_nile) in [
            (None, PERMIT2, Some(on_tron), None),
            (Some(&own), own.as_str(), Some(on_tron), None),
            (Some(&own_on_tron), PERMIT2, Some(own_on_tron.as_str()), Some(own_on_tron.as_str())),
        ] {
            let pins = Pins { permit2: pin.cloned(), ..Pins::default() };
            let on = |chain: &str| pins.permit2_on(&chain.parse().unwrap());
            for (chain, expected) in [("eip155:1", Some(evm)), (tron, on_main), (nile, on_nile), ("solana:abc", None)] {
                assert_eq!(on(chain), expected.map(|text| text.parse().unwrap()), "{pin:?} on {chain}");
            }
        }
    }

    #[test]
    fn what_is_pinned_is_not_the_gateways_to_name() {
        let (corridor, order) = (corridor(), order(account(9).as_str()));
        let pinned = Pins {
            escrow: Some(account(1)),
            reserver: Some(account(2)),
            releaser: Some(account(3)),
            ..Pins::default()
        };
        assert_eq!(pinned.check(&order, &corridor, NOW), Ok(()));
        assert_eq!(pinned.believed(&corridor), []);
        assert_eq!(Pins::default().believed(&corridor).len(), 3);
        type Change = fn(&mut Pins);
        let changes: [(&str, Change); 5] = [
            ("escrow", |pins| pins.escrow = Some(account(8))),
            ("reserver", |pins| pins.reserver = Some(account(8))),
            ("releaser", |pins| pins.releaser = Some(account(8))),
            ("permit2", |pins| pins.permit2 = Some(account(8))),
            ("the time that money is locked", |pins| pins.lock_max = Duration::from_secs(1_139)),
        ];
        for (field, change) in changes {
            let mut pins = pinned.clone();
            change(&mut pins);
            assert_eq!(pins.check(&order, &corridor, NOW).unwrap_err().field, field);
        }
        let exact = Pins { lock_max: Duration::from_secs(1_140), ..pinned };
        assert_eq!(exact.check(&order, &corridor, NOW), Ok(()));
    }
}
