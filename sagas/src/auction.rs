//! The auction judge: judges bids and picks the winner. Pure: every replica that sees the same bids picks the same quote.

use std::collections::{BTreeMap, BTreeSet};

use events::{
    Amount, Did, Hash32, Payload, SettlerToken,
    event::{CollectedDocument, Decline, DroppedBid, PassedOver, QuoteReceived, Submitted},
    identity::HeldPolicy,
    is_reason, mutant,
    quote::{Quote, SignedQuote, auction_of},
    quote_request::QuoteRequestOpened,
    time::{Timestamp, unix_seconds},
};

use crate::ports::{Answer, Bid, Gathered, RequestForQuotes};

/// How long a quote has to be valid still when it is chosen, in seconds: until the winner has its award, and for clocks that
/// differ. How long beyond that is the settler's own to say.
pub const AWARD_MARGIN_SECONDS: u64 = 2;
/// Reason code that stands in for a decline whose own is not a code.
const REASON_UNSPECIFIED: &str = "UNSPECIFIED";

/// Most bytes that the quotes of one auction take in its commit, of which the journal limits the size. The best quotes
/// are kept, some hundreds of usual size; what does not fit is on record as dropped.
pub const DOCUMENTS_BYTES_MAX: usize = 384 * 1024;
/// Most quotes that are kept to be awarded in the winner's place.
pub const ALTERNATES_MAX: usize = 3;
/// Why a quote that does not fit is dropped.
pub(crate) const SURPLUS: &str = "more and better quotes came than can be kept";

/// The outcome of an auction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// Settlers that were asked.
    pub addressed: Vec<Did>,
    /// Quotes that count.
    pub quotes: Vec<QuoteReceived>,
    /// Settlers that declined.
    pub declines: Vec<Decline>,
    /// Bids that do not count, each with the rule it broke.
    pub dropped: Vec<DroppedBid>,
    /// The required policies that settlers held.
    pub held_policies: Vec<HeldPolicy>,
    /// Settlers that were passed over.
    pub passed_over: Vec<PassedOver>,
    /// The quotes that follow the winner's, where they may be awarded in its place.
    pub alternates: Vec<CollectedDocument>,
    /// The best quote, unless the payer's selector chooses.
    pub winner: Option<SignedQuote>,
    /// What the payer's selector is to choose from, `quotes` with their documents; empty where the gateway chooses.
    pub offered: Vec<SignedQuote>,
}

/// Bids told apart, for a payment or for a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sifted {
    /// Settlers that were asked.
    pub addressed: Vec<Did>,
    /// Quotes that count, best first.
    pub quotes: Vec<SignedQuote>,
    /// Settlers that declined.
    pub declines: Vec<Decline>,
    /// Bids that do not count, each with the rule it broke.
    pub dropped: Vec<DroppedBid>,
    /// The required policies that settlers held.
    pub held_policies: Vec<HeldPolicy>,
    /// Settlers that were passed over.
    pub passed_over: Vec<PassedOver>,
}

/// The request that is sent to settlers for a payment, or was sent for the batch that it was awarded from.
pub fn request_for_quotes(submitted: &Submitted) -> RequestForQuotes {
    let auction_id = match &submitted.collected_quote {
        Some(collected) => collected.quote_request_id.to_string(),
        None => auction_of(&submitted.payment_id),
    };
    RequestForQuotes {
        auction_id,
        payment_id: Some(submitted.payment_id.clone()),
        terms: submitted.terms.clone(),
        terms_hash: submitted.terms_hash,
        escrow: submitted.escrow.clone(),
        fulfillment_proxies: submitted.fulfillment_proxies.clone(),
        quote_deadline: submitted.quote_deadline,
        fulfillment_deadline: submitted.fulfillment_deadline,
        whitelist: submitted.whitelist.clone(),
        blacklist: submitted.blacklist.clone(),
        required_policies: submitted.required_policies.clone(),
        // A batch was sent without any, whatever its award came with.
        payloads: match &submitted.collected_quote {
            Some(_) => Vec::new(),
            None => Payload::of_request(&submitted.request),
        },
        escrowed: None,
    }
}

