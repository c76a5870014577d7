//! What an instruction fails with: a rule of this program, or what the runtime or a called program says.

use gateway_program::GatewayError;
use pinocchio::error::ProgramError;

pub enum Failure {
    Rule(GatewayError),
    Program(ProgramError),
}

pub type Result<T = ()> = core::result::Result<T, Failure>;

impl From<GatewayError> for Failure {
    fn from(error: GatewayError) -> Self {
        Self::Rule(error)
    }
}

impl From<ProgramError> for Failure {
    fn from(error: ProgramError) -> Self {
        Self::Program(error)
    }
}

impl From<Failure> for ProgramError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Rule(error) => Self::Custom(error.code()),
            Failure::Program(error) => error,
        }
    }
}

/// Fails with `error` unless `held`.
pub fn require(held: bool, error: GatewayError) -> Result {
    if held { Ok(()) } else { Err(error.into()) }
}
