//! The AsyncAPI document.

use serde_json::{Map, Value, json};

use protocol::MESSAGE_BYTES_MAX;

use super::{
    channels::{Channel, OPERATIONS, Operation, PARAMETERS, channels, foreign_messages, roles},
    messages::MESSAGES,
};

/// The dialect of the messages' schemas.
const SCHEMA_FORMAT: &str = "application/schema+json;version=draft-2020-12";
/// Of AsyncAPI's binding for NATS.
const NATS_BINDING: &str = "0.1.0";

const DESCRIPTION: &str = "\
What settlers, quote selectors and the gateway say to each other over NATS: JSON messages in UTF-8. Amounts and times are strings. Times of \
the auction are RFC 3339; the escrow's windows are UNIX seconds in decimal, as the contract holds them. Members that a \
reader does not know are ignored; a member that is absent is left out, not written as `null`.\n\n\
Operations are written as the role in `x-role` sees them. `x-kept` says which stream keeps a channel's messages and for how \
long, `x-roles` what nats.conf lets each role do.";

/// The protocol as an AsyncAPI 3.0 document.
pub fn document() -> Value {
    let channels = channels();
    json!({
        "asyncapi": "3.0.0",
        "id": "urn:gateway:settlers",
        "info": {
            "title": "Cross-chain payment gateway: the protocol of settlers and selectors",
            "version": "1.0",
            "description": DESCRIPTION,
            "license": {"name": "Apache-2.0"},
            "x-roles": roles_object(),
            "x-message-bytes-max": MESSAGE_BYTES_MAX,
        },
        "defaultContentType": "application/json",
        "servers": {
            "gateway": {
                "host": "127.0.0.1:4222",
                "protocol": "nats",
                "description": "The gateway's nats-server with JetStream; ask its operator for the address.",
                "security": [{"$ref": "#/components/securitySchemes/account"}],
            },
        },
        "channels": channels.iter().map(|channel| (channel.name.to_owned(), channel_object(channel))).collect::<Map<_, _>>(),
        "operations": OPERATIONS
            .iter()
            .map(|operation| (operation.name.to_owned(), operation_object(operation, &channels)))
            .collect::<Map<_, _>>(),
        "components": {
            "securitySchemes": {
                "account": {
                    "type": "asymmetricEncryption",
                    "description": "NATS's NKEY: the client signs the server's nonce with its Ed25519 key. A settler's \
                                    is the key of its DID, an auditor's or a selector's the one its operator was told. \
                                    Beyond loopback over TLS.",
                },
            },
            "messages": messages_object(),
            "schemas": schemas_object(),
        },
    })
}

fn roles_object() -> Value {
    let object = |role: super::channels::Role| {
        let permissions = json!({
            "description": role.description,
            "subscribe": role.subscribe,
            "publish": role.publish,
        });
        (role.name.to_owned(), permissions)
    };
    Value::Object(roles().into_iter().map(object).collect())
}

fn channel_object(channel: &Channel) -> Value {
    let messages: Map<String, Value> =
        channel.messages.iter().map(|name| ((*name).to_owned(), message_reference(name))).collect();
    let mut object = json!({
        "address": channel.address,
        "title": channel.title,
        "description": channel.description,
        "messages": messages,
    });
    if !channel.parameters.is_empty() {
        let described = PARAMETERS.iter().filter(|(name, _)| channel.parameters.contains(name));
        let described = described.map(|(name, text)| ((*name).to_owned(), json!({"description": text})));
        object["parameters"] = Value::Object(described.collect());
    }
    if let Some(kept) = &channel.kept {
        object["x-kept"] = kept.clone();
    }
    object
}

fn operation_object(operation: &Operation, channels: &[Channel]) -> Value {
    let messages = |name: &str| -> Vec<Value> {
        let channel = channels.iter().find(|channel| channel.name == name);
        let messages = channel.map(|channel| channel.messages).unwrap_or_default();
        messages.iter().map(|message| json!({"$ref": format!("#/channels/{name}/messages/{message}")})).collect()
    };
    let reference = |name: &str| json!({"$ref": format!("#/channels/{name}")});
    let mut object = json!({
        "action": operation.action,
        "channel": reference(operation.channel),
        "summary": operation.summary,
        "description": operation.description,
        "messages": messages(operation.channel),
        "bindings": {"nats": {"bindingVersion": NATS_BINDING}},
        "x-role": operation.role,
    });
    if let Some(reply) = operation.reply {
        object["reply"] = json!({
            "address": {"location": "$message.header#/reply", "description": "The reply subject of the request."},
            "channel": reference(reply),
            "messages": messages(reply),
        });
    }
    object
}

fn message_reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/messages/{name}")})
}

fn messages_object() -> Value {
    let own = MESSAGES.iter().filter(|message| message.nats).map(|message| {
        let examples: Vec<Value> = message.examples().into_iter().map(|example| json!({"payload": example})).collect();
        let object = json!({
            "summary": message.summary,
            "contentType": "application/json",
            "payload": {"$ref": format!("#/components/schemas/{}", message.name)},
            "examples": examples,
        });
        (message.name.to_owned(), object)
    });
    let foreign = foreign_messages().into_iter().map(|(name, object)| (name.to_owned(), object));
    Value::Object(own.chain(foreign).collect())
}

fn schemas_object() -> Value {
    let schema = |message: &super::MessageDocument| {
        (message.name.to_owned(), json!({"schemaFormat": SCHEMA_FORMAT, "schema": message.schema()}))
    };
    Value::Object(MESSAGES.iter().map(schema).collect())
}
