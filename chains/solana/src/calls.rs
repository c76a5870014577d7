//! The gateway's calls: checked before they are simulated, so that a refusal says what is wrong in words.

use gateway_program::{
    GatewayError, Hash, Key,
    account::{Config, Escrow, State},
    host::{self, DepositAccounts, EscrowAccounts, Instruction, Message},
    ids,
    instruction::DepositAndReserve,
    message::{DOMAIN_VERSION, Delivery, Deposit, NonDelivery},
    rules,
    token::{Mint, TokenAccount},
};

use events::event::{Authorization, SolanaSpend};
use sagas::ports::{DepositOrder, PrepareError, RefundOrder, ReleaseOrder, Transient};
use signer::Ed25519Key;

use super::{
    escrows::Escrows,
    node::{Account, Commitment, Node, Settled, Snapshot},
    program::{ConvertError, key, mint, signature_bytes, text, units},
    refusal::refused,
    submitters,
    token_accounts::{place_of, token_accounts},
    transaction::BUDGET_INSTRUCTIONS,
    word::Word,
};

/// What is to be sent.
#[derive(Clone)]
pub(super) struct Call<'a> {
    /// The gateway's program.
    pub program: Key,
    /// The instructions, without those of the budget.
    pub instructions: Vec<Instruction>,
    /// Accounts that others write to, too; what that costs is asked for.
    pub contended: Vec<Key>,
    /// The submitters with their lamports.
    pub submitters: Vec<(&'a Ed25519Key, u64)>,
}

/// The deposit-and-reserve, and who sends it: the first of `submitters` that can and has the lamports for so many exits left.
///
/// # Errors
/// See [`PrepareError`].
pub(super) async fn deposit<'a>(
    node: &Node,
    order: &DepositOrder,
    submitters: &[&'a Ed25519Key],
    exits_left: u64,
) -> Result<(Call<'a>, &'a Ed25519Key), PrepareError> {
    let Authorization::Solana(spend) = &order.authorization else {
        return Err(Transient::misconfigured("the payer signed for another family").into());
    };
    let parts = DepositParts::of(order, spend)?;
    let mut wanted = parts.accounts().to_vec();
    let fixed = wanted.len();
    wanted.extend(submitters.iter().map(|submitter| submitter.public()));
    let settled = node.settled().await?;
    let snapshot = node.accounts(&wanted, Commitment::Confirmed, settled.slot).await?;
    let (token_program, payer_token) = parts.check(node, &snapshot)?;
    let signature = signature_bytes(&spend.signature);
    let signature =
        signature.ok_or_else(|| Transient::misconfigured("the payer's signature is not hex of 64 bytes"))?;

    let balances = balances(&snapshot, fixed);
    let submitter = submitters::choose(node, submitters, &balances, exits_left)?;
    let DepositParts { program, mint, reserver, data, .. } = &parts;
    let accounts = DepositAccounts {
        rent_payer: submitter.public(),
        reserver: *reserver,
        payer_token,
        mint: *mint,
        token_program,
    };
    let instructions = vec![
        host::ed25519(&data.signer, &signature, &parts.signed().digest(&node.domain(program))),
        host::deposit_and_reserve(program, &accounts, data),
    ];
    let call = Call {
        program: *program,
        instructions,
        contended: vec![payer_token],
        submitters: submitters.iter().copied().zip(balances).collect(),
    };
    Ok((call, submitter))
}

/// What a deposit is made of, in the program's types.
struct DepositParts {
    program: Key,
    mint: Key,
    reserver: Key,
    /// The payer's associated token accounts, of SPL Token and of Token-2022.
    payer_tokens: [Key; 2],
    data: DepositAndReserve,
}

