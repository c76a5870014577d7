//! The gateway's calls: looked at before they are tried out, so that a refusal says what is wrong in words.

use ed25519_dalek::SigningKey;
use gateway_program::{
    GatewayError, Key,
    account::{Config, State},
    host::{self, DepositAccounts, EscrowAccounts, Instruction, Message},
    ids,
    instruction::DepositAndReserve,
    message::{DOMAIN_VERSION, Delivery, Deposit, NonDelivery},
    rules,
    token::{Mint, TokenAccount},
};

use events::event::{Authorization, SolanaSpend};
use sagas::ports::{DepositOrder, PrepareError, RefundOrder, ReleaseOrder, Transient};

use super::{
    adapter::refused,
    node::{Account, Commitment, Node, Snapshot},
    program::{key, mint, text, units},
    reads::{signature_bytes, unusable},
    submitters,
    transaction::BUDGET_INSTRUCTIONS,
};

/// What is to be sent.
pub(super) struct Call<'a> {
    /// The gateway's program.
    pub program: Key,
    /// The instructions, without those of the budget.
    pub instructions: Vec<Instruction>,
    /// Accounts that others write to, too; what that costs is asked for.
    pub contended: Vec<Key>,
    /// The submitters with their lamports.
    pub submitters: Vec<(&'a SigningKey, u64)>,
}

/// The deposit-and-reserve, and who sends it: the first of `submitters` that can and has the lamports for so many exits left.
///
/// # Errors
/// See [`PrepareError`].
pub(super) async fn deposit<'a>(
    node: &Node,
    order: &DepositOrder,
    submitters: &[&'a SigningKey],
    exits_left: u64,
) -> Result<(Call<'a>, &'a SigningKey), PrepareError> {
    let Authorization::Solana(spend) = &order.authorization else {
        return Err(Transient::misconfigured("the payer signed for no Solana cluster").into());
    };
    let program = key(&order.escrow.contract).map_err(unusable)?;
    let source = &order.terms.source;
    let payer = key(source.account().as_str()).map_err(unusable)?;
    let mint = mint(source.asset()).map_err(unusable)?;
    let payment_id = order.payment_id.on_chain().0;

    let token_accounts = [ids::TOKEN_PROGRAM, ids::TOKEN_2022_PROGRAM]
        .map(|token_program| host::associated_token_address(&payer, &token_program, &mint).key);
    let mut wanted = vec![
        host::config_address(&program).key,
        host::escrow_address(&program, &payment_id).key,
        mint,
        token_accounts[0],
        token_accounts[1],
    ];
    let fixed = wanted.len();
    wanted.extend(submitters.iter().map(|submitter| submitter.verifying_key().to_bytes()));
    let settled = node.settled().await?;
    let snapshot = node.accounts(&wanted, Commitment::Confirmed, settled.slot).await?;
    let refuse = |reason: String| refused(node, &program, reason);

    let config = config(node, snapshot.account(0), &program).map_err(refuse)?;
    if let Some(account) = snapshot.account(1)
        && node.escrow_in(account, &program)?.is_some()
    {
        return Err(refuse(GatewayError::PaymentIdUsed.to_string()));
    }
    let Some(mint_account) = snapshot.account(2) else {
        return Err(refuse(format!("there is no token {}", text(&mint))));
    };
    Mint::parse(&mint_account.owner, &mint_account.data).map_err(|error| refuse(error.to_string()))?;
    let token_program = mint_account.owner;
    let at = usize::from(token_program == ids::TOKEN_2022_PROGRAM);
    let payer_token = token_accounts[at];
    let from = PayerAccount { program: &program, payer: &payer, mint: &mint, address: &payer_token, spend };
    from.check(snapshot.account(3 + at), units(order.reservation.source_amount).map_err(unusable)?).map_err(refuse)?;

    let data = deposit_data(order, spend, payer)?;
    let reserver = key(&order.escrow.reserver).map_err(unusable)?;
    rules::deposit(&data, &reserver, &config.reserver, snapshot.time).map_err(|error| refuse(error.to_string()))?;
    let signed = Deposit {
        payment_id,
        terms_hash: data.terms_hash,
        quote_hash: data.agreed_quote_hash,
        payer,
        mint,
        amount: data.cap,
        reserver,
        releaser: data.releaser,
        reserve_deadline: data.reserve_deadline,
        fulfillment_deadline: data.fulfillment_deadline,
        refund_after: data.refund_after,
    };
    let signature = signature_bytes(&spend.signature);
    let signature = signature.ok_or_else(|| Transient::misconfigured("the payer's signature is no hex of 64 bytes"))?;

    let balances = balances(&snapshot, fixed);
    let submitter = submitters::choose(node, submitters, &balances, exits_left)?;
    let accounts = DepositAccounts {
        rent_payer: submitter.verifying_key().to_bytes(),
        reserver,
        payer_token,
        mint,
        token_program,
    };
    let instructions = vec![
        host::ed25519(&data.signer, &signature, &signed.digest(&node.domain(&program))),
        host::deposit_and_reserve(&program, &accounts, &data),
    ];
    let call = Call {
        program,
        instructions,
        contended: vec![payer_token],
        submitters: submitters.iter().copied().zip(balances).collect(),
    };
    Ok((call, submitter))
}

