//! Random sequences of everything that anyone can do: no token appears, vanishes or goes to anybody but settler or payer.

use gateway_program::{account::State, host, rules::RECLAIM_DELAY_SECONDS};
use gateway_program_tests::{MintKind, Payment, World, key};
use proptest::prelude::*;

const PAYMENTS: usize = 3;

/// One thing that somebody does, to one of the payments.
#[derive(Clone, Debug)]
enum Act {
    Deposit { amount: u64, allowance: u64 },
    Release,
    Cancel,
    Refund,
    Reclaim,
    Gift { amount: u64 },
    Wait { seconds: u64 },
}

fn act() -> impl Strategy<Value = (usize, Act)> {
    let act = prop_oneof![
        4 => (0_u64..400, 0_u64..400).prop_map(|(amount, allowance)| Act::Deposit { amount, allowance }),
        2 => Just(Act::Release),
        2 => Just(Act::Cancel),
        2 => Just(Act::Refund),
        1 => Just(Act::Reclaim),
        1 => (1_u64..10).prop_map(|amount| Act::Gift { amount }),
        2 => prop_oneof![Just(30_u64), Just(3_600), Just(RECLAIM_DELAY_SECONDS)].prop_map(|seconds| Act::Wait { seconds }),
    ];
    (0..PAYMENTS, act)
}

/// What the books should say.
#[derive(Default)]
struct Books {
    locked: [u64; PAYMENTS],
    ended: [Option<State>; PAYMENTS],
    to_settler: u64,
    from_payer: u64,
    gifts: u64,
}

fn total(world: &World, payments: &[Payment]) -> u64 {
    let first = &payments[0];
    let people = [key(&world.payer), key(&world.settler), key(&world.stranger)];
    people.iter().map(|wallet| world.tokens(&first.token_of(wallet))).sum::<u64>()
        + payments.iter().map(|payment| world.tokens(&payment.vault(world))).sum::<u64>()
}

fn run(kind: MintKind, acts: Vec<(usize, Act)>) {
    let mut world = World::new();
    let first = Payment::new(&mut world, kind);
    let strangers = world.mint_to(&first.accounts.mint, &key(&world.stranger), 500);
    let mut payments: Vec<Payment> = (0..PAYMENTS).map(|_| first.clone()).collect();
    for (index, payment) in payments.iter_mut().enumerate() {
        payment.data.payment_id = [index as u8 + 1; 32];
        payment.data.refund_after = world.now + 3_600;
    }
    let (payer, stranger) = (world.payer.insecure_clone(), world.stranger.insecure_clone());
    let all = total(&world, &payments);
    let mut books = Books::default();
    for (index, act) in acts {
        let payment = &mut payments[index];
        match act {
            Act::Deposit { amount, allowance } => {
                world.approve(&payer, &payment.accounts.mint, &key(&payer), allowance);
                payment.data.source_amount = amount;
                if payment.deposit(&mut world).is_ok() {
                    assert!(amount > 0 && amount <= allowance.min(300) && books.ended[index].is_none());
                    books.locked[index] = amount;
                    books.from_payer += amount;
                    books.ended[index] = Some(State::Reserved);
                }
            }
            Act::Release => {
                let instructions = payment.release(&world);
                if world.send(&instructions, &[&stranger]).is_ok() {
                    assert_eq!(books.ended[index], Some(State::Reserved));
                    assert!(world.now < payment.data.refund_after);
                    books.to_settler += std::mem::take(&mut books.locked[index]);
                    books.ended[index] = Some(State::Released);
                }
            }
            Act::Cancel | Act::Refund => {
                let early = matches!(act, Act::Cancel);
                let instructions = if early { payment.cancel(&world).to_vec() } else { vec![payment.refund(&world)] };
                if world.send(&instructions, &[&stranger]).is_ok() {
                    assert_eq!(books.ended[index], Some(State::Reserved));
                    assert_eq!(early, world.now < payment.data.refund_after);
                    books.from_payer -= std::mem::take(&mut books.locked[index]);
                    books.ended[index] = Some(State::Refunded);
                }
            }
            Act::Reclaim => {
                let reclaim = host::reclaim_escrow(&world.program, &payment.data.payment_id, key(&world.submitter));
                if world.send(&[reclaim], &[&stranger]).is_ok() {
                    assert!(matches!(books.ended[index], Some(State::Released | State::Refunded)));
                    assert!(world.now >= payment.data.refund_after + RECLAIM_DELAY_SECONDS);
                    // Gone, and no deposit of these terms can follow.
                    assert!(payment.deposit(&mut world).is_err());
                }
            }
            Act::Gift { amount } => {
                let meta = |key, signer, writable| host::AccountMeta { key, signer, writable };
                let gift = host::Instruction {
                    program_id: kind.program(),
                    accounts: vec![
                        meta(strangers, false, true),
                        meta(payment.vault(&world), false, true),
                        meta(key(&stranger), true, false),
                    ],
                    data: [&[3][..], &amount.to_le_bytes()].concat(),
                };
                if world.send(&[gift], &[&stranger]).is_ok() {
                    assert_eq!(books.ended[index], Some(State::Reserved), "only an open vault is there");
                    // It goes the way of the deposit.
                    books.locked[index] += amount;
                    books.from_payer += amount;
                    books.gifts += amount;
                }
            }
            Act::Wait { seconds } => world.set_time(world.now + seconds),
        }
        check(&world, &payments, &books, all);
    }
}

fn check(world: &World, payments: &[Payment], books: &Books, all: u64) {
    assert_eq!(total(world, payments), all, "tokens appeared or vanished");
    let first = &payments[0];
    assert_eq!(world.tokens(&first.token_of(&key(&world.settler))), books.to_settler);
    let payers = world.tokens(&first.accounts.payer_token);
    assert_eq!(payers + books.from_payer, 1_000 + books.gifts);
    for (index, payment) in payments.iter().enumerate() {
        let open = books.ended[index] == Some(State::Reserved);
        assert_eq!(world.account(&payment.vault(world)).is_some(), open, "a vault is there while money is in it");
        assert_eq!(world.tokens(&payment.vault(world)), books.locked[index]);
        if let Some(escrow) = world.escrow(&payment.data.payment_id) {
            assert_eq!(escrow.state(), books.ended[index]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_makes_or_loses_money(
        acts in prop::collection::vec(act(), 1..24),
        token_2022 in any::<bool>(),
    ) {
        run(if token_2022 { MintKind::Token2022(&[]) } else { MintKind::Token }, acts);
    }
}
