//! Every message, with its schema and an example.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use events::quote::{CONTEXTS_MAX, Quote};
use proofs::contexts::GATEWAY_V1;
use protocol::{
    AttestationRequest, AttestationResponse, AuctionOver, AwardAnswer, AwardEnd, AwardNotice, AwardReceipt, Bid,
    Registration, Report, Rfq, Version,
    selection::{SelectionAnswer, SelectionRequest},
};

use super::{examples, polish::polish};

/// Where the schemas say they are from. The name is of a domain that nobody can own (RFC 2606): it identifies a schema and is
/// not to be fetched.
const ID_BASE: &str = "https://gateway.example/protocol";

/// JSON Schema 2020-12.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

const QUOTE_DESCRIPTION: &str = "\
A quote: a JSON-LD document with one Data Integrity proof by a key of the settler's. Its hash is SHA-256 over the canonical \
N-Quads (URDNA2015) of the document without `proof`.";

/// One message of the protocol.
pub struct MessageDocument {
    /// Its name in the documents.
    pub name: &'static str,
    /// Name of its schema's file, without the extension.
    pub file: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Whether it travels over NATS; the others are bodies of a verifier's HTTP calls, or documents inside a message.
    pub nats: bool,
    /// Generates the schema.
    schema: fn() -> Value,
    /// A message as it may be sent.
    pub example: fn() -> Value,
    /// The same in other cases.
    variants: &'static [fn() -> Value],
}

/// Every message there is.
pub const MESSAGES: &[MessageDocument] = &[
    MessageDocument {
        name: "Registration",
        file: "registration",
        summary: "A settler says that it is there, and what it trades",
        nats: true,
        schema: generated::<Registration>,
        example: examples::registration,
        variants: &[],
    },
    MessageDocument {
        name: "RequestForQuotes",
        file: "request-for-quotes",
        summary: "The gateway asks for a quote",
        nats: true,
        schema: generated::<Rfq>,
        example: examples::request_for_quotes,
        variants: &[examples::reassignment_request],
    },
    MessageDocument {
        name: "Bid",
        file: "bid",
        summary: "A settler quotes or declines",
        nats: true,
        schema: generated::<Bid>,
        example: examples::bid,
        variants: &[],
    },
    MessageDocument {
        name: "Award",
        file: "award",
        summary: "The gateway tells the winner",
        nats: true,
        schema: generated::<AwardNotice>,
        example: examples::award,
        variants: &[examples::reassignment_award],
    },
    MessageDocument {
        name: "AwardAnswer",
        file: "award-answer",
        summary: "The winner says whether it stands by its quote",
        nats: true,
        schema: generated::<AwardAnswer>,
        example: examples::award_answer,
        variants: &[],
    },
    MessageDocument {
        name: "AwardReceipt",
        file: "award-receipt",
        summary: "The gateway says what stands as the winner's answer",
        nats: true,
        schema: generated::<AwardReceipt>,
        example: examples::award_receipt,
        variants: &[],
    },
    MessageDocument {
        name: "AwardEnd",
        file: "award-end",
        summary: "The gateway tells the winner that its award is over without a deposit or a reassignment",
        nats: true,
        schema: generated::<AwardEnd>,
        example: examples::award_end,
        variants: &[],
    },
    MessageDocument {
        name: "AuctionOver",
        file: "auction-over",
        summary: "The gateway tells a loser that the auction is over",
        nats: true,
        schema: generated::<AuctionOver>,
        example: examples::auction_over,
        variants: &[],
    },
    MessageDocument {
        name: "Report",
        file: "report",
        summary: "A settler says where it delivered",
        nats: true,
        schema: generated::<Report>,
        example: examples::report,
        variants: &[],
    },
    MessageDocument {
        name: "SelectionRequest",
        file: "selection-request",
        summary: "The gateway shows a selector the quotes that count",
        nats: true,
        schema: generated::<SelectionRequest>,
        example: examples::selection_request,
        variants: &[],
    },
    MessageDocument {
        name: "SelectionAnswer",
        file: "selection-answer",
        summary: "A selector's signed choice",
        nats: true,
        schema: generated::<SelectionAnswer>,
        example: examples::selection_answer,
        variants: &[],
    },
    MessageDocument {
        name: "Quote",
        file: "quote",
        summary: "The document a settler signs, which a bid and an award carry as JSON text",
        nats: false,
        schema: quote,
        example: examples::quote,
        variants: &[],
    },
    MessageDocument {
        name: "AttestationRequest",
        file: "attestation-request",
        summary: "A settler asks a verifier to attest its delivery, over HTTP",
        nats: false,
        schema: generated::<AttestationRequest>,
        example: examples::attestation_request,
        variants: &[],
    },
    MessageDocument {
        name: "AttestationResponse",
        file: "attestation-response",
        summary: "A verifier's answer",
        nats: false,
        schema: generated::<AttestationResponse>,
        example: examples::attestation_response,
        variants: &[],
    },
];

impl MessageDocument {
    /// Messages as they may be sent: [`MessageDocument::example`] first, then of cases in which it has other members.
    pub fn examples(&self) -> Vec<Value> {
        [self.example].iter().chain(self.variants).map(|example| example()).collect()
    }

    /// The message's JSON Schema, a document of its own.
    pub fn schema(&self) -> Value {
        let Value::Object(generated) = (self.schema)() else { return Value::Null };
        let version = serde_json::to_value(Version).unwrap_or_default();
        let id = format!("{ID_BASE}/{}/{}.json", version.as_str().unwrap_or_default(), self.file);
        // The dialect and the name first, for whoever reads the file.
        let mut schema = Map::from_iter([
            ("$schema".to_owned(), DIALECT.into()),
            ("$id".to_owned(), id.into()),
            ("title".to_owned(), self.name.into()),
        ]);
        for (key, value) in generated {
            schema.entry(key).or_insert(value);
        }
        Value::Object(schema)
    }
}

/// The schema of what a reader of `T` accepts, in one piece.
fn generated<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    polish(&mut schema);
    schema
}

/// The quote's members, and what makes a signed JSON-LD document of them.
fn quote() -> Value {
    let mut schema = generated::<Quote>();
    schema["description"] = QUOTE_DESCRIPTION.into();
    if let Some(properties) = schema["properties"].as_object_mut() {
        properties.insert("type".to_owned(), json!({"const": Quote::kind(), "description": "What the document is."}));
        properties.insert("id".to_owned(), json!({"type": "string", "description": "A name of the settler's own."}));
        let contexts = json!({
            "description": "The gateway's context first; served by it under `/contexts/`.",
            "type": "array",
            "prefixItems": [{"const": GATEWAY_V1}],
            "items": {"type": "string"},
            "minItems": 1,
            "maxItems": CONTEXTS_MAX,
        });
        properties.insert("@context".to_owned(), contexts);
        let text = json!({"type": "string"});
        let proof = json!({
            "description": "A Data Integrity proof whose verification method belongs to `settler`.",
            "type": "object",
            "required": ["type", "created", "verificationMethod", "proofPurpose"],
            "properties": {
                "type": text,
                "cryptosuite": text,
                "created": {"type": "string", "format": "date-time"},
                "verificationMethod": text,
                "proofPurpose": {"const": "assertionMethod"},
                "proofValue": text,
                "jws": text,
            },
            "not": {"required": ["expires"]},
        });
        properties.insert("proof".to_owned(), proof);
    }
    if let Some(required) = schema["required"].as_array_mut() {
        required.extend(["@context", "proof"].map(Value::from));
    }
    schema["additionalProperties"] = false.into();
    schema
}
