//! Layouts, numbers and judgements that do not need the program.

// A test may panic, and so may what helps it.
#![allow(clippy::expect_used, clippy::unwrap_used)]

use gateway_program::{
    GatewayError,
    account::{ANY_QUOTE, Config, Escrow, FulfillmentRecord, REASSIGNMENTS_MAX, State},
    ed25519, error, ids,
    instruction::{
        Attested, Collect, CollectLamports, DepositAndReserve, DepositFromAddress, DepositFromOffer, Fulfill, GiveBack,
        Initialize, Purchase, Reassign, Reservation, Tag, terms_of_lamports,
    },
    log,
    message::{Delivery, Deposit, Fulfillment, NonDelivery, Offer},
    rules,
    token::{Mint, TokenAccount},
    verifier_set::{MEMBERS_MAX, VerifierSet},
};

#[test]
fn addresses_are_what_their_base58_says() {
    for (id, text) in [
        (ids::SYSTEM_PROGRAM, "11111111111111111111111111111111"),
        (ids::TOKEN_PROGRAM, "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"),
        (ids::TOKEN_2022_PROGRAM, "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb"),
        (ids::ASSOCIATED_TOKEN_PROGRAM, "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL"),
        (ids::ED25519_PROGRAM, "Ed25519SigVerify111111111111111111111111111"),
        (ids::UPGRADEABLE_LOADER, "BPFLoaderUpgradeab1e11111111111111111111111"),
        (ids::INSTRUCTIONS_SYSVAR, "Sysvar1nstructions1111111111111111111111111"),
        (ids::NATIVE_MINT, "So11111111111111111111111111111111111111112"),
        (ids::NATIVE_MINT_2022, "9pan9bMn5HatX4EJdBwg9VgCa7Uz5HL8N1m5D3NdXejP"),
    ] {
        assert_eq!(bs58::encode(id).into_string(), text);
    }
}

#[test]
fn sizes_are_those_of_the_readme() {
    assert_eq!((Config::SIZE, Escrow::SIZE, FulfillmentRecord::SIZE), (68, 389, 187));
    assert_eq!((Deposit::SIZE, Delivery::SIZE, NonDelivery::SIZE, Fulfillment::SIZE), (257, 97, 65, 176));
    assert_eq!((Initialize::SIZE, DepositAndReserve::SIZE, Fulfill::SIZE, Reassign::SIZE), (65, 306, 145, 113));
    assert_eq!((DepositFromAddress::SIZE, Reservation::SIZE, GiveBack::SIZE), (346, 88, 259));
    assert_eq!((Offer::SIZE, Purchase::SIZE, DepositFromOffer::SIZE), (184, 40, 313));
    assert_eq!((Collect::SIZE, CollectLamports::SIZE), (193, 185));
    assert_eq!((log::GivenBack::SIZE, log::Collected::SIZE), (105, 105));
}

#[test]
fn layouts_read_what_they_wrote_and_nothing_else() {
    let bytes: Vec<u8> = (0..Escrow::SIZE).map(|at| if at < 2 { [2, 1][at] } else { at as u8 }).collect();
    let escrow = Escrow::from_bytes(&bytes).unwrap();
    assert_eq!(escrow.to_bytes().as_slice(), bytes);
    assert_eq!(escrow.payment_id[0], 5);
    assert_eq!(escrow.ended_slot.to_le_bytes(), bytes[381..389]);
    assert_eq!(escrow.state(), Some(State::Released));
    for at in [0, 1] {
        let mut other = bytes.clone();
        other[at] += 1;
        assert_eq!(Escrow::from_bytes(&other), None);
    }
    assert_eq!(Escrow::from_bytes(&bytes[..388]), None);
    assert_eq!(Escrow::from_bytes(&[bytes.as_slice(), &[0]].concat()), None);
    assert_eq!(State::from_byte(0), None);
    assert_eq!(State::from_byte(4), None);
}

