//! The fulfillment verifier: believes nothing it is told, looks at both chains, and signs what it finds there.

use std::collections::HashMap;

use alloy::signers::local::PrivateKeySigner;

use events::{
    ChainId, Family,
    quote::{Quote, SignedQuote},
    time::unix_seconds,
};
use sagas::ports::{DeliveryOrder, DeliveryState, Statement, Transient, VerificationCase};

use super::{
    attest,
    contracts::{self, State, address, text},
    node::{At, Node},
    reads::EscrowRecord,
};

/// What a verifier answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The signed statement, hex with 0x.
    Attested(String),
    /// Not so for now; ask again.
    NotYet(String),
    /// Never, for this case.
    Refused(String),
}

/// A verifier with its key.
#[derive(Debug)]
pub struct EvmVerifier {
    nodes: HashMap<ChainId, Node>,
    signer: PrivateKeySigner,
}

/// Why a case is not attested.
enum Verdict {
    NotYet(String),
    Refused(String),
    Fault(Transient),
}

impl From<Transient> for Verdict {
    fn from(fault: Transient) -> Self {
        Self::Fault(fault)
    }
}

/// A case that is what it says it is.
struct Checked<'a> {
    source: &'a Node,
    destination: &'a Node,
    quote: SignedQuote,
    record: EscrowRecord,
}

impl EvmVerifier {
    /// A verifier that signs with `signer` and sees the chains of `nodes`.
    pub fn new(nodes: impl IntoIterator<Item = Node>, signer: PrivateKeySigner) -> Self {
        let nodes = nodes.into_iter().map(|node| (node.chain_id().clone(), node)).collect();
        Self { nodes, signer }
    }

    /// The account that signs, lower case.
    pub fn account(&self) -> String {
        text(self.signer.address())
    }

    /// The signed attestation of delivery, once the delivery is on the destination chain at depth, with every field right,
    /// and the escrow holds the money under the very quote.
    ///
    /// # Errors
    /// [`Transient`] when a chain gives no answer; nothing may be concluded.
    pub async fn attest_delivery(&self, case: &VerificationCase) -> Result<Outcome, Transient> {
        outcome(self.delivery(case).await)
    }

    /// The signed statement of non-delivery, once no delivery can be made any more.
    ///
    /// # Errors
    /// [`Transient`] when a chain gives no answer; nothing may be concluded.
    pub async fn attest_non_delivery(&self, case: &VerificationCase) -> Result<Outcome, Transient> {
        outcome(self.non_delivery(case).await)
    }

    async fn delivery(&self, case: &VerificationCase) -> Result<String, Verdict> {
        let checked = self.check(case).await?;
        if checked.record.state == State::Refunded {
            return Err(Verdict::Refused("the escrow was refunded".to_owned()));
        }
        match checked.destination.delivery_state(&checked.order(case)).await? {
            DeliveryState::Final(_) => self.sign(
                &checked,
                case,
                &Statement::Delivery {
                    payment_id: case.payment_id.clone(),
                    quote_hash: checked.quote.hash(),
                    payout_account: checked.quote.quote().payout_account.clone(),
                },
            ),
            DeliveryState::Seen(_) => Err(Verdict::NotYet("the delivery has not its depth yet".to_owned())),
            DeliveryState::NotSeen => Err(Verdict::NotYet("no delivery is on chain".to_owned())),
            DeliveryState::Impossible => {
                Err(Verdict::Refused("nothing was delivered, and the time for it is over".to_owned()))
            }
        }
    }

    async fn non_delivery(&self, case: &VerificationCase) -> Result<String, Verdict> {
        let checked = self.check(case).await?;
        if checked.record.state == State::Released {
            return Err(Verdict::Refused("the escrow was released".to_owned()));
        }
        match checked.destination.delivery_state(&checked.order(case)).await? {
            DeliveryState::Impossible => self.sign(
                &checked,
                case,
                &Statement::NonDelivery { payment_id: case.payment_id.clone(), quote_hash: checked.quote.hash() },
            ),
            DeliveryState::Final(_) => Err(Verdict::Refused("it was delivered".to_owned())),
            DeliveryState::Seen(_) => Err(Verdict::NotYet("a delivery is on chain".to_owned())),
            DeliveryState::NotSeen => Err(Verdict::NotYet("it may still be delivered".to_owned())),
        }
    }

    fn sign(&self, checked: &Checked<'_>, case: &VerificationCase, statement: &Statement) -> Result<String, Verdict> {
        let escrow = address(&case.escrow.contract).map_err(|error| Verdict::Refused(error.to_string()))?;
        attest::sign_statement(&self.signer, statement, checked.source.evm_id(), escrow)
            .map_err(|error| Verdict::Fault(Transient(error.to_string())))
    }

