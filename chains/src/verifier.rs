//! The fulfillment verifier: believes nothing it is told, looks at both chains, and signs what it finds there.
//!
//! What is checked is the same for every pair of chains; [`VerifiedChain`] is what a family has to tell, [`AttestingChain`] what
//! it has to sign. A chain whose releaser's key the verifier does not have is a destination only.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;

use events::{
    Account, ChainId, PaymentId,
    event::EscrowPlan,
    quote::{Quote, SignedQuote},
    time::unix_seconds,
};
use sagas::ports::{DeliveryOrder, DeliveryState, Statement, Transient, VerificationCase};

use crate::{
    config::CommonConfig,
    escrow::{EscrowRecord, QuotedEscrow, QuotedRecord, State},
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

/// A chain as a verifier sees it.
#[async_trait]
pub trait VerifiedChain: Send + Sync {
    /// What the configuration says of it.
    fn config(&self) -> &CommonConfig;

    /// What the escrow at `contract` has on record for the payment at the depth that the chain requires; `None` when it
    /// knows nothing.
    ///
    /// # Errors
    /// [`Transient`], also when `contract` is not a contract of this family.
    async fn escrow_record(
        &self,
        payment_id: &PaymentId,
        contract: &Account,
    ) -> Result<Option<EscrowRecord>, Transient>;

    /// As [`VerifiedChain::escrow_record`], compared with what is `quoted` where that spares a search for what the escrow commits
    /// to: whoever asks chooses the payment.
    ///
    /// # Errors
    /// As [`VerifiedChain::escrow_record`].
    async fn quoted_record(&self, quoted: &QuotedEscrow<'_>) -> Result<QuotedRecord, Transient> {
        self.escrow_record(quoted.payment_id, &quoted.plan.contract).await.map(QuotedRecord::from)
    }

    /// Where the delivery stands, on this chain as its destination.
    ///
    /// # Errors
    /// [`Transient`].
    async fn delivery_state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient>;
}

/// A chain whose escrows take statements that are signed here.
#[async_trait]
pub trait AttestingChain: VerifiedChain {
    /// The key of a releaser.
    type Key: Clone + Send + Sync + 'static;

    /// The account of a releaser's key.
    fn account(key: &Self::Key) -> Account;

    /// The signature of `key` over the statement, for the escrow of `plan`: hex with 0x.
    ///
    /// # Errors
    /// [`Transient`] when the statement or the plan is not one of this chain's family, or nothing can be signed with `key`.
    async fn sign(&self, key: &Self::Key, statement: &Statement, plan: &EscrowPlan) -> Result<String, Transient>;
}

/// A verifier with its keys.
#[derive(Clone, Default)]
pub struct Verifier {
    sources: BTreeMap<ChainId, Source>,
    destinations: BTreeMap<ChainId, Arc<dyn VerifiedChain>>,
}

/// A chain with escrows, and the key of their releaser.
#[derive(Clone)]
struct Source {
    chain: Arc<dyn VerifiedChain>,
    /// The releaser's account.
    releaser: Account,
    signing: Arc<dyn Signing>,
}

/// Signs statements by the releaser's key, whatever the family.
#[async_trait]
trait Signing: Send + Sync {
    async fn sign(&self, statement: &Statement, plan: &EscrowPlan) -> Result<String, Transient>;
}

/// A chain with the key of its releaser.
struct Releaser<C: AttestingChain> {
    chain: C,
    key: C::Key,
}

#[async_trait]
impl<C: AttestingChain> Signing for Releaser<C> {
    async fn sign(&self, statement: &Statement, plan: &EscrowPlan) -> Result<String, Transient> {
        self.chain.sign(&self.key, statement, plan).await
    }
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
    source: &'a Source,
    destination: &'a dyn VerifiedChain,
    quote: SignedQuote,
    record: EscrowRecord,
}

impl Verifier {
    /// The verifier with chains of one family besides: as destinations, and as sources when it has the releaser's key.
    pub fn with_chains<C>(mut self, chains: impl IntoIterator<Item = C>, releaser: Option<C::Key>) -> Self
    where
        C: AttestingChain + Clone + 'static,
    {
        for chain in chains {
            let chain_id = chain.config().chain_id.clone();
            if let Some(key) = releaser.clone() {
                let releaser = C::account(&key);
                let signing = Arc::new(Releaser { chain: chain.clone(), key });
                self.sources.insert(chain_id.clone(), Source { chain: Arc::new(chain.clone()), releaser, signing });
            }
            self.destinations.insert(chain_id, Arc::new(chain));
        }
        self
    }

    /// The account that signs for each chain with escrows.
    pub fn releasers(&self) -> BTreeMap<ChainId, Account> {
        self.sources.iter().map(|(chain_id, source)| (chain_id.clone(), source.releaser.clone())).collect()
    }

    /// Whether a case is one to sign for at all: the chain of its escrow is served, the escrow trusted, and its releaser this
    /// verifier or a set with it. No chain is asked, so a case of somebody else's escrow costs nothing.
    ///
    /// # Errors
    /// Why it is not.
    pub fn screen(&self, case: &VerificationCase) -> Result<(), String> {
        let screened = self.source(case).and_then(|source| require(concerns(case, source)));
        screened.map_err(|verdict| match verdict {
            Verdict::NotYet(reason) | Verdict::Refused(reason) => reason,
            Verdict::Fault(fault) => fault.to_string(),
        })
    }

    fn source(&self, case: &VerificationCase) -> Result<&Source, Verdict> {
        self.sources.get(&case.escrow.chain_id).ok_or_else(|| not_served(&case.escrow.chain_id))
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
            DeliveryState::Final(_) => {
                let statement = Statement::Delivery {
                    payment_id: case.payment_id.clone(),
                    quote_hash: checked.quote.hash(),
                    payout_account: checked.quote.quote().payout_account.clone(),
                };
                checked.sign(case, &statement).await
            }
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
            DeliveryState::Impossible => {
                let (payment_id, quote_hash) = (case.payment_id.clone(), checked.quote.hash());
                checked.sign(case, &Statement::NonDelivery { payment_id, quote_hash }).await
            }
            DeliveryState::Final(_) => Err(Verdict::Refused("it was delivered".to_owned())),
            DeliveryState::Seen(_) => Err(Verdict::NotYet("a delivery is on chain".to_owned())),
            DeliveryState::NotSeen => Err(Verdict::NotYet("it may still be delivered".to_owned())),
        }
    }

    async fn check(&self, case: &VerificationCase) -> Result<Checked<'_>, Verdict> {
        let source = self.source(case)?;
        require(concerns(case, source))?;
        let quote =
            SignedQuote::parse_stored(&case.quote_document).map_err(|error| Verdict::Refused(error.to_string()))?;
        let chain_id = quote.quote().destination.asset().chain();
        let destination = self.destinations.get(chain_id).map(Arc::as_ref);
        let destination = destination.ok_or_else(|| not_served(chain_id))?;
        require(answers(case, quote.quote(), destination))?;

        let record = match source.chain.quoted_record(&quoted(case, &quote)).await? {
            QuotedRecord::Absent => {
                return Err(Verdict::NotYet("nothing is in escrow at the required depth".to_owned()));
            }
            QuotedRecord::Deposited => {
                return Err(Verdict::NotYet("the escrow is not reserved at the required depth".to_owned()));
            }
            QuotedRecord::Other => {
                return Err(Verdict::Refused("the escrow commits to something else than this case".to_owned()));
            }
            QuotedRecord::Reserved(record) => *record,
        };
        require(is_committed(case, &quote, &record))?;
        Ok(Checked { source, destination, quote, record })
    }
}

