//! Gateway: the calls of the HTTP API.

mod batches;
mod corridors;
mod mandates;

use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use bytes::Bytes;
use chrono::SecondsFormat;
use reqwest::{
    Method,
    header::{HeaderMap, HeaderValue},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep, sleep_until};
use url::Url;

use events::{Account, Amount, ChainId, PaymentId, QuoteRequestId, time::Timestamp};

use crate::{
    answers::{Batch, ChainDefaults, Defaults, OfferedQuote, Payment, Prepared, Timeline},
    error::{Error, Mismatch},
    order::Order,
    retry::Backoff,
    transport::{Answered, CALLER_SECRET, Call, POSITION, Transport, prefer_wait},
};

pub use self::batches::BatchSubmission;

/// How long a submission is held for its outcome.
const HOLD: Duration = Duration::from_secs(25);
/// Pause between two reads of a status.
const POLL: Duration = Duration::from_millis(500);
/// How long a `Caller-Secret` may be.
const SECRET_CHARS: RangeInclusive<usize> = 16..=128;
/// For so long a read is asked again that nobody answers.
const READ_PATIENCE: Duration = Duration::from_secs(30);

/// A gateway. Cheap to clone.
///
/// Reads are asked again for half a minute where nobody answers, and a write until its caller's deadline, always with the same
/// bytes; see [`Next`](crate::Next) for what is asked again at all.
#[derive(Debug, Clone)]
pub struct Gateway {
    base: Arc<Url>,
    transport: Transport,
}

/// The body of a submission or an award, signed. These very bytes are sent, however often: they are what is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submission {
    /// The id that the payment has, made here.
    pub payment_id: PaymentId,
    /// Of an award the batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote_request_id: Option<QuoteRequestId>,
    /// The body.
    pub body: String,
}

impl Submission {
    /// The order with the authorization that its payer signed.
    ///
    /// # Errors
    /// As [`Order::body`].
    pub fn new(order: &Order, sender_auth: Value) -> Result<Self, Error> {
        let mut body = order.body()?;
        body.insert("sender_auth".to_owned(), sender_auth);
        Ok(Self { payment_id: order.payment_id(), quote_request_id: None, body: Value::Object(body).to_string() })
    }

    /// The award of `quote` with the authorization that its payer signed.
    pub fn award(award: &Award, sender_auth: &Value) -> Self {
        let body = json!({
            "version": "1.0",
            "request_id": award.order.request_id,
            "quote_id": award.quote.quote_id,
            "sender_auth": sender_auth,
        });
        Self {
            payment_id: award.order.payment_id(),
            quote_request_id: Some(award.quote_request_id.clone()),
            body: body.to_string(),
        }
    }
}

/// A quote of a batch that is taken, as a payment of its own.
#[derive(Debug, Clone)]
pub struct Award {
    /// The batch.
    pub quote_request_id: QuoteRequestId,
    /// The quote.
    pub quote: OfferedQuote,
    /// The payment: the batch's economics and deadlines, under a `request_id` of its own.
    pub order: Order,
}

impl Award {
    /// Takes a quote of `batch`, which is the answer to `asked`, for a payment under `request_id`.
    ///
    /// # Errors
    /// [`Error::Mismatch`] when the batch is not what was asked for, the quote is not the settler's or is for something else, or it
    /// costs more than `max_source_amount`.
    pub fn new(asked: &Order, batch: &Batch, quote: &OfferedQuote, request_id: &str) -> Result<Self, Error> {
        let order = batched(asked, batch)?.under(request_id);
        let signed = quote.signed()?;
        let offer = signed.quote();
        // The signature binds the quote's hash: the document has to be an offer for this very order.
        let demanded = [
            ("the quote's termsHash", order.terms().hash().to_string(), offer.terms_hash.to_string()),
            ("the quote's sourceChain", order.source.asset().chain().to_string(), offer.source_chain.to_string()),
            (
                "the quote's fulfillmentAmount",
                order.fulfillment_amount.to_string(),
                offer.fulfillment_amount.to_string(),
            ),
        ];
        if let Some((field, expected, found)) = demanded.into_iter().find(|(_, expected, found)| expected != found) {
            return Err(Mismatch::new(field, expected, found).into());
        }
        if !order.destination.contains(&offer.destination) {
            let found = format!("{} for {}", offer.destination.asset(), offer.destination.account());
            return Err(Mismatch::new("the quote's destination", "one of the order's", found).into());
        }
        let price = offer.source_amount;
        if let Some(cap) = order.max_source_amount.filter(|cap| price > *cap) {
            return Err(Mismatch::new("the quote's price", format!("at most {cap}"), price).into());
        }
        Ok(Self { quote_request_id: batch.quote_request_id.clone(), quote: quote.clone(), order })
    }
}

