"""The system's own certificate authority, and the certificates of its servers and nodes (X.509, ECDSA P-256).

A server's certificate carries the name `SERVER_NAME`: clients ask for that name whatever the address they dialled, so
an address may change. Only servers have the purpose "server", so a member without a server can't pose as one.
"""

import datetime as dt
import hashlib
import ipaddress
import ssl
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from holdall.model.errors import BadConfig

SERVER_NAME = "server.holdall.internal"
FINGERPRINT_BYTES = 16
"""Of the authority's SHA-256 in a join code; whoever wants to meet it has to find a second preimage."""
_YEARS = 30
_BACKDATED = dt.timedelta(days=2)
"""Clocks of hosts differ, and a certificate must be good at once."""


def new_key() -> bytes:
    """A private key as PEM."""
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def new_authority(system: str, key_pem: bytes) -> bytes:
    """The certificate (PEM) of a system's own authority; it may sign nodes, no other authorities."""
    key = _private(key_pem)
    name = _name(f"holdall {system}")
    return (
        _draft(name, name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )


def request(node: str, key_pem: bytes) -> bytes:
    """What a node sends to get its certificate (PKCS 10, DER): its public key, and the proof that it has the private one."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(_name(node))
    return builder.sign(_private(key_pem), hashes.SHA256()).public_bytes(serialization.Encoding.DER)


def issue(
    authority_pem: bytes, authority_key: bytes, wish: bytes, node: str, *, addresses: Sequence[str] | None
) -> bytes:
    """The certificate (PEM) for a request. `addresses`: of a server (names or IPs); None: the node is only a client.

    Of the request only the public key is taken. Raises ValueError for bytes that are no request.
    """
    try:
        asked = x509.load_der_x509_csr(wish)
        if not asked.is_signature_valid:
            raise ValueError("the request is not signed by its own key")
        public = asked.public_key()
    except (InvalidSignature, UnsupportedAlgorithm, TypeError) as problem:
        raise ValueError(str(problem)) from None
    if not isinstance(public, ec.EllipticCurvePublicKey) or not isinstance(public.curve, ec.SECP256R1):
        raise ValueError("the key is of another kind than P-256")  # noqa: TRY004 (bytes from outside, not a caller's slip)
    authority = x509.load_pem_x509_certificate(authority_pem)
    purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
    draft = _draft(_name(node), authority.subject, public)
    if addresses is not None:
        purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
        draft = draft.add_extension(x509.SubjectAlternativeName(_alternatives(addresses)), critical=False)
    signer = _private(authority_key)
    return (
        draft.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .sign(signer, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )


def covers(certificate_pem: bytes, addresses: Sequence[str]) -> bool:
    """Whether a server with this certificate may be dialled under all these addresses."""
    try:
        found = x509.load_pem_x509_certificate(certificate_pem).extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        )
    except (x509.ExtensionNotFound, ValueError):
        return False
    return set(_alternatives(addresses)) <= set(found.value)


def ends_at(certificate_pem: bytes) -> int:
    """When the first of these certificates ends, in Unix seconds. Raises ValueError for bytes that hold none."""
    found = x509.load_pem_x509_certificates(certificate_pem)
    return int(min(one.not_valid_after_utc for one in found).timestamp())


def fingerprint(authority_pem: bytes) -> bytes:
    """What a join code says of the authority. Raises ValueError for bytes that are no certificate."""
    certificate = x509.load_pem_x509_certificate(authority_pem)
    return hashlib.sha256(certificate.public_bytes(serialization.Encoding.DER)).digest()[:FINGERPRINT_BYTES]


def client_context(
    authority: str, certificate: Path | None = None, key: Path | None = None
) -> ssl.SSLContext:
    """TLS 1.3 to a server of the system with this authority (PEM); with a certificate of one's own where it is asked for."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_verify_locations(cadata=authority)
        if certificate is not None and key is not None:
            context.load_cert_chain(certificate, key)
    except (OSError, ValueError) as problem:
        raise BadConfig(f"{certificate or 'the authority'}: not usable for TLS: {problem}.") from None
    return context


def server_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """TLS 1.3 of the join port: whoever comes has no certificate yet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ValueError) as problem:
        raise BadConfig(f"{certificate}: not usable for TLS: {problem}.") from None
    return context


def fetching_context() -> ssl.SSLContext:
    """TLS without any check of the other side: only to fetch the authority's certificate, which is then compared."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _private(key_pem: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(key_pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as problem:
        raise BadConfig(
            f"a private key of the bus can't be read: {problem}. Bring it back from a copy."
        ) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise BadConfig("a private key of the bus is of another kind than P-256. Bring it back from a copy.")
    return key


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _draft(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + dt.timedelta(days=365 * _YEARS))
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _alternatives(addresses: Sequence[str]) -> list[x509.GeneralName]:
    names: list[x509.GeneralName] = [x509.DNSName(SERVER_NAME)]
    for address in dict.fromkeys(addresses):
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(address)))
        except ValueError:
            names.append(x509.DNSName(address))
    return names
