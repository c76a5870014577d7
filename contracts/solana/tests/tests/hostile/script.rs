//! Transactions as they should be, for any of the program's instructions, with words of whoever may or may not give them.

use std::collections::{BTreeMap, BTreeSet};

use gateway_program::{
    Hash, Key,
    account::State,
    host::{self, Instruction, Message},
    ids,
    instruction::Reassign,
    message::{Deposit, Fulfillment, Offer},
    rules::RECLAIM_DELAY_SECONDS,
};
use gateway_program_tests::{
    Addressed, DECIMALS, MintKind, Offered, Payment, Verifiers, World, key, keypair, signature,
};
use solana_account::Account;
use solana_keypair::Keypair;

use super::{judge::CAP, random::Random};

/// Payments at a time, of each token program as many.
const SLOTS: usize = 4;
/// Who receives deliveries.
const RECIPIENT: u8 = 70;

/// The instructions of the program by their tags, and what others do meanwhile.
pub const OPERATIONS: [&str; 21] = [
    "initialize",
    "deposit",
    "release",
    "cancel",
    "refund",
    "fulfill",
    "reclaim escrow",
    "reclaim fulfillment",
    "reassign",
    "return remainder",
    "wait",
    "gift",
    "freeze",
    "send to address",
    "deposit from address",
    "give back",
    "give back lamports",
    "buy",
    "deposit from offer",
    "collect",
    "collect lamports",
];

/// A runtime with payments in it, and all that an attacker there can have seen.
pub struct Stage {
    pub world: World,
    pub payments: Vec<Payment>,
    /// 2 of 3, and 3 of 5; the payments of the last two slots are theirs.
    pub sets: Vec<Verifiers>,
    /// Every digest that a key ever signed.
    pub words: BTreeSet<(Key, Hash)>,
    /// Every signature that was ever sent.
    pub tape: Vec<Instruction>,
    /// Everyone who signs transactions, by the key.
    pub people: Vec<Keypair>,
    /// Addresses to put in the place of others: all that there are, and what an attacker made.
    pub pool: Vec<Key>,
    /// What every address commits to that something was sent to.
    pub addresses: BTreeMap<Key, Deposit>,
    /// The payments of those addresses.
    addressed: Vec<Addressed>,
    /// Every offer to whose address something was sent.
    pub offers: BTreeMap<Key, Offer>,
    /// A purchase of each of them.
    pub offered: Vec<Offered>,
    delivered: Vec<Fulfillment>,
    /// How often payment ids were drawn.
    drawn: u64,
}

impl Stage {
    pub fn new() -> Self {
        let mut world = World::new();
        let sets = vec![Verifiers::new(2, 3), Verifiers::new(3, 5)];
        let people: Vec<Keypair> = [3, 4, 6, 7, 8, 2].map(keypair).into();
        let mut pool: Vec<Key> = people.iter().map(key).collect();
        let mut payments = Vec::new();
        for slot in 0..SLOTS {
            let kind = if slot % 2 == 0 { MintKind::Token } else { MintKind::Token2022(&[]) };
            let first = payments.get(slot.wrapping_sub(2)).map(|payment: &Payment| payment.accounts.mint);
            let mint = first.unwrap_or_else(|| world.mint(40 + slot as u8, kind));
            let mut payment = Payment::of(&world, slot as u8 + 1, mint, kind.program());
            if slot >= 2 {
                payment.data.releaser = sets[slot - 2].id();
            } else {
                for seed in [3, 6, 7, 8, RECIPIENT] {
                    pool.push(world.mint_to(&mint, &key(&keypair(seed)), 100_000));
                }
                pool.extend([mint, kind.program()]);
            }
            payments.push(payment);
        }
        let program = world.program;
        pool.extend([ids::SYSTEM_PROGRAM, ids::INSTRUCTIONS_SYSVAR, ids::ED25519_PROGRAM, program, [0x55; 32]]);
        pool.extend([
            host::config_address(&program).key,
            host::program_data_address(&program).key,
            key(&keypair(RECIPIENT)),
        ]);
        let payer = key(&world.payer);
        pool.push(host::delegate_address(&program, &payer).key);
        let mut stage = Self {
            world,
            payments,
            sets,
            words: BTreeSet::new(),
            tape: Vec::new(),
            people,
            pool,
            addresses: BTreeMap::new(),
            addressed: Vec::new(),
            offers: BTreeMap::new(),
            offered: Vec::new(),
            delivered: Vec::new(),
            drawn: 0,
        };
        stage.forge();
        stage
    }

