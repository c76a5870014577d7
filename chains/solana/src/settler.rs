//! Settler's account on a Solana cluster: reads the reservation that is to pay it, delivers through the program, and brings
//! the attestation to the escrow.
//!
//! Every call reads the chain first, so making it again, after a crash too, has no second effect.

use std::time::Duration;

use async_trait::async_trait;
use gateway_program::{
    Key, ZERO_KEY,
    account::{Escrow, State},
    host::{self, EscrowAccounts, Instruction, Message},
    ids,
    instruction::Tag,
    message::{Delivery, Fulfillment},
    token::{Mint, TokenAccount},
};
use ruint::aliases::U256;
use tokio::time::timeout;

use chains::{
    escrow::EscrowRecord,
    perform::PerformError,
    settler::{DeliveryChain, UsualFees},
};
use events::{Account, AssetId, PaymentId, event::EscrowPlan};
use sagas::ports::{DeliveryOrder, DeliveryState, Statement, Transient};
use signer::Ed25519Key;

use super::{
    broadcaster::Broadcaster,
    deliveries::Deliveries,
    escrows::Escrows,
    node::{self, Commitment, Node, Snapshot},
    program::{fulfillment, key, mint_or_sol, text},
    refusal,
    token_accounts::{place_of, token_accounts},
    transaction::{BUDGET_INSTRUCTIONS, Budget},
    wallet::{Task, Wallet},
    word::Word,
};

/// Lamports that a settler keeps for fees and rent, and that are never promised: some five deliveries, each of which makes
/// its record (0.0022 SOL, back 30 days after its time) and may make the recipient's token account (0.0021 SOL).
pub const FEE_RESERVE_LAMPORTS: u64 = 25_000_000;
/// Compute units of a delivery and of a release of a token of Token-2022, the dearest of `contracts/checks/costs`.
const DELIVERY_UNITS: u64 = 46_000;
const RELEASE_UNITS: u64 = 51_000;
/// Lamports for a signature, and how many a release has: the settler's own, and those of a set of three verifiers.
const SIGNATURE_LAMPORTS: u64 = 5_000;
const RELEASE_SIGNATURES: u64 = 4;
/// Rent of a delivery's record. The program gives it back from 30 days after the promised time on, to who asks for it; nobody does by himself.
const RECORD_LAMPORTS: u64 = 2_192_400;
/// Rent of the token account that a delivery makes where the recipient has none.
const TOKEN_ACCOUNT_LAMPORTS: u64 = 2_039_280;
/// Millionths of a lamport in one.
const MILLIONTHS: u64 = 1_000_000;
/// For so long it is waited for a release to be confirmed: some seventy slots, which are more than two thirds of the stake ever need.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(30);

/// A settler's account on one cluster, its own process's alone.
#[derive(Debug)]
pub struct SettlerChain {
    wallet: Wallet,
}

/// A mint with the two accounts between which a delivery moves its tokens.
struct TokenRoute {
    token_program: Key,
    from: Key,
    /// Whether the recipient's account is there already.
    is_made: bool,
    to: Key,
}

impl SettlerChain {
    /// The account of `key` on the cluster of `node`.
    pub fn new(node: Node, key: impl Into<Ed25519Key>) -> Self {
        Self { wallet: Wallet::new(node, key) }
    }

    /// The account that `wallet` holds.
    pub fn over(wallet: Wallet) -> Self {
        Self { wallet }
    }

    fn node(&self) -> &Node {
        self.wallet.node()
    }

    async fn fulfilling(
        &self,
        program: &Key,
        terms: &Fulfillment,
    ) -> Result<(Vec<Instruction>, Vec<Key>), PerformError> {
        let late = |time: u64| PerformError::TooLate(format!("the chain is at {time}, past {}", terms.fulfill_by));
        if terms.mint == ZERO_KEY {
            let now = self.snapshot(&[]).await?.time;
            if now > terms.fulfill_by {
                return Err(late(now));
            }
            return Ok((vec![host::fulfill_native(program, terms)], vec![terms.recipient]));
        }
        let (now, route) = self.route(program, &terms.mint, &terms.recipient).await?;
        if now > terms.fulfill_by {
            return Err(late(now));
        }
        let TokenRoute { token_program, from, is_made, to } = route;
        let mut instructions = Vec::new();
        if !is_made {
            let payer = self.wallet.address();
            instructions.push(host::create_associated_token(payer, &terms.recipient, &terms.mint, &token_program));
        }
        instructions.push(host::fulfill_token(program, terms, from, token_program));
        Ok((instructions, vec![to]))
    }

