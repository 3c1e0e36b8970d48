import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent as lazyComponent,
  Link,
  retainSearchParams,
  type ErrorComponentProps,
} from "@tanstack/react-router";
import { PageNotLoaded } from "@/api/problem";
import { EmptyState } from "@/components/EmptyState";
import { ProblemView } from "@/components/ProblemView";
import { reload } from "@/frame/build";
import { approvalsSearch } from "@/pages/approvals/search";
import { auditSearch } from "@/pages/audit/search";
import { deadLettersSearch } from "@/pages/dead-letters/search";
import { effectsSearch } from "@/pages/effects/search";
import { groupsSearch } from "@/pages/groups/search";
import { insightsSearch } from "@/pages/insights/search";
import { firstRunSearch } from "@/pages/first-run/search";
import { jobSearch, jobsSearch } from "@/pages/jobs/search";
import { outboxSearch } from "@/pages/outbox/search";
import { overviewSearch } from "@/pages/overview/search";
import { pausesSearch } from "@/pages/pauses/search";
import { requestsSearch } from "@/pages/requests/search";
import { runSearch, runsSearch } from "@/pages/runs/search";
import { schedulesSearch } from "@/pages/schedules/search";
import { settingsSearch } from "@/pages/settings/search";
import { workersSearch } from "@/pages/workers/search";
import { editSearch, workflowSearch } from "@/pages/workflows/search";
import { Root } from "@/Root";
import { parseSearch, stringifySearch, text, texts, type RawSearch } from "@/search";

const root = createRootRoute({
  component: Root,
  validateSearch: (search: RawSearch): { tenant?: string | undefined; hide?: string[] | undefined } => ({
    tenant: text(search, "tenant"),
    hide: texts(search, "hide"),
  }),
  // The tenant that an operator has chosen stays chosen from page to page.
  search: { middlewares: [retainSearchParams(["tenant"])] },
});

// The router would load the whole page again by itself, and show the browser's error where the server is away.
const lazyRouteComponent: typeof lazyComponent = (load, name) =>
  lazyComponent(async () => load().catch((error: unknown) => Promise.reject(new PageNotLoaded(error))), name);

const getParentRoute = (): typeof root => root;

