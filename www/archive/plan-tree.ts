/*
 * The tree of what will be uploaded (base/shared/tree-text.ts), digested in the browser: the same entries that the archive
 * will have, without its bytes. Each file is read once, and at most a few small ones are in memory at a time.
 */
import { createSha256 } from '../shared/sha256.js'
import {
  bodyHead,
  bodyLine,
  compareTreePaths,
  contentsLine,
  defaultFileMode,
  fileType,
  linkMode,
  packedMode,
  type TreeEntry,
  treeHead,
  treeLine
} from '../shared/tree-text.js'
import { deflated, localBytes, stored } from '../shared/zip-records.js'
import { t } from '../words/t.js'
import type { PlanBody } from '../server/requests.js'
import { readZip, type ZipEntry } from './read-zip.js'
import type { PackEntry } from './zip.js'

/** An archive whose tree cannot be computed here. It may be deployed without a plan. The message is for the user. */
export class CannotPlan extends Error {
  override readonly name = 'CannotPlan'
}

export interface DigestOptions {
  signal: AbortSignal
  /** Called with the number of bytes that were digested. */
  onProgress: (bytes: number) => void
}

/** An entry with its modification time. */
export type TimedEntry = TreeEntry & { mtimeMs: number }

/** One file to digest. */
interface Source {
  path: string
  mode: number | null
  mtimeMs: number
  bytes: number
  contents(): Promise<Blob | ReadableStream<Uint8Array<ArrayBuffer>>>
}

/** Number of files that are digested at a time. */
const atOnce = 6
/** Smaller files are digested whole: crypto.subtle has no streams, and is ten times as fast. */
const wholeBytes = 8 * 1024 * 1024
const programMode = fileType | 0o755
const typeMask = 0o170000
/** Number of hex digits of each SHA-256 in the body (core/archive/tree-wire.ts). */
const digits = 16
const mediaType = 'text/vnd.svc-tree'

/**
 * Returns the body of a request for a plan of a zip, or of the entries that will be packed here. Rejects with
 * CannotPlan, or the reason of the signal.
 */
export async function digestDropped(
  dropped: File | readonly PackEntry[],
  options: DigestOptions
): Promise<PlanBody & { tree: DigestedTree }> {
  const tree = await (dropped instanceof File
    ? treeOfZip(dropped, await readZip(dropped), options)
    : treeOfFiles(dropped, options))
  return planBody(tree)
}

/** A whole tree: its sorted entries, and the SHA-256 of its canonical text. */
export interface DigestedTree {
  entries: readonly TimedEntry[]
  treeSha256: string
}

/** Digests files that will be packed here (zip.ts), with the modes and times that the zip will contain. */
export async function treeOfFiles(entries: readonly PackEntry[], options: DigestOptions): Promise<TimedEntry[]> {
  const sources = entries.flatMap(({ path, file }) => {
    if (file === null) return []
    const mtimeMs = Math.floor(file.lastModified / 1000) * 1000
    return [{ path, mode: null, mtimeMs, bytes: file.size, contents: async () => file }]
  })
  return digestAll(sources, options)
}

/** Digests the entries of a zip, uncompressed. Rejects with CannotPlan. */
export async function treeOfZip(
  file: Blob,
  entries: readonly ZipEntry[],
  options: DigestOptions
): Promise<TimedEntry[]> {
  return digestAll(
    entries.filter(isFile).map(entry => sourceOf(file, entry)),
    options
  )
}

const isFile = ({ isDirectory, unixMode }: ZipEntry): boolean => !isDirectory && (unixMode & typeMask) !== 0o040000

function sourceOf(file: Blob, entry: ZipEntry): Source {
  const { bytes, method, mtimeMs, unixMode } = entry
  if (!entry.isNameSure) throw new CannotPlan(t('The zip does not declare the encoding of its names.'))
  if (method !== stored && method !== deflated) throw damaged(entry.path)
  const isLink = (unixMode & typeMask) === (linkMode & typeMask)
  return {
    path: entry.path
      .split('/')
      .filter(segment => segment !== '.')
      .join('/'),
    mode: packedMode({ kind: isLink ? 'symlink' : 'file', mode: unixMode }),
    mtimeMs: Math.floor((mtimeMs ?? 0) / 1000) * 1000,
    bytes,
    async contents() {
      const head = new DataView(await file.slice(entry.offset, entry.offset + localBytes).arrayBuffer())
      if (head.byteLength < localBytes) throw damaged(entry.path)
      const at = entry.offset + localBytes + head.getUint16(26, true) + head.getUint16(28, true)
      const packed = file.slice(at, at + entry.packedBytes)
      return method === stored ? packed : packed.stream().pipeThrough(new DecompressionStream('deflate-raw'))
    }
  }
}

const damaged = (path: string): CannotPlan => new CannotPlan(t('“{path}” cannot be read from the zip.', { path }))