    /// What an attacker can make: accounts of its own that hold what the program's hold, a sysvar of its own, a vault of its own.
    fn forge(&mut self) {
        let config = host::config_address(&self.world.program).key;
        let real = self.world.account(&config).unwrap().data;
        let instructions = vec![0; 64];
        let attacker = key(&self.world.third_party);
        let tokens =
            host::associated_token_address(&attacker, &ids::TOKEN_PROGRAM, &self.payments[0].accounts.mint).key;
        let vault = self.world.account(&tokens).unwrap().data;
        for (at, owner, data) in [
            (0xe0, ids::SYSTEM_PROGRAM, real.clone()),
            (0xe1, attacker, real),
            (0xe2, attacker, instructions),
            (0xe3, attacker, vault),
        ] {
            let account =
                Account { lamports: 10_000_000, data, owner: owner.into(), executable: false, rent_epoch: u64::MAX };
            self.world.put([at; 32], account);
            self.pool.push([at; 32]);
        }
    }

    /// The terms as the chain has them, where it has them.
    fn refresh(&mut self, slot: usize) {
        let payment = &mut self.payments[slot];
        if let Some(escrow) = self.world.escrow(&payment.data.payment_id) {
            payment.data.quote_hash = escrow.quote_hash;
            payment.data.settler = escrow.settler;
            payment.data.source_amount = escrow.source_amount;
            payment.data.fulfill_by = escrow.fulfill_by;
        }
    }

    /// An instruction of the precompile with what `signers` signed, which is known from then on.
    fn word(&mut self, digest: &Hash, signers: &[Keypair]) -> Instruction {
        let signed: Vec<_> = signers.iter().map(|signer| signature(signer, digest)).collect();
        self.words.extend(signers.iter().map(|signer| (key(signer), *digest)));
        let word = host::ed25519_of_set(&signed, digest);
        self.tape.push(word.clone());
        word
    }

    /// The word of a payment's releaser; sometimes of too few, of somebody else, in another order, or one that was given before.
    fn releasers_word(&mut self, random: &mut Random, slot: usize, digest: &Hash) -> Instruction {
        let right: Vec<Keypair> = if slot < 2 {
            vec![self.world.releaser.insecure_clone()]
        } else {
            let set = &self.sets[slot - 2];
            let from = random.below(set.keypairs.len() - usize::from(set.threshold) + 1);
            set.keypairs[from..from + usize::from(set.threshold)].iter().map(Keypair::insecure_clone).collect()
        };
        match random.below(10) {
            0 => self.word(digest, &[self.world.third_party.insecure_clone()]),
            1 if right.len() > 1 => self.word(digest, &right[1..]),
            2 if right.len() > 1 => {
                let mut turned = right;
                turned.reverse();
                self.word(digest, &turned)
            }
            3 if right.len() > 1 => {
                let twice: Vec<_> = right.iter().map(|_| right[0].insecure_clone()).collect();
                self.word(digest, &twice)
            }
            4 if !self.tape.is_empty() => random.pick(&self.tape).clone(),
            _ => self.word(digest, &right),
        }
    }

    fn by_set(&self, slot: usize, end: Instruction) -> Instruction {
        if slot < 2 { end } else { host::by_set(end, &self.sets[slot - 2].set()) }
    }

    /// What happens next to the payment in `slot`: mostly what can, sometimes anything.
    pub fn operation(&self, random: &mut Random, slot: usize) -> usize {
        const NEW: [usize; 9] = [1, 1, 1, 14, 14, 15, 18, 18, 18];
        const COME: [usize; 7] = [14, 14, 14, 14, 1, 13, 15];
        const OPEN: [usize; 18] = [2, 2, 2, 3, 4, 5, 8, 8, 8, 8, 10, 10, 11, 12, 13, 15, 17, 19];
        const OVER: [usize; 20] = [1, 1, 6, 6, 6, 7, 7, 9, 9, 10, 10, 10, 12, 14, 15, 16, 18, 18, 19, 20];
        if random.one_in(6) {
            return random.below(OPERATIONS.len());
        }
        match self.world.escrow(&self.payments[slot].data.payment_id).and_then(|escrow| escrow.state()) {
            None if self.has_come(slot) => *random.pick(&COME),
            None if self.has_bought(slot) && random.one_in(2) => 18,
            None => *random.pick(&NEW),
            Some(State::Reserved) => *random.pick(&OPEN),
            Some(_) => *random.pick(&OVER),
        }
    }

