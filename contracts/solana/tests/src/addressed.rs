//! A payment by deposit address: what comes there, and the transactions that lead out of there.

use gateway_program::{Key, host, instruction::Reservation};

use crate::{
    mint::MintKind,
    payment::Payment,
    world::{Outcome, World, key},
};

/// What the stranger has who sends the money.
const STRANGERS: u64 = 5_000;

/// A payment for which nobody signs: its money comes to the address that its terms lead to.
#[derive(Clone, Debug)]
pub struct Addressed {
    /// Terms, reservation and accounts, as if the payer had signed.
    pub payment: Payment,
    /// What is to be deposited.
    pub deposited: u64,
}

impl Addressed {
    /// A payment of 250 of 300, all of which is deposited. A stranger, the third party, has 5,000 to send.
    pub fn new(world: &mut World, kind: MintKind) -> Self {
        let payment = Payment::new(world, kind);
        let stranger = key(&world.third_party);
        world.mint_to(&payment.accounts.mint, &stranger, STRANGERS);
        Self::of(payment)
    }

    /// The payment by address, of which the least amount is deposited.
    pub fn of(payment: Payment) -> Self {
        Self { deposited: payment.data.cap, payment }
    }

    /// The address.
    pub fn at(&self, world: &World) -> Key {
        host::deposit_address(&world.program, &self.payment.terms()).key
    }

    /// The token account that the money comes to.
    pub fn tokens(&self, world: &World) -> Key {
        self.payment.token_of(&self.at(world))
    }

    /// What the deposit reserves.
    pub fn reservation(&self) -> Reservation {
        let data = &self.payment.data;
        Reservation {
            deposited: self.deposited,
            quote_hash: data.quote_hash,
            settler: data.settler,
            source_amount: data.source_amount,
            fulfill_by: data.fulfill_by,
        }
    }

    /// A stranger sends that much, in a transaction of his that makes the token account where it is not there.
    pub fn send(&self, world: &mut World, amount: u64) {
        let instructions = self.payment.pay_to(world, &self.at(world), amount);
        let stranger = world.third_party.insecure_clone();
        world.send(&instructions, &[&stranger]).unwrap();
    }

    /// The stranger's transfer to any token account.
    pub fn transfer(&self, world: &World, to: Key, amount: u64) -> host::Instruction {
        self.payment.transfer(world, to, amount)
    }

    /// The instruction of the deposit.
    pub fn instruction(&self, world: &World) -> host::Instruction {
        let accounts = &self.payment.accounts;
        host::deposit_from_address(
            &world.program,
            accounts.rent_payer,
            accounts.token_program,
            &self.payment.terms(),
            &self.reservation(),
        )
    }

    /// Deposits as it should be done.
    pub fn deposit(&self, world: &mut World) -> Outcome {
        let instruction = self.instruction(world);
        self.payment.submit(world, &[instruction])
    }

    /// The instruction that gives back what is there of the payment's token; the third party carries it.
    pub fn give_back(&self, world: &World) -> host::Instruction {
        let carrier = key(&world.third_party);
        host::give_back(&world.program, carrier, self.payment.accounts.token_program, &self.payment.terms())
    }

    /// Of another token, in the program `token_program`.
    pub fn give_back_of(&self, world: &World, mint: &Key, token_program: &Key) -> host::Instruction {
        let carrier = key(&world.third_party);
        host::give_back_of(&world.program, carrier, (token_program, mint), &self.payment.terms(), true)
    }

    /// Gives back, as anyone may.
    pub fn return_by_anyone(&self, world: &mut World) -> Outcome {
        let (instruction, anyone) = (self.give_back(world), world.third_party.insecure_clone());
        world.send(&[instruction], &[&anyone])
    }

    /// The instruction that gives back the native SOL.
    pub fn give_back_lamports(&self, world: &World) -> host::Instruction {
        host::give_back_lamports(&world.program, &self.payment.terms())
    }
}
