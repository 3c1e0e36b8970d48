import { oneOf, text, type RawSearch } from "@/search";

export const APPROVAL_STATUSES = ["pending", "approved", "rejected", "expired", "canceled"] as const;

export type ApprovalStatus = (typeof APPROVAL_STATUSES)[number];

export interface ApprovalsSearch {
  status?: ApprovalStatus | undefined;
  /** The approval that is open beside the list. */
  open?: string | undefined;
}

/** What the inbox keeps in its address. */
export function approvalsSearch(search: RawSearch): ApprovalsSearch {
  return { status: oneOf(search, "status", APPROVAL_STATUSES), open: text(search, "open") };
}
