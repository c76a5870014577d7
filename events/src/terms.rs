//! Terms: the economics that the payer agreed to and that must not change under one `request_id`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Account, Amount, AssetId, Hash32,
    caip::{self, Family},
};

/// An account's holding of one asset on one chain, normalised (spec 2.2).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "OwnedAssetText", into = "OwnedAssetText")]
pub struct OwnedAsset {
    /// The asset; its chain is one of a family the gateway knows.
    asset: AssetId,
    /// The account, of the family of the asset's chain.
    account: Account,
}

/// The JSON form of an [`OwnedAsset`], with the members in the order in which they sort.
#[derive(Serialize, Deserialize)]
struct OwnedAssetText {
    account: String,
    asset_identifier: AssetId,
}

impl OwnedAsset {
    /// Pairs an asset with an account that is parsed by the rules of the asset's chain.
    ///
    /// # Errors
    /// [`caip::Error::UnknownFamily`] for a chain of no known family, else the rule that the account breaks.
    pub fn new(asset: AssetId, account: &str) -> Result<Self, caip::Error> {
        let family = asset.chain().family().ok_or(caip::Error::UnknownFamily)?;
        Ok(Self { account: Account::parse(family, account)?, asset })
    }

    /// The asset.
    pub fn asset(&self) -> &AssetId {
        &self.asset
    }

    /// The account.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// The family of the chain.
    pub fn family(&self) -> Family {
        self.account.family()
    }
}

impl TryFrom<OwnedAssetText> for OwnedAsset {
    type Error = caip::Error;

    fn try_from(text: OwnedAssetText) -> Result<Self, caip::Error> {
        Self::new(text.asset_identifier, &text.account)
    }
}

impl From<OwnedAsset> for OwnedAssetText {
    fn from(owned: OwnedAsset) -> Self {
        Self { account: owned.account.to_string(), asset_identifier: owned.asset }
    }
}

/// The economics of a payment (idempotency rule 5): equal exactly when a retry is a replay.
///
/// The destinations are a set: their order has no meaning, so they are kept sorted by asset and then account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Terms {
    /// Where the payment may be delivered; the settler chooses one.
    destination: Vec<OwnedAsset>,
    /// Exact amount the recipient receives, smallest unit of the destination asset.
    pub fulfillment_amount: Amount,
    /// The most that may be spent, smallest unit of the source asset. Absent and present differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_source_amount: Option<Amount>,
    /// The asset and account that pay.
    pub source: OwnedAsset,
}

impl Terms {
    /// Terms with `destination` put into its canonical order.
    pub fn new(
        source: OwnedAsset,
        mut destination: Vec<OwnedAsset>,
        fulfillment_amount: Amount,
        max_source_amount: Option<Amount>,
    ) -> Self {
        // The asset's text is what auditors sort by, so it is what sorts here.
        destination.sort_by_cached_key(|owned| (owned.asset.to_string(), owned.account.to_string()));
        Self { destination, fulfillment_amount, max_source_amount, source }
    }

    /// The destinations, sorted by asset and then account.
    pub fn destination(&self) -> &[OwnedAsset] {
        &self.destination
    }

    /// SHA-256 of the RFC 8785 (JCS) form of the terms; the `termsHash` the payer signs and the escrow commits to.
    ///
    /// ```
    /// use events::{OwnedAsset, Terms};
    ///
    /// let asset = |text: &str| OwnedAsset::new(text.parse()?, "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed");
    /// let source = asset("eip155:1/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48")?;
    /// let (a, b) = (asset("eip155:10/slip44:60")?, asset("eip155:137/slip44:60")?);
    /// let one = Terms::new(source.clone(), vec![a.clone(), b.clone()], "5".parse().unwrap(), None);
    /// let two = Terms::new(source, vec![b, a], "5".parse().unwrap(), None);
    /// assert_eq!(one.hash(), two.hash());
    /// # Ok::<(), events::caip::Error>(())
    /// ```
    pub fn hash(&self) -> Hash32 {
        Hash32::sha256(self.canonical())
    }

