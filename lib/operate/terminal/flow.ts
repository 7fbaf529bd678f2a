/*
 * The output of one session, between a shell that prints and a client that may disconnect and reconnect. Each byte has
 * a position: the number of UTF-8 bytes that the session printed before it.
 *
 *     0 … kept ………… acked ………… sent ………… end
 *         oldest    drawn by   handed to  printed
 *         byte kept the client the socket
 *
 * The flow keeps all bytes that are not acknowledged, and at least the last `keptBytes`, for a client that has lost
 * its screen. The modes that the dropped output has set are kept, too. While no client is connected, nothing can be
 * acknowledged and the shell is not paused. Then only `keptBytes` are kept.
 */

export interface FlowLimits {
  /** Bytes of output that are kept for a client that reconnects. */
  keptBytes: number
  /** Maximum number of unacknowledged bytes. Above it the shell is paused. */
  windowBytes: number
  /** Approximate maximum size of the text that one `take` returns. */
  batchBytes: number
}

export const defaultFlowLimits: FlowLimits = {
  keptBytes: 256 * 1024, // decisions §6
  windowBytes: 1024 * 1024, // decisions §6
  batchBytes: 64 * 1024
}

/**
 * Small pieces are joined up to this size. A program that prints byte by byte must not cost one object for each byte.
 */
const joinedBytes = 4 * 1024

interface Chunk {
  at: number
  bytes: number
  text: string
}

/** The buffered output of one session. */
export class Flow {
  readonly #limits: FlowLimits
  readonly #modes = createTerminalModes()
  #chunks: Chunk[] = []
  /** Index of the chunk that `take` returns next. */
  #next = 0
  #end = 0
  #acked = 0

  constructor(limits: FlowLimits = defaultFlowLimits) {
    this.#limits = limits
  }

  /** Whether the shell should pause: more than `windowBytes` are printed and not acknowledged. */
  get isFull(): boolean {
    return this.#end - this.#acked > this.#limits.windowBytes
  }

  /** Position of the next byte that `take` returns. */
  get sent(): number {
    return this.#chunks[this.#next]?.at ?? this.#end
  }

  /** If `take` returns the oldest kept byte next: the control sequences that set the modes of the terminal there. */
  get modes(): string {
    return this.#next === 0 ? this.#modes.sequences() : ''
  }

  /** Adds what the shell has printed. `isHeard` says whether a client is connected. */
  push(text: string, isHeard: boolean): void {
    const { keptBytes } = this.#limits
    const bytes = Buffer.byteLength(text)
    if (bytes === 0) return
    this.#add(text, bytes)
    if (isHeard) return this.#trim()
    // Exactly `keptBytes` are kept, because what is dropped here is lost.
    this.#cutAt(this.#end - keptBytes)
    this.#dropUntil(this.#end - keptBytes)
    this.#acked = Math.max(this.#acked, this.#chunks[0]?.at ?? this.#end)
  }

  /** Returns the next text to send, of about `batchBytes` at most. Empty if there is none. */
  take(): string {
    let bytes = 0
    const texts: string[] = []
    for (let chunk = this.#chunks[this.#next]; chunk !== undefined; chunk = this.#chunks[this.#next]) {
      if (bytes > 0 && bytes + chunk.bytes > this.#limits.batchBytes) break
      texts.push(chunk.text)
      bytes += chunk.bytes
      this.#next++
    }
    return texts.join('')
  }

  /**
   * Acknowledges everything before `position`. `ahead` means that the position was never sent; then nothing changes.
   */
  ack(position: number): 'taken' | 'ahead' {
    if (position > this.sent) return 'ahead'
    if (position > this.#acked) {
      this.#acked = position
      this.#trim()
    }
    return 'taken'
  }

  /**
   * Continues from `position`, up to which the client has everything; without it, from the last `ack`. If those bytes
   * are no longer kept, continues from the nearest kept position. Returns the position.
   */
  rewind(position: number = this.#acked): number {
    this.#next = this.#cutAt(Math.min(position, this.#end))
    this.#acked = Math.max(this.#acked, this.sent)
    return this.sent
  }

  /** Drops whole chunks that end at or before `position`. */
  #dropUntil(position: number): void {
    let count = 0
    for (
      let chunk = this.#chunks[0];
      chunk !== undefined && chunk.at + chunk.bytes <= position;
      chunk = this.#chunks[count]
    )
      count++
    if (count === 0) return
    for (const { text } of this.#chunks.slice(0, count)) this.#modes.read(text)
    this.#chunks = this.#chunks.slice(count)
    this.#next = Math.max(0, this.#next - count)
  }

  /** Splits chunks so that one begins at `position`, or at the nearest character start before it. Returns its index. */
  #cutAt(position: number): number {
    const i = this.#chunks.findIndex(chunk => position < chunk.at + chunk.bytes)
    const chunk = this.#chunks[i]
    if (chunk === undefined) return this.#chunks.length
    if (position <= chunk.at) return i
    const bytes = Buffer.from(chunk.text)
    let cut = position - chunk.at
    while (cut > 0 && ((bytes[cut] as number) & 0xc0) === 0x80) cut--
    if (cut === 0) return i
    const parts = [bytes.subarray(0, cut), bytes.subarray(cut)]
    let { at } = chunk
    this.#chunks.splice(
      i,
      1,
      ...parts.map(part => ({ at: (at += part.length) - part.length, bytes: part.length, text: part.toString() }))
    )
    if (this.#next > i) this.#next++
    return i + 1
  }

