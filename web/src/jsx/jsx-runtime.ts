import { jsx as element, jsxs as elements } from "react/jsx-runtime";
import { shown } from "./shown";

export { Fragment } from "react/jsx-runtime";
export type { JSX } from "react/jsx-runtime";

export const jsx: typeof element = (type, props, key) => element(type, shown(props), key);
export const jsxs: typeof elements = (type, props, key) => elements(type, shown(props), key);
