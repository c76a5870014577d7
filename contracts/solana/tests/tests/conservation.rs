//! Random sequences of everything that anyone can do: no token appears, vanishes or goes to anybody but settler or payer, whether the payer
//! signed for it, it came to the payment's address, or a buyer paid it to the address of an offer.

use gateway_program::{account::State, host, rules::RECLAIM_DELAY_SECONDS};
use gateway_program_tests::{Addressed, MintKind, Offered, Payment, World, key};
use proptest::prelude::*;

const PAYMENTS: usize = 3;

/// One operation on one of the payments, by whoever may.
#[derive(Clone, Debug)]
enum Operation {
    Deposit { amount: u64, allowance: u64 },
    Receive { amount: u64 },
    DepositFromAddress { amount: u64, asked: u64 },
    GiveBack,
    Buy { amount: u64 },
    DepositFromOffer { amount: u64, asked: u64 },
    Collect { amount: u64, by_reserver: bool },
    Release,
    Cancel,
    Refund,
    Reclaim,
    Reassign { amount: u64 },
    ReturnRemainder,
    Gift { amount: u64 },
    Wait { seconds: u64 },
}

fn operation() -> impl Strategy<Value = (usize, Operation)> {
    let operation = prop_oneof![
        4 => (0_u64..400, 0_u64..400).prop_map(|(amount, allowance)| Operation::Deposit { amount, allowance }),
        4 => (0_u64..500).prop_map(|amount| Operation::Receive { amount }),
        3 => (290_u64..600, 0_u64..310).prop_map(|(amount, asked)| Operation::DepositFromAddress { amount, asked }),
        2 => Just(Operation::GiveBack),
        4 => (0_u64..500).prop_map(|amount| Operation::Buy { amount }),
        3 => (299_u64..302, 0_u64..310).prop_map(|(amount, asked)| Operation::DepositFromOffer { amount, asked }),
        2 => (0_u64..200, any::<bool>()).prop_map(|(amount, by_reserver)| Operation::Collect { amount, by_reserver }),
        2 => Just(Operation::Release),
        2 => Just(Operation::Cancel),
        2 => Just(Operation::Refund),
        1 => Just(Operation::Reclaim),
        2 => (0_u64..400).prop_map(|amount| Operation::Reassign { amount }),
        1 => Just(Operation::ReturnRemainder),
        1 => (1_u64..10).prop_map(|amount| Operation::Gift { amount }),
        2 => prop_oneof![Just(30_u64), Just(301), Just(3_600), Just(RECLAIM_DELAY_SECONDS)].prop_map(|seconds| Operation::Wait { seconds }),
    ];
    (0..PAYMENTS, operation)
}

/// What the balances and states should be.
#[derive(Default)]
struct Expected {
    at_address: [u64; PAYMENTS],
    /// All payments are of one offer.
    at_offer: u64,
    locked: [u64; PAYMENTS],
    deposited: [u64; PAYMENTS],
    asked: [u64; PAYMENTS],
    ended: [Option<State>; PAYMENTS],
    to_settler: u64,
    from_payer: u64,
    /// What strangers gave, as far as it is on its way to the payer.
    gifts: u64,
}

impl Expected {
    /// While it is reserved, and after a release that left the payer something.
    fn has_vault(&self, index: usize) -> bool {
        self.ended[index] == Some(State::Reserved) || self.locked[index] > 0
    }
}

fn total(world: &World, payments: &[Payment]) -> u64 {
    let first = &payments[0];
    let people = [key(&world.payer), key(&world.settler), key(&world.third_party)];
    people.iter().map(|wallet| world.tokens(&first.token_of(wallet))).sum::<u64>()
        + payments.iter().map(|payment| world.tokens(&payment.vault(world))).sum::<u64>()
        + payments.iter().map(|payment| world.tokens(&Addressed::of(payment.clone()).tokens(world))).sum::<u64>()
        + world.tokens(&Offered::of(first).tokens(world))
}

