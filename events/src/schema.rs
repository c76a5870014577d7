//! The JSON Schemas (2020-12) of the vocabulary's texts, for whoever describes messages made of them.
//!
//! They say what a text looks like. A checksum, an asset's chain, or the width of an amount is checked when it is read.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::{Account, Amount, AssetId, ChainId, Did, Hash32, OwnedAsset, PaymentId};

/// Describes types whose JSON form is a text of a pattern.
macro_rules! texts {
    ($($type:ident, $pattern:expr, $description:expr;)*) => {$(
        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "string", "pattern": $pattern, "description": $description})
            }
        }
    )*};
}

texts! {
    Amount, "^[1-9][0-9]{0,77}$", "Smallest units, decimal text, of at most 256 bits.";
    ChainId, "^[a-z0-9]+:[a-zA-Z0-9_-]+$", "CAIP-2 id of a chain.";
    AssetId, "^[a-z0-9]+:[a-zA-Z0-9_-]+/[a-z0-9-]{3,8}:[-.%a-zA-Z0-9]{1,128}(/[-.%a-zA-Z0-9]{1,78})?$",
        "CAIP-19 id of an asset.";
    Did, "^did:[a-z][a-z0-9]*:[a-zA-Z0-9._:%-]+$", "A decentralized identifier.";
    Hash32, "^0x[0-9a-fA-F]{64}$", "32 bytes in hex with 0x.";
    PaymentId, "^pay_[a-z2-7]{52}$", "Id of a payment.";
}

/// Any text: which accounts there are depends on the chain, and the field that holds one describes it.
impl JsonSchema for Account {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Account".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string"})
    }
}

impl JsonSchema for OwnedAsset {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "OwnedAsset".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": "An account's holding of one asset on one chain.",
            "required": ["account", "asset_identifier"],
            "properties": {
                "account": {
                    "type": "string",
                    "description": "The account, by the rules of the asset's chain; normalised by the gateway.",
                },
                "asset_identifier": AssetId::json_schema(generator),
            },
        })
    }
}
