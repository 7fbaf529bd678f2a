/*
 * A list in JSON from outside, read in bounded steps. JSON.parse takes a whole text and does not pause: 250 MB hold up
 * every other request for a minute. Here the bytes may come in pieces of any size; each item is parsed by itself when
 * its last byte is there, and an item that is too large is refused before it is parsed.
 */

export interface JsonListLimits {
  items: number
  /** Of one item. */
  itemBytes: number
  /** Of one item: its values and keys, counted by what separates them. */
  itemValues: number
}

export interface JsonListReader {
  /** Takes bytes, cut anywhere; calls back once for each item that is complete. Throws a SyntaxError. */
  push(bytes: Uint8Array): void
  /** Throws a SyntaxError unless the list has ended. */
  end(): void
}

const [quote, backslash, comma, colon] = [0x22, 0x5c, 0x2c, 0x3a]
const [openList, closeList, openObject, closeObject] = [0x5b, 0x5d, 0x7b, 0x7d]
const byteOrderMark = Buffer.from('\ufeff')

/** Hands each item of a list to `onItem`. What `onItem` throws passes through. */
export function createJsonListReader(onItem: (item: unknown, index: number) => void, limits: JsonListLimits): JsonListReader {
  let state: 'before' | 'within' | 'after' = 'before'
  let index = 0
  let held: Buffer[] = []
  let heldBytes = 0
  let values = 0
  /** Of what is open within the item. */
  let depth = 0
  let isText = false
  let isEscaped = false

  function hold(bytes: Uint8Array): void {
    heldBytes += bytes.length
    if (heldBytes > limits.itemBytes) throw new SyntaxError(`item ${index} has more than ${limits.itemBytes} bytes`)
    if (bytes.length > 0) held.push(Buffer.from(bytes))
  }

  /** The item ends where a comma or the list's end is. An empty list has no item. */
  function finish(isLast: boolean): void {
    const whole = Buffer.concat(held, heldBytes).toString('utf8')
    // A whole text may have been put into a list, with its mark.
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
    if (all[at] !== openList) throw new SyntaxError('a list is needed')
    const before = heldBytes - bytes.length
    held = []
    heldBytes = 0
    state = 'within'
    return at + 1 - before
  }

  /** Counts what is in an item; true where it ends. */
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
      else if (state === 'after' && !bytes.subarray(from).every(isSpace)) throw new SyntaxError('more follows the end of the list')
    },
    end() {
      if (state !== 'after') throw new SyntaxError('it ends before the list does')
    }
  }
}

function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09
}

function isBlank(text: string): boolean {
  return /^[ \t\r\n]*$/.test(text)
}
