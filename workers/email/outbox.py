"""The provider `outbox`: real mails as files, sent to nobody. The file's name is the job's id, so one job makes one."""

from atlas.settings import Settings
from atlas.workers.email.mime import render
from atlas.workers.email.outbox_files import outbox_folder, write_mail
from atlas.workers.email.providers import NotSent, Outgoing


class Outbox:
    """Writes mails under `<home>/outbox/<tenant>/`."""

    def __init__(self, settings: Settings) -> None:
        self._folder = str(outbox_folder(settings.home))

    def write(self, mail: Outgoing) -> str:
        """Write the mail and answer its message id. Some ten microseconds of disk cache: not worth a thread."""
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
