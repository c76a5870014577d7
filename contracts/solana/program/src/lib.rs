//! The gateway's Solana program: escrow on the source side, fulfillment proxy on the destination side.
//!
//! What it promises, its instructions and accounts are described in `contracts/solana/README.md`; layouts, messages and
//! errors are those of the crate `gateway-program`. No allocator: everything lies on the stack.
#![no_std]

mod account;
mod address;
mod deposit;
mod end;
mod failure;
mod fulfill;
mod initialize;
mod lock;
mod offer;
mod own;
mod reassign;
mod reclaim;
mod runtime;
mod signature;
mod token;

use gateway_program::{GatewayError, instruction::Tag};
use pinocchio::{AccountView, Address, ProgramResult};

use crate::failure::Result;

/// More than any instruction takes, so that one too many is seen.
const MAX_ACCOUNTS: usize = 16;

pinocchio::program_entrypoint!(process, MAX_ACCOUNTS);
pinocchio::no_allocator!();
pinocchio::nostd_panic_handler!();

fn process(program_id: &Address, accounts: &[AccountView], data: &[u8]) -> ProgramResult {
    dispatch(program_id, accounts, data).map_err(Into::into)
}

fn dispatch(program_id: &Address, accounts: &[AccountView], data: &[u8]) -> Result {
    let tag = data.first().copied().and_then(Tag::from_byte).ok_or(GatewayError::InstructionInvalid)?;
    match tag {
        Tag::Initialize => initialize::initialize(program_id, accounts, data),
        Tag::DepositAndReserve => deposit::deposit_and_reserve(program_id, accounts, data),
        Tag::Release => end::release(program_id, accounts, data),
        Tag::Cancel => end::cancel(program_id, accounts, data),
        Tag::Refund => end::refund(program_id, accounts, data),
        Tag::Fulfill => fulfill::fulfill(program_id, accounts, data),
        Tag::ReclaimEscrow => reclaim::escrow(program_id, accounts, data),
        Tag::ReclaimFulfillment => reclaim::fulfillment(program_id, accounts, data),
        Tag::Reassign => reassign::reassign(program_id, accounts, data),
        Tag::ReturnRemainder => end::return_remainder(program_id, accounts, data),
        Tag::DepositFromAddress => address::deposit(program_id, accounts, data),
        Tag::GiveBack => address::give_back(program_id, accounts, data),
        Tag::GiveBackLamports => address::give_back_lamports(program_id, accounts, data),
        Tag::DepositFromOffer => offer::deposit(program_id, accounts, data),
        Tag::Collect => offer::collect(program_id, accounts, data),
        Tag::CollectLamports => offer::collect_lamports(program_id, accounts, data),
    }
}
