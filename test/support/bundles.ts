/* Bundles of a small release, made entry by entry, so that each can be wrong in one way. */
import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { treeHead, treeLine } from '../../lib/base/shared/tree-text.js'
import { type EntryPlan, makeZip } from './make-zip.js'

const digest = (bytes: string | Buffer): string => createHash('sha256').update(bytes).digest('hex')

/** The files of the release. */
export const releaseFiles = { 'app.js': 'app()', 'index.html': '<h1>Shop</h1>' }

/** The archive of the release. */
export function releaseArchive(entries: EntryPlan[] = releaseEntries()): Buffer {
  return makeZip(entries)
}

function releaseEntries(): EntryPlan[] {
  return Object.entries(releaseFiles).map(([name, data]) => ({ name, data, mode: 0o100644 }))
}

/** The canonical text of the files of the release. */
export function releaseTree(files: Readonly<Record<string, string>> = releaseFiles): string {
  const lines = Object.entries(files).map(([path, text]) =>
    treeLine({ path, mode: 0o100644, size: Buffer.byteLength(text), sha256: digest(text) })
  )
  return treeHead + lines.join('')
}

interface BundlePlan {
  archive?: Buffer
  tree?: string
  /** Further entries, which `bundle.json` names. */
  more?: Readonly<Record<string, string>>
  /** Changes `bundle.json`. */
  manifest?: (manifest: Record<string, any>) => void
  /** Changes the entries. */
  entries?: (entries: EntryPlan[]) => EntryPlan[]
}

/** Returns the entries of a bundle, `bundle.json` first. */
export function bundleEntries({
  archive = releaseArchive(),
  tree = releaseTree(),
  more = {},
  manifest = () => {},
  entries = all => all
}: BundlePlan = {}): EntryPlan[] {
  const parts: Array<[string, string | Buffer]> = [['archive.zip', archive], ['tree', tree], ...Object.entries(more)]
  const about: Record<string, any> = {
    format: 1,
    minServer: '1.0.0',
    needs: [],
    project: 'shop',
    message: 'New prices',
    provenance: null,
    tree: {
      sha256: digest(tree),
      files: Object.keys(releaseFiles).length,
      bytes: Object.values(releaseFiles).join('').length
    },
    env: [],
    postDeployAsync: null,
    parts: parts.map(([name, data]) => ({ name, bytes: Buffer.byteLength(data), sha256: digest(data) }))
  }
  manifest(about)
  const plans = [['bundle.json', JSON.stringify(about)] as const, ...parts].map(([name, data]) => ({
    name,
    data,
    mode: 0o100644
  }))
  return entries(plans)
}

/** Writes a bundle to a file. Returns its path. */
export function writeTestBundle(path: string, plan: BundlePlan = {}): string {
  writeFileSync(path, makeZip(bundleEntries(plan)))
  return path
}
