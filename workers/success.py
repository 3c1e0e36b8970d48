"""The outcome of an attempt whose handler returned."""

from typing import Any

from atlas.engine.jobs.context import AttemptContext
from atlas.engine.jobs.finish import OUTPUT_DIGEST, Finish, redact_notes
from atlas.engine.jobs.output import dump_output
from atlas.engine.jobs.types import JobType
from atlas.engine.jobs.verdicts import PermanentError, describe, succeed
from atlas.workers.running_attempt import note_log


def success(context: AttemptContext, job_type: JobType, returned: Any) -> Finish:
    """What becomes of a job whose handler returned this. PermanentError if it cannot be recorded."""
    try:
        if context.kept_log is not None:
            note_log(context)
        output = dump_output(returned, limit=job_type.max_output)
        if context.redactor is not None:
            redact_notes(context.redactor, context.notes)
            output = None if output is None else context.redactor.json(output)
        if job_type.audit_content:
            context.notes.audit_meta[OUTPUT_DIGEST] = None
        return succeed(context.job, context.worker_id, output, job_type.success_action, context.taken_notes())
    except PermanentError:
        raise
    except Exception as error:
        # The work is done: doing it again would not make its output recordable.
        raise PermanentError(f"What the handler returned cannot be recorded: {describe(error)}.") from error
