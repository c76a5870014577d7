//! Payments whose money is sent to a deposit address.

use anyhow::{Context, Result, bail, ensure};
use ed25519_dalek::SigningKey;
use serde_json::json;

use chains_solana::{
    broadcaster::Broadcaster,
    deposit_addresses,
    dev::{DevToken, TokenProgram},
    history::{History, Landed},
    node::Commitment,
    program::{parse_key, text},
    transaction::{self, Budget},
};
use events::{
    Amount, Hash32,
    event::{Authorization, DepositAddress, EscrowSecured, TransactionPrepared},
    time::from_unix_seconds,
};
use gateway_program::{
    Key,
    host::{self, AccountMeta, Instruction},
    ids,
    message::Deposit,
    token::{ACCOUNT_SIZE, MINT_SIZE},
};
use sagas::ports::{AddressState, Chains, DepositOrder, DepositState, PayerDeposit, PrepareError};

use super::{CAP, World, key, settle, until};

/// Seconds from the request to the end of the delivery; deposits are made in the first half.
const WINDOW: u64 = 600;
/// Instructions of the token programs.
const INITIALIZE_MINT_2: u8 = 20;
const INITIALIZE_ACCOUNT_3: u8 = 18;
const FREEZE_ACCOUNT: u8 = 10;
const THAW_ACCOUNT: u8 = 11;
const TRANSFER_CHECKED: u8 = 12;

pub fn amount(units: u64) -> Amount {
    units.to_string().parse().unwrap()
}

/// Why something was refused that nobody signed.
pub fn reason(prepared: Result<TransactionPrepared, PrepareError>) -> Result<String> {
    match prepared {
        Err(PrepareError::Refused(refusal)) => {
            ensure!(refusal.valid_until == 0, "{refusal:?}");
            refusal.context.revert_reason.context("no reason")
        }
        other => bail!("not refused: {other:?}"),
    }
}

pub fn meta(key: Key, signer: bool, writable: bool) -> AccountMeta {
    AccountMeta { key, signer, writable }
}

pub fn public(key: &SigningKey) -> Key {
    key.verifying_key().to_bytes()
}

/// A payment of the payer's whose money, `CAP` at least, is sent to an address.
pub struct Addressed {
    pub order: DepositOrder,
    pub given: DepositAddress,
    pub token: DevToken,
}

impl Addressed {
    pub fn deposit(&self) -> PayerDeposit {
        self.order.payer_deposit()
    }

    /// What the address commits to, as the program's documentation has it.
    pub fn terms(&self) -> Deposit {
        let DepositOrder { payment_id, terms, escrow, .. } = &self.order;
        let key = |account: &events::Account| parse_key(account.as_str()).unwrap();
        Deposit {
            payment_id: payment_id.on_chain().0,
            terms_hash: terms.hash().0,
            quote_hash: [0; 32],
            payer: key(terms.source.account()),
            mint: parse_key(&self.token.mint).unwrap(),
            amount: CAP,
            reserver: key(&escrow.reserver),
            releaser: key(&escrow.releaser),
            reserve_deadline: escrow.reserve_deadline,
            fulfillment_deadline: escrow.fulfillment_deadline,
            refund_after: escrow.refund_after,
        }
    }

    pub fn at(&self) -> Key {
        parse_key(self.given.address.as_str()).unwrap()
    }

    /// The token account that the money comes to.
    pub fn tokens(&self) -> Key {
        token_account(&self.token, &self.at())
    }

    /// Gives back what is there; the rent of the token account is `carrier`'s.
    pub fn give_back(&self, carrier: &SigningKey) -> Instruction {
        let program = parse_key(self.order.escrow.contract.as_str()).unwrap();
        host::give_back(&program, public(carrier), program_of(&self.token), &self.terms())
    }
}

pub fn program_of(token: &DevToken) -> Key {
    match token.program {
        TokenProgram::Token => ids::TOKEN_PROGRAM,
        TokenProgram::Token2022 => ids::TOKEN_2022_PROGRAM,
    }
}

/// The associated token account of `wallet`.
pub fn token_account(token: &DevToken, wallet: &Key) -> Key {
    host::associated_token_address(wallet, &program_of(token), &parse_key(&token.mint).unwrap()).key
}

