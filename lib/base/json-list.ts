/*
 * Reads an untrusted JSON array in bounded steps. JSON.parse takes a whole text without a pause: 250 MB delay every
 * other request by a minute. Here the bytes come in pieces of any size. Each item is parsed by itself when its last
 * byte has arrived, and an item that is too large is refused before it is parsed.
 */

/** Limits of a list. */
export interface JsonListLimits {
  items: number
  /** Maximum size of one item in bytes. */
  itemBytes: number
  /** Maximum number of values and keys in one item, counted by their separators. */
  itemValues: number
}

/** Receives the bytes of a list. */
export interface JsonListReader {
  /**
   * Takes bytes that may be split anywhere. Calls back once for each complete item. Throws a SyntaxError if the list is
   * invalid.
   */
  push(bytes: Uint8Array): void
  /** Ends the list. Throws a SyntaxError if it is incomplete. */
  end(): void
}

const [quote, backslash, comma, colon] = [0x22, 0x5c, 0x2c, 0x3a]
const [openList, closeList, openObject, closeObject] = [0x5b, 0x5d, 0x7b, 0x7d]
const byteOrderMark = Buffer.from('\ufeff')

/** Creates a reader that passes each item of a list to `onItem`. Errors of `onItem` are thrown unchanged. */
export function createJsonListReader(
  onItem: (item: unknown, index: number) => void,
  limits: JsonListLimits
): JsonListReader {
  let state: 'before' | 'within' | 'after' = 'before'
  let index = 0
  let held: Buffer[] = []
  let heldBytes = 0
  let values = 0
  /** Number of open lists and objects within the item. */
  let depth = 0
  let isText = false
  let isEscaped = false

  function hold(bytes: Uint8Array): void {
    heldBytes += bytes.length
    if (heldBytes > limits.itemBytes) throw new SyntaxError(`item ${index} has more than ${limits.itemBytes} bytes`)
    if (bytes.length > 0) held.push(Buffer.from(bytes))
  }

  /** Ends an item at a comma or at the end of the list. An empty list has no item. */
  function finish(isLast: boolean): void {
    const whole = Buffer.concat(held, heldBytes).toString('utf8')
    // A whole text, including its byte order mark, may have been put into a list.
    const text = index === 0 ? whole.replace(/^\ufeff/, '') : whole
    held = []
    heldBytes = 0
    values = 0
    if (isLast && index === 0 && isBlank(text)) return
    if (index >= limits.items) throw new SyntaxError(`it has more than ${limits.items} items`)
    const item: unknown = JSON.parse(text)
    onItem(item, index++)
  }

  function begin(bytes: Uint8Array): number {
    hold(bytes)
    const all = Buffer.concat(held, heldBytes)
    if (all.length < 3 && byteOrderMark.subarray(0, all.length).equals(all)) return bytes.length
    const bare = all.subarray(0, 3).equals(byteOrderMark) ? 3 : 0
    const at = all.findIndex((byte, place) => place >= bare && !isSpace(byte))
    if (at === -1) return bytes.length
    if (all[at] !== openList) throw new SyntaxError('it must be a JSON list')
    const before = heldBytes - bytes.length
    held = []
    heldBytes = 0
    state = 'within'
    return at + 1 - before
  }

  /** Counts the values of an item. Returns true at its end. */
  function isEnd(byte: number): boolean {
    if (isText) {
      if (isEscaped) isEscaped = false
      else if (byte === backslash) isEscaped = true
      else if (byte === quote) isText = false
      return false
    }
    if (byte === quote) isText = true
    else if (depth === 0 && (byte === comma || byte === closeList)) return true
    else if (byte === openList || byte === openObject) depth++
    else if (byte === closeList || byte === closeObject) depth--
    else if (byte !== comma && byte !== colon) return false
    if (++values > limits.itemValues) throw new SyntaxError(`item ${index} has more than ${limits.itemValues} values`)
    return false
  }

  return {
    push(bytes) {
      let from = state === 'before' ? begin(bytes) : 0
      for (let at = from; at < bytes.length && state === 'within'; at++) {
        if (!isEnd(bytes[at] as number)) continue
        hold(bytes.subarray(from, at))
        const isLast = bytes[at] === closeList
        finish(isLast)
        from = at + 1
        if (isLast) state = 'after'
      }
      if (state === 'within') hold(bytes.subarray(from))
      else if (state === 'after' && !bytes.subarray(from).every(isSpace))
        throw new SyntaxError('it continues after the end of the list')
    },
    end() {
      if (state !== 'after') throw new SyntaxError('it ends before the end of the list')
    }
  }
}

function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09
}

function isBlank(text: string): boolean {
  return /^[ \t\r\n]*$/.test(text)
}
