import type { SecureContext } from 'node:tls'
import type { Pm2Binding } from '../model/pm2.js'

/** What checks ask the rest of the server for. */
export interface CheckSources {
  /** The setting `gate_hosts`. */
  hosts(): readonly string[]
  /** Returns the authorities that requests trust; undefined: those of Node. Throws if they cannot be read. */
  trust?(): SecureContext | undefined
  /** The PM2 application of a project. */
  pm2(appName: string | null): Promise<Pm2Binding>
  /** Returns the lines of a log source of the project after an offset, or its size if the offset is null. */
  log(options: { projectId: string; sourceId: string; offset: number | null; signal: AbortSignal }): Promise<NewLines>
  /**
   * Returns the index of the first line that matches an expression, or -1. It runs in a thread, which is ended if the
   * expression takes too long (`search_too_slow`).
   */
  firstMatch(
    expression: { source: string; flags: string },
    lines: readonly string[],
    signal: AbortSignal
  ): Promise<number>
}

/** Lines of a log file, and the offset after them. */
export interface NewLines {
  lines: string[]
  endOffset: number
  /** Whether there are more lines. */
  hasMore: boolean
}
