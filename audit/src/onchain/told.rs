//! Chains that tell what a test has them tell, and a signature for every statement and signer.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use serde_json::json;

use chains::{
    auditor::{Audit, Case, Discrepancy, EscrowSnapshot, Kind, Reassignment},
    config::CommonConfig,
    escrow::{EscrowRecord, State},
    verifier::VerifiedChain,
};
use events::{
    Account, Amount, ChainId, Family, Hash32, PaymentId, Terms,
    event::{Authorization, EscrowOpened, EscrowPlan, EscrowRefunded, EscrowSecured, Inclusion},
    time::unix_seconds,
    verifier_set::SetAttestation,
};
use sagas::ports::{DeliveryOrder, DeliveryState, EscrowState, PayerDeposit, Statement, Transient};

use crate::{
    adapters::AuditedChain,
    consistency::tests::{ACCOUNT, at},
};

/// The hexadecimal text that stands for a statement signed by a member: another one for everything that differs.
pub fn signature(statement: &Statement, member: &Account) -> String {
    let hash = Hash32::keccak256(format!("{statement:?} {member}"));
    let text = hash.to_string();
    format!("{text}{}1b", &text[2..])
}

/// What a chain holds.
#[derive(Debug, Clone)]
pub struct Held {
    /// By the quote that it delivers for; of others nothing can be asked.
    pub deliveries: HashMap<Hash32, DeliveryState>,
    /// Where the escrow stands.
    pub escrow: State,
    /// The quote that it is reserved for.
    pub reserved_for: Option<Hash32>,
    /// Its reassignments: from which quote, to which, and where.
    pub reassigned: Vec<(Hash32, Hash32, Inclusion)>,
    /// Number of the settled block.
    pub settled_number: u64,
    /// UNIX second of the settled block.
    pub settled_time: u64,
}

impl Held {
    /// An escrow in this state, and no delivery.
    pub fn escrow(escrow: State) -> Self {
        let (deliveries, reassigned) = (HashMap::new(), Vec::new());
        let (settled_number, settled_time) = (100, unix_seconds(at(80)));
        Self { deliveries, escrow, reserved_for: None, reassigned, settled_number, settled_time }
    }
}

/// A chain that bears out every transaction but those it does not hold, and takes signatures as [`signature`] makes them.
#[derive(Debug)]
struct Told {
    config: CommonConfig,
    held: Held,
}

#[async_trait]
impl VerifiedChain for Told {
    fn config(&self) -> &CommonConfig {
        &self.config
    }

    async fn escrow_record(&self, _: &PaymentId, _: &Account) -> Result<Option<EscrowRecord>, Transient> {
        Ok(None)
    }

    async fn delivery_state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        let held = self.held.deliveries.get(&order.quote_hash).cloned();
        held.ok_or_else(|| Transient::unreachable("the node is gone"))
    }
}

#[async_trait]
impl Audit for Told {
    fn config(&self) -> &CommonConfig {
        &self.config
    }

    async fn audit_authorization(
        &self,
        _: &PaymentId,
        _: &Terms,
        _: &EscrowPlan,
        _: &Authorization,
    ) -> Result<Vec<Discrepancy>, Transient> {
        Ok(Vec::new())
    }

    async fn audit_deposit(&self, _: &Case<'_>, _: &EscrowSecured) -> Result<Vec<Discrepancy>, Transient> {
        Ok(Vec::new())
    }

    async fn audit_reassignment(
        &self,
        case: &Case<'_>,
        reassignment: &Reassignment<'_>,
    ) -> Result<Vec<Discrepancy>, Transient> {
        let told = (reassignment.previous, case.quote_hash, reassignment.inclusion.clone());
        let missing = Discrepancy { kind: Kind::Missing, what: "reassigned nothing".to_owned() };
        Ok(if self.held.reassigned.contains(&told) { Vec::new() } else { vec![missing] })
    }

    async fn audit_delivery(&self, _: &Case<'_>, _: &Inclusion) -> Result<Vec<Discrepancy>, Transient> {
        Ok(Vec::new())
    }

    async fn audit_release(&self, _: &Case<'_>, _: &Inclusion, _: Amount) -> Result<Vec<Discrepancy>, Transient> {
        Ok(Vec::new())
    }

    async fn audit_refund(&self, _: &Case<'_>, _: &EscrowRefunded, _: Amount) -> Result<Vec<Discrepancy>, Transient> {
        Ok(Vec::new())
    }

    async fn audit_escrow(
        &self,
        _: &PaymentId,
        _: &EscrowPlan,
        case: Option<&Case<'_>>,
    ) -> Result<(EscrowSnapshot, Vec<Discrepancy>), Transient> {
        let Held { escrow, reserved_for, settled_number, settled_time, .. } = self.held;
        let is_another = reserved_for.is_some() && reserved_for != case.map(|case| case.quote_hash);
        let another = is_another.then(|| Discrepancy { kind: Kind::Contradiction, what: "another quote".to_owned() });
        // Deposits here name the settler at once.
        let reserved_for = reserved_for.or(case.map(|case| case.quote_hash));
        let snapshot = EscrowSnapshot { state: Some(escrow), reserved_for, settled_number, settled_time };
        Ok((snapshot, another.into_iter().collect()))
    }

    async fn attestation_holds(&self, statement: &Statement, plan: &EscrowPlan, text: &str) -> Result<bool, Transient> {
        let is_single = text == signature(statement, &plan.releaser);
        Ok(is_single
            || SetAttestation::parse(Family::Evm, text).is_some_and(|word| {
                let signed = |(member, bytes): &(Account, Vec<u8>)| {
                    signature(statement, member) == format!("0x{}", data_encoding::HEXLOWER.encode(bytes))
                };
                word.id == plan.releaser && word.signatures.iter().all(signed)
            }))
    }

    async fn signed_by(
        &self,
        statement: &Statement,
        _: &EscrowPlan,
        member: &Account,
        text: &str,
    ) -> Result<bool, Transient> {
        Ok(text == signature(statement, member))
    }

    async fn escrow_state(&self, _: &PaymentId, _: &EscrowPlan) -> Result<EscrowState, Transient> {
        Ok(EscrowState::Absent)
    }

    async fn audit_given_back(&self, _: &PayerDeposit, _: &EscrowRefunded) -> Result<Vec<Discrepancy>, Transient> {
        Ok(Vec::new())
    }

    async fn escrow_found(&self, _: &PayerDeposit) -> Result<Option<EscrowOpened>, Transient> {
        Ok(None)
    }
}

/// The chain `eip155:{chain}`, which holds this.
pub fn told(chain: u64, held: Held) -> (ChainId, AuditedChain) {
    let config = json!({
        "chain_id": format!("eip155:{chain}"),
        "escrow_contract": ACCOUNT,
        "fulfillment_proxy": ACCOUNT,
        "reserver": ACCOUNT,
        "releaser": ACCOUNT,
        "required_depth": "finalized",
        "refund_delay_seconds": 40,
    });
    let chain = Arc::new(Told { config: serde_json::from_value(config).unwrap(), held });
    (chain.config.chain_id.clone(), AuditedChain { audit: chain.clone(), verified: chain })
}
