"""Decides about workflows: intents, policy, durable runs and their steps, events, approvals, declared workflows."""
