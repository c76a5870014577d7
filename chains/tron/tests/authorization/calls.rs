//! Every field of the two transactions and every argument of their calls.

use alloy::{primitives::aliases::U48, sol_types::SolCall};

use chains_tron::authorization::{LIFETIME_MS_MAX, REACH_MS};
use escrow_abi::{
    contracts::{DevToken::approveCall, GatewayEscrow::depositOwnCall},
    eip712::{self, GatewayDeposit, Opening},
};

use super::*;

#[test]
fn every_field_around_the_call_is_checked() {
    type Alter = fn(&mut Draft);
    let alterations: [(&str, Alter); 9] = [
        ("owner_address", |draft| draft.call.owner = key(7).address()),
        ("contract_address", |draft| draft.call.contract = Address::repeat_byte(9)),
        ("call_value", |draft| draft.call.value_sun = 1),
        ("fee_limit", |draft| draft.fee_limit_sun = 0),
        ("expiration", |draft| draft.expiration_ms = 0),
        ("expiration", |draft| draft.expiration_ms = QUOTE_DEADLINE * 1_000 + REACH_MS),
        ("timestamp", |draft| draft.timestamp_ms = 0),
        ("timestamp", |draft| draft.timestamp_ms = draft.expiration_ms),
        ("timestamp", |draft| draft.timestamp_ms = draft.expiration_ms - LIFETIME_MS_MAX - 3_600_001),
    ];
    for index in [APPROVAL, DEPOSIT] {
        for (field, alter) in alterations {
            refused_at(&altered(index, alter), index, &format!("message_prehash.{field}"));
        }
        let unused: [Alter; 3] = [
            |draft| draft.timestamp_ms = draft.expiration_ms - 1,
            |draft| draft.expiration_ms = QUOTE_DEADLINE * 1_000 + REACH_MS + 1,
            |draft| draft.fee_limit_sun += 1,
        ];
        for alter in unused {
            authorize(&spend(), &altered(index, alter)).unwrap();
        }
    }
}

#[test]
fn the_approval_is_of_the_cap_for_the_escrow() {
    let escrow = Address::repeat_byte(0xe5);
    let approve = |spender, value: U256| approveCall { spender, value }.abi_encode();
    for (data, field) in [
        (approve(key(7).address(), U256::from(110)), "message_prehash.approve.spender"),
        (approve(escrow, U256::from(109)), "message_prehash.approve.value"),
        (approve(escrow, U256::from(111)), "message_prehash.approve.value"),
        (approve(escrow, U256::MAX), "message_prehash.approve.value"),
        (approve(escrow, U256::ZERO), "message_prehash.approve.value"),
        ([approve(escrow, U256::from(110)), vec![0]].concat(), "message_prehash.data"),
        (approve(escrow, U256::from(110))[..67].to_vec(), "message_prehash.data"),
        (Vec::new(), "message_prehash.data"),
        (vec![9, 0x5e, 0xa7], "message_prehash.data"),
        // transfer(address,uint256): the arguments are those of an approval.
        ([&[0xa9, 5, 0x9c, 0xbb], &approve(escrow, U256::from(110))[4..]].concat(), "message_prehash.data"),
        // increaseApproval(address,uint256)
        ([&[0xd7, 0x3d, 0xd6, 0x23], &approve(escrow, U256::from(110))[4..]].concat(), "message_prehash.data"),
    ] {
        refused_at(&altered(APPROVAL, |draft| draft.call.data = data), APPROVAL, field);
    }
    // Dirty bytes before the address mean the same to a lenient reader.
    let dirty = altered(APPROVAL, |draft| draft.call.data[4] = 1);
    refused_at(&dirty, APPROVAL, "message_prehash.data");
}

fn call_of(draft: &Draft) -> depositOwnCall {
    depositOwnCall::abi_decode(&draft.call.data).unwrap()
}

/// The reserver's signature over what the call says now, as nobody would give it.
fn opened(call: &mut depositOwnCall, chain_id: u64, escrow: Address, signer: &PrivateKeySigner) {
    let d = &call.d;
    let deposit = GatewayDeposit {
        paymentId: d.paymentId,
        termsHash: d.termsHash,
        quoteHash: d.quoteHash,
        payer: d.payer,
        reserver: d.reserver,
        releaser: d.releaser,
        reserveDeadline: d.reserveDeadline,
        fulfillmentDeadline: d.fulfillmentDeadline,
        refundAfter: d.refundAfter,
    };
    let opening = Opening { deposit, token: call.token, amount: call.amount };
    let digest = eip712::digest(&opening, &eip712::escrow_domain(chain_id, escrow));
    call.reserverSignature = signer.sign_hash_sync(&digest).unwrap().as_bytes().to_vec().into();
}

