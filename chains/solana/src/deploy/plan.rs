//! Plan: the steps of a deployment, and what they cost at most.

use chains::deployment::{Contracts, DeployError, Plan, Step};
use events::Account;
use gateway_program::{Key, account::Config};

use super::{
    artifact::ELF,
    authority::Wanted,
    cluster::Cluster,
    loader::{BUFFER_HEADER_BYTES, PROGRAM_BYTES, PROGRAM_DATA_HEADER_BYTES},
    progress::{Progress, Stage, Target},
};
use crate::{
    program::{holder, text},
    transaction::PRICE_MAX,
};

/// Lamports for each signature of a transaction.
const SIGNATURE_LAMPORTS: u64 = 5_000;
/// Compute units that a part of the program takes at most to be written.
const WRITE_UNITS_MAX: u64 = 10_000;
/// Compute units that any other of these transactions takes at most.
const STEP_UNITS_MAX: u64 = 60_000;

/// Lamports that accounts must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rents {
    /// The buffer. They go over into ProgramData.
    pub buffer: u64,
    /// The account with the program's address.
    pub program: u64,
    /// ProgramData.
    pub program_data: u64,
    /// The program's configuration.
    pub config: u64,
    /// An account without data, such as the payer.
    pub wallet: u64,
}

impl Rents {
    /// What the cluster asks for now.
    ///
    /// # Errors
    /// [`DeployError::Unanswered`].
    pub async fn ask(cluster: &Cluster) -> Result<Self, DeployError> {
        Ok(Self {
            buffer: cluster.rent(BUFFER_HEADER_BYTES + ELF.len()).await?,
            program: cluster.rent(PROGRAM_BYTES).await?,
            program_data: cluster.rent(PROGRAM_DATA_HEADER_BYTES + ELF.len()).await?,
            config: cluster.rent(Config::SIZE).await?,
            wallet: cluster.rent(0).await?,
        })
    }
}

/// The plan for a program that is as far as `progress` says. Its address is known once its key pair is noted.
pub(super) fn plan(progress: &Progress, payer: &Key, program: Option<&Key>, target: &Target, rents: &Rents) -> Plan {
    let (written, all) = progress.stage.chunks();
    let is_absent = progress.stage == Stage::Absent;
    let is_deployed = !is_absent && !matches!(progress.stage, Stage::Buffered(_));
    let is_set_up = is_deployed && !matches!(progress.stage, Stage::Deployed { .. });
    let step = |title, is_done, lamports: u64| Step { title, is_done, cost: lamports.into() };

    let create = if is_absent { rents.buffer.saturating_add(fee(2, STEP_UNITS_MAX)) } else { 0 };
    let writes = fee(1, WRITE_UNITS_MAX).saturating_mul((all - written) as u64);
    let deploy = rents.program.saturating_add(rents.program_data.saturating_sub(rents.buffer));
    let place = program.map_or_else(
        || "at an address that is chosen at the beginning".to_owned(),
        |program| format!("at {}", text(program)),
    );
    let set_up = format!("configuration with the reserver {}", text(&target.reserver));
    let hand_over = match target.authority {
        Wanted::Payer => 0,
        Wanted::Key(_) | Wanted::Nobody => fee(1, STEP_UNITS_MAX),
    };
    Plan {
        payer: holder(payer),
        balance: progress.balance.into(),
        steps: vec![
            step(
                format!("program buffer ({written} of {all} chunks written)"),
                !is_absent && written == all,
                create.saturating_add(writes),
            ),
            step(format!("program {place}"), is_deployed, deploy.saturating_add(fee(2, STEP_UNITS_MAX))),
            step(set_up, is_set_up, rents.config.saturating_add(fee(1, STEP_UNITS_MAX))),
            step(target.authority.title(payer), progress.stage == Stage::Complete, hand_over),
        ],
        contracts: program.map(contracts),
    }
}

/// The program is both contracts.
pub(super) fn contracts(program: &Key) -> Contracts {
    let program: Account = holder(program);
    Contracts { escrow: program.clone(), proxy: program, deposit_address_factory: None, permit2: None }
}

/// Most that a transaction with so many signatures and compute units costs, in lamports.
fn fee(signatures: u64, units: u64) -> u64 {
    SIGNATURE_LAMPORTS * signatures + (units * PRICE_MAX).div_ceil(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deploy::artifact;

    const TARGET: Target = Target { cluster_id: [4; 32], reserver: [5; 32], authority: Wanted::Nobody };
    const RENTS: Rents =
        Rents { buffer: 1_000_000_000, program: 2_000_000, program_data: 1_000_100_000, config: 3_000_000, wallet: 1 };

    fn plan_of(stage: Stage) -> Plan {
        let progress = Progress { slot: 1, balance: 77, stage };
        plan(&progress, &[1; 32], Some(&[2; 32]), &TARGET, &RENTS)
    }

    #[test]
    fn what_is_done_costs_nothing_more() {
        let all = plan_of(Stage::Absent);
        let rents = u128::from(RENTS.program_data + RENTS.program + RENTS.config);
        // The program is written in as many transactions as it has chunks.
        let fees = 70_000 * artifact::chunks().count() as u128;
        assert!(all.cost() > rents && all.cost() < rents + fees, "{} {fees}", all.cost());
        let stages = [
            Stage::Absent,
            Stage::Buffered(artifact::chunks().collect()),
            Stage::Buffered(artifact::chunks().skip(70).collect()),
            Stage::Buffered(vec![]),
            Stage::Deployed { slot: 1 },
            Stage::Initialized { next: None },
            Stage::Complete,
        ];
        let plans = stages.map(plan_of);
        assert!(plans.windows(2).all(|pair| pair[0].cost() > pair[1].cost()), "{plans:#?}");
        let done = plans.each_ref().map(|plan| plan.steps.iter().filter(|step| step.is_done).count());
        assert_eq!(done, [0, 0, 0, 1, 2, 3, 4]);
        assert_eq!(plans[6].cost(), 0);
        assert!(plans[6].is_done());
        assert!(plans[1].cost() < rents / 10, "the buffer's rent is paid for twice");
    }
}
