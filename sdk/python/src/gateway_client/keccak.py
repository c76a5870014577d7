"""Keccak-256, by which payments are known on every chain."""

try:
    from Crypto.Hash import keccak
except ImportError as missing:
    raise ImportError("signing needs an extra: pip install 'gateway-client[evm]', or [solana] or [tron]") from missing


def keccak256(data: bytes) -> bytes:
    """The digest of `data`."""
    return keccak.new(digest_bits=256, data=data).digest()


def on_chain(payment_id: str) -> bytes:
    """A payment's id as contracts and programs know it."""
    return keccak256(payment_id.encode())
