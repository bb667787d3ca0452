"""Pages of MongoDB's databases, collections and documents."""