fn run(kind: MintKind, operations: Vec<(usize, Operation)>) {
    let mut world = World::new();
    let first = Payment::new(&mut world, kind);
    let third_party_tokens = world.mint_to(&first.accounts.mint, &key(&world.third_party), 20_000);
    let mut payments: Vec<Payment> = (0..PAYMENTS).map(|_| first.clone()).collect();
    for (index, payment) in payments.iter_mut().enumerate() {
        payment.data.payment_id = [index as u8 + 1; 32];
        payment.data.refund_after = world.now + 3_600;
    }
    let (payer, third_party) = (world.payer.insecure_clone(), world.third_party.insecure_clone());
    let all = total(&world, &payments);
    let mut expected = Expected::default();
    for (index, operation) in operations {
        let payment = &mut payments[index];
        match operation {
            Operation::Deposit { amount, allowance } => {
                world.approve(&payer, &payment.accounts.mint, &key(&payer), allowance);
                payment.data.source_amount = amount;
                if payment.deposit(&mut world).is_ok() {
                    assert!(amount > 0 && amount <= allowance.min(300) && expected.ended[index].is_none());
                    expected.locked[index] = amount;
                    expected.from_payer += amount;
                    expected.ended[index] = Some(State::Reserved);
                    expected.deposited[index] = amount;
                    expected.asked[index] = amount;
                }
            }
            Operation::Receive { amount } => {
                Addressed::of(payment.clone()).send(&mut world, amount);
                expected.at_address[index] += amount;
            }
            Operation::DepositFromAddress { amount, asked } => {
                payment.data.source_amount = asked;
                let addressed = Addressed { deposited: amount, ..Addressed::of(payment.clone()) };
                if addressed.deposit(&mut world).is_ok() {
                    assert!((300..=expected.at_address[index]).contains(&amount) && (1..=300).contains(&asked));
                    assert!(expected.ended[index].is_none() && world.now <= payment.data.reserve_deadline);
                    expected.at_address[index] -= amount;
                    expected.locked[index] = amount;
                    // It was never the payer's, and is when it comes out.
                    expected.from_payer += amount;
                    expected.gifts += amount;
                    expected.ended[index] = Some(State::Reserved);
                    expected.deposited[index] = amount;
                    expected.asked[index] = asked;
                }
            }
            Operation::GiveBack => {
                if Addressed::of(payment.clone()).return_by_anyone(&mut world).is_ok() {
                    assert!(expected.ended[index].is_some() || world.now > payment.data.reserve_deadline);
                    expected.gifts += std::mem::take(&mut expected.at_address[index]);
                }
            }
            Operation::Buy { amount } => {
                Offered::of(payment).send(&mut world, amount);
                expected.at_offer += amount;
            }
            Operation::DepositFromOffer { amount, asked } => {
                payment.data.source_amount = asked;
                let mut offered = Offered::of(payment);
                offered.reservation.deposited = amount;
                if offered.deposit(&mut world).is_ok() {
                    assert!(amount == 300 && amount <= expected.at_offer && (1..=300).contains(&asked));
                    assert!(expected.ended[index].is_none() && world.now <= payment.data.reserve_deadline);
                    expected.at_offer -= amount;
                    expected.locked[index] = amount;
                    // It was never the merchant's, and is when it comes out.
                    expected.from_payer += amount;
                    expected.gifts += amount;
                    expected.ended[index] = Some(State::Reserved);
                    expected.deposited[index] = amount;
                    expected.asked[index] = asked;
                }
            }
            Operation::Collect { amount, by_reserver } => {
                let offered = Offered::of(payment);
                let authority = if by_reserver { &world.reserver } else { &payer }.insecure_clone();
                let collect = offered.collect(&world, &key(&authority), amount);
                let submitter = world.submitter.insecure_clone();
                let done = world.send(&[collect], &[&submitter, &authority]);
                assert_eq!(done.is_ok(), (1..=expected.at_offer).contains(&amount));
                if done.is_ok() {
                    expected.at_offer -= amount;
                    expected.gifts += amount;
                }
            }
            Operation::Reassign { amount } => {
                let mut to = payment.next(&world);
                to.quote_hash = [payment.data.quote_hash[0].wrapping_add(1); 32];
                to.settler = payment.data.settler;
                to.source_amount = amount;
                let over = world.now > payment.data.fulfill_by && world.now < payment.data.fulfillment_deadline;
                to.fulfill_by = to.fulfill_by.min(payment.data.fulfillment_deadline);
                let instructions = payment.reassign(&world, &to);
                if payment.submit(&mut world, &instructions).is_ok() {
                    assert_eq!(expected.ended[index], Some(State::Reserved));
                    assert!(over && amount > 0 && amount <= expected.deposited[index]);
                    *payment = payment.reassigned(&to);
                    expected.asked[index] = amount;
                }
            }
            Operation::ReturnRemainder => {
                let remainder = payment.return_remainder(&world);
                if world.send(&[remainder], &[&third_party]).is_ok() {
                    assert_eq!(expected.ended[index], Some(State::Released));
                    let left = std::mem::take(&mut expected.locked[index]);
                    assert!(left >= expected.deposited[index] - expected.asked[index] && left > 0);
                    expected.from_payer -= left;
                }
            }
            Operation::Release => {
                let instructions = payment.release(&world);
                if world.send(&instructions, &[&third_party]).is_ok() {
                    assert_eq!(expected.ended[index], Some(State::Reserved));
                    assert!(world.now < payment.data.refund_after);
                    let left = expected.deposited[index] - expected.asked[index];
                    expected.to_settler += std::mem::replace(&mut expected.locked[index], left) - left;
                    expected.ended[index] = Some(State::Released);
                }
            }
            Operation::Cancel | Operation::Refund => {
                let early = matches!(operation, Operation::Cancel);
                let instructions = if early { payment.cancel(&world).to_vec() } else { vec![payment.refund(&world)] };
                if world.send(&instructions, &[&third_party]).is_ok() {
                    assert_eq!(expected.ended[index], Some(State::Reserved));
                    assert_eq!(early, world.now < payment.data.refund_after);
                    expected.from_payer -= std::mem::take(&mut expected.locked[index]);
                    expected.ended[index] = Some(State::Refunded);
                }
            }
            Operation::Reclaim => {
                let reclaim = host::reclaim_escrow(&world.program, &payment.data.payment_id, key(&world.submitter));
                if world.send(&[reclaim], &[&third_party]).is_ok() {
                    assert!(matches!(expected.ended[index], Some(State::Released | State::Refunded)));
                    assert!(world.now >= payment.data.refund_after + RECLAIM_DELAY_SECONDS);
                    // Gone, and no deposit of these terms can follow.
                    assert!(payment.deposit(&mut world).is_err());
                    assert!(Addressed::of(payment.clone()).deposit(&mut world).is_err());
                    assert!(Offered::of(payment).deposit(&mut world).is_err());
                }
            }
            Operation::Gift { amount } => {
                let meta = |key, signer, writable| host::AccountMeta { key, signer, writable };
                let gift = host::Instruction {
                    program_id: kind.program(),
                    accounts: vec![
                        meta(third_party_tokens, false, true),
                        meta(payment.vault(&world), false, true),
                        meta(key(&third_party), true, false),
                    ],
                    data: [&[3][..], &amount.to_le_bytes()].concat(),
                };
                if world.send(&[gift], &[&third_party]).is_ok() {
                    assert!(expected.has_vault(index), "only an open vault is there");
                    // It goes the way of the deposit.
                    expected.locked[index] += amount;
                    expected.from_payer += amount;
                    expected.gifts += amount;
                }
            }
            Operation::Wait { seconds } => world.set_time(world.now + seconds),
        }
        check(&world, &payments, &expected, all);
    }
}

