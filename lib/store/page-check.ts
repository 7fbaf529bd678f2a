/**
 * Looks at every page of a large svc.db, in a thread: it takes some 2 ms a MB, which a start should not wait for. Until
 * it is done nothing is written over the file (checkpoints wait for it); a fault that it finds stops all writes.
 */
import { readFileSync } from 'node:fs'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { createMemory, loadSqlite } from './memory.js'
import type { Memory } from './memory.js'

const role = 'store/page-check'

/** What SQLite says is wrong with the pages; null: nothing. */
export function faultOfPages(memory: Memory): string | null {
  const found = String(memory.pragma('quick_check(1)'))
  return found === 'ok' ? null : found.replace(/^\*\*\*.*\*\*\*\s/, '').replaceAll('\n', '; ')
}

/** The same of a file that nobody changes meanwhile, in a thread. */
export function faultOfPagesInThread(path: string): Promise<string | null> {
  const worker = new Worker(new URL(import.meta.url), { workerData: { role, path }, execArgv: [] })
  return new Promise((resolve, reject) => {
    worker.once('message', resolve)
    worker.once('error', reject)
    worker.once('exit', () => reject(new Error(`the check of "${path}" ended early`)))
  })
}

async function checkFile(path: string): Promise<string | null> {
  const memory = createMemory(await loadSqlite(), readFileSync(path))
  try {
    return faultOfPages(memory)
  } finally {
    memory.close()
  }
}

if (!isMainThread && workerData?.role === role) {
  parentPort?.postMessage(await checkFile(workerData.path).catch((error: Error) => error.message))
}
