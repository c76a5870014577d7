//! Client of the gateway: pays, waits and watches, signs nothing that it did not rebuild, and brings money back without a gateway.
//!
//! - [`Gateway`] has the calls of the HTTP API, with typed answers and errors; what may be asked again is, with the same bytes.
//! - [`Order`] is what a payer asks for; [`authorization`] compares what a gateway wants signed with it, within the payer's
//!   [`Pins`], and signs.
//! - [`pay_batch`] pays many orders by one signature, which is compared in the same way.
//! - [`sign_mandate`] lets a merchant ask for payments, so much in each period, by one signature; [`charge`] asks for one.
//! - [`deposit_address`] is for who cannot sign: it gets the address to which the money is sent, and compares it in the same way.
//! - [`onchain`] gives allowances, and looks at escrows and ends them, by a node alone.
//! - [`money`] says where a payment's money is; [`link`] is a payment that somebody asks for.
//!
//! ```no_run
//! # #[cfg(all(feature = "evm", feature = "solana", feature = "tron"))]
//! # async fn pay() -> Result<(), Box<dyn std::error::Error>> {
//! use events::{Family, OwnedAsset};
//! use gateway_client::{Gateway, Key, Order, Pins, Windows, pay};
//!
//! let gateway = Gateway::new("https://pay.example")?;
//! let key = Key::parse(Family::Evm, &std::fs::read_to_string("payer.key")?)?;
//! let account = key.account(Family::Evm).ok_or("not a key of an EVM chain")?;
//! let usdc = "eip155:1/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48".parse()?;
//! let to = OwnedAsset::new("eip155:8453/erc20:0x833589fcd6edb6e08f4c7c32d4f71b54bda02913".parse()?, "0x…")?;
//! let order = Order::new(
//!     OwnedAsset::new(usdc, account.as_str())?,
//!     vec![to],
//!     "25000000".parse()?,
//!     Some("25500000".parse()?),
//!     chrono::Utc::now(),
//!     Windows::default(),
//! );
//! let payment = pay(&gateway, &order, &key, &Pins::default()).await?;
//! println!("{} is {}", payment.payment_id, payment.status.as_str());
//! # Ok(())
//! # }
//! ```

pub mod answers;
#[cfg(any(feature = "evm", feature = "solana", feature = "tron"))]
pub mod authorization;
#[cfg(any(feature = "evm", feature = "solana", feature = "tron"))]
pub mod deposit_address;
mod error;
mod gateway;
#[cfg(any(feature = "evm", feature = "solana", feature = "tron"))]
mod key;
pub mod link;
mod mandate_order;
#[cfg(feature = "evm")]
mod mandates;
pub mod money;
#[cfg(any(feature = "evm", feature = "solana", feature = "tron"))]
pub mod onchain;
mod order;
#[cfg(any(feature = "evm", feature = "solana", feature = "tron"))]
mod pay;
#[cfg(feature = "evm")]
mod pay_batch;
mod pins;
mod retry;
mod settlers;
mod sse;
mod transport;
mod verifiers;
mod watch;

pub use self::{
    answers::{
        Batch, BatchPayment, ChainDefaults, Corridor, Defaults, DepositAddress, Entry, Failure, OfferedQuote, Payment,
        Prepared, PreparedMandate, PreparedPaymentBatch, Status, Timeline,
    },
    error::{Error, Mismatch, NoAnswer, Refusal},
    gateway::{Award, BatchSubmission, Gateway, Submission},
    mandate_order::{MandateOrder, MandatePayload, SignedMandate, WalletCall},
    order::{Order, Windows, caller_secret, request_id},
    pins::{PERMIT2, Pins, TRON_PERMIT2, fee_max},
    retry::Next,
    settlers::{Settler, Settlers},
    verifiers::{FulfillmentVerifier, releaser},
};
#[cfg(any(feature = "evm", feature = "solana", feature = "tron"))]
pub use self::{
    key::Key,
    pay::{pay, pay_quote, prepare_checked, until},
};
#[cfg(feature = "evm")]
pub use self::{
    mandates::{charge, prepare_charge_checked, prepare_mandate_checked, sign_mandate},
    pay_batch::{pay_batch, prepare_batch_checked},
};
