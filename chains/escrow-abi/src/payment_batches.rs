//! Batches (ADR 158): the contract that draws them, what a payer signs for one, and the tree of its payments.

use alloy::{
    primitives::{Address, B256, U256, keccak256},
    sol,
    sol_types::SolValue,
};
use serde_json::{Value, json};

use events::{
    Account, Amount, Hash32,
    event::{BatchPermit, BatchToken},
};

use super::{
    contracts::{ConvertError, account, address, units, word},
    eip712::{self, PaymentBatch, PermitBatchWitnessTransferFrom, TokenPermissions},
    permit2::{DOMAIN, Deployed, NAME, TOKEN_PERMISSIONS},
    typed_data::{AddressForm, FieldError, Members, Object, check_types, equal, render_types},
};

sol!(
    #[sol(abi)]
    #[derive(Debug, PartialEq, Eq)]
    PaymentBatches,
    "../../contracts/artifacts/PaymentBatches.json"
);

eip712::structs_of!(GatewayEscrow);

/// Most payments of a batch.
pub const PAYMENTS_MAX: usize = 256;
/// Most tokens of a batch.
pub const TOKENS_MAX: usize = 8;
/// The longest way from a payment to the root.
pub const PROOF_MAX: usize = PAYMENTS_MAX.ilog2() as usize;

const PRIMARY: &str = "PermitBatchWitnessTransferFrom";
const MESSAGE: Members = &[
    ("permitted", "TokenPermissions[]"),
    ("spender", "address"),
    ("nonce", "uint256"),
    ("deadline", "uint256"),
    ("witness", "PaymentBatch"),
];
const WITNESS: Members = &[("escrow", "address"), ("payments", "bytes32")];

/// What is in the tree of one payment: of its money `amount` of `token` goes into `escrow`. No quote is agreed to in `deposit`, for a batch
/// is signed before the auctions.
pub fn terms(
    deposit: &eip712::GatewayDeposit,
    escrow: Address,
    token: Address,
    amount: Amount,
) -> DepositAddresses::Terms {
    DepositAddresses::Terms { escrow, token, amount: units(amount), deposit: deposit.into() }
}

/// The leaf of a payment. It is hashed twice, so that no pair of hashes is one.
pub fn leaf(terms: &DepositAddresses::Terms) -> B256 {
    keccak256(keccak256(terms.abi_encode()))
}

fn pair(one: B256, other: B256) -> B256 {
    let (less, more) = if one < other { (one, other) } else { (other, one) };
    keccak256([less.0, more.0].concat())
}

/// The root that a leaf has by this way.
pub fn root_by(leaf: B256, proof: &[B256]) -> B256 {
    proof.iter().fold(leaf, |hash, with| pair(hash, *with))
}

/// The tree of some payments: pairs of neighbours are hashed, level by level, and who has no neighbour goes up as it is.
#[derive(Debug, Clone)]
pub struct Tree(Vec<Vec<B256>>);

impl Tree {
    /// Of these leaves; `None` where there are none.
    pub fn of(leaves: Vec<B256>) -> Option<Self> {
        let mut levels = vec![leaves];
        loop {
            let level = levels.last()?;
            match level.len() {
                0 => return None,
                1 => return Some(Self(levels)),
                _ => {}
            }
            let above = level.chunks(2).map(|two| match two {
                [one, other] => pair(*one, *other),
                one => one[0],
            });
            let above = above.collect();
            levels.push(above);
        }
    }

    /// Its root.
    pub fn root(&self) -> B256 {
        self.0.last().and_then(|level| level.first()).copied().unwrap_or_default()
    }

    /// The way from the leaf `index` to the root.
    pub fn proof(&self, index: usize) -> Vec<B256> {
        let levels = self.0.iter().enumerate();
        levels.filter_map(|(height, level)| level.get((index >> height) ^ 1).copied()).collect()
    }
}

