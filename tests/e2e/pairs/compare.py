"""What of two records of one program is not the same."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """A field of the record, and what each engine has there."""

    field: str
    where: str
    ours: object
    sparks: object

    def __str__(self) -> str:
        return f"{self.field} ({self.where}):\n  Onefold {self.ours}\n  Spark   {self.sparks}"


def compare(ours: dict, sparks: dict) -> list[Difference]:
    """All differences, in the order of steps and batches."""
    found = []
    if named(ours["error"]) != named(sparks["error"]):
        found.append(Difference("error", "", ours["error"], sparks["error"]))
    if len(ours["rows"]) != len(sparks["rows"]):
        found.append(Difference("steps", "count", len(ours["rows"]), len(sparks["rows"])))
    for step, (mine, theirs) in enumerate(zip(ours["rows"], sparks["rows"])):
        if mine != theirs:
            found.append(Difference("rows", f"after step {step}", *apart(mine, theirs)))
    if len(ours["batches"]) != len(sparks["batches"]):
        counts = (shape(ours["batches"]), shape(sparks["batches"]))
        found.append(Difference("batches", "input rows of each", *counts))
    for mine, theirs in zip(ours["batches"], sparks["batches"]):
        found += batch(mine, theirs)
    return found


def named(error: dict | None) -> tuple | None:
    return error and (error["type"], error["class"], error["cause"])


def apart(mine: list, theirs: list) -> tuple[list, list]:
    """The rows that only one has; all, where just their order or number differs."""
    only = ([it for it in mine if it not in theirs], [it for it in theirs if it not in mine])
    return only if any(only) else (mine, theirs)


def shape(batches: list[dict]) -> list[object]:
    return [it.get("numInputRows") for it in batches]


def batch(mine: dict, theirs: dict) -> list[Difference]:
    where = f"batch {theirs['batchId']}"
    found = []
    for field in theirs:
        if mine[field] == theirs[field]:
            continue
        if field == "operators" and len(mine[field]) == len(theirs[field]):
            found += operators(where, mine[field], theirs[field])
        else:
            found.append(Difference(field, where, mine[field], theirs[field]))
    return found


def operators(where: str, mine: list[dict], theirs: list[dict]) -> list[Difference]:
    return [
        Difference(field, f"{where}, {right['name']}", left[field], right[field])
        for left, right in zip(mine, theirs)
        for field in right
        if left[field] != right[field]
    ]