/// The order with the deadlines of its batch, which of a replay are the first one's.
///
/// # Errors
/// [`Mismatch`] when the batch is not what was asked for.
pub(crate) fn batched(asked: &Order, batch: &Batch) -> Result<Order, Mismatch> {
    let order = Order {
        quote_deadline: batch.quote_deadline,
        fulfillment_deadline: batch.fulfillment_deadline,
        ..asked.clone()
    };
    let shown = Order {
        source: batch.source.clone(),
        destination: batch.destination.clone(),
        fulfillment_amount: batch.fulfillment_amount,
        max_source_amount: batch.max_source_amount,
        ..order.clone()
    };
    match shown.terms() == order.terms() {
        true => Ok(order),
        false => Err(Mismatch::new("the batch", order.terms().hash(), shown.terms().hash())),
    }
}

impl Gateway {
    /// The gateway at this address, such as `https://pay.example`. Nothing is sent yet.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is not an `http` or `https` URL, or has user information: in front of an `@` a name can pass for
    /// the host.
    pub fn new(url: &str) -> Result<Self, Error> {
        let invalid = |rule: &str| Error::Invalid(format!("{url}: {rule}"));
        let base: Url = url.parse().map_err(|_| invalid("is not a URL"))?;
        if !matches!(base.scheme(), "http" | "https") || base.cannot_be_a_base() {
            return Err(invalid("must begin with https:// or http://"));
        }
        if base.query().is_some() || base.fragment().is_some() {
            return Err(invalid("must have neither a query nor a fragment"));
        }
        if !base.username().is_empty() || base.password().is_some() {
            let host = base.host_str().unwrap_or_default();
            return Err(Error::Invalid(format!("the gateway's address at {host} must have neither user nor password")));
        }
        Ok(Self { base: Arc::new(base), transport: Transport::new()? })
    }

    /// Its address.
    pub fn url(&self) -> &Url {
        &self.base
    }

    pub(crate) fn transport(&self) -> &Transport {
        &self.transport
    }

