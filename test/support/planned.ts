import { createHash } from 'node:crypto'
import {
  createWriteStream,
  lstatSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  realpathSync,
  rmSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { finished } from 'node:stream/promises'
import type { ZipSource } from '../../lib/core/archive/source.js'
import { treeOf } from '../../lib/core/archive/tree.js'
import { writeTree } from '../../lib/core/archive/tree-wire.js'
import { walkTree } from '../../lib/core/archive/walk.js'
import { writeZip } from '../../lib/core/archive/write.js'
import { compareTarget, type Compared, type CompareJob, type CompareTools } from '../../lib/core/install/compare.js'
import { disk } from '../../lib/core/install/disk.js'

/** The sources that `push` would pack from a directory. */
export async function sourcesOf(directory: string): Promise<ZipSource[]> {
  const sources: ZipSource[] = []
  const options = { root: realpathSync(directory), ignore: null, globs: null, except: () => false, warn: () => {} }
  await walkTree('', options, source => void sources.push(source))
  return sources
}

/** The tree of a directory, as `svc plan` sends it. */
export async function treeBody(directory: string): Promise<Buffer> {
  const { entries, treeSha256 } = await treeOf(await sourcesOf(directory))
  return Buffer.from([...writeTree(entries, treeSha256)].join(''))
}

/** Writes the zip that `push` would send. */
export async function zipDirectory(directory: string, path: string): Promise<void> {
  const out = createWriteStream(path)
  await writeZip(await sourcesOf(directory), out)
  await finished(out.end())
}

/** The zip that `push` would send. */
export async function zipBytes(directory: string): Promise<Buffer> {
  const place = mkdtempSync(join(tmpdir(), 'svc-zip-'))
  try {
    await zipDirectory(directory, join(place, 'a.zip'))
    return readFileSync(join(place, 'a.zip'))
  } finally {
    rmSync(place, { recursive: true, force: true })
  }
}

/** Compares the tree of a directory with a target. */
export async function planOf(
  site: string,
  target: string,
  { job, tools }: { job?: Partial<CompareJob>; tools?: Partial<CompareTools> } = {}
): Promise<Compared> {
  const tree = await treeBody(site)
  const rules = { home: '/nowhere' }
  const given = {
    target,
    rules,
    tree,
    owned: null,
    umask: null,
    listed: 10_000,
    limitMs: 60_000,
    nowMs: Date.now(),
    ...job
  }
  return compareTarget(given, { disk, ...tools })
}

/** What is at each path of a target: type, permissions, contents, time. Directories are left out. */
export function entriesOf(directory: string): Map<string, { is: string; mtimeMs: number }> {
  const found = new Map<string, { is: string; mtimeMs: number }>()
  const visit = (path: string): void => {
    for (const name of readdirSync(join(directory, path)).sort()) {
      const way = path === '' ? name : `${path}/${name}`
      const place = join(directory, way)
      const stats = lstatSync(place)
      if (stats.isDirectory()) visit(way)
      else if (stats.isSymbolicLink()) found.set(way, { is: `-> ${readlinkSync(place)}`, mtimeMs: 0 })
      else {
        const digest = createHash('sha256').update(readFileSync(place)).digest('hex')
        found.set(way, { is: `${(stats.mode & 0o7777).toString(8)} ${digest}`, mtimeMs: Math.floor(stats.mtimeMs) })
      }
    }
  }
  visit('')
  return found
}

/** The paths that differ between two states of a target. */
export function differences(before: ReturnType<typeof entriesOf>, after: ReturnType<typeof entriesOf>) {
  const added: string[] = []
  const changed: string[] = []
  const timeOnly: string[] = []
  const removed = [...before.keys()].filter(path => !after.has(path))
  for (const [path, now] of after) {
    const was = before.get(path)
    if (was === undefined) added.push(path)
    else if (was.is !== now.is) changed.push(path)
    else if (was.mtimeMs !== now.mtimeMs) timeOnly.push(path)
  }
  return { added, changed, timeOnly, removed }
}
