import { TriangleAlert } from "lucide-react";
import { type EditConflict, shown } from "@/api/edits";
import { capitalized, spaced } from "@/format/words";
import styles from "./Conflict.module.css";
import { Time } from "./Time";

/** Who changed what while it was being edited, with both values. What was typed stays in the form. */
export function Conflict({ error }: { error: EditConflict }) {
  return (
    <div className={styles.conflict} role="alert">
      <p>
        <TriangleAlert size={14} aria-hidden /> <strong>{error.by ?? "Someone else"}</strong> changed this
        {error.at !== null && (
          <>
            {" "}
            <Time at={error.at} />
          </>
        )}
        . Nothing is saved yet.
      </p>
      <table>
        <thead>
          <tr>
            <th scope="col">Field</th>
            <th scope="col">Now</th>
            <th scope="col">Yours</th>
          </tr>
        </thead>
        <tbody>
          {error.fields.map(({ name, theirs, mine }) => (
            <tr key={name}>
              <th scope="row">{capitalized(spaced(name))}</th>
              <td>
                <Value value={theirs} />
              </td>
              <td>
                <Value value={mine} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <p>Replace it with yours, edit yours first, or cancel to keep the current value.</p>
    </div>
  );
}

const MOMENT = /^\d{4}-\d\d-\d\dT\d\d:\d\d/;

function Value({ value }: { value: unknown }) {
  return typeof value === "string" && MOMENT.test(value) ? <Time at={value} /> : shown(value);
}
