//! Ed25519 signatures, as the precompile has checked them in the same transaction.

use gateway_program::{
    GatewayError, Hash, Key, account::Config, ed25519, ids, message::Domain, verifier_set::VerifierSet,
};
use pinocchio::{AccountView, Address, sysvars::instructions::Instructions};

use crate::{
    account::require_key,
    failure::{Result, require},
    runtime,
};

/// Whose signature it must be.
pub enum Signatory<'a> {
    /// The key's.
    Key(&'a Key),
    /// Those of as many members as the set's threshold asks for.
    Set(VerifierSet<'a>),
}

impl<'a> Signatory<'a> {
    /// Who speaks for `releaser`: itself, or the set whose id it is when one was brought.
    ///
    /// # Errors
    /// `VerifierSetMismatch` when the releaser is not that set.
    pub fn for_releaser(releaser: &'a Key, set: Option<VerifierSet<'a>>) -> Result<Self> {
        let Some(set) = set else { return Ok(Self::Key(releaser)) };
        let id = runtime::sha256(&set.preimage(&set.head()));
        require(id == *releaser, GatewayError::VerifierSetMismatch)?;
        Ok(Self::Set(set))
    }
}

/// Whose signature must be where, and in which domain.
pub struct Signed<'a> {
    pub program_id: &'a Address,
    pub config: &'a Config,
    /// The sysvar of the transaction's instructions.
    pub instructions: &'a AccountView,
    /// Index of the Ed25519 instruction.
    pub index: u8,
    pub signer: Signatory<'a>,
}

impl Signed<'_> {
    /// Requires that the instruction proves that the signer signed `body`.
    ///
    /// The precompile fails the whole transaction when the signature is wrong, so it need not have run yet.
    #[inline(never)]
    pub fn require(&self, body: &[u8]) -> Result {
        require_key(self.instructions, &ids::INSTRUCTIONS_SYSVAR, GatewayError::InstructionsSysvarInvalid)?;
        let instructions = Instructions::try_from(self.instructions)?;
        let instruction = instructions
            .load_instruction_at(usize::from(self.index))
            .map_err(|_| GatewayError::SignatureInstructionMissing)?;
        let precompile = instruction.get_program_id().as_array() == &ids::ED25519_PROGRAM;
        require(precompile, GatewayError::SignatureInstructionMissing)?;
        let digest = digest(self.program_id, self.config, body);
        let data = instruction.get_instruction_data();
        match &self.signer {
            Signatory::Key(key) => ed25519::check(data, key, &digest)?,
            Signatory::Set(set) => ed25519::check_set(data, set, &digest)?,
        }
        Ok(())
    }
}

fn digest(program_id: &Address, config: &Config, body: &[u8]) -> Hash {
    let domain = Domain { cluster_id: config.cluster_id, program_id: program_id.to_bytes() };
    runtime::sha256(&domain.preimage(body))
}
