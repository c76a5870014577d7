//! Survey: what of a deployment is done, and what the rest costs.

use alloy::primitives::Address;

use chains::deployment::{Contracts, DeployError, Notes, Plan, Step};
use events::Account;
use sagas::ports::Transient;

use super::{Part, Permit2, TronDeployment, noted::Noted, unanswered};
use crate::{
    address::{account, account_of, address, text},
    cost::Cost,
    creation::SignedCreation,
    node::{AccountResources, Block, Info, Prices, State},
    transaction::Signed,
    transaction_status::Sight,
};

/// Parts without a Permit2: escrow, proxy and factory.
const PARTS: usize = 3;
/// Stands for a Permit2 whose address nobody knows yet, in an escrow that is only priced.
const UNMADE: Address = Address::repeat_byte(0x11);

/// Where a transaction that was noted stands.
#[derive(Debug)]
pub(super) enum Standing {
    /// It is in no block that was seen, and can still come.
    Open,
    /// It is in a block that a fork can take away.
    Included {
        /// The block's number.
        block: u64,
        /// The newest solidified block's.
        settled: u64,
        /// Why it had no effect, if it had none.
        failure: Option<String>,
    },
    /// It is in a solidified block.
    Settled {
        /// Why it had no effect, if it had none.
        failure: Option<String>,
    },
    /// It is in no block and never will be.
    Lost {
        /// How that is known.
        evidence: String,
    },
}

/// What has to be done for one contract.
struct Item {
    step: Step,
    /// Of the transaction that is to be made.
    new: Option<Cost>,
    /// Of the transaction that was made and may still land.
    open: Option<Cost>,
    /// Where the contract is or will be by a transaction that was made.
    contract: Option<Account>,
}

/// What of a deployment is done, and what the rest costs.
pub(super) struct Survey {
    payer: Account,
    resources: AccountResources,
    prices: Prices,
    /// What the escrow draws by, where that is known.
    pub permit2: Option<Address>,
    items: Vec<Item>,
}

impl Survey {
    /// The plan that follows from it.
    pub fn plan(self) -> Plan {
        let made = self.items.iter().rev().take(PARTS).rev();
        let addresses: Option<Vec<Account>> = made.map(|item| item.contract.clone()).collect();
        let contracts = addresses.and_then(|addresses| <[Account; PARTS]>::try_from(addresses).ok());
        Plan {
            payer: self.payer,
            balance: u128::from(self.resources.balance_sun),
            steps: self.items.into_iter().map(|item| item.step).collect(),
            contracts: contracts.map(|[escrow, proxy, addresses]| Contracts {
                escrow,
                proxy,
                deposit_address_factory: Some(addresses),
                permit2: self.permit2.and_then(account),
            }),
        }
    }

    /// Refuses to make what the payer could not pay for together with all that may still land. What is staked counts.
    ///
    /// # Errors
    /// [`DeployError::Funds`].
    pub fn check_funds(&self) -> Result<(), DeployError> {
        if self.items.iter().all(|item| item.new.is_none()) {
            return Ok(());
        }
        let costs = self.items.iter().filter_map(|item| item.new.or(item.open));
        let all = costs.fold(Cost { energy: 0, bandwidth: 0 }, |sum, cost| sum.plus(&cost));
        check_funds(&self.payer, &all, &self.resources, &self.prices)
    }
}

/// Refuses what an account with these resources cannot pay for. What is staked counts.
///
/// # Errors
/// [`DeployError::Funds`].
pub(super) fn check_funds(
    payer: &Account,
    cost: &Cost,
    resources: &AccountResources,
    prices: &Prices,
) -> Result<(), DeployError> {
    let (balance, needed) = (resources.balance_sun, cost.burnt(Some(resources), prices));
    if balance >= needed {
        return Ok(());
    }
    Err(DeployError::Funds { payer: payer.clone(), balance: u128::from(balance), needed: u128::from(needed) })
}

