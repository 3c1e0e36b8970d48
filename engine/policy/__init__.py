"""Policy: the rules that judge every start of a workflow."""
