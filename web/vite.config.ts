import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

const API = process.env["ATLAS_URL"] ?? "http://127.0.0.1:8080";
const COMPRESSED = /\.(js|css|html|svg)$/;

/** Writes each file a second and third time, compressed: the API serves them as they are. */
function compressed(): Plugin {
  return {
    name: "compressed",
    apply: "build",
    writeBundle({ dir }) {
      if (dir === undefined) return;
      for (const entry of readdirSync(dir, { recursive: true, encoding: "utf8" })) {
        if (!COMPRESSED.test(entry)) continue;
        const path = join(dir, entry);
        const content = readFileSync(path);
        writeFileSync(`${path}.gz`, gzipSync(content, { level: 9 }));
        writeFileSync(`${path}.br`, brotliCompressSync(content, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }));
      }
    },
  };
}

export default defineConfig({
  // Elements are made by src/jsx, which shows hidden characters.
  plugins: [react({ jsxImportSource: "@/jsx" }), compressed()],
  resolve: { alias: { "@": join(import.meta.dirname, "src") } },
  build: {
    // Nothing is inlined: the content security policy allows files of our own only.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: ["chrome123", "firefox121", "safari17.5"],
    reportCompressedSize: false,
  },
  server: {
    proxy: { "/api": { target: API, ws: true }, "/docs": API, "/openapi.json": API, "/assets/docs.js": API, "/assets/pages.css": API },
  },
});
