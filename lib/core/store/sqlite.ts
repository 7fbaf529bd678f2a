import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { setFlagsFromString } from 'node:v8'
import type initSqlJs from 'sql.js'
import type { SqlJsStatic } from 'sql.js'

/** The part of WebAssembly that is used here: the Node types leave it to the DOM library. */
const assembly = (globalThis as unknown as { WebAssembly: Assembly }).WebAssembly
interface Assembly {
  Module: new (bytes: Uint8Array) => object
  Instance: new (module: object, imports: object) => { exports: object }
}

/** Stores of one process share what is compiled. */
let compiled: object | undefined

/**
 * Loads sql.js on first use: a process that opens no store does not pay for it. The module is compiled synchronously,
 * not in the way of sql.js. That way ends in a task of V8's after which an idle Node waits until every hot function has
 * been optimised, about 170 ms (test/bench/store).
 */
export async function loadSqlite(): Promise<SqlJsStatic> {
  // Not loaded by import(): Node would search 47 KB of CommonJS for export names, which takes five times as long as
  // loading.
  const require = createRequire(import.meta.url)
  const initialise = require('sql.js') as typeof initSqlJs
  const module = (compiled ??= compile(readFileSync(require.resolve('sql.js/dist/sql-wasm.wasm'))))
  return initialise({
    instantiateWasm(imports, onReady) {
      const instance = new assembly.Instance(module, imports)
      onReady(instance)
      return instance.exports
    }
  })
}

/** The default of `--wasm-tiering-budget` by major version of V8. In other versions, the flags stay unchanged. */
const defaultBudgets: Record<string, number> = {
  '10': 1_800_000,
  '11': 1_800_000,
  '12': 13_000_000,
  '13': 13_000_000,
  '14': 13_000_000
}
/**
 * About 750 ms of execution. Below 600 million, the first start in an empty directory made V8 optimise SQLite's parser
 * and interpreter, which took 300 ms of CPU and 11 to 18 MB permanently (VmRSS on Node 20; test/bench/idle).
 */
const budget = 900_000_000

/**
 * Compiles with two of V8's flags changed, and then restores them, because Node's code cache is valid only for the
 * default flags. Lazy validation checks a function at its first call, when it is also compiled: most functions are
 * never called. The larger budget delays optimisation: V8 started half a second of work while the program was still
 * starting, on the other cores if they were idle (test/bench/start). The delay has no later cost (test/bench/store).
 */
function compile(bytes: Uint8Array): object {
  const defaultBudget = defaultBudgets[String(process.versions.v8).split('.', 1)[0] as string]
  if (defaultBudget === undefined) return new assembly.Module(bytes)
  setFlagsFromString('--wasm-lazy-validation')
  setFlagsFromString(`--wasm-tiering-budget=${budget}`)
  try {
    return new assembly.Module(bytes)
  } finally {
    setFlagsFromString('--no-wasm-lazy-validation')
    setFlagsFromString(`--wasm-tiering-budget=${defaultBudget}`)
  }
}