impl DepositParts {
    fn of(order: &DepositOrder, spend: &SolanaSpend) -> Result<Self, ConvertError> {
        let source = &order.terms.source;
        let payer = key(source.account())?;
        let mint = mint(source.asset())?;
        Ok(Self {
            program: key(&order.escrow.contract)?,
            mint,
            reserver: key(&order.escrow.reserver)?,
            payer_tokens: token_accounts(&payer, &mint),
            data: deposit_data(order, spend, payer)?,
        })
    }

    /// The accounts that [`Self::check`] looks at, in order.
    fn accounts(&self) -> [Key; 5] {
        let [plain, extended] = self.payer_tokens;
        [
            host::config_address(&self.program).key,
            host::escrow_address(&self.program, &self.data.payment_id).key,
            self.mint,
            plain,
            extended,
        ]
    }

    /// The token's program, and the payer's account there; a refusal when the program would refuse the deposit.
    fn check(&self, node: &Node, snapshot: &Snapshot) -> Result<(Key, Key), PrepareError> {
        let refuse = |reason: String| refused(node, &self.program, reason);
        let config = config(node, snapshot.account(0), &self.program).map_err(refuse)?;
        unused_escrow(node, snapshot.account(1), &self.program)?;
        let Some(mint_account) = snapshot.account(2) else {
            return Err(refuse(format!("there is no token {}", text(&self.mint))));
        };
        Mint::parse(&mint_account.owner, &mint_account.data).map_err(|error| refuse(error.to_string()))?;
        let token_program = mint_account.owner;
        let at = place_of(&token_program);
        let payer_token = self.payer_tokens[at];
        self.check_payer(&payer_token, snapshot.account(3 + at)).map_err(refuse)?;
        rules::deposit(&self.data, &self.reserver, &config.reserver, snapshot.time)
            .map_err(|error| refuse(error.to_string()))?;
        Ok((token_program, payer_token))
    }

    /// Whether the deposit can be taken from `account`, the payer's at `address`; otherwise why not.
    fn check_payer(&self, address: &Key, account: Option<&Account>) -> Result<(), String> {
        let amount = self.data.source_amount;
        let Some(account) = account else {
            return Err(format!("the payer has no associated token account of {}", text(&self.mint)));
        };
        let account = TokenAccount::parse(&account.owner, &account.data).map_err(|error| error.to_string())?;
        if account.mint != self.mint || account.owner != self.data.payer {
            return Err(format!("the token account {} is not the payer's", text(address)));
        }
        let delegate = host::delegate_address(&self.program, &self.data.signer).key;
        if account.delegate != Some(delegate) {
            return Err(format!("{}; it has to go to {}", GatewayError::AllowanceMissing, text(&delegate)));
        }
        if account.delegated_amount < amount {
            return Err(format!("{}: {} of {amount}", GatewayError::AllowanceTooSmall, account.delegated_amount));
        }
        if account.amount < amount {
            return Err(format!("{}: {} of {amount}", GatewayError::BalanceTooSmall, account.amount));
        }
        Ok(())
    }

    /// The terms that the payer signed.
    fn signed(&self) -> Deposit {
        let data = &self.data;
        Deposit {
            payment_id: data.payment_id,
            terms_hash: data.terms_hash,
            quote_hash: data.agreed_quote_hash,
            payer: data.payer,
            mint: self.mint,
            amount: data.cap,
            reserver: self.reserver,
            releaser: data.releaser,
            reserve_deadline: data.reserve_deadline,
            fulfillment_deadline: data.fulfillment_deadline,
            refund_after: data.refund_after,
        }
    }
}

