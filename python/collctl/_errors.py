"""Why a call has failed: a class for each exit code of the command."""

from __future__ import annotations

from typing import Any, Dict, Optional, Type


class Error(Exception):
    """A job that has failed. Its subclasses say how; their codes are the exit codes of the command.

    message   what has failed, without the rank
    rank      the rank whose fault it is; None: not known, or this one
    host      the host of this rank; None: not known, or the same for all ranks
    subject   what the message is about: a file, a URL, the name of a setting; None: none of these
    result    what `collctl COMMAND --json` prints of it, such as the links that `check` has measured; None: the job
              has not run
    """

    code: int = 1

    def __init__(
        self, message: str, rank: Optional[int] = None, host: Optional[str] = None, subject: Optional[str] = None
    ) -> None:
        super().__init__(message, rank, host, subject)
        self.message = message
        self.rank = rank
        self.host = host
        self.subject = subject
        self.result: Any = None

    def __str__(self) -> str:
        if self.rank is None:
            return self.message
        where = f" ({self.host})" if self.host else ""
        return f"rank {self.rank}{where}: {self.message}"


class OtherError(Error):
    """Any other failure."""

    code = 1


class UsageError(Error):
    """An argument or a setting is wrong or missing."""

    code = 2


class InputError(Error):
    """An input is malformed, changed or unreadable."""

    code = 3


class OutputError(Error):
    """An output cannot be written."""

    code = 4


class RendezvousError(Error):
    """The ranks did not meet."""

    code = 5


class AuthError(Error):
    """The secret, a certificate or a token is missing or wrong."""

    code = 6


class DisagreeError(Error):
    """The settings or the data of the ranks differ."""

    code = 7


class PeerLostError(Error):
    """A rank or a connection was lost."""

    code = 8


class StalledError(Error):
    """There was no progress for the setting `timeout`."""

    code = 9


class IntegrityError(Error):
    """Received bytes are corrupt, or the ranks have different results."""

    code = 10


class ResourceError(Error):
    """Memory, descriptors or threads ran out, or a library is missing."""

    code = 11


class CancelledError(Error):
    """The job was cancelled."""

    code = 130


_classes: Dict[int, Type[Error]] = {c.code: c for c in Error.__subclasses__()}


def error_of(code: int, message: str, rank: Optional[int], host: Optional[str], subject: Optional[str]) -> Error:
    """The exception for a code. Empty strings and rank -1 mean that it is not known."""
    return _classes.get(code, OtherError)(
        message, None if rank is None or rank < 0 else rank, host or None, subject or None
    )
