//! Payment link: what somebody wants paid, in the fragment of `/pay#…`, which never reaches a server. `web/README.md` has the format,
//! which the payment page reads, too.

use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Serialize};
use url::Url;

use events::{Amount, AssetId, OwnedAsset, time::Timestamp};

use crate::error::Error;

const VERSION: u64 = 1;
/// Longest fragment that is read, in characters.
const FRAGMENT_CHARS_MAX: usize = 16_384;
const DESTINATIONS_MAX: usize = 16;
const SOURCES_MAX: usize = 64;
const MEMO_CHARS_MAX: usize = 280;
const REQUEST_ID_CHARS_MAX: usize = 128;

/// What may be paid with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The asset.
    pub asset_identifier: AssetId,
    /// The most that is taken of it, smallest unit. Whoever pays may say less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_source_amount: Option<Amount>,
}

/// What a link asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentLink {
    /// Idempotency key: one account pays a link once, however often it is opened.
    pub request_id: String,
    /// Who is to be paid; one of them is.
    pub destination: Vec<OwnedAsset>,
    /// What arrives, smallest unit.
    pub fulfillment_amount: Amount,
    /// Empty: whatever the gateway serves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pay_with: Vec<Source>,
    /// Payable until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// For whoever pays to read, in the words of whoever asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memo: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Versioned<T> {
    v: u64,
    #[serde(flatten)]
    link: T,
}

impl PaymentLink {
    /// The link at the gateway with this address.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what no link may hold.
    pub fn to_url(&self, gateway: &Url) -> Result<Url, Error> {
        self.check()?;
        let text = serde_json::to_string(&Versioned { v: VERSION, link: self })
            .map_err(|error| Error::Invalid(error.to_string()))?;
        let mut url = gateway.clone();
        let no_path = |()| Error::Invalid(format!("{gateway} has no path"));
        url.path_segments_mut().map_err(no_path)?.pop_if_empty().push("pay");
        url.set_query(None);
        url.set_fragment(Some(&BASE64URL_NOPAD.encode(text.as_bytes())));
        Ok(url)
    }

    /// The gateway's address and what is asked for, of a link.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is not a link, damaged, or of a later version.
    pub fn parse(text: &str) -> Result<(Url, Self), Error> {
        let damaged = || Error::Invalid("the link is damaged: ask for it again".to_owned());
        let mut url: Url = text.parse().map_err(|_| Error::Invalid("a link begins with https://".to_owned()))?;
        let fragment = url.fragment().filter(|fragment| !fragment.is_empty()).map(str::to_owned);
        let fragment = fragment
            .ok_or_else(|| Error::Invalid("the link asks for nothing: what is behind # is missing".to_owned()))?;
        if fragment.len() > FRAGMENT_CHARS_MAX || !matches!(url.scheme(), "http" | "https") {
            return Err(damaged());
        }
        let bytes = BASE64URL_NOPAD.decode(fragment.as_bytes()).map_err(|_| damaged())?;
        let version: Versioned<serde_json::Value> = serde_json::from_slice(&bytes).map_err(|_| damaged())?;
        if version.v > VERSION {
            return Err(Error::Invalid("the link is of a later version than this program reads".to_owned()));
        }
        if version.v != VERSION {
            return Err(damaged());
        }
        let link: Self = serde_json::from_value(version.link).map_err(|_| damaged())?;
        link.check()?;
        url.set_fragment(None);
        url.set_query(None);
        let is_page = url.path_segments().and_then(|mut path| path.next_back()) == Some("pay");
        if !is_page {
            return Err(damaged());
        }
        url.path_segments_mut().map_err(|()| damaged())?.pop();
        Ok((url, link))
    }

