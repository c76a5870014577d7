//! Clock, rent, hashes, addresses and the log, by syscalls.
//!
//! The crate's own `Clock::get` and `Rent::get` ask the runtime only on the vendor's target, not on this one.

use core::mem::MaybeUninit;

use gateway_program::{GatewayError, Hash, Key};
use pinocchio::{
    Address, SUCCESS,
    error::ProgramError,
    syscalls,
    sysvars::{clock::CLOCK_ID, get_sysvar, rent::RENT_ID},
};

use crate::failure::Result;

/// The cluster's time.
pub struct Now {
    pub slot: u64,
    pub unix_seconds: u64,
}

impl Now {
    /// # Errors
    /// `ClockInvalid` when the clock stands before 1970.
    pub fn get() -> Result<Self> {
        // Slot, start of the epoch, epoch, next epoch, UNIX time: five numbers of eight bytes.
        let mut clock = [0; 40];
        get_sysvar(&mut clock, &CLOCK_ID, 0)?;
        let unix_seconds = u64::try_from(number(&clock, 32) as i64).map_err(|_| GatewayError::ClockInvalid)?;
        Ok(Self { slot: number(&clock, 0), unix_seconds })
    }
}

/// Lamports that an account of `size` bytes must hold.
///
/// # Errors
/// When the cluster's rent is of a form that is not known here.
pub fn minimum_balance(size: usize) -> Result<u64> {
    const STORAGE_OVERHEAD: u64 = 128;
    let mut rent = [0; 16];
    get_sysvar(&mut rent, &RENT_ID, 0)?;
    // The second number is a floating-point factor: 2.0, or 1.0 since SIMD-0194.
    let doubled = match number(&rent, 8) {
        0x4000_0000_0000_0000 => 1,
        0x3ff0_0000_0000_0000 => 0,
        _ => return Err(ProgramError::UnsupportedSysvar.into()),
    };
    let bytes = (STORAGE_OVERHEAD + size as u64) << doubled;
    let price = number(&rent, 0);
    // Both factors below 2^32: an overflow check of the product itself needs 128 bits, which the target has not.
    if price >> 32 != 0 || bytes >> 32 != 0 {
        return Err(ProgramError::ArithmeticOverflow.into());
    }
    Ok(price.wrapping_mul(bytes))
}

/// SHA-256 of the parts one after the other.
pub fn sha256(parts: &[&[u8]]) -> Hash {
    let mut hash = [0; 32];
    // SAFETY: a slice of slices is pairs of pointer and length, as the syscall reads them, and `hash` has the 32 bytes
    // that it writes. It cannot fail otherwise: bad pointers end the program.
    unsafe { syscalls::sol_sha256(parts.as_ptr().cast(), parts.len() as u64, hash.as_mut_ptr()) };
    hash
}

/// The canonical address of `seeds` for `program_id`, and its bump.
pub fn find_address(seeds: &[&[u8]], program_id: &Key) -> Result<(Address, u8)> {
    let mut address = [0; 32];
    let mut bump = MaybeUninit::<u8>::uninit();
    // SAFETY: slices as above; the syscall writes 32 bytes and one byte when it succeeds.
    let outcome = unsafe {
        syscalls::sol_try_find_program_address(
            seeds.as_ptr().cast(),
            seeds.len() as u64,
            program_id.as_ptr(),
            address.as_mut_ptr(),
            bump.as_mut_ptr(),
        )
    };
    if outcome != SUCCESS {
        return Err(ProgramError::InvalidSeeds.into());
    }
    // SAFETY: the syscall succeeded, so it wrote the bump.
    Ok((Address::new_from_array(address), unsafe { bump.assume_init() }))
}

/// Whether `address` is that of `seeds`, the last of which is its bump.
pub fn is_address_of(address: &Address, seeds: &[&[u8]], program_id: &Address) -> bool {
    let mut found = [0; 32];
    // SAFETY: slices as above; the syscall writes 32 bytes when it succeeds.
    let outcome = unsafe {
        syscalls::sol_create_program_address(
            seeds.as_ptr().cast(),
            seeds.len() as u64,
            program_id.as_array().as_ptr(),
            found.as_mut_ptr(),
        )
    };
    outcome == SUCCESS && found == *address.as_array()
}

/// Writes one `Program data:` line.
pub fn log(line: &[u8]) {
    let parts: [&[u8]; 1] = [line];
    // SAFETY: slices as above, only read.
    unsafe { syscalls::sol_log_data(parts.as_ptr().cast(), parts.len() as u64) };
}

/// Writes one `Program log:` line.
pub fn say(line: &'static str) {
    // SAFETY: pointer and length are those of the text, which is only read.
    unsafe { syscalls::sol_log_(line.as_ptr(), line.len() as u64) };
}

fn number(bytes: &[u8], at: usize) -> u64 {
    let mut array = [0; 8];
    array.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(array)
}