async function digestAll(sources: readonly Source[], { signal, onProgress }: DigestOptions): Promise<TimedEntry[]> {
  const entries: TimedEntry[] = []
  let next = 0
  let done = 0
  const onBytes = (bytes: number): void => onProgress((done += bytes))
  const work = async (): Promise<void> => {
    while (next < sources.length) {
      signal.throwIfAborted()
      const index = next++
      entries[index] = await digest(sources[index] as Source, { signal, onBytes })
    }
  }
  await Promise.all(Array.from({ length: atOnce }, work))
  return entries
}

async function digest(
  { path, mode, mtimeMs, bytes, contents }: Source,
  { signal, onBytes }: { signal: AbortSignal; onBytes(bytes: number): void }
): Promise<TimedEntry> {
  const found = await contents()
  const isWhole = found instanceof Blob && bytes <= wholeBytes && globalThis.crypto.subtle !== undefined
  const read = isWhole ? await readWhole(found, onBytes) : await readStream(found, { path, bytes, signal, onBytes })
  if (read.bytes !== bytes) throw damaged(path)
  return {
    path,
    mode: mode ?? (read.isProgram ? programMode : defaultFileMode),
    size: bytes,
    sha256: read.sha256,
    mtimeMs
  }
}

interface Read {
  sha256: string
  bytes: number
  /** Whether the file begins with `#!`. */
  isProgram: boolean
}

async function readWhole(file: Blob, onBytes: (bytes: number) => void): Promise<Read> {
  const bytes = new Uint8Array(await file.arrayBuffer())
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))
  onBytes(bytes.length)
  const sha256 = Array.from(digest, byte => byte.toString(16).padStart(2, '0')).join('')
  return { sha256, bytes: bytes.length, isProgram: isProgram(bytes) }
}

/** Returns the SHA-256 of a file in hexadecimal, which is read piece by piece. `onProgress` gets the bytes so far. */
export async function sha256OfFile(
  file: Blob,
  { signal, onProgress }: { signal: AbortSignal; onProgress(doneBytes: number): void }
): Promise<string> {
  let doneBytes = 0
  const onBytes = (bytes: number): void => onProgress((doneBytes += bytes))
  return (await readStream(file, { path: '', bytes: file.size, signal, onBytes })).sha256
}

/** Stops at the first byte beyond the size that the zip declares. */
async function readStream(
  contents: Blob | ReadableStream<Uint8Array<ArrayBuffer>>,
  {
    path,
    bytes: maxBytes,
    signal,
    onBytes
  }: Pick<Source, 'path' | 'bytes'> & {
    signal: AbortSignal
    onBytes(bytes: number): void
  }
): Promise<Read> {
  const reader = (contents instanceof Blob ? contents.stream() : contents).getReader()
  const digest = createSha256()
  const read: Read = { sha256: '', bytes: 0, isProgram: false }
  try {
    for (;;) {
      signal.throwIfAborted()
      const { value, done } = await reader.read().catch(error => {
        // A file that was removed or changed meanwhile is a DOMException.
        throw error instanceof DOMException ? error : damaged(path)
      })
      if (done) return { ...read, sha256: digest.hex() }
      if (read.bytes === 0) read.isProgram = isProgram(value)
      read.bytes += value.length
      if (read.bytes > maxBytes) throw damaged(path)
      digest.push(value)
      onBytes(value.length)
    }
  } finally {
    void reader.cancel().catch(() => {})
  }
}

const isProgram = (bytes: Uint8Array): boolean => bytes[0] === 0x23 && bytes[1] === 0x21

/** Returns the body of a request for a plan, and whether it is compressed. */
export async function planBody(tree: readonly TimedEntry[]): Promise<PlanBody & { tree: DigestedTree }> {
  const entries = [...tree].sort((a, b) => compareTreePaths(a.path, b.path))
  const whole = createText(treeHead)
  const contents = createText('')
  const lines = [bodyHead(digits)]
  for (const entry of entries) {
    whole.add(treeLine(entry))
    contents.add(contentsLine(entry))
    lines.push(bodyLine(entry, digits))
  }
  const digested = { entries, treeSha256: whole.hex() }
  const end = `end ${entries.length} ${digested.treeSha256} ${contents.hex()}\n`
  const text = new Blob([...lines, end], { type: mediaType })
  if (typeof CompressionStream === 'undefined') return { body: text, isGzip: false, tree: digested }
  const packed = await new Response(text.stream().pipeThrough(new CompressionStream('gzip'))).blob()
  return { body: new Blob([packed], { type: mediaType }), isGzip: true, tree: digested }
}

function createText(head: string): { add(line: string): void; hex(): string } {
  const digest = createSha256()
  const encoder = new TextEncoder()
  const add = (line: string): void => digest.push(encoder.encode(line))
  add(head)
  return { add, hex: () => digest.hex() }
}
