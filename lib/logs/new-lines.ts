import { notFound } from '../base/errors.js'
import type { Reader } from '../store/database.js'
import { findLogSource } from '../store/tables/projects.js'
import type { LogViewer } from './viewer.js'

/** The lines to read: those after an offset, or none if the offset is null. */
export interface NewLinesQuery {
  projectId: string
  sourceId: string
  offset: number | null
  signal: AbortSignal
}

const windowBytes = 256 * 1024

/**
 * Returns lines of a project's log source after an offset, and the offset to continue at. A file that became shorter
 * was rotated, and is read from its start. Refuses: 404, and what the viewer refuses.
 */
export async function newLogLines(
  db: Reader,
  viewer: Pick<LogViewer, 'meta' | 'range'>,
  { projectId, sourceId, offset, signal }: NewLinesQuery
): Promise<{ lines: string[]; endOffset: number; hasMore: boolean }> {
  const source = findLogSource(db, sourceId)
  if (source === undefined || source.projectId !== projectId) throw notFound('Log source', sourceId)
  const { size } = await viewer.meta(source, signal)
  if (offset === null) return { lines: [], endOffset: size, hasMore: false }
  const from = offset > size ? 0 : offset
  if (from === size) return { lines: [], endOffset: size, hasMore: false }
  const query = { direction: 'forward', offset: from, sizeBytes: windowBytes, signal } as const
  const { lines, endOffset, truncatedTail } = await viewer.range(source, query)
  return { lines, endOffset, hasMore: truncatedTail && endOffset > from }
}
