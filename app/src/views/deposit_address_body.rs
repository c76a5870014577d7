//! A deposit address as JSON: where to send what, and all that it commits to, so that anyone can compute it and have the money moved.

use schemars::JsonSchema;
use serde::Serialize;

use events::{Account, Amount, AssetId, ChainId, Family, Hash32, time::Timestamp};
use projections::{PaymentView, ShownAddress};

use super::payment_body::date_time;

/// Where the money of a payment is to be sent that nobody signed for.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DepositAddress")]
pub struct DepositAddressBody {
    /// Where to send it. It commits to `terms`: `factory.addressOf(terms)`. On Solana the owner of the token account that is paid, as a
    /// wallet is, and derived from the terms by the program's seeds.
    address: Account,
    /// CAIP-2 id of the chain.
    chain_id: ChainId,
    /// What to send, CAIP-19. Anything else that comes there goes back.
    asset_identifier: AssetId,
    /// How much at least, smallest unit, in one transfer or in several. All of it goes into escrow, and what the settler does not
    /// get back to `refund_account`.
    #[schemars(with = "String")]
    amount: Amount,
    /// Up to when it is waited for. What comes later goes back.
    #[schemars(with = "Timestamp")]
    pay_by: String,
    /// What was there when the auction began, or when the payment had failed, smallest unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    received: Option<Amount>,
    /// The only account that money can go back to: the payment's source account. It has to be one of the payer's own, where it can
    /// receive the token; an exchange's hot wallet is not.
    refund_account: Account,
    /// The transfer as a link for wallets and as the text of a QR code (EIP-681). On Tron `tron:` and the address alone, and what a QR
    /// code should hold there is `address`. On Solana a Solana Pay link without the amount, which counts in whole tokens there: who knows
    /// the token's decimals adds `&amount=`.
    uri: String,
    /// The contract that makes the address and alone moves what is there: `deposit`, `giveBack`. On Solana the escrow's program.
    factory: Account,
    /// What the address commits to.
    terms: AddressTermsBody,
}

/// What a deposit address commits to: `DepositAddresses.Terms`. On Solana the program's `message::Deposit` says the same.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DepositAddressTerms")]
struct AddressTermsBody {
    /// The escrow.
    escrow: Account,
    /// The token.
    token: String,
    /// The least that is deposited.
    #[schemars(with = "String")]
    amount: Amount,
    /// What a payer who signs agrees to.
    deposit: CommittedDepositBody,
}

/// `GatewayEscrow.GatewayDeposit`. Times are UNIX seconds.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "CommittedDeposit")]
struct CommittedDepositBody {
    /// keccak256 of the payment's id.
    payment_id: Hash32,
    /// Hash of source, destinations and amounts.
    terms_hash: Hash32,
    /// Zero: no quote is agreed to.
    quote_hash: Hash32,
    /// The refund account.
    payer: Account,
    /// Who admits the deposit and names the settler.
    reserver: Account,
    /// Who attests the delivery.
    releaser: Account,
    /// Last second in which the deposit can be made. After it anyone can have the money given back.
    reserve_deadline: u64,
    /// Last second of a delivery.
    fulfillment_deadline: u64,
    /// First second of a refund from the escrow.
    refund_after: u64,
}

impl DepositAddressBody {
    /// The address of the payment, where it has one.
    pub fn of(view: &PaymentView) -> Option<Self> {
        let ShownAddress { given, received, reserver } = view.deposit_address.as_ref()?;
        let (asset, payer) = (view.source.asset(), view.source.account());
        let chain = asset.chain();
        let (token, network) = (asset.reference(), chain.reference());
        Some(Self {
            address: given.address.clone(),
            chain_id: chain.clone(),
            asset_identifier: asset.clone(),
            amount: given.amount,
            pay_by: date_time(given.pay_by),
            received: *received,
            refund_account: payer.clone(),
            uri: match chain.family() {
                // There is no form for a token's transfer that wallets agree on; with an amount some send TRX.
                Some(Family::Tron) => format!("tron:{}", given.address),
                // The amount counts in whole tokens there, and how many of the smallest unit those are is not on record.
                Some(Family::Solana) => format!("solana:{}?spl-token={token}", given.address),
                _ => format!("ethereum:{token}@{network}/transfer?address={}&uint256={}", given.address, given.amount),
            },
            factory: given.factory.clone(),
            terms: AddressTermsBody {
                escrow: view.escrow_contract.parse().ok()?,
                token: token.to_owned(),
                amount: given.amount,
                deposit: CommittedDepositBody {
                    payment_id: view.payment_id.on_chain(),
                    terms_hash: view.terms_hash,
                    quote_hash: Hash32::ZERO,
                    payer: payer.clone(),
                    reserver: reserver.clone(),
                    releaser: view.verifier.account.clone(),
                    reserve_deadline: view.windows.reserve_deadline,
                    fulfillment_deadline: view.windows.fulfillment_deadline,
                    refund_after: view.windows.refund_after,
                },
            },
        })
    }
}
