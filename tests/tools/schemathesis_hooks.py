"""Hooks of the schema-driven test: no claim waits, some results are about replies that were claimed, and what was answered is written down.

MUSTER_TEST_CLAIMED lists the ids of claimed replies; MUSTER_TEST_STATUSES names the file for one line an answer: the route's last word and the status.
"""

import itertools
import os

import schemathesis

CLAIMED = itertools.cycle(os.environ["MUSTER_TEST_CLAIMED"].split(","))
TURN = itertools.count()


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@schemathesis.hook
def before_call(context, case, kwargs):
    body = case.body
    if isinstance(body, dict) and is_number(body.get("wait_seconds")) and body["wait_seconds"] > 0:
        # A wait of up to 25 seconds for each of hundreds of cases would take an hour and prove nothing more.
        case.body = {**body, "wait_seconds": 0}
    parameters = case.path_parameters or {}
    whole = str(parameters.get("id", ""))
    if case.path.endswith("/result") and whole.isdigit() and int(whole) > 0 and next(TURN) % 2 == 0:
        case.path_parameters["id"] = int(next(CLAIMED))


@schemathesis.hook
def after_call(context, case, response):
    with open(os.environ["MUSTER_TEST_STATUSES"], "a", encoding="utf-8") as file:
        file.write("%s %d\n" % (case.path.rsplit("/", 1)[1], response.status_code))