  #add(text: string, bytes: number): void {
    const last = this.#chunks.at(-1)
    const isLastSent = this.#next === this.#chunks.length
    if (last !== undefined && !isLastSent && last.bytes + bytes <= joinedBytes) {
      last.text += text
      last.bytes += bytes
    } else {
      if (isLastSent) this.#joinLastTwo()
      this.#chunks.push({ at: this.#end, bytes, text })
    }
    this.#end += bytes
  }

  #joinLastTwo(): void {
    const [one, two] = this.#chunks.slice(-2)
    if (one === undefined || two === undefined || one.bytes + two.bytes > joinedBytes) return
    one.text += two.text
    one.bytes += two.bytes
    this.#chunks.pop()
    this.#next--
  }

  /** Drops what is acknowledged and older than `keptBytes`. */
  #trim(): void {
    this.#dropUntil(Math.min(this.#end - this.#limits.keptBytes, this.#acked))
  }
}

/*
 * The modes of a terminal, read from output that is dropped. A client that gets only the later output begins with
 * these control sequences; otherwise its keys, mouse and screen would differ from what the program has asked for.
 *
 * Only what later output rarely sets again is kept. A sequence that is cut where the output was dropped is repeated, so
 * that its end is not shown as text. Standards: ECMA-48, XTerm Control Sequences (invisible-island.net/xterm/ctlseqs).
 */

/** A control sequence, escape sequence, string or shift. Groups: parameters and final byte, or the text of a string. */
const pattern = new RegExp(
  [
    '(?:\\x1b\\[|\\x9b)([0-?]*)([ -/]*[@-~])',
    '(?:\\x1b\\]|\\x9d)([^\\x07\\x18\\x1a\\x1b\\x9c]*)',
    '(?:\\x1b[PX^_]|[\\x90\\x98\\x9e\\x9f])([^\\x18\\x1a\\x1b\\x9c]*)',
    '\\x1b([ -/]*[0-OQ-WYZ\\\\`-~])',
    '([\\x0e\\x0f])'
  ].join('|'),
  'g'
)
/** The beginning of a sequence other than a string. */
const cut = /(?:\x1b\[|\x9b)[0-?]*[ -/]*$|\x1b[ -/]*$/

/** Maximum length of a title, of a cut sequence, and of the parameters of a sequence. */
const maxLength = 512
/** Maximum number of modes, and of colour sequences since the last reset of the colours. */
const maxKept = 64
/** Private modes that a soft reset (DECSTR) leaves: screen, mouse, focus and paste. */
const hardModes = new Set([5, 9, 47, 1000, 1002, 1003, 1004, 1006, 1047, 1049, 2004])

/** Creates the modes of a terminal after a reset. */
export function createTerminalModes() {
  /** Sequences by the name of the mode that they set, the latest last. */
  let kept = new Map<string, string>()
  let colors: string[] = []
  let partial = ''

  function keep(key: string, sequence: string): void {
    kept.delete(key)
    kept.set(key, sequence)
    if (kept.size > maxKept) kept.delete(kept.keys().next().value as string)
  }

  function reset(isSoft: boolean): void {
    const stays = ([key]: [string, string]): boolean =>
      key === 'title' || (key.startsWith('?') && hardModes.has(Number(key.slice(1))))
    kept = new Map(isSoft ? [...kept].filter(stays) : [])
    colors = []
  }

  function readColors(parameters: string): void {
    if (/^(?:0*$|0*;)/.test(parameters)) colors = []
    if (!/^0*$/.test(parameters)) colors.push(`\x1b[${parameters}m`)
    if (colors.length > maxKept) colors.shift()
  }

  function readControl(parameters: string, final: string): void {
    if (parameters.length > maxLength) return
    if (final === 'm' && /^[\d;:]*$/.test(parameters)) readColors(parameters)
    else if (final === '!p') reset(true)
    else if (final === 'h' || final === 'l') {
      const prefix = parameters.startsWith('?') ? '?' : ''
      const modes = parameters.slice(prefix.length).split(';')
      for (const mode of modes.filter(mode => /^\d{1,5}$/.test(mode)))
        keep(`${prefix}${Number(mode)}`, `\x1b[${prefix}${mode}${final}`)
    } else if ((final === 'r' || final === ' q') && /^[\d;]*$/.test(parameters))
      keep(final, `\x1b[${parameters}${final}`)
  }

  function readEscape(bytes: string): void {
    if (bytes === 'c') reset(false)
    else if (bytes === '=' || bytes === '>') keep('keypad', `\x1b${bytes}`)
    else if (/^[()*+][0-~]$/.test(bytes)) keep(bytes.slice(0, 1), `\x1b${bytes}`)
  }

  return {
    /** Reads the next output. It may be cut anywhere. */
    read(text: string): void {
      const input = partial + text
      let end = 0
      partial = ''
      for (const match of input.matchAll(pattern)) {
        const [all, parameters, final, command, string, escape, shift] = match
        end = match.index + all.length
        const isString = command !== undefined || string !== undefined
        if (isString && end === input.length) partial = all
        else if (final !== undefined) readControl(parameters as string, final)
        else if (escape !== undefined) readEscape(escape)
        else if (shift !== undefined) keep('shift', shift)
        else if (/^[02];/.test(command ?? '')) keep('title', `\x1b]${(command as string).slice(0, maxLength)}\x1b\\`)
      }
      partial ||= cut.exec(input.slice(end))?.[0] ?? ''
      // The rest of a long string is still swallowed by a string.
      if (partial.length > maxLength) partial = partial.startsWith('\x1b') ? partial.slice(0, 2) : partial.slice(0, 1)
    },

    /** Returns the control sequences that set these modes on a terminal after a reset. */
    sequences: (): string => [...kept.values(), ...colors].join('') + partial
  }
}