/// The values of what a payer signs for a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchMessage {
    /// EIP-155 id of the domain's chain.
    pub chain_id: U256,
    /// The Permit2 contract, which verifies the message.
    pub permit2: Address,
    /// Tokens, and how much of each is drawn, smallest unit.
    pub permitted: Vec<(Address, U256)>,
    /// The contract that alone may draw.
    pub spender: Address,
    /// Permit2's unordered nonce.
    pub nonce: U256,
    /// The last second in which Permit2 takes the message, UNIX.
    pub deadline: u64,
    /// Where all payments are deposited.
    pub escrow: Address,
    /// The Merkle root of the payments.
    pub payments: B256,
}

impl BatchMessage {
    /// What is hashed and signed (EIP-712).
    pub fn preimage(&self) -> [u8; 66] {
        // A chain id above 64 bits is refused before any digest is made.
        let chain_id = u64::try_from(self.chain_id).unwrap_or_default();
        let permitted =
            self.permitted.iter().map(|(token, amount)| TokenPermissions { token: *token, amount: *amount });
        let message = PermitBatchWitnessTransferFrom {
            permitted: permitted.collect(),
            spender: self.spender,
            nonce: self.nonce,
            deadline: U256::from(self.deadline),
            witness: PaymentBatch { escrow: self.escrow, payments: self.payments },
        };
        eip712::preimage(&message, &Deployed { chain_id, address: self.permit2 }.domain())
    }

    /// The digest that is signed.
    pub fn digest(&self) -> B256 {
        keccak256(self.preimage())
    }

    /// The typed data, as wallets take it, with addresses in this form.
    pub fn render(&self, form: &AddressForm) -> Value {
        let account = |address: Address| Value::from((form.write)(address));
        let permitted = self.permitted.iter().map(|(token, amount)| {
            let token = account(*token);
            json!({"token": token, "amount": amount.to_string()})
        });
        json!({
            "types": render_types(&types(), DOMAIN),
            "primaryType": PRIMARY,
            "domain": {
                "name": NAME,
                // Wallets compare it with the chain they are on, and some only as a number.
                "chainId": u64::try_from(self.chain_id).unwrap_or_default(),
                "verifyingContract": account(self.permit2),
            },
            "message": {
                "permitted": permitted.collect::<Vec<_>>(),
                "spender": account(self.spender),
                "nonce": self.nonce.to_string(),
                "deadline": self.deadline.to_string(),
                "witness": {"escrow": account(self.escrow), "payments": self.payments.to_string()},
            },
        })
    }

    /// Reads what [`BatchMessage::render`] writes.
    ///
    /// # Errors
    /// [`FieldError`], naming the member.
    pub fn read(whole: &Object<'_>) -> Result<Self, FieldError> {
        equal("primaryType", PRIMARY, whole.text("primaryType")?)?;
        check_types(&types(), DOMAIN, whole)?;
        let domain = whole.within("domain", "domain", DOMAIN)?;
        equal("domain.name", NAME, domain.text("name")?)?;
        let message = whole.within("message", "message", MESSAGE)?;
        let witness = message.within("message.witness", "witness", WITNESS)?;
        let permitted = message.list("message.permitted", "permitted", TOKEN_PERMISSIONS, TOKENS_MAX)?;
        let permitted = permitted.iter().map(|each| Ok((each.address("token")?, each.uint("amount")?)));
        Ok(Self {
            chain_id: domain.uint("chainId")?,
            permit2: domain.address("verifyingContract")?,
            permitted: permitted.collect::<Result<_, FieldError>>()?,
            spender: message.address("spender")?,
            nonce: message.uint("nonce")?,
            deadline: message.seconds("deadline")?,
            escrow: witness.address("escrow")?,
            payments: witness.word("payments")?,
        })
    }
}

fn types() -> Vec<(&'static str, Members)> {
    vec![(PRIMARY, MESSAGE), ("PaymentBatch", WITNESS), ("TokenPermissions", TOKEN_PERMISSIONS)]
}

