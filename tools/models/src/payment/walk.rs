//! Walks: single ways through the model, drawn from a seed, with the commits that were stored on them.

use stateright::Model;

use super::{Action, Payments, command::Command, engine::Fold, fairness, world::World};

/// A commit on a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// What was recorded.
    pub command: Command,
    /// The journal with it.
    pub to: Fold,
}

/// A walk to a state where nothing is left to do.
#[derive(Debug, Clone)]
pub struct Walk {
    /// The commits of the journal, in order.
    pub commits: Vec<Stored>,
    /// The last state.
    pub last: World,
}

/// Steps that are drawn; what follows is the fair schedule to an end.
const DRAWN: usize = 240;
/// What ends a way soon is taken once in up to so many times that it is drawn.
const RARE: usize = 16;

impl Walk {
    /// The walk of a seed.
    pub fn of(model: &Payments, seed: u64) -> Self {
        // xorshift64*, which is zero for ever from zero.
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut draw = |among: usize| {
            random ^= random >> 12;
            random ^= random << 25;
            random ^= random >> 27;
            (random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % among
        };
        let mut world = World::begin(&model.config);
        let mut commits = Vec::new();
        for _ in 0..DRAWN {
            let steps = model.next_steps(&world);
            if steps.is_empty() {
                break;
            }
            let (action, next) = steps[draw(steps.len())];
            // Most of a way is over as soon as time is.
            let is_rare = matches!(action, Action::Tick | Action::Crash(_) | Action::Spend);
            if is_rare && draw(1 + seed as usize % RARE) != 0 {
                continue;
            }
            note(&world, action, &next, &mut commits);
            world = next;
        }
        for _ in 0..fairness::STEPS_MAX {
            let Some(next) = fairness::next(model, &world) else { break };
            note(&world, Action::Append(0), &next, &mut commits);
            world = next;
        }
        Self { commits, last: world }
    }
}

/// Notes what was stored in a step.
fn note(before: &World, action: Action, after: &World, commits: &mut Vec<Stored>) {
    let (Action::Append(index) | Action::LoseAcknowledgement(index)) = action else { return };
    if before.journal != after.journal
        && let Some(pending) = before.gateways[index].pending
    {
        commits.push(Stored { command: pending.command, to: after.journal });
    }
}