const routes = [
  createRoute({
    getParentRoute,
    path: "/",
    validateSearch: overviewSearch,
    component: lazyRouteComponent(() => import("@/pages/overview/OverviewPage"), "OverviewPage"),
  }),
  createRoute({
    getParentRoute,
    path: "/jobs",
    validateSearch: jobsSearch,
    component: lazyRouteComponent(() => import("@/pages/jobs/JobsPage"), "JobsPage"),
  }),
  createRoute({
    getParentRoute,
    path: "/jobs/$jobId",
    validateSearch: jobSearch,
    component: lazyRouteComponent(() => import("@/pages/jobs/JobPage"), "JobPage"),
  }),
  createRoute({
    getParentRoute,
    path: "/groups",
    validateSearch: groupsSearch,
    component: lazyRouteComponent(() => import("@/pages/groups/GroupsPage"), "GroupsPage"),
  }),
  createRoute({
    getParentRoute,
    path: "/dead-letters",
    validateSearch: deadLettersSearch,
    component: lazyRouteComponent(() => import("@/pages/dead-letters/DeadLettersPage"), "DeadLettersPage"),
  }),
  createRoute({
    getParentRoute,
    path: "/runs",
    validateSearch: runsSearch,
    component: lazyRouteComponent(() => import("@/pages/runs/RunsPage"), "RunsPage"),
  }),
  createRoute({
    getParentRoute,
    path: "/runs/$runId",
    validateSearch: runSearch,
    component: lazyRouteComponent(() => import("@/pages/runs/RunPage"), "RunPage"),
  }),
  createRoute({
    getParentRoute,
    path: "/requests",
    validateSearch: requestsSearch,
    component: lazyRouteComponent(() => import("@/pages/requests/RequestsPage"), "RequestsPage"),
  }),
  createRoute({
    getParentRoute,
    path: "/workflows",
    component: lazyRouteComponent(() => import("@/pages/workflows/WorkflowsPage"), "WorkflowsPage"),
  }),
  createRoute({
    getParentRoute,
    path: "/workflows/new",
    validateSearch: editSearch,
    component: lazyRouteComponent(() => import("@/pages/workflows/EditPage"), "NewWorkflowPage"),
  }),
  createRoute({
    getParentRoute,
    path: "/workflows/$key",
    validateSearch: workflowSearch,
    component: lazyRouteComponent(() => import("@/pages/workflows/WorkflowPage"), "WorkflowPage"),
  }),
  createRoute({
    getParentRoute,
    path: "/workflows/$key/edit",
    validateSearch: editSearch,
    component: lazyRouteComponent(() => import("@/pages/workflows/EditPage"), "EditPage"),
  }),
  createRoute({
    getParentRoute,
    path: "/approvals",
    validateSearch: approvalsSearch,
    component: lazyRouteComponent(() => import("@/pages/approvals/ApprovalsPage"), "ApprovalsPage"),
  }),
  createRoute({
    getParentRoute,
    path: "/schedules",
    validateSearch: schedulesSearch,
    component: lazyRouteComponent(() => import("@/pages/schedules/SchedulesPage"), "SchedulesPage"),
  }),
  createRoute({
    getParentRoute,
    path: "/workers",
    validateSearch: workersSearch,
    component: lazyRouteComponent(() => import("@/pages/workers/WorkersPage"), "WorkersPage"),
  }),
  createRoute({
    getParentRoute,
    path: "/pauses",
    validateSearch: pausesSearch,
    component: lazyRouteComponent(() => import("@/pages/pauses/PausesPage"), "PausesPage"),
  }),
  createRoute({
    getParentRoute,
    path: "/effects",
    validateSearch: effectsSearch,
    component: lazyRouteComponent(() => import("@/pages/effects/EffectsPage"), "EffectsPage"),
  }),
  createRoute({
    getParentRoute,
    path: "/audit",
    validateSearch: auditSearch,
    component: lazyRouteComponent(() => import("@/pages/audit/AuditPage"), "AuditPage"),
  }),
  createRoute({
    getParentRoute,
    path: "/outbox",
    validateSearch: outboxSearch,
    component: lazyRouteComponent(() => import("@/pages/outbox/OutboxPage"), "OutboxPage"),
  }),
  createRoute({
    getParentRoute,
    path: "/insights",
    validateSearch: insightsSearch,
    component: lazyRouteComponent(() => import("@/pages/insights/InsightsPage"), "InsightsPage"),
  }),
  createRoute({
    getParentRoute,
    path: "/first-run",
    validateSearch: firstRunSearch,
    component: lazyRouteComponent(() => import("@/pages/first-run/FirstRunPage"), "FirstRunPage"),
  }),
  createRoute({
    getParentRoute,
    path: "/settings",
    validateSearch: settingsSearch,
    component: lazyRouteComponent(() => import("@/pages/settings/SettingsPage"), "SettingsPage"),
  }),
] as const;

export const router = createRouter({
  routeTree: root.addChildren(routes),
  parseSearch,
  stringifySearch,
  defaultPreload: "intent",
  defaultNotFoundComponent: NotFound,
  defaultErrorComponent: Failed,
  scrollRestoration: false,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}

function NotFound() {
  return (
    <EmptyState title="There is no such page" action={<Link to="/">Go to the overview</Link>}>
      The address may be misspelled, or what it names was removed.
    </EmptyState>
  );
}

function Failed({ error, reset }: ErrorComponentProps) {
  return <ProblemView error={error} onRetry={error instanceof PageNotLoaded ? () => void reload() : reset} />;
}
