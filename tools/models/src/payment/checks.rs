//! The checks: which bounds are visited by the ordinary tests, which by `make models`, and which property catches which broken
//! variant.

use super::{
    config::{Conduct, Config, Scheme, Verifiers, Windows},
    properties::names,
    variant::Variant,
};

/// One reservation after the other, and everybody answers.
const PLAIN: Config = Config { refusals: false, silent_verifiers: false, bidders: [&[3], &[2]], ..Config::CALM };

/// What the ordinary tests visit.
pub fn ordinary() -> Vec<Config> {
    vec![
        // Every way in which parties may do their part or not, and a gateway that dies anywhere.
        Config { name: "payment-calm", ..Config::CALM },
        // Every way to an end, whoever comes first.
        Config { name: "payment-ends", crashes: false, ..Config::CALM },
        // Winners that refuse, and the quotes that follow theirs.
        Config {
            name: "payment-next-quote",
            windows: Windows::LONG,
            refusals: true,
            bidders: [&[3], &[]],
            reassignments: 0,
            ..PLAIN
        },
        // A set of verifiers of which one lies.
        Config { name: "payment-set", verifiers: Verifiers::TwoOfThree, silent_verifiers: true, ..PLAIN },
        // Two gateways at once, and appends whose outcome is not known.
        Config {
            name: "payment-two-gateways",
            windows: Windows::TINY,
            gateways: 2,
            unknown_appends: true,
            bidders: [&[1], &[]],
            reassignments: 0,
            ..PLAIN
        },
        // Blocks that are taken back, and settlers that deliver before the escrow is settled.
        Config { name: "payment-reorganised", reorganisations: 1, conduct: Conduct::Hasty, ..PLAIN },
        // Deposits that are tried again, and a payer that spends its money.
        Config {
            name: "payment-deposits",
            windows: Windows::LONG,
            nonces_lost: 1,
            payer_spends: true,
            reassignments: 0,
            bidders: [&[1], &[]],
            ..PLAIN
        },
        // Strangers who bring whatever they were shown.
        Config {
            name: "payment-strangers",
            windows: Windows::TINY,
            strangers: true,
            impostor: true,
            reassignments: 0,
            bidders: [&[1], &[]],
            ..PLAIN
        },
        // The payer's own transaction deposits, whoever sends it.
        Config {
            name: "payment-own-transaction",
            windows: Windows::RESERVED,
            scheme: Scheme::OwnTransaction,
            refusals: true,
            bidders: [&[0, 3], &[]],
            reassignments: 0,
            ..PLAIN
        },
        // A source chain whose clock is behind the destination's.
        Config { name: "payment-late-source", lags: [1, 0], windows: late(Windows::SHORT), ..PLAIN },
    ]
}

/// What `make models` visits besides.
pub fn large() -> Vec<Config> {
    vec![
        Config { name: "payment-set-and-refusals", verifiers: Verifiers::TwoOfThree, ..Config::CALM },
        Config {
            name: "payment-own-transaction-among-strangers",
            windows: Windows::RESERVED,
            scheme: Scheme::OwnTransaction,
            refusals: true,
            strangers: true,
            payer_spends: true,
            bidders: [&[0, 3], &[]],
            reassignments: 0,
            ..PLAIN
        },
        Config {
            name: "payment-next-quote-among-strangers",
            windows: Windows::LONG,
            refusals: true,
            bidders: [&[3], &[]],
            reassignments: 0,
            strangers: true,
            ..PLAIN
        },
        Config { name: "payment-two-gateways-reassigned", gateways: 2, unknown_appends: true, ..PLAIN },
        Config { name: "payment-ends-among-strangers", crashes: false, strangers: true, ..PLAIN },
        Config { name: "payment-strangers-hasty", strangers: true, conduct: Conduct::Hasty, ..PLAIN },
        Config {
            name: "payment-reorganised-strangers",
            strangers: true,
            reorganisations: 1,
            conduct: Conduct::Hasty,
            ..PLAIN
        },
        Config {
            name: "payment-reorganised-twice",
            reorganisations: 2,
            conduct: Conduct::Hasty,
            provisional: true,
            ..PLAIN
        },
        Config { name: "payment-reckless", conduct: Conduct::Reckless, impostor: true, ..PLAIN },
        Config {
            name: "payment-deposits-among-strangers",
            windows: Windows::LONG,
            nonces_lost: 1,
            payer_spends: true,
            strangers: true,
            reassignments: 0,
            bidders: [&[1], &[]],
            ..PLAIN
        },
        Config { name: "payment-nonces", nonces_lost: 2, ..PLAIN },
        Config {
            name: "payment-late-destination",
            lags: [0, 1],
            windows: late(Windows::WIDE),
            strangers: true,
            ..PLAIN
        },
    ]
}

/// The same windows where a clock is a tick behind.
const fn late(windows: Windows) -> Windows {
    Windows { end: windows.end + 1, ..windows }
}

/// Broken variants under bounds in which they matter, each with the property that catches it.
pub fn broken() -> Vec<(Config, &'static str)> {
    let strangers = Config { strangers: true, ..PLAIN };
    let long = Config { windows: Windows::LONG, nonces_lost: 1, payer_spends: true, ..strangers.clone() };
    let reorganised = Config { reorganisations: 1, ..PLAIN };
    let own = Config {
        windows: Windows { promises: [3, 3], fulfillment: 3, ..Windows::RESERVED },
        scheme: Scheme::OwnTransaction,
        refusals: true,
        bidders: [&[1], &[]],
        reassignments: 0,
        ..strangers.clone()
    };
    let cases = [
        (PLAIN.with(Variant::RefundBeforeReleaseMargin), names::EXCLUSIVE),
        (PLAIN.with(Variant::ReleaseWithoutEnd), names::EXCLUSIVE),
        (strangers.clone().with(Variant::DepositTwice), names::ONE_DEPOSIT),
        (strangers.clone().with(Variant::NonDeliveryWithoutQuote), names::DELIVERED_KEPT),
        (strangers.clone().with(Variant::NonDeliveryByClock), names::DELIVERED_KEPT),
        (reorganised.clone().with(Variant::DeliveryNotSettled), names::PAID_DELIVERED),
        (Config { impostor: true, ..PLAIN }.with(Variant::ImpostorCounts), names::PAID_DELIVERED),
        (
            Config { verifiers: Verifiers::TwoOfThree, ..strangers.clone() }.with(Variant::ThresholdOfOne),
            names::PAID_DELIVERED,
        ),
        (reorganised.with(Variant::EscrowNotSettled), names::JOURNAL_TRUE),
        (
            Config { lags: [0, 1], windows: late(Windows::SHORT), ..PLAIN }.with(Variant::FailedBeforeEvidence),
            names::FAILURE_TRUE,
        ),
        (PLAIN.with(Variant::TimeOutIsFailure), names::NOTHING_STRANDED),
        (long.with(Variant::AdmissionNotWaitedOut), names::NOTHING_STRANDED),
        (PLAIN.with(Variant::BroadcastBeforeJournal), names::JOURNALED),
        (Config { unknown_appends: true, ..PLAIN }.with(Variant::UnknownIsStored), names::JOURNALED),
        (PLAIN.with(Variant::RefundLeftToOthers), names::RESTS),
        (own.clone().with(Variant::ReserveWithoutEnd), names::JOURNAL_TRUE),
        (own.with(Variant::NotWatched), names::NOTHING_STRANDED),
        (strangers.with(Variant::AnswerNotFinal), names::RESTS),
    ];
    cases.to_vec()
}