/// Refund, or cancellation where the order has a non-delivery, and who sends it.
///
/// # Errors
/// See [`PrepareError`].
pub(super) async fn refund<'a>(
    node: &Node,
    order: &RefundOrder,
    submitters: &[&'a SigningKey],
) -> Result<(Call<'a>, &'a SigningKey), PrepareError> {
    let program = key(&order.escrow.contract).map_err(unusable)?;
    let payment_id = order.payment_id.on_chain().0;
    let mut wanted = vec![host::escrow_address(&program, &payment_id).key];
    wanted.extend(submitters.iter().map(|submitter| submitter.verifying_key().to_bytes()));
    let settled = node.settled().await?;
    let snapshot = node.accounts(&wanted, Commitment::Confirmed, settled.slot).await?;
    let record = match snapshot.account(0) {
        Some(account) => node.escrow_in(account, &program)?,
        None => None,
    };
    let Some(record) = record else {
        return Err(refused(node, &program, "nothing is in escrow for the payment".to_owned()));
    };
    let balances = balances(&snapshot, 1);
    let submitter = submitters::choose(node, submitters, &balances, 0)?;
    let escrow = EscrowAccounts::from(&record);
    // The payer may have closed its account since it paid. It is not made anew at the gateway's cost: whoever has it made can
    // close it and keep the rent, again and again.
    let payer_token = host::associated_token_address(&record.payer, &record.token_program, &record.mint).key;
    let found = node.accounts(&[payer_token], Commitment::Confirmed, settled.slot).await?;
    // A stranger's lamports at its address make it no token account.
    if found.account(0).is_none_or(|account| !ids::is_token_program(&account.owner)) {
        let (account, wallet) = (text(&payer_token), text(&record.payer));
        let reason =
            format!("{wallet} has closed its token account {account}; the money goes there as soon as it is made");
        return Err(Transient::unreachable(reason).into());
    }
    let mut instructions = Vec::new();
    match &order.non_delivery {
        None => instructions.push(host::refund(&program, &escrow)),
        Some(signature) => {
            let signature = signature_bytes(signature);
            let signature =
                signature.ok_or_else(|| Transient::misconfigured("the non-delivery is no hex of 64 bytes"))?;
            let statement = NonDelivery { payment_id, quote_hash: record.quote_hash };
            let digest = statement.digest(&node.domain(&program));
            instructions.push(host::ed25519(&record.releaser, &signature, &digest));
            instructions.push(host::cancel(&program, &escrow, BUDGET_INSTRUCTIONS));
        }
    }
    let contended = vec![payer_token];
    let call =
        Call { program, instructions, contended, submitters: submitters.iter().copied().zip(balances).collect() };
    Ok((call, submitter))
}

