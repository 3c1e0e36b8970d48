import { useNavigate } from "@tanstack/react-router";
import {
  Bookmark,
  BookOpen,
  Building2,
  CalendarClock,
  CirclePause,
  CirclePlay,
  Compass,
  FileCog,
  Keyboard,
  LayoutList,
  LogOut,
  Logs,
  Plus,
  Play,
  Power,
  Rows3,
  Rows4,
  SunMoon,
  Workflow,
} from "lucide-react";
import { api, type Schemas } from "@/api/client";
import { MAX_LISTED } from "@/api/pages";
import { capitalized, shortId, spaced } from "@/format/words";
import { useGate } from "@/gate/gate";
import { PLACES } from "@/navigation";
import { searchedFor } from "@/pages/jobs/search";
import { nameOf, nounOf, useMayResume, usePauses } from "@/pauses/pauses";
import { JOB_MAKERS, MANAGERS, OPERATORS, READERS, signOut, useCan, useSeesAll, useSession } from "@/session/session";
import { useTenant } from "@/session/tenant";
import { linkOf, useViews } from "@/views/views";
import { density, theme } from "./appearance";
import { type PaletteItem, usePalette } from "./paletteState";
import { useShortcutList } from "./shortcuts";

const FRESH_MS = 60_000;
const MAX_JOBS = 6;
/** The id of a request, which problems and X-Request-Id name. */
const REQUEST_ID = /^[0-9a-f]{32}$/i;
/** What moves within a list is no action to look for; pages are listed as pages. */
const MOVES = new Set(["j", "k", "o", "x", "Enter", "/", "?"]);

/** Everything that can be found by its name, in the order in which equal ones stand. */
export function useNamedItems(): PaletteItem[] {
  const { actions } = usePalette();
  return [
    ...[...actions.values()].flat(),
    ...useShortcutItems(),
    ...useViewItems(),
    ...usePageItems(),
    ...useActionItems(),
    ...useThingItems(),
    ...useResumeItems(),
  ];
}

/** What the page that is shown does on a key. */
function useShortcutItems(): PaletteItem[] {
  return useShortcutList()
    .filter((one) => !one.keys.startsWith("g ") && !MOVES.has(one.keys))
    .map((one) => ({ id: `key ${one.keys}`, label: one.label, hint: one.keys, run: one.run }));
}

function useViewItems(): PaletteItem[] {
  const navigate = useNavigate();
  return useViews().map((view) => {
    const page = PLACES.find((one) => one.to === view.page)?.label ?? view.page;
    return {
      id: `view ${view.page} ${view.name}`,
      label: view.name,
      hint: `View of ${page}`,
      icon: Bookmark,
      run: () => navigate({ href: linkOf(view) }),
    };
  });
}

function usePageItems(): PaletteItem[] {
  const navigate = useNavigate();
  const { role } = useSession();
  const places = PLACES.filter((place) => place.roles.includes(role));
  return places.map((place) => ({
    id: place.to,
    label: place.label,
    hint: `g ${place.key}`,
    icon: place.icon,
    run: () => navigate({ to: place.to }),
  }));
}

function useActionItems(): PaletteItem[] {
  const navigate = useNavigate();
  const { setHelp, setGate } = usePalette();
  const makes = useCan(JOB_MAKERS);
  const operates = useCan(OPERATORS);
  const manages = useCan(MANAGERS);
  const { data: gate } = useGate();
  const items: (PaletteItem | false)[] = [
    makes && { id: "new job", label: "New job", hint: "Action", icon: Plus, run: () => navigate({ to: "/jobs", search: { new: "job" } }) },
    makes && {
      id: "start",
      label: "Start a workflow",
      hint: "Action",
      icon: Play,
      run: () => navigate({ to: "/runs", search: { new: "run" } }),
    },
    operates &&
      gate !== undefined && {
        id: "gate",
        label: gate.online ? "Take Atlas offline" : "Bring Atlas online",
        hint: "Action",
        icon: Power,
        run: () => setGate(true),
      },
    manages && {
      id: "pause",
      label: "Pause something",
      hint: "Action",
      icon: CirclePause,
      run: () => navigate({ to: "/pauses", search: ({ tenant }) => ({ tenant, new: "pause" }) }),
    },
    ...theme.values.map((one) => ({
      id: `theme ${one}`,
      label: `Theme: ${one}`,
      hint: "Appearance",
      icon: SunMoon,
      run: () => theme.keep(one),
    })),
    ...density.values.map((one) => ({
      id: `rows ${one}`,
      label: `Rows: ${one}`,
      hint: "Density",
      icon: one === "compact" ? Rows4 : Rows3,
      run: () => density.keep(one),
    })),
    { id: "guide", label: "Guided first run", hint: "Help", icon: Compass, run: () => navigate({ to: "/first-run" }) },
    { id: "help", label: "Keyboard shortcuts", hint: "?", icon: Keyboard, run: () => setHelp(true) },
    { id: "docs", label: "API documentation", hint: "Help", icon: BookOpen, run: () => window.open("/docs", "_blank", "noopener") },
    { id: "sign out", label: "Sign out", hint: "Action", icon: LogOut, run: () => signOut() },
  ];
  return items.filter((one) => one !== false);
}

/** The pauses that the signed-in person may end. */
function useResumeItems(): PaletteItem[] {
  const navigate = useNavigate();
  const mayResume = useMayResume();
  return (usePauses() ?? []).filter(mayResume).map((pause) => ({
    id: `resume ${pause.id}`,
    label: `Resume ${nameOf(pause)}`,
    hint: `Paused ${nounOf(pause.kind)}`,
    icon: CirclePlay,
    run: () => navigate({ to: "/pauses", search: ({ tenant }) => ({ tenant, resume: pause.id }) }),
  }));
}

