/*
 * What of a data directory belongs into a backup: every file but those that are of a moment (tmp, sockets, locks, files
 * being written, undo journals), the key of browser sessions, which end with a restore, the database and its companions, which come as an image, and what a restore has left.
 */
import { lstat, readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'

export interface FoundFile {
  /** Relative to the data directory, `/` between segments. */
  path: string
  bytes: number
  mtimeMs: number
}

export interface Contents {
  files: FoundFile[]
  /** Sentences on what is left out and is not of a moment. */
  notes: string[]
}

/** Where deployments lie; they are looked at by themselves (snapshot.ts). */
export const deploymentsName = 'deployments'
const ofTheMoment = /^(tmp|deployments|svc\.db.*|svc\.sock.*|session\.key.*|\.restore.*|before-restore-.*)$/
const unfinished = /\.(tmp|lock|pid)$/
/** In deployments/: undo journals are of this machine and this moment, and a manifest is renamed when it is whole. */
const notKept = /\.(undo|tmp)$/

/** The files beside the database and the deployments. */
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

/** config.json may be kept elsewhere. Where other links lead may be anything, and as large. */
async function followLink(place: string, path: string, { files, notes }: Contents): Promise<void> {
  const found = await stat(place).catch(() => null)
  if (path === 'config.json' && found?.isFile()) files.push({ path, bytes: found.size, mtimeMs: found.mtimeMs })
  else notes.push(`"${path}" is a symbolic link, and was left out`)
}

/** Whether a name in deployments/ belongs into a backup. */
export function isOfDeployments(name: string): boolean {
  return !notKept.test(name) && !name.startsWith('.')
}
