//! Purchases of offers and what is collected from their addresses, each slot an offer of its own.

use gateway_program::{
    Key,
    host::{self, Instruction},
};
use gateway_program_tests::{Offered, key};

use super::{judge::CAP, random::Random, script::Stage};

impl Stage {
    /// The purchase of the payment in `slot`. Its offer has a terms hash of its own, so that no payer ever signed what it makes.
    fn purchase(&self, slot: usize) -> Offered {
        let mut offered = Offered::of(&self.payments[slot]);
        offered.offer.terms_hash = [0x7f; 32];
        (offered.offer.delivery_seconds, offered.offer.refund_seconds) = (540, 3_000);
        offered
    }

    /// Whether enough for a purchase is at the address of the slot's offer.
    pub fn has_bought(&self, slot: usize) -> bool {
        self.world.tokens(&self.purchase(slot).tokens(&self.world)) >= CAP
    }

    /// Any amount by a stranger, sometimes of another token or of native SOL.
    pub fn buy(&mut self, random: &mut Random, slot: usize) -> Vec<Instruction> {
        let offered = self.purchase(slot);
        let at = offered.at(&self.world);
        if self.offers.insert(at, offered.offer.clone()).is_none() {
            self.pool.extend([at, offered.tokens(&self.world)]);
            self.offered.push(offered);
        }
        self.sent(random, slot, at)
    }

    /// What a buyer paid, or some of it, or more. Where too little is there, it mostly comes now.
    pub fn deposit_from_offer(&mut self, random: &mut Random, slot: usize) -> Vec<Instruction> {
        if !self.has_bought(slot) && !random.one_in(4) {
            return self.buy(random, slot);
        }
        self.renew(random, slot);
        let now = self.world.now;
        let mut offered = self.purchase(slot);
        offered.purchase.reserve_deadline = match random.below(8) {
            0 => random.number(),
            1 => now + random.next() % 1_200,
            2 => now + 600,
            _ => now + 60,
        };
        if random.one_in(8) {
            offered.reservation.source_amount = random.number();
        }
        if random.one_in(8) {
            offered.reservation.deposited = random.number();
        }
        let (terms, data) = (offered.payment().data, &mut self.payments[slot].data);
        if (now..=now + 600).contains(&terms.reserve_deadline) {
            (data.reserve_deadline, data.fulfillment_deadline) = (terms.reserve_deadline, terms.fulfillment_deadline);
            data.refund_after = terms.refund_after;
        }
        vec![offered.instruction(&self.world)]
    }

    /// Mostly by one who may: of any offer, of any token, into any account.
    pub fn collect(&self, random: &mut Random) -> Instruction {
        let offered = random.pick(&self.offered);
        let authority = self.collector(random, offered);
        let there = self.world.tokens(&offered.tokens(&self.world));
        let amount = if random.one_in(2) { random.number() } else { there };
        let mut collect = offered.collect(&self.world, &authority, amount);
        if random.one_in(5) {
            let other = &self.payments[random.below(2)].accounts;
            let token = (&other.token_program, &other.mint);
            collect = host::collect_of(&self.world.program, authority, token, &offered.offer, amount);
        }
        if random.one_in(5) {
            collect = host::collected_to(collect, *random.pick(&self.pool));
        }
        collect
    }

    pub fn collect_lamports(&self, random: &mut Random) -> Instruction {
        let offered = random.pick(&self.offered);
        offered.collect_lamports(&self.world, &self.collector(random, offered))
    }

    fn collector(&self, random: &mut Random, offered: &Offered) -> Key {
        match random.below(8) {
            0 => key(random.pick(&self.people)),
            1..4 => offered.offer.merchant,
            _ => offered.offer.reserver,
        }
    }
}