/// The request that is sent to settlers for a batch.
pub fn request_for_batch(opened: &QuoteRequestOpened) -> RequestForQuotes {
    RequestForQuotes {
        auction_id: opened.quote_request_id.to_string(),
        payment_id: None,
        terms: opened.terms.clone(),
        terms_hash: opened.terms_hash,
        escrow: opened.escrow.clone(),
        fulfillment_proxies: opened.fulfillment_proxies.clone(),
        quote_deadline: opened.quote_deadline,
        fulfillment_deadline: opened.fulfillment_deadline,
        whitelist: opened.whitelist.clone(),
        blacklist: opened.blacklist.clone(),
        required_policies: opened.required_policies.clone(),
        payloads: Vec::new(),
        escrowed: None,
    }
}

/// Judges every bid of a payment's first auction at `at` and picks the winner, the best of the quotes as [`sift`] sorts them.
pub fn judge(submitted: &Submitted, gathered: Gathered, at: Timestamp) -> Judgement {
    judge_for(submitted, &request_for_quotes(submitted), gathered, at)
}

/// As [`judge`], of the auction that `request` was sent for.
pub fn judge_for(submitted: &Submitted, request: &RequestForQuotes, gathered: Gathered, at: Timestamp) -> Judgement {
    let sifted = sift(request, Some(submitted.authorization.permitted()), gathered, at);
    let Sifted { addressed, quotes: signed, declines, mut dropped, held_policies, passed_over } = sifted;
    let Some(selector) = &submitted.selector else {
        let quotes = signed.iter().map(received).collect();
        let mut signed = signed.into_iter();
        let winner = signed.next();
        let alternates = signed.take(if takes_any_quote(submitted) { ALTERNATES_MAX } else { 0 });
        let alternates = alternates.map(|signed| collected(&signed)).collect();
        let offered = Vec::new();
        return Judgement {
            addressed,
            quotes,
            declines,
            dropped,
            held_policies,
            passed_over,
            alternates,
            winner,
            offered,
        };
    };
    let lasts = |signed: &SignedQuote| signed.quote().valid_until >= selector.answer_by;
    let (mut offered, lapsing): (Vec<_>, Vec<_>) = signed.into_iter().partition(lasts);
    let surplus = split_surplus(&mut offered);
    let lapsing = lapsing.iter().map(|signed| (signed, "quote lapses before the selector has to answer"));
    let surplus = surplus.iter().map(|signed| (signed, SURPLUS));
    dropped.extend(lapsing.chain(surplus).map(|(signed, reason)| DroppedBid {
        settler: signed.quote().settler.token().to_string(),
        reason: reason.to_owned(),
    }));
    let quotes = offered.iter().map(received).collect();
    let (alternates, winner) = (Vec::new(), None);
    Judgement { addressed, quotes, declines, dropped, held_policies, passed_over, alternates, winner, offered }
}

/// Whether the payer's authorization leaves open which quote is awarded: neither the payer nor its selector chose one.
pub fn takes_any_quote(submitted: &Submitted) -> bool {
    let signed_for = submitted.authorization.quote_hash();
    submitted.collected_quote.is_none()
        && submitted.selector.is_none()
        && signed_for.is_none_or(|quote| quote == Hash32::ZERO)
}

/// What is kept of a quote that may be awarded later.
pub(crate) fn collected(signed: &SignedQuote) -> CollectedDocument {
    CollectedDocument {
        quote_id: signed.id(),
        quote_hash: signed.hash(),
        valid_until: signed.quote().valid_until,
        document: signed.document().to_owned(),
    }
}

/// Takes what does not fit into one commit off the end of `quotes`, which come best first.
pub(crate) fn split_surplus(quotes: &mut Vec<SignedQuote>) -> Vec<SignedQuote> {
    let mut bytes = 0usize;
    let fitting = quotes.iter().take_while(|signed| {
        bytes = bytes.saturating_add(stored_bytes(signed.document()));
        bytes <= DOCUMENTS_BYTES_MAX
    });
    let fitting = fitting.count();
    quotes.split_off(fitting)
}

/// What `document` takes as a string in JSON.
fn stored_bytes(document: &str) -> usize {
    // Writing a string as JSON cannot fail.
    serde_json::to_string(document).map_or(usize::MAX, |text| text.len())
}

/// What is on record of an eligible quote.
pub fn received(signed: &SignedQuote) -> QuoteReceived {
    let quote = signed.quote();
    QuoteReceived {
        settler: quote.settler.clone(),
        quote_hash: signed.hash(),
        source_amount: quote.source_amount,
        fulfill_by: quote.fulfill_by,
    }
}

