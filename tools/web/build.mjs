/**
 * Bundle what the portal takes from npm into src/mayflydb/portal/static/vendor: editor.js.gz, the licences of
 * every package in it (LICENSES.txt), and manifest.json with the sha256 of each file and the version of each package.
 */
import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

import { build } from "esbuild";

const here = path.dirname(fileURLToPath(import.meta.url));
const target = path.join(here, "../../src/mayflydb/portal/static/vendor");
const making = `${target}.making-${process.pid}`;
const entries = { editor: "editor.js" };

await mkdir(making, { recursive: true });
const { metafile } = await build({
  absWorkingDir: here, entryPoints: entries, outdir: making, bundle: true, format: "esm", target: ["es2022"], minify: true,
  legalComments: "none", metafile: true, charset: "utf8", logLevel: "warning",
});

// A third of the size in the wheel; browsers unpack it.
for (const script of Object.values(entries)) {
  const place = path.join(making, script);
  await writeFile(`${place}.gz`, gzipSync(await readFile(place), { level: 9 }));
  await rm(place);
}

const packages = new Map();
for (const input of Object.keys(metafile.inputs)) {
  const folder = input.match(/^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//)?.[1];
  if (folder && !packages.has(folder)) packages.set(folder, await describe(path.join(here, folder)));
}
const found = [...packages.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
await writeFile(path.join(making, "LICENSES.txt"), found.map(licence).join(`\n${"-".repeat(80)}\n\n`));

const files = {};
for (const name of (await readdir(making)).sort()) {
  files[name] = createHash("sha256").update(await readFile(path.join(making, name))).digest("hex");
}
const versions = Object.fromEntries(found.map(({ name, version }) => [name, version]));
await writeFile(path.join(making, "manifest.json"), `${JSON.stringify({ files, packages: versions }, null, 2)}\n`);
await rm(target, { recursive: true, force: true });
await rename(making, target);

async function describe(folder) {
  const about = JSON.parse(await readFile(path.join(folder, "package.json"), "utf8"));
  const name = (await readdir(folder)).find((each) => /^licen[cs]e/i.test(each));
  if (!name) throw new Error(`${about.name} has no licence text`);
  return { name: about.name, version: about.version, licence: about.license, text: await readFile(path.join(folder, name), "utf8") };
}

function licence({ name, version, licence: kind, text }) {
  return `${name} ${version} (${kind})\n\n${text.trim()}\n`;
}
