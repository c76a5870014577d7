//! On Solana: what the program's own tests publish, and the instructions by which money goes back.

use events::{Account, AssetId, Family, Hash32, PaymentId, event::EscrowPlan, time::from_unix_seconds};
use gateway_program::{
    host::{self, AccountMeta, Instruction},
    ids,
    message::Deposit,
};
use serde_json::{Value, json};

use super::sides::{self, derived, program_address, repository};
use crate::{
    deposit_address::{AddressFamily, AddressTerms, Checked, Payable},
    error::Error,
    pins::Pins,
};

fn account(text: &Value) -> Account {
    Account::parse(Family::Solana, text.as_str().unwrap()).unwrap()
}

fn key(text: &Value) -> [u8; 32] {
    account(text).to_bytes().try_into().unwrap()
}

fn written(key: &[u8; 32]) -> Account {
    Account::from_bytes(Family::Solana, key).unwrap()
}

/// What the program's tests publish, with the terms.
fn published() -> (Value, Deposit) {
    let kept = repository("contracts/solana/vectors.json")["deposit_address"].take();
    let fields = &kept["fields"];
    let hash = |name: &str| format!("0x{}", fields[name].as_str().unwrap()).parse::<Hash32>().unwrap().0;
    let number = |name: &str| fields[name].as_u64().unwrap();
    let terms = Deposit {
        payment_id: hash("payment_id"),
        terms_hash: hash("terms_hash"),
        quote_hash: hash("quote_hash"),
        payer: key(&fields["payer"]),
        mint: key(&fields["mint"]),
        amount: number("amount"),
        reserver: key(&fields["reserver"]),
        releaser: key(&fields["releaser"]),
        reserve_deadline: number("reserve_deadline"),
        fulfillment_deadline: number("fulfillment_deadline"),
        refund_after: number("refund_after"),
    };
    (kept, terms)
}

/// An instruction as it is published. The system program's key is zero, which is not an account here.
fn shown(Instruction { program_id, accounts, data }: &Instruction) -> Value {
    let text = |key: &[u8; 32]| bs58::encode(key).into_string();
    let meta = |AccountMeta { key, signer, writable }: &AccountMeta| json!({"key": text(key), "signer": signer, "writable": writable});
    let accounts = accounts.iter().map(meta).collect::<Vec<_>>();
    json!({"program": text(program_id), "accounts": accounts, "data": hex::encode(data)})
}

/// What is known of an address of these terms, as [`Checked`].
fn checked(program: &Account, address: &Account, terms: Deposit) -> Checked {
    let asset: AssetId = format!("{}/token:{}", sides::solana().chain, written(&terms.mint)).parse().unwrap();
    Checked {
        payment_id: PaymentId::derive("x", "y"),
        address: address.clone(),
        asset,
        amount: terms.amount.to_string().parse().unwrap(),
        pay_by: from_unix_seconds(terms.reserve_deadline).unwrap(),
        refund_account: written(&terms.payer),
        uri: String::new(),
        factory: program.clone(),
        terms: AddressTerms::Solana(terms),
    }
}

#[test]
fn the_published_terms_have_the_published_address_and_instructions() {
    let (kept, terms) = published();
    let (program, address) = (account(&kept["program_id"]), account(&kept["address"]));
    let bytes = hex::decode(kept["terms"].as_str().unwrap()).unwrap();
    assert_eq!((terms.to_bytes().to_vec(), written(&derived(&program.to_bytes(), &bytes))), (bytes, address.clone()));
    assert_eq!(written(&host::deposit_address(&key(&kept["program_id"]), &terms).key), address);

    let checked = checked(&program, &address, terms);
    let carrier = account(&kept["instructions"]["give_back"]["accounts"][0]["key"]);
    let token_program = account(&kept["token_program"]);
    let call = checked.give_back_token(&checked.asset, &token_program, &carrier, true).unwrap();
    assert_eq!(shown(&call), kept["instructions"]["give_back"]);
    assert_eq!(shown(&checked.give_back_lamports().unwrap()), kept["instructions"]["give_back_lamports"]);
}