    fn check(&self) -> Result<(), Error> {
        let legal = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-' | b'.');
        let has_id = (1..=REQUEST_ID_CHARS_MAX).contains(&self.request_id.len()) && self.request_id.bytes().all(legal);
        let rules = [
            (has_id, "request_id: 1 to 128 letters, digits, `_`, `-` and `.`"),
            ((1..=DESTINATIONS_MAX).contains(&self.destination.len()), "destination: 1 to 16 of them"),
            (self.pay_with.len() <= SOURCES_MAX, "pay_with: at most 64 assets"),
            (
                self.memo.as_ref().is_none_or(|memo| !memo.is_empty() && memo.chars().count() <= MEMO_CHARS_MAX),
                "memo: 1 to 280 characters",
            ),
        ];
        match rules.into_iter().find(|(holds, _)| !holds) {
            None => Ok(()),
            Some((_, rule)) => Err(Error::Invalid(format!("the link cannot be meant: {rule}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link() -> PaymentLink {
        let account = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
        PaymentLink {
            request_id: "invoice-7".to_owned(),
            destination: vec![OwnedAsset::new("eip155:10/slip44:60".parse().unwrap(), account).unwrap()],
            fulfillment_amount: "25".parse().unwrap(),
            pay_with: vec![Source {
                asset_identifier: "eip155:1/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48".parse().unwrap(),
                max_source_amount: Some("26".parse().unwrap()),
            }],
            expires_at: Some("2027-01-15T08:00:10Z".parse().unwrap()),
            memo: Some("Grüße".to_owned()),
        }
    }

    #[test]
    fn a_link_is_read_as_it_was_made() {
        for base in ["https://pay.example/", "http://127.0.0.1:8080", "https://shop.example/gateway"] {
            let base: Url = base.parse().unwrap();
            let url = link().to_url(&base).unwrap();
            let (gateway, read) = PaymentLink::parse(url.as_str()).unwrap();
            assert_eq!(read, link());
            assert_eq!(gateway.as_str().trim_end_matches('/'), base.as_str().trim_end_matches('/'));
            assert!(url.as_str().contains("/pay#eyJ2Ijox"), "{url}");
        }
    }

    /// What the payment page's own writer makes of such a link.
    #[test]
    fn the_payment_pages_form_is_read() {
        let text = r#"{"v":1,"request_id":"a","destination":[{"asset_identifier":"eip155:10/slip44:60",
            "account":"0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed"}],"fulfillment_amount":"1","pay_with":[],"later":true}"#;
        let url = format!("https://pay.example/pay#{}", BASE64URL_NOPAD.encode(text.as_bytes()));
        let (_, read) = PaymentLink::parse(&url).unwrap();
        assert_eq!((read.request_id.as_str(), read.pay_with.len(), read.memo), ("a", 0, None));
    }

    #[test]
    fn what_is_damaged_or_of_a_later_version_is_refused() {
        let with = |text: &str| format!("https://pay.example/pay#{}", BASE64URL_NOPAD.encode(text.as_bytes()));
        for (url, said) in [
            ("https://pay.example/pay".to_owned(), "asks for nothing"),
            ("pay".to_owned(), "begins with https"),
            ("https://pay.example/pay#%%%".to_owned(), "damaged"),
            (with("{}"), "damaged"),
            (with(r#"{"v":0}"#), "damaged"),
            (with(r#"{"v":2}"#), "later version"),
            (with(r#"{"v":1,"request_id":"a"}"#), "damaged"),
            (
                link().to_url(&"https://pay.example".parse().unwrap()).unwrap().as_str().replace("/pay#", "/other#"),
                "damaged",
            ),
            (format!("https://pay.example/pay#{}", "A".repeat(FRAGMENT_CHARS_MAX + 1)), "damaged"),
        ] {
            let error = PaymentLink::parse(&url).unwrap_err().to_string();
            assert!(error.contains(said), "{url}: {error}");
        }
        let gateway: Url = "https://pay.example".parse().unwrap();
        type Change = fn(&mut PaymentLink);
        let changes: [Change; 4] = [
            |link| link.request_id = "two words".to_owned(),
            |link| link.destination.clear(),
            |link| link.memo = Some("x".repeat(281)),
            |link| link.pay_with = vec![link.pay_with[0].clone(); 65],
        ];
        for change in changes {
            let mut link = link();
            change(&mut link);
            assert!(link.to_url(&gateway).is_err(), "{link:?}");
        }
    }
}
