"""Moving everything that one store holds into another one, or into a file and back, with ids, versions and lives as they are."""
