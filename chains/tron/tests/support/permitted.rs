//! Payments whose payer signs for Permit2, and has given it an allowance by a transaction.

use alloy::{
    primitives::{Address, U256},
    signers::{SignerSync, local::PrivateKeySigner},
};
use anyhow::Result;

use chains::deployment::{Contracts, Deployment, Guardian};
use chains_tron::{
    authorization::{Choice, PreparedPermit, SignedMessage, SpendRequest, authorize_permit, prepare_permit},
    deploy::{Permit2 as DrawnBy, Settings, TronDeployment},
    transaction::read_signed,
};
use events::{
    OwnedAsset, Terms,
    event::{Authorization, EscrowPlan, Permit2},
};
use sagas::ports::DepositOrder;

use super::{
    TRX, World, account, holder, key,
    payment::{CAP, DELIVERED, bytes, next_id},
    quoted::{Payment, amount},
};
use crate::deploy::{Memory, PACE, silent};

impl World {
    /// Lets Permit2 draw so much on the payer.
    pub async fn allow_permit2(&self, amount: u64) -> Result<()> {
        Ok(self.dev.approve(&self.payer, &self.token, &self.contracts.permit2, U256::from(amount)).await?)
    }

    /// A payment of the payer's that pays TRX on the same chain, signed for Permit2, with its windows `seconds` long from now.
    pub async fn permitted(&self, seconds: u64) -> Result<DepositOrder> {
        let until = self.time().await? + seconds;
        let spend = self.request(&self.payer, next_id(&self.payer), CAP, until - seconds / 2, until)?;
        self.permitted_for(spend).await
    }

    /// `spend`, signed for Permit2.
    pub async fn permitted_for(&self, spend: SpendRequest) -> Result<DepositOrder> {
        self.allow_permit2(CAP).await?;
        let authorized = authorized(&spend, &self.payer)?;
        Ok(self.order_of(spend, authorized))
    }

    /// Another escrow that `reserver` is the reserver of, and which draws by `permit2`.
    pub async fn another_escrow(&self, reserver: &PrivateKeySigner, permit2: DrawnBy) -> Result<Contracts> {
        let settings = Settings {
            chain_id: self.chain_id.parse()?,
            reserver: holder(reserver),
            guardian: Guardian::Nobody,
            permit2,
        };
        let payer = key(43);
        self.dev.fund(&account(&payer), 5_000 * TRX).await?;
        let timeout = std::time::Duration::from_secs(20);
        let deployment = TronDeployment::new(&self.tron.url(), None, &settings, Some(payer), timeout)?;
        let (deployment, notes) = (deployment.with_pace(PACE), Memory::default());
        Ok(self.mining(deployment.run(&notes, &silent)).await??)
    }

    /// The chain's Permit2, as a deployment names it.
    pub fn permit2(&self) -> DrawnBy {
        DrawnBy::At { account: self.contracts.permit2.parse().unwrap(), code: None }
    }
}

impl Payment {
    /// A payment within Tron to `destination`, signed for Permit2; where `agreed` for its quote and no other.
    pub async fn permitted(world: &World, seconds: u64, destination: OwnedAsset, agreed: bool) -> Result<Self> {
        world.allow_permit2(CAP).await?;
        let until = world.time().await? + seconds;
        let payer = &world.payer;
        let mut spend = world.request(payer, next_id(payer), CAP, until - seconds / 2, until)?;
        spend.terms = Terms::new(spend.terms.source, vec![destination], amount(DELIVERED), Some(amount(CAP)));
        let quoted = |spend: &SpendRequest| -> Result<Self> {
            let (authorization, plan) = authorized(spend, payer)?;
            let (own, proxy) = (holder(&world.settler), world.contracts.proxy.parse()?);
            Self::quoted(spend.payment_id.clone(), spend.terms.clone(), authorization, plan, &own, &own, &proxy)
        };
        let payment = quoted(&spend)?;
        if !agreed {
            return Ok(payment);
        }
        spend.quote_hash = payment.quote.hash();
        quoted(&spend)
    }
}

/// What the payer's wallet makes of what was prepared.
pub fn signed(prepared: &PreparedPermit, payer: &PrivateKeySigner) -> SignedMessage {
    let signature = payer.sign_hash_sync(&prepared.digest.0.into()).unwrap().as_bytes();
    SignedMessage {
        message: prepared.digest.to_string(),
        message_prehash: Some(prepared.typed_data.to_string()),
        signature: format!("0x{}", hex::encode(signature)),
        payload: Some(prepared.payload.clone()),
    }
}

fn authorized(spend: &SpendRequest, payer: &PrivateKeySigner) -> Result<(Authorization, EscrowPlan)> {
    let prepared = prepare_permit(spend, &Choice::default())?;
    Ok(authorize_permit(spend, &signed(&prepared, payer))?)
}

pub fn permit(order: &DepositOrder) -> &Permit2 {
    match &order.authorization {
        Authorization::TronPermit2Escrow(permit) => permit,
        other => panic!("{other:?}"),
    }
}

/// What a transaction of the gateway's calls, as anyone can read it in a block or where it waits.
pub fn call_of(raw: &str) -> Result<(Address, Vec<u8>)> {
    let (decoded, _) = read_signed(&bytes(raw)?)?;
    Ok((decoded.draft.call.contract, decoded.draft.call.data))
}
