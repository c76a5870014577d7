//! Which mints are taken: made by the token programs themselves, with every extension in turn.

use gateway_program::{GatewayError, host, ids, token::Mint};
use gateway_program_tests::{Extension, MintKind, Payment, World, key, refused};
use solana_account::Account;

fn verdict(extension: Extension) -> Option<GatewayError> {
    match extension {
        Extension::TransferFee => Some(GatewayError::MintTransferFee),
        Extension::ConfidentialTransfer | Extension::ConfidentialTransferFee | Extension::ConfidentialMintBurn => {
            Some(GatewayError::MintConfidential)
        }
        Extension::DefaultFrozen | Extension::DefaultUsable => Some(GatewayError::MintDefaultFrozen),
        Extension::NonTransferable => Some(GatewayError::MintNonTransferable),
        Extension::PermanentDelegate => Some(GatewayError::MintPermanentDelegate),
        Extension::TransferHook => Some(GatewayError::MintTransferHook),
        Extension::Pausable => Some(GatewayError::MintPausable),
        Extension::CloseAuthority
        | Extension::InterestBearing
        | Extension::MetadataPointer
        | Extension::GroupPointer
        | Extension::GroupMemberPointer
        | Extension::ScaledAmount => None,
    }
}

/// Some extensions come only with others.
fn with_company(extension: Extension) -> Vec<Extension> {
    match extension {
        Extension::ConfidentialTransferFee => {
            vec![Extension::TransferFee, Extension::ConfidentialTransfer, extension]
        }
        Extension::ConfidentialMintBurn => vec![Extension::ConfidentialTransfer, extension],
        _ => vec![extension],
    }
}

#[test]
fn every_extension_has_its_verdict() {
    for extension in Extension::ALL {
        let mut world = World::new();
        let extensions = with_company(extension);
        // Behind a harmless one, so that the search goes on.
        let extensions: Vec<_> =
            [Extension::MetadataPointer].into_iter().filter(|first| *first != extension).chain(extensions).collect();
        let mint = world.mint(40, MintKind::Token2022(&extensions));
        let account = world.account(&mint).unwrap();
        let judged = Mint::parse(&account.owner.to_bytes(), &account.data);
        match (verdict(extension), judged) {
            (None, Ok(mint)) => assert_eq!(mint.decimals, 6),
            (Some(expected), Err(found)) => assert!(
                expected == found || with_company(extension).iter().any(|other| verdict(*other) == Some(found)),
                "{extension:?}: {found:?}"
            ),
            (expected, judged) => panic!("{extension:?}: expected {expected:?}, judged {judged:?}"),
        }
    }
}

#[test]
fn deposits_of_a_harmless_mint_go_in_and_out() {
    for extension in Extension::ALL.into_iter().filter(|extension| verdict(*extension).is_none()) {
        let mut world = World::new();
        let payment = Payment::new(&mut world, MintKind::Token2022(&[extension]));
        payment.deposit(&mut world).unwrap();
        let third_party = world.third_party.insecure_clone();
        let release = payment.release(&world);
        world.send(&release, &[&third_party]).unwrap();
        assert_eq!(world.tokens(&payment.token_of(&payment.data.settler)), 250, "{extension:?}");
    }
}

#[test]
fn deposits_and_deliveries_of_a_harmful_mint_are_refused() {
    for extension in [
        Extension::TransferFee,
        Extension::ConfidentialTransfer,
        Extension::DefaultUsable,
        Extension::PermanentDelegate,
        Extension::TransferHook,
        Extension::Pausable,
    ] {
        let error = verdict(extension).unwrap();
        let mut world = World::new();
        let payment = Payment::new(&mut world, MintKind::Token2022(&[extension]));
        refused(payment.deposit(&mut world), error);
        let settler = world.settler.insecure_clone();
        let from = world.mint_to(&payment.accounts.mint, &key(&settler), 500);
        let recipient = key(&world.third_party);
        world.mint_to(&payment.accounts.mint, &recipient, 1);
        let delivery = payment.fulfillment(&world, &recipient, false);
        let fulfill = host::fulfill_token(&world.program, &delivery, from, payment.accounts.token_program);
        refused(world.send(&[fulfill], &[&settler]), error);
    }
}

