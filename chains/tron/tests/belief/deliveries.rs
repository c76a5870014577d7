//! Deliveries that a node tells wrong: one is proven by its event, and its absence by two answers.

use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::{Value, json};

use chains_tron::adapter::TronChain;
use events::event::Inclusion;
use sagas::ports::{Chains, DeliveryOrder, DeliveryState};

use super::{calls, words};
use crate::support::{World, liar::Liar};

/// A delivery that is solidified, and a port that sees the chain through a liar.
struct Delivered {
    world: World,
    liar: Liar,
    chains: TronChain,
    delivery: DeliveryOrder,
    inclusion: Inclusion,
}

impl Delivered {
    async fn start() -> Result<Self> {
        let world = World::start().await?;
        let liar = Liar::before(&world.tron.url()).await?;
        let chains = world.chains_at(&liar.url);
        let delivery = world.delivery(&world.order(600).await?);
        world.fulfill(&delivery).await?;
        world.solidify().await?;
        let DeliveryState::Final(inclusion) = chains.delivery_state(&delivery).await? else { bail!("not final") };
        Ok(Self { world, liar, chains, delivery, inclusion })
    }

    /// From now on the words of `fulfilledAsOf` go through `change` with the number of the answer, from 0.
    fn on_answer(&self, change: fn(usize, &mut Vec<String>)) {
        let mut count = 0;
        self.liar.tell(move |path, request, mut truth| {
            let mut found = words(&truth);
            if calls(path, request, "fulfilledAsOf(bytes32)") && found.len() == 3 {
                change(count, &mut found);
                count += 1;
                truth["constant_result"][0] = json!(found.concat());
            }
            truth
        });
    }

    async fn is_not_believed(&self, lie: &str) {
        self.chains.delivery_state(&self.delivery).await.expect_err(lie);
    }

    /// The truth is believed again.
    async fn is_final(&self) -> Result<()> {
        self.liar.be_honest();
        let state = self.chains.delivery_state(&self.delivery).await?;
        assert_eq!(state, DeliveryState::Final(self.inclusion.clone()));
        Ok(())
    }
}

#[tokio::test]
async fn a_delivery_is_proven_by_two_answers() -> Result<()> {
    let delivered = Delivered::start().await?;
    let changes: [fn(usize, &mut Vec<String>); 4] = [
        |_, words| words[0] = format!("{:064x}", 1),
        |_, words| words[0] = format!("{:064x}", 1_000_000),
        |_, words| words[1] = format!("{:064x}", 1),
        |_, words| words[2] = format!("{:064x}", 1),
    ];
    for change in changes {
        delivered.on_answer(change);
        delivered.is_not_believed("a record that cannot be").await;
    }
    // Whichever of two answers it is.
    delivered.on_answer(|count, words| {
        if count == 1 {
            words[0] = "0".repeat(64);
        }
    });
    delivered.is_not_believed("one answer").await;
    // One node that knows of a delivery that is none: another has neither its record nor its transaction.
    for denied in ["fulfilledAsOf", "gettransactioninfobyid"] {
        let mut count = 0;
        delivered.liar.tell(move |path, request, mut truth| {
            if denied == "gettransactioninfobyid" && path == "walletsolidity/gettransactioninfobyid" {
                return json!({});
            }
            if denied == "fulfilledAsOf" && calls(path, request, "fulfilledAsOf(bytes32)") {
                count += 1;
                if count == 2 {
                    let found = words(&truth);
                    truth["constant_result"][0] = json!(format!("{:064x}{}{}", 2, found[1], found[2]));
                }
            }
            truth
        });
        delivered.is_not_believed(denied).await;
    }
    delivered.is_final().await
}

#[tokio::test]
async fn a_delivery_is_proven_by_its_event() -> Result<()> {
    let delivered = Delivered::start().await?;
    // Its transaction, asked for by itself, tells of another amount, another block, or that it failed.
    let of_itself: [fn(&mut Value); 4] = [
        |truth| truth["log"][0]["topics"][1] = json!("11".repeat(32)),
        |truth| truth["blockTimeStamp"] = json!(1_000),
        |truth| truth["blockNumber"] = json!(1),
        |truth| {
            truth["receipt"]["result"] = json!("REVERT");
            truth["result"] = json!("FAILED");
        },
    ];
    for change in of_itself {
        delivered.liar.tell(move |path, _, mut truth| {
            if path == "walletsolidity/gettransactioninfobyid" {
                change(&mut truth);
            }
            truth
        });
        delivered.is_not_believed("its transaction").await;
    }
    delivered.liar.tell(|path, _, mut truth| {
        if path.ends_with("gettransactioninfobyblocknum") {
            let data = truth[0]["log"][0]["data"].as_str().unwrap_or_default().to_owned();
            // The amount is the third word.
            truth[0]["log"][0]["data"] = json!(format!("{}{:064x}{}", &data[..128], 1, &data[192..]));
        }
        truth
    });
    delivered.is_not_believed("another amount").await;
    delivered.is_final().await
}

#[tokio::test]
async fn that_nothing_was_delivered_in_time_must_be_said_twice() -> Result<()> {
    let delivered = Delivered::start().await?;
    delivered.world.advance(Duration::from_secs(601)).await?;
    delivered.world.solidify().await?;
    delivered.on_answer(|count, words| {
        if count == 0 {
            words[0] = "0".repeat(64);
        }
    });
    delivered.is_not_believed("one answer").await;
    delivered.is_final().await
}
