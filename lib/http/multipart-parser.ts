/*
 * The parser of multipart/form-data: RFC 2046 §5.1.1 (the grammar), RFC 7578 (what forms make of it).
 *
 *     --boundary CRLF  headers CRLF CRLF  content  CRLF --boundary CRLF … CRLF --boundary-- epilogue
 *
 * Bytes come in with `write`, cut anywhere; what they mean goes out at once through the `on` functions. The parser
 * knows no stream and no form.
 *
 * STATES, named after what is read next, and what ends each
 *
 *   preamble    anything before the first delimiter      a delimiter → after; more than `maxPreambleBytes` → refused
 *   content     the bytes of a part                      a delimiter → after
 *   after       one byte behind `--boundary`             `-` → dash, CR → newline, space or tab → padding; anything else:
 *                                                        it was no delimiter, and all of it is content
 *   dash        the second hyphen of `--boundary--`      `-` → epilogue; anything else: likewise content
 *   padding     blanks a gateway may have added          CR → newline; anything but a blank → refused
 *   newline     the LF of that line                      LF → headers; anything else → refused
 *   headers     a header line of a part                  an empty line → content; over `maxHeaderBytes` → refused
 *   epilogue    anything after it, ignored               the end; more than `maxEpilogueBytes` → refused
 *
 * THE SEARCH. A delimiter is CRLF, two hyphens and the boundary. It is looked for with Buffer.indexOf over the whole
 * chunk, and content is handed out as subarrays: no byte is copied or looked at in JavaScript. A boundary never holds
 * CR, so a delimiter begins only at a CR, and only at the last CR of a chunk can one begin that the chunk does not
 * finish. Of that beginning only the number of bytes has to be kept (`matched`): the bytes are the delimiter's own.
 * The first delimiter may lack its CRLF, when there is no preamble, so the parser starts as if it had just read one.
 *
 * DIFFERENCES from the grammar, on purpose
 *   - `--boundary` followed by anything but its line end, blanks or hyphens does not delimit, as in Go's mime/multipart.
 *     RFC 2046 would end the part there, and lose the content of a part that nests a multipart of a longer boundary.
 *   - A bare LF is no line end anywhere.
 *   - Header lines may be folded (RFC 5322 §2.2.3): the mail libraries of some languages do it.
 */
import { Refusal } from '../base/refusal.js'

const cr = 13
const lf = 10
const hyphen = 45
const space = 32
const tab = 9

type State = 'preamble' | 'content' | 'after' | 'dash' | 'padding' | 'newline' | 'headers' | 'epilogue'

export interface ParserLimits {
  /** Of one part's header block. */
  maxHeaderBytes: number
  maxPreambleBytes: number
  maxEpilogueBytes: number
}

/** What the bytes mean. A throw of any of these leaves `write`, and nothing more may be written. */
export interface ParserEvents {
  /** A part begins; its header lines, unfolded, without line ends. */
  headers(lines: string[]): void
  /** Bytes of the part: a view of the chunk that was written. */
  content(bytes: Buffer): void
  /** True holds the parser: `write` returns early, and is to be called again with the rest. */
  partEnd(): boolean
}

export interface MultipartParser {
  /**
   * Returns how many bytes were taken: all, unless `partEnd` held the parser.
   * Refuses: 400 `broken_boundary`, `broken_header`; 413 `header_too_long`, `epilogue_too_long`.
   */
  write(chunk: Buffer): number
  /** The stream is over. Refuses: 400 `truncated` before the closing delimiter, `broken_boundary` before the first. */
  end(): void
}

