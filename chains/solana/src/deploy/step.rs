//! Step: the transactions that lead from a stage to the next.

use ed25519_dalek::SigningKey;

use gateway_program::{
    Key,
    host::{self, Instruction, config_address, program_data_address},
    instruction::Initialize,
};

use super::{
    artifact::ELF,
    keypairs::Keypairs,
    loader,
    plan::Rents,
    progress::{Addresses, Stage, Target},
};
use crate::program::text;

/// What is to be done next.
pub(super) struct Step<'a> {
    /// What it makes, for errors.
    pub name: &'static str,
    /// What it does, for whoever watches.
    pub said: String,
    /// The instructions of each transaction. Their order does not matter.
    pub transactions: Vec<Vec<Instruction>>,
    /// Who signs them besides the payer.
    pub co_signer: Option<&'a SigningKey>,
    /// What they write to.
    pub writes: Vec<Key>,
}

/// What leads on from `stage`; `None` where nothing is left to do.
pub(super) fn next<'a>(
    stage: &Stage,
    addresses: &Addresses,
    keypairs: &'a Keypairs,
    target: &Target,
    rents: &Rents,
) -> Option<Step<'a>> {
    let Addresses { payer, program, buffer } = *addresses;
    let program_data = program_data_address(&program).key;
    Some(match stage {
        Stage::Absent => Step {
            name: "program buffer",
            said: format!("making the program's buffer {}", text(&buffer)),
            transactions: vec![loader::create_buffer(payer, buffer, rents.buffer, ELF.len()).to_vec()],
            co_signer: Some(&keypairs.buffer),
            writes: vec![payer, buffer],
        },
        Stage::Buffered(missing) if !missing.is_empty() => {
            let (written, all) = stage.chunks();
            let write = |offset, bytes| vec![loader::write(buffer, payer, offset, bytes)];
            Step {
                name: "program buffer",
                said: format!("writing the program's chunks, {written} of {all} are there"),
                transactions: missing.iter().map(|chunk| write(chunk.offset, chunk.bytes)).collect(),
                co_signer: None,
                writes: vec![payer, buffer],
            }
        }
        Stage::Buffered(_) => Step {
            name: "program",
            said: format!("making the program {}", text(&program)),
            transactions: vec![loader::deploy(payer, program, buffer, rents.program, ELF.len()).to_vec()],
            co_signer: Some(&keypairs.program),
            writes: vec![payer, program, program_data, buffer],
        },
        Stage::Deployed { .. } => {
            let data = Initialize { cluster_id: target.cluster_id, reserver: target.reserver };
            Step {
                name: "configuration",
                said: format!("setting the program up with the reserver {}", text(&target.reserver)),
                transactions: vec![vec![host::initialize(&program, payer, payer, &data)]],
                co_signer: None,
                writes: vec![payer, config_address(&program).key],
            }
        }
        Stage::Initialized { next } => Step {
            name: "upgrade authority",
            said: match next {
                Some(next) => format!("handing the upgrade authority over to {}", text(next)),
                None => "giving the upgrade authority up".to_owned(),
            },
            transactions: vec![vec![loader::set_authority(&program, payer, *next)]],
            co_signer: None,
            writes: vec![payer, program_data],
        },
        Stage::Complete => return None,
    })
}