    /// The RFC 8785 form in two parts, up to the source's account and from behind it: all of the terms but who pays.
    pub fn around_payer(&self) -> (String, String) {
        const BEFORE: &str = r#""source":{"account":""#;
        let canonical = self.canonical();
        // The source comes last, since the members are sorted, and no text in front of it has a quote that is not escaped.
        let start = canonical.rfind(BEFORE).map_or(canonical.len(), |at| at + BEFORE.len());
        let end = canonical.len().min(start + self.source.account().to_string().len());
        (canonical[..start].to_owned(), canonical[end..].to_owned())
    }

    /// The RFC 8785 form in two parts, up to what is delivered and from behind the most that may be spent: all of the terms but the two
    /// amounts. Between them stands `","max_source_amount":"`.
    pub fn around_amounts(&self) -> (String, String) {
        const BEFORE: &str = r#""fulfillment_amount":""#;
        const BEHIND: &str = r#"","source":{"#;
        let canonical = self.canonical();
        // No text has a quote that is not escaped, so the first member of that name is the one, and the last.
        let start = canonical.find(BEFORE).map_or(canonical.len(), |at| at + BEFORE.len());
        let end = canonical.rfind(BEHIND).unwrap_or(canonical.len());
        (canonical[..start].to_owned(), canonical[end..].to_owned())
    }

    fn canonical(&self) -> String {
        // Serialization cannot fail: the terms are strings, arrays and objects with string keys.
        let canonical = serde_json_canonicalizer::to_string(self).unwrap_or_default();
        debug_assert!(!canonical.is_empty());
        canonical
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(asset: &str) -> OwnedAsset {
        OwnedAsset::new(asset.parse().unwrap(), "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed").unwrap()
    }

    #[test]
    fn canonical_form_is_the_documented_one() {
        let terms = Terms::new(
            owned("eip155:1/erc20:0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"),
            vec![owned("eip155:137/slip44:966"), owned("eip155:10/slip44:60")],
            "25".parse().unwrap(),
            Some("30".parse().unwrap()),
        );
        let canonical = concat!(
            r#"{"destination":[{"account":"0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed","asset_identifier":"eip155:10/slip44:60"},"#,
            r#"{"account":"0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed","asset_identifier":"eip155:137/slip44:966"}],"#,
            r#""fulfillment_amount":"25","max_source_amount":"30","source":{"account":"0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed","#,
            r#""asset_identifier":"eip155:1/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48"}}"#,
        );
        assert_eq!(terms.hash(), Hash32::sha256(canonical));
        let (before, behind) = terms.around_payer();
        assert_eq!(format!("{before}{}{behind}", terms.source.account()), canonical);
        assert!(before.ends_with(r#""source":{"account":""#), "{before}");
        let (before, behind) = terms.around_amounts();
        assert_eq!(format!(r#"{before}25","max_source_amount":"30{behind}"#), canonical);
        let other = Terms::new(terms.source.clone(), terms.destination().to_vec(), "7".parse().unwrap(), None);
        assert_eq!(other.around_amounts(), (before, behind));
    }

    #[test]
    fn terms_on_tron_are_the_same_however_the_chain_is_written() {
        let terms = |reference: &str| {
            let owned = |asset: &str| {
                let asset = format!("tron:{reference}/{asset}").parse().unwrap();
                OwnedAsset::new(asset, "TJEh7TX8sNj5uq4hXKyYdTrnGmeeG48top").unwrap()
            };
            let token = owned("trc20:TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t");
            Terms::new(token, vec![owned("slip44:195")], "25".parse().unwrap(), None)
        };
        assert_eq!(terms("728126428"), terms("0x2b6653dc"));
        assert_eq!(terms("728126428").hash(), terms("0x2B6653DC").hash());
        assert_ne!(terms("728126428").hash(), terms("3448148188").hash());
    }

    #[test]
    fn an_absent_cap_differs_from_any_cap() {
        let terms = |cap: Option<&str>| {
            let cap = cap.map(|cap| cap.parse().unwrap());
            Terms::new(owned("eip155:1/slip44:60"), vec![owned("eip155:10/slip44:60")], "25".parse().unwrap(), cap)
        };
        assert_ne!(terms(None).hash(), terms(Some("25")).hash());
        assert_ne!(terms(Some("26")).hash(), terms(Some("25")).hash());
    }
}