/// A record as it is in escrow, and the reservation of another settler at slot 1,007.
fn reserved() -> (Escrow, Reassign) {
    let mut escrow = Escrow::from_bytes(&[&[2, 1][..], &[0; Escrow::SIZE - 2]].concat()).unwrap();
    (escrow.state, escrow.slots, escrow.ended_slot) = (State::Reserved as u8, 1_000, ANY_QUOTE);
    let (quote_hash, settler) = ([3; 32], [4; 32]);
    (escrow, Reassign { previous_quote_hash: [0; 32], quote_hash, settler, source_amount: 5, fulfill_by: 6 })
}

#[test]
fn a_record_keeps_its_size_and_what_it_says_through_reassignments() {
    let (mut escrow, to) = reserved();
    escrow.deposited = 9;
    assert!(escrow.takes_any_quote());
    assert_eq!((escrow.reassignments(), escrow.secured_slot(), escrow.reassigned_slot()), (0, 1_000, None));
    for round in 1..=REASSIGNMENTS_MAX {
        escrow.reassign(&to, 1_007).unwrap();
        assert_eq!((escrow.reassignments(), escrow.state()), (round, Some(State::Reserved)));
        assert_eq!((escrow.secured_slot(), escrow.reassigned_slot()), (1_000, Some(1_007)));
        assert_eq!(Escrow::from_bytes(&escrow.to_bytes()).as_ref(), Some(&escrow));
    }
    let before = escrow.clone();
    assert_eq!(escrow.reassign(&to, 1_008), Err(GatewayError::ReassignmentsUsedUp));
    assert_eq!(escrow, before);
    assert_eq!((escrow.quote_hash, escrow.settler, escrow.fulfill_by, escrow.remainder()), ([3; 32], [4; 32], 6, 4));
    for state in [State::Released, State::Refunded] {
        let mut ended = escrow.clone();
        ended.end(state, 2_000);
        assert_eq!((ended.state(), ended.reassignments()), (Some(state), REASSIGNMENTS_MAX));
        assert_eq!((ended.secured_slot(), ended.reassigned_slot(), ended.ended_slot), (1_000, Some(1_007), 2_000));
        assert!(!ended.takes_any_quote());
        assert_eq!((ended.changed_slot(), escrow.changed_slot()), (2_000, 1_007));
        assert_eq!(ended.before_end(), Escrow { ended_slot: 0, ..escrow.clone() });
    }
    // An escrow's first end leaves the bytes that it always left.
    let (mut plain, _) = reserved();
    plain.end(State::Released, 2_000);
    assert_eq!((plain.state, plain.slots, plain.ended_slot), (2, 1_000, 2_000));
}

#[test]
fn a_record_counts_so_many_slots_and_no_more() {
    let (escrow, to) = reserved();
    for (slot, is_taken) in [(1_000, true), (1_000 + 0xff_ffff, true), (1_000 + 0x100_0000, false), (u64::MAX, false)] {
        let mut escrow = escrow.clone();
        assert_eq!(escrow.reassign(&to, slot).is_ok(), is_taken, "{slot}");
        assert_eq!((escrow.secured_slot(), escrow.reassigned_slot()), (1_000, is_taken.then_some(slot)));
    }
    let (mut late, to) = reserved();
    late.slots = (1 << 40) - 1;
    late.reassign(&to, (1 << 40) + 4).unwrap();
    assert_eq!((late.secured_slot(), late.reassigned_slot()), ((1 << 40) - 1, Some((1 << 40) + 4)));
}

