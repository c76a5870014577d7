//! The audit of a reassignment: every field that a chain can contradict is compared.

use anyhow::Result;

use chains::auditor::{self, Audit, Case, Kind};
use chains_solana::auditor::Auditor;
use events::{
    Hash32,
    event::{EscrowPlan, Inclusion},
    quote::Quote,
    time::from_unix_seconds,
};

use super::{amount, kinds, reassignment::Lapsed};
use crate::support::{PRICE, key, wallet};

/// A reassignment that went well: every field that a chain can contradict is altered, one at a time.
pub(super) struct Proven<'a> {
    pub(super) auditor: Auditor,
    pub(super) lapsed: &'a Lapsed,
    pub(super) inclusion: &'a Inclusion,
}

impl Proven<'_> {
    fn reassignment(&self) -> auditor::Reassignment<'_> {
        auditor::Reassignment {
            previous: self.lapsed.first.quote.hash(),
            previous_fulfill_by: self.lapsed.first.fulfill_by(),
            deposited: amount(PRICE),
            inclusion: self.inclusion,
        }
    }

    pub(super) async fn is_clean(&self, delivery: &Inclusion, release: &Inclusion) -> Result<()> {
        let Self { auditor, lapsed: Lapsed { first, next, secured, .. }, .. } = self;
        assert_eq!(auditor.audit_deposit(&first.audited(), secured).await?, []);
        assert_eq!(auditor.audit_reassignment(&next.audited(), &self.reassignment()).await?, []);
        assert_eq!(auditor.audit_delivery(&next.audited(), delivery).await?, []);
        assert_eq!(auditor.audit_release(&next.audited(), release, secured.amount).await?, []);
        let (snapshot, found) = auditor.audit_escrow(&first.id, &first.plan, Some(&next.audited())).await?;
        assert_eq!((snapshot.reserved_for, found), (Some(next.quote.hash()), vec![]));
        let (_, found) = auditor.audit_escrow(&first.id, &first.plan, Some(&first.audited())).await?;
        assert!(!found.is_empty(), "the escrow is not the first settler's any more");
        Ok(())
    }

    pub(super) async fn every_field_is_compared(&self, release: &Inclusion) -> Result<()> {
        let Self { auditor, lapsed: Lapsed { first, next, secured, .. }, inclusion } = self;
        let (case, told) = (next.audited(), self.reassignment());
        let quote = next.quote.quote();
        let quotes = [
            Quote { payout_account: wallet(&key(99)), ..quote.clone() },
            Quote { source_amount: amount(PRICE), ..quote.clone() },
            Quote { fulfill_by: from_unix_seconds(next.fulfill_by() + 1).unwrap(), ..quote.clone() },
        ];
        for quote in &quotes {
            let found = auditor.audit_reassignment(&Case { quote, ..case }, &told).await?;
            assert_eq!(kinds(&found), [Kind::Contradiction], "{quote:?}");
        }
        let plans = [
            EscrowPlan { reserver: wallet(&key(99)), ..case.plan.clone() },
            EscrowPlan { releaser: wallet(&key(99)), ..case.plan.clone() },
        ];
        for plan in &plans {
            let found = auditor.audit_reassignment(&Case { plan, ..case }, &told).await?;
            assert_eq!(kinds(&found), [Kind::Contradiction], "{plan:?}");
        }
        let other = Case { quote_hash: Hash32([3; 32]), ..case };
        assert_eq!(kinds(&auditor.audit_reassignment(&other, &told).await?), [Kind::Contradiction]);
        let later = Inclusion { block_time: inclusion.block_time + 1, ..(*inclusion).clone() };
        for told in [
            auditor::Reassignment { previous: Hash32([3; 32]), ..told },
            auditor::Reassignment { previous_fulfill_by: inclusion.block_time, ..told },
            auditor::Reassignment { inclusion: &later, ..told },
        ] {
            assert_eq!(kinds(&auditor.audit_reassignment(&case, &told).await?), [Kind::Contradiction], "{told:?}");
        }
        for elsewhere in [release, &secured.inclusion] {
            let told = auditor::Reassignment { inclusion: elsewhere, ..told };
            assert_eq!(kinds(&auditor.audit_reassignment(&case, &told).await?), [Kind::Missing]);
        }
        // Settler and payer have all that was deposited, and one unit more would be missing.
        let more = auditor.audit_release(&next.audited(), release, amount(PRICE + 1)).await?;
        assert_eq!(kinds(&more), [Kind::Contradiction]);
        assert!(!auditor.audit_release(&first.audited(), release, secured.amount).await?.is_empty());
        Ok(())
    }
}
