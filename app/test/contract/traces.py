"""traces.py LOG TRACE_ID PARENT_ID - tests the configuration of Vector in the operator guide.

Vector's compiler of VRL runs the program of the configuration on each line of a log. The schema of
OpenTelemetry reads the result: the spans of one traced order, as a tree below the span of the
client. Vector itself is in no registry."""

import base64
import json
import os
import re
import sys

import yaml
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from vrl_python import VRLRuntime

GUIDE = f"{os.path.dirname(os.path.abspath(__file__))}/../../docs/operator.md"
STAGES = {"order", "lock", "queue", "commit", "unlock"}
ID = re.compile(r'"(traceId|spanId|parentSpanId)": "([0-9a-f]+)"')


def check(condition, found):
    if not condition:
        sys.exit(f"traces.py: found {found}")


def read(path):
    with open(path) as file:
        return file.read()


def configuration():
    """Check that each component reads from an existing one, and that the sink sets the content
    type. Returns the program."""
    found = yaml.safe_load(re.search(r"^```yaml\n(sources:.*?)^```$", read(GUIDE), re.M | re.S)[1])
    names = {*found["sources"], *found["transforms"]}
    for component in (*found["transforms"].values(), *found["sinks"].values()):
        check(component["inputs"] and set(component["inputs"]) <= names, component)
    sink = found["sinks"]["collector"]
    check(sink["uri"].endswith(":4318/v1/traces") and sink["request"]["headers"] == {"Content-Type": "application/json"}, sink)
    return found["transforms"]["spans"]["source"]


def is_aborted(program, line):
    """Whether the program drops this line."""
    try:
        VRLRuntime().execute(program, {"message": line})
    except RuntimeError as error:
        return "aborted" in str(error)
    return False


def span_of(program, line):
    """The span of a line. Its ids are converted from hexadecimal to base64. An unknown field is
    an error."""
    text = json.dumps(VRLRuntime().execute(program, {"message": line}).processed_event)
    text = ID.sub(lambda found: f'"{found[1]}": "{base64.b64encode(bytes.fromhex(found[2])).decode()}"', text)
    resources = json_format.Parse(text, ExportTraceServiceRequest()).resource_spans
    check(len(resources) == 1 and len(resources[0].scope_spans) == 1 and len(resources[0].scope_spans[0].spans) == 1, text)
    check([(each.key, each.value.string_value) for each in resources[0].resource.attributes] == [("service.name", "seckill")], text)
    return resources[0].scope_spans[0].spans[0]


def main(log, trace_id, parent_id):
    program = configuration()
    lines = read(log).splitlines()
    spans = [span_of(program, line) for line in lines if " event=span " in line]
    names = {each.name for each in spans}
    check(names - {"handover"} == STAGES and len(spans) == len(names), spans)
    check({each.trace_id.hex() for each in spans} == {trace_id}, spans)
    root, = (each for each in spans if each.name == "order")
    check(root.parent_span_id.hex() == parent_id, root)
    for each in spans:
        check(each is root or each.parent_span_id == root.span_id, each)
        check(root.start_time_unix_nano <= each.end_time_unix_nano and each.start_time_unix_nano <= each.end_time_unix_nano, each)
    check(len({each.span_id for each in spans}) == len(names), spans)
    others = [line for line in lines if " event=span " not in line]
    check(others and all(is_aborted(program, line) for line in others), others)


main(*sys.argv[1:])
