/*
 * A parser of multipart/form-data: RFC 2046 §5.1.1 (the grammar), RFC 7578 (its use in forms).
 *
 *     --boundary CRLF  headers CRLF CRLF  content  CRLF --boundary CRLF … CRLF --boundary-- epilogue
 *
 * `write` takes bytes, cut anywhere; the `on` functions get their meaning at once. The parser knows no stream and no
 * form.
 *
 * STATES, named after what is read next, and what ends each
 *
 *   preamble    anything before the first delimiter      a delimiter → after; more than `maxPreambleBytes` → refused
 *   content     the bytes of a part                      a delimiter → after
 *   after       one byte after `--boundary`              `-` → dash, CR → newline, space or tab → padding; other:
 *                                                        it was not a delimiter, and all of it is content
 *   dash        the second hyphen of `--boundary--`      `-` → epilogue; anything else: all of it is content
 *   padding     blanks that a gateway may have added     CR → newline; anything but a blank → refused
 *   newline     the LF of that line                      LF → headers; anything else → refused
 *   headers     a header line of a part                  an empty line → content; over `maxHeaderBytes` → refused
 *   epilogue    anything after it, ignored               the end; more than `maxEpilogueBytes` → refused
 *
 * THE SEARCH. A delimiter is CRLF, two hyphens and the boundary. Buffer.indexOf searches the whole chunk for it, and
 * content is handed out as subarrays: no byte is copied or read in JavaScript. A boundary never contains CR. So a
 * delimiter begins only at a CR, and only at the last CR of a chunk can a delimiter begin that the chunk does not
 * finish. Only the number of its bytes must be kept (`matched`), because the bytes are those of the delimiter. The
 * first delimiter may lack its CRLF if there is no preamble, so the parser starts as if it had just read a CRLF.
 *
 * DIFFERENCES from the grammar, on purpose
 *   - `--boundary` followed by anything but its line end, blanks or hyphens is not a delimiter, as in Go's
 *     mime/multipart. RFC 2046 would end the part there. Then the content of a part would be lost if it contains a
 *     nested multipart whose longer boundary begins with this one.
 *   - A bare LF is not a line end anywhere.
 *   - Header lines may be folded (RFC 5322 §2.2.3), because the mail libraries of some languages fold them.
 */
import { Refusal } from '../../base/errors.js'

const cr = 13
const lf = 10
const hyphen = 45
const space = 32
const tab = 9

type State = 'preamble' | 'content' | 'after' | 'dash' | 'padding' | 'newline' | 'headers' | 'epilogue'

export interface ParserLimits {
  /** Maximum size of one part's headers. */
  maxHeaderBytes: number
  maxPreambleBytes: number
  maxEpilogueBytes: number
}

/** The events of a parser. If one of them throws, `write` throws, and nothing more may be written. */
export interface ParserEvents {
  /** A part begins. `lines` are its header lines, unfolded, without line ends. */
  headers(lines: string[]): void
  /** Bytes of the part: a view of the written chunk. */
  content(bytes: Buffer): void
  /**
   * The part has ended. Returns true to hold the parser: `write` returns early and must be called again with the rest.
   */
  partEnd(): boolean
}

/** A parser of one body. */
export class MultipartParser {
  readonly #delimiter: Buffer
  readonly #limits: ParserLimits
  readonly #on: ParserEvents
  #state: State = 'preamble'
  /** Whether the next delimiter ends a part; otherwise it ends the preamble. */
  #isInPart = false
  /** Number of bytes of the delimiter with which the previous chunks ended. */
  #matched = 2
  /** Number of these that were not content before, so they are not returned as content: the CRLF of another line. */
  #borrowed = 2
  #skippedBytes = 0
  #lines: string[] = []
  #line: Buffer[] = []
  #headerBytes = 0
  #isHeld = false