/// Refund, or cancellation where the order has a non-delivery, and who sends it.
///
/// # Errors
/// See [`PrepareError`].
pub(super) async fn refund<'a>(
    node: &Node,
    order: &RefundOrder,
    submitters: &[&'a Ed25519Key],
) -> Result<(Call<'a>, &'a Ed25519Key), PrepareError> {
    let program = key(&order.escrow.contract)?;
    let payment_id = order.payment_id.on_chain().0;
    let Held { settled, record, balances, .. } = escrow_of(node, &program, &payment_id, submitters).await?;
    let submitter = submitters::choose(node, submitters, &balances, 0)?;
    let escrow = EscrowAccounts::from(&record);
    // The payer may have closed its account since it paid. It is not made anew at the gateway's cost: whoever has it made can
    // close it and keep the rent, again and again.
    let payer_token = host::associated_token_address(&record.payer, &record.token_program, &record.mint).key;
    let found = node.accounts(&[payer_token], Commitment::Confirmed, settled.slot).await?;
    // A stranger's lamports at its address do not make it a token account.
    if found.account(0).is_none_or(|account| !ids::is_token_program(&account.owner)) {
        let (account, wallet) = (text(&payer_token), text(&record.payer));
        let reason =
            format!("{wallet} has closed its token account {account}; the money goes there as soon as it is made");
        return Err(Transient::unreachable(reason).into());
    }
    let mut instructions = Vec::new();
    match &order.non_delivery {
        None => instructions.push(host::refund(&program, &escrow)),
        Some(word) => {
            let statement = NonDelivery { payment_id, quote_hash: record.quote_hash };
            let digest = statement.digest(&node.domain(&program));
            let cancel = host::cancel(&program, &escrow, BUDGET_INSTRUCTIONS);
            instructions.extend(Word::read(word)?.bring(&record.releaser, &digest, cancel)?);
        }
    }
    let contended = vec![payer_token];
    let call =
        Call { program, instructions, contended, submitters: submitters.iter().copied().zip(balances).collect() };
    Ok((call, submitter))
}

/// A release, who sends it, and what may go with it.
pub(super) struct Release<'a> {
    /// What is to be sent.
    pub call: Call<'a>,
    /// By whom.
    pub submitter: &'a Ed25519Key,
    /// Gives the payer what the settler did not ask for. It goes along where the payer's account takes it; the release does not
    /// depend on that.
    pub remainder: Option<Instruction>,
}

/// Release of what the order's quote reserved.
///
/// The account that is paid must be there: its owner can close it again and keep the rent, so whoever made it for a settler
/// could be robbed of that with each payment.
///
/// # Errors
/// See [`PrepareError`].
pub(super) async fn release<'a>(
    node: &Node,
    order: &ReleaseOrder,
    submitters: &[&'a Ed25519Key],
) -> Result<Release<'a>, PrepareError> {
    let program = key(&order.escrow.contract)?;
    let payment_id = order.payment_id.on_chain().0;
    let refuse = |reason: String| refused(node, &program, reason);
    let settler = key(&order.payout_account)?;
    let Held { settled, record, balances, .. } = escrow_of(node, &program, &payment_id, submitters).await?;
    if record.state() != Some(State::Reserved) {
        return Err(refuse("the escrow has paid out already".to_owned()));
    }
    if record.quote_hash != order.quote_hash.0 || record.settler != settler {
        return Err(refuse("the escrow is reserved under another quote".to_owned()));
    }
    let payout = host::associated_token_address(&settler, &record.token_program, &record.mint).key;
    let there = node.accounts(&[payout], Commitment::Confirmed, settled.slot).await?;
    if there.account(0).is_none_or(|account| !ids::is_token_program(&account.owner)) {
        return Err(refuse(format!("the settler has no token account {} to be paid to", text(&payout))));
    }
    let submitter = submitters::choose(node, submitters, &balances, 0)?;
    let delivery = Delivery { payment_id, quote_hash: record.quote_hash, settler };
    let digest = delivery.digest(&node.domain(&program));
    let accounts = EscrowAccounts::from(&record);
    let release = host::release(&program, &accounts, BUDGET_INSTRUCTIONS);
    let remainder = (record.remainder() > 0).then(|| host::return_remainder(&program, &accounts));
    let instructions = Word::read(&order.attestation)?.bring(&record.releaser, &digest, release)?.to_vec();
    let submitters = submitters.iter().copied().zip(balances).collect();
    let call = Call { program, instructions, contended: vec![payout], submitters };
    Ok(Release { call, submitter, remainder })
}