/// Judges every bid against the request, and `permitted`, the most that the payer's signature lets the escrow draw,
/// where there is one yet. A quote counts that can still be awarded at `at`. Quotes are sorted by lowest source amount, then
/// earliest promised delivery, then lowest quote hash (design: selection is a pure function).
///
/// A settler's most recent answer in time is the one that counts.
pub fn sift(request: &RequestForQuotes, permitted: Option<Amount>, gathered: Gathered, at: Timestamp) -> Sifted {
    let by_token: BTreeMap<SettlerToken, &Did> = gathered.addressed.iter().map(|did| (did.token(), did)).collect();
    let mut dropped = Vec::new();
    let mut latest: BTreeMap<SettlerToken, Bid> = BTreeMap::new();
    for bid in gathered.bids {
        let broken = if !by_token.contains_key(&bid.settler) {
            Some("was not asked")
        } else if bid.received_at > request.quote_deadline {
            Some("came after the quote deadline")
        } else {
            None
        };
        match broken {
            Some(reason) => dropped.push(DroppedBid { settler: bid.settler.to_string(), reason: reason.to_owned() }),
            None => {
                latest.insert(bid.settler.clone(), bid);
            }
        }
    }
    let (mut quotes, mut declines) = (Vec::new(), Vec::new());
    for (token, bid) in latest {
        let settler = by_token[&token];
        match bid.answer {
            Answer::Decline(reason) => {
                declines.push(Decline { settler: settler.clone(), reason: reason_code(&reason) });
            }
            Answer::Malformed(reason) => dropped.push(DroppedBid { settler: token.to_string(), reason }),
            Answer::Quote(document) => match check_quote(request, permitted, settler, &document)
                .and_then(|signed| check_policies(request, settler, &gathered.held).map(|()| signed))
                .and_then(|signed| check_validity(signed.quote(), at).map(|()| signed))
            {
                Ok(signed) => quotes.push(signed),
                Err(reason) => dropped.push(DroppedBid { settler: token.to_string(), reason }),
            },
        }
    }
    quotes.sort_by_key(|signed| (signed.quote().source_amount, signed.quote().fulfill_by, signed.hash()));
    let Gathered { addressed, held: held_policies, passed_over, .. } = gathered;
    Sifted { addressed, quotes, declines, dropped, held_policies, passed_over }
}

/// Checks that a settler held every required policy by a credential, whose time has not come before the quotes are in.
fn check_policies(request: &RequestForQuotes, settler: &Did, held: &[HeldPolicy]) -> Result<(), String> {
    let holds = |policy: &str| {
        held.iter().any(|held| {
            held.settler == *settler
                && held.policy == policy
                && held.expires.is_none_or(|expires| expires > request.quote_deadline)
        })
    };
    match request.required_policies.iter().find(|policy| !holds(policy)) {
        Some(policy) => Err(format!("settler has no credential for the required policy {policy}")),
        None => Ok(()),
    }
}

/// Checks that a quote can still be awarded at `at`.
fn check_validity(quote: &Quote, at: Timestamp) -> Result<(), String> {
    if !lasts(quote.valid_until, at) {
        return Err("quote lapses before it can be awarded".to_owned());
    }
    if lasts(quote.fulfill_by, at) { Ok(()) } else { Err("promised delivery is before it can be awarded".to_owned()) }
}

/// The first of `alternates` that can be awarded at `at`; `quotes` are those on record.
pub fn next_alternate<'a>(
    alternates: &'a [CollectedDocument],
    quotes: &[QuoteReceived],
    at: Timestamp,
) -> Option<&'a CollectedDocument> {
    alternates.iter().find(|alternate| alternate_ends(alternate, quotes).is_some_and(|ends| lasts(ends, at)))
}

/// When an alternate is over: its validity, or its promise.
pub(crate) fn alternate_ends(alternate: &CollectedDocument, quotes: &[QuoteReceived]) -> Option<Timestamp> {
    let received = quotes.iter().find(|quote| quote.quote_hash == alternate.quote_hash)?;
    Some(alternate.valid_until.min(received.fulfill_by))
}

/// Whether a quote that is valid until `valid_until` can still be awarded at `at`.
pub fn lasts(valid_until: Timestamp, at: Timestamp) -> bool {
    unix_seconds(valid_until) >= unix_seconds(at).saturating_add(AWARD_MARGIN_SECONDS)
}

