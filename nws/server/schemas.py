"""The documents of the interface as JSON Schema (2020-12, as used by OpenAPI 3.1).

Objects are closed: other properties are neither sent nor accepted. Types state where null represents an unknown
number.
"""

from __future__ import annotations

import re
from typing import Any

from nws.series import HOST_NAME, HOST_NAME_LEGAL, Resource
from nws.service.parsing import (
    ADDRESS_PATTERN,
    COUNT_NAME,
    LARGEST_WHOLE,
    LONGEST_EVENT,
    LONGEST_TEXT,
    MOST_COUNTS,
    MOST_CPUS,
    TEXT_PATTERN,
)

Schema = dict[str, Any]


def closed(properties: Schema, *, optional: tuple[str, ...] = (), text: str = "") -> Schema:
    """Return the schema of an object with these properties, all required but the optional ones."""
    schema: Schema = {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }
    return schema | ({"description": text} if text else {})


def many(of: Schema, text: str = "") -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": of} | ({"description": text} if text else {})


def maybe_many(of: Schema, text: str) -> Schema:
    """Return the schema of a list that may be null."""
    return {"type": ["array", "null"], "items": of, "description": text}


def ref(name: str) -> Schema:
    """Return a reference to a named schema."""
    return {"$ref": f"#/components/schemas/{name}"}


def described(schema: Schema, text: str) -> Schema:
    """Return the schema with a description."""
    return schema | {"description": text}


NUMBER: Schema = {"type": "number"}
MAYBE: Schema = {"type": ["number", "null"]}
COUNT: Schema = {"type": "integer", "minimum": 0}
MAYBE_COUNT: Schema = {"type": ["integer", "null"], "minimum": 0}
TEXT: Schema = {"type": "string"}
MAYBE_TEXT: Schema = {"type": ["string", "null"]}
GIVEN_TEXT: Schema = {"type": ["string", "null"], "maxLength": LONGEST_TEXT, "pattern": f"^{TEXT_PATTERN}$"}
FLAG: Schema = {"type": "boolean"}
TIME = described(NUMBER, "Seconds since the epoch, by the service's clock.")
MAYBE_TIME = described(MAYBE, "Seconds since the epoch; null when never.")
AGE = described({"type": "number", "minimum": 0}, "Seconds since the last measurement.")
HOST: Schema = {"type": "string", "pattern": f"^{HOST_NAME.pattern}$", "description": HOST_NAME_LEGAL}
SERIES: Schema = {
    "type": "string",
    "maxLength": 200,
    "pattern": r"^[a-z0-9_.]+@[^@>,/\\\s]+(>[^@>,/\\\s]+)?$",
    "description": "RESOURCE@HOST or RESOURCE@FROM>TO",
    "examples": ["cpu.new@alpha", "network.latency@alpha>beta", "x.power@alpha"],
}
_ON_HOSTS = "|".join(re.escape(one) for one in Resource if not one.is_pair)
_ON_PAIRS = "|".join(re.escape(one) for one in Resource if one.is_pair)
_NAME = HOST_NAME.pattern
#: Series that clients may deliver; those of other monitors in the store may have other names.
DELIVERED: Schema = SERIES | {
    "pattern": rf"^(({_ON_HOSTS})@{_NAME}|({_ON_PAIRS})@{_NAME}>{_NAME}|x\.[a-z0-9_.]{{1,60}}@{_NAME}(>{_NAME})?)$"
}
UNIT = described(TEXT, "CPU, CPUs, B, s, B/s, or empty for series of other monitors.")

_STATUS: Schema = {
    "type": "object",
    "description": "Counts of a sensor since it started. Those that /metrics shows: done, failed, missed, skipped and "
    "merged runs, measurements buffered and dropped, its own cpu_s (s) and rss_bytes (B).",
    "propertyNames": {"pattern": f"^{COUNT_NAME.pattern}$"},
    "additionalProperties": MAYBE,
    "maxProperties": MOST_COUNTS,
}

