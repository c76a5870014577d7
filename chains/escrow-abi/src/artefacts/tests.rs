//! Artefacts: code that is told from other code, and every word that a constructor wrote into it.

use alloy::{primitives::address, sol_types::SolConstructor};

use super::*;
use crate::contracts;

fn setup() -> EscrowSetup {
    EscrowSetup {
        chain_id: 31_337,
        escrow: Address::repeat_byte(1),
        permit2: Address::repeat_byte(2),
        guardian: Address::repeat_byte(3),
        text: contracts::text,
    }
}

/// The code that an escrow has with these immutables.
fn code(immutables: &Immutables) -> Vec<u8> {
    let mut code = GATEWAY_ESCROW.deployed.to_vec();
    for (name, places) in &GATEWAY_ESCROW.immutables {
        for place in places {
            code[*place..place + WORD_BYTES].copy_from_slice(immutables[name].as_slice());
        }
    }
    code
}

fn faults(code: &[u8]) -> Vec<(String, String)> {
    let findings = escrow_findings(code, &setup());
    findings.into_iter().filter_map(|finding| Some((finding.subject, finding.fault?))).collect()
}

#[test]
fn an_escrow_of_this_version_takes_all_that_it_has_calls_for_and_other_code_none_of_it() {
    let takes = [takes_reassignments, takes_transfers, takes_deposits_for];
    for is_taken in takes {
        assert!(is_taken(&GATEWAY_ESCROW.deployed));
        for code in [&FULFILLMENT_PROXY.deployed[..], &[], &[0x63]] {
            assert!(!is_taken(code));
        }
    }
}

/// So whoever finds that an escrow takes reassignments need not ask whether it takes larger deposits.
#[test]
fn an_escrow_that_takes_reassignments_takes_larger_deposits() {
    let has = |selector: [u8; 4]| GATEWAY_ESCROW.deployed.windows(4).any(|bytes| bytes == selector);
    assert!(has(GatewayEscrow::reassignCall::SELECTOR));
    assert!(has(GatewayEscrow::depositMoreWithWitnessCall::SELECTOR));
    assert!(has(GatewayEscrow::depositMoreWithPermitCall::SELECTOR));
}

#[test]
fn the_artefacts_can_be_used() {
    for (artefact, name) in [(&*GATEWAY_ESCROW, "GatewayEscrow"), (&*FULFILLMENT_PROXY, "FulfillmentProxy")] {
        assert_eq!(artefact.name, name);
        // The creation code has the deployed code in it, but for the immutables.
        assert!(artefact.creation.len() > artefact.deployed.len());
        for place in artefact.immutables.values().flatten() {
            assert_eq!(artefact.deployed[*place..place + WORD_BYTES], [0; WORD_BYTES], "{name} at {place}");
        }
    }
    let names: Vec<_> = GATEWAY_ESCROW.immutables.keys().collect();
    assert_eq!(names, setup().immutables().keys().collect::<Vec<_>>());
    assert!(FULFILLMENT_PROXY.immutables.is_empty());
    let arguments = GatewayEscrow::constructorCall {
        permit2_: address!("000000000022d473030f116ddee9f6b43ac78ba3"),
        reserver_: Address::ZERO,
        guardian_: Address::ZERO,
        payoutGas_: U256::ZERO,
    }
    .abi_encode();
    let creation = GATEWAY_ESCROW.creation_with(&arguments);
    assert_eq!(creation.split_at(GATEWAY_ESCROW.creation.len()), (&GATEWAY_ESCROW.creation[..], &arguments[..]));
}

#[test]
fn code_with_the_right_immutables_is_the_artefacts() {
    let expected = setup().immutables();
    assert_eq!(matches(&code(&expected), &GATEWAY_ESCROW), Ok(expected.clone()));
    assert_eq!(faults(&code(&expected)), []);
    assert_eq!(matches(&FULFILLMENT_PROXY.deployed, &FULFILLMENT_PROXY), Ok(Immutables::new()));
    assert!(proxy_findings(&FULFILLMENT_PROXY.deployed).iter().all(|finding| finding.fault.is_none()));
    // The chain's byte before an address does not matter where the code does not look at it.
    let mut with_prefix = expected;
    with_prefix.get_mut("_cachedThis").unwrap()[11] = 0x41;
    assert_eq!(faults(&code(&with_prefix)), []);
}

