/*
 * The parser of control functions. It turns text into calls, following ECMA-48 §5 and the VT500 series as in Paul
 * Williams' diagram (vt100.net/emu/dec_ansi_parser). It knows no screen. The input may be cut anywhere.
 *
 * States, and what ends each of them (ESC, CAN, SUB and the C1 controls end every state):
 *   ground               nothing: printable text and control characters stay in this state
 *   escape               a final byte 0x30..0x7e, or the first byte of CSI, DCS, OSC, SOS, PM, APC
 *   escape intermediate  a final byte, after bytes 0x20..0x2f
 *   csi entry            the first parameter, prefix or intermediate byte, or the final byte 0x40..0x7e
 *   csi param            an intermediate or the final byte
 *   csi intermediate     the final byte
 *   csi ignore           the final byte, which is ignored
 *   dcs entry … ignore   the same for device control strings; their final byte begins the data
 *   dcs passthrough      ST, sent as ESC \ or 0x9c
 *   osc string           ST or BEL
 *   sos, pm, apc         ST; the content is dropped
 *
 * Limits: a function has at most 32 parameters, further ones are dropped. A parameter is at most 65,535, larger values
 * are reduced to it. A function with more than one intermediate byte is ignored. A string with more than 64 Ki
 * characters is dropped.
 *
 * Differences from the diagram: The input is UTF-16. A character above U+009F is printed in the ground state, is part
 * of the text in a string, and is ignored within a function. A colon separates sub-parameters (ISO 8613-6). CAN and SUB
 * drop the string that they end; ESC delivers it. DEL is never printed.
 */

/** The parameters of a function. The parser reuses one object: read the values before the handler returns. */
export interface Parameters {
  /** Number of parameters, at least one. */
  readonly count: number
  /** Values. An omitted parameter is 0. */
  readonly values: Int32Array
  /** 1 for a sub-parameter: a value after a colon, which belongs to the value before it. */
  readonly isSub: Uint8Array
}

/** The callbacks of the parser. A function is identified by the number that functionId() returns for its bytes. */
export interface ParserHandler {
  /** Receives printable text: the part of `text` from `from` to before `to`. A surrogate pair is never cut. */
  print(text: string, from: number, to: number): void
  /** Receives a C0 control character other than ESC. */
  control(code: number): void
  /** Receives an escape sequence. A C1 control arrives as its equivalent escape sequence. */
  escape(id: number): void
  /** Receives a control sequence. */
  csi(id: number, parameters: Parameters): void
  /** Receives an operating system command: the text between its introducer and its end. */
  osc(text: string): void
  /** Receives a complete device control string. */
  dcs(id: number, parameters: Parameters, text: string): void
}

/** Returns the number of a function from its bytes without parameters: `H`, `?h`, `!p`, `?$p`. */
export function functionId(bytes: string): number {
  const hasPrefix = /^[<=>?]./.test(bytes)
  const rest = hasPrefix ? bytes.slice(1) : bytes
  const intermediate = rest.length > 1 ? rest.charCodeAt(0) : 0
  return ((hasPrefix ? bytes.charCodeAt(0) : 0) << 16) | (intermediate << 8) | rest.charCodeAt(rest.length - 1)
}

const maxParameters = 32
const maxValue = 65_535
const maxStringLength = 64 * 1024

const ground = 0
const escape = 1
const escapeIntermediate = 2
const csiEntry = 3
const csiParam = 4
const csiIntermediate = 5
const csiIgnore = 6
const dcsEntry = 7
const dcsParam = 8
const dcsIntermediate = 9
const dcsIgnore = 10
const dcsPassthrough = 11
const oscString = 12
const sosPmApc = 13
const stateCount = 14

const ignore = 0
const control = 1
const enter = 2 // begins a function: clears the collected bytes
const collect = 3
const prefix = 4
const param = 5
const escapeDispatch = 6
const csiDispatch = 7
const hook = 8
const put = 9
const end = 10
const endAndEnter = 11
const abort = 12
const c1 = 13

/**
 * The transition table: one row per state, one column per code; the last column is for all codes from U+00A0 on. An
 * entry has the action in its high half and the next state in its low half.
 */
const columns = 0xa1
const table = buildTable()