/// What is drawn for a batch, of so much of each token for each payment.
///
/// # Errors
/// What is too much of a token for 256 bits, or too many tokens.
pub fn permitted(draws: impl IntoIterator<Item = (Address, Amount)>) -> Result<Vec<(Address, U256)>, String> {
    let mut sums = std::collections::BTreeMap::<Address, U256>::new();
    for (token, amount) in draws {
        let sum = sums.entry(token).or_default();
        *sum = sum.checked_add(amount.get()).ok_or_else(|| format!("draw more of {token} than 256 bits hold"))?;
    }
    if sums.len() > TOKENS_MAX {
        return Err(format!("draw {} tokens, a batch at most {TOKENS_MAX}", sums.len()));
    }
    Ok(sums.into_iter().collect())
}

/// What a permit on record signs for payments into `escrow`, as the contract takes it.
///
/// # Errors
/// [`ConvertError`] for what fits no EVM chain.
pub fn batch(permit: &BatchPermit, payer: &Account, escrow: &Account) -> Result<PaymentBatches::Batch, ConvertError> {
    let permitted = permit.permitted.iter().map(|BatchToken { token, amount }| {
        Ok(IPermit2::TokenPermissions { token: address(token)?, amount: units(*amount) })
    });
    Ok(PaymentBatches::Batch {
        payer: address(payer)?,
        permitted: permitted.collect::<Result<_, ConvertError>>()?,
        escrow: address(escrow)?,
        nonce: U256::from_be_bytes(permit.nonce.0),
        deadline: U256::from(permit.deadline),
        payments: word(permit.payments),
    })
}

/// The hash of a batch, which is its address's salt.
pub fn salt(batch: &PaymentBatches::Batch) -> B256 {
    keccak256(batch.abi_encode())
}

/// The same tokens on record.
pub fn recorded(permitted: &[(Address, U256)]) -> Option<Vec<BatchToken>> {
    let each = permitted
        .iter()
        .map(|(token, amount)| Some(BatchToken { token: account(*token)?, amount: Amount::new(*amount)? }));
    each.collect()
}

/// The message that a permit on record signs for payments into `escrow`, in the domain of this Permit2.
///
/// # Errors
/// [`ConvertError`] for what fits no EVM chain.
pub fn message(permit: &BatchPermit, escrow: &Account, verified_by: Deployed) -> Result<BatchMessage, ConvertError> {
    let permitted = permit.permitted.iter().map(|each| Ok((address(&each.token)?, units(each.amount))));
    Ok(BatchMessage {
        chain_id: U256::from(verified_by.chain_id),
        permit2: verified_by.address,
        permitted: permitted.collect::<Result<_, ConvertError>>()?,
        spender: address(&permit.contract)?,
        nonce: U256::from_be_bytes(permit.nonce.0),
        deadline: permit.deadline,
        escrow: address(escrow)?,
        payments: word(permit.payments),
    })
}

