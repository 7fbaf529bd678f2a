import { Refusal } from '../base/errors.js'
import { type Reporter, reportFailure } from './front.js'

/** Reads one thing again. Returns what has changed, as a noun, or null if nothing has. */
export type Reloadable = () => Promise<string | null>

/**
 * Creates a function that reloads everything, one after the other, and reports the changes in one line. If a part
 * cannot be read, its previous value stays in use and a warning is printed. A call during a reload starts another
 * reload after it.
 */
export function createReload(all: readonly Reloadable[], report: Reporter): () => Promise<void> {
  let last = Promise.resolve()

  async function reload(): Promise<void> {
    const changed: string[] = []
    for (const one of all) {
      const what = await one().catch((error: unknown) => void warn(report, error))
      if (what) changed.push(what)
    }
    report.info(`Reloaded: ${changed.join(', ') || 'nothing has changed'}`)
  }

  return () => (last = last.then(reload))
}

function warn(report: Reporter, error: unknown): void {
  const message = 'Not reloaded, the previous value stays in use'
  if (error instanceof Refusal) report.warn(`${message}: ${error.message}`)
  else reportFailure(report, message, error)
}