#[test]
fn errors_have_numbers_names_and_texts_of_their_own() {
    let mut seen = std::collections::BTreeSet::new();
    for (index, error) in GatewayError::ALL.iter().copied().enumerate() {
        assert_eq!(error.code(), error::FIRST_CODE + u32::try_from(index).unwrap());
        assert_eq!(GatewayError::from_code(error.code()), Some(error));
        assert!(seen.insert(error.text()), "{error:?}");
        assert!(error.text().ends_with('.') && !error.text().starts_with(' '), "{error:?}: {:?}", error.text());
        assert_eq!(error.to_string(), format!("{}: {}", error.name(), error.text()));
    }
    assert_eq!(GatewayError::from_code(error::FIRST_CODE - 1), None);
    assert_eq!(GatewayError::from_code(error::FIRST_CODE + GatewayError::ALL.len() as u32), None);
    // The numbers are part of the program: these never change.
    assert_eq!(GatewayError::InstructionInvalid.code(), 6000);
    assert_eq!(GatewayError::PaymentIdUsed.code(), 6014);
    assert_eq!(GatewayError::ClockInvalid.code(), 6058);
    assert_eq!(GatewayError::VerifierSetMismatch.code(), 6060);
    assert_eq!(GatewayError::ReassignmentsUsedUp.code(), 6064);
    assert_eq!(GatewayError::DepositAddressInvalid.code(), 6065);
    assert_eq!(GatewayError::DepositTooSmall.code(), 6066);
    assert_eq!(GatewayError::GiveBackTooEarly.code(), 6067);
    assert_eq!(GatewayError::NothingToGiveBack.code(), 6068);
    assert_eq!(GatewayError::OfferAddressInvalid.code(), 6069);
    assert_eq!(GatewayError::DepositNotExact.code(), 6070);
    assert_eq!(GatewayError::ReserveDeadlineTooFar.code(), 6071);
    assert_eq!(GatewayError::CollectorMismatch.code(), 6072);
}

#[test]
fn tags_are_their_bytes() {
    for byte in 0..=12 {
        assert_eq!(Tag::from_byte(byte).unwrap() as u8, byte);
    }
    assert_eq!(Tag::from_byte(16), None);
    let named = [(Tag::DepositFromAddress, 10), (Tag::GiveBack, 11), (Tag::GiveBackLamports, 12)];
    assert!(named.into_iter().all(|(tag, byte)| tag as u8 == byte));
    let of_offers = [(Tag::DepositFromOffer, 13), (Tag::Collect, 14), (Tag::CollectLamports, 15)];
    assert!(of_offers.into_iter().all(|(tag, byte)| tag as u8 == byte));
}

/// Terms and a reservation, no two members of which are alike.
fn addressed() -> DepositFromAddress {
    let terms = Deposit {
        payment_id: [1; 32],
        terms_hash: [2; 32],
        quote_hash: [3; 32],
        payer: [4; 32],
        mint: [5; 32],
        amount: 6,
        reserver: [7; 32],
        releaser: [8; 32],
        reserve_deadline: 9,
        fulfillment_deadline: 10,
        refund_after: 11,
    };
    let reservation =
        Reservation { deposited: 12, quote_hash: [13; 32], settler: [14; 32], source_amount: 15, fulfill_by: 16 };
    DepositFromAddress { terms, reservation }
}

#[test]
fn data_of_addresses_is_read_as_it_was_written_and_no_other() {
    let DepositFromAddress { terms, reservation } = addressed();
    let bytes = |tag: Tag, rest: &[u8]| [&[tag as u8][..], &terms.to_bytes(), rest].concat();
    let deposit = bytes(Tag::DepositFromAddress, &reservation.to_bytes());
    assert_eq!(deposit.len(), DepositFromAddress::SIZE);
    assert_eq!(DepositFromAddress::from_bytes(&deposit), Some(addressed()));
    // Behind tag and terms: what is deposited, the quote, its settler, what it asks, until when.
    let numbers = [&deposit[258..266], &deposit[330..338], &deposit[338..346]];
    assert_eq!(numbers.map(|number| number[0]), [12, 15, 16]);
    assert_eq!((deposit[266], deposit[298]), (13, 14));
    for (closes, byte) in [(false, 0), (true, 1)] {
        let back = bytes(Tag::GiveBack, &[byte]);
        assert_eq!(back.len(), GiveBack::SIZE);
        assert_eq!(GiveBack::from_bytes(&back), Some(GiveBack { terms: terms.clone(), closes }));
    }
    assert_eq!(terms_of_lamports(&bytes(Tag::GiveBackLamports, &[])), Some(terms.clone()));

    // Of another length, behind another tag, with terms of another kind, with a flag that is none.
    let is_read = |data: &[u8]| {
        [
            DepositFromAddress::from_bytes(data).is_some(),
            GiveBack::from_bytes(data).is_some(),
            terms_of_lamports(data).is_some(),
        ]
    };
    let whole = [deposit, bytes(Tag::GiveBack, &[1]), bytes(Tag::GiveBackLamports, &[])];
    for (at, data) in whole.iter().enumerate() {
        assert_eq!(is_read(data), [0, 1, 2].map(|reader| reader == at));
        for length in 0..data.len() {
            assert_eq!(is_read(&data[..length]), [false; 3], "{length} bytes of {at}");
        }
        assert_eq!(is_read(&[&data[..], &[0]].concat()), [false; 3]);
        for (byte, value) in [(0, 9), (0, 13), (0, 14), (0, 15), (1, 1), (1, 2)] {
            let mut other = data.clone();
            other[byte] = value;
            assert_eq!(is_read(&other), [false; 3], "byte {byte} of {at}");
        }
    }
    for closes in 2..=u8::MAX {
        assert_eq!(GiveBack::from_bytes(&bytes(Tag::GiveBack, &[closes])), None);
    }
}

