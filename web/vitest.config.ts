import { defineConfig, mergeConfig } from "vitest/config";
import pages from "./vite.config";

// No test changes what another one uses, so all share a process: a process for each file takes four times as long.
export default mergeConfig(pages, defineConfig({ test: { isolate: false } }));