/// The escrow of a payment, and who may send something about it.
pub(super) struct Held {
    /// How far the cluster has finalized.
    pub settled: Settled,
    /// The time of the slot of which the rest is, UNIX seconds.
    pub time: u64,
    /// The escrow.
    pub record: Escrow,
    /// Lamports of the submitters, in order.
    pub balances: Vec<u64>,
}

/// The escrow of the payment as the newest confirmed slot has it, and the lamports of the submitters.
///
/// # Errors
/// See [`PrepareError`].
pub(super) async fn escrow_of(
    node: &Node,
    program: &Key,
    payment_id: &Hash,
    submitters: &[&Ed25519Key],
) -> Result<Held, PrepareError> {
    let mut wanted = vec![host::escrow_address(program, payment_id).key];
    wanted.extend(submitters.iter().map(|submitter| submitter.public()));
    let settled = node.settled().await?;
    let snapshot = node.accounts(&wanted, Commitment::Confirmed, settled.slot).await?;
    let record = match snapshot.account(0) {
        Some(account) => Escrows::of(node).parse(account, program)?,
        None => None,
    };
    let nothing = || refused(node, program, "nothing is in escrow for the payment".to_owned());
    let record = record.ok_or_else(nothing)?;
    Ok(Held { settled, time: snapshot.time, record, balances: balances(&snapshot, 1) })
}

/// A refusal where there is an escrow of the payment already, in the account at its address.
pub(super) fn unused_escrow(node: &Node, account: Option<&Account>, program: &Key) -> Result<(), PrepareError> {
    let is_used = match account {
        Some(account) => Escrows::of(node).parse(account, program)?.is_some(),
        None => false,
    };
    if is_used { Err(refused(node, program, GatewayError::PaymentIdUsed.to_string())) } else { Ok(()) }
}

/// The program's configuration, which must be of this cluster: nobody's signature would count otherwise.
pub(super) fn config(node: &Node, account: Option<&Account>, program: &Key) -> Result<Config, String> {
    let account = account.filter(|account| account.owner == *program);
    let Some(account) = account else {
        return Err(format!("the program {} is not there, or not set up", text(program)));
    };
    let config = Config::from_bytes(&account.data).ok_or("the program's configuration has an unknown layout")?;
    if config.cluster_id != node.cluster_id() || config.domain_version != DOMAIN_VERSION {
        return Err("the program is set up for another cluster or another signing domain".to_owned());
    }
    Ok(config)
}

fn deposit_data(order: &DepositOrder, spend: &SolanaSpend, payer: Key) -> Result<DepositAndReserve, ConvertError> {
    let (escrow, reservation) = (&order.escrow, &order.reservation);
    Ok(DepositAndReserve {
        payment_id: order.payment_id.on_chain().0,
        terms_hash: order.terms_hash.0,
        agreed_quote_hash: spend.quote_hash.0,
        payer,
        cap: units(spend.amount)?,
        releaser: key(&escrow.releaser)?,
        reserve_deadline: escrow.reserve_deadline,
        fulfillment_deadline: escrow.fulfillment_deadline,
        refund_after: escrow.refund_after,
        signer: key(&spend.signer)?,
        ed25519_index: BUDGET_INSTRUCTIONS,
        quote_hash: reservation.quote_hash.0,
        settler: key(&reservation.payout_account)?,
        source_amount: units(reservation.source_amount)?,
        fulfill_by: reservation.fulfill_by,
    })
}

/// Lamports of the accounts from `first` on.
pub(super) fn balances(snapshot: &Snapshot, first: usize) -> Vec<u64> {
    let accounts = snapshot.accounts.iter().skip(first);
    accounts.map(|account| account.as_ref().map_or(0, |account| account.lamports)).collect()
}
