//! One payment: its terms, its signatures, and the transactions of its life.

use ed25519_dalek::{Signer as _, SigningKey};
use gateway_program::{
    Hash, Key,
    host::{self, DepositAccounts, EscrowAccounts, Message},
    instruction::{DepositAndReserve, Reassign},
    message::{Delivery, Deposit, Domain, Fulfillment, NonDelivery},
};
use solana_keypair::Keypair;
use solana_signer::Signer as _;

use crate::{
    mint::{MintKind, transfer_checked},
    verifiers::Verifiers,
    world::{Outcome, World, key},
};

/// A payment whose payer has money and has given its allowance.
#[derive(Clone, Debug)]
pub struct Payment {
    /// What is sent; [`Payment::terms`] is signed from it.
    pub data: DepositAndReserve,
    /// The accounts of the deposit.
    pub accounts: DepositAccounts,
}

impl Payment {
    /// A payment of 250 of a cap of 300; the payer has 1,000 and allowed the cap to its own key.
    pub fn new(world: &mut World, kind: MintKind) -> Self {
        let mint = world.mint(40, kind);
        let payer = world.payer.insecure_clone();
        world.mint_to(&mint, &key(&payer), 1_000);
        world.approve(&payer, &mint, &key(&payer), 300);
        let (settler, submitter) = (key(&world.settler), key(&world.submitter));
        let create = host::create_associated_token(submitter, &settler, &mint, &kind.program());
        let submitter = world.submitter.insecure_clone();
        world.send(&[create], &[&submitter]).unwrap();
        Self::of(world, 1, mint, kind.program())
    }

    /// The terms alone.
    pub fn of(world: &World, id: u8, mint: Key, token_program: Key) -> Self {
        let payer = key(&world.payer);
        Self {
            data: DepositAndReserve {
                payment_id: [id; 32],
                terms_hash: [0x71; 32],
                agreed_quote_hash: [0; 32],
                payer,
                cap: 300,
                releaser: key(&world.releaser),
                reserve_deadline: world.now + 60,
                fulfillment_deadline: world.now + 600,
                refund_after: world.now + 3_600,
                signer: payer,
                ed25519_index: 0,
                quote_hash: [0x90; 32],
                settler: key(&world.settler),
                source_amount: 250,
                fulfill_by: world.now + 300,
            },
            accounts: DepositAccounts {
                rent_payer: key(&world.submitter),
                reserver: key(&world.reserver),
                payer_token: host::associated_token_address(&payer, &token_program, &mint).key,
                mint,
                token_program,
            },
        }
    }

    /// What the payer signs.
    pub fn terms(&self) -> Deposit {
        let d = &self.data;
        Deposit {
            payment_id: d.payment_id,
            terms_hash: d.terms_hash,
            quote_hash: d.agreed_quote_hash,
            payer: d.payer,
            mint: self.accounts.mint,
            amount: d.cap,
            reserver: self.accounts.reserver,
            releaser: d.releaser,
            reserve_deadline: d.reserve_deadline,
            fulfillment_deadline: d.fulfillment_deadline,
            refund_after: d.refund_after,
        }
    }

    /// The two instructions of the deposit, signed by `signer`.
    pub fn deposit_by(&self, world: &World, signer: &Keypair) -> [host::Instruction; 2] {
        [sign(&self.terms(), &world.domain(), signer), self.instruction(world)]
    }

    /// The program's instruction of the deposit.
    pub fn instruction(&self, world: &World) -> host::Instruction {
        host::deposit_and_reserve(&world.program, &self.accounts, &self.data)
    }

    /// Deposits as it should be done.
    pub fn deposit(&self, world: &mut World) -> Outcome {
        let instructions = self.deposit_by(world, &world.payer);
        self.submit(world, &instructions)
    }

    /// Sends what belongs to a deposit, signed by submitter and reserver.
    pub fn submit(&self, world: &mut World, instructions: &[host::Instruction]) -> Outcome {
        let (submitter, reserver) = (world.submitter.insecure_clone(), world.reserver.insecure_clone());
        world.send(instructions, &[&submitter, &reserver])
    }

    /// The accounts of the end.
    pub fn end(&self) -> EscrowAccounts {
        EscrowAccounts {
            payment_id: self.data.payment_id,
            settler: self.data.settler,
            payer: self.data.payer,
            rent_payer: self.accounts.rent_payer,
            mint: self.accounts.mint,
            token_program: self.accounts.token_program,
        }
    }

    /// What the releaser signs for a delivery.
    pub fn delivery(&self) -> Delivery {
        Delivery { payment_id: self.data.payment_id, quote_hash: self.data.quote_hash, settler: self.data.settler }
    }

    /// What the releaser signs when there is none.
    pub fn non_delivery(&self) -> NonDelivery {
        NonDelivery { payment_id: self.data.payment_id, quote_hash: self.data.quote_hash }
    }

    /// The two instructions of the release.
    pub fn release(&self, world: &World) -> [host::Instruction; 2] {
        [sign(&self.delivery(), &world.domain(), &world.releaser), host::release(&world.program, &self.end(), 0)]
    }

