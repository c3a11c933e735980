"""The models of DynamoDB, SQS and S3 behind HTTP, on this machine."""
