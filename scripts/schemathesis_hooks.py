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

# As Unicode has it: Python's own `strip` takes some control characters, too.
WHITE = "[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+"


@schemathesis.hook
def before_load_schema(context, raw_schema):
    schemas = raw_schema["components"]["schemas"]
    # Which time zones there are. These have no summer time, so that no local time is skipped.
    zone = schemas["SigningDetailsRequest"]["properties"]["timeZoneId"]
    zone.pop("pattern", None)
    zone["enum"] = ["America/Phoenix", "Pacific/Honolulu", "Etc/UTC"]

    # That a text's length is that after trimming: here none has white space around it.
    for schema in schemas.values():
        for member in schema.get("properties", {}).values():
            if "pattern" in member:
                member["pattern"] = re.sub(r"\[\\t-\\r \]\?", "", member["pattern"])

    # That a time is ignored if it does not belong to the type, whatever it is.
    details = schemas["SigningDetailsRequest"]
    for name in ("specificTime", "startTime", "endTime"):
        details["properties"][name] = {}
    for condition in details.get("allOf", []):
        for name in condition["then"]["properties"]:
            condition["then"]["properties"][name] = {"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"}

    # Schemathesis 4.32 stops where a schema has both conditions and a file: in the form, no time depends on the type.
    details = schemas["FormDetails"] = copy.deepcopy(details)
    details.pop("allOf", None)
    details["properties"]["signingTimeType"]["enum"] = ["anytime"]
    details["properties"]["signingTimeType"]["example"] = "anytime"
    schemas["OrderForm"]["properties"]["signingDetailsFormData"] = {"$ref": "#/components/schemas/FormDetails"}

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
    if context.operation.path.endswith("with-documents"):
        # What the name of a part can be.
        body = {name: part for name, part in body.items() if name.isascii() and name.isalnum()}
    # That an e-mail address has at most 64 characters before its @.
    body = with_short_names(body)
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
def filter_case(context, case):
    # White space that was meant as a fault is none. In a form it could not be mended: Schemathesis would not judge it anew.
    return case.media_type != "multipart/form-data" or trimmed(case.body) == case.body


@schemathesis.hook
def before_call(context, case, kwargs):
    # A request that lacks its credentials on purpose would get them back if it was changed.
    if getattr(case.meta.phase.data, "parameter", None) == "Authorization":
        return
    # That a good key was used for no other order before.
    key = case.headers.get("Idempotency-Key") if case.headers else None
    if key and re.fullmatch(r'[!#-+.-:<-\[\]-~-]{1,255}|"([!#-\[\]-~]|\\["\\]){1,255}"', key):
        case.headers["Idempotency-Key"] = f'"{uuid.uuid4()}"'
    # As in `filter_case`. A request without files is judged anew.
    if case.media_type == "application/json" and trimmed(case.body) != case.body:
        case.body = trimmed(case.body)


def without_fractions(value):
    """The same with 42 for 42.0: to JSON Schema both are integers, the service takes the first alone."""
    if isinstance(value, dict):
        return {name: without_fractions(member) for name, member in value.items()}
    if isinstance(value, list):
        return [without_fractions(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def with_short_names(value):
    if isinstance(value, dict):
        return {name: with_short_names(member) for name, member in value.items()}
    return re.sub(r"\A[^@\s]{65,}@", "somebody@", value) if isinstance(value, str) else value


def trimmed(value):
    """The same with no white space around texts, which the service does not see."""
    if isinstance(value, dict):
        return {name: trimmed(member) for name, member in value.items()}
    if isinstance(value, list):
        return [trimmed(item) for item in value]
    return re.sub(rf"\A{WHITE}|{WHITE}\Z", "", value) if isinstance(value, str) else value
