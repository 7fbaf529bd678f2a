/*
 * Packs files into a zip in the browser. Each file is read once: its checksum is computed and it is deflated at the
 * same time, if that is worthwhile. A stored file is referenced, so a film is not copied into memory. A deflated file
 * becomes a blob, which browsers keep on disk if it is large. Several files are packed at a time, because small files
 * mostly wait.
 */
import { t } from '../words/t.js'
import {
  compressedTypes,
  defaultZip64FromBytes,
  deflated,
  directoryOf,
  localHeader,
  newRecord,
  stored,
  type ZipRecord,
  crc32
} from '../shared/zip-records.js'

/** A file of the browser. */
export type PackFile = Blob & { readonly lastModified: number }

export interface PackEntry {
  /** Relative path with `/` between segments and none at the end. */
  path: string
  /** The file; null for a directory. */
  file: PackFile | null
}

export interface PackOptions {
  signal?: AbortSignal
  /** Called with the number of bytes read. */
  onProgress?: (bytes: number) => void
}

/** Maximum size of a zip, 4 GiB less one byte. */
export const maxZipBytes = 0xffffffff
export const maxZipEntries = 0xffff
/** Number of files that are packed at a time. */
const atOnce = 6
/** Smaller files are read whole, because streams cost more than they save. */
const wholeBytes = 256 * 1024
/** Shorter files do not get smaller. */
const minDeflateBytes = 16
const modes = { file: 0o100644, program: 0o100755, directory: 0o040755 }
/** The directory bit of the DOS attributes (4.4.15). */
const dosDirectory = 0x10

/** Files that cannot be packed into one zip. The message is for the user. */
export class CannotPack extends Error {
  override readonly name = 'CannotPack'
}

interface Packed {
  record: ZipRecord
  data: Blob | null
}

/**
 * Packs the entries in their order. A file that begins with `#!` becomes executable, because browsers do not report
 * permissions. Rejects with CannotPack if the files are too large or a name occurs twice, with the reason of the
 * signal, or with the error of reading a file.
 */
export async function packZip(entries: readonly PackEntry[], options: PackOptions = {}): Promise<Blob> {
  checkEntries(entries)
  const packed: Packed[] = []
  // Not the time of now: the same files are the same zip, which continues an upload that broke.
  const newestMs = entries.reduce((newest, { file }) => Math.max(newest, file?.lastModified ?? 0), 0)
  let next = 0
  let doneBytes = 0
  const onBytes = (bytes: number): void => options.onProgress?.((doneBytes += bytes))
  const work = async (): Promise<void> => {
    while (next < entries.length) {
      options.signal?.throwIfAborted()
      const index = next++
      packed[index] = await packEntry(entries[index] as PackEntry, newestMs, onBytes)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, work))
  options.signal?.throwIfAborted()
  return join(packed)
}

function checkEntries(entries: readonly PackEntry[]): void {
  const bytes = entries.reduce((sum, { file }) => sum + (file?.size ?? 0), 0)
  if (bytes > maxZipBytes || entries.length > maxZipEntries) {
    throw new CannotPack(t('This is more than can be packed here (4 GiB, 65,535 files): use svc push in a terminal.'))
  }
  const paths = new Set<string>()
  for (const { path } of entries) {
    if (paths.has(path)) throw new CannotPack(t('Two of the files would be called “{path}”.', { path }))
    paths.add(path)
  }
}

async function packEntry(
  { path, file }: PackEntry,
  newestMs: number,
  onBytes: (bytes: number) => void
): Promise<Packed> {
  if (file === null) {
    return { record: recordOf(`${path}/`, { mode: modes.directory, mtimeMs: newestMs, bytes: 0 }), data: null }
  }
  const sum = createSum(onBytes)
  const packed = await (file.size <= wholeBytes ? packWhole(path, file, sum) : packStream(path, file, sum))
  // If deflating gained nothing, the file itself is faster to read.
  const isDeflated = packed !== null && packed.size < sum.bytes
  const data = isDeflated ? packed : file
  if (sum.bytes !== file.size) throw new CannotPack(t('“{path}” changed while it was being packed.', { path }))
  const mode = sum.isProgram ? modes.program : modes.file
  const record = recordOf(path, { mode, mtimeMs: file.lastModified, bytes: sum.bytes })
  return { record: { ...record, method: isDeflated ? deflated : stored, crc: sum.crc, packedBytes: data.size }, data }
}

function recordOf(path: string, { mode, ...known }: { mode: number; mtimeMs: number; bytes: number }): ZipRecord {
  const attributes = ((mode << 16) >>> 0) + (mode === modes.directory ? dosDirectory : 0)
  // `join` sets the offset.
  return newRecord({ ...known, name: new TextEncoder().encode(path), attributes, offset: 0 })
}

/** What is computed while a file is read. */
interface Sum {
  readonly crc: number
  readonly bytes: number
  readonly isProgram: boolean
  push(chunk: Uint8Array): void
}

function createSum(onBytes: (bytes: number) => void): Sum {
  let crc = 0
  let bytes = 0
  let isProgram = false
  return {
    get crc() {
      return crc
    },
    get bytes() {
      return bytes
    },
    get isProgram() {
      return isProgram
    },
    push(chunk) {
      if (bytes === 0) isProgram = chunk[0] === 0x23 && chunk[1] === 0x21
      crc = crc32(chunk, crc)
      bytes += chunk.length
      onBytes(chunk.length)
    }
  }
}

/** Returns the deflated file, or null to store it. */
async function packWhole(path: string, file: PackFile, sum: Sum): Promise<Blob | null> {
  const bytes = new Uint8Array(await file.arrayBuffer())
  sum.push(bytes)
  if (!isWorthDeflating(path, file.size)) return null
  return new Response(new Blob([bytes]).stream().pipeThrough(new CompressionStream('deflate-raw'))).blob()
}

async function packStream(path: string, file: PackFile, sum: Sum): Promise<Blob | null> {
  const summed = file.stream().pipeThrough(
    new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
      transform(chunk, controller) {
        sum.push(chunk)
        controller.enqueue(chunk)
      }
    })
  )
  if (isWorthDeflating(path, file.size)) {
    return new Response(summed.pipeThrough(new CompressionStream('deflate-raw'))).blob()
  }
  await summed.pipeTo(new WritableStream())
  return null
}

function isWorthDeflating(path: string, bytes: number): boolean {
  const name = path.slice(path.lastIndexOf('/') + 1)
  const type = name.slice(name.lastIndexOf('.') + 1).toLowerCase()
  return bytes > minDeflateBytes && !(name.includes('.') && compressedTypes.has(type)) && canDeflate()
}

/** Whether the browser can deflate. Browsers support it since 2022 or 2023; older ones store. */
function canDeflate(): boolean {
  try {
    new CompressionStream('deflate-raw')
    return true
  } catch {
    return false
  }
}

function join(packed: readonly Packed[]): Blob {
  const parts: BlobPart[] = []
  const records: ZipRecord[] = []
  let offset = 0
  for (const { record, data } of packed) {
    const placed = { ...record, offset, isFar: offset >= defaultZip64FromBytes }
    const local = localHeader(placed)
    records.push(placed)
    parts.push(local)
    if (data !== null) parts.push(data)
    offset += local.length + record.packedBytes
  }
  return new Blob([...parts, directoryOf(records, offset)], { type: 'application/zip' })
}
