//! Deliveries: exact, in time, once; native SOL and tokens.

use gateway_program::{GatewayError, Key, host, ids, message::Fulfillment, rules::RECLAIM_DELAY_SECONDS};
use gateway_program_tests::{Extension, MintKind, Outcome, Payment, World, custom_code, key, keypair, refused};

fn ready(kind: MintKind) -> (World, Payment) {
    let mut world = World::new();
    let payment = Payment::new(&mut world, kind);
    let settler = key(&world.settler);
    world.mint_to(&payment.accounts.mint, &settler, 1_000);
    (world, payment)
}

fn recipient() -> Key {
    key(&keypair(70))
}

fn deliver_native(world: &mut World, delivery: &Fulfillment) -> Outcome {
    let settler = world.settler.insecure_clone();
    let fulfill = host::fulfill_native(&world.program, delivery);
    world.send(&[fulfill], &[&settler])
}

fn token_instruction(world: &World, payment: &Payment, delivery: &Fulfillment) -> host::Instruction {
    let from = payment.token_of(&delivery.settler);
    host::fulfill_token(&world.program, delivery, from, payment.accounts.token_program)
}

fn deliver_tokens(world: &mut World, payment: &Payment, delivery: &Fulfillment) -> Outcome {
    let settler = world.settler.insecure_clone();
    let accounts = &payment.accounts;
    let create =
        host::create_associated_token(key(&settler), &delivery.recipient, &accounts.mint, &accounts.token_program);
    let fulfill = token_instruction(world, payment, delivery);
    world.send(&[create, fulfill], &[&settler])
}

#[test]
fn native_coins_arrive_exactly_and_are_recorded() {
    let (mut world, payment) = ready(MintKind::Token);
    world.svm.warp_to_slot(99);
    world.set_time(world.now);
    let delivery = payment.fulfillment(&world, &recipient(), true);
    let settler_before = world.lamports(&delivery.settler);
    let done = deliver_native(&mut world, &delivery).unwrap();
    assert_eq!(world.lamports(&recipient()), delivery.amount);
    let record = world.record(&delivery).unwrap();
    assert_eq!((record.payment_id, record.quote_hash), (delivery.payment_id, delivery.quote_hash));
    assert_eq!((record.settler, record.mint, record.recipient), (delivery.settler, [0; 32], recipient()));
    assert_eq!((record.amount, record.fulfill_by, record.slot), (delivery.amount, delivery.fulfill_by, 99));
    let record_rent = world.svm.minimum_balance_for_rent_exemption(gateway_program::account::FulfillmentRecord::SIZE);
    assert_eq!(settler_before - world.lamports(&delivery.settler), delivery.amount + record_rent + done.fee);
}

#[test]
fn tokens_arrive_exactly_and_the_account_is_made() {
    for kind in [
        MintKind::Token,
        MintKind::Token2022(&[]),
        MintKind::Token2022(&[Extension::MetadataPointer, Extension::InterestBearing]),
    ] {
        let (mut world, payment) = ready(kind);
        let delivery = payment.fulfillment(&world, &recipient(), false);
        // Without its account the recipient cannot be paid.
        let settler = world.settler.insecure_clone();
        let alone = token_instruction(&world, &payment, &delivery);
        refused(world.send(&[alone], &[&settler]), GatewayError::TokenAccountInvalid);
        deliver_tokens(&mut world, &payment, &delivery).unwrap();
        assert_eq!(world.tokens(&payment.token_of(&recipient())), 200);
        assert_eq!(world.tokens(&payment.token_of(&delivery.settler)), 800);
        assert_eq!(world.record(&delivery).unwrap().amount, 200);
    }
}

#[test]
fn the_same_delivery_is_made_once() {
    let (mut world, payment) = ready(MintKind::Token);
    let native = payment.fulfillment(&world, &recipient(), true);
    deliver_native(&mut world, &native).unwrap();
    refused(deliver_native(&mut world, &native), GatewayError::AlreadyFulfilled);
    let tokens = payment.fulfillment(&world, &recipient(), false);
    deliver_tokens(&mut world, &payment, &tokens).unwrap();
    refused(deliver_tokens(&mut world, &payment, &tokens), GatewayError::AlreadyFulfilled);
    assert_eq!(world.lamports(&recipient()), native.amount);
    assert_eq!(world.tokens(&payment.token_of(&recipient())), 200);
}

