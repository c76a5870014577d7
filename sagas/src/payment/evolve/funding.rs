//! The fold of a deposit address: the money that came there, and what is there, or at its batch's address, of a payment that failed.

use events::event::{AddressFunded, AddressHeld};

use super::{Followed, NOT_LEGAL};
use crate::payment::{Payment, Stage};

pub(super) fn funded(payment: &mut Payment, stage: Stage, funded: &AddressFunded) -> Followed {
    if stage != Stage::Funding {
        return Err(NOT_LEGAL);
    }
    if funded.amount < payment.submitted.authorization.permitted() {
        return Err("less is at the deposit address than has to come there".into());
    }
    payment.funded = Some(funded.clone());
    Ok(())
}

pub(super) fn held(payment: &mut Payment, stage: Stage, held: &AddressHeld) -> Followed {
    if stage != Stage::Watching || !payment.leaves_money_outside() {
        return Err(NOT_LEGAL);
    }
    payment.held = Some(held.clone());
    Ok(())
}
