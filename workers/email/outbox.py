"""The provider `outbox`: mails as files, `<home>/outbox/<tenant>/<job id>.eml`, for set-ups that send no mail.

A file appears whole or not at all. Its name is the id of the job, so that a job that runs twice still makes one mail.
"""

import os
import secrets
import threading
from pathlib import Path
from uuid import UUID

from atlas.engine.outbox_files import ENDING, outbox_folder
from atlas.home.private_folder import make_private
from atlas.settings import Settings
from atlas.workers.email.mime import render
from atlas.workers.email.providers import NotSent, Outgoing

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
# With the process and the thread it names a file that is not whole yet: other programs may share the folder.
_OURS = secrets.token_hex(8)


class Outbox:
    """Writes mails under `<home>/outbox/<tenant>/`."""

    def __init__(self, settings: Settings) -> None:
        self._folder = str(outbox_folder(settings.home))

    def write(self, mail: Outgoing) -> str:
        """Write the mail and return its message id. Ten microseconds of disk cache are not worth a thread."""
        message_id = f"{mail.job_id}@atlas.invalid"
        content = render(mail.mail, sender=mail.sender, message_id=message_id, headers=mail.headers)
        try:
            write_mail(self._folder, mail.tenant, mail.job_id, content)
        except OSError as error:
            raise NotSent(
                f"The outbox {self._folder} cannot be written: {error.strerror or error}.",
                remedy="Make room in the folder or make it writable, or set ATLAS_HOME to another.",
            ) from error
        return message_id


def write_mail(folder: str, tenant: str, job_id: UUID, content: bytes) -> None:
    """Put one mail into the outbox, in place of an earlier one of the same job."""
    name = f"{folder}/{tenant}/{job_id}{ENDING}"
    # The same name every time: the file system is quicker with a name it knows.
    scratch = f"{folder}/{tenant}/.{_OURS}.{os.getpid()}.{threading.get_ident()}"
    try:
        handle = os.open(scratch, _CREATE, 0o600)
    except FileNotFoundError:
        make_private(Path(folder, tenant))
        handle = os.open(scratch, _CREATE, 0o600)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(handle, rest) :]
        os.rename(scratch, name)
    except OSError:
        os.unlink(scratch)
        raise
    finally:
        os.close(handle)
