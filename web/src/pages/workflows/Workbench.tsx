import { Link, useBlocker, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, useRef, useState } from "react";
import { Button } from "@/components/Button";
import { ConfirmDialog } from "@/components/Dialog";
import { Page } from "@/components/Page";
import { Tabs, type Tab } from "@/components/Tabs";
import { isObject, type JsonObject, parsed } from "@/format/json";
import { graphOfDefinition } from "@/graph/definition";
import { GraphView } from "@/graph/GraphView";
import { DiffView } from "./DiffView";
import { countChanges, diffLines } from "./diff";
import { draftName, keepDraft, readDraft } from "./drafts";
import { DryRunTab, firstInput, useDryRun, type DryInput } from "./DryRunTab";
import { CodeEditor, type EditorHandle } from "./editor/CodeEditor";
import type { FieldReason, Mistake } from "./editor/problems";
import { pathOf, rangeOf, readTree, rootOf, valueOf } from "./editor/tree";
import { Mistakes } from "./Mistakes";
import { PolicyTab } from "./PolicyTab";
import { PublishDialog } from "./PublishDialog";
import { editSearch, type TryTab } from "./search";
import { useChecked } from "./useChecked";
import { useIsOwn, useKnowledge, versionWord, type Workflow } from "./workflows";
import styles from "./Workflows.module.css";

interface WorkbenchProps {
  tenant: string | undefined;
  /** The newest version; null for a workflow that is new. */
  base: Workflow | null;
  /** The text of the newest version, or what a new one begins with. */
  text: string;
}

const NOTHING: readonly FieldReason[] = [];

/** Where a workflow is written: the text with its mistakes, and beside it the graph, a dry run, policy and what has changed. */
export function Workbench({ tenant, base, text: published }: WorkbenchProps) {
  const name = draftName(tenant, base?.key);
  const [restored, setRestored] = useState(() => readDraft(name));
  const [text, setText] = useState(restored?.text ?? published);
  // What the text was begun from: another version may be published while it is written.
  const [begun, setBegun] = useState({ version: restored?.version ?? base?.version ?? 0, text: published });
  const [refused, setRefused] = useState(NOTHING);
  const [cursor, setCursor] = useState(0);
  const [publishing, setPublishing] = useState(false);
  const [left, setLeft] = useState(false);
  const editor = useRef<EditorHandle>(null);
  const known = useKnowledge();
  const checked = useChecked(text, refused);
  const isDirty = text !== published && !left;
  const overtaken = base !== null && base.version !== begun.version;

  const change = (next: string): void => {
    setText(next);
    setRefused(NOTHING);
    keepDraft(name, next === published ? null : { text: next, version: begun.version });
  };
  const discard = (): void => {
    editor.current?.replace(published);
    setBegun({ version: base?.version ?? 0, text: published });
    keepDraft(name, null);
    setRestored(null);
  };
  const catchUp = (): void => {
    const version = base?.version ?? 0;
    setBegun({ version, text: published });
    keepDraft(name, { text, version });
    show("changes");
  };

  const { tab = "graph" } = editSearch(useSearch({ strict: false }));
  const navigate = useNavigate();
  const show = (next: TryTab): void =>
    void navigate({ to: ".", search: ({ tenant: chosen }) => ({ tenant: chosen, ...(next !== "graph" && { tab: next }) }), replace: true });

  const [given, setGiven] = useState<DryInput>(() => ({ input: firstInput(objectOf(text)), outputs: {} }));
  const dryRun = useDryRun();
  const tryOut = (): void => {
    const document = objectOf(text);
    show("dry-run");
    if (document === null) return;
    const outputs = Object.fromEntries(
      Object.entries(given.outputs).flatMap(([id, written]) => (parsed(written) === undefined ? [] : [[id, parsed(written)]])),
    );
    dryRun.mutate({ document, input: given.input, outputs });
  };
  const publish = (): void => {
    if (isDirty || base === null) setPublishing(true);
  };

  const key = typeof checked.document?.["key"] === "string" ? checked.document["key"] : "";
  const changes = useMemo(() => countChanges(diffLines(published, text)), [published, text]);
  const tabs: Tab<TryTab>[] = [
    {
      key: "graph",
      label: "Graph",
      content: () => (
        <LiveGraph text={text} mistakes={checked.mistakes} cursor={cursor} onSelect={(position) => editor.current?.goTo(position)} />
      ),
    },
    {
      key: "dry-run",
      label: "Dry run",
      content: () => <DryRunTab document={checked.document} given={given} onGiven={setGiven} run={dryRun} onRun={tryOut} />,
    },
    { key: "policy", label: "Policy", content: () => <PolicyTab workflow={key} /> },
  ];
  if (base !== null)
    tabs.push({
      key: "changes",
      label: "Changes",
      count: changes.added + changes.removed || undefined,
      content: () => <Changes before={published} after={text} version={base.version} />,
    });

  return (
    <Page
      title={base === null ? "New workflow" : `Edit ${base.key}`}
      about={
        base !== null && (
          <Link to="/workflows/$key" params={{ key: base.key }} search={({ tenant: chosen }) => ({ tenant: chosen })}>
            from {versionWord(begun.version)}
          </Link>
        )
      }
      fill
      actions={
        <>
          {isDirty && <Button onClick={discard}>Discard changes</Button>}
          <Button onClick={tryOut}>Dry run</Button>
          <Button kind="primary" disabled={checked.state !== "ok" || (!isDirty && base !== null)} onClick={publish}>
            Publish
          </Button>
        </>
      }
    >
      {overtaken && (
        <p className={styles.notice} role="status">
          <span>
            {base.created_by} has published version {base.version} since you began with version {begun.version}.
          </span>
          <Button onClick={catchUp}>Compare it with yours</Button>
        </p>
      )}
      {restored !== null && isDirty && !overtaken && (
        <p className={styles.notice} role="status">
          <span>Your unpublished changes were restored.</span>
          <Button onClick={discard}>Discard them</Button>
        </p>
      )}
      {base !== null && <SharedNotice base={base} />}
      <div className={styles.workbench}>
        <div className={styles.writing}>
          <CodeEditor
            ref={editor}
            className={styles.editor}
            label="The definition as JSON"
            initial={text}
            onChange={change}
            mistakes={checked.mistakes}
            known={known}
            onSave={publish}
            onRun={tryOut}
            onCursor={setCursor}
          />
          <Mistakes checked={checked} isChanged={isDirty || base === null} onGoTo={(one) => editor.current?.goTo(one.from)} />
        </div>
        <div className={styles.trying}>
          <Tabs
            label="View beside the definition"
            value={tabs.some((one) => one.key === tab) ? tab : "graph"}
            onChange={show}
            tabs={tabs}
            fill
          />
        </div>
      </div>
      {publishing && checked.document !== null && (
        <PublishDialog
          document={checked.document}
          base={base}
          begun={begun.version}
          changes={changes}
          onClose={() => setPublishing(false)}
          onRefused={setRefused}
          onPublished={() => {
            setLeft(true);
            keepDraft(name, null);
          }}
        />
      )}
      <LeaveDialog isDirty={isDirty} />
    </Page>
  );
}

