import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useToast } from "@/components/Toast";

/** A change that is said in a corner when it is done. Then what is under these addresses is read again: everything, if none is named. */
export function useChange<Input, Result = unknown>(
  change: (input: Input) => Promise<Result>,
  options: {
    done: (input: Input, result: Result) => string;
    lists?: string[];
    onDone?: () => void;
    /** No dialog asks first, so none says why it failed: the corner does, and what it changes is read again. */
    unasked?: boolean;
  },
) {
  const queries = useQueryClient();
  const toast = useToast();
  const refresh = (): void => {
    for (const list of options.lists ?? [""]) {
      void queries.invalidateQueries({ predicate: ({ queryKey }) => String(queryKey[1]).startsWith(list) });
    }
  };
  return useMutation({
    mutationFn: change,
    onSuccess: (result, input) => {
      toast(options.done(input, result));
      refresh();
      options.onDone?.();
    },
    onError: (error) => {
      if (options.unasked !== true) return;
      toast(error.message, { failed: true });
      refresh();
    },
  });
}
