/**
 * The file of an in-memory database, split into pieces, so that an image of it costs nothing. The image shares the
 * pieces. A piece that is written to while an image uses it is copied first (copy on write). So a checkpoint or a
 * backup writes the database as of one moment, without copying all of it, and writes continue without delay.
 *
 * sql.js keeps each database in a file of Emscripten's MEMFS, whose bytes are one Uint8Array. That array grows by
 * copying all of it, and `export()` walks through all of it before it returns (1 ms per MB and more, test/bench/scale).
 * MEMFS uses only `length`, `subarray` and `set` of the bytes, so it gets an object of ours with these members. MEMFS
 * would drop the object in two cases, which are prevented. It replaces the bytes of an empty file at the first write,
 * so a new database begins with its first page (memory.ts). It also replaces them when it truncates a file. SQLite does
 * that only after it has written before the end of a transaction, so `cache_spill` is off. `adopted` and `writes` show
 * that neither has happened.
 *
 * Rejected alternatives: a thread that builds the next svc.db from the last one and the redo log (the database three
 * times in memory, the work of a start for each checkpoint, and no way to replace a svc.db that was damaged meanwhile
 * from memory), and SQLite's backup API in steps (the database twice in memory, and an image as of the moment at which
 * it ends).
 */

/** A database as of one moment: the bytes of a SQLite file. */
export interface Image {
  /** Size of the image in bytes. */
  readonly bytes: number
  /** The bytes, in order. They must not be changed. */
  readonly pieces: readonly Uint8Array[]
  /** Releases the pieces, so that writes need not copy them any more. */
  release(): void
}

/** The file of an in-memory database. */
export type PageFile = ReturnType<typeof createPageFile>

/**
 * Size of a piece: a multiple of every page size, and larger than what the disk writes directly, so that each piece is
 * written by a thread (disk.ts).
 */
export const pieceBytes = 256 * 1024

/** Splits a file into pieces that share its memory. */
export function piecesOf(file: Uint8Array): Uint8Array[] {
  const count = Math.ceil(file.length / pieceBytes)
  return Array.from({ length: count }, (_, index) => file.subarray(index * pieceBytes, (index + 1) * pieceBytes))
}

/** Creates a file from these pieces; each but the last has `pieceBytes`. The file takes over their memory. */
export function createPageFile(given: readonly Uint8Array[]) {
  const pieces: Uint8Array[] = []
  /** Whether no image uses the piece. */
  const own: boolean[] = []
  let size = 0
  let images = 0
  let writes = 0
  let adopted = false

  /** Returns the piece that contains position `at`, ready to be written to. */
  function pieceFor(at: number): Uint8Array {
    const index = Math.floor(at / pieceBytes)
    while (pieces.length <= index) own[pieces.push(new Uint8Array(pieceBytes)) - 1] = true
    if (!own[index]) {
      pieces[index] = new Uint8Array(pieces[index] as Uint8Array)
      own[index] = true
    }
    return pieces[index] as Uint8Array
  }

  function write(from: Uint8Array, at: number): void {
    for (let done = 0; done < from.length; ) {
      const begin = (at + done) % pieceBytes
      const part = from.subarray(done, done + pieceBytes - begin)
      pieceFor(at + done).set(part, begin)
      done += part.length
    }
    size = Math.max(size, at + from.length)
  }

  function read(from: number, to: number): Uint8Array {
    const piece = pieces[Math.floor(from / pieceBytes)]
    const begin = from % pieceBytes
    if (piece !== undefined && begin + to - from <= pieceBytes) return piece.subarray(begin, begin + to - from)
    const joined = new Uint8Array(to - from)
    for (let at = from; at < to; ) {
      const end = Math.min(to, at - (at % pieceBytes) + pieceBytes)
      joined.set(read(at, end), at - from)
      at = end
    }
    return joined
  }

  for (const piece of given) {
    if (piece.length === pieceBytes) own[pieces.push(piece) - 1] = true
    else pieceFor(size).set(piece)
    size += piece.length
  }

  const contents = {
    // MEMFS would enlarge the array if it seemed too small.
    length: Number.MAX_SAFE_INTEGER,
    subarray: read,
    set(from: Uint8Array, at: number) {
      writes++
      write(from, at)
    }
  }
  const handed = {
    length: size,
    subarray: read,
    slice() {
      adopted = true
      return contents
    }
  }

  return {
    /** The object to pass to sql.js instead of the bytes. */
    handed: handed as unknown as Uint8Array,
    /** Whether sql.js uses the object as it is. */
    get adopted() {
      return adopted
    },
    /** The number of writes so far. */
    get writes() {
      return writes
    },
    /** Returns an image of the file as it is now. */
    image(): Image {
      images++
      own.fill(false)
      const held = pieces.map((piece, index) => piece.subarray(0, Math.min(pieceBytes, size - index * pieceBytes)))
      let isHeld = true
      return {
        bytes: size,
        pieces: held,
        release() {
          if (isHeld && --images === 0) own.fill(true)
          isHeld = false
        }
      }
    }
  }
}

/** Returns the first fault that SQLite finds in the pages of a database, or null if there is none. */
export function faultOfPages(memory: { pragma(name: string): unknown }): string | null {
  const found = String(memory.pragma('quick_check(1)'))
  return found === 'ok' ? null : found.replace(/^\*\*\*.*\*\*\*\s/, '').replaceAll('\n', '; ')
}
