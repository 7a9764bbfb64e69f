// Bundles the page into the folder that a node serves. The same sources and lock give the same bytes.
import { cp, mkdir, rm } from "node:fs/promises";
import { build } from "esbuild";

const into = new URL("../src/holdall/http/dashboard/", import.meta.url).pathname;

await rm(into, { recursive: true, force: true });
await mkdir(into, { recursive: true });
await build({
  entryPoints: ["src/app.tsx"],
  outdir: into,
  bundle: true,
  minify: true,
  target: "es2022",
  format: "esm",
  legalComments: "linked",
  logLevel: "warning",
});
await cp("src/index.html", `${into}index.html`);
await cp("src/icon.svg", `${into}icon.svg`);
