/* Differences within files, made as a client makes them (core/archive/patch.ts), and other ones. */
import {
  createPatchReader,
  createPatchWriter,
  createSummer,
  sumsBytesOf,
  writePatch
} from '../../lib/core/archive/patch.js'
import type { BaseEntries, BaseEntry, TreeDelta } from '../../lib/base/shared/tree-delta.js'
import type { Random } from './random.js'

const regular = 0o100000
const typeBits = 0o170000

interface Patching {
  entries: BaseEntries
  delta: TreeDelta
  /** Returns the new contents of a file. */
  read(path: string): Buffer
  /** Returns sums of files of the base. */
  sums(lines: number[]): Promise<Uint8Array>
}

/** Returns the differences within all files of which the base has other contents, whether they pay or not. */
export async function patchesOf({ entries: base, delta, read, sums }: Patching) {
  const entries = new Map(Array.from(base.values(), entry => [entry.path, entry]))
  const lines = [...entries.keys()]
  const isFile = (entry: { mode: number; size: number } | undefined): boolean =>
    entry !== undefined && (entry.mode & typeBits) === regular && entry.size > 0
  const files = delta.missing.filter(entry => isFile(entry) && isFile(entries.get(entry.path)))
  const patches = createPatchWriter()
  if (files.length === 0) return { patches: patches.end(), paths: new Set<string>() }
  const found = Buffer.from(await sums(files.map(({ path }) => lines.indexOf(path))))
  let at = 0
  for (const { path } of files) {
    const { size: bytes } = entries.get(path) as BaseEntry
    const own = { bytes, sums: found.subarray(at, (at += sumsBytesOf(bytes))) }
    const number = delta.changed.findIndex(each => each.path === path)
    writePatch(own, contentsOf(read(path)), { number, maxBytes: Infinity, patches })
  }
  if (at !== found.length) throw new Error(`There are ${found.length} bytes of sums, not ${at}`)
  return { patches: patches.end(), paths: new Set(files.map(({ path }) => path)) }
}

function contentsOf(contents: Uint8Array) {
  const read = (into: Uint8Array, from: number): number => {
    into.set(contents.subarray(from, from + into.length))
    return Math.min(into.length, contents.length - from)
  }
  return { bytes: contents.length, read }
}

/** Returns the sums of contents, which are read in pieces of this size. */
export function sumsOf(contents: Uint8Array, pieceBytes = contents.length): Buffer {
  const summer = createSummer(contents.length)
  for (let at = 0; at < contents.length; at += pieceBytes) summer.add(contents.subarray(at, at + pieceBytes))
  return summer.end()
}

/** Returns the patch of one file; null: it would have more than `maxBytes`. */
export function patchOf(before: Uint8Array, after: Uint8Array, maxBytes = Infinity, sums = sumsOf(before)) {
  const patches = createPatchWriter()
  const isWritten = writePatch({ bytes: before.length, sums }, contentsOf(after), { number: 0, maxBytes, patches })
  return isWritten ? patches.end() : null
}

/** Returns the contents that the patch of one file makes. */
export function patched(before: Uint8Array, patch: Uint8Array, bytes: number): Buffer {
  const reader = createPatchReader(patch)
  reader.next()
  const pieces: Uint8Array[] = []
  for (const part of reader.parts({ bytes, earlierBytes: before.length }))
    pieces.push('added' in part ? part.added : before.subarray(part.offset, part.offset + part.bytes))
  if (reader.next() !== null) throw new Error('The patch continues')
  return Buffer.concat(pieces)
}

/** Returns numbers as they are in patches. */
export function leb(...numbers: number[]): Buffer {
  return Buffer.concat(
    numbers.map(number => {
      const bytes: number[] = []
      let rest = number
      for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128)
      return Buffer.from([...bytes, rest])
    })
  )
}

/** Returns contents that differ from earlier ones as files do that somebody edits. */
export function edited(random: Random, before: Uint8Array): Buffer {
  const at = random.below(before.length + 1)
  const end = at + random.below(before.length - at + 1)
  const [head, middle, tail] = [before.subarray(0, at), before.subarray(at, end), before.subarray(end)]
  const some = Buffer.from(Array.from({ length: random.below(50) }, () => random.below(256)))
  return Buffer.concat(
    random.oneOf([
      [before, some],
      [some, before],
      [head, some, middle, tail],
      [head, tail],
      [head],
      [tail, middle, head],
      [middle, middle, tail],
      [head, Buffer.from(middle).reverse(), tail],
      [head, Buffer.alloc(random.below(3000)), tail],
      [some]
    ])
  )
}