impl TronDeployment {
    /// Looks at what is noted and at the chain.
    pub(super) async fn survey(&self, notes: &dyn Notes) -> Result<Survey, DeployError> {
        let payer = self.payer()?;
        self.check().await?;
        // Before it is looked where the transactions stand: one that lands meanwhile was not paid for at this balance.
        let resources = self.connection.resources(payer.address()).await.map_err(unanswered)?;
        let prices = self.connection.prices().await.map_err(unanswered)?;
        let (mut items, mut permit2) = (Vec::new(), self.existing_permit2().await?);
        let mut drawn_by = permit2.unwrap_or_default();
        if self.permit2 == Permit2::Own {
            let item = self.item(&Part::permit2(), notes, &prices).await?;
            permit2 = item.contract.as_ref().map(address).transpose().map_err(unanswered)?;
            drawn_by = permit2.unwrap_or(UNMADE);
            items.push(item);
        }
        for part in self.parts(drawn_by)? {
            items.push(self.item(&part, notes, &prices).await?);
        }
        Ok(Survey { payer: account_of(&payer.clone().into()), resources, prices, permit2, items })
    }

    async fn item(&self, part: &Part, notes: &dyn Notes, prices: &Prices) -> Result<Item, DeployError> {
        let noted = Noted::read(notes, part, self.connection.chain_id())?.filter(|noted| noted.failure.is_none());
        if let Some(Noted { creation, .. }) = noted {
            let title = format!("{} at {}", part.name, text(creation.contract()));
            let made = |is_done, open: Option<Cost>| Item {
                step: Step { title, is_done, cost: open.map_or(0, |cost| u128::from(cost.burnt(None, prices))) },
                new: None,
                open,
                contract: account(creation.contract()),
            };
            match self.standing(&creation).await.map_err(unanswered)? {
                Standing::Open => return Ok(made(false, Some(limit(&creation, prices)))),
                Standing::Included { failure: None, .. } => return Ok(made(false, None)),
                Standing::Settled { failure: None } => return Ok(made(true, None)),
                Standing::Included { .. } | Standing::Settled { .. } | Standing::Lost { .. } => {}
            }
        }
        let quote = self.quote(part, prices).await?;
        let step = Step { title: part.name.to_owned(), is_done: false, cost: u128::from(quote.sun(prices)) };
        Ok(Item { step, new: Some(quote.cost), open: None, contract: None })
    }

    /// Where the transaction stands.
    pub(super) async fn standing(&self, creation: &SignedCreation) -> Result<Standing, Transient> {
        let signed = &creation.signed;
        let sight = Sight::of(&self.connection, signed.id, signed.expiration_ms).await?;
        let settled = sight.settled;
        let Some(info) = sight.info else {
            return Ok(if sight.is_over {
                Standing::Lost { evidence: never(creation, &settled) }
            } else {
                Standing::Open
            });
        };
        self.check_contract(creation, &info)?;
        if info.block_number <= settled.number {
            // By the word of the solidified state alone, and of a block that was found twice.
            let proven = self.connection.info(signed.id, State::Solidified).await?;
            if let Some(info) = proven.filter(|info| info.block_number <= settled.number) {
                self.check_contract(creation, &info)?;
                return Ok(Standing::Settled { failure: info.failure });
            }
        }
        Ok(Standing::Included { block: info.block_number, settled: settled.number, failure: info.failure })
    }

    /// Refuses the word of a node by which the contract is elsewhere than the transaction's id and owner give.
    fn check_contract(&self, creation: &SignedCreation, info: &Info) -> Result<(), Transient> {
        let expected = creation.contract();
        match info.contract {
            Some(found) if found != expected && info.failure.is_none() => {
                let (id, found, expected) = (info.id, text(found), text(expected));
                Err(self.connection.contradiction(format!("{id} created {found} and not {expected}")))
            }
            _ => Ok(()),
        }
    }
}

/// What a transaction that was made costs at most.
fn limit(creation: &SignedCreation, prices: &Prices) -> Cost {
    Cost::new(creation.fee_limit_sun / prices.energy_sun.max(1), creation.signed.bytes.len())
}

fn never(creation: &SignedCreation, settled: &Block) -> String {
    let Signed { id, expiration_ms, .. } = creation.signed;
    let number = settled.number;
    format!("transaction {id} did not land until {expiration_ms}, which solidified block {number} has passed")
}
