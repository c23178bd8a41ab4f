"""Rules for valid requests that the schemas of the document cannot express, and workarounds for
limits of Schemathesis."""

import copy
import re
import uuid

import schemathesis
from hypothesis import strategies
from schemathesis.core.file_samples import FILE_SAMPLES
from schemathesis.transport.serialization import Binary

# Files with accepted content. Schemathesis derives the name of a file from its content, but has no
# name for Word documents.
documents = [Binary(FILE_SAMPLES[extension]) for extension in ("jpg", "pdf", "png")]
schemathesis.openapi.format("binary", strategies.sampled_from(documents))

# White space of Unicode. Python's own `strip` also removes some control characters.
WHITE = "[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+"


# As in the schemas.
UTC = re.compile(
    r"[1-9]\d{3}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d"
    r"(:[0-5]\d(\.\d{1,9})?)?(Z|\+00:00)",
    re.ASCII,
)

TIME = re.compile("([01][0-9]|2[0-3]):[0-5][0-9]")

CURSORS = ("starting_after", "ending_before", "at")


@schemathesis.hook
def before_load_schema(context, raw_schema):
    schemas = raw_schema["components"]["schemas"]
    # The examples of the operations are whole. Those of parts are for people.
    for name in ("SigningContactsRequest", "SigningDetailsRequest", "RequestedByRequest"):
        schemas[name].pop("example")

    # Existing time zones. They have no summer time, so that every local time exists.
    zone = schemas["SigningDetailsRequest"]["properties"]["timeZoneId"]
    zone.pop("pattern", None)
    zone["enum"] = ["America/Phoenix", "Pacific/Honolulu", "Etc/UTC"]

    # URLs that the service may call.
    for name in ("WebhookRequest", "WebhookChange"):
        url = schemas[name]["properties"]["url"]
        url.pop("pattern")
        url["enum"] = ["http://127.0.0.1:9999/", "http://127.0.0.1:9998/orders?tenant=7"]
        url["example"] = url["enum"][0]
    for path, method in (("/api/webhooks", "post"), ("/api/webhooks/{webhook_id}", "patch")):
        body = raw_schema["paths"][path][method]["requestBody"]["content"]["application/json"]
        body["examples"]["request"]["value"]["url"] = "http://127.0.0.1:9999/"

    # The length of a text counts after trimming, so these texts have no white space around them.
    for schema in schemas.values():
        for member in schema.get("properties", {}).values():
            if "pattern" in member:
                member["pattern"] = re.sub(r"\[\\t-\\r (\\x85)?\]\?", "", member["pattern"])

    # A time field of another type is ignored, whatever its value.
    details = schemas["SigningDetailsRequest"]
    for name in ("specificTime", "startTime", "endTime"):
        details["properties"][name] = {}
    for condition in (details, details["else"]):
        for name in condition["then"]["properties"]:
            condition["then"]["properties"][name] = {
                "type": "string",
                "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$",
            }

    # Schemathesis 4.32 fails on a schema with conditions and a file, so the form has no conditions.
    details = schemas["FormDetails"] = copy.deepcopy(details)
    for keyword in ("if", "then", "else"):
        details.pop(keyword)
    details["properties"]["signingTimeType"] = {"enum": ["anytime"], "example": "anytime"}
    order_form = schemas["OrderForm"]["properties"]
    order_form["signingDetailsFormData"] = {"$ref": "#/components/schemas/FormDetails"}

    order = "/api/order/{order_id}"
    additions = (f"{order}/documents", f"{order}/signed-documents")
    for path in ("/api/order/create-with-documents", *additions):
        form = raw_schema["paths"][path]["post"]["requestBody"]["content"]["multipart/form-data"]
        # With a media type, Schemathesis generates files whose names do not fit.
        form.get("encoding", {}).pop("documents", None)
        # The examples have names of files instead of their contents.
        for example in form.get("examples", {}).values():
            example["value"].pop("documents", None)
        if path in additions:
            # Without its file, the form with documents only has no example.
            form.pop("example", None)


@schemathesis.hook
def map_query(context, query):
    # A generated cursor is no order of the client. The cursors of links reach the service.
    if isinstance(query, dict):
        return {name: value for name, value in query.items() if name not in CURSORS}
    return query


