import { texts, type RawSearch } from "@/search";

export interface DeadLettersSearch {
  /** Only groups of these types, and with these errors. */
  job_type?: string[] | undefined;
  error_type?: string[] | undefined;
}

/** What the page keeps in its address. */
export function deadLettersSearch(search: RawSearch): DeadLettersSearch {
  return { job_type: texts(search, "job_type"), error_type: texts(search, "error_type") };
}
