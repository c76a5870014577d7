//! Gas budgets in memory and on a real nats-server.

use std::sync::atomic::{AtomicU64, Ordering};

use chrono::TimeDelta;
use devkit::NatsServer;
use events::{ChainId, Hash32, time::Timestamp};
use journal::{
    budget::{Budget, BudgetKey, BudgetState, Budgets, Room, charge, close, memory::MemoryBudgets, room},
    ledger::Purpose,
};
use journal_jetstream::{budget::NatsBudgets, ledger::Options};

use crate::support::{
    connect,
    proxy::{Loss, Proxy},
};

const GAS: u64 = 100;

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

/// The budgets of an account that nobody used before, of its code, and of a chain of its own.
fn of_payer(own: u64, code: u64, chain: u64) -> [Budget; 3] {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let chain_id = ChainId::evm(n);
    let window = TimeDelta::hours(24);
    let budget = |key, gas_max| Budget { key, gas_max, window };
    [
        budget(BudgetKey::account(&chain_id, &format!("0x{n:040x}")), own),
        budget(BudgetKey::code(&chain_id, Hash32([7; 32])), code),
        budget(BudgetKey::chain(&chain_id), chain),
    ]
}

fn deposit(n: u64) -> Purpose {
    Purpose(format!("pay_{n}/deposit/1"))
}

async fn keeps_the_rules(budgets: &dyn Budgets) {
    let of = of_payer(3 * GAS, 2 * GAS, 9 * GAS);
    assert_eq!(charge(budgets, &of, &deposit(1), GAS, now()).await.unwrap(), Room::Now);
    assert_eq!(charge(budgets, &of, &deposit(1), GAS, now()).await.unwrap(), Room::Now, "once");
    assert_eq!(charge(budgets, &of, &deposit(2), GAS, now()).await.unwrap(), Room::Now);
    // The code's is full, and what was charged to the account before that was seen is taken off again.
    assert_eq!(charge(budgets, &of, &deposit(3), GAS, now()).await.unwrap(), Room::Soon);
    assert_eq!(budgets.charged(&of[0].key, &deposit(3)).await.unwrap(), None);
    let others = [of[1].key.clone(), of[2].key.clone()];
    assert_eq!(budgets.charged(&of[0].key, &deposit(2)).await.unwrap().unwrap(), others);
    // What is at stake is not lost.
    assert_eq!(room(budgets, &of, GAS, now()).await.unwrap(), None);
    close(budgets, &of[0].key, &deposit(1), 0, now()).await.unwrap();
    let state = async |n| budgets.state_of(&of[0], &deposit(n), GAS, now()).await.unwrap();
    assert_eq!(state(2).await, BudgetState { is_at_stake: true, is_counted: false, room: Room::Now });
    assert!(close(budgets, &of[0].key, &deposit(2), 2 * GAS, now()).await.unwrap());
    assert!(!close(budgets, &of[0].key, &deposit(2), 2 * GAS, now()).await.unwrap(), "closed once");
    assert!(!budgets.close_one(&of[0].key, &deposit(2), 2 * GAS, now()).await.unwrap());
    assert_eq!(state(2).await, BudgetState { is_at_stake: false, is_counted: true, room: Room::Now });
    let until = room(budgets, &of, GAS, now()).await.unwrap().expect("the code's is used up");
    assert!(until > now() + of[0].window && until <= now() + of[0].window + TimeDelta::minutes(5), "{until}");
    assert_eq!(charge(budgets, &of, &deposit(4), GAS, now()).await.unwrap(), Room::At(until));
    assert_eq!(
        room(budgets, &of[..1], GAS, now()).await.unwrap(),
        None,
        "lost once: the account has room for one more"
    );
    assert_eq!(charge(budgets, &of, &deposit(4), GAS, until).await.unwrap(), Room::Now);
}

#[tokio::test]
async fn both_stores_keep_the_rules() {
    keeps_the_rules(&MemoryBudgets::default()).await;
    let server = NatsServer::open().await.unwrap();
    keeps_the_rules(&NatsBudgets::connect(connect(&server.url()).await, Options::default()).await.unwrap()).await;
}

/// Four gateways charge one budget for forty deposits, while acknowledgements are lost and the server is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateways_together_stake_no_more_than_there_is_and_forget_nothing() {
    let mut server = NatsServer::open().await.unwrap();
    let proxies = [Proxy::start(&server.url(), Loss::Swallow).await, Proxy::start(&server.url(), Loss::Break).await];
    proxies.iter().for_each(Proxy::arm);
    let of = of_payer(10 * GAS, 100 * GAS, 100 * GAS);
    let mut tasks = tokio::task::JoinSet::new();
    for gateway in 0..4 {
        let url = proxies.get(gateway).map_or(server.url(), |proxy| proxy.url.clone());
        let budgets = NatsBudgets::connect(connect(&url).await, Options::default()).await.unwrap();
        for n in 0..10 {
            let (budgets, of) = (budgets.clone(), of.clone());
            tasks.spawn(async move {
                let purpose = deposit(gateway as u64 * 10 + n);
                loop {
                    // Whatever goes wrong, the same is asked for again.
                    if let Ok(room) = charge(&budgets, &of, &purpose, GAS, now()).await {
                        return (purpose, room);
                    }
                }
            });
        }
    }
    let mut staked = Vec::new();
    let mut answers = 0;
    while let Some(answer) = tasks.join_next().await {
        let (purpose, room) = answer.unwrap();
        if room == Room::Now {
            staked.push(purpose);
        }
        answers += 1;
        if answers == 15 {
            server.kill().await.unwrap();
            server.restart().await.unwrap();
        }
    }
    assert_eq!((answers, staked.len()), (40, 10));
    assert!(proxies.iter().all(Proxy::fired));
    server.kill().await.unwrap();
    server.restart().await.unwrap();
    let later = NatsBudgets::connect(connect(&server.url()).await, Options::default()).await.unwrap();
    assert_eq!(charge(&later, &of, &deposit(99), GAS, now()).await.unwrap(), Room::Soon);
    for purpose in &staked {
        close(&later, &of[0].key, purpose, GAS, now()).await.unwrap();
    }
    assert!(matches!(charge(&later, &of, &deposit(99), GAS, now()).await.unwrap(), Room::At(_)));
}
