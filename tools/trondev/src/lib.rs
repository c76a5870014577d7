//! A development node with the parts of Tron's HTTP API that wallets and clients use. It is not a Tron node: it has no
//! peers, no witnesses who vote and no staking. What it takes are real Tron transactions, and it checks them as the
//! network does: the protobuf, the id, the signature, the reference block, the expiration, bandwidth and funds. Contracts
//! run on an EVM.
//!
//! ```
//! # async fn example() -> Result<(), trondev::StartError> {
//! use trondev::{Blocks, Options, TronDev};
//!
//! let node = TronDev::start(Options { blocks: Blocks::OnDemand, ..Options::default() }).await?;
//! println!("{}/wallet/getnowblock", node.url());
//! # Ok(())
//! # }
//! ```

mod address;
mod chain;
mod http;
mod local;
mod node;
mod options;
pub mod proto;
mod refusal;
mod signature;
mod transaction;

pub use address::{Address, AddressError, PREFIX};
pub use chain::{StartError, deployed_at};
pub use local::{BlockRef, Held, LocalNode, Reply, Run};
pub use node::TronDev;
pub use options::{Blocks, Options, SUN_PER_TRX};
pub use refusal::Refusal;
pub use signature::{recover, sign};
pub use transaction::{Call, Transaction, TxId};