fn check(world: &World, payments: &[Payment], expected: &Expected, all: u64) {
    assert_eq!(total(world, payments), all, "tokens appeared or vanished");
    let first = &payments[0];
    assert_eq!(world.tokens(&first.token_of(&key(&world.settler))), expected.to_settler);
    let payers = world.tokens(&first.accounts.payer_token);
    assert_eq!(payers + expected.from_payer, 1_000 + expected.gifts);
    assert_eq!(world.tokens(&Offered::of(first).tokens(world)), expected.at_offer);
    for (index, payment) in payments.iter().enumerate() {
        let open = expected.has_vault(index);
        assert_eq!(world.account(&payment.vault(world)).is_some(), open, "a vault is there while money is in it");
        assert_eq!(world.tokens(&payment.vault(world)), expected.locked[index]);
        assert_eq!(world.tokens(&Addressed::of(payment.clone()).tokens(world)), expected.at_address[index]);
        if let Some(escrow) = world.escrow(&payment.data.payment_id) {
            assert_eq!(escrow.state(), expected.ended[index]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_makes_or_loses_money(
        operations in prop::collection::vec(operation(), 1..28),
        token_2022 in any::<bool>(),
    ) {
        run(if token_2022 { MintKind::Token2022(&[]) } else { MintKind::Token }, operations);
    }
}