/// Makes an account for the token program at the address that `payer` and `seed` lead to, which needs no key of its own.
fn created(payer: &SigningKey, seed: &[u8], size: usize) -> Result<(Instruction, Key)> {
    const CREATE_ACCOUNT_WITH_SEED: u32 = 3;
    let (seed, payer, size) = (hex::encode(seed), public(payer), u64::try_from(size)?);
    let account = Hash32::sha256([&payer, seed.as_bytes(), &ids::TOKEN_PROGRAM].concat()).0;
    let data = [
        &CREATE_ACCOUNT_WITH_SEED.to_le_bytes()[..],
        &payer,
        &u64::try_from(seed.len())?.to_le_bytes(),
        seed.as_bytes(),
        &((128 + size) * 6_960).to_le_bytes(),
        &size.to_le_bytes(),
        &ids::TOKEN_PROGRAM,
    ];
    let accounts = vec![meta(payer, true, true), meta(account, false, true)];
    Ok((Instruction { program_id: ids::SYSTEM_PROGRAM, accounts, data: data.concat() }, account))
}

impl World {
    pub async fn addressed(&self) -> Result<Addressed> {
        self.addressed_of(&self.token).await
    }

    pub async fn addressed_of(&self, token: &DevToken) -> Result<Addressed> {
        let mut order = self.order_of(token, &self.payer, WINDOW).await?;
        order.escrow.reserve_deadline = order.escrow.fulfillment_deadline - WINDOW / 2;
        let from_slot = deposit_addresses::served_from(&self.node(), &order.escrow.contract).await?;
        let from_slot = from_slot.context("there are no deposit addresses")?;
        let pay_by = from_unix_seconds(order.escrow.reserve_deadline - 60).context("no time")?;
        let (id, terms, plan) = (&order.payment_id, &order.terms, &order.escrow);
        let given = deposit_addresses::of_payment(id, terms, plan, amount(CAP), pay_by, from_slot)?;
        let order = DepositOrder { authorization: Authorization::DepositAddress(given.clone()), ..order };
        let addressed = Addressed { order, given, token: token.clone() };
        let found = host::deposit_address(&parse_key(&self.program)?, &addressed.terms()).key;
        ensure!(found == addressed.at(), "the terms lead to {}", text(&found));
        Ok(addressed)
    }

    /// Somebody else than the payer, the settler's wallet here, sends that much, as an exchange does. The transfer is confirmed; its hash
    /// and its slot.
    pub async fn send_to(&self, addressed: &Addressed, units: u64) -> Result<(String, u64)> {
        let Addressed { token, .. } = addressed;
        let (from, mint) = (public(&self.settler), parse_key(&token.mint)?);
        let create = host::create_associated_token(from, &addressed.at(), &mint, &program_of(token));
        let transfer = Instruction {
            program_id: program_of(token),
            accounts: vec![
                meta(token_account(token, &from), false, true),
                meta(mint, false, false),
                meta(addressed.tokens(), false, true),
                meta(from, true, false),
            ],
            data: [&[TRANSFER_CHECKED][..], &units.to_le_bytes(), &[token.decimals]].concat(),
        };
        self.send(&[create, transfer]).await
    }

    /// What is at the address.
    pub async fn held_at(&self, addressed: &Addressed) -> Result<u64> {
        Ok(self.dev.token_balance(&addressed.token, addressed.given.address.as_str()).await?)
    }

    /// Deposits that much of what came.
    pub async fn deposited(&self, addressed: &Addressed, units: u64) -> Result<EscrowSecured> {
        let (chain, order) = (self.chain(), &addressed.order);
        let prepared = chain.prepare_larger_deposit(order, amount(units), 1).await?;
        match settle(&chain, order, std::slice::from_ref(&prepared)).await? {
            DepositState::Secured(secured) => Ok(secured),
            other => bail!("it is not in escrow: {other:?}"),
        }
    }

    /// So that no deposit can be made any more, as the finalized state has it. What that tells of the address.
    pub async fn pass(&self, addressed: &Addressed) -> Result<AddressState> {
        self.surfnet.travel_to(addressed.order.escrow.reserve_deadline + 1).await?;
        let (chain, deposit) = (self.chain(), addressed.deposit());
        until(|| chain.address_state(&deposit, None), |state| *state != AddressState::Open).await
    }

    /// Somebody else than the gateway gives back what is there. It is confirmed; its hash and its slot.
    pub async fn give_back(&self, addressed: &Addressed) -> Result<(String, u64)> {
        self.send(&[addressed.give_back(&self.settler)]).await
    }

