"""Certificates and keys of a deployment: an authority, a server certificate, and a key for each client."""

from __future__ import annotations

import datetime
import ipaddress
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import httpx
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_ssh_public_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from flwr.proto.control_pb2 import RegisterNodeRequest, UnregisterNodeRequest
from flwr.supercore.error import ApiErrorCode, FlowerError
from flwr.supercore.primitives.asymmetric import public_key_to_bytes

from fedtempo.deploy.addresses import LOCAL
from fedtempo.deploy.flower.control_secret import CONTROL_FILE, new_secret, read_secret, write_secret
from fedtempo.deploy.flower.grid import SuperLink, control, listed_nodes, registered_nodes, rejected
from fedtempo.errors import ConfigError, RunError

_AUTHORITY_DAYS, _SERVER_DAYS = 3650, 365
_RESERVED = ("ca", "server", "ca.crt", "ca.key", "server.crt", "server.key", CONTROL_FILE)
_SLACK = datetime.timedelta(days=1)


def make_keys(folder: Path, hosts: Sequence[str], clients: Iterable[str], *, renew_server: bool = False) -> list[Path]:
    """Create the missing files in `folder` and return them; existing files are not changed.

    ca.crt, ca.key: the authority. server.crt, server.key: the server's, valid for `hosts` (names or addresses) and for
    localhost and 127.0.0.1, through which a proxy and a run's server reach it. control.secret: of the SuperLink's
    control interface. <client>, <client>.pub: each client's key pair, in OpenSSH format. renew_server: create a new
    server certificate and key. Raises ConfigError for invalid names, and if ca.key is required but not in `folder`.
    """
    for name in clients:
        if not re.fullmatch(r"[\w.-]{1,64}", name) or name in _RESERVED or name.startswith((".", "-")):
            raise ConfigError(
                f"client {name!r}: use letters, digits, '.', '_' and '-'; these are reserved: {', '.join(_RESERVED)}"
            )
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    created = [*_authority(folder), *_server(folder, hosts, renew_server)]
    if not (folder / CONTROL_FILE).exists():
        created.append(write_secret(folder / CONTROL_FILE, new_secret()))
    for name in clients:
        if not (folder / name).exists():
            pair = ec.generate_private_key(ec.SECP384R1())
            private = pair.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
            public = pair.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
            created += [_secret(folder / name, private), _open(folder / f"{name}.pub", public + b"\n")]
    return created


def register(superlink: SuperLink, folder: Path) -> list[str]:
    """Register the clients whose public keys (*.pub) are in `folder`; return the names of newly registered ones.

    A name belongs to the key that was registered for it. Raises ConfigError for an invalid key and for a name that was
    registered for another key, RunError if the SuperLink does not answer.
    """
    new = []
    taken = {node.name: node for node in registered_nodes(superlink) if node.name}
    client = control(superlink)
    try:
        for path in sorted(folder.glob("*.pub")):
            request = RegisterNodeRequest(public_key=_public(path), name=path.stem)
            other = taken.get(path.stem)
            if other is not None and other.public_key != request.public_key:
                raise ConfigError(
                    f"{path}: {path.stem} was registered for another key, as node {other.node_id}; if that key is no "
                    f"longer used, run `flwr supernode unregister {other.node_id}` first"
                )
            try:
                client.RegisterNode(request)
            except httpx.HTTPStatusError as error:
                reason = FlowerError.from_json(error.response.text)
                if reason is None or reason.code != ApiErrorCode.PUBLIC_KEY_ALREADY_IN_USE:
                    raise rejected(superlink, path, error) from error
                if not any(node.public_key == request.public_key for node in listed_nodes(client)):
                    raise ConfigError(
                        f"{path}: this key was revoked at SuperLink {superlink.address}; delete it and make a new one"
                    ) from error
            else:
                new.append(path.stem)
    except httpx.TransportError as error:
        raise RunError(f"SuperLink {superlink.address} cannot be reached: {error}") from error
    finally:
        client.close()
    return new


def superlink_of(folder: Path, address: str) -> SuperLink:
    """Return the SuperLink at an address whose authority and secret, if it has one, are in `folder`."""
    file = folder / CONTROL_FILE
    return SuperLink(address, folder / "ca.crt", read_secret(file, str(file)) if file.exists() else None)


def revoke(superlink: SuperLink, names: Sequence[str]) -> list[str]:
    """Revoke the keys of clients at a SuperLink, for good; return the names of these clients.

    Raises ConfigError for a name that is not registered there, RunError if the SuperLink does not answer.
    """
    client = control(superlink)
    try:
        registered = listed_nodes(client)
        if unknown := sorted({*names} - {node.name for node in registered}):
            raise ConfigError(f"client {unknown[0]!r}: not registered at SuperLink {superlink.address}")
        nodes = [node for node in registered if node.name in names]
        for node in nodes:
            client.UnregisterNode(UnregisterNodeRequest(node_id=node.node_id))
    except httpx.HTTPStatusError as error:
        raise rejected(superlink, "the revocation", error) from error
    except httpx.TransportError as error:
        raise RunError(f"SuperLink {superlink.address} cannot be reached: {error}") from error
    finally:
        client.close()
    return [node.name for node in nodes]


def _public(path: Path) -> bytes:
    try:
        key = load_ssh_public_key(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: not a public key in OpenSSH format: {error}") from error
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise ConfigError(f"{path}: must be an elliptic-curve key, like those of `fedtempo keys`")
    return bytes(public_key_to_bytes(key))


def _authority(folder: Path) -> list[Path]:
    certificate, key = folder / "ca.crt", folder / "ca.key"
    if certificate.exists():  # its key may be stored elsewhere
        return []
    if key.exists():
        raise ConfigError(f"{key} exists without its certificate {certificate.name}: put the certificate beside it")
    pair = ec.generate_private_key(ec.SECP384R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fedtempo authority")])
    builder = _builder(name, name, pair.public_key(), pair.public_key(), _AUTHORITY_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    signed = builder.add_extension(usage, critical=True).sign(pair, hashes.SHA256())
    return [_secret(key, _pem(pair)), _open(certificate, signed.public_bytes(Encoding.PEM))]


def _server(folder: Path, hosts: Sequence[str], renew: bool) -> list[Path]:
    certificate, key = folder / "server.crt", folder / "server.key"
    if certificate.exists() and key.exists() and not renew:
        return []
    if not hosts:
        raise ConfigError("hosts: give the host names or addresses through which clients reach the server")
    if not (folder / "ca.key").exists():
        raise ConfigError(
            f"{folder / 'ca.key'} does not exist: the server certificate must be made where the authority's key is"
        )
    authority = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
    signer = load_pem_private_key((folder / "ca.key").read_bytes(), None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise ConfigError(f"{folder / 'ca.key'}: must be an elliptic-curve key, like those of `fedtempo keys`")
    pair = ec.generate_private_key(ec.SECP384R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:64])])
    signed = (
        _builder(name, authority.subject, pair.public_key(), signer.public_key(), _SERVER_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([_host(host) for host in dict.fromkeys([*hosts, *LOCAL])]), critical=False
        )
        .sign(signer, hashes.SHA256())
    )
    return [_secret(key, _pem(pair)), _open(certificate, signed.public_bytes(Encoding.PEM))]


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    signer: ec.EllipticCurvePublicKey,
    days: int,
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SLACK)  # the clocks of server and clients may differ
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer), critical=False)
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(pair: ec.EllipticCurvePrivateKey) -> bytes:
    return bytes(pair.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def _secret(path: Path, content: bytes) -> Path:
    """Write a file that is readable by its owner only, from the start."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    return path


def _open(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path
