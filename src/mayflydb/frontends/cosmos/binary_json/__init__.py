"""Cosmos DB's binary JSON: read from clients that send it, and written for those that take nothing else.

A body that begins with 0x80 is binary. A marker byte introduces each value and names its type; numbers are little-endian.
The format is that of the vendor's clients (azure-cosmos-dotnet-v3, Json/JsonBinaryEncoding; azure_data_cosmos_driver,
binary_json).
"""
