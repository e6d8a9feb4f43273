"""Exceptions that users may catch."""


class AcceptanceError(RuntimeError):
    """Too few proposals are accepted for the draws asked for.

    Parameters
    ----------
    message : str
        What happened, and what to do.
    acceptance : float
        The share that is accepted.

    Examples
    --------
    >>> import mvnorth
    >>> try:
    ...     raise mvnorth.AcceptanceError("too few", acceptance=1e-9)
    ... except RuntimeError as error:
    ...     print(error.acceptance)
    1e-09
    """

    def __init__(self, message: str, acceptance: float = 0.0) -> None:
        super().__init__(message)
        self.acceptance = acceptance
