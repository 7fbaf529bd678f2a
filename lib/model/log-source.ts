/**
 * What the lines are: plain text, one JSON object each, text with terminal colours (decisions §5), the output of a PM2
 * application, or lines of nginx.
 */
export const logKinds = ['plain', 'json', 'ansi', 'pm2', 'nginx'] as const
/** The format of a log source. */
export type LogKind = (typeof logKinds)[number]

/** A log file of a project (§2.5). */
export interface LogSource {
  id: string
  projectId: string
  label: string
  /** An absolute path. It never changes. */
  filePath: string
  kind: LogKind
  sortOrder: number
  createdAt: string
  updatedAt: string
}

/** A log source and its file (§2.5, metadata view). */
export interface LogSourceMeta extends Pick<LogSource, 'id' | 'label' | 'filePath' | 'kind'> {
  /** The path after following links. */
  resolvedPath: string
  /** Size in bytes; for a compressed file, of its uncompressed contents. */
  size: number
}

/**
 * A part of a file that consists of whole lines (§4.9). Offsets are in bytes; for a compressed file, in its
 * uncompressed contents.
 */
export interface LogWindow {
  startOffset: number
  endOffset: number
  fileSize: number
  lines: string[]
  /** Whether there are more lines before the window. */
  truncatedHead: boolean
  /** Whether there are more lines after it. */
  truncatedTail: boolean
  binary: boolean
}

/** A match of a search in a log (§6.4), with the lines around it. */
export interface LogHit {
  /** Byte offset of the line's start. */
  offset: number
  text: string
  before: string[]
  after: string[]
}