    /// The two instructions of the cancellation.
    pub fn cancel(&self, world: &World) -> [host::Instruction; 2] {
        [sign(&self.non_delivery(), &world.domain(), &world.releaser), host::cancel(&world.program, &self.end(), 0)]
    }

    /// The two instructions of the release by the verifiers at these places.
    pub fn release_by(&self, world: &World, verifiers: &Verifiers, who: &[usize]) -> [host::Instruction; 2] {
        let release = host::release(&world.program, &self.end(), 0);
        [verifiers.sign(&self.delivery(), &world.domain(), who), host::by_set(release, &verifiers.set())]
    }

    /// The two instructions of the cancellation by the verifiers at these places.
    pub fn cancel_by(&self, world: &World, verifiers: &Verifiers, who: &[usize]) -> [host::Instruction; 2] {
        let cancel = host::cancel(&world.program, &self.end(), 0);
        [verifiers.sign(&self.non_delivery(), &world.domain(), who), host::by_set(cancel, &verifiers.set())]
    }

    /// The reservation of the third party as the next settler, who asks 240 and promises to deliver within 100 seconds.
    pub fn next(&self, world: &World) -> Reassign {
        Reassign {
            previous_quote_hash: self.data.quote_hash,
            quote_hash: [0x91; 32],
            settler: key(&world.third_party),
            source_amount: 240,
            fulfill_by: world.now + 100,
        }
    }

    /// The two instructions of the reassignment.
    pub fn reassign(&self, world: &World, to: &Reassign) -> [host::Instruction; 2] {
        let reassign = host::reassign(&world.program, &self.data.payment_id, self.accounts.reserver, to, 0);
        [sign(&self.non_delivery(), &world.domain(), &world.releaser), reassign]
    }

    /// The two instructions of the reassignment by the verifiers at these places.
    pub fn reassign_by(
        &self,
        world: &World,
        to: &Reassign,
        verifiers: &Verifiers,
        who: &[usize],
    ) -> [host::Instruction; 2] {
        let [_, reassign] = self.reassign(world, to);
        [verifiers.sign(&self.non_delivery(), &world.domain(), who), host::by_set(reassign, &verifiers.set())]
    }

    /// The payment as it is once its escrow is reserved for another settler.
    pub fn reassigned(&self, to: &Reassign) -> Self {
        let mut next = self.clone();
        next.data.quote_hash = to.quote_hash;
        next.data.settler = to.settler;
        next.data.source_amount = to.source_amount;
        next.data.fulfill_by = to.fulfill_by;
        next
    }

    /// The instruction that gives the payer what a release left.
    pub fn return_remainder(&self, world: &World) -> host::Instruction {
        host::return_remainder(&world.program, &self.end())
    }

    /// The instruction of the refund.
    pub fn refund(&self, world: &World) -> host::Instruction {
        host::refund(&world.program, &self.end())
    }

    /// The vault.
    pub fn vault(&self, world: &World) -> Key {
        host::vault_address(&world.program, &self.data.payment_id).key
    }

    /// A wallet's associated token account.
    pub fn token_of(&self, wallet: &Key) -> Key {
        host::associated_token_address(wallet, &self.accounts.token_program, &self.accounts.mint).key
    }

    /// The third party's transfer to any token account.
    pub fn transfer(&self, world: &World, to: Key, amount: u64) -> host::Instruction {
        let owner = key(&world.third_party);
        let DepositAccounts { mint, token_program, .. } = &self.accounts;
        transfer_checked(token_program, mint, [self.token_of(&owner), to], owner, amount)
    }

    /// The third party's transfer to the associated token account of `owner`, which it has made where it is not there.
    pub fn pay_to(&self, world: &World, owner: &Key, amount: u64) -> [host::Instruction; 2] {
        let DepositAccounts { mint, token_program, .. } = &self.accounts;
        let create = host::create_associated_token(key(&world.third_party), owner, mint, token_program);
        [create, self.transfer(world, self.token_of(owner), amount)]
    }

    /// A delivery of 200 of the same token, or of 2,000,000 lamports, by the settler to `recipient`.
    pub fn fulfillment(&self, world: &World, recipient: &Key, native: bool) -> Fulfillment {
        Fulfillment {
            payment_id: self.data.payment_id,
            quote_hash: self.data.quote_hash,
            settler: key(&world.settler),
            mint: if native { [0; 32] } else { self.accounts.mint },
            recipient: *recipient,
            amount: if native { 2_000_000 } else { 200 },
            fulfill_by: self.data.fulfill_by,
        }
    }
}

/// The precompile's instruction with `signer`'s signature over the message.
pub fn sign(message: &impl Message, domain: &Domain, signer: &Keypair) -> host::Instruction {
    sign_digest(&message.digest(domain), signer)
}

/// The same over any digest.
pub fn sign_digest(digest: &Hash, signer: &Keypair) -> host::Instruction {
    let signature = SigningKey::from_bytes(signer.secret_bytes()).sign(digest).to_bytes();
    host::ed25519(&signer.pubkey().to_bytes(), &signature, digest)
}
