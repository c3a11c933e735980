"""Deploy, compare, describe and remove the CloudFormation stacks of an environment.

    parts.py         the stacks, in their order
    templates.py     their templates, in a checkout and in the wheel
    environment.py   the wanted state: command-line options and an environment file
    parameters.py    the value of each parameter of a stack
    change_set.py    the changes that CloudFormation plans
    following.py     the events while CloudFormation makes them
    deploy.py, destroy.py, render.py, status.py   the work of the commands

Nothing here prints or asks the user: the caller passes an `Interaction`.
"""
