/*
 * Cleans untrusted text (from a server, a file name or a message) before it reaches a terminal. A terminal executes
 * control sequences: they change its title, write the clipboard, or move the cursor to overwrite earlier output.
 * Kept: text, newline, tab and colours (SGR, ECMA-48 §8.3.117). Removed: every other control sequence (§5.4, §5.6) and
 * control character (C0, DEL and C1). Shown as `\u202e`: marks that change the direction of text (UAX #9).
 * Differences from a terminal: a sequence ends with its line, and so do colours, so that neither hides the text after
 * it.
 */
type State = 'ground' | 'escape' | 'intermediate' | 'csi' | 'string'

const directions = '\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069'
const special = new RegExp(`[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f${directions}]`)
const direction = new RegExp(`[${directions}]`)
const sgr = /^[\d;:]*$/
/** Colours with nested parameters (38;5;0), which only a reset is certain to end. */
const extended = /:|(?:^|;)[345]8(?:;|$)/
/** Maximum length of the parameters. A longer sequence is not treated as a colour. */
const maxParameters = 64
const reset = '\x1b[0m'

export function createCleaner() {
  let state: State = 'ground'
  let parameters = ''
  const painted = new Set<number>()

  function push(text: string): string {
    if (state === 'ground' && painted.size === 0 && !special.test(text)) return text
    let shown = ''
    for (const character of text) shown += take(character, character.codePointAt(0) as number)
    return shown
  }

  function take(character: string, code: number): string {
    if (character === '\n') {
      state = 'ground'
      return `${end()}\n`
    }
    if (code < 0x20 || (code >= 0x7f && code <= 0x9f)) return control(character, code)
    if (state === 'string') return ''
    if (code >= 0x7f || state === 'ground') return show(character)
    return sequence(character, code)
  }

  function control(character: string, code: number): string {
    if (code === 0x1b) state = 'escape'
    else if (code === 0x9b) openCsi()
    else if ([0x90, 0x98, 0x9d, 0x9e, 0x9f].includes(code)) state = 'string'
    // CAN and SUB cancel a sequence, BEL ends a string as in xterm, every other C1 character ends the sequence before
    // it.
    else if (code >= 0x80 || code === 0x18 || code === 0x1a || (code === 0x07 && state === 'string')) state = 'ground'
    return character === '\t' && state === 'ground' ? character : ''
  }

  function show(character: string): string {
    state = 'ground'
    return direction.test(character)
      ? `\\u${(character.codePointAt(0) as number).toString(16).padStart(4, '0')}`
      : character
  }

  function sequence(character: string, code: number): string {
    if (state === 'csi') return csi(character, code)
    if (state === 'escape' && character === '[') openCsi()
    else if (state === 'escape' && ']PX^_'.includes(character)) state = 'string'
    else state = code < 0x30 ? 'intermediate' : 'ground'
    return ''
  }

  function openCsi(): void {
    state = 'csi'
    parameters = ''
  }

  function csi(character: string, code: number): string {
    if (code < 0x40) {
      if (parameters.length <= maxParameters) parameters += character
      return ''
    }
    state = 'ground'
    if (character !== 'm' || !sgr.test(parameters) || parameters.length > maxParameters) return ''
    if (extended.test(parameters)) painted.add(0)
    else for (const text of parameters.split(';')) paint(Number(text))
    return `\x1b[${parameters}m`
  }

  function paint(code: number): void {
    const off = offCode(code)
    if (code === 0) painted.clear()
    else if (off === code) painted.delete(code)
    else painted.add(off)
  }

  function end(): string {
    const isPainted = painted.size > 0
    painted.clear()
    return isPainted ? reset : ''
  }

  return {
    push,
    /** Returns the text to print after the last piece, which turns colours off. Drops an incomplete sequence. */
    end
  }
}

/** Returns the SGR parameter that turns a style off. Returns a parameter of that kind unchanged. */
function offCode(code: number): number {
  if (code === 1 || code === 2) return 22
  if (code === 6) return 25
  if (code >= 3 && code <= 9) return 20 + code
  if ((code >= 30 && code <= 38) || (code >= 90 && code <= 97)) return 39
  if ((code >= 40 && code <= 48) || (code >= 100 && code <= 107)) return 49
  return (code >= 22 && code <= 29) || code === 39 || code === 49 ? code : 0
}

/** Cleans a whole text. */
export function cleanText(text: string): string {
  const cleaner = createCleaner()
  return cleaner.push(text) + cleaner.end()
}

/** Cleans a text and removes its colours. */
export function uncoloured(text: string): string {
  return cleanText(text).replace(/\x1b\[[\d;:]*m/g, '')
}

/** Cleans a text for one line without colours: the cell of a table, the label of a bar, a question. */
export function plainText(text: string): string {
  return uncoloured(text).replace(/[\n\t]/g, ' ')
}