/// The way on record from a payment to the root.
pub fn proof(permit: &BatchPermit) -> Vec<B256> {
    permit.proof.iter().map(|hash: &Hash32| word(*hash)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::typed_data::{HEX, parse};

    fn leaves(count: usize) -> Vec<B256> {
        (0..count).map(|n| keccak256(n.to_be_bytes())).collect()
    }

    #[test]
    fn every_leaf_of_a_tree_of_any_size_leads_to_its_root_and_no_other_does() {
        assert!(Tree::of(Vec::new()).is_none());
        for count in (1..=20).chain([63, 64, 65, 255, PAYMENTS_MAX]) {
            let (tree, leaves) = (Tree::of(leaves(count)).unwrap(), leaves(count));
            for (index, leaf) in leaves.iter().enumerate() {
                let proof = tree.proof(index);
                assert!(proof.len() <= PROOF_MAX, "{count} {index}");
                assert_eq!(root_by(*leaf, &proof), tree.root(), "{count} {index}");
                assert_ne!(root_by(keccak256("another"), &proof), tree.root());
            }
        }
    }

    fn message() -> BatchMessage {
        let token = |n: u8| Address::repeat_byte(n);
        BatchMessage {
            chain_id: U256::from(1),
            permit2: token(9),
            permitted: vec![(token(1), U256::from(7)), (token(2), U256::MAX)],
            spender: token(3),
            nonce: U256::from(11),
            deadline: 1_800_000_000,
            escrow: token(4),
            payments: B256::repeat_byte(5),
        }
    }

    /// As Permit2 hashes it, by hand.
    #[test]
    fn the_digest_is_that_of_permit2() {
        let message = message();
        let token_type = keccak256("TokenPermissions(address token,uint256 amount)");
        let tokens =
            message.permitted.iter().map(|(token, amount)| keccak256((token_type, *token, *amount).abi_encode()));
        let tokens: Vec<u8> = tokens.flat_map(|hash| hash.0).collect();
        let begins = "PermitBatchWitnessTransferFrom(TokenPermissions[] permitted,address spender,uint256 nonce,uint256 deadline,";
        let rest = "PaymentBatch witness)PaymentBatch(address escrow,bytes32 payments)TokenPermissions(address token,uint256 amount)";
        let witness_type = keccak256("PaymentBatch(address escrow,bytes32 payments)");
        let witness = keccak256((witness_type, message.escrow, message.payments).abi_encode());
        let (kind, deadline) = (keccak256(format!("{begins}{rest}")), U256::from(message.deadline));
        let hash = (kind, keccak256(tokens), message.spender, message.nonce, deadline, witness).abi_encode();
        let domain_type = keccak256("EIP712Domain(string name,uint256 chainId,address verifyingContract)");
        let domain = keccak256((domain_type, keccak256("Permit2"), message.chain_id, message.permit2).abi_encode());
        let expected = keccak256([vec![0x19, 1], domain.0.to_vec(), keccak256(hash).0.to_vec()].concat());
        assert_eq!(message.digest(), expected);
    }

    #[test]
    fn typed_data_is_read_as_it_is_written_and_only_so() {
        let written = message().render(&HEX);
        let read = |value: &Value| {
            let text = value.to_string();
            let parsed = parse(&text).unwrap();
            Object::typed_data(&parsed, &HEX).and_then(|whole| BatchMessage::read(&whole))
        };
        assert_eq!(read(&written), Ok(message()));
        let altered = |path: &str, to: Value| {
            let mut other = written.clone();
            *other.pointer_mut(path).unwrap() = to;
            read(&other).unwrap_err().to_string()
        };
        assert!(altered("/primaryType", json!("PermitBatchTransferFrom")).starts_with("primaryType"));
        assert!(altered("/domain/name", json!("Permit3")).starts_with("domain.name"));
        assert!(altered("/message/permitted", json!({})).starts_with("message.permitted"));
        assert!(altered("/message/permitted/1/token", json!("0x")).starts_with("message.permitted.token"));
        assert!(
            altered("/message/witness", json!({"escrow": "0x", "payments": "0x", "more": 1}))
                .starts_with("message.witness")
        );
        let many = vec![written["message"]["permitted"][0].clone(); TOKENS_MAX + 1];
        assert!(altered("/message/permitted", json!(many)).starts_with("message.permitted"));
    }

    #[test]
    fn what_is_drawn_is_summed_by_token_in_their_order() {
        let (one, two) = (Address::repeat_byte(1), Address::repeat_byte(2));
        let amount = |text: &str| text.parse::<Amount>().unwrap();
        let draws = [(two, amount("5")), (one, amount("2")), (two, amount("6"))];
        assert_eq!(permitted(draws), Ok(vec![(one, U256::from(2)), (two, U256::from(11))]));
        let most = Amount::new(U256::MAX).unwrap();
        assert!(permitted([(one, most), (one, amount("1"))]).is_err());
        let many = (0..=TOKENS_MAX).map(|n| (Address::repeat_byte(u8::try_from(n).unwrap()), amount("1")));
        assert!(permitted(many).is_err());
    }

    proptest! {
        #[test]
        fn no_two_leaves_of_a_tree_have_each_others_place(count in 2_usize..=64, seed in any::<u64>()) {
            let tree = Tree::of(leaves(count)).unwrap();
            let (one, other) = (seed as usize % count, (seed >> 32) as usize % count);
            prop_assume!(one != other);
            let proof = tree.proof(one);
            // Siblings share all but the first step.
            if one ^ 1 != other {
                prop_assert_ne!(root_by(leaves(count)[other], &proof), tree.root());
            }
        }
    }
}