/// What is judged and kept of a deposit from an address is what is judged and kept of one that the payer signed.
#[test]
fn a_deposit_from_an_address_is_judged_as_if_its_terms_were_signed() {
    let DepositFromAddress { terms, reservation } = addressed();
    let signed = addressed().as_signed();
    let from_terms = Deposit {
        payment_id: signed.payment_id,
        terms_hash: signed.terms_hash,
        quote_hash: signed.agreed_quote_hash,
        payer: signed.payer,
        amount: signed.cap,
        releaser: signed.releaser,
        reserve_deadline: signed.reserve_deadline,
        fulfillment_deadline: signed.fulfillment_deadline,
        refund_after: signed.refund_after,
        // These two are accounts of the instruction.
        mint: terms.mint,
        reserver: terms.reserver,
    };
    assert_eq!(from_terms, terms);
    let reserved = (signed.quote_hash, signed.settler, signed.source_amount, signed.fulfill_by);
    let expected = (reservation.quote_hash, reservation.settler, reservation.source_amount, reservation.fulfill_by);
    assert_eq!(reserved, expected);
    assert_eq!((signed.signer, signed.ed25519_index), (terms.payer, 0));
}

#[test]
fn an_address_hashes_its_domain_and_the_terms_that_others_sign() {
    let bytes = addressed().terms.to_bytes();
    assert_eq!(Deposit::address_preimage(&bytes).concat(), [b"gw-address\x01", &bytes[..]].concat());
    assert_eq!(bytes[0], 0, "the kind of what a payer signs");
}

/// An offer, a purchase and a reservation, no two members of which are alike.
fn purchased() -> DepositFromOffer {
    let offer = Offer {
        terms_hash: [1; 32],
        merchant: [2; 32],
        mint: [3; 32],
        amount: 4,
        reserver: [5; 32],
        releaser: [6; 32],
        delivery_seconds: 7,
        refund_seconds: 8,
    };
    let purchase = Purchase { payment_id: [9; 32], reserve_deadline: 10 };
    DepositFromOffer { offer, purchase, reservation: addressed().reservation }
}

