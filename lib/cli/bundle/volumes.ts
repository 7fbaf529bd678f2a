/*
 * A bundle in several files, for media that are smaller than it: `app.svcb.001`, `app.svcb.002` and so on. Each begins
 * with a head of 512 bytes, which says which part it is; its bytes follow. All bytes one after the other are the bundle.
 *
 *   svc-bundle-part 1
 *   {"part":1,"parts":3,"bytes":…,"sha256":"<of its bytes>","wholeBytes":…,"wholeSha256":"<of the bundle>"}
 *   spaces, and a newline
 */
import { createHash } from 'node:crypto'
import { readdirSync, statSync } from 'node:fs'
import { type FileHandle, open, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { closing } from '../../base/async.js'
import { Refusal } from '../../base/errors.js'
import { checked, integer, line, readFields } from '../../base/fields.js'
import { OpenFile, type ReadableFile } from '../../base/files.js'
import { oneLine } from '../../base/text.js'
import { damaged, notABundle, zipMark } from './format.js'

const headMark = 'svc-bundle-part 1\n'
const headBytes = 512
/** Maximum number of parts: the number has three digits. */
const maxParts = 999
const blockBytes = 1024 * 1024
const partPattern = /^(.+)\.(\d{3})$/s

/** The smallest part, including its head. */
export const minPartBytes = 64 * 1024

/** The head of a part. */
interface Head {
  part: number
  parts: number
  bytes: number
  sha256: string
  wholeBytes: number
  wholeSha256: string
}

/** Where the bytes of a bundle go. */
export interface Volumes {
  write(bytes: Uint8Array): Promise<void>
  /** Completes the files. Returns their paths and the SHA-256 of the bundle. */
  end(): Promise<{ paths: string[]; sha256: string; bytes: number }>
  /** Closes and removes the files. */
  abandon(): Promise<void>
}

/** Begins to write a bundle, as one file or, with `partBytes`, as files of at most this size. */
export function createVolumes(path: string, partBytes: number | null): Volumes {
  const whole = createHash('sha256')
  const heads: Array<Pick<Head, 'bytes' | 'sha256'>> = []
  const paths: string[] = []
  let file: FileHandle | null = null
  let own = createHash('sha256')
  let filled = 0
  let wholeBytes = 0

  async function next(): Promise<void> {
    if (paths.length === maxParts) {
      const sentence = `The bundle would have more than ${maxParts} parts. Choose a larger --split`
      throw new Refusal('usage', 'usage', sentence, { field: '--split' })
    }
    const to = partBytes === null ? path : `${path}.${String(paths.length + 1).padStart(3, '0')}`
    file = await open(to, 'wx', 0o600)
    paths.push(to)
    own = createHash('sha256')
    filled = 0
    if (partBytes !== null) await file.writeFile(Buffer.alloc(headBytes, ' '))
  }

  async function finish(): Promise<void> {
    if (file === null) return
    heads.push({ bytes: filled, sha256: own.digest('hex') })
    // Parts are synced with their heads.
    if (partBytes === null) await file.sync()
    await file.close()
    file = null
  }

  const room = (): number => (partBytes === null ? Infinity : partBytes - headBytes - filled)
  return {
    async write(bytes) {
      for (let done = 0; done < bytes.length; ) {
        if (file !== null && room() === 0) await finish()
        if (file === null) await next()
        const piece = bytes.subarray(done, done + Math.min(room(), bytes.length))
        await (file as unknown as FileHandle).writeFile(piece)
        own.update(piece)
        whole.update(piece)
        filled += piece.length
        wholeBytes += piece.length
        done += piece.length
      }
    },
    async end() {
      await finish()
      const wholeSha256 = whole.digest('hex')
      if (partBytes === null) return { paths, sha256: wholeSha256, bytes: wholeBytes }
      for (const [index, head] of heads.entries()) {
        const handle = await open(paths[index] as string, 'r+')
        try {
          const text = headText({ part: index + 1, parts: paths.length, ...head, wholeBytes, wholeSha256 })
          await handle.write(text, 0, text.length, 0)
          await handle.sync()
        } finally {
          await handle.close()
        }
      }
      return { paths, sha256: wholeSha256, bytes: wholeBytes }
    },
    async abandon() {
      await file?.close().catch(() => {})
      file = null
      for (const each of paths) await rm(each, { force: true })
    }
  }
}

function headText(head: Head): Buffer {
  const text = Buffer.alloc(headBytes, ' ')
  text.write(`${headMark}${JSON.stringify(head)}`)
  text.write('\n', headBytes - 1)
  return text
}

const digest = checked(line({ max: 64 }), text => (/^[0-9a-f]{64}$/.test(text) ? null : 'expected a SHA-256'))
const size = integer(0, Number.MAX_SAFE_INTEGER)
const shape = {
  part: integer(1, maxParts),
  parts: integer(1, maxParts),
  bytes: size,
  sha256: digest,
  wholeBytes: size,
  wholeSha256: digest
}

/** An open bundle. */
export interface OpenVolumes {
  file: ReadableFile
  paths: readonly string[]
  /** Reads everything, and refuses (`invalid`, bundle_damaged) a part whose bytes differ from its digest. */
  checkDigests(signal: AbortSignal): Promise<void>
}

/**
 * Opens the bundle at `path`, which is its only file or one of its parts. Refuses (`invalid`): not_a_bundle,
 * bundle_incomplete (a part is missing, doubled, swapped or of another bundle), bundle_damaged.
 */
async function openVolumes(path: string): Promise<OpenVolumes> {
  const first = new OpenFile(path)
  let mark: string
  try {
    const start = Buffer.alloc(headMark.length)
    mark = start.subarray(0, first.readSync(start, 0)).toString('latin1')
  } finally {
    first.close()
  }
  if (mark.startsWith(zipMark)) return { file: new OpenFile(path), paths: [path], checkDigests: async () => {} }
  if (mark !== headMark) throw notABundle(`"${oneLine(basename(path))}" is neither a zip nor a part of a bundle`)
  const [, base = null] = partPattern.exec(path) ?? []
  if (base === null) {
    const name = oneLine(basename(path))
    throw notABundle(`"${name}" is a part of a bundle, and was renamed. Give it its name back, such as app.svcb.001`)
  }
  return openParts(base)
}

/** Returns whether the first bytes of a file are those of a bundle or of its part. */
export function mayBeBundle(start: Buffer): boolean {
  const text = start.toString('latin1')
  return text.startsWith(zipMark) || text.startsWith(headMark.trimEnd())
}

interface Part {
  path: string
  name: string
  head: Head
}

function openParts(base: string): OpenVolumes {
  const directory = dirname(base)
  const found = readdirSync(directory)
    .filter(name => partPattern.exec(name)?.[1] === basename(base))
    .sort()
    .map(name => readHead(join(directory, name), name))
  const parts = inOrder(found, basename(base))
  const files: Array<{ file: OpenFile; start: number; bytes: number }> = []
  let start = 0
  try {
    for (const { path, head } of parts) {
      files.push({ file: new OpenFile(path), start, bytes: head.bytes })
      start += head.bytes
    }
  } catch (error) {
    for (const { file } of files) file.close()
    throw error
  }
  const file = joined(files, start)
  return { file, paths: parts.map(({ path }) => path), checkDigests: signal => checkDigests(file, parts, signal) }
}

function readHead(path: string, name: string): Part {
  const text = Buffer.alloc(headBytes)
  const shown = oneLine(name)
  const file = new OpenFile(path)
  try {
    if (file.readSync(text, 0) < headBytes) throw damaged(`"${shown}" is cut off`)
  } finally {
    file.close()
  }
  const given = text.toString('utf8')
  if (!given.startsWith(headMark)) throw damaged(`"${shown}" does not begin as a part of a bundle does`)
  let head: Head
  try {
    head = readFields(JSON.parse(given.slice(headMark.length)), shape)
  } catch (error) {
    throw damaged(`the head of "${shown}" is not readable`, error)
  }
  const bytes = statSync(path).size - headBytes
  if (bytes < head.bytes) throw damaged(`"${shown}" is cut off: ${bytes} of ${head.bytes} bytes are there`)
  if (bytes > head.bytes) throw damaged(`"${shown}" has ${bytes - head.bytes} bytes more than it had`)
  return { path, name: shown, head }
}

/** Returns the parts in their order. Refuses what is not exactly one bundle. */
function inOrder(found: readonly Part[], base: string): Part[] {
  const [first] = found as [Part]
  const { parts, wholeBytes, wholeSha256 } = first.head
  const stranger = found.find(
    ({ head }) => head.wholeSha256 !== wholeSha256 || head.parts !== parts || head.wholeBytes !== wholeBytes
  )
  if (stranger !== undefined)
    throw incomplete(
      `"${stranger.name}" belongs to another bundle than "${first.name}". Remove it, or copy the right one`
    )
  const byNumber = new Map<number, Part>()
  for (const part of found) {
    const other = byNumber.get(part.head.part)
    if (other !== undefined)
      throw incomplete(
        `"${other.name}" and "${part.name}" are both part ${part.head.part} of ${parts}. Copy them again`
      )
    byNumber.set(part.head.part, part)
  }
  const ordered: Part[] = []
  for (let number = 1; number <= parts; number++) {
    const part = byNumber.get(number)
    const name = `${oneLine(base)}.${String(number).padStart(3, '0')}`
    if (part === undefined) throw incomplete(`part ${number} of ${parts} is missing: "${name}". Copy it here, too`)
    if (part.name !== name) throw incomplete(`"${part.name}" contains part ${number}: rename it to "${name}"`)
    ordered.push(part)
  }
  if (ordered.reduce((sum, { head }) => sum + head.bytes, 0) !== wholeBytes)
    throw damaged('the sizes of its parts are not those of the whole')
  return ordered
}

function incomplete(why: string): Refusal {
  return new Refusal('invalid', 'bundle_incomplete', `The bundle is incomplete: ${why}`)
}

/** Returns the bytes of the parts, one after the other, as one file. */
function joined(files: ReadonlyArray<{ file: OpenFile; start: number; bytes: number }>, size: number): ReadableFile {
  function* pieces(into: Uint8Array, position: number) {
    for (const { file, start, bytes } of files) {
      const from = Math.max(position, start)
      const to = Math.min(position + into.length, start + bytes)
      if (from < to) yield { file, into: into.subarray(from - position, to - position), at: headBytes + from - start }
    }
  }
  return {
    size,
    readSync(into, position) {
      let length = 0
      for (const piece of pieces(into, position)) length += piece.file.readSync(piece.into, piece.at)
      return length
    },
    async read(into, position) {
      let length = 0
      for (const piece of pieces(into, position)) length += await piece.file.read(piece.into, piece.at)
      return length
    },
    close() {
      for (const { file } of files) file.close()
    }
  }
}

async function checkDigests(file: ReadableFile, parts: readonly Part[], signal: AbortSignal): Promise<void> {
  const whole = createHash('sha256')
  const block = Buffer.allocUnsafe(blockBytes)
  let position = 0
  for (const { name, head } of parts) {
    const own = createHash('sha256')
    for (let left = head.bytes; left > 0; ) {
      signal.throwIfAborted()
      const piece = block.subarray(0, Math.min(left, blockBytes))
      if ((await file.read(piece, position)) < piece.length) throw damaged(`"${name}" is cut off`)
      own.update(piece)
      whole.update(piece)
      left -= piece.length
      position += piece.length
    }
    if (own.digest('hex') !== head.sha256) throw damaged(`the bytes of "${name}" differ from its digest`)
  }
  if (whole.digest('hex') !== parts[0]?.head.wholeSha256) throw damaged('its parts are not those of one bundle')
}

/** Opens the bundle for the time of `use`. */
export function withVolumes<T>(path: string, use: (volumes: OpenVolumes) => Promise<T>): Promise<T> {
  return closing(async defer => {
    const volumes = await openVolumes(path)
    defer(() => volumes.file.close())
    return await use(volumes)
  })
}
