"""Azure Cosmos DB for NoSQL over REST."""
