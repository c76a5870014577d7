"""Who the settler is, and the proof and hash of its quotes: JSON-LD, URDNA2015, eddsa-rdfc-2022.

What it asks of a verifier is signed, too: HTTP Message Signatures (RFC 9421)."""
import json, time
from base64 import b32encode, b64encode
from contextlib import suppress
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path

import base58
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pyld import jsonld

CONTEXTS = {"https://gateway.example/contexts/gateway/v1": "gateway-v1.jsonld",
            "https://w3id.org/security/data-integrity/v2": "data-integrity-v2.jsonld"}
CONTEXT_FILES = Path(__file__).resolve().parents[2] / "proofs/contexts"


def canonical_hash(document):
    def load(url, _):  # no context is ever fetched
        context = json.loads((CONTEXT_FILES / CONTEXTS[url]).read_text())
        return {"contentType": "application/ld+json", "contextUrl": None, "documentUrl": url, "document": context}
    options = {"algorithm": "URDNA2015", "format": "application/n-quads", "documentLoader": load}
    return sha256(jsonld.normalize(document, options).encode()).digest()


def rfc3339(seconds):
    return datetime.fromtimestamp(int(seconds), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class Signer:
    def __init__(self, seed):
        self.key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(seed))
        name = "z" + base58.b58encode(b"\xed\x01" + self.key.public_key().public_bytes_raw()).decode()
        self.did, self.method = f"did:key:{name}", f"did:key:{name}#{name}"
        self.token = b32encode(sha256(self.did.encode()).digest()[:16]).decode().rstrip("=").lower()

    def prove(self, quote, proof):
        """The proof's value, and the quote's hash. Ed25519 gives the same value each time."""
        digest = canonical_hash(quote)
        signature = self.key.sign(canonical_hash({"@context": quote["@context"], **proof}) + digest)
        return "z" + base58.b58encode(signature).decode(), "0x" + digest.hex()

    def sign(self, quote):
        quote = {"@context": list(CONTEXTS), "type": "GatewayQuote", "settler": self.did, **quote}
        proof = {"type": "DataIntegrityProof", "cryptosuite": "eddsa-rdfc-2022", "created": rfc3339(time.time()),
                 "verificationMethod": self.method, "proofPurpose": "assertionMethod"}
        return json.dumps({**quote, "proof": {**proof, "proofValue": self.prove(quote, proof)[0]}})

    def headers(self, method, uri, body):
        """The header fields by which a verifier knows who asks; `uri` is the one that is asked, in its normal form."""
        digest = f"sha-256=:{b64encode(sha256(body).digest()).decode()}:"
        covered = '("@method" "@target-uri" "content-digest")'
        parameters = f'{covered};created={int(time.time())};keyid="{self.did}";tag="gw-verifier"'
        base = (f'"@method": {method}\n"@target-uri": {uri}\n"content-digest": {digest}\n'
                f'"@signature-params": {parameters}')
        signature = b64encode(self.key.sign(base.encode())).decode()
        return {"content-digest": digest, "signature-input": f"gw={parameters}", "signature": f"gw=:{signature}:"}

    def own(self, document):
        """A quote that this settler signed, without its proof, and its hash; twice `None` for any other document."""
        with suppress(AttributeError, KeyError, TypeError, ValueError):  # no quote at all
            quote = json.loads(document)
            proof = quote.pop("proof")
            value, parts = proof.pop("proofValue"), [quote, quote["destination"], proof]
            texts = [text for part in parts for name, text in part.items() if name not in ("@context", "destination")]
            # Flat and of its own contexts, as those that it signs are: that costs little to canonicalise.
            if quote["@context"] == list(CONTEXTS) and all(isinstance(text, str) for text in texts):
                expected, quote_hash = self.prove(quote, proof)
                if value == expected:
                    return quote, quote_hash
        return None, None
