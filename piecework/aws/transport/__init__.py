"""The hot requests to DynamoDB and SQS, without what the SDK spends around each.

Signing, the bytes that are sent, retries and errors are the SDK's; left out is its
walk through models and events, which costs more than the request itself.
"""