    /// What every chain uses.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn defaults(&self) -> Result<Defaults, Error> {
        self.read(&self.get(&["v1", "defaults"])?).await
    }

    /// What one chain uses.
    ///
    /// # Errors
    /// [`Error`], with `CHAIN_NOT_SUPPORTED` where the chain is not served.
    pub async fn chain_defaults(&self, chain: &ChainId) -> Result<ChainDefaults, Error> {
        let mut call = self.get(&["v1", "defaults"])?;
        call.url.query_pairs_mut().append_pair("chain_id", chain.as_str());
        self.read(&call).await
    }

    /// Asks settlers for quotes, and waits for them. Nothing is authorized.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn quote(&self, order: &Order) -> Result<Batch, Error> {
        let mut call = self.post(&["v1", "payments", "quote-requests"], Value::Object(order.body()?).to_string())?;
        call.url.query_pairs_mut().append_pair("wait", "true");
        let until = Instant::now() + READ_PATIENCE + HOLD;
        let mut batch: Batch = self.persist(&call, until).await?.value;
        while batch.status == "collecting" && Instant::now() < until {
            sleep(POLL).await;
            batch = self.batch(&batch.quote_request_id).await?;
        }
        Ok(batch)
    }

    /// Opens a quote-request, and waits for no quotes. Nobody who does not know `caller_secret` (16 to 128 visible characters,
    /// such as those of [`caller_secret`](crate::caller_secret())) can open it first, or ask for its deposit address. It is part
    /// of the batch's id: without it a retry is another batch.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn open(&self, order: &Order, caller_secret: Option<&str>) -> Result<Batch, Error> {
        let call = self.post(&["v1", "payments", "quote-requests"], Value::Object(order.body()?).to_string())?;
        self.read(&Call { headers: secret_header(caller_secret)?, ..call }).await
    }

    /// Asks for the deposit address of a batch, which makes a payment that nobody signs for; the same again finds the same.
    /// `amount` is needed where the order has no `max_source_amount`; `pay_by` is up to when the money is waited for;
    /// `caller_secret` is the one with which the batch was opened, without which the gateway refuses such a batch. What comes
    /// back is the gateway's word: see `deposit_address`.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn deposit_address(
        &self,
        id: &QuoteRequestId,
        amount: Option<Amount>,
        pay_by: Option<Timestamp>,
        caller_secret: Option<&str>,
    ) -> Result<Payment, Error> {
        let mut body = Map::new();
        body.extend(amount.map(|amount| ("amount".to_owned(), json!(amount))));
        let text = |at: Timestamp| json!(at.to_rfc3339_opts(SecondsFormat::Secs, true));
        body.extend(pay_by.map(|at| ("pay_by".to_owned(), text(at))));
        let path = ["v1", "payments", "quote-requests", id.as_str(), "address"];
        let call = self.post(&path, Value::Object(body).to_string())?;
        let call = Call { headers: secret_header(caller_secret)?, ..call };
        Ok(payment(self.persist(&call, Instant::now() + READ_PATIENCE).await?))
    }

    /// A batch as it stands.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn batch(&self, id: &QuoteRequestId) -> Result<Batch, Error> {
        self.read(&self.get(&["v1", "payments", "quote-requests", id.as_str()])?).await
    }

    /// What is to be signed for an order, as the gateway says it.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn prepare(&self, order: &Order) -> Result<Prepared, Error> {
        self.prepare_by(order, None).await
    }

    /// As [`Gateway::prepare`], of this message scheme where one is named.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn prepare_by(&self, order: &Order, scheme: Option<&str>) -> Result<Prepared, Error> {
        self.prepared(order.body()?, scheme).await
    }

    async fn prepared(&self, mut body: Map<String, Value>, scheme: Option<&str>) -> Result<Prepared, Error> {
        if let Some(scheme) = scheme {
            body.insert("message_scheme".to_owned(), scheme.into());
        }
        self.read(&self.post(&["v1", "payments", "prepare"], Value::Object(body).to_string())?).await
    }

    /// What is to be signed for an award, as the gateway says it.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn prepare_award(&self, award: &Award) -> Result<Prepared, Error> {
        self.prepare_award_by(award, None).await
    }

    /// As [`Gateway::prepare_award`], of this message scheme where one is named.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn prepare_award_by(&self, award: &Award, scheme: Option<&str>) -> Result<Prepared, Error> {
        let text = |name: &str, value: &str| (name.to_owned(), Value::from(value));
        let body = Map::from_iter([
            text("version", "1.0"),
            text("request_id", &award.order.request_id),
            text("quote_request_id", award.quote_request_id.as_str()),
            text("quote_id", &award.quote.quote_id),
        ]);
        self.prepared(body, scheme).await
    }

    /// Makes all checks of a submission; nothing is accepted. The answer is the gateway's.
    ///
    /// # Errors
    /// [`Error`]; what the submission would be refused with.
    pub async fn verify(&self, submission: &Submission) -> Result<Value, Error> {
        self.read(&self.post(&["v1", "payments", "verify"], submission.body.clone())?).await
    }

    /// Submits, and holds for the outcome for up to 25 seconds. Until `until` the same bytes are sent again wherever it is not
    /// known whether they were accepted, and wherever the gateway accepts nothing for now.
    ///
    /// # Errors
    /// [`Error`]. Where [`Error::is_unknown`], the payment may exist: submit the same again.
    pub async fn submit(&self, submission: &Submission, until: Instant) -> Result<Payment, Error> {
        self.submit_holding(submission, HOLD, until).await
    }

    /// As [`Gateway::submit`], and holds for the outcome for at most `hold`.
    ///
    /// # Errors
    /// As there.
    pub async fn submit_holding(
        &self,
        submission: &Submission,
        hold: Duration,
        until: Instant,
    ) -> Result<Payment, Error> {
        let call = match &submission.quote_request_id {
            None => self.post(&["v1", "payments"], submission.body.clone())?,
            Some(batch) => {
                let path = ["v1", "payments", "quote-requests", batch.as_str(), "award"];
                self.post(&path, submission.body.clone())?
            }
        };
        let call = Call { headers: prefer_wait(hold), ..call };
        let payment = payment(self.persist(&call, until).await?);
        if payment.payment_id != submission.payment_id {
            return Err(Mismatch::new("payment_id", &submission.payment_id, &payment.payment_id).into());
        }
        Ok(payment)
    }

    /// A payment as it stands.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn status(&self, id: &PaymentId) -> Result<Payment, Error> {
        self.status_since(id, None).await
    }

    /// As [`Gateway::status`], from no less than the answer with this [`Payment::position`] was made from.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn status_since(&self, id: &PaymentId, position: Option<&str>) -> Result<Payment, Error> {
        let mut call = self.get(&["v1", "payments", id.as_str(), "status"])?;
        if let Some(position) = position.and_then(|position| HeaderValue::try_from(position).ok()) {
            call.headers.insert(POSITION, position);
        }
        let until = Instant::now() + READ_PATIENCE;
        Ok(payment(self.persist(&call, until).await?))
    }

    /// Everything that happened to a payment.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn timeline(&self, id: &PaymentId) -> Result<Timeline, Error> {
        self.read(&self.get(&["v1", "payments", id.as_str(), "timeline"])?).await
    }

    /// The payment of an account under a `request_id`.
    ///
    /// # Errors
    /// [`Error`], with `PAYMENT_NOT_FOUND` where there is none.
    pub async fn resolve(&self, account: &Account, request_id: &str) -> Result<Payment, Error> {
        let mut call = self.get(&["v1", "payments", "resolve"])?;
        call.url.query_pairs_mut().append_pair("request_id", request_id).append_pair("account", account.as_str());
        let until = Instant::now() + READ_PATIENCE;
        Ok(payment(self.persist(&call, until).await?))
    }

    /// Reads a payment until it is completed or failed, or until `until`: then the last that was read, which may be pending.
    ///
    /// # Errors
    /// [`Error`], also when nobody answers up to `until`.
    pub async fn wait(&self, id: &PaymentId, until: Instant) -> Result<Payment, Error> {
        let mut payment = self.status(id).await?;
        while !payment.status.is_final() && Instant::now() + POLL < until {
            sleep(POLL).await;
            payment = match self.status_since(id, payment.position.as_deref()).await {
                Ok(payment) => payment,
                // Nothing is concluded from silence as long as there is time.
                Err(error) if error.is_unknown() && Instant::now() < until => continue,
                Err(error) => return Err(error),
            };
        }
        Ok(payment)
    }

    pub(crate) fn get(&self, path: &[&str]) -> Result<Call, Error> {
        self.call(Method::GET, path, None)
    }

    fn post(&self, path: &[&str], body: String) -> Result<Call, Error> {
        self.call(Method::POST, path, Some(body.into()))
    }

    fn call(&self, method: Method, path: &[&str], body: Option<Bytes>) -> Result<Call, Error> {
        let mut url = Url::clone(&self.base);
        let invalid = |()| Error::Invalid(format!("{} has no path", self.base));
        url.path_segments_mut().map_err(invalid)?.pop_if_empty().extend(path);
        Ok(Call { method, url, body, headers: HeaderMap::new() })
    }

    /// A call that changes nothing.
    pub(crate) async fn read<T: DeserializeOwned>(&self, call: &Call) -> Result<T, Error> {
        Ok(self.persist(call, Instant::now() + READ_PATIENCE).await?.value)
    }

    /// Makes the call until there is an answer that another try does not change.
    async fn persist<T: DeserializeOwned>(&self, call: &Call, until: Instant) -> Result<Answered<T>, Error> {
        let mut backoff = Backoff::default();
        loop {
            let error = match self.transport.once(call).await {
                Ok(answered) => return Ok(answered),
                Err(error) => error,
            };
            let again = error.pause(&mut backoff).map(|pause| Instant::now() + pause);
            match again.filter(|again| *again < until) {
                Some(again) => {
                    tracing::debug!(url = %call.url, %error, "asked again");
                    sleep_until(again).await;
                }
                None => return Err(error),
            }
        }
    }
}