    fn node(&self, chain_id: &ChainId) -> Result<&Node, Verdict> {
        self.nodes.get(chain_id).ok_or_else(|| Verdict::Refused(format!("{chain_id} is not served")))
    }

    async fn check(&self, case: &VerificationCase) -> Result<Checked<'_>, Verdict> {
        let quote =
            SignedQuote::parse_stored(&case.quote_document).map_err(|error| Verdict::Refused(error.to_string()))?;
        let source = self.node(&case.escrow.chain_id)?;
        let destination = self.node(quote.quote().destination.asset().chain())?;
        require(self.answers(case, quote.quote(), destination))?;

        let contract = address(&case.escrow.contract).map_err(|error| Verdict::Refused(error.to_string()))?;
        let settled = source.settled().await?;
        let record = source.escrow_record(&case.payment_id, contract, At::Block(settled)).await?;
        let Some(record) = record else {
            return Err(Verdict::NotYet("nothing is in escrow at the required depth".to_owned()));
        };
        if record.state == State::Deposited {
            return Err(Verdict::NotYet("the escrow is not reserved at the required depth".to_owned()));
        }
        require(self.is_committed(case, &quote, &record))?;
        Ok(Checked { source, destination, quote, record })
    }

    /// What must hold between the case and the quote, apart from any chain; the first that does not is named.
    fn answers(&self, case: &VerificationCase, quote: &Quote, destination: &Node) -> Vec<(&'static str, bool)> {
        let (terms, plan) = (&case.terms, &case.escrow);
        let source_asset = terms.source.asset();
        vec![
            ("the releaser is another account", address(&plan.releaser) == Ok(self.signer.address())),
            ("the source is on another chain than the escrow", *source_asset.chain() == plan.chain_id),
            ("the quote is for another auction", quote.may_serve(&case.payment_id)),
            ("the quote is for other terms", quote.terms_hash == terms.hash()),
            ("the quote is for another source chain", quote.source_chain == plan.chain_id),
            ("the quote is for another escrow", same(&quote.escrow_contract, &plan.contract)),
            ("the quote's destination is none of the terms'", terms.destination().contains(&quote.destination)),
            ("the quote's amount is not the terms'", quote.fulfillment_amount == terms.fulfillment_amount),
            ("the quote names another proxy", destination.config().trusts_proxy(&quote.fulfillment_proxy)),
        ]
    }

    /// What must hold between the case and what is committed on chain.
    fn is_committed(
        &self,
        case: &VerificationCase,
        quote: &SignedQuote,
        record: &EscrowRecord,
    ) -> Vec<(&'static str, bool)> {
        let offered = quote.quote();
        let source = &case.terms.source;
        vec![
            ("the escrow has other accounts or windows", record.is_of(&case.escrow)),
            ("the escrow commits to other terms", record.terms_hash == case.terms.hash()),
            ("the escrow commits to another quote", record.quote_hash == quote.hash()),
            ("the escrow is another payer's", address(source.account().as_str()) == Ok(record.payer)),
            ("the escrow holds another token", contracts::erc20(source.asset()) == Ok(record.token)),
            ("the escrow pays another account", address(&offered.payout_account) == Ok(record.settler)),
            ("the escrow pays another amount", record.source_amount == Some(offered.source_amount)),
            ("the escrow allows another time", record.fulfill_by == unix_seconds(offered.fulfill_by)),
        ]
    }
}

impl Checked<'_> {
    fn order(&self, case: &VerificationCase) -> DeliveryOrder {
        let quote = self.quote.quote();
        DeliveryOrder {
            payment_id: case.payment_id.clone(),
            quote_hash: self.quote.hash(),
            destination: quote.destination.clone(),
            amount: quote.fulfillment_amount,
            delivery_account: quote.delivery_account.clone(),
            proxy: quote.fulfillment_proxy.clone(),
            fulfill_by: unix_seconds(quote.fulfill_by),
        }
    }
}

/// Whether two texts name one account.
fn same(one: &str, other: &str) -> bool {
    let parsed = |text| events::Account::parse(Family::Evm, text);
    matches!((parsed(one), parsed(other)), (Ok(one), Ok(other)) if one == other)
}

fn require(claims: Vec<(&'static str, bool)>) -> Result<(), Verdict> {
    match claims.into_iter().find(|(_, holds)| !holds) {
        Some((fault, _)) => Err(Verdict::Refused(fault.to_owned())),
        None => Ok(()),
    }
}

fn outcome(result: Result<String, Verdict>) -> Result<Outcome, Transient> {
    match result {
        Ok(signature) => Ok(Outcome::Attested(signature)),
        Err(Verdict::NotYet(reason)) => Ok(Outcome::NotYet(reason)),
        Err(Verdict::Refused(reason)) => Ok(Outcome::Refused(reason)),
        Err(Verdict::Fault(fault)) => Err(fault),
    }
}
