//! The program against whoever sends it whatever: random sequences of all instructions, half of them with other accounts, bytes,
//! signatures and signers than they should have. After each, all accounts of the runtime are judged (`judge`).
//!
//! A run is its steps, each of which is a seed of its own; what a run finds is shrunk by leaving steps out.

mod judge;
mod mutate;
mod offers;
mod random;
mod script;

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    time::{Duration, Instant},
};

use gateway_program::Key;
use gateway_program_tests::{Addressed, Outcome, key};
use solana_keypair::Keypair;

use judge::{Facts, Snapshot};
use random::Random;
use script::{OPERATIONS, Stage};

/// Steps of one run, all in one runtime.
const STEPS: usize = 120;
/// Runs of the ordinary suite, by the seeds from 1 on.
const RUNS: u64 = 48;
/// Attempts to leave steps out of a run that found something.
const SHRINKS_MAX: usize = 400;

/// How often what happened.
#[derive(Default)]
struct Tally {
    changes: BTreeMap<&'static str, u64>,
    answers: BTreeMap<String, u64>,
    /// By operation: done as it should be, and done though it was changed.
    done: BTreeMap<&'static str, [u64; 2]>,
    sent: u64,
}

fn run(steps: &[u64], tally: &mut Tally) -> Result<(), String> {
    let mut stage = Stage::new();
    for step in steps {
        let mut random = Random::new(*step);
        let slot = random.below(stage.payments.len());
        let operation = stage.operation(&mut random, slot);
        let mut transaction = stage.transaction(&mut random, operation, slot);
        if random.one_in(8) {
            // Two of them in one.
            let (other, slot) = (1 + random.below(OPERATIONS.len() - 1), random.below(stage.payments.len()));
            transaction.extend(stage.transaction(&mut random, other, slot));
        }
        let changed = mutate::mutate(&stage, &mut random, &mut transaction);
        if transaction.is_empty() {
            continue;
        }
        let name = OPERATIONS[operation];
        let changes = send(&mut stage, &mut random, transaction, tally).map_err(|why| format!("{name}: {why}"))?;
        if let Some(changes) = changes {
            tally.done.entry(name).or_default()[usize::from(changed)] += 1;
            for change in changes {
                *tally.changes.entry(change).or_default() += 1;
            }
        }
    }
    Ok(())
}

/// Sends, signed by everyone here who is asked to, and judges what came of it; what changed, if it went through.
fn send(
    stage: &mut Stage,
    random: &mut Random,
    mut transaction: Vec<gateway_program::host::Instruction>,
    tally: &mut Tally,
) -> Result<Option<judge::Changes>, String> {
    let fee_payer = key(&stage.world.third_party);
    let withheld = random.one_in(8).then(|| key(random.pick(&stage.people)));
    let mut signers = BTreeSet::from([fee_payer]);
    for account in transaction.iter_mut().flat_map(|instruction| &mut instruction.accounts).filter(|a| a.signer) {
        let asked = stage.people.iter().any(|person| key(person) == account.key) && withheld != Some(account.key);
        account.signer = asked || account.key == fee_payer;
        if account.signer {
            signers.insert(account.key);
        }
    }
    let people: Vec<Keypair> = stage.people.iter().map(Keypair::insecure_clone).collect();
    let mut keys: Vec<&Keypair> = people.iter().filter(|person| signers.contains(&key(person))).collect();
    keys.sort_by_key(|person| key(person) != fee_payer);

    let before = Snapshot::of(&stage.world);
    let outcome: Outcome = stage.world.send(&transaction, &keys);
    tally.sent += 1;
    let answer = judge::judge_failure(&outcome, &transaction, &stage.world.program)?;
    *tally.answers.entry(answer).or_default() += 1;
    let Ok(done) = outcome else { return Ok(None) };
    let after = Snapshot::of(&stage.world);
    let facts = stage.facts(&signers, done.fee);
    judge::judge(&before, &after, &facts).map(Some)
}

impl Stage {
    fn facts<'a>(&'a self, signers: &'a BTreeSet<Key>, fee: u64) -> Facts<'a> {
        let Self { world, words, sets, addresses, offers, .. } = self;
        Facts { world, words, sets, addresses, offers, signers, fee }
    }
}

fn steps_of(seed: u64) -> Vec<u64> {
    let mut random = Random::new(seed);
    (0..STEPS).map(|_| random.next()).collect()
}

/// The steps without those that it does not take to fail.
fn shrunk(mut steps: Vec<u64>) -> Vec<u64> {
    let (mut size, mut left) = (steps.len() / 2, SHRINKS_MAX);
    while size > 0 {
        let mut at = 0;
        while at < steps.len() && left > 0 {
            left -= 1;
            let mut fewer = steps.clone();
            fewer.drain(at..steps.len().min(at + size));
            match run(&fewer, &mut Tally::default()) {
                Err(_) => steps = fewer,
                Ok(()) => at += size,
            }
        }
        size /= 2;
    }
    steps
}

