// Draws the API's own description. Everything is put in as text, never as markup.
"use strict";

const el = (tag, attributes = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
};

let spec = null;

const resolved = (schema) => (schema && schema.$ref ? spec.components.schemas[schema.$ref.split("/").pop()] : schema);

// A schema as a sketch of the JSON it describes: names and types, nothing else.
const sketch = (schema, depth = 0) => {
  const found = resolved(schema);
  if (!found || depth > 5) return "…";
  const choices = found.anyOf || found.oneOf;
  if (choices && !found.properties) {
    const shown = choices.map((choice) => sketch(choice, depth + 1));
    return shown.every((one) => typeof one === "string") ? shown.join(" | ") : shown[0];
  }
  if (found.const !== undefined) return JSON.stringify(found.const);
  if (found.enum) return found.enum.map((one) => JSON.stringify(one)).join(" | ");
  if (found.type === "array") return [sketch(found.items, depth + 1)];
  if (found.properties) {
    const needed = found.required || [];
    return Object.fromEntries(Object.entries(found.properties).map(([name, inner]) =>
      [needed.includes(name) ? name : `${name}?`, sketch(inner, depth + 1)]));
  }
  return [found.type || "any", found.format].filter(Boolean).join(" ");
};

const json = (value) => JSON.stringify(value, null, 2);

const contents = (content) => {
  const [type, media] = Object.entries(content || {})[0] || [];
  return type ? el("pre", {}, type.includes("json") ? json(sketch(media.schema)) : type) : null;
};

const parameters = (operation) => {
  if (!operation.parameters || !operation.parameters.length) return null;
  return el("table", {}, ...operation.parameters.map((one) => el("tr", {},
    el("td", {}, el("code", {}, one.name + (one.required ? "" : "?"))),
    el("td", { class: "quiet" }, one.in),
    el("td", {}, el("code", {}, String(sketch(one.schema)))),
    el("td", { class: "quiet" }, one.description || ""))));
};

const example = (operation) => {
  const media = operation.requestBody && operation.requestBody.content["application/json"];
  if (!media) return null;
  const found = resolved(media.schema) || {};
  const first = (found.examples || [])[0] || ((found.anyOf || []).map((one) => (resolved(one).examples || [])[0]).find(Boolean));
  return json(first || {});
};

// Sends the request that the form describes and shows what is answered.
const trial = (method, path, operation) => {
  const names = [...path.matchAll(/{(\w+)}/g)].map((match) => match[1]);
  const fields = names.map((name) => el("input", { placeholder: name, "aria-label": name }));
  const query = el("input", { placeholder: "query, such as limit=10", "aria-label": "query" });
  const body = example(operation) === null ? null : el("textarea", { "aria-label": "body" });
  if (body) body.value = example(operation);
  const answer = el("pre", { hidden: "" });
  const send = async () => {
    let target = path;
    names.forEach((name, at) => { target = target.replace(`{${name}}`, encodeURIComponent(fields[at].value)); });
    const headers = {};
    const token = document.getElementById("token").value.trim();
    if (token) headers.Authorization = `Bearer ${token}`;
    if (body) headers["Content-Type"] = "application/json";
    const response = await fetch(target + (query.value ? `?${query.value}` : ""), {
      method: method.toUpperCase(), headers, body: body ? body.value : undefined, credentials: token ? "omit" : "same-origin",
    });
    const text = await response.text();
    let shown = text;
    try { shown = json(JSON.parse(text)); } catch { /* not JSON: shown as it is */ }
    answer.hidden = false;
    answer.textContent = `${response.status} ${response.statusText}\n${shown}`;
  };
  return el("div", {}, el("p", {}, ...fields, method === "get" ? query : null, " ", el("button", { onclick: send }, "Send")), body, answer);
};

const drawn = (method, path, operation) => {
  const inner = el("div");
  const shown = el("details", { "data-words": `${method} ${path} ${operation.summary || ""}`.toLowerCase() },
    el("summary", {}, el("span", { class: "method" }, method.toUpperCase()), el("span", { class: "path" }, path),
      el("span", { class: "quiet" }, operation.summary || "")), inner);
  shown.addEventListener("toggle", () => {
    if (!shown.open || inner.childNodes.length) return;
    const roles = operation["x-roles"];
    inner.append(
      el("p", { class: "quiet" }, roles ? `For: ${roles.join(", ")}` : "For everyone."),
      operation.description ? el("p", {}, operation.description) : "",
      parameters(operation) || "",
      operation.requestBody ? el("div", {}, el("p", {}, "Takes"), contents(operation.requestBody.content)) : "",
      ...Object.entries(operation.responses).map(([status, one]) =>
        el("div", {}, el("p", {}, status, " ", el("span", { class: "quiet" }, one.description)),
          Number(status) < 300 ? contents(one.content) : null)),
      trial(method, path, operation));
  });
  return shown;
};

const draw = () => {
  const byTag = new Map();
  for (const [path, operations] of Object.entries(spec.paths)) {
    for (const [method, operation] of Object.entries(operations)) {
      const tag = (operation.tags || ["other"])[0];
      if (!byTag.has(tag)) byTag.set(tag, []);
      byTag.get(tag).push(drawn(method, path, operation));
    }
  }
  const all = document.getElementById("all");
  all.replaceChildren(el("p", { class: "quiet" }, spec.info.description || ""));
  for (const [tag, operations] of byTag) all.append(el("section", {}, el("h2", {}, tag), ...operations));
};

document.getElementById("find").addEventListener("input", (event) => {
  const wanted = event.target.value.toLowerCase().trim();
  for (const one of document.querySelectorAll("details")) one.hidden = !one.dataset.words.includes(wanted);
});

fetch("/openapi.json").then((response) => response.json()).then((found) => { spec = found; draw(); });
