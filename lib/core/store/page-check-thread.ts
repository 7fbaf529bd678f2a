/*
 * Checks every page of a large svc.db in a thread. This takes about 2 ms per MB, which would delay a start. Checkpoints
 * wait for the check, so nothing overwrites the file before it has finished. A fault stops all writes.
 */
import { startThread } from '../../base/workers.js'

const module = new URL('./page-check-worker.js', import.meta.url)

/** Returns the first fault in the pages of a file, or null if there is none. The file must not change meanwhile. */
export async function faultOfPagesInThread(path: string): Promise<string | null> {
  const thread = startThread<string, string | null>({ module })
  try {
    return await thread.ask(path)
  } finally {
    await thread.close()
  }
}
