//! Payout claims: which payouts of an escrow's end became claims, on all chains whose contracts are the Solidity ones.

use alloy::{
    primitives::{Address, B256, Log},
    sol_types::SolEventInterface,
};

use events::{Account, Amount, event::Claim};

use super::contracts::GatewayEscrow::{self, GatewayEscrowEvents};

/// The claims that the end of the payment `id` left in `escrow`, by the logs of its transaction in their order; `None` when the
/// payment does not end there. `account` is the account of the chain's family that has an address.
///
/// The escrow tells an end first and its payouts after it, and lets nobody in meanwhile. So a claim belongs to the end before
/// it, however many payments' ends a stranger puts into one transaction.
pub fn of_end<'a>(
    logs: impl IntoIterator<Item = &'a Log>,
    escrow: Address,
    id: B256,
    account: fn(Address) -> Option<Account>,
) -> Option<Vec<Claim>> {
    let mut claims = None;
    let mut is_ours = false;
    for log in logs.into_iter().filter(|log| log.address == escrow) {
        let Ok(event) = GatewayEscrowEvents::decode_log(log) else { continue };
        match event.data {
            GatewayEscrowEvents::Released(GatewayEscrow::Released { paymentId, .. })
            | GatewayEscrowEvents::Refunded(GatewayEscrow::Refunded { paymentId, .. }) => {
                is_ours = paymentId == id;
                if is_ours {
                    claims = Some(Vec::new());
                }
            }
            GatewayEscrowEvents::Claimable(claim) if is_ours => {
                let (owner, amount) = (account(claim.owner), Amount::new(claim.amount));
                let claim = owner.zip(amount).map(|(owner, amount)| Claim { owner, amount });
                claims.get_or_insert_default().extend(claim);
            }
            _ => {}
        }
    }
    claims
}

#[cfg(test)]
mod tests {
    use alloy::{primitives::U256, sol_types::SolEvent};
    use proptest::prelude::*;

    use super::*;
    use crate::contracts::account;

    const ESCROW: Address = Address::repeat_byte(1);
    const TOKEN: Address = Address::repeat_byte(2);

    fn log(event: &impl SolEvent) -> Log {
        Log { address: ESCROW, data: event.encode_log_data() }
    }

    fn end(payment: u8, is_release: bool) -> Log {
        let (id, quote, who) = (B256::repeat_byte(payment), B256::ZERO, Address::repeat_byte(3));
        let amount = U256::from(9);
        match is_release {
            true => log(&GatewayEscrow::Released {
                paymentId: id,
                quoteHash: quote,
                settler: who,
                amount,
                remainder: U256::ZERO,
            }),
            false => log(&GatewayEscrow::Refunded { paymentId: id, quoteHash: quote, payer: who, amount }),
        }
    }

    fn claimable(owner: u8, amount: u64) -> Log {
        let (owner, amount) = (Address::repeat_byte(owner), U256::from(amount));
        log(&GatewayEscrow::Claimable { owner, token: TOKEN, amount })
    }

    fn claim(owner: u8, amount: u64) -> Claim {
        Claim { owner: account(Address::repeat_byte(owner)).unwrap(), amount: amount.to_string().parse().unwrap() }
    }

    /// What else is logged in between: by others, and of debts.
    fn noise() -> Vec<Log> {
        let owner = Address::repeat_byte(8);
        let (amount, paid) = (U256::from(5), U256::from(4));
        vec![
            Log { address: TOKEN, ..claimable(8, 5) },
            log(&GatewayEscrow::Shortfall { owner, token: TOKEN, amount, paid }),
            log(&GatewayEscrow::Claimed { owner, token: TOKEN, to: owner, amount }),
        ]
    }

    proptest! {
        /// A stranger may put any payments' ends into one transaction, in any order: each has its own claims and no other's.
        #[test]
        fn a_claim_belongs_to_the_end_before_it(
            ends in proptest::collection::btree_map(
                10u8..200,
                (any::<bool>(), proptest::collection::vec((1u8..250, 1u64..1_000), 0..3), any::<bool>()),
                0..6,
            ),
        ) {
            let mut logs = Vec::new();
            for (payment, (is_release, claims, is_noisy)) in &ends {
                logs.push(end(*payment, *is_release));
                for (owner, amount) in claims {
                    if *is_noisy {
                        logs.extend(noise());
                    }
                    logs.push(claimable(*owner, *amount));
                }
            }
            for (payment, (_, claims, _)) in &ends {
                let expected: Vec<_> = claims.iter().map(|(owner, amount)| claim(*owner, *amount)).collect();
                prop_assert_eq!(of_end(&logs, ESCROW, B256::repeat_byte(*payment), account), Some(expected));
            }
            prop_assert_eq!(of_end(&logs, ESCROW, B256::repeat_byte(201), account), None);
            prop_assert_eq!(of_end(&logs, TOKEN, B256::repeat_byte(10), account), None);
        }
    }
}
