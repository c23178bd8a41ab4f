#!/usr/bin/env python3
"""Prints a Postman collection (format 2.1.0) of the OpenAPI document in the argument: a folder for
each tag and a request for each operation that takes an API key, with the examples of the document. JSON parts of forms are
texts, and documents are files."""

import json
import re
import sys

SCHEMA = "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"
# The collection's variables that users set.
VARIABLES = {"baseUrl": "http://127.0.0.1:8080", "apiKey": ""}


def example(node):
    """Returns the first example of a parameter, media type or schema."""
    if "example" in node:
        return node["example"]
    examples = node.get("examples", {})
    if isinstance(examples, dict):
        return next((it["value"] for it in examples.values()), None)
    return examples[0]


def text(value):
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


def parameter(node, **members):
    value = text(example(node["schema"]))
    return {"key": node["name"], "value": value, "description": node["description"], **members}


def url(path, parameters):
    template = re.sub(r"{(\w+)}", r":\1", path)
    return {
        "raw": "{{baseUrl}}" + template,
        "host": ["{{baseUrl}}"],
        "path": template.strip("/").split("/"),
        "variable": [parameter(it) for it in parameters if it["in"] == "path"],
        # Postman sends a parameter only if the user switches it on.
        "query": [parameter(it, disabled=True) for it in parameters if it["in"] == "query"],
    }


def form(schema, content):
    """Returns the parts of a form: those of the example, then the others, switched off."""
    values = content["example"]
    parts = []
    for name, node in schema["properties"].items():
        common = {"key": name, "description": node.get("description", "")}
        if node.get("type") == "array":
            parts.append(common | {"type": "file", "src": values[name]})
            continue
        value = values.get(name, node.get("example"))
        kind = content["encoding"][name]["contentType"]
        part = common | {"type": "text", "value": text(value), "contentType": kind}
        parts.append(part if name in values else part | {"disabled": True})
    return sorted(parts, key=lambda part: part.get("disabled", False))


def body(content, schemas):
    (kind, content), = content.items()
    if kind == "multipart/form-data":
        schema = schemas[content["schema"]["$ref"].rsplit("/", 1)[1]]
        return {"mode": "formdata", "formdata": form(schema, content)}
    return {"mode": "raw", "raw": text(example(content)), "options": {"raw": {"language": "json"}}}


def request(path, method, operation, schemas):
    parameters = operation.get("parameters", [])
    headers = [
        # Postman makes a new key for each request.
        parameter(it) | {"value": '"{{$guid}}"'}
        if it["name"] == "Idempotency-Key"
        else parameter(it, disabled=True)
        for it in parameters
        if it["in"] == "header"
    ]
    content = operation.get("requestBody", {}).get("content", {})
    if "application/json" in content:
        headers.append({"key": "Content-Type", "value": "application/json"})
    made = {
        "method": method.upper(),
        "header": headers,
        "url": url(path, parameters),
        "description": operation["description"],
    }
    if content:
        made["body"] = body(content, schemas)
    return {"name": operation["summary"], "request": made, "response": []}


def collection(document):
    folders = {tag["name"]: {**tag, "item": []} for tag in document["tags"]}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            # The others are for pages: their sessions are in cookies, and begin in a browser.
            if operation["security"] != [{"api_key": []}] or "sessions" in operation["tags"]:
                continue
            made = request(path, method, operation, document["components"]["schemas"])
            folders[operation["tags"][0]]["item"].append(made)
    info = document["info"]
    token = {"key": "token", "value": "{{apiKey}}", "type": "string"}
    return {
        "info": {
            "name": info["title"],
            "description": info["description"],
            "version": info["version"],
            "schema": SCHEMA,
        },
        "auth": {"type": "bearer", "bearer": [token]},
        "variable": [{"key": name, "value": value} for name, value in VARIABLES.items()],
        # The events are requests of the service, so their folder is empty.
        "item": [folder for folder in folders.values() if folder["item"]],
    }


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        made = collection(json.load(file))
    sys.stdout.write(json.dumps(made, indent=2, ensure_ascii=False) + "\n")