/** Workflows, job types, schedules and tenants, as far as the role may read them. */
function useThingItems(): PaletteItem[] {
  const navigate = useNavigate();
  const tenant = useTenant();
  const reads = useCan(READERS);
  const seesAll = useSeesAll();
  const query = { limit: MAX_LISTED, tenant };
  const fresh = { staleTime: FRESH_MS };
  const workflows = api.useQuery("get", "/api/v1/workflows", { params: { query } }, fresh).data?.items ?? [];
  const types = api.useQuery("get", "/api/v1/job-types", { params: { query: { limit: MAX_LISTED } } }, fresh).data?.items ?? [];
  const triggers = api.useQuery("get", "/api/v1/jobs/triggers", { params: { query } }, { ...fresh, enabled: reads }).data?.items ?? [];
  const tenants =
    api.useQuery("get", "/api/v1/tenants", { params: { query: { limit: MAX_LISTED } } }, { ...fresh, enabled: seesAll }).data?.items ?? [];
  return [
    ...[...new Set(workflows.map((one) => one.key))].map((key) => ({
      id: `workflow ${key}`,
      label: key,
      hint: "Workflow",
      icon: Workflow,
      run: () => navigate({ to: "/runs", search: { workflow: key } }),
    })),
    ...types.map(({ key }) => ({
      id: `type ${key}`,
      label: key,
      hint: "Job type",
      icon: FileCog,
      run: () => navigate({ to: "/jobs", search: { job_type: key } }),
    })),
    ...triggers.map((one) => ({
      id: `trigger ${one.id}`,
      label: one.label,
      hint: "Schedule",
      icon: CalendarClock,
      run: () => navigate({ to: "/schedules", search: { trigger: one.id } }),
    })),
    ...tenants.map((one) => ({
      id: `tenant ${one.id}`,
      label: one.name === one.slug ? one.slug : `${one.name} (${one.slug})`,
      hint: "Tenant",
      icon: Building2,
      run: () => navigate({ to: ".", search: (before) => ({ ...before, tenant: one.slug }) }),
    })),
  ];
}

/** Jobs and runs whose id is, or begins with, what was typed, and jobs that a request changed. */
export function useIdItems(typed: string): PaletteItem[] {
  const navigate = useNavigate();
  const tenant = useTenant();
  const reads = useCan(READERS);
  const meant = searchedFor(typed);
  const whole = meant !== null && "id" in meant ? meant.id : undefined;
  const prefix = whole ?? (meant !== null && "id_prefix" in meant ? meant.id_prefix : undefined);
  const query = { id_prefix: prefix, limit: MAX_JOBS, tenant };
  const found =
    api.useQuery("get", "/api/v1/jobs/brief", { params: { query } }, { enabled: prefix !== undefined, placeholderData: (before) => before })
      .data?.items ?? [];
  const requestId = reads && REQUEST_ID.test(typed.trim()) ? typed.trim().toLowerCase() : undefined;
  const ofRequest =
    api.useQuery(
      "get",
      "/api/v1/audit",
      { params: { query: { text: requestId, entity_type: "job", limit: MAX_JOBS, tenant } } },
      { enabled: requestId !== undefined },
    ).data?.items ?? [];
  const job = (id: string, label: string, hint?: string): PaletteItem => ({
    id: `job ${id}`,
    label,
    icon: LayoutList,
    run: () => navigate({ to: "/jobs/$jobId", params: { jobId: id } }),
    ...(hint !== undefined && { hint }),
  });
  const run = (id: string, label: string, hint?: string): PaletteItem => ({
    id: `run ${id}`,
    label,
    icon: Workflow,
    run: () => navigate({ to: "/runs/$runId", params: { runId: id } }),
    ...(hint !== undefined && { hint }),
  });
  if (requestId !== undefined) {
    return [
      ...[...new Set(ofRequest.map((one) => one.entity_id))].map((id) => job(id, `Job ${shortId(id)}`, "Of this request")),
      {
        id: "request",
        label: `Audit log of the request ${shortId(requestId)}`,
        icon: Logs,
        run: () => navigate({ to: "/audit", search: { text: requestId } }),
      },
    ];
  }
  if (prefix === undefined) return [];
  const items = found
    .filter((one) => one.id.startsWith(prefix))
    .map((one) =>
      isRun(one)
        ? run(one.id, `Workflow run ${shortId(one.id)}`, spaced(one.status))
        : job(one.id, `${one.job_type} ${shortId(one.id)}`, spaced(one.status)),
    );
  if (whole === undefined) return items;
  // What is not listed may still be there: a request that policy holds is no job yet, and a removed job has its audit rows.
  const guesses = items.length > 0 ? items : [job(whole, `Job ${whole}`), run(whole, `Workflow run ${whole}`)];
  return reads
    ? [
        ...guesses,
        { id: "audit", label: `Audit log of ${whole}`, icon: Logs, run: () => navigate({ to: "/audit", search: { entity_id: whole } }) },
      ]
    : guesses;
}

function isRun(job: Schemas["ListedJob"]): boolean {
  return job.job_type === "ENGINE_RUN";
}

/** Adds to the label what a person may type instead of it. */
export function wordsOf(item: PaletteItem): string {
  return item.hint === undefined ? item.label : `${item.label} ${capitalized(item.hint)}`;
}
