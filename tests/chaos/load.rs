//! Who pays meanwhile, and what for.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use rand::{Rng, SeedableRng, rngs::StdRng};

use devnet::keys::Role;
use devnet::payer::{Payer, PaymentSpec};

use crate::support::{
    World,
    client::{Asked, Client, Session},
    recorder::Recorder,
};

/// Payers on the first EVM chain; there is one more on Solana, and one on Tron.
const EVM_PAYERS: usize = 3;
/// Longest pause between two submissions of one payer, in milliseconds.
const PACE_MS_MAX: u64 = 4_000;
/// Windows of the payments: long enough that most are delivered, short enough that refunds can be waited for.
pub const FULFILLMENT_WINDOW: Duration = Duration::from_secs(60);
/// Windows of a payment that leaves no time for trouble.
const SHORT_QUOTE_WINDOW: Duration = Duration::from_secs(3);
const SHORT_FULFILLMENT_WINDOW: Duration = Duration::from_secs(12);
/// How often a payment is read, and how long between two reads at most, in milliseconds.
const READS: usize = 10;
const READ_PAUSE_MS_MAX: u64 = 2_000;

/// Every payer, written down by `recorder`.
pub async fn payers(world: &World, recorder: &Arc<Recorder>) -> Result<Vec<Client>> {
    let mut clients = Vec::new();
    for n in 0..EVM_PAYERS {
        clients.push(Client::endowed(&world.network, n).await?.recorded(recorder.clone(), &format!("evm-{n}")));
    }
    let solana = Client::of(&world.network, 3, Payer::on_solana(Role::Payer.solana_key())?);
    clients.push(solana.recorded(recorder.clone(), "solana"));
    let tron = Client::of(&world.network, 4, Payer::on_tron(Role::Payer.signer())?);
    clients.push(tron.recorded(recorder.clone(), "tron"));
    Ok(clients)
}

/// What a payer may want: the same for each place that it can pay to, and for the settler that never delivers.
struct PaymentSpecs {
    ordinary: Vec<PaymentSpec>,
    undeliverable: PaymentSpec,
}

impl PaymentSpecs {
    fn of(world: &World, payer: usize) -> Result<Self> {
        let name = format!("payer-{payer}");
        let (ordinary, undeliverable) = match payer {
            3 => (
                vec![
                    world.spec_from_solana(&name)?,
                    PaymentSpec { source: world.solana()?.token()?, ..world.spec_to_tron(&name)? },
                ],
                world.undeliverable_from_solana(&name)?,
            ),
            4 => (
                vec![
                    world.spec_from_tron(&name)?,
                    PaymentSpec { source: world.tron()?.token()?, ..world.spec_to_solana(&name)? },
                ],
                world.undeliverable_from_tron(&name)?,
            ),
            _ => (
                vec![world.spec(&name)?, world.spec_to_solana(&name)?, world.spec_to_tron(&name)?],
                world.undeliverable_spec(&name)?,
            ),
        };
        let within = |spec: PaymentSpec| PaymentSpec { fulfillment_window: FULFILLMENT_WINDOW, ..spec };
        Ok(Self { ordinary: ordinary.into_iter().map(within).collect(), undeliverable })
    }

    /// Pays what is drawn, under the `n`th request id.
    async fn pay_one(&self, client: &Client, random: &mut StdRng, n: usize) -> Result<Vec<Asked>> {
        let named = |spec: &PaymentSpec, more: &str| PaymentSpec {
            request_id: format!("{}-{n}{more}", spec.request_id),
            ..spec.clone()
        };
        // Most where settlers are quickest.
        let place = [0, 0, 1, 2][random.gen_range(0..4)] % self.ordinary.len();
        let ordinary = named(&self.ordinary[place], "");
        let one = match random.gen_range(0..12) {
            0 | 1 => client.pay(&named(&self.undeliverable, "")).await?,
            2 | 3 => {
                let (quote_window, fulfillment_window) = (SHORT_QUOTE_WINDOW, SHORT_FULFILLMENT_WINDOW);
                client.pay(&PaymentSpec { quote_window, fulfillment_window, ..ordinary }).await?
            }
            4 => client.choose(&ordinary).await?,
            5 => return client.choose_either(&ordinary, &named(&self.ordinary[place], "-rival")).await,
            6 => client.pay_twice(&ordinary).await?,
            7 | 8 => {
                let other = PaymentSpec { amount: "24000000".parse()?, ..ordinary.clone() };
                client.pay_either(&ordinary, &other).await?
            }
            _ => client.pay(&ordinary).await?,
        };
        Ok(vec![one])
    }
}

/// Everybody who pays, until told to stop.
pub struct Load {
    stop: Arc<AtomicBool>,
    asked: Arc<Mutex<Vec<Asked>>>,
    payers: Vec<tokio::task::JoinHandle<Result<()>>>,
}

impl Load {
    pub fn start(world: &World, clients: &[Client], random: &mut StdRng) -> Result<Self> {
        let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let mut payers = Vec::new();
        for (n, client) in clients.iter().enumerate() {
            let specs = PaymentSpecs::of(world, n)?;
            let random = StdRng::seed_from_u64(random.r#gen());
            payers.push(tokio::spawn(pay(Arc::new(client.again()), specs, random, stop.clone(), asked.clone())));
        }
        Ok(Self { stop, asked, payers })
    }

    /// Everything that was asked for, once the payers have stopped.
    pub async fn stop(self) -> Result<Vec<Asked>> {
        self.stop.store(true, Ordering::SeqCst);
        for payer in self.payers {
            payer.await??;
        }
        let asked = std::mem::take(&mut *self.asked.lock().expect("nothing panics with the lock held"));
        Ok(asked)
    }
}

/// Pays on and on until told to stop, and reads each payment for a while.
async fn pay(
    client: Arc<Client>,
    specs: PaymentSpecs,
    mut random: StdRng,
    stop: Arc<AtomicBool>,
    asked: Arc<Mutex<Vec<Asked>>>,
) -> Result<()> {
    let mut readers = Vec::new();
    for n in 0.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        for one in specs.pay_one(&client, &mut random, n).await? {
            // Who submitted goes on with what it was told, and somebody else knows nothing.
            let begun = |whose: &str| Session { name: format!("{}-{whose}", one.payment_id), seen: None };
            for session in [one.session.clone().unwrap_or_else(|| begun("own")), begun("other")] {
                let (client, payment_id) = (client.clone(), one.payment_id.clone());
                let pause = Duration::from_millis(random.gen_range(0..READ_PAUSE_MS_MAX));
                readers.push(tokio::spawn(async move { client.follow(&payment_id, session, READS, pause).await }));
            }
            asked.lock().expect("nothing panics with the lock held").push(one);
        }
        tokio::time::sleep(Duration::from_millis(random.gen_range(0..PACE_MS_MAX))).await;
    }
    for reader in readers {
        reader.await??;
    }
    Ok(())
}