#[test]
fn data_of_offers_is_read_as_it_was_written_and_no_other() {
    let DepositFromOffer { offer, purchase, reservation } = purchased();
    let bytes = |tag: Tag, rest: &[u8]| [&[tag as u8][..], &offer.to_bytes(), rest].concat();
    let deposit = bytes(Tag::DepositFromOffer, &[&purchase.to_bytes()[..], &reservation.to_bytes()].concat());
    assert_eq!(DepositFromOffer::from_bytes(&deposit), Some(purchased()));
    // Behind tag and offer: the payment, until when, then the reservation.
    assert_eq!([deposit[185], deposit[217], deposit[225], deposit[233]], [9, 10, 12, 13]);
    let collect = bytes(Tag::Collect, &0x0102_u64.to_le_bytes());
    assert_eq!(Collect::from_bytes(&collect), Some(Collect { offer: offer.clone(), amount: 0x0102 }));
    let lamports = bytes(Tag::CollectLamports, &[]);
    assert_eq!(CollectLamports::from_bytes(&lamports), Some(CollectLamports { offer: offer.clone() }));

    let is_read = |data: &[u8]| {
        [
            DepositFromOffer::from_bytes(data).is_some(),
            Collect::from_bytes(data).is_some(),
            CollectLamports::from_bytes(data).is_some(),
        ]
    };
    let sizes = [DepositFromOffer::SIZE, Collect::SIZE, CollectLamports::SIZE];
    for (at, data) in [deposit, collect, lamports].iter().enumerate() {
        assert_eq!(data.len(), sizes[at]);
        assert_eq!(is_read(data), [0, 1, 2].map(|reader| reader == at));
        for length in 0..data.len() {
            assert_eq!(is_read(&data[..length]), [false; 3], "{length} bytes of {at}");
        }
        assert_eq!(is_read(&[&data[..], &[0]].concat()), [false; 3]);
        for tag in (0..=u8::MAX).filter(|tag| *tag != data[0]) {
            let other = [&[tag], &data[1..]].concat();
            assert_eq!(is_read(&other), [false; 3], "tag {tag} of {at}");
        }
    }
}

#[test]
fn a_purchase_makes_terms_of_which_the_merchant_is_the_payer() {
    let call = purchased();
    let terms = Deposit {
        payment_id: [9; 32],
        terms_hash: [1; 32],
        quote_hash: [0; 32],
        payer: [2; 32],
        mint: [3; 32],
        amount: 4,
        reserver: [5; 32],
        releaser: [6; 32],
        reserve_deadline: 10,
        fulfillment_deadline: 17,
        refund_after: 25,
    };
    assert_eq!(call.terms(), terms);
    let addressed = DepositFromAddress { terms, reservation: call.reservation.clone() };
    assert_eq!(call.as_signed(), addressed.as_signed());
    // No time wraps around.
    let purchase = Purchase { payment_id: [9; 32], reserve_deadline: u64::MAX - 3 };
    let late = call.offer.deposit(&purchase);
    assert_eq!((late.fulfillment_deadline, late.refund_after), (u64::MAX, u64::MAX));
    let bytes = call.offer.to_bytes();
    assert_eq!(Offer::address_preimage(&bytes).concat(), [b"gw-offer\x01", &bytes[..]].concat());
}

#[test]
fn a_purchase_is_of_exactly_the_amount_and_not_far_ahead() {
    let judge = |deposited: u64, reserve_deadline: u64, now: u64| {
        let mut call = purchased();
        (call.reservation.deposited, call.purchase.reserve_deadline) = (deposited, reserve_deadline);
        rules::purchase(&call, now)
    };
    for deposited in [0, 3, 5, u64::MAX] {
        assert_eq!(judge(deposited, 10, 10), Err(GatewayError::DepositNotExact));
    }
    assert_eq!(judge(4, 1_600, 1_000), Ok(()));
    assert_eq!(judge(4, 1_601, 1_000), Err(GatewayError::ReserveDeadlineTooFar));
    assert_eq!(judge(4, u64::MAX, 1_000), Err(GatewayError::ReserveDeadlineTooFar));
    assert_eq!(judge(4, u64::MAX, u64::MAX), Ok(()));
}

#[test]
fn the_precompiles_header_is_the_published_one() {
    // As the official library builds it: key, signature, message.
    let expected = [1, 0, 48, 0, 255, 255, 16, 0, 255, 255, 112, 0, 32, 0, 255, 255];
    assert_eq!(ed25519::HEADER, expected);
}

/// Ascending keys that nobody has to hold.
fn members(count: u8) -> Vec<[u8; 32]> {
    (1..=count).map(|byte| [byte; 32]).collect()
}