#[test]
fn a_third_party_cannot_use_up_somebodys_delivery() {
    let (mut world, payment) = ready(MintKind::Token);
    let delivery = payment.fulfillment(&world, &recipient(), true);
    let third_party = world.third_party.insecure_clone();
    // Its own delivery has its own key.
    let own = Fulfillment { settler: key(&third_party), ..delivery.clone() };
    let fulfill = host::fulfill_native(&world.program, &own);
    world.send(&[fulfill], &[&third_party]).unwrap();
    // At the settler's key it cannot be made.
    let mut stolen = host::fulfill_native(&world.program, &delivery);
    stolen.accounts[0].key = key(&third_party);
    refused(world.send(&[stolen], &[&third_party]), GatewayError::FulfillmentInvalid);
    // Lamports sent there first do not stand in the way.
    let record = host::fulfillment_address(&world.program, &delivery.key(&world.program)).key;
    for lamports in [900_000, 50_000_000] {
        world.fund(&record, lamports);
    }
    deliver_native(&mut world, &delivery).unwrap();
    assert!(world.record(&delivery).is_some());
}

#[test]
fn nothing_is_delivered_after_the_time() {
    let (mut world, payment) = ready(MintKind::Token);
    let delivery = payment.fulfillment(&world, &recipient(), true);
    world.set_time(delivery.fulfill_by + 1);
    refused(deliver_native(&mut world, &delivery), GatewayError::FulfillByPassed);
    world.set_time(delivery.fulfill_by);
    deliver_native(&mut world, &delivery).unwrap();
}

#[test]
fn nothing_is_no_delivery() {
    let (mut world, payment) = ready(MintKind::Token);
    for native in [true, false] {
        let delivery = Fulfillment { amount: 0, ..payment.fulfillment(&world, &recipient(), native) };
        let outcome = if native {
            deliver_native(&mut world, &delivery)
        } else {
            deliver_tokens(&mut world, &payment, &delivery)
        };
        refused(outcome, GatewayError::AmountZero);
    }
}

#[test]
fn money_does_not_go_where_it_would_be_lost() {
    let (mut world, payment) = ready(MintKind::Token);
    payment.deposit(&mut world).unwrap();
    let program = world.program;
    let lost = [
        [0; 32],
        program,
        host::config_address(&program).key,
        host::escrow_address(&program, &payment.data.payment_id).key,
        payment.vault(&world),
        payment.accounts.payer_token,
        payment.accounts.mint,
        ids::TOKEN_PROGRAM,
    ];
    for recipient in lost {
        let delivery = payment.fulfillment(&world, &recipient, true);
        let mut fulfill = host::fulfill_native(&program, &delivery);
        // A program or the zero address cannot be locked for writing.
        fulfill.accounts[3].writable = false;
        let settler = world.settler.insecure_clone();
        refused(world.send(&[fulfill], &[&settler]), GatewayError::RecipientInvalid);
        let delivery = payment.fulfillment(&world, &recipient, false);
        let fulfill = token_instruction(&world, &payment, &delivery);
        refused(world.send(&[fulfill], &[&settler]), GatewayError::RecipientInvalid);
    }
    let delivery = payment.fulfillment(&world, &recipient(), true);
    let mut unwritable = host::fulfill_native(&program, &delivery);
    unwritable.accounts[3].writable = false;
    let settler = world.settler.insecure_clone();
    refused(world.send(&[unwritable], &[&settler]), GatewayError::AccountNotWritable);
}

#[test]
fn a_delivery_to_oneself_is_none() {
    let (mut world, payment) = ready(MintKind::Token);
    let settler = key(&world.settler);
    let native = payment.fulfillment(&world, &settler, true);
    refused(deliver_native(&mut world, &native), GatewayError::DeliveredNotExact);
    let tokens = payment.fulfillment(&world, &settler, false);
    refused(deliver_tokens(&mut world, &payment, &tokens), GatewayError::DeliveredNotExact);
}

