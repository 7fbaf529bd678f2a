import { once } from 'node:events'
import { formatBytes } from '../../base/shared/api.js'
import { type Column, cutToWidth, renderTable, widthOf } from './columns.js'
import { cleanText, createCleaner, plainText } from './terminal-text.js'
import { humanDuration } from './words.js'

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
  /** Prints a result: as JSON, or as text. A function makes the text only if it is printed. */
  result(isJson: boolean, value: unknown, text: string | (() => string | readonly string[])): void
  table<T>(rows: readonly T[], columns: readonly Column<T>[]): void
  /** Prints a list: as JSON, or as a table; `empty` is a note for people instead of a table without rows. */
  list<T>(isJson: boolean, rows: readonly T[], shown: { empty: string; columns: readonly Column<T>[] }): void
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
  const json = (value: unknown) => print(JSON.stringify(value, null, 2))
  const note = (text: string) => say(stderr, { level: 'info', text })
  function table<T>(rows: readonly T[], columns: readonly Column<T>[]): void {
    const [head, ...lines] = renderTable(rows, columns, stdout.isTTY ? stdout.columns : undefined)
    print(paint.bold(head as string))
    for (const line of lines) print(line)
  }

  return {
    print,
    logAsJson: () => void (isLog = true),
    async write(bytes) {
      const isTaken = stdout.write(
        stdout.isTTY ? cleaner.push(typeof bytes === 'string' ? bytes : decoder.decode(bytes, { stream: true })) : bytes
      )
      // An error ends the wait, too: cli/entry.ts decides what it means.
      if (!isTaken) await once(stdout, 'drain').catch(() => {})
    },
    json,
    result(isJson, value, text) {
      if (isJson) json(value)
      else for (const line of [typeof text === 'string' ? text : text()].flat()) print(line)
    },
    table,
    list(isJson, rows, { empty, columns }) {
      if (isJson) json(rows)
      else if (rows.length === 0) note(empty)
      else table(rows, columns)
    },
    note,
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

/** Functions that colour text, or return it unchanged if colours are off. */
export interface Paint {
  bold(text: string): string
  dim(text: string): string
  red(text: string): string
  green(text: string): string
  yellow(text: string): string
  blue(text: string): string
}

/** SGR parameters (ECMA-48 §8.3.117) that turn a style on and off. */
const codes: Record<keyof Paint, [number, number]> = {
  bold: [1, 22],
  dim: [2, 22],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  blue: [34, 39]
}

/**
 * Returns the colours for a stream. If `FORCE_COLOR` is set, it decides (`0` and `false` turn colours off). Otherwise
 * any text in `NO_COLOR` turns them off. Otherwise they are on if the stream is a terminal that is not `dumb`.
 */
export function createPaint(stream: { isTTY?: boolean }, env: Host['env']): Paint {
  const isOn = wantsColor(stream, env)
  const paint = {} as Paint
  for (const [name, [on, off]] of Object.entries(codes) as [keyof Paint, [number, number]][])
    paint[name] = text => (isOn ? `\x1b[${on}m${text}\x1b[${off}m` : text)
  return paint
}

function wantsColor(stream: { isTTY?: boolean }, env: Host['env']): boolean {
  if (env['FORCE_COLOR'] !== undefined) return env['FORCE_COLOR'] !== '0' && env['FORCE_COLOR'] !== 'false'
  if (env['NO_COLOR']) return false
  return stream.isTTY === true && env['TERM'] !== 'dumb'
}

/** A progress bar. */
export interface Progress {
  /** Sets the amount done so far. Draws at most every 100 ms. */
  update(done: number, total: number): void
  /** Replaces the bar with a sentence. */
  end(sentence: string): void
  /** Removes the bar after a failure. */
  clear(): void
}

/** Runs work with a progress bar, which is removed if the work fails. */
export async function withProgress<T>(bar: Progress, work: (bar: Progress) => Promise<T>): Promise<T> {
  try {
    return await work(bar)
  } catch (error) {
    bar.clear()
    throw error
  }
}

const drawEveryMs = 100
const defaultLineEveryMs = 15_000
const barColumns = 24
const leastTextColumns = 16
const defaultColumns = 80

/** How progress looks on a stream. */
export interface Look {
  paint: Paint
  /** Whether a line can be drawn again. */
  isDrawn: boolean
  /** Time between two lines where it is not, in ms. */
  lineEveryMs?: number
}

/** What a progress bar shows. */
export interface Shown {
  label: string
  /** Returns an amount in words. Default: bytes. */
  inWords?: ((amount: number) => string) | undefined
}

/**
 * Starts a progress bar on a screen. Elsewhere it prints one line at the start, one at the end, and one each 15 s in
 * between: a CI system ends a job that is silent.
 */
export function startProgress(stream: NodeJS.WriteStream, look: Look, shown: Shown): Progress {
  return look.isDrawn ? startBar(stream, look.paint, shown) : startLines(stream, look, shown)
}

function startLines(
  stream: NodeJS.WriteStream,
  { lineEveryMs = defaultLineEveryMs }: Look,
  { label, inWords = formatBytes }: Shown
): Progress {
  const line = plainText(label)
  const startedAtMs = Date.now()
  let now: [done: number, total: number] | null = null
  stream.write(`${line}…\n`)
  const timer = setInterval(() => {
    const part = now === null ? '' : `, ${inWords(now[0])} of ${inWords(now[1])}`
    stream.write(`${line}… ${humanDuration(Date.now() - startedAtMs)}${part}\n`)
  }, lineEveryMs).unref()
  return {
    update: (done, total) => void (now = [done, total]),
    end(sentence) {
      clearInterval(timer)
      stream.write(`${sentence}\n`)
    },
    clear: () => clearInterval(timer)
  }
}

function startBar(stream: NodeJS.WriteStream, paint: Paint, { label, inWords = formatBytes }: Shown): Progress {
  const startedAtMs = Date.now()
  let drawnAtMs = 0

  function draw(done: number, total: number): void {
    const part = total > 0 ? Math.min(1, done / total) : 1
    const full = Math.round(part * barColumns)
    const bar = paint.green('█'.repeat(full)) + paint.dim('░'.repeat(barColumns - full))
    const seconds = (Date.now() - startedAtMs) / 1000
    const rate = seconds > 0.5 ? ` · ${inWords(Math.round(done / seconds))}/s` : ''
    const left =
      part > 0.02 && part < 1 && seconds > 2 ? ` · ${humanDuration((seconds / part - seconds) * 1000)} left` : ''
    const text = `${Math.floor(part * 100)}% of ${inWords(total)}${rate}${left}`
    // A line that wraps cannot be erased, so the text is shortened first, then the label.
    const room = (stream.columns ?? defaultColumns) - barColumns - 3
    const shown = cutToWidth(label, Math.max(1, room - leastTextColumns))
    stream.write(`\r\x1b[K${shown} ${bar} ${cutToWidth(text, Math.max(1, room - widthOf(shown)))}`)
  }

  return {
    update(done, total) {
      const now = Date.now()
      if (now - drawnAtMs < drawEveryMs) return
      drawnAtMs = now
      draw(done, total)
    },
    end: sentence => void stream.write(`\r\x1b[K${sentence}\n`),
    clear: () => void stream.write('\r\x1b[K')
  }
}

/** The part of `process` that the command line uses. */
export interface Host {
  env: Readonly<Record<string, string | undefined>>
  cwd(): string
  readonly stdin: NodeJS.ReadStream
  readonly stdout: NodeJS.WriteStream
  readonly stderr: NodeJS.WriteStream
  on(signal: NodeJS.Signals, listener: () => void): unknown
  off(signal: NodeJS.Signals, listener: () => void): unknown
  exit(code: number): void
}

type Environment = Host['env']

/** Whether the command runs in a CI job: `CI` is set, as every common system does, and not turned off. */
export function isCi(env: Environment): boolean {
  return !['', '0', 'false'].includes((env['CI'] ?? '').toLowerCase())
}

/**
 * Whether a stream is a terminal that a person watches, on which a line can be drawn again. A CI job may have a terminal,
 * but its log keeps every byte. `TERM=dumb` has no escape sequences.
 */
export function isScreen(stream: { isTTY?: boolean }, env: Environment): boolean {
  return stream.isTTY === true && env['TERM'] !== 'dumb' && !isCi(env)
}
