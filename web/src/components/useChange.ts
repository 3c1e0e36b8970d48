import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useToast } from "@/components/Toast";

/** A change that is said in a corner when it is done. Then what is under these addresses is read again: everything, if none is named. */
export function useChange<Input, Result = unknown>(
  change: (input: Input) => Promise<Result>,
  options: { done: (input: Input, result: Result) => string; lists?: string[]; onDone?: () => void },
) {
  const queries = useQueryClient();
  const toast = useToast();
  return useMutation({
    mutationFn: change,
    onSuccess: (result, input) => {
      toast(options.done(input, result));
      for (const list of options.lists ?? [""]) {
        void queries.invalidateQueries({ predicate: ({ queryKey }) => String(queryKey[1]).startsWith(list) });
      }
      options.onDone?.();
    },
  });
}