    /// A transaction of `operation` for the payment in `slot`, none where something happened without one.
    pub fn transaction(&mut self, random: &mut Random, operation: usize, slot: usize) -> Vec<Instruction> {
        self.refresh(slot);
        let payment = self.payments[slot].clone();
        let domain = self.world.domain();
        let program = self.world.program;
        match operation {
            0 => vec![self.world.initialization()],
            1 => self.deposit(random, slot),
            2 => {
                let word = self.releasers_word(random, slot, &payment.delivery().digest(&domain));
                vec![word, self.by_set(slot, host::release(&program, &payment.end(), 0))]
            }
            3 => {
                let word = self.releasers_word(random, slot, &payment.non_delivery().digest(&domain));
                vec![word, self.by_set(slot, host::cancel(&program, &payment.end(), 0))]
            }
            4 => vec![payment.refund(&self.world)],
            5 => self.fulfill(random, slot),
            6 => {
                let reclaim = host::reclaim_escrow(&program, &payment.data.payment_id, payment.accounts.rent_payer);
                vec![if random.one_in(2) { host::with_vault(reclaim, &payment.data.payment_id) } else { reclaim }]
            }
            7 if self.delivered.is_empty() => Vec::new(),
            7 => vec![host::reclaim_fulfillment(&program, random.pick(&self.delivered))],
            8 => self.reassign(random, slot),
            9 => vec![payment.return_remainder(&self.world)],
            10 => {
                self.wait(random, slot);
                Vec::new()
            }
            11 => vec![self.gift(random, slot)],
            13 => self.send_to_address(random, slot),
            14 => self.deposit_from_address(random, slot),
            15 if self.addressed.is_empty() => Vec::new(),
            15 => vec![self.give_back(random)],
            16 if self.addressed.is_empty() => Vec::new(),
            16 => vec![random.pick(&self.addressed).give_back_lamports(&self.world)],
            17 => self.buy(random, slot),
            18 => self.deposit_from_offer(random, slot),
            19 | 20 if self.offered.is_empty() => Vec::new(),
            19 => vec![self.collect(random)],
            20 => vec![self.collect_lamports(random)],
            _ => {
                let vault = payment.vault(&self.world);
                let account = if random.one_in(2) { vault } else { payment.token_of(&payment.data.settler) };
                vec![token_instruction(
                    &payment,
                    account,
                    key(&self.world.third_party),
                    if random.one_in(4) { 10 } else { 11 },
                )]
            }
        }
    }

    /// Terms of now, for a payment that is new where the last one is over.
    pub fn renew(&mut self, random: &mut Random, slot: usize) {
        let now = self.world.now;
        let known = self.world.escrow(&self.payments[slot].data.payment_id);
        let over = known.is_some_and(|escrow| escrow.state() != Some(State::Reserved));
        if over && !random.one_in(4) {
            self.drawn += 1;
            self.payments[slot].data.payment_id = [self.drawn as u8 ^ 0x80 | slot as u8; 32];
            self.payments[slot].data.payment_id[..8].copy_from_slice(&self.drawn.to_le_bytes());
        }
        let id = self.payments[slot].data.payment_id;
        self.pool.extend([
            host::escrow_address(&self.world.program, &id).key,
            host::vault_address(&self.world.program, &id).key,
        ]);
        let data = &mut self.payments[slot].data;
        data.quote_hash = [random.below(200) as u8 + 1; 32];
        data.agreed_quote_hash = if random.one_in(4) { data.quote_hash } else { [0; 32] };
        data.settler = key(&self.world.settler);
        data.cap = CAP;
        data.source_amount = 1 + random.next() % CAP;
        (data.reserve_deadline, data.fulfill_by) = (now + 60, now + 300);
        (data.fulfillment_deadline, data.refund_after) = (now + 600, now + 3_600);
    }

