import { createPaint, type Paint } from './colors.js'
import type { Host } from './command.js'
import { startProgress, type Progress } from './progress.js'
import { renderTable, type Column } from './table.js'

/** Results go to stdout, everything said along the way to stderr. */
export interface Output {
  /** One line of the result. */
  print(text: string): void
  /** The result as bytes, with backpressure. */
  write(bytes: string | Uint8Array): Promise<void>
  json(value: unknown): void
  table<T>(rows: readonly T[], columns: readonly Column<T>[]): void
  /** Along the way. */
  note(text: string): void
  warn(text: string): void
  error(text: string): void
  progress(label: string): Progress
  /** Colours of stdout, and of stderr. */
  paint: Paint
  notePaint: Paint
}

/** Builds the output of one run on the process's streams, by `NO_COLOR`, `FORCE_COLOR`, and what is a terminal. */
export function createOutput(host: Pick<Host, 'stdout' | 'stderr' | 'env'>): Output {
  const { stdout, stderr, env } = host
  const paint = createPaint(stdout, env)
  const notePaint = createPaint(stderr, env)
  const print = (text: string) => void stdout.write(`${text}\n`)
  const note = (text: string) => void stderr.write(`${text}\n`)

  return {
    print,
    async write(bytes) {
      if (!stdout.write(bytes)) await new Promise<void>(resolve => stdout.once('drain', resolve))
    },
    json: value => print(JSON.stringify(value, null, 2)),
    table(rows, columns) {
      const [head, ...lines] = renderTable(rows, columns, stdout.isTTY ? stdout.columns : undefined)
      print(paint.bold(head as string))
      for (const line of lines) print(line)
    },
    note,
    warn: text => note(`${notePaint.yellow('warning:')} ${text}`),
    error: text => note(`${notePaint.red('error:')} ${text}`),
    progress: label => startProgress(stderr, notePaint, label),
    paint,
    notePaint
  }
}
