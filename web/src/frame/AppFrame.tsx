import { Link, Outlet, useNavigate, useRouterState } from "@tanstack/react-router";
import { Menu as MenuIcon, PanelLeft } from "lucide-react";
import { useEffect, useState } from "react";
import { api } from "@/api/client";
import { IconButton } from "@/components/Button";
import { TooltipProvider } from "@/components/Tooltip";
import { ToastProvider } from "@/components/Toast";
import { short } from "@/format/numbers";
import { cx } from "@/format/words";
import { isStale, LiveProvider, useLive } from "@/live/live";
import { PLACES, type Place } from "@/navigation";
import { READERS, useCan, useSession } from "@/session/session";
import { useTenant } from "@/session/tenant";
import styles from "./AppFrame.module.css";
import { KeyboardHelp } from "./KeyboardHelp";
import { OfflineBanner } from "./OfflineBanner";
import { PageName } from "./PageName";
import { Palette } from "./Palette";
import { PaletteProvider } from "./paletteState";
import { ShortcutProvider, useShortcut } from "./shortcuts";
import { BusyBanner, UpdateBanner } from "./StateBanners";
import { TopBar } from "./TopBar";
import { showWholeOnHover } from "./wholeOnHover";

const RAIL = "atlas.rail";

/** Everything around a page: the rail, the top bar, the banner, the keyboard and the live connection. */
export function AppFrame() {
  return (
    <ShortcutProvider>
      <LiveProvider>
        <ToastProvider>
          <TooltipProvider delayDuration={300}>
            <PaletteProvider>
              <Frame />
            </PaletteProvider>
          </TooltipProvider>
        </ToastProvider>
      </LiveProvider>
    </ShortcutProvider>
  );
}

function Frame() {
  useEffect(showWholeOnHover, []);
  const [slim, setSlim] = useState(() => localStorage.getItem(RAIL) === "slim");
  const [drawer, setDrawer] = useState(false);
  const toggle = (): void => {
    localStorage.setItem(RAIL, slim ? "wide" : "slim");
    setSlim(!slim);
  };
  const path = useRouterState({ select: (state) => state.location.pathname });
  const { role } = useSession();
  const stale = isStale(useLive());
  const places = PLACES.filter((place) => place.roles.includes(role));
  return (
    <div className={cx(styles.frame, slim && styles.slim)}>
      <a href="#content" className={styles.skip}>
        Skip to content
      </a>
      <TopBar
        start={
          <IconButton label="Menu" className={styles.burger} aria-expanded={drawer} onClick={() => setDrawer(!drawer)}>
            <MenuIcon size={18} aria-hidden />
          </IconButton>
        }
      />
      <nav className={cx(styles.rail, drawer && styles.drawer)} aria-label="Pages">
        <ul>
          {places.map((place) => (
            <RailItem
              key={place.to}
              place={place}
              current={isWithin(path, place.to) || place.also?.some((other) => isWithin(path, other)) === true}
              onFollow={() => setDrawer(false)}
            />
          ))}
        </ul>
        <IconButton label={slim ? "Expand the menu" : "Collapse the menu"} className={styles.fold} onClick={toggle}>
          <PanelLeft size={16} aria-hidden />
        </IconButton>
      </nav>
      {drawer && <button type="button" className={styles.shade} aria-label="Close the menu" onClick={() => setDrawer(false)} />}
      <div className={styles.main}>
        <PageName />
        <OfflineBanner />
        <UpdateBanner />
        <BusyBanner />
        <main id="content" className={cx(styles.content, stale && styles.stale)} data-stale={stale || undefined} tabIndex={-1}>
          <Outlet />
        </main>
      </div>
      <Palette />
      <KeyboardHelp />
    </div>
  );
}

function isWithin(path: string, to: string): boolean {
  return to === "/" ? path === "/" : path === to || path.startsWith(`${to}/`);
}

function RailItem({ place, current, onFollow }: { place: Place; current: boolean; onFollow: () => void }) {
  const navigate = useNavigate();
  useShortcut(`g ${place.key}`, `Go to ${place.label}`, () => navigate({ to: place.to }));
  const Icon = place.icon;
  return (
    <li>
      <Link
        to={place.to}
        className={cx(styles.item, current && styles.current)}
        aria-current={current ? "page" : undefined}
        title={place.label}
        onClick={onFollow}
      >
        <Icon size={16} aria-hidden />
        <span className={styles.name}>{place.label}</span>
        {place.to === "/approvals" && <PendingApprovals />}
      </Link>
    </li>
  );
}

/** How many decisions wait for a person. */
function PendingApprovals() {
  const tenant = useTenant();
  const may = useCan(READERS);
  const { data } = api.useQuery(
    "get",
    "/api/v1/approvals/summary",
    { params: { query: { tenant } } },
    { enabled: may, meta: { live: ["run"] }, refetchInterval: 60_000 },
  );
  const count = data?.pending ?? 0;
  return count === 0 ? null : <span className={styles.count}>{short(count)}</span>;
}
