/**
 * The file of a database in memory, in pieces, so that an image of it costs nothing: the image shares the pieces, and one
 * that is written to while an image holds it is copied first (copy on write). A checkpoint or a backup therefore writes the
 * database as it was at one moment, without a copy of the whole and without holding up anybody, while writes go on.
 *
 * sql.js keeps each database in a file of Emscripten's MEMFS, whose bytes are one Uint8Array. That grows by copying all of
 * it, and `export()` walks through all of it before it returns (1 ms a MB and more, test/bench/scale). MEMFS asks no more of
 * the bytes than `length`, `subarray` and `set`, so it is handed an object of ours that has these. Two things would take the
 * object away, and are kept from happening: MEMFS replaces the bytes of an empty file at the first write (so a new database
 * begins with its first page, memory.ts), and when it makes a file shorter (which SQLite does only after it wrote before the
 * end of a transaction: `cache_spill` is off). `adopted` and `writes` tell that neither has happened.
 *
 * The alternatives were a thread that makes the next svc.db from the last one and the redo log (the database three times in
 * memory, a start's work for each checkpoint, and a svc.db that was damaged meanwhile could not be replaced from memory), and
 * SQLite's backup API in steps (the database twice in memory, and the image is of the moment at which it ends).
 */

/** A database as it is at one moment: the bytes of a SQLite file. */
export interface Image {
  readonly bytes: number
  /** The bytes, in order. They are not to be changed. */
  readonly pieces: readonly Uint8Array[]
  /** Says that the pieces are not needed any more: writes need not copy them. */
  release(): void
}

export interface PageFile {
  /** To be handed to sql.js in the place of the bytes. */
  readonly handed: Uint8Array
  /** Whether sql.js has taken it as it is. */
  readonly adopted: boolean
  /** How many writes have reached it. */
  readonly writes: number
  image(): Image
}

/** A multiple of every page size. Larger than what the disk writes at once, so that each goes through a thread (disk.ts). */
export const pieceBytes = 256 * 1024

/** A whole file in pieces, in the same memory. */
export function piecesOf(file: Uint8Array): Uint8Array[] {
  const count = Math.ceil(file.length / pieceBytes)
  return Array.from({ length: count }, (_, index) => file.subarray(index * pieceBytes, (index + 1) * pieceBytes))
}

/** A file of these pieces, each but the last of `pieceBytes`. They are the file's from now on. */
export function createPageFile(given: readonly Uint8Array[]): PageFile {
  const pieces: Uint8Array[] = []
  /** Whether no image holds the piece. */
  const own: boolean[] = []
  let size = 0
  let images = 0
  let writes = 0
  let adopted = false

  /** The piece that holds `at`, to be written to. */
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
    // MEMFS makes room where there seems to be too little.
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
    handed: handed as unknown as Uint8Array,
    get adopted() {
      return adopted
    },
    get writes() {
      return writes
    },
    image() {
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
