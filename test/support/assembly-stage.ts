/* What assembles an archive of a kept one and of what was sent (core/install/assemble.ts). */
import {
  chmodSync,
  createWriteStream,
  mkdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync
} from 'node:fs'
import { dirname, join } from 'node:path'
import { finished } from 'node:stream/promises'
import { gzipSync } from 'node:zlib'
import type { Test } from 'tap'
import { compareWithBase, writeDelta } from '../../lib/base/shared/tree-delta.js'
import type { ZipSource } from '../../lib/core/archive/source.js'
import { readTree } from '../../lib/core/archive/tree-wire.js'
import { treeOf } from '../../lib/core/archive/tree.js'
import { writeZip } from '../../lib/core/archive/write.js'
import { type BaseThread, createBaseThread } from '../../lib/core/install/assemble.js'
import { patchesOf } from './patched.js'
import { sourcesOf, zipDirectory } from './planned.js'

export const limits = { maxEntries: 1000, maxExtractedBytes: 1e9, maxArchiveBytes: 1e9 }
/** Contents by path; a path that ends with "/" is a directory. */
export type Files = Record<string, string | Buffer | { link: string } | { text: string; mode: number }>

/** Writes files in place of what is in a directory. */
export function lay(directory: string, files: Files): void {
  rmSync(directory, { recursive: true, force: true })
  mkdirSync(directory, { recursive: true })
  for (const [path, file] of Object.entries(files)) {
    const place = join(directory, path)
    mkdirSync(path.endsWith('/') ? place : dirname(place), { recursive: true })
    if (path.endsWith('/')) continue
    if (typeof file === 'object' && 'link' in file) symlinkSync(file.link, place)
    else {
      const isPlain = typeof file === 'string' || Buffer.isBuffer(file)
      writeFileSync(place, isPlain ? file : file.text)
      if (!isPlain) chmodSync(place, file.mode)
      utimesSync(place, 1_700_000_000, 1_700_000_000)
    }
  }
}

/** Writes a zip of some sources. */
export async function zipOfSources(sources: ZipSource[], path: string): Promise<void> {
  const out = createWriteStream(path)
  await writeZip(sources, out)
  await finished(out.end())
}

/** A kept archive of the first files, and a push of the second ones. */
export async function stageAssembly(t: Test, threadBytes = Infinity) {
  const top = t.testdir({})
  const place = (name: string): string => join(top, name)
  const thread: BaseThread = createBaseThread({ threadBytes })
  t.teardown(() => thread.close())
  const base = { archive: place('base.zip'), manifest: place('base.manifest') }

  async function keep(files: Files): Promise<void> {
    lay(place('base'), files)
    await zipDirectory(place('base'), base.archive)
  }
  /** Sends what has changed. `change` spoils what is sent. */
  async function push(files: Files, change: (sent: Sent) => void = () => {}, { isPatched = false } = {}) {
    lay(place('site'), files)
    const sources = await sourcesOf(place('site'))
    const tree = await treeOf(sources)
    const entries = new Map(
      Array.from(readTree(await thread.readTree(base)).entries(), entry => [entry.path, entry] as const)
    )
    const delta = compareWithBase(entries, tree)
    const read = (path: string): Buffer => readFileSync(join(place('site'), path))
    const sums = (lines: number[]): Promise<Uint8Array> => thread.readSums(base, lines)
    const made = isPatched ? await patchesOf({ entries, delta, read, sums }) : null
    const what: Sent = {
      delta: writeDelta(delta, tree.treeSha256),
      paths: new Set(delta.missing.flatMap(({ path }) => (made?.paths.has(path) ? [] : [path]))),
      patches: made?.patches ?? null,
      name: made === null ? undefined : '.patches',
      maxArchiveBytes: limits.maxArchiveBytes
    }
    change(what)
    const sent = { delta: place('delta'), contents: place('contents.zip') }
    writeFileSync(sent.delta, gzipSync(what.delta))
    const whole = sources.filter(({ kind, path }) => kind === 'directory' || what.paths.has(path))
    const { patches, name, maxArchiveBytes } = what
    const last = { path: '.patches', kind: 'file', mode: 0o644, mtimeMs: 0 } as const
    await zipOfSources(
      patches === null ? whole : [...whole, { ...last, source: patches, bytes: patches.length }],
      sent.contents
    )
    const to = place('whole.zip')
    rmSync(to, { force: true })
    const { treeSha256 } = tree
    const task = { base, sent, patches: name, treeSha256, to, limits: { ...limits, maxArchiveBytes } }
    return { ...(await thread.assemble(task)), to, treeSha256, sent: what.paths.size }
  }
  return { top, place, base, thread, keep, push }
}

/** What is sent. */
interface Sent {
  delta: string
  /** The files that are sent whole. */
  paths: Set<string>
  /** The differences within others. */
  patches: Buffer | null
  /** The name of their entry, as the form says it. */
  name: string | undefined
  maxArchiveBytes: number
}
