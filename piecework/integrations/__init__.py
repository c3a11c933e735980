"""Agents of other frameworks, step by step: each request and tool is paid for once.

`pydantic_ai`, `openai_agents` and `langgraph` each need the extra of their name.
"""
