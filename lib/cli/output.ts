import { createPaint, type Paint } from './colors.js'
import type { Host } from './command.js'
import { startProgress, type Progress } from './progress.js'
import { renderTable, type Column } from './table.js'
import { cleanText, createCleaner } from './terminal-text.js'

/** What a server was at fault with: `message` says at what, and `error` is what was thrown. */
export interface Fault {
  message: string
  error: unknown
}

/**
 * Results go to stdout, everything said along the way to stderr. What reaches a terminal is cleaned (terminal-text.ts), and
 * what goes to stderr always; a result that goes elsewhere is data, and stays as it is.
 */
export interface Output {
  /** One line of the result. `fields` are what it says, in parts, for a log that keeps them apart. */
  print(text: string, fields?: object): void
  /** The result as bytes, with backpressure. */
  write(bytes: string | Uint8Array): Promise<void>
  json(value: unknown): void
  table<T>(rows: readonly T[], columns: readonly Column<T>[]): void
  /** Along the way. */
  note(text: string): void
  /** `fault` is what `text` says, in parts: for a log that keeps them apart. */
  warn(text: string, fault?: Fault): void
  error(text: string): void
  /** From now on every line is a record of a log: an object of JSON with `time`, `level` and `message`. */
  logAsJson(): void
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
  const cleaner = createCleaner()
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  let isLog = false

  function say(stream: Host['stdout'], saying: Saying): void {
    const line = isLog ? record(saying) : `${saying.prefix ?? ''}${saying.text}\n`
    const isData = !stream.isTTY && (isLog || stream === stdout)
    stream.write(isData ? line : cleanText(line))
  }
  const print = (text: string, fields?: object) => say(stdout, { level: 'info', text, fields })

  return {
    print,
    logAsJson: () => void (isLog = true),
    async write(bytes) {
      const isTaken = stdout.write(stdout.isTTY ? cleaner.push(typeof bytes === 'string' ? bytes : decoder.decode(bytes, { stream: true })) : bytes)
      if (!isTaken) await new Promise<void>(resolve => stdout.once('drain', resolve))
    },
    json: value => print(JSON.stringify(value, null, 2)),
    table(rows, columns) {
      const [head, ...lines] = renderTable(rows, columns, stdout.isTTY ? stdout.columns : undefined)
      print(paint.bold(head as string))
      for (const line of lines) print(line)
    },
    note: text => say(stderr, { level: 'info', text }),
    warn: (text, fault) => say(stderr, { level: fault === undefined ? 'warn' : 'error', prefix: `${notePaint.yellow('warning:')} `, text, fault }),
    error: text => say(stderr, { level: 'error', prefix: `${notePaint.red('error:')} `, text }),
    progress: label => startProgress(stderr, notePaint, label),
    paint,
    notePaint
  }
}

interface Saying {
  level: 'info' | 'warn' | 'error'
  /** What a person sees of the level. */
  prefix?: string
  text: string
  fault?: Fault | undefined
  fields?: object | undefined
}

/** One line, whatever is in it: a stack is a field of its own. */
function record({ level, text, fault, fields }: Saying): string {
  const head = { time: new Date().toISOString(), level }
  if (!(fault?.error instanceof Error)) return `${JSON.stringify({ ...head, message: text, ...fields })}\n`
  const { message, error } = fault
  return `${JSON.stringify({ ...head, message: `${message}: ${(error as Error).message}`, stack: (error as Error).stack })}\n`
}