    fn deposit(&mut self, random: &mut Random, slot: usize) -> Vec<Instruction> {
        self.renew(random, slot);
        let payment = self.payments[slot].clone();
        let signer = if random.one_in(8) { &self.world.third_party } else { &self.world.payer }.insecure_clone();
        let word = self.word(&payment.terms().digest(&self.world.domain()), &[signer]);
        let payer = key(&self.world.payer);
        let allow = host::approve_checked(
            &payment.accounts.token_program,
            payment.accounts.payer_token,
            payment.accounts.mint,
            host::delegate_address(&self.world.program, &payer).key,
            payer,
            if random.one_in(8) { random.number() } else { CAP },
            DECIMALS,
        );
        vec![word, allow, payment.instruction(&self.world)]
    }

    /// By a stranger, of any amount and sometimes of another token or of native SOL, where the payment can still be deposited or not.
    fn send_to_address(&mut self, random: &mut Random, slot: usize) -> Vec<Instruction> {
        let data = &self.payments[slot].data;
        let is_over = self.world.now > data.reserve_deadline || self.world.escrow(&data.payment_id).is_some();
        if is_over && !random.one_in(4) {
            self.renew(random, slot);
        }
        let addressed = Addressed::of(self.payments[slot].clone());
        let at = addressed.at(&self.world);
        if self.addresses.insert(at, addressed.payment.terms()).is_none() {
            self.pool.extend([at, addressed.tokens(&self.world)]);
            self.addressed.push(addressed);
        }
        self.sent(random, slot, at)
    }

    /// Tokens of a stranger to an address, mostly of the payment's mint, and sometimes lamports.
    pub fn sent(&self, random: &mut Random, slot: usize, at: Key) -> Vec<Instruction> {
        let (other, stranger) = (&self.payments[random.below(2)], key(&self.world.third_party));
        let payment = if random.one_in(5) { other } else { &self.payments[slot] };
        let amount = if random.one_in(3) { random.number() % CAP } else { CAP + random.next() % 100 };
        let lamports = [&2_u32.to_le_bytes()[..], &1_000_000_u64.to_le_bytes()].concat();
        let meta = |key, signer, writable| host::AccountMeta { key, signer, writable };
        let mut sent = payment.pay_to(&self.world, &at, amount).to_vec();
        if random.one_in(4) {
            let accounts = vec![meta(stranger, true, true), meta(at, false, true)];
            sent.push(Instruction { program_id: ids::SYSTEM_PROGRAM, accounts, data: lamports });
        }
        sent
    }

    /// Whether the payment's money is at its address and can be deposited.
    fn has_come(&self, slot: usize) -> bool {
        let payment = &self.payments[slot];
        self.world.tokens(&Addressed::of(payment.clone()).tokens(&self.world)) >= CAP
            && self.world.now <= payment.data.reserve_deadline
            && self.world.escrow(&payment.data.payment_id).is_none()
    }

    /// What came to the payment's address, or some of it, or more. Where too little came, it mostly comes now.
    fn deposit_from_address(&mut self, random: &mut Random, slot: usize) -> Vec<Instruction> {
        if !self.has_come(slot) && !random.one_in(4) {
            return self.send_to_address(random, slot);
        }
        let payment = &mut self.payments[slot];
        let data = &mut payment.data;
        if data.agreed_quote_hash == [0; 32] || random.one_in(8) {
            data.quote_hash = [random.below(200) as u8 + 1; 32];
        }
        data.settler = key(&self.world.settler);
        data.fulfill_by = (self.world.now + 200).min(data.fulfillment_deadline);
        data.source_amount = if random.one_in(8) { random.number() } else { 1 + random.next() % CAP };
        let mut addressed = Addressed::of(payment.clone());
        let there = self.world.tokens(&addressed.tokens(&self.world));
        addressed.deposited = match random.below(8) {
            0 => random.number(),
            1 => CAP,
            _ => there,
        };
        let id = payment.data.payment_id;
        self.pool.extend([
            host::escrow_address(&self.world.program, &id).key,
            host::vault_address(&self.world.program, &id).key,
        ]);
        vec![addressed.instruction(&self.world)]
    }