@schemathesis.hook
def map_body(context, body):
    body = without_fractions(body)
    if not isinstance(body, dict):
        return body
    if context.operation.path.endswith("with-documents"):
        # Possible names of parts.
        body = {name: part for name, part in body.items() if name.isascii() and name.isalnum()}
    # An e-mail address has at most 64 characters before its @.
    body = with_short_names(body)
    # Every month has 28 days.
    for name in ("utcTimeDate", "utcStartTimeDate", "utcEndTimeDate"):
        if isinstance(body.get(name), str):
            body[name] = re.sub("-(29|30|31)T", "-28T", body[name])
    order_times(body)
    return body


def order_times(body):
    """Moves the end of a time range behind its start, which the schemas cannot say."""
    details = body.get("signingDetailsFormData") if isinstance(body, dict) else None
    if not isinstance(details, dict):
        return
    times = [details.get("startTime"), details.get("endTime")]
    both = all(isinstance(it, str) and TIME.fullmatch(it.strip()) for it in times)
    if both and times[0].strip() >= times[1].strip():
        details["startTime"], details["endTime"] = "09:00", "17:00"


def has_ignored_instant(body):
    """Whether an instant of another time type is no instant: the service ignores it."""
    if not isinstance(body, dict):
        return False
    details = body.get("signingDetailsFormData")
    time_type = details.get("signingTimeType") if isinstance(details, dict) else None
    counts = {"at": ["utcTimeDate"], "between": ["utcStartTimeDate", "utcEndTimeDate"]}
    counting = counts.get(time_type, []) if isinstance(time_type, str) else []
    ignored = {"utcTimeDate", "utcStartTimeDate", "utcEndTimeDate"}.difference(counting)
    texts = [body[name] for name in ignored if body.get(name) not in (None, "")]
    return not all(isinstance(text, str) and UTC.fullmatch(text) for text in texts)


@schemathesis.hook
def filter_case(context, case):
    # The service trims white space, so it is not a fault. `before_call` cannot change a form:
    # Schemathesis would not validate it again.
    is_trimmed = case.media_type != "multipart/form-data" or trimmed(case.body) == case.body
    # The phase of coverage does not call `map_body`.
    has_short_names = with_short_names(case.body) == case.body
    # A body that says nothing is none where it may be left out.
    is_none = case.operation.path.endswith("/cancel") and trimmed(case.body) in (None, "")
    return is_trimmed and has_short_names and not has_ignored_instant(case.body) and not is_none


@schemathesis.hook
def before_call(context, case, kwargs):
    # A change would add the credentials that a request omits on purpose.
    if getattr(case.meta.phase.data, "parameter", None) == "Authorization":
        return
    # A generated tag is of no version.
    if case.headers:
        case.headers.pop("If-Match", None)
    # A valid key belongs to one order.
    key = case.headers.get("Idempotency-Key") if case.headers else None
    if key and re.fullmatch(r'[!#-+.-:<-\[\]-~-]{1,255}|"([!#-\[\]-~]|\\["\\]){1,255}"', key):
        case.headers["Idempotency-Key"] = f'"{uuid.uuid4()}"'
    # Orders with an odd number are not cancelled, so they take documents.
    order = (case.path_parameters or {}).get("order_id")
    if case.operation.path.endswith("/cancel") and isinstance(order, int) and 0 < order < 1e9:
        case.path_parameters["order_id"] = order + order % 2
    # The phase of coverage does not call `map_body`.
    if case.media_type == "application/json":
        order_times(case.body)
    # As in `filter_case`. Schemathesis validates a request without files again.
    if case.media_type == "application/json" and trimmed(case.body) != case.body:
        case.body = trimmed(case.body)


def without_fractions(value):
    """Returns 42 for 42.0: both are integers in JSON Schema, but the service accepts only 42."""
    if isinstance(value, dict):
        return {name: without_fractions(member) for name, member in value.items()}
    if isinstance(value, list):
        return [without_fractions(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def with_short_names(value):
    if isinstance(value, dict):
        return {name: with_short_names(member) for name, member in value.items()}
    return re.sub(r"\A[^@\s]{65,}@", "signer@", value) if isinstance(value, str) else value


def trimmed(value):
    """Removes the white space around texts, which the service ignores."""
    if isinstance(value, dict):
        return {name: trimmed(member) for name, member in value.items()}
    if isinstance(value, list):
        return [trimmed(item) for item in value]
    return re.sub(rf"\A{WHITE}|{WHITE}\Z", "", value) if isinstance(value, str) else value
