"""Indexes of MongoDB: specifications, the keys of documents, and the plans of queries."""