fn runs(seeds: impl Iterator<Item = u64>) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds {
        let steps = steps_of(seed);
        if let Err(why) = run(&steps, &mut tally) {
            let steps = shrunk(steps);
            let least = run(&steps, &mut Tally::default());
            panic!("seed {seed}: {why}\nin {} steps {steps:?}: {least:?}", steps.len());
        }
    }
    tally
}

fn report(tally: &Tally) -> String {
    format!("{} transactions\n{:#?}\n{:#?}\n{:#?}", tally.sent, tally.done, tally.changes, tally.answers)
}

#[test]
fn no_transaction_changes_what_its_signers_may_not() {
    let tally = runs(1..=RUNS);
    println!("{}", report(&tally));
    // Everything happened that this is about.
    for change in [
        "deposited",
        "reassigned",
        "released",
        "cancelled",
        "refunded",
        "remainder returned",
        "escrow reclaimed",
        "delivered",
        "delivery reclaimed",
        "deposited from an address",
        "given back",
        "lamports given back",
        "deposited from an offer",
        "collected",
        "lamports collected",
    ] {
        assert!(tally.changes.get(change).is_some_and(|count| *count > 0), "never {change}: {}", report(&tally));
    }
    assert!(tally.answers.len() > 30, "too few ways to fail: {}", report(&tally));
}

/// For as many seconds as `HOSTILE_SECONDS` says, from the seed `HOSTILE_SEED` on.
#[test]
#[ignore = "runs for minutes; HOSTILE_SECONDS says for how many seconds"]
fn no_transaction_changes_what_its_signers_may_not_for_long() {
    let number = |name: &str, otherwise| env::var(name).map_or(otherwise, |value| value.parse().unwrap());
    let (until, first) =
        (Instant::now() + Duration::from_secs(number("HOSTILE_SECONDS", 600)), number("HOSTILE_SEED", RUNS + 1));
    let mut ran = 0;
    let tally = runs((first..).take_while(|_| Instant::now() < until).inspect(|_| ran += 1));
    println!("{ran} runs from seed {first}, {}", report(&tally));
    assert!(ran > 0);
}

/// The judge is not blind: what no transaction may do it does not let pass.
#[test]
fn the_judge_finds_what_was_stolen() {
    let (mut stage, deposit) = deposited();
    let (address, at_address) = sent_to(&mut stage);
    let before = Snapshot::of(&stage.world);
    let vault = stage.payments[0].vault(&stage.world);
    let escrow = gateway_program::host::escrow_address(&stage.world.program, &stage.payments[0].data.payment_id).key;
    let thief = stage.payments[0].token_of(&key(&stage.world.third_party));
    let verdict = |stage: &mut Stage, steal: &dyn Fn(&mut Stage)| {
        let real: Vec<(Key, _)> = [vault, escrow, thief, address, at_address]
            .iter()
            .map(|at| (*at, stage.world.account(at).unwrap()))
            .collect();
        steal(stage);
        let signers = BTreeSet::from([key(&stage.world.third_party)]);
        let verdict = judge::judge(&before, &Snapshot::of(&stage.world), &stage.facts(&signers, 0));
        for (at, account) in real {
            stage.world.put(at, account);
        }
        verdict
    };
    assert_eq!(verdict(&mut stage, &|_| {}), Ok(vec![]));
    let add = |stage: &mut Stage, at: Key, amount: i64| {
        let mut account = stage.world.account(&at).unwrap();
        let held = u64::from_le_bytes(account.data[64..72].try_into().unwrap());
        account.data[64..72].copy_from_slice(&held.wrapping_add_signed(amount).to_le_bytes());
        stage.world.put(at, account);
    };
    let patch = |stage: &mut Stage, byte: usize, value: u8| {
        let mut account = stage.world.account(&escrow).unwrap();
        account.data[byte] = value;
        stage.world.put(escrow, account);
    };
    type Theft<'a> = &'a dyn Fn(&mut Stage);
    let coins = |stage: &mut Stage, at: Key, lamports: i64| {
        let mut account = stage.world.account(&at).unwrap();
        account.lamports = account.lamports.wrapping_add_signed(lamports);
        stage.world.put(at, account);
    };
    let thefts: [(Theft, &str); 8] = [
        (&|stage| add(stage, thief, 1), "tokens appeared or vanished"),
        (
            &|stage| {
                add(stage, thief, 1);
                add(stage, vault, -1);
            },
            "less in the vault than was deposited",
        ),
        // Out of an address, of which nothing is deposited.
        (
            &|stage| {
                add(stage, thief, 1);
                add(stage, at_address, -1);
            },
            "given back before its time",
        ),
        (
            &|stage| {
                coins(stage, thief, 1);
                coins(stage, address, -1);
            },
            "an address's lamports went elsewhere",
        ),
        // Released, refunded, for another quote, without a word.
        (&|stage| patch(stage, 2, 2), "a release without the verifiers' word"),
        (&|stage| patch(stage, 2, 3), "a refund before its time without the verifiers' word"),
        (&|stage| patch(stage, 309, 0xff), "a reassignment without the reserver"),
        (&|stage| patch(stage, 37, 0xff), "terms changed that never do"),
    ];
    for (steal, why) in thefts {
        assert_eq!(verdict(&mut stage, steal), Err(why.to_owned()), "after {deposit}");
    }
}

