/*
 * Packing files into a zip in the browser. Each file is read once: its sum is taken on the way, and it is deflated on the
 * way where that is worth it. What is stored stays the file itself, so a film is not copied into memory; what is deflated
 * becomes a blob, which a browser keeps on the disk when it is large. Several files are packed at a time, because a small
 * one is mostly waiting.
 */
import { t } from '../words/t.js'
import { crc32 } from './crc32.js'
import { centralHeader, endRecord, localHeader } from './zip-records.js'
import type { EntryRecord } from './zip-records.js'

/** A file as a browser hands it over. */
export type PackFile = Blob & { readonly lastModified: number }

export interface PackEntry {
  /** Relative, `/` between segments, none at the end. */
  path: string
  /** Null: a directory. */
  file: PackFile | null
}

export interface PackOptions {
  signal?: AbortSignal
  /** Called with what has been read of the files. */
  onProgress?: (bytes: number) => void
}

/** 4 GiB less one: beyond that only ZIP64 can count. */
export const maxZipBytes = 0xffffffff
/** The same of entries. */
export const maxZipEntries = 0xffff
/** Files on their way at a time. */
const atOnce = 6
/** A smaller file is read whole: streams cost more than they save. */
const wholeBytes = 256 * 1024
/** Shorter ones do not get smaller. */
const minDeflateBytes = 16
const modes = { file: 0o100644, program: 0o100755, directory: 0o040755 }

/** Types whose bytes are compressed already. */
export const compressedTypes: ReadonlySet<string> = new Set(
  ('7z aac apk avi avif br bz2 docx epub flac gif gz heic heif jar jpeg jpg jxl lz4 lzma m4a m4v mkv mov mp3 mp4 ' +
    'mpeg mpg odt ogg ogv opus png pptx rar tbz2 tgz txz war webm webp wma wmv woff woff2 xlsx xz zip zst').split(' ')
)

/** Files that cannot become one zip; its message is for the reader. */
export class CannotPack extends Error {
  override readonly name = 'CannotPack'
}

interface Packed {
  record: EntryRecord
  data: Blob | null
}

/**
 * A zip of the entries, in their order. A file that begins with `#!` is marked as a program, since a browser does not tell
 * who may run what. Rejects: CannotPack for what is too large or named twice, the signal's reason, and what reading a
 * file rejects with.
 */
export async function packZip(entries: readonly PackEntry[], options: PackOptions = {}): Promise<Blob> {
  checkEntries(entries)
  const packed: Packed[] = []
  let next = 0
  let doneBytes = 0
  const onBytes = (bytes: number): void => options.onProgress?.((doneBytes += bytes))
  const work = async (): Promise<void> => {
    while (next < entries.length) {
      options.signal?.throwIfAborted()
      const index = next++
      packed[index] = await packEntry(entries[index] as PackEntry, onBytes)
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

async function packEntry({ path, file }: PackEntry, onBytes: (bytes: number) => void): Promise<Packed> {
  if (file === null) {
    return { record: recordOf(`${path}/`, { mode: modes.directory, mtimeMs: Date.now() }), data: null }
  }
  const sum = createSum(onBytes)
  const packed = await (file.size <= wholeBytes ? packWhole(path, file, sum) : packStream(path, file, sum))
  // Where nothing was gained the file itself is as good, and quicker to read.
  const isDeflated = packed !== null && packed.size < sum.bytes
  const data = isDeflated ? packed : file
  if (sum.bytes !== file.size) throw new CannotPack(t('“{path}” changed while it was being packed.', { path }))
  const record = recordOf(path, { mode: sum.isProgram ? modes.program : modes.file, mtimeMs: file.lastModified })
  return { record: { ...record, isDeflated, crc: sum.crc, bytes: sum.bytes, packedBytes: data.size }, data }
}

function recordOf(path: string, { mode, mtimeMs }: { mode: number; mtimeMs: number }): EntryRecord {
  const name = new TextEncoder().encode(path)
  return { name, mode, mtimeMs, isDeflated: false, crc: 0, packedBytes: 0, bytes: 0 }
}

/** What is learned of a file while its bytes go by. */
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

/** The deflated file; null: it is to be stored. */
async function packWhole(path: string, file: PackFile, sum: Sum): Promise<Blob | null> {
  const bytes = new Uint8Array(await file.arrayBuffer())
  sum.push(bytes)
  if (!isWorthDeflating(path, file.size)) return null
  return new Response(new Blob([bytes]).stream().pipeThrough(new CompressionStream('deflate-raw'))).blob()
}

async function packStream(path: string, file: PackFile, sum: Sum): Promise<Blob | null> {
  const summed = file.stream().pipeThrough(new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    transform(chunk, controller) {
      sum.push(chunk)
      controller.enqueue(chunk)
    }
  }))
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

/** Browsers learned it in 2022 and 2023; the others store. */
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
  const central: BlobPart[] = []
  let offset = 0
  let centralBytes = 0
  for (const { record, data } of packed) {
    const header = centralHeader(record, offset)
    central.push(header)
    centralBytes += header.length
    const local = localHeader(record)
    parts.push(local)
    if (data !== null) parts.push(data)
    offset += local.length + record.packedBytes
  }
  const end = endRecord({ entries: packed.length, centralBytes, centralOffset: offset })
  return new Blob([...parts, ...central, end], { type: 'application/zip' })
}
