import type { Bytes, Instant } from './scalars.js'

/**
 * What the lines are: plain text, one JSON object each, text with terminal colours (decisions §5), the output of a PM2
 * application, or lines of nginx.
 */
export const logKinds = ['plain', 'json', 'ansi', 'pm2', 'nginx'] as const
/** The format of a log source. */
export type LogKind = (typeof logKinds)[number]

/** A log file of a project (§2.5). @schema LogSource */
export interface LogSource {
  id: string
  projectId: string
  label: string
  /** Absolute path of the log file. */
  filePath: string
  /**
   * What the lines are: text, JSON objects, text with terminal colors, output of a PM2 application, or lines of nginx.
   */
  kind: LogKind
  sortOrder: number
  createdAt: Instant
  updatedAt: Instant
}

/** A log source and its file (§2.5, metadata view). */
export interface LogSourceMeta extends Pick<LogSource, 'id' | 'label' | 'filePath' | 'kind'> {
  /** The path after following symbolic links. */
  resolvedPath: string
  /** Size in bytes. For a compressed file, the uncompressed size. */
  size: Bytes
}

/**
 * A part of a file that consists of whole lines (§4.9). Offsets are in bytes; for a compressed file, in its
 * uncompressed contents.
 */
export interface LogWindow {
  /** Byte offset of the first line. */
  startOffset: Bytes
  /** Byte offset after the last line. */
  endOffset: Bytes
  /** Size of the file in bytes. */
  fileSize: Bytes
  lines: string[]
  /** Whether the file has more lines before these. */
  truncatedHead: boolean
  /** Whether the file has more lines after these. */
  truncatedTail: boolean
  /** Whether the file is binary. */
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
