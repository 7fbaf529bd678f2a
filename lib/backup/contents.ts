/*
 * Selects the files of a data directory that belong in a backup: every file except temporary ones (tmp, sockets, locks,
 * files being written, undo journals), the key of browser sessions (a restore ends them), the database and its
 * companions (the backup contains an image), and the leftovers of a restore.
 */
import { lstat, readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { databaseName } from './format.js'

/** A file of the data directory. */
export interface FoundFile {
  /** Relative to the data directory, `/` between segments. */
  path: string
  bytes: number
  mtimeMs: number
}

/** The files to include, and notes on those that are left out. */
export interface Contents {
  files: FoundFile[]
  /** Sentences on files that are left out although they are not temporary. */
  notes: string[]
}

/** The directory of deployments. Its files are selected separately (snapshot.ts). */
export const deploymentsName = 'deployments'
/**
 * Files of this moment. `trees` is made again from the manifests (deploy/trees.ts), and `prepared` is fetched again
 * (fleet/agent/releases.ts). `witness` is what commands saw of the audit logs of servers, which must not become older.
 * `node` is the data directory of the agent of a hub: a node has backups of its own.
 */
const ofTheMoment =
  /^(tmp|trees|prepared|witness|node|deployments|svc\.db.*|svc\.sock.*|session\.key.*|\.cluster-init|\.restore.*|before-restore-.*)$/i
const unfinished = /\.(tmp|lock|pid)$/i
/**
 * Files of deployments/ that are left out: undo journals and their owners belong to this machine and this moment, and an
 * unfinished manifest has the ending .tmp.
 */
const notKept = /\.(undo|helper|tmp)$/i

/**
 * Returns whether a path is that of a file that a backup may contain. A backup of somebody else may contain anything: what
 * a restore or a start would act on (`.restored`, an undo journal, a socket) is refused by the rule that leaves it out.
 */
export function isInBackup(path: string): boolean {
  const [top = '', ...below] = path.split('/')
  if (path === databaseName) return true
  if (top === deploymentsName) return below.length === 1 && isOfDeployments(below[0] as string)
  return !ofTheMoment.test(top) && ![top, ...below].some(name => unfinished.test(name))
}

/** Lists the files other than the database and the deployments. */
export async function listOthers(directory: string): Promise<Contents> {
  const contents: Contents = { files: [], notes: [] }
  await visit(directory, '', contents)
  return contents
}

async function visit(directory: string, below: string, contents: Contents): Promise<void> {
  for (const name of (await readdir(join(directory, below))).sort()) {
    if ((below === '' && ofTheMoment.test(name)) || unfinished.test(name)) continue
    const path = below === '' ? name : `${below}/${name}`
    const place = join(directory, path)
    const found = await lstat(place).catch(() => null)
    if (found?.isDirectory()) await visit(directory, path, contents)
    else if (found?.isFile()) contents.files.push({ path, bytes: found.size, mtimeMs: found.mtimeMs })
    else if (found?.isSymbolicLink()) await followLink(place, path, contents)
  }
}

/**
 * Includes config.json even if it is a link, because it may be kept elsewhere. Other links may lead to anything, of any
 * size.
 */
async function followLink(place: string, path: string, { files, notes }: Contents): Promise<void> {
  const found = await stat(place).catch(() => null)
  if (path === 'config.json' && found?.isFile()) files.push({ path, bytes: found.size, mtimeMs: found.mtimeMs })
  else notes.push(`"${path}" was left out: it is a symbolic link`)
}

/** Returns whether a file of deployments/ belongs in a backup. */
export function isOfDeployments(name: string): boolean {
  return !notKept.test(name) && !name.startsWith('.')
}
