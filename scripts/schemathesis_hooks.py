"""What the document's schemas cannot say of a good request, told to Schemathesis, and ways around its limits."""

import copy
import re
import uuid

import schemathesis
from hypothesis import strategies
from schemathesis.core.file_samples import FILE_SAMPLES
from schemathesis.transport.serialization import Binary

# What makes a document acceptable. Schemathesis names a file by its content; for Word's it has no name.
documents = [Binary(FILE_SAMPLES[extension]) for extension in ("jpg", "pdf", "png")]
schemathesis.openapi.format("binary", strategies.sampled_from(documents))


@schemathesis.hook
def before_load_schema(context, raw_schema):
    schemas = raw_schema["components"]["schemas"]
    # Which time zones there are. These have no summer time, so that no local time is skipped.
    zone = schemas["SigningDetailsRequest"]["properties"]["timeZoneId"]
    zone.pop("pattern", None)
    zone["enum"] = ["America/Phoenix", "Pacific/Honolulu", "Etc/UTC"]

    # Schemathesis 4.32 stops where a schema has both conditions and a file: in the form, no time depends on the type.
    details = schemas["FormDetails"] = copy.deepcopy(schemas["SigningDetailsRequest"])
    details.pop("allOf", None)
    details["properties"]["signingTimeType"]["enum"] = ["anytime"]
    details["properties"]["signingTimeType"]["example"] = "anytime"
    schemas["OrderForm"]["properties"]["signingDetailsFormData"] = {"$ref": "#/components/schemas/FormDetails"}
    # What the name of a part can be.
    schemas["OrderForm"]["propertyNames"] = {"pattern": "^[a-zA-Z]+$"}

    form = raw_schema["paths"]["/api/order/create-with-documents"]["post"]["requestBody"]["content"]["multipart/form-data"]
    # With a type, files get that type's content and no name that fits it.
    form.get("encoding", {}).pop("documents", None)
    # Examples have the names of files in the place of their contents.
    for example in form.get("examples", {}).values():
        example["value"].pop("documents", None)


@schemathesis.hook
def map_body(context, body):
    body = without_fractions(body)
    if not isinstance(body, dict):
        return body
    # How many days a month has.
    for name in ("utcTimeDate", "utcStartTimeDate", "utcEndTimeDate"):
        if isinstance(body.get(name), str):
            body[name] = re.sub("-(29|30|31)T", "-28T", body[name])
    # That the end is after the start.
    details = body.get("signingDetailsFormData")
    if isinstance(details, dict):
        start, end = details.get("startTime"), details.get("endTime")
        if isinstance(start, str) and isinstance(end, str) and start.strip() and start.strip() >= end.strip():
            details["startTime"], details["endTime"] = "09:00", "17:00"
    return body


@schemathesis.hook
def before_call(context, case, kwargs):
    # A request that lacks its credentials on purpose would get them back if it was changed.
    if getattr(case.meta.phase.data, "parameter", None) == "Authorization":
        return
    # That a good key was used for no other order before.
    key = case.headers.get("Idempotency-Key") if case.headers else None
    if key and re.fullmatch(r'[!#-+.-:<-\[\]-~-]{1,255}|"[!#-\[\]-~]{1,255}"', key):
        case.headers["Idempotency-Key"] = f'"{uuid.uuid4()}"'


def without_fractions(value):
    """The same with 42 for 42.0: to JSON Schema both are integers, the service takes the first alone."""
    if isinstance(value, dict):
        return {name: without_fractions(member) for name, member in value.items()}
    if isinstance(value, list):
        return [without_fractions(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
