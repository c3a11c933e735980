"""Model DynamoDB, SQS and S3 exactly, in memory."""
