/** How a viewer should read the lines: as they are, one JSON object a line, or with terminal colours (decisions §5). */
export const logKinds = ['plain', 'json', 'ansi'] as const
export type LogKind = (typeof logKinds)[number]

/** A file that a project wants to look at (§2.5). */
export interface LogSource {
  id: string
  projectId: string
  label: string
  /** Absolute; never changes. */
  filePath: string
  kind: LogKind
  sortOrder: number
  createdAt: string
  updatedAt: string
}

/** §2.5, metadata view. */
export interface LogSourceMeta extends Pick<LogSource, 'id' | 'label' | 'filePath' | 'kind'> {
  /** Where links lead. */
  resolvedPath: string
  /** Bytes; of a compressed file, those of its contents. */
  size: number
}

/** A part of a file, from one end of a line to another (§4.9). Offsets are bytes; of a compressed file, of its contents. */
export interface LogWindow {
  startOffset: number
  endOffset: number
  fileSize: number
  lines: string[]
  /** There is more before the window. */
  truncatedHead: boolean
  /** There is more after it. */
  truncatedTail: boolean
  binary: boolean
}

/** §6.4 */
export interface LogHit {
  /** Byte offset of the line's start. */
  offset: number
  text: string
  before: string[]
  after: string[]
}