fn secret_header(secret: Option<&str>) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    let Some(secret) = secret else { return Ok(headers) };
    let is_legal = SECRET_CHARS.contains(&secret.len()) && secret.bytes().all(|byte| byte.is_ascii_graphic());
    let value = HeaderValue::try_from(secret).ok().filter(|_| is_legal);
    let mut value =
        value.ok_or_else(|| Error::Invalid("a caller secret has 16 to 128 visible ASCII characters".to_owned()))?;
    value.set_sensitive(true);
    headers.insert(CALLER_SECRET, value);
    Ok(headers)
}

fn payment(answered: Answered<Payment>) -> Payment {
    Payment { position: answered.position, ..answered.value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_is_named_by_its_host_alone() {
        assert!(Gateway::new("https://pay.example/base").is_ok());
        for url in
            ["https://pay.example@evil.example", "https://pay.example:443@evil.example/", "https://:x@evil.example"]
        {
            let error = Gateway::new(url).unwrap_err().to_string();
            assert!(error.contains("at evil.example must have neither user nor password"), "{url}: {error}");
        }
        for url in ["ftp://pay.example", "pay.example", "https://pay.example/?a=b", "https://pay.example/#a"] {
            assert!(matches!(Gateway::new(url), Err(Error::Invalid(_))), "{url}");
        }
    }

    #[cfg(feature = "solana")]
    #[test]
    fn an_award_is_of_an_offer_for_the_order() {
        use ed25519_dalek::SigningKey;
        use events::{Did, Hash32, OwnedAsset, quote::Quote, time::from_unix_seconds};

        use crate::pins::tests::{NOW, account, order};

        let asked = order(account(9).as_str());
        let key = SigningKey::from_bytes(&[7; 32]);
        let at = |seconds| from_unix_seconds(seconds).unwrap();
        let good = Quote {
            kind: Quote::kind(),
            auction_id: "qrq_x".to_owned(),
            terms_hash: asked.terms().hash(),
            settler: Did::from_ed25519(&key.verifying_key()),
            source_chain: ChainId::evm(1),
            source_amount: "105".parse().unwrap(),
            payout_account: account(4),
            escrow_contract: account(1),
            destination: asked.destination[0].clone(),
            fulfillment_amount: asked.fulfillment_amount,
            delivery_account: account(4),
            fulfillment_proxy: account(5),
            fulfill_by: at(NOW + 200),
            valid_until: at(NOW + 60),
        };
        let id = QuoteRequestId::derive("eip155:0x1", "order");
        let batch = json!({
            "quote_request_id": id,
            "status": "ready",
            "source": asked.source,
            "destination": asked.destination,
            "fulfillment_amount": asked.fulfillment_amount,
            "max_source_amount": asked.max_source_amount,
            "quote_deadline": asked.quote_deadline,
            "fulfillment_deadline": asked.fulfillment_deadline,
        });
        let batch: Batch = serde_json::from_value(batch).unwrap();
        let taken = |quote: Quote| {
            let document = quote.sign(&key, at(NOW)).unwrap().document().to_owned();
            let fulfillment_quote = serde_json::from_str(&document).unwrap();
            Award::new(&asked, &batch, &OfferedQuote { quote_id: "quo_x".to_owned(), fulfillment_quote }, "mine")
        };
        assert_eq!(taken(good.clone()).unwrap().order.request_id, "mine");
        type Change = fn(&mut Quote);
        let changes: [(&str, Change); 5] = [
            ("termsHash", |quote| quote.terms_hash = Hash32([1; 32])),
            ("sourceChain", |quote| quote.source_chain = ChainId::evm(10)),
            ("fulfillmentAmount", |quote| quote.fulfillment_amount = "99".parse().unwrap()),
            ("destination", |quote| {
                let asset = quote.destination.asset().clone();
                quote.destination = OwnedAsset::new(asset, account(8).as_str()).unwrap();
            }),
            ("price", |quote| quote.source_amount = "111".parse().unwrap()),
        ];
        for (field, change) in changes {
            let mut other = good.clone();
            change(&mut other);
            let refused = taken(other);
            assert!(
                matches!(&refused, Err(Error::Mismatch(wrong)) if wrong.field.ends_with(field)),
                "{field}: {refused:?}"
            );
        }
    }
}
