//! Deposits from an address (ADR 157): the gateway's call that carries what came there into the escrow and names the settler.

use gateway_program::{
    GatewayError, Key, host,
    instruction::{DepositFromAddress, Reservation},
    rules,
    token::Mint,
};
use signer::Ed25519Key;

use events::Amount;
use sagas::ports::{DepositOrder, PrepareError};

use super::{
    calls::{Call, balances, config, unused_escrow},
    deposit_addresses::{Held, Place},
    node::{Commitment, Node, Snapshot},
    program::{ConvertError, key, text, units},
    refusal::refused,
    submitters,
};

/// The deposit of `amount` from the address of the order, and who sends it: the first of `submitters` that can and has the lamports for so
/// many exits left.
///
/// # Errors
/// See [`PrepareError`].
pub(super) async fn deposit<'a>(
    node: &Node,
    order: &DepositOrder,
    amount: Amount,
    submitters: &[&'a Ed25519Key],
    exits_left: u64,
) -> Result<(Call<'a>, &'a Ed25519Key), PrepareError> {
    let parts = Parts { place: Place::of(&order.payer_deposit())?, reservation: reservation(order, amount)? };
    let mut wanted = parts.accounts().to_vec();
    let fixed = wanted.len();
    wanted.extend(submitters.iter().map(|submitter| submitter.public()));
    let settled = node.settled().await?;
    let snapshot = node.accounts(&wanted, Commitment::Confirmed, settled.slot).await?;
    let held = parts.check(node, &snapshot)?;
    let balances = balances(&snapshot, fixed);
    let submitter = submitters::choose(node, submitters, &balances, exits_left)?;
    let Parts { place, reservation } = &parts;
    let (program, payer) = (place.program(), submitter.public());
    let call = Call {
        program,
        instructions: vec![host::deposit_from_address(&program, payer, held.token_program, place.terms(), reservation)],
        contended: vec![place.token_account(&held.token_program)],
        submitters: submitters.iter().copied().zip(balances).collect(),
    };
    Ok((call, submitter))
}

fn reservation(order: &DepositOrder, amount: Amount) -> Result<Reservation, ConvertError> {
    let reservation = &order.reservation;
    Ok(Reservation {
        deposited: units(amount)?,
        quote_hash: reservation.quote_hash.0,
        settler: key(&reservation.payout_account)?,
        source_amount: units(reservation.source_amount)?,
        fulfill_by: reservation.fulfill_by,
    })
}

/// What a deposit is made of, in the program's types.
struct Parts {
    place: Place,
    reservation: Reservation,
}

impl Parts {
    /// The accounts that [`Self::check`] looks at, in order.
    fn accounts(&self) -> [Key; 5] {
        let [mint, plain, extended] = self.place.wanted();
        let (program, terms) = (self.place.program(), self.place.terms());
        [
            mint,
            plain,
            extended,
            host::config_address(&program).key,
            host::escrow_address(&program, &terms.payment_id).key,
        ]
    }

    /// What is at the address; a refusal when the program would refuse the deposit.
    fn check(&self, node: &Node, snapshot: &Snapshot) -> Result<Held, PrepareError> {
        let Self { place, reservation } = self;
        let (program, terms) = (place.program(), place.terms());
        let refuse = |reason: String| refused(node, &program, reason);
        let config = config(node, snapshot.account(3), &program).map_err(refuse)?;
        unused_escrow(node, snapshot.account(4), &program)?;
        let Some(mint) = snapshot.account(0) else {
            return Err(refuse(format!("there is no token {}", text(&terms.mint))));
        };
        Mint::parse(&mint.owner, &mint.data).map_err(|error| refuse(error.to_string()))?;
        let held = place.held_in(snapshot);
        let held = held.ok_or_else(|| refuse(GatewayError::TokenProgramInvalid.to_string()))?;
        if held.balance.is_frozen {
            return Err(refuse("the token's issuer has frozen what is at the deposit address".to_owned()));
        }
        let (there, wanted) = (held.balance.amount, reservation.deposited);
        if there < wanted {
            return Err(refuse(format!("{there} of {wanted} are at the deposit address")));
        }
        let call = DepositFromAddress { terms: terms.clone(), reservation: reservation.clone() };
        rules::deposit(&call.as_signed(), &terms.reserver, &config.reserver, snapshot.time)
            .map_err(|error| refuse(error.to_string()))?;
        Ok(held)
    }
}