    /// The chain's time, and how tokens of `mint` get to `recipient`.
    async fn route(&self, program: &Key, mint: &Key, recipient: &Key) -> Result<(u64, TokenRoute), PerformError> {
        let (own, theirs) = (token_accounts(&self.wallet.address(), mint), token_accounts(recipient, mint));
        let snapshot = self.snapshot(&[*mint, theirs[0], theirs[1]]).await?;
        let refused = |reason: String| PerformError::Refused(Box::new(refusal::context(self.node(), program, reason)));
        let account = snapshot.account(0).ok_or_else(|| refused(format!("there is no token {}", text(mint))))?;
        Mint::parse(&account.owner, &account.data).map_err(|error| refused(error.to_string()))?;
        let at = place_of(&account.owner);
        let is_made = snapshot.account(1 + at).is_some_and(|account| ids::is_token_program(&account.owner));
        let route = TokenRoute { token_program: account.owner, from: own[at], is_made, to: theirs[at] };
        Ok((snapshot.time, route))
    }

    async fn released(&self, program: &Key, record: &Escrow) -> Result<String, PerformError> {
        let escrows = Escrows::of(self.node());
        Ok(escrows.end_of(record, program, &[Tag::Release], Commitment::Confirmed).await?.transaction_hash)
    }

    /// Gives the payer what this settler did not ask for of a deposit that another had asked more of. It is not in the transaction of
    /// the release, which nothing of the payer's may hold up; where it fails, anyone can do it later.
    async fn return_remainder(&self, program: &Key, record: &Escrow, payment_id: &PaymentId) {
        if record.remainder() == 0 {
            return;
        }
        if timeout(CONFIRMED_WITHIN, self.release_confirmed(program, payment_id)).await.is_err() {
            tracing::warn!(%payment_id, "release is not confirmed: what is left of the deposit is in the vault, for the payer");
            return;
        }
        let instructions = vec![host::return_remainder(program, &EscrowAccounts::from(record))];
        let purpose = format!("remainder/{}/{payment_id}", text(program));
        let task = Task { purpose, program: *program, instructions, contended: Vec::new() };
        if let Err(error) = self.wallet.execute(&task).await {
            tracing::warn!(%payment_id, %error, "what is left of the deposit is in the vault, for the payer");
        }
    }

    /// Returns when the release is in a confirmed block, where what follows it is tried out.
    async fn release_confirmed(&self, program: &Key, payment_id: &PaymentId) {
        loop {
            let read = Escrows::of(self.node()).record(payment_id, program, Commitment::Confirmed, 0).await;
            match read {
                Ok(read) if read.record.as_ref().is_some_and(|record| record.state() == Some(State::Released)) => {
                    return;
                }
                Ok(_) => {}
                Err(fault) => tracing::debug!(%payment_id, %fault, "release cannot be looked at"),
            }
            self.node().next_block().await;
        }
    }

    async fn snapshot(&self, accounts: &[Key]) -> Result<Snapshot, Transient> {
        self.node().accounts(accounts, Commitment::Confirmed, 0).await
    }
}

#[async_trait]
impl DeliveryChain for SettlerChain {
    fn account(&self) -> &Account {
        self.wallet.account()
    }

    /// Of SOL what is above [`FEE_RESERVE_LAMPORTS`]; of a token what its associated token account holds, as long as that
    /// reserve is there to pay for the delivery.
    async fn balance(&self, asset: &AssetId) -> Result<U256, Transient> {
        let mint = mint_or_sol(asset)?;
        let own = self.wallet.address();
        let [plain, extended] = token_accounts(&own, &mint);
        let snapshot = self.snapshot(&[own, plain, extended]).await?;
        let spare = snapshot.account(0).map_or(0, |account| account.lamports).saturating_sub(FEE_RESERVE_LAMPORTS);
        if mint == ZERO_KEY {
            return Ok(U256::from(spare));
        }
        if spare == 0 {
            tracing::warn!(account = %self.account(), chain_id = %self.node().chain_id(), "too few lamports to deliver");
            return Ok(U256::ZERO);
        }
        let held = [1, 2].into_iter().filter_map(|index| snapshot.account(index)).filter_map(usable);
        Ok(held
            .filter(|token| token.mint == mint && token.owner == own)
            .map(|token| U256::from(token.amount))
            .max()
            .unwrap_or_default())
    }

    async fn reservation(
        &self,
        payment_id: &PaymentId,
        contract: &Account,
    ) -> Result<(u64, Option<EscrowRecord>), Transient> {
        let program = key(contract)?;
        let escrows = Escrows::of(self.node());
        let found = escrows.settled(payment_id, &program).await?;
        let record = found.record.map(|record| escrows.to_record(&record)).transpose()?;
        Ok((found.time, record))
    }

