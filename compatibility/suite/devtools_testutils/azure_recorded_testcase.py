"""The credential of a live account, which nobody has here."""

from __future__ import annotations


class NoCredential:
    """Says that there is no Entra ID as soon as a token is asked for."""

    def get_token(self, *scopes: str, **_options: object) -> object:
        raise RuntimeError(f"there is no Entra ID here that could give a token for {', '.join(scopes)}")


def get_credential(**_options: object) -> NoCredential:
    """`test_config.py` asks for one wherever it does not talk to port 8081 of this machine."""
    return NoCredential()
