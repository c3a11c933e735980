"""Agents of other frameworks, step by step: each request and tool is paid for once.

`piecework.integrations.pydantic_ai` needs the extra of its name.
"""