/// What must hold of the case for it to be this verifier's; the first that does not is named.
fn concerns(case: &VerificationCase, source: &Source) -> Vec<(&'static str, bool)> {
    let (terms, plan) = (&case.terms, &case.escrow);
    let chain_id = &plan.chain_id;
    vec![
        ("the escrow is not one that this verifier trusts", source.chain.config().trusts_escrow(&plan.contract)),
        ("the releaser is another account", attests_for(case, &source.releaser)),
        ("the source is on another chain than the escrow", terms.source.asset().chain() == chain_id),
    ]
}

/// Whether the account's word counts for the escrow of the case: it is the releaser, or a member of the set that is.
fn attests_for(case: &VerificationCase, account: &Account) -> bool {
    match &case.verifier_set {
        Some(set) => set.id().as_ref() == Some(&case.escrow.releaser) && set.member(account).is_some(),
        None => case.escrow.releaser == *account,
    }
}

/// What must hold between the case and the quote, apart from any chain; the first that does not is named.
fn answers(case: &VerificationCase, quote: &Quote, destination: &dyn VerifiedChain) -> Vec<(&'static str, bool)> {
    let (terms, plan) = (&case.terms, &case.escrow);
    let chain_id = &plan.chain_id;
    vec![
        ("the quote is for another auction", quote.may_serve(&case.payment_id)),
        ("the quote is for other terms", quote.terms_hash == terms.hash()),
        ("the quote is for another source chain", quote.source_chain == *chain_id),
        ("the quote is for another escrow", quote.escrow_contract == plan.contract),
        ("the quote's destination is none of the terms'", terms.destination().contains(&quote.destination)),
        ("the quote's amount is not the terms'", quote.fulfillment_amount == terms.fulfillment_amount),
        ("the quote names another proxy", destination.config().trusts_proxy(&quote.fulfillment_proxy)),
    ]
}