_HOST_STATE = closed(
    {
        "name": HOST,
        "address": described(
            MAYBE_TEXT, "Address of its echo server; null for a host that never registered."
        ),
        "port": {"type": ["integer", "null"], "minimum": 0, "maximum": 65535},
        "site": MAYBE_TEXT,
        "cpus": COUNT,
        "cpu_model": TEXT,
        "memory_bytes": COUNT,
        "version": TEXT,
        "registered_at": MAYBE_TIME,
        "last_seen": MAYBE_TIME,
        "lost": described(FLAG, "No contact for longer than `lost_after`."),
        "cliques": many(TEXT),
        "series": COUNT,
        "status": ref("SensorStatus"),
    }
)
_CLIQUE = closed(
    {
        "name": TEXT,
        "members": many(HOST),
        "colour": COUNT,
        "stride": {"type": "integer", "minimum": 1},
        "phase": COUNT,
    },
    text="Hosts that probe each other in turn: member (k div stride) mod n holds the turn in the part `colour` of "
    "frame k, where k mod stride is `phase`.",
)
_SCHEDULE = closed(
    {
        "version": COUNT,
        "effective_from": TIME,
        "frame_s": NUMBER,
        "guard_s": NUMBER,
        "cliques": many(ref("Clique")),
        "colours": {"type": "integer", "minimum": 1},
    }
)
_PEERS: Schema = {
    "type": "object",
    "description": "Host → address and port of its echo server.",
    "additionalProperties": {
        "type": "array",
        "prefixItems": [TEXT, {"type": "integer", "minimum": 0, "maximum": 65535}],
        "minItems": 2,
        "maxItems": 2,
    },
}
_REGISTRATION = closed(
    {
        "address": {"type": "string", "maxLength": LONGEST_TEXT, "pattern": f"^{ADDRESS_PATTERN}$"},
        "port": {
            "type": "integer",
            "minimum": 0,
            "maximum": 65535,
            "description": "0: answers no probes",
        },
        "site": {
            "type": ["string", "null"],
            "pattern": f"^({HOST_NAME.pattern})?$",
            "description": "A name like a host's.",
        },
        "cpus": MAYBE_COUNT | {"maximum": MOST_CPUS},
        "cpu_model": GIVEN_TEXT,
        "memory_bytes": MAYBE_COUNT | {"maximum": LARGEST_WHOLE},
        "version": GIVEN_TEXT,
    },
    optional=("site", "cpus", "cpu_model", "memory_bytes", "version"),
)
_REGISTERED = closed(
    {
        "now": TIME,
        "key": described(
            TEXT, "Only at the first registration; to be stored and sent as X-NWS-Key from then on."
        ),
        "every": closed({"cpu": NUMBER, "memory": NUMBER, "deliver": NUMBER}, text="Periods, seconds."),
        "schedule": ref("Schedule"),
        "peers": ref("Peers"),
        "grid": TEXT,
    },
    optional=("key",),
)
_BATCH = closed(
    {
        "source": {
            "type": ["string", "null"],
            "pattern": "^[A-Za-z0-9][A-Za-z0-9._/:-]{0,127}$",
            "description": "Name of a numbered stream; samples acknowledged before are dropped.",
        },
        "first": described(MAYBE_COUNT | {"maximum": LARGEST_WHOLE - 1}, "Number of the first sample here."),
        "series": maybe_many(DELIVERED, "Each once."),
        "index": maybe_many(COUNT, "Index into `series` of each sample."),
        "t": maybe_many(NUMBER, "Time of each sample, seconds since the epoch."),
        "value": maybe_many(NUMBER, "In the unit of its series."),
        "status": {"anyOf": [ref("SensorStatus"), {"type": "null"}]},
    },
    optional=("source", "first", "series", "index", "t", "value", "status"),
    text="Sample k is value[k] of series[index[k]] at t[k]. Without samples it is a sign of life.",
)
_RECEIPT = closed(
    {
        "now": TIME,
        "accepted": described(COUNT, "Samples stored."),
        "next": described(COUNT, "Number of the stream's next sample."),
        "schedule": described(COUNT, "Present version of the schedule."),
        "refused": closed(
            {"count": COUNT, "reasons": many(TEXT) | {"maxItems": 20}},
            text="Samples that are acknowledged but not stored, with reasons.",
        ),
    }
)
_SERIES_STATE = closed(
    {
        "series": SERIES,
        "unit": UNIT,
        "samples": COUNT,
        "last": MAYBE,
        "measured_at": MAYBE_TIME,
        "age_s": {"type": ["number", "null"], "minimum": 0},
    }
)
_SAMPLES = closed(
    {
        "series": SERIES,
        "unit": UNIT,
        "resolution_s": described(NUMBER, "0 for samples as measured, else the length of a bucket."),
        "t": many(NUMBER, "Oldest first."),
        "value": many(MAYBE, "Of buckets, the mean."),
        "truncated": described(FLAG, "The range contains older samples than `most` allowed."),
        "low": many(MAYBE),
        "high": many(MAYBE),
        "count": many(COUNT),
    },
    optional=("low", "high", "count"),
)
_PLOT = closed(
    {
        "series": SERIES,
        "unit": UNIT,
        "resolution_s": NUMBER,
        "t": many(NUMBER, "Oldest first."),
        "value": many(MAYBE, "null at a gap."),
        "low": many(MAYBE),
        "high": many(MAYBE),
        "forecast": many(MAYBE, "Forecast of each point, made before it was known."),
        "error": many(MAYBE, "Mean absolute error of such forecasts until then."),
    }
)
_FORECAST = closed(
    {
        "series": SERIES,
        "unit": UNIT,
        "value": MAYBE,
        "mae": described(MAYBE, "Mean absolute error expected; null while only one sample is known."),
        "rmse": MAYBE,
        "method": described(TEXT, "The predictor, and its selection criterion."),
        "samples": COUNT,
        "last": MAYBE,
        "measured_at": MAYBE_TIME,
        "age_s": AGE,
    }
)
_EVENT = closed(
    {
        "t": {"type": "number", "minimum": 0, "description": "Seconds since the epoch, not in the future."},
        "kind": {
            "type": "string",
            "pattern": "^[a-z]([a-z ]{0,38}[a-z])?$",
            "examples": ["plan made", "host lost"],
        },
        "host": {"type": ["string", "null"], "pattern": HOST["pattern"]},
        "text": {"type": ["string", "null"], "maxLength": LONGEST_EVENT, "pattern": f"^{TEXT_PATTERN}$"},
    },
    optional=("host", "text"),
)
_COLUMNS = closed(
    {
        "name": many(SERIES),
        "forecast": many(MAYBE),
        "mae": many(MAYBE),
        "rmse": many(MAYBE),
        "last": many(MAYBE),
        "measured_at": many(MAYBE),
        "age_s": many(MAYBE),
        "samples": many(COUNT),
        "method": many(COUNT, "Index into `methods`."),
    },
    text="One row for each series.",
)
_COMPOSED = closed(
    {
        "from": many(HOST),
        "to": many(HOST),
        "latency_s": many(MAYBE),
        "latency_error_s": many(MAYBE),
        "bandwidth_Bps": many(MAYBE),
        "bandwidth_error_Bps": many(MAYBE),
        "measured_at": many(MAYBE),
        "age_s": many(MAYBE),
        "through": many(many(HOST), "Hosts on the path."),
    },
    text="Pairs that are not measured, composed from measured pairs.",
)
_SNAPSHOT = closed(
    {
        "format": {"const": "nws-snapshot"},
        "version": {"const": 1},
        "now": TIME,
        "grid": TEXT,
        "hosts": many(ref("HostState")),
        "methods": many(TEXT),
        "series": ref("SnapshotSeries"),
        "composed": ref("SnapshotComposed"),
    },
    optional=("composed",),
)
_ERROR = closed(
    {
        "error": closed(
            {
                "status": {"type": "integer", "minimum": 400, "maximum": 599},
                "message": TEXT,
                "problems": many(TEXT, "All problems, if there are several."),
            }
        )
    }
)