#[test]
fn a_set_has_ascending_members_and_a_threshold_that_they_can_reach() {
    let invalid = Err(GatewayError::VerifierSetInvalid);
    let three = members(3);
    let set = VerifierSet::new(2, &three).unwrap();
    assert_eq!(set.preimage(&set.head()).concat(), [b"gw-verifier-set\x01\x02\x03", three.as_flattened()].concat());
    for threshold in [0, 4, 255] {
        assert_eq!(VerifierSet::new(threshold, &three), invalid, "{threshold}");
    }
    assert_eq!(VerifierSet::new(0, &[]), invalid);
    assert_eq!(VerifierSet::new(1, &[]), invalid);
    assert!(VerifierSet::new(16, &members(16)).is_ok());
    assert_eq!(VerifierSet::new(1, &members(MEMBERS_MAX as u8 + 1)), invalid);
    assert_eq!(VerifierSet::new(1, &[[2; 32], [1; 32]]), invalid, "not in order");
    assert_eq!(VerifierSet::new(1, &[[1; 32], [1; 32]]), invalid, "a member twice");

    let bytes = [&set.head()[..], three.as_flattened()].concat();
    assert_eq!(VerifierSet::from_bytes(&bytes), Ok(set));
    for (head, what) in [([2, 2], "fewer"), ([2, 4], "more"), ([2, 0], "none"), ([0, 3], "no threshold")] {
        let other = [&head[..], three.as_flattened()].concat();
        assert_eq!(VerifierSet::from_bytes(&other), invalid, "{what}");
    }
    for length in 0..bytes.len() {
        assert_eq!(VerifierSet::from_bytes(&bytes[..length]), invalid, "{length} bytes");
    }
    assert_eq!(VerifierSet::from_bytes(&[&bytes[..], &[0]].concat()), invalid);

    let attested = [&[7][..], &bytes].concat();
    assert_eq!(Attested::from_bytes(&attested), Ok(Attested { ed25519_index: 7, set: Some(set) }));
    assert_eq!(Attested::from_bytes(&[7]), Ok(Attested { ed25519_index: 7, set: None }));
    assert_eq!(Attested::from_bytes(&[]), Err(GatewayError::InstructionInvalid));
    assert_eq!(Attested::from_bytes(&[7, 0]), Err(GatewayError::VerifierSetInvalid));
}

/// The bytes as the form is described: a header, pairs of key and signature, the message.
fn signed_by(keys: &[u8], digest: &[u8; 32]) -> Vec<u8> {
    let count = keys.len() as u16;
    let mut data = vec![count as u8, 0];
    for index in 0..count {
        let key_at = 2 + 14 * count + 96 * index;
        for field in [key_at + 32, 0xffff, key_at, 0xffff, 2 + 14 * count + 96 * count, 32, 0xffff] {
            data.extend(field.to_le_bytes());
        }
    }
    for key in keys {
        data.extend([*key; 32]);
        data.extend([0xaa; 64]);
    }
    data.extend(digest);
    data
}

#[test]
fn every_byte_of_a_sets_signatures_is_compared_but_the_signatures_themselves() {
    let (members, digest) = (members(5), [0xd1; 32]);
    for (threshold, keys) in [(1, &[4][..]), (2, &[1, 5]), (3, &[2, 3, 4]), (5, &[1, 2, 3, 4, 5])] {
        let set = VerifierSet::new(threshold, &members).unwrap();
        let data = signed_by(keys, &digest);
        assert_eq!(ed25519::check_set(&data, &set, &digest), Ok(()));
        let keys_at = 2 + 14 * keys.len();
        let message_at = keys_at + 96 * keys.len();
        for at in 0..data.len() {
            let expected = if at < keys_at {
                Err(GatewayError::SignatureFormInvalid)
            } else if at >= message_at {
                Err(GatewayError::SignedMessageMismatch)
            } else if (at - keys_at) % 96 < 32 {
                Err(GatewayError::SignerMismatch)
            } else {
                // Whether a signature is right is the precompile's to say.
                Ok(())
            };
            for bit in [0x01, 0x80] {
                let mut other = data.clone();
                other[at] ^= bit;
                assert_eq!(ed25519::check_set(&other, &set, &digest), expected, "byte {at} of {threshold}");
            }
        }
        for length in [0, 1, 2, keys_at, message_at, data.len() - 1] {
            let form = Err(GatewayError::SignatureFormInvalid);
            assert_eq!(ed25519::check_set(&data[..length], &set, &digest), form, "{length} bytes");
        }
        let longer = [&data[..], &[0]].concat();
        assert_eq!(ed25519::check_set(&longer, &set, &digest), Err(GatewayError::SignatureFormInvalid));
    }
}

