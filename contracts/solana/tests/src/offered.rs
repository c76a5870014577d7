//! Purchases of a merchant's offer: what buyers send to its address, and the transactions that lead out of there.

use gateway_program::{
    Key,
    host::{self, DepositAccounts},
    instruction::{DepositFromOffer, Purchase, Reservation},
    message::Offer,
};

use crate::{
    mint::MintKind,
    payment::Payment,
    world::{Outcome, World, key},
};

/// What the third party has, who buys.
const BUYERS: u64 = 5_000;

/// A purchase: its money is with all others at the address of the offer. The merchant is the payer of the world.
#[derive(Clone, Debug)]
pub struct Offered {
    /// What the address commits to.
    pub offer: Offer,
    /// Which purchase it is.
    pub purchase: Purchase,
    /// What is reserved.
    pub reservation: Reservation,
    /// Pays for the accounts.
    pub rent_payer: Key,
    /// SPL Token or Token-2022.
    pub token_program: Key,
}

impl Offered {
    /// A purchase for 300, of which the settler asks 250. The third party has 5,000 to send, the merchant 1,000.
    pub fn new(world: &mut World, kind: MintKind) -> Self {
        let payment = Payment::new(world, kind);
        let buyer = key(&world.third_party);
        world.mint_to(&payment.accounts.mint, &buyer, BUYERS);
        Self::of(&payment)
    }

    /// The purchase that makes the terms of this payment, whose payer is the merchant.
    pub fn of(payment: &Payment) -> Self {
        let (data, accounts) = (&payment.data, &payment.accounts);
        Self {
            offer: Offer {
                terms_hash: data.terms_hash,
                merchant: data.payer,
                mint: accounts.mint,
                amount: data.cap,
                reserver: accounts.reserver,
                releaser: data.releaser,
                delivery_seconds: data.fulfillment_deadline - data.reserve_deadline,
                refund_seconds: data.refund_after - data.fulfillment_deadline,
            },
            purchase: Purchase { payment_id: data.payment_id, reserve_deadline: data.reserve_deadline },
            reservation: Reservation {
                deposited: data.cap,
                quote_hash: data.quote_hash,
                settler: data.settler,
                source_amount: data.source_amount,
                fulfill_by: data.fulfill_by,
            },
            rent_payer: accounts.rent_payer,
            token_program: accounts.token_program,
        }
    }

    /// Another purchase of the same offer, with the times of now.
    pub fn again(&self, world: &World, id: u8) -> Self {
        let mut next = self.clone();
        next.purchase = Purchase { payment_id: [id; 32], reserve_deadline: world.now + 60 };
        next.reservation.fulfill_by = world.now + 300;
        next
    }

    /// The payment, as if the merchant had signed its terms.
    pub fn payment(&self) -> Payment {
        let Self { offer, purchase, reservation, .. } = self.clone();
        Payment {
            data: DepositFromOffer { offer, purchase, reservation }.as_signed(),
            accounts: DepositAccounts {
                rent_payer: self.rent_payer,
                reserver: self.offer.reserver,
                payer_token: self.token_of(&self.offer.merchant),
                mint: self.offer.mint,
                token_program: self.token_program,
            },
        }
    }

    /// A wallet's associated token account.
    pub fn token_of(&self, wallet: &Key) -> Key {
        host::associated_token_address(wallet, &self.token_program, &self.offer.mint).key
    }

    /// The address of the offer.
    pub fn at(&self, world: &World) -> Key {
        host::offer_address(&world.program, &self.offer).key
    }

    /// The token account that the buyers' money comes to.
    pub fn tokens(&self, world: &World) -> Key {
        self.token_of(&self.at(world))
    }

    /// A buyer, the third party, sends that much.
    pub fn send(&self, world: &mut World, amount: u64) {
        let instructions = self.payment().pay_to(world, &self.at(world), amount);
        let buyer = world.third_party.insecure_clone();
        world.send(&instructions, &[&buyer]).unwrap();
    }

    /// The instruction of the deposit.
    pub fn instruction(&self, world: &World) -> host::Instruction {
        let Self { offer, purchase, reservation, .. } = self;
        host::deposit_from_offer(&world.program, self.rent_payer, self.token_program, offer, purchase, reservation)
    }

    /// Deposits as it should be done.
    pub fn deposit(&self, world: &mut World) -> Outcome {
        let instruction = self.instruction(world);
        self.payment().submit(world, &[instruction])
    }

    /// The instruction that gives the merchant so much of the offer's token.
    pub fn collect(&self, world: &World, authority: &Key, amount: u64) -> host::Instruction {
        host::collect(&world.program, *authority, self.token_program, &self.offer, amount)
    }

    /// The merchant has so much given to itself.
    pub fn collect_by_merchant(&self, world: &mut World, amount: u64) -> Outcome {
        let merchant = world.payer.insecure_clone();
        let collect = self.collect(world, &key(&merchant), amount);
        world.send(&[collect], &[&merchant])
    }

    /// The instruction that gives the merchant the native SOL.
    pub fn collect_lamports(&self, world: &World, authority: &Key) -> host::Instruction {
        host::collect_lamports(&world.program, *authority, &self.offer)
    }
}
