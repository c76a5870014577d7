//! RPC faults: the outcome of each call of one party to its nodes.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use super::World;
use crate::{
    chain::{NodeKind, RpcOutcome},
    coverage,
    process::Process,
    random::RandomSource,
};

/// At most one of so many calls of a party is answered by a lying node.
const CALLS_BETWEEN_LIES: u32 = 12;

/// Draws the outcome of each call of one party. A dead process sends nothing; its last call may have arrived.
pub fn rpc_faults(
    world: Weak<World>,
    process: Option<Arc<Process>>,
    random: RandomSource,
) -> impl FnMut(&str) -> RpcOutcome + Send + 'static {
    // The gateway checks finality with two calls. A node that lies in both would convince any reader, so a lie is followed
    // by honest calls. Calls of other tasks may come between the two.
    let mut honest_calls = 0u32;
    // A load balancer often keeps a client on the same node for some calls, also on one that is behind or on a fork.
    let mut stays: Option<(NodeKind, u64)> = None;
    move |method| {
        let Some(world) = world.upgrade() else { return RpcOutcome::LoseRequest };
        if let Some(process) = &process {
            if process.is_dead() {
                return RpcOutcome::LoseRequest;
            }
            if !process.step() {
                let arrives = random.chance(500);
                coverage::fault("death at a call to a node");
                world.note(format!("fault: death at {method}, which arrives: {arrives}"));
                return if arrives { RpcOutcome::LoseAnswer(NodeKind::Honest) } else { RpcOutcome::LoseRequest };
            }
        }
        let may_lie = honest_calls == 0;
        honest_calls = honest_calls.saturating_sub(1);
        if world.faults_ended() {
            return RpcOutcome::Deliver(NodeKind::Honest);
        }
        if let Some((view, calls)) = stays.take() {
            stays = (calls > 1).then_some((view, calls - 1));
            return RpcOutcome::Deliver(view);
        }
        let faults = world.plan.faults;
        let outcome = if random.chance(faults.request_lost) {
            RpcOutcome::LoseRequest
        } else if random.chance(faults.answer_lost) {
            RpcOutcome::LoseAnswer(NodeKind::Honest)
        } else if random.chance(faults.refuses) {
            RpcOutcome::Error(-32005, "limit exceeded".to_owned())
        } else if random.chance(faults.slow) {
            RpcOutcome::Late(Duration::from_millis(random.number(1..=1500)), NodeKind::Honest)
        } else if random.chance(faults.lagging) {
            RpcOutcome::Deliver(NodeKind::Lagging { blocks: random.number(1..=6) })
        } else if random.chance(faults.on_fork) {
            RpcOutcome::Deliver(NodeKind::OnFork)
        } else if random.chance(faults.lying) && may_lie {
            honest_calls = CALLS_BETWEEN_LIES;
            RpcOutcome::Deliver(NodeKind::LyingHead { ahead: random.number(1..=3) })
        } else {
            RpcOutcome::Deliver(NodeKind::Honest)
        };
        if let RpcOutcome::Deliver(view @ (NodeKind::Lagging { .. } | NodeKind::OnFork)) = outcome {
            stays = random.chance(300).then(|| (view, random.number(1..=6)));
        }
        if outcome != RpcOutcome::Deliver(NodeKind::Honest) {
            coverage::fault(name_of(&outcome));
            world.note(format!("fault: {method} {outcome:?}"));
        }
        outcome
    }
}

fn name_of(outcome: &RpcOutcome) -> &'static str {
    match outcome {
        RpcOutcome::Deliver(NodeKind::Honest) => "node is honest",
        RpcOutcome::Deliver(NodeKind::Lagging { .. }) => "node is behind",
        RpcOutcome::Deliver(NodeKind::OnFork) => "node is on a dropped branch",
        RpcOutcome::Deliver(NodeKind::LyingHead { .. }) => "node lies about its head",
        RpcOutcome::Late(..) => "node answers late",
        RpcOutcome::LoseRequest => "request to a node is lost",
        RpcOutcome::LoseAnswer(_) => "answer of a node is lost",
        RpcOutcome::Error(..) => "node refuses",
    }
}
