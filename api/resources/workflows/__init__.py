"""Routes for workflows, their runs and approvals, and the policies about them."""
