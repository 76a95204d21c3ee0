"""What the functions return."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Optional, Tuple


@dataclass(frozen=True)
class Result:
    """What a job has done.

    outputs     the files and the array that were named for this rank's outputs, or the new array
    algorithm   the algorithm that has run; "": none
    bytes       of the elements of the result
    seconds     from the call until all ranks had the result
    dtype       the type of the elements, or "mixed"; None: there are none
    digest      of the result, if all ranks have the same; else None
    json        all of what `collctl COMMAND --json` prints (collctl-json(5))
    """

    command: str
    rank: int
    size: int
    algorithm: str
    bytes: int
    seconds: float
    outputs: Tuple[Any, ...] = field(default=(), compare=False)
    dtype: Optional[str] = None
    digest: Optional[str] = None
    json: Dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def output(self) -> Any:
        """The first output; None: there is none."""
        return self.outputs[0] if self.outputs else None


@dataclass(frozen=True)
class Tensor:
    """A tensor of a file; an array has the name "". The last five are known with stats=True alone."""

    name: str
    dtype: str
    shape: Tuple[int, ...]
    count: int
    bytes: int
    digest: Optional[str]
    min: Optional[float] = None
    max: Optional[float] = None
    mean: Optional[float] = None
    nan: Optional[int] = None
    inf: Optional[int] = None


@dataclass(frozen=True)
class Info:
    """What a file contains. `dtype` is None if the tensors have several, `shape` if they have names.

    json   all of what `collctl info --json` prints (collctl-json(5))
    """

    file: str
    format: str
    dtype: Optional[str]
    shape: Optional[Tuple[int, ...]]
    count: int
    bytes: int
    digest: Optional[str]
    files: Tuple[str, ...]
    tensors: Tuple[Tensor, ...]
    json: Dict[str, Any] = field(repr=False, compare=False)


@dataclass(frozen=True)
class Link:
    """The link from one rank to another. Times are in seconds, the bandwidth is in bytes per second; None: not measured.

    state   "works", or how it fails
    why     why it fails; None: it works
    """

    source: int
    target: int
    state: str
    why: Optional[str]
    connect: Optional[float]
    handshake: Optional[float]
    round_trip: Optional[float]
    bandwidth: Optional[float]


@dataclass(frozen=True)
class Check:
    """What `check` has measured. The rank that coordinates has the links; the others have none.

    findings   what the links that fail or are slow have in common, in sentences
    json       all of what `collctl check --json` prints (collctl-json(5))
    """

    rank: int
    size: int
    hosts: int
    links: Tuple[Link, ...]
    findings: Tuple[str, ...]
    json: Dict[str, Any] = field(repr=False, compare=False)


@dataclass(frozen=True)
class Verified:
    """Files that are the same on all ranks: their names on this rank, and the digest of each."""

    rank: int
    size: int
    files: Tuple[str, ...]
    digests: Tuple[str, ...]
    json: Dict[str, Any] = field(repr=False, compare=False)


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _members(cls: Any, answer: Dict[str, Any]) -> Dict[str, Any]:
    """The members of a dataclass that have the names of fields of the answer."""
    return {name: _tuple(answer[name]) for name in cls.__dataclass_fields__ if name in answer}


def result_of(answer: Dict[str, Any], algorithm: str, outputs: Tuple[Any, ...]) -> Result:
    return Result(
        **{**_members(Result, answer), "algorithm": algorithm, "seconds": answer["seconds"]["total"]},
        outputs=outputs,
        json=answer,
    )


def info_of(answer: Dict[str, Any]) -> Info:
    tensors = tuple(Tensor(**_members(Tensor, t)) for t in answer["tensors"])
    return Info(**{**_members(Info, answer), "tensors": tensors}, json=answer)


def check_of(answer: Dict[str, Any]) -> Check:
    links = tuple(
        Link(
            source=link["from"],
            target=link["to"],
            **{**_members(Link, link), "round_trip": link["round_trip"]["median"]},
        )
        for link in answer.get("links", [])
    )
    return Check(
        rank=answer["rank"],
        size=answer["size"],
        hosts=answer["hosts"],
        links=links,
        findings=tuple(answer.get("findings", [])),
        json=answer,
    )


def verified_of(answer: Dict[str, Any]) -> Verified:
    return Verified(
        rank=answer["rank"],
        size=answer["size"],
        files=tuple(f["file"] for f in answer["files"]),
        digests=tuple(f["digest"] for f in answer["files"]),
        json=answer,
    )
