"""MQL, MongoDB's query language: values and their order, filters, expressions, updates, pipelines, index bounds. Pure."""
