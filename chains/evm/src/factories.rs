//! Factories of the gateway: contracts at one address on every chain, from whose addresses money comes into escrows.

use alloy::primitives::Address;

use chains::deployment::Finding;
use escrow_abi::{artefacts, contracts::address};
use events::Account;
use sagas::ports::Transient;

use super::{
    minimal_proxy::implementation,
    node::{At, Node},
    query::Query,
};

/// Whether the chain has the factory of this version, as `findings` judge its code, and the escrow takes what comes from its addresses.
///
/// # Errors
/// [`Transient`].
pub(crate) async fn is_served(
    node: &Node,
    escrow: &Account,
    factory: Address,
    findings: fn(&[u8], Address) -> Vec<Finding>,
) -> Result<bool, Transient> {
    let head = At::Block(node.head().await?);
    let (query, escrow) = (Query::of(node), address(escrow)?);
    let (factory_code, escrow) = futures::try_join!(query.code(factory, head), query.code(escrow, head))?;
    let is_ours = findings(&factory_code, implementation(factory)).iter().all(|finding| finding.fault.is_none());
    Ok(is_ours && artefacts::takes_deposits_for(&escrow))
}
