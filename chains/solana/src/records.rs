//! Records: accounts in which the program keeps what it knows of a payment.

use gateway_program::{Key, ids::SYSTEM_PROGRAM, rules::reclaim_from};

use sagas::ports::Transient;

use super::{
    node::{Account, Node},
    program::text,
};

/// A record of the program as it was at one slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read<T> {
    /// The slot.
    pub slot: u64,
    /// Its time, UNIX seconds.
    pub time: u64,
    /// The record; `None` when there is none.
    pub record: Option<T>,
}

/// The record in an account at a record's address, by `parse`; `None` for an address that somebody only sent lamports to.
pub(super) fn record_in<T>(
    node: &Node,
    account: &Account,
    program: &Key,
    parse: impl Fn(&[u8]) -> Option<T>,
) -> Result<Option<T>, Transient> {
    if account.owner == SYSTEM_PROGRAM && account.data.is_empty() {
        return Ok(None);
    }
    if account.owner != *program {
        return Err(node.contradiction(format!("a record that belongs to {}", text(&account.owner))));
    }
    let record = parse(&account.data);
    record.map(Some).ok_or_else(|| node.contradiction("a record in an unknown layout"))
}

/// Refuses to conclude from a missing record at a time when it may have been closed. Its window ended at `end`.
pub(super) fn check_kept(node: &Node, time: u64, end: u64) -> Result<(), Transient> {
    if time < reclaim_from(end) {
        return Ok(());
    }
    Err(Transient::contradiction(format!(
        "{}: the record may have been closed; that there is none proves nothing {} seconds after its window",
        node.chain_id(),
        time.saturating_sub(end)
    )))
}
