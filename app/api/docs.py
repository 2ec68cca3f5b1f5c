#!/usr/bin/python3
"""docs.py CONTRACT - print the page /docs: the API description as plain HTML, which needs no script."""

import html
import json
import re
import sys

import yaml

METHODS = ("get", "post", "put", "patch", "delete")
# the answers that many calls have in common, by status
COMMON = {"401": "unauthenticated", "403": "forbidden", "404": "not_found", "422": "invalid", "429": "rate_limited",
          "4XX": "client_error", "500": "internal", "503": "unavailable"}


def resolve(value):
    """The value itself, or the component that it refers to."""
    while "$ref" in value:
        found = CONTRACT
        for name in value["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        value = found
    return value


def prose(text):
    """Text with `code` as HTML."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text.strip(), quote=False))


def paragraphs(text):
    return "".join(f"<p>{prose(each)}</p>\n" for each in text.split("\n\n") if each.strip())


def table(*columns, rows):
    if not rows:
        return ""
    head = "".join(f'<th scope="col">{each}</th>' for each in columns)
    body = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide" tabindex="0"><table>\n<tr>{head}</tr>\n{body}\n</table></div>\n'


# -- schemas --

def merged(schema):
    """The schema, with its parts in `allOf` as one object. A later part replaces members of an earlier one."""
    schema = resolve(schema)
    result = {name: value for name, value in schema.items() if name != "allOf"}
    for part in (merged(each) for each in schema.get("allOf", ())):
        result |= part | {"properties": result.get("properties", {}) | part.get("properties", {}),
                          "required": result.get("required", []) + part.get("required", [])}
    return result


def type_of(schema):
    """The type of a value in a few words."""
    schema = merged(schema)
    for choices in (schema[name] for name in ("oneOf", "anyOf") if name in schema):
        return " or ".join(dict.fromkeys(type_of(each) for each in choices))
    if "enum" in schema:
        return ", ".join(f"<code>{html.escape(str(each))}</code>" for each in schema["enum"])
    if "const" in schema:
        return f"<code>{html.escape(str(schema['const']))}</code>"
    if schema.get("type") == "array":
        return f"list of {type_of(schema.get('items', {}))}"
    types = schema.get("type", "text")
    words = " or ".join(types if isinstance(types, list) else [types])
    limits = [f"{word} {schema[name]}" for name, word in (
        ("minimum", "from"), ("maximum", "to"), ("minLength", "at least"), ("maxLength", "at most"),
        ("default", "default")) if name in schema]
    return " ".join([words, schema.get("format", "")] + limits).replace("  ", " ").strip()


def members(schema):
    """The members of an object, and of the objects in its lists. If there are choices, those of the first."""
    schema = merged(schema)
    schema = merged(schema.get("oneOf", [schema])[0])
    rows = []
    for name, member in schema.get("properties", {}).items():
        required = "yes" if name in schema.get("required", []) else ""
        rows.append((f"<code>{name}</code>", type_of(member), required, prose(merged(member).get("description", ""))))
        inner = merged(member)
        for part in members(inner.get("items", inner)):
            rows.append((part[0].replace("<code>", f"<code>{name}."), *part[1:]))
    return rows


def example_of(content):
    """The first example of a content, as the client sends or receives it."""
    example = content.get("example", merged(content.get("schema", {})).get("example"))
    if example is None:
        return ""
    text = example if isinstance(example, str) else json.dumps(example, indent=2, ensure_ascii=False, default=str)
    return f'<pre tabindex="0">{html.escape(text.rstrip(), quote=False)}</pre>\n'


# -- calls --

def access(operation):
    is_open = not any(operation.get("security", CONTRACT["security"]))
    return "" if is_open else "<p>Needs a token: <code>Authorization: Bearer TOKEN</code>.</p>\n"


def parameters(path, operation):
    each = [resolve(one) for one in path.get("parameters", []) + operation.get("parameters", [])]
    return table("Parameter", "In", "Value", "Required", "Meaning", rows=[
        (f"<code>{one['name']}</code>", one["in"], type_of(one["schema"]), "yes" if one.get("required") else "",
         prose(one.get("description", resolve(one["schema"]).get("description", "")))) for one in each])


def body(operation):
    content = operation.get("requestBody", {}).get("content", {})
    return "".join(f"<h4>Body, <code>{media}</code></h4>\n"
                   + table("Member", "Value", "Required", "Meaning", rows=members(one.get("schema", {}))) + example_of(one)
                   for media, one in content.items())


def answer_row(status, answer):
    kinds = ", ".join(f"<code>{media}</code>" for media in answer.get("content", {}))
    headers = ", ".join(f"<code>{name}</code>" for name in answer.get("headers", {}))
    return status, prose(answer["description"]), kinds, headers


def answers(operation):
    rows, details = [], ""
    for status, answer in operation["responses"].items():
        if answer.get("$ref", "").rpartition("/")[2] == COMMON.get(status):
            continue
        answer = resolve(answer)
        rows.append(answer_row(status, answer))
        if status.startswith("2"):
            for media, one in answer.get("content", {}).items():
                details += table("Member", "Value", "Always", "Meaning", rows=members(one.get("schema", {}))) + example_of(one)
    return "<h4>Answers</h4>\n" + table("Status", "Meaning", "Body", "Headers", rows=rows) + details


def call(method, name, path):
    operation = path[method]
    return (f'<article class="card" id="{operation["operationId"]}">\n<h3>{prose(operation["summary"])}</h3>\n'
            f"<p><strong>{method.upper()}</strong> <code>{name}</code></p>\n"
            + paragraphs(operation.get("description", "")) + access(operation) + parameters(path, operation)
            + body(operation) + answers(operation) + "</article>\n")


def calls(tag):
    return [(method, name, path) for name, path in CONTRACT["paths"].items()
            for method in METHODS if method in path and tag in path[method]["tags"]]


def errors():
    """The common answers, and the code and the status of each error."""
    problems = [merged(schema)["properties"] for name, schema in CONTRACT["components"]["schemas"].items()
                if name.startswith("problem_")]
    common = [answer_row(status, CONTRACT["components"]["responses"][name]) for status, name in COMMON.items()]
    return ("<p>Many calls have these answers besides their own:</p>\n"
            + table("Status", "Meaning", "Body", "Headers", rows=common)
            + table("Code", "Status", rows=[(type_of(one["code"]), one["status"]["enum"][0]) for one in problems]))


def page():
    info, tags = CONTRACT["info"], CONTRACT["tags"]
    links = "".join(f'<li><a href="#{tag["name"]}">{prose(tag["name"].capitalize())}</a><ul>' + "".join(
        f'<li><a href="#{path[method]["operationId"]}">{prose(path[method]["summary"].rstrip("."))}</a></li>'
        for method, _, path in calls(tag["name"])) + "</ul></li>\n" for tag in tags)
    sections = "".join(f'<section aria-labelledby="{tag["name"]}">\n<h2 id="{tag["name"]}">{tag["name"].capitalize()}</h2>\n'
                       + paragraphs(tag["description"]) + "".join(call(*each) for each in calls(tag["name"]))
                       + "</section>\n" for tag in tags)
    token = CONTRACT["components"]["securitySchemes"]["bearer"]["description"]
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>The API of {info['title']}</title>
<meta name="description" content="{html.escape(info['summary'])}">
<link rel="icon" href="/web/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/web/docs.css">
</head>
<body>
<a class="skip" href="#main">Skip to the description</a>
<header class="bar"><h1>The API of {info['title']}, version {info['version']}</h1></header>
<main id="main" tabindex="-1">
<p>{prose(info['summary'])} Programs read <a href="/openapi.yaml">openapi.yaml</a>; this page says the same.</p>
{paragraphs(info['description'])}<nav aria-label="Calls"><ul>
{links}</ul></nav>
<h2>Tokens</h2>
{paragraphs(token)}<h2>Errors</h2>
{errors()}{sections}</main>
</body>
</html>
"""


with open(sys.argv[1], encoding="utf-8") as file:
    CONTRACT = yaml.safe_load(file)
print(page(), end="")
