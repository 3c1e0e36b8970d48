import { useNavigate, useSearch } from "@tanstack/react-router";
import { Columns3 } from "lucide-react";
import { ChoiceFilter } from "@/components/FilterChips";
import type { Column } from "@/components/DataTable";

/** The columns of a list that are hidden, by their keys; the address holds them, and so does a view. */
export function useHidden(): readonly string[] {
  return useSearch({ strict: false, select: (search) => search.hide }) ?? [];
}

/** Chooses which columns a list shows. The first one always stands. */
export function Columns<Row>({ columns }: { columns: readonly Column<Row>[] }) {
  const navigate = useNavigate();
  const hidden = useHidden();
  const choices = columns.slice(1).filter((one) => one.header !== "");
  const nameOf = new Map(choices.map((one) => [one.key, one.header]));
  const show = (shown: string[]): void => {
    const hide = choices.map((one) => one.key).filter((key) => !shown.includes(key));
    void navigate({ to: ".", search: (before) => ({ ...before, hide: hide.length === 0 ? undefined : hide }), replace: true });
  };
  return (
    <ChoiceFilter
      label="Columns"
      icon={<Columns3 size={12} aria-hidden />}
      values={choices.map((one) => one.key)}
      chosen={choices.map((one) => one.key).filter((key) => !hidden.includes(key))}
      onChange={show}
      show={(key) => nameOf.get(key)}
    />
  );
}

/** Those that are shown. */
export function shownOf<Row>(columns: readonly Column<Row>[], hidden: readonly string[]): readonly Column<Row>[] {
  return hidden.length === 0 ? columns : columns.filter((one, index) => index === 0 || !hidden.includes(one.key));
}
