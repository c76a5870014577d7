//! What only the cluster can say of a purchase before it is accepted (ADR 160): whether offers have addresses there, whether somebody could pay to
//! this one, and whether what a buyer signed may still land.

use gateway_program::log;

use events::{Account, OwnedAsset};
use sagas::ports::Transient;

use super::{
    broadcaster::Broadcaster,
    deposit_addresses::{self, Unfit},
    exact::ExactTransfer,
    node::{Commitment, Node},
    program::{key, mint, text},
    token_accounts::{balance, place_of, token_accounts},
    transaction::wire_of,
};

/// Whether `escrow` is the chain's own program, and of a version that has addresses of offers.
///
/// # Errors
/// [`Transient`].
pub async fn served(node: &Node, escrow: &Account) -> Result<bool, Transient> {
    let is_own = *escrow == node.config().common.escrow_contract;
    Ok(is_own && node.program_says(&key(escrow)?, log::OFFER_SAID).await?)
}

/// Why an offer could serve no buyer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnfitOffer {
    /// The program takes no such token, or the merchant could not be given any.
    Source(Unfit),
    /// Nothing could be sent to the offer's address.
    Address(String),
}

/// Why nobody could pay to the address `pay_to` of an offer, or the merchant, who is the account of `source`, could not be given anything;
/// `None` where both could.
///
/// # Errors
/// [`Transient`].
pub async fn unfit(node: &Node, source: &OwnedAsset, pay_to: &Account) -> Result<Option<UnfitOffer>, Transient> {
    if let Some(unfit) = deposit_addresses::unfit(node, source).await? {
        return Ok(Some(UnfitOffer::Source(unfit)));
    }
    let (at, mint) = (key(pay_to)?, mint(source.asset())?);
    let tokens = token_accounts(&at, &mint);
    let found = node.accounts(&[mint, tokens[0], tokens[1]], Commitment::Confirmed, 0).await?;
    let place = found.account(0).map_or(0, |token| place_of(&token.owner));
    Ok(match balance(&found, 1 + place, &at) {
        Some(held) if held.is_frozen => Some(UnfitOffer::Address(format!("the token account of {pay_to} is frozen"))),
        Some(_) => None,
        None => Some(UnfitOffer::Address(format!(
            "{pay_to} has no token account of {mint} yet, and clients make none; make it once: spl-token create-account {mint} \
             --owner {pay_to} --fee-payer <your keypair>",
            mint = text(&mint)
        ))),
    })
}

/// Whether the transaction of a purchase, hex with 0x, may land in the next block as far as its blockhash tells.
///
/// # Errors
/// [`Transient`].
pub async fn counts(node: &Node, transaction: &str) -> Result<bool, Transient> {
    let transfer = wire_of(transaction).and_then(|wire| ExactTransfer::read(&wire).ok());
    let transfer = transfer.ok_or_else(|| Transient::misconfigured("the purchase has no transaction"))?;
    Ok(Broadcaster::of(node).counts(&transfer.blockhash(), Commitment::Confirmed, 0).await?.0)
}