/// What the escrow of the case commits to.
fn quoted<'a>(case: &'a VerificationCase, quote: &'a SignedQuote) -> QuotedEscrow<'a> {
    let (source, offered) = (&case.terms.source, quote.quote());
    QuotedEscrow {
        payment_id: &case.payment_id,
        plan: &case.escrow,
        payer: source.account(),
        asset: source.asset(),
        terms_hash: case.terms.hash(),
        quote_hash: quote.hash(),
        payout_account: &offered.payout_account,
        source_amount: offered.source_amount,
        fulfill_by: unix_seconds(offered.fulfill_by),
        deposited: None,
    }
}

/// What must hold between the case and what is committed on chain: of an escrow that was reassigned, the quote that it is reserved
/// for now. Nothing is signed of one that lapsed before; its non-delivery was, or the escrow would not have been reassigned.
fn is_committed(case: &VerificationCase, quote: &SignedQuote, record: &EscrowRecord) -> Vec<(&'static str, bool)> {
    let offered = quote.quote();
    let source = &case.terms.source;
    vec![
        ("the escrow has other accounts or windows", record.is_of(&case.escrow)),
        ("the escrow commits to other terms", record.terms_hash == case.terms.hash()),
        ("the escrow commits to another quote", record.quote_hash == quote.hash()),
        ("the escrow is another payer's", record.payer.as_ref() == Some(source.account())),
        ("the escrow holds another token", record.asset == *source.asset()),
        ("the escrow pays another account", record.settler.as_ref() == Some(&offered.payout_account)),
        ("the escrow pays another amount", record.source_amount == Some(offered.source_amount)),
        ("the escrow holds less than it pays", record.deposited >= Some(offered.source_amount)),
        ("the escrow allows another time", record.fulfill_by == unix_seconds(offered.fulfill_by)),
    ]
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

    async fn sign(&self, case: &VerificationCase, statement: &Statement) -> Result<String, Verdict> {
        self.source.signing.sign(statement, &case.escrow).await.map_err(Verdict::Fault)
    }
}

fn not_served(chain_id: &ChainId) -> Verdict {
    Verdict::Refused(format!("{chain_id} is not served"))
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