/// Checks one quote against the request, and `permitted` where the payer has signed already (design: a quote is checked
/// before it counts).
///
/// # Errors
/// The rule that the quote breaks, for auditors.
pub fn check_quote(
    request: &RequestForQuotes,
    permitted: Option<Amount>,
    settler: &Did,
    document: &str,
) -> Result<SignedQuote, String> {
    let signed = SignedQuote::parse(document).map_err(|error| error.to_string())?;
    check_content(request, permitted, settler, signed.quote())?;
    // No escrow reserves for itself, and a payer deposit would wait there for nobody. Asked of new bids alone: what was
    // awarded before this rule stays readable.
    if signed.quote().payout_account == request.escrow.contract {
        return Err("payout account is the escrow".to_owned());
    }
    Ok(signed)
}

/// Checks the content of a quote whose signature holds, as [`check_quote`] does.
///
/// # Errors
/// The rule that the quote breaks, for auditors.
pub fn check_content(
    request: &RequestForQuotes,
    permitted: Option<Amount>,
    settler: &Did,
    quote: &Quote,
) -> Result<(), String> {
    let terms = &request.terms;
    let require = |holds: bool, rule: &str| if holds { Ok(()) } else { Err(rule.to_owned()) };

    require(quote.settler == *settler, "quote is signed by another settler than the one that was asked")?;
    require(quote.auction_id == request.auction_id, "quote is for another auction")?;
    require(quote.terms_hash == request.terms_hash, "quote is for other terms")?;
    require(!request.blacklist.contains(settler), "settler is on the blacklist")?;
    require(request.whitelist.is_empty() || request.whitelist.contains(settler), "settler is not on the whitelist")?;

    let source = terms.source.asset().chain();
    require(quote.source_chain == *source, "source chain differs")?;
    let permitted = permitted.is_none_or(|cap| quote.source_amount <= cap);
    require(permitted || mutant!("cap-not-compared"), "source amount exceeds what the payer permitted")?;
    let within = terms.max_source_amount.is_none_or(|max| quote.source_amount <= max);
    require(within || mutant!("cap-not-compared"), "source amount exceeds max_source_amount")?;
    let covered = request.escrowed.is_none_or(|escrowed| quote.source_amount <= escrowed.amount);
    require(covered || mutant!("escrowed-cap-not-compared"), "source amount exceeds what is in escrow")?;
    let source_family = terms.source.family();
    let escrow = &quote.escrow_contract;
    let is_planned = escrow.family() == source_family && *escrow == request.escrow.contract;
    require(is_planned, "escrow contract differs")?;
    require(quote.payout_account.family() == source_family, "payout account is not valid")?;

    let index = terms.destination().iter().position(|destination| *destination == quote.destination);
    let Some(proxy) = index.and_then(|index| request.fulfillment_proxies.get(index)) else {
        return Err("destination is none of the payer's".to_owned());
    };
    let family = quote.destination.family();
    let is_planned = proxy.family() == family && quote.fulfillment_proxy == *proxy;
    require(is_planned, "fulfillment proxy differs")?;
    require(quote.delivery_account.family() == family, "delivery account is not valid")?;
    require(quote.fulfillment_amount == terms.fulfillment_amount, "fulfillment amount is not the exact amount")?;

    let fulfill_by = unix_seconds(quote.fulfill_by);
    let in_time = fulfill_by <= request.escrow.fulfillment_deadline;
    require(in_time, "promised delivery is after the fulfillment deadline")?;
    require(fulfill_by > unix_seconds(request.quote_deadline), "promised delivery is before the auction's end")
}

/// A reason code as it may be shown to clients: free-form text of a settler is never relayed (spec 2.11).
pub fn reason_code(reason: &str) -> String {
    if is_reason(reason) { reason.to_owned() } else { REASON_UNSPECIFIED.to_owned() }
}

/// Settlers that answered, among those that were asked; the window may close early when all have.
pub fn answered(addressed: &[Did], bids: &[Bid]) -> usize {
    let asked: BTreeSet<SettlerToken> = addressed.iter().map(Did::token).collect();
    bids.iter().map(|bid| &bid.settler).filter(|token| asked.contains(*token)).collect::<BTreeSet<_>>().len()
}