/// Neither does it let pass what leaves the address of an offer by another's will, or to another.
#[test]
fn the_judge_finds_what_was_taken_from_an_offer() {
    let (mut stage, _) = deposited();
    let mut random = Random::new(1);
    let enough = |stage: &Stage| stage.has_bought(0) && stage.world.lamports(&stage.offered[0].at(&stage.world)) > 0;
    while !enough(&stage) {
        let (transaction, buyer) = (stage.buy(&mut random, 0), stage.world.third_party.insecure_clone());
        stage.world.send(&transaction, &[&buyer]).unwrap();
    }
    let offered = stage.offered[0].clone();
    let (at, from) = (offered.at(&stage.world), offered.tokens(&stage.world));
    let (thief, merchant) = (key(&stage.world.third_party), offered.offer.merchant);
    let before = Snapshot::of(&stage.world);
    let move_tokens = |stage: &mut Stage, to: Key| {
        for (account, sign) in [(from, -1), (to, 1)] {
            let mut changed = stage.world.account(&account).unwrap();
            let held = u64::from_le_bytes(changed.data[64..72].try_into().unwrap());
            changed.data[64..72].copy_from_slice(&held.wrapping_add_signed(sign).to_le_bytes());
            stage.world.put(account, changed);
        }
    };
    let move_lamports = |stage: &mut Stage, to: Key| {
        for (account, sign) in [(at, -1), (to, 1)] {
            let mut changed = stage.world.account(&account).unwrap();
            changed.lamports = changed.lamports.wrapping_add_signed(sign);
            stage.world.put(account, changed);
        }
    };
    let (thiefs, merchants) = (offered.token_of(&thief), offered.token_of(&merchant));
    let may_not = Err("collected by who may not".to_owned());
    type Move<'a> = &'a dyn Fn(&mut Stage);
    let moves: [(Move, Key, _); 8] = [
        (&|stage| move_tokens(stage, thiefs), thief, may_not.clone()),
        // Even to the merchant nobody may who is neither.
        (&|stage| move_tokens(stage, merchants), thief, may_not.clone()),
        (&|stage| move_tokens(stage, merchants), offered.offer.reserver, Ok(vec!["collected"])),
        (&|stage| move_tokens(stage, thiefs), offered.offer.reserver, Err("somebody got less than is due".to_owned())),
        (&|stage| move_tokens(stage, thiefs), merchant, Ok(vec!["collected"])),
        (&|stage| move_lamports(stage, merchant), thief, may_not),
        (&|stage| move_lamports(stage, merchant), offered.offer.reserver, Ok(vec!["lamports collected"])),
        (
            &|stage| move_lamports(stage, thief),
            offered.offer.reserver,
            Err("an offer's lamports went elsewhere".to_owned()),
        ),
    ];
    for (change, signer, expected) in moves {
        let real = [at, from, thief, merchant, thiefs, merchants].map(|at| (at, stage.world.account(&at).unwrap()));
        change(&mut stage);
        let signers = BTreeSet::from([signer]);
        assert_eq!(judge::judge(&before, &Snapshot::of(&stage.world), &stage.facts(&signers, 0)), expected);
        for (at, account) in real {
            stage.world.put(at, account);
        }
    }
}

/// Sends money and native SOL to the address of a payment that has no deposit; the address, and its token account.
fn sent_to(stage: &mut Stage) -> (Key, Key) {
    let mut payment = stage.payments[0].clone();
    payment.data.payment_id = [0x77; 32];
    let addressed = Addressed::of(payment);
    addressed.send(&mut stage.world, 300);
    let (at, tokens) = (addressed.at(&stage.world), addressed.tokens(&stage.world));
    stage.world.fund(&at, 1_000_000);
    stage.addresses.insert(at, addressed.payment.terms());
    (at, tokens)
}

/// A stage where the first payment is locked, and how many steps that took.
fn deposited() -> (Stage, u64) {
    for seed in 1.. {
        let mut stage = Stage::new();
        let mut random = Random::new(seed);
        let transaction = stage.transaction(&mut random, 1, 0);
        let done = send(&mut stage, &mut random, transaction, &mut Tally::default()).unwrap();
        if done == Some(vec!["deposited"]) {
            return (stage, seed);
        }
    }
    unreachable!("seeds do not end")
}
