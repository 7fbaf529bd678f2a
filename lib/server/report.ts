import { Refusal } from '../base/errors.js'
import type { ServerEvent } from '../http/core/server.js'

/** Event of an answered request. */
export type RequestEvent = Extract<ServerEvent, { kind: 'request' }>

/** Prints the lines of a running server. */
export interface Reporter {
  /** Prints an information. `fields` are the parts of the line, for structured logs. */
  info(line: string, fields?: object): void
  /** Prints a warning. `fault` is an internal error: the parts of the line. */
  warn(line: string, fault?: { message: string; error: unknown }): void
}

/** Prints a warning about a failure, with the stack of an error that is a bug or of the system. */
export function reportFailure(report: Reporter, message: string, error?: unknown): void {
  if (error === undefined) report.warn(message)
  else report.warn(`${message}: ${textOf(error)}`, { message, error })
}

/** Reports an answered request. The path is printed without its query, which may contain a ticket. */
export function reportRequest(report: Reporter, { method, path, status, ms, address, aborted }: RequestEvent): void {
  const rounded = Math.round(ms * 10) / 10
  const line = `${address} ${method} ${path} ${status} ${rounded} ms${aborted ? ', aborted' : ''}`
  report.info(line, { method, path, status, ms: rounded, address, aborted })
}

function textOf(error: unknown): string {
  if (error instanceof Refusal) return error.message
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}

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