#[test]
fn an_address_commits_to_what_payers_sign() {
    let side = sides::solana();
    let checked = side.check(&side.pins(), side.accepted(|_| ())).unwrap();
    let AddressTerms::Solana(terms) = &checked.terms else { panic!("{:?}", checked.terms) };
    let own = side.order().terms();
    assert_eq!((terms.payment_id, terms.terms_hash), (checked.payment_id.on_chain().0, own.hash().0));
    assert_eq!((terms.quote_hash, terms.amount), ([0; 32], 110));
    assert_eq!(written(&terms.payer), checked.refund_account);
    assert_eq!(checked.factory, side.account(1), "it is the escrow's program");
}

/// Each token is given back out of the address's associated token account in its program, into the refund account's.
#[test]
fn any_token_is_given_back_by_the_program_that_makes_the_address() {
    let side = sides::solana();
    let checked = side.check(&Pins::default(), side.accepted(|_| ())).unwrap();
    let associated = |owner: &Account, program: &Account, mint: &Account| {
        let seeds = [owner, program, mint].map(Account::to_bytes);
        written(&program_address(&ids::ASSOCIATED_TOKEN_PROGRAM, &[&seeds[0], &seeds[1], &seeds[2]]))
    };
    let escrow = written(&program_address(&checked.factory.to_bytes(), &[b"escrow", &checked.payment_id.on_chain().0]));
    let (carrier, payer) = (side.account(6), &checked.refund_account);
    for token_program in [ids::TOKEN_PROGRAM, ids::TOKEN_2022_PROGRAM].map(|program| written(&program)) {
        for (token, closes) in [(checked.asset.clone(), true), (other_token(), false)] {
            let mint: Account = Account::parse(Family::Solana, token.reference()).unwrap();
            let call = checked.give_back_token(&token, &token_program, &carrier, closes).unwrap();
            let accounts = call.accounts.iter().map(|meta| (written(&meta.key), meta.signer, meta.writable));
            let expected = [
                (carrier.clone(), false, true),
                (escrow.clone(), false, false),
                (checked.address.clone(), false, false),
                (associated(&checked.address, &token_program, &mint), false, true),
                (associated(payer, &token_program, &mint), false, true),
                (payer.clone(), false, false),
                (mint, false, false),
                (token_program.clone(), false, false),
            ];
            assert_eq!(accounts.collect::<Vec<_>>(), expected);
            assert_eq!((written(&call.program_id), call.data.last()), (side.account(1), Some(&u8::from(closes))));
        }
    }
    for token in [format!("{}/slip44:501", side.chain), "eip155:1/slip44:60".to_owned()] {
        let call = checked.give_back_token(&token.parse().unwrap(), &written(&ids::TOKEN_PROGRAM), &carrier, true);
        assert!(matches!(call, Err(Error::Invalid(_))), "{token}");
    }
    let refused = checked.give_back(Some(&checked.asset));
    assert!(matches!(&refused, Err(Error::Invalid(text)) if text.contains("solana")), "{refused:?}");
}

fn other_token() -> AssetId {
    format!("{}/token:{}", sides::solana().chain, sides::solana().account(7)).parse().unwrap()
}

#[test]
fn an_amount_that_no_token_has_is_refused() {
    let side = sides::solana();
    let (order, family) = (side.order(), AddressFamily::of(Family::Solana).unwrap());
    let payment_id = order.payment_id();
    let plan = EscrowPlan {
        chain_id: order.source.asset().chain().clone(),
        contract: side.account(1),
        reserver: side.account(2),
        releaser: side.account(3),
        reserve_deadline: 1,
        fulfillment_deadline: 2,
        refund_after: 3,
    };
    let committed = |amount: u128| {
        let amount = amount.to_string().parse().unwrap();
        (family.commit)(
            &Payable { payment_id: &payment_id, terms: &order.terms(), plan: &plan, amount },
            &plan.contract,
        )
    };
    assert!(committed(u128::from(u64::MAX)).is_ok());
    let refused = committed(u128::from(u64::MAX) + 1);
    assert!(matches!(&refused, Err(Error::Invalid(text)) if text.contains("64 bits")), "{refused:?}");
}
