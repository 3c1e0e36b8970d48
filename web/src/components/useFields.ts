import { useState } from "react";

/** The texts of a form's fields, under the names that the API has for them: `<TextField label="Slug" {...field("slug")} />`. */
export function useFields<Name extends string>(initial: Record<Name, string>) {
  const [values, setValues] = useState(initial);
  const field = (name: Name) => ({
    name,
    value: values[name],
    onChange: (text: string) => setValues((before) => ({ ...before, [name]: text })),
  });
  return { values, field };
}