SCHEMAS: dict[str, Schema] = {
    "Error": _ERROR,
    "Health": closed({"status": {"enum": ["ok", "degraded", "failed"]}, "store": TEXT, "reason": MAYBE_TEXT}),
    "SensorStatus": _STATUS,
    "HostState": _HOST_STATE,
    "Hosts": closed({"now": TIME, "hosts": many(ref("HostState"))}),
    "Forgotten": closed({"now": TIME, "forgotten": HOST}),
    "Clique": _CLIQUE,
    "Schedule": _SCHEDULE,
    "Peers": _PEERS,
    "ScheduleAnswer": closed({"now": TIME, "schedule": ref("Schedule"), "peers": ref("Peers")}),
    "Registration": _REGISTRATION,
    "Registered": _REGISTERED,
    "Batch": _BATCH,
    "Receipt": _RECEIPT,
    "SeriesState": _SERIES_STATE,
    "SeriesList": closed({"now": TIME, "series": many(ref("SeriesState"))}),
    "Samples": _SAMPLES,
    "Plot": _PLOT,
    "Forecast": _FORECAST,
    "Forecasts": closed({"now": TIME, "forecasts": many(ref("Forecast"))}),
    "Event": _EVENT,
    "Events": closed({"events": many(ref("Event"))}),
    "SnapshotSeries": _COLUMNS,
    "SnapshotComposed": _COMPOSED,
    "Snapshot": _SNAPSHOT,
}