#[test]
fn a_sets_signatures_are_as_many_as_the_threshold_by_members_in_order() {
    let (members, digest) = (members(5), [0xd1; 32]);
    let set = VerifierSet::new(2, &members).unwrap();
    let judged = |keys: &[u8]| ed25519::check_set(&signed_by(keys, &digest), &set, &digest);
    for first in 0..=6 {
        for second in 0..=6 {
            let is_right = (1..=5).contains(&first) && (1..=5).contains(&second) && first < second;
            let expected = if is_right { Ok(()) } else { Err(GatewayError::SignerMismatch) };
            assert_eq!(judged(&[first, second]), expected, "{first}, {second}");
        }
    }
    for keys in [&[][..], &[1], &[1, 2, 3]] {
        assert_eq!(judged(keys), Err(GatewayError::SignatureFormInvalid), "{keys:?}");
    }
}

#[test]
fn one_of_a_set_signs_in_the_form_of_a_single_key() {
    let digest = [0xd1; 32];
    assert_eq!(signed_by(&[4], &digest), ed25519::data(&[4; 32], &[0xaa; 64], &digest));
}

#[test]
fn what_is_no_mint_or_token_account_is_refused() {
    let mut mint = [0; 82];
    (mint[44], mint[45]) = (6, 1);
    assert_eq!(Mint::parse(&ids::TOKEN_PROGRAM, &mint).unwrap().decimals, 6);
    assert_eq!(Mint::parse(&ids::SYSTEM_PROGRAM, &mint), Err(GatewayError::MintInvalid));
    assert_eq!(Mint::parse(&ids::TOKEN_PROGRAM, &mint[..81]), Err(GatewayError::MintInvalid));
    let mut account = [0; 165];
    account[108] = 1;
    assert_eq!(TokenAccount::parse(&ids::TOKEN_PROGRAM, &account).unwrap().delegate, None);
    // A mint of Token-2022 is never an account, nor the other way round, though both may be as long.
    let mut long = vec![0; 300];
    (long[44], long[45], long[108], long[165]) = (6, 1, 1, 1);
    assert!(Mint::parse(&ids::TOKEN_2022_PROGRAM, &long).is_ok());
    assert_eq!(TokenAccount::parse(&ids::TOKEN_2022_PROGRAM, &long), Err(GatewayError::TokenAccountInvalid));
    long[165] = 2;
    assert!(TokenAccount::parse(&ids::TOKEN_2022_PROGRAM, &long).is_ok());
    assert_eq!(Mint::parse(&ids::TOKEN_2022_PROGRAM, &long), Err(GatewayError::MintInvalid));
    // SPL Token has no extensions.
    assert_eq!(TokenAccount::parse(&ids::TOKEN_PROGRAM, &long), Err(GatewayError::TokenAccountInvalid));
    // Frozen, or not set up.
    for state in [0, 2] {
        account[108] = state;
        assert_eq!(TokenAccount::parse(&ids::TOKEN_PROGRAM, &account), Err(GatewayError::TokenAccountInvalid));
    }
}

#[test]
fn the_readme_lists_every_error() {
    let readme = include_str!("../../README.md");
    let rows: Vec<_> = readme.lines().filter(|line| line.starts_with("| 60")).collect();
    let expected: Vec<_> = GatewayError::ALL
        .iter()
        .map(|error| format!("| {} | `{}` | {} |", error.code(), error.name(), error.text()))
        .collect();
    assert_eq!(rows, expected);
}
