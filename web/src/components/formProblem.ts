import { createContext, useContext } from "react";
import { Problem } from "@/api/problem";

/** Why the form around a field was refused, if it was. */
export const FormProblem = createContext<unknown>(null);

/** What was wrong with a field of the form that was sent. */
export function useReason(name: string | undefined): string | undefined {
  const problem = useContext(FormProblem);
  return name !== undefined && problem instanceof Problem ? problem.reasonOf(name) : undefined;
}
