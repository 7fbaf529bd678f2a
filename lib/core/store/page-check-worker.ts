/* A thread that checks every page of a large svc.db. page-check-thread.ts starts it and sends the file's path. */
import { readFileSync } from 'node:fs'
import { serveThread } from '../../base/workers.js'
import { createMemory, loadSqlite } from './memory.js'
import { faultOfPages } from './page-file.js'

/** A file that cannot be opened is damaged, too. */
serveThread((path: string) => faultOf(path).catch((error: Error) => error.message))

async function faultOf(path: string): Promise<string | null> {
  const memory = createMemory(await loadSqlite(), readFileSync(path))
  try {
    return faultOfPages(memory)
  } finally {
    memory.close()
  }
}
