/**
 * Looks at every page of a large svc.db, in a thread: it takes some 2 ms a MB, which a start should not wait for. Until
 * it is done nothing is written over the file (checkpoints wait for it); a fault that it finds stops all writes.
 */
import { readFileSync } from 'node:fs'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { createMemory } from './memory.js'
import { faultOfPages } from './page-check.js'
import { loadSqlite } from './sqlite.js'

const role = 'store/page-check'

/** What is wrong with the pages of a file that nobody changes meanwhile; null: nothing. */
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
