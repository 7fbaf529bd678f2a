import { Refusal } from '../base/refusal.js'
import type { Reporter } from './serve.js'

/** Reads one thing again. Answers what is different now, as a noun; null where nothing is. */
export type Reloadable = () => Promise<string | null>

/**
 * Reads all of them again, one after the other, and reports in one line what has changed. One that cannot be read stays
 * as it was, and is warned about. Who asks while a reload goes on gets one after it.
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
  const message = 'Not reloaded, it stays as it was'
  if (error instanceof Refusal) return report.warn(`${message}: ${error.message}`)
  report.warn(`${message}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`, { message, error })
}