  /** `boundary` is that of the Content-Type. */
  constructor(boundary: string, limits: ParserLimits, on: ParserEvents) {
    this.#delimiter = Buffer.from(`\r\n--${boundary}`, 'latin1')
    this.#limits = limits
    this.#on = on
  }

  /**
   * Parses a chunk. Returns the number of bytes that were read: all, unless `partEnd` held the parser. Refuses: 400
   * `broken_boundary`, `broken_header`; 413 `header_too_long`, `epilogue_too_long`.
   */
  write(chunk: Buffer): number {
    this.#isHeld = false
    let at = 0
    while (at < chunk.length && !this.#isHeld) at = this.#read(chunk, at)
    return at
  }

  /**
   * Ends the parsing. Refuses: 400 `truncated` if the closing delimiter is missing, `broken_boundary` if there was
   * none.
   */
  end(): void {
    if (this.#state === 'epilogue') return
    if (this.#state === 'preamble') throw broken('it contains no line that begins with its boundary')
    throw new Refusal('invalid', 'truncated', `${subject}: it ends before its closing boundary`)
  }

  /** Runs one step of a state. Like each step, returns the position at which the next one begins. */
  #read(chunk: Buffer, start: number): number {
    switch (this.#state) {
      case 'preamble':
      case 'content':
        return this.#readContent(chunk, start)
      case 'after':
        return this.#readAfter(chunk, start)
      case 'dash':
        return this.#readDash(chunk, start)
      case 'padding':
        return this.#readPadding(chunk, start)
      case 'newline':
        return this.#readNewline(chunk, start)
      case 'headers':
        return this.#readHeaders(chunk, start)
      case 'epilogue':
        return this.#readEpilogue(chunk, start)
    }
  }

  /** Reads content, or preamble, up to the next delimiter. */
  #readContent(chunk: Buffer, start: number): number {
    if (this.#matched > 0) return this.#finishMatch(chunk, start)
    const at = chunk.indexOf(this.#delimiter, start)
    if (at !== -1) {
      this.#give(chunk, start, at)
      this.#borrowed = 0
      this.#state = 'after'
      return at + this.#delimiter.length
    }
    const cut = this.#beginningOfDelimiter(chunk, start)
    this.#give(chunk, start, cut)
    this.#matched = chunk.length - cut
    return chunk.length
  }

  /**
   * Returns the position of the chunk's last CR if all bytes from there on match the delimiter; otherwise the chunk's
   * end.
   */
  #beginningOfDelimiter(chunk: Buffer, start: number): number {
    // Forwards first: if these few bytes contain no CR, searching backwards would read the whole chunk again.
    const tail = Math.max(start, chunk.length - this.#delimiter.length + 1)
    if (chunk.indexOf(cr, tail) === -1) return chunk.length
    const last = chunk.lastIndexOf(cr)
    const length = chunk.length - last
    return chunk.compare(this.#delimiter, 0, length, last) === 0 ? last : chunk.length
  }

  /** Continues a delimiter that began in the previous chunk. */
  #finishMatch(chunk: Buffer, start: number): number {
    const length = Math.min(this.#delimiter.length - this.#matched, chunk.length - start)
    if (chunk.compare(this.#delimiter, this.#matched, this.#matched + length, start, start + length) !== 0) {
      this.#giveBack(this.#delimiter.subarray(this.#borrowed, this.#matched))
      return start
    }
    this.#matched += length
    if (this.#matched === this.#delimiter.length) {
      this.#matched = 0
      this.#state = 'after'
    }
    return start + length
  }

  /**
   * Returns bytes as content that looked like a delimiter. They are copied, because the receiver may overwrite them.
   */
  #giveBack(bytes: Buffer): void {
    this.#matched = 0
    this.#borrowed = 0
    this.#state = this.#isInPart ? 'content' : 'preamble'
    this.#give(Buffer.from(bytes), 0, bytes.length)
  }

  #give(chunk: Buffer, from: number, to: number): void {
    if (to === from) return
    if (this.#isInPart) return this.#on.content(to - from === chunk.length ? chunk : chunk.subarray(from, to))
    this.#skippedBytes += to - from
    if (this.#skippedBytes > this.#limits.maxPreambleBytes) throw broken('too many bytes precede its first part')
  }

  #readAfter(chunk: Buffer, at: number): number {
    switch (chunk[at]) {
      case hyphen:
        this.#state = 'dash'
        return at + 1
      case cr:
        this.#endPart('newline')
        return at + 1
      case space:
      case tab:
        this.#endPart('padding')
        return at + 1
      default:
        this.#giveBack(this.#delimiter.subarray(this.#borrowed))
        return at
    }
  }

  #readDash(chunk: Buffer, at: number): number {
    if (chunk[at] === hyphen) {
      this.#skippedBytes = 0
      this.#endPart('epilogue')
      return at + 1
    }
    this.#giveBack(Buffer.concat([this.#delimiter.subarray(this.#borrowed), Buffer.of(hyphen)]))
    return at
  }

  #endPart(next: State): void {
    this.#state = next
    if (!this.#isInPart) return
    this.#isInPart = false
    this.#isHeld = this.#on.partEnd()
  }

  #readPadding(chunk: Buffer, at: number): number {
    const byte = chunk[at]
    if (byte === cr) this.#state = 'newline'
    else if (byte !== space && byte !== tab) throw broken('a boundary line contains other text')
    return at + 1
  }

  #readNewline(chunk: Buffer, at: number): number {
    if (chunk[at] !== lf) throw broken('a boundary line does not end with CR LF')
    this.#state = 'headers'
    return at + 1
  }

  #readHeaders(chunk: Buffer, start: number): number {
    const at = chunk.indexOf(lf, start)
    const end = at === -1 ? chunk.length : at + 1
    this.#headerBytes += end - start
    if (this.#headerBytes > this.#limits.maxHeaderBytes) throw headerTooLong(this.#limits.maxHeaderBytes)
    this.#line.push(chunk.subarray(start, end))
    if (at !== -1) this.#endLine(this.#line.length === 1 ? (this.#line[0] as Buffer) : Buffer.concat(this.#line))
    return end
  }

  #endLine(bytes: Buffer): void {
    this.#line = []
    const length = bytes.length - 2
    if (bytes[length] !== cr)
      throw new Refusal('invalid', 'broken_header', `${subject}: a header line does not end with CR LF`)
    if (length === 0) return this.#beginPart()
    const text = bytes.toString('utf8', 0, length)
    if (this.#lines.length > 0 && (bytes[0] === space || bytes[0] === tab))
      this.#lines.push(`${this.#lines.pop() as string} ${text.trim()}`)
    else this.#lines.push(text)
  }

  #beginPart(): void {
    const whole = this.#lines
    this.#lines = []
    this.#headerBytes = 0
    this.#state = 'content'
    this.#isInPart = true
    // A part may be empty: then the CRLF of the empty line is also that of the delimiter.
    this.#matched = 2
    this.#borrowed = 2
    this.#on.headers(whole)
  }

  #readEpilogue(chunk: Buffer, start: number): number {
    this.#skippedBytes += chunk.length - start
    if (this.#skippedBytes > this.#limits.maxEpilogueBytes) {
      const sentence = `${subject}: more than ${this.#limits.maxEpilogueBytes} bytes follow its closing boundary`
      throw new Refusal('too_large', 'epilogue_too_long', sentence)
    }
    return chunk.length
  }
}

const subject = 'Cannot read the form'

function broken(reason: string): Refusal {
  return new Refusal('invalid', 'broken_boundary', `${subject}: ${reason}`)
}

function headerTooLong(maxHeaderBytes: number): Refusal {
  const sentence = `${subject}: the headers of a part are too long, the maximum is ${maxHeaderBytes} bytes`
  return new Refusal('too_large', 'header_too_long', sentence)
}