#[test]
fn every_argument_of_the_deposit_is_checked() {
    type Alter = fn(&mut depositOwnCall);
    let time = |seconds: u64| U48::from(seconds);
    let alterations: [(&str, Alter); 16] = [
        ("d.paymentId", |call| call.d.paymentId.0[31] ^= 1),
        ("d.termsHash", |call| call.d.termsHash.0[0] ^= 1),
        ("d.quoteHash", |call| call.d.quoteHash = B256::repeat_byte(1)),
        ("d.payer", |call| call.d.payer = key(7).address()),
        ("d.reserver", |call| call.d.reserver = key(7).address()),
        ("d.releaser", |call| call.d.releaser = key(7).address()),
        ("d.reserveDeadline", |call| call.d.reserveDeadline = U48::from(QUOTE_DEADLINE)),
        ("d.reserveDeadline", |call| call.d.reserveDeadline = U48::from(FULFILLMENT_DEADLINE + 1)),
        ("d.fulfillmentDeadline", |call| call.d.fulfillmentDeadline = U48::from(FULFILLMENT_DEADLINE - 1)),
        ("d.fulfillmentDeadline", |call| call.d.fulfillmentDeadline = U48::from(FULFILLMENT_DEADLINE + 1)),
        ("d.refundAfter", |call| call.d.refundAfter = U48::from(REFUND_AFTER - 1)),
        ("token", |call| call.token = Address::repeat_byte(9)),
        ("amount", |call| call.amount = U256::from(109)),
        ("amount", |call| call.amount = U256::from(111)),
        ("amount", |call| call.amount = U256::ZERO),
        ("amount", |call| call.amount = U256::MAX),
    ];
    for (field, alter) in alterations {
        // With the reserver's signature over it, too, which the gateway may have given for something else.
        let messages = altered(DEPOSIT, |draft| {
            let mut call = call_of(draft);
            alter(&mut call);
            opened(&mut call, 728_126_428, draft.call.contract, &reserver());
            draft.call.data = call.abi_encode();
        });
        refused_at(&messages, DEPOSIT, &format!("message_prehash.depositOwn.{field}"));
    }
    // Windows that the rules allow are the payer's to choose, as far as the reserver signed them.
    let choose: Alter = |call| call.d.refundAfter = U48::from(REFUND_AFTER + 1);
    let chosen = |signer: PrivateKeySigner, chain_id, escrow: Option<Address>| {
        altered(DEPOSIT, move |draft| {
            let mut call = call_of(draft);
            choose(&mut call);
            opened(&mut call, chain_id, escrow.unwrap_or(draft.call.contract), &signer);
            draft.call.data = call.abi_encode();
        })
    };
    let (_, plan) = authorize(&spend(), &chosen(reserver(), 728_126_428, None)).unwrap();
    assert_eq!(time(plan.refund_after), time(REFUND_AFTER + 1));
    let field = "message_prehash.depositOwn.reserverSignature";
    refused_at(&chosen(payer(), 728_126_428, None), DEPOSIT, field);
    refused_at(&chosen(reserver(), 2_494_104_990, None), DEPOSIT, field);
    refused_at(&chosen(reserver(), 728_126_428, Some(Address::repeat_byte(0xe6))), DEPOSIT, field);
    let unsigned = altered(DEPOSIT, |draft| {
        let mut call = call_of(draft);
        choose(&mut call);
        draft.call.data = call.abi_encode();
    });
    refused_at(&unsigned, DEPOSIT, field);
}

#[test]
fn the_reservers_signature_has_one_form() {
    type Alter = fn(Vec<u8>) -> Vec<u8>;
    let forms: [Alter; 6] = [
        |_| Vec::new(),
        |signature| [signature, vec![0]].concat(),
        |signature| signature[..64].to_vec(),
        |mut signature| {
            signature[64] -= 27;
            signature
        },
        |signature| high_s(&signature),
        // EIP-2098, which the contract's library does not take either.
        |mut signature| {
            signature[32] |= (signature[64] - 27) << 7;
            signature.truncate(64);
            signature
        },
    ];
    for form in forms {
        let messages = altered(DEPOSIT, |draft| {
            let mut call = call_of(draft);
            call.reserverSignature = form(call.reserverSignature.to_vec()).into();
            draft.call.data = call.abi_encode();
        });
        refused_at(&messages, DEPOSIT, "message_prehash.depositOwn.reserverSignature");
    }
}

#[test]
fn the_deposits_call_has_one_encoding() {
    type Alter = fn(&mut Vec<u8>);
    let alterations: [Alter; 6] = [
        |data| data.push(0),
        |data| data.truncate(data.len() - 1),
        // The words are those of `d`, then token, amount and where the signature begins.
        |data| data[4 + 3 * 32] = 1,
        |data| data[4 + 6 * 32] = 1,
        |data| data[4 + 11 * 32 + 31] += 32,
        // Past the 65 bytes of the signature.
        |data| *data.last_mut().unwrap() = 1,
    ];
    for alter in alterations {
        refused_at(&altered(DEPOSIT, |draft| alter(&mut draft.call.data)), DEPOSIT, "message_prehash.data");
    }
    let selector = altered(DEPOSIT, |draft| draft.call.data[0] ^= 1);
    refused_at(&selector, DEPOSIT, "message_prehash.data");
}