    /// Returns when all that was executed so far is confirmed.
    pub async fn confirmed(&self) -> Result<()> {
        let newest = self.surfnet.rpc("getSlot", json!([{"commitment": "processed"}])).await?;
        let (node, newest) = (self.node(), newest.as_u64().context("a slot that is not a number")?);
        until(|| node.head(), |head| *head >= newest).await?;
        Ok(())
    }

    /// Returns when the slot is finalized.
    pub async fn finalized(&self, slot: u64) -> Result<()> {
        let node = self.node();
        until(|| node.settled(), |settled| settled.slot >= slot).await?;
        Ok(())
    }

    /// Sends the settler's transactions with these instructions each, which may fail, and waits until the last is confirmed; their
    /// hashes and slots.
    pub async fn send_all(&self, all: &[Vec<Instruction>]) -> Result<Vec<(String, u64)>> {
        let (node, settler) = (self.node(), public(&self.settler));
        let (broadcaster, history) = (Broadcaster::of(&node), History::of(&node));
        let blockhash = broadcaster.blockhash(node.settled().await?).await?;
        let mut hashes = Vec::new();
        for instructions in all {
            let message = transaction::message(instructions, Budget::TRIAL, &settler, &blockhash.hash);
            let signed = transaction::sign(&message, &[&self.settler])?;
            broadcaster.send(&signed.wire).await?;
            hashes.push(signed.hash);
        }
        let mut sent = Vec::new();
        for hash in hashes {
            let landed = until(|| history.transaction(&hash, Commitment::Confirmed), Option::is_some).await?;
            sent.push((hash, landed.map(|Landed { slot, .. }| slot).context("not landed")?));
        }
        Ok(sent)
    }

    /// A token that its issuer can freeze, of which the payer has an account and the stranger who sends it enough.
    pub async fn freezable_token(&self) -> Result<DevToken> {
        let issuer = public(&key(1));
        let (create, mint) = created(&key(1), b"freezable", MINT_SIZE)?;
        let initialize = Instruction {
            program_id: ids::TOKEN_PROGRAM,
            accounts: vec![meta(mint, false, true)],
            data: [&[INITIALIZE_MINT_2, 6][..], &issuer, &[1], &issuer].concat(),
        };
        self.dev.run(&key(1), vec![create, initialize]).await?;
        let token = DevToken { mint: text(&mint), program: TokenProgram::Token, decimals: 6 };
        self.dev.mint(&token, &text(&public(&self.payer)), 1).await?;
        self.dev.mint(&token, &text(&public(&self.settler)), 10 * CAP).await?;
        Ok(token)
    }

    /// Hands a token account over to the address that is not its associated one, with so much in it.
    pub async fn hand_over(&self, addressed: &Addressed, units: u64) -> Result<Key> {
        let mint = parse_key(&addressed.token.mint)?;
        let (create, account) = created(&self.settler, &addressed.at()[..8], ACCOUNT_SIZE)?;
        let initialize = Instruction {
            program_id: ids::TOKEN_PROGRAM,
            accounts: vec![meta(account, false, true), meta(mint, false, false)],
            data: [&[INITIALIZE_ACCOUNT_3][..], &addressed.at()].concat(),
        };
        self.send(&[create, initialize]).await?;
        self.dev.mint_into(&addressed.token, &account, units).await?;
        self.confirmed().await?;
        Ok(account)
    }

    /// The issuer of a [`Self::freezable_token`] freezes one of its accounts.
    pub async fn freeze(&self, token: &DevToken, account: Key) -> Result<()> {
        self.issuer_says(FREEZE_ACCOUNT, token, account).await
    }

    /// The opposite of [`Self::freeze`].
    pub async fn thaw(&self, token: &DevToken, account: Key) -> Result<()> {
        self.issuer_says(THAW_ACCOUNT, token, account).await
    }

    async fn issuer_says(&self, what: u8, token: &DevToken, account: Key) -> Result<()> {
        let accounts = vec![
            meta(account, false, true),
            meta(parse_key(&token.mint)?, false, false),
            meta(public(&key(1)), true, false),
        ];
        let instruction = Instruction { program_id: program_of(token), accounts, data: vec![what] };
        Ok(self.dev.run(&key(1), vec![instruction]).await?)
    }
}
