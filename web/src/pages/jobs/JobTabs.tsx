import { Link } from "@tanstack/react-router";
import { PAGE_TAB, PageTabs } from "@/components/Tabs";

/** Single jobs, and those that belong together. */
export function JobTabs() {
  const search = ({ tenant }: { tenant?: string | undefined }): { tenant: string | undefined } => ({ tenant });
  return (
    <PageTabs label="Jobs">
      <Link to="/jobs" search={search} className={PAGE_TAB} activeOptions={{ includeSearch: false }}>
        Jobs
      </Link>
      <Link to="/groups" search={search} className={PAGE_TAB} activeOptions={{ includeSearch: false }}>
        Groups
      </Link>
    </PageTabs>
  );
}
