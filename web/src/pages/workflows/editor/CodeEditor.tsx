import {
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  completionKeymap,
  type Completion,
  type CompletionContext,
  type CompletionResult,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { json } from "@codemirror/lang-json";
import { bracketMatching, foldGutter, foldKeymap, indentOnInput, indentUnit, syntaxTree } from "@codemirror/language";
import { lintGutter, setDiagnostics, type Diagnostic } from "@codemirror/lint";
import { EditorState, Prec, type Extension, type Transaction } from "@codemirror/state";
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightActiveLineGutter,
  keymap,
  lineNumbers,
  type Command,
} from "@codemirror/view";
import { useEffect, useEffectEvent, useImperativeHandle, useRef, type Ref } from "react";
import type { Choice } from "./choices";
import { completionsAt } from "./complete";
import type { Knowledge } from "./known";
import type { Mistake } from "./problems";
import { THEME } from "./theme";

export interface EditorHandle {
  /** Puts the cursor at a position and shows it. */
  goTo: (position: number) => void;
  /** Replaces the whole text, as a change that can be undone. */
  replace: (text: string) => void;
}

interface CodeEditorProps {
  label: string;
  /** The text at first; afterwards the editor has its own. */
  initial: string;
  onChange: (text: string) => void;
  mistakes: readonly Mistake[];
  known: Knowledge;
  /** Ctrl-S, and Ctrl-Enter. */
  onSave: () => void;
  onRun: () => void;
  /** The position of the cursor, when it moves. */
  onCursor?: (position: number) => void;
  ref?: Ref<EditorHandle>;
  className?: string | undefined;
}

/** A JSON editor: completion, errors on their lines, folding. */
export function CodeEditor({ label, initial, onChange, mistakes, known, onSave, onRun, onCursor, ref, className }: CodeEditorProps) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(null);
  const changed = useEffectEvent(onChange);
  const moved = useEffectEvent((position: number) => onCursor?.(position));
  const save = useEffectEvent(onSave);
  const run = useEffectEvent(onRun);
  const complete = useEffectEvent((context: CompletionContext) => completed(context, known));
  const first = useEffectEvent(() => ({ initial, label }));

  useEffect(() => {
    if (host.current === null) return;
    // Within a shadow root the editor's styles are adopted style sheets. In the page they would be a style element, which the content
    // security policy refuses.
    const root = host.current.shadowRoot ?? host.current.attachShadow({ mode: "open" });
    const { initial: doc, label: name } = first();
    const on = {
      changed: (text: string) => changed(text),
      moved: (position: number) => moved(position),
      save: () => save(),
      run: () => run(),
      complete: (context: CompletionContext) => complete(context),
    };
    const made = (view.current = new EditorView({
      state: EditorState.create({ doc, extensions: extensionsOf(name, on) }),
      parent: root,
      root,
    }));
    return () => {
      view.current = null;
      made.destroy();
    };
  }, []);

  useEffect(() => {
    const { current } = view;
    if (current === null) return;
    const end = current.state.doc.length;
    const shown = mistakes.map(({ from, to, field, reason }): Diagnostic => ({
      from: Math.min(from, end),
      to: Math.min(to, end),
      severity: "error",
      message: field === "" ? reason : `${field} ${reason}`,
    }));
    current.dispatch(setDiagnostics(current.state, shown));
  }, [mistakes]);

  useImperativeHandle(ref, () => ({
    goTo: (position) => {
      const { current } = view;
      if (current === null) return;
      const at = Math.min(position, current.state.doc.length);
      current.dispatch({ selection: { anchor: at }, effects: EditorView.scrollIntoView(at, { y: "center" }) });
      current.focus();
    },
    replace: (text) => view.current?.dispatch({ changes: { from: 0, to: view.current.state.doc.length, insert: text } }),
  }));

  return <div ref={host} className={className} />;
}

interface Listeners {
  changed: (text: string) => void;
  moved: (position: number) => void;
  save: () => void;
  run: () => void;
  complete: (context: CompletionContext) => CompletionResult | null;
}

function extensionsOf(label: string, on: Listeners): Extension {
  return [
    Prec.high(keymap.of([does("Mod-s", on.save), does("Mod-Enter", on.run)])),
    [
      lineNumbers(),
      foldGutter(),
      lintGutter(),
      history(),
      drawSelection(),
      indentOnInput(),
      bracketMatching(),
      closeBrackets(),
      highlightActiveLine(),
      highlightActiveLineGutter(),
    ],
    [json(), indentUnit.of("  "), EditorState.tabSize.of(2), EditorView.lineWrapping, THEME],
    autocompletion({ override: [on.complete], icons: false, activateOnTypingDelay: 60 }),
    // Tab is left alone: it leads on to the next control, as everywhere.
    keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, ...foldKeymap, ...completionKeymap]),
    EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0", autocorrect: "off", autocapitalize: "off" }),
    EditorView.domEventHandlers({ beforeinput: typeOver }),
    EditorView.inputHandler.of(closeTemplate),
    EditorView.updateListener.of((update) => {
      if (update.docChanged) on.changed(update.state.doc.toString());
      if (update.selectionSet || update.docChanged) on.moved(update.state.selection.main.head);
    }),
  ];
}

/** A second brace within a text opens a template: it is closed immediately, with the cursor inside. */
function closeTemplate(view: EditorView, from: number, to: number, text: string): boolean {
  const { doc } = view.state;
  const isSecond = text === "{" && doc.sliceString(from - 1, from) === "{" && doc.sliceString(to, to + 1) !== "}";
  if (!isSecond || syntaxTree(view.state).resolveInner(from, -1).name !== "String") return false;
  view.dispatch({ changes: { from, to, insert: "{  }}" }, selection: { anchor: from + 2 }, userEvent: "input.type" });
  return true;
}

/** Types over a selection. The browser would keep the look of what it replaces by a style attribute, which the policy refuses. */
function typeOver(event: InputEvent, view: EditorView): boolean {
  const { from, to, empty } = view.state.selection.main;
  const { data } = event;
  if (event.inputType !== "insertText" || event.isComposing || data === null || empty) return false;
  event.preventDefault();
  const insert = (): Transaction => view.state.update(view.state.replaceSelection(data), { userEvent: "input.type", scrollIntoView: true });
  if (!view.state.facet(EditorView.inputHandler).some((handle) => handle(view, from, to, data, insert))) view.dispatch(insert());
  return true;
}

function does(key: string, run: () => void): { key: string; run: Command; preventDefault: boolean } {
  return {
    key,
    preventDefault: true,
    run: () => {
      run();
      return true;
    },
  };
}

function completed(context: CompletionContext, known: Knowledge): CompletionResult | null {
  const text = context.state.doc.toString();
  const found = completionsAt(text, context.pos, known);
  // Between values nothing is offered unless it is asked for.
  if (
    found === null ||
    (!context.explicit && found.from === found.to && !/([\w.{[:"]|\{\{ )$/.test(text.slice(context.pos - 3, context.pos)))
  )
    return null;
  return { from: found.from, to: found.to, filter: false, options: found.choices.map(option) };
}

function option(choice: Choice): Completion {
  const { label, kind, detail, info, insert, cursor } = choice;
  return {
    label,
    type: kind,
    ...(detail !== undefined && { detail }),
    ...(info !== undefined && { info }),
    apply: (view, _, from, to) =>
      view.dispatch({
        changes: { from, to, insert },
        selection: { anchor: from + cursor },
        userEvent: "input.complete",
        scrollIntoView: true,
      }),
  };
}
