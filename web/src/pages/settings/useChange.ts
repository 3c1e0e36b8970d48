import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useToast } from "@/components/Toast";

/** A change that is said in a corner when it is done, after which the lists at these addresses are read again. */
export function useChange<Input>(
  change: (input: Input) => Promise<unknown>,
  options: { done: (input: Input) => string; lists: string[]; onDone?: () => void },
) {
  const queries = useQueryClient();
  const toast = useToast();
  return useMutation({
    mutationFn: change,
    onSuccess: (_, input) => {
      toast(options.done(input));
      for (const list of options.lists) void queries.invalidateQueries({ predicate: (query) => query.queryKey[1] === list });
      options.onDone?.();
    },
  });
}
