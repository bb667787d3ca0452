"""Tokens of Entra ID and of other issuers, and the roles that permit their holders requests for data."""
