"""Secret fields of an input: stored apart, encrypted, and shown as a fingerprint.

A schema marks a field with `"x-secret": true`. At enqueue its value moves from the input to `job_secrets`, encrypted
with a key that is in a file and never in the database. The input holds `{"x-secret": "<fingerprint>"}` instead. The
fingerprint is keyed, so that it shows whether two secrets are equal and nothing else. Only the attempt that runs the
job sees the value, and the row is deleted with the job.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson

from atlas.db.pool import Queryable
from atlas.db.statements import statement
from atlas.engine.secrets.fields import MARK, secret_values, steps
from atlas.engine.secrets.key import SecretKey, SecretsUnreadable, secret_key
from atlas.engine.secrets.redact import MIN_SECRET_LENGTH, Redactor, needles
from atlas.errors import FieldError, InvalidInput

STORE = statement("engine/secrets/sql/store_secrets.sql")
LOAD = statement("engine/secrets/sql/load_secrets.sql")


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that was taken out of an input: its JSON pointer, the value, and the fingerprint that is shown."""

    field: str
    value: Any
    fingerprint: str


def split_secrets(
    schema: Mapping[str, Any], input: Mapping[str, Any], tenant_id: UUID, key: SecretKey
) -> tuple[dict[str, Any], tuple[Secret, ...]]:
    """Return the input without its secrets, and the secrets."""
    document = orjson.loads(orjson.dumps(input))
    secrets = [
        Secret(path, value, key.fingerprint(tenant_id, value)) for path, value in list(secret_values(schema, document))
    ]
    _check(secrets)
    for secret in secrets:
        _put(document, secret.field, {MARK: secret.fingerprint})
    return document, tuple(secrets)


def hide(text: str, secrets: Iterable[Secret]) -> str:
    """A text of the caller, such as a dedupe key, with fingerprints instead of the secrets in it."""
    return Redactor({needle: secret.fingerprint for secret in secrets for needle in needles(secret.value)}).text(text)


async def store_secrets(conn: Queryable, job_id: UUID, tenant_id: UUID, secrets: Iterable[Secret]) -> None:
    """Store the secrets of a job, in the transaction that makes the job."""
    rows = encrypt_secrets(job_id, tenant_id, secrets)
    values = {"job_id": job_id, "tenant_id": tenant_id, "key_id": secret_key().id}
    columns = {f"{name}s": [row[name] for row in rows] for name in ("field", "nonce", "ciphertext")}
    await conn.execute(STORE.sql, *STORE.bind({**values, **columns}))


def encrypt_secrets(job_id: UUID, tenant_id: UUID, secrets: Iterable[Secret]) -> list[dict[str, Any]]:
    """The rows of a job's secrets: `field`, `nonce` and `ciphertext` of each."""
    key = secret_key()
    rows = []
    for secret in secrets:
        nonce, ciphertext = key.encrypt(secret.value, _context(tenant_id, job_id, secret.field))
        rows.append({"field": secret.field, "nonce": nonce, "ciphertext": ciphertext})
    return rows


async def reveal(conn: Queryable, job_id: UUID, tenant_id: UUID, text: str) -> tuple[str, Redactor | None]:
    """Return a job's input in clear, for the attempt that runs it, and the redactor of its secrets."""
    if f'"{MARK}"' not in text:
        return text, None
    rows = await conn.fetch(LOAD.sql, *LOAD.bind({"job_id": job_id, "tenant_id": tenant_id}))
    if not rows:
        return text, None
    key, input = secret_key(), orjson.loads(text)
    values: dict[str, str] = {}
    for row in rows:
        what = f"The secret field {row['field']}"
        value = decrypted(key, row, _context(tenant_id, job_id, row["field"]), what=what)
        _put(input, row["field"], value)
        values.update((needle, key.fingerprint(tenant_id, value)) for needle in needles(value))
    return orjson.dumps(input).decode(), Redactor(values)


def decrypted(key: SecretKey, row: Any, context: bytes, *, what: str) -> Any:
    """The value in a row with its key's id, its nonce and its ciphertext; SecretsUnreadable says why it cannot be."""
    from cryptography.exceptions import InvalidTag

    try:
        return key.decrypt(row["nonce"], row["ciphertext"], context)
    except InvalidTag as error:
        why = "under another key" if row["key_id"] != key.id else "and was changed since"
        raise SecretsUnreadable(
            f"{what} was stored {why}.",
            remedy="Give every program of the installation the same ATLAS_SECRET_KEY_FILE.",
        ) from error


def _context(tenant_id: UUID, job_id: UUID, field: str) -> bytes:
    return f"{tenant_id}|{job_id}|{field}".encode()


def _check(secrets: list[Secret]) -> None:
    reason = f"has fewer than {MIN_SECRET_LENGTH} characters, too few for a secret"
    short = [
        FieldError(".".join(steps(secret.field)), reason)
        for secret in secrets
        if not any(True for _ in needles(secret.value))
    ]
    if short:
        raise InvalidInput("The input", short)


def _put(input: Any, pointer: str, value: Any) -> None:
    *way, last = steps(pointer)
    node = input
    for step in way:
        node = node[int(step)] if isinstance(node, list) else node[step]
    node[int(last) if isinstance(node, list) else last] = value