function objectOf(text: string): JsonObject | null {
  const value = parsed(text);
  return isObject(value) ? value : null;
}

/** A tenant that changes everyone's workflow gets its own. */
function SharedNotice({ base }: { base: Workflow }) {
  const isOwn = useIsOwn(base);
  if (isOwn) return null;
  return (
    <p className={styles.notice} role="note">
      <span>This workflow is for all tenants. What you publish is this tenant&apos;s own, and comes before it from then on.</span>
    </p>
  );
}

interface LiveGraphProps {
  text: string;
  mistakes: readonly Mistake[];
  cursor: number;
  onSelect: (position: number) => void;
}

/** The graph of what is written so far, also where that is not JSON yet. */
function LiveGraph({ text, mistakes, cursor, onSelect }: LiveGraphProps) {
  const json = useMemo(() => readTree(text), [text]);
  const graph = useMemo(() => {
    const drawn = graphOfDefinition(valueOf(json, rootOf(json)));
    const problemOf = (path: string | undefined): string | undefined =>
      mistakes.find((one) => path !== undefined && (one.field === path || one.field.startsWith(`${path}.`)))?.reason;
    return { edges: drawn.edges, nodes: drawn.nodes.map((node) => ({ ...node, problem: problemOf(node.path) })) };
  }, [json, mistakes]);
  const path = useMemo(() => pathOf(json, json.tree.resolveInner(Math.min(cursor, text.length), 0)), [json, cursor, text]);
  const written = path[0] === "steps" && typeof path[1] === "number" ? `steps[${path[1]}]` : undefined;
  const node = graph.nodes.find((one) => one.path !== undefined && one.path === written);
  const go = (id: string): void => {
    const field = graph.nodes.find((one) => one.id === id)?.path;
    if (field !== undefined) onSelect(rangeOf(json, field).from);
  };
  if (graph.nodes.length === 0) return <p className="quiet">There are no steps to draw yet.</p>;
  return <GraphView label="Steps of the workflow" nodes={graph.nodes} edges={graph.edges} selected={node?.id} onSelect={go} />;
}

function Changes({ before, after, version }: { before: string; after: string; version: number }) {
  return (
    <div className={styles.panel}>
      <p>Compared with {versionWord(version)}, the newest.</p>
      <DiffView label="Changes" before={before} after={after} />
    </div>
  );
}

/** Asks before a text that is not published is left. It stays in this tab all the same. */
function LeaveDialog({ isDirty }: { isDirty: boolean }) {
  const blocker = useBlocker({
    shouldBlockFn: ({ current, next }) => isDirty && current.pathname !== next.pathname,
    enableBeforeUnload: () => isDirty,
    withResolver: true,
  });
  return (
    <ConfirmDialog
      open={blocker.status === "blocked"}
      onClose={() => blocker.reset?.()}
      title="Leave without publishing?"
      description="Your changes are kept in this tab: they are back when you edit this workflow here again."
      action="Leave"
      onConfirm={() => blocker.proceed?.()}
    />
  );
}
