/*
 * The modes of a terminal, read from output that is dropped. A client that gets only the later output begins with
 * these control sequences; otherwise its keys, mouse and screen would differ from what the program has asked for.
 *
 * Only what later output rarely sets again is kept. A sequence that is cut where the output was dropped is repeated, so
 * that its end is not shown as text. Standards: ECMA-48, XTerm Control Sequences (invisible-island.net/xterm/ctlseqs).
 */

/** The modes after some output. */
export interface TerminalModes {
  /** Reads the next output. It may be cut anywhere. */
  read(text: string): void
  /** Returns the control sequences that set these modes on a terminal after a reset. */
  sequences(): string
}

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
export function createTerminalModes(): TerminalModes {
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
    read(text) {
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
    sequences: () => [...kept.values(), ...colors].join('') + partial
  }
}
