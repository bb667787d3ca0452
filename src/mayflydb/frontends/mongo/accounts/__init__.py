"""Users, roles and logins."""
