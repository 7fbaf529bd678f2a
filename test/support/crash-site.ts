import { createHash } from 'node:crypto'
import { lstatSync, readFileSync, readdirSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { makeZip, type EntryPlan } from './make-zip.js'
import type { SentEntry } from './sent-changes.js'
import { edit } from './crash-scripts.js'
import type { Random } from './random.js'

/** The contents of a directory: kind, mode, time and contents of each path as one word. */
export type Tree = ReadonlyMap<string, string>

/** An archive and the files that it puts in place. */
export interface Site {
  zip: Buffer
  /** What the zip contains. */
  entries: SentEntry[]
  tree: Tree
  /** The line of index.html after a script has changed it (crash-scripts.ts). */
  edited: string
  sha256: string
}

export interface SitePlan {
  /** The version, which each file contains. */
  number: number
  /** Number of names that all archives of the project contain. */
  files: number
  /** Whether its data does not match its checksums: it must change nothing. */
  isDamaged?: boolean
}

const folders = ['', 'assets/', 'lib/', 'lib/deep/', 'pages/']
const [regular, link] = [0o100000, 0o120000]

/**
 * An archive with the names that every archive of a project has, each replaced, changed in its mode or time alone,
 * turned from a file into a link, or left as it is; and with some new names, in new directories too.
 */
export function makeSite(random: Random, { number, files, isDamaged = false }: SitePlan): Site {
  const entries: EntryPlan[] = [planFile('index.html', number, number)]
  for (let at = 0; at < files; at++) {
    const path = `${folders[at % folders.length]}${at}.txt`
    if (at % 11 === 3 && random.below(2) === 0)
      entries.push({ name: path, mode: link | 0o777, data: `${at}.to-${number}` })
    // The first few are new in every version, the rest only now and then.
    else if (at < 4 || random.below(3) > 0)
      entries.push(planFile(path, number, number, random.oneOf([0o644, 0o644, 0o755])))
    else entries.push(planFile(path, 0, random.below(2) * number))
  }
  for (let at = random.below(8); at > 0; at--) {
    const folder = random.oneOf(['', `new-${random.below(6)}/`, `new-${random.below(6)}/deep-${random.below(3)}/`])
    entries.push(planFile(`${folder}more-${at}.txt`, number, number))
  }
  // Last, so that all before it is staged by then.
  if (isDamaged) entries.push({ ...planFile('zz-damaged.txt', number, number), crc32: 1 })
  const zip = makeZip(entries)
  const [index] = entries as [EntryPlan]
  const [, edited] = treeLineOf({ ...index, data: `${index.data}${edit}\n` })
  return {
    zip,
    entries: entries.map(entry => ({
      ...entry,
      name: String(entry.name),
      data: String(entry.data),
      mode: entry.mode as number,
      mtimeMs: timeOf(entry)
    })),
    tree: new Map(entries.map(treeLineOf)),
    edited,
    sha256: createHash('sha256').update(zip).digest('hex')
  }
}

/** Returns a tree as it was before scripts of a project's deployments changed index.html. */
export function unedited(
  { deployments }: { deployments: ReadonlyMap<number, { site: Site | null }> },
  tree: Tree
): Tree {
  const found = tree.get('index.html')
  const site = [...deployments.values()].map(({ site }) => site).find(site => site?.edited === found)
  return site == null ? tree : overlay(tree, new Map([['index.html', site.tree.get('index.html') as string]]))
}

function planFile(path: string, version: number, time: number, mode = 0o644): EntryPlan {
  const data = `${version} ${path} `.repeat(1 + ((path.length * 7) % 40))
  return { name: path, mode: regular | mode, data, method: path.length % 2 === 0 ? 8 : 0, dosTime: dosTimeOf(time) }
}

/** Returns a time that differs between versions. DOS times have steps of two seconds. */
function dosTimeOf(number: number): number {
  const [seconds2, minutes, hours] = [number % 30, Math.floor(number / 30) % 60, Math.floor(number / 1800) % 24]
  return (hours << 11) | (minutes << 5) | seconds2
}

function treeLineOf(entry: EntryPlan): [path: string, line: string] {
  const { name, mode = 0, data = '' } = entry
  if ((mode & link) === link) return [String(name), `link ${data}`]
  return [String(name), fileLine(mode & 0o777, timeOf(entry), Buffer.from(data))]
}

function timeOf({ dosTime = 0 }: EntryPlan): number {
  // The day of makeZip.
  return new Date(2024, 5, 15, dosTime >> 11, (dosTime >> 5) & 63, (dosTime & 31) * 2).getTime()
}

function fileLine(mode: number, timeMs: number, bytes: Buffer): string {
  return `file ${mode.toString(8)} ${timeMs} ${bytes.length} ${bytes.subarray(0, 24).toString('latin1')} ${createHash('sha1').update(bytes).digest('hex')}`
}

/** Returns the tree after an archive was extracted over it. */
export function overlay(below: Tree, above: Tree): Tree {
  return new Map([...below, ...above])
}

/** Returns the current contents of a directory: files, links and empty directories. */
export function readTree(directory: string): Tree {
  const tree = new Map<string, string>()
  const walk = (folder: string): void => {
    const entries = readdirSync(join(directory, folder), { withFileTypes: true })
    if (entries.length === 0 && folder !== '') tree.set(folder, 'empty directory')
    for (const entry of entries) {
      const path = `${folder}${entry.name}`
      if (entry.isDirectory()) walk(`${path}/`)
      else tree.set(path, lineOf(join(directory, path)))
    }
  }
  walk('')
  return tree
}

function lineOf(path: string): string {
  const stats = lstatSync(path)
  if (stats.isSymbolicLink()) return `link ${readlinkSync(path)}`
  if (!stats.isFile()) return 'something else'
  return fileLine(stats.mode & 0o7777, Math.round(stats.mtimeMs), readFileSync(path))
}

/** Returns the differences of two trees in a limited number of lines; empty if there are none. */
export function differences(found: Tree, expected: Tree, most = 6): string[] {
  const lines: string[] = []
  for (const path of new Set([...expected.keys(), ...found.keys()])) {
    const [is, should] = [found.get(path), expected.get(path)]
    if (is === should) continue
    if (lines.push(`${path}: ${is ?? 'missing'}, not ${should ?? 'missing'}`) >= most) break
  }
  return lines
}
