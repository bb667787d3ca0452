"""Time series collections: measurements in buckets of a series and a span of time, which expire together.

https://www.mongodb.com/docs/manual/core/timeseries-collections/
"""