    async fn delivery_state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        Deliveries::of(self.node()).state(order).await
    }

    /// The escrow pays into no token account that is not there, and nobody else makes it.
    async fn make_payout_account(&self, contract: &Account, asset: &AssetId) -> Result<(), PerformError> {
        let program = key(contract)?;
        let mint = mint_or_sol(asset)?;
        let own = self.wallet.address();
        let (_, TokenRoute { token_program, is_made, .. }) = self.route(&program, &mint, &own).await?;
        if is_made {
            return Ok(());
        }
        let instructions = vec![host::create_associated_token(own, &own, &mint, &token_program)];
        let purpose = format!("payout/{}", text(&mint));
        self.wallet.execute(&Task { purpose, program, instructions, contended: Vec::new() }).await?;
        Ok(())
    }

    async fn try_delivery(&self, order: &DeliveryOrder) -> Result<(), PerformError> {
        let program = key(&order.proxy)?;
        let terms = fulfillment(order)?;
        let (instructions, contended) = self.fulfilling(&program, &terms).await?;
        let purpose = String::new();
        self.wallet.simulate(&Task { purpose, program, instructions, contended }).await.map(drop)
    }

    /// The recipient's token account is made when it is not there.
    async fn deliver(&self, order: &DeliveryOrder) -> Result<String, PerformError> {
        match self.delivery_state(order).await? {
            DeliveryState::Final(inclusion) | DeliveryState::Seen(inclusion) => return Ok(inclusion.transaction_hash),
            DeliveryState::Impossible => return Err(PerformError::TooLate(format!("past {}", order.fulfill_by))),
            DeliveryState::NotSeen => {}
        }
        let program = key(&order.proxy)?;
        let terms = fulfillment(order)?;
        if terms.settler != self.wallet.address() {
            return Err(
                Transient::misconfigured(format!("{} is not this settler's account", order.delivery_account)).into()
            );
        }
        let (instructions, contended) = self.fulfilling(&program, &terms).await?;
        // The delivery's once-only key: other terms are another delivery.
        let purpose = format!("fulfill/{}", text(&terms.key(&program)));
        self.wallet.execute(&Task { purpose, program, instructions, contended }).await
    }

    fn signed_by(&self, statement: &Statement, plan: &EscrowPlan, member: &Account, signature: &str) -> bool {
        Escrows::of(self.node()).signed_by(statement, plan, member, signature)
    }

    /// The token account that is paid is made when it is not there.
    async fn release(
        &self,
        payment_id: &PaymentId,
        plan: &EscrowPlan,
        attestation: &str,
    ) -> Result<String, PerformError> {
        let program = key(&plan.contract)?;
        let read = Escrows::of(self.node()).record(payment_id, &program, Commitment::Confirmed, 0).await?;
        let record = match read.record {
            Some(record) if record.state() == Some(State::Reserved) => record,
            Some(record) if record.state() == Some(State::Released) => return self.released(&program, &record).await,
            Some(_) => return Err(PerformError::TooLate("the escrow was refunded".to_owned())),
            // A newest slot without the reservation may be a node that lags.
            None => {
                return Err(
                    Transient::contradiction(format!("{payment_id} is not reserved at slot {}", read.slot)).into()
                );
            }
        };
        let word = Word::read(attestation)?;
        let payout = host::associated_token_address(&record.settler, &record.token_program, &record.mint).key;
        let mut instructions = Vec::new();
        if self.snapshot(&[payout]).await?.account(0).is_none_or(|account| !ids::is_token_program(&account.owner)) {
            let payer = self.wallet.address();
            let create = host::create_associated_token(payer, &record.settler, &record.mint, &record.token_program);
            instructions.push(create);
        }
        let delivery =
            Delivery { payment_id: record.payment_id, quote_hash: record.quote_hash, settler: record.settler };
        let digest = delivery.digest(&self.node().domain(&program));
        // At most one instruction stands before it.
        let index = BUDGET_INSTRUCTIONS + u8::from(!instructions.is_empty());
        let release = host::release(&program, &EscrowAccounts::from(&record), index);
        instructions.extend(word.bring(&record.releaser, &digest, release)?);
        let purpose = format!("release/{}/{payment_id}", plan.contract);
        let released = self.wallet.execute(&Task { purpose, program, instructions, contended: vec![payout] }).await?;
        self.return_remainder(&program, &record, payment_id).await;
        Ok(released)
    }

    /// By what recent transactions offered for their compute units. The rent of the delivery's record is in it, and a token's recipient is
    /// taken for one without an account.
    async fn usual_fees(&self) -> Result<UsualFees, Transient> {
        let recent = Broadcaster::of(self.node()).recent_fees(&[]).await?;
        let of = |signatures: u64, units: u64| {
            let Budget { units, price } = Budget::new(units, &recent, 1);
            let offered = u64::from(units).saturating_mul(price).div_ceil(MILLIONTHS);
            U256::from(offered.saturating_add(signatures * SIGNATURE_LAMPORTS))
        };
        let delivery = of(1, DELIVERY_UNITS) + U256::from(RECORD_LAMPORTS);
        Ok(UsualFees {
            coin_delivery: delivery,
            token_delivery: delivery + U256::from(TOKEN_ACCOUNT_LAMPORTS),
            release: of(RELEASE_SIGNATURES, RELEASE_UNITS),
        })
    }

    async fn next_block(&self) {
        self.node().next_block().await;
    }
}

/// A token account from which can be paid: none that is frozen.
fn usable(account: &node::Account) -> Option<TokenAccount> {
    TokenAccount::parse(&account.owner, &account.data).ok()
}
