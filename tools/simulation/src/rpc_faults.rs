//! How the calls of one party to its nodes fare.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use crate::{
    census,
    chain::{CallFate, View},
    dice::Dice,
    life::Life,
    world::World,
};

/// Calls of a party of which at most one is answered by a lie.
const CALLS_BETWEEN_LIES: u32 = 12;

/// How the calls of one party fare. One that is dead sends nothing, and what it sent last may have arrived.
pub fn fate(world: Weak<World>, life: Option<Arc<Life>>, dice: Dice) -> impl FnMut(&str) -> CallFate + Send + 'static {
    // Who lies about what is final to somebody who asks twice can make anybody believe anything. Calls of other tasks may
    // come between the two.
    let mut honest_calls = 0u32;
    // Whoever once got to a node behind, or on a fork, often stays with it for some calls.
    let mut stays: Option<(View, u64)> = None;
    move |method| {
        let Some(world) = world.upgrade() else { return CallFate::LoseRequest };
        if let Some(life) = &life {
            if life.is_dead() {
                return CallFate::LoseRequest;
            }
            if !life.step() {
                let arrives = dice.chance(500);
                census::fault("death at a call to a node");
                world.note(format!("fault: death at {method}, which arrives: {arrives}"));
                return if arrives { CallFate::LoseAnswer(View::Honest) } else { CallFate::LoseRequest };
            }
        }
        let may_lie = honest_calls == 0;
        honest_calls = honest_calls.saturating_sub(1);
        if world.is_calm() {
            return CallFate::Deliver(View::Honest);
        }
        if let Some((view, calls)) = stays.take() {
            stays = (calls > 1).then_some((view, calls - 1));
            return CallFate::Deliver(view);
        }
        let faults = world.plan.faults;
        let fate = if dice.chance(faults.request_lost) {
            CallFate::LoseRequest
        } else if dice.chance(faults.answer_lost) {
            CallFate::LoseAnswer(View::Honest)
        } else if dice.chance(faults.refuses) {
            CallFate::Error(-32005, "limit exceeded".to_owned())
        } else if dice.chance(faults.slow) {
            CallFate::Late(Duration::from_millis(dice.number(1..=1500)), View::Honest)
        } else if dice.chance(faults.lagging) {
            CallFate::Deliver(View::Lagging { blocks: dice.number(1..=6) })
        } else if dice.chance(faults.on_fork) {
            CallFate::Deliver(View::OnFork)
        } else if dice.chance(faults.lying) && may_lie {
            honest_calls = CALLS_BETWEEN_LIES;
            CallFate::Deliver(View::LyingHead { ahead: dice.number(1..=3) })
        } else {
            CallFate::Deliver(View::Honest)
        };
        if let CallFate::Deliver(view @ (View::Lagging { .. } | View::OnFork)) = fate {
            stays = dice.chance(300).then(|| (view, dice.number(1..=6)));
        }
        if fate != CallFate::Deliver(View::Honest) {
            census::fault(named(&fate));
            world.note(format!("fault: {method} {fate:?}"));
        }
        fate
    }
}

fn named(fate: &CallFate) -> &'static str {
    match fate {
        CallFate::Deliver(View::Honest) => "node is honest",
        CallFate::Deliver(View::Lagging { .. }) => "node is behind",
        CallFate::Deliver(View::OnFork) => "node is on a dropped branch",
        CallFate::Deliver(View::LyingHead { .. }) => "node lies about its head",
        CallFate::Late(..) => "node answers late",
        CallFate::LoseRequest => "request to a node is lost",
        CallFate::LoseAnswer(_) => "answer of a node is lost",
        CallFate::Error(..) => "node refuses",
    }
}
