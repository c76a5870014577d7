//! A token that denies accounts, as regulated ones do: code that is put before another token's.

/// `transfer(address,uint256)` and `transferFrom(address,address,uint256)`.
const TRANSFER: [u8; 4] = [0xa9, 0x05, 0x9c, 0xbb];
const TRANSFER_FROM: [u8; 4] = [0x23, 0xb8, 0x72, 0xdd];

/// The twenty bytes of an account or contract.
pub type Address = [u8; 20];

/// Code that reverts a transfer to, or a transfer from, one of `accounts`, and leaves all else to `implementation`'s code.
///
/// # Panics
/// When there are too many accounts for a jump of two bytes, a few thousand.
#[expect(clippy::expect_used, reason = "it is stated under Panics")]
pub fn denying(accounts: &[Address], implementation: Address) -> Vec<u8> {
    let mut code = Vec::new();
    // selector = calldata[0..4]; moves = selector is one of the two
    code.extend([0x60, 0x00, 0x35, 0x60, 0xe0, 0x1c]); // PUSH1 0 CALLDATALOAD PUSH1 224 SHR
    code.extend([0x80, 0x63]); // DUP1 PUSH4
    code.extend(TRANSFER);
    code.extend([0x14, 0x90, 0x63]); // EQ SWAP1 PUSH4
    code.extend(TRANSFER_FROM);
    code.extend([0x14, 0x17]); // EQ OR
    // listed = the first argument is one of the accounts
    code.extend([0x60, 0x00]); // PUSH1 0
    for account in accounts {
        code.extend([0x60, 0x04, 0x35, 0x73]); // PUSH1 4 CALLDATALOAD PUSH20
        code.extend(account);
        code.extend([0x14, 0x17]); // EQ OR
    }
    // if !(moves && listed) goto forward; revert
    code.extend([0x16, 0x15, 0x61]); // AND ISZERO PUSH2
    let forward = u16::try_from(code.len() + 8).expect("a few accounts");
    code.extend(forward.to_be_bytes());
    code.extend([0x57, 0x60, 0x00, 0x80, 0xfd, 0x00]); // JUMPI PUSH1 0 DUP1 REVERT STOP
    assert_eq!(code.len(), usize::from(forward));
    // forward: the implementation's code on this storage
    code.extend([0x5b, 0x36, 0x60, 0x00, 0x80, 0x37]); // JUMPDEST CALLDATASIZE PUSH1 0 DUP1 CALLDATACOPY
    code.extend([0x60, 0x00, 0x80, 0x36, 0x60, 0x00, 0x73]); // PUSH1 0 DUP1 CALLDATASIZE PUSH1 0 PUSH20
    code.extend(implementation);
    code.extend([0x5a, 0xf4]); // GAS DELEGATECALL
    code.extend([0x3d, 0x60, 0x00, 0x80, 0x3e]); // RETURNDATASIZE PUSH1 0 DUP1 RETURNDATACOPY
    code.push(0x61); // PUSH2
    let returned = u16::try_from(code.len() + 7).expect("a few accounts");
    code.extend(returned.to_be_bytes());
    code.extend([0x57, 0x3d, 0x60, 0x00, 0xfd]); // JUMPI RETURNDATASIZE PUSH1 0 REVERT
    assert_eq!(code.len(), usize::from(returned));
    code.extend([0x5b, 0x3d, 0x60, 0x00, 0xf3]); // JUMPDEST RETURNDATASIZE PUSH1 0 RETURN
    code
}
