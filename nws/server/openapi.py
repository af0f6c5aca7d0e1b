"""The OpenAPI 3.1 description of the interface, from its operations and the models of their documents."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from nws.messages.fieldtypes import HOST, SERIES, field_of
from nws.messages.weatherdocuments import Error, Partial
from nws.server.backend import Operation
from nws.server.bodies import parameters
from nws.server.tokens import Role
from nws.service.serviceconfig import ServiceConfig

Schema = dict[str, Any]

_REASONS = {
    "400": "The request cannot be parsed.",
    "401": "The token is missing or unknown.",
    "403": "The token's role or the host's key does not permit this.",
    "404": "The name is unknown.",
    "405": "The path does not support this method.",
    "408": "The request did not arrive in time.",
    "409": "Another host holds this name.",
    "413": "The body is too large.",
    "415": "The Content-Type is not JSON.",
    "422": "The request was parsed, but a value is not acceptable.",
    "429": "A limit is reached; Retry-After is set if waiting helps.",
    "431": "Request line and headers are too large.",
    "500": "The server failed; its log has the reason.",
    "503": "Temporarily unavailable; see Retry-After.",
    "507": "The store cannot be written or read.",
}
_ALWAYS = ("400", "405", "408", "422", "429", "431", "500", "503")
_TOKEN = ("401", "403")
_BODY = ("413", "415", "507")
_PATH = {"host": HOST, "name": SERIES}
_IDENTITY = {
    "X-NWS-Host": HOST | {"description": "The sending host; it may write only its own series."},
    "X-NWS-Key": {"type": "string", "maxLength": 200, "description": "Key of that host."},
}
_TEMPLATE = "#/components/schemas/{name}"


def schemas(kinds: Iterable[Any], *, requests: bool) -> dict[str, Schema]:
    """Return the schemas of these records, and of those within them, by name.

    Objects are closed. In a request null stands for an absent field; an answer leaves out fields of a `Partial` only.
    """
    records = tuple(dict.fromkeys(kinds))
    _, components = msgspec.json.schema_components(records, ref_template=_TEMPLATE)
    by_name = {kind.__name__: kind for kind in records}
    partial = {kind.__name__ for kind in Partial.__subclasses__()}
    for name, schema in components.items():
        schema.pop("title", None)
        schema["additionalProperties"] = False
        properties = schema["properties"]
        given = (
            {one.name: field_of(one.type).json for one in msgspec.structs.fields(by_name[name])}
            if requests
            else {}
        )
        for field, part in properties.items():
            part.pop("default", None)
            branch = part["anyOf"][0] if "anyOf" in part else part
            branch |= given.get(field) or {}
            if requests and field not in schema["required"] and {"type": "null"} not in part.get("anyOf", ()):
                properties[field] = {"anyOf": [part, {"type": "null"}]}
        if not requests and name not in partial:
            schema["required"] = list(properties)
    return components


def document(config: ServiceConfig, operations: Iterable[Operation]) -> dict[str, Any]:
    """Return the description of a service with this configuration."""
    paths: dict[str, Any] = {}
    answers, bodies = [Error], []
    for one in operations:
        path = paths.setdefault(one.path, {})
        names = re.findall(r"{(\w+)}", one.path)
        if names:
            path["parameters"] = [_parameter(name, "path", _PATH[name]) for name in names]
        path[one.method.lower()] = _operation(one)
        answers += [one.answer] if one.answer is not None else []
        bodies += [one.body] if one.body is not None else []
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"Network Weather Service of {config.grid}",
            "version": "1",
            "description": "Name server, memory and forecaster of a grid. Times are seconds since the epoch, values "
            "in the unit of their series; a number that is not known is null. "
            f"Bodies: {config.limits.body_bytes} bytes at most; requests: "
            f"{config.limits.requests_per_minute} a minute for each token and address.",
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            # an event is both: what is legal to send is also sent
            "schemas": schemas(answers, requests=False) | schemas(bodies, requests=True),
            "responses": {f"E{status}": _error(status, reason) for status, reason in _REASONS.items()},
            "securitySchemes": {
                role.value: {
                    "type": "http",
                    "scheme": "bearer",
                    "description": f"A token of the role {role.value}; not needed where no tokens are set.",
                }
                for role in Role
            },
        },
    }


def _operation(one: Operation) -> dict[str, Any]:
    """Return the description of one operation."""
    summary = (one.handler.__doc__ or "").partition("\n")[0]
    content = {one.media: {"schema": _ref(one.answer) if one.answer else {"type": one.kind}}}
    responses: dict[str, Any] = {"200": {"description": summary, "content": content}}
    statuses = {*_ALWAYS, *one.errors, *(_TOKEN if one.roles else ()), *(_BODY if one.body else ())}
    for status in sorted(statuses):
        responses[status] = {"$ref": f"#/components/responses/E{status}"}
    if one.also is not None:
        either = {"anyOf": [_ref(one.answer), _ref(Error)]}
        responses[one.also] = _json(either) | {"description": _REASONS[one.also]}
    operation: dict[str, Any] = {
        "operationId": one.handler.__name__,
        "summary": summary,
        "responses": responses,
    }
    if one.roles:
        operation["security"] = [{role: []} for role in sorted({*one.roles, Role.ADMIN})]
    given = {} if one.query is None else parameters(one.query)
    described = [_parameter(name, "query", parameter.json) for name, parameter in given.items()]
    if one.body is not None:
        described += [_parameter(name, "header", schema) for name, schema in _IDENTITY.items()]
        operation["requestBody"] = {"required": True} | _json(_ref(one.body))
    if described:
        operation["parameters"] = described
    return operation


def _parameter(name: str, location: str, schema: object) -> Schema:
    return {"name": name, "in": location, "required": location == "path", "schema": schema}


def _ref(kind: Any) -> Schema:
    return {"$ref": _TEMPLATE.format(name=kind.__name__)}


def _json(schema: Schema) -> Schema:
    return {"content": {"application/json": {"schema": schema}}}


def _error(status: str, reason: str) -> dict[str, Any]:
    response: Schema = {"description": reason} | _json(_ref(Error))
    if status in ("429", "503", "507"):
        response["headers"] = {
            "Retry-After": {"schema": {"type": "integer", "minimum": 1}, "description": "Seconds."}
        }
    return response
