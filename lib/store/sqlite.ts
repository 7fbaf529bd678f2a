import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { setFlagsFromString } from 'node:v8'
import type initSqlJs from 'sql.js'
import type { SqlJsStatic } from 'sql.js'

/** What is needed of WebAssembly: the Node types leave it to the DOM library. */
const assembly = (globalThis as unknown as { WebAssembly: Assembly }).WebAssembly
interface Assembly {
  Module: new (bytes: Uint8Array) => object
  Instance: new (module: object, imports: object) => { exports: object }
}

/**
 * Loads sql.js, on first use: a process that opens no store never pays for it. Compiled at once and not as sql.js does it:
 * its way ends in a task of V8's after which Node, having nothing else to do yet, waits until every hot function has been
 * optimised, some 170 ms (test/bench/store).
 */
export async function loadSqlite(): Promise<SqlJsStatic> {
  // Not by import(): Node would search the 47 KB of CommonJS for names to export, which takes five times the loading.
  const require = createRequire(import.meta.url)
  const initialise = require('sql.js') as typeof initSqlJs
  const module = compile(readFileSync(require.resolve('sql.js/dist/sql-wasm.wasm')))
  return initialise({
    instantiateWasm(imports, onReady) {
      const instance = new assembly.Instance(module, imports)
      onReady(instance)
      return instance.exports
    }
  })
}

/** What `--wasm-tiering-budget` is by default, by the major version of V8; in others, nothing is changed. */
const defaultBudgets: Record<string, number> = {
  '10': 1_800_000, '11': 1_800_000, '12': 13_000_000, '13': 13_000_000, '14': 13_000_000
}
/**
 * Some 750 ms of running. Below 600 million, the first start in an empty directory had SQLite's parser and interpreter
 * optimised, which took 300 ms of CPU and 11 to 18 MB for good (VmRSS on Node 20; test/bench/idle).
 */
const budget = 900_000_000

/**
 * Compiles with two of V8's flags set otherwise, and then as they were, because Node's code cache is good only for the
 * defaults. A function is looked at when it is first called, as it is compiled then: most never are. And it is
 * optimised later: V8 began with half a second's work while the program was still starting, on the other cores if they
 * were free (test/bench/start; test/bench/store for what it costs later, nothing).
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
