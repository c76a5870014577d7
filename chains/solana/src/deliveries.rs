//! Deliveries: what the program has on record about them, read so that it can be concluded from.

use gateway_program::{Key, account::FulfillmentRecord, host, instruction::Tag, message::Fulfillment};

use events::event::Inclusion;
use sagas::ports::{DeliveryOrder, DeliveryState, Transient};

use super::{
    history::{Executed, History, is_call},
    node::{Commitment, Node},
    program::{fulfillment, key},
    records::{Read, check_kept, record_in},
};

/// Index of the delivery's record among the accounts of a delivery.
const RECORD_IN_DELIVERY: usize = 1;

/// The deliveries of one chain.
#[derive(Debug, Clone, Copy)]
pub struct Deliveries<'a> {
    node: &'a Node,
}

impl<'a> Deliveries<'a> {
    /// The deliveries of the chain of `node`.
    pub fn of(node: &'a Node) -> Self {
        Self { node }
    }

    /// Where the delivery stands.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        let program = key(&order.proxy)?;
        let terms = fulfillment(order)?;
        let settled = self.node.settled().await?;
        let address = host::fulfillment_address(&program, &terms.key(&program)).key;
        let was_seen = self.node.made_by(&address).is_some_and(|seen| seen.block_number <= settled.slot);
        if !was_seen {
            // Nothing is concluded from a state that is not finalized: so one answer is enough as long as nothing is settled.
            let newest = self.record(&terms, &program, Commitment::Confirmed, settled.slot).await?;
            match &newest.record {
                None if newest.time <= order.fulfill_by => return Ok(DeliveryState::NotSeen),
                Some(record) if record.slot > settled.slot => return self.seen(&terms, &program, record.slot).await,
                _ => {}
            }
        }
        let read = self.record(&terms, &program, Commitment::Finalized, settled.slot).await?;
        match read.record {
            Some(record) if record.slot <= settled.slot => {
                self.inclusion(&terms, &program, record.slot, Commitment::Finalized).await.map(DeliveryState::Final)
            }
            Some(record) => self.seen(&terms, &program, record.slot).await,
            // The program delivers up to and in the second `fulfill_by`.
            None if read.time > order.fulfill_by => {
                let again = self.record(&terms, &program, Commitment::Finalized, settled.slot).await?;
                check_kept(self.node, read.time.max(again.time), order.fulfill_by)?;
                match again.record {
                    Some(_) => Err(self.node.contradiction("a delivery that was there, and then was not")),
                    None if again.time > order.fulfill_by => Ok(DeliveryState::Impossible),
                    None => Err(self.node.contradiction("a clock that goes back")),
                }
            }
            None => {
                self.node.note_made_by(address, None);
                let read = self.record(&terms, &program, Commitment::Confirmed, settled.slot).await?;
                match read.record {
                    Some(record) => self.seen(&terms, &program, record.slot).await,
                    None => Ok(DeliveryState::NotSeen),
                }
            }
        }
    }

    async fn seen(&self, terms: &Fulfillment, program: &Key, slot: u64) -> Result<DeliveryState, Transient> {
        self.inclusion(terms, program, slot, Commitment::Confirmed).await.map(DeliveryState::Seen)
    }

    /// The record of a delivery under exactly `terms`, at a slot that is not below `at_least`.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn record(
        &self,
        terms: &Fulfillment,
        program: &Key,
        commitment: Commitment,
        at_least: u64,
    ) -> Result<Read<FulfillmentRecord>, Transient> {
        let address = host::fulfillment_address(program, &terms.key(program)).key;
        let snapshot = self.node.accounts(&[address], commitment, at_least).await?;
        let record = match snapshot.account(0) {
            Some(account) => record_in(self.node, account, program, FulfillmentRecord::from_bytes)?,
            None => None,
        };
        if let Some(record) = &record {
            let recorded = Fulfillment {
                payment_id: record.payment_id,
                quote_hash: record.quote_hash,
                settler: record.settler,
                mint: record.mint,
                recipient: record.recipient,
                amount: record.amount,
                fulfill_by: record.fulfill_by,
            };
            if recorded != *terms || record.slot > snapshot.slot {
                return Err(self.node.contradiction("the record of a delivery is not of its terms"));
            }
        }
        Ok(Read { slot: snapshot.slot, time: snapshot.time, record })
    }

    async fn inclusion(
        &self,
        terms: &Fulfillment,
        program: &Key,
        slot: u64,
        commitment: Commitment,
    ) -> Result<Inclusion, Transient> {
        let address = host::fulfillment_address(program, &terms.key(program)).key;
        let is = |executed: &Executed| is_call(executed, program, Tag::Fulfill as u8, RECORD_IN_DELIVERY, &address);
        History::of(self.node).transaction_at(&address, slot, commitment, is).await
    }
}
