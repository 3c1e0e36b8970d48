import {
  ArrowUpRight,
  CalendarClock,
  ChartLine,
  CircleCheckBig,
  CirclePause,
  House,
  LayoutList,
  Logs,
  Mail,
  Server,
  Settings,
  Skull,
  Workflow,
  type LucideIcon,
} from "lucide-react";
import { PEOPLE, READERS, type Role } from "@/session/session";

export interface Place {
  to:
    | "/"
    | "/jobs"
    | "/dead-letters"
    | "/runs"
    | "/approvals"
    | "/schedules"
    | "/workers"
    | "/effects"
    | "/pauses"
    | "/audit"
    | "/outbox"
    | "/insights"
    | "/settings";
  /** Other addresses that belong to it. */
  also?: readonly string[];
  label: string;
  icon: LucideIcon;
  /** The key after g. */
  key: string;
  roles: readonly Role[];
}

/** The pages in the rail, for the roles that may read them. */
export const PLACES: readonly Place[] = [
  { to: "/", label: "Overview", icon: House, key: "o", roles: PEOPLE },
  { to: "/jobs", also: ["/groups"], label: "Jobs", icon: LayoutList, key: "j", roles: PEOPLE },
  { to: "/dead-letters", label: "Dead letters", icon: Skull, key: "d", roles: PEOPLE },
  { to: "/runs", also: ["/workflows", "/requests"], label: "Workflows", icon: Workflow, key: "w", roles: PEOPLE },
  { to: "/approvals", label: "Approvals", icon: CircleCheckBig, key: "a", roles: READERS },
  { to: "/effects", label: "Effects", icon: ArrowUpRight, key: "e", roles: READERS },
  { to: "/schedules", label: "Schedules", icon: CalendarClock, key: "s", roles: READERS },
  { to: "/workers", label: "Workers", icon: Server, key: "k", roles: READERS },
  { to: "/pauses", label: "Pauses", icon: CirclePause, key: "p", roles: READERS },
  { to: "/audit", label: "Audit", icon: Logs, key: "l", roles: READERS },
  { to: "/outbox", label: "Outbox", icon: Mail, key: "m", roles: READERS },
  { to: "/insights", label: "Insights", icon: ChartLine, key: "i", roles: READERS },
  { to: "/settings", label: "Settings", icon: Settings, key: "t", roles: PEOPLE },
];