#[test]
fn every_immutable_is_compared() {
    for name in setup().immutables().keys() {
        let mut other = setup().immutables();
        other.get_mut(name).unwrap()[WORD_BYTES - 1] ^= 1;
        let faults = faults(&code(&other));
        let [(subject, fault)] = faults.as_slice() else { panic!("{name}: {faults:?}") };
        assert!(subject.contains(name.as_str()) || fault.contains(name.as_str()), "{subject} {fault}");
    }
    let nobody = EscrowSetup { guardian: Address::ZERO, ..setup() };
    let fault = "is nobody, and should be 0x0303030303030303030303030303030303030303".to_owned();
    assert_eq!(faults(&code(&nobody.immutables())), [("guardian of GatewayEscrow".to_owned(), fault)]);
}

/// The code of a Permit2 that was made there.
fn permit2_code(made: Deployed) -> Vec<u8> {
    let mut code = PERMIT2.deployed.to_vec();
    let separator = made.domain().separator();
    for (name, word) in [("_CACHED_CHAIN_ID", number(made.chain_id)), ("_CACHED_DOMAIN_SEPARATOR", separator)] {
        for at in &PERMIT2.immutables[name] {
            code[*at..at + WORD_BYTES].copy_from_slice(word.as_slice());
        }
    }
    code
}

#[test]
fn a_permit2_is_known_by_its_code_or_by_the_hash_that_somebody_compared() {
    let place = Deployed { chain_id: 728_126_428, address: Address::repeat_byte(9) };
    let fault = |code: &[u8], known: Option<B256>| {
        let [Finding { subject, fault }] = <[Finding; 1]>::try_from(permit2_findings(code, place, known)).unwrap();
        assert_eq!(subject, "code of Permit2");
        fault
    };
    assert_eq!(PERMIT2.immutables.keys().collect::<Vec<_>>(), ["_CACHED_CHAIN_ID", "_CACHED_DOMAIN_SEPARATOR"]);
    let (right, strange) = (permit2_code(place), Some(B256::repeat_byte(7)));
    for known in [None, strange, Some(keccak256(&right))] {
        assert_eq!(fault(&right, known), None);
        assert_eq!(fault(&[], known).as_deref(), Some("has no code"));
    }
    assert_eq!(fault(&[], Some(keccak256([]))).as_deref(), Some("has no code"));
    // Made elsewhere, or on another chain: it is this code, and would verify what nobody signs.
    for (code, named) in [
        (permit2_code(Deployed { chain_id: 1, ..place }), "_CACHED_CHAIN_ID"),
        (permit2_code(Deployed { address: Address::repeat_byte(8), ..place }), "_CACHED_DOMAIN_SEPARATOR"),
        (PERMIT2.deployed.to_vec(), "_CACHED_CHAIN_ID"),
    ] {
        for known in [None, strange, Some(keccak256(&code))] {
            assert!(fault(&code, known).is_some_and(|fault| fault.contains(named)), "{named}");
        }
    }
    // Another compilation, or anything else.
    for code in [[&right[..], &[0]].concat(), FULFILLMENT_PROXY.deployed.to_vec()] {
        let hash = keccak256(&code);
        let fault = |known| fault(&code, known);
        assert!(fault(None).is_some_and(|fault| fault.contains(&hash.to_string())));
        let other = fault(strange).unwrap();
        assert!(other.contains(&hash.to_string()) && other.contains(&strange.unwrap().to_string()), "{other}");
        assert_eq!(fault(Some(hash)), None);
    }
    let mut differs = right;
    differs[0] ^= 1;
    assert!(fault(&differs, None).is_some_and(|fault| fault.contains("differs at byte 0")));
}

#[test]
fn other_code_is_told_from_the_artefacts() {
    let right = code(&setup().immutables());
    assert_eq!(matches(&[], &GATEWAY_ESCROW), Err(CodeMismatch::Missing));
    let lengths = CodeMismatch::Length { found: FULFILLMENT_PROXY.deployed.len(), expected: right.len() };
    assert_eq!(matches(&FULFILLMENT_PROXY.deployed, &GATEWAY_ESCROW), Err(lengths));
    for at in [0, 1_000, right.len() - 1] {
        let mut other = right.clone();
        other[at] ^= 1;
        assert_eq!(matches(&other, &GATEWAY_ESCROW), Err(CodeMismatch::Differs(at)));
    }
    let mut ambiguous = right;
    ambiguous[GATEWAY_ESCROW.immutables["guardian"][1]] ^= 1;
    assert_eq!(matches(&ambiguous, &GATEWAY_ESCROW), Err(CodeMismatch::Ambiguous("guardian".to_owned())));
    let [finding] = <[Finding; 1]>::try_from(proxy_findings(&[])).unwrap();
    assert_eq!(finding, Finding::bad("code of FulfillmentProxy", "has no code"));
}
