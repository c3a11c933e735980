"""An environment on AWS: its stacks shown, deployed, compared, described and removed.

    parts.py         the stacks, in their order
    templates.py     their templates, in a checkout and in the wheel
    environment.py   what is wanted: from options and an environment file
    parameters.py    what each parameter of a stack is to be
    change_set.py    what CloudFormation says that it would do
    following.py     what it then does
    deploy.py, destroy.py, render.py, status.py   the commands' work

Nothing here asks or prints: a `Talk` is handed in.
"""