#[test]
fn another_recipient_or_account_is_refused() {
    let (mut world, payment) = ready(MintKind::Token);
    let settler = world.settler.insecure_clone();
    let delivery = payment.fulfillment(&world, &recipient(), true);
    let mut elsewhere = host::fulfill_native(&world.program, &delivery);
    elsewhere.accounts[3].key = key(&keypair(71));
    refused(world.send(&[elsewhere], &[&settler]), GatewayError::RecipientInvalid);

    let delivery = payment.fulfillment(&world, &recipient(), false);
    let third_party = key(&world.third_party);
    let other_mint = world.mint(41, MintKind::Token);
    let of_recipient = world.mint_to(&payment.accounts.mint, &recipient(), 1);
    let third_party_tokens = world.mint_to(&payment.accounts.mint, &third_party, 1_000);
    let other_of_recipient = world.mint_to(&other_mint, &recipient(), 1);
    let other_of_settler = world.mint_to(&other_mint, &key(&settler), 1_000);
    let real = world.account(&payment.token_of(&key(&settler))).unwrap();
    let invented = [0x56; 32];
    world.put(invented, solana_account::Account { owner: [0x33; 32].into(), ..real });
    let cases = [
        (1, [0x55; 32], GatewayError::FulfillmentInvalid),
        (2, ids::TOKEN_PROGRAM, GatewayError::SystemProgramInvalid),
        (4, third_party_tokens, GatewayError::TokenOwnerMismatch),
        (4, other_of_settler, GatewayError::TokenMintMismatch),
        (4, invented, GatewayError::TokenAccountInvalid),
        (5, third_party_tokens, GatewayError::TokenAddressMismatch),
        (5, other_of_recipient, GatewayError::TokenAddressMismatch),
        (5, invented, GatewayError::TokenAddressMismatch),
        (6, other_mint, GatewayError::MintInvalid),
        (7, ids::TOKEN_2022_PROGRAM, GatewayError::MintInvalid),
        (7, [0x55; 32], GatewayError::TokenProgramInvalid),
    ];
    for (index, replacement, error) in cases {
        let mut fulfill = token_instruction(&world, &payment, &delivery);
        fulfill.accounts[index].key = replacement;
        refused(world.send(&[fulfill], &[&settler]), error);
    }
    let mut fewer = token_instruction(&world, &payment, &delivery);
    fewer.accounts.pop();
    refused(world.send(&[fewer], &[&settler]), GatewayError::AccountsInvalid);
    let mut more = host::fulfill_native(&world.program, &payment.fulfillment(&world, &recipient(), true));
    more.accounts.push(more.accounts[2].clone());
    refused(world.send(&[more], &[&settler]), GatewayError::AccountsInvalid);
    let mut none = token_instruction(&world, &payment, &delivery);
    none.accounts.truncate(3);
    refused(world.send(&[none], &[&settler]), GatewayError::AccountsInvalid);
    assert_eq!(world.tokens(&of_recipient), 1);
    assert!(world.record(&delivery).is_none(), "what failed left no record");
}

#[test]
fn the_settler_signs_and_has_the_money() {
    let (mut world, payment) = ready(MintKind::Token);
    let third_party = world.third_party.insecure_clone();
    let delivery = payment.fulfillment(&world, &recipient(), true);
    let mut unsigned = host::fulfill_native(&world.program, &delivery);
    unsigned.accounts[0].signer = false;
    refused(world.send(&[unsigned], &[&third_party]), GatewayError::SignatureMissing);
    let too_much = Fulfillment { amount: 1_001, ..payment.fulfillment(&world, &recipient(), false) };
    refused(deliver_tokens(&mut world, &payment, &too_much), GatewayError::BalanceTooSmall);
    // Of native coins the system program says so itself.
    let too_much = Fulfillment { amount: 1_000_000_000_000, ..delivery };
    let outcome = deliver_native(&mut world, &too_much);
    assert_eq!(custom_code(&outcome), Some(1));
    assert!(world.record(&too_much).is_none());
}

#[test]
fn a_record_comes_back_to_the_settler_after_thirty_days() {
    let (mut world, payment) = ready(MintKind::Token);
    let delivery = payment.fulfillment(&world, &recipient(), true);
    let before = world.lamports(&delivery.settler);
    let first = deliver_native(&mut world, &delivery).unwrap().fee;
    let (settler, third_party) = (world.settler.insecure_clone(), world.third_party.insecure_clone());
    let reclaim = host::reclaim_fulfillment(&world.program, &delivery);
    world.set_time(delivery.fulfill_by + RECLAIM_DELAY_SECONDS - 1);
    refused(world.send(std::slice::from_ref(&reclaim), &[&third_party, &settler]), GatewayError::ReclaimTooEarly);
    world.set_time(delivery.fulfill_by + RECLAIM_DELAY_SECONDS);
    let mut stolen = reclaim.clone();
    stolen.accounts[1].key = key(&third_party);
    refused(world.send(&[stolen], &[&third_party]), GatewayError::SettlerMismatch);
    let mut unsigned = reclaim.clone();
    unsigned.accounts[1].signer = false;
    refused(world.send(&[unsigned], &[&third_party]), GatewayError::SignatureMissing);
    world.send(&[reclaim], &[&third_party, &settler]).unwrap();
    assert!(world.record(&delivery).is_none());
    assert_eq!(world.lamports(&delivery.settler), before - delivery.amount - first);
    // The key is free again and the time is over.
    refused(deliver_native(&mut world, &delivery), GatewayError::FulfillByPassed);
}
