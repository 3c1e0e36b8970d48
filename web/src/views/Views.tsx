import { useNavigate, useRouterState } from "@tanstack/react-router";
import { Bookmark, Trash2 } from "lucide-react";
import { useState, type MouseEvent, type SyntheticEvent } from "react";
import { Button, IconButton } from "@/components/Button";
import { FilterMenu } from "@/components/FilterChips";
import { Input } from "@/components/Form";
import { CopyButton } from "@/components/Id";
import { cx } from "@/format/words";
import styles from "./Views.module.css";
import { keepViews, linkOf, nameIn, searchOfView, useViews, type View, withView, without } from "./views";

/** The named views of the page that is shown: to open, to share, and to keep the present one. Stands at the end of a line of filters. */
export function Views() {
  const location = useRouterState({ select: (state) => state.location });
  const views = useViews();
  const page = location.pathname;
  const search = searchOfView(location.search);
  const own = views.filter((one) => one.page === page);
  const current = own.find((one) => one.search === search);
  const shared = nameIn(location.hash);
  const name = current?.name ?? shared;
  return (
    <FilterMenu label={name === undefined ? "Views" : `View: ${name}`} icon={<Bookmark size={12} aria-hidden />}>
      {(close) => (
        <div className={styles.views}>
          {own.length > 0 && (
            <ul>
              {own.map((view) => (
                <Row
                  key={view.name}
                  view={view}
                  current={view === current}
                  onOpen={close}
                  onRemove={() => keepViews(without(views, view))}
                />
              ))}
            </ul>
          )}
          {current === undefined && (
            <Keep
              key={shared}
              name={shared ?? ""}
              disabled={search === ""}
              onKeep={(given) => keepViews(withView(views, { page, name: given, search }))}
            />
          )}
        </div>
      )}
    </FilterMenu>
  );
}

function Row({ view, current, onOpen, onRemove }: { view: View; current: boolean; onOpen: () => void; onRemove: () => void }) {
  const navigate = useNavigate();
  const link = linkOf(view);
  const open = (event: MouseEvent): void => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    onOpen();
    void navigate({ href: link });
  };
  return (
    <li className={cx(styles.view, current && styles.current)}>
      <a href={link} className="truncate" aria-current={current ? "true" : undefined} onClick={open}>
        {view.name}
      </a>
      <CopyButton text={`${window.location.origin}${link}`} label={`Copy the link of ${view.name}`} tabStop />
      <IconButton label={`Remove ${view.name}`} onClick={onRemove}>
        <Trash2 size={12} aria-hidden />
      </IconButton>
    </li>
  );
}

function Keep({ name, disabled, onKeep }: { name: string; disabled: boolean; onKeep: (name: string) => void }) {
  const [typed, setTyped] = useState(name);
  const submit = (event: SyntheticEvent): void => {
    event.preventDefault();
    if (!disabled && typed.trim() !== "") onKeep(typed);
  };
  if (disabled) return <p className={styles.hint}>A view saves filters, columns and order. Set some first.</p>;
  return (
    <form className={styles.keep} onSubmit={submit}>
      <Input
        aria-label="Name of this view"
        placeholder="Name of this view"
        maxLength={60}
        value={typed}
        onChange={(event) => setTyped(event.target.value)}
      />
      <Button type="submit" kind="primary" disabled={typed.trim() === ""}>
        Keep
      </Button>
    </form>
  );
}
