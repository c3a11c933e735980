"""Send the frequent requests to DynamoDB and SQS at a quarter of the SDK's CPU.

The signature, the bytes, the retries and the errors are those of the SDK. This package
omits the SDK's walk through models and events, which costs more than the request.
"""
