import { useRef } from "react";
import { type Edit, EditConflict, saveEdit } from "@/api/edits";

type Save<Entity extends object> = <Body extends object, Result>(edit: Omit<Edit<Entity, Body, Result>, "base">) => Promise<Result>;

/** Saves edits of what was shown. After a conflict the next try begins from what is there now: it replaces that on purpose. */
export function useEdit<Entity extends object>(shown: Entity | null | undefined): Save<Entity> {
  const base = useRef(shown);
  return async (edit) => {
    if (base.current == null) throw new Error("Nothing is shown to edit.");
    try {
      return await saveEdit({ ...edit, base: base.current });
    } catch (error) {
      if (error instanceof EditConflict) base.current = error.current as Entity;
      throw error;
    }
  };
}
