// Draws /openapi.json. Every text comes in as text, never as markup.
"use strict";

const VERBS = ["get", "post", "put", "patch", "delete"];
// References deeper than this are named, not drawn: messages may hold themselves.
const DEPTH_MAX = 4;

function element(tag, kind, ...children) {
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

function resolved(schema, api) {
  const reference = schema && schema.$ref;
  if (!reference) return [schema || {}, ""];
  const name = reference.split("/").pop();
  return [api.components.schemas[name] || {}, name];
}

function kindOf(schema, name) {
  if (name) return name;
  if (schema.enum) return schema.enum.join(" | ");
  const type = Array.isArray(schema.type) ? schema.type.join(" | ") : schema.type || "any";
  return schema.format ? `${type} (${schema.format})` : type;
}

function field(name, described, api, depth) {
  let [schema, reference] = resolved(described, api);
  let type = kindOf(schema, reference);
  if (schema.type === "array") {
    [schema, reference] = resolved(schema.items, api);
    type = `list of ${kindOf(schema, reference)}`;
  } else if (schema.additionalProperties && typeof schema.additionalProperties === "object") {
    [schema, reference] = resolved(schema.additionalProperties, api);
    type = `map of ${kindOf(schema, reference)}`;
  }
  const text = described.description || schema.description;
  const line = element("li", "", element("span", "name", name), " ", element("span", "type", type));
  if (text) line.append(element("div", "text", text));
  if (schema.properties) line.append(fold("fields", () => fields(schema, api, depth + 1), depth));
  return line;
}

function fold(title, draw, depth) {
  const folded = element("details", "", element("summary", "type", title));
  if (depth >= DEPTH_MAX) return element("span", "type", "see above");
  folded.addEventListener("toggle", () => folded.childElementCount === 1 && folded.append(draw()));
  return folded;
}

function fields(schema, api, depth) {
  const names = Object.entries(schema.properties || {});
  if (names.length === 0) return element("p", "type", "nothing");
  return element("ul", "", ...names.map(([name, described]) => field(name, described, api, depth)));
}

function body(title, content, api) {
  const [kind, described] = Object.entries(content || {})[0] || [];
  if (!kind) return null;
  const [schema, name] = resolved(described.schema, api);
  return element("section", "", element("h4", "", `${title}: ${kindOf(schema, name)} as ${kind}`), fields(schema, api, 0));
}

function operation(verb, path, described, api) {
  const drawn = element(
    "details", "",
    element("summary", "", element("span", "verb", verb.toUpperCase()), element("span", "path", path), " ",
      element("span", "what", described.summary)));
  drawn.id = described.operationId;
  drawn.dataset.words = [verb, path, described.operationId, described.description].join(" ").toLowerCase();
  drawn.addEventListener("toggle", () => {
    if (drawn.childElementCount > 1) return;
    drawn.append(element("p", "text", described.description));
    const parameters = described.parameters || [];
    if (parameters.length > 0) {
      const lines = parameters.map((one) => {
        const [schema] = resolved(one.schema, api);
        const line = field(one.name, { ...schema, description: one.description }, api, DEPTH_MAX);
        line.append(element("span", "type", ` in the ${one.in}${one.required ? ", required" : ""}`));
        return line;
      });
      drawn.append(element("h4", "", "Parameters"), element("ul", "", ...lines));
    }
    const asked = body("Body", described.requestBody && described.requestBody.content, api);
    const done = described.responses["200"];
    const answered = body("Answer", done && done.content, api);
    drawn.append(...[asked, answered].filter(Boolean));
  });
  return drawn;
}

function draw(api) {
  document.getElementById("version").textContent = api.info.version;
  document.getElementById("about").textContent = api.info.description;
  const groups = new Map();
  for (const [path, verbs] of Object.entries(api.paths)) {
    for (const verb of VERBS.filter((verb) => verbs[verb])) {
      const tag = (verbs[verb].tags || ["Other"])[0];
      if (!groups.has(tag)) groups.set(tag, []);
      groups.get(tag).push(operation(verb, path, verbs[verb], api));
    }
  }
  const sections = [...groups].sort(([a], [b]) => a.localeCompare(b));
  const main = document.getElementById("groups");
  main.replaceChildren(...sections.map(([tag, drawn]) => element("section", "", element("h2", "", tag), ...drawn)));
  document.getElementById("find").addEventListener("input", (event) => find(event.target.value));
  const named = document.getElementById(location.hash.slice(1));
  if (named && named.tagName === "DETAILS") named.open = true;
}

function find(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  for (const section of document.querySelectorAll("#groups > section")) {
    const operations = [...section.querySelectorAll(":scope > details")];
    for (const one of operations) one.hidden = !words.every((word) => one.dataset.words.includes(word));
    section.hidden = operations.every((one) => one.hidden);
  }
}

fetch("/openapi.json")
  .then((answer) => (answer.ok ? answer.json() : Promise.reject(new Error(`/openapi.json answers ${answer.status}`))))
  .then(draw)
  .catch((error) => document.getElementById("groups").replaceChildren(element("p", "", String(error))));
