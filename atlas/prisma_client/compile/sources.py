"""Where the rows of a call are read from: its table, or what finds the rows of some jobs in few tables of history.

`from jobs` reads every table of history. A call that names its jobs needs the few that may hold them.
"""

from typing import Any

from atlas.db.schema import in_schema, qualified
from atlas.prisma_client.compile.draft import Draft
from atlas.prisma_client.schema import Field, Model
from atlas.prisma_client.values import codec_of

# By table: the column with the id of the job, and the rows of some ids.
_ROWS_OF_JOBS = {
    "jobs": (
        "id",
        "(select h.* from only atlas.jobs h where h.id = any ({ids}) union all"
        " select h.* from atlas.history_rows(array(select u.id from unnest({ids}) u(id)"
        " where not exists (select from only atlas.jobs a where a.id = u.id))) h)",
    ),
    "job_attempts": ("job_id", "atlas.rows_of_jobs(null::atlas.job_attempts, {ids})"),
    "job_runs": ("job_id", "atlas.job_runs_of({ids})"),
}


def source_sql(draft: Draft, model: Model, where: Any) -> str:
    """The source of the rows that `where` finds, whose parameters the draft has taken."""
    key = _job_key(model)
    ids = None if key is None or not isinstance(where, dict) else _ids(draft, model, key, where)
    return qualified(model.table) if ids is None else _rows_sql(model, ids)


def source_of_key(model: Model, fields: list[Field]) -> str:
    """The source of the row whose key has these fields, as parameters in this order."""
    key = _job_key(model)
    if key is None or key not in fields:
        return qualified(model.table)
    return _rows_sql(model, f"array[${fields.index(key) + 1}{codec_of(key).cast}]")


def _job_key(model: Model) -> Field | None:
    column, _ = _ROWS_OF_JOBS.get(model.table, (None, None))
    return next((field for field in model.scalars if field.column == column), None)


def _rows_sql(model: Model, ids: str) -> str:
    return in_schema(_ROWS_OF_JOBS[model.table][1]).format(ids=ids)


def _ids(draft: Draft, model: Model, key: Field, where: dict[str, Any]) -> str | None:
    """The array of ids that every row has one of; None where the filter does not name them."""
    id_filter = where.get(key.name)
    for unique in model.keys:
        if id_filter is None and key.name in unique.fields and isinstance(where.get(unique.name), dict):
            id_filter = where[unique.name].get(key.name)
    is_list = isinstance(id_filter, dict) and "in" in id_filter
    value = id_filter.get("in", id_filter.get("equals")) if isinstance(id_filter, dict) else id_filter
    for number, parameter in enumerate(draft.taken, 1):
        if value is not None and parameter.value is value and parameter.label == key.label:
            codec = codec_of(key)
            return f"${number}{codec.list_cast}" if is_list else f"array[${number}{codec.cast}]"
    return None
