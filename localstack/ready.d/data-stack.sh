#!/bin/sh
# LocalStack runs this inside its container once it answers: deploy the data stack.
set -eu
awslocal cloudformation deploy \
    --stack-name "$PIECEWORK_APP-$PIECEWORK_ENV-data" \
    --template-file /opt/piecework/data.yaml \
    --parameter-overrides "App=$PIECEWORK_APP" "Env=$PIECEWORK_ENV" Protect=false \
    --no-fail-on-empty-changeset
