//! Layouts, numbers and judgements that do not need the program.

// A test may panic, and so may what helps it.
#![allow(clippy::expect_used, clippy::unwrap_used)]

use gateway_program::{
    GatewayError,
    account::{Config, Escrow, FulfillmentRecord, State},
    ed25519, error, ids,
    instruction::{Attested, DepositAndReserve, Fulfill, Initialize, Tag},
    message::{Delivery, Deposit, Fulfillment, NonDelivery},
    token::{Mint, TokenAccount},
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
    ] {
        assert_eq!(bs58::encode(id).into_string(), text);
    }
}

#[test]
fn sizes_are_those_of_the_readme() {
    assert_eq!((Config::SIZE, Escrow::SIZE, FulfillmentRecord::SIZE), (68, 389, 187));
    assert_eq!((Deposit::SIZE, Delivery::SIZE, NonDelivery::SIZE, Fulfillment::SIZE), (257, 97, 65, 176));
    assert_eq!((Initialize::SIZE, DepositAndReserve::SIZE, Attested::SIZE, Fulfill::SIZE), (65, 306, 1, 145));
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
}

#[test]
fn tags_are_their_bytes() {
    for byte in 0..=7 {
        assert_eq!(Tag::from_byte(byte).unwrap() as u8, byte);
    }
    assert_eq!(Tag::from_byte(8), None);
}

#[test]
fn the_precompiles_header_is_the_published_one() {
    // As the official library builds it: key, signature, message.
    let expected = [1, 0, 48, 0, 255, 255, 16, 0, 255, 255, 112, 0, 32, 0, 255, 255];
    assert_eq!(ed25519::HEADER, expected);
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