    /// Of any address that something was sent to, of any token, into any account where the payer signs.
    fn give_back(&self, random: &mut Random) -> Instruction {
        let addressed = random.pick(&self.addressed);
        let mut back = addressed.give_back(&self.world);
        if random.one_in(5) {
            let other = &self.payments[random.below(2)].accounts;
            back = addressed.give_back_of(&self.world, &other.mint, &other.token_program);
        }
        if random.one_in(5) {
            back = host::given_back_to(back, *random.pick(&self.pool));
        }
        if random.one_in(3)
            && let Some(closes) = back.data.last_mut()
        {
            *closes = 0;
        }
        back
    }

    fn reassign(&mut self, random: &mut Random, slot: usize) -> Vec<Instruction> {
        let payment = self.payments[slot].clone();
        let mut to = payment.next(&self.world);
        to.quote_hash = [random.below(200) as u8 + 1; 32];
        to.settler = key(if random.one_in(2) { &self.world.settler } else { &self.world.third_party });
        let most = self.world.escrow(&payment.data.payment_id).map_or(CAP, |escrow| escrow.deposited);
        to.source_amount = if random.one_in(8) { random.number() } else { 1 + random.next() % most };
        to.fulfill_by = to.fulfill_by.min(payment.data.fulfillment_deadline);
        let word = self.releasers_word(random, slot, &payment.non_delivery().digest(&self.world.domain()));
        let [_, reassign]: [Instruction; 2] = payment.reassign(&self.world, &Reassign { ..to });
        vec![word, self.by_set(slot, reassign)]
    }

    fn fulfill(&mut self, random: &mut Random, slot: usize) -> Vec<Instruction> {
        let payment = self.payments[slot].clone();
        let native = random.one_in(2);
        let mut delivery = payment.fulfillment(&self.world, &key(&keypair(RECIPIENT)), native);
        delivery.settler = key(if random.one_in(2) { &self.world.settler } else { &self.world.third_party });
        delivery.amount = if native { 1_000_000 + random.number() % 1_000_000 } else { 1 + random.number() % 20 };
        if let Some(again) = self.delivered.last()
            && random.one_in(4)
        {
            delivery = again.clone();
        }
        self.delivered.push(delivery.clone());
        self.pool.push(host::fulfillment_address(&self.world.program, &delivery.key(&self.world.program)).key);
        if delivery.mint == [0; 32] {
            return vec![host::fulfill_native(&self.world.program, &delivery)];
        }
        let from = payment.token_of(&delivery.settler);
        vec![host::fulfill_token(&self.world.program, &delivery, from, payment.accounts.token_program)]
    }

    /// To the edge of one of the payment's windows, or by a while.
    fn wait(&mut self, random: &mut Random, slot: usize) {
        let data = &self.payments[slot].data;
        let over = self.world.escrow(&data.payment_id).is_some_and(|escrow| escrow.state() != Some(State::Reserved));
        let edge = match random.below(if over { 6 } else { 12 }) {
            0 if over => data.refund_after + RECLAIM_DELAY_SECONDS,
            0 => data.fulfillment_deadline,
            1 => data.refund_after,
            _ => data.fulfill_by,
        };
        let to = if random.one_in(3) { self.world.now + 1 + random.next() % 120 } else { edge - 1 + random.next() % 4 };
        if to > self.world.now {
            let slot = self.world.svm.get_sysvar::<solana_clock::Clock>().slot;
            self.world.svm.warp_to_slot(slot + 1 + random.next() % 1_000);
            self.world.set_time(to);
        }
    }

    /// Tokens of a stranger into a vault.
    fn gift(&self, random: &mut Random, slot: usize) -> Instruction {
        let payment = &self.payments[slot];
        let giver = key(&self.world.third_party);
        let meta = |key, signer, writable| host::AccountMeta { key, signer, writable };
        Instruction {
            program_id: payment.accounts.token_program,
            accounts: vec![
                meta(payment.token_of(&giver), false, true),
                meta(payment.vault(&self.world), false, true),
                meta(giver, true, false),
            ],
            data: [&[3][..], &(random.next() % 5).to_le_bytes()].concat(),
        }
    }
}

/// Freezes or thaws an account, by the mint's authority.
fn token_instruction(payment: &Payment, account: Key, authority: Key, tag: u8) -> Instruction {
    let meta = |key, signer, writable| host::AccountMeta { key, signer, writable };
    Instruction {
        program_id: payment.accounts.token_program,
        accounts: vec![
            meta(account, false, true),
            meta(payment.accounts.mint, false, false),
            meta(authority, true, false),
        ],
        data: vec![tag],
    }
}
