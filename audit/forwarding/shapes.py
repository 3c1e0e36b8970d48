"""The shapes in which rows are forwarded: Atlas's own JSON, CEF and OCSF. Each is one line of text."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import orjson

from atlas.audit.forwarding.sealed_rows import SealedRow
from atlas.version import __version__

OCSF_VERSION = "1.3.0"
# OCSF: Entity Management, of the category Identity & Access Management.
CLASS_UID, CATEGORY_UID = 3004, 3
# What the end of an action's name says, as an activity of that class.
ACTIVITIES = (
    (1, "Create", ("_ADDED", "_CREATED", "_MADE", "_SAVED", "_REGISTERED", "_REQUESTED", "_PUBLISHED", "_IMPORTED")),
    (2, "Read", ("_EXPORTED", "_VERIFIED", "_VERIFICATION", "_BACKED_UP")),
    (3, "Update", ("_EDITED", "_CHANGED", "_DECIDED", "_SUCCEEDED", "_FAILED", "_ROLLED_BACK", "_RETRIED")),
    (4, "Delete", ("_REMOVED", "_DELETED", "_PRUNED", "_REVOKED", "ERASED")),
    (5, "Move", ("_MOVED", "_RENAMED")),
    (8, "Enable", ("_ENABLED", "_ONLINE", "RESUMED")),
    (9, "Disable", ("_DISABLED", "_OFFLINE", "PAUSED")),
)
OTHER = 99
# Severity of a level: in CEF from 0 to 10, and by the numbers of OCSF.
CEF_SEVERITY = {"info": 3, "warn": 6, "error": 8}
OCSF_SEVERITY = {"info": (1, "Informational"), "warn": (3, "Medium"), "error": (4, "High")}

Shape = Callable[[SealedRow], bytes]


def as_json(row: SealedRow) -> bytes:
    """The event as it was recorded, with its number, id, seal and time."""
    return orjson.dumps(
        {"number": row.number, "id": row.id, "epoch": row.epoch, "seal": row.seal, "time": row.time, **row.event}
    )


def as_cef(row: SealedRow) -> bytes:
    """ArcSight's Common Event Format, version 0."""
    event = row.event
    action, level = str(event.get("action", "")), str(event.get("level", "info"))
    fields = {
        "rt": _milliseconds(row.time),
        "externalId": row.number,
        "act": action,
        "cat": event.get("entity_type", ""),
        "suser": event.get("actor_id", ""),
        "msg": event.get("message", ""),
        **_labeled("cs1", "tenant", event.get("tenant_id")),
        **_labeled("cs2", "entity", event.get("entity_id")),
        **_labeled("cs3", "actorType", event.get("actor_type")),
        **_labeled("cs4", "meta", orjson.dumps(event.get("meta", {})).decode()),
        **_labeled("cn1", "seal", row.seal),
        **_labeled("cn2", "id", row.id),
    }
    head = "|".join(_cef_header(part) for part in ("CEF:0", "Atlas", "Atlas", __version__, action, _title(action)))
    extension = " ".join(f"{name}={_cef_value(value)}" for name, value in fields.items() if value not in ("", None))
    return f"{head}|{CEF_SEVERITY.get(level, 3)}|{extension}".encode()


def as_ocsf(row: SealedRow) -> bytes:
    """The Open Cybersecurity Schema Framework: an event of the class Entity Management."""
    event = row.event
    action = str(event.get("action", ""))
    activity, name = next(((uid, name) for uid, name, ends in ACTIVITIES if action.endswith(ends)), (OTHER, action))
    severity, severity_name = OCSF_SEVERITY.get(str(event.get("level")), OCSF_SEVERITY["info"])
    actor = str(event.get("actor_id", ""))
    is_person = event.get("actor_type") == "user"
    return orjson.dumps(
        {
            "activity_id": activity,
            "activity_name": name,
            "category_uid": CATEGORY_UID,
            "category_name": "Identity & Access Management",
            "class_uid": CLASS_UID,
            "class_name": "Entity Management",
            "type_uid": CLASS_UID * 100 + activity,
            "severity_id": severity,
            "severity": severity_name,
            "time": _milliseconds(row.time),
            "message": event.get("message") or _title(action),
            "actor": {"user": {"name": actor, "uid": actor}} if is_person else {"app_name": actor},
            "entity": {"type": event.get("entity_type"), "uid": event.get("entity_id")},
            "metadata": {
                "version": OCSF_VERSION,
                "product": {"name": "Atlas", "vendor_name": "Atlas", "version": __version__},
                "event_code": action,
                "log_name": "audit",
                "sequence": row.number,
                "uid": f"{row.epoch}-{row.id}",
                "tenant_uid": event.get("tenant_id"),
            },
            "unmapped": {"seal": row.seal, "actor_type": event.get("actor_type"), "meta": event.get("meta")},
        }
    )


SHAPES: Mapping[str, Shape] = {"json": as_json, "cef": as_cef, "ocsf": as_ocsf}


def _milliseconds(time: str) -> int:
    try:
        return round(datetime.fromisoformat(time).timestamp() * 1000)
    except ValueError:
        return 0  # A forged time need not be in any calendar.


def _title(action: str) -> str:
    return action.replace("_", " ").capitalize()


def _labeled(field: str, label: str, value: Any) -> dict[str, Any]:
    return {} if value in (None, "") else {field: value, f"{field}Label": label}


def _cef_header(part: str) -> str:
    return part.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").replace("\r", " ")


def _cef_value(value: Any) -> str:
    text = str(value).replace("\\", "\\\\").replace("=", "\\=")
    return text.replace("\r\n", "\\n").replace("\n", "\\n").replace("\r", "\\n")
