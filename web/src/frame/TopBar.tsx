import { useNavigate } from "@tanstack/react-router";
import { BookOpen, Building2, ChevronDown, Compass, Keyboard, LogOut, Monitor, Moon, Search, Sun, User } from "lucide-react";
import type { ReactNode } from "react";
import { api } from "@/api/client";
import { MAX_LISTED } from "@/api/pages";
import { Button, IconButton } from "@/components/Button";
import { EndKept } from "@/components/Id";
import { Menu, MenuHeading, MenuItem, MenuLine } from "@/components/Menu";
import { useBrowserNow } from "@/components/Time";
import { cx, capitalized, spaced } from "@/format/words";
import { GateSwitch, useGate } from "@/gate/gate";
import { useLive } from "@/live/live";
import { signOut, useSession } from "@/session/session";
import { useTenant } from "@/session/tenant";
import { density, theme, useDensity, useTheme } from "./appearance";
import { usePalette } from "./paletteState";
import styles from "./TopBar.module.css";

/** The line at the top: tenant, search, whether updates arrive, the gate, theme, account. */
export function TopBar({ start }: { start: ReactNode }) {
  const { tenant_id } = useSession();
  return (
    <header className={styles.bar}>
      {start}
      <span className={styles.brand}>Atlas</span>
      {tenant_id === null ? <TenantSwitcher /> : <OwnTenant />}
      <SearchButton />
      <div className={styles.end}>
        <LiveIndicator />
        <GateState />
        <AppearanceMenu />
        <AccountMenu />
      </div>
    </header>
  );
}

function OwnTenant() {
  const { tenant } = useSession();
  return (
    <span className={cx(styles.tenant, "truncate")}>
      <Building2 size={14} aria-hidden /> {tenant}
    </span>
  );
}

/** Operators see all tenants, or one at a time. The choice is a part of every address. */
function TenantSwitcher() {
  const navigate = useNavigate();
  const tenant = useTenant();
  const { data } = api.useQuery("get", "/api/v1/tenants", { params: { query: { limit: MAX_LISTED } } }, { staleTime: 60_000 });
  const choose = (slug: string | undefined): void => void navigate({ to: ".", search: (before) => ({ ...before, tenant: slug }) });
  return (
    <Menu
      label="Tenants"
      align="start"
      trigger={
        <Button kind="ghost" className={styles.switcher} aria-label={`Tenant: ${tenant ?? "all tenants"}`}>
          <Building2 size={14} aria-hidden />
          <EndKept text={tenant ?? "All tenants"} className="" />
          <ChevronDown size={12} aria-hidden />
        </Button>
      }
    >
      <MenuItem checked={tenant === undefined} onSelect={() => choose(undefined)}>
        All tenants
      </MenuItem>
      <MenuLine />
      {data?.items.map((one) => (
        <MenuItem key={one.id} checked={one.slug === tenant} onSelect={() => choose(one.slug)}>
          {one.name === one.slug ? one.slug : `${one.name} (${one.slug})`}
        </MenuItem>
      ))}
    </Menu>
  );
}

function SearchButton() {
  const { setOpen } = usePalette();
  return (
    <button type="button" className={styles.search} aria-label="Find a job, run or page" onClick={() => setOpen(true)}>
      <Search size={14} aria-hidden />
      <span className={styles.hint}>Find a job, run or page</span>
      <kbd aria-hidden>/</kbd>
    </button>
  );
}

const LIVE_WORDS = { live: "live", connecting: "connecting", waiting: "reconnecting", silent: "no answer" };

function LiveIndicator() {
  const { state, lostAt } = useLive();
  return (
    <span className={cx(styles.live, state === "live" && styles.isLive)} role="status" data-live={state}>
      <span className={styles.dot} aria-hidden />
      <span className={styles.word}>
        {LIVE_WORDS[state]}
        {state === "silent" && lostAt !== null && <Silence since={lostAt} />}
      </span>
    </span>
  );
}

/** It changes every second, so it is not read aloud. */
function Silence({ since }: { since: number }) {
  const seconds = Math.max(0, Math.floor((useBrowserNow() - since) / 1000));
  return <span aria-hidden> for {seconds} s</span>;
}

function GateState() {
  const { data: gate } = useGate();
  if (gate === undefined) return null;
  return (
    <span className={styles.gate}>
      <GateSwitch />
      <span className={cx(styles.word, !gate.online && styles.off)}>{gate.online ? "Online" : "Offline"}</span>
    </span>
  );
}

const THEME_ICONS = { system: Monitor, light: Sun, dark: Moon };

/** The theme and how close rows are; this browser remembers both. */
function AppearanceMenu() {
  const shown = useTheme();
  const rows = useDensity();
  const Icon = THEME_ICONS[shown];
  return (
    <Menu
      label="Appearance"
      trigger={
        <IconButton label={`Theme: ${shown}`} className={styles.theme}>
          <Icon size={16} aria-hidden />
        </IconButton>
      }
    >
      <MenuHeading>Theme</MenuHeading>
      {theme.values.map((one) => (
        <MenuItem key={one} checked={one === shown} onSelect={() => theme.keep(one)}>
          {capitalized(one)}
        </MenuItem>
      ))}
      <MenuLine />
      <MenuHeading>Rows</MenuHeading>
      {density.values.map((one) => (
        <MenuItem key={one} checked={one === rows} onSelect={() => density.keep(one)}>
          {capitalized(one)}
        </MenuItem>
      ))}
    </Menu>
  );
}

function AccountMenu() {
  const session = useSession();
  const { setHelp } = usePalette();
  const navigate = useNavigate();
  return (
    <Menu
      label="Account"
      trigger={
        <IconButton label={`Account of ${session.subject}`}>
          <User size={16} aria-hidden />
        </IconButton>
      }
    >
      <MenuHeading>
        {session.subject} · {spaced(session.role)}
      </MenuHeading>
      <MenuLine />
      <MenuItem icon={<Keyboard size={14} aria-hidden />} onSelect={() => setHelp(true)}>
        Keyboard shortcuts
      </MenuItem>
      <MenuItem icon={<Compass size={14} aria-hidden />} onSelect={() => void navigate({ to: "/first-run" })}>
        Guided first run
      </MenuItem>
      <MenuItem icon={<BookOpen size={14} aria-hidden />} onSelect={() => window.open("/docs", "_blank", "noopener")}>
        API documentation
      </MenuItem>
      <MenuLine />
      <MenuItem icon={<LogOut size={14} aria-hidden />} onSelect={() => void signOut()}>
        Sign out
      </MenuItem>
    </Menu>
  );
}
