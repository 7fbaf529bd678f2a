import { createPaint, type Paint } from './colors.js'
import type { Host } from '../host.js'
import { startProgress, type Progress } from './progress.js'
import { isScreen } from './screen.js'
import { renderTable, type Column } from './table.js'
import { cleanText, createCleaner } from './terminal-text.js'

/** An internal error of the server: `message` names the operation, and `error` is the thrown value. */
export interface Fault {
  message: string
  error: unknown
}

/**
 * The output of a command. Results go to stdout; notes, warnings and errors go to stderr. Text for a terminal and all
 * text for stderr is cleaned (terminal-text.ts). A result for a file or a pipe is data and stays unchanged.
 */
export interface Output {
  /** Prints one line of the result. `fields` contains its values for a log in JSON. */
  print(text: string, fields?: object): void
  /** Writes a part of the result. Resolves when the stream accepts more. */
  write(bytes: string | Uint8Array): Promise<void>
  json(value: unknown): void
  table<T>(rows: readonly T[], columns: readonly Column<T>[]): void
  /** Prints a line of information to stderr. */
  note(text: string): void
  /** Prints a warning. `fault` contains its details for a log in JSON. */
  warn(text: string, fault?: Fault): void
  error(text: string): void
  /** Prints every further line as a JSON object with `time`, `level` and `message`. */
  logAsJson(): void
  /** `inWords` formats the amounts; default: bytes. */
  progress(label: string, inWords?: (amount: number) => string): Progress
  /** Colours for stdout. */
  paint: Paint
  /** Colours for stderr. */
  notePaint: Paint
}

/** Creates the output on the streams of the process. `NO_COLOR`, `FORCE_COLOR` and terminals decide about colours. */
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
      const isTaken = stdout.write(
        stdout.isTTY ? cleaner.push(typeof bytes === 'string' ? bytes : decoder.decode(bytes, { stream: true })) : bytes
      )
      if (!isTaken) await new Promise<void>(resolve => stdout.once('drain', resolve))
    },
    json: value => print(JSON.stringify(value, null, 2)),
    table(rows, columns) {
      const [head, ...lines] = renderTable(rows, columns, stdout.isTTY ? stdout.columns : undefined)
      print(paint.bold(head as string))
      for (const line of lines) print(line)
    },
    note: text => say(stderr, { level: 'info', text }),
    warn: (text, fault) =>
      say(stderr, {
        level: fault === undefined ? 'warn' : 'error',
        prefix: `${notePaint.yellow('warning:')} `,
        text,
        fault
      }),
    error: text => say(stderr, { level: 'error', prefix: `${notePaint.red('error:')} `, text }),
    progress: (label, inWords) =>
      startProgress(stderr, { paint: notePaint, isDrawn: isScreen(stderr, env) }, { label, inWords }),
    paint,
    notePaint
  }
}

interface Saying {
  level: 'info' | 'warn' | 'error'
  /** Prefix that shows the level to people. */
  prefix?: string
  text: string
  fault?: Fault | undefined
  fields?: object | undefined
}

/** Renders a line of the JSON log. A stack becomes a field, so that the record stays on one line. */
function record({ level, text, fault, fields }: Saying): string {
  const head = { time: new Date().toISOString(), level }
  if (!(fault?.error instanceof Error)) return `${JSON.stringify({ ...head, message: text, ...fields })}\n`
  const { message, error } = fault
  return `${JSON.stringify({ ...head, message: `${message}: ${(error as Error).message}`, stack: (error as Error).stack })}\n`
}