/** A parser for one body; `boundary` as the Content-Type names it. */
export function createMultipartParser(boundary: string, limits: ParserLimits, on: ParserEvents): MultipartParser {
  const delimiter = Buffer.from(`\r\n--${boundary}`, 'latin1')
  let state: State = 'preamble'
  /** Whether a delimiter would end a part, and not the preamble. */
  let isInPart = false
  /** How many bytes of the delimiter the chunks before this one ended with. */
  let matched = 2
  /** How many of these were not content before, so that they are not given back as such: the CRLF of another line. */
  let borrowed = 2
  let skippedBytes = 0
  let lines: string[] = []
  let line: Buffer[] = []
  let headerBytes = 0
  let isHeld = false

  /** Content, or preamble, up to the next delimiter. This and the other steps return where to go on. */
  function readContent(chunk: Buffer, start: number): number {
    if (matched > 0) return finishMatch(chunk, start)
    const at = chunk.indexOf(delimiter, start)
    if (at !== -1) {
      give(chunk, start, at)
      borrowed = 0
      state = 'after'
      return at + delimiter.length
    }
    const cut = beginningOfDelimiter(chunk, start)
    give(chunk, start, cut)
    matched = chunk.length - cut
    return chunk.length
  }

  /** The last CR of the chunk, if all bytes from there on are the delimiter's; else the end of the chunk. */
  function beginningOfDelimiter(chunk: Buffer, start: number): number {
    // Forwards first: without a CR among these few bytes, searching backwards would read the whole chunk again.
    const tail = Math.max(start, chunk.length - delimiter.length + 1)
    if (chunk.indexOf(cr, tail) === -1) return chunk.length
    const last = chunk.lastIndexOf(cr)
    const length = chunk.length - last
    return chunk.compare(delimiter, 0, length, last) === 0 ? last : chunk.length
  }

  /** The chunk before ended with the beginning of a delimiter: does this one go on with it? */
  function finishMatch(chunk: Buffer, start: number): number {
    const length = Math.min(delimiter.length - matched, chunk.length - start)
    if (chunk.compare(delimiter, matched, matched + length, start, start + length) !== 0) {
      giveBack(delimiter.subarray(borrowed, matched))
      return start
    }
    matched += length
    if (matched === delimiter.length) {
      matched = 0
      state = 'after'
    }
    return start + length
  }

  /** What looked like a delimiter was content. A copy, because who gets it may write into it. */
  function giveBack(bytes: Buffer): void {
    matched = 0
    borrowed = 0
    state = isInPart ? 'content' : 'preamble'
    give(Buffer.from(bytes), 0, bytes.length)
  }

  function give(chunk: Buffer, from: number, to: number): void {
    if (to === from) return
    if (isInPart) return on.content(to - from === chunk.length ? chunk : chunk.subarray(from, to))
    skippedBytes += to - from
    if (skippedBytes > limits.maxPreambleBytes) throw broken('its first part does not begin within the limit')
  }

  function readAfter(chunk: Buffer, at: number): number {
    switch (chunk[at]) {
      case hyphen:
        state = 'dash'
        return at + 1
      case cr:
        endPart('newline')
        return at + 1
      case space:
      case tab:
        endPart('padding')
        return at + 1
      default:
        giveBack(delimiter.subarray(borrowed))
        return at
    }
  }

  function readDash(chunk: Buffer, at: number): number {
    if (chunk[at] === hyphen) {
      skippedBytes = 0
      endPart('epilogue')
      return at + 1
    }
    giveBack(Buffer.concat([delimiter.subarray(borrowed), Buffer.of(hyphen)]))
    return at
  }

  function endPart(next: State): void {
    state = next
    if (!isInPart) return
    isInPart = false
    isHeld = on.partEnd()
  }

  function readPadding(chunk: Buffer, at: number): number {
    const byte = chunk[at]
    if (byte === cr) state = 'newline'
    else if (byte !== space && byte !== tab) throw broken('a line that begins with its boundary goes on')
    return at + 1
  }

  function readNewline(chunk: Buffer, at: number): number {
    if (chunk[at] !== lf) throw broken('the line of a boundary does not end with CR and LF')
    state = 'headers'
    return at + 1
  }

  function readHeaders(chunk: Buffer, start: number): number {
    const at = chunk.indexOf(lf, start)
    const end = at === -1 ? chunk.length : at + 1
    headerBytes += end - start
    if (headerBytes > limits.maxHeaderBytes) throw headerTooLong(limits.maxHeaderBytes)
    line.push(chunk.subarray(start, end))
    if (at !== -1) endLine(line.length === 1 ? line[0] as Buffer : Buffer.concat(line))
    return end
  }

  function endLine(bytes: Buffer): void {
    line = []
    const length = bytes.length - 2
    if (bytes[length] !== cr) throw new Refusal('invalid', 'broken_header', `${subject}: a header line does not end with CR LF`)
    if (length === 0) return beginPart()
    const text = bytes.toString('utf8', 0, length)
    if (lines.length > 0 && (bytes[0] === space || bytes[0] === tab)) lines.push(`${lines.pop() as string} ${text.trim()}`)
    else lines.push(text)
  }

  function beginPart(): void {
    const whole = lines
    lines = []
    headerBytes = 0
    state = 'content'
    isInPart = true
    // A part without content: the CRLF of the empty line is that of the delimiter, too.
    matched = 2
    borrowed = 2
    on.headers(whole)
  }

  function readEpilogue(chunk: Buffer, start: number): number {
    skippedBytes += chunk.length - start
    if (skippedBytes > limits.maxEpilogueBytes) {
      const sentence = `${subject}: more than ${limits.maxEpilogueBytes} bytes follow its closing boundary`
      throw new Refusal('too_large', 'epilogue_too_long', sentence)
    }
    return chunk.length
  }

  const read: Record<State, (chunk: Buffer, start: number) => number> = {
    preamble: readContent,
    content: readContent,
    after: readAfter,
    dash: readDash,
    padding: readPadding,
    newline: readNewline,
    headers: readHeaders,
    epilogue: readEpilogue
  }

  return {
    write(chunk) {
      isHeld = false
      let at = 0
      while (at < chunk.length && !isHeld) at = read[state](chunk, at)
      return at
    },
    end() {
      if (state === 'epilogue') return
      if (state === 'preamble') throw broken('it holds no line that begins with its boundary')
      throw new Refusal('invalid', 'truncated', `${subject}: it ends before its closing boundary`)
    }
  }
}

const subject = 'The form cannot be read'

function broken(reason: string): Refusal {
  return new Refusal('invalid', 'broken_boundary', `${subject}: ${reason}`)
}

function headerTooLong(maxHeaderBytes: number): Refusal {
  const sentence = `${subject}: the headers of a part may have at most ${maxHeaderBytes} bytes`
  return new Refusal('too_large', 'header_too_long', sentence)
}