/// Release of what the order's quote reserved, and who sends it.
///
/// The account that is paid must be there: its owner can close it again and keep the rent, so whoever made it for a settler
/// could be robbed of that with each payment.
///
/// # Errors
/// See [`PrepareError`].
pub(super) async fn release<'a>(
    node: &Node,
    order: &ReleaseOrder,
    submitters: &[&'a SigningKey],
) -> Result<(Call<'a>, &'a SigningKey), PrepareError> {
    let program = key(&order.escrow.contract).map_err(unusable)?;
    let payment_id = order.payment_id.on_chain().0;
    let refuse = |reason: String| refused(node, &program, reason);
    let settler = key(&order.payout_account).map_err(unusable)?;
    let settled = node.settled().await?;
    let mut wanted = vec![host::escrow_address(&program, &payment_id).key];
    wanted.extend(submitters.iter().map(|submitter| submitter.verifying_key().to_bytes()));
    let snapshot = node.accounts(&wanted, Commitment::Confirmed, settled.slot).await?;
    let record = match snapshot.account(0) {
        Some(account) => node.escrow_in(account, &program)?,
        None => None,
    };
    let Some(record) = record else { return Err(refuse("nothing is in escrow for the payment".to_owned())) };
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
    let balances = balances(&snapshot, 1);
    let submitter = submitters::choose(node, submitters, &balances, 0)?;
    let attestation = signature_bytes(&order.attestation);
    let attestation = attestation.ok_or_else(|| Transient::misconfigured("the attestation is no hex of 64 bytes"))?;
    let delivery = Delivery { payment_id, quote_hash: record.quote_hash, settler };
    let digest = delivery.digest(&node.domain(&program));
    let instructions = vec![
        host::ed25519(&record.releaser, &attestation, &digest),
        host::release(&program, &EscrowAccounts::from(&record), BUDGET_INSTRUCTIONS),
    ];
    let submitters = submitters.iter().copied().zip(balances).collect();
    let call = Call { program, instructions, contended: vec![payout], submitters };
    Ok((call, submitter))
}

/// The program's configuration, which must be of this cluster: nobody's signature would count otherwise.
fn config(node: &Node, account: Option<&Account>, program: &Key) -> Result<Config, String> {
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

/// The token account that a deposit is taken from.
struct PayerAccount<'a> {
    program: &'a Key,
    payer: &'a Key,
    mint: &'a Key,
    address: &'a Key,
    spend: &'a SolanaSpend,
}

impl PayerAccount<'_> {
    fn check(&self, account: Option<&Account>, amount: u64) -> Result<(), String> {
        let Some(account) = account else {
            return Err(format!("the payer has no associated token account of {}", text(self.mint)));
        };
        let account = TokenAccount::parse(&account.owner, &account.data).map_err(|error| error.to_string())?;
        if account.mint != *self.mint || account.owner != *self.payer {
            return Err(format!("the token account {} is not the payer's", text(self.address)));
        }
        let signer = key(&self.spend.signer).map_err(|error| error.to_string())?;
        let delegate = host::delegate_address(self.program, &signer).key;
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
}

fn deposit_data(order: &DepositOrder, spend: &SolanaSpend, payer: Key) -> Result<DepositAndReserve, Transient> {
    let (escrow, reservation) = (&order.escrow, &order.reservation);
    Ok(DepositAndReserve {
        payment_id: order.payment_id.on_chain().0,
        terms_hash: order.terms_hash.0,
        agreed_quote_hash: spend.quote_hash.0,
        payer,
        cap: units(spend.amount).map_err(unusable)?,
        releaser: key(&escrow.releaser).map_err(unusable)?,
        reserve_deadline: escrow.reserve_deadline,
        fulfillment_deadline: escrow.fulfillment_deadline,
        refund_after: escrow.refund_after,
        signer: key(&spend.signer).map_err(unusable)?,
        ed25519_index: BUDGET_INSTRUCTIONS,
        quote_hash: reservation.quote_hash.0,
        settler: key(&reservation.payout_account).map_err(unusable)?,
        source_amount: units(reservation.source_amount).map_err(unusable)?,
        fulfill_by: reservation.fulfill_by,
    })
}

/// Lamports of the accounts from `first` on.
fn balances(snapshot: &Snapshot, first: usize) -> Vec<u64> {
    let accounts = snapshot.accounts.iter().skip(first);
    accounts.map(|account| account.as_ref().map_or(0, |account| account.lamports)).collect()
}