function buildTable(): Uint8Array {
  const built = new Uint8Array(stateCount * columns)
  // biome-ignore lint/complexity/useMaxParams: one row of the table of transitions
  const on = (state: number, from: number, to: number, action: number, next = state): void => {
    for (let code = from; code <= to; code++) built[state * columns + code] = (action << 4) | next
  }
  for (let state = 0; state < stateCount; state++) {
    const isString = state === oscString || state === dcsPassthrough
    on(state, 0x00, columns - 1, isString ? put : ignore)
    // Control characters act even within a function: ECMA-48 leaves it open, but terminals do it. Strings ignore them.
    on(state, 0x00, 0x1f, isString || state >= dcsEntry ? ignore : control)
    on(state, 0x18, 0x18, abort, ground)
    on(state, 0x1a, 0x1a, abort, ground)
    on(state, 0x1b, 0x1b, isString ? endAndEnter : enter, escape)
    on(state, 0x7f, 0x7f, ignore)
    on(state, 0x80, 0x9f, c1, ground)
    on(state, 0x90, 0x90, enter, dcsEntry)
    on(state, 0x98, 0x98, enter, sosPmApc)
    on(state, 0x9b, 0x9b, enter, csiEntry)
    on(state, 0x9c, 0x9c, end, ground)
    on(state, 0x9d, 0x9d, enter, oscString)
    on(state, 0x9e, 0x9f, enter, sosPmApc)
  }
  on(escape, 0x20, 0x2f, collect, escapeIntermediate)
  on(escape, 0x30, 0x7e, escapeDispatch, ground)
  on(escape, 0x50, 0x50, enter, dcsEntry)
  on(escape, 0x58, 0x58, enter, sosPmApc)
  on(escape, 0x5b, 0x5b, enter, csiEntry)
  on(escape, 0x5d, 0x5d, enter, oscString)
  on(escape, 0x5e, 0x5f, enter, sosPmApc)
  on(escapeIntermediate, 0x20, 0x2f, collect)
  on(escapeIntermediate, 0x30, 0x7e, escapeDispatch, ground)
  for (const [entry, inParam, inIntermediate, inIgnore, dispatch, next] of [
    [csiEntry, csiParam, csiIntermediate, csiIgnore, csiDispatch, ground],
    [dcsEntry, dcsParam, dcsIntermediate, dcsIgnore, hook, dcsPassthrough]
  ] as const) {
    on(entry, 0x20, 0x2f, collect, inIntermediate)
    on(entry, 0x30, 0x3b, param, inParam)
    on(entry, 0x3c, 0x3f, prefix, inParam)
    on(inParam, 0x20, 0x2f, collect, inIntermediate)
    on(inParam, 0x30, 0x3b, param)
    on(inParam, 0x3c, 0x3f, ignore, inIgnore)
    on(inIntermediate, 0x20, 0x2f, collect)
    on(inIntermediate, 0x30, 0x3f, ignore, inIgnore)
    for (const state of [entry, inParam, inIntermediate]) on(state, 0x40, 0x7e, dispatch, next)
  }
  on(csiIgnore, 0x40, 0x7e, ignore, ground)
  on(oscString, 0x07, 0x07, end, ground)
  return built
}

/** Creates a parser in the ground state. */
export function createParser(handler: ParserHandler) {
  const values = new Int32Array(maxParameters)
  const isSub = new Uint8Array(maxParameters)
  const parameters = { count: 1, values, isSub }
  let state = ground
  let prefixByte = 0
  let intermediate = 0
  let intermediates = 0
  let isFull = false
  let parts: string[] = []
  let stringLength = 0
  let dcsId = 0
  let held = ''

  const clear = (): void => {
    prefixByte = intermediate = intermediates = 0
    values[0] = 0
    isSub[0] = 0
    parameters.count = 1
    isFull = false
    if (stringLength === 0) return
    parts = []
    stringLength = 0
  }
  const id = (final: number): number => (prefixByte << 16) | (intermediate << 8) | final

  const readParameter = (code: number): void => {
    if (code < 0x3a) {
      const last = parameters.count - 1
      if (!isFull) values[last] = Math.min(maxValue, (values[last] as number) * 10 + code - 0x30)
    } else if (parameters.count === maxParameters) {
      isFull = true
    } else {
      values[parameters.count] = 0
      isSub[parameters.count++] = code === 0x3a ? 1 : 0
    }
  }

  /** Delivers the string that ends here. Drops a string that is too long. */
  const finish = (): void => {
    if (stringLength > maxStringLength) return
    if (state === oscString) handler.osc(parts.join(''))
    else if (state === dcsPassthrough && intermediates <= 1) handler.dcs(dcsId, parameters, parts.join(''))
  }

  /** Reads the part of a string that the text contains. Returns the offset after it. */
  const readString = (text: string, from: number): number => {
    let at = from
    while (at < text.length) {
      const code = text.charCodeAt(at)
      if (code < 0x20 || (code >= 0x7f && code < 0xa0)) break
      at++
    }
    stringLength += at - from
    if (at > from && stringLength <= maxStringLength) parts.push(text.slice(from, at))
    return at
  }

  const act = (action: number, code: number): void => {
    switch (action) {
      case control:
        return handler.control(code)
      case enter:
        return clear()
      case collect:
        intermediate = code
        intermediates++
        return
      case prefix:
        prefixByte = code
        return
      case param:
        return readParameter(code)
      case escapeDispatch:
        return intermediates > 1 ? undefined : handler.escape(id(code))
      case csiDispatch:
        return intermediates > 1 ? undefined : handler.csi(id(code), parameters)
      case hook:
        dcsId = id(code)
        return
      case end:
        return finish()
      case endAndEnter:
        finish()
        return clear()
      case abort:
        return handler.control(code)
      case c1:
        return handler.escape(code - 0x40)
    }
  }

  return {
    /** Parses the next text. It may be cut anywhere. */
    push(input: string): void {
      const text = held === '' ? input : held + input
      held = ''
      let at = 0
      while (at < text.length) {
        // Most input is runs of text (bench/emulator.ts): they are delivered whole, without the table.
        if (state === ground) {
          const from = at
          while (at < text.length) {
            const code = text.charCodeAt(at)
            if (code < 0x20 || (code >= 0x7f && code < 0xa0)) break
            at++
          }
          const isCut = at === text.length && at > from && (text.charCodeAt(at - 1) & 0xfc00) === 0xd800
          if (isCut) held = text[at - 1] as string
          const to = isCut ? at - 1 : at
          if (to > from) handler.print(text, from, to)
          if (at === text.length) return
        } else if (state === oscString || state === dcsPassthrough) {
          at = readString(text, at)
          if (at === text.length) return
        }
        const code = text.charCodeAt(at++)
        const entry = table[state * columns + Math.min(code, 0xa0)] as number
        if (entry >= 0x10) act(entry >> 4, code)
        state = entry & 0x0f
      }
    },

    /** Returns to the ground state and drops an incomplete sequence. */
    reset(): void {
      clear()
      held = ''
      state = ground
    }
  }
}
