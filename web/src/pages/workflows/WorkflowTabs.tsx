import { Link } from "@tanstack/react-router";
import { PAGE_TAB, PageTabs } from "@/components/Tabs";

/** What runs, what was requested, and what is defined. */
export function WorkflowTabs() {
  const search = ({ tenant }: { tenant?: string | undefined }): { tenant: string | undefined } => ({ tenant });
  return (
    <PageTabs label="Workflows">
      <Link to="/runs" search={search} className={PAGE_TAB} activeOptions={{ includeSearch: false }}>
        Runs
      </Link>
      <Link to="/requests" search={search} className={PAGE_TAB} activeOptions={{ includeSearch: false }}>
        Requests
      </Link>
      <Link to="/workflows" search={search} className={PAGE_TAB} activeOptions={{ includeSearch: false }}>
        Definitions
      </Link>
    </PageTabs>
  );
}
