"""Pages of Cosmos DB's databases, containers and items."""
