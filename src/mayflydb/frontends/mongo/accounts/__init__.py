"""Who may do what: users, roles and logins."""
