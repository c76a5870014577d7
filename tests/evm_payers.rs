//! `examples/evm`: payers whose only tools are viem or eth-account and the HTTP API, and who believe nobody.

use std::{process::Output, time::Duration};

use alloy::{
    primitives::{U256, keccak256},
    signers::local::PrivateKeySigner,
};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::process::Command;

use devkit::tools;
use devnet::{
    keys::Role,
    payer::{Payer, PaymentSpec},
};

use crate::support::{
    example_payers::{self, DEFAULTS, FALSE_DEFAULTS, pins, wrap_everything},
    tampering_proxy::{Tampering, TamperingProxy, member, retype},
    *,
};

/// What a payer has: more than a payment may cost, so that more could be taken.
const TOKENS: u64 = 100_000_000;
const PREPARE: &str = "/v1/payments/prepare";

/// One of the two programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Program {
    JavaScript,
    Python,
}

impl Program {
    fn command(self) -> Command {
        let (program, script) = match self {
            Self::JavaScript => ("node", "pay.mjs"),
            Self::Python => ("python3", "pay.py"),
        };
        let mut command = Command::new(program);
        command.arg(tools::root().join("examples/evm").join(script));
        command.env("PYTHONPATH", tools::root().join(".tools/settler")).env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    /// Pays for an order, through the gateway and the node at these addresses, and believes what the gateway names.
    async fn pay(self, gateway: &str, node: &str, key: &PrivateKeySigner, order: &Value) -> Result<Output> {
        example_payers::pay(self.command(), gateway, node, &key.to_bytes().to_string(), order).await
    }

    /// The same with pins.
    async fn pay_pinned(
        self,
        world: &World,
        [gateway, node]: [&str; 2],
        key: &PrivateKeySigner,
        order: &Value,
    ) -> Result<Output> {
        let mut command = self.command();
        command.envs(pins(&world.network.source.contracts.escrow, Role::account));
        example_payers::pay(command, gateway, node, &key.to_bytes().to_string(), order).await
    }
}

/// What the node at a payer's side might say, and what the payer answers before it has sent anything.
const FALSE_NODES: [(Tampering, &str); 4] = [
    (
        Tampering::Call("eth_maxPriorityFeePerGas", 0, |told| {
            *member(told, "/result")? = json!("0x38d7ea4c68000");
            Ok(())
        }),
        "FEE_WEI_MAX is 10000000000000000",
    ),
    (
        Tampering::Call("eth_getBlockByNumber", 0, |told| {
            *member(told, "/result/baseFeePerGas")? = json!("0x38d7ea4c68000");
            Ok(())
        }),
        "FEE_WEI_MAX is 10000000000000000",
    ),
    (
        Tampering::Call("eth_estimateGas", 0, |told| {
            *member(told, "/result")? = json!("0x38d7ea4c68000");
            Ok(())
        }),
        "FEE_WEI_MAX is 10000000000000000",
    ),
    (
        Tampering::Call("eth_estimateGas", 0, |told| {
            *member(told, "/result")? = json!("-0x38d7ea4c68000");
            Ok(())
        }),
        "-0x38d7ea4c68000",
    ),
];

/// Another chain's number, once the payer has seen that the node is of its own.
const ANOTHER_CHAIN: Tampering = Tampering::Call("eth_chainId", 1, |told| {
    *member(told, "/result")? = json!("0x1");
    Ok(())
});

/// What somebody who cannot be trusted might say, and what a payer answers. Of what is asked otherwise, the gateway prepares
/// what is consistent and not the payer's.
const TAMPERINGS: [(Tampering, &str); 11] = [
    (
        Tampering::Request(PREPARE, |order| {
            *member(order, "/destination/0/account")? = Role::Settler(1).account().into();
            Ok(())
        }),
        "something else",
    ),
    (
        Tampering::Request(PREPARE, |order| {
            order["fulfillment_amount"] = "1".into();
            Ok(())
        }),
        "something else",
    ),
    (
        Tampering::Request(PREPARE, |order| {
            order["max_source_amount"] = TOKENS.to_string().into();
            Ok(())
        }),
        "something else",
    ),
    (
        Tampering::Request(PREPARE, |order| {
            order["request_id"] = "another".into();
            Ok(())
        }),
        "another id",
    ),
    (
        Tampering::Response(PREPARE, |prepared| retype(prepared, "/message/witness/refundAfter", "99999999999")),
        "the refund would come too late",
    ),
    (
        Tampering::Response(PREPARE, |prepared| retype(prepared, "/message/witness/reserveDeadline", "99999999999")),
        "the deposit would be taken too late",
    ),
    (
        Tampering::Response(PREPARE, |prepared| retype(prepared, "/message/deadline", "99999999999")),
        "the signature would hold for too long",
    ),
    (
        Tampering::Response(PREPARE, |prepared| {
            *member(prepared, "/signed_messages/0/message")? = json!(keccak256("another message"));
            Ok(())
        }),
        "something else",
    ),
    (
        Tampering::Response(DEFAULTS, |defaults| {
            defaults["permit2"] = Role::Settler(1).account().into();
            Ok(())
        }),
        "another Permit2",
    ),
    (
        Tampering::Response(DEFAULTS, |defaults| {
            defaults["releaser"] = Role::Settler(1).account().into();
            Ok(())
        }),
        "verifiers that the gateway shows are",
    ),
    (
        Tampering::Response(DEFAULTS, |defaults| {
            let another = Role::Settler(1).account();
            defaults["releaser"] = another.clone().into();
            let members = json!([{"account": another, "endpoint": "https://verifier.example"}]);
            defaults["fulfillment_verifier"]["account"] = another.into();
            defaults["fulfillment_verifier"]["members"] = members;
            Ok(())
        }),
        "verifiers that the gateway shows are",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn payers_sign_nothing_that_they_did_not_ask_for_and_pay_once_whatever_answer_is_lost() -> Result<()> {
    let world = World::start(1).await?;
    let chain = &world.network.source;
    let node = chain.anvil.url();
    for program in [Program::JavaScript, Program::Python] {
        let key = PrivateKeySigner::from_bytes(&keccak256(format!("a payer in {program:?}")))?;
        let (payer, account) = (Payer::new(key.clone())?, key.address().to_string());
        chain.dev.fund(&account, U256::from(10_u64.pow(18))).await?;
        chain.dev.mint(&chain.token, &account, U256::from(TOKENS)).await?;
        let order = |name: &str| {
            let spec = world.spec(&format!("{program:?}-{name}"))?;
            // On a busy machine a program takes its time to start.
            Ok::<_, anyhow::Error>(payer.quote_request(&PaymentSpec { quote_window: Duration::from_secs(60), ..spec }))
        };
        // Nothing is sent while node and gateway are not what they should be, not even an allowance.
        for (tampering, answer) in FALSE_NODES {
            let proxy = TamperingProxy::start(node.clone(), tampering).await?;
            let output = program.pay_pinned(&world, [&world.base(0), &proxy.url], &key, &order("node")?).await?;
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.code() == Some(1) && said.contains(answer), "{program:?}, {answer}: {output:?}");
            assert_eq!(proxy.submissions(), 0, "{program:?}, {answer}: {said}");
        }
        let watched = TamperingProxy::start(node.clone(), Tampering::NONE).await?;
        for (change, answer) in FALSE_DEFAULTS {
            let proxy = TamperingProxy::start(world.base(0), Tampering::Response(DEFAULTS, change)).await?;
            let output = program.pay_pinned(&world, [&proxy.url, &watched.url], &key, &order("defaults")?).await?;
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.code() == Some(1) && said.contains(answer), "{program:?}, {answer}: {output:?}");
            assert_eq!((proxy.submissions(), watched.submissions()), (0, 0), "{program:?}, {answer}: {said}");
        }
        for (number, (tampering, answer)) in TAMPERINGS.into_iter().enumerate() {
            let proxy = TamperingProxy::start(world.base(0), tampering).await?;
            let output = program.pay(&proxy.url, &node, &key, &order(&format!("tampering-{number}"))?).await?;
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.code() == Some(1) && said.contains(answer),
                "{program:?}, tampering {number}, {answer}: {output:?}"
            );
            assert_eq!(proxy.submissions(), 0, "{program:?}, tampering {number}: {said}");
        }
        let other = world.network.destination.anvil.url();
        let elsewhere = program.pay(&world.base(0), &other, &key, &order("elsewhere")?).await?;
        assert_eq!(elsewhere.status.code(), Some(1), "{elsewhere:?}");
        ensure!(String::from_utf8_lossy(&elsewhere.stderr).contains("is not of eip155:31337"), "{elsewhere:?}");

        // The gateway has it, and the payer is told otherwise: it asks for the same again, and it is one payment.
        let loser = TamperingProxy::start(world.base(0), Tampering::LostResponse).await?;
        let output = program.pay(&loser.url, &node, &key, &order("lost")?).await?;
        ensure!(output.status.success(), "{output:?}");
        assert_eq!(loser.submissions(), 2);
        let trusting = String::from_utf8_lossy(&output.stderr);
        ensure!(trusting.contains("nothing but the gateway's word is behind ESCROW=0x"), "{output:?}");
        let said: Value = serde_json::from_slice(&output.stdout)?;
        assert_eq!((&said["status"], &said["request_id"]), (&json!("completed"), &order("lost")?["request_id"]));
        let payment_id = said["payment_id"].as_str().context("payment_id")?.parse()?;
        world.until(&payment_id, "EscrowReleased").await?;
        world.settled_once(&[payment_id]).await?;
        assert_eq!(chain.dev.token_balance(&chain.token, &account).await?, U256::from(TOKENS - PRICE));

        // What is left of an allowance is too little for the next, so it is taken back and given anew. Its transactions are of
        // its own chain whatever the node says by then, and a token takes coins by the order's word alone.
        let elsewhere = TamperingProxy::start(node.clone(), ANOTHER_CHAIN).await?;
        let wrapping = TamperingProxy::start(world.base(0), Tampering::Response(DEFAULTS, wrap_everything)).await?;
        let mut next = order("next")?;
        next.as_object_mut().context("an order")?.remove("request_id");
        let output = program.pay_pinned(&world, [&wrapping.url, &elsewhere.url], &key, &next).await?;
        ensure!(output.status.success(), "{output:?}");
        let (said, notes): (Value, _) =
            (serde_json::from_slice(&output.stdout)?, String::from_utf8_lossy(&output.stderr));
        let sent = ["wrapped", "approvals"].map(|step| said[step].as_array().map(Vec::len));
        assert_eq!((sent, elsewhere.submissions()), ([Some(0), Some(2)], 2), "{said}");
        // The id that it made is there to be used again, and it believed nobody.
        let id = said["request_id"].as_str().context("request_id")?;
        ensure!(notes.contains(id) && !notes.contains("the gateway's word"), "{output:?}");
        // And what cannot be paid is said in words.
        let mut dear = order("dear")?;
        dear["max_source_amount"] = TOKENS.to_string().into();
        let output = program.pay(&world.base(0), &node, &key, &dear).await?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(1) && said.contains("INSUFFICIENT_FUNDS"), "{output:?}");
    }
    Ok(())
}