/// The mint is changed after the deposit, into one that would be refused: nothing new comes in, and what is there goes out
/// by every way.
#[test]
fn what_became_of_the_mint_holds_up_no_end() {
    for end in ["release", "cancel", "refund"] {
        let mut world = World::new();
        // Laid out as a permanent delegate is: an authority.
        let payment = Payment::new(&mut world, MintKind::Token2022(&[Extension::CloseAuthority]));
        payment.deposit(&mut world).unwrap();
        let mint = payment.accounts.mint;
        let mut changed = world.account(&mint).unwrap();
        assert_eq!(changed.data[166..168], 3_u16.to_le_bytes());
        changed.data[166..168].copy_from_slice(&12_u16.to_le_bytes());
        let judged = Mint::parse(&changed.owner.to_bytes(), &changed.data);
        assert_eq!(judged, Err(GatewayError::MintPermanentDelegate));
        world.put(mint, changed);

        let other = Payment::of(&world, 2, mint, ids::TOKEN_2022_PROGRAM);
        refused(other.deposit(&mut world), GatewayError::MintPermanentDelegate);
        let third_party = world.third_party.insecure_clone();
        let (instructions, settlers, payers) = match end {
            "release" => (payment.release(&world).to_vec(), 250, 750),
            "cancel" => (payment.cancel(&world).to_vec(), 0, 1_000),
            _ => {
                world.set_time(payment.data.refund_after);
                (vec![payment.refund(&world)], 0, 1_000)
            }
        };
        world.send(&instructions, &[&third_party]).unwrap();
        assert_eq!(world.tokens(&payment.token_of(&payment.data.settler)), settlers, "{end}");
        assert_eq!(world.tokens(&payment.accounts.payer_token), payers, "{end}");
    }
}

#[test]
fn an_unknown_extension_is_refused() {
    let mut world = World::new();
    let payment = Payment::new(&mut world, MintKind::Token2022(&[Extension::MetadataPointer]));
    let mint = payment.accounts.mint;
    let good = world.account(&mint).unwrap();
    for (kind, error) in [
        (26_u16, GatewayError::MintPausable),
        (28, GatewayError::MintExtensionUnknown),
        (2, GatewayError::MintExtensionUnknown),
        (u16::MAX, GatewayError::MintExtensionUnknown),
    ] {
        let mut changed = good.clone();
        changed.data[166..168].copy_from_slice(&kind.to_le_bytes());
        world.put(mint, changed);
        refused(payment.deposit(&mut world), error);
    }
    // A length that leads out of the account, a kind that is no mint's, a mint that is not set up.
    for (at, value) in [(168, 0xff), (165, 2), (45, 0)] {
        let mut changed = good.clone();
        changed.data[at] = value;
        world.put(mint, changed);
        refused(payment.deposit(&mut world), GatewayError::MintInvalid);
    }
    world.put(mint, good);
    payment.deposit(&mut world).unwrap();
}

/// Wrapped SOL: its amounts are lamports of the account, and whoever sends some can have them counted.
#[test]
fn wrapped_coins_go_in_and_out() {
    let mut world = World::new();
    let program = ids::TOKEN_PROGRAM;
    let mut mint = [0; 32];
    bs58::decode("So11111111111111111111111111111111111111112").onto(&mut mint).unwrap();
    let mut data = vec![0; 82];
    (data[44], data[45]) = (9, 1);
    let lamports = 1_461_600;
    world.put(mint, Account { lamports, data, owner: program.into(), executable: false, rent_epoch: u64::MAX });

    let (payer, third_party) = (world.payer.insecure_clone(), world.third_party.insecure_clone());
    let payment = Payment::of(&world, 1, mint, program);
    let from = payment.accounts.payer_token;
    let sync = |account| host::Instruction {
        program_id: program,
        accounts: vec![host::AccountMeta { key: account, signer: false, writable: true }],
        data: vec![17],
    };
    let delegate = host::delegate_address(&world.program, &key(&payer)).key;
    let create = |wallet| host::create_associated_token(key(&third_party), wallet, &mint, &program);
    world.send(&[create(&key(&payer)), create(&payment.data.settler)], &[&third_party]).unwrap();
    world.fund(&from, 1_000);
    let approve = host::approve_checked(&program, from, mint, delegate, key(&payer), 300, 9);
    world.send(&[sync(from), approve], &[&payer]).unwrap();

    // Lamports at the vault's address become part of what is in it, before the deposit or after.
    let vault = payment.vault(&world);
    world.fund(&vault, 3_000_000);
    let rent = world.svm.minimum_balance_for_rent_exemption(165);
    payment.deposit(&mut world).unwrap();
    assert_eq!(world.tokens(&vault), 250 + 3_000_000 - rent);
    world.fund(&vault, 7);
    world.send(&[sync(vault)], &[&third_party]).unwrap();
    let release = payment.release(&world);
    world.send(&release, &[&third_party]).unwrap();
    assert_eq!(world.tokens(&payment.token_of(&payment.data.settler)), 257 + 3_000_000 - rent);
    assert_eq!(world.tokens(&from), 750);
}
