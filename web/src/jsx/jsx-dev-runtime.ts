import { jsxDEV as element } from "react/jsx-dev-runtime";
import { shown } from "./shown";

export { Fragment } from "react/jsx-dev-runtime";
export type { JSX } from "react/jsx-dev-runtime";

export const jsxDEV: typeof element = (type, props, ...others) => element(type, shown(props), ...others);
