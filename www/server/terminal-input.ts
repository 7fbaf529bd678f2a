/*
 * The input of one session of the terminal, from the keyboard to a server that takes a limited amount at a time.
 *
 *     0 … taken ………… sent ………… end
 *         passed to    handed to   typed or
 *         the program  a socket    pasted
 *
 * Positions count UTF-8 bytes, as those of the output do. A further socket continues where the server stands, so a
 * connection that breaks in the middle of a paste loses and repeats nothing.
 */

/** A part of the input, small enough for one message. */
interface Piece {
  /** The position of its first byte. */
  at: number
  bytes: number
  data: string
}

/** Sends a piece. `at` is absent for a server that does not count its input. */
type SendPiece = (input: { type: 'input'; data: string; at?: number }) => void

/** Maximum length of an input message. Escaped as JSON it stays below the limit of the server. */
const maxInputLength = 64 * 1024
/** Maximum number of bytes that the server has not passed to the program. It takes 1 MiB. */
const windowBytes = 256 * 1024
/** Maximum number of bytes that wait here. */
const maxWaitingBytes = 64 * 1024 * 1024

/** Creates the input of a session. Nothing is sent before `open` and after `pause`. */
export function createTerminalInput(send: SendPiece) {
  const encoder = new TextEncoder()
  /** What is not taken yet. */
  let pieces: Piece[] = []
  let isOpen = false
  let isCounted = false
  let taken = 0
  let sent = 0
  let end = 0

  function sendMore(): void {
    if (!isOpen) return
    for (const { at, bytes, data } of pieces) {
      if (at < sent) continue
      if (isCounted && sent > taken && at + bytes - taken > windowBytes) return
      sent = at + bytes
      send(isCounted ? { type: 'input', data, at } : { type: 'input', data })
    }
    if (!isCounted) drop(sent)
  }

  function drop(position: number): void {
    taken = Math.max(taken, position)
    pieces = pieces.filter(({ at, bytes }) => at + bytes > taken)
  }

  return {
    /** Adds input, and sends what the server may have. Returns false, without taking any of it, if too much waits. */
    push(input: string): boolean {
      if (end - taken + input.length > maxWaitingBytes) return false
      for (const data of inputPieces(input)) {
        const { length: bytes } = encoder.encode(data)
        pieces.push({ at: end, bytes, data })
        end += bytes
      }
      sendMore()
      return true
    },
    /** Sends nothing until the next `open`. */
    pause(): void {
      isOpen = false
    },
    /** Continues on a socket. `offset` is the position that the server has; undefined if it does not count. */
    open(offset: number | undefined): void {
      isOpen = true
      isCounted = offset !== undefined
      const position = offset ?? sent
      drop(position)
      // Someone else has typed into the session, or it is older than this page.
      if (position > sent) renumber(position)
      sent = position
      sendMore()
    },
    /** The server has passed everything before `position` to the program. */
    taken(position: number): void {
      drop(Math.min(position, sent))
      sendMore()
    }
  }

  function renumber(position: number): void {
    end = position
    for (const piece of pieces) {
      piece.at = end
      end += piece.bytes
    }
  }
}

/** Splits input into messages. The two halves of a surrogate pair stay together: one half alone has no form in UTF-8. */
function* inputPieces(input: string): Generator<string> {
  let at = 0
  while (at < input.length) {
    let end = Math.min(at + maxInputLength, input.length)
    if (end < input.length && /^[\ud800-\udbff][\udc00-\udfff]/.test(input.slice(end - 1, end + 1))) end--
    yield input.slice(at, end)
    at = end
  }
}
