import type { RequestEvent } from './listener.js'

/** Prints the lines of a running server. */
export interface Reporter {
  /** Prints an information. `fields` are the parts of the line, for structured logs. */
  info(line: string, fields?: object): void
  /** Prints a warning. `fault` is an internal error: the parts of the line. */
  warn(line: string, fault?: { message: string; error: unknown }): void
}

/** Prints a warning about a failure, with the stack of its error. */
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
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}
